/* match.c: distances and selection (docs/operators.md section 2); gradients are in match_grad.c. */
#include "ref/match.h"

void snls_ref_for_each_pair(const SnlsMatch *m, const SnlsQuery *q, double y, double x, void (*visit)(const RefPair *, void *), void *user)
{
    for (int64_t r = 0; r < m->ps; r++)
        for (int64_t c = 0; c < m->ps; c++) {
            const int64_t dy = m->dilation * (r - m->ps / 2), dx = m->dilation * (c - m->ps / 2);
            const int64_t qy = q->i * m->stride0 + dy, qx = q->j * m->stride0 + dx;
            RefPair pair;
            if (m->drop && (qy < 0 || qy >= m->height || qx < 0 || qx >= m->width)) continue;
            pair.qy = snls_reflect(qy, m->height);
            pair.qx = snls_reflect(qx, m->width);
            if (snls_ref_read_at(&pair.read, y + (double)dy, x + (double)dx, m->height, m->width, m->drop)) visit(&pair, user);
        }
}

typedef struct Distance {
    const SnlsMatch *m;
    const SnlsQuery *q;
    int64_t frame;
    double sum;
} Distance;

static void add_distance(const RefPair *pair, void *user)
{
    Distance *d = user;
    const SnlsMatch *m = d->m;
    const SnlsTensor *query = &m->query, *key = &m->key;
    for (int64_t f = 0; f < m->features; f++) {
        const int64_t c = d->q->head * m->features + f;
        const double a = snls_load(query, snls_at5(query, d->q->b, d->q->t, pair->qy, pair->qx, c));
        const double b = snls_ref_value(key, snls_at5(key, d->q->b, d->frame, 0, 0, c), key->stride[2], key->stride[3], &pair->read);
        d->sum += m->prod ? a * b : (a - b) * (a - b);
    }
}

typedef struct Candidate {
    double  dist;   /* as stored */
    int64_t id;     /* (window*side + row)*side + column */
    int64_t frame;
    double  y, x;
    int     rank;   /* 0: anchored, comes first */
    int     larger; /* prod: larger is better */
} Candidate;

/* The total order: anchors by slot, then distance, then slot, row, column. */
static bool before(const Candidate *a, const Candidate *b)
{
    if (a->rank != b->rank) return a->rank < b->rank;
    if (a->rank && a->dist != b->dist) return (a->dist < b->dist) != a->larger;
    return a->id < b->id;
}

/* Lets the candidate at `root` sink in a heap of n whose top comes last. */
static void sink(Candidate *list, int64_t root, int64_t n)
{
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(&list[child], &list[child + 1])) child++;
        if (!before(&list[root], &list[child])) return;
        const Candidate held = list[root];
        list[root] = list[child];
        list[child] = held;
    }
}

/* Heap sort: the C library's qsort may allocate on its own. */
static void sort(Candidate *list, int64_t n)
{
    for (int64_t root = n / 2; root-- > 0;) sink(list, root, n);
    for (int64_t end = n - 1; end > 0; end--) {
        const Candidate last = list[end];
        list[end] = list[0];
        list[0] = last;
        sink(list, 0, end);
    }
}

/* Candidates of one window that count, in raster order, appended to list. */
static int64_t list_window(const SnlsMatch *m, const SnlsQuery *q, int64_t window, Candidate *list)
{
    const SnlsMatchWindow w = snls_match_window(m, q, window);
    if (!w.valid || (m->exclude == SNLS_EXCLUDE_FRAME && window == 0)) return 0;
    int64_t self = -1, n = 0;
    if (window == 0 && (m->anchor == SNLS_ANCHOR_SELF || m->exclude == SNLS_EXCLUDE_SELF)) snls_match_nearest_self(m, q, &w, &self);
    for (int64_t cell = 0; cell < m->side * m->side; cell++) {
        const double y = snls_match_y(m, &w, cell / m->side), x = snls_match_x(m, &w, cell % m->side);
        if (!snls_inside(y, m->height) || !snls_inside(x, m->width)) continue;
        if (cell == self && m->exclude == SNLS_EXCLUDE_SELF) continue;
        Distance d = {.m = m, .q = q, .frame = w.frame};
        snls_ref_for_each_pair(m, q, y, x, add_distance, &d);
        const double dist = snls_rounded(m->dist.dtype, d.sum);
        if (isnan(dist)) continue;
        const bool target = m->anchor == SNLS_ANCHOR_EACH && cell == w.origin_y * m->side + w.origin_x;
        const bool anchored = target || (m->anchor == SNLS_ANCHOR_SELF && cell == self);
        list[n++] = (Candidate){dist, window * m->side * m->side + cell, w.frame, y, x, !anchored, m->prod};
    }
    return n;
}

