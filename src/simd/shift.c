/* shift.c: whether scores of patches can come from matrix tiles here. */
#include "simd/shift.h"
#include "simd/sieve.h"

int snls_shift_init(SnlsShift *shift, int level)
{
#if defined(__x86_64__) && defined(__linux__) && defined(SNLS_HAVE_AMX)
    if ((level && level < 5) || !snls_sieve_tiles()) return 0;
    snls_shift_init_amx(shift);
    return 1;
#else
    (void)shift, (void)level;
    return 0;
#endif
}
