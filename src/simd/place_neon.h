/* place_neon.h: `place` of dsp.h, four neighbours at a time in float where that gives the bits of double, then one by one in double
 * those where it may not: beside borders, at fractions next to 0 or 1. Included by dsp_neon.c.
 *
 * Rows and columns are whole numbers, fractions those of the offsets, and all of it is exact in float or rounded once. Of fractions nearer
 * to 0 or 1 than NEAR, the sum in double (frames are smaller than 2^15) would have lost bits that the offset has. */

#define NEAR 0x1p-14f

/* A site as it is used, read once. Pixels inside: [top, top + rows), ... */
typedef struct Site4 {
    float32x4_t y, x;
    int32x4_t t, fold, top, left, width, height;
    uint32x4_t frames, rows, columns;
    uint32x2_t step; /* bytes from a pixel to the next */
    uint64x2_t base;
    int nearest, usable;
} Site4;

ALWAYS int32x4_t four_of(double x) { return vdupq_n_s32((int32_t)x); }
ALWAYS uint32x4_t count_of(double x) { return vdupq_n_u32((uint32_t)x); }

/* Reflected neighbours are left to the plain version, so that slopes make no difference here. */
ALWAYS Site4 site_four(const SnlsSite *s)
{
    const double top = ceil(s->y0), left = ceil(s->x0), rows = floor(s->y1) - top, columns = floor(s->x1) - left; /* without the last, which has none beside it */
    Site4 four = { .nearest = s->nearest };
    four.usable = s->lines > 0 && s->fold_y < 0x1p16 && s->fold_x < 0x1p16 && s->step_x > 0 && s->step_x < 1 << 29 && rows >= 1 && columns >= 1;
    if (!four.usable) return four;
    four.y = vdupq_n_f32((float)s->y), four.x = vdupq_n_f32((float)s->x), four.t = four_of(s->t), four.fold = four_of(s->fold_t), four.frames = count_of(s->fold_t / 2 + 1);
    four.top = four_of(top), four.rows = count_of(rows), four.left = four_of(left), four.columns = count_of(columns);
    four.width = vdupq_n_s32((int32_t)s->columns), four.height = vdupq_n_s32((int32_t)s->lines);
    four.step = vdup_n_u32(4 * (uint32_t)s->step_x), four.base = vdupq_n_u64((uintptr_t)s->base);
    return four;
}

/* first <= i < first + count, by one comparison of what is not below 0 any more */
ALWAYS uint32x4_t within(int32x4_t i, int32x4_t first, uint32x4_t count) { return vcltq_u32(vreinterpretq_u32_s32(vsubq_s32(i, first)), count); }

/* Lanes whose fraction is 0 or not NEAR to 0 or 1; not those that are no number. f + g = 1. */
ALWAYS uint32x4_t tame(float32x4_t f, float32x4_t g) { return vorrq_u32(vceqzq_f32(f), vcgeq_f32(vminq_f32(f, g), vdupq_n_f32(NEAR))); }

ALWAYS void write_four(const SnlsPlaces *to, ptrdiff_t i, int32x4_t pixel, int32x4_t row, const Site4 *s)
{
    const uint32x4_t p = vreinterpretq_u32_s32(pixel);
    uint8_t *const at = (uint8_t *)(to->at + i); /* bytes may be any type's */
    vst1q_u8(at, vreinterpretq_u8_u64(vmlal_u32(s->base, vget_low_u32(p), s->step)));
    vst1q_u8(at + 16, vreinterpretq_u8_u64(vmlal_u32(s->base, vget_high_u32(p), s->step)));
    if (!to->row) return;
    vst1q_s64(to->row + i, vmovl_s32(vget_low_s32(row)));
    vst1q_s64(to->row + i + 2, vmovl_high_s32(row));
}

enum { UNKNOWN = 8 }; /* in place of a shape: all that was written of this one does not count */

