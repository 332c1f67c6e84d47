/* sieve_window.c: where the windows of sixteen queries are in a slot, and the boxes of keys around them. */
#include "cpu/sieve.h"

/* Cells of one axis of one lane, of all phases: candidates first .. end-1 of the window lie inside the frame. */
static void set_lane(const CpuSieve *v, SnlsSieveLanes *phase, int64_t l, double centre, int64_t origin, int64_t first, int64_t end)
{
    const int64_t n = v->phases;
    for (int64_t p = 0; p < n; p++) {
        const double place = snls_window_place(centre, v->c->m.stride1, p, origin);
        const int64_t base = (int64_t)floor(place);
        phase[p].base[l] = (int32_t)base;
        phase[p].fraction[l] = (float)(place - (double)base);
        phase[p].first[l] = (int32_t)(base + (first > p ? (first - p + n - 1) / n : 0));
        phase[p].end[l] = (int32_t)(base + (end > p ? (end - p + n - 1) / n : 0));
    }
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
    set_lane(v, s->slot[slot].y, l, w.y, w.origin_y, row0, row1);
    set_lane(v, s->slot[slot].x, l, w.x, w.origin_x, column0, column1);
}

static uint32_t plain_windows(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, CpuSieveScratch *s)
{
    const SnlsMatch *m = &v->c->m;
    const int64_t lane0 = slot * SIEVE_LANES;
    SnlsSieveLanes *y = s->slot[slot].y, *x = s->slot[slot].x;
    SnlsSieveWindows w = {.all = snls_cpu_lane_windows(m), .y = s->y, .x = s->x, .centre_y = s->centre_y + lane0, .centre_x = s->centre_x + lane0, .origin_y = s->origin_y + lane0, .origin_x = s->origin_x + lane0};
    if (snls_match_has_centre(m, slot)) {
        const SnlsQuery q = snls_sieve_query(p, 0);
        w.flow = (const float *)m->centre.data + snls_match_centre_at(m, &q, slot);
        w.at = s->flow_at;
        w.step_y = snls_match_step_y(m);
        for (int64_t i = 0; i < SIEVE_EDGE; i++) __builtin_prefetch(w.flow + (SIEVE_EDGE + i) * m->centre.stride[m->centre.ndim - 3]); /* of the tile below */
    }
    uint32_t plain = 0;
    for (int64_t phase = 0; phase < v->phases; phase++) {
        w.first = (double)phase;
        w.side = (int32_t)((m->side - phase + v->phases - 1) / v->phases);
        plain = v->s.windows(&w, &y[phase], &x[phase]);
    }
    return plain;
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

/* First and last cell of each lane over all phases. */
static void find_extent(const CpuSieve *v, const SnlsSieveLanes *phase, uint32_t lanes, SnlsSieveLanes *e)
{
    *e = phase[0];
    for (int64_t p = 1; p < v->phases; p++)
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            const int l = __builtin_ctz(rest);
            if (phase[p].first[l] == phase[p].end[l]) continue;
            const bool none = e->first[l] == e->end[l];
            if (none || phase[p].first[l] < e->first[l]) e->first[l] = phase[p].first[l];
            if (none || phase[p].end[l] > e->end[l]) e->end[l] = phase[p].end[l];
            if (phase[p].fraction[l] != 0) e->fraction[l] = phase[p].fraction[l]; /* whether there is one is what counts */
        }
}

/* The box's keys: cells [y, y + key_rows) x [x, ...) of the slot's frame. */
static SnlsSieveKeys keys_at(const CpuSieve *v, int64_t frame, int32_t y, int32_t x)
{
    const CpuSieveKeys *k = &v->keys;
    const int64_t at = (frame % v->c->m.windows * k->rows + y) * k->width + x, pixel = k->parts * k->padded;
    SnlsSieveKeys keys = {.at = k->data + at * pixel, .down = k->width * pixel, .right = pixel, .chunks = (int)(k->padded / SNLS_SIEVE_CHUNK), .parts = k->parts,
                          .add_down = k->width};
    if (k->add) keys.add = k->add + at;
    for (int n = 0; k->bend[0] && n < 3; n++) keys.bend[n] = k->bend[n] + at;
    return keys;
}

/* The largest key of the rows, which rounding depends on. */
static void note_norms(const CpuSieve *v, int64_t frame, int64_t y, int64_t rows, CpuSieveScratch *s)
{
    const float *peak = v->keys.peak + frame % v->c->m.windows * v->keys.rows + y;
    float most = s->key_norm;
    int broken = most != most;
    for (int64_t r = 0; r < rows; r++) { /* snls_sieve_larger, but for what waits: the next maximum is one instruction away */
        most = peak[r] > most ? peak[r] : most;
        broken |= peak[r] != peak[r];
    }
    s->key_norm = broken ? NAN : most;
}

