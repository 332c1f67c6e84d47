/* sieve_bf16.h: what the files of the sieve on AArch64 share. */
#ifndef SNLS_SIEVE_BF16_H
#define SNLS_SIEVE_BF16_H

#include "simd/sieve.h"
#include <arm_neon.h>

#define ALWAYS static inline __attribute__((always_inline))
enum { LANES = SNLS_SIEVE_LANES };

/* Of lanes h .. h+3 those whose bits are set. */
ALWAYS uint32x4_t which_lanes(uint32_t lanes, int h)
{
    static const uint32_t bit[4] = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32(lanes >> h), vld1q_u32(bit));
}

/* A lane's unit of rough products is this share of |q||k|: 16-bit numbers hold them, and differences of two, with a 32nd to spare. */
#define SNLS_SIEVE_GRAIN 0x1.08p-14f

void snls_sieve_scan_prod_bf16(SnlsSieveRows *to, const SnlsSieveMake *made, const SnlsSieveView *view, float *top, ptrdiff_t k); /* sieve_prod_bf16.c */
int snls_sieve_hits_bf16(const SnlsSieveRows *from, const SnlsSieveTable *table, ptrdiff_t box, int row, const float *bar, SnlsSieveEntries *cells,
                         SnlsSieveEntries *pixels); /* sieve_hits_bf16.c */

#endif
