/* tile_pick.c: the best candidates of a tile's queries: sorted lists, lane by lane, and the outputs from them. */
#include "cpu/tile.h"
#include <float.h>
#include <math.h>

enum { AT_ONCE = 256 }; /* candidates scored before they enter lists */

void snls_tile_begin_lists(const CpuTile *tile, CpuTileScratch *s)
{
    const int64_t queries = tile->runs * tile->lanes;
    for (int64_t i = 0; i < queries * tile->keep; i++) s->top[i] = NAN;
    for (int64_t i = 0; i < queries * tile->keep; i++) s->number[i] = SNLS_TILE_NONE;
    for (int64_t i = 0; i < queries; i++) s->most[i] = 0;
}

/* How far an interpolated l2, or one from norms, may be off, twice: rounding of the sums at the grid and of what is subtracted from them. And how much more it may become when it is
 * summed anew from pixels between others, each of which is off by `read`, a few roundings of the largest: a bar made of it would be too low for what lies on a pixel.
 * That is 2*read*sqrt(terms*bar) + terms*read^2, without the root by 2*a*b <= a^2/c + c*b^2. */
static float slack(const CpuTile *tile, float bar, float most, float norm, float read)
{
    enum { C = 1024 }; /* a thousandth of the bar lets hardly any candidate pass */
    const float terms = (float)(tile->c->m.features * tile->c->m.ps * tile->c->m.ps), eps = FLT_EPSILON * (float)(tile->c->m.features + 2 * tile->c->m.ps + 16);
    return isfinite(bar) ? 2 * eps * (fabsf(bar) + 4 * (most + norm)) + fabsf(bar) / C + (C + 1) * terms * read * read : 0;
}

/* Where candidate id of lane l of run r is. */
typedef struct Spot { int64_t slot; double y, x; } Spot;

static inline Spot spot_of(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t l, int64_t id, const CpuTileScratch *s)
{
    const uint32_t c = s->cell[id];
    const SnlsMatchWindow w = snls_tile_window(tile, p, &s->window, c >> 20, r, l);
    return (Spot){c >> 20, snls_match_y(&tile->c->m, &w, c >> 10 & 1023), snls_match_x(&tile->c->m, &w, c & 1023)};
}

static int64_t frame_of(const CpuTile *tile, const CpuTilePlace *p, int64_t slot) { return snls_slot_frame(p->t, slot, tile->c->m.wt, tile->c->m.frames); }

/* With few terms most of the best lose digits. Each costs more than it does to hold scores back until all slots have lowered the bar. */
bool snls_tile_careful(const CpuTile *tile) { return tile->planes.bend && tile->c->m.features * tile->c->m.ps * tile->c->m.ps < 128; }

/* The interpolated l2 is a sum less a correction. Where the correction outweighs the result, digits are lost: some eight
 * roundings of value + 4*most against the (terms + 2) roundings of value that a plain sum may make. Then the distance is
 * summed anew from the pixels. */
static bool loses_digits(const CpuTile *tile, float value, float most, float norm)
{
    if (tile->norms && snls_tile_norms_lose(&tile->c->m, value, most, norm)) return true;
    const int64_t terms = tile->c->m.features * tile->c->m.ps * tile->c->m.ps;
    return tile->planes.bend && (terms < 8 || value * (float)terms < 64 * most);
}

static float norm_of(const CpuTile *tile, int64_t r, int64_t l, const CpuTileScratch *s) { return tile->norms ? s->norm[r * tile->lanes + l] : 0; }

static void fetch(const CpuTile *tile, const CpuTilePlace *p, const Spot *at)
{
    const float *pixel = snls_cpu_pixel(&tile->c->key, p->b, frame_of(tile, p, at->slot), (int64_t)at->y, (int64_t)at->x) + p->head * tile->c->m.features;
    __builtin_prefetch(pixel);
    __builtin_prefetch(pixel + tile->c->key.step[2]); /* beyond the last row: a hint about memory nobody reads is ignored */
}

/* Patches of `side` pixels around (y, x), with the pixels after the last, lie in the frame. */
static bool is_inside(const SnlsMatch *m, int64_t y, int64_t x, int64_t more)
{
    const int64_t before = m->ps / 2, after = m->ps - 1 - before + more;
    return y >= before && x >= before && y + after < m->height && x + after < m->width;
}

