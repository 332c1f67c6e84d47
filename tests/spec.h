/* spec.h: what the test_spec programs share: plain tensors, and every fact checked on every backend and level. */
#ifndef SPEC_H
#define SPEC_H

#include "case.h"
#include <snls/snls.h>

/* Contiguous, every element 0. SHAPE(1, 2, 3) makes the shape and its rank. */
SnlsTensor spec_tensor(int32_t dtype, int32_t ndim, const int64_t *shape);
#define SHAPE(...) (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}

void spec_random(const SnlsTensor *t, Rng *rng);            /* reals in -2..2 */
void spec_small_integers(const SnlsTensor *t, Rng *rng);    /* -3..3: sums are exact, ties are many */
int64_t spec_at(const SnlsTensor *t, const int64_t *index); /* element number of an index */
#define AT(t, ...) spec_at(t, (const int64_t[]){__VA_ARGS__})

/* A search whose outputs fit its parameters; the caller fills the videos. */
SnlsSearch spec_search(const SnlsSearchParams *p, int64_t B, int64_t T, int64_t H, int64_t W, int64_t C);
void spec_outputs(SnlsSearch *s, bool all); /* makes dist, offset and index */
void spec_flow(SnlsSearch *s, int64_t S);   /* makes a zero flow (B,T,S,nH,nW,2) */
bool spec_run(SnlsContext *ctx, const SnlsSearch *s, bool all);
bool same_bits(const SnlsTensor *a, const SnlsTensor *b); /* equal values everywhere */

/* Runs a fact on ref and on cpu at every level; name goes to the repeat line. */
typedef struct Fact { const char *name; void (*check)(SnlsContext *ctx); } Fact;
void spec_run_facts(const char *program, const Fact *facts, int count, int argc, char **argv);
const char *spec_where(SnlsContext *ctx); /* "cpu avx2" */

#endif
