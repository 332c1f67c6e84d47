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

/* The option that a field of readers' and writers' params is set by, where the sentence at `at` names one; *length: of that name. */
static const char *option_at(const char *at, size_t *length)
{
    static const char *const names[][2] = { { "params.codec", "--vcodec" },
                                            { "params.format", "--pix-fmt" },
                                            { "params.options holds", "--enc-opt is" },
                                            { "params.options", "--enc-opt" },
                                            { "params.crf", "--crf" },
                                            { "params.lenient", "--lenient" },
                                            { "params.progressive", "--progressive" },
                                            { "params.first", "--first" },
                                            { "params.no_copy", "--no-copy" },
                                            { "params.overwrite_journal", "-y" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(at, names[i][0], *length = strlen(names[i][0]))) return names[i][1];
    return NULL;
}

/* A sentence of the library, with options for fields. Words only: a file may be called params.first. */
static void name_options(const char *text, char *to, size_t size)
{
    size_t used = 0, length;
    const char *said = strstr(text, ": "); /* behind the name of a file, which may hold such words too */
    bool word = false;
    if (!strncmp(text, "writer: params.", 15)) text += 8, word = true;
    if (word || !said) said = text;
    for (; *text && used + 1 < size; text += length) {
        const char *option = word && text >= said ? option_at(text, &length) : NULL;
        if (!option) length = 1;
        const int n = snprintf(to + used, size - used, "%.*s", option ? (int)strlen(option) : 1, option ? option : text);
        used += (size_t)n;
        word = *text == ' ' || *text == '(';
    }
    to[used < size ? used : size - 1] = 0;
}

static char **words; /* of the command line, behind the command */

void words_note(char **argv) { words = argv; }

static bool is_word(const char *text, size_t length)
{
    for (char **w = words; w && *w; w++) {
        const char *value = **w == '-' && strchr(*w, '=') ? strchr(*w, '=') + 1 : *w;
        if (strlen(value) == length && !strncmp(value, text, length)) return true;
    }
    return false;
}

const char *without_area(const char *text)
{
    static const char *const areas[] = { "denoise", "model", "model_open", "model_run", "model_stream", "model_stream_open", "pipeline", "train" };
    const char *end = strstr(text, ": ");
    const size_t length = end ? (size_t)(end - text) : 0;
    for (size_t i = 0; i < sizeof areas / sizeof *areas; i++)
        if (length == strlen(areas[i]) && !strncmp(text, areas[i], length) && !is_word(text, length)) return end + 2;
    return text;
}

int fail_text(SnlsStatus status, bool writing, const char *text)
{
    char named[1024];
    name_options(text && *text ? without_area(text) : snls_status_text(status), named, sizeof named);
    return fail(code_of(status, writing), "%s", named);
}

int fail_library(SnlsContext *ctx, SnlsStatus status, bool writing) { return fail_text(status, writing, snls_error(ctx)); }

int fail_found(SnlsContext *ctx, SnlsStatus status, bool writing)
{
    return status == SNLS_ERR_ARG ? fail(EXIT_OTHER, "%s", without_area(snls_error(ctx))) : fail_library(ctx, status, writing);
}

static bool reader_gone(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
    return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

int fail_clip(SnlsStatus status, bool writing, const char *path, const char *text)
{
    const int code = code_of(status, writing);
    return code == EXIT_OUTPUT && !strcmp(path, "-") && reader_gone() ? code : fail_text(status, writing, text);
}

int flush_stdout(void)
{
    if (!ferror(stdout)) errno = 0; /* else that of the print which failed */
    if (!fflush(stdout) && !ferror(stdout)) return EXIT_DONE;
    return fail(EXIT_OUTPUT, "standard output cannot be written: %s%s", strerror(errno ? errno : EIO),
                outputs_committed() ? "; the outputs are complete" : "");
}

void guard_streams(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        /* read-only, so that printing to a closed stdout still is the error it should be */
        if (open("/dev/null", O_RDONLY) != fd) _exit(EXIT_OTHER);
    }
}
