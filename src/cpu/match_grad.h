/* match_grad.h: what the two passes of the gradients of search, search_all and refine share: how a kept neighbour is found
 * again from its number, and how the pixels of two patches pair up. match_grad.c prepares and has the rare cases,
 * match_grad_query.c is the pass of the queries, match_grad_key.c that of the keys, match_grad_edge.c has patches that cross the border, match_grad_single.c lists of single pixels. */
#ifndef SNLS_CPU_MATCH_GRAD_H
#define SNLS_CPU_MATCH_GRAD_H

#include "cpu/match.h"

/* Rows and frames of the key that the neighbours of a row of queries may touch, ends included; bottom < top: none. */
typedef struct CpuReach { int64_t top, bottom, first_frame, last_frame; } CpuReach;

typedef struct CpuGrad {
    CpuMatch c;
    SnlsMatchGrad g;
    CpuVideo d_query, d_key;
    int64_t  candidates;           /* of a query: windows*side*side */
    uint32_t cells, side;          /* of a window; of one of its sides */
    int64_t  origin;               /* centre cell of a window that need not slide, which ... */
    double   before, after;        /* ... reaches so far around its centre */
    double   last_y, last_x;       /* last place of the frame; -1 where no window is plain */
    int64_t  centre_head, centre_column, centre_window; /* floats along these axes of centre, */
    int64_t  sums_head, sums_column, sums_window;       /* and of its gradient */
    int64_t  tile;                 /* columns of queries whose windows stay in the second-level cache from row to row */
    bool     inside;               /* patches inside their frames may be taken whole */
    int64_t  pixels;               /* of a patch row, that are one run of floats in every video; else 1 */
    float   *spare;                /* per thread */
    int64_t  spare_size;           /* floats per thread */
    int64_t  laid_at;              /* of those after CpuGradBand.spare, where patches are laid */
    CpuReach *reach;               /* (B,T,nH); NULL: not needed */
} CpuGrad;

/* A query, and where its numbers are: elements of index, dist (gradient) and centre at its first place and window. */
typedef struct CpuGradQuery {
    SnlsQuery q;
    int64_t index, dist, centre;
    int64_t turn; /* slot s is frame t+s up to this frame, then turn - s */
} CpuGradQuery;

typedef struct CpuKept {
    int64_t j, head, place;        /* whose it is, and which of its */
    int64_t window, frame;
    double y, x, slope_y, slope_x; /* slopes: d centre / d flow */
    float g;                       /* dL/ddist */
} CpuKept;

/* Pixels of a row of both patches: the query's first, the taps of the key's first, and how many follow them, each
 * `dilation` further on both sides. */
typedef struct CpuPair {
    int64_t query_y, query_x, pixels;
    SnlsTaps y, x;
    double slope_y, slope_x; /* of the reflection */
} CpuPair;

/* Column 0, head 0 of a row of queries; then any other of that row. */
static inline CpuGradQuery snls_grad_row(const CpuGrad *p, int64_t b, int64_t t, int64_t i)
{
    const SnlsMatch *m = &p->c.m;
    CpuGradQuery row = {.q = {.b = b, .t = t, .i = i}};
    row.index = snls_at5(&m->index, b, 0, t, i, 0);
    if (p->g.dist.data) row.dist = snls_at5(&p->g.dist, b, 0, t, i, 0);
    if (m->centre.data) row.centre = snls_match_centre_at(m, &row.q, 0);
    const int64_t turned = snls_slot_frame(t, m->windows, m->wt, m->frames); /* one slot beyond the last: always turned */
    row.turn = turned + m->windows;
    return row;
}

static inline CpuGradQuery snls_grad_query(const CpuGrad *p, const CpuGradQuery *row, int64_t j, int64_t head)
{
    CpuGradQuery at = *row;
    at.q.j = j;
    at.q.head = head;
    at.index += j * p->c.m.index.stride[4] + head * p->c.m.index.stride[1];
    at.dist += j * p->g.dist.stride[4] + head * p->g.dist.stride[1];
    at.centre += j * p->centre_column + head * p->centre_head;
    return at;
}

