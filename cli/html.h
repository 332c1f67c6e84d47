/* html.h: the report of `snls denoise`: one file without anything outside it. */
#ifndef SNLS_CLI_HTML_H
#define SNLS_CLI_HTML_H

#include "cli.h"
#include <stdio.h>

enum { HTML_FRAMES = 6 };

typedef struct HtmlFrame {
    int64_t number;
    double time;
    char *before, *after, *residual, *flow; /* PNG in base64; flow may be NULL */
} HtmlFrame;

typedef struct Html {
    SnlsContext *ctx;
    const char *scratch;             /* a file for a picture on its way to base64 */
    FILE *own;                       /* scratch where none was given; it has no name */
    char own_name[32];               /* by which it can be opened all the same */
    int64_t height, width, channels; /* of frames */
    int64_t total;                   /* frames expected; -1: not known */
    int64_t step;                    /* every step-th frame is kept; doubled when there are too many */
    HtmlFrame frame[HTML_FRAMES];
    int count;
} Html;

/* scratch: a file that the report may fill meanwhile, kept and not copied; NULL: it needs another. */
int html_begin(Html *h, SnlsContext *ctx, const char *scratch, int64_t height, int64_t width, int64_t channels,
                int64_t total);
bool html_wants(const Html *h, int64_t number);
int html_add(Html *h, const SnlsPipelineFrame *frame);
/* settings: an object of texts and numbers; psnr, ssim, psnr_before: of every frame, or empty. */
int html_write(const Html *h, const char *path, const char *title, json_t *settings, json_t *psnr_before, json_t *psnr,
               json_t *ssim);
void html_free(Html *h);

#endif
