/* blas.c: OpenBLAS on one thread while the library calls it, and only where it has the memory it takes. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "base/blas.h"
#ifdef SNLS_HAVE_LAPACK
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Another BLAS does not have these. */
#if defined(__GNUC__) && defined(__ELF__)
extern int openblas_get_num_threads(void) __attribute__((weak));
extern void openblas_set_num_threads(int) __attribute__((weak));
#else
#    define openblas_get_num_threads ((int (*)(void))0)
#    define openblas_set_num_threads ((void (*)(int))0)
#endif

/* The number is one for the whole process: whoever ends first must not give it back while others still count on it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int running, before; /* who calls it; threads before the first of them */

bool snls_blas_is_fast(void) { return openblas_get_num_threads && openblas_set_num_threads; }

void snls_blas_begin(void)
{
    if (!snls_blas_is_fast()) return;
    pthread_mutex_lock(&lock);
    if (!running++) {
        before = openblas_get_num_threads();
        if (before != 1) openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&lock);
}

void snls_blas_end(void)
{
    if (!snls_blas_is_fast()) return;
    pthread_mutex_lock(&lock);
    if (!--running && before != 1 && openblas_get_num_threads() == 1) openblas_set_num_threads(before); /* another number: the host has set it meanwhile, and means it */
    pthread_mutex_unlock(&lock);
}

enum { MIB = 1 << 20, BUFFER = 129 }; /* MiB for each thread that is in it, at most, with what an allocator adds */

static bool is_limited(void)
{
    struct rlimit limit;
    return !getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY;
}

/* Asked for and given back. */
static bool is_there(size_t bytes)
{
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) munmap(room, bytes);
    return room != MAP_FAILED;
}

SnlsStatus snls_blas_require(SnlsContext *ctx, const char *op, int32_t threads)
{
    static int32_t had; /* it keeps what it has taken */
    if (!snls_blas_is_fast() || !is_limited()) return SNLS_OK;
    pthread_mutex_lock(&lock);
    const int32_t more = threads > had ? threads - had : 0;
    const bool there = !more || is_there((size_t)more * BUFFER * MIB);
    if (there) had += more;
    pthread_mutex_unlock(&lock);
    SNLS_REQUIRE(ctx, there, SNLS_ERR_MEMORY, "%s: OpenBLAS takes up to %d MiB for each of %d threads, which this process may not have: fewer threads, or a higher limit of address space", op, BUFFER, (int)threads);
    return SNLS_OK;
}
#else
SnlsStatus snls_blas_require(SnlsContext *ctx, const char *op, int32_t threads)
{
    (void)ctx, (void)op, (void)threads;
    return SNLS_OK;
}
bool snls_blas_is_fast(void) { return false; }
void snls_blas_begin(void) {}
void snls_blas_end(void) {}
#endif
