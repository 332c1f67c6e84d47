/* bench.h: timing operators against what the machine can do.
 *   cases.c     what is timed                         inputs.c    the tensors of a case, and the work it is
 *   ceilings.c  the machine's rates                   machine.c   what the machine is, the memory of this process
 *   device.c    the same on a GPU
 *   measure.c   one case                              plain*      the loops that anybody would write, to compare with
 *   scaling.c   time against size                     targets.c   what has been promised
 *   run.c       all of it in order                    report.c, json.c, svg.c  what came out
 * The command line (cli/cmd_bench.c) parses and says what failed. */
#ifndef SNLS_BENCH_H
#define SNLS_BENCH_H

#include "ops_table.h"
#include <jansson.h>
#include <stdio.h>

/* ---- cases ---- */

typedef enum BenchFlow { BENCH_ZERO, BENCH_SMOOTH, BENCH_RANDOM, BENCH_NO_FLOW } BenchFlow;
typedef enum BenchTier { BENCH_QUICK, BENCH_USUAL, BENCH_DEVICE, BENCH_FULL } BenchTier; /* the shortest run that has the case; device: of a GPU's usual run */

typedef struct BenchCase {
    const char *group; /* "A" to "D", "cpu", "torch": docs/cli.md says which sizes they are */
    const char *op;    /* "search" */
    int32_t frames, height, width, channels;
    int32_t ws, ps, k, stride0, wt, heads;
    double stride1;
    int32_t dist, interp; /* SnlsDist, SnlsInterp */
    BenchFlow flow;
    BenchTier tier;
    char name[80]; /* "A 320x320 F32 ws9 ps1 k3 prod smooth": made of the others by bench_name */
} BenchCase;

typedef struct BenchList {
    BenchCase *items;
    int count, room;
    bool failed; /* out of memory */
} BenchList;

void bench_name(BenchCase *c);
BenchCase bench_search_case(int32_t height, int32_t width, int32_t channels); /* 5 frames, ws 9, wt 1, ps 1, k 3 */
void bench_list(BenchList *list);                                             /* every case there is; free items */
bool bench_is_matching(const BenchCase *c);                                   /* search, search_all, refine */
bool bench_is_aggregation(const BenchCase *c);                                /* gather, gather_add, scatter_add */
bool bench_is_bare(const BenchCase *c); /* forward returns no index, as for a caller who wants no gradients */
double bench_queries(const BenchCase *c);

/* ---- inputs ---- */

/* The tensors and parameters of one case. */
typedef struct BenchCall {
    const BenchCase *which;
    const BenchOp *op;
    SnlsContext *ctx; /* whose memory the tensors are */
    BenchTensors tensors;
    BenchGrads grads;
} BenchCall;

SnlsStatus bench_call_make(BenchCall *c); /* which and ctx given; op, tensors and parameters filled in */
void bench_call_free(BenchCall *c);
SnlsTensor *bench_tensor(BenchCall *c, int slot);
SnlsTensor *bench_grad(BenchCall *c, int slot); /* NULL: has none */

/* Work that the definition asks for. Flops: 2 for a term of a product, 3 for one of a squared difference, of the candidates that
 * lie in the frame, scores at real places not counted as more (their taps can be shared between candidates); backward by the places of the neighbours that
 * were kept, so forward must have run (bench_kept_flops); aggregation 2 for a tap and channel. Bytes: every tensor moved once. */
double bench_flops(const BenchCall *c, bool backward); /* NaN: could not be counted, memory is short */
double bench_bytes(const BenchCall *c, bool backward);
double bench_output_bytes(const BenchCall *c, bool backward); /* of what the caller has to hold for the results */

/* ---- the machine ---- */

enum { BENCH_RUNGS = 5, BENCH_THREAD_COUNTS = 12 };

typedef struct BenchRung { /* of the ladder of memories */
    char name[8];          /* "L2" */
    double capacity;       /* bytes, of all threads' caches together; infinite for memory itself */
    double bytes;          /* that were gone through to measure it */
    double rate;           /* bytes read plus bytes written per second; 0: could not be measured */
} BenchRung;

