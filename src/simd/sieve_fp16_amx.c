/* sieve_fp16_amx.c: what the rough half of the sieve begins with on matrix tiles of f16 numbers, which have three bits more than bf16 and a small range. sieve_scan_fp16_amx.c goes on. */
#if defined(__x86_64__) && defined(SNLS_HAVE_AMX)
#include "simd/inline.h"
#include <immintrin.h>

/* Of what is beyond the largest number there is much is lost, and seen to be. */
ALWAYS __m512i numbers_of(const __m512 v[2])
{
    enum { LESSER_SIZE = 2, NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    const __m512 most = _mm512_set1_ps(65504);
    const __m256i low = _mm512_cvtps_ph(_mm512_range_ps(v[0], most, LESSER_SIZE), NEAREST), high = _mm512_cvtps_ph(_mm512_range_ps(v[1], most, LESSER_SIZE), NEAREST);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

ALWAYS __m512 widen(__m512i numbers, const int half) { return _mm512_cvtph_ps(half ? _mm512_extracti64x4_epi64(numbers, 1) : _mm512_castsi512_si256(numbers)); }

#include "simd/sieve_turn_amx.h"

void snls_sieve_init_fp16_amx(SnlsSieve *sieve)
{
    *sieve = (SnlsSieve){.start = start, .stop = stop, .split = split, .queries = queries, .runs = 1, .parts = 1, .scaled = 1};
    snls_sieve_init_scan_fp16_amx(sieve);
    snls_sieve_init_fine_avx512(sieve);
}

#else
typedef int snls_sieve_fp16_amx_is_empty;
#endif
