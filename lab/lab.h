/* lab.h: what programs of this folder that time calls of the library have in common. */
#ifndef SNLS_LAB_H
#define SNLS_LAB_H

#include <stdint.h>
#include <time.h>

static int threads = 1;

/* Seconds: of the processor where there is one thread, which others on the machine disturb less; else by the clock. */
static double now(void)
{
    struct timespec t;
    clock_gettime(threads > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double uniform(void)
{
    static uint64_t x = 1;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (double)(x >> 11) * 0x1p-53;
}

#endif
