/* model.c: networks from files: opening, the size of frames, running. What a network computes is in its own file. */
#define _POSIX_C_SOURCE 200809L
#include "model/stan_s_stream.h"
#include "base/network.h"
#include "base/options.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const Architecture *const architectures[] = { &snls_dvdnet, &snls_fastdvdnet, &snls_stan, &snls_stan_s };
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

void snls_model_defaults(SnlsModelParams *params)
{
    if (params) *params = (SnlsModelParams){ .dtype = -1, .flow = SNLS_FLOW_DIS };
}

int64_t snls_model_clamp_frame(int64_t t, int64_t count) { return t < 0 ? 0 : t >= count ? count - 1 : t; }

void snls_model_round(float *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = nearbyintf((from[i] < 0 ? 0 : from[i] > 1 ? 1 : from[i]) * 255) / 255;
}

void snls_model_unit(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = x[i] < 0 ? 0 : x[i] > 1 ? 1 : x[i];
}

SnlsStatus snls_model_scratch(SnlsModel *m, int64_t count)
{
    if (count <= m->scratch_count) return SNLS_OK;
    snls_mem_free(&m->ctx->allocator, m->scratch);
    m->scratch = snls_mem_alloc(&m->ctx->allocator, count * (int64_t)sizeof(float));
    m->scratch_count = m->scratch ? count : 0;
    SNLS_REQUIRE(m->ctx, m->scratch, SNLS_ERR_MEMORY, "model: no memory for %lld numbers", (long long)count);
    return SNLS_OK;
}

int64_t snls_model_reach(const SnlsModel *m) { return m->architecture->reach ? m->architecture->reach(m) : m->architecture->radius; }

SnlsStatus snls_model_check(const SnlsModel *m, const float *out, int64_t n)
{
    SNLS_REQUIRE(m->ctx, snls_all_finite(out, n), SNLS_ERR_FORMAT, "%s: the network makes values that are not finite, its weights are too large", m->path);
    return SNLS_OK;
}

/* ---- networks ---- */

SnlsStatus snls_model_stage(SnlsModel *m, int stage, int64_t n, int64_t h, int64_t w)
{
    Stage *s = &m->stage[stage];
    if (s->net.ctx) {
        const SnlsTensor *t = &s->net.values[s->in].t;
        if (t->shape[0] == n && t->shape[1] == h && t->shape[2] == w) return SNLS_OK;
    }
    snls_nn_free(&s->net);
    snls_nn_begin(&s->net, m->ctx, &s->params, m->dtype, false);
    m->architecture->build(m, s, stage, n, h, w);
    snls_nn_keep(&s->net, s->out);
    if (!s->params.value && s->net.status >= 0) s->net.status = snls_nn_params_allocate(m->ctx, &s->params, false);
    const SnlsStatus status = snls_nn_commit(&s->net);
    if (status < 0) snls_nn_free(&s->net);
    return status;
}

int64_t snls_model_stage_bytes(SnlsModel *m, int stage, int64_t n, int64_t h, int64_t w, int64_t *room)
{
    Stage s = { .params = m->stage[stage].params }; /* all of its parameters are there: none is added */
    snls_nn_begin(&s.net, m->ctx, &s.params, m->dtype, false);
    m->architecture->build(m, &s, stage, n, h, w);
    snls_nn_keep(&s.net, s.out);
    const int64_t values = snls_nn_bytes(&s.net), scratch = snls_nn_room(&s.net), bytes = values < 0 ? -1 : values + snls_nn_own(&s.net);
    if (scratch > *room) *room = scratch;
    snls_nn_free(&s.net);
    return snls_device_type(m->ctx) == SNLS_DEVICE_CPU || bytes < 0 ? bytes : 0; /* a GPU's memory is its own */
}

int64_t snls_model_band(const SnlsModel *m, int64_t row_bytes)
{
    enum { CACHE = 4 << 20, LEAST = 32 }; /* fewer rows would be mostly neighbours */
    if (m->params.rows) return m->params.rows;
    return CACHE / row_bytes < LEAST ? LEAST : CACHE / row_bytes;
}

SnlsStatus snls_model_views(Stage *s, int inputs, SnlsTensor *in, SnlsTensor *out)
{
    for (int i = 0; i < inputs; i++) SNLS_TRY(snls_nn_host(&s->net, s->in + i, &in[i]));
    return snls_nn_host(&s->net, s->out, out);
}

