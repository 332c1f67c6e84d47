/* cuts.h: scene cuts, from a small picture of each frame and its histogram. */
#ifndef SNLS_PIPELINE_CUTS_H
#define SNLS_PIPELINE_CUTS_H

#include <stdbool.h>
#include <stdint.h>

enum { SNLS_CUT_ROWS = 24, SNLS_CUT_COLUMNS = 32, SNLS_CUT_CELL = 8, SNLS_CUT_BINS = 24, SNLS_CUT_HISTORY = 8 };

typedef struct SnlsSmall { /* means over cells, of each channel */
    int rows, columns;     /* of cells; fewer where they would be smaller than 8 pixels */
    float cell[SNLS_CUT_ROWS * SNLS_CUT_COLUMNS][3], low, high; /* the least and the most of them */
} SnlsSmall;

typedef struct SnlsCuts { /* zeroed to begin */
    SnlsSmall last;
    float recent[SNLS_CUT_HISTORY]; /* differences between the last frames of this scene */
    int64_t frames;                 /* of this scene */
} SnlsCuts;

/* pixels (H,W,C), 0..255, in the order of the clip. True: this frame begins a new scene; never for the first. */
bool snls_cuts_next(SnlsCuts *cuts, const float *pixels, int64_t height, int64_t width, int32_t channels);

#endif
