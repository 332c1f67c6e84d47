/* cmd_flow.c: the motion between the frames of a clip. */
#include "flow_args.h"
#include "frames.h"
#include "mean.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Flow {
    SnlsContext *ctx;
    Common common;
    SnlsFlowParams params;
    const char *in, *out, *truth_path, *backward_path, *error_path;
    Reading reading;
    bool kitti;
    SnlsTensor video, forward, backward, truth, error;
    int64_t pairs;
    double seconds, epe, psnr_none, psnr_flow, length, consistent;
} Flow;

static const char *const suffixes[] = { ".npy", ".flo", ".png" };

static bool known_suffix(const char *path)
{
    for (int i = 0; i < 3; i++)
        if (snls_path_ends(path, suffixes[i])) return true;
    return false;
}

/* Where the flow of pair t goes: the file itself, or its number in a pattern. */
static int pair_path(const Flow *f, int64_t t, char *path, size_t size)
{
    if (!strchr(f->out, '%')) snprintf(path, size, "%s", f->out);
    else if (!snls_path_number(f->out, t, path, size))
        return fail(EXIT_USAGE, "%s: a pattern has one %%d or %%05d, of %d digits at most", f->out, SNLS_PATH_DIGITS);
    return EXIT_DONE;
}

static int add_outputs(Flow *f)
{
    char path[4096];
    int code = EXIT_DONE;
    const bool single = snls_path_ends(f->out, ".npy");
    if (!single && f->pairs > 1 && !strchr(f->out, '%'))
        return fail(EXIT_USAGE,
                    "%s: %lld pairs of frames need %lld files: write a pattern such as flow%%05d%s, or one .npy",
                    f->out, (long long)f->pairs, (long long)f->pairs, snls_path_ends(f->out, ".flo") ? ".flo" : ".png");
    for (int64_t t = 0; !code && t < (single ? 1 : f->pairs); t++) {
        code = pair_path(f, t, path, sizeof path);
        if (!code) code = strchr(f->out, '%') ? output_member(path, f->common.overwrite) : output_add(path, f->common.overwrite);
    }
    if (!single && strchr(f->out, '%')) output_ends(f->out, f->pairs, f->common.overwrite);
    if (!code && f->backward_path) code = output_add(f->backward_path, f->common.overwrite);
    if (!code && f->error_path) code = output_add(f->error_path, f->common.overwrite);
    return code;
}

static int write_pair(Flow *f, int64_t t)
{
    char path[4096];
    const SnlsTensor flow = frame_of(&f->forward, t);
    int code = pair_path(f, t, path, sizeof path);
    if (code) return code;
    SnlsStatus status;
    if (snls_path_ends(path, ".flo")) status = snls_flo_write(f->ctx, output_path(path), &flow);
    else if (f->kitti) status = snls_kitti_write(f->ctx, output_path(path), &flow);
    else {
        SnlsTensor image;
        code = alloc_array(f->ctx, "picture", &image, SNLS_U8, 3, (const int64_t[]){ flow.shape[0], flow.shape[1], 3 });
        if (code) return code;
        status = snls_flow_color(f->ctx, &flow, 0, &image);
        if (status >= 0) status = snls_png_write(f->ctx, output_path(path), &image);
        snls_array_free(f->ctx, &image);
    }
    return status < 0 ? fail_library(f->ctx, status, true) : EXIT_DONE;
}

static int write_outputs(Flow *f)
{
    int code = EXIT_DONE;
    if (snls_path_ends(f->out, ".npy")) code = write_array(f->ctx, f->out, &f->forward);
    else
        for (int64_t t = 0; !code && t < f->pairs; t++) code = write_pair(f, t);
    if (!code && f->backward_path) code = write_array(f->ctx, f->backward_path, &f->backward);
    if (!code && f->error_path) code = write_array(f->ctx, f->error_path, &f->error);
    return code;
}

/* How well frame t+1 moved back by the flow shows frame t: mean over the pairs. One that shows it exactly, as where a camera's frame comes twice, tells nothing of the others. */
static int measure(Flow *f)
{
    SnlsTensor moved;
    Mean as_is = { 0 }, by_flow = { 0 };
    int code = alloc_array(f->ctx, "moved frame", &moved, SNLS_F32, 3, f->video.shape + 1);
    for (int64_t t = 0; !code && t < f->pairs; t++) {
        const SnlsTensor from = frame_of(&f->video, t), to = frame_of(&f->video, t + 1),
                         flow = frame_of(&f->forward, t);
        double none = 0, warped = 0;
        SnlsStatus status = snls_flow_warp(f->ctx, &to, &flow, &moved);
        if (status >= 0) status = snls_psnr(f->ctx, &from, &to, &none);
        if (status >= 0) status = snls_psnr(f->ctx, &from, &moved, &warped);
        if (status < 0) code = fail_library(f->ctx, status, false);
        mean_add(&as_is, none);
        mean_add(&by_flow, warped);
        const float *v = flow.data;
        for (int64_t i = 0; i < flow.shape[0] * flow.shape[1]; i++)
            f->length += hypot(v[2 * i], v[2 * i + 1]) / (double)(flow.shape[0] * flow.shape[1] * f->pairs);
    }
    f->psnr_none = mean_of(&as_is, INFINITY);
    f->psnr_flow = mean_of(&by_flow, INFINITY);
    snls_array_free(f->ctx, &moved);
    return code;
}

