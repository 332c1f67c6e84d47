/* frames.c: reading clips and flow. */
#include "frames.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SnlsStatus ssim_or_nan(SnlsContext *ctx, const SnlsTensor *clean, const SnlsTensor *test, double *ssim)
{
    *ssim = NAN;
    const SnlsStatus status = snls_ssim(ctx, clean, test, ssim);
    return status == SNLS_ERR_SHAPE ? SNLS_OK : status;
}

void frames_clamp(const SnlsTensor *video)
{
    float *x = video->data;
    for (int64_t i = 0, n = snls_tensor_elements(video); i < n; i++) x[i] = x[i] < 0 ? 0 : x[i] > 255 ? 255 : x[i];
}

SnlsTensor frame_of(const SnlsTensor *video, int64_t t)
{
    SnlsTensor frame = *video;
    frame.data = (char *)video->data + t * video->stride[0] * snls_dtype_size((SnlsDtype)video->dtype);
    frame.ndim--;
    for (int32_t i = 0; i < frame.ndim; i++)
        frame.shape[i] = video->shape[i + 1], frame.stride[i] = video->stride[i + 1];
    return frame;
}

static int array_load(SnlsContext *ctx, const char *path, SnlsTensor *array, int32_t ndim, const char *layout)
{
    int code = load_array(ctx, path, array);
    if (!code) code = convert_array(ctx, path, array, SNLS_F32);
    if (code) return code;
    const SnlsTensor given = *array;
    if (array->ndim == ndim + 1 && array->shape[0] == 1)
        *array = snls_tensor(array->data, SNLS_F32, ndim, array->shape + 1);
    else if (array->ndim == ndim - 1) {
        const int64_t shape[4] = { 1, array->shape[0], array->shape[1], ndim == 4 ? array->shape[2] : 0 };
        *array = snls_tensor(array->data, SNLS_F32, ndim, shape);
    }
    if (array->ndim == ndim && snls_tensor_elements(array) > 0) return EXIT_DONE;
    return fail(EXIT_INPUT, "%s: has shape %s, must be %s", path, shape_text(&given).text, layout);
}

static int too_short(const char *path, const SnlsTensor *video, int64_t least)
{
    if (video->shape[0] >= least) return EXIT_DONE;
    return fail(EXIT_INPUT, "%s: holds %lld frame%s, at least %lld are needed", input_name(path), (long long)video->shape[0],
                video->shape[0] == 1 ? "" : "s", (long long)least);
}

/* Room for more frames than there were: how many a file holds is known only at its end. */
static int grow(SnlsContext *ctx, const char *path, const SnlsVideoInfo *info, int64_t room, SnlsTensor *video)
{
    SnlsTensor larger = { 0 };
    const int64_t shape[4] = { room, info->height, info->width, info->channels };
    const int code = alloc_array(ctx, path, &larger, SNLS_F32, 4, shape);
    if (code) return code;
    if (video->data) memcpy(larger.data, video->data, (size_t)snls_tensor_elements(video) * sizeof(float));
    snls_array_free(ctx, video);
    *video = larger;
    return EXIT_DONE;
}

SnlsReaderParams reading_params(const Reading *reading)
{
    SnlsReaderParams params;
    snls_reader_defaults(&params);
    params.lenient = reading->lenient;
    params.progressive = reading->progressive;
    params.listen = 1;
    return params;
}

/* Kept, or freed. */
static int put_frame(Source *s, SnlsFrame *frame)
{
    if (!s || !s->opened) return snls_frame_free(&frame), EXIT_DONE;
    if (s->count == s->room) {
        const int64_t room = s->room ? 2 * s->room : 64;
        SnlsFrame **more = realloc(s->frames, sizeof *more * (size_t)room);
        if (!more) return snls_frame_free(&frame), fail(EXIT_MEMORY, "out of memory");
        s->frames = more;
        s->room = room;
    }
    s->frames[s->count++] = frame;
    return EXIT_DONE;
}

void source_free(Source *s)
{
    for (int64_t i = 0; i < s->count; i++) snls_frame_free(&s->frames[i]);
    free(s->frames);
    snls_reader_close(&s->reader);
    *s = (Source){ 0 };
}

