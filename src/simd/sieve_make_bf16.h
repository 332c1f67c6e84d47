/* sieve_make_bf16.h: products of sixteen queries with a row of keys by BFMMLA: two keys times two queries, four features at a time. */
#ifndef SNLS_SIEVE_MAKE_BF16_H
#define SNLS_SIEVE_MAKE_BF16_H

#include "simd/sieve.h"
#include <arm_neon.h>

#define ALWAYS static inline __attribute__((always_inline))
enum { LANES = SNLS_SIEVE_LANES, CHUNK = SNLS_SIEVE_CHUNK, TWOS = LANES / 2, KEYS = 6 }; /* so many keys' sums fit the registers */

ALWAYS bfloat16x8_t load_bf16(const uint16_t *p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }

/* All features of a part of the keys times one of the queries. Both come from memory as they are: on a Neoverse V1 what a vector instruction has made is only near two of
 * the four pipes, and products of it go half as fast (lab/rates_aarch64.c). right: numbers from a key to the next. */
ALWAYS void add_part(float32x4_t sum[KEYS / 2][TWOS], const uint16_t *key, ptrdiff_t right, const uint16_t *query, ptrdiff_t features, const int keys, const int twos)
{
    for (ptrdiff_t f = 0; f < features; f += 4, query += 4 * LANES) {
        bfloat16x8_t pair[KEYS / 2];
#pragma GCC unroll 3
        for (int i = 0; i < keys / 2; i++) {
            pair[i] = load_bf16(key + 2 * (i * right + f));
            __asm__ volatile("" : "+w"(pair[i]) : : "memory"); /* in this order: else compilers load far ahead and run out of registers */
        }
#pragma GCC unroll 8
        for (int j = 0; j < twos; j++) {
            bfloat16x8_t q = load_bf16(query + 8 * j);
            __asm__ volatile("" : "+w"(q) : : "memory");
#pragma GCC unroll 3
            for (int i = 0; i < keys / 2; i++) sum[i][j] = vbfmmlaq_f32(sum[i][j], pair[i], q);
        }
    }
}

/* Sums of two keys and two queries each, into a row of the queries for each key. */
ALWAYS void store_sums(float *out, float32x4_t sum[KEYS / 2][TWOS], const int keys, const int twos)
{
#pragma GCC unroll 3
    for (int i = 0; i < keys / 2; i++)
#pragma GCC unroll 4
        for (int j = 0; j < twos; j += 2) {
            const float64x2_t a = vreinterpretq_f64_f32(sum[i][j]), b = vreinterpretq_f64_f32(sum[i][j + 1]);
            vst1q_f32(out + 2 * i * LANES + 2 * j, vreinterpretq_f32_f64(vzip1q_f64(a, b)));
            vst1q_f32(out + (2 * i + 1) * LANES + 2 * j, vreinterpretq_f32_f64(vzip2q_f64(a, b)));
        }
}

ALWAYS void make_keys(float *out, const SnlsSieveKeys *k, const uint16_t *key, const uint16_t *query, const int keys, const int twos)
{
    const ptrdiff_t features = (ptrdiff_t)k->chunks * CHUNK;
    float32x4_t sum[KEYS / 2][TWOS];
#pragma GCC unroll 3
    for (int i = 0; i < keys / 2; i++)
#pragma GCC unroll 8
        for (int j = 0; j < twos; j++) sum[i][j] = vdupq_n_f32(0);
    add_part(sum, key, k->right, query, features, keys, twos);
    if (k->parts > 1) {
        add_part(sum, key, k->right, query + features * LANES, features, keys, twos);
        add_part(sum, key + 2 * features, k->right, query, features, keys, twos);
    }
    store_sums(out, sum, keys, twos);
}

ALWAYS void make_row_of(float *out, const SnlsSieveKeys *k, const uint16_t *key, const uint16_t *query, int columns, const int twos)
{
    int c = 0;
    for (; c + 5 <= columns; c += 6) make_keys(out + c * LANES, k, key + c * k->right, query, 6, twos);
    if (c + 3 <= columns) {
        make_keys(out + c * LANES, k, key + c * k->right, query, 4, twos);
        c += 4;
    }
    if (c < columns) make_keys(out + c * LANES, k, key + c * k->right, query, 2, twos);
}

/* Keys of row `row` of the box, `columns` of them from the first of its pair on and one more where that is odd, with lanes first .. end-1, whole fours of them: (columns, lanes). */
static void make_row(float *out, const SnlsSieveMake *m, int row, int columns, int first, int end)
{
    const uint16_t *key = m->keys.at + row * m->keys.down, *query = m->query + first * 4;
    switch ((end - first) / 4) {
    case 1: make_row_of(out + first, &m->keys, key, query, columns, 2); break;
    case 2: make_row_of(out + first, &m->keys, key, query, columns, 4); break;
    case 3: make_row_of(out + first, &m->keys, key, query, columns, 6); break;
    case 4: make_row_of(out + first, &m->keys, key, query, columns, 8); break;
    }
}

#endif
