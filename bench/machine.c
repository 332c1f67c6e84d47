/* machine.c: what the machine is, as far as the system tells, and the memory of this process. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* AArch64's processors give numbers, not names. */
static void name_part(char *model, size_t size, unsigned long implementer, unsigned long part)
{
    static const struct { unsigned long part; const char *name; } arm[] = {
        {0xd0c, "Neoverse-N1"}, {0xd40, "Neoverse-V1"}, {0xd49, "Neoverse-N2"}, {0xd4f, "Neoverse-V2"}, {0xd0b, "Cortex-A76"}, {0xd42, "Cortex-A78AE"}};
    snprintf(model, size, "AArch64, implementer 0x%lx, part 0x%lx", implementer, part);
    for (size_t i = 0; implementer == 0x41 && i < sizeof arm / sizeof *arm; i++)
        if (arm[i].part == part) snprintf(model, size, "%s", arm[i].name);
}

static void read_model(char *model, size_t size)
{
    char line[512];
    unsigned long implementer = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(model, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (!value) continue;
        if (!strncmp(line, "CPU implementer", 15)) implementer = strtoul(value + 1, NULL, 0);
        if (!strncmp(line, "CPU part", 8)) {
            name_part(model, size, implementer, strtoul(value + 1, NULL, 0));
            break;
        }
        if (strncmp(line, "model name", 10)) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(model, size, "%.*s", (int)size - 1, value + 1 + strspn(value + 1, " \t"));
        break;
    }
    if (file) fclose(file);
}

static bool read_word(int index, const char *name, char *word, size_t size)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *file = fopen(path, "r");
    const bool read = file && fgets(word, (int)size, file);
    if (file) fclose(file);
    return read;
}

/* Bytes of the first processor's data cache of a level; 0 where the system does not say. */
static double cache_size(int level)
{
    char word[64];
    for (int index = 0; index < 8 && read_word(index, "level", word, sizeof word); index++) {
        if (atoi(word) != level) continue;
        if (!read_word(index, "type", word, sizeof word) || !strncmp(word, "Instruction", 11)) continue;
        if (!read_word(index, "size", word, sizeof word)) continue;
        char *unit;
        const double size = strtod(word, &unit);
        return size * (*unit == 'K' ? 1024 : *unit == 'M' ? 1048576 : 1);
    }
    return 0;
}

void bench_machine(BenchMachine *m)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    read_model(m->model, sizeof m->model);
#if defined(__clang__)
    m->compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
    m->compiler = "gcc " __VERSION__;
#else
    m->compiler = "unknown";
#endif
    m->cores = cores > 0 ? (int32_t)cores : 1;
    const int64_t limit = snls_memory_limit(); /* of a container it may be far less than the machine has */
    m->memory = limit > 0 ? (double)limit : 1073741824.0;
    m->l1 = cache_size(1);
    m->l2 = cache_size(2);
    m->l3 = cache_size(3);
    m->is_known = m->l1 > 0 && m->l2 > 0;
    if (!m->is_known) m->l1 = 32 << 10, m->l2 = 1 << 20, m->l3 = 16 << 20;
}

/* A line "VmHWM:   1234 kB" of the process's status; -1 where there is none. */
static double status_bytes(const char *name)
{
    char line[256];
    long long kilobytes = -1;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), " %lld", &kilobytes);
    fclose(file);
    return kilobytes < 0 ? -1 : 1024.0 * (double)kilobytes;
}

double bench_rss(void)
{
    const double bytes = status_bytes("VmRSS:");
    return bytes < 0 ? 0 : bytes;
}

void bench_rss_reset(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file); /* Linux: the high-water mark starts again from what is resident */
    fclose(file);
}

double bench_rss_peak(void)
{
    const double bytes = status_bytes("VmHWM:");
    if (bytes >= 0) return bytes;
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : 1024.0 * (double)usage.ru_maxrss;
}
