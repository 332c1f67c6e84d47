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
    s->key_norm = s->key_loss = s->key_lean = s->key_bump = 0;
}

/* How far rough scores may be off. Features are rounded to one part or two; their sums, and those of exact scores, to f32.
 *
 * One part: with q = q' + a and k = k' + b, what rounding took off, <q, k> = <q', k'> + <q, b> + <a, k'>. The lengths of a and b are known: `less` and `loss`.
 *   prod    is off by |q||b| + |a||k'|.
 *   l2      |q - k|^2 = |q|^2 - 2<a, q> + |k|^2 - 2<k, b> - 2<q', k'> - 2<q - k, b> - 2<a, k' - q>: what only depends on the query or on the key is taken along (`lean`), and
 *           what is left, 2(|a| + |b|)d + 2|a||b|, is the smaller the nearer they are: d = |q - k|. Between pixels the corners' d count, of which the mean square is d^2 and
 *           what the score is corrected by, `bump` at most. Where that is much, as between pixels that have nothing to do with each other, 2(|q||b| + |a||k'|) and what was taken
 *           along bound it better.
 * Two parts: both numbers are off by 2^-18, and the product of the two low parts, 2^-18 at most, is left out.
 *
 * f32, rough or exact: 2^-24 a term, some for interpolation, and the bits that hold a column. An exact score has pixels with their centre: 2^-24 of those; so has what
 * rough scores lack. The matrix unit takes denormal numbers as 0. */
typedef struct Keys { float length, centre, loss, lean, bump; } Keys; /* the largest of a tile's boxes */

/* f32 alone. norm: |q|^2, l2 only; scale: of scores, the queries' and keys' lengths multiplied. */
static float rounding(const CpuSieve *v, const Keys *k, float query, float norm, float scale)
{
    const float unit = 0x1p-24f, n = (float)v->keys.padded, terms = v->keys.parts > 1 ? 3 * n : n, column = (float)(2u << v->bits);
    return unit * (column * scale + (terms + n + 32) * 4 * (scale + norm)) + 4 * terms * 0x1p-126f * (1 + query + k->length);
}

/* Squared distances that look like `top` are not above some d; who is not above d looks like this at most. off: what else both may be off. */
static float farthest(float top, float less, const Keys *k, float off)
{
    const float far = less + k->loss, both = 2 * less * k->loss, seen = top + k->bump + both + off;
    const float d = far + sqrtf(far * far + (seen > 0 ? seen : 0)), d2 = d * d + 2 * off;
    return d2 + 2 * far * sqrtf(d2) + both + off - k->bump;
}

/* A bar for each lane: how the k-th least of the exact scores can look at most, given the k-th least rough one. Loops over lanes without a condition: compilers make
 * vectors of them. */
static void bars(const CpuSieve *v, const CpuSieveScratch *s, float *bar)
{
    const bool prod = v->c->m.prod, two = v->keys.parts > 1;
    const float n = (float)v->keys.padded, sure = 1.001f + 2 * n * 0x1p-24f, tiny = n * 0x1p-74f; /* lengths are sums in f32; squares below 2^-149 are lost in them */
    const Keys k = {sure * sqrtf(s->key_norm), sure * v->keys.centre[v->c->m.features], sure * sqrtf(s->key_loss) + tiny, sure * s->key_lean + tiny * tiny, sure * s->key_bump};
    const float *top = s->top + (v->c->k - 1) * SIEVE_LANES, unit = 0x1p-24f;
    float query[SIEVE_LANES], less[SIEVE_LANES], off[SIEVE_LANES];
    for (int64_t l = 0; l < SIEVE_LANES; l++) query[l] = sure * sqrtf(s->norm[l]), less[l] = sure * sqrtf(s->loss[l]) + tiny;
    if (prod)
        for (int64_t l = 0; l < SIEVE_LANES; l++) off[l] = rounding(v, &k, query[l], 0, query[l] * (k.length + k.centre));
    else
        for (int64_t l = 0; l < SIEVE_LANES; l++)
            off[l] = rounding(v, &k, query[l], query[l] * query[l], (2 * query[l] + k.length) * k.length) + 16 * unit * (k.length + k.centre) * (query[l] + k.length);
    if (two)
        for (int64_t l = 0; l < SIEVE_LANES; l++) bar[l] = top[l] + 2 * ((prod ? 1 : 2) * 0x1.9p-17f * query[l] * k.length + off[l]);
    else if (prod)
        for (int64_t l = 0; l < SIEVE_LANES; l++) bar[l] = top[l] + 2 * (query[l] * k.loss + less[l] * (k.length + k.loss) + off[l]);
    else
        for (int64_t l = 0; l < SIEVE_LANES; l++) {
            const float near = farthest(top[l] + s->lack[l], less[l], &k, off[l]) - s->lack[l];
            const float far = top[l] + 2 * (2 * (query[l] * k.loss + k.lean + less[l] * (k.length + k.loss) + fabsf(s->lean[l])) + off[l]);
            bar[l] = near < far ? near : far;
        }
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
        if (left > SIEVE_LANES) v->s.look_up(&pairs[(i / SIEVE_LANES + 1) % 2], entry + i + SIEVE_LANES, left - SIEVE_LANES, &s->table, taps);
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
    for (int64_t l = 0; l < SIEVE_LANES; l++) limit[l] = bar[l] + s->lack[l];
    for (int64_t b = 0; b < s->boxes; b++) {
        const SnlsSieveRows *rows = &s->rows[b];
        for (int row = 0; (row = v->s.hits(rows, &s->table, b, row, bar, &entries[s->between[b]], &entries[0])) < rows->rows;) score_both(v, &entries[0], &entries[1], limit, s);
    }
    score_both(v, &entries[0], &entries[1], limit, s);
    enter_waiting(v, s);
    s->boxes = s->used = 0;
}
