/* ceilings.c: the rates of this machine, measured: multiply-add in registers, and the triad a = b + s*c in every memory. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* Products and sums below are meant to be fused, whatever the rest of the program is compiled with. */
#if defined(__clang__)
#    define FUSED _Pragma("clang fp contract(fast)")
#    define EACH_SUM _Pragma("clang loop unroll(full)")
#else
#    define FUSED
#    define EACH_SUM _Pragma("GCC unroll 32")
#    if defined(__GNUC__)
#        pragma GCC optimize("fp-contract=fast")
#    endif
#endif

enum { MOST_THREADS = 1024 }; /* as many as a context may have */

typedef struct Start { /* what threads wait for, all of them, so that a burst does not count how long one takes to come */
    atomic_int arrived, is_given;
} Start;

typedef struct Worker {
    void (*work)(struct Worker *w);
    struct Start *start;
    int64_t repeat;
    float *a, *b, *c;
    size_t floats; /* of each; a multiple of 16 */
    float sink;    /* keeps the work from being optimised away */
} Worker;

/* The kernels of one instruction set; the vectors are the compiler's own, so no instruction set's header. */
#define TRIAD(isa, lanes, attribute)                                                               \
    typedef float isa##_vector __attribute__((vector_size(lanes * sizeof(float)), may_alias));     \
    attribute static void triad_##isa(Worker *w)                                                   \
    {                                                                                              \
        FUSED                                                                                      \
        isa##_vector *a = (isa##_vector *)(void *)w->a, *b = (isa##_vector *)(void *)w->b,         \
                     *c = (isa##_vector *)(void *)w->c;                                            \
        const size_t n = w->floats / lanes;                                                        \
        for (int64_t r = 0; r < w->repeat; r++) {                                                  \
            _Pragma("GCC unroll 8") for (size_t i = 0; i < n; i++) a[i] = b[i] + 0.5f * c[i];      \
            __asm__ volatile("" ::: "memory"); /* every turn is done, though all write the same */ \
        }                                                                                          \
    }

/* The sums stay in registers: chains are enough to cover the latency of two ports, and few enough not to be spilled. */
#define FMA(isa, lanes, chains, attribute)                                                     \
    attribute static void fma_##isa(Worker *w)                                                 \
    {                                                                                          \
        FUSED                                                                                  \
        isa##_vector sum[chains], a, b;                                                        \
        for (int i = 0; i < lanes; i++) a[i] = 0.999f, b[i] = 0.001f;                          \
        for (int i = 0; i < chains; i++) sum[i] = b * (float)i;                                \
        for (int64_t r = 0; r < w->repeat; r++)                                                \
            EACH_SUM for (int i = 0; i < chains; i++) sum[i] = sum[i] * a + b;                 \
        for (int i = 0; i < chains; i++) w->sink += sum[i][0];                                 \
    }

TRIAD(plain, 4, )
#if defined(__aarch64__)
enum { PLAIN_CHAINS = 24 }; /* four ports and 32 registers */
#    define FMLA(sum)             "fmla v" #    sum ".4s, v30.4s, v31.4s\n"
#    define SIX(a, b, c, d, e, f) FMLA(a) FMLA(b) FMLA(c) FMLA(d) FMLA(e) FMLA(f)
#    define ALL                   SIX(0, 1, 2, 3, 4, 5) SIX(6, 7, 8, 9, 10, 11) SIX(12, 13, 14, 15, 16, 17) SIX(18, 19, 20, 21, 22, 23)

/* The instruction adds to its result, which the loop above does not: it would be a copy more. Its factors are loaded:
 * of two that the vector unit has made, as a compiler may, Neoverse V1 does two products a cycle instead of four. */
static void fma_plain(Worker *w)
{
    const float factors[8] = { 0.999f, 0.999f, 0.999f, 0.999f, 0.001f, 0.001f, 0.001f, 0.001f };
    int64_t turns = w->repeat;
    __asm__ volatile("1: ldp q30, q31, [%1]\n" ALL "subs %0, %0, #1\n b.gt 1b\n"
                     : "+r"(turns)
                     : "r"(factors), "m"(factors)
                     : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
                       "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31");
}
#else
FMA(plain, 4, 12, )
enum { PLAIN_CHAINS = 12 };
#endif
#if defined(__x86_64__)
TRIAD(avx2, 8, __attribute__((target("avx2,fma"))))
FMA(avx2, 8, 12, __attribute__((target("avx2,fma")))) /* sixteen registers less the two factors */
TRIAD(avx512, 16, __attribute__((target("avx512f,fma"))))
FMA(avx512, 16, 16, __attribute__((target("avx512f,fma"))))
#endif

typedef struct Kernels {
    void (*fma)(Worker *w), (*triad)(Worker *w);
    double flops; /* of one turn */
} Kernels;

static Kernels kernels_of(int32_t cpu_level)
{
#if defined(__x86_64__)
    if (cpu_level >= SNLS_CPU_AVX512) return (Kernels){ fma_avx512, triad_avx512, 2 * 16 * 16 };
    if (cpu_level >= SNLS_CPU_AVX2) return (Kernels){ fma_avx2, triad_avx2, 2 * 12 * 8 };
#else
    (void)cpu_level;
#endif
    return (Kernels){ fma_plain, triad_plain, 2 * PLAIN_CHAINS * 4 };
}

static void *enter(void *argument)
{
    Worker *w = argument;
    atomic_fetch_add(&w->start->arrived, 1);
    while (!atomic_load(&w->start->is_given)) sched_yield();
    w->work(w);
    return NULL;
}

/* Of the processor, that this thread has had; where the system does not say, of the clock. */
static double own_seconds(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) ? bench_now() : (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds that all workers take together, from when the last has come; 0 where they could not all be started. busy: what one of them had to do. */
static double run_workers(Worker *workers, int32_t count, int64_t repeat, double *busy)
{
    pthread_t threads[MOST_THREADS];
    Start signal = { 0 };
    int32_t started = 0;
    for (int32_t i = 0; i < count; i++) workers[i].repeat = repeat, workers[i].start = &signal;
    for (; started < count - 1; started++)
        if (pthread_create(&threads[started], NULL, enter, &workers[started + 1])) break;
    while (atomic_load(&signal.arrived) < started) sched_yield();
    const double start = bench_now(), own = own_seconds();
    atomic_store(&signal.is_given, 1);
    workers[0].work(&workers[0]);
    *busy = own_seconds() - own;
    for (int32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    const double seconds = bench_now() - start;
    return started == count - 1 ? seconds : 0;
}

/* Turns per second, the best of several attempts of at least `least` seconds of work each: anything else that runs on the
 * machine can only make it look slower. An attempt that was too short is repeated with more turns, whatever the clock says:
 * one in which a thread had to wait was long, and had not enough to do. */
static double best_rate(Worker *workers, int32_t count, double warm_up, double least, int attempts)
{
    int64_t repeat = 1;
    double best = 0;
    const double begin = bench_now();
    for (int done = 0; done < attempts;) {
        double busy;
        const double seconds = run_workers(workers, count, repeat, &busy);
        if (seconds <= 0) return 0;
        if (busy < least && repeat < INT64_MAX / 8) {
            repeat = busy < least / 8 ? 4 * repeat : 2 * repeat;
            continue;
        }
        if (bench_now() - begin < warm_up) continue; /* the clock settles */
        best = fmax(best, (double)repeat / seconds);
        done++;
    }
    return best;
}

static int32_t limited(int32_t threads) { return threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads; }

double bench_fma_rate(int32_t threads, int32_t cpu_level, double warm_up, int attempts)
{
    const Kernels kernels = kernels_of(cpu_level);
    const int32_t n = limited(threads);
    Worker workers[MOST_THREADS] = { { 0 } };
    for (int32_t i = 0; i < n; i++) workers[i].work = kernels.fma;
    return best_rate(workers, n, warm_up, attempts > 1 ? 0.005 : 0.0005, attempts) * kernels.flops * n;
}

/* The triad over that many bytes, the threads' shares apart. Arrays are the library's, on the same pages as those that are timed. */
static double triad_rate(int32_t threads, int32_t cpu_level, double bytes, double least, int attempts)
{
    const int32_t n = limited(threads);
    const int64_t line = 32, floats = (int64_t)(bytes / 3 / n / sizeof(float)) / 16 * 16, all = 3 * n * (floats + line); /* line: apart from the next share */
    Worker workers[MOST_THREADS] = { { 0 } };
    SnlsTensor block = { 0 };
    SnlsContext *ctx;
    SnlsContextParams params;
    snls_context_defaults(&params);
    params.backend = "ref";
    if (!floats || snls_open(&ctx, &params) < 0) return 0;
    double turns = 0;
    if (snls_array_alloc(ctx, &block, SNLS_F32, 1, &all) >= 0) {
        for (int32_t i = 0; i < n; i++) {
            float *share = (float *)block.data + 3 * i * (floats + line);
            workers[i] = (Worker){ .work = kernels_of(cpu_level).triad, .floats = (size_t)floats };
            workers[i].a = share;
            workers[i].b = share + floats + line;
            workers[i].c = share + 2 * (floats + line);
        }
        turns = best_rate(workers, n, 0, least, attempts);
    }
    snls_array_free(ctx, &block);
    snls_close(&ctx);
    return turns * 3 * (double)floats * sizeof(float) * n;
}

static void add_rung(BenchCeilings *c, const char *name, double capacity, double bytes)
{
    BenchRung *rung = &c->rungs[c->count++];
    snprintf(rung->name, sizeof rung->name, "%s", name);
    rung->capacity = capacity;
    rung->bytes = bytes;
}

/* Half of each cache is gone through, so that it fits. A large last level has a rung of its own for small sets: what is
 * near in it is faster, and a fraction of the slow rate would flatter. */
void bench_ceilings(const BenchMachine *m, int32_t threads, int32_t cpu_level, bool quick, BenchCeilings *c)
{
    const int32_t n = limited(threads), caches = n < m->cores ? n : m->cores;
    const double l1 = m->l1 * caches, l2 = m->l2 * caches, l3 = m->l3;
    *c = (BenchCeilings){ .threads = n };
    c->fma_rate = bench_fma_rate(n, cpu_level, quick ? 0.01 : 0.2, quick ? 2 : 20);
    add_rung(c, "L1", l1, l1 / 2);
    add_rung(c, "L2", l2, l2 / 2);
    if (l3 > 16 * l2) add_rung(c, "L3/8", l3 / 8, l3 / 16);
    if (l3 > 2 * l2) add_rung(c, "L3", l3, l3 / 2);
    add_rung(c, "memory", INFINITY, fmin(fmax(768e6, 2.5 * l3), m->memory / 8));
    for (int i = 0; i < c->count; i++) {
        BenchRung *rung = &c->rungs[i];
        rung->bytes = fmin(rung->bytes, fmin(m->memory / 4, quick ? 48e6 : INFINITY)); /* a container may have less than a cache holds */
        rung->rate = triad_rate(n, cpu_level, rung->bytes, quick ? 0.001 : 0.02, quick ? 2 : 5);
    }
}

const BenchRung *bench_rung(const BenchCeilings *c, double working_set)
{
    int i = 0;
    while (i < c->count - 1 && working_set > c->rungs[i].capacity) i++;
    while (i && c->rungs[i].rate <= 0) i--; /* could not be measured: the next faster one is a floor too */
    return &c->rungs[i];
}
