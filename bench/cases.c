/* cases.c: what is timed. The usual run is a table; the full one is the table and the whole grid of sizes. */
#include "bench.h"
#include <stdlib.h>
#include <string.h>

enum { L2 = SNLS_DIST_L2, PROD = SNLS_DIST_PROD, NEAREST = SNLS_INTERP_NEAREST };

/* clang-format off */
#define SEARCH(tier, group, h, w, c, ws, ps, k, s0, s1, dist, flow) \
    {group, "search", 5, h, w, c, ws, ps, k, s0, 1, 1, s1, dist, 0, flow, tier, ""}
#define OTHER(tier, group, op, h, w, c, ws, ps, k, wt, flow) \
    {group, op, 5, h, w, c, ws, ps, k, 1, wt, 1, 1, 0, 0, flow, tier, ""}
#define GATHER(tier, group, op, h, w, c, ps, k, interp) \
    {group, op, 5, h, w, c, 1, ps, k, 1, 1, 1, 1, 0, interp, BENCH_NO_FLOW, tier, ""}

static const BenchCase usual[] = {
    SEARCH(BENCH_USUAL, "A", 320, 320,  16, 9, 1, 3, 1, 1,   PROD, BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "A", 320, 320,  32, 9, 1, 3, 1, 1,   PROD, BENCH_ZERO),
    SEARCH(BENCH_QUICK, "A", 320, 320,  32, 9, 1, 3, 1, 1,   PROD, BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "A", 320, 320,  32, 9, 1, 3, 1, 0.5, PROD, BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "A", 320, 320, 128, 9, 1, 3, 1, 1,   PROD, BENCH_SMOOTH),
    SEARCH(BENCH_DEVICE,"A", 320, 320,  64, 9, 1, 3, 1, 1,   PROD, BENCH_SMOOTH),
    SEARCH(BENCH_DEVICE,"A", 320, 320,  32, 9, 1, 3, 1, 1,   PROD, BENCH_RANDOM),
    SEARCH(BENCH_DEVICE,"A", 320, 320,  32, 9, 1, 3, 1, 1,   L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "A", 320, 320,  32, 9, 1, 3, 2, 1,   PROD, BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "B", 152, 152, 192, 3, 7, 3, 1, 1,   PROD, BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "B", 152, 152, 192, 9, 7, 3, 1, 1,   PROD, BENCH_SMOOTH),
    SEARCH(BENCH_DEVICE,"B", 152, 152, 192, 13, 7, 3, 1, 1,  PROD, BENCH_SMOOTH),
    {"C", "search",     5, 128, 128, 16, 5, 3, 10, 1, 2, 2, 0.5, L2, 0, BENCH_SMOOTH,  BENCH_USUAL, ""},
    {"C", "weights",    5, 128, 128, 16, 5, 3, 10, 1, 2, 2, 0.5, L2, 0, BENCH_NO_FLOW, BENCH_DEVICE, ""},
    {"C", "gather_add", 5, 128, 128, 16, 5, 3, 10, 1, 2, 2, 0.5, L2, 0, BENCH_NO_FLOW, BENCH_USUAL, ""},
    GATHER(BENCH_USUAL, "D", "gather_add", 320, 320, 32, 1, 10, 0),
    GATHER(BENCH_USUAL, "D", "gather_add", 320, 320, 32, 3, 10, 0),
    GATHER(BENCH_USUAL, "D", "gather_add", 320, 320, 32, 1, 10, NEAREST),
    GATHER(BENCH_USUAL, "D", "gather",     320, 320, 32, 1, 10, 0),
    SEARCH(BENCH_USUAL, "cpu", 160, 160,  16, 9, 3, 10, 1, 1,   L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "cpu", 160, 160,  32, 9, 1, 10, 1, 1,   L2,   BENCH_ZERO),
    SEARCH(BENCH_QUICK, "cpu", 160, 160,  32, 9, 3, 10, 1, 1,   L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "cpu", 160, 160,  32, 9, 7, 10, 1, 1,   L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "cpu", 160, 160,  32, 9, 1, 10, 1, 1,   L2,   BENCH_RANDOM),
    SEARCH(BENCH_USUAL, "cpu", 160, 160,  32, 9, 3, 10, 1, 1,   L2,   BENCH_RANDOM),
    SEARCH(BENCH_USUAL, "cpu", 160, 160,  32, 9, 3, 10, 1, 0.5, L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "cpu", 160, 160, 128, 9, 1, 10, 1, 1,   L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "cpu", 480, 854,  16, 9, 3, 10, 1, 1,   L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "cpu", 480, 854,  32, 9, 1,  3, 1, 1,   PROD, BENCH_SMOOTH),
    OTHER(BENCH_QUICK, "cpu", "search_all",   160, 160, 32, 5, 1,  1, 1, BENCH_SMOOTH),
    OTHER(BENCH_QUICK, "cpu", "refine",       160, 160, 32, 3, 1, 10, 1, BENCH_NO_FLOW),
    OTHER(BENCH_QUICK, "cpu", "flow_compose", 160, 160, 32, 1, 1,  1, 2, BENCH_NO_FLOW),
    OTHER(BENCH_USUAL, "cpu", "flow_compose", 480, 854, 32, 1, 1,  1, 2, BENCH_NO_FLOW),
    OTHER(BENCH_QUICK, "cpu", "weights",      160, 160, 32, 1, 1, 10, 1, BENCH_NO_FLOW),
    OTHER(BENCH_USUAL, "cpu", "weights",      480, 854, 32, 1, 1, 10, 1, BENCH_NO_FLOW),
    GATHER(BENCH_QUICK, "cpu", "gather",      160, 160, 32, 1, 10, 0),
    GATHER(BENCH_QUICK, "cpu", "gather_add",  160, 160, 32, 1, 10, 0),
    GATHER(BENCH_USUAL, "cpu", "gather_add",  160, 160, 32, 3, 10, 0),
    GATHER(BENCH_QUICK, "cpu", "scatter_add", 160, 160, 32, 1, 10, 0),
    GATHER(BENCH_USUAL, "cpu", "scatter_add", 160, 160, 32, 3, 10, 0),
    SEARCH(BENCH_USUAL, "torch", 96, 96, 32, 9, 1, 10, 1, 1, L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "torch", 96, 96, 32, 9, 1, 10, 1, 1, PROD, BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "torch", 64, 64, 16, 9, 3, 10, 1, 1, L2,   BENCH_SMOOTH),
    SEARCH(BENCH_USUAL, "torch", 64, 64, 16, 9, 3, 10, 1, 1, PROD, BENCH_SMOOTH),
};
/* clang-format on */

