/* fuzz_safetensors.c: any bytes as a safetensors file. What is taken must lie inside the file and add up to it. */
#include <snls/snls.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void must(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "fuzz_safetensors: %s\n", what);
    abort();
}

static int64_t touch(const SnlsNamedTensor *t)
{
    static volatile unsigned char sink;
    unsigned char sum = (unsigned char)strlen(t->name);
    if (!t->tensor.data) return 0;
    const int64_t bytes = snls_tensor_elements(&t->tensor) * snls_dtype_size((SnlsDtype)t->tensor.dtype);
    for (int64_t i = 0; i < bytes; i++) sum ^= ((const unsigned char *)t->tensor.data)[i]; /* all of it is there */
    sink = sum;
    (void)sink;
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static SnlsContext *ctx;
    SnlsSafetensors file;
    int64_t total = 0;
    if (!ctx) must(snls_open(&ctx, &(SnlsContextParams){ .backend = "ref", .threads = 1 }) == SNLS_OK, "open");
    const SnlsStatus status = snls_safetensors_parse(ctx, bytes, size, &file);
    if (status < 0) {
        must(!file.memory && snls_error(ctx)[0], "a failed parse holds memory or has no sentence");
        must(status == SNLS_ERR_FORMAT || status == SNLS_ERR_UNSUPPORTED || status == SNLS_ERR_ARG, "another status");
        return 0;
    }
    for (int64_t i = 0; i < file.count; i++) {
        must(snls_safetensors_find(&file, file.tensors[i].name) == &file.tensors[i].tensor, "a name twice");
        total += touch(&file.tensors[i]);
    }
    for (int64_t i = 0; i < file.metadata_count; i++) must(snls_safetensors_metadata(&file, file.metadata[2 * i]) != NULL, "metadata that are not found");
    must(total <= (int64_t)size, "more data than the file holds");
    snls_safetensors_free(ctx, &file);
    return 0;
}
