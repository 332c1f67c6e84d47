/* ffmpeg_input.c: bytes for libavformat that it cannot fetch itself: of pipes and devices, whose beginning is looked at and
 * which come once; and y4m, whose first line it reads to 96 bytes only. All other files it opens by name. */
#define _POSIX_C_SOURCE 200809L
#include "video/ffmpeg.h"
#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
#include <libavutil/imgutils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "YUV4MPEG2 "
enum { MAGIC_SIZE = sizeof MAGIC - 1, LINE_MOST = 1 << 16, BUFFER = 1 << 15 };

/* Regular files are looked at too; their beginning tells whether they are y4m. */
static SnlsStatus open_file(SnlsReader *r, SnlsAvInput *in)
{
    struct stat info;
    in->pipe = true;
    if (!strcmp(r->path, "-")) return in->fd = STDIN_FILENO, SNLS_OK;
    in->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    SNLS_REQUIRE(r->ctx, in->fd >= 0, SNLS_ERR_IO, "%s: cannot be opened: %s", snls_io_name(r->path).text,
                 strerror(errno));
    in->pipe = !fstat(in->fd, &info) && !S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode);
    in->closes = true;
    return SNLS_OK;
}

static int64_t read_some(int fd, void *to, int64_t size)
{
    int64_t n;
    do n = read(fd, to, (size_t)size);
    while (n < 0 && errno == EINTR);
    return n;
}

static bool is_y4m(const SnlsAvInput *in) { return in->size >= MAGIC_SIZE && !memcmp(in->head, MAGIC, MAGIC_SIZE); }

static const uint8_t *line_end(const SnlsAvInput *in) { return memchr(in->head, '\n', (size_t)in->size); }

/* As much as tells what it is: the first word, of y4m the first line. More may come along. */
static SnlsStatus read_head(SnlsReader *r, SnlsAvInput *in)
{
    in->head = snls_mem_alloc(&r->ctx->allocator, LINE_MOST);
    SNLS_REQUIRE(r->ctx, in->head, SNLS_ERR_MEMORY, "%s: out of memory", snls_io_name(snls_reader_name(r)).text);
    while (in->size < MAGIC_SIZE || (is_y4m(in) && !line_end(in) && in->size < LINE_MOST)) {
        const int64_t room = (in->size < MAGIC_SIZE ? MAGIC_SIZE : LINE_MOST) - in->size,
                      n = read_some(in->fd, in->head + in->size, room);
        SNLS_REQUIRE(r->ctx, n >= 0, SNLS_ERR_IO, "%s: cannot be read: %s", snls_io_name(snls_reader_name(r)).text,
                     strerror(errno));
        if (!n) break;
        in->size += n;
    }
    in->taken = in->size;
    return SNLS_OK;
}

/* The word of the line that begins so, behind its letters; NULL where there is none. */
static const char *word(const char *line, const char *begin)
{
    const char *at = strstr(line, begin);
    return at ? at + strlen(begin) : NULL;
}

static SnlsStatus check_size(SnlsReader *r, const char *line)
{
    const char *w = word(line, " W"), *h = word(line, " H");
    const long long width = w ? strtoll(w, NULL, 10) : 0, height = h ? strtoll(h, NULL, 10) : 0;
    const bool fits = width > 0 && height > 0 && width <= INT32_MAX && height <= INT32_MAX &&
                      av_image_check_size((unsigned)width, (unsigned)height, 0, NULL) >= 0;
    SNLS_REQUIRE(r->ctx, fits, SNLS_ERR_FORMAT,
                 "%s: its y4m header gives frames of %lld x %lld pixels, which FFmpeg does not take",
                 snls_io_name(snls_reader_name(r)).text, width, height);
    return SNLS_OK;
}

/* Leaves out words that the demuxer does not look at. Returns the new end. */
static char *drop_words(char *line)
{
    const bool has_format = word(line, " C");
    char *to = line + MAGIC_SIZE - 1;
    for (char *from = to; *from;) {
        const size_t size = 1 + strcspn(from + 1, " "); /* with the space before it */
        const bool unknown =
            from[1] == 'X' && strncmp(from, " XCOLORRANGE=", 13) && (has_format || strncmp(from, " XYSCSS=", 8));
        if (!unknown && size > 1) memmove(to, from, size), to += size;
        from += size;
    }
    *to = 0;
    return to;
}

