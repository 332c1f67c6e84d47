/* options.c: reading, printing and checking the fields that an option table describes. */
#include "base/options.h"
#include "base/number.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double field(const SnlsOption *o, const void *params)
{
    const char *at = (const char *)params + o->offset;
    if (o->type == SNLS_OPTION_REAL) { double x; memcpy(&x, at, sizeof x); return x; }
    int32_t i;
    memcpy(&i, at, sizeof i);
    return i;
}

static void set_field(const SnlsOption *o, void *params, double value)
{
    char *at = (char *)params + o->offset;
    const int32_t i = o->type == SNLS_OPTION_REAL ? 0 : (int32_t)value;
    if (o->type == SNLS_OPTION_REAL) memcpy(at, &value, sizeof value);
    else memcpy(at, &i, sizeof i);
}

static bool in_range(const SnlsOption *o, double value) { return value >= o->min && value <= o->max; } /* NaN is not */

void snls_options_default(const SnlsOption *table, void *params)
{
    for (const SnlsOption *o = table; o->name; o++) set_field(o, params, o->def);
}

/* "must be a whole number from 1 to 32767", "must be one of l2, prod" */
static void accepted(const SnlsOption *o, char *text, size_t size)
{
    if (o->type != SNLS_OPTION_ENUM) {
        snls_number_text(text, size, o->type == SNLS_OPTION_INT ? "must be a whole number from %.10g to %.10g" : "must be %.10g to %.10g", o->min, o->max);
        return;
    }
    size_t at = (size_t)snprintf(text, size, "must be one of");
    for (int i = 0; o->names[i] && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s %s", i ? "," : "", o->names[i]);
}

SnlsStatus snls_options_check(SnlsContext *ctx, const char *op, const SnlsOption *table, const void *params)
{
    for (const SnlsOption *o = table; o->name; o++) {
        const double value = field(o, params);
        if (in_range(o, value)) continue;
        char must[160];
        accepted(o, must, sizeof must);
        return snls_fail(ctx, SNLS_ERR_ARG, "%s: %s is %.10g, %s", op, o->name, value, must);
    }
    return SNLS_OK;
}

SnlsStatus snls_reserved_check(SnlsContext *ctx, const char *op, const char *defaults, const int32_t *reserved, size_t count)
{
    for (size_t i = 0; i < count; i++)
        SNLS_REQUIRE(ctx, reserved[i] == 0, SNLS_ERR_ARG, "%s: reserved[%d] of params is %d, must be 0%s%s%s", op, (int)i, (int)reserved[i], defaults ? " (call " : "",
                     defaults ? defaults : "", defaults ? " first)" : "");
    return SNLS_OK;
}

SnlsStatus snls_flag_check(SnlsContext *ctx, const char *op, const char *name, int32_t flag)
{
    SNLS_REQUIRE(ctx, flag == 0 || flag == 1, SNLS_ERR_ARG, "%s: %s is %d, must be 0 or 1", op, name, (int)flag);
    return SNLS_OK;
}

SnlsStatus snls_threads_check(SnlsContext *ctx, const char *op, int32_t threads)
{
    SNLS_REQUIRE(ctx, threads >= 0 && threads <= 65536, SNLS_ERR_ARG, "%s: threads is %d, must be 0 to 65536", op, (int)threads);
    return SNLS_OK;
}

static bool parse_value(const SnlsOption *o, const char *text, double *value)
{
    if (o->type == SNLS_OPTION_ENUM) {
        for (int i = 0; o->names[i]; i++)
            if (!strcmp(text, o->names[i])) { *value = i; return true; }
        return false;
    }
    char *end;
    errno = 0;
    if (o->type == SNLS_OPTION_INT) {
        const long long n = strtoll(text, &end, 10);
        *value = (double)n;
    } else {
        *value = snls_number_read(text, &end);
    }
    const bool number = end != text && !*end && !text[strspn(text, "0123456789+-.eE")]; /* no blanks, and no 0x1, which strtod takes */
    return number && errno != ERANGE && isfinite(*value);
}

SnlsStatus snls_option_parse(const SnlsOption *o, void *params, const char *text, char *why, size_t size)
{
    double value;
    if (!o || !params || !text) return SNLS_ERR_ARG;
    if (!parse_value(o, text, &value) || !in_range(o, value)) {
        char must[160];
        accepted(o, must, sizeof must);
        if (why && size) snprintf(why, size, "is %.60s, %s", *text ? text : "empty", must), snls_one_line(why);
        return SNLS_ERR_ARG;
    }
    set_field(o, params, value);
    return SNLS_OK;
}

void snls_option_format(const SnlsOption *o, const void *params, char *text, size_t size)
{
    if (!o || !params || !text || !size) return;
    const double value = field(o, params);
    if (o->type == SNLS_OPTION_ENUM) snprintf(text, size, "%s", in_range(o, value) ? o->names[(int)value] : "?");
    else if (o->type == SNLS_OPTION_INT) snprintf(text, size, "%d", (int)value);
    else snls_number_text(text, size, "%.17g", value);
    /* the shortest text that reads back as the same number */
    for (int digits = 16; o->type == SNLS_OPTION_REAL && digits > 0; digits--) { /* 10, not 1e+01 */
        char shorter[40];
        snls_number_text(shorter, sizeof shorter, "%.*g", digits, value);
        if (snls_number_read(shorter, NULL) == value && strlen(shorter) < strlen(text)) snprintf(text, size, "%s", shorter);
    }
}
