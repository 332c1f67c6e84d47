/* few_long.cu: forward of search by squared differences of single pixels (few_pixel.h) where lists are too long for registers. The scores of a
 * query's candidates, all slots' or one slot's, go to shared memory; when they are complete, the warp chooses the best (choose.h). */
#include "cuda/choose.h"
#include "cuda/few_pixel.h"

typedef struct CudaLong {
    CudaFew f;
    int32_t candidates, pitch; /* of a query at a time; from query to query, in words */
    int32_t room, orders;      /* bytes before them, of a warp's shared memory */
} CudaLong;

/* Where the scores of a query's candidates go: number `from` first. */
typedef struct FewOrders { uint32_t *order, from; } FewOrders;

template <bool L2> static __device__ __forceinline__ bool few_offer(float dist, bool valid, uint32_t id, FewOrders *to)
{
    if (valid) to->order[id - to->from] = (uint32_t)(snls_key(dist, !L2, 0) >> 32);
    return !valid || fabsf(dist) < INFINITY;
}

static __device__ __forceinline__ void clear_orders(const CudaLong *p, int queries, uint32_t *orders)
{
    for (int i = (int)threadIdx.x % 32; i < queries * p->pitch; i += 32) orders[i] = CHOOSE_NONE;
    __syncwarp();
}

/* The best of each of the warp's queries, written. from: number of the first candidate that there are scores of. */
template <int PER> static __device__ __forceinline__ void finish(const CudaLong *p, const FewLane *q, int32_t first, int queries, uint32_t from, int64_t kept, const uint32_t *orders,
                                                                uint64_t *room, const FewWindow *windows)
{
    const SnlsMatch *m = &p->f.c.m;
    const int lane = (int)threadIdx.x % 32, k = (int)m->k;
#pragma unroll 1
    for (int n = 0; n < queries; n++) {
        FewLane whose = *q;
        few_take(m, first + n, &whose);
        if (!whose.there) break;
        uint64_t held[PER];
        choose<PER>(orders + n * p->pitch, p->candidates, k, room, held, lane);
        const SnlsQuery query = few_query(&whose);
#pragma unroll
        for (int i = 0; i < PER; i++) {
            const bool none = held[i] == SNLS_NO_KEY;
            const uint2 found = none ? make_uint2(UINT32_MAX, UINT32_MAX) : make_uint2((uint32_t)held[i] + from, (uint32_t)(held[i] >> 32));
            if (lane + 32 * i < k) few_write(m, &query, kept + lane + 32 * i, found, windows + n * m->windows);
        }
    }
    __syncwarp();
}

template <bool HALF, int PARTS, int PER> static __global__ void __launch_bounds__(32 * FEW_WARPS, 3) search_few_long(const __grid_constant__ CudaLong p)
{
    extern __shared__ __align__(16) char memory[];
    constexpr int QUERIES = 32 / PARTS;
    const SnlsMatch *m = &p.f.c.m;
    char *own = memory + (int)threadIdx.x / 32 * p.f.bytes;
    FewWindow *windows = (FewWindow *)own, *window = windows + (int)threadIdx.x % 32 / PARTS * m->windows;
    uint64_t *room = (uint64_t *)(own + p.room);
    uint32_t *orders = (uint32_t *)(own + p.orders);
    for (int64_t group = blockIdx.x; group < p.f.groups; group += gridDim.x) {
        FewLane q;
        int32_t first;
        if (!few_lane<PARTS>(&p.f, group, &q, &first)) continue; /* the whole warp */
        few_windows<HALF>(m, &q, first, QUERIES, windows);
        clear_orders(&p, QUERIES, orders);
        const float4 *query = snls_cuda_pixel(&p.f.c.query, q.b, q.head, q.t, q.i * m->stride0, q.j * m->stride0);
        FewOrders to = {orders + (int)threadIdx.x % 32 / PARTS * p.pitch, 0};
        bool finite = true;
#pragma unroll 1
        for (int slot = 0; slot < (int)m->windows; slot++) {
            if ((slot || m->exclude != SNLS_EXCLUDE_FRAME) && !few_slot<HALF, PARTS>(&p.f.c, &q, query, slot, &window[slot], &to)) finite = false;
            if (!m->each && slot + 1 < m->windows) continue;
            finish<PER>(&p, &q, first, QUERIES, to.from, m->each ? slot * m->k : 0, orders, room, windows);
            if (slot + 1 < m->windows) clear_orders(&p, QUERIES, orders);
            to.from += (uint32_t)(m->side * m->side);
        }
        const unsigned again = __ballot_sync(SNLS_WARP, !finite);
        if (again) few_again(&p.f.c, q, PARTS, again, p.f.c.k > 32 ? room : NULL);
    }
}

/* ---- the host's side ---- */

enum { LONG_BYTES = 96 << 10 }; /* of a block: two of them still share a multiprocessor */

static CudaLong long_job(const CudaMatch *c, int parts)
{
    const SnlsMatch *m = &c->m;
    CudaLong p = {.f = few_job(c, parts)};
    p.candidates = (int32_t)((m->each ? 1 : m->windows) * m->side * m->side);
    p.pitch = (p.candidates + 31 - parts) / 32 * 32 + parts; /* lanes that store the scores of one row meet no bank twice */
    p.room = (int32_t)(32 / parts * m->windows * (int64_t)sizeof(FewWindow));
    p.orders = p.room + CHOOSE_MOST * (int32_t)sizeof(uint64_t);
    p.f.bytes = p.orders + 32 / parts * p.pitch * (int32_t)sizeof(uint32_t);
    p.f.bytes = (p.f.bytes + 15) / 16 * 16;
    p.f.apart = c->key.head != c->key.quads;
    return p;
}

bool snls_cuda_few_long_applies(const SnlsContext *ctx, const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    if (!few_pixel_takes(m) || !few_takes(c) || m->k > CHOOSE_MOST || m->windows > 256) return false;
    const size_t bytes = FEW_WARPS * (size_t)long_job(c, few_parts_of(m)).f.bytes;
    return bytes <= LONG_BYTES && bytes <= snls_cuda(ctx)->shared_limit;
}

template <bool HALF, int PARTS, int PER> static SnlsStatus launch(SnlsContext *ctx, const CudaLong *p)
{
    const int bytes = FEW_WARPS * p->f.bytes;
    SNLS_TRY(snls_cuda_allow_shared(ctx, p->f.c.m.op, (const void *)search_few_long<HALF, PARTS, PER>, 0));
    search_few_long<HALF, PARTS, PER><<<snls_cuda_blocks(p->f.groups, 1, 0), 32 * FEW_WARPS, (size_t)bytes, snls_cuda_stream(ctx)>>>(*p);
    return snls_cuda_check(ctx, p->f.c.m.op, cudaGetLastError());
}

template <bool HALF, int PARTS> static SnlsStatus launch_sized(SnlsContext *ctx, const CudaLong *p)
{
    return p->f.c.m.k <= 32 ? launch<HALF, PARTS, 1>(ctx, p) : launch<HALF, PARTS, 2>(ctx, p);
}

SnlsStatus snls_cuda_few_long_forward(SnlsContext *ctx, const CudaMatch *c)
{
    const int parts = few_parts_of(&c->m);
    const CudaLong p = long_job(c, parts);
    if (c->m.stride1 == 1) return parts == 8 ? launch_sized<false, 8>(ctx, &p) : launch_sized<false, 4>(ctx, &p);
    return parts == 8 ? launch_sized<true, 8>(ctx, &p) : launch_sized<true, 4>(ctx, &p);
}
