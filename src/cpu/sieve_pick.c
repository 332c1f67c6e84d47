/* sieve_pick.c: which candidates may be among the best, given how far rough scores can be off; their exact scores; the lists. */
#include "cpu/sieve.h"
#include <float.h>
#include <math.h>

void snls_sieve_begin_lists(const CpuSieve *v, CpuSieveScratch *s)
{
    for (int64_t i = 0; i < v->c->k * SIEVE_LANES; i++) {
        s->top[i] = s->best[i] = INFINITY;
        s->place[i] = UINT32_MAX;
    }
    s->key_norm = s->key_lost = 0;
}

/* How far rough scores may be off. Features are rounded to one part or two; their sums, and those of exact scores, to f32.
 *
 * One part, or bytes: with q = q' + a and k = k' + b, what rounding took off,
 *   <q, k> = <q', k'> + <q, b> + <a, k'>, and products are off by |q||b| + |a||k'|. So are half the squared distances made of them and of |q|, |k|.
 *   |q - k| is |q' - k'| but for |a| + |b|: distances made of |q'| and |k'| (`rounded`) are the better the nearer pixels are. That is for candidates at pixels: between them
 *   corners are as far as pixels are from each other.
 *   |a| and |b| are measured. A number has 8 bits in bf16, so that up to 2^-8 of it is rounded off, but seldom that much of all numbers of a pixel.
 * Two parts: both numbers are off by 2^-16, and the product of the two low parts, 2^-16 at most, is left out.
 *
 * f32, rough or exact: see `rounding`; some for interpolation, and the bits that hold a column. An exact score has pixels with their centre: 2^-24 of those; so has what
 * rough scores lack. The matrix unit takes denormal numbers as 0. */

/* The longest, their centre, the most that one loses; what is too small for f32, of pixels as they are too. */
typedef struct Keys { float length, centre, lost, least; } Keys;

/* f32 alone. A rough product is a sum of `terms` one after the other, which may be rounded to either side: 2^-23 each. Lengths and exact scores are summed up in four lanes or more. products:
 * |q||k| as often as it is in a score; norm: |q|^2, l2 only; scale: of scores. */
static float rounding(const CpuSieve *v, const Keys *k, float query, float products, float norm, float scale)
{
    const float unit = 0x1p-24f, n = (float)v->keys.padded, terms = v->keys.parts > 1 ? 3 * n : n, column = (float)(2u << v->bits);
    return unit * (column * scale + 2.1f * terms * products + (n / 2 + 40) * (scale + norm)) + 4 * terms * k->least * (1 + query + k->length);
}

/* Rough products may be whole numbers of grains: half a grain off, mixtures another along each axis and another for their fractions; and the last bits hold a column. */
static float rounding_of_products(const CpuSieve *v, const Keys *k, float query)
{
    const float grains = v->s.grain > 0 ? (float)(1u << v->bits) + 4 : 0;
    return rounding(v, k, query, query * k->length, 0, query * (k->length + k->centre)) + grains * (v->s.grain * query * k->length + 0x1p-100f);
}

static float rounding_of_squares(const CpuSieve *v, const Keys *k, float query)
{
    return rounding(v, k, query, 2 * query * k->length, query * query, (2 * query + k->length) * k->length) + 16 * 0x1p-24f * (k->length + k->centre) * (query + k->length);
}

/* Squared distances that look like `top` are not above some d; who is not above d looks like this at most. off: what else both may be off. */
static float farthest(float top, float less, float off)
{
    const float d = less + sqrtf(top + off > 0 ? top + off : 0), d2 = d * d + 2 * off, far = sqrtf(d2) + less;
    return far * far + off;
}

/* How far products and distances are off for what numbers lost. */
static void off_by_two_parts(const Keys *k, const float *query, float *product)
{
    for (int64_t l = 0; l < SIEVE_LANES; l++) product[l] = 0x1.9p-15f * query[l] * k->length;
}

static void off_by_lost(const CpuSieveScratch *s, const Keys *k, const float *query, float sure, float tiny, float *product, float *less)
{
    for (int64_t l = 0; l < SIEVE_LANES; l++) {
        const float of_query = sure * sqrtf(s->lost[l]) + tiny;
        product[l] = query[l] * k->lost + of_query * (k->length + k->lost);
        less[l] = of_query + k->lost;
    }
}

/* A bar for each lane: how the k-th least of the exact scores can look at most, given the k-th least rough one. Loops over lanes without a condition: compilers make
 * vectors of them. */
