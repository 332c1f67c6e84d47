/* test_settle.c: settle, aim, tilt and pull_list of the dsp table: neighbours found again from their numbers as the definition finds them (op/geometry.h), the same bits on every instruction set; windows that
 * slide, are cut or stay, flow beyond the frame and NaN, steps of a fraction of a pixel, places at the last row and column.
 *   test_settle [SEED [COUNT]] */
#include "check.h"
#include "op/geometry.h"
#include "simd/dsp.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOWS = 5, COLUMNS = 40, EDGE = 12, FEATURES = 37, FLOATS = 2 * EDGE * EDGE * 2 * FEATURES }; /* two frames, two heads */

typedef struct Case {
    SnlsSettle in;
    SnlsAim aim;
    SnlsSettled list;
    int64_t n, height, width;
    float flow[COLUMNS][WINDOWS][2], g[SNLS_SETTLE], along[SNLS_SETTLE][4];
} Case;

static void draw(Rng *rng, Case *c)
{
    memset(c, 0, sizeof *c);
    c->height = rng_int(rng, 2, 40), c->width = rng_int(rng, 2, 40);
    c->n = rng_int(rng, 0, SNLS_SETTLE);
    const int side = (int)rng_int(rng, 1, 9), turn = (int)rng_int(rng, 2, 4);
    c->in = (SnlsSettle){ .centre = rng_one_in(rng, 6) ? NULL : &c->flow[0][0][0], .centre_window = 2, .step_y = 1, .first = (int)rng_int(rng, 0, 2), .cells = side * side, .side = side, .nearest = rng_one_in(rng, 4),
                          .slide = rng_one_in(rng, 2), .time = (int)rng_int(rng, 0, 2), .turn = turn, .y = (double)rng_int(rng, 0, c->height - 1), .stride0 = (double)rng_int(rng, 1, 2), .stride1 = RNG_PICK(rng, 1, 0.5, 0.25, 2),
                          .last_y = (double)(c->height - 1), .last_x = (double)(c->width - 1) };
    c->aim = (SnlsAim){ .step = { rng_int(rng, 5000, 9000), rng_int(rng, 50, 90), rng_int(rng, 1, 9) }, .out_step = { rng_int(rng, 5000, 9000), rng_int(rng, 50, 90), rng_int(rng, 1, 9) },
                        .height = (int)c->height, .width = (int)c->width, .first = (int)rng_int(rng, 0, c->height / 2), .end = (int)rng_int(rng, c->height / 2, c->height) };
    for (int i = 0; i < COLUMNS * WINDOWS * 2; i++) {
        float *at = &c->flow[0][0][0] + i;
        *at = rng_one_in(rng, 40) ? NAN : rng_one_in(rng, 3) ? (float)rng_int(rng, -3, 3) : (float)rng_real(rng, -4, 4);
    }
    const int columns = (int)((c->width - 1) / (int)c->in.stride0) + 1;
    for (int i = 0; i < SNLS_SETTLE; i++) {
        c->list.id[i] = (int)rng_int(rng, 0, WINDOWS * side * side - 1);
        c->list.column[i] = (int)rng_int(rng, 0, columns - 1);
        c->list.centre[i] = c->list.column[i] * WINDOWS * 2;
        c->g[i] = (float)rng_real(rng, -2, 2);
        for (int m = 0; m < 4; m++) c->along[i][m] = (float)rng_real(rng, -9, 9);
    }
}

/* One axis by the definition; false: the centre has to be reflected, or is no number. */
static bool place_of(const Case *c, double centre, int64_t n, int64_t cell, double *place)
{
    if (!(centre >= 0 && centre <= (double)(n - 1))) return false;
    *place = snls_window_place(centre, c->in.stride1, cell, snls_window_origin(centre, c->in.side, c->in.stride1, n, c->in.slide));
    return true;
}

