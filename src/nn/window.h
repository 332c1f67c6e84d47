/* window.h: where the tokens of an attention window are: one definition for all backends. Grids are (batch, depth, H, W). */
#ifndef SNLS_NN_WINDOW_H
#define SNLS_NN_WINDOW_H

#include "nn/nn.h"

typedef struct NnWindows {
    int64_t size[3], shift[3], side[3], padded[3], count[3]; /* window, shift, grid, grid padded to windows, windows, along depth, H, W */
    int64_t batch, heads, features, tokens;                  /* features: of a head; tokens: of a window */
    int64_t window[3];                                       /* as configured */
} NnWindows;

static inline NnWindows snls_nn_windows(const NnStep *s)
{
    const NnAttend *a = &s->u.attend;
    const int64_t *d = s->y[0].shape;
    NnWindows w = { .batch = d[0] / a->frames, .heads = a->heads, .features = d[3] / a->heads, .tokens = 1 };
    w.side[0] = a->frames, w.side[1] = d[1], w.side[2] = d[2];
    for (int i = 0; i < 3; i++) {
        const bool whole = w.side[i] <= a->window[i]; /* a window that would not fit shrinks, and is not shifted */
        w.window[i] = a->window[i];
        w.size[i] = whole ? w.side[i] : a->window[i];
        w.shift[i] = whole ? 0 : a->shift[i];
        w.count[i] = (w.side[i] + w.size[i] - 1) / w.size[i];
        w.padded[i] = w.count[i] * w.size[i];
        w.tokens *= w.size[i];
    }
    return w;
}

static inline SNLS_HD int64_t snls_nn_window_count(const NnWindows *w) { return w->batch * w->count[0] * w->count[1] * w->count[2]; }

/* Pixel number (of batch*frames*H*W) of token t of window v, -1 for padding. *region: tokens of different regions do not see
 * each other: the cyclic shift brought them together from opposite ends of an axis. */
static inline SNLS_HD int64_t snls_nn_window_pixel(const NnWindows *w, int64_t v, int64_t t, int32_t *region)
{
    int64_t at[3], token[3] = { t / w->size[2] / w->size[1], t / w->size[2] % w->size[1], t % w->size[2] };
    int64_t window[3] = { v / w->count[2] / w->count[1] % w->count[0], v / w->count[2] % w->count[1], v % w->count[2] };
    const int64_t batch = v / w->count[2] / w->count[1] / w->count[0];
    bool inside = true;
    *region = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t place = window[i] * w->size[i] + token[i]; /* in the shifted grid */
        const int32_t part = !w->shift[i] || place >= w->padded[i] - w->shift[i] ? 2 : place >= w->padded[i] - w->size[i];
        *region = *region * 3 + part;
        at[i] = (place + w->shift[i]) % w->padded[i];
        inside = inside && at[i] < w->side[i];
    }
    return inside ? ((batch * w->side[0] + at[0]) * w->side[1] + at[1]) * w->side[2] + at[2] : -1;
}

/* Row of the bias table for query token i and key token j. Token numbers count the configured window, also where it shrank, as
 * the published code does; that is right as long as only the depth shrinks. */
static inline SNLS_HD int64_t snls_nn_window_bias(const NnWindows *w, int64_t i, int64_t j)
{
    const int64_t *s = w->window;
    const int64_t dd = i / s[2] / s[1] - j / s[2] / s[1], dh = i / s[2] % s[1] - j / s[2] % s[1], dw = i % s[2] - j % s[2];
    return ((dd + s[0] - 1) * (2 * s[1] - 1) + dh + s[1] - 1) * (2 * s[2] - 1) + dw + s[2] - 1;
}

#define NN_MASKED (-100.0) /* added to the score of tokens that do not see each other */

#endif
