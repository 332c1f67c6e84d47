/* gather_floor.c: how fast gather_add of single pixels could be if it did nothing but read and write what it must: of every query ten neighbours' four taps, offsets, weights, and
 * its output once (F 32, 5 x 320 x 320). Addresses lie ready where offsets and weights would, 160 bytes a query, and no more is computed than keeps the loads alive. Beside it, by
 * turns, a triad over as many bytes. Each goes over its arrays once before it is timed, as calls of snls bench do. Not part of the library.
 *   cc -O3 -mavx512f -pthread lab/gather_floor.c -o gather_floor && ./gather_floor [THREADS [RUNS]]     the best of RUNS, by the clock */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { T = 5, SIDE = 320, F = 32, K = 10, NUMBERS = 40, COLUMNS = 160, BLOCK = 8, REACH = 4, AHEAD = REACH + 2, MOST = 8 };
enum { PIXELS = T * SIDE * SIDE, TRIAD = PIXELS * 416 / 12 / 16 * 16 }; /* floats of each of three arrays: 416 bytes a query, whole vectors */
enum { SMALL_PAGES, LARGE_PAGES, FETCHED_AHEAD, PAST_CACHES, BY_FRAMES, ONE_PIXEL, TRIADS, WAYS };
static const char *const name[WAYS] = { "row by row, pages of 4 KB", "large pages", "... a row of the video fetched ahead", "... and stores past the caches", "blocks of 8 x 8, frame by frame, large pages",
                                        "row by row, large pages, all neighbours at the query itself", "triad, 416 bytes" };