static void check_settled(const Case *c, const SnlsSettled *s, int64_t i, const char *level)
{
    const int64_t window = c->list.id[i] / c->in.cells, cell = c->list.id[i] % c->in.cells, row = cell / c->in.side, column = cell % c->in.side;
    const bool has = c->in.centre && window >= c->in.first;
    double dy = has ? c->flow[c->list.column[i]][window][1] : 0, dx = has ? c->flow[c->list.column[i]][window][0] : 0, y = 0, x = 0;
    if (c->in.nearest) dy = rint(dy), dx = rint(dx);
    const bool down = place_of(c, c->in.y + dy, c->height, row, &y), across = place_of(c, c->list.column[i] * c->in.stride0 + dx, c->width, column, &x), plain = down && across;
    const int state = !plain ? SNLS_SETTLE_REFLECTED : snls_inside(y, c->height) && snls_inside(x, c->width);
    CHECK(s->window[i] == window && s->state[i] == state, "%s settle: window %d, state %d, want %d and %d", level, s->window[i], s->state[i], (int)window, state);
    CHECK(s->frame[i] == (c->in.time + window <= c->in.turn ? c->in.time + window : c->in.turn - window), "%s settle: frame %d", level, s->frame[i]);
    if (state >= 0) CHECK(s->y[i] == y && s->x[i] == x, "%s settle: at (%.17g, %.17g), want (%.17g, %.17g)", level, s->y[i], s->x[i], y, x);
}

static bool is_owned(const Case *c, int64_t y) { return y >= c->aim.first && y < c->aim.end; }

static void check_aimed(const Case *c, const SnlsSettled *s, int64_t i, const char *level)
{
    const SnlsTaps y = snls_taps(s->y[i], c->height), x = snls_taps(s->x[i], c->width);
    const int64_t *step = c->aim.step, *out = c->aim.out_step, t = s->frame[i];
    CHECK(s->at[i] == t * step[0] + y.at[0] * step[1] + x.at[0] * step[2] && s->out[i] == t * out[0] + y.at[0] * out[1] + x.at[0] * out[2], "%s aim: another pixel", level);
    CHECK(s->down[i] == y.at[1] - y.at[0] && s->right[i] == x.at[1] - x.at[0], "%s aim: taps %d down, %d right", level, s->down[i], s->right[i]);
    CHECK(s->shape[i] == (y.weight[1] != 0) * 2 + (x.weight[1] != 0), "%s aim: shape %d", level, s->shape[i]);
    CHECK(s->rows[i] == (is_owned(c, y.at[0]) | (y.weight[1] != 0 && is_owned(c, y.at[1])) << 1), "%s aim: rows %d", level, s->rows[i]);
    for (int m = 0; m < 4; m++) CHECK(s->w[m][i] == (float)(y.weight[m >> 1] * x.weight[m & 1]), "%s aim: weight %d is %.9g", level, m, s->w[m][i]);
    double by[2] = { 0, 0 };
    for (int k = 0; k < 2; k++) {
        if (x.weight[k] != 0) by[0] += x.weight[k] * ((double)c->along[i][2 + k] - c->along[i][k]);
        if (y.weight[k] != 0) by[1] += y.weight[k] * ((double)c->along[i][2 * k + 1] - c->along[i][2 * k]);
    }
    CHECK(fabs(s->by_y[i] - 2.0 * c->g[i] * by[0]) <= 1e-10 && fabs(s->by_x[i] - 2.0 * c->g[i] * by[1]) <= 1e-10, "%s tilt: %.9g, %.9g", level, s->by_y[i], s->by_x[i]);
}

/* Places that are there alone go on. */
static void sift(const Case *c, SnlsSettled *s)
{
    for (int64_t i = 0; i < c->n; i++)
        if (s->state[i] != 1) s->y[i] = (double)(c->height - 1), s->x[i] = 0;
}

static void check_case(const Case *c, const SnlsDsp *dsp, const char *level)
{
    static const char gap = 0x55;
    SnlsSettled s = c->list;
    memset(&s.window, gap, sizeof s - offsetof(SnlsSettled, window));
    const SnlsTilt tilt = { c->g, (const float(*)[4])c->along, 2 };
    dsp->settle(&s, c->n, &c->in);
    for (int64_t i = 0; i < c->n; i++) check_settled(c, &s, i, level);
    sift(c, &s);
    dsp->aim(&s, c->n, &c->aim);
    dsp->tilt(&s, c->n, &tilt);
    for (int64_t i = 0; i < c->n; i++) check_aimed(c, &s, i, level);
}

