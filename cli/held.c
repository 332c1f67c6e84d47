/* held.c: large pieces of memory in files. The system writes their pages out and reads them back; a thread watches how much of
 * the program is resident and lets go of the mapped pages when it comes close to the limit. Contents are never lost by that:
 * they are the file's. The files have no name from the beginning, so nothing is left however the program ends. */
#define _DEFAULT_SOURCE /* madvise */
#include "held.h"
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { HELD_LEAST = 1 << 20, PIECES = 64, LOOK_MS = 10 };

typedef struct Piece {
    void *memory;
    size_t size;
} Piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Piece pieces[PIECES];
static char where[4200]; /* "": nothing is held in files */
static double most;

/* Bytes in memory; 0 where the system does not tell. */
static double resident(void)
{
    double pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*f %lf", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * (double)sysconf(_SC_PAGESIZE);
}

static void let_go(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].memory) madvise(pieces[i].memory, pieces[i].size, MADV_DONTNEED);
    pthread_mutex_unlock(&lock);
}

static void *watch(void *unused)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
    (void)unused;
    for (;; nanosleep(&pause, NULL))
        if (resident() > 0.85 * most) let_go(); /* what is touched until the next look is less than the rest */
    return NULL;
}

int hold_in_files(const char *folder, double limit, double expected)
{
    struct statvfs disk;
    pthread_t thread;
    const double gib = 1024.0 * 1024 * 1024;
    if (resident() <= 0) return fail(EXIT_MEMORY, "memory: this system does not tell how much of it is in use");
    if (statvfs(folder, &disk)) return fail(EXIT_OUTPUT, "%s: %s", folder, strerror(errno));
    if ((double)disk.f_bavail * (double)disk.f_frsize < expected)
        return fail(EXIT_MEMORY, "%s: %.2f GiB of frames do not fit into memory, nor onto this disk", folder,
                    expected / gib);
    snprintf(where, sizeof where, "%s/.snls-XXXXXX", folder);
    most = limit;
    if (pthread_create(&thread, NULL, watch, NULL)) return fail(EXIT_MEMORY, "memory: no thread can be started");
    pthread_detach(thread);
    return EXIT_DONE;
}

bool held_wanted(size_t size) { return *where && size >= HELD_LEAST; }

void *held_take(size_t size)
{
    char name[sizeof where];
    void *memory = MAP_FAILED;
    memcpy(name, where, sizeof name);
    const int fd = mkstemp(name);
    if (fd < 0) return NULL;
    unlink(name);
    if (!posix_fallocate(fd, 0, (off_t)size)) /* a disk that is full later would end the program */
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return NULL;
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < PIECES && pieces[i].memory) i++;
    if (i < PIECES) pieces[i] = (Piece){ memory, size };
    pthread_mutex_unlock(&lock);
    if (i == PIECES) munmap(memory, size);
    return i < PIECES ? memory : NULL;
}

void held_give_back(void *memory)
{
    Piece piece = { 0 };
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].memory == memory) {
            piece = pieces[i];
            pieces[i] = (Piece){ 0 };
        }
    pthread_mutex_unlock(&lock);
    if (piece.memory) munmap(piece.memory, piece.size);
}
