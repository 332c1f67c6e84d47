/* compare.h: a clip against the clean one, frame after frame: PSNR, SSIM and ST-RRED, in the memory of two frames of each. */
#ifndef SNLS_CLI_COMPARE_H
#define SNLS_CLI_COMPARE_H

#include "frames.h"

enum { COMPARE_CLEAN, COMPARE_TEST, COMPARE_CLIPS };

typedef struct Compare {
    SnlsContext *ctx;
    SnlsTensor pair[COMPARE_CLIPS];       /* (2,H,W,C): two frames at a time, as ST-RRED takes them */
    int64_t frames;                       /* so far */
    double psnr, ssim;                    /* of the last frame; NaN: there is none */
    double psnr_mean, ssim_mean;          /* sums until compare_end */
    SnlsStrred last, strred;              /* of the last pair; of all, sums until compare_end */
    char no_ssim[512], no_strred[512];    /* why there is none: no meaning for so few or so small frames, no LAPACK. "": there is */
} Compare;

int compare_open(Compare *c, SnlsContext *ctx, const int64_t size[3]);
SnlsTensor compare_room(const Compare *c, int which); /* (H,W,C), f32: where the next frame of a clip is to be put */
int compare_frame(Compare *c);                        /* both are there, as they are to be compared; what fails is an error, but for what no_ssim and no_strred say */
int compare_end(Compare *c);                          /* no more frames: the means */
void compare_close(Compare *c);

#endif
