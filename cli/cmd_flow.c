/* cmd_flow.c: the motion between the frames of a clip, some of them at a time. */
#include "clip_in.h"
#include "flow_args.h"
#include "flow_in.h"
#include "mean.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FORWARD, BACKWARD, ERROR, ARRAYS }; /* what .npy files may hold: OUT, --out-backward, --out-error */

typedef struct Flow {
    SnlsContext *ctx;
    Common common;
    SnlsFlowParams params;
    const char *in, *out, *truth_path, *backward_path, *error_path;
    Reading reading;
    bool kitti;
    ClipIn clip;
    FlowIn truth;
    ArrayOut array[ARRAYS];
    /* some pairs at a time, side by side on the threads; the last frame is the first of the next ones */
    SnlsTensor video, forward, backward; /* (N+1,H,W,C), (N+1,H,W,2) */
    SnlsTensor moved, error, known;      /* of a pair: (H,W,C), (H,W), (H,W,2) */
    int64_t pairs;                       /* so far */
    double seconds, consistent;
    Mean as_is, by_flow; /* PSNR */
    Share length;
    double wrong; /* end-point errors, summed over the pixels whose truth is known */
    int64_t told; /* those pixels */
} Flow;

static const char *const suffixes[] = { ".npy", ".flo", ".png" };

static bool known_suffix(const char *path)
{
    for (int i = 0; i < 3; i++)
        if (snls_path_ends(path, suffixes[i])) return true;
    return false;
}

/* One array; a pipe or a device whose name has no ending is one too. */
static bool is_single(const Flow *f) { return snls_path_ends(f->out, ".npy") || (output_special(f->out) && !known_suffix(f->out)); }

static bool is_numbered(const Flow *f) { return !is_single(f) && strchr(f->out, '%'); }

/* Where the flow of pair t goes: the file itself, or its number in a pattern. */
static int pair_path(const Flow *f, int64_t t, char *path, size_t size)
{
    if (!is_numbered(f)) snprintf(path, size, "%s", f->out);
    else if (!snls_path_number(f->out, t, path, size))
        return fail(EXIT_USAGE, "%s: a pattern has one %%d or %%05d, of %d digits at most", f->out, SNLS_PATH_DIGITS);
    return EXIT_DONE;
}

/* The rest is counted for the sentence. */
static int too_many(Flow *f)
{
    const int code = clip_in_count(f->ctx, &f->clip);
    const long long pairs = (long long)f->clip.given - 1;
    return code ? code
                : fail(EXIT_USAGE, "%s: %lld pairs of frames need %lld files: write a pattern such as flow%%05d%s, or one .npy", f->out, pairs, pairs,
                       snls_path_ends(f->out, ".flo") ? ".flo" : ".png");
}

/* Into a pipe go backward flow and errors at the end, when OUT is complete. */
static int add_array(Flow *f, int which, const char *path, int32_t ndim)
{
    const int64_t *size = f->clip.shape, shape[4] = { f->clip.exact ? f->clip.frames : -1, size[0], size[1], 2 };
    const int code = output_array(path, f->common.overwrite);
    return code ? code : array_out_open(f->ctx, path, ndim, shape, which != FORWARD, &f->array[which]);
}

/* Of files by number the first is added now, to know that there is a place, the others as they come. */
static int add_outputs(Flow *f)
{
    char path[4096];
    int code = pair_path(f, 0, path, sizeof path);
    if (!code && is_numbered(f)) code = output_folder_of(f->out);
    if (!code && is_numbered(f)) code = clip_in_free(f->ctx, &f->clip, 1, f->out, f->common.overwrite);
    if (!code && is_numbered(f)) code = output_member(path, f->common.overwrite);
    else if (!code) code = is_single(f) ? add_array(f, FORWARD, f->out, 4) : output_add(path, f->common.overwrite);
    if (!code && f->backward_path) code = add_array(f, BACKWARD, f->backward_path, 4);
    if (!code && f->error_path) code = add_array(f, ERROR, f->error_path, 3);
    return code;
}

