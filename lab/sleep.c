/* sleep.c: what it takes a matrix unit to wake. It sleeps when no product has come for a while: the first product then takes hundreds of nanoseconds more. While it is awake,
 * multiply-adds and minima of 512 bits have one of their two ports. Not part of the library.
 *   cc -O2 -mamx-tile -mamx-bf16 -mavx512f lab/sleep.c -o sleep && ./sleep */
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 1000, RUNS = 40, BLOCK = 32 }; /* BLOCK: instructions */

static uint16_t factors[16 * 32] __attribute__((aligned(64)));
static float sums[16 * 16] __attribute__((aligned(64)));
static volatile uint64_t sink;

static double now(void)
{
    struct timespec t;
    _mm_lfence();
    clock_gettime(CLOCK_MONOTONIC, &t);
    _mm_lfence();
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* A chain of sums and products of whole numbers, four cycles a turn. */
static void pause_for(int turns)
{
    uint64_t s = 3;
    for (int i = 0; i < turns; i++) __asm__ volatile("imul %0, %0\n add $1, %0" : "+r"(s));
    sink = s;
}

static double first_product(void)
{
    const double start = now();
    _tile_zero(0);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stored(0, sums, 64);
    return now() - start;
}

static void tell_pause(int turns)
{
    double paused = 1e30, least = 1e30, sum = 0;
    for (int r = 0; r < TURNS; r++) {
        const double start = now();
        pause_for(turns);
        const double took = now() - start, product = first_product();
        paused = took < paused ? took : paused;
        least = product < least ? product : least;
        sum += product;
    }
    printf("after %7.0f ns without a product the next takes %4.0f ns, %4.0f on average\n", paused, least, sum / TURNS);
}

#define EIGHT(OP) OP(1) OP(2) OP(3) OP(4) OP(5) OP(6) OP(7) OP(8)
#define FMA(R) "vfmadd231ps %%zmm0, %%zmm0, %%zmm" #R "\n"
#define MIN(R) "vminps %%zmm0, %%zmm" #R ", %%zmm" #R "\n"
#define ADD(R) "vaddps %%zmm0, %%zmm" #R ", %%zmm" #R "\n"
#define TOUCHED "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8"

/* ns an instruction, in runs of so many blocks, with a product before each or none. */
#define KIND(NAME, OP)                                                                                                \
    static double NAME(int blocks, int product)                                                                       \
    {                                                                                                                 \
        double best = 1e30;                                                                                           \
        for (int k = 0; k < RUNS; k++) {                                                                              \
            const double start = now();                                                                               \
            for (int r = 0; r < TURNS; r++) {                                                                         \
                if (product) _tile_dpbf16ps(0, 4, 6);                                                                 \
                for (int i = 0; i < blocks; i++) __asm__ volatile(EIGHT(OP) EIGHT(OP) EIGHT(OP) EIGHT(OP)::: TOUCHED); \
            }                                                                                                         \
            const double took = (now() - start) / TURNS / blocks / BLOCK;                                             \
            best = took < best ? took : best;                                                                         \
        }                                                                                                             \
        return best;                                                                                                  \
    }
KIND(multiply_adds, FMA)
KIND(minima, MIN)
KIND(additions, ADD)

int main(void)
{
    static const struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    syscall(SYS_arch_prctl, 0x1023, 18); /* the operating system lends tiles to who asks */
    _tile_loadconfig(&shape);
    _tile_loadd(4, factors, 64);
    _tile_loadd(6, factors, 64);
    for (int turns = 50; turns <= 12800; turns *= 2) tell_pause(turns);
    for (int blocks = 8; blocks <= 32; blocks *= 2)
        for (int product = 0; product < 2; product++)
            printf("%4d instructions%s: ns a multiply-add %.2f, a minimum %.2f, an addition %.2f\n", blocks * BLOCK, product ? " after a product" : "                ",
                   multiply_adds(blocks, product), minima(blocks, product), additions(blocks, product));
    _tile_release();
    return 0;
}
