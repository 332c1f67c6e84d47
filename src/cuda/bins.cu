/* bins.cu: see bins.cuh. Count (the caller's kernel), running sums, fill, and where the order matters a sort of each cell's few. */
#include "cuda/bins.cuh"

enum { THREADS = 256, EACH = 8, BLOCK = THREADS * EACH, CROWD = 48, SORTERS = 256 };

static int64_t blocks_of(int64_t cells) { return (cells + BLOCK - 1) / BLOCK; }

void snls_bins_plan(SnlsContext *ctx, int64_t entries, int64_t cells)
{
    snls_arena_plan(&ctx->arena, entries, sizeof(uint32_t));
    snls_arena_plan(&ctx->arena, entries, sizeof(uint32_t));
    snls_arena_plan(&ctx->arena, blocks_of(cells) * BLOCK, sizeof(uint32_t));
    snls_arena_plan(&ctx->arena, blocks_of(cells), sizeof(uint32_t));
    snls_arena_plan(&ctx->arena, entries / CROWD + 2, sizeof(uint32_t));
}

void snls_bins_claim(SnlsContext *ctx, SnlsBins *bins, int64_t entries, int64_t cells)
{
    bins->entries = entries;
    bins->cells = cells;
    bins->keys = (uint32_t *)snls_arena_claim(&ctx->arena, entries, sizeof(uint32_t));
    bins->list = (uint32_t *)snls_arena_claim(&ctx->arena, entries, sizeof(uint32_t));
    bins->ends = (uint32_t *)snls_arena_claim(&ctx->arena, blocks_of(cells) * BLOCK, sizeof(uint32_t));
    bins->sums = (uint32_t *)snls_arena_claim(&ctx->arena, blocks_of(cells), sizeof(uint32_t));
    bins->crowded = (uint32_t *)snls_arena_claim(&ctx->arena, entries / CROWD + 2, sizeof(uint32_t));
}

SnlsStatus snls_bins_begin(SnlsContext *ctx, const char *op, const SnlsBins *bins)
{
    SNLS_CUDA_TRY(ctx, op, cudaMemsetAsync(bins->ends, 0, (size_t)(blocks_of(bins->cells) * BLOCK) * sizeof(uint32_t), snls_cuda_stream(ctx)));
    SNLS_CUDA_TRY(ctx, op, cudaMemsetAsync(bins->crowded, 0, sizeof(uint32_t), snls_cuda_stream(ctx)));
    return SNLS_OK;
}

/* ---- running sums ---- */

/* Sum of x over the threads before this one; *total: over all. */
static __device__ uint32_t block_before(uint32_t x, uint32_t *total)
{
    __shared__ uint32_t warps[THREADS / 32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    uint32_t upto = x;
    for (int step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, upto, step);
        if (lane >= step) upto += other;
    }
    __syncthreads();
    if (lane == 31) warps[warp] = upto;
    __syncthreads();
    uint32_t before = 0;
    *total = 0;
    for (int i = 0; i < THREADS / 32; i++) {
        if (i < warp) before += warps[i];
        *total += warps[i];
    }
    return before + upto - x;
}

static __device__ __forceinline__ uint32_t load_each(uint32_t v[EACH], const uint32_t *from)
{
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; i += 4) {
        const uint4 four = *(const uint4 *)(from + i);
        v[i] = four.x; v[i + 1] = four.y; v[i + 2] = four.z; v[i + 3] = four.w;
        sum += four.x + four.y + four.z + four.w;
    }
    return sum;
}

static __global__ void __launch_bounds__(THREADS) sum_blocks(const SnlsBins bins)
{
    uint32_t v[EACH], total;
    (void)block_before(load_each(v, bins.ends + (int64_t)blockIdx.x * BLOCK + threadIdx.x * EACH), &total);
    if (threadIdx.x == 0) bins.sums[blockIdx.x] = total;
}

static __global__ void __launch_bounds__(THREADS) scan_sums(const SnlsBins bins, int64_t blocks)
{
    uint32_t carry = 0;
    for (int64_t from = 0; from < blocks; from += THREADS) {
        const int64_t i = from + threadIdx.x;
        uint32_t total;
        const uint32_t before = block_before(i < blocks ? bins.sums[i] : 0, &total);
        if (i < blocks) bins.sums[i] = carry + before;
        carry += total;
    }
}

/* ends becomes where each cell's entries begin; filling them in moves it to where they end. */
static __global__ void __launch_bounds__(THREADS) scan_blocks(const SnlsBins bins)
{
    uint32_t v[EACH], total, *const at = bins.ends + (int64_t)blockIdx.x * BLOCK + threadIdx.x * EACH;
    uint32_t before = bins.sums[blockIdx.x];
    before += block_before(load_each(v, at), &total);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const uint32_t count = v[i];
        v[i] = before;
        before += count;
    }
#pragma unroll
    for (int i = 0; i < EACH; i += 4) *(uint4 *)(at + i) = make_uint4(v[i], v[i + 1], v[i + 2], v[i + 3]);
}

static __global__ void __launch_bounds__(THREADS) fill(const SnlsBins bins)
{
    for (SNLS_CUDA_EACH(e, bins.entries)) {
        const uint32_t cell = bins.keys[e];
        if (cell != SNLS_BIN_NONE) bins.list[atomicAdd(&bins.ends[cell], 1u)] = (uint32_t)e;
    }
}

/* ---- the order within a cell ---- */

