/* ceilings.c: the rates of this machine, measured, and the memory of this process. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_X86 1
#endif

enum { CHAINS = 16 }; /* independent sums: enough to cover the latency of a multiply-add on two ports */

typedef struct Worker {
    void (*work)(struct Worker *w);
    int64_t repeat;
    char   *from, *to;
    size_t  bytes;
    float   sink; /* keeps the work from being optimised away */
} Worker;

static void fma_c(Worker *w)
{
    float sum[CHAINS * 4];
    for (int i = 0; i < CHAINS * 4; i++) sum[i] = (float)i;
    for (int64_t r = 0; r < w->repeat; r++)
        for (int i = 0; i < CHAINS * 4; i++) sum[i] = sum[i] * 0.999f + 0.001f;
    for (int i = 0; i < CHAINS * 4; i++) w->sink += sum[i];
}

#ifdef HAVE_X86
__attribute__((target("avx2,fma"))) static void fma_avx2(Worker *w)
{
    __m256 sum[CHAINS - 4]; /* sixteen registers less the two factors */
    const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
    for (int i = 0; i < CHAINS - 4; i++) sum[i] = _mm256_set1_ps((float)i);
    for (int64_t r = 0; r < w->repeat; r++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS - 4; i++) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
    for (int i = 0; i < CHAINS - 4; i++) w->sink += _mm256_cvtss_f32(sum[i]);
}

__attribute__((target("avx512f"))) static void fma_avx512(Worker *w)
{
    __m512 sum[CHAINS];
    const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < w->repeat; r++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_fmadd_ps(sum[i], a, b);
    for (int i = 0; i < CHAINS; i++) w->sink += _mm512_cvtss_f32(sum[i]);
}
#endif

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
    const double start = seconds_now();
    for (; started < count - 1; started++)
        if (pthread_create(&threads[started], NULL, enter, &workers[started + 1])) break;
    workers[0].work(&workers[0]);
    for (int32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    const double seconds = seconds_now() - start;
    return started == count - 1 ? seconds : 0; /* could not start them all: no measurement */
}

static int32_t limited(int32_t threads) { return threads < 1 ? 1 : threads > 64 ? 64 : threads; }

double bench_fma_rate(int32_t threads, int32_t cpu_level)
{
    void (*work)(Worker *) = fma_c;
    double flops = 2.0 * CHAINS * 4, best = 0;
#ifdef HAVE_X86
    if (cpu_level >= SNLS_CPU_AVX2) work = fma_avx2, flops = 2.0 * (CHAINS - 4) * 8;
    if (cpu_level >= SNLS_CPU_AVX512) work = fma_avx512, flops = 2.0 * CHAINS * 16;
#else
    (void)cpu_level;
#endif
    const int32_t n = limited(threads);
    for (int attempt = 0; attempt < 5; attempt++) {
        Worker workers[64];
        for (int32_t i = 0; i < n; i++) workers[i] = (Worker){.work = work, .repeat = 4000000};
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
            workers[i] = (Worker){.work = copy, .repeat = 1, .from = from + (size_t)i * share, .to = to + (size_t)i * share, .bytes = share};
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
