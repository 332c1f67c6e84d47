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
    s->key_norm = 0;
}

/* A bar for each lane: the k-th least rough score, and twice what a rough score may be off from the f32 score of the same candidate. In units of |q||k| (l2: of
 * 2|q||k| and |k|^2, the centre taken off both):
 *   cut     rounding to bf16 loses 2^-9 of a number, to two parts 2^-18. One part: both numbers are off, and their product. Two parts: both off by 2^-18, and the
 *           product of the two low parts, 2^-18 at most, is left out;
 *   column  the bits that hold it;
 *   unit    sums in f32, rough and exact, 2^-24 a term, and some for interpolation. In l2 an exact score mixes pixels with their centre: 2^-24 of those;
 *   last    the matrix unit takes denormal numbers as 0. */
static void bars(const CpuSieve *v, const CpuSieveScratch *s, float *bar)
{
    const bool prod = v->c->m.prod;
    const float unit = 0x1p-24f, n = (float)v->keys.padded, terms = v->keys.parts > 1 ? 3 * n : n;
    const float cut = v->keys.parts > 1 ? 0x1.9p-17f : 0x1.02p-8f, column = (float)(2u << v->bits) * unit;
    const float key = sqrtf(s->key_norm), centre = v->keys.centre ? v->keys.centre[v->c->m.features] : 0;
    for (int64_t l = 0; l < SIEVE_LANES; l++) {
        const float query = sqrtf(s->norm[l]), both = (prod ? 1 : 2) * query * key, scale = prod ? both : both + s->key_norm;
        float off = cut * both + column * scale + unit * (terms + n + 32) * (prod ? both : 4 * (scale + s->norm[l]));
        if (!prod) off += 16 * unit * (key + centre) * (query + key);
        off += 4 * terms * 0x1p-126f * (1 + query + key);
        bar[l] = s->top[(v->c->k - 1) * SIEVE_LANES + l] + 2 * off;
        if (!(bar[l] <= FLT_MAX)) bar[l] = FLT_MAX; /* infinity marks what is no candidate */
    }
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
    for (int64_t l = 0; l < SIEVE_LANES; l++) limit[l] = bar[l] + (v->c->m.prod ? 0 : s->norm[l]); /* rough l2 lacks |q|^2 */
    for (int64_t b = 0; b < s->boxes; b++) {
        const SnlsSieveRows *rows = &s->rows[b];
        for (int row = 0; (row = v->s.hits(rows, &s->table, b, row, bar, &entries[s->between[b]], &entries[0])) < rows->rows;) score_both(v, &entries[0], &entries[1], limit, s);
    }
    score_both(v, &entries[0], &entries[1], limit, s);
    enter_waiting(v, s);
    s->boxes = s->used = 0;
}