/* The first line as short as it can be; what had come behind it moves up. */
static SnlsStatus shorten(SnlsReader *r, SnlsAvInput *in)
{
    char *line = (char *)in->head, *end = (char *)line_end(in);
    SNLS_REQUIRE(r->ctx, end, SNLS_ERR_FORMAT, "%s: ends inside the first line of y4m, or that has more than %d bytes",
                 snls_io_name(snls_reader_name(r)).text, (int)LINE_MOST);
    *end = 0;
    SNLS_TRY(check_size(r, line));
    char *to = drop_words(line);
    snprintf(in->line, sizeof in->line, "%s", line);
    memmove(to, end, (size_t)(in->size - (end - line)));
    *to = '\n';
    in->size -= end - to;
    return SNLS_OK;
}

/* ---- what libavformat calls ---- */

static int input_read(void *opaque, uint8_t *to, int size)
{
    SnlsAvInput *in = opaque;
    const int64_t rest = in->size - in->at;
    if (rest > 0 && size > rest) size = (int)rest;
    if (rest > 0) memcpy(to, in->head + in->at, (size_t)size);
    const int64_t n = rest > 0 ? size : read_some(in->fd, to, size);
    if (n > 0) in->at += n;
    return n < 0 ? AVERROR(errno) : n ? (int)n : AVERROR_EOF;
}

static int64_t input_seek(void *opaque, int64_t at, int whence)
{
    SnlsAvInput *in = opaque;
    struct stat info;
    if (whence & AVSEEK_SIZE) return fstat(in->fd, &info) ? AVERROR(errno) : info.st_size - in->taken + in->size;
    if ((whence & ~AVSEEK_FORCE) != SEEK_SET || at < 0) return AVERROR(EINVAL);
    if (lseek(in->fd, in->taken + (at > in->size ? at - in->size : 0), SEEK_SET) < 0) return AVERROR(errno);
    return in->at = at;
}

static SnlsStatus give(SnlsReader *r, SnlsAvReader *a)
{
    uint8_t *buffer = av_malloc(BUFFER);
    a->in = avformat_alloc_context();
    a->input.io = buffer && a->in ? avio_alloc_context(buffer, BUFFER, 0, &a->input, input_read, NULL,
                                                       a->input.pipe ? NULL : input_seek)
                                  : NULL;
    if (!a->input.io) av_free(buffer);
    SNLS_REQUIRE(r->ctx, a->input.io, SNLS_ERR_MEMORY, "%s: out of memory", snls_io_name(snls_reader_name(r)).text);
    a->in->pb = a->input.io;
    return SNLS_OK;
}

SnlsStatus snls_av_input_open(SnlsReader *r, SnlsAvReader *a)
{
    SnlsAvInput *in = &a->input;
    const SnlsName name = snls_io_name(snls_reader_name(r));
    SNLS_TRY(open_file(r, in));
    SNLS_TRY(read_head(r, in));
    SNLS_REQUIRE(r->ctx, in->size, SNLS_ERR_FORMAT, "%s: is empty", name.text);
    if (is_y4m(in)) SNLS_TRY(shorten(r, in));
    SNLS_REQUIRE(r->ctx, is_y4m(in) || strcmp(r->path, "-"), SNLS_ERR_FORMAT,
                 "%s: is no y4m, which begins with YUV4MPEG2", name.text);
    if (is_y4m(in) || in->pipe) return give(r, a);
    snls_av_input_close(r, a);
    return SNLS_OK;
}

void snls_av_input_close(SnlsReader *r, SnlsAvReader *a)
{
    SnlsAvInput *in = &a->input;
    if (in->io) av_freep(&in->io->buffer);
    avio_context_free(&in->io);
    if (in->closes) close(in->fd);
    snls_mem_free(&r->ctx->allocator, in->head);
    *in = (SnlsAvInput){ 0 };
}
