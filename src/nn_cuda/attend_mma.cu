/* attend_mma.cu: attention inside windows of up to 128 tokens in bf16, by matrix instructions: products of bf16, sums, softmax and bias
 * in f32. A block takes one window and head at a time; each of its 8 warps has 16 queries, and going backward the gradients of 16 keys
 * as well. Weights of a row are registers; backward they also go to shared memory, where the other warps read them turned. */
#include "nn_cuda/attend.cuh"

enum { SIDE = 128, STRIP = 16, PAIRS = SIDE / 16, PAD = 8, TABLE_MOST = 2048 };

/* Shared memory, in this order. Rows are padded by 16 bytes, so that eight rows lie in all banks. */
template <int F> struct Tokens { __nv_bfloat16 at[SIDE][F + PAD]; };
struct Weights { __nv_bfloat16 at[SIDE][SIDE + PAD]; };
struct Places { int32_t pixel[SIDE], region[SIDE], line[SIDE]; };

/* ---- pieces of 16 x 16, and their product ---- */

typedef struct Piece { uint32_t r[4]; } Piece;

static __device__ __forceinline__ Piece load_piece(const __nv_bfloat16 *row)
{
    Piece p = {};
#if __CUDA_ARCH__ >= 800
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(p.r[0]), "=r"(p.r[1]), "=r"(p.r[2]), "=r"(p.r[3]) : "r"(at) : "memory");
#endif
    return p;
}

static __device__ __forceinline__ Piece load_turned(const __nv_bfloat16 *row)
{
    Piece p = {};
#if __CUDA_ARCH__ >= 800
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(p.r[0]), "=r"(p.r[1]), "=r"(p.r[2]), "=r"(p.r[3]) : "r"(at) : "memory");
#endif
    return p;
}

static __device__ __forceinline__ void multiply(float *sum, const Piece *a, uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "r"(a->r[0]), "r"(a->r[1]), "r"(a->r[2]), "r"(a->r[3]), "r"(b0), "r"(b1));
#endif
}

/* sum[0], sum[1]: two neighbouring groups of 8 columns */
static __device__ __forceinline__ void multiply_pair(float (*sum)[4], const Piece *a, const Piece *b)
{
    multiply(sum[0], a, b->r[0], b->r[1]);
    multiply(sum[1], a, b->r[2], b->r[3]);
}

/* Left factor: rows r.. and columns c.. of m; or of m turned, whose rows are then columns. Right factor: its columns are rows c.. of m,
 * or m as it stands, rows r.. and columns c... */
template <int W> static __device__ __forceinline__ Piece left(const __nv_bfloat16 (*m)[W], int r, int c, int lane) { return load_piece(&m[r + lane % 16][c + lane / 16 * 8]); }
template <int W> static __device__ __forceinline__ Piece left_turned(const __nv_bfloat16 (*m)[W], int r, int c, int lane)
{
    return load_turned(&m[c + lane / 16 * 8 + lane % 8][r + lane / 8 % 2 * 8]);
}
template <int W> static __device__ __forceinline__ Piece right_turned(const __nv_bfloat16 (*m)[W], int r, int c, int lane)
{
    return load_piece(&m[c + lane / 16 * 8 + lane % 8][r + lane / 8 % 2 * 8]);
}
template <int W> static __device__ __forceinline__ Piece right(const __nv_bfloat16 (*m)[W], int r, int c, int lane)
{
    return load_turned(&m[r + lane / 8 % 2 * 8 + lane % 8][c + lane / 16 * 8]);
}

static __device__ __forceinline__ uint32_t two(float x, float y)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* Columns 16 n .. of a row of sums as a left factor. */
static __device__ __forceinline__ Piece as_left(const float (*sum)[4])
{
    const Piece p = {{two(sum[0][0], sum[0][1]), two(sum[0][2], sum[0][3]), two(sum[1][0], sum[1][1]), two(sum[1][2], sum[1][3])}};
    return p;
}

/* ---- tokens in and out ---- */

static __device__ void find_places(const AttendJob *s, int64_t window, Places *p)
{
    for (int i = (int)threadIdx.x; i < SIDE; i += NN_THREADS) {
        p->pixel[i] = -1, p->region[i] = p->line[i] = 0;
        if (i < s->tokens) attend_token(s, window, i, &p->pixel[i], &p->region[i], &p->line[i]);
    }
}

