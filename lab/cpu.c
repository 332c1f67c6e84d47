/* cpu.c: processor time of one search or gather_add on one thread, the best of several runs. snls bench times what a user waits for, which on a busy
 * machine says little; this can be repeated there. Not part of the library.
 *   cc -O2 -Iinclude lab/cpu.c -Lbuild -lsnls -lm -Wl,-rpath,build -o cpu
 *   ./cpu prod|l2 SIDE|HxW F PS WS STRIDE1 K zero|smooth [RUNS [back]]    back: time of the gradients too
 *   ./cpu refine|refine-prod SIDE F PS WS STRIDE1 K [RUNS]   of ten places each
 *   ./cpu all|all-prod SIDE F PS WS STRIDE1 zero|smooth [RUNS]
 *   ./cpu gather SIDE F PS K REACH [RUNS [BYTES]]       neighbours up to REACH pixels away; arrays begin BYTES after a cache line
 *   THREADS=2 ./cpu ...      on so many threads, the time that is waited for
 *   FEATURES=FILE ./cpu ...  query and key from a file (features.py) instead of random ones
 *   FILL=WORD ./cpu ...      scratch holds this word everywhere before the first call, such as 0x00010001: no search may read what it has not written, or be slower for it
 *   ANCHOR=self|each, EXCLUDE=self ./cpu ...   as the parameters of a search
 *   FLOW=FILE ./cpu ...      the flow of both slots from a file, f32 (5, 2, H, W, 2): what `snls compose` writes, without its header */
#define _POSIX_C_SOURCE 200809L
#include "lab.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 5 };

static int64_t shift; /* bytes */

static SnlsTensor make(int32_t ndim, const int64_t *shape, double low, double high)
{
    int64_t n = 1;
    for (int32_t i = 0; i < ndim; i++) n *= shape[i];
    char *block = aligned_alloc(4096, (size_t)(n * 4 + shift + 4096) / 4096 * 4096);
    if (!block) exit(1);
    float *to = (float *)(void *)(block + shift);
    for (int64_t i = 0; i < n; i++) to[i] = (float)(low + (high - low) * uniform());
    return snls_tensor(to, SNLS_F32, ndim, shape);
}

static void report(const char *what, double best, double queries, double flops)
{
    printf("%s: %.2f ms, %.1f ns a query, %.1f GFLOP/s\n", what, 1e3 * best, 1e9 * best / queries, 1e-9 * flops * queries / best);
}

static void must(SnlsContext *ctx, SnlsStatus status)
{
    if (status >= 0) return;
    printf("%s\n", snls_error(ctx));
    exit(1);
}

static void gather(SnlsContext *ctx, char **arg, int count)
{
    const int64_t side = atoi(arg[0]), features = atoi(arg[1]), k = atoi(arg[3]);
    const double reach = atof(arg[4]), queries = (double)(FRAMES * side * side);
    const int runs = count > 5 ? atoi(arg[5]) : 10;
    shift = count > 6 ? atoi(arg[6]) : 0;
    SnlsGatherAdd g = { 0 };
    snls_gather_add_defaults(&g.params);
    g.params.ps = atoi(arg[2]);
    const int64_t video[] = { 1, FRAMES, side, side, features }, field[] = { 1, 1, FRAMES, side, side, k, 3 };
    g.value = make(5, video, 0, 1);
    g.out = make(5, video, 0, 0);
    g.weight = make(6, field, 0, 0.1);
    g.offset = make(7, field, -reach, reach);
    for (int64_t i = 0; i < FRAMES * side * side * k; i++) ((float *)g.offset.data)[3 * i] = (float)(i % 3 - 1);
    double best = INFINITY;
    for (int r = 0; r < runs; r++) {
        const double start = now();
        must(ctx, snls_gather_add_forward(ctx, &g));
        best = fmin(best, now() - start);
    }
    report("gather_add", best, queries, 8.0 * (double)(k * features * g.params.ps * g.params.ps));
}

