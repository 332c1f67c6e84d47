/* cmd_train.c: trains STAN-S on a folder of clean clips. Checkpoints appear whole or not at all; signals save and stop. */
#define _XOPEN_SOURCE 700
#include "checkpoint.h"
#include "clips.h"
#include "frames.h"
#include "train_log.h"
#include <math.h>
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
    Reading reading;
    bool resume, other_clips;
    uint64_t options_given; /* a bit for each of options */
    SnlsOption options[64];
    Checkpoint state;
    TrainLog log;
    Clips clips;
    SnlsTrainReport last;
    double gain; /* recent mean of PSNR above the noisy clips */
} Train;

static volatile sig_atomic_t asked; /* to save and stop */
static void on_ask(int number) { asked = number; }

/* A second one of those that end a program does not wait for the step to end. */
static void catch_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = { .sa_handler = on_ask, .sa_flags = numbers[i] == SIGUSR1 ? 0 : (int)SA_RESETHAND }, old;
        sigemptyset(&action.sa_mask);
        if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL); /* nohup stays */
    }
}

/* To who started it the program ends by the signal, as every command does, so that a script does not go on without the weights; USR1 only asks for a pause. */
static int end_by_signal(void)
{
    if (asked == SIGUSR1) return EXIT_DONE;
    fflush(stdout);
    outputs_drop();
    signal(asked, SIG_DFL);
    raise(asked);
    return EXIT_OTHER;
}

/* "train: crop is 30, ..." begins with the option's name behind the library's word. */
static const char *behind_area(const char *why) { return strncmp(why, "train: ", 7) ? why : why + 7; }

static int load_clips(Train *t)
{
    SnlsTrainParams p;
    int code = EXIT_DONE;
    snls_trainer_params(t->trainer, &p);
    for (int i = 0; i < t->clips.count && !code; i++) {
        SnlsTensor clip = { 0 };
        code = frames_load(t->ctx, t->clips.path[i], &t->reading, p.frames, &clip);
        const SnlsStatus status = code ? SNLS_OK : snls_trainer_add_clip(t->trainer, &clip);
        if (status < 0) code = fail(EXIT_INPUT, "%s: %s", t->clips.path[i], behind_area(snls_error(t->ctx)));
        snls_array_free(t->ctx, &clip);
    }
    if (!code && !t->other_clips && snls_trainer_same_clips(t->trainer) < 0)
        code = fail(EXIT_INPUT, "%s: %s; --other-clips goes on with these", t->data, behind_area(snls_error(t->ctx)));
    return code;
}

static void tell(Train *t, double begun, int64_t first, int64_t steps)
{
    static double told;
    const double now = seconds_now(), each = (now - begun) / (double)(t->last.step - first);
    const double gain = t->last.psnr - t->last.psnr_noisy; /* without noise none */
    if (isfinite(gain)) t->gain += (gain - t->gain) * (t->last.step - first < 20 ? 1.0 / (double)(t->last.step - first) : 0.05);
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
        if (status < 0) return fail_found(t->ctx, status, false);
        code = EXIT_DONE;
        if (told) code = train_log_step(&t->log, &t->last, seconds_now() - start), start = seconds_now();
        if (!code && t->every && step % t->every == 0) code = checkpoint_save(&t->state, t->ctx, t->trainer);
        if (code) return code;
        if (told) tell(t, begun, first, steps);
    }
    return EXIT_DONE;
}

static int report(Train *t)
{
    if (!t->common.json) return EXIT_DONE;
    json_t *r = report_begin(t->ctx);
    json_object_set_new(r, "steps", json_integer(snls_trainer_done(t->trainer)));
    json_object_set_new(r, "stopped", json_boolean(asked));
    json_object_set_new(r, "parameters", json_integer(snls_trainer_parameters(t->trainer)));
    json_object_set_new(r, "loss", json_real_or_null(t->last.step ? t->last.loss : NAN));
    json_object_set_new(r, "gain", json_real_or_null(t->last.step ? t->gain : NAN));
    return report_print(r);
}

static int finish(Train *t)
{
    char clips[32];
    snprintf(clips, sizeof clips, "%d", t->clips.count);
    const char *metadata[] = { "clips", clips, "version", snls_version() };
    const SnlsStatus status = snls_trainer_export(t->trainer, output_path(t->out), metadata, 2);
    int code = status < 0 ? fail_found(t->ctx, status, true) : EXIT_DONE;
    if (!code && t->curve) code = train_curve(&t->log, output_path(t->curve));
    if (!code) code = outputs_commit();
    return code ? code : report(t);
}

