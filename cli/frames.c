/* frames.c: reading clips. */
#include "frames.h"
#include "pieces.h"
#include <math.h>
#include <stdio.h>
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

int array_axes(const char *path, SnlsTensor *array, int32_t ndim, const char *layout)
{
    const SnlsTensor given = *array;
    const SnlsDtype dtype = (SnlsDtype)array->dtype;
    if (array->ndim == ndim + 1 && array->shape[0] == 1) *array = snls_tensor(array->data, dtype, ndim, array->shape + 1);
    else if (array->ndim == ndim - 1) {
        int64_t shape[SNLS_MAX_DIM] = { 1 };
        for (int32_t i = 1; i < ndim; i++) shape[i] = array->shape[i - 1];
        *array = snls_tensor(array->data, dtype, ndim, shape);
    }
    if (array->ndim == ndim && snls_tensor_elements(array) > 0) return EXIT_DONE;
    return fail(EXIT_INPUT, "%s: has shape %s, must be %s", path, shape_text(&given).text, layout);
}

int frames_enough(const char *path, int64_t frames, int64_t least)
{
    if (frames >= least) return EXIT_DONE;
    return fail(EXIT_INPUT, "%s: holds %lld frame%s, at least %lld are needed", input_name(path), (long long)frames, frames == 1 ? "" : "s", (long long)least);
}

/* Reads up to it. What fails before fails again when the clip is read. */
static bool has_frame(SnlsContext *ctx, const Length *clip, int64_t number)
{
    SnlsReader *reader;
    SnlsFrame *frame;
    if (!strcmp(clip->path, "-") || output_special(clip->path)) return false; /* it comes once */
    SnlsStatus status = snls_reader_open(&reader, ctx, clip->path, &clip->params);
    for (int64_t i = 0; i <= number && status == SNLS_OK; i++) {
        status = snls_reader_next(reader, &frame);
        if (status == SNLS_OK) snls_frame_free(&frame);
    }
    snls_reader_close(&reader);
    return status == SNLS_OK;
}

int frames_free(SnlsContext *ctx, const Length *clip, int64_t ahead, const char *pattern, bool overwrite)
{
    const int64_t number = output_member_in_way(pattern, clip->frames - ahead, overwrite);
    if (number < 0 || (!clip->exact && !has_frame(ctx, clip, number + ahead))) return EXIT_DONE;
    return output_member_refuse(pattern, number);
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

/* All frames of a video file, of a folder or a pattern of pictures, or of one picture. */
static int video_load(SnlsContext *ctx, const char *path, const Reading *reading, int64_t least, SnlsTensor *video)
{
    const SnlsReaderParams params = reading_params(reading);
    SnlsReader *reader;
    SnlsVideoInfo info;
    SnlsFrame *frame;
    int64_t count = 0;
    SnlsStatus status = snls_reader_open(&reader, ctx, path, &params);
    if (status < 0) return fail_library(ctx, status, false);
    snls_reader_info(reader, &info);
    *video = snls_tensor(NULL, SNLS_F32, 4, (const int64_t[]){ 0, info.height, info.width, info.channels });
    int code = array_grow(ctx, path, video, info.frames > 0 && info.frames < 100000 ? info.frames : 16);
    while (!code && (status = snls_reader_next(reader, &frame)) == SNLS_OK) { /* how many there are is known only at the end */
        if (count == video->shape[0]) code = array_grow(ctx, path, video, 2 * count);
        if (!code && snls_frame_read(frame, frame_of(video, count++).data) < 0) code = fail(EXIT_MEMORY, "%s: out of memory for a frame", path);
        snls_frame_free(&frame);
    }
    snls_reader_info(reader, &info);
    if (!code && status >= 0) print_damage(path, &info);
    if (!code && status < 0) code = fail_library(ctx, status, false);
    snls_reader_close(&reader);
    video->shape[0] = count;
    return code ? code : frames_enough(path, count, least);
}

int frames_load(SnlsContext *ctx, const char *path, const Reading *reading, int64_t least, SnlsTensor *video)
{
    *video = (SnlsTensor){ 0 };
    if (strcmp(path, "-")) input_note(path);
    if (!snls_path_ends(path, ".npy")) return video_load(ctx, path, reading, least, video);
    int code = load_array(ctx, path, video);
    if (!code) code = convert_array(ctx, path, video, SNLS_F32);
    if (!code) code = array_axes(path, video, 4, CLIP_LAYOUT);
    if (!code) code = require_pixels(path, video, 0);
    return code ? code : frames_enough(path, video->shape[0], least);
}
