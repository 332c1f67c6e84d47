/* tile_score.h: scores of a tile's queries at a row of shifts. The block's warps are RA x RB: RA groups of four rows of pixels, RB rows of
 * shifts. A thread has four pixels side by side and COLUMNS shifts: for each quad of features 4 + COLUMNS + 3 reads of 16 bytes
 * serve 4 * 4 * COLUMNS products. Staged pixels lie in four runs (every fourth pixel), so that the eight threads of a row read
 * 128 bytes in a row, whatever the shift. */
#ifndef SNLS_CUDA_TILE_SCORE_H
#define SNLS_CUDA_TILE_SCORE_H

#include "cuda/pair.h"
#include "cuda/tile.h"

/* Sizes that follow from RA: RB rows of shifts, HIGH rows of pixels, KEY_ROWS staged rows of the key, quads staged at once. */
#define TILE_RB(RA) (TILE_WARPS / (RA))
#define TILE_HIGH(RA) (4 * (RA))
#define TILE_KEY_ROWS(RA) (TILE_HIGH(RA) + TILE_RB(RA) - 1)
#define TILE_QUADS(RA) ((RA) == 1 ? 4 : 2)
#define TILE_KEY_PLANE(RA) (TILE_KEY_ROWS(RA) * TILE_PITCH + 1) /* odd: quads of a pixel go to different banks */
#define TILE_QUERY_PLANE(RA) (TILE_HIGH(RA) * TILE_WIDE + 1)
#define TILE_STAGE_BYTES(RA) (TILE_QUADS(RA) * (TILE_KEY_PLANE(RA) + TILE_QUERY_PLANE(RA)) * 16)
#define TILE_SCORE_BYTES(RA) (TILE_RB(RA) * TILE_COLUMNS * TILE_HIGH(RA) * TILE_WIDE * 4)

/* Quads [quad, quad + TILE_QUADS) of the pixels that rows [row, row + RB) of shifts need. Pixels beyond the frame are mirrored, as
 * patches see them. */
template <int RA> static __device__ __forceinline__ void tile_stage(const TileWork *t, int row, int64_t quad)
{
    const CudaMatch *c = &t->p->c;
    const SnlsMatch *m = &c->m;
    const int f = (int)threadIdx.x % TILE_QUADS(RA), pixel = (int)threadIdx.x / TILE_QUADS(RA), together = TILE_THREADS / TILE_QUADS(RA);
    const int64_t top = t->first.i - m->ps / 2, left = t->first.j - m->ps / 2;
    float4 *keys = (float4 *)t->shared + f * TILE_KEY_PLANE(RA);
    float4 *queries = (float4 *)t->shared + TILE_QUADS(RA) * TILE_KEY_PLANE(RA) + f * TILE_QUERY_PLANE(RA);
    if (quad + f >= c->key.quads) return;
    const float4 *key = snls_cuda_pixel(&c->key, t->first.b, t->first.head, t->frame, 0, 0) + quad + f;
    const float4 *query = snls_cuda_pixel(&c->query, t->first.b, t->first.head, t->first.t, 0, 0) + quad + f;
    for (int x = pixel; x < TILE_WIDE + t->columns - 1; x += together) {
        const float4 *from = key + snls_reflect(left + t->shift_x + x, m->width) * c->key.step[3];
        float4 *to = keys + x % 4 * (TILE_PITCH / 4) + x / 4;
#pragma unroll
        for (int y = 0; y < TILE_KEY_ROWS(RA); y++)
            to[y * TILE_PITCH] = from[snls_reflect(top + t->shift_y + row + y, m->height) * c->key.step[2]];
    }
    for (int x = pixel; x < TILE_WIDE; x += together) {
        const float4 *from = query + snls_reflect(left + x, m->width) * c->query.step[3];
        float4 *to = queries + x % 4 * (TILE_WIDE / 4) + x / 4;
#pragma unroll
        for (int y = 0; y < TILE_HIGH(RA); y++) to[y * TILE_WIDE] = from[snls_reflect(top + y, m->height) * c->query.step[2]];
    }
}

