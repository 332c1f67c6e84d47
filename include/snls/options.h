/* options.h: the option table of every parameter struct. Range checks, command line, help, documentation and bindings
 * are read from these tables, so none of them can disagree. */
#ifndef SNLS_OPTIONS_H
#define SNLS_OPTIONS_H

#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum SnlsOptionType {
    SNLS_OPTION_INT = 0,  /* int32_t */
    SNLS_OPTION_REAL = 1, /* double, finite */
    SNLS_OPTION_ENUM = 2  /* int32_t, a position in names */
} SnlsOptionType;

typedef struct SnlsOption {
    const char        *name;      /* "ws"; NULL ends a table */
    const char        *help;      /* one clause, no full stop */
    int32_t            type;      /* SnlsOptionType */
    uint32_t           offset;    /* of the field in its params struct, bytes */
    double             def;       /* default */
    double             min, max;  /* accepted range, both ends included; for an enum 0 and the last position */
    const char *const *names;     /* enum: NULL-terminated names; else NULL */
} SnlsOption;

/* The table of an operator: "search", "search_all", "refine", "flow_compose", "weights", "gather", "gather_add",
 * "scatter_add". NULL for another name. Static. */
SNLS_API const SnlsOption *snls_options(const char *op);

/* Sets one field of params from text ("9", "0.5", "bilinear"; a point in every locale). On failure params is unchanged and why (if not NULL)
 * holds a clause without a full stop: "is 0, must be a whole number from 1 to 32767". */
SNLS_API SnlsStatus snls_option_parse(const SnlsOption *option, void *params, const char *text, char *why, size_t size);

/* The value a field has now, as snls_option_parse would take it. */
SNLS_API void snls_option_format(const SnlsOption *option, const void *params, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
