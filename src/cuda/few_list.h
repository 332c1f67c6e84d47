/* few_list.h: what searches with few features a head share: windows of the warp's queries, the lists of their lanes, writing. A query has PARTS
 * lanes; of the candidates, whose scores they add up together, each lane lists every PARTS-th. */
#ifndef SNLS_CUDA_FEW_LIST_H
#define SNLS_CUDA_FEW_LIST_H

#include "cuda/few.h"
#include "cuda/match_query.h"

enum { FEW_SHORT = 4, FEW_LIST = 10 };

typedef struct CudaFew {
    CudaMatch c;
    int64_t groups, groups_x, groups_y; /* of a frame: groups_x*groups_y blocks of work */
    int32_t bytes;                      /* of shared memory, for a warp */
    bool    apart;                      /* FewLane's */
} CudaFew;

/* The window of a query in a slot, in shared memory. Cells inside the frame are [first, first + count) along y and x; every second cell
 * has the same fraction. */
typedef struct FewWindow {
    double  at[2];       /* centre */
    int32_t tap[2];      /* of the first cell */
    float   part[2][2];  /* axis: fractions of the first cell and the second */
    int8_t  origin[2];
    uint8_t first[2], count[2], next[2]; /* next: the second cell has its taps one further */
} FewWindow;

template <bool HALF> static __device__ __forceinline__ void few_axis(const SnlsMatch *m, double centre, int64_t origin, int64_t n, int axis, FewWindow *w)
{
    int64_t first, end;
    snls_match_valid_run(centre, m->stride1, origin, m->side, n, &first, &end);
    const double place = snls_window_place(centre, m->stride1, first, origin), tap = floor(place);
    const double second = snls_window_place(centre, m->stride1, first + 1, origin), beyond = floor(second);
    w->at[axis] = centre;
    w->tap[axis] = (int32_t)tap;
    w->part[axis][0] = (float)(place - tap);
    w->part[axis][1] = (float)(second - beyond);
    w->origin[axis] = (int8_t)origin;
    w->first[axis] = (uint8_t)first;
    w->count[axis] = (uint8_t)(end - first);
    w->next[axis] = HALF && beyond > tap;
}

/* The best so far, as keys in two halves (best.h); empty places are all ones. */
template <int LIST> struct FewBest { uint32_t order[LIST], id[LIST]; };

template <int LIST> static __device__ __forceinline__ void few_clear(FewBest<LIST> *best)
{
#pragma unroll
    for (int i = 0; i < LIST; i++) best->order[i] = best->id[i] = UINT32_MAX;
}

/* Candidates come in the order of their numbers: behind equals. */
template <int LIST> static __device__ __forceinline__ void few_insert(FewBest<LIST> *best, uint32_t order, uint32_t id)
{
    bool before[LIST];
#pragma unroll
    for (int i = 0; i < LIST; i++) before[i] = order < best->order[i];
#pragma unroll
    for (int i = LIST - 1; i >= 0; i--) {
        const int above = i > 0 ? i - 1 : 0;
        best->id[i] = i > 0 && before[above] ? best->id[above] : before[i] ? id : best->id[i];
        best->order[i] = i > 0 ? min(best->order[i], max(best->order[above], order)) : min(best->order[i], order);
    }
}

/* Shares of a row of scores exchanged: of every PARTS columns a lane gets the sum of the one that is its own. */
template <int PARTS, int COLUMNS> static __device__ __forceinline__ void few_share(const float (&share)[COLUMNS], int part, float (&total)[(COLUMNS + PARTS - 1) / PARTS])
{
    constexpr int OWN = (COLUMNS + PARTS - 1) / PARTS;
    float all[OWN * PARTS];
#pragma unroll
    for (int i = 0; i < OWN * PARTS; i++) all[i] = i < COLUMNS ? share[i < COLUMNS ? i : 0] : 0;
#pragma unroll
    for (int bit = 1; bit < PARTS; bit *= 2)
#pragma unroll
        for (int i = 0; i < OWN * PARTS / (2 * bit); i++) {
            const bool upper = part & bit;
            const float mine = upper ? all[2 * i + 1] : all[2 * i], other = upper ? all[2 * i] : all[2 * i + 1];
            all[i] = mine + __shfl_xor_sync(SNLS_WARP, other, bit);
        }
#pragma unroll
    for (int i = 0; i < OWN; i++) total[i] = all[i];
}

/* One candidate of each lane; valid: it is one. Whether its score is finite. */
template <bool L2, int LIST> static __device__ __forceinline__ bool few_offer(float dist, bool valid, uint32_t id, FewBest<LIST> *best)
{
    const uint32_t order = valid ? (uint32_t)(snls_key(dist, !L2, 0) >> 32) : UINT32_MAX;
    if (__any_sync(SNLS_WARP, order < best->order[LIST - 1])) few_insert(best, order, id);
    return !valid || fabsf(dist) < INFINITY;
}

