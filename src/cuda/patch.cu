/* patch.cu: pull for patches of three by three around every pixel (dilation 1, channels side by side). Seen from a query, the nine
 * bilinear reads of a neighbour's patch need 16 pixels of the source instead of 36, and its nine sums stay in registers over all
 * neighbours. A block walks down a strip of 32 columns of queries, a group of lanes a column; after each row of queries the row
 * of pixels above is complete: the sums that three columns have for a pixel meet in shared memory, and its owner writes it.
 * The two outer columns belong to the strips beside. */
#include "cuda/aggregate.cuh"

enum { COLUMNS = 32, OWNED = COLUMNS - 2, LANES_MAX_LOG2 = 3 };

/* How a neighbour's patch can be read: not at all; all 16 pixels inside and no weight 0; nine pixels inside and whole numbers; the
 * same two over the border, where the mirrored frame goes on (a read between two pixels is the same there); by the rules, tap by tap
 * (border drop, tiny frames, an infinite weight, and where only some taps weigh 0 and so must not be read). */
typedef enum PatchKind { PATCH_NONE, PATCH_REAL, PATCH_WHOLE, PATCH_REAL_EDGE, PATCH_WHOLE_EDGE, PATCH_ODD } PatchKind;

typedef struct __align__(16) PatchPlace {
    double y, x;
    int64_t base; /* element of the patch's first pixel, channel 0 of the head */
    float fy, fx, weight; /* fractions folded */
    int32_t kind, frame, unused;
} PatchPlace;
enum { UNITS = sizeof(PatchPlace) / sizeof(float4) };

static __device__ __forceinline__ void find_place(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t k, PatchPlace *p)
{
    const SnlsAggregate *a = &job->a;
    const int32_t height = (int32_t)a->height, width = (int32_t)a->width;
    SnlsAggNear n;
    p->kind = PATCH_NONE;
    if (!o->valid || k >= a->neighbours || !snls_agg_near(job, snls_agg_at(&a->offset, o->offsets, o->i, o->j, k), o->t, o->i, o->j, &n)) return;
    const int32_t y = (int32_t)n.y, x = (int32_t)n.x;
    const float fy = snls_fold(n.y - (double)y), fx = snls_fold(n.x - (double)x);
    p->y = n.y;
    p->x = n.x;
    p->frame = n.frame;
    p->fy = fy;
    p->fx = fx;
    const float weight = snls_agg_weight(job, snls_agg_at(&a->weight, o->weights, o->i, o->j, k));
    p->weight = weight;
    p->base = o->from + n.frame * job->from.stride[1] + (y - 1) * job->from.stride[2] + (x - 1) * job->from.stride[3];
    const bool nine = y >= 1 && y + 1 < height && x >= 1 && x + 1 < width, sixteen = nine && y + 2 < height && x + 2 < width;
    const bool real = fy != 0 && fx != 0, whole = fy == 0 && fx == 0, edge = !a->drop && height > 2 && width > 2;
    p->kind = isinf(weight) ? PATCH_ODD : real && sixteen ? PATCH_REAL : whole && nine ? PATCH_WHOLE : edge && real ? PATCH_REAL_EDGE : edge && whole ? PATCH_WHOLE_EDGE : PATCH_ODD;
}

/* SIDE rows and columns of pixels (4 for real places, 3 for whole ones) around the neighbour, into the nine sums. */
template <int DTYPE, int SIDE, bool EDGE>
static __device__ __forceinline__ void add_patch(float4 sum[3][3], const SnlsAggJob *job, const SnlsAggOwner *o, const PatchPlace *p, int64_t first)
{
    const int64_t down = job->from.stride[2], right = job->from.stride[3];
    const float up = p->weight * snls_fold_low(p->fy), low = p->weight * snls_fold_high(p->fy); /* of the rows of taps */
    const float c00 = SIDE == 3 ? p->weight : up * snls_fold_low(p->fx), c01 = up * snls_fold_high(p->fx), c10 = low * snls_fold_low(p->fx), c11 = low * snls_fold_high(p->fx);
    const int32_t y = (int32_t)p->y - 1, x = (int32_t)p->x - 1;
    const int64_t frame = o->from + p->frame * job->from.stride[1] + first;
    int64_t columns[SIDE];
#pragma unroll
    for (int c = 0; c < SIDE; c++) columns[c] = (EDGE ? snls_agg_mirror(x + c, (int32_t)job->a.width) : c) * right;
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
        const int64_t at = EDGE ? frame + snls_agg_mirror(y + r, (int32_t)job->a.height) * down : p->base + first + r * down;
        float4 v[SIDE];
#pragma unroll
        for (int c = 0; c < SIDE; c++) v[c] = snls_agg_load4<DTYPE, true>(job->from.data, at + columns[c], 1, 4);
#pragma unroll
        for (int c = 0; c < 3; c++) {
            if (r < 3) snls_agg_fma(&sum[r % 3][c], c00, v[c]);
            if (SIDE == 4 && r < 3) snls_agg_fma(&sum[r % 3][c], c01, v[(c + 1) % SIDE]);
            if (SIDE == 4 && r > 0) snls_agg_fma(&sum[(r + 2) % 3][c], c10, v[c]);
            if (SIDE == 4 && r > 0) snls_agg_fma(&sum[(r + 2) % 3][c], c11, v[(c + 1) % SIDE]);
        }
    }
}

