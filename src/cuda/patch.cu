/* patch.cu: pull for patches of three by three around every pixel (dilation 1, channels side by side). Seen from a query, the nine
 * bilinear reads of a neighbour's patch need 16 pixels of the source instead of 36, and its nine sums stay in registers over all
 * neighbours. A block walks down a strip of 32 columns of queries, a group of lanes a column; after each row of queries the row
 * of pixels above is complete: the sums that three columns have for a pixel meet in shared memory, and its owner writes it.
 * The two outer columns belong to the strips beside. */
#include "cuda/aggregate.cuh"

enum { COLUMNS = 32, OWNED = COLUMNS - 2, LANES_MAX_LOG2 = 3 };

/* How a neighbour's patch can be read: not at all; all 16 pixels inside and no weight 0; nine pixels inside and whole numbers; by
 * the rules, tap by tap (borders, and where only some taps weigh 0 and so must not be read). */
typedef enum PatchKind { PATCH_NONE, PATCH_REAL, PATCH_WHOLE, PATCH_ODD } PatchKind;

typedef struct __align__(16) PatchPlace {
    double y, x;
    int64_t base; /* element of the patch's first pixel, channel 0 of the head */
    float fy, fx, weight; /* fractions folded */
    int32_t kind, frame, unused;
} PatchPlace;

static __device__ __noinline__ PatchPlace find_place(const SnlsAggJob *job, const SnlsAggOwner *o, int64_t k)
{
    const SnlsAggregate *a = &job->a;
    PatchPlace p;
    p.kind = PATCH_NONE;
    if (!o->valid || k >= a->neighbours) return p;
    const SnlsNeighbour n = snls_neighbour(a, snls_at6(&a->offset, o->b, o->head, o->t, o->i, o->j, k), o->t, o->i, o->j);
    if (!n.valid) return p;
    const int64_t y = snls_floor_inside(n.y), x = snls_floor_inside(n.x);
    p.y = n.y;
    p.x = n.x;
    p.frame = (int32_t)n.frame;
    p.fy = snls_agg_fold(n.y - (double)y);
    p.fx = snls_agg_fold(n.x - (double)x);
    p.weight = __ldg((const float *)a->weight.data + snls_at6(&a->weight, o->b, o->head, o->t, o->i, o->j, k));
    p.base = snls_at5(&job->from, o->b, n.frame, y - 1, x - 1, o->head * a->features);
    const bool real = p.fy != 0 && p.fx != 0, whole = p.fy == 0 && p.fx == 0;
    const bool nine = y >= 1 && y + 1 < a->height && x >= 1 && x + 1 < a->width;
    const bool sixteen = nine && y + 2 < a->height && x + 2 < a->width;
    p.kind = real && sixteen ? PATCH_REAL : whole && nine ? PATCH_WHOLE : PATCH_ODD;
    return p;
}

template <int DTYPE> static __device__ __forceinline__ void add_real(float4 sum[3][3], const SnlsAggJob *job, const PatchPlace *p, int64_t first)
{
    const int64_t down = job->from.stride[2], right = job->from.stride[3];
    const float up = p->weight * snls_agg_low(p->fy), low = p->weight * snls_agg_high(p->fy); /* of the rows of taps */
    const float c00 = up * snls_agg_low(p->fx), c01 = up * snls_agg_high(p->fx), c10 = low * snls_agg_low(p->fx), c11 = low * snls_agg_high(p->fx);
    int64_t at = p->base + first;
#pragma unroll
    for (int r = 0; r < 4; r++, at += down) {
        float4 v[4];
#pragma unroll
        for (int c = 0; c < 4; c++) v[c] = snls_agg_load4<DTYPE, true>(job->from.data, at + c * right, 1, 4);
#pragma unroll
        for (int c = 0; c < 3; c++) {
            if (r < 3) snls_agg_fma(&sum[r][c], c00, v[c]);
            if (r < 3) snls_agg_fma(&sum[r][c], c01, v[c + 1]);
            if (r > 0) snls_agg_fma(&sum[r - 1][c], c10, v[c]);
            if (r > 0) snls_agg_fma(&sum[r - 1][c], c11, v[c + 1]);
        }
    }
}

template <int DTYPE> static __device__ __forceinline__ void add_whole(float4 sum[3][3], const SnlsAggJob *job, const PatchPlace *p, int64_t first)
{
    int64_t at = p->base + first;
#pragma unroll
    for (int r = 0; r < 3; r++, at += job->from.stride[2])
#pragma unroll
        for (int c = 0; c < 3; c++) snls_agg_fma(&sum[r][c], p->weight, snls_agg_load4<DTYPE, true>(job->from.data, at + c * job->from.stride[3], 1, 4));
}

