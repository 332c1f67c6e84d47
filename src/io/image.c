/* image.c: pictures and flow in picture files: which format it is, and samples to arrays. */
#include "io/image.h"
#include "base/tensor.h"
#include "io/file.h"
#include <math.h>
#include <snls/io.h>
#include <string.h>
#include <unistd.h>

SnlsStatus snls_io_read_all(SnlsContext *ctx, const char *path, unsigned char **bytes, int64_t *size)
{
    int fd;
    int64_t got = 0;
    *bytes = NULL;
    SNLS_TRY(snls_io_open(ctx, path, &fd, size));
    SnlsStatus status = SNLS_OK;
    if (*size < 0) status = snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "%s: is not a regular file", snls_io_name(path).text);
    else if (!(*bytes = snls_mem_alloc(&ctx->allocator, *size)))
        status = snls_fail(ctx, SNLS_ERR_MEMORY, "%s: out of memory for its %s", snls_io_name(path).text,
                           snls_io_bytes(*size).text);
    if (status >= 0) status = snls_io_read(ctx, path, fd, *bytes, *size, &got);
    *size = got;
    close(fd);
    if (status < 0) {
        snls_mem_free(&ctx->allocator, *bytes);
        *bytes = NULL;
    }
    return status;
}

/* Does a file begin as pictures of other formats do? */
static bool is_other_picture(const SnlsBytes *file)
{
    static const char *const begins[] = { "GIF8", "BM", "II*", "MM", "RIFF", "8BPS", "v/1\x01", "P1", "P2", "P3", "P4", "P5", "P6" };
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        const size_t n = strlen(begins[i]);
        if (file->size >= (int64_t)n && !memcmp(file->data, begins[i], n)) return true;
    }
    return false;
}

static SnlsStatus read_samples(SnlsContext *ctx, const SnlsBytes *file, SnlsSamples *samples)
{
    if (file->size >= 8 && !memcmp(file->data, "\x89PNG\r\n\x1a\n", 8)) return snls_png_samples(ctx, file, samples);
    if (file->size >= 3 && !memcmp(file->data, "\xff\xd8\xff", 3)) return snls_jpeg_samples(ctx, file, samples);
    return snls_fail(ctx, is_other_picture(file) ? SNLS_ERR_UNSUPPORTED : SNLS_ERR_FORMAT, "%s: is neither PNG nor JPEG",
                     file->name);
}

/* Eight bits stay as they are; sixteen become f32, 65535 being 255. */
static SnlsStatus samples_to_array(SnlsContext *ctx, const SnlsSamples *s, SnlsTensor *view)
{
    const int64_t shape[3] = { s->height, s->width, s->channels }, count = s->height * s->width * s->channels;
    SNLS_TRY(snls_array_alloc(ctx, view, s->depth == 8 ? SNLS_U8 : SNLS_F32, 3, shape));
    if (s->depth == 8) memcpy(view->data, s->data, (size_t)count);
    else
        for (int64_t i = 0; i < count; i++) ((float *)view->data)[i] = (float)((const uint16_t *)s->data)[i] / 257.0f;
    return SNLS_OK;
}

static SnlsStatus parse_image(SnlsContext *ctx, const SnlsBytes *file, SnlsTensor *view)
{
    SnlsSamples samples = { 0 };
    SNLS_TRY(read_samples(ctx, file, &samples));
    const SnlsStatus status = samples_to_array(ctx, &samples, view);
    snls_mem_free(&ctx->allocator, samples.data);
    return status;
}

/* Red and green are the components, blue tells whether they are known. */
static SnlsStatus parse_kitti(SnlsContext *ctx, const SnlsBytes *file, SnlsTensor *flow)
{
    SnlsSamples s = { 0 };
    if (file->size < 8 || memcmp(file->data, "\x89PNG\r\n\x1a\n", 8))
        return snls_fail(ctx, SNLS_ERR_FORMAT, "%s: is no PNG", file->name);
    SNLS_TRY(snls_png_samples(ctx, file, &s));
    const int64_t shape[3] = { s.height, s.width, 2 };
    SnlsStatus status = s.depth == 16 && s.channels == 3
                            ? snls_array_alloc(ctx, flow, SNLS_F32, 3, shape)
                            : snls_fail(ctx, SNLS_ERR_FORMAT, "%s: has %d channels of %d bits, flow has 3 of 16",
                                        file->name, (int)s.channels, (int)s.depth);
    for (int64_t i = 0; status >= 0 && i < s.height * s.width; i++) {
        const uint16_t *from = (const uint16_t *)s.data + 3 * i;
        float *to = (float *)flow->data + 2 * i;
        for (int c = 0; c < 2; c++) to[c] = from[2] ? ((float)from[c] - 32768.0f) / 64.0f : 1e10f;
    }
    snls_mem_free(&ctx->allocator, s.data);
    return status;
}

