/* place_neon.h: `place` of dsp.h, four neighbours at a time in float where that gives the bits of double, then one by one in double
 * those where it may not: beside borders, at fractions next to 0 or 1. Included by dsp_neon.c.
 *
 * Rows and columns are whole numbers, fractions those of the offsets, and all of it is exact in float or rounded once. Of fractions nearer
 * to 0 or 1 than NEAR, the sum in double (frames are smaller than 2^15) would have lost bits that the offset has. */

#define NEAR 0x1p-14f

/* A site as it is used, read once. Pixels inside: [top, top + rows), ... */
typedef struct Site4 {
    float32x4_t y, x, largest;
    int32x4_t before; /* -t */
    uint32x4_t fold, frames, top, rows, left, columns, width, height;
    uint32x4_t step; /* bytes from a pixel to the next */
    uint64x2_t base;
    int nearest, usable;
} Site4;

ALWAYS float32x4_t four_of(double x) { return vdupq_n_f32((float)x); }
ALWAYS uint32x4_t count_of(double x) { return vdupq_n_u32((uint32_t)x); }

/* Those reflected along y or x are left to the plain version, so that slopes make no difference here. */
ALWAYS Site4 site_four(const SnlsSite *s)
{
    const double top = ceil(s->y0), left = ceil(s->x0), rows = floor(s->y1) - top, columns = floor(s->x1) - left; /* without the last, which has none beside it */
    Site4 four = { .nearest = s->nearest };
    four.usable = s->lines > 0 && s->fold_t < 0x1p24 && s->fold_y < 0x1p16 && s->fold_x < 0x1p16 && s->step_x > 0 && s->step_x < 1 << 29 && rows >= 1 && columns >= 1;
    if (!four.usable) return four;
    four.before = vdupq_n_s32(-(int32_t)s->t), four.fold = count_of(s->fold_t), four.frames = count_of(s->fold_t / 2 + 1), four.y = four_of(s->y), four.x = four_of(s->x), four.largest = four_of(FLT_MAX);
    four.top = count_of(top), four.rows = count_of(rows), four.left = count_of(left), four.columns = count_of(columns);
    four.width = vdupq_n_u32((uint32_t)s->columns), four.height = vdupq_n_u32((uint32_t)s->lines);
    four.step = vdupq_n_u32(4 * (uint32_t)s->step_x), four.base = vdupq_n_u64((uintptr_t)s->base);
    return four;
}

/* first <= i < first + count, by one comparison: what is below comes out as large */
ALWAYS uint32x4_t within(uint32x4_t i, uint32x4_t first, uint32x4_t count) { return vcltq_u32(vsubq_u32(i, first), count); }

ALWAYS uint32x4_t whole_of(float32x4_t x) { return vreinterpretq_u32_s32(vcvtq_s32_f32(x)); }

/* Lanes whose fraction is 0 or not NEAR to 0 or 1; not those that are no number. f + g = 1. */
ALWAYS uint32x4_t tame(float32x4_t f, float32x4_t g) { return vorrq_u32(vceqzq_f32(f), vcgeq_f32(vminq_f32(f, g), vdupq_n_f32(NEAR))); }

ALWAYS void write_four(const SnlsPlaces *to, ptrdiff_t i, uint32x4_t pixel, uint32x4_t row, const Site4 *s)
{
    uint8_t *const at = (uint8_t *)(to->at + i); /* bytes may be any type's */
    vst1q_u8(at, vreinterpretq_u8_u64(vmlal_u32(s->base, vget_low_u32(pixel), vget_low_u32(s->step))));
    vst1q_u8(at + 16, vreinterpretq_u8_u64(vmlal_high_u32(s->base, pixel, s->step)));
    if (!to->row) return;
    vst1q_s64(to->row + i, vreinterpretq_s64_u64(vmovl_u32(vget_low_u32(row))));
    vst1q_s64(to->row + i + 2, vreinterpretq_s64_u64(vmovl_high_u32(row)));
}

enum { UNKNOWN = 8 }; /* in place of a shape: all that was written of this one does not count */

/* Returns their shapes. */
ALWAYS uint32x4_t place_four(const SnlsPlaces *to, ptrdiff_t i, const float *offset, const float *column, const float *weight, const Site4 *s, const int nearest)
{
    __builtin_prefetch(offset + 3 * i + 480); /* rows of a tile's queries are short: what foresees reads begins anew with each */
    if (weight && i % 16 == 0) __builtin_prefetch(weight + i + 160);
    const float32x4x3_t d = vld3q_f32(offset + 3 * i);
    const float32x4_t one = vdupq_n_f32(1), dy = nearest ? vrndnq_f32(d.val[1]) : d.val[1], dx = nearest ? vrndnq_f32(d.val[2]) : d.val[2];
    const float32x4_t y = vrndmq_f32(dy), x = vrndmq_f32(dx), fy = vsubq_f32(dy, y), fx = vsubq_f32(dx, x);
    const float32x4_t gy = vsubq_f32(vaddq_f32(y, one), dy), gx = vsubq_f32(vaddq_f32(x, one), dx);
    const int32x4_t dt = vcvtq_s32_f32(d.val[0]), unfolded = vabdq_s32(dt, s->before);
    const int32x4_t other = vreinterpretq_s32_u32(vsubq_u32(s->fold, vreinterpretq_u32_s32(unfolded)));
    const uint32x4_t t = vreinterpretq_u32_s32(vminq_s32(unfolded, other)); /* what is below 0 comes out as large */
    const uint32x4_t row = whole_of(vaddq_f32(y, s->y)), at = whole_of(vaddq_f32(x, vaddq_f32(s->x, vld1q_f32(column + i))));
    uint32x4_t in = vandq_u32(within(row, s->top, s->rows), within(at, s->left, s->columns));
    in = vandq_u32(in, vandq_u32(vcltq_u32(t, s->frames), vceqq_f32(vcvtq_f32_s32(dt), d.val[0])));
    in = vandq_u32(in, vandq_u32(tame(fy, gy), tame(fx, gx)));
    const float32x4_t by = weight ? vld1q_f32(weight + i) : one;
    if (weight) in = vandq_u32(in, vcaleq_f32(by, s->largest));
    write_four(to, i, vmlaq_u32(at, vmlaq_u32(row, t, s->height), s->width), row, s);
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
    Site4 s = *site;
    __asm__("" : "+w"(s.largest)); /* not a constant, of which a compiler would take the magnitude */
    uint32x4_t least = vdupq_n_u32(UNKNOWN), most = vdupq_n_u32(0);
    for (ptrdiff_t i = 0; i + 4 <= count; i += 4) {
        const uint32x4_t four = s.nearest ? place_four(&places, i, offset, x, weight, &s, 1) : place_four(&places, i, offset, x, weight, &s, 0);
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
