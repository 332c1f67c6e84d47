/* sieve_parts.c: what every part of the sieve takes for a query when all it reads is in the first or second cache, no branch surprises it and nobody waits:
 * the library's own loops, one tile of 16 queries over and over. Their sum is what a search through the sieve can not be faster than. What is not counted
 * here: the walk over tiles, boxes, borders, keys from the third cache. Not part of the library.
 *   cc -O2 -march=native -Iinclude -Isrc lab/sieve_parts.c build/libsnls.a -lm -o sieve_parts
 *   ./sieve_parts prod|l2 F K zero|between [STEPS]      ws 9 and wt 1; between: a flow of fractions, the same for all queries; STEPS: 1/stride1 */
#define _GNU_SOURCE
#include "cycle.h"
#include "simd/sieve.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* WIDTH: rows of keys do not share places in the cache, as sieve_key.c sees to */
enum { LANES = SNLS_SIEVE_LANES, SIDE = 48, WIDTH = SIDE + 21, AT = 20, SLOTS = 3, RADIUS = 4, ENTRIES = 8192, RUNS = 15, TIMES = 400 };

static SnlsSieve sieve;
static ptrdiff_t features, padded, numbers, k; /* numbers: of a rough key */
static int prod, between, steps = 1;

static float *key, *plane[4], *product, *least[3], *centre, norm[LANES], along[LANES], peak, peak_lost, lost[64], query_lost[LANES];
static uint16_t *rough, *query;
static const float *pixel[LANES];
static double place_y[LANES], place_x[LANES], centre_y[SLOTS * LANES], centre_x[SLOTS * LANES];
static int32_t origin_y[SLOTS * LANES], origin_x[SLOTS * LANES], flow_at[LANES];
static float flow[2];
static SnlsSieveLanes axis_y[4], axis_x[4];
static SnlsSieveRows rows[8];
static SnlsSieveMake make[8];
static SnlsSieveView view[8];
static SnlsSieveTable table;
static const float *box_at[8];
static int32_t box_slot[8], box_y[8], box_x[8];
static float *top, *best, limit[LANES], bar[LANES], *score;
static uint32_t *place, *score_place;
static SnlsSieveEntries entries[2];
static SnlsSieveFound found;
static float *dist, *offset;

static void *room(size_t bytes)
{
    void *at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!at) exit(1);
    memset(at, 0, bytes);
    return at;
}

static float uniform(void)
{
    static uint64_t x = 1;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (float)((double)(x >> 11) * 0x1p-53);
}

/* ---- the parts ---- */

static void part_windows(void)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        const SnlsSieveWindows w = {.flow = slot ? flow : NULL, .at = flow_at, .step_y = 1, .y = place_y, .x = place_x,
                                    .all = {1.0 / steps, RADIUS * steps, 2 * RADIUS * steps, SIDE - 1, SIDE - 1, 1, 0}, .side = 2 * RADIUS * steps + 1, .steps = steps,
                                    .centre_y = centre_y + slot * LANES, .centre_x = centre_x + slot * LANES, .origin_y = origin_y + slot * LANES, .origin_x = origin_x + slot * LANES};
        if (sieve.windows(&w, &axis_y[slot], &axis_x[slot]) != 0xffff) exit(2);
    }
}

static SnlsSieveParts parts_of(int centred, float *loses) { return (SnlsSieveParts){features, padded, 1, !prod && !between && steps == 1, 1, centred ? centre : NULL, 0, loses}; }

static void part_queries(void)
{
    const SnlsSieveParts as = parts_of(!prod, query_lost);
    sieve.queries(query, &as, pixel, prod ? -1.0f : -2.0f, norm, prod && steps > 1 ? centre : NULL, along);
}

/* n pixels of row y; the longest is noted, and of l2 what is added to scores is left in plane 0. */
static void split_row(ptrdiff_t y, ptrdiff_t n)
{
    float most[SIDE / LANES];
    const SnlsSieveParts as = parts_of(1, lost);
    sieve.split(rough + y * WIDTH * numbers, &as, key + y * SIDE * features, features, n, plane[0] + y * WIDTH, most);
    for (ptrdiff_t i = 0; i < n / LANES; i++) peak = fmaxf(peak, most[i]), peak_lost = fmaxf(peak_lost, lost[i]);
}

/* As many keys as a tile has queries. */
static void part_keys(void)
{
    split_row(AT, LANES);
}

