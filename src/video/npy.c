/* npy.c: clips in .npy files, a frame at a time: [T,H,W,C], [1,T,H,W,C] or [H,W,C], 0..255, read; [T,H,W,C] f32 written. */
#include "io/npy.h"
#include "base/tensor.h"
#include "io/file.h"
#include "video/kind.h"
#include <snls/io.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Npy {
    int fd;
    int64_t frames, at; /* of the file; the next */
    SnlsTensor stored;  /* (H,W,C) as the file has it; memory for one frame */
    SnlsPixels pixels;
} Npy;

static Npy *npy_new(SnlsContext *ctx)
{
    Npy *n = snls_mem_alloc(&ctx->allocator, sizeof *n);
    if (n) *n = (Npy){ .fd = -1 };
    else snls_fail(ctx, SNLS_ERR_MEMORY, "video: out of memory");
    return n;
}

static SnlsStatus take_shape(SnlsReader *r, Npy *n, const SnlsNpyHeader *h)
{
    const SnlsName name = snls_io_name(r->path);
    const int64_t *s = h->shape + (h->ndim == 5 && h->shape[0] == 1);
    const int32_t ndim = h->ndim - (h->ndim == 5 && h->shape[0] == 1);
    SNLS_REQUIRE(r->ctx, ndim == 3 || ndim == 4, SNLS_ERR_SHAPE, "%s: has %d axes, must be [T,H,W,C], [1,T,H,W,C] or [H,W,C]",
                 name.text, (int)h->ndim);
    n->frames = ndim == 4 ? s[0] : 1;
    s += ndim == 4;
    SNLS_REQUIRE(r->ctx, s[2] == 1 || s[2] == 3, SNLS_ERR_SHAPE,
                 "%s: has %lld channels, must be 1 or 3 (the last axis)", name.text, (long long)s[2]);
    SNLS_REQUIRE(r->ctx, s[0] > 0 && s[1] > 0 && s[0] <= 1 << 20 && s[1] <= 1 << 20, SNLS_ERR_SHAPE,
                 "%s: frames are %lld x %lld pixels", name.text, (long long)s[1], (long long)s[0]);
    SNLS_TRY(snls_array_alloc(r->ctx, &n->stored, (SnlsDtype)h->dtype, 3, s));
    n->pixels = snls_pixels_packed(s[0], s[1], (int32_t)s[2], 32);
    return SNLS_OK;
}

static SnlsStatus read_stored(SnlsReader *r, Npy *n)
{
    int64_t got;
    const int64_t bytes = snls_tensor_elements(&n->stored) * snls_dtype_size((SnlsDtype)n->stored.dtype);
    SNLS_TRY(snls_io_read(r->ctx, r->path, n->fd, n->stored.data, bytes, &got));
    SNLS_REQUIRE(r->ctx, got == bytes, SNLS_ERR_FORMAT, "%s: ends inside frame %lld", snls_io_name(r->path).text, (long long)n->at);
    return SNLS_OK;
}

/* A pipe is read up to there; what is in frames that nobody wants is not looked at. */
static SnlsStatus go_to_first(SnlsReader *r, Npy *n)
{
    const int64_t first = r->params.first, bytes = snls_tensor_elements(&n->stored) * snls_dtype_size((SnlsDtype)n->stored.dtype);
    SNLS_REQUIRE(r->ctx, !first || first < n->frames, SNLS_ERR_ARG, "%s: has %lld frames, the first wanted is number %lld", snls_io_name(r->path).text, (long long)n->frames, (long long)first);
    if (first && lseek(n->fd, first * bytes, SEEK_CUR) >= 0) n->at = first;
    for (; n->at < first; n->at++) SNLS_TRY(read_stored(r, n));
    return SNLS_OK;
}