BenchCase bench_search_case(int32_t height, int32_t width, int32_t channels)
{
    return (BenchCase)SEARCH(BENCH_FULL, "cpu", height, width, channels, 9, 1, 3, 1, 1, PROD, BENCH_SMOOTH);
}

bool bench_is_matching(const BenchCase *c) { return !strncmp(c->op, "search", 6) || !strcmp(c->op, "refine"); }

bool bench_is_aggregation(const BenchCase *c) { return !strncmp(c->op, "gather", 6) || !strcmp(c->op, "scatter_add"); }

bool bench_is_bare(const BenchCase *c) { return bench_is_matching(c) && !strcmp(c->group, "torch"); }

double bench_queries(const BenchCase *c)
{
    const int32_t s = c->stride0;
    return (double)c->frames * (double)((c->height + s - 1) / s) * (double)((c->width + s - 1) / s);
}

void bench_name(BenchCase *c)
{
    static const char *const flows[] = { " zero", " smooth", " random", "" };
    char *at = c->name, *const end = c->name + sizeof c->name;
    const bool matching = bench_is_matching(c), patches = matching || bench_is_aggregation(c);
#define ADD(...) at += at < end ? snprintf(at, (size_t)(end - at), __VA_ARGS__) : 0
    ADD("%s %dx%d", c->group, (int)c->height, (int)c->width);
    if (c->frames != 5) ADD(" T%d", (int)c->frames);
    if (patches) ADD(" F%d", (int)c->channels);
    if (matching) ADD(" ws%d", (int)c->ws);
    if (c->wt != 1 && !bench_is_aggregation(c) && strcmp(c->op, "weights")) ADD(" wt%d", (int)c->wt);
    if (patches) ADD(" ps%d", (int)c->ps);
    if (strcmp(c->op, "flow_compose") && strcmp(c->op, "search_all")) ADD(" k%d", (int)c->k);
    if (matching) ADD(" %s%s", c->dist == SNLS_DIST_PROD ? "prod" : "l2", flows[c->flow]);
    if (matching && c->stride1 != 1) ADD(" s1 %g", c->stride1);
    if (c->stride0 != 1) ADD(" s0 %d", (int)c->stride0);
    if (c->heads != 1) ADD(" h%d", (int)c->heads);
    if (c->interp == SNLS_INTERP_NEAREST) ADD(" nearest");
#undef ADD
}

