/* test_base.c: what stands beside the operators: contexts, views, DLPack, option tables, and calls that conflict or are empty. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "spec.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- DLPack: the published ABI, declared here as a caller without its header would ---- */

typedef struct DlTensor {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DlTensor;
struct DLManagedTensor { DlTensor tensor; void *manager_ctx; void (*deleter)(struct DLManagedTensor *); };
struct DLManagedTensorVersioned {
    struct { uint32_t major, minor; } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    DlTensor tensor;
};

static float memory[64];
static int64_t shape_of[] = {2, 3, 4}, strides_of[] = {16, 4, 1};

static void never(struct DLManagedTensorVersioned *self)
{
    (void)self;
    (void)CHECK(false, "the deleter of a lent tensor was called");
}

static struct DLManagedTensorVersioned good_dlpack(void)
{
    return (struct DLManagedTensorVersioned){.version = {1, 0}, .deleter = never,
        .tensor = {.data = memory, .device = {1, 0}, .ndim = 3, .dtype = {2, 32, 1}, .shape = shape_of, .strides = strides_of}};
}

static void check_dlpack(SnlsContext *ctx, const struct DLManagedTensorVersioned *m, int32_t writable, SnlsStatus want, const char *what)
{
    SnlsTensor view, untouched;
    memset(&view, 0x5a, sizeof view);
    untouched = view;
    const SnlsStatus status = snls_tensor_from_dlpack(ctx, &view, m, writable);
    CHECK(status == want, "dlpack, %s: status %d, expected %d", what, (int)status, (int)want);
    if (status < 0) CHECK(!memcmp(&view, &untouched, sizeof view) && *snls_error(ctx), "dlpack, %s: the view was written to", what);
    const struct DLManagedTensor old = {.tensor = m->tensor};
    if (m->version.major == 1 && !writable)
        CHECK(snls_tensor_from_dlpack_unversioned(NULL, &view, &old) == want, "dlpack, %s: the unversioned form differs", what);
}

static void dlpack_good(SnlsContext *ctx)
{
    struct DLManagedTensorVersioned m = good_dlpack();
    SnlsTensor v;
    CHECK(snls_tensor_from_dlpack(ctx, &v, &m, 1) == SNLS_OK && v.data == memory && v.ndim == 3 && v.shape[1] == 3 && v.stride[0] == 16 && v.dtype == SNLS_F32 &&
              v.device == SNLS_DEVICE_CPU, "a plain tensor: %s", snls_error(ctx));
    m.tensor.strides = NULL;
    m.tensor.byte_offset = 8;
    CHECK(snls_tensor_from_dlpack(ctx, &v, &m, 0) == SNLS_OK && v.data == memory + 2 && v.stride[0] == 12 && v.stride[1] == 4 && v.stride[2] == 1,
          "NULL strides and byte_offset 8");
    static const struct { uint8_t code, bits; int32_t dtype; } types[] = {{2, 32, SNLS_F32}, {2, 64, SNLS_F64}, {2, 16, SNLS_F16}, {4, 16, SNLS_BF16}, {0, 32, SNLS_I32}, {1, 8, SNLS_U8}};
    for (int i = 0; i < 6; i++) {
        m = good_dlpack();
        m.tensor.dtype.code = types[i].code;
        m.tensor.dtype.bits = types[i].bits;
        CHECK(snls_tensor_from_dlpack(ctx, &v, &m, 0) == SNLS_OK && v.dtype == types[i].dtype, "type code %d, %d bits", types[i].code, types[i].bits);
    }
    m = good_dlpack();
    m.version.minor = 99;
    m.flags = 2; /* a flag of a later minor version */
    check_dlpack(ctx, &m, 1, SNLS_OK, "version 1.99");
    m.flags = 1;
    check_dlpack(ctx, &m, 0, SNLS_OK, "read-only, to be read");
    m.tensor.device.type = 2;
    m.tensor.device.id = 3;
    CHECK(snls_tensor_from_dlpack(ctx, &v, &m, 0) == SNLS_OK && v.device == SNLS_DEVICE_CUDA && v.device_id == 3, "a CUDA tensor");
    m.tensor.ndim = 0;
    m.tensor.shape = m.tensor.strides = NULL;
    check_dlpack(ctx, &m, 0, SNLS_OK, "a scalar");
}

static void dlpack_bad(SnlsContext *ctx)
{
    struct DLManagedTensorVersioned m = good_dlpack();
    SnlsTensor v;
    CHECK(snls_tensor_from_dlpack(ctx, NULL, &m, 0) == SNLS_ERR_ARG && snls_tensor_from_dlpack(ctx, &v, NULL, 0) == SNLS_ERR_ARG &&
              snls_tensor_from_dlpack_unversioned(ctx, &v, NULL) == SNLS_ERR_ARG && snls_tensor_from_dlpack(NULL, NULL, NULL, 0) == SNLS_ERR_ARG, "NULL was taken");
    m.flags = 1;
    check_dlpack(ctx, &m, 1, SNLS_ERR_ARG, "read-only, to be written");
    m = good_dlpack();
    m.version.major = 2;
    check_dlpack(ctx, &m, 0, SNLS_ERR_UNSUPPORTED, "version 2");
    static const int32_t ranks[] = {-1, 9, INT_MAX, INT_MIN};
    for (int i = 0; i < 4; i++) {
        m = good_dlpack();
        m.tensor.ndim = ranks[i];
        check_dlpack(ctx, &m, 0, SNLS_ERR_SHAPE, "bad ndim");
    }
    static const struct { uint8_t code, bits; uint16_t lanes; } types[] = {{2, 32, 4}, {2, 32, 0}, {2, 8, 1}, {0, 64, 1}, {1, 32, 1}, {4, 32, 1}, {3, 32, 1}, {9, 32, 1}, {5, 64, 1}};
    for (int i = 0; i < 9; i++) {
        m = good_dlpack();
        m.tensor.dtype.code = types[i].code;
        m.tensor.dtype.bits = types[i].bits;
        m.tensor.dtype.lanes = types[i].lanes;
        check_dlpack(ctx, &m, 0, SNLS_ERR_UNSUPPORTED, "bad type");
    }
    static const int32_t devices[] = {0, 4, 7, 8, 10, 14, -1};
    for (int i = 0; i < 7; i++) {
        m = good_dlpack();
        m.tensor.device.type = devices[i];
        check_dlpack(ctx, &m, 0, SNLS_ERR_UNSUPPORTED, "another device");
    }
    m = good_dlpack();
    m.tensor.shape = NULL;
    check_dlpack(ctx, &m, 0, SNLS_ERR_ARG, "no shape");
    m = good_dlpack();
    m.tensor.data = NULL;
    check_dlpack(ctx, &m, 0, SNLS_ERR_ARG, "no data");
    int64_t huge[3] = {INT64_MAX, 2, 2}, negative[3] = {2, -3, 4};
    m = good_dlpack();
    m.tensor.shape = huge;
    check_dlpack(ctx, &m, 0, SNLS_ERR_SHAPE, "a shape that overflows");
    m.tensor.shape = negative;
    check_dlpack(ctx, &m, 0, SNLS_ERR_SHAPE, "a negative length");
}

/* ---- views ---- */

static void views(void)
{
    const int64_t shape[9] = {2, 3, 4, 5, 6, 7, 8, 9, 10}, overflow[3] = {INT64_MAX, 3, 1}, negative[2] = {3, -1}, zero[3] = {0, 3, 4};
    SnlsTensor t = snls_tensor(memory, SNLS_F32, 3, shape);
    CHECK(t.data == memory && t.ndim == 3 && t.stride[0] == 12 && t.stride[1] == 4 && t.stride[2] == 1 && snls_tensor_elements(&t) == 24, "a plain view");
    CHECK(!snls_tensor(memory, SNLS_F32, 9, shape).data && !snls_tensor(memory, SNLS_F32, -1, shape).data && !snls_tensor(memory, SNLS_F32, 2, NULL).data,
          "a view of impossible rank has data");
    const int32_t order[3] = {2, 0, 1}, twice[3] = {0, 0, 1}, beyond[3] = {0, 1, 3}, below[3] = {0, 1, -1};
    const SnlsTensor before = t;
    CHECK(snls_tensor_permute(&t, twice) == SNLS_ERR_ARG && snls_tensor_permute(&t, beyond) == SNLS_ERR_ARG && snls_tensor_permute(&t, below) == SNLS_ERR_ARG &&
              !memcmp(&t, &before, sizeof t), "no permutation, but the view changed");
    CHECK(snls_tensor_permute(NULL, order) == SNLS_ERR_ARG && snls_tensor_permute(&t, NULL) == SNLS_ERR_ARG, "NULL was taken");
    CHECK(snls_tensor_permute(&t, order) == SNLS_OK && t.shape[0] == 4 && t.stride[0] == 1 && t.shape[1] == 2 && t.stride[1] == 12 && t.stride[2] == 4, "permuted");
    t = snls_tensor(NULL, SNLS_F32, 3, overflow);
    CHECK(snls_tensor_elements(&t) == -1, "an overflow has %lld elements", (long long)snls_tensor_elements(&t));
    t = snls_tensor(NULL, SNLS_F32, 2, negative);
    CHECK(snls_tensor_elements(&t) == -1 && snls_tensor_elements(NULL) == -1, "a negative length");
    t = snls_tensor(NULL, SNLS_F32, 3, zero);
    CHECK(snls_tensor_elements(&t) == 0, "no elements");
    for (int i = -2; i < 9; i++)
        CHECK((snls_dtype_size((SnlsDtype)i) > 0) == (i >= 0 && i <= SNLS_U8) && *snls_dtype_name((SnlsDtype)i), "dtype %d", i);
    for (int i = -9; i < 5; i++) CHECK(snls_status_text((SnlsStatus)i) && *snls_status_text((SnlsStatus)i), "status %d has no text", i);
    CHECK(snls_api_version() == SNLS_API_VERSION && *snls_version(), "version");
}

/* ---- contexts ---- */

static void *some_alloc(size_t n, void *opaque) { (void)opaque; return malloc(n); }

static void check_open(const SnlsContextParams *given, SnlsStatus want, const char *what)
{
    char said[200] = "";
    SnlsContextParams p = *given;
    SnlsContext *ctx = (SnlsContext *)(void *)memory;
    p.error_text = said;
    p.error_size = sizeof said;
    const SnlsStatus status = snls_open(&ctx, &p);
    CHECK(status == want, "open, %s: status %d, expected %d", what, (int)status, (int)want);
    if (want < 0) CHECK(!ctx && !strncmp(said, "open: ", 6), "open, %s: \"%s\"", what, said);
    snls_close(&ctx);
}

static void contexts(void)
{
    SnlsContextParams p;
    snls_context_defaults(&p);
    check_open(&p, SNLS_OK, "defaults");
    CHECK(snls_open(NULL, NULL) == SNLS_ERR_ARG, "open without a place for the context");
    SnlsContext *ctx = NULL;
    CHECK(snls_open(&ctx, NULL) == SNLS_OK && snls_threads(ctx) >= 1 && !strcmp(snls_backend_name(ctx), "cpu"), "open without params");
    CHECK(snls_cpu_level(ctx) >= SNLS_CPU_C && snls_cpu_level(ctx) <= snls_cpu_level_max(), "level %d", (int)snls_cpu_level(ctx));
    CHECK(snls_scratch_bytes(ctx) == 0 && !*snls_error(ctx), "a new context has scratch or an error");
    snls_scratch_release(ctx);
    snls_close(&ctx);
    snls_close(&ctx);
    snls_close(NULL);
    snls_scratch_release(NULL);
    CHECK(!ctx && snls_error(NULL) && snls_backend_name(NULL) && snls_threads(NULL) == 0 && snls_scratch_bytes(NULL) == 0 && snls_scratch_captured(NULL) == 0 && snls_scratch_peak(NULL) == 0, "NULL contexts");
    p.backend = "gpu"; check_open(&p, SNLS_ERR_ARG, "an unknown backend");
    p.backend = ""; check_open(&p, SNLS_ERR_ARG, "an empty backend");
    p.backend = "ref"; check_open(&p, SNLS_OK, "ref");
    p.threads = -1; check_open(&p, SNLS_ERR_ARG, "threads -1");
    p.threads = 1025; check_open(&p, SNLS_ERR_ARG, "more threads than a system may start");
    p.threads = INT_MAX; check_open(&p, SNLS_ERR_ARG, "two thousand million threads");
    p.threads = 1;
    p.cpu_level = 9; check_open(&p, SNLS_ERR_ARG, "cpu_level 9");
    p.cpu_level = -1; check_open(&p, SNLS_ERR_ARG, "cpu_level -1");
    p.cpu_level = 0;
    p.scratch_limit = -1; check_open(&p, SNLS_ERR_ARG, "scratch_limit -1");
    p.scratch_limit = 0;
    p.allocator.alloc = some_alloc; check_open(&p, SNLS_ERR_ARG, "half an allocator");
}

/* The environment lowers the level, and an unknown word is refused. */
static void device_memory(void)
{
    SnlsContext *ctx = NULL;
    char *bytes = NULL, want[64];
    CHECK(snls_open(&ctx, NULL) == SNLS_OK, "no context");
    CHECK(snls_device_alloc(ctx, (void **)&bytes, sizeof want) == SNLS_OK, "%s", snls_error(ctx));
    memset(bytes, 7, sizeof want);
    memset(want, 7, sizeof want);
    memset(want + 3, 0, 41);
    CHECK(snls_device_zero(ctx, bytes + 3, 41) == SNLS_OK && !memcmp(bytes, want, sizeof want), "zeros elsewhere: %s", snls_error(ctx));
    CHECK(snls_device_zero(ctx, NULL, 0) == SNLS_OK, "no bytes: %s", snls_error(ctx));
    CHECK(snls_device_zero(ctx, bytes, -1) == SNLS_ERR_ARG && snls_device_zero(ctx, NULL, 1) == SNLS_ERR_ARG, "taken: bytes -1, or no memory");
    snls_device_free(ctx, bytes);
    CHECK(snls_device_alloc(ctx, (void **)&bytes, -1) == SNLS_ERR_ARG && !bytes, "bytes -1 leave a pointer");
    snls_close(&ctx);
}

static void environment(void)
{
    SnlsContextParams p;
    snls_context_defaults(&p);
    setenv("SNLS_CPU", "c", 1);
    SnlsContext *ctx = context_open("cpu", 0, 1);
    CHECK(snls_cpu_level(ctx) == SNLS_CPU_C, "SNLS_CPU=c gives %s", snls_cpu_level_name(snls_cpu_level(ctx)));
    snls_close(&ctx);
    setenv("SNLS_CPU", "sse9", 1);
    check_open(&p, SNLS_ERR_ARG, "SNLS_CPU=sse9");
    unsetenv("SNLS_CPU");
}

/* ---- option tables ---- */

static void check_option(const char *op, const SnlsOption *o)
{
    char text[64], why[200];
    SnlsSearchParams before, params; /* the largest of them */
    memset(&params, 0, sizeof params);
    CHECK(o->help && *o->help && o->min <= o->def && o->def <= o->max, "%s %s: table entry", op, o->name);
    const double values[] = {o->def, o->min, o->max, o->type == SNLS_OPTION_REAL ? 0.1 : o->min + 1};
    for (int i = 0; i < 4; i++) {
        if (o->type == SNLS_OPTION_ENUM) snprintf(text, sizeof text, "%s", values[i] <= o->max ? o->names[(int)values[i]] : o->names[0]);
        else snprintf(text, sizeof text, "%.17g", values[i]);
        char again[64];
        CHECK(snls_option_parse(o, &params, text, why, sizeof why) == SNLS_OK, "%s %s: %s is refused: %s", op, o->name, text, why);
        snls_option_format(o, &params, again, sizeof again);
        before = params;
        CHECK(snls_option_parse(o, &params, again, NULL, 0) == SNLS_OK && !memcmp(&before, &params, sizeof params), "%s %s: %s comes back as %s", op, o->name, text, again);
    }
    static const char *const bad[] = {"", " ", "x", "1x", " 1", "1 ", "--", "nan", "inf", "-inf", "1e999", "99999999999999999999", "-99999999999", "0x", "1,5", "l2prod", "\n"};
    for (int i = 0; i < 17; i++) {
        const double number = strtod(bad[i], NULL);
        if (o->type == SNLS_OPTION_REAL && strlen(bad[i]) > 10 && number >= o->min && number <= o->max) continue; /* a large real is no mistake */
        memset(why, 0, sizeof why);
        before = params;
        CHECK(snls_option_parse(o, &params, bad[i], why, sizeof why) == SNLS_ERR_ARG && !memcmp(&before, &params, sizeof params), "%s %s takes \"%s\"", op, o->name, bad[i]);
        CHECK(!strncmp(why, "is ", 3) && strstr(why, "must be") && why[strlen(why) - 1] != '.', "%s %s \"%s\": why is \"%s\"", op, o->name, bad[i], why);
    }
    char tiny[4] = "abc";
    snls_option_parse(o, &params, "x", tiny, sizeof tiny);
    snls_option_format(o, &params, tiny, sizeof tiny);
    CHECK(memchr(tiny, 0, sizeof tiny), "%s %s: a small buffer is not terminated", op, o->name);
}

static void options(void)
{
    char text[64];
    for (int i = 0; i < operator_count; i++) {
        const SnlsOption *table = snls_options(operators[i].name);
        if (!CHECK(table, "%s has no table", operators[i].name)) continue;
        for (const SnlsOption *o = table; o->name; o++) check_option(operators[i].name, o);
    }
    CHECK(!snls_options("nothing") && !snls_options("") && !snls_options(NULL), "a table of nothing");
    CHECK(snls_option_parse(NULL, text, "1", NULL, 0) == SNLS_ERR_ARG && snls_option_parse(snls_options("search"), NULL, "1", NULL, 0) == SNLS_ERR_ARG &&
              snls_option_parse(snls_options("search"), text, NULL, NULL, 0) == SNLS_ERR_ARG, "NULL was taken");
}

static bool one_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) return false;
    return true;
}

