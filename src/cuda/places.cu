/* places.cu: forward of refine where places are ranked anew (wr 1) by single pixels, lists up to 64. A block has 8 x 8 queries of one head, whose
 * places lie near each other; a warp takes its queries one by one: a lane finds out where a place is, `parts` lanes score it, the warp
 * chooses the best (choose.h). */
#include "cuda/places.h"
#include "cuda/choose.h"
#include "cuda/pair.h"

#define PLACES_NONE INT64_MIN
enum { PLACES_SIDE = 8, PLACES_MOST = 512 }; /* warps of a block, queries of a warp; places of a query */

typedef struct CudaPlaces {
    CudaMatch c;
    int64_t tiles, tiles_x, tiles_y; /* blocks of queries; of a frame: tiles_x*tiles_y */
    int32_t bytes;                   /* of shared memory, for a warp */
} CudaPlaces;

/* Shared memory of a warp: 32 places at a time, as taps; then keys; then scores of all. */
typedef struct Places {
    float4   weight[32];
    int64_t  at[32]; /* first tap, in quads, below 0 where strides are; PLACES_NONE: no candidate */
    uint64_t room[CHOOSE_MOST];
    uint32_t order[1];
} Places;

static __device__ __forceinline__ void find_place(const CudaMatch *c, const SnlsQuery *q, int window, bool there, Places *s, int lane)
{
    const SnlsMatch *m = &c->m;
    SnlsMatchWindow w = {};
    if (there) w = snls_match_window(m, q, window);
    const SnlsTaps y = snls_taps(w.y, m->height), x = snls_taps(w.x, m->width);
    s->at[lane] = w.valid ? w.frame * c->key.step[1] + y.at[0] * c->key.step[2] + x.at[0] * c->key.step[3] : PLACES_NONE;
    s->weight[lane] = make_float4((float)(y.weight[0] * x.weight[0]), (float)(y.weight[0] * x.weight[1]), (float)(y.weight[1] * x.weight[0]), (float)(y.weight[1] * x.weight[1]));
}

/* What lies between the taps; one that weighs nothing is not read, nor is there one beyond the frame that weighs anything. */
static __device__ __forceinline__ float4 read_place(const CudaMatch *c, const float4 *key, float4 w)
{
    const float4 zero = make_float4(0, 0, 0, 0);
    const float4 a = w.x != 0 ? key[0] : zero, b = w.y != 0 ? key[c->key.step[3]] : zero;
    const float4 d = w.z != 0 ? key[c->key.step[2]] : zero, e = w.w != 0 ? key[c->key.step[2] + c->key.step[3]] : zero;
    float4 sum = zero;
    snls_cuda_axpy(&sum, w.x, a);
    snls_cuda_axpy(&sum, w.y, b);
    snls_cuda_axpy(&sum, w.z, d);
    snls_cuda_axpy(&sum, w.w, e);
    return sum;
}

/* Scores of places first .. first+31. key: of the query's head. */
static __device__ __forceinline__ void score_places(const CudaMatch *c, const float4 *query, const float4 *key, Places *s, int first, int n, int lane)
{
    const int parts = c->parts, part = lane & (parts - 1), quads = (int)c->key.quads;
    const bool prod = c->m.prod;
    const float4 held = query[min(part, quads - 1)];
#pragma unroll 2
    for (int base = 0; base < 32 && first + base < n; base += 32 / parts) {
        const int at = base + lane / parts;
        const int64_t from = s->at[at];
        const float4 w = s->weight[at];
        float sum = 0;
        for (int quad = part; quad < quads && from != PLACES_NONE; quad += parts) {
            const float4 a = quad == part ? held : query[quad], b = read_place(c, key + from + quad, w);
            sum = prod ? snls_cuda_dot(a, b, sum) : snls_cuda_square(a, b, sum);
        }
        __syncwarp();
        for (int step = parts / 2; step > 0; step /= 2) sum += __shfl_xor_sync(SNLS_WARP, sum, step);
        if (part == 0 && first + at < n) s->order[first + at] = from != PLACES_NONE ? choose_order(sum, prod) : CHOOSE_NONE;
    }
}

template <int PER> static __device__ __forceinline__ void rank_places(const CudaMatch *c, const SnlsQuery *q, Places *s, int lane)
{
    const SnlsMatch *m = &c->m;
    const int n = (int)m->windows, k = (int)m->k;
    const float4 *query = snls_cuda_pixel(&c->query, q->b, q->head, q->t, q->i * m->stride0, q->j * m->stride0), *key = snls_cuda_pixel(&c->key, q->b, q->head, 0, 0, 0);
    for (int first = 0; first < n; first += 32) {
        find_place(c, q, first + lane, first + lane < n, s, lane);
        __syncwarp();
        score_places(c, query, key, s, first, n, lane);
        __syncwarp();
    }
    uint64_t held[PER];
    choose<PER>(s->order, n, k, s->room, held, lane);
#pragma unroll
    for (int i = 0; i < PER; i++)
        if (lane + 32 * i < k) snls_cuda_write_found(m, q, lane + 32 * i, held[i]);
}

template <int PER> static __global__ void __launch_bounds__(32 * PLACES_SIDE, 2) refine_places(const __grid_constant__ CudaPlaces p)
{
    extern __shared__ __align__(16) char memory[];
    const SnlsMatch *m = &p.c.m;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    Places *s = (Places *)(memory + warp * p.bytes);
    for (int64_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const int64_t plane = tile / (p.tiles_x * p.tiles_y), in_plane = tile - plane * p.tiles_x * p.tiles_y, unit = plane / m->frames;
        const int64_t first = in_plane % p.tiles_x * PLACES_SIDE, end = min(first + PLACES_SIDE, m->columns);
        SnlsQuery q = {.b = unit / m->heads, .head = unit % m->heads, .t = plane - unit * m->frames, .i = in_plane / p.tiles_x * PLACES_SIDE + warp, .j = first};
        if (q.i >= m->rows) continue; /* the whole warp */
        for (; q.j < end; q.j++) rank_places<PER>(&p.c, &q, s, lane);
    }
}

/* ---- the host's side ---- */

bool snls_cuda_places_applies(const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    return m->refine && m->side == 1 && m->ps == 1 && m->k <= CHOOSE_MOST && m->windows <= PLACES_MOST;
}

SnlsStatus snls_cuda_places_forward(SnlsContext *ctx, const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    CudaPlaces p = {.c = *c, .tiles_x = (m->columns + PLACES_SIDE - 1) / PLACES_SIDE, .tiles_y = (m->rows + PLACES_SIDE - 1) / PLACES_SIDE};
    p.tiles = m->batch * m->heads * m->frames * p.tiles_x * p.tiles_y;
    p.bytes = ((int32_t)(sizeof(Places) + sizeof(uint32_t) * (size_t)m->windows) + 15) / 16 * 16;
    const unsigned blocks = snls_cuda_blocks(p.tiles, 1, 0);
    const size_t bytes = PLACES_SIDE * (size_t)p.bytes; /* at most 27 KiB */
    if (m->k <= 32) refine_places<1><<<blocks, 32 * PLACES_SIDE, bytes, snls_cuda_stream(ctx)>>>(p);
    else refine_places<2><<<blocks, 32 * PLACES_SIDE, bytes, snls_cuda_stream(ctx)>>>(p);
    return snls_cuda_check(ctx, m->op, cudaGetLastError());
}
