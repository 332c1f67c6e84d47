/* tile.c: tile loops in plain C, eight lanes that a compiler may put into vectors, and the choice of a level. */
#include "simd/dsp.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define LANES 8
#define ROWS 3
#define COLUMNS 3
#define PATCH_ROWS 3
#define PATCH_COLUMNS 3
#define PATCH_SUMS 9
#define TILE_INIT snls_tile_init_c

typedef struct Vec { float lane[LANES]; } Vec;
typedef struct Mask { uint8_t lane[LANES]; } Mask;

#define EACH_LANE for (int l = 0; l < LANES; l++)
static inline Vec v_load(const float *p) { Vec v; EACH_LANE v.lane[l] = p[l]; return v; }
static inline void v_store(float *p, Vec v) { EACH_LANE p[l] = v.lane[l]; }
static inline Vec v_set(float x) { Vec v; EACH_LANE v.lane[l] = x; return v; }
static inline Vec v_zero(void) { return v_set(0); }
static inline Vec v_add(Vec a, Vec b) { EACH_LANE a.lane[l] += b.lane[l]; return a; }
static inline Vec v_sub(Vec a, Vec b) { EACH_LANE a.lane[l] -= b.lane[l]; return a; }
static inline Vec v_mul(Vec a, Vec b) { EACH_LANE a.lane[l] *= b.lane[l]; return a; }
static inline Vec v_fma(Vec a, Vec b, Vec c) { EACH_LANE c.lane[l] += a.lane[l] * b.lane[l]; return c; }
static inline Vec v_min(Vec a, Vec b) { EACH_LANE b.lane[l] = a.lane[l] < b.lane[l] ? a.lane[l] : b.lane[l]; return b; }
static inline Vec v_max(Vec a, Vec b) { EACH_LANE b.lane[l] = a.lane[l] > b.lane[l] ? a.lane[l] : b.lane[l]; return b; }
static inline Mask m_equal(const int32_t *p, int n) { Mask m; EACH_LANE m.lane[l] = p[l] == n; return m; }
static inline Mask m_nonzero(Vec v) { Mask m; EACH_LANE m.lane[l] = v.lane[l] != 0; return m; }
static inline Mask m_number(Vec v) { Mask m; EACH_LANE m.lane[l] = v.lane[l] == v.lane[l]; return m; }
static inline Mask m_not_below(Mask m, Vec a, Vec b) { EACH_LANE m.lane[l] = m.lane[l] && !(a.lane[l] <= b.lane[l]); return m; }
static inline Mask m_le(Vec a, Vec b) { Mask m; EACH_LANE m.lane[l] = a.lane[l] <= b.lane[l]; return m; }
static inline Mask m_below(Vec a, Vec b) { Mask m; EACH_LANE m.lane[l] = a.lane[l] < b.lane[l]; return m; }
static inline Mask m_or(Mask a, Mask b) { EACH_LANE a.lane[l] = a.lane[l] || b.lane[l]; return a; }
static inline Vec v_pick(Mask m, Vec no, Vec yes) { EACH_LANE no.lane[l] = m.lane[l] ? yes.lane[l] : no.lane[l]; return no; }
static inline Vec v_fma_where(Mask m, Vec a, Vec b, Vec c) { EACH_LANE c.lane[l] = m.lane[l] ? c.lane[l] + a.lane[l] * b.lane[l] : c.lane[l]; return c; }
static inline uint32_t m_bits(const float *p, const float *q) { uint32_t bits = 0; EACH_LANE bits |= (uint32_t)(p[l] <= q[l]) << l; return bits; }

static inline void turn(float *out, ptrdiff_t pitch, const float *in, ptrdiff_t step, Vec *most)
{
    for (int x = 0; x < LANES; x++)
        for (int f = 0; f < LANES; f++) {
            const float a = in[x * step + f], size = a < 0 ? -a : a;
            most->lane[f] = size > most->lane[f] ? size : most->lane[f];
            out[f * pitch + x] = a;
        }
}
#define SORT_BY_LEAST 0
#define SWAP_WHERE(m, a, b) { const Vec was = a; a = v_pick(m, a, b); b = v_pick(m, b, was); }
#define IN_REGISTER(v) (void)(v)
#define TURN turn

#include "simd/tile_body.h"

void snls_tile_init(SnlsTile *tile, int level)
{
    const int max = snls_dsp_level_max();
    if (level > max) level = max;
    snls_tile_init_c(tile);
#if defined(__x86_64__)
    if (level >= 2) snls_tile_init_avx2(tile);
    if (level >= 3) snls_tile_init_avx512(tile);
#elif defined(__aarch64__)
    if (level >= 2) snls_tile_init_neon(tile);
#endif
}
