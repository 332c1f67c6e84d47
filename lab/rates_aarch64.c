/* rates_aarch64.c: what a core does in a nanosecond: multiply-adds, products of bf16 matrices, selection, and multiply-adds beside loads. Not part of the library.
 *   cc -O2 -march=armv8.2-a+bf16 lab/rates_aarch64.c -o rates && ./rates */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 4000000, ATTEMPTS = 10 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define REGISTERS "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", \
                  "v25", "v26", "v27", "v28", "v29", "v30", "v31"
#define EACH(DO) DO("0") DO("1") DO("2") DO("3") DO("4") DO("5") DO("6") DO("7") DO("8") DO("9") DO("10") DO("11") DO("12") DO("13") DO("14") DO("15")
#define MEASURE(name, count, factors, body)                                                                                                   \
    {                                                                                                                                         \
        double best = 1e9;                                                                                                                    \
        for (int i = 0; i < ATTEMPTS; i++) {                                                                                                  \
            const double start = now();                                                                                                       \
            __asm__ volatile("mov x0, %0\nmov x1, %1\n" factors "1:\n" body "subs x0, x0, #1\nbne 1b\n" : : "r"((long)TURNS), "r"(memory) : "x0", "x1", "cc", "memory", REGISTERS); \
            const double seconds = now() - start;                                                                                             \
            best = seconds < best ? seconds : best;                                                                                           \
        }                                                                                                                                     \
        printf("%-44s %6.2f a ns\n", name, 1e-9 * count * TURNS / best);                                                                      \
    }

/* The factors v30 and v31: loaded, as the vector unit makes them, or one of each kind. */
#define LOADED "ldp q30, q31, [x1]\n"
#define MADE LOADED "fadd v30.4s, v30.4s, v30.4s\nfadd v31.4s, v31.4s, v31.4s\n"
#define MIXED LOADED "fadd v31.4s, v31.4s, v31.4s\n"
#define FMLA(r) "fmla v" r ".4s, v30.4s, v31.4s\n"
#define BFMMLA(r) "bfmmla v" r ".4s, v30.8h, v31.8h\n"
#define MINIMUM(r) "fminnm v" r ".4s, v" r ".4s, v31.4s\n"
#define SELECT(r) "bsl v" r ".16b, v30.16b, v31.16b\n"
#define EXTRACT(r) "ext v" r ".16b, v30.16b, v31.16b, #4\n"
#define LOAD(r, at) "ldr q" r ", [x1, #" at "]\n"
#define ALIGNED LOAD("20", "0") LOAD("21", "16") LOAD("22", "32") LOAD("23", "48") LOAD("24", "64") LOAD("25", "80") LOAD("26", "96") LOAD("27", "112")
#define USE(r, factor) "fmla v" r ".4s, v" factor ".4s, v31.4s\n"
#define USES USE("0", "20") USE("1", "20") USE("2", "21") USE("3", "21") USE("4", "22") USE("5", "22") USE("6", "23") USE("7", "23") \
    USE("8", "24") USE("9", "24") USE("10", "25") USE("11", "25") USE("12", "26") USE("13", "26") USE("14", "27") USE("15", "27")
#define SHIFTED "ldur q20, [x1, #4]\nldur q21, [x1, #8]\nldur q22, [x1, #12]\nldur q23, [x1, #16]\nldur q24, [x1, #20]\nldur q25, [x1, #24]\nldur q26, [x1, #28]\nldur q27, [x1, #32]\n"

int main(void)
{
    char *memory = aligned_alloc(4096, 4096);
    if (!memory) return 1;
    for (int i = 0; i < 4096; i++) memory[i] = 0;
    MEASURE("fmla, 8 flops, factors loaded", 16, LOADED, EACH(FMLA))
    MEASURE("fmla, one factor made by an instruction", 16, MIXED, EACH(FMLA))
    MEASURE("fmla, both factors made by instructions", 16, MADE, EACH(FMLA))
    MEASURE("bfmmla, 32 flops, factors loaded", 16, LOADED, EACH(BFMMLA))
    MEASURE("bfmmla, one factor made", 16, MIXED, EACH(BFMMLA))
    MEASURE("bfmmla, both factors made", 16, MADE, EACH(BFMMLA))
    MEASURE("fminnm", 16, LOADED, EACH(MINIMUM))
    MEASURE("bsl", 16, LOADED, EACH(SELECT))
    MEASURE("ext", 16, LOADED, EACH(EXTRACT))
    MEASURE("loads of 16 bytes side by side", 8, LOADED, ALIGNED)
    MEASURE("loads of 16 bytes a float apart", 8, LOADED, SHIFTED)
    MEASURE("fmla, beside 8 loads side by side for 16", 16, LOADED, ALIGNED EACH(FMLA))
    MEASURE("fmla, beside 8 loads a float apart for 16", 16, LOADED, SHIFTED EACH(FMLA))
    MEASURE("fmla, one factor from 8 loads side by side", 16, MADE, ALIGNED USES)
    free(memory);
    return 0;
}
