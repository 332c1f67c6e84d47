/* cgroup.h: what Linux's control groups leave this process: its own and those above it, version 1 and version 2. */
#ifndef SNLS_CGROUP_H
#define SNLS_CGROUP_H
#include <stdint.h>
/* Processors that the least quota pays for, in whole ones, at least one; 0: there is no quota. root: "" (tests: where /proc and the mounts are looked for). */
int32_t snls_cgroup_processors(const char *root);
/* Bytes of the least limit; 0: there is none. */
int64_t snls_cgroup_memory(const char *root);
#endif