template <int F> static __device__ void load_tokens(const AttendJob *s, const Places *p, const void *from, int channels, int first, Tokens<F> *to)
{
    for (int i = (int)threadIdx.x; i < SIDE * (F / 8); i += NN_THREADS) {
        const int token = i / (F / 8), f = i % (F / 8) * 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (p->pixel[token] >= 0) v = *(const uint4 *)((const __nv_bfloat16 *)from + (int64_t)p->pixel[token] * channels + first + f);
        else if (s->bias && from == s->x && token < s->tokens) {
            const float *const b = s->bias + first + f;
            v = make_uint4(two(b[0], b[1]), two(b[2], b[3]), two(b[4], b[5]), two(b[6], b[7]));
        }
        *(uint4 *)&to->at[token][f] = v;
    }
}

/* The warp's 16 rows of sums by way of its own rows of shared memory, so that they leave in pieces of 16 bytes. */
template <int F> static __device__ void give_tokens(const Places *p, const float (*sum)[4], float by0, float by1, Tokens<F> *room, void *to, int channels, int first, bool fresh)
{
    const int lane = (int)threadIdx.x % 32, strip = (int)threadIdx.x / 32 * STRIP;
#pragma unroll
    for (int n = 0; n < F / 8; n++) {
        *(uint32_t *)&room->at[strip + lane / 4][n * 8 + lane % 4 * 2] = two(sum[n][0] * by0, sum[n][1] * by0);
        *(uint32_t *)&room->at[strip + lane / 4 + 8][n * 8 + lane % 4 * 2] = two(sum[n][2] * by1, sum[n][3] * by1);
    }
    __syncwarp();
    for (int i = lane; i < STRIP * (F / 8); i += 32) {
        const int token = strip + i / (F / 8), f = i % (F / 8) * 8;
        __nv_bfloat16 *const at = (__nv_bfloat16 *)to + (int64_t)p->pixel[token] * channels + first + f;
        if (p->pixel[token] < 0) continue;
        if (!fresh) {
            float v[8];
            nn_load<8>(&room->at[token][f], v);
            nn_add_to<8>(at, v, false);
        } else *(uint4 *)at = *(const uint4 *)&room->at[token][f];
    }
}

/* ---- weights of the warp's 16 queries: registers [16 groups of 8 keys][rows lane/4 and lane/4 + 8, two keys each] ---- */

typedef struct Rows { float sum[2]; } Rows;

static __device__ __forceinline__ float over_four(float x, bool largest)
{
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, step);
        x = largest ? fmaxf(x, other) : x + other;
    }
    return x;
}

template <int F> static __device__ __forceinline__ void find_products(const Tokens<F> *a, const Tokens<F> *b, float (*s)[4])
{
    const int lane = (int)threadIdx.x % 32, strip = (int)threadIdx.x / 32 * STRIP;
#pragma unroll
    for (int n = 0; n < 2 * PAIRS; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) s[n][e] = 0;
#pragma unroll
    for (int f = 0; f < F; f += 16) {
        const Piece q = left(a->at, strip, f, lane);
#pragma unroll
        for (int pair = 0; pair < PAIRS; pair++) {
            const Piece k = right_turned(b->at, f, pair * 16, lane);
            multiply_pair(s + 2 * pair, &q, &k);
        }
    }
}

/* exp(score - largest) of every key, and their sums. */
static __device__ __forceinline__ Rows find_exponentials(const AttendJob *j, const Places *p, const float *table, float (*s)[4])
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * STRIP + lane / 4;
    const int line[2] = {p->line[row] + j->origin, p->line[row + 8] + j->origin}, region[2] = {p->region[row], p->region[row + 8]};
    float largest[2] = {-INFINITY, -INFINITY};
    Rows r = {{0, 0}};
#pragma unroll
    for (int n = 0; n < 2 * PAIRS; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int key = n * 8 + lane % 4 * 2 + e % 2;
            s[n][e] = key < j->tokens ? s[n][e] * j->scale + table[line[e / 2] - p->line[key]] + (region[e / 2] != p->region[key] ? (float)NN_MASKED : 0) : -INFINITY;
            largest[e / 2] = fmaxf(largest[e / 2], s[n][e]);
        }
    for (int i = 0; i < 2; i++) largest[i] = over_four(largest[i], true);
#pragma unroll
    for (int n = 0; n < 2 * PAIRS; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) r.sum[e / 2] += s[n][e] = __expf(s[n][e] - largest[e / 2]);
    for (int i = 0; i < 2; i++) r.sum[i] = over_four(r.sum[i], false);
    return r;
}

