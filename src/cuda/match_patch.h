/* match_patch.h: gradients of a 3 x 3 patch inside the frame. All its pixels lie between pixels by the same fractions, so the patch touches 4 x 4
 * key pixels: each is read once and added to once, where pixel by pixel there are 36 reads and 36 additions. */
#ifndef SNLS_CUDA_MATCH_PATCH_H
#define SNLS_CUDA_MATCH_PATCH_H

#include "cuda/match_grad.h"

static __device__ __forceinline__ bool snls_grad_inside(const SnlsMatch *m, const SnlsQuery *q, const Kept *k)
{
    const int64_t y = (int64_t)k->y, x = (int64_t)k->x, i = q->i * m->stride0, j = q->j * m->stride0; /* places are not negative */
    if (m->drop && (i < 1 || j < 1 || i + 1 >= m->height || j + 1 >= m->width)) return false;
    return y >= 1 && x >= 1 && y + 2 < m->height && x + 2 < m->width;
}

/* Where the patch is in the key frame, and how its pixels are read. */
typedef struct GradPatch {
    float wy[2], wx[2], w[2][2];
    bool  below, right;  /* whether the second row and column of taps have any weight; what has none is not read */
    int64_t y, x;        /* first tap */
} GradPatch;

static __device__ __forceinline__ GradPatch grad_patch(const Kept *k)
{
    GradPatch s;
    s.y = (int64_t)k->y;
    s.x = (int64_t)k->x;
    const double fy = k->y - (double)s.y, fx = k->x - (double)s.x, wy[2] = {1 - fy, fy}, wx[2] = {1 - fx, fx};
    for (int a = 0; a < 2; a++) {
        s.wy[a] = (float)wy[a];
        s.wx[a] = (float)wx[a];
        for (int b = 0; b < 2; b++) s.w[a][b] = (float)(wy[a] * wx[b]);
    }
    s.below = s.w[1][0] != 0 || s.w[1][1] != 0;
    s.right = s.w[0][1] != 0 || s.w[1][1] != 0;
    s.y--;
    s.x--;
    return s;
}

static __device__ __forceinline__ float4 grad_read(const GradPatch *s, const float4 (&above)[4], const float4 (&below)[4], int i)
{
    float4 sum = make_float4(0, 0, 0, 0);
    if (s->w[0][0] != 0) snls_cuda_axpy(&sum, s->w[0][0], above[i]);
    if (s->w[0][1] != 0) snls_cuda_axpy(&sum, s->w[0][1], above[i + 1]);
    if (s->w[1][0] != 0) snls_cuda_axpy(&sum, s->w[1][0], below[i]);
    if (s->w[1][1] != 0) snls_cuda_axpy(&sum, s->w[1][1], below[i + 1]);
    return sum;
}

static __device__ __forceinline__ void grad_place(Place *place, const GradPatch *s, const float4 (&above)[4], const float4 (&below)[4], int i, float4 by_key)
{
    float down = 0, right = 0;
#pragma unroll
    for (int a = 0; a < 2; a++) {
        if (s->wx[a] != 0) down += s->wx[a] * snls_cuda_dot(by_key, snls_cuda_minus(below[i + a], above[i + a]), 0);
        if (s->wy[a] != 0) right += s->wy[a] * snls_cuda_dot(by_key, a ? snls_cuda_minus(below[i + 1], below[i]) : snls_cuda_minus(above[i + 1], above[i]), 0);
    }
    place->y += down;
    place->x += right;
}

/* Sums of three values over the neighbours side by side, which are `parts` lanes apart; each lane ends with one component of the three. */
static __device__ __forceinline__ void grad_sum(const float4 (&v)[3], int parts, int lane, float (&sum)[3])
{
    const bool upper = lane & 16, second = lane & 8;
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const float a = (upper ? v[i].z : v[i].x) + __shfl_xor_sync(SNLS_WARP, upper ? v[i].x : v[i].z, 16);
        const float b = (upper ? v[i].w : v[i].y) + __shfl_xor_sync(SNLS_WARP, upper ? v[i].y : v[i].w, 16);
        sum[i] = (second ? b : a) + __shfl_xor_sync(SNLS_WARP, second ? a : b, 8);
        for (int step = parts; step < 8; step *= 2) sum[i] += __shfl_xor_sync(SNLS_WARP, sum[i], step);
    }
}

/* The general way, apart: what is rare must not crowd the instruction cache. */
static __device__ __noinline__ void grad_add_key(const CudaSink *sink, const SnlsQuery *q, int64_t frame, int64_t y, int64_t x, int64_t f, float4 v)
{
    const int64_t left = sink->features - f;
    snls_sink_add(sink, q->b, frame, y, x, q->head, f, v, left < 4 ? (int)left : 4);
}

static __device__ __noinline__ void grad_add_query(const CudaSink *sink, const SnlsQuery *q, int64_t y, int64_t x, int64_t f, float v)
{
    snls_sink_add_one(sink, q->b, q->t, y, x, q->head, f, v);
}

/* A row of four key pixels, complete. */
static __device__ __forceinline__ void grad_flush(const CudaGrad *p, const SnlsQuery *q, const Kept *k, const GradPatch *s, int row, int64_t quad, const float4 (&sum)[4])
{
    const CudaSink *sink = &p->key;
    if (row == 3 && !s->below) return;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (sink->quads && sink->mode == SINK_ADD) {
        float *to = sink->data + q->b * sink->step[0] + k->frame * sink->step[1] + (s->y + row) * sink->step[2] + s->x * sink->step[3] + q->head * sink->features + 4 * quad;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < 3 || s->right) atomicAdd((float4 *)(to + i * sink->step[3]), sum[i]);
        return;
    }
