/* bench.h: timing operators against what the machine can do. cases.c: what is timed; ceilings.c: the machine's rates;
 * measure.c: one case; report.c: table and JSON. The command line (cli/cmd_bench.c) parses and says what failed. */
#ifndef SNLS_BENCH_H
#define SNLS_BENCH_H

#include "ops_table.h"
#include <jansson.h>

typedef struct BenchSize {
    int32_t frames, height, width, features;
} BenchSize;

typedef struct BenchCase {
    const char *name; /* "search, half pixel" */
    const char *op;   /* "search" */
    int32_t ws, wt, ps, k;
    double stride1;
    bool flow;
} BenchCase;

extern const BenchCase bench_cases[]; /* ends with a NULL name */

/* The tensors and parameters of one case at one size. */
typedef struct BenchCall {
    const BenchCase *which;
    const BenchOp *op;
    BenchSize size;
    SnlsContext *ctx;
    BenchTensors tensors;
    BenchGrads grads;
} BenchCall;

SnlsStatus bench_call_make(BenchCall *c); /* which, size and ctx given; op, tensors and parameters filled in */
void bench_call_free(BenchCall *c);

/* Work that cannot be avoided: terms of the sums (interpolation of search scores not counted: it can be shared between
 * candidates), and every tensor moved once. */
double bench_flops(const BenchCall *c, bool backward);
double bench_bytes(const BenchCall *c, bool backward);

/* What this machine can do, measured on as many threads. */
double bench_fma_rate(int32_t threads, int32_t cpu_level); /* flops per second, a fused multiply-add counts as two */
double bench_copy_rate(int32_t threads);                   /* bytes read plus bytes written per second */

double bench_rss(void);     /* bytes resident now; 0 where unknown */
void bench_rss_reset(void); /* the peak begins anew, where the system can do that */
double bench_rss_peak(void);

double bench_now(void); /* seconds */

typedef struct BenchSettings {
    SnlsContextParams context;
    BenchSize size, crop; /* crop: what ref is timed on */
    int32_t runs;
    const char *only;                   /* operator, NULL: all */
    void (*progress)(const char *name); /* before each case; NULL at the end */
} BenchSettings;

typedef struct BenchResult {
    const BenchCase *which;
    bool backward;
    double seconds; /* median */
    int runs;
    double flops, bytes;
    double scratch;             /* bytes, most that the context held */
    double rss_peak, rss_above; /* bytes, most that the process held; the same above what it held before */
    double ref_seconds;         /* of ref on the crop, times the ratio of queries; NaN where not measured */
} BenchResult;

enum { BENCH_RESULTS = 64 };

typedef struct BenchReport {
    BenchSettings settings;
    const char *backend;
    int32_t threads, cpu_level;
    double fma_rate, copy_rate;
    BenchResult results[BENCH_RESULTS];
    int count;
    char why[512]; /* what failed */
} BenchReport;

/* One case, forward and backward. A failure leaves its sentence in why (512 bytes). */
SnlsStatus bench_measure(const BenchSettings *settings, const BenchCase *which, BenchResult *results, char *why);

SnlsStatus bench_run(BenchReport *report); /* settings given; SNLS_ERR_ARG where only names no operator */
void bench_print(const BenchReport *report);
void bench_json(const BenchReport *report, json_t *object); /* sets its keys */

#endif