/* Which candidate stands at a place of the output; -1: none. */
static inline int32_t snls_grad_number(const CpuGrad *p, const CpuGradQuery *at, int64_t place)
{
    const int32_t id = ((const int32_t *)p->c.m.index.data)[at->index + place * p->c.m.index.stride[5]];
    return id < p->candidates ? id : -1;
}

static inline float snls_grad_dist(const CpuGrad *p, const CpuGradQuery *at, int64_t place)
{
    return p->g.dist.data ? ((const float *)p->g.dist.data)[at->dist + place * p->g.dist.stride[5]] : 0;
}

/* Half-to-even, for what is smaller than 2^51; larger numbers are not inside any frame whatever they round to. */
static inline double snls_grad_round(double x) { return x + 0x1.8p52 - 0x1.8p52; }

/* Frame of a window; -1: not plainly inside the clip. */
static inline int64_t snls_grad_frame(const CpuGrad *p, const CpuGradQuery *at, int64_t window)
{
    const SnlsMatch *m = &p->c.m;
    if (!m->refine) return at->q.t + window <= at->turn ? at->q.t + window : at->turn - window;
    const double frame = (double)at->q.t + snls_grad_round(((const float *)m->centre.data)[at->centre + window * p->centre_window]);
    return frame >= 0 && frame < (double)m->frames ? (int64_t)frame : -1;
}

/* Any window, by the definition. */
bool snls_grad_kept_anywhere(const CpuGrad *p, const CpuGradQuery *at, uint32_t row, uint32_t column, CpuKept *kept);

/* The neighbour with this candidate number (not its g); false: there is none. A window that lies inside the frame
 * without sliding needs no more than additions. */
static inline bool snls_grad_kept(const CpuGrad *p, const CpuGradQuery *at, int32_t id, CpuKept *kept)
{
    const SnlsMatch *m = &p->c.m;
    const uint32_t window = (uint32_t)id / p->cells, cell = (uint32_t)id - window * p->cells;
    const uint32_t row = cell / p->side, column = cell - row * p->side;
    double y = (double)(at->q.i * m->stride0), x = (double)(at->q.j * m->stride0);
    kept->j = at->q.j;
    kept->head = at->q.head;
    kept->window = window;
    if (snls_match_has_centre(m, window)) {
        const float *centre = (const float *)m->centre.data + at->centre + window * p->centre_window;
        const double dy = centre[snls_match_step_y(m)], dx = centre[snls_match_step_x(m)];
        y += m->nearest ? snls_grad_round(dy) : dy;
        x += m->nearest ? snls_grad_round(dx) : dx;
    }
    kept->frame = snls_grad_frame(p, at, window);
    if (!(y - p->before >= 0 && y + p->after <= p->last_y && x - p->before >= 0 && x + p->after <= p->last_x && kept->frame >= 0))
        return snls_grad_kept_anywhere(p, at, row, column, kept);
    kept->slope_y = kept->slope_x = 1;
    kept->y = snls_window_place(y, m->stride1, row, p->origin);
    kept->x = snls_window_place(x, m->stride1, column, p->origin);
    return true;
}

/* [top, bottom] beyond either end of an axis comes back by reflection: the rows it may touch. */
static inline void snls_grad_fold(int64_t n, int64_t *top, int64_t *bottom)
{
    if (*top < 0) {
        if (*bottom < -*top) *bottom = -*top;
        *top = 0;
    }
    if (*bottom >= n) {
        const int64_t back = 2 * (n - 1) - *bottom;
        if (*top > back) *top = back < 0 ? 0 : back;
        *bottom = n - 1;
    }
}

/* ---- the walk over a patch ---- */

typedef void CpuPairVisit(const CpuGrad *p, const CpuKept *kept, const CpuPair *pair, void *user);

/* Columns (or rows) [*first, *end) of the patch with both pixels inside the frame, the last column excepted, and the
 * fraction of the first: there nothing is reflected. j: column of the query; x: that of the neighbour; n: of the frame. */
