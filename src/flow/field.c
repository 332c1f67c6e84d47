/* field.c: what is done with a flow: rescaled, compared with the flow back or with the truth, used to move a frame. */
#include "flow/check.h"
#include <math.h>

static double at2(const SnlsTensor *t, int64_t y, int64_t x, int64_t c)
{
    return snls_flow_load(t, y * t->stride[0] + x * t->stride[1] + (t->ndim > 2 ? c * t->stride[2] : 0));
}

/* Index and weight of the next one for a place that is clamped to 0 .. length-1. */
static int64_t split(double place, int64_t length, double *weight)
{
    if (!(place > 0)) place = 0; /* NaN too */
    if (place > (double)(length - 1)) place = (double)(length - 1);
    const int64_t index = (int64_t)place;
    *weight = place - (double)index;
    return index;
}

static double read_bilinear(const SnlsTensor *t, double y, double x, int64_t c)
{
    double fy, fx;
    const int64_t iy = split(y, t->shape[0], &fy), ix = split(x, t->shape[1], &fx);
    const int64_t jy = iy + 1 < t->shape[0] ? iy + 1 : iy, jx = ix + 1 < t->shape[1] ? ix + 1 : ix;
    return (1 - fy) * ((1 - fx) * at2(t, iy, ix, c) + fx * at2(t, iy, jx, c)) +
           fy * ((1 - fx) * at2(t, jy, ix, c) + fx * at2(t, jy, jx, c));
}

/* Mean over the pixels that [y0,y1) x [x0,x1) covers, by area. */
static double read_area(const SnlsTensor *t, double y0, double y1, double x0, double x1, int64_t c)
{
    double sum = 0, area = 0;
    for (int64_t y = (int64_t)y0; y < t->shape[0] && (double)y < y1; y++)
        for (int64_t x = (int64_t)x0; x < t->shape[1] && (double)x < x1; x++) {
            const double h = fmin(y1, (double)y + 1) - fmax(y0, (double)y),
                         w = fmin(x1, (double)x + 1) - fmax(x0, (double)x);
            sum += h * w * at2(t, y, x, c);
            area += h * w;
        }
    return sum / area;
}

SnlsStatus snls_flow_resize(SnlsContext *ctx, const SnlsTensor *from, const SnlsTensor *to)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, from && to, SNLS_ERR_ARG, "flow_resize: a view is missing (NULL)");
    SNLS_TRY(snls_flow_check_field(ctx, "flow_resize", "from", from, false));
    SNLS_TRY(snls_flow_check_field(ctx, "flow_resize", "to", to, true));
    const double step_y = (double)from->shape[0] / (double)to->shape[0],
                 step_x = (double)from->shape[1] / (double)to->shape[1];
    const bool shrinks = step_y > 1 || step_x > 1;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t y = 0; y < to->shape[0]; y++)
        for (int64_t x = 0; x < to->shape[1]; x++)
            for (int64_t c = 0; c < 2; c++) {
                const double py = (double)y, px = (double)x;
                const double value =
                    shrinks ? read_area(from, py * step_y, (py + 1) * step_y, px * step_x, (px + 1) * step_x, c)
                            : read_bilinear(from, (py + 0.5) * step_y - 0.5, (px + 0.5) * step_x - 0.5, c);
                snls_store(to, y * to->stride[0] + x * to->stride[1] + c * to->stride[2],
                           value / (c ? step_y : step_x));
            }
    return SNLS_OK;
}

static SnlsStatus check_map(SnlsContext *ctx, const char *name, const SnlsTensor *t, const SnlsTensor *flow,
                            SnlsDtype dtype)
{
    if (!t || !t->data) return SNLS_OK;
    SNLS_REQUIRE(ctx,
                 t->dtype == (int32_t)dtype && t->device == SNLS_DEVICE_CPU && t->ndim == 2 &&
                     t->shape[0] == flow->shape[0] && t->shape[1] == flow->shape[1],
                 SNLS_ERR_SHAPE, "flow_consistency: %s must be (H,W) = (%lld,%lld) of %s", name,
                 (long long)flow->shape[0], (long long)flow->shape[1], snls_dtype_name(dtype));
    return snls_flow_check_places(ctx, "flow_consistency", name, t);
}

