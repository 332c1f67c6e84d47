/* tile_cells.h: several candidates to a pixel: the least of every cell into lists, and the candidates of kept cells. Part of tile_body.h, which says what it needs. */

/* What lane by lane is row `row` of the windows' whole pixels, one column more than there are cells. */
ALWAYS void straight_of(float *out, const SnlsTileCells *w, ptrdiff_t row, ptrdiff_t cells, float *work, const int more_y, const int more_x)
{
    const float *at = w->box + (w->low_y + row) * w->row + w->low_x * LANES;
    const ptrdiff_t n = cells + (w->between_x ? 1 : 0);
    float *down = more_x ? work : out;
    for (ptrdiff_t x = 0; x < n + more_x; x++) EACH_PART v_store(down + x * LANES + h, pick_run(at + x * LANES + h, w->row, w->low_y, more_y, w->index_y + h));
    for (ptrdiff_t x = 0; more_x && x < n; x++) EACH_PART v_store(out + x * LANES + h, pick_run(work + x * LANES + h, LANES, w->low_x, more_x, w->index_x + h));
}

#define STRAIGHT_0(more) straight_of(out, w, row, cells, work, 0, more)
#define STRAIGHT_1(more) straight_of(out, w, row, cells, work, 1, more)
#define STRAIGHT_2(more) straight_of(out, w, row, cells, work, 2, more)
#define STRAIGHT_MORE(more) straight_of(out, w, row, cells, work, w->high_y - w->low_y, more)
static void straight(float *out, const SnlsTileCells *w, ptrdiff_t row, ptrdiff_t cells, float *work)
{
    const int more_x = w->high_x - w->low_x;
    switch (w->high_y - w->low_y) {
    case 0: BY_SPREAD(more_x, STRAIGHT_0) break;
    case 1: BY_SPREAD(more_x, STRAIGHT_1) break;
    case 2: BY_SPREAD(more_x, STRAIGHT_2) break;
    default: BY_SPREAD(more_x, STRAIGHT_MORE)
    }
}

/* Cells of a row take shape between two columns of whole pixels: their scores at the first and the last row of candidates. */
typedef struct Edge { Vec first, last; } Edge;

/* Fractions of the first and the last candidate of a cell. */
typedef struct Ends { Vec first, last; } Ends;

enum { ENDS, HALVES, PIXELS }; /* along an axis: any two fractions; a pixel and half a pixel on; a pixel alone */

ALWAYS Edge edge_of(Vec above, Vec below, Ends y, const int way)
{
    if (way == PIXELS) return (Edge){above, above};
    const Vec down = v_sub(below, above);
    return (Edge){way == HALVES ? above : v_fma(y.first, down, above), v_fma(y.last, down, above)};
}

ALWAYS Vec least_between(Vec left, Vec right, Ends x, const int way)
{
    if (way == PIXELS) return left;
    const Vec across = v_sub(right, left);
    if (way == HALVES) return v_fma(x.last, v_min(across, v_zero()), left);
    return v_min(v_fma(x.first, across, left), v_fma(x.last, across, left));
}

/* With prod, linear along each axis, the first and the last candidates tell which score of a cell is the least. */
ALWAYS Vec least_of_cell(const Edge *left, const Edge *right, Ends x, const int down, const int across)
{
    const Vec first = least_between(left->first, right->first, x, across);
    return down == PIXELS ? first : v_min(first, least_between(left->last, right->last, x, across));
}

typedef struct Lists { Vec top[SNLS_TILE_SHORT], number[SNLS_TILE_SHORT], left_out, sum, id; } Lists;

/* x into the list. No score is NaN as long as the sum is none. */
ALWAYS void insert_cell(Lists *s, Vec x, const int k)
{
    s->left_out = v_min(v_max(s->top[k - 1], x), s->left_out);
    insert_known(s->top, s->number, x, s->id, k);
    s->id = v_add(s->id, v_set(1));
}

/* Where a window begins or ends within a cell, candidates that are in it stand in for those that are not. */
ALWAYS Ends ends_of(const SnlsTileCellAxis *a, int is_first, int is_last, int steps, const int h)
{
    const Vec phase = v_load(a->phase + h), begin = v_load(a->first + h);
    return (Ends){is_first ? begin : phase, is_last ? begin : v_add(phase, v_set(1 - 1 / (float)steps))};
}

