/* sieve_scan_vnni.c: the rough half of the sieve by products of bytes: four features of sixteen queries times those of a key in one instruction. */
#include "simd/sieve.h"
#include "simd/unroll.h"
#include <immintrin.h>
#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))
enum { LANES = SNLS_SIEVE_LANES, FOUR = 4, FOURS = SNLS_SIEVE_BYTES / FOUR, HEAD = SNLS_SIEVE_HEAD / FOUR, KEYS = 13 }; /* keys of a row whose sums are in registers at most */

/* Four features of a key with those of sixteen queries. Of the intrinsic gcc makes a load, and a move of the sum. */
ALWAYS __m512i with_four(__m512i sum, __m512i query, const int32_t *key)
{
    __asm__ volatile("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(query), "m"(*key));
    return sum;
}

ALWAYS __m512 unit_of(const int32_t *key)
{
    float unit;
    memcpy(&unit, key + 1, sizeof unit);
    return _mm512_set1_ps(unit);
}

/* Products of some keys of a row or of two, which are `down` fours apart as keys are `right`; before its features a key has what its sum begins with, and its unit. Two rows at a time: sums
 * of one wait for each other longer than it takes to make them, and a processor does not look ahead far enough to begin the next meanwhile. */
ALWAYS void make_keys(float *const *out, const int32_t *key, ptrdiff_t down, ptrdiff_t right, const SnlsSieveBytes *query, const int rows, const int keys)
{
    const uint8_t *q = query->at;
    const int32_t *at[2] = {key, key + down};
    __m512i sum[2][KEYS];
UNROLLED(2)
    for (int r = 0; r < rows; r++)
UNROLLED(13)
        for (int i = 0; i < keys; i++) sum[r][i] = _mm512_set1_epi32(at[r][i * right]);
    for (ptrdiff_t f = HEAD; f < right; f += FOURS, q += FOURS * FOUR * LANES)
UNROLLED(4)
        for (int g = 0; g < FOURS; g++) {
            const __m512i four = _mm512_loadu_si512(q + g * FOUR * LANES);
UNROLLED(2)
            for (int r = 0; r < rows; r++)
UNROLLED(13)
                for (int i = 0; i < keys; i++) sum[r][i] = with_four(sum[r][i], four, at[r] + i * right + f + g);
        }
    const __m512 unit = _mm512_loadu_ps(query->unit);
UNROLLED(2)
    for (int r = 0; r < rows; r++)
UNROLLED(13)
        for (int i = 0; i < keys; i++) _mm512_storeu_ps(out[r] + i * LANES, _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum[r][i]), unit_of(at[r] + i * right)), unit));
}

ALWAYS void make_row_of(float *const *out, const int32_t *key, ptrdiff_t down, ptrdiff_t right, const SnlsSieveBytes *query, const int rows, int keys)
{
    float *to[2] = {out[0], out[1]};
    for (; keys > KEYS; keys -= 12, key += 12 * right, to[0] += 12 * LANES, to[1] += 12 * LANES) make_keys(to, key, down, right, query, rows, 12);
    if (keys == 13) make_keys(to, key, down, right, query, rows, 13);
    else if (keys > 8) make_keys(to, key, down, right, query, rows, 12);
    else if (keys > 4) make_keys(to, key, down, right, query, rows, 8);
    else make_keys(to, key, down, right, query, rows, 4);
}

/* One row or two. Keys of a few numbers of features are reached without arithmetic. */
ALWAYS void make_rows(const SnlsSieveMake *m, int row, const int rows, int keys)
{
    const int32_t *key = (const int32_t *)(const void *)(m->keys.at + row * m->keys.down);
    const SnlsSieveBytes *query = (const SnlsSieveBytes *)(const void *)m->query;
    float *const out[2] = {snls_sieve_unit(m, row * m->tiles), snls_sieve_unit(m, (row + rows - 1) * m->tiles)};
    const ptrdiff_t down = rows > 1 ? m->keys.down * 2 / FOUR : 0, right = m->keys.right * 2 / FOUR;
    switch (right) {
    case HEAD + 8: make_row_of(out, key, down, HEAD + 8, query, rows, keys); break;
    case HEAD + 16: make_row_of(out, key, down, HEAD + 16, query, rows, keys); break;
    case HEAD + 32: make_row_of(out, key, down, HEAD + 32, query, rows, keys); break;
    default: make_row_of(out, key, down, right, query, rows, keys);
    }
}

static void make_one(const SnlsSieveMake *m, int row, int keys) { make_rows(m, row, 1, keys); }
static void make_two(const SnlsSieveMake *m, int row, int keys) { make_rows(m, row, 2, keys); }

ALWAYS void make_some(SnlsSieveMake *box, SnlsSieveMake *next, int row, int rows, int keys, const int at_once)
{
    (void)next, (void)at_once;
    if (row % 2) return;
    if (row + 1 < rows) make_two(box, row, keys);
    else make_one(box, row, keys);
}

ALWAYS void make_next(SnlsSieveMake *next) { (void)next; }

static void make_first(SnlsSieveMake *m) { (void)m; }

#include "simd/sieve_scan_avx512.h"

void snls_sieve_init_scan_vnni(SnlsSieve *sieve)
{
    sieve->make = make_first;
    sieve->scan = scan;
    sieve->hits = hits;
}
