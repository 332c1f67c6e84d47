/* options.c: the option tables of optical flow. Names, help, defaults and ranges stand here and nowhere else. */
#include "flow/check.h"
#include <stddef.h>
#include <string.h>

static const char *const method_names[] = { "farneback", "tvl1", "dis", NULL };
static const char *const window_names[] = { "box", "gaussian", NULL };

/* clang-format off */
#define INT(P, field, def, min, max, help) {#field, help, SNLS_OPTION_INT, offsetof(P, field), def, min, max, NULL}
#define REAL(P, field, def, min, max, help) {#field, help, SNLS_OPTION_REAL, offsetof(P, field), def, min, max, NULL}
#define ENUM(P, field, list, help) \
    {#field, help, SNLS_OPTION_ENUM, offsetof(P, field), 0, 0, (double)(sizeof(list) / sizeof *(list)) - 2, list}
/* as above, where the field's name has an underscore */
#define NAMED_INT(P, name, field, def, min, max, help) {name, help, SNLS_OPTION_INT, offsetof(P, field), def, min, max, NULL}
#define NAMED_REAL(P, name, field, def, min, max, help) {name, help, SNLS_OPTION_REAL, offsetof(P, field), def, min, max, NULL}
#define END {NULL, NULL, 0, 0, 0, 0, 0, NULL}

static const SnlsOption flow_table[] = {
    ENUM(SnlsFlowParams, method, method_names, "how the motion is found"),
    END};

static const SnlsOption farneback_table[] = {
    NAMED_REAL(SnlsFarnebackParams, "pyr-scale", pyr_scale, 0.5, 0.01, 0.99, "size of a level beside the one below it"),
    INT(SnlsFarnebackParams, levels, 3, 0, 100, "levels above the frame itself, none under 32 pixels"),
    INT(SnlsFarnebackParams, winsize, 15, 1, 999, "side of the averaging window, pixels"),
    INT(SnlsFarnebackParams, iterations, 3, 1, 10000, "iterations at each level"),
    NAMED_INT(SnlsFarnebackParams, "poly-n", poly_n, 5, 1, 99, "radius of the neighbourhood that is expanded, pixels"),
    NAMED_REAL(SnlsFarnebackParams, "poly-sigma", poly_sigma, 1.1, 0.1, 100, "Gaussian weight of that neighbourhood, pixels"),
    ENUM(SnlsFarnebackParams, window, window_names, "weights of the averaging window"),
    END};

static const SnlsOption tvl1_table[] = {
    REAL(SnlsTvl1Params, tau, 0.25, 1e-6, 10, "time step of the dual variables"),
    REAL(SnlsTvl1Params, lambda, 0.15, 1e-6, 1e6, "weight of the data term"),
    REAL(SnlsTvl1Params, theta, 0.3, 1e-6, 1e6, "coupling of data and smoothness"),
    REAL(SnlsTvl1Params, smoothing, 0.8, 0, 100, "Gaussian that the frames are smoothed by first, pixels"),
    INT(SnlsTvl1Params, nscales, 100, 1, 100, "scales, none under 16 pixels"),
    REAL(SnlsTvl1Params, zfactor, 0.5, 0.01, 0.99, "size of a scale beside the one below it"),
    INT(SnlsTvl1Params, finest, 0, 0, 99, "the finest scale that is solved"),
    INT(SnlsTvl1Params, warps, 5, 1, 10000, "warps at each scale"),
    REAL(SnlsTvl1Params, epsilon, 0.01, 0, 1e6, "a warp ends when the flow moves less than this, pixels"),
    NAMED_INT(SnlsTvl1Params, "max-iterations", max_iterations, 300, 1, 1000000, "most iterations of a warp"),
    END};

static const SnlsOption dis_table[] = {
    INT(SnlsDisParams, finest, 1, 0, 31, "the finest level that is searched, 1 is half size"),
    INT(SnlsDisParams, stride, 4, 1, 8, "pixels between patches, which are 8 by 8"),
    INT(SnlsDisParams, steps, 12, 0, 1000, "steps of descent for each patch"),
    INT(SnlsDisParams, warps, 1, 0, 1000, "warps of the TV-L1 that refines the finest level"),
    INT(SnlsDisParams, iterations, 16, 1, 100000, "iterations of each of these warps"),
    REAL(SnlsDisParams, lambda, 0.15, 1e-6, 1e6, "weight of its data term"),
    END};
/* clang-format on */

const SnlsOption *snls_flow_options(const char *name)
{
    static const struct {
        const char *name;
        const SnlsOption *table;
    } tables[] = {
        { "flow", flow_table }, { "farneback", farneback_table }, { "tvl1", tvl1_table }, { "dis", dis_table }
    };
    for (size_t i = 0; name && i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(name, tables[i].name)) return tables[i].table;
    return NULL;
}

void snls_flow_defaults(SnlsFlowParams *params)
{
    if (!params) return;
    *params = (SnlsFlowParams){ 0 };
    snls_options_default(flow_table, params);
    snls_options_default(farneback_table, &params->farneback);
    snls_options_default(tvl1_table, &params->tvl1);
    snls_options_default(dis_table, &params->dis);
}

static SnlsStatus check_reserved(SnlsContext *ctx, const char *name, const int32_t *reserved, int count)
{
    for (int i = 0; i < count; i++)
        SNLS_REQUIRE(ctx, reserved[i] == 0, SNLS_ERR_ARG,
                     "flow: reserved[%d] of the %s parameters is %d, must be 0 (call snls_flow_defaults first)", i,
                     name, (int)reserved[i]);
    return SNLS_OK;
}

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

SnlsStatus snls_flow_check_params(SnlsContext *ctx, const SnlsFlowParams *p)
{
    SNLS_TRY(snls_options_check(ctx, "flow", flow_table, p));
    SNLS_TRY(check_reserved(ctx, "flow", p->reserved, COUNT(p->reserved)));
    switch (p->method) {
    case SNLS_FLOW_FARNEBACK:
        SNLS_TRY(snls_options_check(ctx, "flow: farneback", farneback_table, &p->farneback));
        return check_reserved(ctx, "farneback", p->farneback.reserved, COUNT(p->farneback.reserved));
    case SNLS_FLOW_TVL1:
        SNLS_TRY(snls_options_check(ctx, "flow: tvl1", tvl1_table, &p->tvl1));
        return check_reserved(ctx, "tvl1", p->tvl1.reserved, COUNT(p->tvl1.reserved));
    default:
        SNLS_TRY(snls_options_check(ctx, "flow: dis", dis_table, &p->dis));
        return check_reserved(ctx, "dis", p->dis.reserved, COUNT(p->dis.reserved));
    }
}

_Static_assert(sizeof(SnlsFarnebackParams) == 80 && sizeof(SnlsTvl1Params) == 96 && sizeof(SnlsDisParams) == 64 &&
                   sizeof(SnlsFlowParams) == 304,
               "parameter structs are part of the ABI");