ALWAYS void row_of_cells(SnlsTileCellLists *lists, const SnlsTileCells *w, const SnlsTileCellRow *row, const int k, const int down, const int across, const int h)
{
    const ptrdiff_t last = row->cells - 1;
    const Ends y = ends_of(&w->y, row->row == 0, row->row == last, row->steps, h), middle = ends_of(&w->x, 0, 0, row->steps, h);
    const float *above = row->above + h, *below = row->below + h;
    Lists s = {.left_out = v_load(lists->left_out + h), .sum = v_load(lists->sum + h), .id = v_set(row->first)};
UNROLLED(4)
    for (int j = 0; j < k; j++) s.top[j] = v_load(lists->top + j * LANES + h), s.number[j] = v_load(lists->number + j * LANES + h);
    for (ptrdiff_t c = 0; row->row == 0 && c < last + (w->between_x != 0); c++) s.sum = v_add(s.sum, v_load(above + (c + 1) * LANES));
    Edge left = edge_of(v_load(above), v_load(below), y, down);
    s.sum = v_add(s.sum, v_load(below));
    if (row->row == 0) s.sum = v_add(s.sum, v_load(above));
    for (ptrdiff_t c = 0; c < last; c++) {
        const Vec under = v_load(below + (c + 1) * LANES);
        const Edge right = edge_of(v_load(above + (c + 1) * LANES), under, y, down);
        s.sum = v_add(s.sum, under);
        insert_cell(&s, c == 0 && across == ENDS ? least_of_cell(&left, &right, ends_of(&w->x, 1, 0, row->steps, h), down, across) : least_of_cell(&left, &right, middle, down, across), k);
        left = right;
    }
    const ptrdiff_t tap = w->between_x ? last + 1 : last;
    const Edge right = edge_of(v_load(above + tap * LANES), v_load(below + tap * LANES), y, down);
    s.sum = v_add(s.sum, v_load(below + tap * LANES));
    insert_cell(&s, least_of_cell(&left, &right, ends_of(&w->x, 0, 1, row->steps, h), down, across == HALVES ? PIXELS : across), k);
    v_store(lists->left_out + h, s.left_out);
    v_store(lists->sum + h, s.sum);
UNROLLED(4)
    for (int j = 0; j < k; j++) v_store(lists->top + j * LANES + h, s.top[j]), v_store(lists->number + j * LANES + h, s.number[j]);
}

ALWAYS void row_of_kind(SnlsTileCellLists *lists, const SnlsTileCells *w, const SnlsTileCellRow *row, const int k)
{
    if (row->steps != 2 || w->between_y || w->between_x) EACH_PART row_of_cells(lists, w, row, k, ENDS, ENDS, h);
    else if (row->row < row->cells - 1) EACH_PART row_of_cells(lists, w, row, k, HALVES, HALVES, h);
    else EACH_PART row_of_cells(lists, w, row, k, PIXELS, HALVES, h);
}

static void cells(SnlsTileCellLists *lists, const SnlsTileCells *w, const SnlsTileCellRow *row, ptrdiff_t k)
{
    switch (k) {
    case 1: row_of_kind(lists, w, row, 1); break;
    case 2: row_of_kind(lists, w, row, 2); break;
    case 3: row_of_kind(lists, w, row, 3); break;
    default: row_of_kind(lists, w, row, 4);
    }
}

/* A lane's cell: its slot, its scores at the corners; of its candidates the first along each axis: number and fraction. */
typedef struct Corners { float a[WIDTH], b[WIDTH], c[WIDTH], d[WIDTH]; Vec slot, y, x, phase_y, phase_x; } Corners;

