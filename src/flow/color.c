/* color.c: a flow as a picture, in the colours of the Middlebury benchmark (Baker et al., ICCV 2007). */
#include "flow/check.h"
#include <math.h>

/* The wheel: how many steps each passage from one pure colour to the next takes. */
enum {
    RED_YELLOW = 15,
    YELLOW_GREEN = 6,
    GREEN_CYAN = 4,
    CYAN_BLUE = 11,
    BLUE_MAGENTA = 13,
    MAGENTA_RED = 6,
    WHEEL = 55
};

/* Colour of a step of the wheel, 0..1. */
static void wheel(int step, double *rgb)
{
    static const struct {
        int steps, full, moves, rises;
    } passage[6] = { { RED_YELLOW, 0, 1, 1 }, { YELLOW_GREEN, 1, 0, 0 }, { GREEN_CYAN, 1, 2, 1 },
                     { CYAN_BLUE, 2, 1, 0 },  { BLUE_MAGENTA, 2, 0, 1 }, { MAGENTA_RED, 0, 2, 0 } };
    int i = 0;
    for (; step >= passage[i].steps; i++) step -= passage[i].steps;
    const double part = floor(255.0 * step / passage[i].steps) / 255;
    rgb[0] = rgb[1] = rgb[2] = 0;
    rgb[passage[i].full] = 1;
    rgb[passage[i].moves] = passage[i].rises ? part : 1 - part;
}

static bool known(double u, double v) { return fabs(u) < 1e9 && fabs(v) < 1e9; }

static double longest(const SnlsTensor *flow)
{
    double most = 0;
    for (int64_t y = 0; y < flow->shape[0]; y++)
        for (int64_t x = 0; x < flow->shape[1]; x++) {
            const int64_t at = y * flow->stride[0] + x * flow->stride[1];
            const double u = snls_load(flow, at), v = snls_load(flow, at + flow->stride[2]);
            if (known(u, v)) most = fmax(most, hypot(u, v));
        }
    return most;
}

/* u and v in units of the largest length. Longer vectors are darker. */
static void color(double u, double v, uint8_t *rgb)
{
    const double pi = 3.14159265358979323846, length = hypot(u, v), place = (atan2(-v, -u) / pi + 1) / 2 * (WHEEL - 1);
    const int step = (int)place;
    double a[3], b[3];
    wheel(step, a);
    wheel((step + 1) % WHEEL, b);
    for (int c = 0; c < 3; c++) {
        const double pure = a[c] + (place - step) * (b[c] - a[c]);
        rgb[c] = (uint8_t)(255 * (length <= 1 ? 1 - length * (1 - pure) : 0.75 * pure));
    }
}

SnlsStatus snls_flow_color(SnlsContext *ctx, const SnlsTensor *flow, double largest, const SnlsTensor *image)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, flow && image, SNLS_ERR_ARG, "flow_color: a view is missing (NULL)");
    SNLS_TRY(snls_flow_check_field(ctx, "flow_color", "flow", flow, false));
    SNLS_REQUIRE(ctx,
                 image->data && image->dtype == SNLS_U8 && image->device == SNLS_DEVICE_CPU && image->ndim == 3 &&
                     image->shape[0] == flow->shape[0] && image->shape[1] == flow->shape[1] && image->shape[2] == 3,
                 SNLS_ERR_SHAPE, "flow_color: image must be (H,W,3) = (%lld,%lld,3) of u8", (long long)flow->shape[0],
                 (long long)flow->shape[1]);
    SNLS_TRY(snls_flow_check_places(ctx, "flow_color", "image", image));
    SNLS_REQUIRE(ctx, largest >= 0 && largest < 1e9, SNLS_ERR_ARG, "flow_color: largest is %g, must be 0 to 1e9",
                 largest);
    const double unit = largest > 0 ? largest : fmax(longest(flow), 1e-9);
    for (int64_t y = 0; y < flow->shape[0]; y++)
        for (int64_t x = 0; x < flow->shape[1]; x++) {
            const int64_t at = y * flow->stride[0] + x * flow->stride[1];
            const double u = snls_load(flow, at), v = snls_load(flow, at + flow->stride[2]);
            uint8_t rgb[3] = { 0, 0, 0 };
            if (known(u, v)) color(u / unit, v / unit, rgb);
            for (int c = 0; c < 3; c++)
                ((uint8_t *)image->data)[y * image->stride[0] + x * image->stride[1] + c * image->stride[2]] = rgb[c];
        }
    return SNLS_OK;
}