/* A run goes on as it began, but for what may change: an option that says otherwise would be passed over in silence. */
static int change_resumed(Train *t)
{
    SnlsTrainParams p;
    snls_trainer_params(t->trainer, &p);
    for (const SnlsOption *o = t->options; o->name; o++) {
        if (!(t->options_given >> (o - t->options) & 1) || o->offset >= sizeof p) continue; /* ours, not the trainer's */
        memcpy((char *)&p + o->offset, (const char *)&t->params + o->offset, o->type == SNLS_OPTION_REAL ? sizeof(double) : sizeof(int32_t));
    }
    if (t->common.seed_given) p.seed = t->params.seed;
    const SnlsStatus status = snls_trainer_change(t->trainer, &p);
    if (status == SNLS_ERR_ARG) return fail(EXIT_USAGE, "--%s; --resume goes on with the run in %s", behind_area(snls_error(t->ctx)), t->checkpoint);
    return status < 0 ? fail_library(t->ctx, status, false) : EXIT_DONE;
}

static int open_trainer(Train *t)
{
    const SnlsStatus status = t->resume ? snls_trainer_resume(&t->trainer, t->ctx, t->checkpoint) : snls_trainer_open(&t->trainer, t->ctx, &t->params);
    const char *why = snls_error(t->ctx);
    const bool of_option = status == SNLS_ERR_ARG || status == SNLS_ERR_UNSUPPORTED;
    if (of_option && !t->resume && !strncmp(why, "train: ", 7)) return fail(code_of(status, false), "--%s", behind_area(why));
    if (status < 0) return fail_library(t->ctx, status, false);
    if (t->init && snls_trainer_load(t->trainer, t->init) < 0) return fail(EXIT_INPUT, "%s", snls_error(t->ctx));
    const int code = t->resume ? change_resumed(t) : EXIT_DONE;
    if (code) return code;
    const SnlsStatus noted = snls_trainer_command(t->trainer, t->command);
    return noted < 0 ? fail_library(t->ctx, noted, false) : EXIT_DONE;
}

/* A checkpoint comes as NAME.part, takes the place of the one before, and is guarded by NAME.lock: a log of one of these names would be gone. */
static int log_apart(const Train *t)
{
    static const char *const ends[] = { "", ".part", ".lock" };
    char *real = realpath(t->checkpoint, NULL), name[4200];
    bool apart = true;
    for (int i = 0; i < 6 && apart; i++) {
        snprintf(name, sizeof name, "%s%s", i < 3 || !real ? t->checkpoint : real, ends[i % 3]);
        apart = !same_file(t->log_path, name);
    }
    free(real);
    return apart ? EXIT_DONE : fail(EXIT_USAGE, "--log %s and --checkpoint %s would be the same file, or what that is written by", t->log_path, t->checkpoint);
}

/* What is read must not be written to, -y or not. */
static int spare_inputs(Train *t)
{
    int code = clips_list(&t->clips, t->data, NULL);
    for (int i = 0; i < t->clips.count; i++)
        if (strcmp(t->clips.path[i], "-")) input_note(t->clips.path[i]);
    if (t->init) input_note(t->init);
    if (!code && t->checkpoint) code = output_spares_inputs(t->checkpoint);
    if (!code && t->checkpoint && t->log_path) code = log_apart(t);
    if (!code && t->checkpoint) code = output_lock(t->checkpoint);
    if (!code && t->log_path) code = output_spares_inputs(t->log_path);
    return code;
}

/* Everything that can be wrong with a name is found before the work. */
static int open_files(Train *t)
{
    if (!snls_path_ends(t->out, ".safetensors")) return fail(EXIT_USAGE, "OUT is %s, must end in .safetensors: by that weights are known again", t->out);
    if (t->log_path && !strcmp(t->log_path, "-")) return fail(EXIT_USAGE, "--log is -, must be a file: standard output is for --json");
    if (t->checkpoint && !strcmp(t->checkpoint, "-")) return fail(EXIT_USAGE, "--checkpoint is -, must be a file");
    int code = spare_inputs(t);
    if (!code) code = checkpoint_open(&t->state, t->checkpoint, t->resume || t->common.overwrite);
    if (!code && t->log_path) output_note(t->log_path);
    if (!code) code = output_add(t->out, t->common.overwrite);
    if (!code && t->curve) code = output_add(t->curve, t->common.overwrite);
    return code;
}

static int stop(Train *t)
{
    fprintf(stderr, "stopped after step %lld%s\n", (long long)snls_trainer_done(t->trainer),
            t->checkpoint ? "; --resume goes on from the checkpoint" : "; nothing was saved: there is no --checkpoint");
    const int code = report(t);
    return code ? code : end_by_signal();
}

