/* warp_score.h: products of a group's 16 queries with STEP rows of key pixels, into shared memory. */
#ifndef SNLS_CUDA_WARP_SCORE_H
#define SNLS_CUDA_WARP_SCORE_H

#include "cuda/pair.h"
#include "cuda/turn.h"
#include "cuda/warp.h"

/* Scores of row `of` of a step: [column][query]. */
template <int TILES> static __device__ __forceinline__ float *warp_row(const WarpWork *t, int of) { return warp_scores(t) + of * WARP_ROW_FLOATS(TILES); }

/* ---- matrix products. Lane 4 g + c of the warp has queries g and g + 8, key pixel g of eight, and quads c, c + 4, ... of features: the
 * order of features in a sum is free, so that reads are of 16 bytes. ---- */

/* Sixteen features of two queries (first and second half: high and low parts), as the instruction wants them: a[step][register]. */
typedef struct WarpQueries { uint32_t high[2][4], low[2][4]; } WarpQueries;

static __device__ __forceinline__ uint32_t warp_high_rounded(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }

static __device__ __forceinline__ WarpQueries warp_split_queries(float4 a, float4 b)
{
    const float x[2][4] = {{a.x, b.x, a.y, b.y}, {a.z, b.z, a.w, b.w}};
    WarpQueries q;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        q.high[i / 4][i % 4] = warp_high_rounded(x[i / 4][i % 4]);
        q.low[i / 4][i % 4] = __float_as_uint(x[i / 4][i % 4] - __uint_as_float(q.high[i / 4][i % 4]));
    }
    return q;
}

static __device__ __forceinline__ void warp_mma(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Features 16 n .. of the group's queries; zeros beyond the last, and for queries that are not there the nearest that is. */
static __device__ __forceinline__ WarpQueries warp_load_queries(const WarpWork *t, int n)
{
    const CudaMatch *c = &t->p->c;
    const SnlsQuery *first = warp_first(t);
    const int lane = t->lane, quad = 4 * n + lane % 4;
    float4 x[2] = {make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0)};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int number = lane / 4 + 8 * half;
        const int64_t i = min(first->i + number / WARP_SIDE, c->m.rows - 1), j = min(first->j + number % WARP_SIDE, c->m.columns - 1);
        if (quad < c->query.quads) x[half] = snls_cuda_pixel(&c->query, first->b, first->head, first->t, i * c->m.stride0, j * c->m.stride0)[quad];
    }
    return warp_split_queries(x[0], x[1]);
}

/* The first pixel of the key frame, and how many groups of four floats further this lane's pixels of a row are; pixels beyond the frame are
 * not used. */
template <int TILES> struct WarpKeys { const float4 *frame; int at[TILES]; };

template <int TILES> static __device__ __forceinline__ WarpKeys<TILES> warp_keys(const WarpWork *t, const WarpPass *pass)
{
    const CudaMatch *c = &t->p->c;
    WarpKeys<TILES> keys;
    keys.frame = snls_cuda_pixel(&c->key, warp_first(t)->b, warp_first(t)->head, t->frame, 0, 0);
#pragma unroll
    for (int i = 0; i < TILES; i++) keys.at[i] = min(pass->low_x + 8 * i + t->lane / 4, (int)c->m.width - 1) * (int)c->key.step[3];
    return keys;
}

/* Sixteen features, from number 16 n on, of the pixels of rows `row` .. row + STEP - 1 of the pass. */
template <int TILES, int STEP> struct WarpPixels { float4 of[STEP * TILES]; };

template <int TILES, int STEP> static __device__ __forceinline__ WarpPixels<TILES, STEP> warp_load_keys(const WarpWork *t, const WarpPass *pass, const WarpKeys<TILES> *keys, int row, int n)
{
    const CudaMatch *c = &t->p->c;
    const int quad = min(4 * n + t->lane % 4, (int)c->key.quads - 1); /* beyond the last the query's feature is 0 */
    WarpPixels<TILES, STEP> k;
#pragma unroll
    for (int i = 0; i < STEP * TILES; i++) {
        const int line = min(pass->low_y + row + i / TILES, (int)c->m.height - 1) * (int)c->key.step[2];
        k.of[i] = keys->frame[keys->at[i % TILES] + line + quad];
    }
    return k;
}

/* The key's high part is cut off, not rounded, which takes an instruction less. The products of a step of eight features come one after the
 * other for all tiles, since the next of a tile waits for the last. */
template <int TILES, int STEP> static __device__ __forceinline__ void warp_multiply(float (&sum)[STEP * TILES][4], const WarpQueries *q, const WarpPixels<TILES, STEP> *k)
{
#pragma unroll
    for (int step = 0; step < 2; step++) {
        uint32_t high[STEP * TILES][2], low[STEP * TILES][2];
#pragma unroll
        for (int i = 0; i < 2 * STEP * TILES; i++) {
            const float4 v = k->of[i / 2];
            const float x = step ? (i % 2 ? v.w : v.z) : i % 2 ? v.y : v.x;
            high[i / 2][i % 2] = __float_as_uint(x) & 0xffffe000u;
            low[i / 2][i % 2] = __float_as_uint(x - __uint_as_float(high[i / 2][i % 2]));
        }
#pragma unroll
        for (int i = 0; i < STEP * TILES; i++) warp_mma(sum[i], q->low[step], high[i][0], high[i][1]);
#pragma unroll
        for (int i = 0; i < STEP * TILES; i++) warp_mma(sum[i], q->high[step], low[i][0], low[i][1]);
#pragma unroll
        for (int i = 0; i < STEP * TILES; i++) warp_mma(sum[i], q->high[step], high[i][0], high[i][1]);
    }
}

