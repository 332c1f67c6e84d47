/* sieve_amx.c: what the rough half of the sieve begins with on matrix tiles of bf16 numbers. sieve_scan_amx.c goes on. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
#include "simd/inline.h"
#include <immintrin.h>

ALWAYS __m512i numbers_of(const __m512 v[2]) { return (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]); }

ALWAYS __m512 widen(__m512i numbers, const int half)
{
    const __m256i part = half ? _mm512_extracti64x4_epi64(numbers, 1) : _mm512_castsi512_si256(numbers);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16));
}

#include "simd/sieve_turn_amx.h"

void snls_sieve_init_amx(SnlsSieve *sieve)
{
    *sieve = (SnlsSieve){.start = start, .stop = stop, .split = split, .queries = queries, .runs = 1, .parts = 2};
    snls_sieve_init_scan_amx(sieve);
    snls_sieve_init_fine_avx512(sieve);
}

#else
typedef int snls_sieve_amx_is_empty;
#endif