static SnlsStatus npy_open(SnlsReader *r)
{
    SnlsNpyHeader header;
    int64_t size, begin;
    Npy *n = r->priv = npy_new(r->ctx);
    if (!n) return SNLS_ERR_MEMORY;
    SNLS_TRY(snls_io_open(r->ctx, r->path, &n->fd, &size));
    SNLS_TRY(snls_npy_begin(r->ctx, r->path, n->fd, size, &header, &begin));
    SNLS_TRY(take_shape(r, n, &header));
    SNLS_TRY(go_to_first(r, n));
    r->info.frames = n->frames;
    r->info.frames_exact = 1;
    r->info.rate = r->params.rate;
    r->info.duration = (double)n->frames / r->params.rate;
    snprintf(r->info.container, sizeof r->info.container, "npy");
    snprintf(r->info.codec, sizeof r->info.codec, "npy");
    snprintf(r->info.pixel_format, sizeof r->info.pixel_format, "%s", snls_dtype_name((SnlsDtype)header.dtype));
    return SNLS_OK;
}

static SnlsStatus npy_frame(SnlsReader *r, Npy *n, SnlsFrame *frame)
{
    const SnlsTensor to = snls_tensor(frame->memory, SNLS_F32, 3, n->stored.shape);
    SNLS_TRY(read_stored(r, n));
    SNLS_TRY(snls_array_copy(r->ctx, &to, &n->stored));
    frame->time = (double)n->at / r->params.rate;
    return snls_reader_check(r, &n->pixels, frame->memory, n->at);
}

static SnlsStatus npy_next(SnlsReader *r, SnlsFrame **frame)
{
    Npy *n = r->priv;
    if (n->at >= n->frames) return SNLS_END;
    SNLS_TRY(snls_frame_plain(r->ctx, &n->pixels, frame));
    const SnlsStatus status = npy_frame(r, n, *frame);
    if (status < 0) snls_frame_free(frame);
    n->at++;
    return status;
}

static void npy_close(SnlsReader *r)
{
    Npy *n = r->priv;
    if (!n) return;
    if (n->fd >= 0) close(n->fd);
    snls_array_free(r->ctx, &n->stored);
    snls_mem_free(&r->ctx->allocator, n);
}

const SnlsReaderKind snls_npy_reader = { npy_open, npy_next, npy_close, true, NULL };

/* ---- writing ---- */

/* T may be known only at the end: the header is put right then. */
static SnlsStatus npy_create(SnlsWriter *w)
{
    const SnlsVideoInfo *info = &w->params.like->info;
    const int64_t shape[4] = { info->frames_exact ? info->frames : 0, info->height, info->width, info->channels };
    const SnlsTensor array = snls_tensor(NULL, SNLS_F32, 4, shape);
    SnlsNpyWriter *to;
    SNLS_TRY(snls_npy_writer_open(&to, w->ctx, w->path, &array));
    w->priv = to;
    w->pixels = snls_pixels_packed(info->height, info->width, info->channels, 32);
    w->info.depth = 32;
    w->info.lossless = 1;
    snprintf(w->info.container, sizeof w->info.container, "npy");
    snprintf(w->info.codec, sizeof w->info.codec, "npy");
    snprintf(w->info.pixel_format, sizeof w->info.pixel_format, "f32");
    return SNLS_OK;
}

static SnlsStatus npy_blank(SnlsWriter *w, const SnlsFrame *like, SnlsFrame **frame)
{
    SNLS_TRY(snls_frame_plain(w->ctx, &w->pixels, frame));
    (*frame)->time = like->time;
    return SNLS_OK;
}

static SnlsStatus npy_write(SnlsWriter *w, const SnlsFrame *frame)
{
    const SnlsPixels *p = &frame->pixels;
    const SnlsTensor piece = snls_tensor(frame->planes.data[0], SNLS_F32, 3, (const int64_t[]){ p->height, p->width, snls_pixels_channels(p) });
    return snls_npy_writer_add(w->priv, &piece);
}

static SnlsStatus npy_finish(SnlsWriter *w) { return snls_npy_writer_finish(w->priv); }

static void npy_end(SnlsWriter *w)
{
    SnlsNpyWriter *to = w->priv;
    snls_npy_writer_close(&to);
}

const SnlsWriterKind snls_npy_writer = { npy_create, npy_blank, npy_write, npy_finish, npy_end };
