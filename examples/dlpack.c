/* dlpack.c: a tensor that another library owns, handed over as DLPack. Nothing is copied.
 * Programs that have dlpack.h include it; the few declarations below are the same ones, so that this file needs nothing. */
#include <snls/snls.h>
#include <stdio.h>

typedef struct {
    int32_t device_type, device_id;
} DLDevice; /* 1 = CPU */
typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType; /* code 2 = float */
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides; /* strides NULL: contiguous */
    uint64_t byte_offset;
} DLTensor;
struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};

enum { T = 2, C = 3, H = 8, W = 8 };

int main(void)
{
    static float frames[T * C * H * W], dist[T * H * W], offset[T * H * W * 3];
    for (int i = 0; i < T * C * H * W; i++) frames[i] = (float)(i * 31 % 17);
    int64_t shape[] = { 1, T, C, H, W }; /* PyTorch's order */
    const struct DLManagedTensor lent = { .dl_tensor = { frames, { 1, 0 }, 5, { 2, 32, 1 }, shape, NULL, 0 } };

    SnlsContext *ctx = NULL;
    SnlsTensor video;
    if (snls_open(&ctx, NULL) < 0) return 1;
    SnlsStatus status = snls_tensor_from_dlpack_unversioned(ctx, &video, &lent);
    if (status >= 0) status = snls_tensor_permute(&video, (int32_t[]){ 0, 1, 3, 4, 2 }); /* seen as (B,T,H,W,C) */

    SnlsSearch s = { .query = video, .key = video };
    snls_search_defaults(&s.params);
    s.params.exclude = SNLS_EXCLUDE_SELF; /* the best match other than the pixel itself */
    if (status >= 0) status = snls_search_shape(ctx, &s);
    s.dist.data = dist;
    s.offset.data = offset;
    if (status >= 0) status = snls_search_forward(ctx, &s);

    if (status < 0) fprintf(stderr, "%s\n", snls_error(ctx));
    else
        printf("pixel (0,0) of frame 0 looks most like the one at (%g,%g), distance %g\n", offset[1], offset[2],
               dist[0]);
    snls_close(&ctx);
    return status < 0;
}