static int work(Train *t)
{
    SnlsTrainParams p;
    int code = open_files(t);
    if (!code) code = open_context(&t->common, &t->ctx);
    if (!code) code = open_trainer(t);
    if (!code) code = load_clips(t);
    if (!code) code = train_log_open(&t->log, t->log_path, t->resume ? snls_trainer_done(t->trainer) : -1);
    if (code) return code;
    snls_trainer_params(t->trainer, &p);
    fprintf(stderr, "%lld parameters, %d clip%s, %d steps\n", (long long)snls_trainer_parameters(t->trainer), t->clips.count, t->clips.count == 1 ? "" : "s", (int)p.steps);
    if (t->resume && snls_trainer_same_place(t->trainer) < 0) fprintf(stderr, "snls train: %s\n", behind_area(snls_error(t->ctx)));
    catch_signals();
    code = run_steps(t, p.steps);
    if (!code) code = checkpoint_save(&t->state, t->ctx, t->trainer);
    return code ? code : asked ? stop(t) : finish(t);
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

static bool every_given(const Train *t)
{
    for (const SnlsOption *o = t->options; o->name; o++)
        if (o->offset == offsetof(Train, every)) return t->options_given >> (o - t->options) & 1;
    return false;
}

/* As much of the command as there is room for, byte for byte where it is plain text: metadata must be UTF-8, which names of files need not be. */
static void keep_command(Train *t, int argc, char **argv)
{
    size_t at = 0;
    for (int i = -1; i < argc; i++) {
        const char *word = i < 0 ? "snls" : argv[i];
        json_t *text = json_text(word);
        const int wrote = snprintf(t->command + at, sizeof t->command - at, "%s%s", i < 0 ? "" : " ", text ? json_string_value(text) : "?");
        json_decref(text);
        if (wrote < 0 || (size_t)wrote >= sizeof t->command - at) break;
        at += (size_t)wrote;
    }
    t->command[at] = 0; /* without the word that was cut */
}

int cmd_train(int argc, char **argv)
{
    static Train t;
    static const char *const names[] = { "DATA", "OUT.safetensors" };
    static const char *const help[] = { "folder of clean clips: folders of images, .npy, videos; or one clip", "the weights" };
    int code;
    const char *given[2] = { NULL, NULL };
    const Arg args[] = { { "checkpoint", "FILE", "where the state of the run is kept (safetensors)", &t.checkpoint },
                         { "resume", NULL, "go on from the checkpoint, with the options it was made with; --steps and --store may be others", &t.resume },
                         { "other-clips", NULL, "--resume with other clips than the run began with: it will end elsewhere", &t.other_clips },
                         { "init", "FILE", "begin with the weights of a file that a run like this made", &t.init },
                         { "deterministic", NULL, "bit-identical from run to run, on a GPU too", &t.common.deterministic },
                         { "log", "FILE", "a line of JSON for each step (on a GPU for every 20th), appended", &t.log_path },
                         { "curve", "FILE.svg", "the curve of the run", &t.curve },
                         READING_ARGS(t.reading) };
    const ArgTable table = { .summary = "train a small network on clean clips",
                             .examples = "  snls train clips/ small.safetensors --width 8 --blocks 1 --wt 1 --frames 3 --crop 32 --batch 4 --steps 300\n"
                                         "  snls train clips/ stan-s.safetensors --checkpoint run.safetensors --log run.jsonl --curve run.svg\n"
                                         "  snls train clips/ stan-s.safetensors --checkpoint run.safetensors --resume\n",
                             .args = args, .arg_count = sizeof args / sizeof *args, .options = t.options, .params = &t, .options_given = &t.options_given, .positional_names = names, .positional_help = help,
                             .positional = given, .positional_min = 2, .positional_max = 2 };
    make_options(t.options, sizeof t.options / sizeof *t.options);
    keep_command(&t, argc, argv);
    snls_train_defaults(&t.params);
    t.every = 1000;
    if (!parse_args(argc, argv, &table, &t.common, &code)) return code;
    if (t.resume && t.init) return fail(EXIT_USAGE, "--init begins a run, --resume goes on with one: give one of them");
    if (t.other_clips && !t.resume) return fail(EXIT_USAGE, "--other-clips has no meaning without --resume");
    if (!t.checkpoint && every_given(&t)) return fail(EXIT_USAGE, "--every has no meaning without --checkpoint, the file that is written then");
    if (t.resume && !t.checkpoint) return fail(EXIT_USAGE, "--resume needs --checkpoint, the file to go on from");
    if (t.common.seed > INT32_MAX) return fail(EXIT_USAGE, "--seed is %llu, must be 0 to %d", (unsigned long long)t.common.seed, INT32_MAX);
    if (t.common.seed_given) t.params.seed = (int32_t)t.common.seed;
    t.data = given[0], t.out = given[1];
    code = work(&t);
    train_log_close(&t.log);
    checkpoint_close(&t.state);
    snls_trainer_close(&t.trainer);
    clips_free(&t.clips);
    snls_close(&t.ctx);
    return code;
}
