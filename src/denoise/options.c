/* options.c: the option table of the denoiser. Names, help, defaults and ranges stand here and nowhere else. */
#include "base/options.h"
#include "denoise/nlb.h"
#include <stddef.h>

static const char *const method_names[] = { "vnlb", "nlm", NULL };
static const char *const preset_names[] = { "fast", "medium", "slow", NULL };
static const char *const flow_names[] = { "preset", "none", "farneback", "tvl1", "dis", NULL };

/* clang-format off */
#define AT(field) offsetof(SnlsDenoiseParams, field)
#define INT(field, def, min, max, help) {#field, help, SNLS_OPTION_INT, AT(field), def, min, max, NULL}
#define REAL(field, def, min, max, help) {#field, help, SNLS_OPTION_REAL, AT(field), def, min, max, NULL}
#define ENUM(field, def, list, help) {#field, help, SNLS_OPTION_ENUM, AT(field), def, 0, (double)(sizeof(list) / sizeof *(list)) - 2, list}

static const SnlsOption table[] = {
    ENUM(method, SNLS_DENOISE_VNLB, method_names, "how patches become an estimate"),
    ENUM(preset, SNLS_DENOISE_MEDIUM, preset_names, "speed or quality; sets everything below that is not given"),
    ENUM(flow, SNLS_DENOISE_FLOW_PRESET, flow_names, "how the motion is found"),
    INT(radius, -1, -1, RADIUS_MAX, "frames searched on either side; -1: of the preset"),
    INT(depth, 0, 0, DEPTH_MAX, "frames of a patch; 0: of the preset"),
    INT(window1, 0, 0, 63, "side of the search window, step 1; 0: of the preset"),
    INT(window2, 0, 0, 63, "side of the search window, step 2"),
    INT(patches1, 0, 0, 500, "patches of a group, step 1; 0: of the preset"),
    INT(patches2, 0, 0, 500, "patches of a group, step 2"),
    INT(step1, 0, 0, 6, "pixels between references, step 1; 0: of the preset"),
    INT(step2, 0, 0, 6, "pixels between references, step 2"),
    INT(rank1, 0, 0, 500, "most eigenvectors of a group, step 1; 0: of the preset"),
    INT(reuse1, -1, -1, 2, "1: what was in a group is no reference, 2: nor are second halves, step 1; -1: of the preset"),
    INT(reuse2, -1, -1, 2, "1: what was in a group is no reference, 2: nor are second halves, step 2"),
    REAL(theta1, -1, -1, 100, "eigenvalues up to (1 + theta) sigma^2 are noise; -1: the best shrinkage instead"),
    {NULL, NULL, 0, 0, 0, 0, 0, NULL}};
/* clang-format on */

const SnlsOption *snls_denoise_options(void) { return table; }

void snls_denoise_defaults(SnlsDenoiseParams *params)
{
    if (!params) return;
    *params = (SnlsDenoiseParams){ .sigma = { -1, -1, -1 } };
    snls_options_default(table, params);
}
