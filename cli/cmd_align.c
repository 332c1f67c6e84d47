/* cmd_align.c: how well frame t+1 can be moved onto frame t by flow, by search, and by search around the flow. */
#include "align.h"
#include "clip_out.h"
#include "flow_args.h"
#include "mean.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const char *const interp_names[] = {"bilinear", "nearest", NULL};
static const SnlsOption options[] = {
    {"ws", "side of the search window", SNLS_OPTION_INT, offsetof(AlignParams, ws), 11, 1, 999, NULL},
    {"ps", "side of the patches that are compared and moved", SNLS_OPTION_INT, offsetof(AlignParams, ps), 3, 1, 99, NULL},
    {"stride0", "pixels between queries", SNLS_OPTION_INT, offsetof(AlignParams, stride0), 1, 1, 99, NULL},
    {"stride1", "pixels between candidates", SNLS_OPTION_REAL, offsetof(AlignParams, stride1), 1, 0.01, 100, NULL},
    {"interp", "how pixels between the grid are read", SNLS_OPTION_ENUM, offsetof(AlignParams, interp), 0, 0, 1, interp_names},
    {"noise", "standard deviation of the noise that flow and search see", SNLS_OPTION_REAL, offsetof(AlignParams, noise), 15, 0, 255, NULL},
    {"margin", "keep: standard deviations by which a searched place must be better where the kept ones fit", SNLS_OPTION_REAL, offsetof(AlignParams, margin), 2.5, 0, 100, NULL},
    {NULL, NULL, 0, 0, 0, 0, 0, NULL}};
/* clang-format on */

typedef struct Run {
    Align align;
    Common common;
    ClipOut out;
    const char *flow, *way, *picture, *corrections_path;
    AlignCorrections corrections;
    AlignWay written;
    json_t *pairs; /* with --json */
    int64_t count; /* of them */
    Mean psnr[ALIGN_WAYS]; /* a pair that is equal tells nothing of the others */
    Share motion, share_own;
    double seconds;
} Run;

/* A flow of another size, or one that ends before the clip: how long it must be is told, for which the frames are counted where that is not known. */
static int flow_unfit(Run *r)
{
    ClipIn *clip = &r->out.clip;
    const int code = clip->exact ? EXIT_DONE : clip_in_count(r->align.ctx, clip);
    const int64_t frames = clip->exact ? clip->frames : clip->given;
    return code ? code
                : fail(EXIT_INPUT, "--flow %s: has shape %s, must be [T,%lld,%lld,2] with T at least %lld", r->align.given.path, shape_text(&r->align.given.whole).text,
                       (long long)clip->shape[0], (long long)clip->shape[1], (long long)frames - 1);
}

static int choose_flow(Run *r)
{
    Align *a = &r->align;
    const char *flow = r->flow ? r->flow : "farneback";
    a->no_flow = !strcmp(flow, "none");
    for (int i = 0; flow_methods[i]; i++)
        if (!strcmp(flow, flow_methods[i])) return a->params.flow.method = i, EXIT_DONE;
    if (a->no_flow) return EXIT_DONE;
    if (!strchr(flow, '.'))
        return fail(EXIT_USAGE, "--flow is %s, must be farneback, tvl1, dis, none or a file (.flo, .npy, KITTI's .png)",
                    flow);
    const int code = flow_in_open(a->ctx, flow, &a->given);
    const int64_t *shape = a->given.whole.shape;
    const ClipIn *clip = &r->out.clip;
    if (code || (shape[1] == clip->shape[0] && shape[2] == clip->shape[1] && (!clip->exact || shape[0] >= clip->frames - 1))) return code;
    return flow_unfit(r);
}

static int choose_way(Run *r)
{
    r->written = ALIGN_SEARCH;
    for (int way = 0; r->way && way < ALIGN_WAYS; way++)
        if (!strcmp(r->way, align_names[way])) return r->written = way, EXIT_DONE;
    return r->way ? fail(EXIT_USAGE, "--way is %s, must be one of none, flow, nls, search, keep", r->way) : EXIT_DONE;
}

static int add_outputs(Run *r)
{
    int code = clip_out_begin(&r->out);
    if (!code && r->picture) code = output_add(r->picture, r->common.overwrite);
    if (!code && r->corrections_path) code = output_add(r->corrections_path, r->common.overwrite);
    return code;
}