static void plan(void)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        SnlsSieveSpan y, x;
        sieve.fit(&axis_y[slot], 0xffff, 64, &y);
        sieve.fit(&axis_x[slot], 0xffff, 64, &x);
        const int more = sieve.between(&axis_y[slot], 0xffff, steps);
        const ptrdiff_t at = (ptrdiff_t)y.first * WIDTH + x.first;
        rows[slot] = (SnlsSieveRows){.rows = y.end - y.first, .columns = x.end - x.first, .bits = 6};
        for (int n = 0; n < 3; n++) rows[slot].least[n] = least[n] + slot * 64 * LANES;
        make[slot] = (SnlsSieveMake){.keys = {.at = rough + at * numbers, .down = WIDTH * numbers, .right = numbers, .chunks = (int)(padded / SNLS_SIEVE_CHUNK), .parts = 1, .add_down = WIDTH},
                                     .query = query, .out = product, .tiles = 1, .units = rows[slot].rows + more, .ring = SNLS_SIEVE_RING};
        if (!prod) {
            make[slot].keys.add = plane[0] + at;
            for (int n = 0; n < 3; n++) make[slot].keys.bend[n] = plane[n + 1] + at;
        }
        view[slot] = (SnlsSieveView){&axis_y[slot], &axis_x[slot], 0xffff, y.first, x.first, steps, norm, peak};
        box_at[slot] = key + ((ptrdiff_t)y.first * SIDE + x.first) * features;
        box_slot[slot] = slot, box_y[slot] = y.first, box_x[slot] = x.first;
    }
    table = (SnlsSieveTable){box_at, box_slot, box_y, box_x, axis_y, axis_x, SIDE * features, features, SIDE - 1, SIDE - 1, steps, SLOTS, SLOTS, pixel};
}

static void part_scan(void)
{
    for (ptrdiff_t i = 0; i < k * LANES; i++) top[i] = INFINITY;
    for (int slot = 0; slot < SLOTS; slot++) make[slot].made = make[slot].stored = 0;
    sieve.make(&make[0]);
    for (int slot = 0; slot < SLOTS; slot++) sieve.scan(&rows[slot], &make[slot], &view[slot], top, k, slot + 1 < SLOTS ? &make[slot + 1] : NULL);
}

static void part_hits(void)
{
    entries[0].count = entries[1].count = 0;
    for (int slot = 0; slot < SLOTS; slot++) sieve.hits(&rows[slot], &table, slot, 0, bar, &entries[steps > 1 || (slot && between)], &entries[0]);
}

static void part_scores(void)
{
    SnlsSievePairs pairs;
    for (int n = 0; n < 2; n++)
        for (ptrdiff_t i = 0; i < entries[n].count; i += LANES) {
            sieve.look_up(&pairs, entries[n].at + i, entries[n].count - i, &table, n ? 4 : 1);
            sieve.scores(&found, &pairs, n ? 4 : 1, prod, features, limit);
        }
}

static void part_lists(void) { sieve.keep(best, place, k, score, score_place, (entries[0].count + entries[1].count + LANES - 1) / LANES); }

static void part_results(void)
{
    static const ptrdiff_t zero[LANES];
    ptrdiff_t dist_at[LANES], offset_at[LANES];
    for (ptrdiff_t l = 0; l < LANES; l++) dist_at[l] = l * k, offset_at[l] = 3 * l * k;
    const SnlsListOutput out = {.y = place_y, .x = place_x, .centre_y = centre_y, .centre_x = centre_x, .origin_y = origin_y, .origin_x = origin_x, .apart = LANES, .dt = flow,
                                .step = 1.0 / steps, .side = (uint32_t)(2 * RADIUS * steps + 1), .active = 0xffff, .prod = prod, .dist = dist, .offset = offset,
                                .dist_at = dist_at, .offset_at = offset_at, .index_at = zero, .dist_step = 1, .offset_step = 3, .component = 1};
    sieve.write(&out, best, place, k, k);
}

/* ---- inputs ---- */

static float square_of(ptrdiff_t y, ptrdiff_t x, int down, int right)
{
    const float *a = key + (y * SIDE + x) * features, *b = a + (down * SIDE + right) * features, *c = a + SIDE * features, *d = c + features;
    float sum = 0;
    for (ptrdiff_t f = 0; f < features; f++) {
        const float apart = down && right ? a[f] - a[features + f] - c[f] + d[f] : a[f] - b[f];
        sum += apart * apart;
    }
    return sum;
}

/* What l2 between pixels is corrected by: squares of differences, docs/performance.md. */
static void set_bends(void)
{
    for (ptrdiff_t y = 0; !prod && y + 1 < SIDE; y++)
        for (ptrdiff_t x = 0; x + 1 < SIDE; x++)
            for (int n = 1; n < 4; n++) plane[n][y * WIDTH + x] = square_of(y, x, n != 1, n != 2);
}

