/* threads.c: the smaller of what OpenMP would use and what the cgroup's CPU quota pays for. */
#include "base/threads.h"
#include <stdio.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* cgroup v2: "max 100000" or "150000 100000" (microseconds per period); 0 when there is no quota */
static int32_t quota_v2(void)
{
    long long quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file) return 0;
    const int read = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    return read == 2 && quota > 0 && period > 0 ? (int32_t)((quota + period - 1) / period) : 0;
}

enum { MOST = 1024 }; /* whatever OMP_NUM_THREADS says: more are not there, and a system that cannot start them ends the program */

static int32_t available(void)
{
#ifdef _OPENMP
    int32_t threads = omp_get_max_threads();
#else
    int32_t threads = 1;
#endif
    const int32_t quota = quota_v2();
    if (quota > 0 && quota < threads) threads = quota;
    if (threads > MOST) threads = MOST;
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
