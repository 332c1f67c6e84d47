/* writer.c: which kind writes a path, and frames in the writer's format. */
#include "base/options.h"
#include "io/file.h"
#include "video/kind.h"
#include <snls/io.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void snls_writer_defaults(SnlsWriterParams *params)
{
    if (params) *params = (SnlsWriterParams){ .crf = -1 };
}

/* 100%.mp4 is a name like any other, and so is a.mp4 in whatever folder. */
static bool is_numbered(const char *name)
{
    char first[SNLS_PATH_MAX];
    const char *slash = strrchr(name, '/');
    return snls_path_number(slash ? slash + 1 : name, 0, first, sizeof first);
}

static SnlsStatus choose_kind(SnlsWriter *w)
{
    struct stat info;
    const SnlsVideoBackend *backend;
    const bool folder = !stat(w->path, &info) && S_ISDIR(info.st_mode);
    if (folder || is_numbered(w->name) || snls_path_ends(w->name, ".png"))
        return w->kind = &snls_images_writer, SNLS_OK;
    if (snls_path_ends(w->name, ".npy")) return w->kind = &snls_npy_writer, SNLS_OK;
    SNLS_TRY(snls_ffmpeg_load(w->ctx, w->name, &backend));
    w->kind = backend->writer;
    return SNLS_OK;
}

/* Opening would empty the clip that is yet to be read. One picture has been read already. */
static bool is_input(const SnlsWriter *w, const SnlsReader *like)
{
    struct stat in, out;
    if (like->kind == &snls_images_reader || stat(like->path, &in) || stat(w->path, &out)) return false;
    return S_ISREG(in.st_mode) && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
}

static SnlsStatus open_writer(SnlsWriter *w)
{
    const SnlsReader *like = w->params.like;
    SNLS_REQUIRE(w->ctx, !is_input(w, like), SNLS_ERR_ARG, "%s: is the clip that is read, write to another name and rename it when all is done", snls_io_name(w->path).text);
    SNLS_TRY(choose_kind(w));
    SNLS_TRY(w->kind->open(w));
    const bool frames_alone = w->kind == &snls_images_writer || w->kind == &snls_npy_writer;
    if (frames_alone && like->kind->note_beside) like->kind->note_beside(like, w);
    return SNLS_OK;
}

static SnlsStatus check_params(SnlsContext *ctx, const SnlsWriterParams *p)
{
    SNLS_REQUIRE(ctx, p->crf < 0 || p->crf <= 63, SNLS_ERR_ARG, "writer: crf is %g, must be 0 to 63, or negative for the default", p->crf); /* nor NaN */
    SNLS_TRY(snls_flag_check(ctx, "writer", "lossless", p->lossless));
    SNLS_TRY(snls_flag_check(ctx, "writer", "no_copy", p->no_copy));
    SNLS_TRY(snls_flag_check(ctx, "writer", "listen", p->listen));
    SNLS_TRY(snls_threads_check(ctx, "writer", p->threads));
    return snls_reserved_check(ctx, "writer", "snls_writer_defaults", p->reserved, sizeof p->reserved / sizeof *p->reserved);
}

SnlsStatus snls_writer_open(SnlsWriter **out, SnlsContext *ctx, const char *path, const SnlsWriterParams *params)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, out, SNLS_ERR_ARG, "writer: out is NULL");
    *out = NULL;
    SNLS_REQUIRE(ctx, path && params && params->like, SNLS_ERR_ARG,
                 "writer: a path and a reader to be like are needed");
    SNLS_REQUIRE(ctx, *path && !(params->path && !*params->path), SNLS_ERR_ARG, "writer: %s is empty",
                 *path ? "params.path" : "the path");
    SNLS_TRY(check_params(ctx, params));
    const char *name = params->path ? params->path : path;
    SNLS_REQUIRE(ctx, strlen(path) < SNLS_PATH_MAX && strlen(name) < SNLS_PATH_MAX, SNLS_ERR_ARG,
                 "writer: the path is longer than %d bytes", SNLS_PATH_MAX - 1);
    SNLS_REQUIRE(ctx, params->like->peeked, SNLS_ERR_ARG,
                 "writer: the reader has given frames already, open the writer first");
    SnlsWriter *w = snls_mem_alloc(&ctx->allocator, sizeof *w);
    SNLS_REQUIRE(ctx, w, SNLS_ERR_MEMORY, "writer: out of memory");
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->params = *params;
    w->info = params->like->info;
    w->info.notes[0] = 0;
    snprintf(w->path, sizeof w->path, "%s", path);
    snprintf(w->name, sizeof w->name, "%s", name);
    const SnlsStatus status = open_writer(w);
    if (status < 0) snls_writer_close(&w);
    else w->params.like = NULL, w->params.path = w->params.codec = w->params.format = NULL, w->params.options = NULL; /* the caller's, who may free them now */
    *out = w;
    return status;
}

void snls_writer_info(const SnlsWriter *writer, SnlsVideoInfo *info)
{
    if (info) *info = writer ? writer->info : (SnlsVideoInfo){ 0 };
}

