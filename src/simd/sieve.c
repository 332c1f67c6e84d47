/* sieve.c: whether this machine has products of bf16 or f16 matrices or of bytes and may use them. */
#define _DEFAULT_SOURCE /* syscall */
#include "simd/sieve.h"
#include "simd/dsp.h"

enum { LEVEL_BF16 = 3, LEVEL_VNNI = 4, LEVEL_AMX = 5, LEVEL_AMX_FP16 = 6 }; /* SnlsCpuLevel */

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>

/* What `ask` answers. known: 0 not asked yet, 1 no, 2 yes: asking is slow, and the answer does not change. */
static int asked_once(_Atomic int *known, int (*ask)(void))
{
    int answer = atomic_load(known);
    if (!answer) atomic_store(known, answer = ask() ? 2 : 1);
    return answer == 2;
}

static int machine_has_bytes(void)
{
    unsigned a, b, c, d;
    return snls_dsp_level_max() >= 3 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1);
}

static int has_bytes(void)
{
    static _Atomic int known;
    return asked_once(&known, machine_has_bytes);
}

#if defined(__linux__) && defined(SNLS_HAVE_AMX)
#include <sys/syscall.h>
#include <unistd.h>

/* Processor (leaf 7: AMX tiles and bf16, AVX-512 bf16) and operating system (state of the tiles is saved). */
static int machine_has_tiles(void)
{
    unsigned a, b, c, d, low, high;
    if (snls_dsp_level_max() < 3) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1) || a < 1) return 0;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a >> 5 & 1)) return 0;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 0x600e6u) == 0x600e6u;
}

static int has_tiles(void)
{
    static _Atomic int known;
    return asked_once(&known, machine_has_tiles);
}

/* Linux lends the large state of the tiles to a process that asks: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). It stays lent, to all
 * threads, whose alternate signal stacks must have room for it: so nobody asks who does not want it, and a no, of a stack too small, may be a yes later. */
static int may_use_tiles(void)
{
    static _Atomic int lent;
    if (!atomic_load(&lent) && has_tiles() && syscall(SYS_arch_prctl, 0x1023L, 18L) == 0) atomic_store(&lent, 1);
    return atomic_load(&lent);
}

/* Leaf 7, AMX with f16 numbers. */
static int machine_has_fp16_tiles(void)
{
    unsigned a, b, c, d;
    return has_tiles() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 21 & 1);
}

static int has_fp16_tiles(void)
{
    static _Atomic int known;
    return asked_once(&known, machine_has_fp16_tiles);
}

#else
static int has_tiles(void) { return 0; }
static int has_fp16_tiles(void) { return 0; }
static int may_use_tiles(void) { return 0; }
#endif

int snls_sieve_level(void) { return has_fp16_tiles() ? LEVEL_AMX_FP16 : has_tiles() ? LEVEL_AMX : has_bytes() ? LEVEL_VNNI : 0; }

int snls_sieve_lent(int level)
{
    if (level < LEVEL_AMX || may_use_tiles()) return level;
    return has_bytes() ? LEVEL_VNNI : snls_dsp_level_max();
}

int snls_sieve_init(SnlsSieve *sieve, int level)
{
    const int most = snls_sieve_level();
    level = snls_sieve_lent(!level || level > most ? most : level);
#if defined(SNLS_HAVE_AMX)
    if (level == LEVEL_AMX_FP16) {
        snls_sieve_init_fp16_amx(sieve);
        return 1;
    }
    if (level == LEVEL_AMX) {
        snls_sieve_init_amx(sieve);
        return 1;
    }
#endif
    if (level != LEVEL_VNNI || !has_bytes()) return 0;
    snls_sieve_init_vnni(sieve);
    return 1;
}

#else

int snls_sieve_lent(int level) { return level; }

#if defined(__aarch64__) && defined(__linux__) && defined(SNLS_HAVE_BF16)
#include <sys/auxv.h>

#define HAS_BF16 (1UL << 14) /* HWCAP2_BF16: older headers do not know it */

int snls_sieve_level(void) { return getauxval(AT_HWCAP2) & HAS_BF16 ? LEVEL_BF16 : 0; }

int snls_sieve_init(SnlsSieve *sieve, int level)
{
    if ((level && level < LEVEL_BF16) || !snls_sieve_level()) return 0;
    snls_sieve_init_bf16(sieve);
    return 1;
}

#else

int snls_sieve_level(void) { return 0; }

int snls_sieve_init(SnlsSieve *sieve, int level)
{
    (void)sieve, (void)level;
    return 0;
}

#endif
#endif
