/* match_grad.c: gradients of search, search_all and refine. Two passes, each with one owner per sum and a fixed order:
 *   queries: d query, and d flow (or d centre), by bands of rows of the query video (match_grad_query.c);
 *   keys:    d key, by bands of rows of a key frame, which take what falls in them (match_grad_key.c).
 * Where bands are thick enough the first does the work of both. */
#include "cpu/match_grad.h"

bool snls_grad_kept_anywhere(const CpuGrad *p, const CpuGradQuery *at, uint32_t row, uint32_t column, CpuKept *kept)
{
    const SnlsMatch *m = &p->c.m;
    const SnlsMatchWindow w = snls_match_window(m, &at->q, kept->window);
    if (!w.valid) return false;
    kept->frame = w.frame;
    kept->slope_y = w.slope_y;
    kept->slope_x = w.slope_x;
    kept->y = snls_match_y(m, &w, row);
    kept->x = snls_match_x(m, &w, column);
    return snls_inside(kept->y, m->height) && snls_inside(kept->x, m->width);
}

static SnlsStatus take_tensors(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g)
{
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "query", &m->query));
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "key", &m->key));
    SNLS_TRY(snls_cpu_take_numbers(ctx, m->op, m->refine ? "centre" : "flow", &m->centre));
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "gradient of query", &g->query));
    SNLS_TRY(snls_cpu_take_video(ctx, m->op, "gradient of key", &g->key));
    SNLS_TRY(snls_cpu_take_numbers(ctx, m->op, m->refine ? "gradient of centre" : "gradient of flow", &g->centre));
    SNLS_TRY(snls_cpu_take_numbers(ctx, m->op, "gradient of dist", &g->dist));
    return snls_cpu_take_numbers(ctx, m->op, "gradient of offset", &g->offset);
}

#define TILE 4096 /* floats of a row of the video: of a window of 9 rows in 3 frames, half a megabyte */
#define PATCH_TILE 2048 /* the rows of patches above and below, and the gradient of the key */

/* Floats along the axes of a field of centres; heads may share one. */
static void centre_axes(const SnlsMatch *m, const SnlsTensor *t, int64_t *head, int64_t *column, int64_t *window)
{
    const int64_t *s = t->stride;
    if (!t->data) return;
    *head = m->refine || t->ndim == 7 ? s[1] : 0;
    *column = s[m->refine ? 4 : t->ndim - 2];
    *window = s[m->refine ? 5 : t->ndim - 4];
}

static CpuGrad grad_of(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g)
{
    CpuGrad p = {.c = {.m = *m, .dsp = snls_cpu_dsp(ctx)}, .g = *g};
    if (!g->dist.data) p.g.dist = (SnlsTensor){0}; /* its strides are used */
    const int64_t cells = m->side * m->side, largest = (int64_t)INT32_MAX + 1; /* a number is never larger: one window then */
    p.candidates = m->windows * cells;
    p.cells = (uint32_t)(cells < largest ? cells : largest);
    p.side = (uint32_t)m->side;
    p.origin = (m->side - 1) / 2;
    p.before = m->stride1 * (double)p.origin;
    p.after = m->stride1 * (double)(m->side - 1 - p.origin);
    p.last_y = m->height > 1 ? (double)(m->height - 1) : -1; /* on one row the slope is 0 */
    p.last_x = m->width > 1 ? (double)(m->width - 1) : -1;
    const int64_t pixel = m->heads * m->features, floats = m->ps > 1 ? PATCH_TILE : TILE, tile = pixel ? floats / pixel : floats;
    p.tile = tile < 16 ? 16 : tile;
    centre_axes(m, &m->centre, &p.centre_head, &p.centre_column, &p.centre_window);
    centre_axes(m, &g->centre, &p.sums_head, &p.sums_column, &p.sums_window);
    return p;
}

/* Bands for about this many units a thread; thin ones would see too many neighbours twice. */
static int64_t bands_of(SnlsContext *ctx, const SnlsMatch *m, int64_t per_thread, int64_t thinnest)
{
    const int64_t planes = m->batch * m->frames, most = m->height / thinnest;
    const int64_t bands = planes ? (per_thread * ctx->threads + planes - 1) / planes : 1;
    return bands > most ? (most > 1 ? most : 1) : bands;
}

/* Bands of rows where the gradients of queries and keys are summed in one pass, which reads each pair of patches once. Neighbours that touch two bands are read
 * twice: one band for each thread, two where patches have thick ones. 0: they would be so thin that most neighbours touch two. Sums are the same in one pass and
 * in two. */
