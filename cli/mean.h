/* mean.h: the mean of numbers that not all of a clip's frames or a folder's clips have, and the mean of numbers of which there may be more than was said. */
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

/* Each is divided before it is added, by how many there are said to be: a long sum stays small. Where there were others, the sum is put right. */
typedef struct Share { double sum; int64_t said; } Share;

static inline Share share_begin(int64_t said) { return (Share){ 0, said > 0 ? said : 1 }; }
static inline void share_add(Share *s, double value) { s->sum += value / (double)s->said; }
static inline double share_of(const Share *s, int64_t count) { return count == s->said ? s->sum : s->sum * ((double)s->said / (double)count); }

#endif
