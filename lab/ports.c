/* ports.c: what a product on matrix tiles leaves to vectors: instructions a cycle of several kinds, alone and with a product for every 96 of them. Minima, maxima and
 * multiply-adds of 512 bits lose one of their two ports as long as products are about; sums and logic lose the sixteen cycles that a product takes. Not part of the library.
 *   cc -O2 -mamx-tile -mamx-bf16 -mavx512f lab/ports.c -o ports && ./ports      cycles are those of an FMA rate measured beside it */
#define _GNU_SOURCE
#include "cycle.h"
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TIMES = 20, BLOCKS = 8, OPS = 96, RUNS = 3000 };

#define EIGHT(OP, R) OP R "0," R "1," R "1\n" OP R "0," R "2," R "2\n" OP R "0," R "3," R "3\n" OP R "0," R "4," R "4\n" OP R "0," R "5," R "5\n" OP R "0," R "6," R "6\n" OP R "0," R "7," R "7\n" OP R "0," R "8," R "8\n"
#define BLOCK(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R) EIGHT(OP, R)
#define TOUCHED "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8"
#define PRODUCT(N) "tdpbf16ps %%tmm6, %%tmm4, %%tmm" #N "\n"

#define KIND(NAME, OP, R)                                                                                               \
    static void NAME##_alone(void)                                                                                      \
    {                                                                                                                   \
        for (int i = 0; i < TIMES * BLOCKS; i++) __asm__ volatile(BLOCK(OP, R) ::: TOUCHED);                            \
    }                                                                                                                   \
    static void NAME##_beside(void)                                                                                     \
    {                                                                                                                   \
        for (int i = 0; i < TIMES * BLOCKS / 4; i++)                                                                    \
            __asm__ volatile(PRODUCT(0) BLOCK(OP, R) PRODUCT(1) BLOCK(OP, R) PRODUCT(2) BLOCK(OP, R) PRODUCT(3) BLOCK(OP, R) ::: TOUCHED); \
    }

KIND(least, "vminps ", "%%zmm")
KIND(fused, "vfmadd231ps ", "%%zmm")
KIND(sums, "vaddps ", "%%zmm")
KIND(logic, "vpandd ", "%%zmm")
KIND(half, "vminps ", "%%ymm")

static double rate(void (*f)(void), double tick)
{
    double best = 1e9;
    for (int r = 0; r < RUNS; r++) {
        const double start = seconds();
        f();
        const double t = seconds() - start;
        best = t < best ? t : best;
    }
    return TIMES * BLOCKS * OPS / (best / tick);
}

int main(void)
{
    static const struct { unsigned char palette, start, none[14]; unsigned short bytes[16]; unsigned char rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    static const struct { const char *name; void (*alone)(void), (*beside)(void); } kinds[] = {
        {"minima", least_alone, least_beside}, {"multiply-adds", fused_alone, fused_beside}, {"sums", sums_alone, sums_beside},
        {"logic", logic_alone, logic_beside}, {"minima of 256 bits", half_alone, half_beside}};
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return 1; /* ask for the tiles' data */
    _tile_loadconfig(&shape);
    double tick = 1;
    for (int i = 0; i < 200; i++) {
        const double t = cycle();
        tick = t < tick ? t : tick;
    }
    for (int i = 0; i < 5; i++) printf("%s: %.2f a cycle alone, %.2f beside products\n", kinds[i].name, rate(kinds[i].alone, tick), rate(kinds[i].beside, tick));
    _tile_release();
    return 0;
}
