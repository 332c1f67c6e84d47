/* cycle.h: processor time, and how much of it a cycle takes. For the programs of this folder. */
#ifndef LAB_CYCLE_H
#define LAB_CYCLE_H

#if !defined(__aarch64__)
#    include <immintrin.h>
#endif
#include <time.h>

/* Of multiply-adds in a cycle: two of 512 bits, four of 128. */
#if defined(__aarch64__)
enum { FLOPS = 32 };
#else
enum { FLOPS = 64 };
#endif

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of a cycle, whatever the clock is: multiply-adds at latency 4, or on AArch64, where latencies differ, sums of whole numbers, four for each. */
static double cycle(void)
{
#if defined(__aarch64__)
    long x = 0;
    const double start = seconds();
    for (int i = 0; i < 20000; i++) __asm__ volatile("add %0, %0, #1\nadd %0, %0, #1\nadd %0, %0, #1\nadd %0, %0, #1" : "+r"(x));
#else
    __m512 x = _mm512_set1_ps(1), y = _mm512_set1_ps(0.5f);
    const double start = seconds();
    for (int i = 0; i < 20000; i++) {
        x = _mm512_fmadd_ps(x, y, y);
        __asm__ volatile("" : "+v"(x));
    }
#endif
    return (seconds() - start) / (4 * 20000.0);
}

#endif
