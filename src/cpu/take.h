/* take.h: a job's blocks of memory written as one list that is walked twice, to plan the arena and to claim from it. */
#ifndef SNLS_CPU_TAKE_H
#define SNLS_CPU_TAKE_H

#include "base/alloc.h"

/* Plans and returns NULL (snls_take_plan), or claims (snls_arena_claim). */
typedef void *(*CpuTake)(SnlsArena *arena, int64_t count, int64_t size);

static inline void *snls_take_plan(SnlsArena *arena, int64_t count, int64_t size)
{
    snls_arena_plan(arena, count, size);
    return NULL;
}

#endif
