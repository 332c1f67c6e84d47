/* published.c: files of weights under the names that the authors' programs give them become files under ours. Names and shapes only; numbers stay where they are. */
#include "model/model.h"
#include <stdio.h>
#include <string.h>

enum { MOST_TENSORS = 4096, ROOM = SNLS_SAFETENSORS_NAME_MAX + 64 }; /* ROOM: renaming adds a few letters */

/* STAN's layers where theirs are numbers of a list of modules (that of RVRT, under res.main), and where they have another name. */
static const struct { const char *theirs, *ours; } renamed[] = {
    { ".res.main.1.", ".res.main.conv." }, { ".res.main.3.", ".res.main.norm_in." }, { ".res.main.5.", ".res.main.rstb." },
    { ".res.main.7.", ".res.main.norm_out." }, { ".attn.qkv_self.", ".attn.qkv." },
};
enum { RENAMED = sizeof renamed / sizeof *renamed };

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static bool ends(const char *text, const char *with)
{
    const size_t n = strlen(text), m = strlen(with);
    return n >= m && !strcmp(text + n - m, with);
}

/* What a wrapper of the training program puts before every name. */
static const char *without_wrapper(const char *name)
{
    if (begins(name, "net.")) name += 4;
    return begins(name, "module.") ? name + 7 : name;
}

static void rename_stan(const char *name, char *to)
{
    name = without_wrapper(name);
    snprintf(to, ROOM, "%s", ends(name, ".body.1.weight") ? "prelu.weight" : name);
    for (int i = 0; i < RENAMED; i++) {
        const char *at = strstr(to, renamed[i].theirs);
        char rest[ROOM];
        if (!at) continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(renamed[i].theirs));
        snprintf(to + (at - to), (size_t)(ROOM - (at - to)), "%s%s", renamed[i].ours, rest);
    }
}

/* A linear layer is a convolution of one pixel, one of a single frame a plain one, and that of the stack has ranks beside features. */
static void reshape_stan(const char *name, SnlsTensor *t)
{
    int64_t shape[4] = { t->shape[0], t->shape[1], 1, 1 };
    if (!ends(name, ".weight") || (t->ndim != 2 && t->ndim != 5)) return;
    if (t->ndim == 5) shape[1] *= t->shape[2], shape[2] = t->shape[3], shape[3] = t->shape[4];
    *t = snls_tensor(t->data, (SnlsDtype)t->dtype, 4, shape);
}

static bool equal_tensors(const SnlsTensor *a, const SnlsTensor *b)
{
    bool same = a->ndim == b->ndim && a->data && b->data && a->dtype >= 0 && b->dtype >= 0;
    for (int32_t i = 0; same && i < a->ndim; i++) same = a->shape[i] == b->shape[i];
    for (int64_t i = 0; same && i < snls_tensor_elements(a); i++) same = snls_load(a, i) == snls_load(b, i);
    return same;
}

/* The slope that all blocks share is there once for each of them. */
static SnlsStatus adopt_stan(SnlsModel *m, SnlsSafetensors *file, char *names)
{
    const SnlsNamedTensor *slope = NULL;
    int64_t kept = 0;
    for (int64_t i = 0; i < file->count; i++) {
        SnlsNamedTensor t = file->tensors[i];
        if (ends(t.name, ".relative_position_index")) continue; /* follows from the window's size */
        char *name = names + kept * ROOM;
        rename_stan(t.name, name);
        if (!strcmp(name, "prelu.weight") && slope) {
            SNLS_REQUIRE(m->ctx, equal_tensors(&slope->tensor, &t.tensor), SNLS_ERR_FORMAT, "model: %s is another slope than the first, and stan has one", t.name);
            continue;
        }
        t.name = name;
        reshape_stan(name, &t.tensor);
        file->tensors[kept] = t;
        if (!strcmp(name, "prelu.weight")) slope = &file->tensors[kept];
        kept++;
    }
    file->count = kept;
    return SNLS_OK;
}

/* Theirs were trained in a wrapper whose word we keep. */
static void adopt_module(SnlsSafetensors *file, char *names)
{
    for (int64_t i = 0; i < file->count; i++) {
        snprintf(names + i * ROOM, ROOM, "module.%s", without_wrapper(file->tensors[i].name));
        file->tensors[i].name = names + i * ROOM;
    }
}

SnlsStatus snls_model_adopt(SnlsModel *m, SnlsSafetensors *file, char **names)
{
    *names = NULL;
    if (m->architecture == &snls_stan_s || file->count > MOST_TENSORS) return SNLS_OK; /* ours alone; too many for any */
    *names = snls_mem_alloc(&m->ctx->allocator, (file->count + 1) * ROOM);
    SNLS_REQUIRE(m->ctx, *names, SNLS_ERR_MEMORY, "model: no memory for %lld names", (long long)file->count);
    if (m->architecture == &snls_stan) return adopt_stan(m, file, *names);
    adopt_module(file, *names);
    return SNLS_OK;
}

const Architecture *snls_model_guess(const SnlsSafetensors *file)
{
    const struct { const char *name; const Architecture *architecture; } marks[] = {
        { "temp1.inc.convblock.0.weight", &snls_fastdvdnet }, { "input_proj.proj.0.weight", &snls_stan }, { "conv_relu_bn.0.weight", &snls_dvdnet }, { "down_conv.0.weight", &snls_dvdnet },
    };
    for (int64_t i = 0; i < file->count; i++)
        for (size_t k = 0; k < sizeof marks / sizeof *marks; k++)
            if (!strcmp(without_wrapper(file->tensors[i].name), marks[k].name)) return marks[k].architecture;
    return NULL;
}