static inline void snls_grad_run(const SnlsMatch *m, int64_t j, double x, int64_t n, int64_t *first, int64_t *end)
{
    const int64_t half = m->ps / 2, query = j * m->stride0 - m->dilation * half, key = snls_floor_inside(x) - m->dilation * half;
    const double most = (double)(m->dilation * (m->ps - 1 - half));
    *first = 0;
    *end = x + most - most == x ? m->ps : 0;
    while (*first < *end && (query + m->dilation * *first < 0 || key + m->dilation * *first < 0)) ++*first;
    while (*first < *end && (query + m->dilation * (*end - 1) >= n || key + m->dilation * (*end - 1) + 1 >= n)) --*end;
}

/* The common case: nothing is reflected, and each row follows the one above. */
static inline bool snls_grad_walk_inside(const CpuGrad *p, int64_t i, const CpuKept *kept, CpuPairVisit *visit, void *user)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t back = m->dilation * (m->ps / 2);
    int64_t top, bottom, left, right;
    snls_grad_run(m, i, kept->y, m->height, &top, &bottom);
    snls_grad_run(m, kept->j, kept->x, m->width, &left, &right);
    if (bottom - top < m->ps || right - left < m->ps) return false;
    CpuPair pair = {i * m->stride0 - back, kept->j * m->stride0 - back, m->ps, snls_taps(kept->y, m->height), snls_taps(kept->x, m->width), 1, 1};
    for (int k = 0; k < 2; k++) pair.y.at[k] -= back, pair.x.at[k] -= back;
    for (int64_t r = 0; r < m->ps; r++) {
        visit(p, kept, &pair, user);
        pair.query_y += m->dilation;
        pair.y.at[0] += m->dilation;
        pair.y.at[1] += m->dilation;
    }
    return true;
}

/* Every pair of pixels once, row by row (i: row of the query); those side by side without a border between them come together. */
static inline void snls_grad_walk(const CpuGrad *p, int64_t i, const CpuKept *kept, CpuPairVisit *visit, void *user)
{
    const SnlsMatch *m = &p->c.m;
    int64_t first, end;
    CpuPair pair;
    if (snls_grad_walk_inside(p, i, kept, visit, user)) return;
    snls_grad_run(m, kept->j, kept->x, m->width, &first, &end);
    for (int64_t r = 0; r < m->ps; r++) {
        const int64_t by = m->dilation * (r - m->ps / 2), qy = i * m->stride0 + by;
        const double u = kept->y + (double)by;
        if (m->drop && (qy < 0 || qy >= m->height || !snls_inside(u, m->height))) continue;
        pair.query_y = snls_reflect(qy, m->height);
        pair.y = snls_taps(snls_reflect_real(u, m->height), m->height);
        pair.slope_y = snls_reflect_slope(u, m->height);
        for (int64_t s = 0; s < m->ps; s += pair.pixels) {
            const int64_t bx = m->dilation * (s - m->ps / 2), qx = kept->j * m->stride0 + bx;
            const double v = kept->x + (double)bx;
            pair.pixels = s == first && end > first ? end - first : 1;
            if (m->drop && (qx < 0 || qx >= m->width || !snls_inside(v, m->width))) continue;
            pair.query_x = snls_reflect(qx, m->width);
            pair.x = snls_taps(snls_reflect_real(v, m->width), m->width);
            pair.slope_x = snls_reflect_slope(v, m->width);
            visit(p, kept, &pair, user);
        }
    }
}

/* The row of queries at hand and the rows of the video, or of a key frame, that are owned: [first, end). */
typedef struct CpuGradBand {
    int64_t b, t, i, first, end;
    float  *spare;
} CpuGradBand;

/* Whether rows [top, bottom] of a patch, reflected, are some of the band's. */
static inline bool snls_grad_touches(const SnlsMatch *m, const CpuGradBand *band, int64_t top, int64_t bottom)
{
    snls_grad_fold(m->height, &top, &bottom);
    return top < band->end && bottom >= band->first;
}