/* What the file that a variable names holds, if it names one. */
static void read_file(const char *variable, SnlsTensor *to)
{
    const char *name = getenv(variable);
    FILE *file = name ? fopen(name, "rb") : NULL;
    const size_t n = (size_t)snls_tensor_elements(to);
    if (name && (!file || fread(to->data, sizeof(float), n, file) != n)) exit(1);
    if (file) fclose(file);
}

static void search(SnlsContext *ctx, int l2, char **arg, int count)
{
    const char *across = strchr(arg[0], 'x');
    const int64_t rows = atoi(arg[0]), columns = across ? atoi(across + 1) : rows, features = atoi(arg[1]), k = atoi(arg[5]);
    const int runs = count > 7 ? atoi(arg[7]) : 5;
    SnlsSearch s = { 0 };
    snls_search_defaults(&s.params);
    s.params.ps = atoi(arg[2]), s.params.ws = atoi(arg[3]), s.params.stride1 = atof(arg[4]), s.params.k = (int32_t)k, s.params.wt = 1;
    s.params.dist = l2 ? SNLS_DIST_L2 : SNLS_DIST_PROD;
    if (getenv("ANCHOR")) s.params.anchor = !strcmp(getenv("ANCHOR"), "self") ? SNLS_ANCHOR_SELF : SNLS_ANCHOR_EACH;
    if (getenv("EXCLUDE")) s.params.exclude = SNLS_EXCLUDE_SELF;
    const int64_t video[] = { 1, FRAMES, rows, columns, features }, flow[] = { 1, FRAMES, 2, rows, columns, 2 }, field[] = { 1, 1, FRAMES, rows, columns, k, 3 };
    s.query = make(5, video, 0, 1);
    s.key = make(5, video, 0, 1);
    read_file("FEATURES", &s.query), read_file("FEATURES", &s.key);
    s.flow = make(6, flow, 0, 0);
    s.dist = make(6, field, 0, 0);
    s.offset = make(7, field, 0, 0);
    if (!strcmp(arg[6], "smooth")) fill_smooth(s.flow.data, 2 * FRAMES, rows, columns);
    read_file("FLOW", &s.flow);
    const int back = count > 8;
    if (back) s.index = make(6, field, 0, 0), s.index.dtype = SNLS_I32;
    double best = INFINITY, best_back = INFINITY;
    SnlsSearchGrad g = { 0 };
    if (back) g.dist = make(6, field, -1, 1), g.query = make(5, video, 0, 0), g.key = make(5, video, 0, 0), g.flow = make(6, flow, 0, 0);
    for (int r = 0; r < runs; r++) {
        const double start = now();
        must(ctx, snls_search_forward(ctx, &s));
        const double middle = now();
        best = fmin(best, middle - start);
        if (back) must(ctx, snls_search_backward(ctx, &s, &g));
        best_back = fmin(best_back, now() - middle);
    }
    if (back) report("backward", best_back, (double)(FRAMES * rows * columns), 0);
    report("search", best, (double)(FRAMES * rows * columns), 3.0 * s.params.ws * s.params.ws * s.params.ps * s.params.ps * (double)features * (l2 ? 3 : 2));
}

enum { GIVEN = 10 };

