/* sieve.c: whether this machine has products of bf16 matrices and may use them. */
#define _DEFAULT_SOURCE /* syscall */
#include "simd/sieve.h"
#include "simd/dsp.h"

#if defined(__aarch64__)
int snls_sieve_level(void) { return 3; }
#else
int snls_sieve_level(void) { return 4; }
#endif

#if defined(__x86_64__) && defined(__linux__) && defined(SNLS_HAVE_AMX)
#include <cpuid.h>
#include <stdatomic.h>
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

/* Linux lends the large state of the tiles to a process that asks: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). */
static int system_lends_tiles(void) { return syscall(SYS_arch_prctl, 0x1023L, 18L) == 0; }

int snls_sieve_usable(void)
{
    static _Atomic int known; /* 0 not asked yet, 1 no, 2 yes: asking is slow, and the answer does not change */
    int answer = atomic_load(&known);
    if (!answer) atomic_store(&known, answer = machine_has_tiles() && system_lends_tiles() ? 2 : 1);
    return answer == 2;
}

int snls_sieve_init(SnlsSieve *sieve, int level)
{
    if ((level && level < 4) || !snls_sieve_usable()) return 0;
    snls_sieve_init_amx(sieve);
    return 1;
}

#elif defined(__aarch64__) && defined(__linux__) && defined(SNLS_HAVE_BF16)
#include <sys/auxv.h>

#define HAS_BF16 (1UL << 14) /* HWCAP2_BF16: older headers do not know it */

int snls_sieve_usable(void) { return (getauxval(AT_HWCAP2) & HAS_BF16) != 0; }

int snls_sieve_init(SnlsSieve *sieve, int level)
{
    if ((level && level < 3) || !snls_sieve_usable()) return 0;
    snls_sieve_init_bf16(sieve);
    return 1;
}

#else

int snls_sieve_usable(void) { return 0; }

int snls_sieve_init(SnlsSieve *sieve, int level)
{
    (void)sieve, (void)level;
    return 0;
}

#endif
