/* clip_in.c: clips frame by frame. */
#include "clip_in.h"
#include <string.h>

int clip_in_open(SnlsContext *ctx, const char *path, const Reading *reading, ClipIn *clip)
{
    *clip = (ClipIn){ .path = path };
    if (snls_path_ends(path, ".npy")) {
        const int code = frames_load(ctx, path, reading, 1, &clip->array);
        for (int i = 0; !code && i < 3; i++) clip->shape[i] = clip->array.shape[1 + i];
        return code;
    }
    if (strcmp(path, "-")) input_note(path);
    const SnlsReaderParams params = reading_params(reading);
    const SnlsStatus status = snls_reader_open(&clip->reader, ctx, path, &params);
    if (status < 0) return fail_library(ctx, status, false);
    SnlsVideoInfo info;
    snls_reader_info(clip->reader, &info);
    clip->shape[0] = info.height, clip->shape[1] = info.width, clip->shape[2] = info.channels;
    return EXIT_DONE;
}

static void next_of_array(ClipIn *clip, float *pixels, bool *there)
{
    *there = clip->given < clip->array.shape[0];
    if (!*there) return;
    const SnlsTensor frame = frame_of(&clip->array, clip->given);
    if (pixels) memcpy(pixels, frame.data, (size_t)snls_tensor_elements(&frame) * sizeof *pixels);
}

static int next_of_reader(SnlsContext *ctx, ClipIn *clip, float *pixels, bool *there)
{
    SnlsFrame *frame;
    const SnlsStatus status = snls_reader_next(clip->reader, &frame);
    *there = status == SNLS_OK;
    if (status < 0) return fail_library(ctx, status, false);
    if (!*there) {
        SnlsVideoInfo info;
        snls_reader_info(clip->reader, &info);
        if (!clip->ended) print_damage(clip->path, &info);
        clip->ended = true;
        return EXIT_DONE;
    }
    const int code = pixels && snls_frame_read(frame, pixels) < 0 ? fail(EXIT_MEMORY, "%s: out of memory for a frame", input_name(clip->path)) : EXIT_DONE;
    snls_frame_free(&frame);
    return code;
}

int clip_in_next(SnlsContext *ctx, ClipIn *clip, float *pixels, bool *there)
{
    int code = EXIT_DONE;
    if (clip->reader) code = next_of_reader(ctx, clip, pixels, there);
    else next_of_array(clip, pixels, there);
    if (!code && *there) clip->given++;
    return code;
}

void clip_in_close(SnlsContext *ctx, ClipIn *clip)
{
    snls_array_free(ctx, &clip->array);
    snls_reader_close(&clip->reader);
}