template <int TILES, int STEP> static __device__ __forceinline__ void warp_store(const WarpWork *t, const float (&sum)[STEP * TILES][4])
{
    float *to = warp_scores(t) + t->lane % 4 * 2 * WARP_PITCH + t->lane / 4;
    __syncwarp(); /* what is overwritten has been read */
#pragma unroll
    for (int i = 0; i < STEP * TILES * 4; i++)
        to[i / (4 * TILES) * WARP_ROW_FLOATS(TILES) + (8 * (i / 4 % TILES) + i % 2) * WARP_PITCH + i % 4 / 2 * 8] = sum[i / 4][i % 4];
    __syncwarp();
}

/* Rows from `row` on. KEEP: up to 32 features; their queries are in `held`, the first half of the pixels in *ahead, which gets those of the
 * next step: they arrive while candidates are chosen. */
template <int TILES, bool KEEP> static __device__ __forceinline__ void warp_products(const WarpWork *t, const WarpPass *pass, const WarpKeys<TILES> *keys, const WarpQueries (&held)[2],
                                                                                     WarpPixels<TILES, WARP_STEP(KEEP)> *ahead, int row)
{
    constexpr int STEP = WARP_STEP(KEEP);
    const int chunks = (int)(t->p->c.key.quads + 3) / 4;
    float sum[STEP * TILES][4] = {};
    if (KEEP) {
        const WarpPixels<TILES, STEP> k = warp_load_keys<TILES, STEP>(t, pass, keys, row, chunks - 1);
        if (chunks > 1) warp_multiply<TILES, STEP>(sum, &held[0], ahead);
        *ahead = warp_load_keys<TILES, STEP>(t, pass, keys, row + STEP, 0);
        warp_multiply<TILES, STEP>(sum, &held[1], &k);
    } else {
        for (int n = 0; n < chunks; n++) {
            const WarpPixels<TILES, STEP> k = warp_load_keys<TILES, STEP>(t, pass, keys, row, n);
            const WarpQueries q = warp_load_queries(t, n);
            warp_multiply<TILES, STEP>(sum, &q, &k);
        }
    }
    warp_store<TILES, STEP>(t, sum);
}

/* ---- the same for queries that share nothing: rows of their own pixels, eight lanes a row, which share the features ---- */

/* Sixteen columns of one row of one query; column pairs end in lanes. */
static __device__ __forceinline__ float2 warp_line(const CudaMatch *c, int part, const float4 *query, const float4 *key, int columns, int inside)
{
    float sum[16], a, b;
#pragma unroll
    for (int i = 0; i < 16; i++) sum[i] = 0;
    for (int quad = part; quad < (int)c->key.quads && columns > 0; quad += 8) {
        const float4 v = query[quad];
#pragma unroll
        for (int i = 0; i < 16; i++)
            if (i < columns) sum[i] = snls_cuda_dot(v, key[min(i, inside) * c->key.step[3] + quad], sum[i]);
    }
    snls_cuda_turn(sum, part, &a, &b);
    return make_float2(a, b);
}

template <int TILES, int STEP> static __device__ __forceinline__ void warp_lines(const WarpWork *t, const WarpPass *pass, int row)
{
    const CudaMatch *c = &t->p->c;
    const int lane = t->lane, part = lane % 8;
    __syncwarp();
    for (int base = 0; base < STEP * WARP_QUERIES; base += 4) {
        const int line = base + lane / 8, number = line / STEP, of_row = row + line % STEP;
        if (!(pass->active >> (base / STEP) & (STEP == 2 ? 3 : 1))) continue; /* four lines are so many queries */
        const int y = __shfl_sync(SNLS_WARP, pass->low_y, number), x = __shfl_sync(SNLS_WARP, pass->low_x, number);
        const bool wanted = pass->active >> number & 1 && of_row < pass->rows;
        SnlsQuery q;
        warp_query(t, wanted ? number : 0, &q);
        const int64_t line_y = min((int64_t)y + of_row, c->m.height - 1);
        const float4 *query = snls_cuda_pixel(&c->query, q.b, q.head, q.t, q.i * c->m.stride0, q.j * c->m.stride0);
        for (int column = 0; column < pass->columns; column += 16) {
            const int64_t from = min((int64_t)x + column, c->m.width - 1);
            const float4 *key = snls_cuda_pixel(&c->key, q.b, q.head, t->frame, wanted ? line_y : 0, wanted ? from : 0);
            const float2 two = warp_line(c, part, query, key, wanted ? pass->columns - column : 0, (int)min((int64_t)16, c->m.width - 1 - from));
            float *to = warp_row<TILES>(t, line % STEP) + (column + snls_cuda_turned(part)) * WARP_PITCH + number;
            if (wanted && column + snls_cuda_turned(part) < 8 * TILES) to[0] = two.x, to[WARP_PITCH] = two.y;
        }
    }
    __syncwarp();
}

#endif