/* The distance of a patch from its pixels: rows of pixels where they lie side by side, else column by column. NaN: it has to be worked out another way. */
static float patch_at(const CpuTile *tile, const CpuTilePlace *p, const SnlsQuery *q, const Spot *at)
{
    const SnlsMatch *m = &tile->c->m;
    const CpuVideo *query = &tile->c->query, *key = &tile->c->key;
    const int64_t y = snls_floor_inside(at->y), x = snls_floor_inside(at->x), qy = q->i * m->stride0, qx = q->j * m->stride0, before = m->ps / 2;
    if (m->dilation != 1 || !is_inside(m, qy, qx, 0) || !is_inside(m, y, x, 1)) return NAN;
    SnlsTilePatch in = {.query = snls_cpu_pixel(query, p->b, p->t, qy - before, qx - before) + p->head * m->features,
                        .key = snls_cpu_pixel(key, p->b, frame_of(tile, p, at->slot), y - before, x - before) + p->head * m->features,
                        .query_down = query->step[2], .down = key->step[2], .right = key->step[3], .n = m->features, .side = m->ps,
                        .fraction_y = (float)(at->y - (double)y), .fraction_x = (float)(at->x - (double)x)};
    const bool rows = query->step[3] == m->features && key->step[3] == m->features;
    if (rows) in.n = m->features * m->ps;
    float sum = 0;
    for (int64_t s = 0; s < (rows ? 1 : m->ps); s++, in.query += query->step[3], in.key += key->step[3]) sum += tile->t.exact_patch(&in);
    return sum;
}

/* A score whose digits are lost, anew; on a pixel there is no correction: the best match of all, a query with itself, is there. */
static float score_again(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t l, int64_t id, float value, CpuTileScratch *s)
{
    const SnlsQuery q = snls_tile_query(tile, p, r, l);
    const Spot at = spot_of(tile, p, r, l, id, s);
    if (!tile->norms && at.y == floor(at.y) && at.x == floor(at.x)) return value;
    const float sum = patch_at(tile, p, &q, &at);
    if (!isnan(sum)) return sum;
    snls_cpu_load_patch(tile->c, &q, s->single); /* infinite features are no numbers when mixed by their differences, and the score may be one */
    return snls_cpu_score_at(tile->c, &q, frame_of(tile, p, at.slot), at.y, at.x, s->single);
}

/* Scores of run r not above the bars, candidates from number `id` on: those that lost digits one by one. */
static void one_by_one(const CpuTile *tile, const CpuTilePlace *p, int64_t r, const float *value, int64_t n, int64_t id, const float *bar, CpuTileScratch *s)
{
    const int64_t lanes = tile->lanes;
    const ptrdiff_t count = tile->t.below(s->below, value, n, bar, s->below + n * lanes);
    float score[AT_ONCE];
    for (ptrdiff_t i = 0; i < count; i += AT_ONCE) {
        const ptrdiff_t some = count - i < AT_ONCE ? count - i : AT_ONCE;
        const uint32_t *candidate = s->below + i;
        for (ptrdiff_t j = 0; j < some; j++) {
            const int64_t l = candidate[j] % 16, c = candidate[j] / 16;
            if (j + 4 < some) {
                const Spot next = spot_of(tile, p, r, candidate[j + 4] % 16, id + candidate[j + 4] / 16, s);
                fetch(tile, p, &next);
            }
            score[j] = value[c * lanes + l];
            if (loses_digits(tile, score[j], s->most[r * lanes + l], norm_of(tile, r, l, s))) score[j] = score_again(tile, p, r, l, id + c, score[j], s);
        }
        tile->t.enter(snls_tile_top(tile, s, r), snls_tile_number(tile, s, r), tile->c->k, candidate, score, some, (float)id, s->work);
    }
}

/* Some score of the run needs another look before it can be compared: given the least ones. */
static bool needs_care(const CpuTile *tile, int64_t r, int64_t active, const float *least, const CpuTileScratch *s)
{
    for (int64_t l = 0; l < active; l++)
        if (loses_digits(tile, least[l], s->most[r * tile->lanes + l], norm_of(tile, r, l, s))) return true;
    return false;
}

/* The same for n scores. bar: then what none that belongs into the lists is above, whatever rounding did to it. */
static bool raise_bars(const CpuTile *tile, int64_t r, int64_t active, const float *value, int64_t n, float *bar, CpuTileScratch *s)
{
    const int64_t lanes = tile->lanes;
    const bool careful = snls_tile_careful(tile);
    if (!careful) tile->t.least(s->work, value, n); /* seldom needed: scores that wait for no others are soon looked at */
    if (!careful && !needs_care(tile, r, active, s->work, s)) return false;
    tile->t.lower_bar(bar, snls_tile_top(tile, s, r), value, n, tile->c->k, s->work);
    if (careful && !needs_care(tile, r, active, s->work, s)) return false;
    for (int64_t l = 0; l < lanes; l++) bar[l] = l < active ? bar[l] + slack(tile, bar[l], s->most[r * lanes + l], norm_of(tile, r, l, s), 4 * FLT_EPSILON * s->key_peak) : NAN;
    return true;
}