static void refine(SnlsContext *ctx, int l2, char **arg, int count)
{
    const int64_t side = atoi(arg[0]), features = atoi(arg[1]), k = atoi(arg[5]);
    const int runs = count > 6 ? atoi(arg[6]) : 5;
    SnlsRefine s = { 0 };
    snls_refine_defaults(&s.params);
    s.params.ps = atoi(arg[2]), s.params.wr = atoi(arg[3]), s.params.stride1 = atof(arg[4]), s.params.k = (int32_t)k, s.params.dist = l2 ? SNLS_DIST_L2 : SNLS_DIST_PROD;
    const int64_t video[] = { 1, FRAMES, side, side, features }, given[] = { 1, 1, FRAMES, side, side, GIVEN, 3 }, field[] = { 1, 1, FRAMES, side, side, k, 3 };
    s.query = make(5, video, 0, 1);
    s.key = make(5, video, 0, 1);
    s.centre = make(7, given, -4, 4);
    for (int64_t i = 0; i < FRAMES * side * side * GIVEN; i++) ((float *)s.centre.data)[3 * i] = (float)(i % 3 - 1);
    s.dist = make(6, field, 0, 0);
    s.offset = make(7, field, 0, 0);
    double best = INFINITY;
    for (int r = 0; r < runs; r++) {
        const double start = now();
        must(ctx, snls_refine_forward(ctx, &s));
        best = fmin(best, now() - start);
    }
    report("refine", best, (double)(FRAMES * side * side), (double)GIVEN * s.params.wr * s.params.wr * s.params.ps * s.params.ps * (double)features * (l2 ? 3 : 2));
}

static void search_all(SnlsContext *ctx, int l2, char **arg, int count)
{
    const int64_t side = atoi(arg[0]), features = atoi(arg[1]), ws = atoi(arg[3]), kept = 3 * ws * ws;
    const int runs = count > 6 ? atoi(arg[6]) : 5;
    SnlsSearchAll s = { 0 };
    snls_search_defaults(&s.params);
    s.params.ps = atoi(arg[2]), s.params.ws = (int32_t)ws, s.params.stride1 = atof(arg[4]), s.params.wt = 1, s.params.dist = l2 ? SNLS_DIST_L2 : SNLS_DIST_PROD;
    const int64_t video[] = { 1, FRAMES, side, side, features }, flow[] = { 1, FRAMES, 2, side, side, 2 }, field[] = { 1, 1, FRAMES, side, side, kept, 3 };
    s.query = make(5, video, 0, 1);
    s.key = make(5, video, 0, 1);
    s.flow = make(6, flow, 0, 0);
    s.dist = make(6, field, 0, 0);
    s.offset = make(7, field, 0, 0);
    if (!strcmp(arg[5], "smooth")) fill_smooth(s.flow.data, 2 * FRAMES, side, side);
    double best = INFINITY;
    for (int r = 0; r < runs; r++) {
        const double start = now();
        must(ctx, snls_search_all_forward(ctx, &s));
        best = fmin(best, now() - start);
    }
    report("search_all", best, (double)(FRAMES * side * side), (double)kept * s.params.ps * s.params.ps * (double)features * (l2 ? 3 : 2));
}

static void *filled(size_t bytes, void *word)
{
    const size_t words = (bytes + 63) / 64 * 64 / sizeof(uint32_t);
    uint32_t *block = aligned_alloc(64, words * sizeof *block);
    for (size_t i = 0; block && i < words; i++) block[i] = *(const uint32_t *)word;
    return block;
}

static void drop(void *block, void *word)
{
    (void)word;
    free(block);
}

int main(int argc, char **argv)
{
    uint32_t fill = 0;
    SnlsContextParams params;
    SnlsContext *ctx;
    snls_context_defaults(&params);
    params.backend = "cpu";
    if (getenv("THREADS")) threads = atoi(getenv("THREADS"));
    params.threads = threads;
    if (getenv("FILL")) fill = (uint32_t)strtoul(getenv("FILL"), NULL, 0), params.allocator = (SnlsAllocator){.alloc = filled, .free = drop, .opaque = &fill};
    if (argc < 7 || snls_open(&ctx, &params) < 0) return 2;
    if (!strcmp(argv[1], "gather")) gather(ctx, argv + 2, argc - 2);
    else if (argc < 8) return 2;
    else if (!strncmp(argv[1], "refine", 6)) refine(ctx, !argv[1][6], argv + 2, argc - 2);
    else if (!strncmp(argv[1], "all", 3)) search_all(ctx, !argv[1][3], argv + 2, argc - 2);
    else if (argc < 9) return 2;
    else search(ctx, !strcmp(argv[1], "l2"), argv + 2, argc - 2);
    snls_close(&ctx);
    return 0;
}
