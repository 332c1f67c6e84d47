/* sieve_window.c: where the windows of sixteen queries are in a slot, and the boxes of keys around them. */
#include "cpu/sieve.h"
#include <string.h>

/* One axis of one lane: candidates from .. to-1 of the window lie inside the frame. */
static void set_lane(const CpuSieve *v, SnlsSieveLanes *axis, int64_t l, double centre, int64_t origin, int64_t from, int64_t to)
{
    const double steps = v->steps, place = snls_window_place(centre, v->c->m.stride1, 0, origin) * steps, base = floor(place);
    axis->base[l] = (int32_t)base;
    axis->fraction[l] = (float)((place - base) / steps);
    axis->from[l] = (int32_t)from;
    axis->to[l] = (int32_t)to;
    axis->first[l] = (int32_t)floor((base + (double)from) / steps);
    axis->end[l] = (int32_t)floor((base + (double)to - 1) / steps) + 1;
}

/* A window that is reflected, slid, cut or undefined: by the definition. */
static void set_special(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, int64_t l, CpuSieveScratch *s)
{
    const SnlsMatch *m = &v->c->m;
    const SnlsQuery q = snls_sieve_query(p, l);
    const SnlsMatchWindow w = snls_match_window(m, &q, slot);
    int64_t row0, row1, column0, column1;
    s->slot[slot].valid &= ~(1u << l);
    if (!w.valid) return;
    s->centre_y[slot * SIEVE_LANES + l] = w.y;
    s->centre_x[slot * SIEVE_LANES + l] = w.x;
    s->origin_y[slot * SIEVE_LANES + l] = (int32_t)w.origin_y;
    s->origin_x[slot * SIEVE_LANES + l] = (int32_t)w.origin_x;
    snls_match_valid_run(w.y, m->stride1, w.origin_y, m->side, m->height, &row0, &row1);
    snls_match_valid_run(w.x, m->stride1, w.origin_x, m->side, m->width, &column0, &column1);
    if (row0 == row1 || column0 == column1) return;
    s->slot[slot].valid |= 1u << l;
    set_lane(v, &s->axis_y[slot], l, w.y, w.origin_y, row0, row1);
    set_lane(v, &s->axis_x[slot], l, w.x, w.origin_x, column0, column1);
}

static uint32_t plain_windows(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, CpuSieveScratch *s)
{
    const SnlsMatch *m = &v->c->m;
    const int64_t lane0 = slot * SIEVE_LANES;
    SnlsSieveWindows w = {.all = snls_cpu_lane_windows(m), .side = (int32_t)m->side, .steps = v->steps, .y = s->y, .x = s->x, .centre_y = s->centre_y + lane0, .centre_x = s->centre_x + lane0, .origin_y = s->origin_y + lane0, .origin_x = s->origin_x + lane0};
    if (snls_match_has_centre(m, slot)) {
        const SnlsQuery q = snls_sieve_query(p, 0);
        w.flow = (const float *)m->centre.data + snls_match_centre_at(m, &q, slot);
        w.at = s->flow_at;
        w.step_y = snls_match_step_y(m);
        for (int64_t i = 0; i < v->down; i++) __builtin_prefetch(w.flow + (SIEVE_DOWN + i) * m->centre.stride[m->centre.ndim - 3]); /* of the group below */
    }
    return v->s.windows(&w, &s->axis_y[slot], &s->axis_x[slot]);
}

void snls_sieve_slot(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, CpuSieveScratch *s)
{
    const SnlsMatch *m = &v->c->m;
    s->slot[slot].frame = snls_slot_frame(p->t, slot, m->wt, m->frames);
    s->dt[slot] = (float)(s->slot[slot].frame - p->t);
    const uint32_t plain = plain_windows(v, p, slot, s);
    s->slot[slot].valid = plain & p->active;
    for (uint32_t rest = p->active & ~plain; rest; rest &= rest - 1) set_special(v, p, slot, __builtin_ctz(rest), s);
}

/* The box's keys: cells [y, y + key_rows) x [x, ...) of the slot's frame. */
static SnlsSieveKeys keys_at(const CpuSieve *v, int64_t frame, int32_t y, int32_t x)
{
    const CpuSieveKeys *k = &v->keys;
    const int64_t at = (frame % k->ring * k->rows + y) * k->width + x, pixel = k->pixel, skip = x % SNLS_SIEVE_PAIR;
    SnlsSieveKeys keys = {.at = k->data + (at - skip) * pixel, .skip = (int)skip, .down = k->width * pixel, .right = pixel, .chunks = (int)(k->padded / SNLS_SIEVE_CHUNK), .parts = k->parts,
                          .add_down = k->width};
    if (k->add) keys.add = k->add + at;
    for (int n = 0; k->bend[0] && n < 3; n++) keys.bend[n] = k->bend[n] + at;
    return keys;
}

