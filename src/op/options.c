/* options.c: the option tables. Names, help, defaults and ranges stand here and nowhere else. */
#include "op/tables.h"
#include <stddef.h>
#include <string.h>

static const char *const dist_names[] = {"l2", "prod", NULL};
static const char *const interp_names[] = {"bilinear", "nearest", NULL};
static const char *const border_names[] = {"reflect", "drop", NULL};
static const char *const window_names[] = {"slide", "cut", NULL};
static const char *const anchor_names[] = {"none", "self", "each", NULL};
static const char *const exclude_names[] = {"none", "self", "frame", NULL};
static const char *const topk_names[] = {"all", "each", NULL};

#define INT(P, field, def, min, max, help) {#field, help, SNLS_OPTION_INT, offsetof(P, field), def, min, max, NULL}
#define REAL(P, field, def, min, max, help) {#field, help, SNLS_OPTION_REAL, offsetof(P, field), def, min, max, NULL}
#define ENUM(P, field, list, help) \
    {#field, help, SNLS_OPTION_ENUM, offsetof(P, field), 0, 0, (double)(sizeof(list) / sizeof *(list)) - 2, list}
#define END {NULL, NULL, 0, 0, 0, 0, 0, NULL}

enum { SIDE_MAX = 32767, COUNT_MAX = 1 << 24 };

const SnlsOption snls_search_table[] = {
    INT(SnlsSearchParams, ws, 9, 1, SIDE_MAX, "side of the search window, ws*ws candidates in each frame"),
    INT(SnlsSearchParams, wt, 0, 0, COUNT_MAX, "temporal radius, 2*wt+1 frames are searched"),
    INT(SnlsSearchParams, ps, 1, 1, SIDE_MAX, "side of the patches that are compared"),
    INT(SnlsSearchParams, k, 1, 1, COUNT_MAX, "neighbours kept per query, or per frame with topk each"),
    INT(SnlsSearchParams, heads, 1, 1, COUNT_MAX, "channel groups searched apart"),
    INT(SnlsSearchParams, stride0, 1, 1, COUNT_MAX, "pixels between queries"),
    REAL(SnlsSearchParams, stride1, 1, 1e-6, 1e6, "pixels between candidates, fractional for sub-pixel search"),
    INT(SnlsSearchParams, dilation, 1, 1, COUNT_MAX, "pixels between the pixels of a patch"),
    ENUM(SnlsSearchParams, dist, dist_names, "l2: sum of squared differences; prod: sum of products"),
    ENUM(SnlsSearchParams, interp, interp_names, "how key pixels between the grid are read"),
    ENUM(SnlsSearchParams, border, border_names, "patch pixels outside the frame are reflected or dropped"),
    ENUM(SnlsSearchParams, window, window_names, "windows slide inside the frame or are cut by its border"),
    ENUM(SnlsSearchParams, anchor, anchor_names, "always keep the query itself, or each frame's flow target, first"),
    ENUM(SnlsSearchParams, exclude, exclude_names, "leave out the query itself, or its whole frame"),
    ENUM(SnlsSearchParams, topk, topk_names, "best k over all frames, or of each frame"),
    END};

const SnlsOption snls_refine_table[] = {
    INT(SnlsRefineParams, wr, 1, 1, SIDE_MAX, "side of the window around each given place, 1 re-ranks the places"),
    INT(SnlsRefineParams, ps, 1, 1, SIDE_MAX, "side of the patches that are compared"),
    INT(SnlsRefineParams, k, 1, 1, COUNT_MAX, "neighbours kept per query"),
    INT(SnlsRefineParams, heads, 1, 1, COUNT_MAX, "channel groups searched apart"),
    INT(SnlsRefineParams, stride0, 1, 1, COUNT_MAX, "pixels between queries"),
    REAL(SnlsRefineParams, stride1, 1, 1e-6, 1e6, "pixels between candidates, fractional for sub-pixel search"),
    INT(SnlsRefineParams, dilation, 1, 1, COUNT_MAX, "pixels between the pixels of a patch"),
    ENUM(SnlsRefineParams, dist, dist_names, "l2: sum of squared differences; prod: sum of products"),
    ENUM(SnlsRefineParams, interp, interp_names, "how key pixels between the grid are read"),
    ENUM(SnlsRefineParams, border, border_names, "patch pixels outside the frame are reflected or dropped"),
    ENUM(SnlsRefineParams, window, window_names, "windows slide inside the frame or are cut by its border"),
    END};

const SnlsOption snls_flow_compose_table[] = {
    INT(SnlsFlowComposeParams, wt, 0, 0, COUNT_MAX, "temporal radius, flow to 2*wt other frames"),
    INT(SnlsFlowComposeParams, stride0, 1, 1, COUNT_MAX, "pixels between queries"),
    END};

const SnlsOption snls_weights_table[] = {
    ENUM(SnlsWeightsParams, dist, dist_names, "l2: small distances weigh most; prod: large ones do"),
    REAL(SnlsWeightsParams, scale, 10, -1e30, 1e30, "factor before the softmax"),
    END};

const SnlsOption snls_gather_table[] = {
    INT(SnlsGatherParams, ps, 1, 1, SIDE_MAX, "side of the patches that are moved"),
    INT(SnlsGatherParams, stride0, 1, 1, COUNT_MAX, "pixels between queries"),
    INT(SnlsGatherParams, dilation, 1, 1, COUNT_MAX, "pixels between the pixels of a patch"),
    INT(SnlsGatherParams, heads, 0, 0, COUNT_MAX, "channel groups, 0 for those of the weights"),
    ENUM(SnlsGatherParams, interp, interp_names, "how pixels between the grid are read"),
    ENUM(SnlsGatherParams, border, border_names, "source pixels outside the frame are reflected or dropped"),
    END};

const SnlsOption *snls_options(const char *op)
{
    static const struct { const char *op; const SnlsOption *table; } tables[] = {
        {"search", snls_search_table},       {"search_all", snls_search_table},
        {"refine", snls_refine_table},       {"flow_compose", snls_flow_compose_table},
        {"weights", snls_weights_table},     {"gather", snls_gather_table},
        {"gather_add", snls_gather_table},   {"scatter_add", snls_gather_table}};
    for (size_t i = 0; op && i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(op, tables[i].op)) return tables[i].table;
    return NULL;
}

_Static_assert(sizeof(SnlsTensor) == 152, "the view is part of the ABI");
_Static_assert(sizeof(SnlsSearchParams) == 128 && sizeof(SnlsRefineParams) == 128, "parameter structs are part of the ABI");
_Static_assert(sizeof(SnlsFlowComposeParams) == 64 && sizeof(SnlsWeightsParams) == 64 && sizeof(SnlsGatherParams) == 64,
               "parameter structs are part of the ABI");
