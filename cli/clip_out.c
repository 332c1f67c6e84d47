/* clip_out.c: what becomes of a clip, by the name of OUT. */
#define _XOPEN_SOURCE 700
#include "clip_out.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat info;
    const char *name = name_of(path);
    if (output_special(path)) return false;
    return (!stat(path, &info) && S_ISDIR(info.st_mode)) || !*name || !strchr(name, '.');
}

static bool is_pattern(const char *path) { return strchr(path, '%') && snls_path_ends(path, ".png"); }

/* A pipe, a device: its sound would have to be read again. Standard input, which is y4m, has none. */
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
    return *o->pattern && !pattern ? output_folder(o->path) : EXIT_DONE; /* of a pattern when it is known to be one */
}

static int picture_name(const ClipOut *o, char *name, size_t size)
{
    return snls_path_number(o->pattern, o->written, name, size) ? EXIT_DONE : fail(EXIT_USAGE, "%s: a pattern has one %%d or %%05d, of %d digits at most", o->pattern, SNLS_PATH_DIGITS);
}

/* The first one now: whether there is a place for them, and whether another run has it, is known before any work. The others as they come. */
static int begin_pictures(ClipOut *o)
{
    char name[4200];
    int code = picture_name(o, name, sizeof name);
    if (!code) code = output_folder_of(o->pattern);
    if (!code) code = clip_in_free(o->ctx, &o->clip, 0, o->pattern, o->common->overwrite);
    return code ? code : output_member(name, o->common->overwrite);
}

static int write_picture(ClipOut *o, const float *pixels)
{
    char name[4200];
    const SnlsTensor frame = snls_tensor((void *)pixels, SNLS_F32, 3, o->clip.shape);
    int code = picture_name(o, name, sizeof name);
    if (!code && o->written) code = output_member(name, o->common->overwrite);
    return code ? code : write_image(o->ctx, name, &frame);
}

/* ---- a video, or one picture ---- */

static const char *name_picture(void *opaque, const char *name)
{
    (void)opaque;
    return output_path(name);
}

static int open_writer(ClipOut *o)
{
    SnlsWriterParams params;
    snls_writer_defaults(&params);
    params.like = o->clip.reader;
    params.path = o->path;
    params.listen = 1;
    params.rename = name_picture;
    const SnlsStatus status = snls_writer_open(&o->writer, o->ctx, strcmp(o->path, "-") ? output_path(o->path) : "-", &params);
    if (status < 0) return fail_clip(status, true, o->path, snls_error(o->ctx));
    snls_writer_info(o->writer, &o->told);
    return EXIT_DONE;
}

static int write_frame(ClipOut *o, const float *pixels)
{
    SnlsFrame *made;
    SnlsStatus status = snls_writer_make(o->writer, o->clip.like[o->written % 2], pixels, &made);
    if (status >= 0) status = snls_writer_write(o->writer, made), snls_frame_free(&made);
    return status < 0 ? fail_clip(status, true, o->path, snls_error(o->ctx)) : EXIT_DONE;
}

static void say(ClipOut *o)
{
    if (o->said) return;
    clip_in_say(&o->clip);
    print_notes(&o->told);
    o->said = true;
}

static int finish_video(ClipOut *o)
{
    SnlsVideoInfo later;
    const SnlsStatus status = snls_writer_finish(o->writer);
    if (status < 0) return fail_clip(status, true, o->path, snls_error(o->ctx));
    snls_writer_info(o->writer, &later);
    say(o);
    print_later_notes(&o->told, &later);
    return EXIT_DONE;
}

/* ---- all of them ---- */

int clip_out_open(ClipOut *o, SnlsContext *ctx, const Common *common)
{
    o->path = clip_name(o->path);
    o->ctx = ctx;
    o->common = common;
    const bool standard = !strcmp(o->path, "-"), array = !standard && snls_path_ends(o->path, ".npy"),
               video = standard || !(array || is_pattern(o->path) || is_folder(o->path));
    if (video && comes_once(o->in))
        return fail(EXIT_USAGE, "%s: a video needs IN a second time, and %s comes once; .npy or a folder need not", o->path, o->in);
    return clip_in_open(ctx, o->in, &o->reading, CLIP_NOTES | (video ? CLIP_LIKE : 0), &o->clip);
}

int clip_out_begin(ClipOut *o)
{
    const ClipIn *clip = &o->clip;
    const int64_t shape[4] = { clip->exact ? clip->frames : -1, clip->shape[0], clip->shape[1], clip->shape[2] };
    const bool standard = !strcmp(o->path, "-"), array = snls_path_ends(o->path, ".npy");
    o->begun = seconds_now();
    if (standard && o->common->json) return fail(EXIT_USAGE, "OUT is standard output, and so is --json: one of them");
    int code = array || standard ? EXIT_DONE : choose_pattern(o);
    if (!code && *o->pattern) return begin_pictures(o);
    if (!code && !standard) code = output_add(o->path, o->common->overwrite);
    return code ? code : array ? array_out_open(o->ctx, o->path, 4, shape, false, &o->array) : open_writer(o);
}

int clip_out_frame(ClipOut *o, const float *pixels)
{
    const int code = *o->pattern ? write_picture(o, pixels) : o->writer ? write_frame(o, pixels) : array_out_add(o->ctx, &o->array, pixels);
    if (!code) o->written++;
    if (!code && seconds_now() - o->begun >= NOTES_SECONDS) say(o);
    return code;
}

int clip_out_finish(ClipOut *o)
{
    if (*o->pattern) return output_ends(o->pattern, o->written, o->common->overwrite), EXIT_DONE;
    return o->writer ? finish_video(o) : array_out_finish(o->ctx, &o->array);
}

void clip_out_free(ClipOut *o)
{
    if (!o->ctx) return;
    snls_writer_close(&o->writer);
    array_out_close(o->ctx, &o->array);
    clip_in_close(o->ctx, &o->clip);
}