static __global__ void __launch_bounds__(THREADS) sort_few(const SnlsBins bins)
{
    for (SNLS_CUDA_EACH(cell, bins.cells)) {
        const uint32_t begin = snls_bin_begin(&bins, cell), end = bins.ends[cell];
        if (end - begin > CROWD) {
            bins.crowded[1 + atomicAdd(&bins.crowded[0], 1u)] = (uint32_t)cell;
            continue;
        }
        for (uint32_t i = begin + 1; i < end; i++) { /* insertion */
            const uint32_t x = bins.list[i];
            uint32_t j = i;
            for (; j > begin && bins.list[j - 1] > x; j--) bins.list[j] = bins.list[j - 1];
            if (j < i) bins.list[j] = x;
        }
    }
}

static __device__ __forceinline__ void exchange(uint32_t *list, uint32_t low, uint32_t high, uint32_t n)
{
    if (high >= n || list[low] <= list[high]) return; /* places beyond n count as infinite: they never move */
    const uint32_t x = list[low];
    list[low] = list[high];
    list[high] = x;
}

/* Bitonic, every exchange upwards: the first of each round compares with the mirrored place. A block a cell. */
static __global__ void __launch_bounds__(SORTERS) sort_crowded(const SnlsBins bins)
{
    for (uint32_t c = blockIdx.x; c < bins.crowded[0]; c += gridDim.x) {
        const int64_t cell = bins.crowded[1 + c];
        const uint32_t begin = snls_bin_begin(&bins, cell), n = bins.ends[cell] - begin;
        uint32_t *const list = bins.list + begin;
        for (uint32_t side = 2; side / 2 < n; side *= 2) {
            for (uint32_t i = threadIdx.x; i < (n + side - 1) / side * (side / 2); i += SORTERS) {
                const uint32_t at = i / (side / 2) * side, in = i % (side / 2);
                exchange(list, at + in, at + side - 1 - in, n);
            }
            __syncthreads();
            for (uint32_t half = side / 4; half > 0; half /= 2) {
                for (uint32_t i = threadIdx.x; i < (n + 2 * half - 1) / (2 * half) * half; i += SORTERS) {
                    const uint32_t at = i / half * (2 * half) + i % half;
                    exchange(list, at, at + half, n);
                }
                __syncthreads();
            }
        }
    }
}

SnlsStatus snls_bins_scan(SnlsContext *ctx, const char *op, const SnlsBins *bins)
{
    const cudaStream_t stream = snls_cuda_stream(ctx);
    const int64_t blocks = blocks_of(bins->cells);
    sum_blocks<<<(unsigned)blocks, THREADS, 0, stream>>>(*bins);
    SNLS_CUDA_LAUNCHED(ctx, op);
    scan_sums<<<1, THREADS, 0, stream>>>(*bins, blocks);
    SNLS_CUDA_LAUNCHED(ctx, op);
    scan_blocks<<<(unsigned)blocks, THREADS, 0, stream>>>(*bins);
    SNLS_CUDA_LAUNCHED(ctx, op);
    return SNLS_OK;
}

SnlsStatus snls_bins_fill(SnlsContext *ctx, const char *op, const SnlsBins *bins, bool ordered)
{
    const cudaStream_t stream = snls_cuda_stream(ctx);
    fill<<<snls_cuda_blocks(bins->entries, THREADS, 0), THREADS, 0, stream>>>(*bins);
    SNLS_CUDA_LAUNCHED(ctx, op);
    if (!ordered) return SNLS_OK;
    sort_few<<<snls_cuda_blocks(bins->cells, THREADS, 0), THREADS, 0, stream>>>(*bins);
    SNLS_CUDA_LAUNCHED(ctx, op);
    sort_crowded<<<(unsigned)(2 * snls_cuda(ctx)->multiprocessors), SORTERS, 0, stream>>>(*bins);
    SNLS_CUDA_LAUNCHED(ctx, op);
    return SNLS_OK;
}

/* ---- jobs that do not fit ---- */

static int64_t evenly(int64_t all, int64_t most)
{
    if (most >= all) return all;
    const int64_t parts = (all + (most > 0 ? most : 1) - 1) / (most > 0 ? most : 1);
    return (all + parts - 1) / parts;
}

bool snls_bins_cut(SnlsBinCut *cut, int64_t budget, int64_t entries, int64_t cells, int64_t entry)
{
    const int64_t index_max = INT32_MAX - BLOCK; /* cells and entries are numbered in 32 bits */
    if (entries >= index_max || cells >= index_max || entries > INT64_MAX / 64 / entry / (cut->source_lines + 1) || cells > INT64_MAX / 64 / (cut->target_lines + 1)) return false;
    const int64_t source = entries * entry > 0 ? entries * entry : 1, target = cells * (int64_t)sizeof(uint32_t);
    const int64_t plane = source * cut->source_lines + target * cut->target_lines;
    int64_t planes = budget / plane;
    while (planes > 1 && (planes * cut->source_lines * entries > index_max || planes * cut->target_lines * cells > index_max)) planes /= 2;
    if (planes > cut->planes) planes = cut->planes;
    if (planes > 0 && cut->source_lines * entries <= index_max && cut->target_lines * cells <= index_max) {
        cut->sources = planes * cut->source_lines;
        cut->targets = planes * cut->target_lines;
        return true;
    }
    cut->targets = evenly(cut->target_lines, (budget / 4 < index_max * 4 ? budget / 4 : index_max * 4) / target);
    const int64_t left = budget - cut->targets * target, most = left / source < index_max / (entries > 0 ? entries : 1) ? left / source : index_max / (entries > 0 ? entries : 1);
    cut->sources = evenly(cut->source_lines, most);
    return true;
}

int64_t snls_bins_budget(const SnlsTensor *const *tensors, int count)
{
    double bytes = 0;
    for (int i = 0; i < count; i++)
        if (tensors[i]->data) bytes += (double)snls_tensor_elements(tensors[i]) * (double)snls_dtype_size((SnlsDtype)tensors[i]->dtype);
    return ((int64_t)60 << 20) + (int64_t)(0.015 * bytes);
}