/* What the tile below this one will want: the rows after the box, as many columns as tiles are apart. */
static void fetch_below(const CpuSieve *v, const CpuSieveTile *p, int64_t frame, const SnlsSieveSpan *y, const SnlsSieveSpan *x)
{
    const SnlsMatch *m = &v->c->m;
    const CpuSieveKeys *k = &v->keys;
    const int64_t edge = SIEVE_EDGE * m->stride0, pixel = k->parts * k->padded, middle = x->first + (x->end - x->first - edge) / 2, left = middle < 0 ? 0 : middle;
    for (int64_t r = y->end; r < y->end + edge && r < m->height; r++) {
        const char *rough = (const char *)(k->data + ((frame % m->windows * k->rows + r) * k->width + left) * pixel);
        const char *exact = (const char *)(snls_cpu_pixel(&v->c->key, p->b, frame, r, left) + p->head * m->features);
        for (int64_t i = 0; i < edge * pixel * (int64_t)sizeof(uint16_t); i += 64) __builtin_prefetch(rough + i, 0, 2);
        for (int64_t i = 0; i < edge * v->c->key.step[3] * (int64_t)sizeof(float); i += 64) __builtin_prefetch(exact + i, 0, 2);
    }
}

static void add_job(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, uint32_t lanes, const SnlsSieveLanes *extent, const SnlsSieveSpan *y, const SnlsSieveSpan *x,
                    CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    const CpuSieveSlot *w = &s->slot[slot];
    const int64_t scans = v->phases * v->phases;
    const int rows = y->end - y->first, columns = x->end - x->first;
    const int key_rows = rows + v->s.between(&extent[0], lanes), key_columns = columns + v->s.between(&extent[1], lanes);
    CpuSieveJob *job = &jobs->job[jobs->count];
    *job = (CpuSieveJob){.s = s, .slot = slot, .first = s->boxes, .used = s->used, .lanes = lanes, .y = y->first, .x = x->first, .rows = rows, .columns = columns};
    job->make = (SnlsSieveMake){.keys = keys_at(v, w->frame, y->first, x->first), .query = s->query, .out = jobs->product[jobs->count % 2],
                                .tiles = (key_columns + SIEVE_LANES - 1) / SIEVE_LANES};
    job->make.units = key_rows * job->make.tiles;
    job->make.ring = job->make.tiles == 1 && scans == 1 ? SNLS_SIEVE_RING : 0;
    if (job->make.ring) job->make.out = jobs->product[0]; /* nothing of a box is stored before the one before it is done with */
    const float *at = snls_cpu_pixel(&v->c->key, p->b, w->frame, y->first, x->first) + p->head * v->c->m.features;
    for (int64_t i = 0; i < scans; i++) s->table.at[s->boxes + i] = at;
    note_norms(v, w->frame, y->first, key_rows, s);
    fetch_below(v, p, w->frame, y, x);
    jobs->count++;
    s->boxes += scans;
    s->used += scans * rows;
}

uint32_t snls_sieve_plan_slot(const CpuSieve *v, const CpuSieveTile *p, int64_t slot, uint32_t lanes, CpuSieveJobs *jobs, CpuSieveScratch *s)
{
    const int64_t scans = v->phases * v->phases;
    SnlsSieveLanes extent[2];
    if (!lanes) return 0;
    find_extent(v, s->slot[slot].y, lanes, &extent[0]);
    find_extent(v, s->slot[slot].x, lanes, &extent[1]);
    while (lanes) {
        SnlsSieveSpan y, x;
        uint32_t taken = v->s.fit(&extent[1], lanes, (int32_t)v->columns_max, &x);
        taken = v->s.fit(&extent[0], taken, (int32_t)v->rows_max, &y);
        if (s->used + scans * (y.end - y.first) > v->room || s->boxes + scans > v->boxes || jobs->count == SIEVE_JOBS) break;
        add_job(v, p, slot, taken, extent, &y, &x, jobs, s);
        lanes &= ~taken;
    }
    return lanes;
}

/* One box: a scan for each pair of phases, of the same products. */
static void run_job(const CpuSieve *v, CpuSieveJob *job, SnlsSieveMake *next)
{
    CpuSieveScratch *s = job->s;
    const CpuSieveSlot *w = &s->slot[job->slot];
    const int64_t scans = v->phases * v->phases;
    for (int64_t i = 0; i < scans; i++) {
        const int64_t box = job->first + i, first_y = i / v->phases, first_x = i % v->phases;
        const SnlsSieveView view = {.y = &w->y[first_y], .x = &w->x[first_x], .lanes = job->lanes, .origin_y = job->y, .origin_x = job->x};
        s->table.head[box] = (int32_t)(job->slot << 20 | first_y << 10 | first_x);
        s->table.origin_y[box] = job->y;
        s->table.origin_x[box] = job->x;
        s->between[box] = v->s.between(view.y, job->lanes) || v->s.between(view.x, job->lanes);
        s->rows[box] = (SnlsSieveRows){.rows = job->rows, .columns = job->columns, .bits = v->bits};
        for (int n = 0; n < 3; n++) s->rows[box].least[n] = s->least[n] + (job->used + i * job->rows) * SIEVE_LANES;
        v->s.scan(&s->rows[box], &job->make, &view, s->top, v->c->k, &s->table, box, i + 1 < scans ? NULL : next);
    }
}

void snls_sieve_run_jobs(const CpuSieve *v, CpuSieveJobs *jobs)
{
    if (jobs->count) v->s.make(&jobs->job[0].make);
    for (int j = 0; j < jobs->count; j++) run_job(v, &jobs->job[j], j + 1 < jobs->count ? &jobs->job[j + 1].make : NULL);
    jobs->count = 0;
}
