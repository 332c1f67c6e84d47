/* cmd_demo.c: what a shifted search repairs. A clip with known motion, flow that is wrong by a few pixels, and frame
 * t+1 aligned to frame t by flow alone, by a search without flow, and by a search around where the flow points. */
#include "demo.h"
#include "picture.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define INT(field, def, min, max, help) {#field, help, SNLS_OPTION_INT, offsetof(DemoParams, field), def, min, max, NULL}
#define REAL(field, def, min, max, help) {#field, help, SNLS_OPTION_REAL, offsetof(DemoParams, field), def, min, max, NULL}
/* clang-format on */

static const SnlsOption options[] = { INT(frames, 3, 2, 1000, "frames, each but the last is a target"),
                                      INT(height, 144, 16, 4096, "rows"),
                                      INT(width, 192, 16, 4096, "columns"),
                                      INT(ws, 15, 1, 999, "side of the search window"),
                                      INT(ps, 5, 1, 99, "side of the patches"),
                                      INT(k, 2, 1, 1000, "neighbours kept"),
                                      REAL(stride1, 0.5, 0.01, 100, "pixels between candidates"),
                                      REAL(disturb, 2, 0, 100, "error of the flow: its root mean square length in every frame, pixels"),
                                      REAL(noise, 10, 0, 255,
                                           "noise of the frames that are searched, standard deviation"),
                                      { NULL, NULL, 0, 0, 0, 0, 0, NULL } };

enum { NOTHING, FLOW, UNSHIFTED, SHIFTED, EXACT, RESULTS };

static int align_all(Demo *d, DemoResult *r)
{
    const DemoParams *p = &d->params;
    const SnlsTensor none = { 0 };
    r[NOTHING] = (DemoResult){ .name = "nothing", .help = "frame t+1 as it is", .video = d->source };
    r[FLOW] = (DemoResult){ .name = "flow", .help = "frame t+1 moved by the disturbed flow alone" };
    r[UNSHIFTED] = (DemoResult){ .name = "unshifted", .help = "search around the pixel's own place" };
    r[SHIFTED] = (DemoResult){ .name = "shifted", .help = "search around where the disturbed flow points" };
    r[EXACT] = (DemoResult){ .name = "exact", .help = "frame t+1 moved by the exact flow, which nobody has" };
    int code = demo_measure(d, &r[NOTHING]);
    if (!code) code = demo_align(d, &d->flow, 1, 1, 1, &r[FLOW]); /* a window of one candidate: the flow itself */
    if (!code) code = demo_align(d, &none, p->ws, p->ps, p->k, &r[UNSHIFTED]);
    if (!code) code = demo_align(d, &d->flow, p->ws, p->ps, p->k, &r[SHIFTED]);
    if (!code) code = demo_align(d, &d->exact, 1, 1, 1, &r[EXACT]);
    return code;
}

/* Four times the mean difference of a pixel to the target, as grey; white where there is none. */
static void difference(const float *got, const float *want, int64_t pixels, float *out)
{
    for (int64_t i = 0; i < 3 * pixels; i += 3) {
        const float sum = fabsf(got[i] - want[i]) + fabsf(got[i + 1] - want[i + 1]) + fabsf(got[i + 2] - want[i + 2]);
        out[i] = out[i + 1] = out[i + 2] = fmaxf(255 - sum * (4.0f / 3), 0);
    }
}

enum { CAPTION = 13 }; /* rows above a picture, before scaling */

/* A caption and a picture, in row 0 or 1. */
static void panel(const Demo *d, SnlsTensor *canvas, int row, int column, int64_t scale, const char *caption,
                  const float *rgb)
{
    const int64_t h = d->params.height, w = d->params.width, gap = 4 * scale;
    const int64_t top = row * (h + CAPTION) * scale, left = gap + column * (w * scale + gap);
    picture_text(canvas, top + 3 * scale, left, scale, caption);
    picture_paste(canvas, top + CAPTION * scale, left, scale, h, w, rgb);
}

static void draw_panels(const Demo *d, const DemoResult *r, SnlsTensor *canvas, int64_t scale, float *error)
{
    static const struct {
        const char *name;
        int result;
    } columns[] = { { "flow alone", FLOW }, { "unshifted search", UNSHIFTED }, { "shifted search", SHIFTED } };
    char caption[64];
    picture_fill(canvas, 250, 250, 248);
    panel(d, canvas, 0, 0, scale, "target: frame t", d->target.data);
    snprintf(caption, sizeof caption, "source: frame t+1, %.1f dB", r[NOTHING].psnr);
    panel(d, canvas, 1, 0, scale, caption, d->source.data);
    for (int i = 0; i < 3; i++) {
        const DemoResult *one = &r[columns[i].result];
        snprintf(caption, sizeof caption, "%s, %.1f dB", columns[i].name, one->psnr);
        panel(d, canvas, 0, i + 1, scale, caption, one->video.data);
        difference(one->video.data, d->target.data, (int64_t)d->params.height * d->params.width, error);
        panel(d, canvas, 1, i + 1, scale, "its error x 4", error);
    }
}

