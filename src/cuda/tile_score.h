/* tile_score.h: scores of a tile's queries at a row of shifts. The block's warps are RA x RB: RA groups of eight rows of pixels, RB rows of
 * shifts. A thread has four pixels side by side and COLUMNS shifts: for each quad of features 4 + COLUMNS + 3 reads of 16 bytes
 * serve 4 * 4 * COLUMNS products. */
#ifndef SNLS_CUDA_TILE_SCORE_H
#define SNLS_CUDA_TILE_SCORE_H

#include "cuda/pair.h"
#include "cuda/tile.h"

/* Sizes that follow from RA: RB rows of shifts, HIGH rows of pixels, KEY_ROWS staged rows of the key, quads staged at once. */
#define TILE_RB(RA) (TILE_WARPS / (RA))
#define TILE_HIGH(RA) (8 * (RA))
#define TILE_KEY_ROWS(RA) (TILE_HIGH(RA) + TILE_RB(RA) - 1 + ((RA) == 1 ? TILE_SPREAD : 0))
#define TILE_QUADS(RA) ((RA) == 4 ? 1 : 2)
/* Pixel x of a staged row is number x + x/4 of it: four apart in x, five in memory, and rows half of all banks apart. So the eight threads
 * that read at once, four groups of two rows, read from different banks. */
#define TILE_KEY_PITCH 44
#define TILE_QUERY_PITCH 20
#define TILE_KEY_PLANE(RA) (TILE_KEY_ROWS(RA) * TILE_KEY_PITCH + 1)
#define TILE_QUERY_PLANE(RA) (TILE_HIGH(RA) * TILE_QUERY_PITCH + 1)
#define TILE_STAGE_BYTES(RA) (TILE_QUADS(RA) * (TILE_KEY_PLANE(RA) + TILE_QUERY_PLANE(RA)) * 16)
#define TILE_SCORE_BYTES(RA) (TILE_RB(RA) * TILE_COLUMNS * TILE_HIGH(RA) * TILE_WIDE * 4)

/* 16 bytes from global to shared memory, past the registers where the GPU can. */
static __device__ __forceinline__ void tile_copy(float4 *to, const float4 *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
    *to = *from;
#endif
}

static __device__ __forceinline__ void tile_copied(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
}

/* Where rows of pixels begin in their frames: TILE_OFFSETS of the key, from the lowest row that a box needs, then HIGH of the query.
 * Pixels beyond the frame are mirrored, as patches see them. */
static __device__ __forceinline__ void tile_offsets(const TileWork *t, int high)
{
    const SnlsMatch *m = &t->p->c.m;
    const int64_t top = t->first.i - m->ps / 2;
    for (int y = (int)threadIdx.x; y < TILE_OFFSETS + high; y += TILE_THREADS)
        tile_offset(t)[y] = y < TILE_OFFSETS ? snls_reflect(top + t->shift_y + y, m->height) * t->p->c.key.step[2]
                                             : snls_reflect(top + y - TILE_OFFSETS, m->height) * t->p->c.query.step[2];
}

/* What a thread stages: every together-th pixel of some rows, one quad of each at a time. */
template <int RA> struct TileStage {
    static constexpr int QUADS = TILE_QUADS(RA), TOGETHER = TILE_THREADS / QUADS;
    const float4 *key, *beyond, *query; /* column x, column x + 32, column of the query; NULL: none */
    float4 *key_to, *query_to;
    int rows, first;                    /* of the key */
};

template <int RA> static __device__ __forceinline__ TileStage<RA> tile_stage_of(const TileWork *t)
{
    const CudaMatch *c = &t->p->c;
    const SnlsMatch *m = &c->m;
    TileStage<RA> s;
    const int f = (int)threadIdx.x % s.QUADS, pixel = (int)threadIdx.x / s.QUADS, x = pixel % 32, column = pixel % TILE_WIDE;
    const int64_t left = t->first.j - m->ps / 2;
    const float4 *key = snls_cuda_pixel(&c->key, t->first.b, t->first.head, t->frame, 0, 0) + f;
    const float4 *query = snls_cuda_pixel(&c->query, t->first.b, t->first.head, t->first.t, 0, 0) + f;
    s.key = x < t->width ? key + snls_reflect(left + t->shift_x + x, m->width) * c->key.step[3] : NULL;
    s.beyond = x + 32 < t->width ? key + snls_reflect(left + t->shift_x + x + 32, m->width) * c->key.step[3] : NULL;
    s.query = query + snls_reflect(left + column, m->width) * c->query.step[3];
    s.key_to = (float4 *)tile_memory() + f * TILE_KEY_PLANE(RA) + x + x / 4;
    s.query_to = (float4 *)tile_memory() + s.QUADS * TILE_KEY_PLANE(RA) + f * TILE_QUERY_PLANE(RA) + column + column / 4;
    s.rows = TILE_HIGH(RA) + TILE_RB(RA) - 1 + t->spread;
    s.first = pixel / 32;
    return s;
}

