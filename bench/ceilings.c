/* ceilings.c: the rates of this machine, measured, and the memory of this process. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Products and sums below are meant to be fused, whatever the rest of the program is compiled with. */
#if defined(__clang__)
#    define FUSED _Pragma("clang fp contract(fast)")
#else
#    define FUSED
#    if defined(__GNUC__)
#        pragma GCC optimize("fp-contract=fast")
#    endif
#endif

typedef struct Worker {
    void (*work)(struct Worker *w);
    int64_t repeat;
    char *from, *to;
    size_t bytes;
    float sink; /* keeps the work from being optimised away */
} Worker;

/* Sums of one vector type, all in registers; the vectors are the compiler's own, so no instruction set's header. */
#define FMA(name, lanes, chains, attribute)                                                    \
    typedef float name##_vector __attribute__((vector_size(lanes * sizeof(float))));           \
    attribute static void name(Worker *w)                                                      \
    {                                                                                          \
        FUSED                                                                                  \
        name##_vector sum[chains], a, b;                                                       \
        for (int i = 0; i < lanes; i++) a[i] = 0.999f, b[i] = 0.001f;                          \
        for (int i = 0; i < chains; i++) sum[i] = b * (float)i;                                \
        for (int64_t r = 0; r < w->repeat; r++)                                                \
            _Pragma("GCC unroll 16") for (int i = 0; i < chains; i++) sum[i] = sum[i] * a + b; \
        for (int i = 0; i < chains; i++) w->sink += sum[i][0];                                 \
    }

FMA(fma_plain, 4, 12, )
#if defined(__x86_64__)
FMA(fma_avx2, 8, 12, __attribute__((target("avx2,fma")))) /* sixteen registers less the two factors */
FMA(fma_avx512, 16, 16, __attribute__((target("avx512f,fma"))))
#endif

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void copy(Worker *w)
{
    for (int64_t r = 0; r < w->repeat; r++) {
        memcpy(w->to, w->from, w->bytes);
        w->sink += w->to[(size_t)r % w->bytes];
    }
}

static void *enter(void *argument)
{
    Worker *w = argument;
    w->work(w);
    return NULL;
}

/* Seconds that all workers take together. */
static double run_workers(Worker *workers, int32_t count)
{
    pthread_t threads[64];
    int32_t started = 0;
    const double start = bench_now();
    for (; started < count - 1; started++)
        if (pthread_create(&threads[started], NULL, enter, &workers[started + 1])) break;
    workers[0].work(&workers[0]);
    for (int32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    const double seconds = bench_now() - start;
    return started == count - 1 ? seconds : 0; /* could not start them all: no measurement */
}

static int32_t limited(int32_t threads) { return threads < 1 ? 1 : threads > 64 ? 64 : threads; }

double bench_fma_rate(int32_t threads, int32_t cpu_level)
{
    void (*work)(Worker *) = fma_plain;
    double flops = 2 * 12 * 4,
           best = 0; /* of one turn; twelve or more independent sums cover the latency of two ports */
#if defined(__x86_64__)
    if (cpu_level >= SNLS_CPU_AVX2) work = fma_avx2, flops = 2 * 12 * 8;
    if (cpu_level >= SNLS_CPU_AVX512) work = fma_avx512, flops = 2 * 16 * 16;
#else
    (void)cpu_level;
#endif
    const int32_t n = limited(threads);
    for (int attempt = 0; attempt < 5; attempt++) {
        Worker workers[64];
        for (int32_t i = 0; i < n; i++) workers[i] = (Worker){ .work = work, .repeat = 4000000 };
        const double seconds = run_workers(workers, n);
        const double rate = seconds > 0 ? flops * 4000000 * n / seconds : 0;
        if (rate > best) best = rate;
    }
    return best;
}

double bench_copy_rate(int32_t threads)
{
    const int32_t n = limited(threads);
    const size_t bytes = (size_t)256 << 20, share = bytes / (size_t)n; /* larger than any cache */
    char *from = malloc(bytes), *to = malloc(bytes);
    double best = 0;
    for (int attempt = 0; from && to && attempt < 5; attempt++) {
        if (!attempt) memset(from, 1, bytes), memset(to, 2, bytes);
        Worker workers[64];
        for (int32_t i = 0; i < n; i++)
            workers[i] = (Worker){ .work = copy,
                                   .repeat = 1,
                                   .from = from + (size_t)i * share,
                                   .to = to + (size_t)i * share,
                                   .bytes = share };
        const double seconds = run_workers(workers, n);
        const double rate = seconds > 0 ? 2.0 * (double)share * n / seconds : 0;
        if (rate > best) best = rate;
    }
    free(from);
    free(to);
    return best;
}

/* A line "VmHWM:   1234 kB" of the process's status; -1 where there is none. */
static double status_bytes(const char *name)
{
    char line[256];
    long long kilobytes = -1;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), " %lld", &kilobytes);
    fclose(file);
    return kilobytes < 0 ? -1 : 1024.0 * (double)kilobytes;
}

double bench_rss(void)
{
    const double bytes = status_bytes("VmRSS:");
    return bytes < 0 ? 0 : bytes;
}

void bench_rss_reset(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file); /* Linux: the high-water mark starts again from what is resident */
    fclose(file);
}

double bench_rss_peak(void)
{
    const double bytes = status_bytes("VmHWM:");
    if (bytes >= 0) return bytes;
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : 1024.0 * (double)usage.ru_maxrss;
}
