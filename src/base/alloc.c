/* alloc.c: overflow-checked sizes, the allocator, the arena. */
#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif
#include "base/alloc.h"
#include <stdlib.h>

bool snls_mul_size(int64_t a, int64_t b, int64_t *out)
{
    if (a < 0 || b < 0 || (b && a > INT64_MAX / b)) return false;
    *out = a * b;
    return true;
}

bool snls_add_size(int64_t a, int64_t b, int64_t *out)
{
    if (a < 0 || b < 0 || a > INT64_MAX - b) return false;
    *out = a + b;
    return true;
}

/* Large arrays are walked with large strides: small pages would cost more than the data. A hint, never needed. */
static void ask_for_large_pages(char *from, int64_t bytes)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = (uintptr_t)2 << 20, first = ((uintptr_t)from + page - 1) / page * page, end = ((uintptr_t)from + (uintptr_t)bytes) / page * page;
    if (end > first) (void)madvise(from + (first - (uintptr_t)from), end - first, MADV_HUGEPAGE);
#else
    (void)from, (void)bytes;
#endif
}

void *snls_mem_alloc(const SnlsAllocator *allocator, int64_t bytes)
{
    if (bytes < 0 || (uint64_t)bytes > PTRDIFF_MAX) return NULL;
    const size_t size = bytes ? (size_t)bytes : 1;
    if (allocator->alloc) return allocator->alloc(size, allocator->opaque);
    void *const block = aligned_alloc(SNLS_ALIGN, (size + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN); /* a wide read that crosses a line takes two */
    if (block) ask_for_large_pages(block, bytes);
    return block;
}

void snls_mem_free(const SnlsAllocator *allocator, void *ptr)
{
    if (!ptr) return;
    if (allocator->free) allocator->free(ptr, allocator->opaque);
    else free(ptr);
}

/* ---- the arena ---- */

/* An arena is one allocation, so that AddressSanitizer does not see who leaves his block: in such a build there is a gap after each, and nothing but claimed blocks may be touched. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#endif
#ifdef WATCHED
#include <sanitizer/asan_interface.h>
enum { GAP = 256 };
static void forbid(const SnlsArena *arena)
{
    if (arena->capacity && !arena->device) __asan_poison_memory_region(arena->aligned, (size_t)arena->capacity);
}
static void allow(const SnlsArena *arena, const char *from, int64_t bytes)
{
    if (bytes && !arena->device) __asan_unpoison_memory_region(from, (size_t)bytes);
}
#else
enum { GAP = 0 };
static void forbid(const SnlsArena *arena) { (void)arena; }
static void allow(const SnlsArena *arena, const char *from, int64_t bytes) { (void)arena, (void)from, (void)bytes; }
#endif

static bool block_bytes(int64_t count, int64_t size, int64_t *bytes)
{
    if (!snls_mul_size(count, size, bytes) || !snls_add_size(*bytes, GAP + SNLS_ALIGN - 1, bytes)) return false;
    *bytes -= *bytes % SNLS_ALIGN;
    return true;
}

void snls_arena_begin(SnlsArena *arena)
{
    arena->planned = arena->claimed = 0;
    arena->overflow = false;
    forbid(arena);
}

void snls_arena_plan(SnlsArena *arena, int64_t count, int64_t size)
{
    int64_t bytes;
    if (count <= 0) return;
    if (!block_bytes(count, size, &bytes) || !snls_add_size(arena->planned, bytes, &arena->planned)) arena->overflow = true;
}

bool snls_arena_commit(SnlsArena *arena, const SnlsAllocator *allocator, int64_t limit)
{
    if (arena->overflow || arena->planned > INT64_MAX - SNLS_ALIGN) return false;
    const bool grows = arena->planned > arena->capacity;
    if (limit > 0 && arena->planned > limit - arena->held_back - (grows && arena->captured ? arena->capacity : 0)) return false;
    if (!grows) return true;
    snls_arena_release(arena, allocator); /* nothing in it outlives a call */
    arena->base = snls_mem_alloc(allocator, arena->planned + SNLS_ALIGN);
    if (!arena->base) return false;
    arena->aligned = (char *)arena->base + (SNLS_ALIGN - (uintptr_t)arena->base % SNLS_ALIGN) % SNLS_ALIGN;
    arena->capacity = arena->planned;
    arena->captured = false;
    forbid(arena);
    if (!arena->device && allocator->alloc) ask_for_large_pages(arena->aligned, arena->capacity);
    if (arena->capacity + arena->held_back > arena->peak) arena->peak = arena->capacity + arena->held_back;
    return true;
}

void *snls_arena_claim(SnlsArena *arena, int64_t count, int64_t size)
{
    int64_t bytes;
    if (count <= 0 || !block_bytes(count, size, &bytes) || bytes > arena->capacity - arena->claimed) return NULL;
    char *block = arena->aligned + arena->claimed;
    arena->claimed += bytes;
    allow(arena, block, count * size);
    return block;
}

void snls_arena_release(SnlsArena *arena, const SnlsAllocator *allocator)
{
    allow(arena, arena->aligned, arena->capacity);
    if (arena->captured) arena->held_back += arena->capacity;
    snls_mem_free(allocator, arena->base);
    arena->base = NULL;
    arena->aligned = NULL;
    arena->capacity = 0;
    arena->captured = false;
}