/* Writes place `kept` of a query; NULL: no neighbour. */
static void write_place(const SnlsMatch *m, const SnlsQuery *q, int64_t kept, const Candidate *c)
{
    const int64_t at = snls_at6(&m->offset, q->b, q->head, q->t, q->i, q->j, kept), step = m->offset.stride[6];
    snls_store(&m->dist, snls_at6(&m->dist, q->b, q->head, q->t, q->i, q->j, kept), c ? c->dist : m->prod ? -INFINITY : INFINITY);
    snls_store(&m->offset, at, c ? (double)(c->frame - q->t) : 0);
    snls_store(&m->offset, at + step, c ? c->y - (double)(q->i * m->stride0) : 0);
    snls_store(&m->offset, at + 2 * step, c ? c->x - (double)(q->j * m->stride0) : 0);
    if (m->index.data)
        ((int32_t *)m->index.data)[snls_at6(&m->index, q->b, q->head, q->t, q->i, q->j, kept)] = c ? (int32_t)c->id : -1;
}

/* Best k of windows [first, end) into places from `kept` on. */
static void select_group(const SnlsMatch *m, const SnlsQuery *q, int64_t first, int64_t end, int64_t kept, Candidate *list)
{
    int64_t n = 0;
    for (int64_t window = first; window < end; window++) n += list_window(m, q, window, list + n);
    sort(list, n);
    for (int64_t k = 0; k < m->k; k++) write_place(m, q, kept + k, k < n ? &list[k] : NULL);
}

static void list_all(const SnlsMatch *m, const SnlsQuery *q, Candidate *list)
{
    const int64_t cells = m->side * m->side;
    for (int64_t window = 0; window < m->windows; window++) {
        const int64_t n = list_window(m, q, window, list);
        int64_t next = 0;
        for (int64_t id = window * cells; id < (window + 1) * cells; id++) {
            const bool there = next < n && list[next].id == id;
            write_place(m, q, id, there ? &list[next++] : NULL);
        }
    }
}

static void match_query(const SnlsMatch *m, const SnlsQuery *q, Candidate *list)
{
    if (m->all) list_all(m, q, list);
    else if (m->each) for (int64_t w = 0; w < m->windows; w++) select_group(m, q, w, w + 1, w * m->k, list);
    else select_group(m, q, 0, m->windows, 0, list);
}

SnlsStatus snls_ref_match_forward(SnlsContext *ctx, const SnlsMatch *m)
{
    snls_arena_begin(&ctx->arena);
    const int64_t candidates = m->windows * m->side * m->side; /* of one query: checked to fit 31 bits */
    snls_arena_plan(&ctx->arena, candidates, sizeof(Candidate));
    SNLS_TRY(snls_scratch_commit(ctx, m->op));
    Candidate *list = snls_arena_claim(&ctx->arena, candidates, sizeof *list);
    SnlsQuery q;
    for (q.b = 0; q.b < m->batch; q.b++)
        for (q.head = 0; q.head < m->heads; q.head++)
            for (q.t = 0; q.t < m->frames; q.t++)
                for (q.i = 0; q.i < m->rows; q.i++)
                    for (q.j = 0; q.j < m->columns; q.j++) match_query(m, &q, list);
    return SNLS_OK;
}