/* As many calls of pull_pixel. */
static void check_pulls(Rng *rng, const SnlsDsp *dsp, const char *level)
{
    static float key[FLOATS], q[FLOATS], to[2][FLOATS], out[2][FLOATS];
    static Case c;
    float along[2][SNLS_SETTLE][4] = { { { 0 } } };
    int32_t head[SNLS_SETTLE];
    const ptrdiff_t n = (ptrdiff_t)RNG_PICK(rng, 1, 3, 5, 16, 20, FEATURES), pixel = 2 * n, row = EDGE * pixel, used = 2 * EDGE * row;
    draw(rng, &c);
    for (ptrdiff_t i = 0; i < used; i++) key[i] = (float)rng_real(rng, -1, 1), q[i] = (float)rng_real(rng, -1, 1), to[0][i] = to[1][i] = out[0][i] = out[1][i] = (float)rng_real(rng, -1, 1);
    for (int i = 0; i < SNLS_SETTLE; i++) {
        c.list.window[i] = (int)rng_int(rng, 0, 2), c.list.frame[i] = (int)rng_int(rng, 0, 1), c.list.column[i] %= EDGE, head[i] = (int)rng_int(rng, 0, 1);
        c.list.y[i] = rng_one_in(rng, 2) ? (double)rng_int(rng, 0, EDGE - 1) : rng_real(rng, 0, EDGE - 1), c.list.x[i] = rng_one_in(rng, 2) ? (double)rng_int(rng, 0, EDGE - 1) : rng_real(rng, 0, EDGE - 1);
    }
    const SnlsAim aim = { { EDGE * row, row, pixel }, { EDGE * row, row, pixel }, EDGE, EDGE, (int)rng_int(rng, 0, 5), (int)rng_int(rng, 6, EDGE) };
    SnlsPulls by = { .q = q, .key = key, .to = rng_one_in(rng, 4) ? NULL : to[0], .out = rng_one_in(rng, 4) ? NULL : out[0], .q_step = pixel, .to_step = pixel, .right = pixel, .down = row, .out_right = pixel, .out_down = row,
                     .n = n, .head = head, .g = c.g, .along = along[0], .first_along = (int)rng_int(rng, 0, 3), .twice = 2, .prod = rng_one_in(rng, 2) };
    dsp->aim(&c.list, c.n, &aim);
    dsp->pull_list(&c.list, c.n, &by);
    for (int64_t i = 0; i < c.n; i++) {
        const SnlsSettled *s = &c.list;
        const bool wants = s->window[i] >= by.first_along;
        SnlsPixel p = { .q = q + s->column[i] * pixel + head[i] * n, .at = key + s->at[i] + head[i] * n, .to = by.to ? to[1] + s->column[i] * pixel + head[i] * n : NULL,
                        .out = by.out && s->rows[i] ? out[1] + s->out[i] + head[i] * n : NULL, .right = s->right[i] * pixel, .down = s->down[i] * row, .out_right = s->right[i] * pixel, .out_down = s->down[i] * row,
                        .n = n, .w = { s->w[0][i], s->w[1][i], s->w[2][i], s->w[3][i] }, .g = 2 * c.g[i], .shape = s->shape[i], .prod = by.prod, .rows = s->rows[i] };
        if (p.to || p.out || wants) dsp->pull_pixel(wants ? along[1][i] : NULL, &p);
    }
    CHECK(!memcmp(to[0], to[1], (size_t)used * sizeof(float)) && !memcmp(out[0], out[1], (size_t)used * sizeof(float)) && !memcmp(along[0], along[1], sizeof along[0]), "%s pull_list: n=%td, %d neighbours", level, n, (int)c.n);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "", "c", "avx2 or neon", "avx512" };
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 2000;
    static Case c;
    for (int level = 1; level <= snls_dsp_level_max(); level++) {
        SnlsDsp dsp;
        snls_dsp_init(&dsp, level);
        for (uint64_t seed = first; seed < first + count; seed++) {
            Rng rng = { seed };
            check_repeat("test_settle %llu", (unsigned long long)seed);
            draw(&rng, &c);
            check_case(&c, &dsp, names[level]);
            if (seed % 4 == 0) check_pulls(&rng, &dsp, names[level]); /* a video each */
        }
    }
    return check_end();
}
