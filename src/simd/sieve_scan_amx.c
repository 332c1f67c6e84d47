/* sieve_scan_amx.c: the rough half of the sieve on matrix tiles of bf16 numbers. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
#define MULTIPLY(SUM, KEYS, QUERIES) _tile_dpbf16ps(SUM, KEYS, QUERIES)
#include "simd/sieve_make_amx.h"
#include "simd/sieve_scan_avx512.h"

void snls_sieve_init_scan_amx(SnlsSieve *sieve)
{
    sieve->make = make_first;
    sieve->scan = scan;
    sieve->hits = hits;
    sieve->awake = awake;
}

#else
typedef int snls_sieve_scan_amx_is_empty;
#endif
