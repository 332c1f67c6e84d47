/* test_model.c: whole networks: numbers of parameters, gradients at a small size, files of weights that do not fit, runs.
 *   test_model */
#define _POSIX_C_SOURCE 200809L /* getpid */
#include "check_net.h"
#include "model/model.h"
#include "model/stan.h"
#include "pipeline/stage.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SNLS_HAVE_JANSSON
enum { HAVE_FILES = 1 };
#else
enum { HAVE_FILES = 0 };
#endif

static SnlsContext *ref, *cpu;
static char path[128];

/* ---- STAN ---- */

static int32_t tiny_stan(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    const StanConfig c = { .heads = { 1, 1, 2 }, .per_head = 2, .depth = { 1, 1, 2 }, .ws = 2, .wt = 1, .k = 6, .used = 2, .rstb = 1, .layers = 2, .swin_heads = 2, .window = { 2, 2, 2 } };
    const int64_t *d = net->values[x].t.shape;
    (void)rng, (void)opaque;
    const StanNet n = snls_stan_build(net, &c, &(StanShape){ 1, d[0], d[1], d[2] });
    return n.out;
}

static int32_t tiny_stan_s(NnNet *net, Rng *rng, int32_t x, void *opaque)
{
    const StanSConfig c = { .width = 2, .blocks = 2, .ws = 2, .wt = 1 };
    const int64_t *d = net->values[x].t.shape;
    (void)rng, (void)opaque;
    return snls_stan_s_build(net, &c, &(StanShape){ 1, d[0], d[1], d[2] }).out;
}

static void random_input(TestNet *t, Rng *rng, int32_t value)
{
    const SnlsTensor *x = &t->net.values[value].t;
    for (int64_t i = 0; i < snls_tensor_elements(x); i++) snls_store(x, i, rng_real(rng, -1, 1));
}

/* Networks make their own input, the value behind the one that test_net_open makes; odd sides need the padding of skips. */
static void whole_gradient(const char *what, Build *build, const int64_t *shape, uint64_t seed)
{
    Rng rng = { seed };
    TestNet t;
    check_repeat("test_model (%s, seed %llu)", what, (unsigned long long)seed);
    if (test_net_open(&t, ref, &rng, SNLS_F64, true, shape, build, NULL)) {
        random_input(&t, &rng, t.in + 1);
        check_net_gradient(what, &t, &rng, 9, 1e-6, 2e-4); /* activations bend: of thousands a few do so between the two ends */
    }
    test_net_close(&t);
}

static int64_t stan_parameters(SnlsContext *ctx, NnParams *params)
{
    const StanConfig c = snls_stan_config();
    NnNet net;
    *params = (NnParams){ .dtype = SNLS_F32 };
    snls_nn_begin(&net, ctx, params, SNLS_F32, false);
    snls_stan_build(&net, &c, &(StanShape){ 1, 5, 16, 16 });
    CHECK(net.status >= 0, "%s", snls_error(ctx));
    snls_nn_free(&net);
    return params->total;
}

static void parameter_counts(void)
{
    NnParams params;
    const int64_t stan = stan_parameters(ref, &params);
    CHECK(stan == 12073694, "STAN has %lld parameters, the paper's has 12073694", (long long)stan);
    snls_nn_params_free(ref, &params);
    const StanSConfig c = snls_stan_s_config();
    NnNet net;
    snls_nn_begin(&net, ref, &params, SNLS_F32, false);
    snls_stan_s_build(&net, &c, &(StanShape){ 1, 5, 16, 16 });
    CHECK(params.total == 2398241, "STAN-S has %lld parameters", (long long)params.total);
    snls_nn_free(&net);
    snls_nn_params_free(ref, &params);
}

/* ---- files ---- */

static const char *stan_s_metadata[] = { "architecture", "stan-s", "width", "4", "blocks", "1", "ws", "3", "wt", "1" };

/* Weights of a small STAN-S, as a file with one thing wrong. */
typedef enum Fault { NONE, MISSING, MORE, SHAPE_OF_ONE, ARCHITECTURE, SETTING, TYPE, NOT_FINITE, COUNT_OF_STEPS, LARGE } Fault;

