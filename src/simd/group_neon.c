/* group_neon.c: the matrices of a group for NEON. */
#if defined(__aarch64__)
#include <arm_neon.h>
#define GROUP_LOOPS snls_group_loops_neon
#define GROUP_LANES 4
#define GROUP_ROWS 8
#define GROUP_SCOPE
#define GROUP_MADD(a, b, c) ((Lanes)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))

#define GROUP_TURNS 1
typedef struct Eight {
    float32x4_t low, high;
} Eight;
#define ALWAYS static inline __attribute__((always_inline))

ALWAYS Eight eight_load(const float *p) { return (Eight){ vld1q_f32(p), vld1q_f32(p + 4) }; }

ALWAYS void eight_store(float *p, Eight x)
{
    vst1q_f32(p, x.low);
    vst1q_f32(p + 4, x.high);
}

ALWAYS Eight eight_plus(Eight x, float number)
{
    const float32x4_t y = vdupq_n_f32(number);
    return (Eight){ vaddq_f32(x.low, y), vaddq_f32(x.high, y) };
}

ALWAYS void turn_4(float32x4_t v[4])
{
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(v[0], v[1])), b = vreinterpretq_f64_f32(vtrn2q_f32(v[0], v[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(v[2], v[3])), d = vreinterpretq_f64_f32(vtrn2q_f32(v[2], v[3]));
    v[0] = vreinterpretq_f32_f64(vzip1q_f64(a, c));
    v[1] = vreinterpretq_f32_f64(vzip1q_f64(b, d));
    v[2] = vreinterpretq_f32_f64(vzip2q_f64(a, c));
    v[3] = vreinterpretq_f32_f64(vzip2q_f64(b, d));
}

/* Row i becomes column i: four blocks of four by four. */
ALWAYS void turn_8(Eight row[8])
{
    float32x4_t block[2][2][4];
    for (int i = 0; i < 8; i++) block[i / 4][0][i % 4] = row[i].low, block[i / 4][1][i % 4] = row[i].high;
    for (int i = 0; i < 4; i++) turn_4(block[i / 2][i % 2]);
    for (int i = 0; i < 8; i++) row[i] = (Eight){ block[0][i / 4][i % 4], block[1][i / 4][i % 4] };
}
#include "simd/group_body.h"
#else
typedef int snls_group_neon_is_empty;
#endif
