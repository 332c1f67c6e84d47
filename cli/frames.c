/* frames.c: reading clips and flow. */
#define _XOPEN_SOURCE 700
#include "frames.h"
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool has_suffix(const char *path, const char *suffix)
{
    const size_t n = strlen(path), m = strlen(suffix);
    for (size_t i = 0; n >= m && i < m; i++)
        if (tolower((unsigned char)path[n - m + i]) != suffix[i]) return false;
    return n >= m;
}

/* Only %d and %0Nd are understood, once: nothing else of printf reaches a format from outside. */
bool pattern_name(const char *pattern, int64_t number, char *name, size_t size)
{
    const char *percent = strchr(pattern, '%'), *end = percent ? percent + 1 : NULL;
    int digits = 0;
    while (end && isdigit((unsigned char)*end) && digits < 20) digits = 10 * digits + (*end++ - '0');
    if (!end || *end != 'd' || strchr(end, '%')) return false;
    const int written = snprintf(name, size, "%.*s%0*lld%s", (int)(percent - pattern), pattern,
                                 digits > 20 ? 20 : digits, (long long)number, end + 1);
    return written > 0 && (size_t)written < size;
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

/* ---- lists of files ---- */

typedef struct Names {
    char **name;
    int64_t count, room;
} Names;

static int names_add(Names *n, const char *folder, const char *file)
{
    const size_t size = strlen(folder) + strlen(file) + 2;
    if (n->count == n->room) {
        n->room = n->room ? 2 * n->room : 64;
        char **larger = realloc(n->name, (size_t)n->room * sizeof *larger);
        if (!larger) return fail(EXIT_MEMORY, "out of memory");
        n->name = larger;
    }
    n->name[n->count] = malloc(size);
    if (!n->name[n->count]) return fail(EXIT_MEMORY, "out of memory");
    snprintf(n->name[n->count++], size, "%s%s%s", folder, *folder ? "/" : "", file);
    return EXIT_DONE;
}

static void names_free(Names *n)
{
    for (int64_t i = 0; i < n->count; i++) free(n->name[i]);
    free(n->name);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_image(const char *name)
{
    return name[0] != '.' && (has_suffix(name, ".png") || has_suffix(name, ".jpg") || has_suffix(name, ".jpeg"));
}

static int list_folder(const char *path, Names *names)
{
    DIR *folder = opendir(path);
    int code = folder ? EXIT_DONE : fail(EXIT_INPUT, "%s: cannot be opened", path);
    for (struct dirent *e; !code && (e = readdir(folder));)
        if (is_image(e->d_name)) code = names_add(names, path, e->d_name);
    if (folder) closedir(folder);
    if (!code && !names->count) code = fail(EXIT_INPUT, "%s: holds no .png and no .jpg", path);
    if (!code) qsort(names->name, (size_t)names->count, sizeof *names->name, by_name);
    return code;
}

/* Numbers go up from 0 or 1 until one is missing. */
static int list_pattern(const char *pattern, Names *names)
{
    char name[4096];
    int code = EXIT_DONE;
    for (int64_t i = 0; !code; i++) {
        if (!pattern_name(pattern, i, name, sizeof name))
            return fail(EXIT_USAGE, "%s: a pattern has one %%d or %%05d", pattern);
        if (!access(name, F_OK)) code = names_add(names, "", name);
        else if (i > 0) break;
    }
    return !code && !names->count ? fail(EXIT_INPUT, "%s: no file has such a name, numbers begin at 0 or 1", pattern)
                                  : code;
}

/* ---- images ---- */

static int image_load(SnlsContext *ctx, const char *path, SnlsTensor *image)
{
    const SnlsStatus status = snls_image_read(ctx, path, image);
    return status < 0 ? fail_library(ctx, status, false) : EXIT_DONE;
}

/* The first image tells the size of all. */
static int images_load(SnlsContext *ctx, const Names *names, SnlsTensor *video)
{
    int code = EXIT_DONE;
    for (int64_t t = 0; !code && t < names->count; t++) {
        SnlsTensor image;
        code = image_load(ctx, names->name[t], &image);
        if (!code && !t)
            code = alloc_array(ctx, names->name[0], video, SNLS_F32, 4,
                               (const int64_t[]){ names->count, image.shape[0], image.shape[1], image.shape[2] });
        if (code) continue;
        const SnlsTensor frame = frame_of(video, t);
        if (memcmp(frame.shape, image.shape, 3 * sizeof *frame.shape))
            code = fail(EXIT_INPUT,
                        "%s: is %lld x %lld pixels of %lld channels, the images before are %lld x %lld of %lld",
                        names->name[t], (long long)image.shape[1], (long long)image.shape[0], (long long)image.shape[2],
                        (long long)frame.shape[1], (long long)frame.shape[0], (long long)frame.shape[2]);
        else if (snls_array_copy(ctx, &frame, &image) < 0) code = fail_library(ctx, SNLS_ERR_SHAPE, false);
        snls_array_free(ctx, &image);
    }
    return code;
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
    return fail(EXIT_INPUT, "%s: holds %lld frame%s, at least %lld are needed", path, (long long)video->shape[0],
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

/* All frames of a video file. */
static int video_load(SnlsContext *ctx, const char *path, int64_t least, SnlsTensor *video)
{
    SnlsReader *reader;
    SnlsVideoInfo info;
    SnlsFrame *frame;
    int64_t count = 0;
    int code = EXIT_DONE;
    SnlsStatus status = snls_reader_open(&reader, ctx, path, NULL);
    if (status < 0) return fail_library(ctx, status, false);
    snls_reader_info(reader, &info);
    code = grow(ctx, path, &info, info.frames > 0 && info.frames < 100000 ? info.frames : 16, video);
    while (!code && (status = snls_reader_next(reader, &frame)) == SNLS_OK) {
        if (count == video->shape[0]) code = grow(ctx, path, &info, 2 * count, video);
        if (!code) snls_frame_read(frame, frame_of(video, count++).data);
        snls_frame_free(&frame);
    }
    snls_reader_close(&reader);
    if (!code && status < 0) code = fail_library(ctx, status, false);
    video->shape[0] = count;
    return code ? code : too_short(path, video, least);
}

int frames_load(SnlsContext *ctx, const char *path, int64_t least, SnlsTensor *video)
{
    struct stat info;
    Names names = { 0 };
    int code = EXIT_DONE;
    *video = (SnlsTensor){ 0 };
    if (has_suffix(path, ".npy")) {
        code = array_load(ctx, path, video, 4, "[T,H,W,C]");
        if (!code) code = require_finite(path, "pixel", video);
    } else {
        if (!stat(path, &info) && S_ISDIR(info.st_mode)) code = list_folder(path, &names);
        else if (strchr(path, '%')) code = list_pattern(path, &names);
        else if (is_image(strrchr(path, '/') ? strrchr(path, '/') + 1 : path)) code = names_add(&names, "", path);
        else if (access(path, F_OK)) code = fail(EXIT_INPUT, "%s: is not there", path);
        else return video_load(ctx, path, least, video);
        if (!code) code = images_load(ctx, &names, video);
        names_free(&names);
    }
    return code ? code : too_short(path, video, least);
}

int flow_load(SnlsContext *ctx, const char *path, SnlsTensor *flow)
{
    *flow = (SnlsTensor){ 0 };
    const bool flo = has_suffix(path, ".flo"), png = has_suffix(path, ".png");
    if (flo || png) {
        const SnlsStatus status = flo ? snls_flo_read(ctx, path, flow) : snls_kitti_read(ctx, path, flow);
        if (status < 0) return fail_library(ctx, status, false);
        const int64_t shape[4] = { 1, flow->shape[0], flow->shape[1], 2 };
        *flow = snls_tensor(flow->data, SNLS_F32, 4, shape);
        return EXIT_DONE;
    }
    if (!has_suffix(path, ".npy"))
        return fail(EXIT_UNSUPPORTED, "%s: flow is read from .flo, .npy and KITTI's .png", path);
    const int code = array_load(ctx, path, flow, 4, "[T,H,W,2]");
    if (!code && flow->shape[3] != 2)
        return fail(EXIT_INPUT, "%s: has shape %s, must be [T,H,W,2]", path, shape_text(flow).text);
    return code;
}
