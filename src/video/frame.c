/* frame.c: frames: memory, floats, packed samples. */
#include "video/kind.h"
#include "base/number.h"
#include <stdarg.h>
#include <string.h>

SnlsFrame *snls_frame_new(SnlsContext *ctx, const SnlsPixels *pixels)
{
    SnlsFrame *frame = snls_mem_alloc(&ctx->allocator, sizeof *frame);
    if (!frame) {
        snls_fail(ctx, SNLS_ERR_MEMORY, "video: out of memory for a frame");
        return NULL;
    }
    *frame = (SnlsFrame){ .pixels = *pixels, .allocator = ctx->allocator };
    return frame;
}

SnlsStatus snls_frame_plain(SnlsContext *ctx, const SnlsPixels *pixels, SnlsFrame **out)
{
    const int64_t bytes = snls_pixels_bytes(pixels);
    SnlsFrame *frame = *out = snls_frame_new(ctx, pixels);
    if (!frame) return SNLS_ERR_MEMORY;
    frame->memory = snls_mem_alloc(&ctx->allocator, bytes);
    if (!frame->memory) {
        snls_frame_free(out);
        return snls_fail(ctx, SNLS_ERR_MEMORY, "video: out of memory for a frame of %lld bytes", (long long)bytes);
    }
    memset(frame->memory, 0, (size_t)bytes);
    uint8_t *at = frame->memory;
    for (int32_t i = 0; i < snls_pixels_planes(pixels); i++) {
        int64_t rows, row;
        snls_pixels_plane(pixels, i, &rows, &row);
        frame->planes.data[i] = at;
        frame->planes.stride[i] = row;
        at += rows * row;
    }
    return SNLS_OK;
}

void snls_frame_free(SnlsFrame **frame)
{
    SnlsFrame *f = frame ? *frame : NULL;
    if (!f) return;
    *frame = NULL;
    const SnlsAllocator allocator = f->allocator;
    if (f->release) f->release(f->owner);
    snls_mem_free(&allocator, f->memory);
    snls_mem_free(&allocator, f);
}

/* A context of its own on the stack: rows of scratch come from the frame's allocator, whichever thread this is. */
static SnlsContext frame_context(const SnlsFrame *frame) { return (SnlsContext){ .allocator = frame->allocator }; }

SnlsStatus snls_frame_read(const SnlsFrame *frame, float *pixels)
{
    if (!frame || !pixels) return SNLS_ERR_ARG;
    SnlsContext ctx = frame_context(frame);
    return snls_pixels_read(&ctx, &frame->pixels, &frame->planes, pixels);
}

double snls_frame_time(const SnlsFrame *frame) { return frame ? frame->time : 0; }
int64_t snls_frame_bytes(const SnlsFrame *frame) { return frame ? snls_pixels_bytes(&frame->pixels) : 0; }

SnlsStatus snls_frame_pack(const SnlsFrame *frame, void *bytes)
{
    if (!frame || !bytes) return SNLS_ERR_ARG;
    snls_pixels_pack(&frame->pixels, &frame->planes, bytes);
    return SNLS_OK;
}

SnlsStatus snls_note(SnlsVideoInfo *info, const char *format, ...)
{
    const size_t used = strlen(info->notes), room = sizeof info->notes - used;
    va_list args;
    if (room < 8) return SNLS_OK; /* no place for a word */
    va_start(args, format);
    const bool cut = snls_number_vtext(info->notes + used, room - 1, format, args) >= (int)room - 1;
    va_end(args);
    const size_t now = strlen(info->notes);
    if (cut) memcpy(info->notes + now - 3, "...", 3);
    if (now > used) memcpy(info->notes + now, "\n", 2);
    return SNLS_OK;
}