static float *video[2], *out[2], *triad[3];
static int32_t *numbers[3]; /* a query: ten pixels, the first of their four taps, and as much more as weights and offsets take; small pages, large, at the query itself */
static pthread_barrier_t together;
static double best[WAYS];
static int threads, runs;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(size_t bytes, int large)
{
    const size_t page = 2 << 20, size = (bytes + page - 1) / page * page;
    void *block = aligned_alloc(page, size);
    if (!block) exit(1);
    madvise(block, size, large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(block, 0, size);
    return block;
}

static int64_t pixel(int t, int y, int x) { return ((int64_t)t * SIDE + y) * SIDE + x; }
static int inside(int z) { return z < 0 ? -z : z > SIDE - 2 ? 2 * (SIDE - 2) - z : z; }

static int shift(int reach)
{
    static uint64_t x = 1;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return reach ? (int)(x >> 40) % (2 * reach) - reach : 0;
}

static void fill(int32_t *to, int reach)
{
    for (int64_t q = 0; q < PIXELS; q++, to += NUMBERS)
        for (int k = 0; k < K; k++) {
            const int t = abs((int)(q / SIDE / SIDE) + (int)((q * K + k) % 3) - 1), y = (int)(q / SIDE % SIDE) + shift(reach), x = (int)(q % SIDE) + shift(reach);
            to[k] = (int32_t)pixel(t < T ? t : T - 2, inside(y), inside(x));
        }
}

static inline __attribute__((always_inline)) void add_taps(__m512 s[8], const float *at)
{
    for (int i = 0; i < 4; i++) s[i] = _mm512_add_ps(s[i], _mm512_load_ps(at + 16 * i)), s[4 + i] = _mm512_add_ps(s[4 + i], _mm512_load_ps(at + SIDE * F + 16 * i));
}

static inline __attribute__((always_inline)) void write(float *to, __m512 s[8], int past)
{
    for (int i = 0; i < 2; i++) {
        const __m512 x = _mm512_add_ps(_mm512_add_ps(s[i], s[2 + i]), _mm512_add_ps(s[4 + i], s[6 + i]));
        if (past) _mm512_stream_ps(to + 16 * i, x);
        else _mm512_store_ps(to + 16 * i, x);
    }
}

/* Queries of a row: their rest of numbers is read too. */
static inline __attribute__((always_inline)) void row(int t, int y, int x, int end, int set, const int32_t *of, int ahead, int past)
{
    const float *const v = video[set], *next = v + pixel(t, y + AHEAD < SIDE ? y + AHEAD : SIDE - 1, x) * F;
    const int32_t *n = of + pixel(t, y, x) * NUMBERS;
    float *o = out[set] + pixel(t, y, x) * F;
    for (; x < end; x++, n += NUMBERS, o += F, next += F) {
        __m512 s[8] = { _mm512_castsi512_ps(_mm512_loadu_si512(n + K)), _mm512_castsi512_ps(_mm512_loadu_si512(n + K + 14)) };
        if (ahead) _mm_prefetch((const char *)next, _MM_HINT_T1), _mm_prefetch((const char *)(next + 16), _MM_HINT_T1), _mm_prefetch((const char *)n + 1920, _MM_HINT_T0);
        for (int k = 0; k < K; k++) add_taps(s, v + (int64_t)n[k] * F);
        write(o, s, past);
    }
}

/* 8 x 8 queries: those of their neighbours that are in one frame, then the next frame; sums go through memory. Neighbours are sorted by frame beforehand: k, k + 3, k + 6 and k + 9. */
static void block(int t, int top, int left)
{
    for (int part = 0; part < 3; part++)
        for (int y = top; y < top + BLOCK; y++) {
            const int32_t *n = numbers[1] + pixel(t, y, left) * NUMBERS;
            float *o = out[1] + pixel(t, y, left) * F;
            for (int x = 0; x < BLOCK; x++, n += NUMBERS, o += F) {
                __m512 s[8] = { part ? _mm512_load_ps(o) : _mm512_castsi512_ps(_mm512_loadu_si512(n + K)), part ? _mm512_load_ps(o + 16) : _mm512_castsi512_ps(_mm512_loadu_si512(n + K + 14)) };
                for (int k = part; k < K; k += 3) add_taps(s, video[1] + (int64_t)n[k] * F);
                write(o, s, 0);
            }
        }
}

static void go(int way, int top, int end, int id)
{
    const int64_t from = (int64_t)(TRIAD / 16) * id / threads * 16, to = (int64_t)(TRIAD / 16) * (id + 1) / threads * 16;
    for (int64_t i = from; way == TRIADS && i < to; i += 16) _mm512_store_ps(triad[0] + i, _mm512_fmadd_ps(_mm512_set1_ps(0.5f), _mm512_load_ps(triad[1] + i), _mm512_load_ps(triad[2] + i)));
    for (int y = top; way == BY_FRAMES && y < end; y += BLOCK)
        for (int x = 0; x < SIDE; x += BLOCK)
            for (int t = 0; t < T; t++) block(t, y, x);
    if (way == TRIADS || way == BY_FRAMES) return;
    for (int x = 0; x < SIDE; x += COLUMNS)
        for (int y = top; y < end; y++)
            for (int t = 0; t < T; t++) {
                if (way == SMALL_PAGES) row(t, y, x, x + COLUMNS, 0, numbers[0], 0, 0);
                else if (way == LARGE_PAGES) row(t, y, x, x + COLUMNS, 1, numbers[1], 0, 0);
                else if (way == FETCHED_AHEAD) row(t, y, x, x + COLUMNS, 1, numbers[1], 1, 0);
                else if (way == PAST_CACHES) row(t, y, x, x + COLUMNS, 1, numbers[1], 1, 1);
                else row(t, y, x, x + COLUMNS, 1, numbers[2], 1, 0);
            }
}

static void *work(void *argument)
{
    const int id = (int)(intptr_t)argument, blocks = SIDE / BLOCK, top = blocks * id / threads * BLOCK, end = blocks * (id + 1) / threads * BLOCK;
    for (int r = 0; r < runs * WAYS; r++) {
        go(r % WAYS, top, end, id);
        pthread_barrier_wait(&together);
        const double start = now();
        go(r % WAYS, top, end, id);
        pthread_barrier_wait(&together);
        const double took = now() - start;
        if (id == 0 && (r < WAYS || took < best[r % WAYS])) best[r % WAYS] = took;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t others[MOST];
    threads = argc > 1 ? atoi(argv[1]) : 1, runs = argc > 2 ? atoi(argv[2]) : 10;
    if (threads < 1 || threads > MOST || runs < 1) return 2;
    for (int i = 0; i < 2; i++) video[i] = take((size_t)PIXELS * F * 4, i), out[i] = take((size_t)PIXELS * F * 4, i);
    for (int i = 0; i < 3; i++) numbers[i] = take((size_t)PIXELS * NUMBERS * 4, i > 0), triad[i] = take((size_t)TRIAD * 4, 1), fill(numbers[i], i < 2 ? REACH : 0);
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (int i = 1; i < threads; i++) if (pthread_create(&others[i], NULL, work, (void *)(intptr_t)i)) return 1;
    work(NULL);
    for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
    const double limit = best[TRIADS] * 416 * PIXELS / (12.0 * TRIAD);
    for (int i = 0; i < WAYS; i++) {
        const double took = i == TRIADS ? limit : best[i];
        printf("%-62s %6.1f ns a query and thread, %3.0f %%\n", name[i], 1e9 * took * threads / PIXELS, 100 * limit / took);
    }
    return 0;
}