static void write_weights(Fault fault, uint64_t seed)
{
    const StanSConfig c = { .width = 4, .blocks = 1, .ws = 3, .wt = 1 };
    const char *metadata[10];
    NnParams params = { .dtype = SNLS_F32 };
    NnNet net;
    memcpy(metadata, stan_s_metadata, sizeof metadata);
    if (fault == ARCHITECTURE) metadata[1] = "resnet";
    if (fault == SETTING) metadata[3] = "4x";
    if (fault == LARGE) metadata[3] = "256", metadata[5] = "64"; /* 2 GB of weights, says a small file */
    snls_nn_begin(&net, ref, &params, SNLS_F32, false);
    snls_stan_s_build(&net, &c, &(StanShape){ 1, 5, 16, 16 });
    snls_nn_params_allocate(ref, &params, false);
    snls_nn_params_init(&params, seed);
    SnlsNamedTensor *list = calloc((size_t)params.count + 1, sizeof *list);
    for (int64_t i = 0; i < params.count; i++) list[i] = (SnlsNamedTensor){ params.list[i].name, snls_nn_param_view(&params, &params.list[i], params.value) };
    list[params.count] = (SnlsNamedTensor){ fault == COUNT_OF_STEPS ? "in.num_batches_tracked" : "more", list[0].tensor }; /* there is no batch norm */
    if (fault == NOT_FINITE) ((float *)params.value)[7] = NAN;
    if (fault == SHAPE_OF_ONE) list[0].tensor.shape[0]--;
    if (fault == TYPE) list[0].tensor.dtype = SNLS_I32;
    const SnlsSafetensors file = { list, params.count + (fault == MORE || fault == COUNT_OF_STEPS) - (fault == MISSING), metadata, 5, NULL };
    CHECK(snls_safetensors_write(ref, path, &file) >= 0, "%s", snls_error(ref));
    free(list);
    snls_nn_free(&net);
    snls_nn_params_free(ref, &params);
}

static int64_t largest; /* block that was asked for */

static void *watch(size_t bytes, void *opaque)
{
    (void)opaque;
    if ((int64_t)bytes > largest) largest = (int64_t)bytes;
    return malloc(bytes);
}

static void forget(void *memory, void *opaque)
{
    (void)opaque;
    free(memory);
}

static void bad_files(void)
{
    SnlsModel *model;
    for (Fault f = MISSING; f <= LARGE; f++) {
        write_weights(f, 1);
        largest = 0;
        const SnlsStatus status = snls_model_open(&model, cpu, path, NULL);
        CHECK(status == (f == ARCHITECTURE ? SNLS_ERR_UNSUPPORTED : SNLS_ERR_FORMAT) && !model, "fault %d: %d (%s)", (int)f, (int)status, snls_error(cpu));
        CHECK(!strncmp(snls_error(cpu), path, strlen(path)), "fault %d: the file is not named: %s", (int)f, snls_error(cpu));
        CHECK(largest < 4 << 20, "fault %d: %lld bytes were taken at once", (int)f, (long long)largest);
        if (model) snls_model_close(&model);
    }
    CHECK(snls_model_open(&model, cpu, "/nowhere", NULL) == SNLS_ERR_IO && !model, "opened nothing: %s", snls_error(cpu));
}

/* ---- runs ---- */

static SnlsTensor random_clip(int64_t frames, int64_t h, int64_t w, uint64_t seed)
{
    Rng rng = { seed };
    float *data = check_alloc(frames * h * w * 3, sizeof(float));
    for (int64_t i = 0; i < frames * h * w * 3; i++) data[i] = (float)rng_real(&rng, -20, 275);
    return snls_tensor(data, SNLS_F32, 4, (const int64_t[]){ frames, h, w, 3 });
}