static __device__ void load_table(const AttendJob *s, int head, float *table)
{
    for (int i = (int)threadIdx.x; i < s->rows; i += NN_THREADS) table[i] = s->table[i * s->heads + head];
}

/* sum (16 x F) += rows of weights times tokens b */
template <int F> static __device__ __forceinline__ void weigh(const float (*s)[4], const Tokens<F> *b, float (*sum)[4])
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int pair = 0; pair < PAIRS; pair++) {
        const Piece w = as_left(s + 2 * pair);
#pragma unroll
        for (int f = 0; f < F; f += 16) {
            const Piece v = right(b->at, pair * 16, f, lane);
            multiply_pair(sum + f / 8, &w, &v);
        }
    }
}

template <int F> static __global__ void __launch_bounds__(NN_THREADS, 2) attend_forward_mma(const __grid_constant__ AttendJob s)
{
    extern __shared__ __align__(16) char shared[];
    Tokens<F> *const t = (Tokens<F> *)shared;
    Places *const p = (Places *)(t + 3);
    float *const table = (float *)(p + 1);
    for (int64_t job = blockIdx.x; job < s.jobs; job += gridDim.x) {
        const int head = (int)(job % s.heads);
        float w[2 * PAIRS][4], o[F / 8][4] = {};
        __syncthreads();
        find_places(&s, job / s.heads, p);
        load_table(&s, head, table);
        __syncthreads();
        for (int part = QUERY; part <= VALUE; part++) load_tokens<F>(&s, p, s.x, 3 * s.channels, part * s.channels + head * F, t + part);
        __syncthreads();
        find_products<F>(t + QUERY, t + KEY, w);
        const Rows r = find_exponentials(&s, p, table, w);
        weigh<F>(w, t + VALUE, o);
        give_tokens<F>(p, o, 1 / r.sum[0], 1 / r.sum[1], t + QUERY, s.y, s.channels, head * F, true);
    }
}

/* ---- backward ---- */

static __device__ __forceinline__ void keep_rows(const float (*s)[4], Weights *to)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * STRIP + lane / 4;
#pragma unroll
    for (int n = 0; n < 2 * PAIRS; n++) {
        *(uint32_t *)&to->at[row][n * 8 + lane % 4 * 2] = two(s[n][0], s[n][1]);
        *(uint32_t *)&to->at[row + 8][n * 8 + lane % 4 * 2] = two(s[n][2], s[n][3]);
    }
}

/* w: weights, d: their gradients; d becomes those of the scores */
static __device__ __forceinline__ void through_softmax(const float (*w)[4], float (*d)[4])
{
    float along[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < 2 * PAIRS; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) along[e / 2] += w[n][e] * d[n][e];
    for (int i = 0; i < 2; i++) along[i] = over_four(along[i], false);
#pragma unroll
    for (int n = 0; n < 2 * PAIRS; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) d[n][e] = w[n][e] * (d[n][e] - along[e / 2]);
}

/* sum (the warp's 16 keys x F) += weights, turned, times tokens b */
template <int F> static __device__ __forceinline__ void weigh_turned(const Weights *w, const Tokens<F> *b, float (*sum)[4])
{
    const int lane = (int)threadIdx.x % 32, strip = (int)threadIdx.x / 32 * STRIP;
#pragma unroll
    for (int i = 0; i < SIDE; i += 16) {
        const Piece a = left_turned(w->at, strip, i, lane);
#pragma unroll
        for (int f = 0; f < F; f += 16) {
            const Piece v = right(b->at, i, f, lane);
            multiply_pair(sum + f / 8, &a, &v);
        }
    }
}

/* A thread has a row of the table: all pairs of tokens so far apart. */
static __device__ void pull_table(const AttendJob *s, int head, const Weights *by_score, float *part)
{
    const int deep = (int)s->w.size[0], high = (int)s->w.size[1], wide = (int)s->w.size[2];
    for (int row = (int)threadIdx.x; row < s->rows; row += NN_THREADS) {
        const AttendStep by = attend_step(s, row);
        const int step = (by.d * high + by.h) * wide + by.w;
        float sum = 0;
        for (int d = max(0, -by.d); d < min(deep, deep - by.d); d++)
            for (int h = max(0, -by.h); h < min(high, high - by.h); h++)
                for (int w = max(0, -by.w); w < min(wide, wide - by.w); w++) {
                    const int key = (d * high + h) * wide + w;
                    sum += __bfloat162float(by_score->at[key + step][key]);
                }
        part[row * s->heads + head] += sum;
    }
}