/* How columns of pixels lie between taps. */
template <int TAPS> struct FewColumns {
    int32_t at[TAPS];
    float   even[2], odd[3];
};

template <int TAPS> static __device__ __forceinline__ FewColumns<TAPS> few_columns(const CudaMatch *c, const FewWindow *w)
{
    FewColumns<TAPS> x;
#pragma unroll
    for (int i = 0; i < TAPS; i++) x.at[i] = few_near(w->tap[1] - (int)c->m.ps / 2 + i, (int)c->m.width) * (int32_t)c->key.step[3];
    const float f = w->part[1][0], g = w->part[1][1];
    x.even[0] = 1 - f;
    x.even[1] = f;
    x.odd[0] = w->next[1] ? 0 : 1 - g;
    x.odd[1] = w->next[1] ? 1 - g : g;
    x.odd[2] = w->next[1] ? g : 0;
    return x;
}

/* A row of pixels between two rows of the key, f below the upper one. */
template <bool HALF, int TAPS, int PLACES>
static __device__ __forceinline__ void few_row(const float4 *above, const float4 *below, float f, const FewColumns<TAPS> *x, float4 (&key)[PLACES])
{
    float4 taps[TAPS];
#pragma unroll
    for (int i = 0; i < TAPS; i++) taps[i] = few_blend(1 - f, above[x->at[i]], f, below[x->at[i]]);
#pragma unroll
    for (int i = 0; i < PLACES; i++) {
        const int tap = HALF ? i / 2 : i;
        if (HALF && i % 2) {
            key[i] = few_blend(x->odd[0], taps[tap], x->odd[1], taps[tap + 1]);
            snls_cuda_axpy(&key[i], x->odd[2], taps[tap + 2]);
        } else {
            key[i] = few_blend(x->even[0], taps[tap], x->even[1], taps[tap + 1]);
        }
    }
}

/* Query number n of a row, with its heads. */
static __device__ __forceinline__ void few_take(const SnlsMatch *m, int32_t n, FewLane *q)
{
    const int32_t last = (int32_t)(m->columns * m->heads) - 1, inner = (int32_t)(q->apart ? m->columns : m->heads);
    q->there = n <= last;
    n = min(n, last);
    const int32_t outer = n / inner, rest = n - outer * inner;
    q->j = q->apart ? rest : outer;
    q->head = q->apart ? outer : rest;
}

/* The windows of the warp's queries in all slots, [query][slot]. */
template <bool HALF> static __device__ __forceinline__ void few_windows(const SnlsMatch *m, const FewLane *q, int32_t first, int queries, FewWindow *windows)
{
    const int slots = (int)m->windows;
    for (int at = (int)threadIdx.x % 32; at < queries * slots; at += 32) {
        FewLane whose = *q;
        few_take(m, first + at / slots, &whose);
        const SnlsQuery query = few_query(&whose);
        const SnlsMatchWindow w = snls_match_window(m, &query, at % slots);
        FewWindow *to = &windows[at];
        few_axis<HALF>(m, w.y, w.origin_y, m->height, 0, to);
        few_axis<HALF>(m, w.x, w.origin_x, m->width, 1, to);
        if (!w.valid) to->count[0] = to->count[1] = 0;
    }
    __syncwarp();
}

/* Place `kept` of a query: candidate number id, or none. */
static __device__ __forceinline__ void few_write(const SnlsMatch *m, const SnlsQuery *q, int64_t kept, uint2 found, const FewWindow *windows)
{
    const uint32_t slot = found.x / (uint32_t)(m->side * m->side);
    const uint64_t key = (uint64_t)found.y << 32 | found.x;
    SnlsMatchWindow w = {};
    if (key != SNLS_NO_KEY) {
        const FewWindow *from = &windows[slot];
        w.frame = snls_slot_frame(q->t, slot, m->wt, m->frames);
        w.y = from->at[0];
        w.x = from->at[1];
        w.origin_y = from->origin[0];
        w.origin_x = from->origin[1];
    }
    snls_cuda_write(m, q, kept, key, &w);
}

