/* mean.h: the mean of numbers that not all of a clip's frames or a folder's clips have. */
#ifndef SNLS_CLI_MEAN_H
#define SNLS_CLI_MEAN_H

#include <math.h>
#include <stdint.h>

typedef struct Mean { double sum; int64_t count; } Mean;

/* What is not finite is left out. */
static inline void mean_add(Mean *m, double value)
{
    if (isfinite(value)) m->sum += value, m->count++;
}

static inline double mean_of(const Mean *m, double none) { return m->count ? m->sum / (double)m->count : none; }

#endif