/* One patch pixel by the rules. Apart, so that what it needs does not crowd the registers of the usual case. */
template <int DTYPE>
static __device__ __noinline__ float4 odd_pixel(const SnlsAggJob *job, const SnlsAggOwner *o, const PatchPlace *p, int r, int c, int64_t first)
{
    const SnlsAggregate *a = &job->a;
    const int64_t origin = snls_at5(&job->from, o->b, p->frame, 0, 0, o->head * a->features) + first;
    const SnlsAggAxis v = snls_agg_axis(p->y + (double)(r - 1), a->height, a->drop), u = snls_agg_axis(p->x + (double)(c - 1), a->width, a->drop);
    float4 sum = make_float4(0, 0, 0, 0);
    for (int tap = 0; tap < 4; tap++) {
        const float wy = tap / 2 ? v.weight[1] : v.weight[0], wx = tap % 2 ? u.weight[1] : u.weight[0];
        if (!v.inside || !u.inside || wy == 0 || wx == 0) continue;
        const int64_t at = origin + (tap / 2 ? v.at[1] : v.at[0]) * job->from.stride[2] + (tap % 2 ? u.at[1] : u.at[0]) * job->from.stride[3];
        snls_agg_fma(&sum, wy * wx * p->weight, snls_agg_load4<DTYPE, true>(job->from.data, at, 1, 4));
    }
    return sum;
}

template <int DTYPE>
static __device__ __forceinline__ void add_odd(float4 sum[3][3], const SnlsAggJob *job, const SnlsAggOwner *o, const PatchPlace *p, int64_t first)
{
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
        for (int c = 0; c < 3; c++) snls_agg_fma(&sum[r][c], 1, odd_pixel<DTYPE>(job, o, p, r, c, first));
}

/* All neighbours of the query, into the sums of its patch. */
template <int DTYPE>
static __device__ __forceinline__ void add_query(float4 sum[3][3], const SnlsAggJob *job, const SnlsAggOwner *o, PatchPlace *places, int64_t first)
{
    const int lanes = 1 << job->lanes_log2;
    const PatchPlace *group = places + (threadIdx.x & ~(unsigned)(lanes - 1));
    for (int64_t begin = 0; begin < job->a.neighbours; begin += lanes) {
        __syncwarp();
        places[threadIdx.x] = find_place(job, o, begin + o->lane);
        __syncwarp();
        const int n = job->a.neighbours - begin < lanes ? (int)(job->a.neighbours - begin) : lanes;
        if (first >= job->a.features) continue;
        for (int s = 0; s < n; s++) {
            const PatchPlace *p = &group[s];
            if (p->kind == PATCH_REAL) add_real<DTYPE>(sum, job, p, first);
            else if (p->kind == PATCH_WHOLE) add_whole<DTYPE>(sum, job, p, first);
            else if (p->kind == PATCH_ODD) add_odd<DTYPE>(sum, job, o, p, first);
        }
    }
}

/* A strip: which, and how high. */
typedef struct Strips { int64_t across, down, high; } Strips;

static __device__ __forceinline__ SnlsAggOwner strip_column(const SnlsAggJob *job, const Strips *strips, int64_t *top)
{
    const SnlsAggregate *a = &job->a;
    SnlsAggOwner o;
    int64_t rest = blockIdx.x;
    o.chunk = (int32_t)(rest % job->chunks.divisor);
    rest /= job->chunks.divisor;
    o.j = (int32_t)(rest % strips->across * OWNED) - 1 + ((int32_t)threadIdx.x >> job->lanes_log2);
    rest /= strips->across;
    *top = rest % strips->down * strips->high;
    rest /= strips->down;
    o.t = (int32_t)(rest % a->frames);
    rest /= a->frames;
    o.head = (int32_t)(rest % a->heads);
    o.b = (int32_t)(rest / a->heads);
    o.lane = (int32_t)threadIdx.x & ((1 << job->lanes_log2) - 1);
    return o;
}

/* Row i of the pixels: three columns meet. */
static __device__ __forceinline__ void write_row(const SnlsAggJob *job, const SnlsAggOwner *o, int64_t i, int64_t first, const float4 *meet)
{
    const SnlsAggregate *a = &job->a;
    const int lanes = 1 << job->lanes_log2, column = (int)threadIdx.x >> job->lanes_log2, here = (int)threadIdx.x;
    if (column < 1 || column > OWNED || o->j >= a->width || first >= a->features) return;
    const float4 left = meet[2 * COLUMNS * lanes + here - lanes], middle = meet[COLUMNS * lanes + here], right = meet[here + lanes];
    const float by = snls_agg_cover(a, i, a->height) * snls_agg_cover(a, o->j, a->width);
    const float4 v = make_float4((left.x + middle.x + right.x) / by, (left.y + middle.y + right.y) / by, (left.z + middle.z + right.z) / by,
                                 (left.w + middle.w + right.w) / by);
    const int64_t at = snls_at5(&job->to, o->b, o->t, i, o->j, o->head * a->features + first);
    snls_agg_store(&job->to, at, job->to.stride[4], 4, v, job->add);
}

