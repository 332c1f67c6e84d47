/* sieve_guess.c: whether rough scores from bytes would do. Bytes lose more than bf16 numbers, and where features are much alike nearly every candidate would have to be
 * scored again; a look at a few queries tells so before anything is turned into bytes. */
#include "cpu/sieve.h"
#include <math.h>

enum { QUERIES = 48, LEAST = 8, EACH = 1024, MANY = 4096, MEASURED = 4 }; /* queries that are looked at: one of EACH; MANY: candidates of one that are looked at, of which one of MEASURED is measured */

/* Of pixels, the centre taken off: the largest length, and the most that bytes lose, if what rounding takes off is anything up to half a unit. */
typedef struct Extent { float length, lost; } Extent;

static void extend(Extent *e, const float *pixel, const float *centre, int64_t n)
{
    float most = 0, sum = 0;
    for (int64_t f = 0; f < n; f++) {
        const float a = pixel[f] - (centre ? centre[f] : 0);
        sum += a * a;
        most = fmaxf(most, fabsf(a));
    }
    e->length = fmaxf(e->length, sqrtf(sum));
    e->lost = fmaxf(e->lost, most / 127 * sqrtf((float)n / 12));
}

/* Scores of the pixels of a query's window in one slot, appended. */
static int64_t score_slot(const CpuSieve *v, const SnlsQuery *q, const float *pixel, int64_t slot, Extent *keys, float *score, int64_t count)
{
    const CpuMatch *c = v->c;
    const SnlsMatch *m = &c->m;
    const SnlsMatchWindow w = snls_match_window(m, q, slot);
    int64_t row0, row1, column0, column1;
    if (!w.valid || (slot == 0 && m->exclude == SNLS_EXCLUDE_FRAME)) return count;
    snls_match_valid_run(w.y, m->stride1, w.origin_y, m->side, m->height, &row0, &row1);
    snls_match_valid_run(w.x, m->stride1, w.origin_x, m->side, m->width, &column0, &column1);
    for (int64_t row = row0; row < row1; row += v->steps)
        for (int64_t column = column0; column < column1 && count < MANY; column += v->steps) {
            const int64_t y = (int64_t)floor(snls_match_y(m, &w, row)), x = (int64_t)floor(snls_match_x(m, &w, column));
            const float *key = snls_cpu_pixel(&c->key, q->b, w.frame, y, x) + q->head * m->features;
            if (count % MEASURED == 0) extend(keys, key, v->keys.centre, m->features);
            score[count++] = m->prod ? -c->dsp->dot(pixel, key, m->features) : c->dsp->l2(pixel, key, m->features);
        }
    return count;
}

/* The k-th least of all. */
static float kth_of(const float *score, int64_t count, int64_t k)
{
    float least[SNLS_SIEVE_KEPT];
    for (int64_t i = 0; i < k; i++) least[i] = INFINITY;
    for (int64_t i = 0; i < count; i++) {
        float s = score[i];
        for (int64_t j = 0; j < k; j++)
            if (s < least[j]) {
                const float more = least[j];
                least[j] = s;
                s = more;
            }
    }
    return least[k - 1];
}

/* How many candidates of a query would be scored again: the bar is about that of sieve_pick.c. */
static int64_t below_bar(const CpuSieve *v, const SnlsQuery *q)
{
    const SnlsMatch *m = &v->c->m;
    const float *pixel = snls_cpu_pixel(&v->c->query, q->b, q->t, q->i * m->stride0, q->j * m->stride0) + q->head * m->features;
    float score[MANY];
    Extent query = {0}, keys = {0};
    int64_t count = 0, below = 0;
    for (int64_t slot = 0; slot < m->windows; slot++) count = score_slot(v, q, pixel, slot, &keys, score, count);
    extend(&query, pixel, m->prod ? NULL : v->keys.centre, m->features);
    const float top = kth_of(score, count, v->c->k), off = query.length * keys.lost + query.lost * keys.length, far = sqrtf(top) + 2 * (query.lost + keys.lost);
    const float bar = m->prod ? top + 2 * off : v->rounded ? far * far : top + 4 * off;
    for (int64_t i = 0; i < count; i++) below += !(score[i] > bar);
    return below;
}

bool snls_sieve_promising(const CpuSieve *v, int64_t enough)
{
    const SnlsMatch *m = &v->c->m;
    const int64_t all = m->frames * m->rows * m->columns, wanted = all / EACH < LEAST ? LEAST : all / EACH < QUERIES ? all / EACH : QUERIES;
    int64_t below = 0;
    for (int64_t n = 0; n < wanted; n++) {
        const SnlsQuery q = snls_cpu_sample(m, n, wanted);
        below += below_bar(v, &q);
    }
    return below < enough * wanted;
}
