/* check_faults.c: an allocator that counts, and fails at one number. */
#include "faults.h"
#include <stdlib.h>
#include <string.h>

enum { BEFORE = 64 }; /* bytes before what is given, for its size */

static void *counted_alloc(size_t bytes, void *opaque)
{
    CountedMemory *m = opaque;
    if (m->made++ == m->fail_at) return NULL;
    char *p = malloc(BEFORE + bytes);
    if (!p) return NULL;
    memset(p + BEFORE, 0xa5, bytes); /* nobody may count on zeros */
    memcpy(p, &bytes, sizeof bytes);
    m->live++;
    m->held += (int64_t)bytes;
    if (m->held > m->most) m->most = m->held;
    return p + BEFORE;
}

static void counted_free(void *p, void *opaque)
{
    CountedMemory *m = opaque;
    size_t bytes;
    if (!p) return;
    memcpy(&bytes, (char *)p - BEFORE, sizeof bytes);
    m->live--;
    m->held -= (int64_t)bytes;
    free((char *)p - BEFORE);
}

SnlsStatus open_counted(CountedMemory *m, const char *backend, int32_t threads, SnlsContext **ctx)
{
    SnlsContextParams p;
    snls_context_defaults(&p);
    p.backend = backend;
    p.threads = threads;
    p.allocator = (SnlsAllocator){counted_alloc, counted_free, m};
    return snls_open(ctx, &p);
}