static inline bool snls_grad_query_touches(const SnlsMatch *m, const CpuGradBand *band)
{
    const int64_t top = band->i * m->stride0 - m->dilation * (m->ps / 2);
    return snls_grad_touches(m, band, top, top + m->dilation * (m->ps - 1));
}

/* With the taps below. */
static inline bool snls_grad_key_touches(const SnlsMatch *m, const CpuGradBand *band, const CpuKept *kept)
{
    const int64_t top = snls_floor_inside(kept->y) - m->dilation * (m->ps / 2);
    return snls_grad_touches(m, band, top, top + m->dilation * (m->ps - 1) + 1);
}

/* Both patches inside their frames, taps and all, so that one call of the dsp table has them: the usual case. */
typedef struct CpuInside {
    SnlsPair pair;
    SnlsPatch patch;               /* of the query */
    SnlsGrid grid;                 /* of the key */
    int64_t query_y, query_x, key_y, key_x;
    double  along_y[2], along_x[2]; /* weights of the taps along the axes */
} CpuInside;

/* Where both patches begin and the weights of the taps, the same for all pixels; false: digits of a place are lost on the way from pixel to pixel. i: row of the query. */
static inline bool snls_grad_align(const CpuGrad *p, int64_t i, const CpuKept *kept, CpuInside *in)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t half = m->ps / 2, row = snls_floor_inside(kept->y), column = snls_floor_inside(kept->x);
    const double most = (double)(m->ps - 1 - half), fy = kept->y - (double)row, fx = kept->x - (double)column;
    if (!p->inside || kept->y + most - most != kept->y || kept->x + most - most != kept->x) return false;
    in->query_y = i * m->stride0 - half, in->query_x = kept->j * m->stride0 - half;
    in->key_y = row - half, in->key_x = column - half;
    in->along_y[0] = 1 - fy, in->along_y[1] = fy, in->along_x[0] = 1 - fx, in->along_x[1] = fx;
    in->pair.prod = m->prod;
    in->pair.out = NULL;
    for (int a = 0; a < 4; a++) in->pair.w[a] = (float)(in->along_y[a >> 1] * in->along_x[a & 1]);
    in->grid.shape = (fy != 0) * 2 + (fx != 0);
    return true;
}

/* False: to be laid, or walked. t, i: frame and row of the query. */
static inline bool snls_grad_inside(const CpuGrad *p, int64_t b, int64_t t, int64_t i, const CpuKept *kept, CpuInside *in)
{
    const SnlsMatch *m = &p->c.m;
    const int64_t channel = kept->head * m->features;
    if (!snls_grad_align(p, i, kept, in) || in->query_y < 0 || in->query_x < 0 || in->key_y < 0 || in->key_x < 0) return false;
    if (in->query_y + m->ps > m->height || in->query_x + m->ps > m->width || in->key_y + m->ps >= m->height || in->key_x + m->ps >= m->width) return false;
    in->pair.at = snls_cpu_pixel(&p->c.key, b, kept->frame, in->key_y, in->key_x) + channel;
    in->pair.q = snls_cpu_pixel(&p->c.query, b, t, in->query_y, in->query_x) + channel;
    in->patch = (SnlsPatch){p->c.query.step[3], p->c.query.step[2], m->ps, m->ps, 0};
    in->grid = (SnlsGrid){p->c.key.step[3], p->c.key.step[2], m->features, in->grid.shape};
    return true;
}

/* match_grad_edge.c: patches that cross the border. A copy of both with what they see beyond it, as if they were inside, and what is added to them. */
typedef struct CpuLaid {
    CpuInside in;
    float *d_query, *d_key;
} CpuLaid;

int64_t snls_grad_laid(const SnlsMatch *m); /* floats */

/* False: to be walked. */
bool snls_grad_lay(const CpuGrad *p, const CpuGradBand *band, const CpuKept *kept, CpuLaid *laid);

/* What such a neighbour adds to rows of the band: of d query and d key, if they are wanted; along, where given, as pull_patch has it. */
void snls_grad_edge(const CpuGrad *p, const CpuGradBand *band, const CpuKept *kept, CpuLaid *laid, float *along, bool query, bool key);