static int compare_truth(Flow *f)
{
    const int64_t count = f->truth.shape[0] < f->pairs ? f->truth.shape[0] : f->pairs;
    f->epe = 0;
    for (int64_t t = 0; t < count; t++) {
        const SnlsTensor flow = frame_of(&f->forward, t), truth = frame_of(&f->truth, t);
        double error;
        const SnlsStatus status = snls_flow_error(f->ctx, &flow, &truth, &error);
        if (status < 0) return fail(EXIT_INPUT, "--truth %s: %s", f->truth_path, snls_error(f->ctx));
        f->epe += error / (double)count;
    }
    return EXIT_DONE;
}

/* Round-trip errors of the frames that have a next one. */
static int check_consistency(Flow *f)
{
    int code = alloc_array(f->ctx, "consistency", &f->error, SNLS_F32, 3, f->video.shape);
    double good = 0;
    for (int64_t t = 0; !code && t < f->pairs; t++) {
        const SnlsTensor forward = frame_of(&f->forward, t), backward = frame_of(&f->backward, t + 1),
                         error = frame_of(&f->error, t);
        const SnlsStatus status = snls_flow_consistency(f->ctx, &forward, &backward, &error, NULL);
        if (status < 0) code = fail_library(f->ctx, status, false);
        for (int64_t i = 0; i < error.shape[0] * error.shape[1]; i++) good += ((const float *)error.data)[i] <= 1;
    }
    f->consistent = good / (double)(f->pairs * f->video.shape[1] * f->video.shape[2]);
    return code;
}

static int compute(Flow *f)
{
    const int64_t shape[4] = { f->video.shape[0], f->video.shape[1], f->video.shape[2], 2 };
    const bool back = f->backward_path || f->error_path;
    int code = alloc_array(f->ctx, "flow", &f->forward, SNLS_F32, 4, shape);
    if (!code && back) code = alloc_array(f->ctx, "flow", &f->backward, SNLS_F32, 4, shape);
    if (code) return code;
    const SnlsFlowClip clip = { f->video, f->forward, f->backward };
    const double start = seconds_now();
    const SnlsStatus status = snls_flow_clip(f->ctx, &clip, &f->params);
    f->seconds = (seconds_now() - start) / (double)(f->pairs * (back ? 2 : 1));
    if (status < 0) return fail_library(f->ctx, status, false);
    code = measure(f);
    if (!code && f->truth_path) code = compare_truth(f);
    if (!code && f->error_path) code = check_consistency(f);
    return code;
}

static json_t *make_report(const Flow *f)
{
    json_t *report = report_begin(f->ctx), *warped = json_object();
    json_object_set_new(report, "method", json_string(snls_flow_options("flow")->names[f->params.method]));
    json_object_set_new(report, "shape", json_shape(&f->forward));
    json_object_set_new(report, "pairs", json_integer(f->pairs));
    json_object_set_new(report, "seconds_per_pair", json_real(f->seconds));
    json_object_set_new(report, "mean_length", json_real_or_null(f->length));
    json_object_set_new(warped, "none", json_real_or_null(f->psnr_none));
    json_object_set_new(warped, "flow", json_real_or_null(f->psnr_flow));
    json_object_set_new(report, "psnr", warped);
    if (f->truth_path) json_object_set_new(report, "epe", json_real_or_null(f->epe));
    if (f->error_path) json_object_set_new(report, "consistent", json_real_or_null(f->consistent));
    return report;
}

static int print_result(const Flow *f)
{
    if (f->common.json) return report_print(make_report(f));
    printf("%lld pair%s of %lld x %lld pixels, mean motion %.2f pixels, %.1f ms each\n", (long long)f->pairs,
           f->pairs == 1 ? "" : "s", (long long)f->video.shape[2], (long long)f->video.shape[1], f->length,
           1e3 * f->seconds);
    printf("PSNR of frame t+1 against frame t: %.2f dB as it is, %.2f dB moved by the flow\n", f->psnr_none,
           f->psnr_flow);
    if (f->truth_path) printf("end-point error: %.4f pixels\n", f->epe);
    if (f->error_path) printf("consistent to a pixel: %.1f %%\n", 100 * f->consistent);
    return flush_stdout();
}

static int work(Flow *f)
{
    if (!known_suffix(f->out)) return fail(EXIT_USAGE, "%s: flow is written to .npy, .flo or .png", f->out);
    if (f->kitti && !snls_path_ends(f->out, ".png")) return fail(EXIT_USAGE, "--kitti: %s is no .png, which KITTI's flow is", f->out);
    int code = open_context(&f->common, &f->ctx);
    if (!code) code = frames_load(f->ctx, f->in, &f->reading, 2, &f->video);
    if (!code && f->truth_path) code = flow_load(f->ctx, f->truth_path, &f->truth);
    if (!code && f->truth_path && (f->truth.shape[1] != f->video.shape[1] || f->truth.shape[2] != f->video.shape[2]))
        code = fail(EXIT_INPUT, "--truth %s: has shape %s, must be [T,%lld,%lld,2]", f->truth_path, shape_text(&f->truth).text,
                    (long long)f->video.shape[1], (long long)f->video.shape[2]);
    if (code) return code;
    f->pairs = f->video.shape[0] - 1;
    code = add_outputs(f);
    if (!code) code = compute(f);
    if (!code) code = write_outputs(f);
    if (!code) code = print_result(f);
    return code ? code : outputs_commit();
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
        { "truth", "T.flo", "true flow (.flo, .npy, KITTI's .png): tells the end-point error", &f.truth_path },
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
    SnlsTensor *const all[] = { &f.video, &f.forward, &f.backward, &f.truth, &f.error };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) snls_array_free(f.ctx, all[i]);
    snls_close(&f.ctx);
    return code;
}
