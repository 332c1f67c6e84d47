/* match_score.c: scores of the candidates of one row of a window. */
#include "cpu/match.h"
#include <string.h>

void snls_cpu_load_patch(const CpuMatch *c, const SnlsQuery *q, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const int64_t channel = q->head * m->features;
    for (int64_t r = 0; r < m->ps; r++)
        for (int64_t s = 0; s < m->ps; s++) {
            const int64_t y = q->i * m->stride0 + m->dilation * (r - m->ps / 2), x = q->j * m->stride0 + m->dilation * (s - m->ps / 2);
            const bool outside = y < 0 || y >= m->height || x < 0 || x >= m->width;
            const float *from = NULL;
            if (!outside || !m->drop)
                from = snls_cpu_pixel(&c->query, q->b, q->t, snls_reflect(y, m->height), snls_reflect(x, m->width)) + channel;
            float *to = scratch->patch + (r * m->ps + s) * m->features;
            if (from && m->ps > 1) from = memcpy(to, from, (size_t)m->features * sizeof *to); /* close together for the many reads to come */
            scratch->pixel[r * m->ps + s] = from;
        }
}

/* One pixel of the query's patch against the key pixels x, x+step, ... of row y: out[i] += score */
static void add_run(const CpuMatch *c, const float *pixel, const float *key_row, int64_t x, int64_t step, int64_t n, float *out)
{
    const SnlsMatch *m = &c->m;
    const int64_t apart = c->key.step[3];
    void (*run)(float *, const float *, const float *, ptrdiff_t, ptrdiff_t, ptrdiff_t) = m->prod ? c->dsp->dot_row : c->dsp->l2_row;
    int64_t low = x < 0 ? (-x + step - 1) / step : 0; /* cells before this one fall left of the frame */
    int64_t high = x > m->width - 1 ? 0 : (m->width - 1 - x) / step + 1;
    if (high > n) high = n;
    if (low > high) low = high;
    if (high > low) run(out + low, pixel, key_row + (x + low * step) * apart, step * apart, high - low, m->features);
    for (int64_t i = 0; i < n && !m->drop; i++) {
        if (i == low) i = high;
        if (i >= n) break;
        run(out + i, pixel, key_row + snls_reflect(x + i * step, m->width) * apart, 0, 1, m->features);
    }
}

void snls_cpu_score_whole(const CpuMatch *c, const SnlsQuery *q, int64_t frame, int64_t y, int64_t x, int64_t step, int64_t n, const CpuMatchScratch *scratch,
                          float *out)
{
    const SnlsMatch *m = &c->m;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t r = 0; r < m->ps; r++) {
        const int64_t ky = y + m->dilation * (r - m->ps / 2);
        if (m->drop && (ky < 0 || ky >= m->height)) continue;
        const float *key_row = snls_cpu_pixel(&c->key, q->b, frame, snls_reflect(ky, m->height), 0) + q->head * m->features;
        for (int64_t s = 0; s < m->ps; s++) {
            const float *pixel = scratch->pixel[r * m->ps + s];
            if (pixel) add_run(c, pixel, key_row, x + m->dilation * (s - m->ps / 2), step, n, out);
        }
    }
}

float snls_cpu_score_at(const CpuMatch *c, const SnlsQuery *q, int64_t frame, double y, double x, const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    float sum = 0;
    for (int64_t r = 0; r < m->ps; r++)
        for (int64_t s = 0; s < m->ps; s++) {
            const float *pixel = scratch->pixel[r * m->ps + s];
            const double u = y + (double)(m->dilation * (r - m->ps / 2)), v = x + (double)(m->dilation * (s - m->ps / 2));
            CpuTaps taps;
            if (!pixel || !snls_cpu_taps(&taps, &c->key, q->b, frame, q->head * m->features, u, v, m->height, m->width, m->drop)) continue;
            sum += (m->prod ? c->dsp->dot_blend : c->dsp->l2_blend)(pixel, taps.at, taps.weight, taps.count, m->features);
        }
    return sum;
}

void snls_cpu_score_row(const CpuMatch *c, const SnlsQuery *q, const SnlsMatchWindow *w, int64_t row, int64_t first, int64_t end,
                        const CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const double y = snls_match_y(m, w, row), x = snls_match_x(m, w, first);
    const bool whole = y == floor(y) && x == floor(x) && m->stride1 == floor(m->stride1);
    if (whole) {
        snls_cpu_score_whole(c, q, w->frame, (int64_t)y, (int64_t)x, (int64_t)m->stride1, end - first, scratch, scratch->score + first);
        return;
    }
    for (int64_t column = first; column < end; column++)
        scratch->score[column] = snls_cpu_score_at(c, q, w->frame, y, snls_match_x(m, w, column), scratch);
}

void snls_cpu_bends(const CpuMatch *c, int64_t b, int64_t head, int64_t frame, int64_t y, int64_t x, float out[3])
{
    const SnlsMatch *m = &c->m;
    const int64_t up = snls_cpu_reflect(y, m->height), down = snls_cpu_reflect(y + 1, m->height), left = snls_cpu_reflect(x, m->width), right = snls_cpu_reflect(x + 1, m->width);
    const float *upper = snls_cpu_pixel(&c->key, b, frame, up, 0) + head * m->features, *lower = snls_cpu_pixel(&c->key, b, frame, down, 0) + head * m->features;
    const int64_t step = c->key.step[3];
    c->dsp->bends(out, upper + left * step, upper + right * step, lower + left * step, lower + right * step, m->features);
}