static int64_t bands_of_both(SnlsContext *ctx, const SnlsMatch *m, int64_t thinnest, int64_t thick)
{
    const int64_t bands = m->batch ? (ctx->threads + m->batch - 1) / m->batch : 1;
    if (bands == 1) return 1;
    return m->ps > 1 && m->height / bands >= thick ? 2 * bands : m->height / bands >= thinnest ? bands : 0;
}

/* Whether the pixels of a patch row lie without gaps in all videos that are read or written. */
static bool is_joined(const CpuGrad *p)
{
    const SnlsMatch *m = &p->c.m;
    const CpuVideo *all[] = {&p->c.query, &p->c.key, &p->d_query, &p->d_key};
    bool joined = m->dilation == 1 && m->heads == 1;
    for (int i = 0; i < 4; i++) joined = joined && (!all[i]->data || all[i]->step[3] == m->features);
    return joined;
}

/* Whole patches: their pixels side by side, the gradient of the query laid out as the query is. */
static bool is_taken_whole(const CpuGrad *p)
{
    const SnlsMatch *m = &p->c.m;
    const bool alike = !p->d_query.data || (p->d_query.step[2] == p->c.query.step[2] && p->d_query.step[3] == p->c.query.step[3]);
    return m->ps > 1 && m->dilation == 1 && alike; /* single pixels: no gain */
}

SnlsStatus snls_cpu_match_backward(SnlsContext *ctx, const SnlsMatch *m, const SnlsMatchGrad *g)
{
    CpuGrad p = grad_of(ctx, m, g);
    const bool keys = g->key.data && g->dist.data, queries = (g->query.data && g->dist.data) || g->centre.data;
    const bool patches = m->ps > 1; /* of those that are cut a band makes its own rows, and little more: bands may be thin, but fewer are better */
    const int64_t patch = m->ps * m->dilation, query_bands = bands_of(ctx, m, patches ? 4 : 8, 4 + patch), key_bands = bands_of(ctx, m, patches ? 3 : 4, patches ? 8 + patch : 20);
    const int64_t thinnest = patches ? 8 + patch : m->refine ? 20 : 4; /* where finding neighbours again takes little, what two bands both look at does too */
    const int64_t both = keys && queries ? bands_of_both(ctx, m, thinnest, 64 + 16 * patch) : 0;
    const int64_t reaches = keys && (key_bands > 1 || both > 1 || m->refine) ? m->batch * m->frames * m->rows : 0;
    SNLS_TRY(take_tensors(ctx, m, g));
    p.laid_at = ((m->features * m->ps + SNLS_GRAD_PAGE) * m->ps + SNLS_GRAD_PAGE + 15) / 16 * 16;
    p.spare_size = p.laid_at + (m->ps > 1 ? snls_grad_laid(m) : 0) + snls_grad_spare();
    snls_arena_begin(&ctx->arena);
    snls_cpu_video_plan(ctx, &m->query);
    snls_cpu_video_plan(ctx, &m->key);
    snls_cpu_sum_plan(ctx, &g->query);
    snls_cpu_sum_plan(ctx, &g->key);
    snls_arena_plan(&ctx->arena, ctx->threads * p.spare_size, sizeof(float));
    snls_arena_plan(&ctx->arena, reaches, sizeof *p.reach);
    SNLS_TRY(snls_scratch_commit(ctx, m->op));
    snls_cpu_video_claim(ctx, &p.c.query, &m->query);
    snls_cpu_video_claim(ctx, &p.c.key, &m->key);
    snls_cpu_sum_claim(ctx, &p.d_query, &g->query);
    snls_cpu_sum_claim(ctx, &p.d_key, &g->key);
    p.spare = snls_arena_claim(&ctx->arena, ctx->threads * p.spare_size, sizeof(float));
    p.reach = snls_arena_claim(&ctx->arena, reaches, sizeof *p.reach);
    p.pixels = is_joined(&p) ? m->ps : 1;
    p.inside = is_taken_whole(&p);
    if (both && (p.inside || m->ps == 1)) {
        if (both > 1) snls_grad_reaches(ctx, &p);
        else p.reach = NULL;
        snls_grad_queries(ctx, &p, both, true);
    } else {
        if (queries || p.reach) snls_grad_queries(ctx, &p, query_bands, false);
        if (keys) snls_grad_keys(ctx, &p, key_bands);
    }
    snls_cpu_sum_finish(ctx, &p.d_query, &g->query);
    snls_cpu_sum_finish(ctx, &p.d_key, &g->key);
    return SNLS_OK;
}