typedef struct BenchCeilings {
    int32_t threads;
    double fma_rate; /* flops per second, a fused multiply-add counts as two; 0: could not be measured */
    double atomic_rate; /* of a GPU: f32 atomic additions per second */
    BenchRung rungs[BENCH_RUNGS];
    int count;
} BenchCeilings;

typedef struct BenchMachine {
    char model[128];
    const char *compiler;
    int32_t cores;
    double l1, l2, l3, memory; /* bytes */
    bool is_known;             /* cache sizes are the system's, not a guess */
} BenchMachine;

void bench_machine(BenchMachine *m);
void bench_ceilings(const BenchMachine *m, int32_t threads, int32_t cpu_level, bool quick, BenchCeilings *c);
double bench_fma_rate(int32_t threads, int32_t cpu_level, double warm_up, int attempts); /* one: a short one */
const BenchRung *bench_rung(const BenchCeilings *c, double working_set);                 /* the first that holds it, of those that were measured */

double bench_rss(void);     /* bytes resident now; 0 where unknown */
void bench_rss_reset(void); /* the peak begins anew, where the system can do that */
double bench_rss_peak(void);
double bench_now(void); /* seconds */

/* ---- measuring ---- */

typedef struct BenchSettings {
    SnlsContextParams context;
    int32_t height, width, frames, features; /* in place of the cases' own; 0: theirs */
    int32_t runs;
    double limit;       /* seconds, after which a case gets no further runs */
    int32_t target_least, target_runs; /* of what a target compares: at least, at most */
    double target_limit;               /* seconds of one target, after which there are no more than the least */
    double side_budget; /* seconds for the plain loop, and for ref */
    BenchTier tier;
    const char *op, *filter; /* NULL: all */
    bool cases, scaling, targets;
    void (*progress)(const char *name); /* before each case; NULL at the end */
} BenchSettings;

enum { BENCH_RUNS = 64 };

/* One direction of a call on a context of its own, so that the scratch is that direction's. */
typedef struct BenchTimed {
    BenchCall *call;
    bool backward;
    SnlsContext *ctx;
    double seconds, best; /* median, least */
    int runs;
    double times[BENCH_RUNS];   /* sorted in the end */
    double in_turn[BENCH_RUNS]; /* as they were taken, one of each call after the other */
} BenchTimed;

typedef struct BenchEffort {
    int32_t least, most; /* runs of each */
    double limit;        /* seconds of all together, after which there are no more than the least */
    int32_t threads, cpu_level; /* of multiply-add bursts between the runs; 0 threads: none */
} BenchEffort;

/* In turn, so that what disturbs the machine disturbs all of them. fma_rate: the best burst, where there are any. */
SnlsStatus bench_time(BenchTimed *timed, int count, const BenchEffort *effort, double *fma_rate);

/* On a GPU; the context's backend says where. */
bool bench_on_device(const BenchSettings *s);
SnlsStatus bench_call_move(BenchCall *c);                     /* tensors to the device */
SnlsStatus bench_device_time(BenchTimed *timed, int32_t runs);/* into times and runs */
SnlsStatus bench_device_ceilings(SnlsContext *ctx, BenchMachine *m, BenchCeilings *c);

typedef struct BenchResult {
    BenchCase which;
    bool backward, skipped; /* skipped: not enough memory */
    int32_t threads;
    double seconds, best; /* median, least */
    int runs;
    double flops, bytes, output_bytes;
    double working_set;         /* bytes of all tensors */
    double fma_rate;            /* measured beside the runs */
    double scratch;             /* bytes, most that the context held */
    double rss_peak, rss_above; /* bytes, most that the process held; the same above what it held before */
    double plain_seconds, plain_queries, plain_difference; /* scaled to all queries; how many were done; largest
                                                              difference from the library, 1 = the value */
    double ref_seconds, ref_queries;
    bool is_bare; /* no index was returned; what it takes with one: */
    double indexed_seconds, indexed_best, indexed_scratch, indexed_output_bytes;
} BenchResult;

/* Plain loops over queries from the middle of the clip on until the budget is spent. Returns seconds a query, NaN where
 * there is no such loop. queries: how many were done; difference: NaN where not compared. */