static uint32_t little32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static SnlsStatus parse_flo(SnlsContext *ctx, const SnlsBytes *file, SnlsTensor *flow)
{
    SNLS_REQUIRE(ctx, file->size >= 12, SNLS_ERR_FORMAT, "%s: ends inside its .flo header", file->name);
    SNLS_REQUIRE(ctx, !memcmp(file->data, "PIEH", 4), SNLS_ERR_FORMAT, "%s: does not begin with PIEH, as .flo does",
                 file->name);
    const int64_t width = (int32_t)little32(file->data + 4), height = (int32_t)little32(file->data + 8);
    SNLS_REQUIRE(ctx, width >= 1 && height >= 1 && width <= SNLS_IMAGE_SIDE_MAX && height <= SNLS_IMAGE_SIDE_MAX,
                 SNLS_ERR_FORMAT, "%s: is %lld x %lld pixels, must be 1 to %d each way", file->name, (long long)width,
                 (long long)height, SNLS_IMAGE_SIDE_MAX);
    SNLS_REQUIRE(ctx, file->size - 12 == 8 * width * height, SNLS_ERR_FORMAT,
                 "%s: its header promises %s of data, the file holds %s", file->name,
                 snls_io_bytes(8 * width * height).text, snls_io_bytes(file->size - 12).text);
    SNLS_TRY(snls_array_alloc(ctx, flow, SNLS_F32, 3, (const int64_t[]){ height, width, 2 }));
    float *to = flow->data;
    for (int64_t i = 0; i < width * height; i++, to += 2) {
        for (int c = 0; c < 2; c++) to[c] = snls_bits_float(little32(file->data + 12 + 8 * i + 4 * c));
        if (!(fabsf(to[0]) < 1e9f && fabsf(to[1]) < 1e9f)) to[0] = to[1] = 1e10f; /* NaN too */
    }
    return SNLS_OK;
}

/* ---- the six entries ---- */

typedef SnlsStatus (*Parse)(SnlsContext *ctx, const SnlsBytes *file, SnlsTensor *view);

static SnlsStatus parse_bytes(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *view, const char *name,
                              Parse parse)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, view, SNLS_ERR_ARG, "%s: the array to fill is NULL", name);
    *view = (SnlsTensor){ 0 };
    SNLS_REQUIRE(ctx, bytes || !size, SNLS_ERR_ARG, "%s: bytes is NULL", name);
    SNLS_REQUIRE(ctx, size <= INT64_MAX, SNLS_ERR_ARG, "%s: too long", name);
    const SnlsBytes file = { bytes, (int64_t)size, name };
    const SnlsStatus status = parse(ctx, &file, view);
    if (status < 0) snls_array_free(ctx, view);
    return status;
}

static SnlsStatus read_file(SnlsContext *ctx, const char *who, const char *path, SnlsTensor *view, Parse parse)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, view, SNLS_ERR_ARG, "%s: the array to fill is NULL", who);
    *view = (SnlsTensor){ 0 };
    SNLS_REQUIRE(ctx, path, SNLS_ERR_ARG, "%s: path is NULL", who);
    unsigned char *bytes;
    int64_t size;
    SNLS_TRY(snls_io_read_all(ctx, path, &bytes, &size));
    const SnlsStatus status = parse_bytes(ctx, bytes, (size_t)size, view, snls_io_name(path).text, parse);
    snls_mem_free(&ctx->allocator, bytes);
    return status;
}

SnlsStatus snls_image_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *view)
{
    return parse_bytes(ctx, bytes, size, view, "image buffer", parse_image);
}
SnlsStatus snls_image_read(SnlsContext *ctx, const char *path, SnlsTensor *view)
{
    return read_file(ctx, "image_read", path, view, parse_image);
}
SnlsStatus snls_flo_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *flow)
{
    return parse_bytes(ctx, bytes, size, flow, ".flo buffer", parse_flo);
}
SnlsStatus snls_flo_read(SnlsContext *ctx, const char *path, SnlsTensor *flow)
{
    return read_file(ctx, "flo_read", path, flow, parse_flo);
}
SnlsStatus snls_kitti_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *flow)
{
    return parse_bytes(ctx, bytes, size, flow, "flow buffer", parse_kitti);
}
SnlsStatus snls_kitti_read(SnlsContext *ctx, const char *path, SnlsTensor *flow)
{
    return read_file(ctx, "kitti_read", path, flow, parse_kitti);
}
