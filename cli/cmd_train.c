/* cmd_train.c: trains STAN-S on a folder of clean clips. Checkpoints appear whole or not at all; TERM and USR1 save and stop. */
#define _XOPEN_SOURCE 700
#include "clips.h"
#include "frames.h"
#include "train_log.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Train {
    SnlsTrainParams params; /* first: the option table counts from here */
    int32_t every;
    SnlsContext *ctx;
    SnlsTrainer *trainer;
    Common common;
    char command[1024]; /* that was given, for the file of weights */
    const char *data, *out, *checkpoint, *log_path, *curve, *init;
    bool resume;
    TrainLog log;
    Clips clips;
    SnlsTrainReport last;
    double gain; /* recent mean of PSNR above the noisy clips */
} Train;

static volatile sig_atomic_t asked; /* to save and stop */
static void on_ask(int number) { asked = number; }

static int load_clips(Train *t)
{
    SnlsTrainParams p;
    int code = clips_list(&t->clips, t->data, NULL);
    snls_trainer_params(t->trainer, &p);
    for (int i = 0; i < t->clips.count && !code; i++) {
        SnlsTensor clip = { 0 };
        code = frames_load(t->ctx, t->clips.path[i], p.frames, &clip);
        const SnlsStatus status = code ? SNLS_OK : snls_trainer_add_clip(t->trainer, &clip);
        if (status < 0) code = fail(EXIT_INPUT, "%s: %s", t->clips.path[i], snls_error(t->ctx));
        snls_array_free(t->ctx, &clip);
    }
    return code;
}

static int save(Train *t)
{
    char part[4096];
    if (!t->checkpoint) return EXIT_DONE;
    snprintf(part, sizeof part, "%s.part", t->checkpoint);
    const SnlsStatus status = snls_trainer_save(t->trainer, part);
    if (status < 0) return fail_library(t->ctx, status, true);
    if (rename(part, t->checkpoint)) return fail(EXIT_OUTPUT, "%s: cannot be renamed: %s", part, strerror(errno));
    return EXIT_DONE;
}

static void tell(Train *t, double begun, int64_t first, int64_t steps)
{
    static double told;
    const double now = seconds_now(), each = (now - begun) / (double)(t->last.step - first);
    t->gain += (t->last.psnr - t->last.psnr_noisy - t->gain) * (t->last.step - first < 20 ? 1.0 / (double)(t->last.step - first) : 0.05);
    if (now - told < 1 && t->last.step < steps) return;
    told = now;
    fprintf(stderr, "step %lld of %lld  loss %.5f  PSNR %+.2f dB above noisy  %.3f s/step  %.0f s left\n", (long long)t->last.step, (long long)steps, t->last.loss, t->gain, each,
            each * (double)(steps - t->last.step));
}

enum { GPU_REPORTS = 20 }; /* steps between reports: each has to wait for the GPU */

static int run_steps(Train *t, int64_t steps)
{
    const bool gpu = snls_device_type(t->ctx) != SNLS_DEVICE_CPU;
    const int64_t first = snls_trainer_done(t->trainer);
    const double begun = seconds_now();
    double start = begun;
    for (int code; !asked;) {
        const int64_t step = snls_trainer_done(t->trainer) + 1;
        const bool told = !gpu || step % GPU_REPORTS == 0 || step == first + 1 || step == steps;
        const SnlsStatus status = snls_trainer_step(t->trainer, told ? &t->last : NULL);
        if (status == SNLS_END) return EXIT_DONE;
        if (status < 0) return fail_library(t->ctx, status, false);
        code = EXIT_DONE;
        if (told) code = train_log_step(&t->log, &t->last, seconds_now() - start), start = seconds_now();
        if (!code && t->every && step % t->every == 0) code = save(t);
        if (code) return code;
        if (told) tell(t, begun, first, steps);
    }
    return EXIT_DONE;
}

static int finish(Train *t)
{
    char clips[32];
    snprintf(clips, sizeof clips, "%d", t->clips.count);
    const char *metadata[] = { "command", t->command, "clips", clips, "version", snls_version() };
    const SnlsStatus status = snls_trainer_export(t->trainer, output_path(t->out), metadata, 3);
    int code = status < 0 ? fail_library(t->ctx, status, true) : EXIT_DONE;
    if (!code && t->curve) code = train_curve(&t->log, output_path(t->curve));
    if (!code) code = outputs_commit();
    if (code || !t->common.json) return code;
    json_t *report = report_begin(t->ctx);
    json_object_set_new(report, "steps", json_integer(t->last.step));
    json_object_set_new(report, "parameters", json_integer(snls_trainer_parameters(t->trainer)));
    json_object_set_new(report, "loss", json_real_or_null(t->last.loss));
    json_object_set_new(report, "gain", json_real_or_null(t->gain));
    return report_print(report);
}