static int write_picture(Flow *f, const SnlsTensor *flow, const char *path)
{
    SnlsTensor image;
    const int code = alloc_array(f->ctx, "picture", &image, SNLS_U8, 3, (const int64_t[]){ flow->shape[0], flow->shape[1], 3 });
    if (code) return code;
    SnlsStatus status = snls_flow_color(f->ctx, flow, 0, &image);
    if (status >= 0) status = snls_png_write(f->ctx, path, &image);
    snls_array_free(f->ctx, &image);
    return status < 0 ? fail_library(f->ctx, status, true) : EXIT_DONE;
}

static int write_file(Flow *f, const SnlsTensor *flow)
{
    char path[4096];
    int code = pair_path(f, f->pairs, path, sizeof path);
    if (!code && f->pairs && is_numbered(f)) code = output_member(path, f->common.overwrite);
    if (code) return code;
    const bool flo = snls_path_ends(path, ".flo");
    if (!flo && !f->kitti) return write_picture(f, flow, output_path(path));
    const SnlsStatus status = flo ? snls_flo_write(f->ctx, output_path(path), flow) : snls_kitti_write(f->ctx, output_path(path), flow);
    return status < 0 ? fail_library(f->ctx, status, true) : EXIT_DONE;
}

/* How well frame t+1 moved back by the flow shows frame t. A pair that shows it exactly, as where a camera's frame comes twice, tells nothing of the others. */
static int measure(Flow *f, const SnlsTensor *from, const SnlsTensor *to, const SnlsTensor *flow)
{
    double none = 0, warped = 0;
    SnlsStatus status = snls_flow_warp(f->ctx, to, flow, &f->moved);
    if (status >= 0) status = snls_psnr(f->ctx, from, to, &none);
    if (status >= 0) status = snls_psnr(f->ctx, from, &f->moved, &warped);
    if (status < 0) return fail_library(f->ctx, status, false);
    mean_add(&f->as_is, none);
    mean_add(&f->by_flow, warped);
    const float *v = flow->data;
    for (int64_t i = 0; i < flow->shape[0] * flow->shape[1]; i++) share_add(&f->length, hypot(v[2 * i], v[2 * i + 1]));
    return EXIT_DONE;
}

/* The pixels of a pair whose truth is known, as snls_flow_error takes them. */
static int64_t known_pixels(const Flow *f)
{
    const float *v = f->known.data;
    int64_t count = 0;
    for (int64_t i = 0; i < f->known.shape[0] * f->known.shape[1]; i++) count += fabsf(v[2 * i]) < 1e9f && fabsf(v[2 * i + 1]) < 1e9f;
    return count;
}

/* Of the pairs whose truth the file has. One may know more pixels than another, or none. */
static int compare_truth(Flow *f, const SnlsTensor *flow)
{
    double error;
    bool there;
    const int code = flow_in_next(f->ctx, &f->truth, f->known.data, &there);
    if (code || !there) return code;
    const SnlsStatus status = snls_flow_error(f->ctx, flow, &f->known, &error);
    if (status < 0) return fail(EXIT_INPUT, "--truth %s: %s", f->truth_path, snls_error(f->ctx));
    const int64_t known = known_pixels(f);
    if (known) f->wrong += error * (double)known;
    f->told += known;
    return EXIT_DONE;
}

/* Round-trip errors of a frame that has a next one. */
static int check_consistency(Flow *f, const SnlsTensor *forward, const SnlsTensor *backward)
{
    const SnlsStatus status = snls_flow_consistency(f->ctx, forward, backward, &f->error, NULL);
    if (status < 0) return fail_library(f->ctx, status, false);
    const float *error = f->error.data;
    for (int64_t i = 0; i < f->error.shape[0] * f->error.shape[1]; i++) f->consistent += error[i] <= 1;
    return array_out_add(f->ctx, &f->array[ERROR], error);
}