static void print_lines(const char *line)
{
    for (const char *end; *line && (end = strchr(line, '\n')); line = end + 1)
        fprintf(stderr, "snls %s: %.*s\n", command_name, (int)(end - line), line);
}

void print_notes(const SnlsVideoInfo *info) { print_lines(info->notes); }

void print_later_notes(const SnlsVideoInfo *told, const SnlsVideoInfo *now)
{
    print_lines(now->notes + strlen(told->notes));
}

void print_damage(const char *path, const SnlsVideoInfo *info)
{
    if (!info->damaged_frames) return;
    fprintf(stderr, "snls %s: %s: damaged frames: %d at least: pictures or parts of them are wrong or missing\n", command_name, input_name(path), (int)info->damaged_frames);
}

/* All frames of a video file, of a folder or a pattern of pictures, or of one picture. source may be NULL. */
static int video_load(SnlsContext *ctx, const char *path, const Reading *reading, int64_t least, SnlsTensor *video, Source *source)
{
    const SnlsReaderParams params = reading_params(reading);
    SnlsReader *reader;
    SnlsVideoInfo info, later;
    SnlsFrame *frame;
    int64_t count = 0;
    int code = EXIT_DONE;
    SnlsStatus status = snls_reader_open(&reader, ctx, path, &params);
    if (status < 0) return fail_library(ctx, status, false);
    snls_reader_info(reader, &info);
    if (source) print_notes(&info);
    if (source && source->opened) source->reader = reader, code = source->opened(source->opaque);
    if (!code) code = grow(ctx, path, &info, info.frames > 0 && info.frames < 100000 ? info.frames : 16, video);
    while (!code && (status = snls_reader_next(reader, &frame)) == SNLS_OK) {
        if (count == video->shape[0]) code = grow(ctx, path, &info, 2 * count, video);
        if (!code && snls_frame_read(frame, frame_of(video, count++).data) < 0) code = fail(EXIT_MEMORY, "%s: out of memory for a frame", path);
        const int put = put_frame(source, frame);
        if (!code) code = put;
    }
    snls_reader_info(reader, &later);
    if (source && !code) print_later_notes(&info, &later);
    else if (!code && status >= 0) print_damage(path, &later);
    if (!source || !source->reader) snls_reader_close(&reader);
    if (!code && status < 0) code = fail_library(ctx, status, false);
    video->shape[0] = count;
    return code ? code : too_short(path, video, least);
}

int frames_load(SnlsContext *ctx, const char *path, const Reading *reading, int64_t least, SnlsTensor *video)
{
    return frames_load_source(ctx, path, reading, least, video, NULL);
}

int frames_load_source(SnlsContext *ctx, const char *path, const Reading *reading, int64_t least, SnlsTensor *video, Source *source)
{
    *video = (SnlsTensor){ 0 };
    if (strcmp(path, "-")) input_note(path);
    if (!snls_path_ends(path, ".npy")) return video_load(ctx, path, reading, least, video, source);
    int code = array_load(ctx, path, video, 4, "[T,H,W,C], [1,T,H,W,C] or [H,W,C]");
    if (!code) code = require_pixels(path, video);
    return code ? code : too_short(path, video, least);
}

int flow_load(SnlsContext *ctx, const char *path, SnlsTensor *flow)
{
    *flow = (SnlsTensor){ 0 };
    input_note(path);
    const bool flo = snls_path_ends(path, ".flo"), png = snls_path_ends(path, ".png");
    if (flo || png) {
        const SnlsStatus status = flo ? snls_flo_read(ctx, path, flow) : snls_kitti_read(ctx, path, flow);
        if (status < 0) return fail_library(ctx, status, false);
        const int64_t shape[4] = { 1, flow->shape[0], flow->shape[1], 2 };
        *flow = snls_tensor(flow->data, SNLS_F32, 4, shape);
        return EXIT_DONE;
    }
    if (!snls_path_ends(path, ".npy"))
        return fail(EXIT_UNSUPPORTED, "%s: flow is read from .flo, .npy and KITTI's .png", path);
    const int code = array_load(ctx, path, flow, 4, "[T,H,W,2], [1,T,H,W,2] or [H,W,2]");
    if (!code && flow->shape[3] != 2)
        return fail(EXIT_INPUT, "%s: has shape %s, must be [T,H,W,2]", path, shape_text(flow).text);
    return code;
}
