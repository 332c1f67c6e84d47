/* tile_neon.c: tile loops, sixteen lanes in vectors of four. */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define LANES 16
#define WIDTH 4
#define ROWS 5
#define COLUMNS 5
#define PATCH_ROWS 4
#define PATCH_COLUMNS 6
#define PATCH_SUMS 20
#define TILE_INIT snls_tile_init_neon

typedef float32x4_t Vec;
typedef uint32x4_t Mask;
typedef float32x4_t VecAt __attribute__((aligned(4)));
typedef int32x4_t IntsAt __attribute__((aligned(4)));
/* Not vld1q and vst1q, of which gcc 12 does not know what they leave alone. */
#define v_load(p) (*(const VecAt *)(p))
#define v_store(p, x) (*(VecAt *)(p) = (x))
#define v_set(x) vdupq_n_f32(x)
#define v_zero() vdupq_n_f32(0)
#define v_add(a, b) vaddq_f32(a, b)
#define v_sub(a, b) vsubq_f32(a, b)
#define v_mul(a, b) vmulq_f32(a, b)
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_min(a, b) vminnmq_f32(a, b) /* of a number and NaN the number */
#define v_max(a, b) vmaxnmq_f32(a, b)
#define v_after_two(a, b) vextq_f32(a, b, 2)
#define m_equal(p, n) vceqq_s32(*(const IntsAt *)(p), vdupq_n_s32(n))
#define m_nonzero(x) vcagtq_f32(x, vdupq_n_f32(0))
#define m_number(x) vceqq_f32(x, x)
#define m_not_below(m, a, b) vbicq_u32(m, vcleq_f32(a, b))
#define m_le(a, b) vcleq_f32(a, b)
#define m_below(a, b) vcltq_f32(a, b)
#define m_or(a, b) vorrq_u32(a, b)
#define v_pick(m, no, yes) vbslq_f32(m, yes, no)
#define v_fma_where(m, a, b, c) vbslq_f32(m, vfmaq_f32(c, a, b), c)

static inline uint32_t m_bits(const float *p, const float *q)
{
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
#define FOUR(i) vcleq_f32(vld1q_f32(p + i), vld1q_f32(q + i))
    const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(FOUR(0)), vreinterpretq_u16_u32(FOUR(4)));
    const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(FOUR(8)), vreinterpretq_u16_u32(FOUR(12)));
#undef FOUR
    const uint8x16_t bits = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)), vld1q_u8(bit));
    return (uint32_t)vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

/* first + i for every mask i of four that has a lane; where the next goes. Four may be written. */
static inline uint16_t *append_groups(uint16_t *end, uint32_t first, const uint32x4_t *mask)
{
    const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(mask[0]), vreinterpretq_u16_u32(mask[1]));
    const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(mask[2]), vreinterpretq_u16_u32(mask[3]));
    const uint64x2_t lanes = vreinterpretq_u64_u8(vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
    const uint64_t two[2] = {vgetq_lane_u64(lanes, 0), vgetq_lane_u64(lanes, 1)};
    for (uint32_t i = 0; i < 4; i++) {
        *end = (uint16_t)(first + i);
        end += (uint32_t)(two[i / 2] >> i % 2 * 32) != 0;
    }
    return end;
}
#define APPEND_GROUPS append_groups

#define SORT_BY_LEAST 1
#define SWAP_WHERE(m, a, b) { const float32x4_t was = a; a = vbslq_f32(m, b, a); b = vbslq_f32(m, was, b); }
#define IN_REGISTER(v) __asm__ volatile("" : "+w"(v) : : "memory")

static inline __attribute__((always_inline)) void turn_4_most(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step, float32x4_t *most)
{
    float32x4_t row[4];
    for (int i = 0; i < 4; i++) {
        row[i] = vld1q_f32(in + i * step);
        *most = vmaxnmq_f32(vabsq_f32(row[i]), *most);
    }
    const float32x4_t a = vtrn1q_f32(row[0], row[1]), b = vtrn2q_f32(row[0], row[1]), c = vtrn1q_f32(row[2], row[3]), d = vtrn2q_f32(row[2], row[3]);
#define PAIRS(zip, x, y) vreinterpretq_f32_f64(zip(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)))
    vst1q_f32(out, PAIRS(vzip1q_f64, a, c));
    vst1q_f32(out + pitch, PAIRS(vzip1q_f64, b, d));
    vst1q_f32(out + 2 * pitch, PAIRS(vzip2q_f64, a, c));
    vst1q_f32(out + 3 * pitch, PAIRS(vzip2q_f64, b, d));
#undef PAIRS
}
#define TURN turn_4_most

/* Of four lanes. */
static inline void index_range(const int32_t *index, int *low, int *high)
{
    *low = vminvq_s32(*(const IntsAt *)index);
    *high = vmaxvq_s32(*(const IntsAt *)index);
}
#define INDEX_RANGE index_range

#include "simd/tile_body.h"
#else
typedef int snls_tile_neon_is_empty;
#endif
