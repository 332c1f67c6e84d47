/* tile_exact.c: scores of single pixels by l2 whose digits are in doubt (tile_pick.c): many candidates at a time from their pixels. */
#include "cpu/tile.h"
#include <math.h>

enum { AT_ONCE = 256 }; /* candidates scored before they enter lists */

void snls_tile_exact_begin(const CpuTile *tile, const CpuTilePlace *p, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    for (int64_t slot = 0; slot < m->windows; slot++)
        s->frame[slot] = snls_cpu_pixel(&tile->c->key, p->b, snls_slot_frame(p->t, slot, m->wt, m->frames), 0, 0) + p->head * m->features;
}

static SnlsTileExact exact_of(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t id, const CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuVideo *query = &tile->c->query, *key = &tile->c->key;
    const int64_t at = r * tile->lanes;
    const SnlsQuery q = snls_tile_query(tile, p, r, 0);
    return (SnlsTileExact){.cell = s->cell + id, .centre_y = s->window.y + at, .centre_x = s->window.x + at, .origin_y = s->window.origin_y + at,
                           .origin_x = s->window.origin_x + at, .apart = tile->runs * tile->lanes, .step = m->stride1, .frame = s->frame, .down = key->step[2],
                           .right = key->step[3], .query = snls_cpu_pixel(query, p->b, p->t, q.i * m->stride0, q.j * m->stride0) + p->head * m->features,
                           .query_step = query->step[3] * m->stride0, .features = m->features};
}

/* Where features are infinite, pixels mixed by their differences are no numbers, and the score may be one. */
static float score_again(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t l, int64_t id, const CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const uint32_t c = s->cell[id];
    const SnlsMatchWindow w = snls_tile_window(tile, p, &s->window, c >> 20, r, l);
    const SnlsQuery q = snls_tile_query(tile, p, r, l);
    snls_cpu_load_patch(tile->c, &q, s->single);
    return snls_cpu_score_at(tile->c, &q, w.frame, snls_match_y(m, &w, c >> 10 & 1023), snls_match_x(m, &w, c & 1023), s->single);
}

void snls_tile_exact(const CpuTile *tile, const CpuTilePlace *p, int64_t r, const float *value, int64_t n, int64_t id, const float *bar, CpuTileScratch *s)
{
    const SnlsTileExact in = exact_of(tile, p, r, id, s);
    const ptrdiff_t count = tile->t.below(s->below, value, n, bar, s->below + n * tile->lanes);
    float score[AT_ONCE];
    for (ptrdiff_t i = 0; i < count; i += AT_ONCE) {
        const ptrdiff_t some = count - i < AT_ONCE ? count - i : AT_ONCE;
        const uint32_t *candidate = s->below + i;
        tile->t.exact(score, candidate, some, &in);
        for (ptrdiff_t j = 0; j < some; j++)
            if (isnan(score[j])) score[j] = score_again(tile, p, r, candidate[j] % 16, id + candidate[j] / 16, s);
        tile->t.enter(snls_tile_top(tile, s, r), snls_tile_number(tile, s, r), tile->c->k, candidate, score, some, (float)id, s->work);
    }
}
