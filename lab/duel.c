/* duel.c: builds of the library against each other in one process, call by call by turns. A machine that others use too is now fast, now slow, for seconds or minutes:
 * runs of a program one after the other say little there, calls of a few milliseconds side by side do. Not part of the library.
 *   cc -O2 -Iinclude lab/duel.c -ldl -lm -o duel
 *   ./duel SECONDS prod|l2 SIDE F PS WS STRIDE1 K zero|smooth LIBRARY...      libsnls.so of each build; the first is what the others are compared with
 *   THREADS=2 ./duel ...     on so many threads, the time that is waited for; else one, processor time
 *   BACK=1 ./duel ...        the gradients instead of the search; FEATURES=FILE, FLOW=FILE as in cpu.c
 *   FEATURES=FILE KEY=FILE ./duel ...     another file for the key; WT=0: its own frame alone
 * Of each: the least time and the median, then the median of its time as a share of the first one's in the same turn, and the middle half of these. */
#define _POSIX_C_SOURCE 200809L
#include "lab.h"
#include <dlfcn.h>
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 5, SIDES = 12, TURNS = 20000 };

typedef struct Side {
    const char *path;
    SnlsContext *ctx;
    SnlsStatus (*forward)(SnlsContext *, const SnlsSearch *);
    SnlsStatus (*backward)(SnlsContext *, const SnlsSearch *, const SnlsSearchGrad *);
    const char *(*error)(const SnlsContext *);
    double *took, *share;
} Side;

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* ISO C has no way from a pointer to data to one to a function. */
static void find(void *library, const char *name, void *to)
{
    void *at = dlsym(library, name);
    if (!at) fail(dlerror());
    memcpy(to, &at, sizeof at);
}

static void open_side(Side *s, const char *path, SnlsSearchParams *params)
{
    SnlsStatus (*open)(SnlsContext **, const SnlsContextParams *);
    void (*context_defaults)(SnlsContextParams *), (*search_defaults)(SnlsSearchParams *);
    SnlsContextParams p;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    find(library, "snls_open", &open), find(library, "snls_context_defaults", &context_defaults), find(library, "snls_search_defaults", &search_defaults);
    find(library, "snls_search_forward", &s->forward), find(library, "snls_search_backward", &s->backward), find(library, "snls_error", &s->error);
    search_defaults(params);
    context_defaults(&p);
    p.backend = "cpu", p.threads = threads;
    s->path = path;
    if (open(&s->ctx, &p) < 0) fail("no context");
    s->took = calloc(TURNS, sizeof *s->took), s->share = calloc(TURNS, sizeof *s->share);
    if (!s->took || !s->share) fail("no memory");
}

static SnlsTensor make(SnlsDtype dtype, int32_t ndim, const int64_t *shape, double low, double high, const char *variable)
{
    SnlsTensor t = {.dtype = dtype, .ndim = ndim};
    int64_t n = 1;
    for (int32_t i = ndim; i-- > 0; n *= shape[i]) t.shape[i] = shape[i], t.stride[i] = n;
    float *to = t.data = aligned_alloc(4096, (size_t)(n * 4 + 4096) / 4096 * 4096);
    if (!to) fail("no memory");
    for (int64_t i = 0; i < n; i++) to[i] = (float)(low + (high - low) * uniform());
    const char *name = variable ? getenv(variable) : NULL;
    FILE *file = name ? fopen(name, "rb") : NULL;
    if (name && (!file || fread(to, sizeof *to, (size_t)n, file) != (size_t)n)) fail(name);
    if (file) fclose(file);
    return t;
}

static double time_of(const Side *s, const SnlsSearch *search, const SnlsSearchGrad *grad)
{
    const double start = now();
    const SnlsStatus status = grad ? s->backward(s->ctx, search, grad) : s->forward(s->ctx, search);
    if (status < 0) fail(s->error(s->ctx));
    return now() - start;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(Side *s, int turns, double queries)
{
    qsort(s->took, (size_t)turns, sizeof *s->took, compare), qsort(s->share, (size_t)turns, sizeof *s->share, compare);
    printf("  %-32s least %7.1f, median %7.1f ns a query; %.3f of the first (%.3f to %.3f)\n", s->path, 1e9 * s->took[0] / queries, 1e9 * s->took[turns / 2] / queries, s->share[turns / 2],
           s->share[turns / 4], s->share[3 * turns / 4]);
}

int main(int count, char **arg)
{
    static Side side[SIDES];
    if (count < 11 || count - 10 > SIDES) fail("usage: duel SECONDS prod|l2 SIDE F PS WS STRIDE1 K zero|smooth LIBRARY...");
    const int n = count - 10, back = getenv("BACK") != NULL;
    const int64_t edge = atoi(arg[3]), features = atoi(arg[4]), k = atoi(arg[8]);
    SnlsSearch s = {0};
    if (getenv("THREADS")) threads = atoi(getenv("THREADS"));
    for (int i = 0; i < n; i++) open_side(&side[i], arg[10 + i], &s.params);
    s.params.ps = atoi(arg[5]), s.params.ws = atoi(arg[6]), s.params.stride1 = atof(arg[7]), s.params.k = (int32_t)k, s.params.wt = getenv("WT") ? atoi(getenv("WT")) : 1;
    s.params.dist = strcmp(arg[2], "l2") ? SNLS_DIST_PROD : SNLS_DIST_L2;
    const int64_t video[] = {1, FRAMES, edge, edge, features}, flow[] = {1, FRAMES, 2 * s.params.wt, edge, edge, 2}, field[] = {1, 1, FRAMES, edge, edge, k, 3};
    s.query = make(SNLS_F32, 5, video, 0, 1, "FEATURES"), s.key = make(SNLS_F32, 5, video, 0, 1, getenv("KEY") ? "KEY" : "FEATURES"), s.flow = make(SNLS_F32, 6, flow, 0, 0, "FLOW");
    s.dist = make(SNLS_F32, 6, field, 0, 0, NULL), s.offset = make(SNLS_F32, 7, field, 0, 0, NULL), s.index = make(SNLS_I32, 6, field, 0, 0, NULL);
    if (!strcmp(arg[9], "smooth")) fill_smooth(s.flow.data, 2 * s.params.wt * FRAMES, edge, edge);
    const SnlsSearchGrad g = {.dist = make(SNLS_F32, 6, field, -1, 1, NULL), .query = make(SNLS_F32, 5, video, 0, 0, NULL), .key = make(SNLS_F32, 5, video, 0, 0, NULL), .flow = make(SNLS_F32, 6, flow, 0, 0, NULL)};
    for (int i = 0; i < n; i++) time_of(&side[i], &s, NULL), time_of(&side[i], &s, back ? &g : NULL);
    int turns = 0;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double end = (double)t.tv_sec + atof(arg[1]);
    for (; turns < TURNS && (double)t.tv_sec < end; turns++, clock_gettime(CLOCK_MONOTONIC, &t)) {
        for (int i = 0; i < n; i++) { /* each turn begins with another: who comes first finds the caches as the last one left them */
            Side *whose = &side[(i + turns) % n];
            whose->took[turns] = time_of(whose, &s, back ? &g : NULL);
        }
        for (int i = 0; i < n; i++) side[i].share[turns] = side[i].took[turns] / side[0].took[turns];
    }
    printf("%s %s F %s ps %s ws %s stride1 %s k %s %s%s, %d turns\n", arg[2], arg[3], arg[4], arg[5], arg[6], arg[7], arg[8], arg[9], back ? ", backward" : "", turns);
    for (int i = 0; i < n; i++) report(&side[i], turns, (double)(FRAMES * edge * edge));
    return 0;
}
