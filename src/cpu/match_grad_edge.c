/* match_grad_edge.c: neighbours whose patch, or their query's, crosses the border: an eighth of those of 7 x 7 patches in a frame of 160 x 160, and walked pixel by pixel they would take a quarter of
 * the time. Both patches are laid out with what they see beyond it, reflected, and drawn like any other; what that adds to them goes back to the pixels it belongs to. */
#include "cpu/match_grad.h"
#include <string.h>

/* Floats of a patch, and of the taps around one: whole cache lines. */
static int64_t patch_floats(const SnlsMatch *m) { return (m->ps * m->ps * m->features + 15) / 16 * 16; }
static int64_t grid_floats(const SnlsMatch *m) { return ((m->ps + 1) * (m->ps + 1) * m->features + 15) / 16 * 16; }

int64_t snls_grad_laid(const SnlsMatch *m) { return 3 * patch_floats(m) + 2 * grid_floats(m); } /* both, their gradients, and what is pulled */

/* rows x columns pixels of one head from (y, x) on, reflected beyond the frame; t: their frame. */
typedef struct Pixels { const CpuVideo *v; int64_t t, y, x, head, rows, columns; } Pixels;

static float *row_of(const SnlsMatch *m, const CpuGradBand *band, const Pixels *a, int64_t y) { return snls_cpu_pixel(a->v, band->b, a->t, y, 0) + a->head * m->features; }

/* Pixels from column s on that lie side by side in the video too, one at least. */
static int64_t side_by_side(const SnlsMatch *m, const Pixels *a, int64_t s)
{
    const int64_t x = a->x + s, left = a->columns - s;
    if (x < 0 || x >= m->width || a->v->step[3] != m->features) return 1;
    return left < m->width - x ? left : m->width - x;
}

static void lay(float *to, const SnlsMatch *m, const CpuGradBand *band, const Pixels *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        const float *row = row_of(m, band, a, snls_reflect(a->y + r, m->height));
        for (int64_t s = 0, n; s < a->columns; s += n, to += n * m->features) {
            n = side_by_side(m, a, s);
            memcpy(to, row + snls_reflect(a->x + s, m->width) * a->v->step[3], (size_t)(n * m->features) * sizeof *to);
        }
    }
}

/* What was added to such a copy to the rows of the band. Of a pixel that is seen twice both count. */
static void put_back(const CpuGrad *p, const CpuGradBand *band, const Pixels *a, const float *from)
{
    const SnlsMatch *m = &p->c.m;
    for (int64_t r = 0; r < a->rows; r++, from += a->columns * m->features) {
        const int64_t y = snls_reflect(a->y + r, m->height);
        if (y < band->first || y >= band->end) continue;
        float *row = row_of(m, band, a, y);
        for (int64_t s = 0, n; s < a->columns; s += n) {
            n = side_by_side(m, a, s);
            p->c.dsp->axpy(row + snls_reflect(a->x + s, m->width) * a->v->step[3], 1, from + s * m->features, n * m->features);
        }
    }
}

static Pixels query_pixels(const CpuGrad *p, const CpuGradBand *band, const CpuKept *kept, const CpuInside *in, const CpuVideo *v)
{
    return (Pixels){v, band->t, in->query_y, in->query_x, kept->head, p->c.m.ps, p->c.m.ps};
}

/* Those the taps are. */
static Pixels key_pixels(const CpuGrad *p, const CpuKept *kept, const CpuInside *in, const CpuVideo *v)
{
    return (Pixels){v, kept->frame, in->key_y, in->key_x, kept->head, p->c.m.ps + (in->grid.shape >> 1), p->c.m.ps + (in->grid.shape & 1)};
}

/* At a whole pixel the slope of a patch is that of the pixels after it, and beyond the border those are before it: such places are walked, where a slope is wanted. Whether that is so must not depend on the pass. */
bool snls_grad_lay(const CpuGrad *p, const CpuGradBand *band, const CpuKept *kept, CpuLaid *laid)
{
    const SnlsMatch *m = &p->c.m;
    CpuInside *in = &laid->in;
    if (m->drop || !snls_grad_align(p, band->i, kept, in)) return false;
    if (in->grid.shape != 3 && p->g.centre.data && p->g.dist.data && snls_match_has_centre(m, kept->window)) return false;
    const Pixels query = query_pixels(p, band, kept, in, &p->c.query), taps = key_pixels(p, kept, in, &p->c.key);
    float *q = band->spare + p->laid_at, *key = q + patch_floats(m);
    laid->d_query = key + grid_floats(m);
    laid->d_key = laid->d_query + patch_floats(m);
    lay(q, m, band, &query);
    lay(key, m, band, &taps);
    in->pair.q = q, in->pair.at = key;
    in->patch = (SnlsPatch){m->features, m->ps * m->features, m->ps, m->ps, 0};
    in->grid = (SnlsGrid){m->features, taps.columns * m->features, m->features, in->grid.shape};
    return true;
}

void snls_grad_edge(const CpuGrad *p, const CpuGradBand *band, const CpuKept *kept, CpuLaid *laid, float *along, bool query, bool key)
{
    const SnlsMatch *m = &p->c.m;
    CpuInside *in = &laid->in;
    const Pixels queries = query_pixels(p, band, kept, in, &p->d_query), taps = key_pixels(p, kept, in, &p->d_key);
    const float g = m->prod ? kept->g : -2 * kept->g;
    float w[4];
    snls_grad_weights(p, kept, in, w);
    if (query) memset(laid->d_query, 0, (size_t)(m->ps * m->ps * m->features) * sizeof(float));
    if (key) memset(laid->d_key, 0, (size_t)(taps.rows * taps.columns * m->features) * sizeof(float));
    if (!query || !key || !p->c.dsp->draw_patch(along, laid->d_query, g, &in->pair, &in->patch, &in->grid, laid->d_key, w, &in->grid)) {
        in->pair.out = key && !m->prod ? laid->d_key + grid_floats(m) : NULL;
        in->pair.out_down = in->patch.down;
        p->c.dsp->pull_patch(along, query ? laid->d_query : NULL, g, &in->pair, &in->patch, &in->grid);
        if (key) p->c.dsp->spread_patch(laid->d_key, w, m->prod ? in->pair.q : in->pair.out, &in->patch, 0, taps.rows, &in->grid);
    }
    if (query) put_back(p, band, &queries, laid->d_query);
    if (key) put_back(p, band, &taps, laid->d_key);
}
