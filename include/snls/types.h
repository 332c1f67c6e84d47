/* types.h: status values, element types, tensor views, version, DLPack. Needs nothing else of snls. */
#ifndef SNLS_TYPES_H
#define SNLS_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#  define SNLS_API
#elif defined(__GNUC__)
#  define SNLS_API __attribute__((visibility("default")))
#else
#  define SNLS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The API version changes when a struct or a function of these headers changes in a way that a caller compiled
 * against the old header would notice. Bindings compare it at load time. */
#define SNLS_VERSION_MAJOR 0
#define SNLS_VERSION_MINOR 1
#define SNLS_VERSION_PATCH 0
#define SNLS_VERSION_DATE "2026-11-15" /* of that version; manual pages bear it */
#define SNLS_API_VERSION 0x000100 /* 0x00XXYYZZ */

SNLS_API const char *snls_version(void);     /* "0.1.0"; static */
SNLS_API int32_t     snls_api_version(void); /* SNLS_API_VERSION of the library, not of the header */

/* Values are part of the ABI: added, never changed. A status >= 0 is no error. */
typedef enum SnlsStatus {
    SNLS_OK = 0,
    SNLS_END = 1,             /* no further frame */
    SNLS_UNCOVERED = 2,       /* done, but some output pixels lie under no query patch and are 0 (aggregation) */
    SNLS_ERR_ARG = -1,        /* a pointer or a parameter is out of its range, or two parameters conflict */
    SNLS_ERR_SHAPE = -2,      /* shapes, element types or devices do not agree */
    SNLS_ERR_MEMORY = -3,     /* an allocation failed or would pass a limit */
    SNLS_ERR_UNSUPPORTED = -4,/* valid, but this backend (or this build) cannot do it */
    SNLS_ERR_DEVICE = -5,     /* the device or its driver failed or is absent */
    SNLS_ERR_IO = -6,         /* a file could not be opened, read or written */
    SNLS_ERR_FORMAT = -7      /* a file's content is malformed */
} SnlsStatus;

/* A few words for a status ("out of memory"); static. The sentence about a failed call is snls_error(ctx). */
SNLS_API const char *snls_status_text(SnlsStatus status);

typedef enum SnlsDtype {
    SNLS_F32 = 0,
    SNLS_F64 = 1,
    SNLS_F16 = 2,  /* IEEE binary16 */
    SNLS_BF16 = 3, /* upper half of a binary32 */
    SNLS_I32 = 4,  /* candidate numbers */
    SNLS_U8 = 5    /* files and frames only; no operator takes it */
} SnlsDtype;

SNLS_API int64_t     snls_dtype_size(SnlsDtype dtype); /* bytes; 0 for an unknown value */
SNLS_API const char *snls_dtype_name(SnlsDtype dtype); /* "f32"; "?" for an unknown value */

typedef enum SnlsDeviceType { SNLS_DEVICE_CPU = 0, SNLS_DEVICE_CUDA = 1 } SnlsDeviceType;

#define SNLS_MAX_DIM 8

/* A strided view of memory that somebody else owns. Copied by value, frees nothing.
 * Strides count elements, may be negative, and may be 0 in an input (a broadcast axis).
 * A view whose data is NULL means "not given" where an operator says that a tensor is optional. */
typedef struct SnlsTensor {
    void    *data;
    int32_t  dtype;     /* SnlsDtype */
    int32_t  device;    /* SnlsDeviceType */
    int32_t  device_id;
    int32_t  ndim;
    int64_t  shape[SNLS_MAX_DIM];
    int64_t  stride[SNLS_MAX_DIM];
} SnlsTensor;

/* A contiguous (C order) view of CPU memory. ndim outside 0..SNLS_MAX_DIM gives a view without data.
 * For PyTorch's BTCHW order make the contiguous view, then snls_tensor_permute(&t, (int32_t[]){0, 1, 3, 4, 2}). */
SNLS_API SnlsTensor snls_tensor(void *data, SnlsDtype dtype, int32_t ndim, const int64_t *shape);

/* Reorders the axes: new axis i is old axis order[i]. SNLS_ERR_ARG, view unchanged, where order is no permutation. */
SNLS_API SnlsStatus snls_tensor_permute(SnlsTensor *view, const int32_t *order);

SNLS_API int64_t snls_tensor_elements(const SnlsTensor *view); /* product of the shape; -1 when it overflows or is negative */

/* DLPack (https://dmlc.github.io/dlpack). The two structs are only named here: include dlpack.h yourself, before or
 * after this header. The tensor is lent: the view is good as long as the caller keeps src alive, and src's deleter is
 * never called. NULL strides and byte_offset are resolved. writable != 0 refuses a tensor flagged read-only.
 * ctx may be NULL; otherwise a failure leaves its sentence there. */
struct SnlsContext;
struct DLManagedTensorVersioned;
struct DLManagedTensor;
SNLS_API SnlsStatus snls_tensor_from_dlpack(struct SnlsContext *ctx, SnlsTensor *view,
                                            const struct DLManagedTensorVersioned *src, int32_t writable);
SNLS_API SnlsStatus snls_tensor_from_dlpack_unversioned(struct SnlsContext *ctx, SnlsTensor *view,
                                                        const struct DLManagedTensor *src);

#ifdef __cplusplus
}
#endif
#endif