/* Pair i of those in work: what it tells, and its files. */
static int take_pair(Flow *f, int64_t i)
{
    const SnlsTensor from = frame_of(&f->video, i), to = frame_of(&f->video, i + 1), flow = frame_of(&f->forward, i),
                     back = f->backward.data ? frame_of(&f->backward, i + 1) : (SnlsTensor){ 0 };
    int code = measure(f, &from, &to, &flow);
    if (!code && f->truth_path) code = compare_truth(f, &flow);
    if (!code && f->error_path) code = check_consistency(f, &flow, &back);
    if (!code && f->backward_path) code = array_out_add(f->ctx, &f->array[BACKWARD], back.data);
    if (!code) code = is_single(f) ? array_out_add(f->ctx, &f->array[FORWARD], flow.data) : write_file(f, &flow);
    f->pairs++;
    return code;
}

/* ---- the clip, some pairs at a time ---- */

static const double TOGETHER = 1024.0 * 1024 * 1024; /* bytes at most of the frames in work, where that is more than one pair */

/* Memory for as many pairs as there are threads. */
static int plan(Flow *f)
{
    const int64_t h = f->clip.shape[0], w = f->clip.shape[1], c = f->clip.shape[2];
    const bool back = f->backward_path || f->error_path;
    const double each = 4.0 * (double)h * (double)w * (double)(c + (back ? 4 : 2)), most = TOGETHER / each - 1;
    const int64_t threads = snls_threads(f->ctx), n = most < 1 ? 1 : most < (double)threads ? (int64_t)most : threads, shape[4] = { n + 1, h, w, 2 };
    int code = alloc_array(f->ctx, "frames", &f->video, SNLS_F32, 4, (const int64_t[]){ n + 1, h, w, c });
    if (!code) code = alloc_array(f->ctx, "flow", &f->forward, SNLS_F32, 4, shape);
    if (!code && back) code = alloc_array(f->ctx, "flow", &f->backward, SNLS_F32, 4, shape);
    if (!code) code = alloc_array(f->ctx, "moved frame", &f->moved, SNLS_F32, 3, f->clip.shape);
    if (!code && f->error_path) code = alloc_array(f->ctx, "consistency", &f->error, SNLS_F32, 2, shape + 1);
    if (!code && f->truth_path) code = alloc_array(f->ctx, "true flow", &f->known, SNLS_F32, 3, shape + 1);
    const int64_t pairs = f->clip.frames - 1;
    f->length = share_begin(pairs > 0 && pairs <= INT64_MAX / (h * w) ? pairs * h * w : 0); /* what a file says of its length may be anything */
    return code;
}

/* The next frames, behind the one that is there already; *count: how many are there then. */
static int read_frames(Flow *f, int64_t *count)
{
    int code = EXIT_DONE;
    for (bool there = true; !code && there && *count < f->video.shape[0]; *count += there && !code)
        code = clip_in_next(f->ctx, &f->clip, frame_of(&f->video, *count).data, &there);
    return code;
}

static int find_flow(Flow *f, int64_t frames)
{
    SnlsFlowClip clip = { f->video, f->forward, f->backward };
    clip.video.shape[0] = clip.forward.shape[0] = clip.backward.shape[0] = frames;
    const double start = seconds_now();
    const SnlsStatus status = snls_flow_clip(f->ctx, &clip, &f->params);
    f->seconds += seconds_now() - start;
    return status < 0 ? fail_library(f->ctx, status, false) : EXIT_DONE;
}

static int compute(Flow *f)
{
    int64_t count = 0;
    int code = plan(f);
    if (!code) code = read_frames(f, &count);
    if (!code) code = frames_enough(f->in, count, 2);
    if (!code && f->backward_path) code = array_out_add(f->ctx, &f->array[BACKWARD], f->backward.data); /* zeros: the first frame has none before it */
    while (!code && count > 1) {
        if (!is_single(f) && !is_numbered(f) && f->clip.given > 2) return too_many(f);
        code = find_flow(f, count);
        for (int64_t i = 0; !code && i + 1 < count; i++) code = take_pair(f, i);
        memcpy(f->video.data, frame_of(&f->video, count - 1).data, (size_t)snls_tensor_elements(&f->moved) * sizeof(float));
        count = 1;
        if (!code) code = read_frames(f, &count);
    }
    return code;
}

