/* attend.cuh: a call of attention inside windows, as both kinds of kernels see it: attend.cu for any, attend_mma.cu for bf16 and
 * windows of up to 128 tokens by matrix instructions. */
#ifndef SNLS_NN_CUDA_ATTEND_CUH
#define SNLS_NN_CUDA_ATTEND_CUH

#include "nn_cuda/value.cuh"
extern "C" {
#include "nn/window.h"
}

enum { QUERY = 0, KEY = 1, VALUE = 2, OUT = 3, SCORE = 4, BY_SCORE = 5, PLANES = 6 };

typedef struct AttendJob {
    NnWindows w;
    const void *x, *dy;
    void *y, *dx;
    const float *table, *bias;
    float *scratch, *parts;   /* for each block: what has no room in shared memory; gradients of table and bias */
    int64_t jobs, each;       /* windows * heads; floats of scratch of a block */
    int64_t at[PLANES];       /* floats from the start of shared memory or of the block's scratch */
    int32_t far[PLANES];      /* in scratch */
    int32_t tokens, features, pitch, wide, channels, heads, rows; /* pitch: of a token; wide: of a row of scores; rows: of the table */
    int32_t line[2], origin;  /* of the table: steps of depth and height; the row of no distance */
    float scale;
    bool fresh;               /* dx is still 0 */
} AttendJob;

/* Where token i of a window is, its region, and its row in the table but for a constant. */
static __device__ __forceinline__ void attend_token(const AttendJob *s, int64_t window, int i, int32_t *pixel, int32_t *region, int32_t *line)
{
    const int64_t *const size = s->w.window;
    *pixel = (int32_t)snls_nn_window_pixel(&s->w, window, i, region);
    *line = (int32_t)(i / size[2] / size[1]) * s->line[0] + (int32_t)(i / size[2] % size[1]) * s->line[1] + (int32_t)(i % size[2]);
}

/* The distance between tokens that row `row` of the table stands for. */
typedef struct AttendStep { int32_t d, h, w; } AttendStep;
static __device__ __forceinline__ AttendStep attend_step(const AttendJob *s, int row)
{
    const int across = 2 * (int)s->w.window[2] - 1, down = 2 * (int)s->w.window[1] - 1;
    const AttendStep step = {row / across / down - (int)s->w.window[0] + 1, row / across % down - (int)s->w.window[1] + 1, row % across - (int)s->w.window[2] + 1};
    return step;
}

/* Scratch and launch: blocks enough to fill the GPU, each with its list of windows and, with columns > 0, a row of parts. */
SnlsStatus snls_nn_cuda_attend_run(SnlsContext *ctx, AttendJob *job, const void *kernel, size_t bytes, int64_t columns, unsigned *blocks);

/* attend_mma.cu: NULL where the job is none for it; *bytes: of shared memory. */
const void *snls_nn_cuda_attend_mma(const SnlsContext *ctx, const AttendJob *job, int32_t dtype, bool back, size_t *bytes);

#endif
