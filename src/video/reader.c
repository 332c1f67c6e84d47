/* reader.c: which kind reads a path, the first frame, and ranges of frames. */
#include "base/finite.h"
#include "base/options.h"
#include "io/file.h"
#include "video/kind.h"
#include <snls/io.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void snls_reader_defaults(SnlsReaderParams *params)
{
    if (params) *params = (SnlsReaderParams){ .rate = 25 };
}

static bool is_picture(const char *path)
{
    return snls_path_ends(path, ".png") || snls_path_ends(path, ".jpg") || snls_path_ends(path, ".jpeg");
}

SnlsStatus snls_reader_missing(SnlsReader *r)
{
    const bool glob = strpbrk(r->path, "*?");
    return snls_fail(r->ctx, SNLS_ERR_IO, "%s: is not there%s", snls_io_name(snls_reader_name(r)).text,
                     glob ? "; the folder, or a pattern such as %05d.png, takes many pictures" : "");
}

static SnlsStatus choose_kind(SnlsReader *r)
{
    struct stat info;
    const SnlsVideoBackend *backend;
    if (!strcmp(r->path, "-")) goto ffmpeg;
    const bool there = !stat(r->path, &info);
    if ((there && S_ISDIR(info.st_mode)) || (!there && strchr(r->path, '%')) || is_picture(r->path))
        return r->kind = &snls_images_reader, SNLS_OK;
    if (!there) return snls_reader_missing(r);
    SNLS_REQUIRE(r->ctx, !S_ISREG(info.st_mode) || info.st_size > 0, SNLS_ERR_FORMAT, "%s: is empty",
                 snls_io_name(snls_reader_name(r)).text);
    if (snls_path_ends(r->path, ".npy")) return r->kind = &snls_npy_reader, SNLS_OK;
ffmpeg:
    SNLS_TRY(snls_ffmpeg_load(r->ctx, r->path, &backend));
    r->kind = backend->reader;
    return SNLS_OK;
}

/* Frames before the first wanted are decoded and dropped, so that a range is the same frames whatever the codec. */
static SnlsStatus skip(SnlsReader *r)
{
    for (int64_t i = 0; !r->kind->skips && i < r->params.first; i++) {
        SnlsFrame *frame;
        const SnlsStatus status = r->kind->next(r, &frame);
        if (status == SNLS_END)
            return snls_fail(r->ctx, SNLS_ERR_ARG, "%s: has %lld frames, the first wanted is number %lld",
                             snls_io_name(snls_reader_name(r)).text, (long long)i, (long long)r->params.first);
        if (status < 0) return status;
        snls_frame_free(&frame);
    }
    return SNLS_OK;
}

static void count_frames(SnlsReader *r)
{
    SnlsVideoInfo *info = &r->info;
    if (info->frames >= 0) info->frames -= info->frames < r->params.first ? info->frames : r->params.first;
    if (r->params.count > 0 && (info->frames < 0 || info->frames > r->params.count)) info->frames = r->params.count;
}

static SnlsStatus open_reader(SnlsReader *r)
{
    SNLS_TRY(choose_kind(r));
    SNLS_TRY(r->kind->open(r));
    SNLS_TRY(skip(r));
    r->info.damaged_frames = 0; /* so far of frames that nobody is given */
    const SnlsStatus status = r->kind->next(r, &r->peeked);
    if (status == SNLS_END)
        return snls_fail(r->ctx, r->params.first ? SNLS_ERR_ARG : SNLS_ERR_FORMAT, "%s: holds no frame%s",
                         snls_io_name(snls_reader_name(r)).text, r->params.first ? " behind those that are skipped" : "");
    if (status < 0) return status;
    r->origin = r->params.first ? r->peeked->time : 0;
    r->info.width = r->peeked->pixels.width;
    r->info.height = r->peeked->pixels.height;
    r->info.channels = snls_pixels_channels(&r->peeked->pixels);
    r->info.depth = r->peeked->pixels.component[0].depth;
    count_frames(r);
    return SNLS_OK;
}

static SnlsStatus check_params(SnlsContext *ctx, const SnlsReaderParams *p)
{
    SNLS_REQUIRE(ctx, p->first >= 0 && p->count >= 0, SNLS_ERR_ARG, "reader: first is %lld and count %lld, must not be negative", (long long)p->first, (long long)p->count);
    SNLS_REQUIRE(ctx, p->rate == 0 || (p->rate >= 0.01 && p->rate <= 10000), SNLS_ERR_ARG, "reader: rate is %g, must be 0.01 to 10000, or 0 for 25", p->rate);
    SNLS_TRY(snls_flag_check(ctx, "reader", "lenient", p->lenient));
    SNLS_TRY(snls_flag_check(ctx, "reader", "progressive", p->progressive));
    SNLS_TRY(snls_flag_check(ctx, "reader", "listen", p->listen));
    SNLS_TRY(snls_threads_check(ctx, "reader", p->threads));
    return snls_reserved_check(ctx, "reader", "snls_reader_defaults", p->reserved, sizeof p->reserved / sizeof *p->reserved);
}

