/* softmax_avx512.c: softmax, compiled for AVX-512. Where the numbers of a query lie side by side, blocks are turned over in
 * registers, sixteen numbers of each query at a time. */
#define SOFTMAX snls_softmax_avx512
#define SOFTMAX_SCOPE
#define SOFTMAX_IN_REGISTERS 1
#define SOFTMAX_TURN_IN turn_in_zmm
#define SOFTMAX_TURN_OUT turn_out_zmm
#include "simd/softmax_turn.h"
#include "simd/unroll.h"
#include "simd/zmm.h"

static void turn_in_zmm(float (*restrict block)[LANES], const SnlsSoftmaxRow *row, int64_t count, int64_t first, int64_t n)
{
    if (row->of_number != 1) { turn_in(block, row, count, first, n); return; }
    const float *from = row->data + first;
    for (int64_t k = 0; k < n; k += 16) {
        const __mmask16 some = zmm_first(n - k);
        __m512i v[16];
UNROLLED(16)
        for (int q = 0; q < 16; q++) v[q] = _mm512_maskz_loadu_epi32(some, from + k + (q < count ? q : count - 1) * row->of_query);
        zmm_turn(v);
UNROLLED(16)
        for (int i = 0; i < 16; i++)
            if (k + i < n) _mm512_storeu_si512(block[k + i], v[i]);
    }
}

static void turn_out_zmm(const SnlsSoftmaxRow *row, float (*restrict block)[LANES], int64_t count, int64_t first, int64_t n)
{
    if (row->of_number != 1) { turn_out(row, block, count, first, n); return; }
    float *to = row->data + first;
    for (int64_t k = 0; k < n; k += 16) {
        const __mmask16 some = zmm_first(n - k);
        __m512i v[16];
UNROLLED(16)
        for (int i = 0; i < 16; i++) v[i] = _mm512_loadu_si512(block[k + i < n ? k + i : k]);
        zmm_turn(v);
UNROLLED(16)
        for (int q = 0; q < 16; q++)
            if (q < count) _mm512_mask_storeu_epi32(to + k + q * row->of_query, some, v[q]);
    }
}

#include "simd/softmax_body.h"
