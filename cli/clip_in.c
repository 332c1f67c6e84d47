/* clip_in.c: clips frame by frame. */
#include "clip_in.h"
#include <string.h>

static int open_array(SnlsContext *ctx, ClipIn *clip)
{
    const int code = array_in_open(ctx, clip->path, 4, CLIP_LAYOUT, &clip->array);
    for (int i = 0; !code && i < 3; i++) clip->shape[i] = clip->array.whole.shape[1 + i];
    clip->frames = clip->array.whole.shape[0];
    clip->exact = true;
    return code;
}

static int open_reader(SnlsContext *ctx, const Reading *reading, ClipIn *clip)
{
    const SnlsReaderParams params = reading_params(reading);
    const SnlsStatus status = snls_reader_open(&clip->reader, ctx, clip->path, &params);
    if (status < 0) return fail_library(ctx, status, false);
    SnlsVideoInfo *info = &clip->told;
    snls_reader_info(clip->reader, info);
    clip->shape[0] = info->height, clip->shape[1] = info->width, clip->shape[2] = info->channels;
    clip->frames = info->frames;
    clip->exact = info->frames_exact;
    return EXIT_DONE;
}

int clip_in_open(SnlsContext *ctx, const char *path, const Reading *reading, int flags, ClipIn *clip)
{
    const bool array = snls_path_ends(path, ".npy");
    *clip = (ClipIn){ .path = path, .flags = flags, .reading = *reading };
    if (strcmp(path, "-")) input_note(path);
    int code = array ? open_array(ctx, clip) : EXIT_DONE;
    if (!code && (!array || flags & CLIP_LIKE)) code = open_reader(ctx, reading, clip);
    return code;
}

static int next_of_array(SnlsContext *ctx, ClipIn *clip, float *pixels, bool *there)
{
    const int code = array_in_next(ctx, &clip->array, pixels, there);
    if (code || !*there || !pixels) return code;
    const SnlsTensor frame = snls_tensor(pixels, SNLS_F32, 4, (const int64_t[]){ 1, clip->shape[0], clip->shape[1], clip->shape[2] });
    return require_pixels(clip->path, &frame, clip->given);
}

void clip_in_say(ClipIn *clip)
{
    if (!clip->said && clip->flags & CLIP_NOTES) print_notes(&clip->told);
    clip->said = true;
}

void clip_in_tell(ClipIn *clip)
{
    SnlsVideoInfo info;
    if (!clip->reader) return;
    snls_reader_info(clip->reader, &info);
    clip_in_say(clip);
    if (!clip->ended && clip->flags & CLIP_NOTES) print_later_notes(&clip->told, &info);
    else if (!clip->ended) print_damage(clip->path, &info);
    clip->ended = true;
}

static int next_of_reader(SnlsContext *ctx, ClipIn *clip, float *pixels, bool *there)
{
    SnlsFrame *frame, **keep = &clip->like[clip->given % 2];
    const SnlsStatus status = snls_reader_next(clip->reader, &frame);
    *there = status == SNLS_OK;
    if (status < 0) return fail_library(ctx, status, false);
    if (!*there) return clip_in_tell(clip), EXIT_DONE;
    const int code = pixels && snls_frame_read(frame, pixels) < 0 ? fail(EXIT_MEMORY, "%s: out of memory for a frame", input_name(clip->path)) : EXIT_DONE;
    snls_frame_free(keep);
    if (clip->flags & CLIP_LIKE) *keep = frame;
    else snls_frame_free(&frame);
    return code;
}

int clip_in_next(SnlsContext *ctx, ClipIn *clip, float *pixels, bool *there)
{
    int code = EXIT_DONE;
    const bool array = clip->array.reader;
    if (array) code = next_of_array(ctx, clip, pixels, there);
    if (!code && clip->reader) code = next_of_reader(ctx, clip, array ? NULL : pixels, there);
    if (!code && *there) clip->given++;
    return code;
}

int clip_in_count(SnlsContext *ctx, ClipIn *clip)
{
    int code = EXIT_DONE;
    for (bool there = true; !code && there;) code = clip_in_next(ctx, clip, NULL, &there);
    return code;
}

int clip_in_free(SnlsContext *ctx, const ClipIn *clip, int64_t ahead, const char *pattern, bool overwrite)
{
    const Length length = { clip->path, reading_params(&clip->reading), clip->frames, clip->exact };
    return frames_free(ctx, &length, ahead, pattern, overwrite);
}

void clip_in_close(SnlsContext *ctx, ClipIn *clip)
{
    array_in_close(ctx, &clip->array);
    for (int i = 0; i < 2; i++) snls_frame_free(&clip->like[i]);
    snls_reader_close(&clip->reader);
}