static SnlsTensor run_told(SnlsContext *ctx, const SnlsTensor *clip, int64_t first, int64_t count, int32_t dtype, double sigma)
{
    SnlsModelParams p;
    SnlsModel *model;
    SnlsTensor out = random_clip(count, clip->shape[1], clip->shape[2], 9);
    snls_model_defaults(&p);
    p.dtype = dtype;
    const SnlsModelRun run = { .frames = *clip, .out = out, .first = first, .count = count, .sigma = sigma };
    SnlsStatus status = snls_model_open(&model, ctx, path, &p);
    if (status >= 0) status = snls_model_run(model, &run);
    if (status >= 0) status = snls_model_run(model, &run); /* the second needs no new memory and says the same */
    CHECK(status >= 0, "%s", snls_error(ctx));
    snls_model_close(&model);
    return out;
}

static SnlsTensor run_on(SnlsContext *ctx, const SnlsTensor *clip, int64_t first, int64_t count, int32_t dtype) { return run_told(ctx, clip, first, count, dtype, 20); }

static double difference(const SnlsTensor *a, const float *b)
{
    double most = 0;
    for (int64_t i = 0; i < snls_tensor_elements(a); i++) most = fmax(most, fabs((double)((float *)a->data)[i] - (double)b[i]));
    return most;
}

static void runs(void)
{
    static const int64_t sizes[][3] = { { 5, 16, 16 }, { 1, 9, 13 }, { 3, 10, 12 }, { 14, 8, 8 } };
    write_weights(NONE, 7);
    for (int i = 0; i < 4; i++) {
        const SnlsTensor clip = random_clip(sizes[i][0], sizes[i][1], sizes[i][2], 3 + (uint64_t)i);
        const SnlsTensor want = run_on(ref, &clip, 0, sizes[i][0], SNLS_F32), got = run_on(cpu, &clip, 0, sizes[i][0], SNLS_F32);
        const SnlsTensor half = run_on(cpu, &clip, 0, sizes[i][0], SNLS_BF16);
        CHECK(difference(&got, want.data) < 0.01, "size %d: cpu and ref differ by %g", i, difference(&got, want.data));
        CHECK(difference(&half, want.data) < 16, "size %d: bf16 and f32 differ by %g", i, difference(&half, want.data)); /* a few of 255/256 */
        CHECK(difference(&want, clip.data) > 0.01 && difference(&want, clip.data) < 79, "size %d: nothing happened, or numbers are held back (stays_near) and not compared", i);
        const SnlsTensor last = run_on(cpu, &clip, sizes[i][0] - 1, 1, SNLS_F32);
        const float *same = (const float *)got.data + (sizes[i][0] - 1) * sizes[i][1] * sizes[i][2] * 3;
        CHECK(difference(&last, same) < 0.01, "size %d: the last frame alone differs by %g", i, difference(&last, same));
    }
}

/* STAN-S changes no number by more than four times what it is told the noise is, frame by frame (cpu) as in windows (ref, GPUs); told that there is none, nothing. */
static void stays_near(SnlsContext *ctx)
{
    const SnlsTensor clip = random_clip(6, 10, 12, 8), none = run_told(ctx, &clip, 0, 6, SNLS_F32, 0), little = run_told(ctx, &clip, 0, 6, SNLS_F32, 0.25);
    const float *in = clip.data, *out = little.data;
    const int64_t n = snls_tensor_elements(&clip);
    int64_t held = 0;
    for (int64_t i = 0; i < n; i++) held += fabs(fabs((double)out[i] - (double)in[i]) - 1) < 1e-4;
    CHECK(!memcmp(none.data, in, (size_t)n * sizeof *in), "%s: told that there is no noise, frames change by %g", snls_backend_name(ctx), difference(&none, in));
    CHECK(difference(&little, in) < 1 + 1e-4, "%s: told noise of 0.25, numbers change by %g", snls_backend_name(ctx), difference(&little, in));
    CHECK(held > n / 10 && held < n, "%s: %lld of %lld numbers are held, there should be both", snls_backend_name(ctx), (long long)held, (long long)n);
}

