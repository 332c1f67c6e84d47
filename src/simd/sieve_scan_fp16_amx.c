/* sieve_scan_fp16_amx.c: the rough half of the sieve on matrix tiles of f16 numbers. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
/* TDPFP16PS, which compilers older than gcc 13 and clang 16 do not know: VEX prefix (of it the queries' tile, inverted, and F2), operation, the other two tiles. */
#define MULTIPLY(SUM, KEYS, QUERIES) \
    __asm__ volatile(".byte 0xc4, 0xe2, %c0, 0x5c, %c1" : : "i"((~(QUERIES) & 15) << 3 | 3), "i"(0xc0 | (SUM) << 3 | (KEYS)))
#include "simd/sieve_make_amx.h"
#include "simd/sieve_scan_avx512.h"

void snls_sieve_init_scan_fp16_amx(SnlsSieve *sieve)
{
    sieve->make = make_first;
    sieve->scan = scan;
    sieve->hits = hits;
    sieve->awake = awake;
}

#else
typedef int snls_sieve_scan_fp16_amx_is_empty;
#endif