/* ---- pairs ---- */

static void note_pair(Run *r)
{
    const Align *a = &r->align;
    json_t *entry = r->common.json ? json_pack("{s:f}", "motion", a->motion) : NULL;
    for (int way = 0; way < ALIGN_WAYS; way++) {
        mean_add(&r->psnr[way], a->psnr[way]);
        if (entry) json_object_set_new(entry, align_names[way], json_real_or_null(a->psnr[way]));
    }
    share_add(&r->motion, a->motion);
    share_add(&r->share_own, a->share_own);
    if (entry) json_array_append_new(r->pairs, entry);
}

static int align_next(Run *r, int64_t t)
{
    Align *a = &r->align;
    const double start = seconds_now();
    int code = align_pair(a, t);
    if (code) return code;
    note_pair(r);
    if (r->corrections_path) corrections_add(&r->corrections, a);
    if (!t && r->picture) code = align_picture(a, 0, r->picture);
    r->seconds += seconds_now() - start;
    return code ? code : clip_out_frame(&r->out, r->written == ALIGN_NONE ? align_frame(&a->clean, t + 1).data : a->aligned[r->written].data);
}

/* Frame t, clean and noisy. */
static int read_frame(Run *r, int64_t t, bool *there)
{
    const int code = clip_in_next(r->align.ctx, &r->out.clip, align_frame(&r->align.clean, t).data, there);
    if (!code && *there) align_noise(&r->align, t, r->common.seed);
    return code;
}

static int align_all(Run *r)
{
    Align *a = &r->align;
    int64_t t = 0;
    bool there;
    int code = align_begin(a, r->out.clip.shape);
    if (!code && r->corrections_path) code = corrections_begin(&r->corrections, a->params.ws / 2);
    r->motion = r->share_own = share_begin(r->out.clip.frames - 1);
    if (!code) code = read_frame(r, 0, &there);
    for (; !code; t++) {
        code = read_frame(r, t + 1, &there);
        if (code || !there) break;
        code = a->given.path && t >= a->given.whole.shape[0] ? flow_unfit(r) : align_next(r, t);
    }
    if (!code) code = frames_enough(r->out.in, t + 1, 2);
    if (!code) code = align_rest(a);
    if (!code && a->unknown) fprintf(stderr, "snls align: %s: %lld vectors are unknown and taken as no motion\n", a->given.path, (long long)a->unknown);
    if (!code && r->corrections_path) code = corrections_draw(&r->corrections, a->ctx, r->corrections_path);
    if (!code) code = clip_out_frame(&r->out, align_frame(&a->clean, t).data); /* has no next frame */
    r->count = t;
    return code ? code : clip_out_finish(&r->out);
}

static int print_result(Run *r)
{
    if (r->common.json) {
        json_t *report = report_begin(r->align.ctx), *psnr = json_object();
        for (int way = 0; way < ALIGN_WAYS; way++)
            json_object_set_new(psnr, align_names[way], json_real_or_null(mean_of(&r->psnr[way], INFINITY)));
        json_object_set_new(report, "psnr", psnr);
        json_object_set_new(report, "motion", json_real_or_null(share_of(&r->motion, r->count)));
        json_object_set_new(report, "share_own", json_real_or_null(share_of(&r->share_own, r->count)));
        json_object_set_new(report, "seconds", json_real(r->seconds));
        json_object_set(report, "pairs", r->pairs);
        if (r->corrections_path) json_object_set_new(report, "corrections", corrections_json(&r->corrections));
        return report_print(report);
    }
    static const char *const help[ALIGN_WAYS] = { "frame t+1 as it is", "moved by the flow alone",
                                                  "search around the pixel's own place",
                                                  "search around where the flow points",
                                                  "own place or flow, unless a search finds clearly better" };
    FILE *to = strcmp(r->out.path, "-") && !outputs_on_stdout() ? stdout : stderr;
    fprintf(to, "%lld pair%s, mean motion %.2f pixels\n", (long long)r->count, r->count == 1 ? "" : "s", share_of(&r->motion, r->count));
    for (int way = 0; way < ALIGN_WAYS; way++)
        fprintf(to, "  %-7s %6.2f dB   %s\n", align_names[way], mean_of(&r->psnr[way], INFINITY), help[way]);
    return flush_stdout();
}

