/* demo.h: aligning frame t+1 to frame t, by flow alone and by search. */
#ifndef SNLS_CLI_DEMO_H
#define SNLS_CLI_DEMO_H

#include "cli.h"
#include "synth.h"

typedef struct DemoParams {
    int32_t frames, height, width;
    int32_t ws, ps, k;
    double stride1, disturb, noise;
} DemoParams;

typedef struct Demo {
    DemoParams params;
    Synth scene;
    SnlsContext *ctx;
    SnlsTensor target, source;             /* (P,1,H,W,3): frames t and t+1 of every pair, clean */
    SnlsTensor noisy_target, noisy_source; /* what flow and search would see */
    SnlsTensor flow, exact;                /* (P,1,1,H,W,2): disturbed, true */
    SnlsTensor visible;                    /* (P,1,H,W): 0 where frame t+1 does not show the pixel */
} Demo;

typedef struct DemoResult {
    const char *name, *help;
    SnlsTensor video;     /* (P,1,H,W,3): source moved onto target */
    double psnr, visible; /* against the clean target, mean over frames; the same over visible pixels */
    double seconds;
} DemoResult;

int demo_make(Demo *d); /* allocates and fills the tensors */
void demo_free(Demo *d);

/* Search (flow may have no data: unshifted) with a window of ws, then weights and gather_add of the clean source. */
int demo_align(Demo *d, const SnlsTensor *flow, int32_t ws, int32_t ps, int32_t k, DemoResult *result);
int demo_measure(Demo *d, DemoResult *result);

#endif