/* Returns their shapes. */
ALWAYS uint32x4_t place_four(const SnlsPlaces *to, ptrdiff_t i, const float *offset, const float *column, const float *weight, const Site4 *s)
{
    __builtin_prefetch(offset + 3 * i + 480);
    if (weight) __builtin_prefetch(weight + i + 160);
    const float32x4x3_t d = vld3q_f32(offset + 3 * i);
    const float32x4_t one = vdupq_n_f32(1), dy = s->nearest ? vrndnq_f32(d.val[1]) : d.val[1], dx = s->nearest ? vrndnq_f32(d.val[2]) : d.val[2];
    const float32x4_t y = vrndmq_f32(dy), x = vrndmq_f32(dx), fy = vsubq_f32(dy, y), fx = vsubq_f32(dx, x);
    const float32x4_t gy = vsubq_f32(vaddq_f32(y, one), dy), gx = vsubq_f32(vaddq_f32(x, one), dx);
    const int32x4_t dt = vcvtq_s32_f32(d.val[0]), unfolded = vabsq_s32(vaddq_s32(dt, s->t)), t = vminq_s32(unfolded, vsubq_s32(s->fold, unfolded));
    const int32x4_t row = vcvtq_s32_f32(vaddq_f32(y, s->y)), at = vcvtq_s32_f32(vaddq_f32(x, vaddq_f32(s->x, vld1q_f32(column + i))));
    uint32x4_t in = vandq_u32(within(row, s->top, s->rows), within(at, s->left, s->columns));
    in = vandq_u32(in, vandq_u32(vcltq_u32(vreinterpretq_u32_s32(t), s->frames), vceqq_f32(vcvtq_f32_s32(dt), d.val[0])));
    in = vandq_u32(in, vandq_u32(tame(fy, gy), tame(fx, gx)));
    const float32x4_t by = weight ? vld1q_f32(weight + i) : one;
    if (weight) in = vbicq_u32(in, vcagtq_f32(by, vdupq_n_f32(FLT_MAX)));
    write_four(to, i, vmlaq_s32(at, vmlaq_s32(row, t, s->height), s->width), row, s);
    const float32x4_t upper = vmulq_f32(gy, by), lower = vmulq_f32(fy, by);
    vst1q_f32(to->w[0] + i, weight ? vmulq_f32(upper, gx) : gy);
    vst1q_f32(to->w[1] + i, weight ? vmulq_f32(upper, fx) : fy);
    vst1q_f32(to->w[2] + i, weight ? vmulq_f32(lower, gx) : gx);
    vst1q_f32(to->w[3] + i, weight ? vmulq_f32(lower, fx) : fx);
    const uint32x4_t whole_y = vceqzq_f32(fy), whole = vaddq_u32(vaddq_u32(whole_y, whole_y), vceqzq_f32(fx)); /* less 2, less 1 */
    return vbslq_u32(in, vaddq_u32(whole, vdupq_n_u32(3)), vdupq_n_u32(UNKNOWN));
}

/* All that are whole fours; returns the shape that all of them have, -1: none, or one is UNKNOWN. */
ALWAYS int place_fours(const SnlsPlaces *to, unsigned char *shape, const float *offset, const float *x, const float *weight, ptrdiff_t count, const Site4 *site)
{
    const SnlsPlaces places = *to; /* lest what is written be thought to change it */
    const Site4 s = *site;
    uint32x4_t least = vdupq_n_u32(UNKNOWN), most = vdupq_n_u32(0);
    for (ptrdiff_t i = 0; i + 4 <= count; i += 4) {
        const uint32x4_t four = place_four(&places, i, offset, x, weight, &s);
        const uint16x4_t halves = vmovn_u32(four);
        const uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(halves, halves))), 0);
        memcpy(shape + i, &bytes, sizeof bytes);
        least = vminq_u32(least, four), most = vmaxq_u32(most, four);
    }
    const uint32_t one = vminvq_u32(least);
    return one < UNKNOWN && vmaxvq_u32(most) == one ? (int)one : -1;
}

ALWAYS int place_all(const SnlsPlaces *to, unsigned char *shape, const float *offset, const float *x, const float *weight, ptrdiff_t count, const SnlsSite *site)
{
    const ptrdiff_t fours = count / 4 * 4;
    const Site4 s = site_four(site);
    if (!s.usable) return snls_place(to, shape, offset, x, weight, count, site);
    int all = place_fours(to, shape, offset, x, weight, count, &s);
    if (all >= 0 && fours == count) return all;
    memset(shape + fours, UNKNOWN, (size_t)(count - fours));
    for (ptrdiff_t i = 0; i < count; i++) {
        if (shape[i] == UNKNOWN) shape[i] = (unsigned char)snls_place_one(to, i, offset + 3 * i, x[i], weight, site);
        all = i == 0 || all == shape[i] ? shape[i] : -1; /* once -1, always -1 */
    }
    return count > 0 ? all : -1;
}

static int place_neon(const SnlsPlaces *to, unsigned char *shape, const float *offset, const float *x, const float *weight, ptrdiff_t count, const SnlsSite *site)
{
    return weight ? place_all(to, shape, offset, x, weight, count, site) : place_all(to, shape, offset, x, NULL, count, site);
}