#endif
    for (int i = 0; i < 4; i++)
        if (i < 3 || s->right) grad_add_key(sink, q, k->frame, s->y + row, s->x + i, 4 * quad, i == 0 ? sum[0] : i == 1 ? sum[1] : i == 2 ? sum[2] : sum[3]);
}

/* One row of the patch and one quad of features: what the query's three pixels get, what the key's two rows of four get. */
static __device__ __forceinline__ void grad_row(const CudaGrad *p, const GradPatch *s, const Kept *k, const float4 *query, const int64_t (&column)[3], const float4 (&above)[4],
                                                const float4 (&below)[4], Place *place, float4 (&by_query)[3], float4 (&to_above)[4], float4 (&to_below)[4])
{
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const float4 a = query[column[i]], b = grad_read(s, above, below, i), difference = scaled(snls_cuda_minus(a, b), 2 * k->g);
        const float4 by_key = p->c.m.prod ? scaled(a, k->g) : scaled(difference, -1);
        by_query[i] = p->c.m.prod ? scaled(b, k->g) : difference;
        if (s->w[0][0] != 0) snls_cuda_axpy(&to_above[i], s->w[0][0], by_key);
        if (s->w[0][1] != 0) snls_cuda_axpy(&to_above[i + 1], s->w[0][1], by_key);
        if (s->w[1][0] != 0) snls_cuda_axpy(&to_below[i], s->w[1][0], by_key);
        if (s->w[1][1] != 0) snls_cuda_axpy(&to_below[i + 1], s->w[1][1], by_key);
        if (p->want_place) grad_place(place, s, above, below, i, by_key);
    }
}

/* Mirrored, of a pixel at most one beyond the frame, which has more than two. */
static __device__ __forceinline__ int64_t grad_near(int64_t i, int64_t n) { return i < 0 ? -i : i < n ? i : 2 * (n - 1) - i; }

/* Sums that lanes ended with, to the query's pixels of a row. */
static __device__ __forceinline__ void grad_to_query(const CudaGrad *p, const SnlsQuery *q, int64_t y, int64_t x, int64_t quad, const float4 (&by_query)[3], int lane)
{
    const SnlsMatch *m = &p->c.m;
    float sum[3];
    grad_sum(by_query, p->c.parts, lane, sum);
    const int64_t f = 4 * quad + (lane & 16 ? 2 : 0) + (lane & 8 ? 1 : 0);
    if ((lane & 7) >= p->c.parts || f >= m->features) return;
    for (int i = 0; i < 3; i++) grad_add_query(&p->query, q, grad_near(y, m->height), grad_near(x + i, m->width), f, i == 0 ? sum[0] : i == 1 ? sum[1] : sum[2]);
}

/* All pixels of the patch; lanes without a neighbour come along, for the sums over lanes. */
static __device__ __forceinline__ void snls_grad_patch(const CudaGrad *p, const SnlsQuery *q, const Kept *k, bool valid, Place *place, int lane)
{
    const CudaMatch *c = &p->c;
    const SnlsMatch *m = &c->m;
    const GradPatch s = grad_patch(k);
    const int64_t y = q->i * m->stride0 - 1, x = q->j * m->stride0 - 1;
    const int64_t column[3] = {grad_near(x, m->width) * c->query.step[3], (x + 1) * c->query.step[3], grad_near(x + 2, m->width) * c->query.step[3]};
    const float4 zero = make_float4(0, 0, 0, 0);
    for (int64_t base = 0; base < c->query.quads; base += c->parts) {
        const int64_t quad = base + (lane & (c->parts - 1));
        const bool there = valid && quad < c->query.quads;
        const float4 *key = there ? snls_cuda_pixel(&c->key, q->b, q->head, k->frame, s.y, s.x) + quad : NULL;
        const float4 *query = snls_cuda_pixel(&c->query, q->b, q->head, q->t, 0, 0) + quad;
        float4 above[4], below[4], to_above[4] = {}, to_below[4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++) below[i] = there ? key[i * c->key.step[3]] : zero;
#pragma unroll 1
        for (int row = 0; row < 3; row++) { /* not unrolled: the instruction cache is small */
            float4 by_query[3] = {};
            __syncwarp(); /* lanes without a neighbour would go on by themselves, and each row be worked on twice */
#pragma unroll
            for (int i = 0; i < 4; i++) {
                above[i] = below[i];
                below[i] = there ? key[(row + 1) * c->key.step[2] + i * c->key.step[3]] : zero;
            }
            if (there) grad_row(p, &s, k, query + grad_near(y + row, m->height) * c->query.step[2], column, above, below, place, by_query, to_above, to_below);
            __syncwarp();
            if (p->query.mode) grad_to_query(p, q, y + row, x, quad, by_query, lane);
            if (there && p->key.mode) grad_flush(p, q, k, &s, row, quad, to_above);
#pragma unroll
            for (int i = 0; i < 4; i++) to_above[i] = to_below[i], to_below[i] = zero;
        }
        if (there && p->key.mode) grad_flush(p, q, k, &s, 3, quad, to_above);
    }
}

#endif
