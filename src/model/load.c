/* load.c: tensors of a file become parameters of a network: names, shapes and numbers are checked, batch norm is folded in. */
#include "model/model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static SnlsStatus find_tensor(SnlsModel *m, const SnlsSafetensors *file, const char *name, const SnlsTensor **t)
{
    *t = snls_safetensors_find(file, name);
    SNLS_REQUIRE(m->ctx, *t, SNLS_ERR_FORMAT, "model: has no tensor %s", name);
    SNLS_REQUIRE(m->ctx, (*t)->data && snls_is_float((*t)->dtype), SNLS_ERR_FORMAT, "model: %s is no tensor of floating-point numbers", name);
    return SNLS_OK;
}

static SnlsStatus require_elements(SnlsModel *m, const char *name, const SnlsTensor *t, const NnParam *p)
{
    bool same = t->ndim == p->ndim;
    for (int32_t i = 0; same && i < p->ndim; i++) same = t->shape[i] == p->shape[i];
    char want[96], got[96];
    snls_shape_text(want, sizeof want, p->shape, p->ndim);
    snls_shape_text(got, sizeof got, t->shape, t->ndim);
    SNLS_REQUIRE(m->ctx, same, SNLS_ERR_FORMAT, "model: %s has shape %s, must be %s", name, got, want);
    return SNLS_OK;
}

/* One that is not would spread over every frame. */
static SnlsStatus require_finite(SnlsModel *m, const char *name, const NnParams *params, const NnParam *p)
{
    const SnlsTensor view = snls_nn_param_view(params, p, params->value);
    for (int64_t i = 0; i < p->count; i++) {
        const double x = snls_load(&view, i);
        SNLS_REQUIRE(m->ctx, isfinite(x), SNLS_ERR_FORMAT, "model: number %lld of %s is %g, must be finite", (long long)i, name, x);
    }
    return SNLS_OK;
}

SnlsStatus snls_model_copy(SnlsModel *m, const SnlsSafetensors *file, const char *name, const NnParams *params, const char *parameter)
{
    const SnlsTensor *t = NULL;
    const NnParam *p = snls_nn_params_find(params, parameter);
    SNLS_TRY(find_tensor(m, file, name, &t));
    SNLS_TRY(require_elements(m, name, t, p));
    const SnlsTensor to = snls_nn_param_view(params, p, params->value);
    for (int64_t i = 0; i < p->count; i++) snls_store(&to, i, snls_load(t, i));
    return require_finite(m, name, params, p);
}

#define NORM_EPS 1e-5

SnlsStatus snls_model_fold(SnlsModel *m, const SnlsSafetensors *file, const char *conv, const char *norm, const NnParams *params, int64_t *used)
{
    static const char *const parts[4] = { "weight", "bias", "running_mean", "running_var" };
    const SnlsTensor *t[4] = { NULL };
    const NnName name = snls_nn_name("%s.weight", conv);
    SNLS_TRY(snls_model_copy(m, file, name.text, params, name.text));
    ++*used;
    const NnParam *w = snls_nn_params_find(params, name.text), *b = snls_nn_params_find(params, snls_nn_name("%s.bias", conv).text);
    if (!norm) return SNLS_OK;
    m->folded += b->count; /* scale and shift have become one bias */
    for (int i = 0; i < 4; i++, ++*used) {
        const NnName part = snls_nn_name("%s.%s", norm, parts[i]);
        SNLS_TRY(find_tensor(m, file, part.text, &t[i]));
        SNLS_TRY(require_elements(m, part.text, t[i], b));
    }
    const SnlsTensor weight = snls_nn_param_view(params, w, params->value), bias = snls_nn_param_view(params, b, params->value);
    for (int64_t i = 0; i < w->count; i++) {
        const int64_t c = i / (w->count / b->count);
        snls_store(&weight, i, snls_load(&weight, i) * snls_load(t[0], c) / sqrt(snls_load(t[3], c) + NORM_EPS));
    }
    for (int64_t c = 0; c < b->count; c++)
        snls_store(&bias, c, snls_load(t[1], c) - snls_load(t[2], c) * snls_load(t[0], c) / sqrt(snls_load(t[3], c) + NORM_EPS));
    SNLS_TRY(require_finite(m, norm, params, w));
    return require_finite(m, norm, params, b);
}

