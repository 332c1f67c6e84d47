/* softmax_loops.c: softmax for any machine, and the choice of a level. */
#include "simd/dsp.h"
#define SOFTMAX softmax_c
#define SOFTMAX_SCOPE static
#define SOFTMAX_IN_REGISTERS 0
#define SOFTMAX_TURN_IN turn_in
#define SOFTMAX_TURN_OUT turn_out
#include "simd/softmax_turn.h"
#include "simd/softmax_body.h"

/* A query at a time: AVX2 has no better one. */
static void backward_query(const SnlsSoftmaxRow *to, const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *by, int64_t n, double factor)
{
    const float *w = weight->data, *g = by->data;
    double mean = 0;
    for (int64_t k = 0; k < n; k++)
        if (w[k * weight->of_number] != 0) mean += (double)w[k * weight->of_number] * g[k * by->of_number];
    for (int64_t k = 0; k < n; k++)
        if (w[k * weight->of_number] != 0) to->data[k * to->of_number] += (float)(factor * w[k * weight->of_number] * (g[k * by->of_number] - mean));
}

static void backward_c(const SnlsSoftmaxRow *to, const SnlsSoftmaxRow *weight, const SnlsSoftmaxRow *by, int64_t count, int64_t n, double factor)
{
    for (int64_t j = 0; j < count; j++) {
        const SnlsSoftmaxRow w = row_from(weight, j), g = row_from(by, j), out = row_from(to, j);
        backward_query(&out, &w, &g, n, factor);
    }
}

void snls_softmax(SnlsSoftmax *loops, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    softmax_c(loops);
    loops->backward = backward_c;
#if defined(__x86_64__)
    if (level >= 2) snls_softmax_avx2(loops);
    if (level >= 3) snls_softmax_avx512(loops);
#endif
}
