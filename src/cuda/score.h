/* score.h: the distance of one candidate from its interpolated pixels, as docs/operators.md defines it, by `parts` lanes. */
#ifndef SNLS_CUDA_SCORE_H
#define SNLS_CUDA_SCORE_H

#include "cuda/pair.h"

/* This lane's share of the distance of the candidate at (y, x). */
static __device__ inline float snls_cuda_score(const CudaMatch *c, const SnlsQuery *q, int64_t frame, double y, double x, int part)
{
    const SnlsMatch *m = &c->m;
    float sum = 0;
    for (int64_t r = 0; r < m->ps; r++) {
        CudaAxis vertical;
        if (!snls_cuda_axis(m, q->i, y, r, m->height, &vertical)) continue;
        for (int64_t s = 0; s < m->ps; s++) {
            CudaAxis horizontal;
            if (!snls_cuda_axis(m, q->j, x, s, m->width, &horizontal)) continue;
            const CudaPair pair = snls_cuda_pair(c, q, frame, &vertical, &horizontal);
            for (int64_t quad = part; quad < c->query.quads; quad += c->parts) {
                const float4 a = pair.query[quad], b = snls_cuda_blend(&pair, quad);
                sum = m->prod ? snls_cuda_dot(a, b, sum) : snls_cuda_square(a, b, sum);
            }
        }
    }
    return sum;
}

/* Key of one candidate, complete in every lane that works on it; SNLS_NO_KEY: it does not count. */
static __device__ inline uint64_t snls_cuda_candidate(const CudaMatch *c, const SnlsQuery *q, const SnlsMatchWindow *w, int64_t window, int64_t row, int64_t column,
                                         bool there, int part)
{
    const SnlsMatch *m = &c->m;
    const double y = snls_match_y(m, w, row), x = snls_match_x(m, w, column);
    there = there && w->valid && snls_inside(y, m->height) && snls_inside(x, m->width);
    float sum = there ? snls_cuda_score(c, q, w->frame, y, x, part) : 0;
    for (int step = c->parts / 2; step > 0; step /= 2) sum += __shfl_xor_sync(SNLS_WARP, sum, step);
    if (!there || isnan(sum)) return SNLS_NO_KEY;
    return snls_key(sum, m->prod, (uint32_t)((window * m->side + row) * m->side + column));
}

#endif
