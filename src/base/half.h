/* half.h: binary16 and bfloat16 to float and back, one number at a time, round to nearest even. */
#ifndef SNLS_HALF_H
#define SNLS_HALF_H

#include "base/hd.h"
#include <stdint.h>
#include <string.h>

static inline SNLS_HD uint32_t snls_float_bits(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
static inline SNLS_HD float snls_bits_float(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }

static inline SNLS_HD float snls_bf16_to_float(uint16_t h) { return snls_bits_float((uint32_t)h << 16); }

static inline SNLS_HD uint16_t snls_float_to_bf16(float x)
{
    const uint32_t u = snls_float_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); /* NaN: quiet, payload's top kept */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline SNLS_HD float snls_f16_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31) /* infinity; NaN becomes quiet, as the hardware conversion does */
        return snls_bits_float(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0));
    if (exponent) return snls_bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    const float tiny = (float)mantissa * (1.0f / 16777216.0f); /* denormal: mantissa * 2^-24, exact */
    return sign ? -tiny : tiny;
}

static inline SNLS_HD uint16_t snls_float_to_f16(float x)
{
    const uint32_t u = snls_float_bits(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds past 65504 */
    if (magnitude >= 0x38800000u) {                                  /* normal in binary16 */
        const uint32_t v = magnitude - 0x38000000u;
        return (uint16_t)(sign | (v + 0xfffu + (v >> 13 & 1)) >> 13);
    }
    /* denormal: adding 0.5 leaves round(magnitude * 2^24) in the low bits, rounded to even by the addition itself */
    return (uint16_t)(sign | (snls_float_bits(snls_bits_float(magnitude) + 0.5f) - 0x3f000000u));
}

#endif
