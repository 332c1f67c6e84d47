/* snls.h: Shifted Non-Local Search. Includes every other public header.
 *
 * For every pixel of a video, look in neighbouring frames around the place where a predicted motion says it went,
 * search a small sub-pixel grid there, keep the best matches, and aggregate them.
 *
 *   SnlsContext *ctx;
 *   if (snls_open(&ctx, NULL) < 0) return 1;
 *   SnlsSearch s = { .query = video, .key = video, .flow = flow };   // views of your memory, (B,T,H,W,C)
 *   snls_search_defaults(&s.params);
 *   s.params.wt = 1;  s.params.k = 10;
 *   snls_search_shape(ctx, &s);                                      // fills in the shapes of the outputs
 *   s.dist.data = my_dist;  s.offset.data = my_offset;
 *   if (snls_search_forward(ctx, &s) < 0) puts(snls_error(ctx));
 *   snls_close(&ctx);
 */
#ifndef SNLS_SNLS_H
#define SNLS_SNLS_H

#include <snls/types.h>
#include <snls/context.h>
#include <snls/options.h>
#include <snls/ops.h>
#include <snls/flow.h>
#include <snls/denoise.h>
#include <snls/metrics.h>
#include <snls/io.h>
#include <snls/video.h>
#include <snls/safetensors.h>
#include <snls/model.h>
#include <snls/pipeline.h>
#include <snls/train.h>

#endif