static void bad_runs(void)
{
    SnlsModel *model;
    const SnlsTensor clip = random_clip(5, 16, 16, 1);
    SnlsModelRun good = { .frames = clip, .out = random_clip(5, 16, 16, 1), .count = 5, .sigma = 20 }, bad[11];
    for (int i = 0; i < 11; i++) bad[i] = good;
    bad[0].count = 6;
    bad[1].first = -1;
    bad[2].out.shape[0] = 4;
    bad[3].frames.dtype = SNLS_F16;
    bad[4].sigma = -1;
    bad[5].frames.stride[1]++;
    bad[6].first = INT64_MAX; /* and count: beyond every number */
    bad[7].frames.device = bad[7].out.device = SNLS_DEVICE_CUDA;
    bad[8].frames = random_clip(5, 16, 16, 1);
    ((float *)bad[8].frames.data)[700] = NAN;
    bad[9].out.data = (float *)bad[9].frames.data + 16 * 16 * 3; /* a frame would be read that another was written to */
    bad[9].out.shape[0] = bad[9].count = 4;
    bad[10].frames.data = (char *)bad[10].frames.data + 1;
    bad[10].frames.shape[0] = bad[10].out.shape[0] = bad[10].count = 4;
    CHECK(snls_model_open(&model, cpu, path, NULL) >= 0, "%s", snls_error(cpu));
    for (int i = 0; i < 11; i++) CHECK(snls_model_run(model, &bad[i]) < 0 && *snls_error(cpu), "bad run %d was done", i);
    good.frames.shape[0] = good.out.shape[0] = good.count = 1;
    good.frames.stride[0] = good.out.stride[0] = 1; /* of an axis of one: it tells nothing */
    CHECK(snls_model_run(model, &good) == SNLS_OK, "one frame: %s", snls_error(cpu));
    SnlsModelInfo info;
    CHECK(snls_model_info(model, &info) >= 0 && !strcmp(info.architecture, "stan-s") && info.radius == 2, "wrong information");
    snls_model_close(&model);
}

/* Params of models and of their streams. */
static void bad_params(void)
{
    SnlsModel *model;
    SnlsModelStream *stream = NULL;
    SnlsModelParams p[4];
    for (int i = 0; i < 4; i++) snls_model_defaults(&p[i]);
    p[0].flow = 9, p[1].flow = -1, p[2].reserved[12] = 1, p[3].dtype = SNLS_U8;
    for (int i = 0; i < 4; i++)
        CHECK(snls_model_open(&model, cpu, path, &p[i]) == SNLS_ERR_ARG && !model && strstr(snls_error(cpu), "must be"), "bad params %d were taken: %s", i, snls_error(cpu));
    const SnlsModelStreamParams bad[] = { { .height = 16, .width = 16, .lean = 2 }, { .height = 16, .width = 16, .lean = -1 }, { .height = 16, .width = 16, .reserved = { 0, 3 } }, { .height = 16 } };
    CHECK(snls_model_open(&model, cpu, path, NULL) >= 0, "%s", snls_error(cpu));
    for (int i = 0; i < 4; i++) {
        CHECK(snls_model_stream_open(&stream, model, &bad[i]) == SNLS_ERR_ARG && !stream && strstr(snls_error(cpu), "must "), "bad stream %d was opened: %s", i, snls_error(cpu));
        CHECK(snls_model_stream_memory(model, &bad[i]) == -1, "bad stream %d has a size", i);
    }
    snls_model_close(&model);
}

/* Grey has one sigma, the first; a pipeline does not report what stands in the places of other channels. */
static void grey_has_one_sigma(void)
{
    SnlsModel *model;
    SnlsStage stage;
    SnlsDenoiseParams p;
    double noise[SNLS_NOISE];
    snls_denoise_defaults(&p);
    p.sigma[0] = 20;
    CHECK(snls_model_open(&model, cpu, path, NULL) >= 0 && snls_stage_open(&stage, cpu, &p, model, false, 16, 16, 1) >= 0, "%s", snls_error(cpu));
    snls_stage_noise(&stage, noise);
    for (int i = 0; i < SNLS_NOISE; i++) CHECK(noise[i] == 20, "noise %d of grey is %g", i, noise[i]);
    snls_stage_close(&stage);
    snls_model_close(&model);
}

