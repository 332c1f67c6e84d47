/* model.h: what an opened network holds, and the table of architectures. */
#ifndef SNLS_MODEL_PRIVATE_H
#define SNLS_MODEL_PRIVATE_H

#include "base/finite.h"
#include "model/stan.h"
#include "nn/nn.h"
#include "op/geometry.h"
#include <snls/flow.h>
#include <snls/model.h>
#include <snls/safetensors.h>

enum { MODEL_STAGES = 2 };

typedef struct Stage { /* one network with its weights; built anew when the size of the frames changes */
    NnParams params;
    NnNet    net;
    int32_t  in, out;
} Stage;

typedef struct Architecture {
    const char *name;
    int32_t     radius, stages;
    const char *files[MODEL_STAGES]; /* in a folder, one a stage; NULL: one file holds all stages */
    SnlsStatus (*configure)(struct SnlsModel *m, const SnlsSafetensors *file); /* from metadata; NULL: there is nothing to choose */
    /* Adds a stage's network: frames n of h x w. */
    void (*build)(struct SnlsModel *m, Stage *s, int stage, int64_t n, int64_t h, int64_t w);
    /* Puts the tensors of a file into the stage's parameters; NULL: names are those of the parameters. *used: how many served. */
    SnlsStatus (*load)(struct SnlsModel *m, Stage *s, int stage, const SnlsSafetensors *file, int64_t *used);
    SnlsStatus (*run)(struct SnlsModel *m, const SnlsModelRun *run);
    /* Bytes that a run on a window of this many frames takes, -1: an error. */
    int64_t (*memory)(struct SnlsModel *m, int64_t frames, int64_t h, int64_t w);
    /* Frames on either side that a frame's result depends on, NULL: radius. */
    int64_t (*far)(const struct SnlsModel *m);
    /* How many of them windows have, NULL: radius. */
    int64_t (*reach)(const struct SnlsModel *m);
    int32_t     chunk;      /* frames that a stream gives to one run, besides the radius on either side */
    int32_t     side;       /* of frames, at most; 0: as for all */
    int64_t     parameters; /* what it must have; 0: that depends on its configuration */
} Architecture;
enum { MODEL_FLOW_SIDE = 32767 }; /* optical flow takes no more */
extern const Architecture snls_dvdnet, snls_fastdvdnet, snls_stan, snls_stan_s;

struct SnlsModel {
    SnlsContext        *ctx;
    SnlsContext        *here; /* a context of this processor, for flow: ctx itself, or one of the model's own */
    const Architecture *architecture;
    SnlsModelParams     params;
    int32_t             dtype;
    char                path[208]; /* as it was given, where it is not too long: what goes wrong later goes wrong with these weights */
    int64_t             folded;    /* parameters that training found and that are folded into others */
    StanSConfig         stan_s; /* from the file's metadata */
    Stage               stage[MODEL_STAGES];
    float              *scratch; /* frames of an architecture's own; kept between runs */
    int64_t             scratch_count;
    struct StanSStream *stream; /* of STAN-S's runs on this processor, kept between them */
    int64_t             stream_size[2];
    bool                short_windows; /* there was no memory for windows that hold all that a frame depends on */
};

int64_t snls_model_reach(const SnlsModel *m);
/* Frames of a size that networks take; status and a sentence of who where they are not. */
SnlsStatus snls_model_size_check(const SnlsModel *m, const char *who, SnlsStatus status, int64_t height, int64_t width);

/* Are n results finite? They are not where weights are too large. */
SnlsStatus snls_model_check(const SnlsModel *m, const float *out, int64_t n);

/* The stage's network for this size, built where it is not there yet. */
SnlsStatus snls_model_stage(SnlsModel *m, int stage, int64_t n, int64_t h, int64_t w);

/* Bytes that it takes for values, and libraries beneath for themselves, without making it; -1: an error. *room becomes what a run takes of the context's scratch, where that is more; stages share it. */
int64_t snls_model_stage_bytes(SnlsModel *m, int stage, int64_t n, int64_t h, int64_t w, int64_t *room);

/* Rows a band brings where a row of the largest value takes so many bytes: as many as a cache holds, or as the model was told. */
int64_t snls_model_band(const SnlsModel *m, int64_t row_bytes);

/* Inputs of a stage (values in, in+1, ...) and its output as this processor sees them; a run of the stage sends and fetches them. */
SnlsStatus snls_model_views(Stage *s, int inputs, SnlsTensor *in, SnlsTensor *out);
SnlsStatus snls_model_forward(Stage *s, int inputs);

/* Stages first to last come from this file, and use all of it. */
SnlsStatus snls_model_load(SnlsModel *m, int first, int last, const SnlsSafetensors *file);

/* Tensors get our names and shapes where they have the authors'. *names: memory that the file then needs; to be freed after it, also on failure. */
SnlsStatus snls_model_adopt(SnlsModel *m, SnlsSafetensors *file, char **names);

/* The architecture whose tensors are in a file that does not name one; NULL: none that is known. */
const Architecture *snls_model_guess(const SnlsSafetensors *file);

/* A whole number from a file's metadata: fallback where there is none. */
SnlsStatus snls_model_setting(SnlsModel *m, const SnlsSafetensors *file, const char *key, int64_t low, int64_t high, int64_t *value);

/* Room for count floats in m->scratch. */
SnlsStatus snls_model_scratch(SnlsModel *m, int64_t count);

/* Copies tensor name of a file to a parameter: shapes must agree. */
SnlsStatus snls_model_copy(SnlsModel *m, const SnlsSafetensors *file, const char *name, const NnParams *params, const char *parameter);

/* Weights of a convolution without bias and the batch norm behind it (norm NULL: none) become weights and bias of one convolution.
 * Adds the number of tensors it used to *used. */
SnlsStatus snls_model_fold(SnlsModel *m, const SnlsSafetensors *file, const char *conv, const char *norm, const NnParams *params, int64_t *used);

int64_t snls_model_clamp_frame(int64_t t, int64_t count);          /* the end frames are repeated */
void    snls_model_round(float *to, const float *from, int64_t n); /* clamped to 0..1, in steps of 1/255 */
void    snls_model_unit(float *x, int64_t n);                      /* clamped to 0..1 */

#endif