/* One quad of features: key and query point to this thread's first pixels. */
template <int COLUMNS, bool L2> static __device__ __forceinline__ void tile_multiply(float (&sum)[4][COLUMNS], const float4 *key, const float4 *query)
{
    float4 q[4];
#pragma unroll
    for (int i = 0; i < 4; i++) q[i] = query[i * (TILE_WIDE / 4)];
#pragma unroll
    for (int u = 0; u < COLUMNS + 3; u++) {
        const float4 k = key[u % 4 * (TILE_PITCH / 4) + u / 4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (u - i >= 0 && u - i < COLUMNS) sum[i][u - i] = L2 ? snls_cuda_square(q[i], k, sum[i][u - i]) : snls_cuda_dot(q[i], k, sum[i][u - i]);
    }
}

/* Scores of single pixels at rows [row, row + RB) of shifts into shared memory: [row][column][pixel]. */
template <int RA, int COLUMNS, bool L2> static __device__ void tile_products(const TileWork *t, int row)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, of_row = warp % TILE_RB(RA);
    const int y = warp / TILE_RB(RA) * 4 + lane / 8, group = lane % 8; /* pixels 4*group .. 4*group+3 of row y */
    const float4 *keys = (const float4 *)t->shared + (y + of_row) * TILE_PITCH + group;
    const float4 *queries = (const float4 *)t->shared + TILE_QUADS(RA) * TILE_KEY_PLANE(RA) + y * TILE_WIDE + group;
    const bool needed = row + of_row < t->rows;
    float sum[4][COLUMNS];
#pragma unroll
    for (int i = 0; i < 4 * COLUMNS; i++) sum[i / COLUMNS][i % COLUMNS] = 0;
    for (int64_t quad = 0; quad < t->p->c.key.quads; quad += TILE_QUADS(RA)) {
        const int64_t left = t->p->c.key.quads - quad;
        __syncthreads();
        tile_stage<RA>(t, row, quad);
        __syncthreads();
        for (int f = 0; needed && f < TILE_QUADS(RA) && f < left; f++)
            tile_multiply<COLUMNS, L2>(sum, keys + f * TILE_KEY_PLANE(RA), queries + f * TILE_QUERY_PLANE(RA));
    }
    __syncthreads(); /* scores take the place of the pixels */
    float *to = tile_scores(t) + (of_row * TILE_COLUMNS * TILE_HIGH(RA) + y) * TILE_WIDE + 4 * group;
#pragma unroll
    for (int n = 0; n < COLUMNS; n++)
        *(float4 *)(to + n * TILE_HIGH(RA) * TILE_WIDE) = make_float4(sum[0][n], sum[1][n], sum[2][n], sum[3][n]);
    __syncthreads();
}

/* Sums over patches in place, along rows, then along columns; direct sums, for nothing may cancel. One row of shifts. */
template <int RA> static __device__ void tile_patches(const TileWork *t)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, ps = (int)t->p->c.m.ps;
    for (int line = warp; line < t->columns * TILE_HIGH(RA); line += TILE_WARPS) {
        float *row = tile_scores(t) + line * TILE_WIDE, sum = 0;
        for (int i = 0; i < ps; i++) sum += row[lane + i < TILE_WIDE ? lane + i : lane];
        __syncwarp();
        row[lane] = sum;
    }
    __syncthreads();
    for (int column = (int)threadIdx.x; column < t->columns * TILE_WIDE; column += TILE_THREADS) {
        float *at = tile_scores(t) + column / TILE_WIDE * TILE_HIGH(RA) * TILE_WIDE + column % TILE_WIDE;
        for (int y = 0; y < t->p->high; y++) {
            float sum = 0;
            for (int i = 0; i < ps; i++) sum += at[(y + i) * TILE_WIDE];
            at[y * TILE_WIDE] = sum;
        }
    }
    __syncthreads();
}

/* The narrowest version that holds the box. */
template <int RA, bool L2> static __device__ void tile_score_rows(const TileWork *t, int row)
{
    if (t->columns <= 4) tile_products<RA, 4, L2>(t, row);
    else if (t->columns <= 6) tile_products<RA, 6, L2>(t, row);
    else if (t->columns <= 8) tile_products<RA, 8, L2>(t, row);
    else if (t->columns <= 10) tile_products<RA, 10, L2>(t, row);
    else if (t->columns == 11) tile_products<RA, 11, L2>(t, row);
    else if (t->columns == 12) tile_products<RA, 12, L2>(t, row);
    else if (t->columns <= 14) tile_products<RA, 14, L2>(t, row);
    else tile_products<RA, TILE_COLUMNS, L2>(t, row);
    if (t->p->c.m.ps > 1) tile_patches<RA>(t);
}

#endif
