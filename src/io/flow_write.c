/* flow_write.c: optical flow to .flo and to KITTI's PNG. */
#include "base/tensor.h"
#include "io/array.h"
#include "io/file.h"
#include "io/image.h"
#include <math.h>
#include <snls/io.h>

static SnlsStatus check_flow(SnlsContext *ctx, const char *who, const char *path, const SnlsTensor *flow)
{
    SNLS_REQUIRE(ctx, path && flow, SNLS_ERR_ARG, "%s: path or flow is NULL", who);
    SNLS_TRY(snls_array_require(ctx, who, "flow", flow));
    SNLS_REQUIRE(ctx, snls_is_float(flow->dtype), SNLS_ERR_UNSUPPORTED, "%s: flow has element type %s", who,
                 snls_dtype_name((SnlsDtype)flow->dtype));
    SNLS_REQUIRE(ctx, snls_tensor_is_aligned(flow), SNLS_ERR_ARG, "%s: flow is not aligned to its elements", who);
    SNLS_REQUIRE(ctx, flow->ndim == 3 && flow->shape[2] == 2, SNLS_ERR_SHAPE, "%s: flow must be (H,W,2)", who);
    for (int i = 0; i < 2; i++)
        SNLS_REQUIRE(ctx, flow->shape[i] >= 1 && flow->shape[i] <= SNLS_IMAGE_SIDE_MAX, SNLS_ERR_SHAPE,
                     "%s: flow is %lld x %lld pixels, must be 1 to %d each way", who, (long long)flow->shape[1],
                     (long long)flow->shape[0], SNLS_IMAGE_SIDE_MAX);
    return SNLS_OK;
}

/* Both components of a pixel; false: unknown. */
static bool flow_at(const SnlsTensor *flow, int64_t y, int64_t x, double *value)
{
    for (int c = 0; c < 2; c++)
        value[c] = snls_load(flow, y * flow->stride[0] + x * flow->stride[1] + c * flow->stride[2]);
    return fabs(value[0]) < 1e9 && fabs(value[1]) < 1e9;
}

static void put32(unsigned char *to, uint32_t bits)
{
    for (int i = 0; i < 4; i++) to[i] = (unsigned char)(bits >> 8 * i);
}

static void flo_row(const SnlsTensor *flow, int64_t y, unsigned char *row)
{
    for (int64_t x = 0; x < flow->shape[1]; x++) {
        double value[2];
        const bool known = flow_at(flow, y, x, value);
        for (int c = 0; c < 2; c++) put32(row + 8 * x + 4 * c, snls_float_bits(known ? (float)value[c] : 1e10f));
    }
}

SnlsStatus snls_flo_write(SnlsContext *ctx, const char *path, const SnlsTensor *flow)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_TRY(check_flow(ctx, "flo_write", path, flow));
    unsigned char head[12] = "PIEH", *row = snls_mem_alloc(&ctx->allocator, 8 * flow->shape[1]);
    SNLS_REQUIRE(ctx, row, SNLS_ERR_MEMORY, "%s: out of memory for a row", snls_io_name(path).text);
    put32(head + 4, (uint32_t)flow->shape[1]);
    put32(head + 8, (uint32_t)flow->shape[0]);
    int fd;
    SnlsStatus status = snls_io_create(ctx, path, &fd);
    if (status >= 0) {
        status = snls_io_write(ctx, path, fd, head, sizeof head);
        for (int64_t y = 0; status >= 0 && y < flow->shape[0]; y++) {
            flo_row(flow, y, row);
            status = snls_io_write(ctx, path, fd, row, 8 * flow->shape[1]);
        }
        status = snls_io_finish(ctx, path, fd, status);
    }
    snls_mem_free(&ctx->allocator, row);
    return status;
}

static double kitti_code(double value) { return nearbyint(64 * value + 32768); }

/* Before the file is opened: one that is there stays where the flow is refused. */
static SnlsStatus check_range(SnlsContext *ctx, const SnlsTensor *flow)
{
    for (int64_t i = 0; i < flow->shape[0] * flow->shape[1]; i++) {
        double value[2];
        const int64_t y = i / flow->shape[1], x = i % flow->shape[1];
        const bool known = flow_at(flow, y, x, value);
        for (int c = 0; known && c < 2; c++)
            SNLS_REQUIRE(ctx, kitti_code(value[c]) >= 0 && kitti_code(value[c]) <= 65535, SNLS_ERR_ARG,
                         "kitti_write: flow at (%lld,%lld) is %g, must be -512 to 511.98", (long long)x, (long long)y, value[c]);
    }
    return SNLS_OK;
}

static SnlsStatus kitti_row(SnlsContext *ctx, void *opaque, int64_t y, uint8_t *row)
{
    const SnlsTensor *flow = opaque;
    (void)ctx;
    for (int64_t x = 0; x < flow->shape[1]; x++) {
        double value[2];
        const bool known = flow_at(flow, y, x, value);
        for (int c = 0; c < 3; c++) {
            const uint32_t code = c == 2 ? known : known ? (uint32_t)kitti_code(value[c]) : 0;
            row[6 * x + 2 * c] = (uint8_t)(code >> 8);
            row[6 * x + 2 * c + 1] = (uint8_t)(code & 255);
        }
    }
    return SNLS_OK;
}

SnlsStatus snls_kitti_write(SnlsContext *ctx, const char *path, const SnlsTensor *flow)
{
    if (!ctx) return SNLS_ERR_ARG;
    SNLS_TRY(check_flow(ctx, "kitti_write", path, flow));
    SNLS_TRY(check_range(ctx, flow));
    SnlsTensor view = *flow;
    const SnlsPngOut out = { flow->shape[1], flow->shape[0], 3, 16, kitti_row, &view };
    return snls_png_out(ctx, path, &out);
}