/* A quad of the pixels that rows [row, row + RB) of shifts need. */
template <int RA> static __device__ __forceinline__ void tile_stage(const TileStage<RA> *s, const int64_t *offset, int row, int64_t quad)
{
    if (s->key)
        for (int y = s->first; y < s->rows; y += s->TOGETHER / 32) {
            const int64_t at = offset[row + y] + quad;
            tile_copy(s->key_to + y * TILE_KEY_PITCH, s->key + at);
            if (s->beyond) tile_copy(s->key_to + y * TILE_KEY_PITCH + 40, s->beyond + at);
        }
#pragma unroll
    for (int i = 0; i < TILE_HIGH(RA) * TILE_WIDE / s->TOGETHER; i++) {
        const int y = (int)threadIdx.x / s->QUADS / TILE_WIDE + i * (s->TOGETHER / TILE_WIDE);
        tile_copy(s->query_to + y * TILE_QUERY_PITCH, s->query + offset[TILE_OFFSETS + y] + quad);
    }
}

/* One quad of features. key: this thread's first four pixels; the next four of each are five further. query: its first pixel. */
template <int COLUMNS, bool L2> static __device__ __forceinline__ void tile_multiply(float (&sum)[4][COLUMNS], const float4 *const (&key)[4], const float4 *query, int plane)
{
    float4 q[4];
#pragma unroll
    for (int i = 0; i < 4; i++) q[i] = query[i];
#pragma unroll
    for (int u = 0; u < COLUMNS + 3; u++) {
        const float4 k = key[u % 4][plane + 5 * (u / 4)];
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (u - i >= 0 && u - i < COLUMNS) sum[i][u - i] = L2 ? snls_cuda_square(q[i], k, sum[i][u - i]) : snls_cuda_dot(q[i], k, sum[i][u - i]);
    }
}

/* Scores of single pixels at rows [row, row + RB) of shifts into shared memory: [row][column][pixel]. */
template <int RA, int COLUMNS, bool L2> static __device__ __noinline__ void tile_products(const TileWork *t, int row)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, of_row = warp % TILE_RB(RA);
    const int y = warp / TILE_RB(RA) * 8 + lane / 4, group = lane % 4; /* pixels 4*group .. 4*group+3 of row y */
    const TileGroup box = tile_group(t, t->p->c.m.ps == 1 ? y * TILE_WIDE + 4 * group : 0);
    const float4 *row_of_keys = (const float4 *)tile_memory() + (y + of_row + box.shift_y) * TILE_KEY_PITCH;
    const float4 *queries = (const float4 *)tile_memory() + TILE_QUADS(RA) * TILE_KEY_PLANE(RA) + y * TILE_QUERY_PITCH + 5 * group;
    const int at = 4 * group + box.shift_x;
    const float4 *const keys[4] = {row_of_keys + at + at / 4, row_of_keys + at + 1 + (at + 1) / 4, row_of_keys + at + 2 + (at + 2) / 4, row_of_keys + at + 3 + (at + 3) / 4};
    const bool needed = row + of_row < t->rows;
    float sum[4][COLUMNS];
#pragma unroll
    for (int i = 0; i < 4 * COLUMNS; i++) sum[i / COLUMNS][i % COLUMNS] = 0;
    const TileStage<RA> stage = tile_stage_of<RA>(t);
    const int64_t *offset = tile_offset(t);
    const int64_t quads = t->p->c.key.quads;
    for (int64_t quad = 0; quad < quads; quad += TILE_QUADS(RA)) {
        __syncthreads();
        if (quad + (int)threadIdx.x % TILE_QUADS(RA) < quads) tile_stage<RA>(&stage, offset, row, quad);
        tile_copied();
#pragma unroll
        for (int f = 0; f < TILE_QUADS(RA); f++)
            if (needed && quad + f < quads) tile_multiply<COLUMNS, L2>(sum, keys, queries + f * TILE_QUERY_PLANE(RA), f * TILE_KEY_PLANE(RA));
    }
    __syncthreads(); /* scores take the place of the pixels */
    float *to = tile_scores(t) + (of_row * TILE_COLUMNS * TILE_HIGH(RA) + y) * TILE_WIDE + 4 * group;
