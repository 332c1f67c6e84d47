/* fuzz_npy.c: any bytes as a .npy file. What is taken must be as large as it says and come back the same when written. */
#include <snls/snls.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void must(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "fuzz_npy: %s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static SnlsContext *ctx;
    unsigned char sum = 0;
    SnlsTensor view;
    if (!ctx) must(snls_open(&ctx, &(SnlsContextParams){.backend = "ref", .threads = 1}) == SNLS_OK, "open");
    const SnlsStatus status = snls_npy_parse(ctx, bytes, size, &view);
    if (status < 0) {
        must(!view.data && snls_error(ctx)[0], "a failed parse has data or no sentence");
        must(status == SNLS_ERR_FORMAT || status == SNLS_ERR_UNSUPPORTED || status == SNLS_ERR_ARG, "another status");
        return 0;
    }
    const int64_t elements = snls_tensor_elements(&view), each = snls_dtype_size((SnlsDtype)view.dtype);
    must(view.data && each > 0 && elements >= 0 && elements * each <= (int64_t)size, "an array larger than its file");
    for (int64_t i = 0; i < elements * each; i++) sum ^= ((unsigned char *)view.data)[i]; /* all of it is there */
    static volatile unsigned char sink;
    sink = sum;
    (void)sink;
    SnlsTensor copy;
    must(snls_array_alloc(ctx, &copy, SNLS_F64, view.ndim, view.shape) == SNLS_OK && snls_array_copy(ctx, &copy, &view) == SNLS_OK, "a copy");
    snls_array_free(ctx, &copy);
    snls_array_free(ctx, &view);
    return 0;
}
