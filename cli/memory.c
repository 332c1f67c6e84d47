/* memory.c: an allocator that knows how much there is. Linux hands out more memory than it has and kills later; an
 * array that cannot fit is refused before any work instead. */
#include "cli.h"
#include "held.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE = 64 }; /* bytes of a cache line, on which blocks begin: wide reads and matrix tiles that cross lines take twice as long */

typedef union Header { /* before each block: its size, so that giving it back can be counted; 0: it lies in a file */
    size_t size;
    char line[LINE];
} Header;

static _Atomic size_t held;
static size_t limit;

static size_t memory_there_is(void)
{
    const int64_t bytes = snls_memory_limit();
    return bytes > 0 ? (size_t)bytes : (size_t)PTRDIFF_MAX;
}

static void *take(size_t size, void *opaque)
{
    (void)opaque;
    if (held_wanted(size)) {
        Header *mapped = size < SIZE_MAX / 2 ? held_take(size + sizeof *mapped) : NULL;
        if (mapped) mapped->size = 0;
        return mapped ? mapped + 1 : NULL;
    }
    const size_t before = atomic_load(&held);
    if (size > limit || before > limit - size || size > SIZE_MAX / 2) return NULL;
    Header *header = aligned_alloc(LINE, (size + sizeof *header + LINE - 1) / LINE * LINE);
    if (!header) return NULL;
    header->size = size;
    atomic_fetch_add(&held, size);
    return header + 1;
}

static void give_back(void *memory, void *opaque)
{
    (void)opaque;
    if (!memory) return;
    Header *header = (Header *)memory - 1;
    if (!header->size) {
        held_give_back(header);
        return;
    }
    atomic_fetch_sub(&held, header->size);
    free(header);
}

static double gibibytes(double bytes) { return bytes / (1024.0 * 1024 * 1024); }

double memory_limit(void)
{
    if (!limit) limit = memory_there_is();
    return (double)limit;
}

int require_memory(const char *what, double bytes)
{
    if (bytes <= memory_limit() - (double)atomic_load(&held)) return EXIT_DONE;
    return fail(EXIT_MEMORY, "%s: %.1f GiB are needed, this process may have %.1f GiB", what, gibibytes(bytes),
                gibibytes((double)limit));
}

SnlsAllocator limited_allocator(void)
{
    memory_limit();
    return (SnlsAllocator){ .alloc = take, .free = give_back };
}
