/* threads.c: the smaller of what OpenMP would use and what the quota of the process's control groups pays for. */
#include "base/threads.h"
#include "base/cgroup.h"
#ifdef _OPENMP
#include <omp.h>
#endif

static int32_t available(void)
{
#ifdef _OPENMP
    int32_t threads = omp_get_max_threads();
#else
    int32_t threads = 1;
#endif
    const int32_t quota = threads > 1 ? snls_cgroup_processors("") : 0;
    if (quota > 0 && quota < threads) threads = quota;
    if (threads > SNLS_THREADS_MOST) threads = SNLS_THREADS_MOST; /* whatever OMP_NUM_THREADS says */
    return threads > 0 ? threads : 1;
}

int32_t snls_threads_of(int32_t asked)
{
#ifdef _OPENMP
    if (asked > 0) return asked;
#else
    (void)asked; /* there is one, whatever was asked for */
#endif
    return available();
}
