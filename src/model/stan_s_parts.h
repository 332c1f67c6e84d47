/* stan_s_parts.h: the parts of STAN-S (snls_stan_s_part) run over whole frames, band by band, on this processor. */
#ifndef SNLS_STAN_S_PARTS_H
#define SNLS_STAN_S_PARTS_H

#include "model/bands.h"
#include "model/model.h"

/* Up to so many threads each take whole bands, with networks of their own; more would have too few bands and too much memory, and share each band instead.
 * Whole bands need no waiting for each other between layers, stay in one core's cache, and let a core that is disturbed take fewer. */
enum { STAN_S_WORKERS = 4 };

typedef struct Plane { char *data; int64_t h, w, c; } Plane; /* a frame's values, elements of the model's type */

/* Where an input's rows come from: features times gates, plus x where there is one (no gates: features alone); or what `fill` writes.
 * store: keeps the rows that come out. */
typedef struct Source Source;
typedef void Fill(const SnlsContext *ctx, const Source *src, int64_t from, int64_t rows, const SnlsTensor *to);
struct Source {
    const Plane *features, *x, *store;
    const float *gates;
    Fill        *fill;
    const void  *filler; /* with frame and level: for fill */
    int64_t      frame, level;
};

typedef struct StanSNet { NnNet net; StanSPart is; Bands bands; } StanSNet;

typedef struct StanSWorker { SnlsContext ctx; StanSNet *nets; SnlsStatus status; } StanSWorker; /* nets: one of each kind, and behind them those that every block has its own of */

typedef struct StanSParts {
    SnlsModel  *m;
    StanSConfig c;
    int64_t     H, W; /* of a frame */
    StanSWorker workers[STAN_S_WORKERS];
    int32_t     worker_count;
    StanSNet   *nets;       /* of all workers */
    int64_t     most_bands; /* of any part */
    double     *sums;       /* of the channels of each band: (most_bands, 4 * width), the caller's memory */
} StanSParts;

SnlsStatus snls_stan_s_parts_begin(StanSParts *parts, SnlsModel *m, int64_t H, int64_t W); /* no memory for values yet */
int64_t    snls_stan_s_parts_bytes(StanSParts *parts); /* of values, scratch, more than one copy of the weights, and what libraries keep; -1: a size that cannot be */
SnlsStatus snls_stan_s_parts_commit(StanSParts *parts);
void       snls_stan_s_parts_free(StanSParts *parts);

SnlsStatus snls_stan_s_run(StanSParts *parts, StanSPartKind kind, int64_t number, const Source *src, const Plane *out);
/* A block's features, and the gates that go with them; name: of its parameters. */
SnlsStatus snls_stan_s_run_block(StanSParts *parts, StanSPartKind kind, int64_t number, const Source *src, const Plane *out, const char *name, float *gates);

#endif