void *bench_grow(void *items, int count, int *room, size_t size)
{
    if (count < *room) return items;
    const int more = *room ? 2 * *room : 64;
    void *grown = realloc(items, (size_t)more * size);
    if (grown) *room = more;
    return grown;
}

/* Once: the grid meets the table. */
static void add(BenchList *list, BenchCase c)
{
    bench_name(&c);
    for (int i = 0; i < list->count; i++)
        if (!strcmp(list->items[i].op, c.op) && !strcmp(list->items[i].name, c.name)) return;
    BenchCase *grown = bench_grow(list->items, list->count, &list->room, sizeof c);
    if (!grown) {
        list->failed = true;
        return;
    }
    list->items = grown;
    list->items[list->count++] = c;
}

static const int32_t features[] = { 16, 32, 64, 128 };

static void add_a_b(BenchList *list)
{
    for (int i = 0; i < 4 * 2 * 2 * 2; i++) {
        BenchCase c = SEARCH(BENCH_FULL, "A", 320, 320, features[i / 8], 9, 1, 3, 1 + i / 4 % 2, i % 2 ? 0.5 : 1, PROD,
                             i / 2 % 2 ? BENCH_SMOOTH : BENCH_ZERO);
        add(list, c);
    }
    for (int i = 0; i < 4; i++) {
        BenchCase c =
            SEARCH(BENCH_FULL, "B", 152, 152, 192, i / 2 ? 9 : 3, 7, 3, 1, 1, PROD, i % 2 ? BENCH_SMOOTH : BENCH_ZERO);
        add(list, c);
    }
}

static void add_d(BenchList *list)
{
    for (int i = 0; i < 2 * 2 * 2 * 2; i++) {
        BenchCase c = GATHER(BENCH_FULL, "D", i / 8 ? "gather" : "gather_add", 320, 320, i / 4 % 2 ? 64 : 32,
                             i / 2 % 2 ? 3 : 1, 10, i % 2 ? NEAREST : 0);
        add(list, c);
    }
}

static void add_cpu_search(BenchList *list, int32_t height, int32_t width)
{
    static const int32_t sides[] = { 1, 3, 7 };
    static const BenchFlow flows[] = { BENCH_ZERO, BENCH_SMOOTH, BENCH_RANDOM };
    for (int i = 0; i < 4 * 3 * 2 * 2 * 3; i++) {
        BenchCase c = SEARCH(BENCH_FULL, "cpu", height, width, features[i / 36], 9, sides[i / 12 % 3],
                             i / 6 % 2 ? 10 : 3, 1, 1, i / 3 % 2 ? PROD : L2, flows[i % 3]);
        add(list, c);
    }
}

static void add_cpu_others(BenchList *list, int32_t height, int32_t width)
{
    static const char *const aggregations[] = { "gather", "gather_add", "scatter_add" };
    const BenchCase others[] = { OTHER(BENCH_FULL, "cpu", "search_all", height, width, 32, 5, 1, 1, 1, BENCH_SMOOTH),
                                 OTHER(BENCH_FULL, "cpu", "search_all", height, width, 32, 5, 3, 1, 1, BENCH_SMOOTH),
                                 OTHER(BENCH_FULL, "cpu", "refine", height, width, 32, 3, 1, 10, 1, BENCH_NO_FLOW),
                                 OTHER(BENCH_FULL, "cpu", "refine", height, width, 32, 3, 3, 10, 1, BENCH_NO_FLOW),
                                 OTHER(BENCH_FULL, "cpu", "flow_compose", height, width, 32, 1, 1, 1, 2, BENCH_NO_FLOW),
                                 OTHER(BENCH_FULL, "cpu", "weights", height, width, 32, 1, 1, 10, 1, BENCH_NO_FLOW) };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) add(list, others[i]);
    for (int i = 0; i < 3 * 2; i++) {
        BenchCase c = GATHER(BENCH_FULL, "cpu", aggregations[i / 2], height, width, 32, i % 2 ? 3 : 1, 10, 0);
        add(list, c);
    }
}

void bench_list(BenchList *list)
{
    *list = (BenchList){ 0 };
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) add(list, usual[i]);
    add_a_b(list);
    add_d(list);
    for (int i = 0; i < 2; i++) {
        add_cpu_search(list, i ? 480 : 160, i ? 854 : 160);
        add_cpu_others(list, i ? 480 : 160, i ? 854 : 160);
    }
}
