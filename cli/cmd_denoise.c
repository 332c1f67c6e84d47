/* cmd_denoise.c: a clip without its noise. Options here; the run in denoise.c. */
#include "denoise.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ARGS = 22 };

static void arg_list(Denoise *d, Arg *list)
{
    const Arg args[ARGS] = {
        { "sigma", "S", "noise, 0..255: a number, three for red,green,blue, 0 to copy, or auto (auto)", &d->sigma },
        { "model", "PATH",
          "denoise with the network of these weights: a .safetensors file, or a folder (dvdnet)",
          &d->model_path },
        PRECISION_ARG(d->network),
        { "report", "R.html", "before, after, residual, motion and settings on one page", &d->report },
        { "clean", "CLIP", "the clip without noise: PSNR and SSIM of every frame", &d->clean },
        { "first", "N", "the first frame, counted from 0 (0)", &d->first },
        { "last", "N", "the last frame", &d->last },
        { "frames", "N", "at most so many frames", &d->frames },
        { "fps", "X", "rate of pictures and arrays, which have none: 25, 30000/1001, or 29.97, which means that (25)", &d->fps },
        { "vcodec", "NAME", "encoder, as FFmpeg names it (FFV1 in .mkv, H.264 in .mp4, VP9 in .webm)", &d->codec },
        { "crf", "X", "quality of a lossy encoder, lower is better (17; VP9 18)", &d->crf },
        { "enc-opt", "K=V", "an option of the encoder; may be given several times", NULL },
        { "pix-fmt", "NAME", "pixel format of the output (the input's, or the nearest)", &d->format },
        { "lossless", NULL, "the encoder's lossless mode; what --sigma 0 does unless told otherwise", &d->lossless },
        { "no-copy", NULL, "leave out audio, subtitles, chapters, attachments, the clip's tags", &d->no_copy },
        { "no-cuts", NULL, "do not look for scene cuts", &d->no_cuts },
        READING_ARGS(d->reading),
        { "mem", "SIZE", "most memory to use, such as 900M or 2G; where frames do not fit, they are held in a file", &d->mem },
        { "progress", "FD|FILE", "key=value lines as ffmpeg -progress writes them", &d->progress_to },
        { "resume", NULL, "go on where a run that was stopped has left off", &d->resume },
        { "no-journal", NULL, "keep no file OUT.resume of finished frames (no way to resume)", &d->no_journal },
    };
    memcpy(list, args, sizeof args);
}

/* -i IN and -o OUT become arguments; --enc-opt, which may come often, is taken out. */
static int take_synonyms(Denoise *d, int argc, char **argv, char **rest, int *count)
{
    *count = 0;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        const char **to = !strcmp(arg, "-i") ? &d->in : !strcmp(arg, "-o") ? &d->out : NULL;
        const bool option = !strcmp(arg, "--enc-opt") || !strcmp(arg, "--enc_opt");
        if (!strncmp(arg, "--enc-opt=", 10) && d->option_count < 32) d->options[d->option_count++] = arg + 10;
        else if (!to && !option) rest[(*count)++] = argv[i];
        else if (i + 1 == argc) return fail(EXIT_USAGE, "%s needs a value", arg);
        else if (option && d->option_count == 32) return fail(EXIT_USAGE, "--enc-opt is given more than 32 times");
        else if (option) d->options[d->option_count++] = argv[++i];
        else if (*to) return fail(EXIT_USAGE, "%s is given twice", arg);
        else if (!*argv[i + 1]) return fail(EXIT_USAGE, "%s is empty", arg);
        else *to = argv[++i];
    }
    return EXIT_DONE;
}

/* What -i and -o did not name comes from the arguments, in order. */
static int take_names(Denoise *d, const char *const *given)
{
    int at = 0;
    if (!d->in) d->in = given[at++];
    if (!d->out) d->out = at < 2 ? given[at++] : NULL;
    if (d->out) d->out = clip_name(d->out);
    return at < 2 && given[at]
               ? fail(EXIT_USAGE, "'%s' is one argument too many; 'snls denoise --help' tells what is expected",
                      given[at])
               : EXIT_DONE;
}

static const char *const examples =
    "  snls denoise in.mp4 out.mp4\n"
    "  snls denoise in.mov out.mkv --sigma 20 --preset slow --report report.html\n"
    "  snls denoise in.mp4 out.mp4 --method stan         # a trained network\n"
    "  snls denoise frames/ clean/ --first 10 --frames 50\n"
    "  snls denoise in.mkv out.mp4 --vcodec libx265 --crf 18 --enc-opt preset=slow\n"
    "  snls denoise in.mp4 out.mp4 --resume              # after a run that was stopped\n"
    "  ffmpeg -i in.avi -f yuv4mpegpipe - | snls denoise - - | ffplay -\n";

int cmd_denoise(int argc, char **argv)
{
    static const char *const names[] = { "IN", "OUT" };
    static const char *const help[] = {
        "a video, a folder of pictures, a pattern (dir/%05d.png), .npy [T,H,W,C], - for y4m on stdin (-i IN too)",
        "a video, a folder, a pattern, .npy, - for y4m on stdout (-o OUT too)"
    };
    static Denoise d;
    Arg args[ARGS];
    SnlsOption options[64];
    const char *given[2] = { NULL, NULL };
    char **rest = malloc((size_t)(argc + 1) * sizeof *rest);
    uint64_t set = 0;
    int count = 0, code;
    ArgTable table = { .summary = "a clip without its noise",
                       .examples = examples,
                       .args = args,
                       .arg_count = ARGS,
                       .options = options,
                       .params = &d.params,
                       .options_given = &set,
                       .letters = "io",
                       .positional_names = names,
                       .positional_help = help,
                       .positional = given,
                       .positional_min = 2,
                       .positional_max = 2 };
    arg_list(&d, args);
    network_options(options, 64);
    snls_denoise_defaults(&d.params);
    code = rest ? take_synonyms(&d, argc, argv, rest, &count) : fail(EXIT_MEMORY, "out of memory");
    if (!code) code = network_take(count, rest, rest, &count, &d.network);
    table.positional_min -= !!d.in + !!d.out;
    if (!code && parse_args(count, rest, &table, &d.common, &code)) {
        code = take_names(&d, given);
        if (!code) code = network_find(&d.network, &d.model_path);
        if (!code) code = network_check(&d.network, options, set, &d.params, d.model_path);
        if (!code) code = denoise_run(&d);
    }
    free(rest);
    return code;
}
