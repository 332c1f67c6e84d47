/* fuzz_image.c: any bytes as a picture, as .flo and as KITTI's flow. What is taken must be as large as it says. */
#include <snls/snls.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void must(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "fuzz_image: %s\n", what);
    abort();
}

typedef SnlsStatus (*Parse)(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *view);

static void try_parse(SnlsContext *ctx, Parse parse, const uint8_t *bytes, size_t size)
{
    SnlsTensor view;
    static volatile unsigned char sink;
    unsigned char sum = 0;
    const SnlsStatus status = parse(ctx, bytes, size, &view);
    if (status < 0) {
        must(!view.data && snls_error(ctx)[0], "a failed parse has data or no sentence");
        must(status == SNLS_ERR_FORMAT || status == SNLS_ERR_UNSUPPORTED || status == SNLS_ERR_ARG ||
                 status == SNLS_ERR_MEMORY,
             "another status");
        return;
    }
    must(view.ndim == 3 && view.shape[0] >= 1 && view.shape[1] >= 1 && view.shape[2] >= 1 && view.shape[2] <= 3,
         "an odd shape");
    const int64_t all = snls_tensor_elements(&view) * snls_dtype_size((SnlsDtype)view.dtype);
    for (int64_t i = 0; i < all; i++) sum ^= ((unsigned char *)view.data)[i]; /* all of it is there */
    sink = sum;
    (void)sink;
    snls_array_free(ctx, &view);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static SnlsContext *ctx;
    if (!ctx) must(snls_open(&ctx, &(SnlsContextParams){ .backend = "ref", .threads = 1 }) == SNLS_OK, "open");
    try_parse(ctx, snls_image_parse, bytes, size);
    try_parse(ctx, snls_flo_parse, bytes, size);
    try_parse(ctx, snls_kitti_parse, bytes, size);
    return 0;
}
