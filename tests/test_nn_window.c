/* test_nn_window.c: where the tokens of attention windows are, against the definition done step by step on a whole grid: pad, roll,
 * label by slices, cut into windows.
 *   test_nn_window [SEED] */
#include "check.h"
#include "nn/window.h"
#include <stdlib.h>
#include <string.h>

typedef struct Grid { int64_t pixel, label; } Grid; /* pixel -1: padding */

/* 0: before the last window, 1: from there to the shift, 2: the last shift places; an axis without shift is one slice */
static int64_t slice(int64_t at, int64_t length, int64_t window, int64_t shift)
{
    if (!shift || at >= length - shift) return 2;
    return at < length - window ? 0 : 1;
}

static void check_windows(uint64_t seed)
{
    Rng rng = { seed };
    NnStep s = { .op = NN_attend };
    NnAttend *a = &s.u.attend;
    int64_t side[3], window[3], shift[3], padded[3];
    const int64_t batch = rng_int(&rng, 1, 2);
    a->heads = 1;
    for (int i = 0; i < 3; i++) {
        a->window[i] = rng_int(&rng, 1, 4);
        a->shift[i] = rng_one_in(&rng, 2) ? a->window[i] / 2 : 0;
        side[i] = rng_int(&rng, 1, 9);
        window[i] = side[i] <= a->window[i] ? side[i] : a->window[i];
        shift[i] = side[i] <= a->window[i] ? 0 : a->shift[i];
        padded[i] = (side[i] + window[i] - 1) / window[i] * window[i];
    }
    a->frames = side[0];
    s.y[0] = snls_tensor(NULL, SNLS_F32, 4, (const int64_t[]){ batch * side[0], side[1], side[2], 1 });
    const NnWindows w = snls_nn_windows(&s);
    const int64_t tokens = window[0] * window[1] * window[2], windows = batch * padded[0] * padded[1] * padded[2] / tokens;
    if (!CHECK(w.tokens == tokens && snls_nn_window_count(&w) == windows, "%lld windows of %lld", (long long)snls_nn_window_count(&w), (long long)w.tokens)) return;
    Grid *want = calloc((size_t)(windows * tokens), sizeof *want);
    for (int64_t i = 0; i < batch * padded[0] * padded[1] * padded[2]; i++) { /* places of the rolled grid */
        const int64_t x = i % padded[2], y = i / padded[2] % padded[1], d = i / padded[2] / padded[1] % padded[0], b = i / padded[2] / padded[1] / padded[0];
        const int64_t from[3] = { (d + shift[0]) % padded[0], (y + shift[1]) % padded[1], (x + shift[2]) % padded[2] };
        const bool inside = from[0] < side[0] && from[1] < side[1] && from[2] < side[2];
        const int64_t number = ((b * (padded[0] / window[0]) + d / window[0]) * (padded[1] / window[1]) + y / window[1]) * (padded[2] / window[2]) + x / window[2];
        const int64_t token = (d % window[0] * window[1] + y % window[1]) * window[2] + x % window[2];
        want[number * tokens + token] = (Grid){ inside ? ((b * side[0] + from[0]) * side[1] + from[1]) * side[2] + from[2] : -1,
                                                slice(d, padded[0], window[0], shift[0]) * 9 + slice(y, padded[1], window[1], shift[1]) * 3 + slice(x, padded[2], window[2], shift[2]) };
    }
    for (int64_t i = 0; i < windows * tokens; i++) {
        int32_t region;
        const int64_t pixel = snls_nn_window_pixel(&w, i / tokens, i % tokens, &region);
        if (!CHECK(pixel == want[i].pixel && region == want[i].label, "token %lld of window %lld: pixel %lld in region %d, expected %lld in %lld", (long long)(i % tokens),
                   (long long)(i / tokens), (long long)pixel, (int)region, (long long)want[i].pixel, (long long)want[i].label)) break;
    }
    free(want);
}

/* The row of the table depends on the difference of places alone, and differs where that does. */
static void check_table(uint64_t seed)
{
    Rng rng = { seed };
    const NnWindows w = { .window = { rng_int(&rng, 1, 3), rng_int(&rng, 1, 4), rng_int(&rng, 1, 4) } };
    const int64_t *s = w.window, n = s[0] * s[1] * s[2];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t dd = i / (s[1] * s[2]) - j / (s[1] * s[2]), dh = i / s[2] % s[1] - j / s[2] % s[1], dw = i % s[2] - j % s[2];
            const int64_t want = (dd + s[0] - 1) * (2 * s[1] - 1) * (2 * s[2] - 1) + (dh + s[1] - 1) * (2 * s[2] - 1) + (dw + s[2] - 1);
            CHECK(snls_nn_window_bias(&w, i, j) == want, "row %lld, expected %lld", (long long)snls_nn_window_bias(&w, i, j), (long long)want);
        }
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + (argc > 1 ? 1 : 300); seed++) {
        check_repeat("test_nn_window %llu", (unsigned long long)seed);
        check_windows(seed);
        check_table(seed);
    }
    return check_end();
}
