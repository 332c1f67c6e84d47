/* sieve_make_bf16.h: products of sixteen queries with a row of keys by BFMMLA: two keys times two queries, four features at a time. */
#ifndef SNLS_SIEVE_MAKE_BF16_H
#define SNLS_SIEVE_MAKE_BF16_H

#include "simd/sieve_bf16.h"
#include "simd/unroll.h"

enum { CHUNK = SNLS_SIEVE_CHUNK, TWOS = LANES / 2, KEYS = 12 }; /* of sums of two keys and two queries up to 24 fit the registers */

ALWAYS bfloat16x8_t load_bf16(const uint16_t *p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }

/* All features of a part of the keys times one of the queries. Both come from memory as they are: on a Neoverse V1 what a vector instruction has made is only near two of
 * the four pipes, and products of it go half as fast (lab/rates_aarch64.c). right: numbers from a key to the next. */
ALWAYS void add_part(float32x4_t sum[KEYS / 2][TWOS], const uint16_t *key, ptrdiff_t right, const uint16_t *query, ptrdiff_t features, const int keys, const int twos)
{
    for (ptrdiff_t f = 0; f < features; f += 4, query += 4 * LANES) {
        bfloat16x8_t pair[KEYS / 2];
UNROLLED(6)
        for (int i = 0; i < keys / 2; i++) {
            pair[i] = load_bf16(key + 2 * (i * right + f));
            __asm__ volatile("" : "+w"(pair[i]) : : "memory"); /* in this order: else compilers load far ahead and run out of registers */
        }
UNROLLED(8)
        for (int j = 0; j < twos; j++) {
            bfloat16x8_t q = load_bf16(query + 8 * j);
            __asm__ volatile("" : "+w"(q) : : "memory");
UNROLLED(6)
            for (int i = 0; i < keys / 2; i++) sum[i][j] = vbfmmlaq_f32(sum[i][j], pair[i], q);
        }
    }
}

/* Sums of two keys and two queries each, into a row of the queries for each key. */
ALWAYS void store_sums(float *out, float32x4_t sum[KEYS / 2][TWOS], const int keys, const int twos)
{
UNROLLED(6)
    for (int i = 0; i < keys / 2; i++)
UNROLLED(4)
        for (int j = 0; j < twos; j += 2) {
            const float64x2_t a = vreinterpretq_f64_f32(sum[i][j]), b = vreinterpretq_f64_f32(sum[i][j + 1]);
            vst1q_f32(out + 2 * i * LANES + 2 * j, vreinterpretq_f32_f64(vzip1q_f64(a, b)));
            vst1q_f32(out + (2 * i + 1) * LANES + 2 * j, vreinterpretq_f32_f64(vzip2q_f64(a, b)));
        }
}

/* A sum as a 16-bit number of units: added to 1.5*2^23, where floats are whole numbers, it is the low half. */
ALWAYS int16x8_t in_grains(float32x4_t a, float32x4_t b, const float grain[2][4])
{
    const float32x4_t whole = vdupq_n_f32(0x1.8p23f);
    return vuzp1q_s16(vreinterpretq_s16_f32(vfmaq_f32(whole, a, vld1q_f32(grain[0]))), vreinterpretq_s16_f32(vfmaq_f32(whole, b, vld1q_f32(grain[1]))));
}

/* The same as 16-bit numbers: eight queries at a time, four where they are left over. */
ALWAYS void store_grains(int16_t *out, float32x4_t sum[KEYS / 2][TWOS], const float grain[][4], const int keys, const int twos)
{
UNROLLED(6)
    for (int i = 0; i < keys / 2; i++)
UNROLLED(2)
        for (int j = 0; j < twos; j += 4) {
            const int32x4_t a = vreinterpretq_s32_s16(in_grains(sum[i][j], sum[i][j + 1], grain + j)),
                            b = j + 2 < twos ? vreinterpretq_s32_s16(in_grains(sum[i][(j + 2) % TWOS], sum[i][(j + 3) % TWOS], grain + j + 2)) : a;
            int16_t *to = out + 2 * i * LANES + 2 * j;
            const int16x8_t first = vreinterpretq_s16_s32(vuzp1q_s32(a, b)), second = vreinterpretq_s16_s32(vuzp2q_s32(a, b));
            if (j + 2 < twos) vst1q_s16(to, first), vst1q_s16(to + LANES, second);
            else vst1_s16(to, vget_low_s16(first)), vst1_s16(to + LANES, vget_low_s16(second));
        }
}

/* out: floats, or, with grain, 16-bit numbers. */
ALWAYS void make_keys(void *out, const SnlsSieveKeys *k, int c, const uint16_t *key, const uint16_t *query, const float grain[][4], const int keys, const int twos)
{
    const ptrdiff_t features = (ptrdiff_t)k->chunks * CHUNK;
    float32x4_t sum[KEYS / 2][TWOS];
    key += c * k->right;
UNROLLED(6)
    for (int i = 0; i < keys / 2; i++)
UNROLLED(8)
        for (int j = 0; j < twos; j++) sum[i][j] = vdupq_n_f32(0);
    add_part(sum, key, k->right, query, features, keys, twos);
    if (k->parts > 1) {
        add_part(sum, key, k->right, query + features * LANES, features, keys, twos);
        add_part(sum, key + 2 * features, k->right, query, features, keys, twos);
    }
    if (grain) store_grains((int16_t *)out + c * LANES, sum, grain, keys, twos);
    else store_sums((float *)out + c * LANES, sum, keys, twos);
}

ALWAYS void make_row_of(void *out, const SnlsSieveKeys *k, const uint16_t *key, const uint16_t *query, int columns, const float grain[][4], const int twos)
{
    int c = 0;
    for (; twos <= 4 && c + 11 <= columns; c += 12) make_keys(out, k, c, key, query, grain, 12, twos); /* few queries: as many keys, for products that do not wait for each other */
    for (; c + 5 <= columns; c += 6) make_keys(out, k, c, key, query, grain, 6, twos);
    if (c + 3 <= columns) {
        make_keys(out, k, c, key, query, grain, 4, twos);
        c += 4;
    }
    if (c < columns) make_keys(out, k, c, key, query, grain, 2, twos);
}

/* Keys of row `row` of the box, `columns` of them from the first of its pair on and one more where that is odd, with lanes first .. end-1, whole fours of them: (columns, lanes)
 * floats, or 16-bit numbers if there is a grain: of two queries each, what sums are multiplied by. */
ALWAYS void make_row(void *out, const SnlsSieveMake *m, int row, int columns, int first, int end, const float grain[][4])
{
    const uint16_t *key = m->keys.at + row * m->keys.down, *query = m->query + first * 4;
    void *at = grain ? (void *)((int16_t *)out + first) : (void *)((float *)out + first);
    const float(*scale)[4] = grain ? grain + first / 2 : NULL;
    switch ((end - first) / 4) {
    case 1: make_row_of(at, &m->keys, key, query, columns, scale, 2); break;
    case 2: make_row_of(at, &m->keys, key, query, columns, scale, 4); break;
    case 3: make_row_of(at, &m->keys, key, query, columns, scale, 6); break;
    case 4: make_row_of(at, &m->keys, key, query, columns, scale, 8); break;
    }
}

#endif
