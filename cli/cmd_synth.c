/* cmd_synth.c: writes the scene of synth.c: frames, exact flow, occlusions. */
#include "cli.h"
#include "synth.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Job {
    Common common;
    Synth scene;
    SnlsContext *ctx;
    const char *out, *fflow, *bflow, *occlusion;
    char pattern[4096]; /* of PNG frames; empty: out is one .npy */
} Job;

static bool is_folder(const char *path)
{
    struct stat info;
    const size_t n = strlen(path);
    return path[n - 1] == '/' || (!stat(path, &info) && S_ISDIR(info.st_mode));
}

static bool is_pattern(const char *path)
{
    char name[4300];
    return snls_path_number(path, 0, name, sizeof name);
}

static int choose_form(Job *j)
{
    const char *path = j->out;
    const size_t length = strlen(path);
    if (length + 16 > sizeof j->pattern)
        return fail(EXIT_USAGE, "OUT is longer than %d bytes", (int)sizeof j->pattern - 16);
    if (is_folder(path)) {
        snprintf(j->pattern, sizeof j->pattern, "%s%s%%05d.png", path, path[length - 1] == '/' ? "" : "/");
        return output_folder(path);
    }
    struct stat info;
    const bool device = !stat(path, &info) && !S_ISREG(info.st_mode);
    if (device || snls_path_ends(path, ".npy")) return EXIT_DONE;
    if (!strchr(path, '%'))
        return fail(EXIT_USAGE, "%s: must be a .npy file, a folder (dir/) or a pattern (dir/%%05d.png)", path);
    if (!is_pattern(path) || !snls_path_ends(path, ".png"))
        return fail(EXIT_USAGE, "%s: a pattern has exactly one %%d or %%05d, of %d digits at most, and ends in .png", path, SNLS_PATH_DIGITS);
    snprintf(j->pattern, sizeof j->pattern, "%s", path);
    return output_folder_of(path);
}

static const char *frame_path(const Job *j, int64_t t)
{
    static char path[4300];
    snls_path_number(j->pattern, t, path, sizeof path); /* checked by is_pattern */
    return path;
}

static int reserve(Job *j)
{
    const char *const arrays[] = { j->fflow, j->bflow, j->occlusion };
    int code = choose_form(j);
    if (!code && !*j->pattern) code = output_add(j->out, j->common.overwrite);
    for (int64_t t = 0; *j->pattern && t < j->scene.frames && !code; t++)
        code = output_member(frame_path(j, t), j->common.overwrite);
    if (*j->pattern) output_ends(j->pattern, j->scene.frames, j->common.overwrite);
    for (int i = 0; i < 3 && !code; i++)
        if (arrays[i]) code = output_array(arrays[i], j->common.overwrite);
    return code;
}

static int write_frames(Job *j)
{
    const Synth *s = &j->scene;
    SnlsTensor picture = { 0 };
    int code = alloc_array(j->ctx, j->out, &picture, SNLS_F32, 3, (int64_t[]){ s->height, s->width, 3 });
    for (int64_t t = 0; t < s->frames && !code; t++) {
        synth_frame(s, t, picture.data);
        code = write_image(j->ctx, frame_path(j, t), &picture);
    }
    snls_array_free(j->ctx, &picture);
    return code;
}

static int write_clip(Job *j)
{
    const Synth *s = &j->scene;
    SnlsTensor clip = { 0 };
    int code = alloc_array(j->ctx, j->out, &clip, SNLS_F32, 5, (int64_t[]){ 1, s->frames, s->height, s->width, 3 });
    for (int64_t t = 0; t < s->frames && !code; t++) synth_frame(s, t, (float *)clip.data + t * clip.stride[1]);
    if (!code) code = write_array(j->ctx, j->out, &clip);
    snls_array_free(j->ctx, &clip);
    return code;
}

static int write_flow(Job *j, const char *path, int64_t step)
{
    const Synth *s = &j->scene;
    SnlsTensor flow = { 0 };
    if (!path) return EXIT_DONE;
    int code = alloc_array(j->ctx, path, &flow, SNLS_F32, 5, (int64_t[]){ 1, s->frames, s->height, s->width, 2 });
    for (int64_t t = 0; t < s->frames && !code; t++) synth_flow(s, t, step, (float *)flow.data + t * flow.stride[1]);
    if (!code) code = write_array(j->ctx, path, &flow);
    snls_array_free(j->ctx, &flow);
    return code;
}