/* A frame of another reader may have other sizes, and fewer samples than would be read of it. */
static SnlsStatus check_size(SnlsWriter *w, const SnlsFrame *frame)
{
    const SnlsPixels *p = &frame->pixels;
    SNLS_REQUIRE(w->ctx, p->width == w->pixels.width && p->height == w->pixels.height, SNLS_ERR_SHAPE, "writer: a frame of %lldx%lld pixels, those of the reader it was opened for have %lldx%lld",
                 (long long)p->width, (long long)p->height, (long long)w->pixels.width, (long long)w->pixels.height);
    return SNLS_OK;
}

SnlsStatus snls_writer_make(SnlsWriter *w, const SnlsFrame *like, const float *pixels, SnlsFrame **frame)
{
    if (frame) *frame = NULL;
    if (!w) return SNLS_ERR_ARG;
    SNLS_REQUIRE(w->ctx, like && pixels && frame, SNLS_ERR_ARG, "writer: like, pixels or frame is NULL");
    SNLS_TRY(check_size(w, like));
    SNLS_TRY(w->kind->blank(w, like, frame));
    SnlsFrame *f = *frame;
    SnlsStatus status = snls_pixels_write(w->ctx, &f->pixels, &f->planes, pixels, snls_pixels_channels(&like->pixels));
    if (status >= 0) status = snls_pixels_alpha_copy(w->ctx, &like->pixels, &like->planes, &f->pixels, &f->planes);
    if (status < 0) snls_frame_free(frame);
    return status;
}

SnlsStatus snls_writer_unpack(SnlsWriter *w, const SnlsFrame *like, const void *bytes, int64_t size, SnlsFrame **frame)
{
    if (frame) *frame = NULL;
    if (!w) return SNLS_ERR_ARG;
    SNLS_REQUIRE(w->ctx, like && bytes && frame, SNLS_ERR_ARG, "writer: like, bytes or frame is NULL");
    SNLS_TRY(check_size(w, like));
    SNLS_TRY(w->kind->blank(w, like, frame));
    SnlsFrame *f = *frame;
    if (size == snls_pixels_bytes(&f->pixels)) return snls_pixels_unpack(&f->pixels, bytes, &f->planes), SNLS_OK;
    const long long wanted = (long long)snls_pixels_bytes(&f->pixels);
    snls_frame_free(frame);
    return snls_fail(w->ctx, SNLS_ERR_SHAPE, "writer: a frame has %lld bytes, %lld were given", wanted,
                     (long long)size);
}

/* Through floats: only where the formats differ. A clip whose format changes on the way may lose by it. */
static SnlsStatus convert(SnlsWriter *w, const SnlsFrame *from, SnlsFrame **to)
{
    const SnlsPixels *p = &from->pixels;
    if (!w->pixels.real && !snls_pixels_hold(&w->pixels, p)) w->info.lossless = 0;
    float *pixels =
        snls_mem_alloc(&w->ctx->allocator, p->width * p->height * snls_pixels_channels(p) * (int64_t)sizeof(float));
    SNLS_REQUIRE(w->ctx, pixels, SNLS_ERR_MEMORY, "writer: out of memory for a frame");
    SnlsStatus status = snls_pixels_read(w->ctx, p, &from->planes, pixels);
    if (status >= 0) status = snls_writer_make(w, from, pixels, to);
    snls_mem_free(&w->ctx->allocator, pixels);
    return status;
}

SnlsStatus snls_writer_write(SnlsWriter *w, const SnlsFrame *frame)
{
    if (!w) return SNLS_ERR_ARG;
    SNLS_REQUIRE(w->ctx, frame, SNLS_ERR_ARG, "writer: the frame is NULL");
    SNLS_REQUIRE(w->ctx, !w->finished, SNLS_ERR_ARG, "writer: is finished");
    SNLS_TRY(check_size(w, frame));
    SnlsFrame *converted = NULL;
    SnlsStatus status = SNLS_OK;
    if (!snls_pixels_same(&frame->pixels, &w->pixels)) status = convert(w, frame, &converted);
    if (status >= 0) status = w->kind->write(w, converted ? converted : frame);
    snls_frame_free(&converted);
    if (status >= 0) w->written++;
    if (status == SNLS_ERR_IO || status == SNLS_ERR_UNSUPPORTED) w->failed = status; /* UNSUPPORTED: the container has refused a packet */
    return status;
}

/* No reader takes a clip without a frame, some muxers do not write one, and of pictures there would be nothing. */
static SnlsStatus finish(SnlsWriter *w)
{
    SNLS_REQUIRE(w->ctx, w->written || w->failed < 0, SNLS_ERR_ARG, "%s: no frame was written, and a clip has at least one", snls_io_name(w->name).text);
    return w->kind->finish(w);
}

SnlsStatus snls_writer_finish(SnlsWriter *w)
{
    if (!w) return SNLS_ERR_ARG;
    const SnlsStatus status = w->finished ? SNLS_OK : finish(w);
    w->finished = true;
    if (status < 0) w->failed = status;
    SNLS_REQUIRE(w->ctx, status < 0 || w->failed >= 0, w->failed, "writer: the output is not complete, since writing it or the run that did failed");
    return status;
}

void snls_writer_close(SnlsWriter **writer)
{
    SnlsWriter *w = writer ? *writer : NULL;
    if (!w) return;
    *writer = NULL;
    if (w->kind) w->kind->close(w);
    snls_mem_free(&w->ctx->allocator, w);
}
