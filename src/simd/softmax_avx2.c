/* softmax_avx2.c: softmax, compiled for AVX2. */
#define SOFTMAX snls_softmax_avx2
#define SOFTMAX_SCOPE
#define SOFTMAX_IN_REGISTERS 0
#define SOFTMAX_TURN_IN turn_in
#define SOFTMAX_TURN_OUT turn_out
#include "simd/softmax_turn.h"
#include "simd/softmax_body.h"