/* Of lanes h .. h + WIDTH - 1, their places and a bit each. */
ALWAYS void load_corners(Corners *to, const uint32_t *place, uint32_t lanes, const SnlsTileExpand *in, const int h)
{
    /* -2: outside the window, whatever is skipped */
    int32_t slot[WIDTH], row[WIDTH], column[WIDTH];
    float number[WIDTH], y[WIDTH], x[WIDTH];
    for (int l = 0; l < WIDTH; l++) {
        slot[l] = (int32_t)(place[l] >> 20), row[l] = (int32_t)(place[l] >> 10 & 1023), column[l] = (int32_t)(place[l] & 1023);
        number[l] = in->slot + (float)slot[l], y[l] = (float)((lanes >> l & 1 ? row[l] : -2) * in->steps), x[l] = (float)(column[l] * in->steps);
    }
    for (int l = 0; l < WIDTH; l++) {
        const SnlsTileCells *w = in->window + slot[l] * in->apart;
        const float *at = w->box + (w->index_y[h + l] + row[l]) * w->row + (w->index_x[h + l] + column[l]) * LANES + h + l;
        to->a[l] = at[0], to->b[l] = at[LANES], to->c[l] = at[w->row], to->d[l] = at[w->row + LANES];
    }
    Vec skip_y = v_zero(), skip_x = v_zero();
    to->phase_y = to->phase_x = v_zero();
    for (int i = 0; i < in->slots; i++) {
        const SnlsTileCells *w = in->window + i * in->apart;
        const Mask here = m_equal(slot, i);
        skip_y = v_pick(here, skip_y, v_load(w->y.skip + h)), skip_x = v_pick(here, skip_x, v_load(w->x.skip + h));
        to->phase_y = v_pick(here, to->phase_y, v_load(w->y.phase + h)), to->phase_x = v_pick(here, to->phase_x, v_load(w->x.phase + h));
    }
    to->slot = v_load(number), to->y = v_sub(v_load(y), skip_y), to->x = v_sub(v_load(x), skip_x);
}

/* Of equal scores that with the lower number goes first, in whatever order they come. */
ALWAYS void insert_ordered(Vec *top, Vec *number, Vec x, Vec id, Mask there, const int k)
{
    Mask before[SNLS_TILE_SHORT];
UNROLLED(4)
    for (int j = 0; j < k; j++) before[j] = m_or(m_not_below(there, top[j], x), m_not_below(m_le(x, top[j]), number[j], id));
    move_on(top, number, before, x, id, k);
}

/* Where f is 0, b does not count. Not from the nearer end, as Share is: from the first candidate of a cell to its last scores must not go up and down, however they are rounded. */
ALWAYS Vec mix_two(Vec a, Vec b, Vec f) { return v_fma_where(m_nonzero(f), f, v_sub(b, a), a); }

/* Of numbers from 0 to side - 1. */
ALWAYS Mask m_within(Mask m, Vec n, Vec side) { return m_not_below(m_not_below(m, n, v_set(-1)), side, n); }

ALWAYS void expand_part(float *top, float *number, const uint32_t *place, uint32_t lanes, const SnlsTileExpand *in, const int k, const int h)
{
    Corners at;
    Vec t[SNLS_TILE_SHORT], d[SNLS_TILE_SHORT];
    const Vec side = v_set((float)in->side);
    load_corners(&at, place, lanes, in, h);
UNROLLED(4)
    for (int j = 0; j < k; j++) t[j] = v_load(top + j * LANES), d[j] = v_load(number + j * LANES);
    for (int i = 0; i < in->steps; i++) {
        const Vec row = v_add(at.y, v_set((float)i)), fy = v_add(at.phase_y, v_set((float)i / (float)in->steps));
        const Vec left = mix_two(v_load(at.a), v_load(at.c), fy), right = mix_two(v_load(at.b), v_load(at.d), fy);
        const Vec before = v_mul(v_add(v_mul(at.slot, side), row), side);
        for (int j = 0; j < in->steps; j++) {
            const Vec column = v_add(at.x, v_set((float)j)), fx = v_add(at.phase_x, v_set((float)j / (float)in->steps));
            const Vec score = mix_two(left, right, fx);
            const Mask there = m_within(m_within(m_number(score), row, side), column, side);
            insert_ordered(t, d, v_pick(there, v_set(__builtin_nanf("")), score), v_add(before, column), there, k);
        }
    }
UNROLLED(4)
    for (int j = 0; j < k; j++) v_store(top + j * LANES, t[j]), v_store(number + j * LANES, d[j]);
}

ALWAYS void expand_of(float *top, float *number, const uint32_t *place, uint32_t lanes, const SnlsTileExpand *in, const int k)
{
    EACH_PART expand_part(top + h, number + h, place + h, lanes >> h, in, k, h);
}

static void expand(float *top, float *number, ptrdiff_t k, const uint32_t *place, uint32_t lanes, const SnlsTileExpand *in)
{
    switch (k) {
    case 1: expand_of(top, number, place, lanes, in, 1); break;
    case 2: expand_of(top, number, place, lanes, in, 2); break;
    case 3: expand_of(top, number, place, lanes, in, 3); break;
    default: expand_of(top, number, place, lanes, in, 4);
    }
}