/* Distance between x and where forward, then backward, leads; *both: the squared lengths of the two together. */
static double round_trip(const SnlsTensor *forward, const SnlsTensor *backward, int64_t y, int64_t x, double *both)
{
    const double u = at2(forward, y, x, 0), v = at2(forward, y, x, 1), px = (double)x + u, py = (double)y + v;
    *both = 0;
    if (!(px >= 0 && py >= 0 && px <= (double)(forward->shape[1] - 1) && py <= (double)(forward->shape[0] - 1)))
        return INFINITY;
    const double bu = read_bilinear(backward, py, px, 0), bv = read_bilinear(backward, py, px, 1);
    *both = u * u + v * v + bu * bu + bv * bv;
    return hypot(u + bu, v + bv);
}

SnlsStatus snls_flow_consistency(SnlsContext *ctx, const SnlsTensor *forward, const SnlsTensor *backward,
                                 const SnlsTensor *error, const SnlsTensor *mask)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, forward && backward, SNLS_ERR_ARG, "flow_consistency: a flow is missing (NULL)");
    SNLS_TRY(snls_flow_check_field(ctx, "flow_consistency", "forward", forward, false));
    SNLS_TRY(snls_flow_check_field(ctx, "flow_consistency", "backward", backward, false));
    SNLS_REQUIRE(ctx, forward->shape[0] == backward->shape[0] && forward->shape[1] == backward->shape[1],
                 SNLS_ERR_SHAPE, "flow_consistency: forward and backward differ in size");
    SNLS_TRY(check_map(ctx, "error", error, forward, SNLS_F32));
    SNLS_TRY(check_map(ctx, "mask", mask, forward, SNLS_U8));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t y = 0; y < forward->shape[0]; y++)
        for (int64_t x = 0; x < forward->shape[1]; x++) {
            double both;
            const double e = round_trip(forward, backward, y, x, &both);
            if (error && error->data) snls_store(error, y * error->stride[0] + x * error->stride[1], e);
            if (mask && mask->data)
                ((uint8_t *)mask->data)[y * mask->stride[0] + x * mask->stride[1]] = e * e <= 0.01 * both + 0.5;
        }
    return SNLS_OK;
}

SnlsStatus snls_flow_warp(SnlsContext *ctx, const SnlsTensor *image, const SnlsTensor *flow, const SnlsTensor *out)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, image && flow && out, SNLS_ERR_ARG, "flow_warp: a view is missing (NULL)");
    SNLS_TRY(snls_flow_check_image(ctx, "flow_warp", "image", image));
    SNLS_TRY(snls_flow_check_field(ctx, "flow_warp", "flow", flow, false));
    SNLS_TRY(
        snls_tensor_require(ctx, "flow_warp", "out", out, image->ndim, image->shape, "that of image", SNLS_ROLE_OUT));
    SNLS_REQUIRE(ctx, image->shape[0] == flow->shape[0] && image->shape[1] == flow->shape[1], SNLS_ERR_SHAPE,
                 "flow_warp: image and flow differ in size");
    const int64_t channels = image->ndim == 3 ? image->shape[2] : 1;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t y = 0; y < image->shape[0]; y++)
        for (int64_t x = 0; x < image->shape[1]; x++)
            for (int64_t c = 0; c < channels; c++)
                snls_store(out, y * out->stride[0] + x * out->stride[1] + (out->ndim == 3 ? c * out->stride[2] : 0),
                           read_bilinear(image, (double)y + at2(flow, y, x, 1), (double)x + at2(flow, y, x, 0), c));
    return SNLS_OK;
}

SnlsStatus snls_flow_error(SnlsContext *ctx, const SnlsTensor *flow, const SnlsTensor *truth, double *error)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_REQUIRE(ctx, flow && truth && error, SNLS_ERR_ARG, "flow_error: an argument is missing (NULL)");
    SNLS_TRY(snls_flow_check_field(ctx, "flow_error", "flow", flow, false));
    SNLS_TRY(snls_flow_check_field(ctx, "flow_error", "truth", truth, false));
    SNLS_REQUIRE(ctx, flow->shape[0] == truth->shape[0] && flow->shape[1] == truth->shape[1], SNLS_ERR_SHAPE,
                 "flow_error: flow and truth differ in size");
    double sum = 0, count = 0;
    for (int64_t y = 0; y < flow->shape[0]; y++)
        for (int64_t x = 0; x < flow->shape[1]; x++) {
            const double u = at2(truth, y, x, 0), v = at2(truth, y, x, 1);
            if (!(fabs(u) < 1e9 && fabs(v) < 1e9)) continue;
            sum += hypot(at2(flow, y, x, 0) - u, at2(flow, y, x, 1) - v);
            count++;
        }
    *error = count > 0 ? sum / count : NAN;
    return SNLS_OK;
}
