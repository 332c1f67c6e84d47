/* few_pixel.cu: forward of search by squared differences of single pixels, lists up to 10 in registers (few_pixel.h). */
#include "cuda/few_pixel.h"

template <bool HALF, int PARTS, int LIST> static __global__ void __launch_bounds__(32 * FEW_WARPS, 3) search_few_pixels(const __grid_constant__ CudaFew p)
{
    extern __shared__ __align__(16) char memory[];
    const SnlsMatch *m = &p.c.m;
    FewWindow *windows = (FewWindow *)(memory + (int)threadIdx.x / 32 * p.bytes), *own = windows + (int)threadIdx.x % 32 / PARTS * m->windows;
    uint2 *found = (uint2 *)(windows + 32 / PARTS * m->windows);
    for (int64_t group = blockIdx.x; group < p.groups; group += gridDim.x) {
        FewLane q;
        int32_t first;
        if (!few_lane<PARTS>(&p, group, &q, &first)) continue; /* the whole warp */
        few_windows<HALF>(m, &q, first, 32 / PARTS, windows);
        const float4 *query = snls_cuda_pixel(&p.c.query, q.b, q.head, q.t, q.i * m->stride0, q.j * m->stride0);
        bool finite = true;
        FewBest<LIST> best;
        few_clear(&best);
#pragma unroll 1
        for (int slot = 0; slot < (int)m->windows; slot++) {
            if ((slot || m->exclude != SNLS_EXCLUDE_FRAME) && !few_slot<HALF, PARTS>(&p.c, &q, query, slot, &own[slot], &best)) finite = false;
            if (m->each || slot + 1 == m->windows) few_finish<PARTS>(m, &q, first, m->each ? slot * m->k : 0, &best, windows, found);
        }
        const unsigned again = __ballot_sync(SNLS_WARP, !finite);
        if (again) few_again(&p.c, q, PARTS, again, NULL);
    }
}

/* ---- the host's side ---- */

bool snls_cuda_few_pixel_applies(const CudaMatch *c)
{
    return few_pixel_takes(&c->m) && few_takes(c) && few_fits(c, few_parts_of(&c->m));
}

template <bool HALF, int PARTS> static void launch(SnlsContext *ctx, const CudaFew *p)
{
    const unsigned blocks = snls_cuda_blocks(p->groups, 1, 0);
    const size_t bytes = (size_t)(FEW_WARPS * p->bytes);
    if (p->c.m.k <= FEW_SHORT) search_few_pixels<HALF, PARTS, FEW_SHORT><<<blocks, 32 * FEW_WARPS, bytes, snls_cuda_stream(ctx)>>>(*p);
    else search_few_pixels<HALF, PARTS, FEW_LIST><<<blocks, 32 * FEW_WARPS, bytes, snls_cuda_stream(ctx)>>>(*p);
}

SnlsStatus snls_cuda_few_pixel_forward(SnlsContext *ctx, const CudaMatch *c)
{
    const int parts = few_parts_of(&c->m);
    const CudaFew p = few_job(c, parts);
    if (c->m.stride1 == 1 && parts == 8) launch<false, 8>(ctx, &p);
    else if (c->m.stride1 == 1) launch<false, 4>(ctx, &p);
    else if (parts == 8) launch<true, 8>(ctx, &p);
    else launch<true, 4>(ctx, &p);
    return snls_cuda_check(ctx, c->m.op, cudaGetLastError());
}