SnlsStatus snls_model_forward(Stage *s, int inputs)
{
    for (int i = 0; i < inputs; i++) SNLS_TRY(snls_nn_send(&s->net, s->in + i));
    SNLS_TRY(snls_nn_forward(&s->net));
    return snls_nn_fetch(&s->net, s->out);
}

/* ---- opening ---- */

static const Architecture *architecture_called(const char *name)
{
    for (int i = 0; i < ARCHITECTURES; i++)
        if (name && !strcmp(architectures[i]->name, name)) return architectures[i];
    return NULL;
}

static const Architecture *architecture_of(const SnlsSafetensors *file)
{
    const char *name = snls_safetensors_metadata(file, "architecture");
    return name ? architecture_called(name) : snls_model_guess(file);
}

const char *snls_model_architecture(const SnlsSafetensors *file)
{
    const Architecture *a = file ? architecture_of(file) : NULL;
    return a ? a->name : NULL;
}

static SnlsStatus load_file(SnlsModel *m, int first, int last, SnlsSafetensors *file)
{
    char *names;
    SnlsStatus status = snls_model_adopt(m, file, &names);
    if (status >= 0) status = snls_model_load(m, first, last, file);
    snls_mem_free(&m->ctx->allocator, names);
    return status;
}

/* What is wrong is wrong with this file. */
static SnlsStatus blame(SnlsModel *m, const char *path, SnlsStatus status)
{
    char why[512];
    snprintf(why, sizeof why, "%s", snls_error(m->ctx));
    return snls_fail(m->ctx, status, "%.200s: %s", path, strncmp(why, "model: ", 7) ? why : why + 7);
}

static SnlsStatus open_file(SnlsModel *m, const char *path)
{
    SnlsSafetensors file;
    SNLS_TRY(snls_safetensors_read(m->ctx, path, &file));
    const char *name = snls_safetensors_metadata(&file, "architecture");
    m->architecture = architecture_of(&file);
    SnlsStatus status = SNLS_OK;
    if (!m->architecture && name)
        status = snls_fail(m->ctx, SNLS_ERR_UNSUPPORTED, "model: the architecture in the file's metadata is %.32s, must be dvdnet, fastdvdnet, stan or stan-s", name);
    else if (!m->architecture)
        status = snls_fail(m->ctx, SNLS_ERR_UNSUPPORTED, "model: the file's metadata name no architecture, and the tensors' names are not those of dvdnet, fastdvdnet or stan");
    else if (m->architecture->files[0])
        status = snls_fail(m->ctx, SNLS_ERR_UNSUPPORTED, "model: %s has several files, give their folder", m->architecture->name);
    if (status >= 0) status = load_file(m, 0, m->architecture->stages - 1, &file);
    snls_safetensors_free(m->ctx, &file);
    return status < 0 ? blame(m, path, status) : SNLS_OK;
}

/* A folder holds the files of dvdnet, the only architecture that has several. */
static SnlsStatus open_folder(SnlsModel *m, const char *folder)
{
    m->architecture = &snls_dvdnet;
    for (int i = 0; i < m->architecture->stages; i++) {
        char path[4096];
        SnlsSafetensors file;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, m->architecture->files[i]);
        SNLS_REQUIRE(m->ctx, length > 0 && (size_t)length < sizeof path, SNLS_ERR_ARG, "model: the folder's name is too long");
        SNLS_TRY(snls_safetensors_read(m->ctx, path, &file));
        const SnlsStatus status = load_file(m, i, i, &file);
        snls_safetensors_free(m->ctx, &file);
        if (status < 0) return blame(m, path, status);
    }
    return SNLS_OK;
}

static int32_t choose_dtype(const SnlsModel *m)
{
    if (!strcmp(snls_backend_name(m->ctx), "ref")) return SNLS_F32;
    if (m->params.dtype >= 0) return m->params.dtype;
    if (snls_device_type(m->ctx) != SNLS_DEVICE_CPU) return SNLS_BF16;
#ifdef SNLS_HAVE_DNNL
    return snls_cpu_level(m->ctx) >= SNLS_CPU_AMX ? SNLS_BF16 : SNLS_F32; /* elsewhere bf16 works, and is no faster */
#else
    return SNLS_F32;
#endif
}

