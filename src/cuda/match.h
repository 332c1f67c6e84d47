/* match.h: search, search_all and refine of the cuda backend.
 *   match.cu       any call: a warp for each query, candidates scored from their pixels, as the definition says
 *   box.cu         the one best of each frame by patches of few channels, windows about the query itself
 *   tile.cu        where it applies: tiles of queries whose windows overlap, scores shared and interpolated
 *   warp.cu        products of single pixels on matrix units
 *   few.cu, few_pixel.cu, few_long.cu   few features a head: everything in registers (few.h)
 *   places.cu      refine that ranks given places anew, by single pixels
 *   match_grad.cu  gradients
 * Output places are written by the same functions everywhere. */
#ifndef SNLS_CUDA_MATCH_H
#define SNLS_CUDA_MATCH_H

#include "cuda/best.h"
#include "cuda/video.h"

typedef struct CudaMatch {
    SnlsMatch m;
    CudaVideo query, key;
    int64_t   queries; /* B*heads*T*nH*nW */
    int64_t   k;       /* length of a sorted list: k, or all candidates of a group where those are fewer */
    int       parts;   /* lanes that share a candidate, a power of two: each takes every parts-th quad of features */
    uint64_t *lists;   /* k keys for each warp of the grid; NULL: lists fit in the lanes */
} CudaMatch;

/* Query number n in the order b, head, t, i, j. */
static __device__ __forceinline__ SnlsQuery snls_cuda_query(const SnlsMatch *m, int64_t n)
{
    SnlsQuery q;
    if (n <= UINT32_MAX && m->rows * m->columns <= UINT32_MAX) { /* divisions of 32 bits cost a fifth */
        const uint32_t u = (uint32_t)n, columns = (uint32_t)m->columns, rows = (uint32_t)m->rows, line = u / columns, plane = line / rows;
        const uint32_t frames = (uint32_t)m->frames, heads = (uint32_t)m->heads, unit = plane / frames;
        q.j = u - line * columns;
        q.i = line - plane * rows;
        q.t = plane - unit * frames;
        q.head = unit % heads;
        q.b = unit / heads;
        return q;
    }
    q.j = n % m->columns;
    q.i = n / m->columns % m->rows;
    const int64_t plane = n / m->columns / m->rows;
    q.t = plane % m->frames;
    q.head = plane / m->frames % m->heads;
    q.b = plane / m->frames / m->heads;
    return q;
}

/* Writes place `kept` of a query; window is read for SNLS_NO_KEY neither. */
static __device__ __forceinline__ void snls_cuda_write(const SnlsMatch *m, const SnlsQuery *q, int64_t kept, uint64_t key, const SnlsMatchWindow *w)
{
    float *dist = (float *)m->dist.data + snls_at6(&m->dist, q->b, q->head, q->t, q->i, q->j, kept);
    float *offset = (float *)m->offset.data + snls_at6(&m->offset, q->b, q->head, q->t, q->i, q->j, kept);
    const int64_t step = m->offset.stride[6];
    const bool none = key == SNLS_NO_KEY;
    const uint32_t id = (uint32_t)key, side = (uint32_t)m->side, cell = id % (side * side), row = cell / side;
    if (m->index.data) ((int32_t *)m->index.data)[snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, kept)] = none ? -1 : (int32_t)id;
    *dist = none ? (m->prod ? -INFINITY : INFINITY) : snls_key_dist(key, m->prod);
    offset[0] = none ? 0.0f : (float)(w->frame - q->t);
    offset[step] = none ? 0.0f : (float)(snls_match_y(m, w, row) - (double)(q->i * m->stride0));
    offset[2 * step] = none ? 0.0f : (float)(snls_match_x(m, w, cell - row * side) - (double)(q->j * m->stride0));
}

/* The same where the window has to be found again from the candidate's number. */
static __device__ __forceinline__ void snls_cuda_write_found(const SnlsMatch *m, const SnlsQuery *q, int64_t kept, uint64_t key)
{
    SnlsMatchWindow w = {};
    if (key != SNLS_NO_KEY) w = snls_match_window(m, q, (int64_t)((uint32_t)key / ((uint32_t)m->side * (uint32_t)m->side)));
    snls_cuda_write(m, q, kept, key, &w);
}

int        snls_cuda_parts(int64_t features);
SnlsStatus snls_cuda_match_forward(SnlsContext *ctx, const SnlsMatch *m);
SnlsStatus snls_cuda_match_backward(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g);

#endif