#pragma unroll
    for (int n = 0; n < COLUMNS; n++)
        *(float4 *)(to + n * TILE_HIGH(RA) * TILE_WIDE) = make_float4(sum[0][n], sum[1][n], sum[2][n], sum[3][n]);
    __syncthreads();
}

/* Sums over patches of PS x PS in place: sixteen lanes walk down the rows of one shift, with the last PS sums along x in registers. Direct sums,
 * for nothing may cancel. A row is written when all sixteen have read it. */
template <int RA, int PS> static __device__ __forceinline__ void tile_patches_of(const TileWork *t)
{
    constexpr int HIGH = TILE_HIGH(RA), TOGETHER = TILE_THREADS / TILE_WIDE;
    const int x = (int)threadIdx.x % TILE_WIDE, columns = t->columns, shifts = TILE_RB(RA) * columns;
    for (int first = 0; first < shifts; first += TOGETHER) {
        const int shift = min(first + (int)threadIdx.x / TILE_WIDE, shifts - 1), row_of = shift / columns; /* whole warps come along */
        const bool own = first + (int)threadIdx.x / TILE_WIDE < shifts;
        float *at = tile_scores(t) + (row_of * TILE_COLUMNS + shift - row_of * columns) * HIGH * TILE_WIDE + x;
        float along[PS] = {};
#pragma unroll
        for (int y = 0; y < HIGH; y++) {
            float sum = 0, all = 0;
#pragma unroll
            for (int i = 0; i < PS; i++) sum += own ? at[y * TILE_WIDE + (x + i < TILE_WIDE ? i : 0)] : 0;
            along[y % PS] = sum;
#pragma unroll
            for (int i = 1; i <= PS; i++) all += along[(y + i) % PS];
            __syncwarp();
            if (own && y >= PS - 1) at[(y - PS + 1) * TILE_WIDE] = all;
        }
    }
    __syncthreads();
}

/* Sums over patches in place, along rows, then along columns; direct sums, for nothing may cancel. */
template <int RA> static __device__ __noinline__ void tile_patches(const TileWork *t)
{
    constexpr int HIGH = TILE_HIGH(RA), PLANE = HIGH * TILE_WIDE; /* PLANE: scores of one shift */
    const int x = (int)threadIdx.x % TILE_WIDE, ps = (int)t->p->c.m.ps, columns = t->columns, shifts = TILE_RB(RA) * columns;
    for (int line = (int)threadIdx.x / TILE_WIDE; line < shifts * HIGH; line += TILE_THREADS / TILE_WIDE) {
        const int shift = line / HIGH, row_of = shift / columns; /* the two lines of a warp are of one shift */
        float *row = tile_scores(t) + (row_of * TILE_COLUMNS + shift - row_of * columns) * PLANE + line % HIGH * TILE_WIDE, sum = 0;
        for (int i = 0; i < ps; i++) sum += row[x + i < TILE_WIDE ? x + i : x];
        __syncwarp();
        row[x] = sum;
    }
    __syncthreads();
    for (int shift = (int)threadIdx.x / TILE_WIDE; shift < shifts; shift += TILE_THREADS / TILE_WIDE) {
        const int row_of = shift / columns;
        float *at = tile_scores(t) + (row_of * TILE_COLUMNS + shift - row_of * columns) * PLANE + x;
        for (int y = 0; y < t->p->high; y++) {
            float sum = 0;
            for (int i = 0; i < ps; i++) sum += at[(y + i) * TILE_WIDE];
            at[y * TILE_WIDE] = sum;
        }
    }
    __syncthreads();
}

/* The narrowest version that holds the boxes. */
template <int RA, bool L2> static __device__ void tile_score_rows(const TileWork *t, int row)
{
    if (t->columns <= 4) tile_products<RA, 4, L2>(t, row);
    else if (t->columns <= 6) tile_products<RA, 6, L2>(t, row);
    else if (t->columns <= 8) tile_products<RA, 8, L2>(t, row);
    else if (t->columns <= 10) tile_products<RA, 10, L2>(t, row);
    else if (t->columns == 11) tile_products<RA, 11, L2>(t, row);
    else if (t->columns == 12) tile_products<RA, 12, L2>(t, row);
    else tile_products<RA, TILE_COLUMNS, L2>(t, row);
    switch (t->p->c.m.ps) {
    case 1: break;
    case 3: tile_patches_of<RA, 3>(t); break;
    case 7: tile_patches_of<RA, 7>(t); break;
    default: tile_patches<RA>(t);
    }
}

#endif
