/* clip_out.c: what becomes of a clip, by the name of OUT. */
#define _XOPEN_SOURCE 700
#include "clip_out.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat info;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (output_special(path)) return false;
    return (!stat(path, &info) && S_ISDIR(info.st_mode)) || !*name || !strchr(name, '.');
}

static bool is_pattern(const char *path) { return strchr(path, '%') && snls_path_ends(path, ".png"); }

/* A pipe, a device. Of standard input, which is y4m, what was read is kept: it has no sound that would be lost. */
static bool comes_once(const char *path)
{
    struct stat info;
    return strcmp(path, "-") && (!stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !S_ISBLK(info.st_mode));
}

static int choose_pattern(ClipOut *o)
{
    const size_t length = strlen(o->path);
    const bool pattern = is_pattern(o->path);
    if (length + 16 > sizeof o->pattern)
        return fail(EXIT_USAGE, "OUT is longer than %d bytes", (int)sizeof o->pattern - 16);
    if (pattern) snprintf(o->pattern, sizeof o->pattern, "%s", o->path);
    else if (is_folder(o->path))
        snprintf(o->pattern, sizeof o->pattern, "%s%s%%05d.png", o->path, o->path[length - 1] == '/' ? "" : "/");
    return *o->pattern && !pattern ? output_folder(o->path) : EXIT_DONE;
}

int clip_out_add(ClipOut *o, const Common *common, int64_t frames)
{
    char name[4200];
    if (o->writer) return EXIT_DONE; /* added when IN was opened */
    o->path = clip_name(o->path);
    o->array = snls_path_ends(o->path, ".npy");
    o->overwrite = common->overwrite;
    const bool standard = !strcmp(o->path, "-");
    int code = o->array || standard ? EXIT_DONE : choose_pattern(o);
    if (standard)
        return common->json ? fail(EXIT_USAGE, "OUT is standard output, and so is --json: one of them") : EXIT_DONE;
    if (!code && !*o->pattern) code = output_add(o->path, o->overwrite);
    for (int64_t t = 0; *o->pattern && t < frames && !code; t++) {
        if (!snls_path_number(o->pattern, t, name, sizeof name))
            return fail(EXIT_USAGE, "%s: a pattern has one %%d or %%05d, of %d digits at most", o->pattern, SNLS_PATH_DIGITS);
        code = output_member(name, o->overwrite);
    }
    if (*o->pattern) output_ends(o->pattern, frames, o->overwrite);
    return code;
}

static int write_pictures(const ClipOut *o, SnlsContext *ctx, const SnlsTensor *clip)
{
    char name[4200];
    int code = EXIT_DONE;
    for (int64_t t = 0; t < clip->shape[0] && !code; t++) {
        const SnlsTensor frame = frame_of(clip, t);
        snls_path_number(o->pattern, t, name, sizeof name);
        code = write_image(ctx, name, &frame);
    }
    return code;
}

/* ---- a video, or one picture ---- */

static const char *name_picture(void *opaque, const char *name)
{
    (void)opaque;
    return output_path(name);
}

/* kept: the frame of IN, where it comes once; else NULL, and it is read again. */
static SnlsStatus write_frame(SnlsReader *reader, const SnlsFrame *kept, SnlsWriter *writer, const SnlsTensor *frame)
{
    SnlsFrame *like = NULL, *made;
    SnlsStatus status = kept ? SNLS_OK : snls_reader_next(reader, &like);
    if (status != SNLS_OK) return status;
    status = snls_writer_make(writer, kept ? kept : like, frame->data, &made);
    snls_frame_free(&like);
    if (status >= 0) status = snls_writer_write(writer, made), snls_frame_free(&made);
    return status;
}

static int open_writer(ClipOut *o, SnlsReader *reader)
{
    SnlsWriterParams params;
    snls_writer_defaults(&params);
    params.like = reader;
    params.path = o->path;
    params.listen = 1;
    params.rename = name_picture;
    const SnlsStatus status = snls_writer_open(&o->writer, o->ctx, strcmp(o->path, "-") ? output_path(o->path) : "-", &params);
    if (status < 0) return fail_clip(status, true, o->path, snls_error(o->ctx));
    snls_writer_info(o->writer, &o->told);
    print_notes(&o->told);
    return EXIT_DONE;
}

static int write_frames(ClipOut *o, SnlsReader *again, const SnlsTensor *clip)
{
    SnlsVideoInfo later;
    SnlsStatus status = SNLS_OK;
    for (int64_t t = 0; t < clip->shape[0] && status == SNLS_OK; t++) {
        const SnlsTensor frame = frame_of(clip, t);
        status = write_frame(again, again ? NULL : o->source.frames[t], o->writer, &frame);
    }
    if (status == SNLS_OK) status = snls_writer_finish(o->writer);
    snls_writer_info(o->writer, &later);
    if (status == SNLS_OK) print_later_notes(&o->told, &later);
    return status < 0            ? fail_clip(status, true, o->path, snls_error(o->ctx))
           : status != SNLS_OK ? fail(EXIT_INPUT, "%s: has fewer frames when it is read again", o->in)
                               : EXIT_DONE;
}

static int write_video(ClipOut *o, const SnlsTensor *clip)
{
    SnlsReader *again = NULL;
    const SnlsReaderParams reading = reading_params(&o->reading);
    const SnlsStatus status = o->source.reader ? SNLS_OK : snls_reader_open(&again, o->ctx, o->in, &reading);
    int code = status < 0 ? fail_library(o->ctx, status, false) : EXIT_DONE;
    if (!code && again) code = open_writer(o, again);
    if (!code) code = write_frames(o, again, clip);
    snls_writer_close(&o->writer);
    snls_reader_close(&again);
    return code;
}

int clip_out_write(ClipOut *o, SnlsContext *ctx, const SnlsTensor *clip)
{
    if (o->array) return write_array(ctx, o->path, clip);
    return *o->pattern ? write_pictures(o, ctx, clip) : write_video(o, clip);
}

/* ---- standard input: a video is begun before the first frame is taken, while the reader can say what it is like ---- */

static int begin(void *opaque)
{
    ClipOut *o = opaque;
    const int code = clip_out_add(o, o->common, 1);
    return code ? code : open_writer(o, o->source.reader);
}

int clip_out_load(ClipOut *o, SnlsContext *ctx, const Common *common, int64_t least, SnlsTensor *clip)
{
    const char *to = clip_name(o->path);
    const bool video = !strcmp(to, "-") || !(snls_path_ends(to, ".npy") || is_pattern(to) || is_folder(to));
    if (video && comes_once(o->in))
        return fail(EXIT_USAGE, "%s: a video needs IN a second time, and %s comes once; .npy or a folder need not", o->path, o->in);
    o->ctx = ctx;
    o->common = common;
    o->source = (Source){ .opened = video && !strcmp(o->in, "-") ? begin : NULL, .opaque = o };
    return frames_load_source(ctx, o->in, &o->reading, least, clip, &o->source);
}

void clip_out_free(ClipOut *o)
{
    snls_writer_close(&o->writer);
    source_free(&o->source);
}