template <int DTYPE>
static __global__ void __launch_bounds__(COLUMNS << LANES_MAX_LOG2, 2) patch_kernel(const __grid_constant__ SnlsAggJob job, const Strips strips)
{
    extern __shared__ PatchPlace places[]; /* one a thread; then the three sums of every thread */
    float4 *const meet = (float4 *)(places + blockDim.x);
    int64_t top;
    SnlsAggOwner o = strip_column(&job, &strips, &top);
    const int64_t first = 4 * (((int64_t)o.chunk << job.lanes_log2) + o.lane);
    const int64_t end = top + strips.high < job.a.height ? top + strips.high : job.a.height;
    const bool in_frame = o.j >= 0 && o.j < job.a.width;
    float4 sum[3][3] = {};
    for (int64_t i = top - 1; i <= end; i++) { /* rows of queries: they reach one above and one below */
        o.i = (int32_t)i;
        o.valid = in_frame && i >= 0 && i < job.a.height;
        add_query<DTYPE>(sum, &job, &o, places, first);
        __syncthreads();
#pragma unroll
        for (int c = 0; c < 3; c++) {
            meet[c * blockDim.x + threadIdx.x] = sum[0][c];
            sum[0][c] = sum[1][c];
            sum[1][c] = sum[2][c];
            sum[2][c] = make_float4(0, 0, 0, 0);
        }
        __syncthreads();
        if (i > top) write_row(&job, &o, i - 1, first, meet);
    }
}

/* The height that wastes least: every strip does two rows more, and a last round of blocks may find few left. */
static int64_t strip_height(const SnlsAggregate *a, int64_t strips_in_a_row, int64_t at_once)
{
    int64_t best = 8;
    double least = INFINITY;
    for (int64_t high = 8; high <= 64; high += 4) {
        const int64_t blocks = strips_in_a_row * ((a->height + high - 1) / high);
        const double cost = (double)((blocks + at_once - 1) / at_once) * (double)(high + 2);
        if (cost < least) { least = cost; best = high; }
    }
    return best;
}

template <int DTYPE> static SnlsStatus launch(SnlsContext *ctx, const SnlsAggJob *job)
{
    const SnlsAggregate *a = &job->a;
    const int threads = COLUMNS << job->lanes_log2;
    const size_t shared = (size_t)threads * (sizeof(PatchPlace) + 3 * sizeof(float4));
    int resident = 1;
    SNLS_CUDA_TRY(ctx, a->op, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, patch_kernel<DTYPE>, threads, shared));
    Strips strips = {(a->width + OWNED - 1) / OWNED, 0, 0};
    const int64_t planes = a->batch * a->heads * a->frames * job->chunks.divisor;
    strips.high = strip_height(a, strips.across * planes, (int64_t)(resident > 0 ? resident : 1) * snls_cuda(ctx)->multiprocessors);
    strips.down = (a->height + strips.high - 1) / strips.high;
    const int64_t blocks = strips.across * strips.down * planes;
    SNLS_REQUIRE(ctx, blocks < INT32_MAX, SNLS_ERR_UNSUPPORTED, "%s: more pixels than backend cuda takes in one call", a->op);
    patch_kernel<DTYPE><<<(unsigned)blocks, threads, shared, snls_cuda_stream(ctx)>>>(*job, strips);
    SNLS_CUDA_LAUNCHED(ctx, a->op);
    return SNLS_OK;
}

SnlsStatus snls_agg_pull_patch(SnlsContext *ctx, const SnlsAggJob *given, bool *done)
{
    SnlsAggJob job = *given;
    const SnlsAggregate *a = &job.a;
    *done = !a->stack && a->ps == 3 && a->stride0 == 1 && a->dilation == 1 && snls_agg_is_vector(a, &job.from, false);
    if (!*done) return SNLS_OK;
    const int64_t fours = a->features / 4;
    while (job.lanes_log2 < LANES_MAX_LOG2 && (fours % (2 << job.lanes_log2) == 0 || fours > 4 << job.lanes_log2)) job.lanes_log2++;
    job.chunks = snls_divisor((fours + (1 << job.lanes_log2) - 1) >> job.lanes_log2);
    if (job.from.dtype == SNLS_F32) return launch<SNLS_F32>(ctx, &job);
    if (job.from.dtype == SNLS_F16) return launch<SNLS_F16>(ctx, &job);
    return launch<SNLS_BF16>(ctx, &job);
}
