/* check_draw.c: how random calls are drawn: parameters from the option tables, sizes, features, motion. */
#include "case.h"
#include <snls/options.h>
#include <math.h>
#include <string.h>

double draw_budget = 1;

static void set_option(const SnlsOption *o, void *params, double value)
{
    char *at = (char *)params + o->offset;
    const int32_t whole = o->type == SNLS_OPTION_REAL ? 0 : (int32_t)value;
    if (o->type == SNLS_OPTION_REAL) memcpy(at, &value, sizeof value);
    else memcpy(at, &whole, sizeof whole);
}

static double cap_of(const Cap *caps, const char *name)
{
    for (; caps->name; caps++)
        if (!strcmp(caps->name, name)) return caps->max;
    return 3; /* an option this test does not know yet is drawn small */
}

void draw_params(Rng *rng, const char *op, void *params, const Cap *caps)
{
    for (const SnlsOption *o = snls_options(op); o->name; o++) {
        const double high = o->type == SNLS_OPTION_ENUM ? o->max : fmin(o->max, cap_of(caps, o->name));
        const double drawn = o->type == SNLS_OPTION_REAL ? rng_real(rng, o->min, high)
                                                         : (double)rng_int(rng, (int64_t)o->min, (int64_t)high);
        set_option(o, params, rng_one_in(rng, 4) ? o->def : drawn);
    }
}

int64_t draw_size(Rng *rng)
{
    if (draw_budget < 1) return rng_int(rng, 1, 6);
    return rng_one_in(rng, 6) ? 1 : (int64_t)RNG_PICK(rng, 1, 2, 3, 4, 5, 5, 6, 7, 7, 8, 11, 13, 17, 19);
}

double draw_step(Rng *rng, CallKind kind, bool dyadic)
{
    if (kind == CALL_SMALL) return 0.5;
    if (kind == CALL_SMOOTH) return RNG_PICK(rng, 1, 1, 2, 0.5, 0.25, 1.1, 0.7); /* multiples of 0.05: see draw_motion */
    if (dyadic) return RNG_PICK(rng, 1, 1, 2, 3, 0.5, 0.25);
    return rng_one_in(rng, 3) ? rng_real(rng, 0.05, 3) : RNG_PICK(rng, 1, 1, 2, 0.5, 0.25, 1.1, 0.3, 7);
}

int32_t draw_dtype(Rng *rng, CallKind kind)
{
    if (kind == CALL_SMOOTH) return SNLS_F64;
    if (kind == CALL_SMALL) return SNLS_F32;
    return (int32_t)RNG_PICK(rng, SNLS_F32, SNLS_F32, SNLS_F32, SNLS_F32, SNLS_F16, SNLS_BF16, SNLS_F64);
}

void draw_features(Call *call, const SnlsTensor *t)
{
    Rng *rng = &call->rng;
    const int64_t n = tensor_count(t);
    if (call->exact)
        for (int64_t i = 0; i < n; i++) tensor_set(t, i, (double)rng_int(rng, -3, 3)); /* few values: many ties */
    else
        tensor_fill(t, rng, -2, 2);
    if (call->kind != CALL_ANY || !rng_one_in(rng, 6)) return;
    for (int64_t i = rng_int(rng, 1, 1 + n / 20); n && i-- > 0;) tensor_set(t, rng_int(rng, 0, n - 1), NAN);
}

/* For differences: never nearer than 0.025 to a multiple of 0.05, hence no kink of any window of draw_step near by. */
static double away_from_kinks(Rng *rng, double reach)
{
    return 0.05 * (double)rng_int(rng, (int64_t)(-20 * reach), (int64_t)(20 * reach)) + 0.025;
}

double draw_motion(Call *call, Motion motion, int64_t length, double ramp)
{
    Rng *rng = &call->rng;
    if (call->kind == CALL_SMOOTH) return away_from_kinks(rng, motion == MOTION_FAR ? 3 * (double)length : 2);
    double x = 0;
    switch (motion) {
    case MOTION_ZERO: case MOTION_COUNT: break;
    case MOTION_WHOLE: return (double)rng_int(rng, -3, 3);
    case MOTION_SMOOTH: x = 1.5 + 0.3 * ramp; break;
    case MOTION_REAL: x = rng_real(rng, -4, 4); break;
    case MOTION_FAR: x = rng_real(rng, -3, 3) * (double)length; break;
    case MOTION_BROKEN:
        x = rng_real(rng, -4, 4);
        if (rng_one_in(rng, 6)) x = RNG_PICK(rng, NAN, INFINITY, -INFINITY);
        break;
    }
    return call->exact ? nearbyint(4 * x) / 4 : x;
}

double draw_time_fraction(Call *call)
{
    if (!rng_one_in(&call->rng, 3)) return 0;
    return call->kind == CALL_SMOOTH ? RNG_PICK(&call->rng, 0.25, -0.25) : RNG_PICK(&call->rng, 0.25, -0.25, 0.5, 0.375);
}

void draw_grad(Call *call, SnlsTensor *g, const SnlsTensor *of, bool added)
{
    Rng *rng = &call->rng;
    if (!of->data || (call->kind == CALL_ANY && rng_one_in(rng, 6))) return;
    const bool other = call->kind == CALL_ANY && of->dtype != SNLS_F64 && rng_one_in(rng, 4);
    *g = tensor_new(rng, other ? SNLS_F32 : of->dtype, of->ndim, of->shape, added ? LAYOUT_OUTPUT : LAYOUT_INPUT);
    tensor_fill(g, rng, -1, 1); /* what is added to must stay in the sum */
}