/* The largest of several numbers that are not negative, NaN if one is: in the order of their bits, which compilers make vectors of. */
static float largest(const float *of, int64_t n, float most)
{
    uint32_t bits;
    memcpy(&bits, &most, sizeof bits);
    for (int64_t i = 0; i < n; i++) {
        uint32_t one;
        memcpy(&one, of + i, sizeof one);
        bits = one > bits ? one : bits;
    }
    memcpy(&most, &bits, sizeof most);
    return most;
}

/* The largest key of the rows, which rounding depends on. */
static void note_norms(const CpuSieve *v, int64_t frame, int64_t y, int64_t x, int64_t rows, CpuSieveScratch *s)
{
    const int64_t at = (frame % v->keys.ring * v->keys.blocks + x / SIEVE_LANES) * v->keys.rows + y;
    s->key_norm = largest(v->keys.peak + at, rows, s->key_norm);
    if (v->keys.lost) s->key_lost = largest(v->keys.lost + at, rows, s->key_lost);
}

static void add_job(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, uint32_t lanes, const SnlsSieveSpan *y, const SnlsSieveSpan *x,
                    CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    const CpuSieveSlot *w = &s->slot[slot];
    const int rows = y->end - y->first, columns = x->end - x->first;
    const int by = v->s.between(&s->axis_y[slot], lanes, v->steps), bx = v->s.between(&s->axis_x[slot], lanes, v->steps), key_rows = rows + by, key_columns = columns + bx;
    CpuSieveJob *job = &jobs->job[jobs->count];
    *job = (CpuSieveJob){.s = s, .slot = slot, .box = s->boxes, .used = s->used, .lanes = lanes, .y = y->first, .x = x->first, .rows = rows, .columns = columns};
    const int after_first = jobs->count && job[-1].make.out == jobs->product[0]; /* whose products are read while these are stored */
    job->make = (SnlsSieveMake){.keys = keys_at(v, w->frame, y->first, x->first), .query = s->query, .out = jobs->product[after_first],
                                .tiles = (key_columns + SIEVE_LANES - 1) / SIEVE_LANES};
    job->make.units = key_rows * job->make.tiles;
    job->make.ring = job->make.tiles == 1 ? SNLS_SIEVE_RING : 0;
    if (job->make.ring) job->make.out = jobs->product[0]; /* nothing of a box in a ring is stored before the one before it is done with */
    s->table.at[s->boxes] = snls_cpu_pixel(&v->c->key, p->b, w->frame, y->first, x->first) + p->head * v->c->m.features;
    s->table.slot[s->boxes] = (int32_t)slot;
    s->table.origin_y[s->boxes] = y->first;
    s->table.origin_x[s->boxes] = x->first;
    s->between[s->boxes] = by || bx;
    note_norms(v, w->frame, y->first, x->first, key_rows, s);
    job->key_norm = s->key_norm;
    jobs->count++;
    s->boxes++;
    s->used += rows;
}

uint32_t snls_sieve_plan_slot(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, uint32_t lanes, CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    while (lanes) {
        SnlsSieveSpan y, x;
        uint32_t taken = v->s.fit(&s->axis_x[slot], lanes, v->cells_max, &x);
        taken = v->s.fit(&s->axis_y[slot], taken, (int32_t)v->rows_max, &y);
        if (s->used + (y.end - y.first) > v->room || s->boxes == v->boxes || jobs->count == SIEVE_JOBS) break;
        add_job(v, p, slot, taken, &y, &x, jobs, s);
        lanes &= ~taken;
    }
    return lanes;
}

static void run_job(const CpuSieve *v, CpuSieveJob *job, SnlsSieveMake *next)
{
    CpuSieveScratch *s = job->s;
    const SnlsSieveView view = {.y = &s->axis_y[job->slot], .x = &s->axis_x[job->slot], .lanes = job->lanes, .origin_y = job->y, .origin_x = job->x, .steps = v->steps,
                                .norm = s->norm, .key_norm = job->key_norm};
    SnlsSieveRows *rows = &s->rows[job->box];
    *rows = (SnlsSieveRows){.rows = job->rows, .columns = job->columns, .bits = v->bits};
    for (int n = 0; n < 3; n++) rows->least[n] = s->least[n] + job->used * SIEVE_LANES;
    v->s.scan(rows, &job->make, &view, s->top, v->c->k, next);
}

void snls_sieve_run_jobs(const CpuSieve *v, CpuSieveJobs *jobs)
{
    if (jobs->count) v->s.make(&jobs->job[0].make);
    for (int j = 0; j < jobs->count; j++) run_job(v, &jobs->job[j], j + 1 < jobs->count ? &jobs->job[j + 1].make : NULL);
    jobs->count = 0;
}
