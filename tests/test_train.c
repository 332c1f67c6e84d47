/* test_train.c: training: it converges, a resumed run equals an uninterrupted one to the last bit, what it exports is a network that
 * denoises, and what it refuses.
 *   test_train [--backend cuda] */
/* ctest: */
/* ctest: name=cuda label=cuda args=--backend cuda */
#define _POSIX_C_SOURCE 200809L /* getpid */
#include "case.h"
#include "check.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static SnlsContext *ctx;
static char path[128];

enum { FRAMES = 4, SIDE = 40 };

/* Smooth waves that move by (2,1) a frame. */
static SnlsTensor moving_clip(double phase)
{
    float *x = check_alloc(FRAMES * SIDE * SIDE * 3, sizeof *x);
    for (int64_t i = 0; i < FRAMES * SIDE * SIDE * 3; i++) {
        const double c = (double)(i % 3), u = (double)(i / 3 % SIDE), v = (double)(i / 3 / SIDE % SIDE), t = (double)(i / 3 / SIDE / SIDE);
        x[i] = (float)(128 + 60 * sin(0.35 * (u - 2 * t) + phase + c) + 50 * sin(0.5 * (v - t) - 0.2 * (u - 2 * t) + 2 * phase));
    }
    return snls_tensor(x, SNLS_F32, 4, (const int64_t[]){ FRAMES, SIDE, SIDE, 3 });
}

static SnlsTrainParams tiny(int32_t steps)
{
    SnlsTrainParams p;
    snls_train_defaults(&p);
    p.width = 8, p.blocks = 1, p.ws = 5, p.wt = 1, p.batch = 2, p.frames = 3, p.crop = 24, p.steps = steps, p.warmup = 5;
    p.rate = 1e-2, p.sigma_low = p.sigma_high = 30;
    return p;
}

static SnlsTrainer *open_tiny(const SnlsTrainParams *p)
{
    SnlsTrainer *t;
    CHECK(snls_trainer_open(&t, ctx, p) >= 0, "%s", snls_error(ctx));
    for (int i = 0; t && i < 3; i++) {
        const SnlsTensor clip = moving_clip(i);
        CHECK(snls_trainer_add_clip(t, &clip) >= 0, "%s", snls_error(ctx));
    }
    return t;
}

/* Steps until the end or until as many as wanted; the mean of PSNR above the noise over the last ten. */
static double train(SnlsTrainer *t, int64_t most, SnlsTrainReport *last)
{
    double gain = 0;
    SnlsTrainReport r;
    for (int64_t i = 0; i < most; i++) {
        const SnlsStatus status = snls_trainer_step(t, &r);
        if (status == SNLS_END) break;
        if (!CHECK(status >= 0, "%s", snls_error(ctx))) break;
        gain = i < 1 ? r.psnr - r.psnr_noisy : gain + 0.1 * (r.psnr - r.psnr_noisy - gain);
        if (last) *last = r;
    }
    return gain;
}

