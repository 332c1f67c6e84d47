/* cmd_noise.c: white Gaussian noise on a clip, a frame at a time. */
#include "clip_out.h"
#include "denoise_args.h"
#include <string.h>

typedef struct Noise {
    SnlsContext *ctx;
    Common common;
    ClipOut out;
    const char *sigma_text; /* as given */
    double sigma[3];
    SnlsTensor frame; /* (H,W,C), the one in work */
} Noise;

/* One sigma: draw i of the clip goes to value i. Three: each channel takes its own of the same draws. */
static int add(Noise *n, int64_t t)
{
    const int64_t count = snls_tensor_elements(&n->frame), first = t * count, channels = n->frame.shape[2];
    float *values = n->frame.data;
    SnlsStatus status = SNLS_OK;
    const bool same = n->sigma[0] == n->sigma[1] && n->sigma[0] == n->sigma[2];
    if (same) status = snls_noise_add(n->ctx, values, count, first, n->sigma[0], n->common.seed);
    for (int64_t i = 0; !same && i < count && status >= 0; i++)
        status = snls_noise_add(n->ctx, values + i, 1, first + i, n->sigma[i % channels % 3], n->common.seed);
    return status < 0 ? fail_library(n->ctx, status, false) : EXIT_DONE;
}

static int add_all(Noise *n)
{
    ClipIn *clip = &n->out.clip;
    int code = alloc_array(n->ctx, "frame", &n->frame, SNLS_F32, 3, clip->shape);
    for (bool there = true; !code && there;) {
        code = clip_in_next(n->ctx, clip, n->frame.data, &there);
        if (code || !there) break;
        code = add(n, clip->given - 1);
        if (!code) code = clip_out_frame(&n->out, n->frame.data);
    }
    return code ? code : clip_out_finish(&n->out);
}

static int work(Noise *n)
{
    const int64_t *size = n->out.clip.shape;
    int code = open_context(&n->common, &n->ctx);
    if (!code) code = clip_out_open(&n->out, n->ctx, &n->common);
    if (!code) code = check_sigma_channels(n->sigma_text, n->out.in, size[2]);
    if (!code) code = clip_out_begin(&n->out);
    if (!code) code = add_all(n);
    if (!code && n->common.json) {
        const SnlsTensor clip = snls_tensor(NULL, SNLS_F32, 4, (const int64_t[]){ n->out.written, size[0], size[1], size[2] });
        json_t *report = report_begin(n->ctx);
        json_object_set_new(report, "sigma", json_pack("[f,f,f]", n->sigma[0], n->sigma[1], n->sigma[2]));
        json_object_set_new(report, "seed", json_integer((json_int_t)n->common.seed));
        json_object_set_new(report, "shape", json_shape(&clip));
        code = report_print(report);
    }
    return code ? code : outputs_commit();
}

int cmd_noise(int argc, char **argv)
{
    static Noise n; /* its pattern is large */
    int code;
    const char *given[2] = { NULL, NULL };
    static const char *const names[] = { "IN", "OUT" };
    static const char *const help[] = {
        "a video, a folder of images, a pattern (dir/%05d.png), an image, .npy [T,H,W,C], - for y4m on stdin",
        "clip.npy (neither clipped nor rounded), a folder, a pattern of PNGs, a video, - for y4m on stdout"
    };
    const Arg args[] = { { "sigma", "S", "standard deviation on the 0..255 scale; three with commas for R,G,B",
                           &n.sigma_text },
                         READING_ARGS(n.out.reading) };
    const ArgTable table = { .summary = "white Gaussian noise on a clip, the same for the same --seed",
                             .examples = "  snls noise clean/ noisy.npy --sigma 20\n"
                                         "  snls noise clean.mp4 noisy.mkv --sigma 20,15,25 --seed 7\n",
                             .args = args,
                             .arg_count = sizeof args / sizeof *args,
                             .positional_names = names,
                             .positional_help = help,
                             .positional = given,
                             .positional_min = 2,
                             .positional_max = 2 };
    if (!parse_args(argc, argv, &table, &n.common, &code)) return code;
    if (!n.sigma_text) return fail(EXIT_USAGE, "--sigma is missing: one number or three from 0 to 1000");
    code = parse_sigma(n.sigma_text, false, n.sigma);
    n.out.in = given[0];
    n.out.path = given[1];
    if (!code) code = work(&n);
    snls_array_free(n.ctx, &n.frame);
    clip_out_free(&n.out);
    snls_close(&n.ctx);
    return code;
}
