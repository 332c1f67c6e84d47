/* check.h: the test harness: seeded numbers, a verdict, tensors between canaries, sums with a derived tolerance.
 * Knows nothing of operators (case.h does). A test prints what failed and how to repeat it; its exit status is the verdict. */
#ifndef CHECK_H
#define CHECK_H

#include <snls/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- random numbers: splitmix64, the seed is the whole state, the same on every platform ---- */

typedef struct Rng { uint64_t state; } Rng;
uint64_t rng_bits(Rng *rng);
int64_t  rng_int(Rng *rng, int64_t low, int64_t high); /* both ends included */
double   rng_real(Rng *rng, double low, double high);
bool     rng_one_in(Rng *rng, int n);
double   rng_pick(Rng *rng, const double *list, int count);
#define RNG_PICK(rng, ...) rng_pick(rng, (const double[]){__VA_ARGS__}, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

/* ---- verdict ---- */

#if defined(__GNUC__)
#  define CHECK_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#  define CHECK_PRINTF(a, b)
#endif

/* Counts one check; a failed one prints place, sentence and the line that repeats it. Yields the condition. The sentence is
 * worked out only where it is needed. */
#define CHECK(condition, ...) ((condition) ? check_passed() : check_failed(__FILE__, __LINE__, __VA_ARGS__))
bool check_passed(void); /* true */
bool check_failed(const char *file, int line, const char *format, ...) CHECK_PRINTF(3, 4); /* false */
void check_repeat(const char *format, ...) CHECK_PRINTF(1, 2); /* what `repeat with:` says until the next call */
int64_t check_failures(void);
int  check_end(void); /* prints `N passed, M failed`; the exit status of main */

/* ---- tensors: every one lies in its own allocation, with padding that must keep its bytes ---- */

typedef enum Layout {
    LAYOUT_PLAIN,  /* contiguous */
    LAYOUT_OUTPUT, /* permuted axes, padded strides, any sign, any start */
    LAYOUT_INPUT   /* the same, and now and then a broadcast axis (stride 0) */
} Layout;

SnlsTensor tensor_new(Rng *rng, int32_t dtype, int32_t ndim, const int64_t *shape, Layout layout); /* filled with canaries */
void   tensors_free(void);                                   /* all of them, and everything from check_alloc */
double tensor_get(const SnlsTensor *t, int64_t flat);        /* element number in C order, any dtype */
void   tensor_set(const SnlsTensor *t, int64_t flat, double value);
double *tensor_doubles(const SnlsTensor *t);                 /* contiguous copy; freed by tensors_free */
void   tensor_fill(const SnlsTensor *t, Rng *rng, double low, double high);
int64_t tensor_count(const SnlsTensor *t);                   /* elements; 0 without data */

void   tensor_mark(const SnlsTensor *t);                     /* remembers all bytes of the allocation */
void   tensor_restore(const SnlsTensor *t);                  /* writes the remembered bytes back */
double tensor_was(const SnlsTensor *t, int64_t flat);        /* the element as it was remembered */
bool   tensor_unchanged(const SnlsTensor *t);                /* every byte as remembered */
bool   tensor_padding_unchanged(const SnlsTensor *t);        /* every byte that belongs to no element */
bool   tensor_fits(const SnlsTensor *t, bool *absurd);       /* all elements lie in its allocation; absurd: no memory could hold them */
uint64_t tensor_hash(const SnlsTensor *t);                   /* of all bytes of the allocation */

/* For a backend on another device: lends the whole allocation of t to it (a copy there, t points into that) and takes it back,
 * padding and all. Views into one allocation share the copy. Nothing happens where the backend works on this memory. */
struct SnlsContext;
void tensor_lend(struct SnlsContext *ctx, SnlsTensor *t);
void tensor_return(struct SnlsContext *ctx, SnlsTensor *t);

void *check_alloc(int64_t count, size_t size);               /* zeroed, never NULL; lives until tensors_free */

const char *check_folder(void);                              /* empty, made when first asked for; without one the test is skipped */
const char *in_folder(const char *name);                     /* a path in it; the last four stay */
void        check_folder_remove(void);

/* ---- sums that know how far a rounded version may be from them ---- */

/* For each element: value, sum of |term|, number of terms, and what the reads of the terms may be off by, in units of eps. */
typedef struct Sums {
    int64_t count;
    double *value, *magnitude, *read;
    double *terms;
} Sums;

Sums sums_new(int64_t count);
Sums sums_prefilled(const SnlsTensor *g); /* begins with what a gradient held before it was added to; count 0 without data */
void sums_add(Sums *s, int64_t i, double term, double read);
/* (terms + 4) * eps * sum|term| + eps * read, and one rounding to the storage type */
double sums_tolerance(const Sums *s, int64_t i, double eps, int32_t dtype);
void check_sums(const char *what, const SnlsTensor *got, const Sums *want, double eps);
void check_same_values(const char *what, const SnlsTensor *got, const double *want); /* exactly, NaN = NaN */

#define EPS_F32 1.1920928955078125e-7
#define EPS_F64 2.220446049250313e-16
double dtype_rounding(int32_t dtype); /* half an ulp of 1 */

#endif
