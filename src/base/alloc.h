/* alloc.h: every allocation of the library goes through a context's allocator; scratch through its arena. */
#ifndef SNLS_ALLOC_H
#define SNLS_ALLOC_H

#include <snls/context.h>
#include <stdbool.h>

#define SNLS_ALIGN 64 /* arena blocks start on a cache line */

/* Sizes that came from outside: false (and *out untouched) when the result does not fit. */
bool snls_mul_size(int64_t a, int64_t b, int64_t *out);
bool snls_add_size(int64_t a, int64_t b, int64_t *out);

void *snls_mem_alloc(const SnlsAllocator *allocator, int64_t bytes); /* NULL on failure or bytes < 0; 0 bytes gives a pointer */
void  snls_mem_free(const SnlsAllocator *allocator, void *ptr);

/* Scratch of one call. A call first plans (snls_arena_plan, once for each block), then takes the memory in one piece
 * (snls_arena_commit), then claims the blocks in the planned order. Memory stays for the next call: no allocation in
 * steady state. */
typedef struct SnlsArena {
    void   *base;     /* as allocated */
    char   *aligned;
    int64_t capacity; /* bytes from aligned on */
    int64_t planned, claimed;
    int64_t peak;     /* largest capacity there ever was */
    bool    overflow; /* a planned size did not fit 64 bits */
    bool    device;   /* memory of a device: its pages are not this processor's to advise on */
    bool    captured; /* work that was recorded may use the memory whenever it is run again: whoever frees it holds it back */
    int64_t held_back;
} SnlsArena;

void snls_arena_begin(SnlsArena *arena);                                /* forgets plan and claims, keeps the memory */
void snls_arena_plan(SnlsArena *arena, int64_t count, int64_t size);    /* count elements of size bytes; count <= 0 plans nothing */
bool snls_arena_commit(SnlsArena *arena, const SnlsAllocator *allocator, int64_t limit); /* false: no memory, or over limit (> 0) */
void *snls_arena_claim(SnlsArena *arena, int64_t count, int64_t size);  /* NULL when count <= 0 */
void snls_arena_release(SnlsArena *arena, const SnlsAllocator *allocator);

#endif
