/* splat.cu: spread where the order of a sum does not matter (the default mode's gradient by value), for patches of one pixel or three
 * by three, channels side by side in f32. All neighbours that point at the same pixel reach the same (ps+1)^2 pixels: a group of
 * lanes owns the pixel they point at, adds them up in registers, and then adds these sums to the output, once each. */
#include "cuda/spread.cuh"

/* As in patch.cu: REAL: no weight is 0; WHOLE: one tap alone; both with the query's patch inside and under full cover. */
typedef enum SplatKind { SPLAT_NONE, SPLAT_REAL, SPLAT_WHOLE, SPLAT_ODD } SplatKind;

typedef struct __align__(16) SplatEntry {
    int64_t at;            /* destination: element of the patch's first pixel, channel 0 of the head */
    int32_t kind, y, x, unused; /* first pixel of the patch */
    float fy, fx, weight, by; /* fractions folded; by: 1 / full cover */
} SplatEntry;
enum { UNITS = sizeof(SplatEntry) / sizeof(float4) };

static __device__ __forceinline__ void find_entry(const SpreadJob *s, const SnlsAggOwner *o, uint32_t number, SplatEntry *e)
{
    const SnlsAggJob *job = &s->job;
    const SnlsAggregate *a = &job->a;
    const Source q = source_of(s, number);
    const int32_t y = q.i * (int32_t)a->stride0, x = q.j * (int32_t)a->stride0, most = (int32_t)a->ps - 1;
    const int64_t *const by_axis = job->from.stride + (a->stack ? 3 : 1); /* of frames, rows, columns */
    SnlsAggNear n;
    if (!near_of(s, &q, &n)) { e->kind = SPLAT_NONE; return; }
    const float fy = snls_fold(n.y - (double)(int32_t)n.y), fx = snls_fold(n.x - (double)(int32_t)n.x);
    e->fy = fy;
    e->fx = fx;
    e->weight = snls_agg_weight(job, number_at(s, &a->weight, &q));
    e->y = y - s->half;
    e->x = x - s->half;
    e->at = o->from + (a->stack ? q.k * job->from.stride[2] : 0) + q.t * by_axis[0] + (y - s->half) * by_axis[1] + (x - s->half) * by_axis[2];
    e->by = s->by_full_cover * s->by_full_cover;
    const bool inside = (a->stride0 == 1 || a->scatter) && y >= most && y < (int32_t)a->height - most && x >= most && x < (int32_t)a->width - most;
    e->kind = inside && fy != 0 && fx != 0 ? SPLAT_REAL : inside && fy == 0 && fx == 0 ? SPLAT_WHOLE : SPLAT_ODD;
}

/* Destination pixel (i, j), its four taps. */
template <int PS> static __device__ __forceinline__ void add_pixel(float4 sum[PS + 1][PS + 1], int i, int j, const float c[4], float4 g)
{
    snls_agg_fma(&sum[i][j], c[0], g);
    snls_agg_fma(&sum[i][j + 1], c[1], g);
    snls_agg_fma(&sum[i + 1][j], c[2], g);
    snls_agg_fma(&sum[i + 1][j + 1], c[3], g);
}

template <int DTYPE, int PS>
static __device__ __forceinline__ void add_inside(float4 sum[PS + 1][PS + 1], const SpreadJob *s, const SplatEntry *e, int64_t down, int64_t right, int64_t first)
{
    const float w = e->weight * e->by, up = w * snls_fold_low(e->fy), low = w * snls_fold_high(e->fy);
    const float c[4] = {up * snls_fold_low(e->fx), up * snls_fold_high(e->fx), low * snls_fold_low(e->fx), low * snls_fold_high(e->fx)};
    const bool whole = e->kind == SPLAT_WHOLE;
    int64_t at = e->at + first;
    float4 g[PS][PS];
#pragma unroll
    for (int i = 0; i < PS; i++, at += down)
#pragma unroll
        for (int j = 0; j < PS; j++) g[i][j] = snls_agg_load4<DTYPE, true>(s->job.from.data, at + j * right, 1, 4);
#pragma unroll
    for (int i = 0; i < PS; i++)
#pragma unroll
        for (int j = 0; j < PS; j++) {
            if (whole) snls_agg_fma(&sum[i][j], w, g[i][j]); /* the others weigh 0, which NaN does not respect */
            else add_pixel<PS>(sum, i, j, c, g[i][j]);
        }
}