static SnlsStatus load_by_name(SnlsModel *m, const Stage *s, const SnlsSafetensors *file, int64_t *used)
{
    for (int64_t i = 0; i < s->params.count; i++, ++*used) SNLS_TRY(snls_model_copy(m, file, s->params.list[i].name, &s->params, s->params.list[i].name));
    return SNLS_OK;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Counts that batch norm kept while it was trained are no weights. */
static int64_t tensors_that_count(const SnlsModel *m, const SnlsSafetensors *file)
{
    int64_t count = 0;
    for (int64_t i = 0; i < file->count; i++) count += !(m->architecture->load && ends_with(file->tensors[i].name, ".num_batches_tracked"));
    return count;
}

SnlsStatus snls_model_setting(SnlsModel *m, const SnlsSafetensors *file, const char *key, int64_t low, int64_t high, int64_t *value)
{
    const char *text = snls_safetensors_metadata(file, key);
    char *end = NULL;
    if (!text) return SNLS_OK;
    const long long number = strtoll(text, &end, 10);
    SNLS_REQUIRE(m->ctx, *text && !*end && number >= low && number <= high, SNLS_ERR_FORMAT, "model: %s in the file's metadata is %.32s, must be %lld to %lld", key, text,
                 (long long)low, (long long)high);
    *value = number;
    return SNLS_OK;
}

enum { SMALL = 32 }; /* a size at which every architecture can be built: it makes the list of parameters */

/* Names and shapes, before memory is taken for what a few bytes of metadata may ask for. */
static SnlsStatus check_by_name(SnlsModel *m, int stage, const SnlsSafetensors *file)
{
    Stage s = { .params.dtype = SNLS_F32 };
    const SnlsTensor *t;
    snls_nn_begin(&s.net, m->ctx, &s.params, m->dtype, false);
    m->architecture->build(m, &s, stage, 2 * m->architecture->radius + 1, SMALL, SMALL);
    SnlsStatus status = s.net.status;
    for (int64_t i = 0; i < s.params.count && status >= 0; i++) {
        const NnParam *p = &s.params.list[i];
        status = find_tensor(m, file, p->name, &t);
        if (status >= 0) status = require_elements(m, p->name, t, p);
    }
    snls_nn_free(&s.net);
    snls_nn_params_free(m->ctx, &s.params);
    return status;
}

SnlsStatus snls_model_load(SnlsModel *m, int first, int last, const SnlsSafetensors *file)
{
    int64_t used = 0;
    if (m->architecture->configure) SNLS_TRY(m->architecture->configure(m, file));
    for (int i = first; i <= last; i++) {
        Stage *s = &m->stage[i];
        s->params.dtype = SNLS_F32;
        if (!m->architecture->load) SNLS_TRY(check_by_name(m, i, file));
        SNLS_TRY(snls_model_stage(m, i, 2 * m->architecture->radius + 1, SMALL, SMALL));
        SNLS_TRY(m->architecture->load ? m->architecture->load(m, s, i, file, &used) : load_by_name(m, s, file, &used));
        s->params.version++;
        SNLS_TRY(snls_nn_params_send(m->ctx, &s->params));
    }
    SNLS_REQUIRE(m->ctx, used == tensors_that_count(m, file), SNLS_ERR_FORMAT, "model: there are %lld tensors, %s uses %lld",
                 (long long)tensors_that_count(m, file), m->architecture->name, (long long)used);
    return SNLS_OK;
}
