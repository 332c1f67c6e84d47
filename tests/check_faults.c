/* check_faults.c: an allocator that counts, and fails at one number. */
#include "faults.h"
#include <stdlib.h>
#include <string.h>

static void *counted_alloc(size_t bytes, void *opaque)
{
    CountedMemory *m = opaque;
    if (m->made++ == m->fail_at) return NULL;
    void *p = malloc(bytes ? bytes : 1);
    if (p) memset(p, 0xa5, bytes); /* nobody may count on zeros */
    m->live += p != NULL;
    return p;
}

static void counted_free(void *p, void *opaque)
{
    ((CountedMemory *)opaque)->live -= p != NULL;
    free(p);
}

SnlsStatus open_counted(CountedMemory *m, const char *backend, SnlsContext **ctx)
{
    SnlsContextParams p;
    snls_context_defaults(&p);
    p.backend = backend;
    p.threads = 3;
    p.allocator = (SnlsAllocator){counted_alloc, counted_free, m};
    return snls_open(ctx, &p);
}