template <int F> static __global__ void __launch_bounds__(NN_THREADS) attend_backward_mma(const __grid_constant__ AttendJob s)
{
    extern __shared__ __align__(16) char shared[];
    Tokens<F> *const t = (Tokens<F> *)shared;
    Weights *const weights = (Weights *)(t + 4);
    Places *const p = (Places *)(weights + 2);
    float *const table = (float *)(p + 1), *const part = s.parts ? s.parts + (int64_t)blockIdx.x * s.rows * s.heads : NULL;
    for (int i = (int)threadIdx.x; part && i < s.rows * s.heads; i += NN_THREADS) part[i] = 0;
    for (int64_t job = blockIdx.x; job < s.jobs; job += gridDim.x) {
        const int head = (int)(job % s.heads);
        float w[2 * PAIRS][4], d[2 * PAIRS][4], dq[F / 8][4] = {}, dk[F / 8][4] = {}, dv[F / 8][4] = {};
        __syncthreads();
        find_places(&s, job / s.heads, p);
        load_table(&s, head, table);
        __syncthreads();
        for (int i = QUERY; i <= VALUE; i++) load_tokens<F>(&s, p, s.x, 3 * s.channels, i * s.channels + head * F, t + i);
        load_tokens<F>(&s, p, s.dy, s.channels, head * F, t + OUT);
        __syncthreads();
        find_products<F>(t + QUERY, t + KEY, w);
        const Rows r = find_exponentials(&s, p, table, w);
#pragma unroll
        for (int n = 0; n < 2 * PAIRS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) w[n][e] /= r.sum[e / 2];
        keep_rows(w, weights);
        find_products<F>(t + OUT, t + VALUE, d);
        through_softmax(w, d);
        keep_rows(d, weights + 1);
        weigh<F>(d, t + KEY, dq);
        __syncthreads();
        weigh_turned<F>(weights, t + OUT, dv);
        weigh_turned<F>(weights + 1, t + QUERY, dk);
        __syncthreads(); /* tokens are read no more: their rows carry what goes out */
        if (s.dx) {
            give_tokens<F>(p, dq, s.scale, s.scale, t + QUERY, s.dx, 3 * s.channels, head * F, s.fresh);
            give_tokens<F>(p, dk, s.scale, s.scale, t + KEY, s.dx, 3 * s.channels, s.channels + head * F, s.fresh);
            give_tokens<F>(p, dv, 1, 1, t + VALUE, s.dx, 3 * s.channels, 2 * s.channels + head * F, s.fresh);
        }
        if (part) pull_table(&s, head, weights + 1, part);
    }
}

/* ---- which ---- */

template <int F> static const void *kernel_of(bool back, size_t *bytes)
{
    *bytes = (back ? 4 : 3) * sizeof(Tokens<F>) + (back ? 2 * sizeof(Weights) : 0) + sizeof(Places);
    return back ? (const void *)attend_backward_mma<F> : (const void *)attend_forward_mma<F>;
}

const void *snls_nn_cuda_attend_mma(const SnlsContext *ctx, const AttendJob *job, int32_t dtype, bool back, size_t *bytes)
{
    const bool aligned = nn_aligned(job->x) && nn_aligned(job->y) && nn_aligned(job->dy) && nn_aligned(job->dx);
    const bool plain = job->w.size[1] == job->w.window[1] && job->w.size[2] == job->w.window[2] && !job->bias; /* as going backward needs it */
    if (dtype != SNLS_BF16 || !aligned || job->tokens > SIDE || job->rows > TABLE_MOST || (back && !plain)) return NULL;
    const void *kernel = job->features == 16   ? kernel_of<16>(back, bytes)
                         : job->features == 32 ? kernel_of<32>(back, bytes)
                         : job->features == 48 ? kernel_of<48>(back, bytes)
                         : job->features == 64 ? kernel_of<64>(back, bytes)
                                               : NULL;
    cudaFuncAttributes attributes; /* code that was compiled for less than 8.0 has no such instructions, whatever it runs on */
    if (!kernel || cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess || attributes.ptxVersion < 80) return NULL;
    *bytes += (size_t)job->rows * sizeof(float);
    return *bytes <= snls_cuda(ctx)->shared_limit ? kernel : NULL;
}
