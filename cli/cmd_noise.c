/* cmd_noise.c: white Gaussian noise on a clip. */
#include "denoise_args.h"
#include "frames.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Noise {
    SnlsContext *ctx;
    Common common;
    const char *out;
    char pattern[4096]; /* empty: OUT is a .npy file */
    double sigma[3];
    SnlsTensor clip;
} Noise;

static int choose_form(Noise *n)
{
    struct stat info;
    const bool folder = n->out[strlen(n->out) - 1] == '/' || (!stat(n->out, &info) && S_ISDIR(info.st_mode));
    if (snls_path_ends(n->out, ".npy")) return EXIT_DONE;
    if (!folder && !(strchr(n->out, '%') && snls_path_ends(n->out, ".png")))
        return fail(EXIT_USAGE, "%s: must be a .npy file, a folder (dir/) or a pattern (dir/%%05d.png)", n->out);
    const int written = snprintf(n->pattern, sizeof n->pattern, folder ? "%s/%%05d.png" : "%s", n->out);
    if (written < 0 || (size_t)written >= sizeof n->pattern)
        return fail(EXIT_USAGE, "%s: the name is too long", n->out);
    return folder ? output_folder(n->out) : EXIT_DONE;
}

static int reserve(Noise *n)
{
    char name[4200];
    int code = choose_form(n);
    if (!code && !*n->pattern) code = output_add(n->out, n->common.overwrite);
    for (int64_t t = 0; *n->pattern && t < n->clip.shape[0] && !code; t++) {
        if (!snls_path_number(n->pattern, t, name, sizeof name))
            return fail(EXIT_USAGE, "%s: a pattern has one %%d or %%05d", n->pattern);
        code = output_add(name, n->common.overwrite);
    }
    return code;
}

/* One sigma: draw i goes to value i. Three: each channel takes its own of the same draws. */
static int add(Noise *n)
{
    const int64_t count = snls_tensor_elements(&n->clip), channels = n->clip.shape[3];
    SnlsStatus status = SNLS_OK;
    const bool same = n->sigma[0] == n->sigma[1] && n->sigma[0] == n->sigma[2];
    if (same) status = snls_noise_add(n->ctx, n->clip.data, count, 0, n->sigma[0], n->common.seed);
    for (int64_t i = 0; !same && i < count && status >= 0; i++)
        status = snls_noise_add(n->ctx, (float *)n->clip.data + i, 1, i, n->sigma[i % channels % 3], n->common.seed);
    return status < 0 ? fail_library(n->ctx, status, false) : EXIT_DONE;
}

static int write(Noise *n)
{
    char name[4200];
    int code = EXIT_DONE;
    if (!*n->pattern) return write_array(n->ctx, n->out, &n->clip);
    for (int64_t t = 0; t < n->clip.shape[0] && !code; t++) {
        const SnlsTensor frame = frame_of(&n->clip, t);
        snls_path_number(n->pattern, t, name, sizeof name);
        code = write_image(n->ctx, name, &frame);
    }
    return code;
}

static int work(Noise *n, const char *in)
{
    int code = open_context(&n->common, &n->ctx);
    if (!code) input_note(in);
    if (!code) code = frames_load(n->ctx, in, 1, &n->clip);
    if (!code) code = reserve(n);
    if (!code) code = add(n);
    if (!code) code = write(n);
    if (!code && n->common.json) {
        json_t *report = report_begin(n->ctx);
        json_object_set_new(report, "sigma", json_pack("[f,f,f]", n->sigma[0], n->sigma[1], n->sigma[2]));
        json_object_set_new(report, "seed", json_integer((json_int_t)n->common.seed));
        json_object_set_new(report, "shape", json_shape(&n->clip));
        code = report_print(report);
    }
    return code ? code : outputs_commit();
}

int cmd_noise(int argc, char **argv)
{
    static Noise n; /* its pattern is large */
    int code;
    const char *given[2] = { NULL, NULL }, *sigma = NULL;
    static const char *const names[] = { "IN", "OUT" };
    static const char *const help[] = {
        "a video, a folder of images, a pattern (dir/%05d.png), an image or .npy [T,H,W,C]",
        "clip.npy (neither clipped nor rounded), a folder (dir/) or a pattern of PNGs"
    };
    const Arg args[] = { { "sigma", "S", "standard deviation on the 0..255 scale; three with commas for R,G,B",
                           &sigma } };
    const ArgTable table = { .summary = "white Gaussian noise on a clip, the same for the same --seed",
                             .examples = "  snls noise clean/ noisy.npy --sigma 20\n"
                                         "  snls noise clean.npy noisy/ --sigma 20,15,25 --seed 7\n",
                             .args = args,
                             .arg_count = 1,
                             .positional_names = names,
                             .positional_help = help,
                             .positional = given,
                             .positional_min = 2,
                             .positional_max = 2 };
    if (!parse_args(argc, argv, &table, &n.common, &code)) return code;
    if (!sigma || !strcmp(sigma, "auto"))
        return fail(EXIT_USAGE, "--sigma is %s, must be a number", sigma ? sigma : "missing");
    code = parse_sigma(sigma, n.sigma);
    n.out = given[1];
    if (!code) code = work(&n, given[0]);
    snls_array_free(n.ctx, &n.clip);
    snls_close(&n.ctx);
    return code;
}
