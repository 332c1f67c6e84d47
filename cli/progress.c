/* progress.c: the bar, the lines and the key=value blocks. */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BAR_SECONDS     0.2
#define LINE_SECONDS    10.0
#define MACHINE_SECONDS 0.5

/* "3", or "-" for standard output. The names that a system gives its descriptors mean them too: opened as files they would be cut to nothing. */
static bool names_descriptor(const char *to, long *number)
{
    static const char *const prefix[] = { "", "/dev/fd/", "/proc/self/fd/" };
    char *end;
    *number = strcmp(to, "/dev/stderr") ? STDOUT_FILENO : STDERR_FILENO;
    if (!strcmp(to, "-") || !strcmp(to, "/dev/stdout") || !strcmp(to, "/dev/stderr")) return true;
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(prefix[i]);
        if (strncmp(to, prefix[i], n) || !to[n]) continue;
        *number = strtol(to + n, &end, 10);
        if (!*end) return true;
    }
    return false;
}

/* By its number, its name, or what either leads to. */
static bool is_stdout(const char *to)
{
    struct stat place;
    long number;
    const bool descriptor = names_descriptor(to, &number);
    if (descriptor && number == STDOUT_FILENO) return true;
    return !(descriptor ? fstat((int)number, &place) : stat(to, &place)) && leads_to_stdout(&place);
}

int progress_spares_stdout(const char *to, const char *other)
{
    if (!to || !other || !is_stdout(to)) return EXIT_DONE;
    return fail(EXIT_USAGE, "--progress %s is standard output, and so is %s: one of them", to, other);
}

int progress_check(const char *to)
{
    long number;
    if (!to || !names_descriptor(to, &number)) return EXIT_DONE;
    if (number >= 0 && number <= 1 << 20 && fcntl((int)number, F_GETFD) >= 0) return EXIT_DONE;
    return fail(EXIT_USAGE, "--progress %s: is no open descriptor", to);
}

/* A file that is new now must be so when it is opened: nothing that was made meanwhile is meant. */
static int flags_of(const char *to, bool append)
{
    struct stat info;
    if (stat(to, &info)) return O_CREAT | O_EXCL;
    return !S_ISREG(info.st_mode) ? 0 : append ? O_APPEND : O_TRUNC;
}

int progress_place(Progress *p, const char *to, const char *pattern, bool overwrite, bool goes_on)
{
    long number;
    p->to = to;
    if (!to || names_descriptor(to, &number)) return EXIT_DONE;
    p->flags = O_WRONLY | O_CLOEXEC | flags_of(to, goes_on && !overwrite);
    return output_in_place(to, pattern, overwrite || goes_on);
}

int progress_begin(Progress *p, int64_t total, double rate, bool quiet)
{
    long number;
    *p = (Progress){ .total = total, .rate = rate, .quiet = quiet, .machine = -1, .to = p->to, .flags = p->flags, .start = seconds_now() };
    p->bar = !quiet && isatty(2) && getenv("TERM") && strcmp(getenv("TERM"), "dumb");
    p->shown = p->told = p->start;
    if (!p->to) return EXIT_DONE;
    p->owns = !names_descriptor(p->to, &number);
    p->machine = p->owns ? open(p->to, p->flags, 0666) : (int)number;
    return p->machine < 0 ? fail(EXIT_OUTPUT, "--progress %s: cannot be opened: %s", p->to, strerror(errno)) : EXIT_DONE;
}

static void clock_text(double seconds, char *text, size_t size)
{
    const long s = seconds > 0 && seconds < 3.6e6 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600) snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else snprintf(text, size, "%ld:%02ld", s / 60, s % 60);
}

static double speed_of(const Progress *p)
{
    const double took = seconds_now() - p->start;
    return took > 0 ? (double)(p->frames - p->resumed) / took : 0;
}

/* Memory of this process, MiB. */
static double memory_now(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void show(Progress *p)
{
    char left[32] = "?", took[32];
    const double speed = speed_of(p), share = p->total > 0 ? (double)p->frames / (double)p->total : 0;
    clock_text(seconds_now() - p->start, took, sizeof took);
    if (p->total > 0 && speed > 0) clock_text((double)(p->total - p->frames) / speed, left, sizeof left);
    if (p->bar) {
        char bar[31];
        const int full = share < 1 ? (int)(share * 30) : 30;
        for (int i = 0; i < 30; i++) bar[i] = i < full ? '#' : '.';
        bar[30] = 0;
        if (p->total > 0)
            fprintf(stderr, "\r[%s] %3.0f %%  %lld/%lld  %.2f fps  %s, %s left  %.0f MiB \033[K", bar,
                    100 * (share < 1 ? share : 1), (long long)p->frames, (long long)p->total, speed, took, left,
                    memory_now());
        else
            fprintf(stderr, "\r%lld frames  %.2f fps  %s  %.0f MiB \033[K", (long long)p->frames, speed, took,
                    memory_now());
    } else if (p->total > 0)
        fprintf(stderr, "snls %s: frame %lld of %lld (%.0f %%), %.2f fps, %s left\n", command_name,
                (long long)p->frames, (long long)p->total, 100 * (share < 1 ? share : 1), speed, left);
    else fprintf(stderr, "snls %s: frame %lld, %.2f fps\n", command_name, (long long)p->frames, speed);
}

/* No reason to stop. A pipe whose reader has gone is his matter; anything else, a full disk most likely, is worth a line. */
static void give_up(Progress *p, int error)
{
    if (error != EPIPE && !p->quiet)
        fprintf(stderr, "%ssnls %s: --progress %s: cannot be written: %s; the run goes on without\n", p->bar ? "\r\033[K" : "", command_name, p->to, strerror(error));
    if (p->owns) close(p->machine);
    p->machine = -1;
}

/* The keys of ffmpeg -progress, as front-ends read them. */
static void tell(Progress *p, const char *state)
{
    char text[512];
    const double speed = speed_of(p), seconds = p->rate > 0 ? (double)p->frames / p->rate : 0;
    const long long us = (long long)(seconds * 1e6);
    const int n =
        snprintf(text, sizeof text,
                 "frame=%lld\nfps=%.2f\ntotal_frames=%lld\nout_time_us=%lld\nout_time_ms=%lld\n"
                 "out_time=%02lld:%02lld:%02lld.%06lld\nspeed=%.3gx\nprogress=%s\n",
                 (long long)p->frames, speed, (long long)p->total, us, us, us / 3600000000, us / 60000000 % 60,
                 us / 1000000 % 60, us % 1000000, p->rate > 0 ? speed / p->rate : 0, state);
    if (write(p->machine, text, (size_t)n) < 0) give_up(p, errno);
}

void progress_frame(Progress *p, int64_t frames)
{
    const double now = seconds_now();
    p->frames = frames;
    if (p->total > 0 && p->total < frames) p->total = frames; /* more than the file tells, as where files were joined */
    if (!p->quiet && now - p->shown >= (p->bar ? BAR_SECONDS : LINE_SECONDS)) {
        p->shown = now;
        show(p);
    }
    if (p->machine >= 0 && now - p->told >= MACHINE_SECONDS) {
        p->told = now;
        tell(p, "continue");
    }
}

void progress_end(Progress *p, bool good)
{
    if (p->bar && p->frames) {
        show(p);
        fprintf(stderr, "\n");
    }
    if (p->machine >= 0) tell(p, good ? "end" : "error");
    if (p->owns && p->machine >= 0) close(p->machine);
    p->machine = -1;
}