/* One patch pixel by the rules: place (y, x) of the frame that begins at element `frame`. Apart, so that what it needs does not
 * crowd the registers of the usual case. */
typedef struct OddFrame { const void *data; int64_t down, right; int32_t height, width; bool drop; } OddFrame;

template <int DTYPE> static __device__ __noinline__ float4 odd_pixel(OddFrame f, int64_t frame, double y, double x)
{
    const SnlsAggAxis v = snls_agg_axis(y, f.height, f.drop), u = snls_agg_axis(x, f.width, f.drop);
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int tap = 0; tap < 4; tap++) {
        const float wy = v.weight[tap / 2], wx = u.weight[tap % 2];
        if (!v.inside || !u.inside || wy == 0 || wx == 0) continue;
        snls_agg_fma(&sum, wy * wx, snls_agg_load4<DTYPE, true>(f.data, frame + v.at[tap / 2] * f.down + u.at[tap % 2] * f.right, 1, 4));
    }
    return sum;
}

template <int DTYPE>
static __device__ __forceinline__ void add_odd(float4 sum[3][3], const SnlsAggJob *job, const SnlsAggOwner *o, const PatchPlace *p, int64_t first)
{
    const OddFrame f = {job->from.data, job->from.stride[2], job->from.stride[3], (int32_t)job->a.height, (int32_t)job->a.width, job->a.drop};
    const int64_t frame = o->from + p->frame * job->from.stride[1] + first;
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
        for (int c = 0; c < 3; c++) {
            const double y = p->y + (r - 1), x = p->x + (c - 1);
            if (f.drop && !(y >= 0 && y <= f.height - 1 && x >= 0 && x <= f.width - 1)) continue; /* nothing, even times infinity */
            snls_agg_fma(&sum[r][c], p->weight, odd_pixel<DTYPE>(f, frame, y, x));
        }
}

