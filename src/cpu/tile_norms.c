/* tile_norms.c: l2 of patches as |q|^2 + |k|^2 - 2<q,k>, half the arithmetic of differences. Queries and keys have a plane more, with the norm of every pixel; queries are held times -2, and
 * products begin with the sum of both norms. Where query and key are much alike digits cancel: scores that have too few left are summed anew from the pixels (tile_pick.c). That is dear, one of
 * them for a query is already more than norms gain, so a look at some queries says whether there are any to speak of; if there are, differences are taken from the beginning. */
#include "cpu/tile.h"

/* FEATURES, SPAN: with fewer, or windows of fewer pixels along an axis, products are too little of a search. Queries that are looked at: one of EACH, LEAST at least; RARE: one lost score of so many
 * queries is borne. */
enum { FEATURES = 32, SPAN = 7, EACH = 1024, LEAST = 4, MOST = 16, RARE = 8 };

bool snls_tile_norms_apply(const SnlsMatch *m)
{
    return !m->prod && m->ps > 1 && m->features >= FEATURES && m->stride1 * (double)(m->side - 1) + 1 >= SPAN;
}

/* A few pixels say enough of a patch: the middle one and two at its ends. */
static void thin_out(const SnlsMatch *m, CpuMatchScratch *scratch)
{
    const int64_t last = m->ps * m->ps - 1, middle = (m->ps / 2) * (m->ps + 1);
    for (int64_t i = 1; i < last; i++)
        if (i != middle) scratch->pixel[i] = NULL;
}

static float norm_of_patch(const CpuMatch *c, const CpuMatchScratch *scratch)
{
    float sum = 0;
    for (int64_t i = 0; i < c->m.ps * c->m.ps; i++)
        if (scratch->pixel[i]) sum += c->dsp->dot(scratch->pixel[i], scratch->pixel[i], c->m.features);
    return sum;
}

/* Scores of a query that would lose digits. */
static int64_t lost_of(const CpuMatch *c, const SnlsQuery *q, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    int64_t lost = 0;
    snls_cpu_load_patch(c, q, scratch);
    thin_out(m, scratch);
    const float norm = norm_of_patch(c, scratch);
    for (int64_t slot = m->exclude == SNLS_EXCLUDE_FRAME; slot < m->windows; slot++) {
        const SnlsMatchWindow w = snls_match_window(m, q, slot);
        const CpuCells cells = snls_cpu_cells(m, &w, slot);
        for (int64_t row = cells.row; row < cells.row_end; row++)
            for (int64_t column = cells.column; column < cells.column_end; column++)
                lost += snls_tile_norms_lose(m, snls_cpu_score_at(c, q, w.frame, snls_match_y(m, &w, row), snls_match_x(m, &w, column), scratch), 0, norm);
    }
    return lost;
}

bool snls_tile_norms_pay(const CpuMatch *c, CpuMatchScratch *scratch)
{
    const SnlsMatch *m = &c->m;
    const int64_t all = m->frames * m->rows * m->columns, wanted = all / EACH < LEAST ? LEAST : all / EACH < MOST ? all / EACH : MOST;
    int64_t lost = 0;
    for (int64_t n = 0; n < wanted && lost * RARE <= wanted; n++) {
        SnlsQuery q = snls_cpu_sample(m, n, wanted);
        q.b = n % m->batch, q.head = n % m->heads;
        lost += lost_of(c, &q, scratch);
    }
    return lost * RARE <= wanted;
}

void snls_tile_query_norms(const CpuTile *tile, float *vector)
{
    const int64_t features = tile->c->m.features, step = tile->at.step, width = tile->t.width;
    tile->t.norms(vector + features * step, vector, step, width, features);
    for (int64_t f = 0; f < features; f++)
        for (int64_t l = 0; l < width; l++) vector[f * step + l] *= -2;
}

/* Norm of the pixel that lane l of vector n sees in row i. */
static const float *norms_of(const CpuTile *tile, const float *query, int64_t n, int64_t i, int64_t l)
{
    const int64_t width = tile->t.width;
    return query + n * tile->pixel_rows * tile->layers * tile->lanes + i * tile->at.row + tile->c->m.features * tile->at.step + l / width * tile->at.part + l % width;
}

void snls_tile_patch_norms(const CpuTile *tile, const CpuTilePlace *p, CpuTileScratch *s)
{
    const SnlsMatch *m = &tile->c->m;
    const int64_t lanes = tile->lanes, width = tile->t.width;
    float down[SNLS_TILE_VECTORS * SNLS_TILE_LANES_MAX];
    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t x = 0; x < tile->pixel_columns; x += width) {
            for (int64_t l = 0; l < width; l++) down[x + l] = 0;
            for (int64_t a = 0; a < m->ps; a++) {
                const float *norm = norms_of(tile, s->stacked.query, x / lanes, i + a * m->dilation, x % lanes);
                for (int64_t l = 0; l < width; l++) down[x + l] += norm[l];
            }
        }
        float *out = s->stacked.norm + i * tile->blocks * lanes;
        for (int64_t x = 0; x < tile->columns; x++) {
            out[x] = 0;
            for (int64_t b = 0; b < m->ps; b++) out[x] += down[x + b * m->dilation];
        }
    }
}