static void set_inputs(void)
{
    const ptrdiff_t chunk = sieve.bytes ? SNLS_SIEVE_BYTES : SNLS_SIEVE_CHUNK;
    padded = (features + chunk - 1) / chunk * chunk;
    numbers = sieve.bytes ? (padded + SNLS_SIEVE_HEAD) / 2 : padded;
    key = room(sizeof(float) * SIDE * SIDE * (size_t)features);
    rough = room(sizeof(uint16_t) * (SIDE + 1) * WIDTH * (size_t)padded);
    query = room(sizeof(uint16_t) * 2 * LANES * (size_t)padded);
    for (int n = 0; n < 4; n++) plane[n] = room(sizeof(float) * (SIDE + 2) * WIDTH);
    product = room(sizeof(float) * 256 * 64);
    for (int n = 0; n < 3; n++) least[n] = room(sizeof(float) * SLOTS * 64 * LANES);
    top = room(sizeof(float) * (size_t)k * LANES);
    best = room(sizeof(float) * (size_t)k * LANES), place = room(sizeof(uint32_t) * (size_t)k * LANES);
    for (int n = 0; n < 2; n++) entries[n] = (SnlsSieveEntries){room(sizeof(uint32_t) * ENTRIES), 0, ENTRIES};
    score = room(sizeof(float) * ENTRIES), score_place = room(sizeof(uint32_t) * ENTRIES);
    dist = room(sizeof(float) * (size_t)k * LANES), offset = room(sizeof(float) * 3 * (size_t)k * LANES);
    for (ptrdiff_t i = 0; i < SIDE * SIDE * features; i++) key[i] = uniform();
    for (ptrdiff_t i = 0; i < ENTRIES; i++) score[i] = uniform();
    centre = room(sizeof(float) * (size_t)features);
    for (ptrdiff_t f = 0; f < features; f++) centre[f] = 0.5f; /* the mean, as sieve_key.c takes it off */
    set_bends();
    for (ptrdiff_t y = 0; y < SIDE; y++) split_row(y, SIDE);
    float *queries = room(sizeof(float) * LANES * (size_t)features);
    for (ptrdiff_t i = 0; i < LANES * features; i++) queries[i] = uniform();
    for (int l = 0; l < LANES; l++) {
        pixel[l] = queries + l * features;
        place_y[l] = AT + l / 4, place_x[l] = AT + l % 4;
    }
    flow[0] = between ? 0.3f : 0, flow[1] = between ? 0.6f : 0;
}

/* A bar as sieve_pick.c has it, but for what rounding to f32 adds. */
static void set_bars(void)
{
    for (int l = 0; l < LANES; l++) {
        const float lack = prod ? (steps > 1 ? -along[l] : INFINITY) : norm[l], least_so_far = top[(k - 1) * LANES + l];
        const float q = sqrtf(norm[l]), p = sqrtf(peak), a = sqrtf(query_lost[l]), b = sqrtf(peak_lost);
        const float d = sqrtf(least_so_far + norm[l]) + 2 * (a + b);
        bar[l] = !prod && !between && steps == 1 ? d * d - norm[l] : least_so_far + 2 * (prod ? 1 : 2) * (q * b + a * (p + b));
        limit[l] = bar[l] + lack;
    }
}

static double time_of(void (*part)(void))
{
    double least_time = 1;
    for (int run = 0; run < RUNS; run++) {
        const double start = seconds();
        for (int i = 0; i < TIMES; i++) part();
        const double each = (seconds() - start) / TIMES;
        least_time = each < least_time ? each : least_time;
    }
    return 1e9 * least_time / LANES;
}

int main(int count, char **arg)
{
    const char *level = getenv("SNLS_CPU");
    if (count < 5 || !snls_sieve_init(&sieve, !level ? 0 : !strcmp(level, "vnni") ? 4 : !strcmp(level, "amx") ? 5 : 0)) {
        printf("usage: sieve_parts prod|l2 F K zero|between [STEPS], on a machine with matrix tiles, products of bf16 matrices or of bytes; SNLS_CPU=vnni: of bytes, amx: of bf16 where there is f16\n");
        return 1;
    }
    prod = !strcmp(arg[1], "prod"), features = atoi(arg[2]), k = atoi(arg[3]), between = !strcmp(arg[4], "between");
    if (count > 5) steps = atoi(arg[5]);
    sieve.start();
    set_inputs();
    part_windows();
    part_queries();
    plan();
    part_scan();
    set_bars();
    part_hits();
    const struct { const char *name; void (*run)(void); } parts[] = {{"windows", part_windows}, {"queries made rough", part_queries}, {"keys made rough", part_keys}, {"products and scan", part_scan},
                                                                     {"who is below the bar", part_hits}, {"exact scores", part_scores}, {"lists", part_lists}, {"results", part_results}};
    double sum = 0, one = 1;
    for (int i = 0; i < 20; i++) {
        const double c = cycle();
        one = c < one ? c : one;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const double t = time_of(parts[i].run);
        sum += t;
        printf("%-22s %6.1f ns\n", parts[i].name, t);
    }
    const double flops = (prod ? 2.0 : 3.0) * SLOTS * (2 * RADIUS + 1) * (2 * RADIUS + 1) * (double)features, rate = 1e-9 * FLOPS / one;
    printf("%-22s %6.1f ns, %.1f candidates at pixels and %.1f between a query, %.0f %% of %.0f GFLOP/s\n", "sum", sum, (double)entries[0].count / LANES, (double)entries[1].count / LANES, 100 * flops / sum / rate, rate);
    return 0;
}