/* The last frame has no flow, and no error: zeros. */
static int finish_outputs(Flow *f)
{
    int code = EXIT_DONE;
    SnlsTensor *const last[ARRAYS] = { &f->forward, NULL, &f->error };
    if (is_numbered(f)) output_ends(f->out, f->pairs, f->common.overwrite);
    for (int i = 0; !code && i < ARRAYS; i++) {
        if (!f->array[i].path) continue;
        const int64_t values = f->clip.shape[0] * f->clip.shape[1] * (i == ERROR ? 1 : 2);
        if (last[i]) memset(last[i]->data, 0, (size_t)values * sizeof(float)), code = array_out_add(f->ctx, &f->array[i], last[i]->data);
        if (!code) code = array_out_finish(f->ctx, &f->array[i]);
    }
    return code;
}

/* ---- what is told ---- */

static double mean_length(const Flow *f) { return share_of(&f->length, f->pairs * f->clip.shape[0] * f->clip.shape[1]); }

static double mean_error(const Flow *f) { return f->told ? f->wrong / (double)f->told : NAN; }

static double consistent(const Flow *f) { return f->consistent / (double)(f->pairs * f->clip.shape[0] * f->clip.shape[1]); }

static double seconds_per_pair(const Flow *f) { return f->seconds / (double)(f->pairs * (f->backward.data ? 2 : 1)); }

static json_t *make_report(const Flow *f)
{
    const SnlsTensor flow = snls_tensor(NULL, SNLS_F32, 4, (const int64_t[]){ f->pairs + 1, f->clip.shape[0], f->clip.shape[1], 2 });
    json_t *report = report_begin(f->ctx), *warped = json_object();
    json_object_set_new(report, "method", json_string(snls_flow_options("flow")->names[f->params.method]));
    json_object_set_new(report, "shape", json_shape(&flow));
    json_object_set_new(report, "pairs", json_integer(f->pairs));
    json_object_set_new(report, "seconds_per_pair", json_real(seconds_per_pair(f)));
    json_object_set_new(report, "mean_length", json_real_or_null(mean_length(f)));
    json_object_set_new(warped, "none", json_real_or_null(mean_of(&f->as_is, INFINITY)));
    json_object_set_new(warped, "flow", json_real_or_null(mean_of(&f->by_flow, INFINITY)));
    json_object_set_new(report, "psnr", warped);
    if (f->truth_path) json_object_set_new(report, "epe", json_real_or_null(mean_error(f)));
    if (f->error_path) json_object_set_new(report, "consistent", json_real_or_null(consistent(f)));
    return report;
}

static int print_result(const Flow *f)
{
    if (f->common.json) return report_print(make_report(f));
    FILE *to = outputs_on_stdout() ? stderr : stdout;
    fprintf(to, "%lld pair%s of %lld x %lld pixels, mean motion %.2f pixels, %.1f ms each\n", (long long)f->pairs, f->pairs == 1 ? "" : "s", (long long)f->clip.shape[1],
           (long long)f->clip.shape[0], mean_length(f), 1e3 * seconds_per_pair(f));
    fprintf(to, "PSNR of frame t+1 against frame t: %.2f dB as it is, %.2f dB moved by the flow\n", mean_of(&f->as_is, INFINITY), mean_of(&f->by_flow, INFINITY));
    if (f->truth_path) fprintf(to, "end-point error: %.4f pixels\n", mean_error(f));
    if (f->error_path) fprintf(to, "consistent to a pixel: %.1f %%\n", 100 * consistent(f));
    return flush_stdout();
}