void snls_tile_sort_out(const CpuTile *tile, const CpuTilePlace *p, int64_t r, const float *value, int64_t n, int64_t slot, CpuTileScratch *s)
{
    const int64_t id = slot * tile->cells, active = snls_tile_active(tile, p, r), count = n * tile->cells;
    float bar[SNLS_TILE_LANES_MAX];
    if ((tile->planes.bend || tile->norms) && raise_bars(tile, r, active, value, count, bar, s)) (tile->c->m.ps == 1 ? snls_tile_exact : one_by_one)(tile, p, r, value, count, id, bar, s);
    else tile->t.insert(snls_tile_top(tile, s, r), snls_tile_number(tile, s, r), tile->c->k, value, count, (float)id, (int)active, s->work, s->below);
}

bool snls_tile_enters_rows(const CpuTile *tile) { return !tile->planes.bend && tile->c->k <= SNLS_TILE_SHORT; }

void snls_tile_enter_row(const CpuTile *tile, int64_t r, int64_t slot, int64_t row, const float *value, CpuTileScratch *s)
{
    const int64_t side = tile->c->m.side, id = slot * tile->cells + row * side;
    tile->t.insert(snls_tile_top(tile, s, r), snls_tile_number(tile, s, r), tile->c->k, value, side, (float)id, (int)tile->lanes, s->work, s->below);
}

/* The query itself, candidate `self` of lane l, out of a run's lists, which are one longer for that. */
static void drop_self(const CpuTile *tile, int64_t r, int64_t l, int64_t self, const CpuTileScratch *s)
{
    const int64_t last = tile->c->k - 1, lanes = tile->lanes;
    float *top = snls_tile_top(tile, s, r) + l, *number = snls_tile_number(tile, s, r) + l;
    int64_t i = 0;
    while (i <= last && number[i * lanes] != (float)self) i++;
    for (; i < last; i++) {
        top[i * lanes] = top[(i + 1) * lanes];
        number[i * lanes] = number[(i + 1) * lanes];
    }
    top[last * lanes] = NAN; /* what follows the best k is not wanted */
    number[last * lanes] = SNLS_TILE_NONE;
}

static void drop_selves(const CpuTile *tile, const CpuTilePlace *p, int64_t r, const CpuTileScratch *s)
{
    for (int64_t l = 0; l < snls_tile_active(tile, p, r); l++) {
        const SnlsMatchWindow w = snls_tile_window(tile, p, &s->window, 0, r, l);
        const SnlsQuery q = snls_tile_query(tile, p, r, l);
        int64_t self = -1;
        if (w.valid && snls_match_nearest_self(&tile->c->m, &q, &w, &self)) drop_self(tile, r, l, self, s);
    }
}

/* Lists of a run into places kept .. kept+k-1 of the outputs. */
static void write_run(const CpuTile *tile, const CpuTilePlace *p, int64_t r, int64_t kept, const CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    if (m->exclude == SNLS_EXCLUDE_SELF && kept == 0) drop_selves(tile, p, r, s); /* it is in slot 0 */
    const SnlsQuery q = snls_tile_query(tile, p, r, 0);
    double y[SNLS_TILE_LANES_MAX], x[SNLS_TILE_LANES_MAX];
    for (int64_t l = 0; l < tile->lanes; l++) y[l] = (double)(q.i * m->stride0);
    for (int64_t l = 0; l < tile->lanes; l++) x[l] = (double)((q.j + l) * m->stride0);
    const int64_t at = r * tile->lanes;
    SnlsListOutput out = snls_cpu_list_output(m, &q, kept);
    out.y = y, out.x = x;
    out.centre_y = s->window.y + at, out.centre_x = s->window.x + at;
    out.origin_y = s->window.origin_y + at, out.origin_x = s->window.origin_x + at;
    out.apart = tile->runs * tile->lanes;
    out.dt = s->dt;
    out.active = snls_tile_lanes(snls_tile_active(tile, p, r));
    out.dist_at = tile->dist_at, out.offset_at = tile->offset_at, out.index_at = tile->index_at;
    tile->t.write_lists(&out, snls_tile_top(tile, s, r), snls_tile_number(tile, s, r), m->k, tile->c->k, s->cell);
}

void snls_tile_write_lists(const CpuTile *tile, const CpuTilePlace *p, int64_t kept, const CpuTileScratch *s)
{
    for (int64_t slot = 0; slot < tile->c->m.windows; slot++) s->dt[slot] = (float)(frame_of(tile, p, slot) - p->t);
    for (int64_t r = 0; r < p->rows * tile->blocks; r++)
        if (snls_tile_active(tile, p, r) > 0) write_run(tile, p, r, kept, s);
}