static void bars(const CpuSieve *v, const CpuSieveScratch *s, float *bar)
{
    const float n = (float)v->keys.padded, sure = 1.004f + 2 * n * 0x1p-24f, tiny = n * 0x1p-63f; /* lengths are sums in f32, of what was rounded; see SnlsSieveParts */
    const float scale = snls_sieve_scale(v);
    const Keys k = {sure * sqrtf(s->key_norm) + tiny, sure * scale * v->keys.centre[v->c->m.features], sure * sqrtf(s->key_lost) + tiny, 0x1p-126f * fmaxf(1, scale * scale)};
    const float *top = s->top + (v->c->k - 1) * SIEVE_LANES;
    float query[SIEVE_LANES], product[SIEVE_LANES], less[SIEVE_LANES] = {0}; /* product: how far one may be off; less: distances, one part only */
    for (int64_t l = 0; l < SIEVE_LANES; l++) query[l] = sure * sqrtf(s->norm[l]) + tiny;
    if (v->keys.parts > 1) off_by_two_parts(&k, query, product);
    else off_by_lost(s, &k, query, sure, tiny, product, less);
    if (v->c->m.prod)
        for (int64_t l = 0; l < SIEVE_LANES; l++) bar[l] = top[l] + 2 * (product[l] + rounding_of_products(v, &k, query[l]));
    else if (!v->rounded)
        for (int64_t l = 0; l < SIEVE_LANES; l++) bar[l] = top[l] + 2 * (2 * product[l] + rounding_of_squares(v, &k, query[l]));
    else
        for (int64_t l = 0; l < SIEVE_LANES; l++) bar[l] = farthest(top[l] + s->lack[l], less[l], rounding_of_squares(v, &k, query[l])) - s->lack[l];
    for (int64_t l = 0; l < SIEVE_LANES; l++) bar[l] = bar[l] <= FLT_MAX ? bar[l] : FLT_MAX; /* infinity marks what is no candidate */
}

static void enter_waiting(const CpuSieve *v, CpuSieveScratch *s)
{
    int rows = 0;
    for (int64_t l = 0; l < SIEVE_LANES; l++) rows = s->waiting[l] > rows ? s->waiting[l] : rows;
    v->s.keep(s->best, s->place, v->c->k, s->score[0], s->score_place[0], rows);
    for (int r = 0; r < rows; r++)
        for (int64_t l = 0; l < SIEVE_LANES; l++) {
            s->score[r][l] = INFINITY;
            s->score_place[r][l] = UINT32_MAX;
        }
    for (int64_t l = 0; l < SIEVE_LANES; l++) s->waiting[l] = 0;
}

static void wait_for_list(const CpuSieve *v, const SnlsSieveFound *found, CpuSieveScratch *s)
{
    for (ptrdiff_t i = 0; i < found->count; i++) {
        const uint32_t l = found->lane[i];
        const int row = s->waiting[l]++;
        s->score[row][l] = found->score[i];
        s->score_place[row][l] = found->place[i];
        if (row == SIEVE_BATCH - 1) enter_waiting(v, s);
    }
}

/* Exact scores of sixteen cells at a time; the next sixteen are fetched meanwhile. */
static void score_entries(const CpuSieve *v, const uint32_t *entry, ptrdiff_t count, int taps, const float *limit, CpuSieveScratch *s)
{
    SnlsSievePairs pairs[2];
    SnlsSieveFound found;
    if (count) v->s.look_up(&pairs[0], entry, count, &s->table, taps);
    for (ptrdiff_t i = 0; i < count; i += SIEVE_LANES) {
        const SnlsSievePairs *now = &pairs[i / SIEVE_LANES % 2];
        const ptrdiff_t left = count - i;
        snls_sieve_keep_awake(v);
        if (left > SIEVE_LANES) v->s.look_up(&pairs[(i / SIEVE_LANES + 1) % 2], entry + i + SIEVE_LANES, left - SIEVE_LANES, &s->table, taps);
        snls_sieve_keep_awake(v);
        v->s.scores(&found, now, taps, v->c->m.prod, v->c->m.features, limit);
        wait_for_list(v, &found, s);
    }
    s->hits += count;
}

static void score_both(const CpuSieve *v, SnlsSieveEntries *whole, SnlsSieveEntries *between, const float *limit, CpuSieveScratch *s)
{
    score_entries(v, whole->at, whole->count, 1, limit, s);
    score_entries(v, between->at, between->count, 4, limit, s);
    whole->count = between->count = 0;
}

/* Cells whose least rough score is not above the bar; of their candidates those whose exact score is not. */
void snls_sieve_pick(const CpuSieve *v, CpuSieveScratch *s)
{
    float bar[SIEVE_LANES], limit[SIEVE_LANES];
    SnlsSieveEntries entries[2] = {{s->entry[0], 0, SIEVE_ENTRIES}, {s->entry[1], 0, SIEVE_ENTRIES}};
    bars(v, s, bar);
    s->table.boxes = (int32_t)s->boxes;
    const float unscaled = 1 / (snls_sieve_scale(v) * snls_sieve_scale(v));
    for (int64_t l = 0; l < SIEVE_LANES; l++) limit[l] = (bar[l] + s->lack[l]) * unscaled;
    for (int64_t b = 0; b < s->boxes; b++) {
        const SnlsSieveRows *rows = &s->rows[b];
        for (int row = 0; (row = v->s.hits(rows, &s->table, b, row, bar, &entries[s->between[b]], &entries[0])) < rows->rows;) score_both(v, &entries[0], &entries[1], limit, s);
    }
    score_both(v, &entries[0], &entries[1], limit, s);
    enter_waiting(v, s);
    s->boxes = s->used = 0;
}