/* The fusion begins as nothing: without training, frames do not see each other. */
static void fusion_begins_as_nothing(void)
{
    write_weights(NONE, 5);
    const SnlsTensor clip = random_clip(5, 16, 16, 4);
    const SnlsTensor before = run_on(cpu, &clip, 2, 1, SNLS_F32);
    float *other = clip.data;
    for (int64_t i = 0; i < 16 * 16 * 3; i++) other[i] = 255 - other[i];
    const SnlsTensor after = run_on(cpu, &clip, 2, 1, SNLS_F32);
    CHECK(difference(&after, before.data) == 0, "an untrained network mixes frames");
}

/* The whole STAN runs, on frames whose sides are odd. */
static void stan_runs(void)
{
    NnParams params;
    stan_parameters(cpu, &params);
    SnlsNamedTensor *list = calloc((size_t)params.count, sizeof *list);
    const char *metadata[] = { "architecture", "stan" };
    CHECK(snls_nn_params_allocate(cpu, &params, false) >= 0, "memory");
    snls_nn_params_init(&params, 1);
    for (int64_t i = 0; i < params.count; i++) list[i] = (SnlsNamedTensor){ params.list[i].name, snls_nn_param_view(&params, &params.list[i], params.value) };
    CHECK(snls_safetensors_write(cpu, path, &(SnlsSafetensors){ list, params.count, metadata, 1, NULL }) >= 0, "%s", snls_error(cpu));
    const SnlsTensor clip = random_clip(3, 39, 41, 2), out = run_on(cpu, &clip, 1, 1, SNLS_F32);
    for (int64_t i = 0; i < snls_tensor_elements(&out); i++)
        if (!CHECK(isfinite(((float *)out.data)[i]), "STAN's output %lld is not finite", (long long)i)) break;
    CHECK(difference(&out, (float *)clip.data + 39 * 41 * 3) > 0.01, "STAN does nothing");
    free(list);
    snls_nn_params_free(cpu, &params);
}

/* ---- FastDVDnet: what its file holds ---- */

typedef struct Block { const char *name; int64_t out, in; bool norm; } Block;
static const Block blocks[] = {
    { "inc.convblock.0", 90, 4, true }, { "inc.convblock.3", 32, 90, true }, { "downc0.convblock.0", 64, 32, true },
    { "downc0.convblock.3.convblock.0", 64, 64, true }, { "downc0.convblock.3.convblock.3", 64, 64, true }, { "downc1.convblock.0", 128, 64, true },
    { "downc1.convblock.3.convblock.0", 128, 128, true }, { "downc1.convblock.3.convblock.3", 128, 128, true },
    { "upc2.convblock.0.convblock.0", 128, 128, true }, { "upc2.convblock.0.convblock.3", 128, 128, true }, { "upc2.convblock.1", 256, 128, false },
    { "upc1.convblock.0.convblock.0", 64, 64, true }, { "upc1.convblock.0.convblock.3", 64, 64, true }, { "upc1.convblock.1", 128, 64, false },
    { "outc.convblock.0", 32, 32, true }, { "outc.convblock.3", 3, 32, false },
};
enum { BLOCKS = sizeof blocks / sizeof *blocks, TENSORS = 2 * BLOCKS * 6 };

typedef struct Weights { SnlsNamedTensor list[TENSORS]; char names[TENSORS][NN_NAME]; int count; int64_t trained; } Weights;

/* One tensor more, every number low + high * [0,1). */
static void add_tensor(Weights *w, Rng *rng, const char *name, int32_t ndim, const int64_t *shape, double low, double high)
{
    SnlsTensor t = snls_tensor(NULL, SNLS_F32, ndim, shape);
    t.data = check_alloc(snls_tensor_elements(&t), sizeof(float));
    for (int64_t i = 0; i < snls_tensor_elements(&t); i++) snls_store(&t, i, rng_real(rng, low, high));
    snprintf(w->names[w->count], sizeof w->names[0], "%s", name);
    w->list[w->count] = (SnlsNamedTensor){ w->names[w->count], t };
    w->count++;
    if (!strstr(name, "running") && !strstr(name, "tracked")) w->trained += snls_tensor_elements(&t);
}

