/* cgroup.c: limits of control groups. /proc/self/cgroup says which groups the process is in, /proc/self/mountinfo where their folders are. A limit binds everything below
 * it, so the least on the way up to the mount counts. In a container that sees only its own group both say "/", and the mount is that group. */
#define _POSIX_C_SOURCE 200809L
#include "base/cgroup.h"
#include "snls/context.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 4096 }; /* of a line and of a path, with its end; longer ones are passed over */

/* One hierarchy of groups. */
typedef struct Tree {
    const char *controller; /* "cpu", "memory" (version 1); NULL: version 2, which has them all */
    char mount[LONGEST], root[LONGEST]; /* where it is seen, and which of its groups is seen there */
    char group[LONGEST];    /* of this process */
} Tree;

static FILE *open_under(const char *root, const char *path, const char *name)
{
    char all[3 * LONGEST];
    const int length = snprintf(all, sizeof all, "%s%s%s", root, path, name);
    return length > 0 && (size_t)length < sizeof all ? fopen(all, "r") : NULL;
}

/* A line without its end; 0: there is none. Of one that is too long, nothing. */
static int next_line(FILE *file, char line[LONGEST])
{
    if (!fgets(line, LONGEST, file)) return 0;
    const size_t length = strcspn(line, "\n");
    if (line[length] != '\n') {
        for (int c = fgetc(file); c != EOF && c != '\n';) c = fgetc(file);
        line[0] = 0;
        return 1;
    }
    line[length] = 0;
    return 1;
}

/* Whether a list separated by commas has this word. */
static int lists(const char *list, size_t length, const char *word)
{
    const size_t size = strlen(word);
    for (const char *at = list, *end = list + length; at < end;) {
        const size_t left = (size_t)(end - at);
        const char *comma = memchr(at, ',', left);
        const size_t one = comma ? (size_t)(comma - at) : left;
        if (one == size && !memcmp(at, word, size)) return 1;
        at += one + 1;
    }
    return 0;
}

/* "4:memory:/a/b", "0::/a/b" */
static int find_group(const char *root, Tree *t)
{
    char line[LONGEST];
    FILE *file = open_under(root, "/proc/self/cgroup", "");
    int found = 0;
    while (file && !found && next_line(file, line)) {
        const char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        const size_t length = (size_t)(group - names - 1);
        found = t->controller ? lists(names + 1, length, t->controller) : length == 0 && line[0] == '0';
        if (found) memcpy(t->group, group + 1, strlen(group + 1) + 1);
    }
    if (file) fclose(file);
    return found;
}

/* "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu" */
static int find_mount(const char *root, Tree *t)
{
    char line[LONGEST], type[64], options[LONGEST];
    FILE *file = open_under(root, "/proc/self/mountinfo", "");
    int found = 0;
    while (file && !found && next_line(file, line)) {
        const char *kind = strstr(line, " - ");
        if (!kind || sscanf(kind, " - %63s %*s %4095s", type, options) != 2 || sscanf(line, "%*s %*s %*s %4095s %4095s", t->root, t->mount) != 2) continue;
        found = t->controller ? !strcmp(type, "cgroup") && lists(options, strlen(options), t->controller) : !strcmp(type, "cgroup2");
    }
    if (file) fclose(file);
    return found;
}

/* The folder of the process's group, and how much of its name is the mount's, above which there is nothing to see. A group that is not below what is mounted (".." says so where it is outside) is
 * not to be seen either: then the mount itself. */
static size_t folder_of(const Tree *t, char folder[2 * LONGEST])
{
    const size_t root = strcmp(t->root, "/") ? strlen(t->root) : 0;
    const int below = !strncmp(t->group, t->root, root) && t->group[root] == '/' && !strstr(t->group, "/..");
    const int whole = !strcmp(t->group, t->root) || !below;
    snprintf(folder, 2 * LONGEST, "%s%s", t->mount, whole ? "" : t->group + root);
    return strlen(t->mount);
}

/* The least limit of a folder and those above it, as `read` finds it; INFINITY: none. */
static double least_limit(const char *root, Tree *t, double (*read)(const char *root, const char *folder))
{
    char folder[2 * LONGEST];
    double least = INFINITY;
    if (!find_group(root, t) || !find_mount(root, t)) return INFINITY;
    const size_t top = folder_of(t, folder);
    for (size_t length = strlen(folder); length >= top; length = strlen(folder)) {
        least = fmin(least, read(root, folder));
        char *slash = strrchr(folder, '/');
        if (length == top || !slash) break;
        *slash = 0;
    }
    return least;
}

/* Up to two numbers of a file; how many there are. */
static int numbers(const char *root, const char *folder, const char *name, long long n[2])
{
    FILE *file = open_under(root, folder, name);
    if (!file) return 0;
    const int read = fscanf(file, "%lld %lld", &n[0], &n[1]);
    fclose(file);
    return read < 0 ? 0 : read;
}

static double processors(long long quota, long long period) { return quota > 0 && period > 0 ? ceil((double)quota / (double)period) : INFINITY; }

/* "150000 100000": microseconds of every so many; "max 100000" */
static double processors_v2(const char *root, const char *folder)
{
    long long n[2];
    return numbers(root, folder, "/cpu.max", n) == 2 ? processors(n[0], n[1]) : INFINITY;
}

static double processors_v1(const char *root, const char *folder)
{
    long long quota[2], period[2];
    return numbers(root, folder, "/cpu.cfs_quota_us", quota) == 1 && numbers(root, folder, "/cpu.cfs_period_us", period) == 1 ? processors(quota[0], period[0]) : INFINITY;
}

static double bytes_of(const char *root, const char *folder, const char *name)
{
    long long n[2];
    return numbers(root, folder, name, n) == 1 && n[0] > 0 ? (double)n[0] : INFINITY;
}

static double memory_v2(const char *root, const char *folder) { return bytes_of(root, folder, "/memory.max"); }
static double memory_v1(const char *root, const char *folder) { return bytes_of(root, folder, "/memory.limit_in_bytes"); }

/* Some machines have both versions side by side. */
static double least_of_both(const char *root, const char *controller, double (*v1)(const char *, const char *), double (*v2)(const char *, const char *))
{
    Tree tree = {.controller = controller};
    const double old = least_limit(root, &tree, v1);
    tree.controller = NULL;
    return fmin(old, least_limit(root, &tree, v2));
}

int32_t snls_cgroup_processors(const char *root)
{
    const double least = least_of_both(root, "cpu", processors_v1, processors_v2);
    return least < (double)INT32_MAX ? (int32_t)least : 0;
}

int64_t snls_cgroup_memory(const char *root)
{
    const double least = least_of_both(root, "memory", memory_v1, memory_v2);
    return least < (double)(INT64_MAX / 2) ? (int64_t)least : 0;
}

int64_t snls_memory_limit(void)
{
    const int64_t group = snls_cgroup_memory("");
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const int64_t machine = pages > 0 && page > 0 && pages <= INT64_MAX / page ? (int64_t)pages * page : 0;
    return group && (!machine || group < machine) ? group : machine;
}
