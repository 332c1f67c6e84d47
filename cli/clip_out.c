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

/* Standard input, a pipe, a device. */
static bool comes_once(const char *path)
{
    struct stat info;
    return !strcmp(path, "-") ||
           (!stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !S_ISBLK(info.st_mode));
}

static int choose_pattern(ClipOut *o)
{
    const size_t length = strlen(o->path);
    const bool pattern = strchr(o->path, '%') && snls_path_ends(o->path, ".png");
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
    o->path = clip_name(o->path);
    o->array = snls_path_ends(o->path, ".npy");
    o->overwrite = common->overwrite;
    const bool standard = !strcmp(o->path, "-");
    int code = o->array || standard ? EXIT_DONE : choose_pattern(o);
    if (!code && !o->array && !*o->pattern && comes_once(o->in))
        return fail(EXIT_USAGE, "%s: a video needs IN a second time, and %s comes once; .npy or a folder need not",
                    o->path, strcmp(o->in, "-") ? o->in : "standard input");
    if (standard)
        return common->json ? fail(EXIT_USAGE, "OUT is standard output, and so is --json: one of them") : EXIT_DONE;
    if (!code && !*o->pattern) code = output_add(o->path, o->overwrite);
    for (int64_t t = 0; *o->pattern && t < frames && !code; t++) {
        if (!snls_path_number(o->pattern, t, name, sizeof name))
            return fail(EXIT_USAGE, "%s: a pattern has one %%d or %%05d", o->pattern);
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

static SnlsStatus write_frame(SnlsReader *reader, SnlsWriter *writer, const SnlsTensor *frame)
{
    SnlsFrame *like, *made;
    SnlsStatus status = snls_reader_next(reader, &like);
    if (status != SNLS_OK) return status;
    status = snls_writer_make(writer, like, frame->data, &made);
    snls_frame_free(&like);
    if (status >= 0) status = snls_writer_write(writer, made), snls_frame_free(&made);
    return status;
}

static int write_video(const ClipOut *o, SnlsContext *ctx, const SnlsTensor *clip)
{
    SnlsReader *reader;
    SnlsWriter *writer = NULL;
    SnlsWriterParams params;
    SnlsVideoInfo info;
    const SnlsReaderParams reading = reading_params(&o->reading);
    SnlsStatus status = snls_reader_open(&reader, ctx, o->in, &reading);
    if (status < 0) return fail_library(ctx, status, false);
    snls_writer_defaults(&params);
    params.like = reader;
    params.path = o->path;
    params.rename = name_picture;
    status = snls_writer_open(&writer, ctx, strcmp(o->path, "-") ? output_path(o->path) : "-", &params);
    snls_writer_info(writer, &info);
    for (char *line = info.notes, *end; *line && (end = strchr(line, '\n')); line = end + 1)
        fprintf(stderr, "snls %s: %.*s\n", command_name, (int)(end - line), line);
    for (int64_t t = 0; t < clip->shape[0] && status == SNLS_OK; t++) {
        const SnlsTensor frame = frame_of(clip, t);
        status = write_frame(reader, writer, &frame);
    }
    if (status == SNLS_OK) status = snls_writer_finish(writer);
    const int code = status < 0      ? fail_clip(status, true, o->path, snls_error(ctx))
                     : status != SNLS_OK ? fail(EXIT_INPUT, "%s: has fewer frames when it is read again", o->in)
                                         : EXIT_DONE;
    snls_writer_close(&writer);
    snls_reader_close(&reader);
    return code;
}

int clip_out_write(const ClipOut *o, SnlsContext *ctx, const SnlsTensor *clip)
{
    if (o->array) return write_array(ctx, o->path, clip);
    return *o->pattern ? write_pictures(o, ctx, clip) : write_video(o, ctx, clip);
}