/* last: size of the weights of the last layer; 0: the network changes nothing */
static Weights *fastdvdnet_weights(double last)
{
    Weights *w = check_alloc(1, sizeof *w);
    Rng rng = { 3 };
    for (int i = 0; i < 2 * BLOCKS; i++) {
        const Block *b = &blocks[i % BLOCKS];
        const NnName conv = snls_nn_name("module.temp%d.%s", i / BLOCKS + 1, b->name);
        const double size = i % BLOCKS == BLOCKS - 1 ? last : 1.5 / sqrt(9.0 * (double)b->in);
        add_tensor(w, &rng, snls_nn_name("%s.weight", conv.text).text, 4, (const int64_t[]){ b->out, b->in, 3, 3 }, -size, size);
        if (!b->norm) continue;
        NnName norm = conv;
        norm.text[strlen(norm.text) - 1]++; /* the batch norm behind convblock.0 is convblock.1 */
        const char *const parts[] = { "weight", "bias", "running_mean", "running_var" };
        for (int k = 0; k < 4; k++)
            add_tensor(w, &rng, snls_nn_name("%s.%s", norm.text, parts[k]).text, 1, &b->out, k == 0 || k == 3 ? 0.5 : -0.1, k == 0 || k == 3 ? 1.5 : 0.1);
        add_tensor(w, &rng, snls_nn_name("%s.num_batches_tracked", norm.text).text, 0, NULL, 0, 1);
    }
    return w;
}

static void check_parameters(int64_t want)
{
    SnlsModel *model = NULL;
    SnlsModelInfo info = { .parameters = -1 };
    CHECK(snls_model_open(&model, cpu, path, NULL) >= 0 && snls_model_info(model, &info) >= 0, "%s", snls_error(cpu));
    CHECK(info.parameters == want && info.radius == 2, "%lld parameters with batch norm folded in, and radius %d", (long long)info.parameters, (int)info.radius);
    snls_model_close(&model);
}

static void fastdvdnet(void)
{
    static const char *metadata[] = { "architecture", "fastdvdnet" };
    for (int changes = 0; changes < 2; changes++) {
        Weights *w = fastdvdnet_weights(changes ? 0.05 : 0);
        CHECK(w->trained == 2479096, "FastDVDnet's file has %lld numbers that are trained, the published one 2479096", (long long)w->trained);
        CHECK(snls_safetensors_write(cpu, path, &(SnlsSafetensors){ w->list, w->count, metadata, 1, NULL }) >= 0, "%s", snls_error(cpu));
        check_parameters(w->trained);
        SnlsTensor clip = random_clip(3, 18, 21, 5), out = run_on(cpu, &clip, 0, 3, SNLS_F32);
        float *x = clip.data;
        for (int64_t i = 0; i < snls_tensor_elements(&clip); i++) x[i] = x[i] < 0 ? 0 : x[i] > 255 ? 255 : x[i];
        const double most = difference(&out, x);
        CHECK(changes ? most > 1 : most < 1e-3, "a last layer of %s changes frames by %g", changes ? "some weight" : "no weight", most);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    snprintf(path, sizeof path, "/tmp/snls_test_model.%d.safetensors", (int)getpid());
    if (snls_open(&ref, &(SnlsContextParams){ .backend = "ref" }) < 0 || snls_open(&cpu, &(SnlsContextParams){ .backend = "cpu", .threads = 1, .allocator = { watch, forget, NULL } }) < 0) return 1;
    check_repeat("%s", argv[0]);
    parameter_counts();
    for (uint64_t seed = 1; seed <= 3; seed++) {
        whole_gradient("STAN", tiny_stan, (const int64_t[]){ 3, 9, 10, 1 }, seed);
        whole_gradient("STAN-S", tiny_stan_s, (const int64_t[]){ 3, 12, 8, 1 }, seed);
    }
    check_net_few_flips();
    check_repeat("%s", argv[0]);
    if (HAVE_FILES) {
        bad_files();
        runs();
        stays_near(ref);
        stays_near(cpu);
        bad_runs();
        bad_params();
        grey_has_one_sigma();
        fusion_begins_as_nothing();
        fastdvdnet();
        stan_runs();
        unlink(path);
    }
    tensors_free();
    snls_close(&ref);
    snls_close(&cpu);
    return check_end();
}