static int write_occlusion(Job *j)
{
    const Synth *s = &j->scene;
    SnlsTensor mask = { 0 };
    if (!j->occlusion) return EXIT_DONE;
    int code = alloc_array(j->ctx, j->occlusion, &mask, SNLS_F32, 4, (int64_t[]){ 1, s->frames, s->height, s->width });
    for (int64_t t = 0; t < s->frames && !code; t++) synth_occlusion(s, t, 1, (float *)mask.data + t * mask.stride[1]);
    if (!code) code = write_array(j->ctx, j->occlusion, &mask);
    snls_array_free(j->ctx, &mask);
    return code;
}

static json_t *make_report(const Job *j)
{
    const char *const paths[] = { j->out, j->fflow, j->bflow, j->occlusion }, *const names[] = { "out", "out-fflow",
                                                                                                 "out-bflow",
                                                                                                 "out-occlusion" };
    const Synth *s = &j->scene;
    json_t *report = report_begin(NULL), *parameters = json_object(), *outputs = json_array();
    for (const SnlsOption *o = synth_options; o->name; o++) {
        const char *at = (const char *)s + o->offset;
        json_object_set_new(parameters, o->name,
                            o->type == SNLS_OPTION_INT ? json_integer(*(const int32_t *)(const void *)at)
                                                       : json_real(*(const double *)(const void *)at));
    }
    for (int i = 0; i < 4; i++)
        if (paths[i])
            json_array_append_new(outputs, json_pack("{s:s, s:o}", "option", names[i], "path", json_text(paths[i])));
    json_object_set_new(report, "seed", json_integer((json_int_t)s->seed));
    json_object_set_new(report, "parameters", parameters);
    json_object_set_new(report, "shapes",
                        json_pack("{s:[i,i,i,i,i]}", "clip", 1, (int)s->frames, (int)s->height, (int)s->width, 3));
    json_object_set_new(report, "outputs", outputs);
    return report;
}

static int work(Job *j)
{
    int code = reserve(j);
    if (!code) code = open_context(&j->common, &j->ctx);
    if (!code) code = *j->pattern ? write_frames(j) : write_clip(j);
    if (!code) code = write_flow(j, j->fflow, 1);
    if (!code) code = write_flow(j, j->bflow, -1);
    if (!code) code = write_occlusion(j);
    if (!code && j->common.json) code = report_print(make_report(j));
    if (!code) code = outputs_commit();
    snls_close(&j->ctx);
    return code;
}

int cmd_synth(int argc, char **argv)
{
    static Job j; /* its pattern is large */
    int code;
    const char *const names[] = { "OUT" }, *const help[] = {
        "clip.npy [1,T,H,W,3] 0..255, a folder (dir/) or a pattern (dir/%05d.png) of PNGs"
    };
    const Arg args[] = {
        { "out-fflow", "F.npy", "exact motion t -> t+1 of each frame's pixels [1,T,H,W,2] (x,y)", &j.fflow },
        { "out-bflow", "B.npy", "exact motion t -> t-1", &j.bflow },
        { "out-occlusion", "O.npy", "1 where frame t+1 does not show a pixel of frame t [1,T,H,W]", &j.occlusion }
    };
    const ArgTable table = { .summary = "a textured clip with a moving camera, a moving object and known flow",
                             .examples =
                                 "  snls synth clip.npy --out-fflow f.npy --out-bflow b.npy --out-occlusion o.npy\n"
                                 "  snls synth frames/ --frames 20 --camera-x 3.5 --zoom 1.01 --seed 7\n"
                                 "  snls synth clip.npy --disturb 3 --out-fflow wrong.npy\n",
                             .args = args,
                             .arg_count = 3,
                             .options = synth_options,
                             .params = &j.scene,
                             .positional_names = names,
                             .positional_help = help,
                             .positional = &j.out,
                             .positional_min = 1,
                             .positional_max = 1,
                             .no_device = true };
    synth_defaults(&j.scene);
    if (!parse_args(argc, argv, &table, &j.common, &code)) return code;
    j.scene.seed = j.common.seed;
    return work(&j);
}