/* Weights with which what is pulled goes to the taps. */
static inline void snls_grad_weights(const CpuGrad *p, const CpuKept *kept, const CpuInside *in, float w[4])
{
    const float g = p->c.m.prod ? kept->g : 2 * kept->g;
    for (int a = 0; a < 4; a++) w[a] = g * in->pair.w[a];
}

/* What the neighbours of a row of queries have in common where patches are single pixels, which are never outside. */
typedef struct CpuGradSingles {
    const float *q, *key;          /* column 0 of the row; pixel (0, 0) of the key's first frame */
    float       *to, *out;         /* their gradients; NULL: not wanted */
    int64_t      q_step, to_step;  /* from a query to the next */
    int64_t      key_step[3], out_step[3]; /* frame, row, column */
    int64_t      height, width, features, first, end;
    float        twice;
    bool         prod;
} CpuGradSingles;

static inline CpuGradSingles snls_grad_singles(const CpuGrad *p, const CpuGradBand *band, bool want_query, bool want_key)
{
    const SnlsMatch *m = &p->c.m;
    CpuGradSingles s = {.q = snls_cpu_pixel(&p->c.query, band->b, band->t, band->i * m->stride0, 0), .key = snls_cpu_pixel(&p->c.key, band->b, 0, 0, 0),
                        .q_step = m->stride0 * p->c.query.step[3], .height = m->height, .width = m->width, .features = m->features,
                        .first = band->first, .end = band->end, .twice = m->prod ? 1 : 2, .prod = m->prod};
    if (want_query) s.to = snls_cpu_pixel(&p->d_query, band->b, band->t, band->i * m->stride0, 0), s.to_step = m->stride0 * p->d_query.step[3];
    if (want_key) s.out = snls_cpu_pixel(&p->d_key, band->b, 0, 0, 0);
    for (int i = 0; i < 3; i++) s.key_step[i] = p->c.key.step[1 + i], s.out_step[i] = p->d_key.step[1 + i];
    return s;
}

/* From the first tap to the second along an axis of n pixels, z at least 0: at its end back, which has no weight. */
static inline int64_t snls_grad_beside(int64_t z, int64_t n) { return z + 1 < n ? 1 : n > 1 ? -1 : 0; }

static inline void snls_grad_single(const CpuGradSingles *s, const CpuKept *kept, SnlsPixel *pixel)
{
    const int64_t y = (int64_t)kept->y, x = (int64_t)kept->x, down = snls_grad_beside(y, s->height), right = snls_grad_beside(x, s->width), channel = kept->head * s->features;
    const double fy = kept->y - (double)y, fx = kept->x - (double)x, gy = 1 - fy, gx = 1 - fx;
    const int upper = (y >= s->first) & (y < s->end), lower = (fy != 0) & (y + down >= s->first) & (y + down < s->end); /* no branches to guess */
    pixel->q = s->q + kept->j * s->q_step + channel;
    pixel->at = s->key + kept->frame * s->key_step[0] + y * s->key_step[1] + x * s->key_step[2] + channel;
    pixel->to = s->to ? s->to + kept->j * s->to_step + channel : NULL;
    pixel->rows = upper | lower << 1;
    pixel->out = s->out && pixel->rows ? s->out + kept->frame * s->out_step[0] + y * s->out_step[1] + x * s->out_step[2] + channel : NULL;
    pixel->right = right * s->key_step[2], pixel->down = down * s->key_step[1];
    pixel->out_right = right * s->out_step[2], pixel->out_down = down * s->out_step[1];
    pixel->n = s->features;
    pixel->w[0] = (float)(gy * gx), pixel->w[1] = (float)(gy * fx), pixel->w[2] = (float)(fy * gx), pixel->w[3] = (float)(fy * fx);
    pixel->g = s->twice * kept->g;
    pixel->shape = (fy != 0) * 2 + (fx != 0);
    pixel->prod = s->prod;
}

