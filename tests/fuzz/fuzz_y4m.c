/* fuzz_y4m.c: any bytes behind the first word of a y4m file, read to their end through libsnls_ffmpeg.so. Every frame must be as
 * large as the file said, and all of it there. Without the library there is nothing to do. */
#define _GNU_SOURCE /* memfd_create */
#include "file.h"
#include <math.h>
#include <snls/snls.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PIXELS_MOST = 1 << 16, FRAMES_MOST = 64 };

static void read_all(SnlsReader *reader, SnlsContext *ctx)
{
    SnlsVideoInfo info;
    SnlsStatus status = SNLS_OK;
    snls_reader_info(reader, &info);
    if (info.width * info.height > PIXELS_MOST) return; /* zeros by the gigabyte find nothing */
    must(info.width > 0 && info.height > 0 && (info.channels == 1 || info.channels == 3));
    const int64_t count = info.width * info.height * info.channels;
    float *pixels = malloc((size_t)count * sizeof *pixels); /* its own block, so that one too many is seen */
    must(pixels != NULL);
    for (int i = 0; i < FRAMES_MOST && status == SNLS_OK; i++) {
        SnlsFrame *frame = NULL;
        status = snls_reader_next(reader, &frame);
        must((status == SNLS_OK) == (frame != NULL) && (status >= 0 || snls_error(ctx)[0]));
        if (frame && snls_frame_read(frame, pixels) == SNLS_OK)
            for (int64_t j = 0; j < count; j++) must(isfinite(pixels[j]));
        snls_frame_free(&frame);
    }
    free(pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static SnlsContext *ctx;
    SnlsReaderParams params;
    SnlsReader *reader = NULL;
    const char *path;
    const int fd = memory_file(&path);
    put(fd, "YUV4MPEG2 ", 10);
    put(fd, bytes, size);
    if (!ctx) must(snls_open(&ctx, &(SnlsContextParams){ .backend = "ref", .threads = 1 }) == SNLS_OK);
    snls_reader_defaults(&params);
    params.lenient = size & 1;
    params.progressive = size & 2;
    const SnlsStatus status = snls_reader_open(&reader, ctx, path, &params);
    must((status == SNLS_OK) == (reader != NULL) && (status >= 0 || snls_error(ctx)[0]));
    if (reader) read_all(reader, ctx);
    snls_reader_close(&reader);
    return 0;
}
