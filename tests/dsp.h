/* dsp.h: what the tests of the inner loops share: memory that ends where a page does, values, sums in double.
 * Inputs end where memory ends, so that reading one element too many is a crash. */
#ifndef SNLS_TEST_DSP_H
#define SNLS_TEST_DSP_H

#include "base/half.h"
#include "check.h"
#include "simd/dsp.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEEDS 300
#define MAX_N 300
#define MAX_M 40
#define GUARD 16 /* canary elements on either side of an output */

#if defined(__aarch64__)
static const char *const level_names[] = { "", "c", "neon", "bf16" };
#else
static const char *const level_names[] = { "", "c", "avx2", "avx512", "vnni", "amx", "amx_fp16" };
#endif

/* ---- memory ---- */

typedef struct Block { char *start, *end; } Block; /* end is the first byte that may not be touched */

static inline Block block_new(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 4 * (MAX_M * (MAX_N + 16) + 2048) / page * page;
    char *const p = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + page, size, PROT_READ | PROT_WRITE)) {
        perror("mmap");
        exit(2);
    }
    return (Block){ p + page, p + page + size };
}

/* count elements that end at the end of memory, or begin at its begin, or lie anywhere. All else in the block is NaN. */
static inline void *place(Block b, Rng *rng, ptrdiff_t count, size_t size)
{
    memset(b.start, 0xff, (size_t)(b.end - b.start));
    const ptrdiff_t room = (b.end - b.start) / (ptrdiff_t)size - count;
    const ptrdiff_t at = rng_one_in(rng, 4) ? 0 : rng_one_in(rng, 4) ? rng_int(rng, 0, room < 64 ? room : 64) : room;
    return b.start + at * (ptrdiff_t)size;
}

/* Output: the same, less a guard, whose bytes must stay. */
static inline void *place_out(Block b, Rng *rng, ptrdiff_t count, size_t size)
{
    char *const p = place(b, rng, count + 2 * GUARD, size);
    return rng_one_in(rng, 2) ? (void *)(b.end - (size_t)count * size) : p + GUARD * size;
}

static inline bool guards_hold(Block b, const void *out, ptrdiff_t count, size_t size)
{
    for (const char *p = b.start; p < b.end; p++) {
        if (p == out) p += (size_t)count * size;
        if (p < b.end && *p != (char)0xff) return false;
    }
    return true;
}

/* ---- values ---- */

static inline float value(Rng *rng, int kind)
{
    const double u = rng_real(rng, -1, 1);
    switch (kind) {
    case 0: return (float)u;
    case 1: return (float)ldexp(u, (int)rng_int(rng, -20, 20));  /* large beside small */
    case 2: return (float)(u > 0 ? 1 + u * 1e-5 : -1 + u * 1e-5); /* sums that cancel */
    case 3: return (float)(u * 1e17);                             /* squares near the largest float */
    case 4: return (float)(u * 1e-22);                            /* squares that are denormal, or nothing */
    case 5: return u > 0.2 ? 1e-30f : u < -0.2 ? -1e-30f : -0.0f; /* products that round to a zero with a sign */
    }
    return u > 0.5 ? 1.0f : u > 0 ? 0.0f : -0.0f;
}

static inline void fill(Rng *rng, float *p, ptrdiff_t n, int kind)
{
    for (ptrdiff_t i = 0; i < n; i++) p[i] = value(rng, kind);
}

static inline uint32_t bits(float x) { return snls_float_bits(x); }

/* ---- a sum in double, and how far one in float may be from it ---- */

typedef struct Sum { double value, magnitude; ptrdiff_t terms; } Sum;

static inline void sum_add(Sum *s, double term, double magnitude)
{
    s->value += term;
    s->magnitude += magnitude;
    s->terms++;
}

static inline bool sum_near(const Sum *s, float got, ptrdiff_t more)
{
    const double n = (double)(s->terms + 2 + more);
    return fabs(got - s->value) <= n * (FLT_EPSILON * s->magnitude + FLT_MIN * FLT_EPSILON);
}

static inline Sum sum_of(const float *a, const float *b, ptrdiff_t n, bool l2)
{
    Sum s = { 0, 0, 0 };
    for (ptrdiff_t i = 0; i < n; i++) {
        const double term = l2 ? ((double)a[i] - b[i]) * ((double)a[i] - b[i]) : (double)a[i] * b[i];
        sum_add(&s, term, fabs(term));
    }
    return s;
}

typedef struct Test {
    const char *level;
    SnlsDsp dsp;
    Block in[5], out;
    Rng rng;
} Test;

static inline float *input(Test *t, int block, ptrdiff_t n, int kind)
{
    float *const p = place(t->in[block], &t->rng, n, sizeof *p);
    fill(&t->rng, p, n, kind);
    return p;
}

#endif