static void sentences(SnlsContext *ctx)
{
    SnlsTensor t;
    SnlsSearchParams params = {0};
    char why[200] = "";
    CHECK(snls_npy_read(ctx, "/none\n\033[31m\177\tsuch.npy", &t) == SNLS_ERR_IO && one_line(snls_error(ctx)) && strstr(snls_error(ctx), "/none??[31m??such.npy"), "a path: %s", snls_error(ctx));
    CHECK(snls_option_parse(snls_options("search"), &params, "1\n2", why, sizeof why) == SNLS_ERR_ARG && one_line(why) && strstr(why, "1?2"), "an option: %s", why);
    SnlsContext *none = NULL;
    const SnlsContextParams p = {.backend = "g\npu", .error_text = why, .error_size = sizeof why};
    CHECK(snls_open(&none, &p) == SNLS_ERR_ARG && one_line(why) && strstr(why, "g?pu"), "a backend: %s", why);
}

/* _defaults is what the table says, and everything beside its fields is zero. */
static void defaults(void)
{
    char text[64], want[64];
#define X(entry, Entry)                                                                                         \
    {                                                                                                           \
        Snls##Entry##Params got, back;                                                                          \
        memset(&got, 0x5a, sizeof got);                                                                         \
        snls_##entry##_defaults(&got);                                                                          \
        memset(&back, 0, sizeof back);                                                                          \
        for (const SnlsOption *o = snls_options(#entry); o->name; o++) {                                        \
            snls_option_format(o, &got, text, sizeof text);                                                     \
            if (o->type == SNLS_OPTION_ENUM) snprintf(want, sizeof want, "%s", o->names[(int)o->def]);          \
            else snprintf(want, sizeof want, "%.10g", o->def);                                                  \
            CHECK(!strcmp(text, want), "%s %s defaults to %s, the table says %s", #entry, o->name, text, want); \
            snls_option_parse(o, &back, want, NULL, 0);                                                         \
        }                                                                                                       \
        CHECK(!memcmp(&got, &back, sizeof got), "%s: defaults leave something beside the table", #entry);       \
    }
    SNLS_OPS(X)
#undef X
}

int main(void)
{
    SnlsContext *ctx = context_open("cpu", 0, 1);
    check_repeat("test_base");
    dlpack_good(ctx);
    dlpack_bad(ctx);
    views();
    contexts();
    device_memory();
    environment();
    options();
    sentences(ctx);
    defaults();
    snls_close(&ctx);
    return check_end();
}