static bool is_folder(const char *path)
{
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

static SnlsStatus check_params(SnlsContext *ctx, const SnlsModelParams *p)
{
    SNLS_REQUIRE(ctx, p->dtype == -1 || p->dtype == SNLS_F32 || p->dtype == SNLS_BF16, SNLS_ERR_ARG, "model_open: dtype is %d, must be %d (f32), %d (bf16) or -1", (int)p->dtype, SNLS_F32, SNLS_BF16);
    SNLS_REQUIRE(ctx, p->flow >= SNLS_FLOW_FARNEBACK && p->flow <= SNLS_FLOW_DIS, SNLS_ERR_ARG, "model_open: flow is %d, must be %d to %d", (int)p->flow, SNLS_FLOW_FARNEBACK, SNLS_FLOW_DIS);
    SNLS_REQUIRE(ctx, p->rows >= 0, SNLS_ERR_ARG, "model_open: rows is %d, must not be negative", (int)p->rows);
    return snls_reserved_check(ctx, "model_open", "snls_model_defaults", p->reserved, sizeof p->reserved / sizeof *p->reserved);
}

static SnlsStatus open_model(SnlsModel *m, const char *path)
{
    SNLS_TRY(check_params(m->ctx, &m->params));
    m->dtype = choose_dtype(m);
    m->here = m->ctx;
    if (snls_device_type(m->ctx) != SNLS_DEVICE_CPU) {
        m->here = NULL;
        const SnlsStatus status = snls_open(&m->here, &(SnlsContextParams){ .backend = "cpu", .threads = m->ctx->threads, .allocator = m->ctx->allocator });
        SNLS_REQUIRE(m->ctx, status >= 0, status, "model: no context for this processor");
    }
    SNLS_TRY(is_folder(path) ? open_folder(m, path) : open_file(m, path));
    SnlsModelInfo info;
    snls_model_info(m, &info);
    SNLS_REQUIRE(m->ctx, !m->architecture->parameters || m->architecture->parameters == info.parameters, SNLS_ERR_FORMAT,
                 "model: %s has %lld parameters, must have %lld", m->architecture->name, (long long)info.parameters, (long long)m->architecture->parameters);
    return SNLS_OK;
}

SnlsStatus snls_model_open(SnlsModel **out, SnlsContext *ctx, const char *path, const SnlsModelParams *params)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, out, SNLS_ERR_ARG, "model_open: out is NULL");
    *out = NULL;
    SNLS_REQUIRE(ctx, path, SNLS_ERR_ARG, "model_open: path is NULL");
    SnlsModel *m = snls_mem_alloc(&ctx->allocator, sizeof *m);
    SNLS_REQUIRE(ctx, m, SNLS_ERR_MEMORY, "model: no memory");
    *m = (SnlsModel){ .ctx = ctx };
    snprintf(m->path, sizeof m->path, "%.200s", path);
    snls_model_defaults(&m->params);
    if (params) m->params = *params;
    const SnlsStatus status = open_model(m, path);
    if (status < 0) snls_model_close(&m);
    *out = m;
    return status;
}

const SnlsContext *snls_model_context(const SnlsModel *m) { return m->ctx; }

void snls_model_close(SnlsModel **model)
{
    if (!model || !*model) return;
    SnlsModel *m = *model;
    for (int i = 0; i < MODEL_STAGES; i++) {
        snls_nn_free(&m->stage[i].net);
        snls_nn_params_free(m->ctx, &m->stage[i].params);
    }
    snls_stan_s_stream_close(&m->stream);
    if (m->here != m->ctx) snls_close(&m->here);
    snls_mem_free(&m->ctx->allocator, m->scratch);
    snls_mem_free(&m->ctx->allocator, m);
    *model = NULL;
}

SnlsStatus snls_model_info(const SnlsModel *m, SnlsModelInfo *info)
{
    if (!m) return SNLS_ERR_ARG;
    SNLS_REQUIRE(m->ctx, info, SNLS_ERR_ARG, "model_info: info is NULL");
    *info = (SnlsModelInfo){ .radius = (int32_t)(m->architecture->far ? m->architecture->far(m) : m->architecture->radius), .dtype = m->dtype, .parameters = m->folded };
    snprintf(info->architecture, sizeof info->architecture, "%s", m->architecture->name);
    for (int i = 0; i < m->architecture->stages; i++) info->parameters += m->stage[i].params.total;
    return SNLS_OK;
}