static int check_picture(const char *option, const char *path)
{
    return !path || snls_path_ends(path, ".png") ? EXIT_DONE : fail(EXIT_USAGE, "--%s %s: pictures are written as .png", option, path);
}

static int work(Run *r)
{
    Align *a = &r->align;
    int code = choose_way(r);
    if (!code) code = check_picture("picture", r->picture);
    if (!code) code = check_picture("corrections", r->corrections_path);
    if (!code && a->params.stride0 > (a->params.ps + 1) / 2)
        code = fail(EXIT_USAGE, "--stride0 is %d, must be at most %d with --ps %d: pixels under no patch would stay black",
                    (int)a->params.stride0, (int)(a->params.ps + 1) / 2, (int)a->params.ps);
    if (!code) code = open_context(&r->common, &a->ctx);
    if (!code) code = clip_out_open(&r->out, a->ctx, &r->common);
    if (!code && r->out.clip.exact) code = frames_enough(r->out.in, r->out.clip.frames, 2);
    if (!code) code = choose_flow(r);
    if (!code) code = add_outputs(r);
    if (!code) code = align_all(r);
    if (!code) code = print_result(r);
    return code ? code : outputs_commit();
}

int cmd_align(int argc, char **argv)
{
    static const char *const names[] = { "IN", "OUT" };
    static const char *const help[] = {
        "a video, a folder of images, a pattern (dir/%05d.png), .npy [T,H,W,C], 0..255, - for y4m on stdin",
        "OUT.npy [T,H,W,C], a folder, a pattern of PNGs, a video, - for y4m: frame t is t+1 aligned to t"
    };
    int code;
    Run r = { .pairs = json_array() };
    Align *a = &r.align;
    SnlsOption list[FLOW_OPTIONS_MAX];
    const char *given[2] = { NULL, NULL };
    const Arg args[] = {
        { "flow", "farneback|tvl1|dis|none|FILE", "how flow is computed, none, or a file of it (farneback)", &r.flow },
        { "way", "none|flow|nls|search|keep", "which alignment is written (search)", &r.way },
        { "clean-flow", NULL, "flow is computed from the clean frames", &a->clean_flow },
        { "picture", "P.png", "the first pair, every way side by side", &r.picture },
        { "corrections", "C.png", "what the search adds to the flow: histogram with ellipses of 68 and 90 %",
          &r.corrections_path },
        READING_ARGS(r.out.reading)
    };
    const char *chosen = flow_method_given(argc, argv, "flow", "farneback");
    const ArgTable table = {
        .chosen_by = "flow",
        .chosen = chosen,
        .methods = flow_methods,
        .summary = "frame t+1 aligned to frame t, by flow, by search, by search around the flow",
        .examples =
            "  snls align frames/ aligned.npy\n  snls align frames/ aligned/ --flow dis --ws 15 --picture ways.png "
            "--json\n"
            "  snls align frames/ a.npy --flow farneback --winsize 5 --levels 5 --iterations 10 --poly-sigma 1.2\n"
            "  snls align --flow dis --help      (the parameters of a method)\n",
        .args = args,
        .arg_count = sizeof args / sizeof *args,
        .options = list,
        .params = &a->params,
        .positional_names = names,
        .positional_help = help,
        .positional = given,
        .positional_min = 2,
        .positional_max = 2
    };
    snls_flow_defaults(&a->params.flow);
    a->params.ws = 11, a->params.ps = 3, a->params.stride0 = 1, a->params.stride1 = 1, a->params.noise = 15,
    a->params.margin = 2.5;
    a->ways = (1u << ALIGN_WAYS) - 1;
    flow_options(list, options, offsetof(AlignParams, flow), chosen);
    if (parse_args(argc, argv, &table, &r.common, &code)) {
        r.out.in = given[0];
        r.out.path = given[1];
        code = work(&r);
    }
    align_free(a);
    clip_out_free(&r.out);
    snls_close(&a->ctx);
    free(r.corrections.count);
    json_decref(r.pairs);
    return code;
}