double bench_plain(const BenchCall *call, bool backward, double budget, double *queries, double *difference);
double bench_kept_flops(const BenchCall *call); /* of search, search_all, refine backward: what the kept neighbours need; plain.c says how it counts */
double bench_candidates(const BenchCall *call); /* of the same forward: all queries' candidates that lie in the frame */

/* One case, forward and backward. A failure leaves its sentence in why (512 bytes); too large for this machine is none. */
SnlsStatus bench_measure(const BenchSettings *s, int32_t cpu_level, const BenchCase *which, BenchResult *results,
                         char *why);

/* ---- scaling and targets ---- */

enum { BENCH_POINTS = 8 };

typedef struct BenchPoint { /* one direction of a case, on as many threads */
    BenchCase which;
    bool backward, want_plain;
    int32_t threads; /* 0: those of the settings */
    int runs;
    double seconds, best, fma_rate, flops, bytes, working_set, scratch, plain_seconds; /* seconds: median, best: least */
    double in_turn[BENCH_RUNS];
} BenchPoint;

/* All of them in memory together and timed in turn, up to BENCH_POINTS. SNLS_ERR_MEMORY where they do not fit. */
SnlsStatus bench_points(const BenchSettings *s, const BenchEffort *effort, BenchPoint *points, int count, char *why);

typedef struct BenchSeries {
    char name[80];
    const char *axis; /* "pixels" */
    int count;
    double x[BENCH_POINTS];
    BenchPoint points[BENCH_POINTS];
    double slope, slope_median; /* log-log, of the least times and of the medians; NaN: could not be measured */
} BenchSeries;

double bench_slope(const double *x, const double *y, int count);
double bench_median(double *times, int count); /* sorts them; NaN of none */

typedef enum BenchSense { BENCH_AT_LEAST, BENCH_AT_MOST, BENCH_WITHIN } BenchSense;

typedef struct BenchTarget {
    char work[96];
    const char *unit; /* "% of FMA rate" */
    BenchSense sense;
    double goal, within; /* within: for BENCH_WITHIN */
    double measured;     /* of the least times; NaN: could not be measured here */
    double median;       /* the same of the medians; NaN: none */
    int runs;            /* of each thing compared; 0: not a matter of time */
    bool left_out;       /* not asked for */
    char detail[96];
} BenchTarget;

bool bench_target_met(const BenchTarget *t);

/* ---- all of it ---- */

typedef struct BenchReport {
    BenchSettings settings;
    BenchMachine machine;
    const char *backend;
    int32_t threads, cpu_level;
    BenchCeilings ceilings[2]; /* of one thread, of all */
    int ceiling_count;
    BenchResult *results;
    int count, room;
    BenchSeries *series;
    int series_count, series_room;
    BenchTarget *targets;
    int target_count, target_room;
    char why[512]; /* what failed */
} BenchReport;

const BenchCeilings *bench_ceilings_of(const BenchReport *r, int32_t threads);
double bench_checked_rate(const BenchReport *r, int32_t threads, double fma_rate); /* a burst's; measured again where it says too little */

/* The time that flops or bytes alone would take at the machine's rates: whichever is longer cannot be beaten without
 * sharing work. bound: "compute", or the memory that binds. */
double bench_floor(const BenchCeilings *c, double fma_rate, double flops, double bytes, double working_set,
                   const char **bound);
double bench_result_floor(const BenchReport *r, const BenchResult *one, const char **bound);

SnlsStatus bench_add_series(BenchReport *r);
SnlsStatus bench_add_targets(BenchReport *r);
SnlsStatus bench_device_targets(BenchReport *r); /* from the results that are there */
bool bench_wants(const BenchSettings *s, const char *op); /* --op names it, or nothing */
BenchCase bench_shrunk(const BenchSettings *s, BenchCase c); /* much smaller for a quick run */

SnlsStatus bench_run(BenchReport *report); /* settings given; SNLS_ERR_ARG where nothing is chosen */
void bench_free(BenchReport *report);
void bench_print(const BenchReport *report);
void bench_json(const BenchReport *report, json_t *object); /* sets its keys */
void bench_svg(const BenchReport *report, FILE *file);

/* Room for one more of an array that grows; NULL: out of memory. */
void *bench_grow(void *items, int count, int *room, size_t size);

#endif