/* Pixel by pixel: only what lies in the frame, each with its own cover, and no tap that weighs 0. */
template <int DTYPE, int PS>
static __device__ __forceinline__ void add_odd(float4 sum[PS + 1][PS + 1], const SpreadJob *s, const SplatEntry *e, int64_t down, int64_t right, int64_t first)
{
    const SnlsAggregate *a = &s->job.a;
    const int32_t height = (int32_t)a->height, width = (int32_t)a->width;
    const float wy[2] = {snls_fold_low(e->fy), snls_fold_high(e->fy)}, wx[2] = {snls_fold_low(e->fx), snls_fold_high(e->fx)};
#pragma unroll
    for (int i = 0; i < PS; i++)
#pragma unroll
        for (int j = 0; j < PS; j++) {
            const int32_t y = e->y + i, x = e->x + j;
            if (y < 0 || y >= height || x < 0 || x >= width) continue;
            const float w = e->weight / (snls_agg_cover(a, y, height) * snls_agg_cover(a, x, width));
            const float4 g = snls_agg_load4<DTYPE, true>(s->job.from.data, e->at + first + i * down + j * right, 1, 4);
#pragma unroll
            for (int tap = 0; tap < 4; tap++)
                if (wy[tap / 2] != 0 && wx[tap % 2] != 0) snls_agg_fma(&sum[i + tap / 2][j + tap % 2], wy[tap / 2] * wx[tap % 2] * w, g);
        }
}

/* The sums go to the pixels around the owner; beyond the border to those that the mirrored frame shows there. */
template <int PS> static __device__ __forceinline__ void write_sums(const SpreadJob *s, const SnlsAggOwner *o, int64_t first, const float4 sum[PS + 1][PS + 1])
{
    const SnlsAggJob *job = &s->job;
    float *const frame = (float *)job->to.data + o->to + o->t * job->to.stride[1] + first;
#pragma unroll
    for (int r = 0; r <= PS; r++)
#pragma unroll
        for (int c = 0; c <= PS; c++) {
            const int32_t y = snls_agg_mirror(o->i + r - PS / 2, (int32_t)job->a.height), x = snls_agg_mirror(o->j + c - PS / 2, (int32_t)job->a.width);
            const float4 v = sum[r][c];
            if (v.x != 0 || v.y != 0 || v.z != 0 || v.w != 0) snls_cuda_add4(frame + y * job->to.stride[2] + x * job->to.stride[3], v);
        }
}

template <int DTYPE, int PS> static __global__ void __launch_bounds__(SNLS_AGG_THREADS, PS == 1 ? 4 : 2) splat_kernel(const __grid_constant__ SpreadJob s)
{
    __shared__ float4 shared[SNLS_AGG_SHARED(UNITS)];
    const SnlsAggJob *job = &s.job;
    const SnlsAggregate *a = &job->a;
    SnlsAggOwner o = snls_agg_owner(job, s.owner_lines, (int32_t)a->width, job->height);
    snls_agg_bases(job, &o);
    const int lanes = 1 << job->lanes_log2, axis = a->stack ? 4 : 2; /* of rows in from */
    const int64_t first = 4 * ((int64_t)o.chunk * lanes + o.lane), cell = (o.line + s.owner - s.targets_at) * a->width + o.j;
    const int64_t down = job->from.stride[axis], right = job->from.stride[axis + 1];
    const uint32_t begin = o.valid ? snls_bin_begin(&s.bins, cell) : 0, count = o.valid ? s.bins.ends[cell] - begin : 0;
    SplatEntry *const group = (SplatEntry *)snls_agg_records(shared, job->lanes_log2, UNITS);
    float4 sum[PS + 1][PS + 1] = {};
    for (uint32_t from = 0; __any_sync(0xffffffffu, from < count); from += (uint32_t)lanes) {
        __syncwarp();
        if (from + (uint32_t)o.lane < count) find_entry(&s, &o, s.bins.list[begin + from + (uint32_t)o.lane], &group[o.lane]);
        __syncwarp();
        const int n = from >= count || first >= a->features ? 0 : (int)min(count - from, (uint32_t)lanes);
        for (int i = 0; i < n; i++) {
            if (group[i].kind == SPLAT_ODD) add_odd<DTYPE, PS>(sum, &s, &group[i], down, right, first);
            else if (group[i].kind != SPLAT_NONE) add_inside<DTYPE, PS>(sum, &s, &group[i], down, right, first);
        }
    }
    if (count && first < a->features) write_sums<PS>(&s, &o, first, sum);
}

bool snls_agg_can_splat(const SnlsAggJob *job)
{
    const SnlsAggregate *a = &job->a;
    return job->add && (a->ps == 1 || a->ps == 3) && a->dilation == 1 && !a->drop && a->height > 2 && a->width > 2 && job->to.dtype == SNLS_F32 &&
           snls_agg_is_vector(a, &job->to, false) && snls_agg_is_vector(a, &job->from, a->stack);
}

SnlsStatus snls_agg_splat(SnlsContext *ctx, SpreadJob *s)
{
    const SnlsAggregate *a = &s->job.a;
    bool vector;
    unsigned blocks;
    SNLS_TRY(snls_agg_lay_out(ctx, &s->job, s->owner_lines, a->width, true, &vector, &blocks));
#define LAUNCH(type) \
    if (a->ps == 1) splat_kernel<type, 1><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*s); \
    else splat_kernel<type, 3><<<blocks, SNLS_AGG_THREADS, 0, snls_cuda_stream(ctx)>>>(*s)
    SNLS_AGG_BY_TYPE(s->job.from.dtype, LAUNCH);
#undef LAUNCH
    SNLS_CUDA_LAUNCHED(ctx, a->op);
    return SNLS_OK;
}
