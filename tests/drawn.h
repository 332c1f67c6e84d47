/* drawn.h: networks of random weights, as tests run them that need no file of weights, and clips for them. */
#ifndef DRAWN_H
#define DRAWN_H

#include "check.h"
#include "model/model.h"

enum { DRAWN_SIGMA = 255 }; /* what they are told: with the most that is taken STAN-S holds few of its numbers back, and nearly all of them are compared */

SnlsModel make_model(SnlsContext *ctx, const Architecture *a, int32_t dtype, const StanSConfig *c); /* as snls_model_open would make it */
void      free_model(SnlsModel *m);
float    *draw_clip(int64_t floats, uint64_t seed); /* -20 to 275; lives until tensors_free */

#endif