SnlsStatus snls_reader_open(SnlsReader **out, SnlsContext *ctx, const char *path, const SnlsReaderParams *params)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, out, SNLS_ERR_ARG, "reader: out is NULL");
    *out = NULL;
    SNLS_REQUIRE(ctx, path && *path, SNLS_ERR_ARG, "reader: the path is %s", path ? "empty" : "NULL");
    SNLS_REQUIRE(ctx, strlen(path) < SNLS_PATH_MAX, SNLS_ERR_ARG, "reader: the path is longer than %d bytes",
                 SNLS_PATH_MAX - 1);
    if (params) SNLS_TRY(check_params(ctx, params));
    SnlsReader *r = snls_mem_alloc(&ctx->allocator, sizeof *r);
    SNLS_REQUIRE(ctx, r, SNLS_ERR_MEMORY, "reader: out of memory");
    memset(r, 0, sizeof *r);
    r->ctx = ctx;
    r->info.frames = -1;
    if (params) r->params = *params;
    else snls_reader_defaults(&r->params);
    if (!(r->params.rate > 0)) r->params.rate = 25;
    snprintf(r->path, sizeof r->path, "%s", path);
    const SnlsStatus status = open_reader(r);
    if (status < 0) snls_reader_close(&r);
    *out = r;
    return status;
}

void snls_reader_info(const SnlsReader *reader, SnlsVideoInfo *info)
{
    if (info) *info = reader ? reader->info : (SnlsVideoInfo){ 0 };
}

static SnlsStatus check_size(SnlsReader *r, SnlsFrame **frame)
{
    const SnlsPixels *p = &(*frame)->pixels;
    if (p->width == r->info.width && p->height == r->info.height && snls_pixels_channels(p) == r->info.channels)
        return SNLS_OK;
    const SnlsStatus status = snls_fail(
        r->ctx,
        r->kind == &snls_images_reader ? SNLS_ERR_SHAPE
                                       : SNLS_ERR_UNSUPPORTED, /* pictures are shapes that do not agree */
        "%s: frame %lld is %lld x %lld pixels of %d channels, those before are %lld x %lld of %d",
        snls_io_name(snls_reader_name(r)).text, (long long)(r->params.first + r->given), (long long)p->width, (long long)p->height,
        (int)snls_pixels_channels(p), (long long)r->info.width, (long long)r->info.height, (int)r->info.channels);
    snls_frame_free(frame);
    return status;
}

#define LARGEST 1e9f

SnlsStatus snls_reader_check(SnlsReader *r, const SnlsPixels *p, const float *values, int64_t number)
{
    const int64_t channels = snls_pixels_channels(p), count = p->height * p->width * channels;
    if (snls_all_up_to(values, count, LARGEST)) return SNLS_OK;
    int64_t at = 0;
    while (fabsf(values[at]) <= LARGEST) at++;
    return snls_fail(r->ctx, SNLS_ERR_FORMAT, "%s: frame %lld holds %g at [%lld,%lld,%lld], every pixel must be finite and within %g", snls_io_name(snls_reader_name(r)).text, (long long)number,
                     (double)values[at], (long long)(at / channels / p->width), (long long)(at / channels % p->width), (long long)(at % channels), (double)LARGEST);
}

/* Samples that are whole numbers are small; those of arrays are looked at where they are read. */
static SnlsStatus check_reals(SnlsReader *r, SnlsFrame **frame)
{
    const SnlsPixels *p = &(*frame)->pixels;
    if (!p->real || r->kind == &snls_npy_reader) return SNLS_OK;
    float *values = snls_mem_alloc(&r->ctx->allocator, p->height * p->width * snls_pixels_channels(p) * (int64_t)sizeof(float));
    SnlsStatus status = values ? snls_frame_read(*frame, values) : SNLS_ERR_MEMORY;
    if (status < 0) snls_fail(r->ctx, status, "%s: out of memory for a frame", snls_io_name(snls_reader_name(r)).text);
    else status = snls_reader_check(r, p, values, r->params.first + r->given);
    snls_mem_free(&r->ctx->allocator, values);
    if (status < 0) snls_frame_free(frame);
    return status;
}

/* At the end, when all of it is known. */
static SnlsStatus tell_damage(SnlsReader *r)
{
    if (r->info.damaged_frames && !r->told_damage)
        snls_note(&r->info, "damaged frames: %d at least, the first about frame %lld (%.2f s): pictures or parts of them are wrong or missing",
                  (int)r->info.damaged_frames, (long long)r->damaged_first, r->damaged_time);
    r->told_damage = true;
    return SNLS_END;
}

static SnlsStatus give(SnlsReader *r, SnlsFrame **frame)
{
    if (r->ended || (r->params.count > 0 && r->given >= r->params.count)) return tell_damage(r);
    if (r->peeked) {
        *frame = r->peeked;
        r->peeked = NULL;
    } else {
        const SnlsStatus status = r->kind->next(r, frame);
        r->ended = status != SNLS_OK;
        if (status == SNLS_END) return tell_damage(r);
        if (status != SNLS_OK) return status;
    }
    SNLS_TRY(check_size(r, frame));
    SNLS_TRY(check_reals(r, frame));
    r->given++;
    return SNLS_OK;
}

SnlsStatus snls_reader_next(SnlsReader *r, SnlsFrame **frame)
{
    if (!r) return SNLS_ERR_ARG;
    SNLS_REQUIRE(r->ctx, frame, SNLS_ERR_ARG, "reader: the place for a frame is NULL");
    *frame = NULL;
    SNLS_REQUIRE(r->ctx, r->failed >= 0, r->failed, "%s: is not read on, since a frame could not be read", snls_io_name(snls_reader_name(r)).text);
    SNLS_REQUIRE(r->ctx, !r->lost, SNLS_ERR_ARG, "%s: is not read on, since a run that failed had taken frames of it; open it again", snls_io_name(snls_reader_name(r)).text);
    const SnlsStatus status = give(r, frame);
    if (status < 0) r->failed = status;
    return status;
}

void snls_reader_close(SnlsReader **reader)
{
    SnlsReader *r = reader ? *reader : NULL;
    if (!r) return;
    *reader = NULL;
    snls_frame_free(&r->peeked);
    if (r->kind) r->kind->close(r);
    snls_mem_free(&r->ctx->allocator, r);
}
