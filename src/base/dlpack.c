/* dlpack.c: views of DLPack tensors. The structs are our own declarations of the published ABI (DLPack 1.x and the
 * older unversioned form), so that no header of another project is needed. */
#include "base/tensor.h"

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };                /* DLDeviceType */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4 };     /* DLDataTypeCode */
enum { DL_FLAG_READ_ONLY = 1 };

typedef struct DlTensor {
    void     *data;
    struct { int32_t type, id; } device;
    int32_t   ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t  *shape;
    int64_t  *strides; /* elements; NULL = C order */
    uint64_t  byte_offset;
} DlTensor;

struct DLManagedTensor {
    DlTensor tensor;
    void    *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    struct { uint32_t major, minor; } version;
    void    *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DlTensor tensor;
};

static int32_t dtype_of(uint8_t code, uint8_t bits)
{
    if (code == DL_FLOAT) return bits == 32 ? SNLS_F32 : bits == 64 ? SNLS_F64 : bits == 16 ? SNLS_F16 : -1;
    if (code == DL_BFLOAT) return bits == 16 ? SNLS_BF16 : -1;
    if (code == DL_INT) return bits == 32 ? SNLS_I32 : -1;
    if (code == DL_UINT) return bits == 8 ? SNLS_U8 : -1;
    return -1;
}

static SnlsStatus view_of(SnlsContext *ctx, SnlsTensor *view, const DlTensor *src)
{
    SNLS_REQUIRE(ctx, src->ndim >= 0 && src->ndim <= SNLS_MAX_DIM, SNLS_ERR_SHAPE, "dlpack: the tensor has %d axes, at most %d are taken",
                 (int)src->ndim, SNLS_MAX_DIM);
    const int32_t dtype = dtype_of(src->dtype.code, src->dtype.bits);
    SNLS_REQUIRE(ctx, dtype >= 0 && src->dtype.lanes == 1, SNLS_ERR_UNSUPPORTED,
                 "dlpack: element type with code %d, %d bits, %d lanes, must be f32, f64, f16, bf16, i32 or u8 in one lane",
                 src->dtype.code, src->dtype.bits, src->dtype.lanes);
    const int32_t type = src->device.type;
    SNLS_REQUIRE(ctx, type == DL_CPU || type == DL_CUDA || type == DL_CUDA_HOST, SNLS_ERR_UNSUPPORTED,
                 "dlpack: device type %d, must be 1 (CPU), 2 (CUDA) or 3 (CUDA host)", (int)type);
    SNLS_REQUIRE(ctx, src->shape || src->ndim == 0, SNLS_ERR_ARG, "dlpack: the tensor has no shape");
    SnlsTensor t = {.dtype = dtype, .device = type == DL_CUDA ? SNLS_DEVICE_CUDA : SNLS_DEVICE_CPU,
                    .device_id = type == DL_CUDA ? src->device.id : 0, .ndim = src->ndim};
    for (int32_t i = 0; i < t.ndim; i++) t.shape[i] = src->shape[i];
    const int64_t elements = snls_tensor_elements(&t);
    SNLS_REQUIRE(ctx, elements >= 0, SNLS_ERR_SHAPE, "dlpack: the tensor's shape is negative or overflows");
    snls_tensor_contiguous(&t);
    for (int32_t i = 0; src->strides && i < t.ndim; i++) t.stride[i] = src->strides[i];
    SNLS_REQUIRE(ctx, src->data || elements == 0, SNLS_ERR_ARG, "dlpack: the tensor has no data");
    t.data = src->data ? (char *)src->data + src->byte_offset : NULL;
    *view = t;
    return SNLS_OK;
}

SnlsStatus snls_tensor_from_dlpack(SnlsContext *ctx, SnlsTensor *view, const struct DLManagedTensorVersioned *src, int32_t writable)
{
    SNLS_REQUIRE(ctx, view && src, SNLS_ERR_ARG, "dlpack: view and src must be given");
    SNLS_REQUIRE(ctx, src->version.major == 1, SNLS_ERR_UNSUPPORTED, "dlpack: version %u.%u, must be 1.x",
                 (unsigned)src->version.major, (unsigned)src->version.minor);
    SNLS_REQUIRE(ctx, !writable || !(src->flags & DL_FLAG_READ_ONLY), SNLS_ERR_ARG, "dlpack: the tensor is read-only");
    return view_of(ctx, view, &src->tensor);
}

SnlsStatus snls_tensor_from_dlpack_unversioned(SnlsContext *ctx, SnlsTensor *view, const struct DLManagedTensor *src)
{
    SNLS_REQUIRE(ctx, view && src, SNLS_ERR_ARG, "dlpack: view and src must be given");
    return view_of(ctx, view, &src->tensor);
}
