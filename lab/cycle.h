/* cycle.h: processor time, and how much of it a cycle takes. For the programs of this folder. */
#ifndef LAB_CYCLE_H
#define LAB_CYCLE_H

#if defined(__aarch64__)
#    include <arm_neon.h>
#else
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

/* Multiply-adds at latency 4: seconds of a cycle, whatever the clock is. */
static double cycle(void)
{
#if defined(__aarch64__)
    float32x4_t x = vdupq_n_f32(1), y = vdupq_n_f32(0.5f);
    const double start = seconds();
    for (int i = 0; i < 20000; i++) {
        x = vfmaq_f32(y, x, y);
        __asm__ volatile("" : "+w"(x));
    }
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
