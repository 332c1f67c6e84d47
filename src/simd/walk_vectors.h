/* walk_vectors.h: vectors of WALK_LANES doubles, x and y of WALK_LANES / 2 queries, as the compiler's own; included by walk_body.h.
 * They are loaded and stored by memcpy: any alignment. */
#include "simd/inline.h"
#include <stdint.h>
#include <string.h>
#if WALK_LANES == 8
#    include <immintrin.h>
#endif

typedef double  Wide __attribute__((vector_size(8 * WALK_LANES)));
typedef int64_t Bits __attribute__((vector_size(8 * WALK_LANES))); /* also -1 and 0, what comparisons give */
typedef float   Slim __attribute__((vector_size(4 * WALK_LANES)));
typedef double  Pairs __attribute__((vector_size(4 * WALK_LANES))); /* two floats each, which are one double only on their way to a register */

#define LOAD(to, from)  memcpy(&(to), (from), sizeof(to))
#define STORE(to, from) memcpy((to), &(from), sizeof(from))

/* x twice, y twice; each in the other's place; lanes x of a and b beside each other, lanes y */
#if WALK_LANES == 8
#    define EACH_X    0, 0, 2, 2, 4, 4, 6, 6
#    define EACH_Y    1, 1, 3, 3, 5, 5, 7, 7
#    define SWAPPED   1, 0, 3, 2, 5, 4, 7, 6
#    define BOTH_X    0, 8, 2, 10, 4, 12, 6, 14
#    define BOTH_Y    1, 9, 3, 11, 5, 13, 7, 15
#    define PAIRS(at) { at(0), at(1), at(2), at(3) }
#    define X_AND_Y(a) { (a)[0], (a)[1], (a)[0], (a)[1], (a)[0], (a)[1], (a)[0], (a)[1] }
#elif WALK_LANES == 4
#    define EACH_X    0, 0, 2, 2
#    define EACH_Y    1, 1, 3, 3
#    define SWAPPED   1, 0, 3, 2
#    define BOTH_X    0, 4, 2, 6
#    define BOTH_Y    1, 5, 3, 7
#    define PAIRS(at) { at(0), at(1) }
#    define X_AND_Y(a) { (a)[0], (a)[1], (a)[0], (a)[1] }
#else
#    define EACH_X    0, 0
#    define EACH_Y    1, 1
#    define SWAPPED   1, 0
#    define BOTH_X    0, 2
#    define BOTH_Y    1, 3
#    define PAIRS(at) { at(0) }
#    define X_AND_Y(a) { (a)[0], (a)[1] }
#endif
#if defined(__clang__)
#    define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#    define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Bits){ __VA_ARGS__ })
#endif

ALWAYS Wide choose(Bits mask, Wide a, Wide b) { return (Wide)(((Bits)a & mask) | ((Bits)b & ~mask)); }
ALWAYS Bits choose_bits(Bits mask, Bits a, Bits b) { return (a & mask) | (b & ~mask); }
ALWAYS Wide all(double x) { return x - (Wide){ 0 }; }

ALWAYS double pair_at(const float *p)
{
    double two;
    memcpy(&two, p, sizeof two);
    return two;
}

#if WALK_LANES == 8 /* compilers took these apart into halves */
ALWAYS Wide widen(Slim x) { return (Wide)_mm512_cvtps_pd((__m256)x); }
ALWAYS Slim narrow(Wide x) { return (Slim)_mm512_cvtpd_ps((__m512d)x); }
#else
ALWAYS Wide widen(Slim x) { return __builtin_convertvector(x, Wide); }
ALWAYS Slim narrow(Wide x) { return __builtin_convertvector(x, Slim); }
#endif