static void resumed_equals_uninterrupted(void)
{
    const SnlsTrainParams p = tiny(8);
    SnlsTrainReport whole = { 0 }, parts = { 0 };
    SnlsTrainer *t = open_tiny(&p);
    train(t, 100, &whole);
    CHECK(snls_trainer_step(t, NULL) == SNLS_END, "there is a step after the last");
    snls_trainer_close(&t);
    t = open_tiny(&p);
    train(t, 3, NULL);
    CHECK(snls_trainer_save(t, path) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    CHECK(snls_trainer_resume(&t, ctx, path) >= 0, "%s", snls_error(ctx));
    for (int i = 0; t && i < 3; i++) {
        const SnlsTensor clip = moving_clip(i);
        snls_trainer_add_clip(t, &clip);
    }
    if (t) train(t, 100, &parts);
    CHECK(whole.step == 8 && !memcmp(&whole, &parts, sizeof whole), "resumed: step %lld, loss %.17g, norm %.17g; uninterrupted: step %lld, loss %.17g, norm %.17g",
          (long long)parts.step, parts.loss, parts.norm, (long long)whole.step, whole.loss, whole.norm);
    snls_trainer_close(&t);
}

/* Of this context, of no checkpoint, of another number of threads. */
static void knows_its_place(void)
{
    SnlsContext *other = NULL;
    const SnlsTrainParams p = tiny(3);
    SnlsTrainer *t = open_tiny(&p);
    CHECK(snls_trainer_same_place(NULL) == SNLS_ERR_ARG && snls_trainer_same_place(t) == SNLS_OK, "a run that begins has no other place");
    CHECK(snls_trainer_save(t, path) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    CHECK(snls_trainer_resume(&t, ctx, path) >= 0 && snls_trainer_same_place(t) == SNLS_OK, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    if (!CHECK(snls_open(&other, &(SnlsContextParams){ .backend = "cpu", .threads = 7 }) >= 0, "no context")) return;
    CHECK(snls_trainer_resume(&t, other, path) >= 0 && snls_trainer_same_place(t) == SNLS_ERR_ARG && strstr(snls_error(other), "--threads 7"), "seven threads: %s", snls_error(other));
    snls_trainer_close(&t);
    snls_close(&other);
}

static double psnr_of(const SnlsTensor *a, const SnlsTensor *b)
{
    double sum = 0;
    const int64_t n = snls_tensor_elements(a);
    for (int64_t i = 0; i < n; i++) sum += pow((double)((float *)a->data)[i] - (double)((float *)b->data)[i], 2) / (double)n;
    return 10 * log10(255 * 255 / sum);
}

/* A clip it has not seen, noise it has not seen. */
static void check_export(double least)
{
    SnlsModel *model;
    const SnlsTensor clean = moving_clip(7.5), noisy = moving_clip(7.5), out = moving_clip(0);
    CHECK(snls_noise_add(ctx, noisy.data, snls_tensor_elements(&noisy), 0, 30, 99) >= 0, "noise");
    if (!CHECK(snls_model_open(&model, ctx, path, NULL) >= 0, "%s", snls_error(ctx))) return;
    CHECK(snls_model_run(model, &(SnlsModelRun){ .frames = noisy, .out = out, .count = FRAMES, .sigma = 30 }) >= 0, "%s", snls_error(ctx));
    const double before = psnr_of(&clean, &noisy), after = psnr_of(&clean, &out);
    CHECK(after > before + least, "the trained network brings %.2f dB to %.2f", before, after);
    snls_model_close(&model);
}

static bool exported_tells(const char *key, const char *want)
{
    SnlsSafetensors file;
    if (!CHECK(snls_safetensors_read(ctx, path, &file) >= 0, "%s", snls_error(ctx))) return false;
    const char *text = snls_safetensors_metadata(&file, key);
    const bool same = text && want ? !strcmp(text, want) : text == want;
    if (!same) printf("%s is %s\n", key, text ? text : "missing");
    snls_safetensors_free(ctx, &file);
    return same;
}

/* Saved, closed and opened again as a command that goes on would. */
static void go_on(SnlsTrainer **t, const char *command)
{
    CHECK(snls_trainer_save(*t, path) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(t);
    CHECK(snls_trainer_resume(t, ctx, path) >= 0, "%s", snls_error(ctx));
    if (command) CHECK(snls_trainer_command(*t, command) >= 0, "%s", snls_error(ctx));
}

static void keeps_its_history(void)
{
    const SnlsTrainParams p = tiny(8);
    SnlsTrainer *t = open_tiny(&p);
    CHECK(snls_trainer_command(NULL, "x") == SNLS_ERR_ARG && snls_trainer_command(t, NULL) == SNLS_ERR_ARG, "a command of nothing");
    static const char *const foreign[] = { "train \xff", "\xe9t\xe9", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80" };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        CHECK(snls_trainer_command(t, foreign[i]) == SNLS_ERR_ARG && strstr(snls_error(ctx), "UTF-8"), "command %d that is no UTF-8", (int)i);
    CHECK(snls_trainer_command(t, "begin") >= 0, "%s", snls_error(ctx));
    go_on(&t, "once more");
    for (int i = 0; t && i < 3; i++) CHECK(snls_trainer_add_clip(t, (const SnlsTensor[]){ moving_clip(i) }) >= 0, "%s", snls_error(ctx));
    train(t, 2, NULL);
    go_on(&t, "and again");
    CHECK(snls_trainer_export(t, path, (const char *const[]){ "who", "we" }, 1) >= 0, "%s", snls_error(ctx));
    CHECK(exported_tells("command", "begin") && exported_tells("resume 1", "from step 0: once more") && exported_tells("resume 2", "from step 2: and again"), "the history");
    CHECK(exported_tells("resume 3", NULL) && exported_tells("who", "we") && exported_tells("architecture", "stan-s"), "the metadata beside it");
    CHECK(snls_trainer_export(t, path, (const char *const[]){ "command", "mine" }, 1) >= 0, "%s", snls_error(ctx));
    CHECK(exported_tells("command", "mine") && exported_tells("resume 1", "from step 0: once more"), "a text in place of the history's");
    snls_trainer_close(&t);
    t = open_tiny(&p); /* as in checkpoints that have no history */
    go_on(&t, "later");
    CHECK(snls_trainer_export(t, path, NULL, 3) == SNLS_ERR_ARG && strstr(snls_error(ctx), "metadata is NULL"), "texts that are not there: %s", snls_error(ctx));
    CHECK(snls_trainer_export(t, path, NULL, 0) >= 0, "%s", snls_error(ctx));
    CHECK(exported_tells("command", NULL) && exported_tells("resume 1", "from step 0: later"), "a history without a beginning");
    snls_trainer_close(&t);
}

static void knows_its_clips(void)
{
    const SnlsTrainParams p = tiny(8);
    SnlsTrainer *t = open_tiny(&p);
    static const int order[][3] = { { 0, 1, 2 }, { 1, 0, 2 }, { 0, 1, 3 } };
    CHECK(snls_trainer_same_clips(t) == SNLS_OK, "a run that begins has no other clips");
    CHECK(snls_trainer_save(t, path) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    for (int k = 0; k < 3; k++) {
        CHECK(snls_trainer_resume(&t, ctx, path) >= 0, "%s", snls_error(ctx));
        CHECK(snls_trainer_same_clips(t) == SNLS_ERR_ARG && strstr(snls_error(ctx), "is 0, but the run began with 3"), "none of three clips");
        for (int i = 0; t && i < 3; i++) {
            const SnlsTensor clip = moving_clip(order[k][i]);
            CHECK(snls_trainer_add_clip(t, &clip) >= 0, "%s", snls_error(ctx));
            if (i < 2) CHECK(snls_trainer_same_clips(t) == SNLS_ERR_ARG && strstr(snls_error(ctx), "began with 3"), "%d of three clips", i + 1);
        }
        CHECK(snls_trainer_same_clips(t) == (k ? SNLS_ERR_ARG : SNLS_OK), "clips %d %d %d", order[k][0], order[k][1], order[k][2]);
        snls_trainer_close(&t);
    }
}

static void may_become_longer(void)
{
    const SnlsTrainParams p = tiny(6), longer = tiny(9);
    SnlsTrainParams other = longer;
    SnlsTrainReport whole = { 0 }, parts = { 0 };
    SnlsTrainer *t = open_tiny(&longer);
    train(t, 100, &whole);
    snls_trainer_close(&t);
    t = open_tiny(&p);
    CHECK(snls_trainer_change(NULL, &p) == SNLS_ERR_ARG && snls_trainer_change(t, NULL) == SNLS_ERR_ARG, "a change of nothing");
    other.rate *= 1.0000001;
    CHECK(snls_trainer_change(t, &other) == SNLS_ERR_ARG && strstr(snls_error(ctx), "train: rate is"), "another rate: %s", snls_error(ctx));
    other = longer, other.store = SNLS_STORE_F16;
    CHECK(snls_trainer_change(t, &other) >= 0, "%s", snls_error(ctx));
    train(t, 3, NULL);
    CHECK(snls_trainer_change(t, &longer) >= 0, "%s", snls_error(ctx)); /* a GPU has not captured its step yet, or has */
    train(t, 100, &parts);
    CHECK(parts.step == 9 && parts.loss == whole.loss && parts.rate == whole.rate, "step %lld, loss %.9g, not %.9g", (long long)parts.step, parts.loss, whole.loss);
    CHECK(snls_trainer_change(t, &p) == SNLS_ERR_ARG && strstr(snls_error(ctx), "steps is 6, but 9 are done"), "fewer steps than are done: %s", snls_error(ctx));
    snls_trainer_close(&t);
}

static void converges(void)
{
    const SnlsTrainParams p = tiny(120);
    const char *metadata[] = { "data", "waves" };
    SnlsTrainer *t = open_tiny(&p);
    const double first = train(t, 3, NULL), last = train(t, 1000, NULL);
    CHECK(first < 1 && last > 5, "PSNR above the noise: %.2f dB at first, %.2f at the end", first, last);
    CHECK(snls_trainer_export(t, path, metadata, 1) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    check_export(4.5);
}

/* Weights of a finished run are where another begins; in f16 they are half as large and as good. */
static void begins_with_weights(void)
{
    SnlsTrainParams p = tiny(3);
    p.store = SNLS_STORE_F16;
    SnlsTrainer *t = open_tiny(&p);
    if (!t) return;
    SnlsTrainReport r;
    CHECK(snls_trainer_load(t, path) >= 0 && snls_trainer_step(t, &r) >= 0, "%s", snls_error(ctx));
    CHECK(r.step == 1 && r.psnr - r.psnr_noisy > 4.5, "a run that begins with weights is %.2f dB above the noise at once", r.psnr - r.psnr_noisy);
    CHECK(snls_trainer_export(t, path, NULL, 0) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    check_export(4);
    p.width = 4;
    CHECK(snls_trainer_open(&t, ctx, &p) >= 0 && snls_trainer_load(t, path) == SNLS_ERR_FORMAT, "takes weights of another width");
    snls_trainer_close(&t);
}

static void refuses(void)
{
    SnlsTrainer *t = NULL;
    for (int i = 0; i < 7; i++) {
        SnlsTrainParams p = tiny(3);
        if (i == 0) p.crop = 30;
        if (i == 1) p.frames = 2;
        if (i == 2) p.sigma_low = 40;
        if (i == 3) p.rate = NAN;
        if (i == 4) p.width = 0;
        if (i == 5) p.batch = -1;
        if (i == 6) p.reserved[15] = 1;
        CHECK(snls_trainer_open(&t, ctx, &p) == SNLS_ERR_ARG && !t && *snls_error(ctx), "bad parameters %d are taken", i);
    }
    const SnlsTrainParams p = tiny(3);
    CHECK(snls_trainer_open(&t, ctx, &p) >= 0, "%s", snls_error(ctx));
    CHECK(snls_trainer_step(t, NULL) == SNLS_ERR_ARG, "trains on nothing");
    SnlsTensor clip = moving_clip(0);
    clip.shape[1] = 23;
    CHECK(snls_trainer_add_clip(t, &clip) == SNLS_ERR_SHAPE, "takes a clip that is too small, or not contiguous");
    clip = moving_clip(0);
    clip.shape[0] = INT64_MAX / 4;
    CHECK(snls_trainer_add_clip(t, &clip) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "larger than memory"), "a clip that no memory holds: %s", snls_error(ctx));
    clip = moving_clip(0);
    clip.shape[0] = 2;
    CHECK(snls_trainer_add_clip(t, &clip) == SNLS_ERR_SHAPE, "takes a clip that is too short");
    CHECK(snls_trainer_export(t, path, NULL, 0) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    CHECK(snls_trainer_resume(&t, ctx, path) == SNLS_ERR_FORMAT && !t, "resumes from weights");
    SnlsModel *model;
    const SnlsTrainParams q = tiny(3);
    CHECK(snls_trainer_open(&t, ctx, &q) >= 0 && snls_trainer_save(t, path) >= 0, "%s", snls_error(ctx));
    CHECK(snls_model_open(&model, ctx, path, NULL) == SNLS_ERR_UNSUPPORTED, "opens a checkpoint as weights");
    snls_trainer_close(&t);
}

/* The file at `path` with the first number of a tensor, or an entry of its metadata, changed. */
static void alter(const char *tensor, float number, const char *key, const char *text)
{
    SnlsSafetensors file;
    if (!CHECK(snls_safetensors_read(ctx, path, &file) >= 0, "%s", snls_error(ctx))) return;
    for (int64_t i = 0; tensor && i < file.count; i++)
        if (!strcmp(file.tensors[i].name, tensor)) *(float *)file.tensors[i].tensor.data = number;
    for (int64_t i = 0; key && i < file.metadata_count; i++)
        if (!strcmp(file.metadata[2 * i], key)) file.metadata[2 * i + 1] = text;
    CHECK(snls_safetensors_write(ctx, path, &file) >= 0, "%s", snls_error(ctx));
    snls_safetensors_free(ctx, &file);
}

/* Files that no training has written, and numbers that no file can hold. */
static void refuses_odd_numbers(void)
{
    static const struct { const char *tensor; float number; const char *key, *text, *why; } odd[] = {
        { "square_mean", -1, NULL, NULL, "must not be negative" }, { "weights", INFINITY, NULL, NULL, "must be finite" }, { NULL, 0, "crop", "15", "crop is 15" },
        { "gradient_mean", 0.5f, NULL, NULL, "it was changed" }, { NULL, 0, "rate", "0.5", "it was changed" } };
    SnlsTrainer *t = NULL;
    SnlsTrainParams p = tiny(3);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK(snls_trainer_open(&t, ctx, &p) >= 0 && snls_trainer_save(t, path) >= 0, "%s", snls_error(ctx));
        snls_trainer_close(&t);
        alter(odd[i].tensor, odd[i].number, odd[i].key, odd[i].text);
        CHECK(snls_trainer_resume(&t, ctx, path) == SNLS_ERR_FORMAT && !t && strstr(snls_error(ctx), odd[i].why) && strstr(snls_error(ctx), path), "a checkpoint with odd numbers: %s", snls_error(ctx));
    }
    char first[128] = "";
    SnlsSafetensors file;
    CHECK(snls_trainer_open(&t, ctx, &p) >= 0 && snls_trainer_export(t, path, NULL, 0) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    if (CHECK(snls_safetensors_read(ctx, path, &file) >= 0, "%s", snls_error(ctx))) {
        snprintf(first, sizeof first, "%s", file.tensors[0].name);
        snls_safetensors_free(ctx, &file);
    }
    alter(first, 1e5f, NULL, NULL);
    p.store = SNLS_STORE_F16;
    CHECK(snls_trainer_open(&t, ctx, &p) >= 0 && snls_trainer_load(t, path) >= 0, "%s", snls_error(ctx));
    CHECK(snls_trainer_save(t, path) >= 0, "%s", snls_error(ctx));
    CHECK(snls_trainer_export(t, path, NULL, 0) == SNLS_ERR_ARG && strstr(snls_error(ctx), "f16"), "a weight beyond f16: %s", snls_error(ctx));
    snls_trainer_close(&t);
    CHECK(snls_trainer_resume(&t, ctx, path) >= 0, "the file that was there is gone: %s", snls_error(ctx));
    snls_trainer_close(&t);
}

/* Blocks beyond this are refused. */
static void *small_alloc(size_t bytes, void *opaque) { return bytes > *(const size_t *)opaque ? NULL : malloc(bytes); }
static void small_free(void *memory, void *opaque) { (void)opaque; free(memory); }

/* A checkpoint whose metadata ask for a larger network than it holds is refused before memory is taken for that. */
static void refuses_sizes_that_lie(void)
{
    size_t most = 4 << 20;
    SnlsContext *small = NULL;
    SnlsTrainer *t = NULL;
    const SnlsTrainParams p = tiny(3);
    CHECK(snls_trainer_open(&t, ctx, &p) >= 0 && snls_trainer_save(t, path) >= 0, "%s", snls_error(ctx));
    snls_trainer_close(&t);
    alter(NULL, 0, "width", "256");
    if (!CHECK(snls_open(&small, &(SnlsContextParams){ .backend = "cpu", .threads = 1, .allocator = { small_alloc, small_free, &most } }) >= 0, "no context")) return;
    CHECK(snls_trainer_resume(&t, small, path) == SNLS_ERR_FORMAT && !t && strstr(snls_error(small), "numbers"), "%s", snls_error(small));
    snls_close(&small);
}

/* Of this process; 0 where the system does not tell. */
static int threads_now(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) ? 0 : (int)tasks.st_nlink - 2;
}

int main(int argc, char **argv)
{
    const int threads = threads_now();
    const bool gpu = argc > 2 && !strcmp(argv[1], "--backend") && !strcmp(argv[2], "cuda");
#ifndef SNLS_HAVE_JANSSON
    printf("skipped: no jansson\n");
    return 77;
#endif
    snprintf(path, sizeof path, "/tmp/snls_test_train.%d.safetensors", (int)getpid());
    check_repeat("%s", argv[0]);
    ctx = gpu ? context_open_cuda(true) : NULL; /* skips the test where there is none */
    if (!ctx && snls_open(&ctx, &(SnlsContextParams){ .backend = "cpu", .threads = 1 }) < 0) return 1;
    refuses();
    refuses_odd_numbers();
    refuses_sizes_that_lie();
    resumed_equals_uninterrupted();
    keeps_its_history();
    knows_its_clips();
    knows_its_place();
    may_become_longer();
    converges();
    begins_with_weights();
    CHECK(gpu || threads_now() == threads, "a context of one thread: %d threads have become %d", threads, threads_now());
    unlink(path);
    tensors_free();
    snls_close(&ctx);
    return check_end();
}