/* ---- running ---- */

SnlsStatus snls_model_size_check(const SnlsModel *m, const char *who, SnlsStatus status, int64_t height, int64_t width)
{
    SnlsContext *ctx = m->ctx;
    const Architecture *a = m->architecture;
    enum { SIDE_MOST = 1 << 20 };
    const int64_t most = (int64_t)1 << 29; /* as for the denoiser and for flow, which networks work beside */
    SNLS_REQUIRE(ctx, height >= 1 && width >= 1 && height <= SIDE_MOST && width <= SIDE_MOST && height * width <= most, status,
                 "%s: frames are %lld x %lld pixels, must be 1 to %d each way and at most 2^29 in all", who, (long long)width, (long long)height, SIDE_MOST);
    SNLS_REQUIRE(ctx, !a->side || (height <= a->side && width <= a->side), SNLS_ERR_SHAPE, "%s: frames are %lld x %lld pixels, must be 1 to %d each way with %s, which follows the motion",
                 who, (long long)width, (long long)height, (int)a->side, a->name);
    return SNLS_OK;
}

static SnlsStatus check_frames(const SnlsModel *m, const char *name, const SnlsTensor *t, int64_t count, const SnlsTensor *like)
{
    SnlsContext *ctx = m->ctx;
    SNLS_REQUIRE(ctx, t->data && t->ndim == 4 && t->dtype == SNLS_F32 && t->shape[3] == 3 && t->shape[0] >= 1 && t->shape[1] >= 1 && t->shape[2] >= 1, SNLS_ERR_SHAPE,
                 "model: %s must be (T,H,W,3), f32", name);
    SNLS_REQUIRE(ctx, t->device == SNLS_DEVICE_CPU, SNLS_ERR_SHAPE, "model: %s is not in CPU memory", name);
    SNLS_TRY(snls_model_size_check(m, "model", SNLS_ERR_SHAPE, t->shape[1], t->shape[2]));
    SNLS_REQUIRE(ctx, snls_tensor_is_contiguous(t), SNLS_ERR_SHAPE, "model: %s must be contiguous", name);
    SNLS_REQUIRE(ctx, snls_tensor_is_aligned(t), SNLS_ERR_ARG, "model: %s is not aligned to its elements", name);
    SNLS_REQUIRE(ctx, t->shape[0] == count && t->shape[1] == like->shape[1] && t->shape[2] == like->shape[2], SNLS_ERR_SHAPE, "model: %s has another size than frames", name);
    return SNLS_OK;
}

SnlsStatus snls_model_run(SnlsModel *m, const SnlsModelRun *run)
{
    if (!m) return SNLS_ERR_ARG;
    SNLS_REQUIRE(m->ctx, run, SNLS_ERR_ARG, "model_run: run is NULL");
    SNLS_TRY(check_frames(m, "frames", &run->frames, run->frames.shape[0], &run->frames));
    SNLS_REQUIRE(m->ctx, run->first >= 0 && run->count >= 1 && run->count <= run->frames.shape[0] && run->first <= run->frames.shape[0] - run->count, SNLS_ERR_ARG,
                 "model: %lld frames from frame %lld on are wanted of %lld", (long long)run->count, (long long)run->first, (long long)run->frames.shape[0]);
    SNLS_TRY(check_frames(m, "out", &run->out, run->count, &run->frames));
    SNLS_REQUIRE(m->ctx, !snls_tensor_shares(&run->out, &run->frames), SNLS_ERR_ARG, "model: out shares memory with frames, must be apart: a frame is read after others are written");
    SNLS_REQUIRE(m->ctx, run->sigma >= 0 && run->sigma <= 255, SNLS_ERR_ARG, "model: sigma is %g, must be 0 to 255", run->sigma);
    SNLS_REQUIRE(m->ctx, snls_all_finite(run->frames.data, snls_tensor_elements(&run->frames)), SNLS_ERR_ARG, "model: frames hold a value that is not finite");
    SNLS_TRY(m->architecture->run(m, run));
    return snls_model_check(m, run->out.data, snls_tensor_elements(&run->out));
}
