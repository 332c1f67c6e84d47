/* lab.h: what programs of this folder that time calls of the library have in common. */
#ifndef SNLS_LAB_H
#define SNLS_LAB_H

#include <math.h>
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

/* Flow of so many planes, x and y of each vector in turn, that changes by a pixel every seven to twenty: that of snls bench. */
static inline void fill_smooth(float *to, int64_t planes, int64_t rows, int64_t columns)
{
    for (int64_t p = 0; p < planes; p++)
        for (int64_t y = 0; y < rows; y++)
            for (int64_t x = 0; x < columns; x++, to += 2) {
                to[0] = (float)(3 * sin(0.05 * (double)x + 0.03 * (double)y + (double)p));
                to[1] = (float)(3 * cos(0.04 * (double)y - 0.02 * (double)x + (double)p));
            }
}

#endif