/* All neighbours of the query, into the sums of its patch. */
template <int DTYPE>
static __device__ __forceinline__ void add_query(float4 sum[3][3], const SnlsAggJob *job, const SnlsAggOwner *o, PatchPlace *group, int64_t first)
{
    const int lanes = 1 << job->lanes_log2;
    const int32_t all = (int32_t)job->a.neighbours;
    for (int32_t begin = 0; begin < all; begin += lanes) {
        __syncwarp();
        find_place(job, o, begin + o->lane, &group[o->lane]);
        __syncwarp();
        const int n = min(all - begin, lanes);
        if (first >= job->a.features) continue;
        for (int s = 0; s < n; s++) {
            const PatchPlace *p = &group[s];
            if (p->kind == PATCH_REAL) add_patch<DTYPE, 4, false>(sum, job, o, p, first);
            else if (p->kind == PATCH_WHOLE) add_patch<DTYPE, 3, false>(sum, job, o, p, first);
            else if (p->kind == PATCH_REAL_EDGE) add_patch<DTYPE, 4, true>(sum, job, o, p, first);
            else if (p->kind == PATCH_WHOLE_EDGE) add_patch<DTYPE, 3, true>(sum, job, o, p, first);
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
    snls_agg_bases(job, &o);
    return o;
}

/* Row i of the pixels: three columns meet. */
static __device__ __forceinline__ void write_row(const SnlsAggJob *job, const SnlsAggOwner *o, int32_t i, int64_t first, const float4 *meet)
{
    const SnlsAggregate *a = &job->a;
    const int lanes = 1 << job->lanes_log2, column = (int)threadIdx.x >> job->lanes_log2, here = (int)threadIdx.x;
    if (column < 1 || column > OWNED || o->j >= a->width || first >= a->features) return;
    const float4 left = meet[2 * COLUMNS * lanes + here - lanes], middle = meet[COLUMNS * lanes + here], right = meet[here + lanes];
    const float by = snls_agg_cover(a, i, (int32_t)a->height) * snls_agg_cover(a, o->j, (int32_t)a->width);
    const float4 v = make_float4((left.x + middle.x + right.x) / by, (left.y + middle.y + right.y) / by, (left.z + middle.z + right.z) / by,
                                 (left.w + middle.w + right.w) / by);
    const int64_t at = o->to + o->t * job->to.stride[1] + i * job->to.stride[2] + o->j * job->to.stride[3] + first * job->to.stride[4];
    snls_agg_store(&job->to, at, job->to.stride[4], 4, v, job->add);
}

template <int DTYPE>
static __global__ void __launch_bounds__(COLUMNS << LANES_MAX_LOG2, 2) patch_kernel(const __grid_constant__ SnlsAggJob job, const Strips strips)
{
    extern __shared__ float4 shared[]; /* a place for each thread, padded; then the three sums of every thread */
    float4 *const meet = shared + COLUMNS * ((UNITS << job.lanes_log2) | 1);
    PatchPlace *const group = (PatchPlace *)snls_agg_records(shared, job.lanes_log2, UNITS);
    int64_t top;
    SnlsAggOwner o = strip_column(&job, &strips, &top);
    const int64_t first = 4 * (((int64_t)o.chunk << job.lanes_log2) + o.lane);
    const int64_t end = top + strips.high < job.a.height ? top + strips.high : job.a.height;
    const bool in_frame = o.j >= 0 && o.j < job.a.width;
    float4 sum[3][3] = {};
    for (int64_t i = top - 1; i <= end; i++) { /* rows of queries: they reach one above and one below */
        o.i = (int32_t)i;
        o.valid = in_frame && i >= 0 && i < job.a.height;
        add_query<DTYPE>(sum, &job, &o, group, first);
        __syncthreads();
#pragma unroll
        for (int c = 0; c < 3; c++) {
            meet[c * blockDim.x + threadIdx.x] = sum[0][c];
            sum[0][c] = sum[1][c];
            sum[1][c] = sum[2][c];
            sum[2][c] = make_float4(0, 0, 0, 0);
        }
        __syncthreads();
        if (i > top) write_row(&job, &o, (int32_t)i - 1, first, meet);
    }
}

/* The height that wastes least: every strip does two rows more, and the last round of blocks, half of it on average, finds few left. */
static int64_t strip_height(const SnlsAggregate *a, int64_t strips_in_a_row, int64_t at_once)
{
    int64_t best = 4;
    double least = INFINITY;
    for (int64_t high = 4; high <= 64; high += 2) {
        const int64_t blocks = strips_in_a_row * ((a->height + high - 1) / high);
        const double rounds = (double)blocks / (double)at_once, cost = (fmax(rounds, 1) + 0.5) * (double)(high + 2);
        if (cost < least) { least = cost; best = high; }
    }
    return best;
}

template <int DTYPE> static SnlsStatus launch(SnlsContext *ctx, const SnlsAggJob *job)
{
    const SnlsAggregate *a = &job->a;
    const int threads = COLUMNS << job->lanes_log2;
    const size_t shared = ((size_t)COLUMNS * ((UNITS << job->lanes_log2) | 1) + 3 * (size_t)threads) * sizeof(float4);
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
    job.lanes_log2 = 0; /* given may be laid out for wider groups: gradients by weight come before that by value */
    while (job.lanes_log2 < LANES_MAX_LOG2 && (fours % (2 << job.lanes_log2) == 0 || fours > 4 << job.lanes_log2)) job.lanes_log2++;
    job.chunks = snls_divisor((fours + (1 << job.lanes_log2) - 1) >> job.lanes_log2);
    if (job.from.dtype == SNLS_F32) return launch<SNLS_F32>(ctx, &job);
    if (job.from.dtype == SNLS_F16) return launch<SNLS_F16>(ctx, &job);
    return launch<SNLS_BF16>(ctx, &job);
}