/* Lists of the lanes of a query become one, best first, which the lanes of the warp write together. found: LIST for each query. */
template <int PARTS, int LIST>
static __device__ __forceinline__ void few_finish(const SnlsMatch *m, const FewLane *q, int32_t first, int64_t kept, FewBest<LIST> *best, const FewWindow *windows, uint2 *found)
{
    const int lane = (int)threadIdx.x % 32, k = (int)m->k;
    __syncwarp();
#pragma unroll 1
    for (int place = 0; place < k; place++) {
        uint32_t order = best->order[0], id = best->id[0];
#pragma unroll
        for (int bit = 1; bit < PARTS; bit *= 2) {
            const uint32_t other = __shfl_xor_sync(SNLS_WARP, order, bit), whose = __shfl_xor_sync(SNLS_WARP, id, bit);
            const bool before = other < order || (other == order && whose < id);
            order = before ? other : order;
            id = before ? whose : id;
        }
        if (q->part == 0) found[lane / PARTS * LIST + place] = make_uint2(id, order);
        const bool own = id == best->id[0];
#pragma unroll
        for (int i = 0; i + 1 < LIST; i++) {
            best->order[i] = own ? best->order[i + 1] : best->order[i];
            best->id[i] = own ? best->id[i + 1] : best->id[i];
        }
        if (own) best->order[LIST - 1] = best->id[LIST - 1] = UINT32_MAX;
    }
    __syncwarp();
    for (int at = lane; at < 32 / PARTS * k; at += 32) {
        FewLane whose = *q;
        few_take(m, first + at / k, &whose);
        const SnlsQuery query = few_query(&whose);
        if (whose.there) few_write(m, &query, kept + at % k, found[at / k * LIST + at % k], windows + at / k * m->windows);
    }
    __syncwarp();
    few_clear(best);
}

/* Queries with scores that are not finite, again by the definition. Apart: they are rare. those: a bit for each lane; list: room for more
 * than 32 neighbours (best.h). */
static __device__ __noinline__ void few_again(const CudaMatch *c, FewLane q, int parts, unsigned those, uint64_t *list)
{
    const int lane = (int)threadIdx.x % 32;
    CudaBest best = {list, 0, 0, c->k};
    while (those) {
        const int from = __ffs(those) - 1;
        those &= ~(((1u << parts) - 1) << from / parts * parts); /* the lanes of a query */
        const SnlsQuery query = {q.b, __shfl_sync(SNLS_WARP, q.head, from), q.t, q.i, __shfl_sync(SNLS_WARP, q.j, from)};
        snls_cuda_match_query(c, &query, &best, lane);
    }
}

/* The queries of this warp in a block of work; false: it has none. first: number of its first query in the row. */
template <int PARTS> static __device__ __forceinline__ bool few_lane(const CudaFew *p, int64_t group, FewLane *q, int32_t *first)
{
    const SnlsMatch *m = &p->c.m;
    const int lane = (int)threadIdx.x % 32;
    const int64_t plane = group / (p->groups_x * p->groups_y), in_plane = group - plane * p->groups_x * p->groups_y;
    q->b = (int32_t)(plane / m->frames);
    q->t = (int32_t)(plane % m->frames);
    q->i = (int32_t)(in_plane / p->groups_x) * FEW_WARPS + (int)threadIdx.x / 32;
    q->part = lane % PARTS;
    q->apart = p->apart;
    *first = (int32_t)(in_plane % p->groups_x) * (32 / PARTS);
    few_take(m, *first + lane / PARTS, q);
    return q->i < m->rows;
}

/* Shared memory of a warp, with lists for each of its queries. */
static inline int64_t few_bytes(const CudaMatch *c, int parts) { return 32 / parts * (c->m.windows * (int64_t)sizeof(FewWindow) + FEW_LIST * (int64_t)sizeof(uint2)); }

static inline CudaFew few_job(const CudaMatch *c, int parts)
{
    const SnlsMatch *m = &c->m;
    CudaFew p = {.c = *c};
    p.groups_x = (m->columns * m->heads + 32 / parts - 1) / (32 / parts);
    p.groups_y = (m->rows + FEW_WARPS - 1) / FEW_WARPS;
    p.groups = m->batch * m->frames * p.groups_x * p.groups_y;
    p.bytes = (int32_t)few_bytes(c, parts);
    return p;
}

/* What all searches with few features take. */
static inline bool few_takes(const CudaMatch *c)
{
    const SnlsMatch *m = &c->m;
    if (m->refine || m->all || m->anchor != SNLS_ANCHOR_NONE || m->exclude == SNLS_EXCLUDE_SELF || (m->stride1 != 0.5 && m->stride1 != 1)) return false;
    if (m->height > INT32_MAX / 4 || m->width > INT32_MAX / 4 || m->columns * m->heads > INT32_MAX / 2 || m->batch > INT32_MAX || m->frames > INT32_MAX) return false;
    return few_is_small(m);
}

/* Lists of the lanes are in registers, all else in the shared memory that needs no asking for. */
static inline bool few_fits(const CudaMatch *c, int parts) { return c->m.k <= FEW_LIST && FEW_WARPS * few_bytes(c, parts) <= 48 << 10; }

#endif
