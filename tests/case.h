/* case.h: random calls of every operator. case_<op>.c draws one and compares its results with the model; check_case.c runs
 * it on a context and holds what is the same for all: inputs unchanged, padding unchanged, gradients added. */
#ifndef CASE_H
#define CASE_H

#include "check.h"
#include "model.h"
#include "op/op.h"

typedef enum Role { ROLE_IN, ROLE_OUT, ROLE_GRAD_IN, ROLE_GRAD_OUT } Role;

/* One tensor of a call; offset into its argument struct (IN, OUT) or its gradient struct (GRAD_*). A GRAD_OUT has the name of
 * the input it belongs to. */
typedef struct Slot { const char *name; Role role; size_t offset; } Slot;

typedef enum CallKind {
    CALL_ANY,   /* the whole legal space */
    CALL_SMOOTH,/* f64, every gradient wanted, positions away from integers: for differences */
    CALL_SMALL  /* f32, plain, small, every tensor there: for faults and bad input */
} CallKind;

typedef struct Call {
    const struct Operator *op;
    CallKind kind;
    Rng  rng;
    bool exact; /* all sums fit f32: every backend must give the same values, ties in the defined order */
    union {
#define X(op, Op) Snls##Op op;
        SNLS_OPS(X)
#undef X
    } s;
    union {
#define X(op, Op) Snls##Op##Grad op;
        SNLS_OPS(X)
#undef X
    } g;
    SnlsStatus status; /* of the last forward */
    void *model;       /* of the case; lives until tensors_free */
} Call;

typedef struct Case {
    const Slot *slots;                             /* ended by a NULL name */
    void (*make)(Call *call);                      /* params, tensors, contents */
    void (*check_forward)(Call *call, double eps); /* outputs against the model; eps of the arithmetic */
    void (*check_backward)(Call *call, double eps);
    double (*margin)(Call *call);                  /* how far every moving position is from a kink; NULL = far */
} Case;

typedef struct Operator {
    const char *name;
    const Case *test; /* case_<op>: a missing one fails the link */
    SnlsStatus (*forward)(SnlsContext *ctx, const Call *call);
    SnlsStatus (*backward)(SnlsContext *ctx, const Call *call);
    SnlsStatus (*shape)(SnlsContext *ctx, Call *call);
} Operator;

extern const Operator operators[];
extern const int operator_count;
const Operator *operator_named(const char *name); /* NULL: none */

void call_make(Call *call, const Operator *op, uint64_t seed, CallKind kind);
SnlsTensor *call_tensor(Call *call, const Slot *slot);
SnlsTensor *call_find(Call *call, Role role, const char *name); /* NULL: the operator has none */

/* Runs one direction on fresh outputs and checks what must hold whatever the values are. */
SnlsStatus call_forward(Call *call, SnlsContext *ctx);
SnlsStatus call_backward(Call *call, SnlsContext *ctx);
/* Both directions against the model, and their hashes; false: one of them failed, and has been reported. */
bool       call_checked(Call *call, SnlsContext *ctx, double eps, uint64_t hash[2]);
uint64_t   call_hash(Call *call, Role role); /* of all tensors of that role */
bool       call_untouched(Call *call, Role role);
bool       call_has_f64(Call *call);

SnlsContext *context_open(const char *backend, int32_t level, int32_t threads); /* exits with a sentence where it fails */

SnlsContext *context_open_cuda(bool deterministic); /* exits with 77, "skipped", where there is no GPU */

/* ---- drawing ---- */

extern double draw_budget; /* 1; scales how much work a drawn call may be */

typedef struct Cap { const char *name; double max; } Cap; /* keeps an option small; ended by NULL */
void    draw_params(Rng *rng, const char *op, void *params, const Cap *caps); /* from the option table */
int64_t draw_size(Rng *rng);                              /* 1 upwards, primes */
double  draw_step(Rng *rng, CallKind kind, bool dyadic);  /* a stride1 */
int32_t draw_dtype(Rng *rng, CallKind kind);
void    draw_features(Call *call, const SnlsTensor *t);   /* small integers when exact */
typedef enum Motion { MOTION_ZERO, MOTION_WHOLE, MOTION_SMOOTH, MOTION_REAL, MOTION_FAR, MOTION_BROKEN, MOTION_COUNT } Motion;
double  draw_motion(Call *call, Motion motion, int64_t length, double ramp); /* one component of a flow or an offset */
double  draw_time_fraction(Call *call); /* to a whole dt: it is rounded, half to even */
void    draw_grad(Call *call, SnlsTensor *g, const SnlsTensor *of, bool added); /* a gradient tensor shaped like of; may be absent */

/* search and search_all draw alike, gather, gather_add and scatter_add too */
void search_make(Call *call, bool all);
void aggregate_make(Call *call);
void aggregate_check_forward(Call *call, double eps);
void aggregate_check_backward(Call *call, double eps);

#endif
