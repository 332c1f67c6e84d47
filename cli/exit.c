/* exit.c: errors are one line on stderr and an exit code; standard streams that are closed or full are errors too. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *command_name;
static bool failed;

/* A file name may hold anything; the line stays a line. */
static void one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
}

int fail(int code, const char *format, ...)
{
    if (failed) return code; /* the first error is the cause, the rest follows from it */
    failed = true;
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    one_line(text);
    fprintf(stderr, "snls%s%s: %s\n", command_name ? " " : "", command_name ? command_name : "", text);
    return code;
}

int code_of(SnlsStatus status, bool writing)
{
    switch (status) {
    case SNLS_OK:
    case SNLS_END:
    case SNLS_UNCOVERED: return EXIT_DONE;
    case SNLS_ERR_ARG: return EXIT_USAGE;
    case SNLS_ERR_SHAPE: return EXIT_INPUT;
    case SNLS_ERR_MEMORY: return EXIT_MEMORY;
    case SNLS_ERR_UNSUPPORTED: return EXIT_UNSUPPORTED;
    case SNLS_ERR_DEVICE: return EXIT_DEVICE;
    case SNLS_ERR_IO: return writing ? EXIT_OUTPUT : EXIT_INPUT;
    case SNLS_ERR_FORMAT: return EXIT_INPUT;
    }
    return EXIT_OTHER;
}

int fail_library(SnlsContext *ctx, SnlsStatus status, bool writing)
{
    const char *text = snls_error(ctx);
    return fail(code_of(status, writing), "%s", text && *text ? text : snls_status_text(status));
}

static bool reader_gone(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
    return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

int fail_clip(int code, const char *path, const char *text)
{
    return code == EXIT_OUTPUT && !strcmp(path, "-") && reader_gone() ? code : fail(code, "%s", text);
}

int flush_stdout(void)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return EXIT_DONE;
    return fail(EXIT_OUTPUT, "standard output cannot be written: %s", strerror(errno ? errno : EIO));
}

void guard_streams(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        /* read-only, so that printing to a closed stdout still is the error it should be */
        if (open("/dev/null", O_RDONLY) != fd) _exit(EXIT_OTHER);
    }
}