static int open_trainer(Train *t)
{
    const SnlsStatus status = t->resume ? snls_trainer_resume(&t->trainer, t->ctx, t->checkpoint) : snls_trainer_open(&t->trainer, t->ctx, &t->params);
    if (status < 0) return fail_library(t->ctx, status, false);
    if (t->init && snls_trainer_load(t->trainer, t->init) < 0) return fail(EXIT_INPUT, "%s", snls_error(t->ctx));
    return EXIT_DONE;
}

static int work(Train *t)
{
    SnlsTrainParams p;
    int code = output_add(t->out, t->common.overwrite);
    if (!code && t->curve) code = output_add(t->curve, t->common.overwrite);
    if (!code) code = open_context(&t->common, &t->ctx);
    if (!code) code = open_trainer(t);
    if (!code) code = load_clips(t);
    if (!code) code = train_log_open(&t->log, t->log_path);
    if (code) return code;
    snls_trainer_params(t->trainer, &p);
    fprintf(stderr, "%lld parameters, %d clips, %d steps\n", (long long)snls_trainer_parameters(t->trainer), t->clips.count, (int)p.steps);
    struct sigaction action = { .sa_handler = on_ask };
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    code = run_steps(t, p.steps);
    if (!code) code = save(t);
    if (code || !asked) return code ? code : finish(t);
    fprintf(stderr, "stopped after step %lld%s\n", (long long)t->last.step, t->checkpoint ? "; --resume goes on from the checkpoint" : "; nothing was saved: there is no --checkpoint");
    return EXIT_DONE;
}

/* The trainer's options and one of our own, as one table over Train. */
static void make_options(SnlsOption *list, int room)
{
    static const SnlsOption own = { "every", "steps between checkpoints; 0: only at the end", SNLS_OPTION_INT, offsetof(Train, every), 1000, 0, 1000000000, NULL };
    int count = 0;
    for (const SnlsOption *o = snls_train_options(); o->name && count < room - 2; o++)
        if (strcmp(o->name, "seed")) list[count++] = *o; /* --seed is everybody's */
    list[count++] = own;
    list[count] = (SnlsOption){ 0 };
}

static void keep_command(Train *t, int argc, char **argv)
{
    int at = snprintf(t->command, sizeof t->command, "snls");
    for (int i = 0; i < argc && at >= 0 && at < (int)sizeof t->command; i++)
        at += snprintf(t->command + at, sizeof t->command - (size_t)at, " %s", argv[i]);
}

int cmd_train(int argc, char **argv)
{
    static Train t;
    static const char *const names[] = { "DATA", "OUT.safetensors" };
    static const char *const help[] = { "folder of clean clips: folders of images, .npy, videos", "the weights" };
    int code;
    SnlsOption options[64];
    const char *given[2] = { NULL, NULL };
    const Arg args[] = { { "checkpoint", "FILE", "where the state of the run is kept (safetensors)", &t.checkpoint },
                         { "resume", NULL, "go on from the checkpoint, with the options it was made with", &t.resume },
                         { "init", "FILE", "begin with the weights of a file that a run like this made", &t.init },
                         { "deterministic", NULL, "bit-identical from run to run, on a GPU too", &t.common.deterministic },
                         { "log", "FILE", "a line of JSON for each step (on a GPU for every 20th), appended", &t.log_path },
                         { "curve", "FILE.svg", "the curve of the run", &t.curve } };
    const ArgTable table = { .summary = "train a small network on clean clips",
                             .examples = "  snls train clips/ small.safetensors --width 8 --blocks 1 --wt 1 --frames 3 --crop 32 --batch 4 --steps 300\n"
                                         "  snls train clips/ stan-s.safetensors --checkpoint run.safetensors --log run.jsonl --curve run.svg\n"
                                         "  snls train clips/ stan-s.safetensors --checkpoint run.safetensors --resume\n",
                             .args = args, .arg_count = 6, .options = options, .params = &t, .positional_names = names, .positional_help = help,
                             .positional = given, .positional_min = 2, .positional_max = 2 };
    make_options(options, 64);
    keep_command(&t, argc, argv);
    snls_train_defaults(&t.params);
    t.every = 1000;
    if (!parse_args(argc, argv, &table, &t.common, &code)) return code;
    if (t.resume && t.init) return fail(EXIT_USAGE, "--init begins a run, --resume goes on with one: give one of them");
    if (t.resume && !t.checkpoint) return fail(EXIT_USAGE, "--resume needs --checkpoint, the file to go on from");
    if (t.common.seed_given) t.params.seed = (int32_t)(t.common.seed & 0x7fffffff);
    t.data = given[0], t.out = given[1];
    code = work(&t);
    train_log_close(&t.log);
    snls_trainer_close(&t.trainer);
    clips_free(&t.clips);
    snls_close(&t.ctx);
    return code;
}
