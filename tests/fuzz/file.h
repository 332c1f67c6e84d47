/* file.h: what the targets share that need a file: one in memory, with a path. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define must(condition) ((condition) ? (void)0 : broken(#condition, __FILE__, __LINE__))

static inline void broken(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    abort();
}

/* The same file every time, emptied; *path is its name. */
static inline int memory_file(const char **path)
{
    static char name[64];
    static int fd = -1;
    if (fd < 0) must((fd = memfd_create("fuzz", MFD_CLOEXEC)) >= 0);
    must(!ftruncate(fd, 0) && !lseek(fd, 0, SEEK_SET));
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    *path = name;
    return fd;
}

static inline void put(int fd, const void *bytes, size_t size)
{
    must(write(fd, bytes, size) == (ssize_t)size);
}

#endif