/* The taps with weight: addresses from the pixel at (0, 0) of a frame's head on, and weights times g. Returns how many;
 * rows outside [first, end) are left out. */
static inline int snls_grad_taps(const CpuPair *pair, float *frame, const int64_t *step, int64_t first, int64_t end, float g,
                                 float **tap, float *weight)
{
    const int64_t right = (pair->x.at[1] - pair->x.at[0]) * step[3];
    int n = 0;
    for (int a = 0; a < 2; a++) {
        if (pair->y.weight[a] == 0 || pair->y.at[a] < first || pair->y.at[a] >= end) continue;
        float *row = frame + pair->y.at[a] * step[2] + pair->x.at[0] * step[3];
        tap[n] = row;
        weight[n++] = g * (float)(pair->y.weight[a] * pair->x.weight[0]);
        if (pair->x.weight[1] == 0) continue;
        tap[n] = row + right;
        weight[n++] = g * (float)(pair->y.weight[a] * pair->x.weight[1]);
    }
    return n;
}

static inline void snls_grad_prefetch_run(const float *at, int64_t n)
{
    for (int64_t i = 0; i < n && i < 256; i += 16) __builtin_prefetch(at + i);
    __builtin_prefetch(at + n - 1); /* they need not begin on a line */
}

/* Asks for the pixels of a patch of one pixel, some neighbours before they are needed: the windows of a query are many
 * times what the first-level cache holds. */
static inline void snls_grad_prefetch(const CpuVideo *v, int64_t b, const CpuKept *kept, int64_t features)
{
    const int64_t row = (int64_t)kept->y, column = (int64_t)kept->x;
    const float *at = snls_cpu_pixel(v, b, kept->frame, row, column) + kept->head * features;
    const int64_t n = (kept->x > (double)column ? v->step[3] : 0) + features;
    snls_grad_prefetch_run(at, n);
    if (kept->y > (double)row) snls_grad_prefetch_run(at + v->step[2], n);
}

enum { SNLS_GRAD_LIST = 64 }; /* neighbours found before the first of them is worked on */

/* What a neighbour adds to d key in the rows of the band. in: of a patch inside its frame, or NULL; where it has been pulled already, pair.out holds that (l2). */
void snls_grad_spread(const CpuGrad *p, const CpuGradBand *band, const CpuKept *kept, CpuInside *in);

/* Where the pull of a patch goes. Rows of videos are often a multiple of 4096 bytes apart, and a load of an address that is such a multiple from that of a store
 * not long ago waits for it. So each row begins half of that away from the key's row. */
enum { SNLS_GRAD_PAGE = 1024 }; /* floats */
static inline float *snls_grad_pull_at(const CpuGrad *p, const CpuGradBand *band, CpuInside *in)
{
    const int64_t row = p->c.m.ps * p->c.m.features;
    const uintptr_t here = (uintptr_t)band->spare / sizeof(float), there = (uintptr_t)in->pair.at / sizeof(float) + SNLS_GRAD_PAGE / 2;
    in->pair.out_down = row + (in->grid.down - row) % SNLS_GRAD_PAGE;
    if (in->pair.out_down < row) in->pair.out_down += SNLS_GRAD_PAGE;
    return band->spare + (there - here) % SNLS_GRAD_PAGE;
}

static inline bool snls_grad_spreads(const CpuGrad *p, const CpuGradBand *band, const CpuInside *in)
{
    return in->key_y + p->c.m.ps + (in->grid.shape >> 1) > band->first && in->key_y < band->end;
}

/* The passes. bands: into how many parts the rows of a frame are cut; no sum depends on it. both: d key on the way too, for which reaches must be known where bands
 * are several; then the second pass is not needed. */
void snls_grad_reaches(SnlsContext *ctx, const CpuGrad *p);
void snls_grad_queries(SnlsContext *ctx, const CpuGrad *p, int64_t bands, bool both);
void snls_grad_keys(SnlsContext *ctx, const CpuGrad *p, int64_t bands);
int64_t snls_grad_spare(void); /* floats that a thread needs beside a run of pixels */

#endif
