/* check.c: random numbers, counting of checks, tolerant comparison. */
#include "check.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

uint64_t rng_bits(Rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t rng_int(Rng *rng, int64_t low, int64_t high)
{
    return high <= low ? low : low + (int64_t)(rng_bits(rng) % (uint64_t)(high - low + 1));
}

double rng_real(Rng *rng, double low, double high)
{
    return low + (high - low) * (double)(rng_bits(rng) >> 11) / 9007199254740992.0;
}

bool rng_one_in(Rng *rng, int n) { return rng_bits(rng) % (uint64_t)n == 0; }

double rng_pick(Rng *rng, const double *list, int count) { return list[rng_bits(rng) % (uint64_t)count]; }

static _Atomic int64_t passed, failed; /* some tests check from several threads */
static char repeat_line[256];

bool check_passed(void)
{
    passed++;
    return true;
}

bool check_failed(const char *file, int line, const char *format, ...)
{
    if (++failed > 25) return false; /* the first ones say it all */
    const char *slash = strrchr(file, '/');
    printf("FAIL %s:%d: ", slash ? slash + 1 : file, line);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    if (repeat_line[0]) printf("     repeat with: %s\n", repeat_line);
    fflush(stdout);
    return false;
}

void check_repeat(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(repeat_line, sizeof repeat_line, format, args);
    va_end(args);
}

int64_t check_failures(void) { return failed; }

int check_end(void)
{
    tensors_free();
    printf("%lld passed, %lld failed\n", (long long)passed, (long long)failed);
    return failed || !passed;
}

double dtype_rounding(int32_t dtype)
{
    switch (dtype) {
    case SNLS_F32: return EPS_F32 / 2;
    case SNLS_F16: return 1.0 / 2048;
    case SNLS_BF16: return 1.0 / 256;
    }
    return EPS_F64 / 2;
}

/* Below this a type has no more relative precision. */
static double dtype_denormal(int32_t dtype)
{
    return dtype == SNLS_F16 ? 6e-8 : dtype == SNLS_F64 ? 1e-300 : 3e-38;
}

Sums sums_new(int64_t count)
{
    Sums s = {.count = count};
    s.value = check_alloc(count, sizeof(double));
    s.magnitude = check_alloc(count, sizeof(double));
    s.read = check_alloc(count, sizeof(double));
    s.terms = check_alloc(count, sizeof(double));
    return s;
}

void sums_add(Sums *s, int64_t i, double term, double read)
{
    s->value[i] += term;
    s->magnitude[i] += fabs(term);
    s->read[i] += read;
    s->terms[i] += 1;
}

Sums sums_prefilled(const SnlsTensor *g)
{
    Sums s = sums_new(tensor_count(g));
    for (int64_t i = 0; i < s.count; i++) sums_add(&s, i, tensor_was(g, i), 0);
    return s;
}

double sums_tolerance(const Sums *s, int64_t i, double eps, int32_t dtype)
{
    const double sum = eps * ((s->terms[i] + 4) * s->magnitude[i] + 1.01 * s->read[i]);
    return sum + dtype_rounding(dtype) * (fabs(s->value[i]) + sum) * 1.01 + dtype_denormal(dtype);
}

void check_sums(const char *what, const SnlsTensor *got, const Sums *want, double eps)
{
    const int64_t n = tensor_count(got);
    if (!CHECK(n == want->count, "%s: %lld elements, the model has %lld", what, (long long)n, (long long)want->count)) return;
    int64_t worst = -1;
    double most = 1, tolerance = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(want->value[i])) continue; /* 0 * NaN or nothing: both are right */
        const double x = tensor_get(got, i), t = sums_tolerance(want, i, eps, got->dtype);
        const double off = x == want->value[i] ? 0 : fabs(x - want->value[i]) / t;
        if (off <= most) continue;
        worst = i;
        most = isnan(off) ? DBL_MAX : off;
        tolerance = t;
    }
    CHECK(worst < 0, "%s: element %lld is %.9g, expected %.9g within %.3g", what, (long long)worst,
          tensor_get(got, worst), want->value[worst], tolerance);
}

void check_same_values(const char *what, const SnlsTensor *got, const double *want)
{
    int64_t wrong = -1;
    for (int64_t i = tensor_count(got); i-- > 0;) {
        const double x = tensor_get(got, i);
        if (x != want[i] && !(isnan(x) && isnan(want[i]))) wrong = i;
    }
    CHECK(wrong < 0, "%s: element %lld is %.9g, expected exactly %.9g", what, (long long)wrong,
          tensor_get(got, wrong), want[wrong]);
}
