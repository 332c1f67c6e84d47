/* tile_window.h: windows and results of a run, lane by lane: plain loops, of which compilers make vectors. Included by tile_body.h where the instruction set
 * has nothing of its own (OWN_WINDOWS). */

static void axis_windows(const SnlsTileWindows *in, const double *query, const uint8_t *plain, SnlsTileAxis *axis)
{
    for (int l = 0; l < LANES; l++) axis->origin[l] = (int32_t)in->all.origin;
    for (ptrdiff_t a = 0; a < in->items; a++) {
        const double from = in->all.step * ((double)a - in->all.origin);
        for (int l = 0; l < LANES; l++) {
            const double place = plain[l] ? axis->centre[l] + from : 0;
            const int32_t low = (int32_t)place; /* not negative: cutting off is floor */
            axis->index[a * LANES + l] = low - (int32_t)query[l];
            axis->fraction[a * LANES + l] = (float)(place - low);
        }
    }
}

static uint32_t windows(const SnlsTileWindows *in, SnlsTileAxis *y, SnlsTileAxis *x)
{
    double qy[LANES], qx[LANES], fy[LANES] = {0}, fx[LANES] = {0}, *cy = y->centre, *cx = x->centre;
    const double first = in->all.step * (0 - in->all.origin), last = in->all.step * (in->all.span - in->all.origin);
    uint8_t plain[LANES];
    uint32_t bits = 0;
    for (int l = 0; in->flow && l < in->active; l++) {
        const float *at = in->flow + l * in->flow_step;
        fy[l] = in->all.nearest ? rintf(at[in->flow_y]) : at[in->flow_y];
        fx[l] = in->all.nearest ? rintf(at[0]) : at[0];
    }
    for (int l = 0; l < LANES; l++) qy[l] = in->y;
    for (int l = 0; l < LANES; l++) qx[l] = in->x + in->apart * l;
    for (int l = 0; l < LANES; l++) cy[l] = qy[l] + fy[l];
    for (int l = 0; l < LANES; l++) cx[l] = qx[l] + fx[l];
    for (int l = 0; l < LANES; l++)
        plain[l] = (cy[l] + first >= 0) & (cy[l] + last <= in->all.end_y) & (cx[l] + first >= 0) & (cx[l] + last <= in->all.end_x);
    for (int l = 0; l < in->active; l++) bits |= (uint32_t)plain[l] << l;
    axis_windows(in, qy, plain, y);
    axis_windows(in, qx, plain, x);
    return bits;
}

static int ranges(const SnlsTileAxis *axis, ptrdiff_t items, uint32_t together, int *low, int *high)
{
    const int like = __builtin_ctz(together);
    int between = 0;
    for (ptrdiff_t a = 0; a < items; a++) {
        int32_t *index = axis->index + a * LANES, least = index[like], most = index[like];
        float *fraction = axis->fraction + a * LANES;
        for (int l = 0; l < LANES && together != (1u << LANES) - 1; l++) {
            const int here = together >> l & 1;
            index[l] = here ? index[l] : index[like];
            fraction[l] = here ? fraction[l] : 0;
        }
        for (int l = 0; l < LANES; l++) least = index[l] < least ? index[l] : least;
        for (int l = 0; l < LANES; l++) most = index[l] > most ? index[l] : most;
        for (int l = 0; l < LANES; l++) between |= fraction[l] != 0;
        low[a] = least;
        high[a] = most;
    }
    return between;
}

/* Neighbour i of lane l. */
static void write_one(const SnlsListOutput *o, ptrdiff_t i, int l, float score, uint32_t place)
{
    const int there = place != SNLS_LIST_NONE;
    const uint32_t slot = place >> 20, row = place >> 10 & 1023, column = place & 1023;
    const ptrdiff_t at = there ? (ptrdiff_t)slot * o->apart + l : 0;
    float *offset = o->offset + o->offset_at[l] + i * o->offset_step;
    const float value = there ? score : __builtin_inff();
    o->dist[o->dist_at[l] + i * o->dist_step] = (o->prod ? -value : value) + 0.0f; /* no -0 */
    offset[0] = there ? o->dt[slot] : 0;
    offset[o->component] = there ? (float)(o->centre_y[at] + o->step * (double)((int32_t)row - o->origin_y[at]) - o->y[l]) : 0;
    offset[2 * o->component] = there ? (float)(o->centre_x[at] + o->step * (double)((int32_t)column - o->origin_x[at]) - o->x[l]) : 0;
    if (o->index) o->index[o->index_at[l] + i * o->index_step] = there ? (int32_t)((slot * o->side + row) * o->side + column) : -1;
}

static void write_lists(const SnlsListOutput *o, const float *top, const float *number, ptrdiff_t k, ptrdiff_t have, const uint32_t *cell)
{
    for (uint32_t rest = o->active; rest; rest &= rest - 1) {
        const int l = __builtin_ctz(rest);
        for (ptrdiff_t i = 0; i < k; i++) {
            const int there = i < have && number[i * LANES + l] < SNLS_TILE_NONE;
            write_one(o, i, l, there ? top[i * LANES + l] : 0, there ? cell[(int32_t)number[i * LANES + l]] : SNLS_LIST_NONE);
        }
    }
}
