/* noise.h: Gaussian numbers from a counter: number i of a seed is the same however the work is cut up, here and on a GPU. */
#ifndef SNLS_NOISE_H
#define SNLS_NOISE_H

#include "base/hd.h"
#include <math.h>
#include <stdint.h>

/* splitmix64 (Steele, Lea, Flood, 2014): a bijection that mixes well, of a counter. */
static inline SNLS_HD uint64_t snls_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline SNLS_HD double snls_uniform(uint64_t bits) { return ((double)(bits >> 11) + 0.5) * 0x1p-53; } /* in (0,1) */

/* Draw number i: Box and Muller's cosine for even numbers, the sine of the same pair for odd. */
static inline SNLS_HD double snls_normal(uint64_t seed, uint64_t i)
{
    const uint64_t pair = snls_mix(snls_mix(seed) + (i >> 1) * 0xd1342543de82ef95u);
    const double radius = sqrt(-2 * log(snls_uniform(pair))), angle = 6.283185307179586477 * snls_uniform(snls_mix(pair));
    return radius * (i & 1 ? sin(angle) : cos(angle));
}

#endif