static int open_truth(Flow *f)
{
    const int64_t *size = f->clip.shape, *shape = f->truth.whole.shape;
    const int code = f->truth_path ? flow_in_open(f->ctx, f->truth_path, &f->truth) : EXIT_DONE;
    if (code || !f->truth_path || (shape[1] == size[0] && shape[2] == size[1])) return code;
    return fail(EXIT_INPUT, "--truth %s: has shape %s, must be [T,%lld,%lld,2]", f->truth_path, shape_text(&f->truth.whole).text, (long long)size[0], (long long)size[1]);
}

static int work(Flow *f)
{
    if (!known_suffix(f->out) && !is_single(f)) return fail(EXIT_USAGE, "%s: flow is written to .npy, .flo or .png", f->out);
    if (f->kitti && !snls_path_ends(f->out, ".png")) return fail(EXIT_USAGE, "--kitti: %s is no .png, which KITTI's flow is", f->out);
    int code = open_context(&f->common, &f->ctx);
    if (!code) code = clip_in_open(f->ctx, f->in, &f->reading, 0, &f->clip);
    if (!code && f->clip.exact) code = frames_enough(f->in, f->clip.frames, 2);
    if (!code) code = open_truth(f);
    if (!code && !is_single(f) && !is_numbered(f) && f->clip.exact && f->clip.frames > 2) code = too_many(f);
    if (!code) code = add_outputs(f);
    if (!code) code = compute(f);
    if (!code) code = finish_outputs(f);
    if (!code) code = print_result(f);
    return code ? code : outputs_commit();
}

static void release(Flow *f)
{
    SnlsTensor *const all[] = { &f->video, &f->forward, &f->backward, &f->moved, &f->error, &f->known };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) snls_array_free(f->ctx, all[i]);
    for (int i = 0; i < ARRAYS; i++) array_out_close(f->ctx, &f->array[i]);
    flow_in_close(f->ctx, &f->truth);
    clip_in_close(f->ctx, &f->clip);
    snls_close(&f->ctx);
}

int cmd_flow(int argc, char **argv)
{
    static const char *const names[] = { "IN", "OUT" };
    static const char *const help[] = {
        "a video, a folder of images, a pattern (dir/%05d.png), .npy [T,H,W,C], - for y4m on stdin",
        "OUT.npy: [T,H,W,2], the last frame's 0; OUT.flo or OUT.png (colours): one pair, or a pattern"
    };
    int code;
    Flow f = { .ctx = NULL };
    SnlsOption options[FLOW_OPTIONS_MAX];
    const char *given[2] = { NULL, NULL };
    const Arg args[] = {
        { "truth", "T.flo", "true flow (.flo, .npy, KITTI's .png): tells the end-point error where it is known (below 1e9, not NaN)", &f.truth_path },
        { "out-backward", "B.npy", "flow of each frame to the one before it", &f.backward_path },
        { "out-error", "E.npy", "[T,H,W]: how far forward and backward flow disagree, pixels", &f.error_path },
        { "kitti", NULL, "OUT.png is KITTI's 16-bit flow, no picture", &f.kitti },
        READING_ARGS(f.reading)
    };
    const char *chosen = flow_method_given(argc, argv, "method", "farneback");
    const ArgTable table = {
        .chosen_by = "method",
        .chosen = chosen,
        .methods = flow_methods,
        .summary = "the motion between the frames of a clip",
        .examples = "  snls flow frames/ flow.npy\n  snls flow frames/ flow.flo --method tvl1 --truth true.flo --json\n"
                    "  snls flow frames/%05d.png colours%05d.png --method dis\n  snls flow --method dis --help      "
                    "(the parameters of a method)\n",
        .args = args,
        .arg_count = sizeof args / sizeof *args,
        .options = options,
        .params = &f.params,
        .positional_names = names,
        .positional_help = help,
        .positional = given,
        .positional_min = 2,
        .positional_max = 2
    };
    snls_flow_defaults(&f.params);
    flow_options(options, snls_flow_options("flow"), 0, chosen);
    if (!parse_args(argc, argv, &table, &f.common, &code)) return code;
    f.in = given[0];
    f.out = given[1];
    code = work(&f);
    release(&f);
    return code;
}