static int draw(Demo *d, const DemoResult *r, const char *path)
{
    const int64_t h = d->params.height, w = d->params.width, scale = w < 320 ? 2 : 1, gap = 4 * scale;
    SnlsTensor canvas = { 0 }, error = { 0 };
    int code = alloc_array(d->ctx, path, &canvas, SNLS_F32, 3,
                           (int64_t[]){ 2 * (h + CAPTION) * scale + gap, 4 * (w * scale + gap) + gap, 3 });
    if (!code) code = alloc_array(d->ctx, path, &error, SNLS_F32, 3, (int64_t[]){ h, w, 3 });
    if (!code) {
        draw_panels(d, r, &canvas, scale, error.data);
        code = write_image(d->ctx, path, &canvas);
    }
    snls_array_free(d->ctx, &canvas);
    snls_array_free(d->ctx, &error);
    return code;
}

static void print_table(const Demo *d, const DemoResult *r, const char *path)
{
    printf("Frame t+1 aligned to frame t, %d pairs of %d x %d; flow wrong by %.3g pixels, searched frames with noise "
           "%.3g.\n\n",
           (int)d->params.frames - 1, (int)d->params.width, (int)d->params.height, d->params.disturb, d->params.noise);
    printf("  %-10s %8s %9s %9s\n", "", "PSNR", "visible*", "seconds");
    for (int i = 0; i < RESULTS; i++)
        printf("  %-10s %5.2f dB %6.2f dB %9.3f   %s\n", r[i].name, r[i].psnr, r[i].visible, r[i].seconds, r[i].help);
    printf("\n  * over the pixels that frame t+1 shows too\n\npicture: %s\n", path);
}

static json_t *make_report(const Demo *d, const DemoResult *r, const char *path)
{
    json_t *report = report_begin(d->ctx), *all = json_object(), *visible = json_object(), *seconds = json_object();
    for (int i = 0; i < RESULTS; i++) {
        json_object_set_new(all, r[i].name, json_real_or_null(r[i].psnr));
        json_object_set_new(visible, r[i].name, json_real_or_null(r[i].visible));
        json_object_set_new(seconds, r[i].name, json_real(r[i].seconds));
    }
    json_object_set_new(report, "psnr", all);
    json_object_set_new(report, "psnr_visible", visible);
    json_object_set_new(report, "seconds", seconds);
    json_object_set_new(report, "outputs", json_pack("[{s:s, s:o}]", "option", "out", "path", json_text(path)));
    return report;
}

static int work(Demo *d, const Common *common, const char *folder)
{
    char path[4096];
    DemoResult r[RESULTS] = { { .name = NULL } };
    if (snprintf(path, sizeof path, "%s/demo.png", folder) >= (int)sizeof path)
        return fail(EXIT_USAGE, "--out is too long");
    if (!strcmp(folder, "-")) return fail(EXIT_USAGE, "--out is -, but demo makes a folder, not standard output; ./- is a folder of that name");
    int code = output_folder(folder);
    if (!code) code = output_add(path, common->overwrite);
    if (!code) code = open_context(common, &d->ctx);
    if (!code) code = demo_make(d);
    if (!code) code = align_all(d, r);
    if (!code) code = draw(d, r, path);
    if (!code && common->json) code = report_print(make_report(d, r, path));
    if (!code && !common->json) print_table(d, r, path), code = flush_stdout();
    if (!code) code = outputs_commit();
    for (int i = FLOW; i < RESULTS && d->ctx; i++) snls_array_free(d->ctx, &r[i].video);
    if (d->ctx) demo_free(d);
    snls_close(&d->ctx);
    return code;
}

int cmd_demo(int argc, char **argv)
{
    int code;
    Common common;
    Demo d = { .ctx = NULL };
    const char *folder = NULL;
    const Arg args[] = { { "out", "DIR", "folder for demo.png, made where it is missing (snls-demo)", &folder } };
    const ArgTable table = { .summary = "align a clip with wrong flow, and see what the search repairs",
                             .examples = "  snls demo\n  snls demo --out /tmp/demo --disturb 3 --noise 20 --seed 5\n",
                             .args = args,
                             .arg_count = 1,
                             .options = options,
                             .params = &d.params };
    for (const SnlsOption *o = options; o->name; o++) {
        char *at = (char *)&d.params + o->offset;
        if (o->type == SNLS_OPTION_INT) *(int32_t *)(void *)at = (int32_t)o->def;
        else *(double *)(void *)at = o->def;
    }
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    synth_defaults(&d.scene);
    d.scene.frames = d.params.frames;
    d.scene.height = d.params.height;
    d.scene.width = d.params.width;
    d.scene.disturb = d.params.disturb;
    d.scene.camera_x = 6.3; /* further than the unshifted window reaches */
    d.scene.camera_y = -3.7;
    d.scene.object_x = -5.6;
    d.scene.object_y = 2.4;
    d.scene.seed = common.seed;
    return work(&d, &common, folder ? folder : "snls-demo");
}
