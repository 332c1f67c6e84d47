/* test_safetensors.c: named arrays in files: round trips, headers that are malformed or lie, files cut at every byte, failing
 * allocations. */
#define _POSIX_C_SOURCE 200809L /* getpid */
#include "faults.h"
#include "spec.h"
#include <errno.h>
#ifdef SNLS_HAVE_JANSSON
#include <jansson.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static SnlsContext *ctx;
static char path[128];

/* Length, header, data of that many bytes. */
static size_t make_file(unsigned char *file, const char *header, size_t data)
{
    const size_t length = strlen(header);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)(length >> 8 * i);
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < data; i++) file[8 + length + i] = (unsigned char)(i + 1);
    return 8 + length + data;
}

static void put_file(const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, size, f) == size, "cannot write %s", path);
    if (f) fclose(f);
}

/* The same verdict from a buffer and from a file; nothing held on failure. */
static void check_bytes(const void *bytes, size_t size, SnlsStatus want, const char *what)
{
    SnlsSafetensors file;
    void *exact = malloc(size ? size : 1); /* its own block, so that one byte too far is seen */
    memcpy(exact, bytes, size);
    put_file(bytes, size);
    for (int way = 0; way < 2; way++) {
        memset(&file, 0x5a, sizeof file);
        const SnlsStatus status = way ? snls_safetensors_read(ctx, path, &file) : snls_safetensors_parse(ctx, exact, size, &file);
        CHECK(status == want, "%s: says %d (%s), expected %d", what, (int)status, status < 0 ? snls_error(ctx) : "", (int)want);
        CHECK(status >= 0 || (!file.memory && !file.count && *snls_error(ctx) && !strchr(snls_error(ctx), '\n')), "%s: holds something after a failure", what);
        CHECK(status >= 0 || !way || strstr(snls_error(ctx), "snls_test_safetensors"), "%s: the sentence does not name the file: %s", what, snls_error(ctx));
        snls_safetensors_free(ctx, &file);
    }
    free(exact);
}

static void check_header(const char *header, size_t data, SnlsStatus want)
{
    static unsigned char file[8192];
    check_bytes(file, make_file(file, header, data), want, header);
}

static void good_headers(void)
{
    check_header("{}", 0, SNLS_OK);
    check_header("{}   ", 0, SNLS_OK);
    check_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24, SNLS_OK);
    check_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, SNLS_OK);
    check_header("{\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[4,8]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 8, SNLS_OK);
    check_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[0,0]},\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, SNLS_OK);
    check_header("{\"__metadata__\":{\"k\":\"v\",\"\":\"\"},\"a\":{\"data_offsets\":[0,8],\"shape\":[1,1,1,1,1,1,1,1],\"dtype\":\"F64\"}}", 8, SNLS_OK);
}

static void bad_headers(void)
{
    static const char *const text[] = {
        "", " {}", "[]", "{", "{}}", "{}x", "null", "{\"a\":1}", "{\"a\":{}}", "{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8.0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":{\"0\":0}}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", "{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", /* a gap at the end */
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", /* at the beginning */
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387906],\"data_offsets\":[0,8]}}", /* times 4 wraps round to 8 */
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551618],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9223372036854775807]}}",
        "{\"__metadata__\":3,\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"__metadata__\":{\"k\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) check_header(text[i], 8, SNLS_ERR_FORMAT);
    check_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":1}", 8, SNLS_ERR_FORMAT);
    CHECK(strstr(snls_error(ctx), "duplicate"), "a name that comes twice: %s", snls_error(ctx));
    check_header("{\"a\":\"\n\033[2J\"}", 8, SNLS_ERR_FORMAT); /* a sentence is one line, whatever the file holds */
    for (const char *c = snls_error(ctx); *c; c++) CHECK((unsigned char)*c >= ' ', "a sentence with byte %d", *c);
    check_header("{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, SNLS_ERR_UNSUPPORTED);
    check_header("{\"a\":{\"dtype\":\"F64\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,8]}}", 8, SNLS_ERR_UNSUPPORTED);
    check_header("{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 5, SNLS_ERR_UNSUPPORTED);
}

static void long_names(void)
{
    char name[SNLS_SAFETENSORS_NAME_MAX + 2], header[SNLS_SAFETENSORS_NAME_MAX + 128];
    for (int extra = 0; extra < 2; extra++) {
        memset(name, 'n', sizeof name);
        name[SNLS_SAFETENSORS_NAME_MAX + extra] = 0;
        snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", name);
        check_header(header, 8, extra ? SNLS_ERR_FORMAT : SNLS_OK);
    }
}

static void deep_json(void)
{
    static unsigned char file[100008];
    memset(file + 8, '[', 100000);
    memcpy(file + 8, "{\"a\":", 5);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)100000 >> 8 * i);
    check_bytes(file, sizeof file, SNLS_ERR_FORMAT, "lists in lists");
}

static void lying_lengths(void)
{
    static const uint64_t lengths[] = { 3, 100, 100000001, 0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffffff8, 0xffffffffffffffff };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        unsigned char file[10] = { [8] = '{', [9] = '}' };
        for (int b = 0; b < 8; b++) file[b] = (unsigned char)(lengths[i] >> 8 * b);
        check_bytes(file, sizeof file, SNLS_ERR_FORMAT, "a length that lies");
    }
}

static void cut_files(void)
{
    unsigned char file[256];
    const size_t size = make_file(file, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    for (size_t n = 0; n < size; n++) check_bytes(file, n, SNLS_ERR_FORMAT, "a cut file");
    file[size] = 1;
    check_bytes(file, size + 1, SNLS_ERR_FORMAT, "a byte too many");
}

/* What is written comes back: names, order, types, shapes, bytes, metadata. */
static void round_trip(uint64_t seed)
{
    Rng rng = { seed };
    SnlsNamedTensor list[6];
    char names[6][32];
    const char *metadata[] = { "architecture", "sm\xc3\xa5ll", "quote \"", "line\nbreak" };
    const int count = (int)rng_int(&rng, 0, 6);
    for (int i = 0; i < count; i++) {
        const int32_t types[] = { SNLS_F64, SNLS_F32, SNLS_I32, SNLS_BF16, SNLS_F16, SNLS_U8 }; /* falling size, so aligned */
        const int64_t shape[4] = { rng_int(&rng, 0, 4), rng_int(&rng, 1, 4), rng_int(&rng, 1, 3), 1 };
        snprintf(names[i], sizeof names[i], "block.%d.\"%c\\", i, (char)rng_int(&rng, 'a', 'z'));
        list[i] = (SnlsNamedTensor){ names[i], spec_tensor(types[i], (int32_t)rng_int(&rng, 0, 4), shape) };
        unsigned char *bytes = list[i].tensor.data;
        const int64_t size = snls_tensor_elements(&list[i].tensor) * snls_dtype_size((SnlsDtype)types[i]);
        for (int64_t b = 0; b < size; b++) bytes[b] = (unsigned char)rng_bits(&rng);
    }
    const SnlsSafetensors out = { .tensors = list, .count = count, .metadata = metadata, .metadata_count = rng_int(&rng, 0, 2) };
    SnlsSafetensors in;
    if (!CHECK(snls_safetensors_write(ctx, path, &out) >= 0 && snls_safetensors_read(ctx, path, &in) >= 0, "%s", snls_error(ctx))) return;
    CHECK(in.count == count && in.metadata_count == out.metadata_count, "another number of tensors or texts");
    for (int64_t i = 0; i < in.metadata_count; i++)
        CHECK(snls_safetensors_metadata(&in, metadata[2 * i]) && !strcmp(snls_safetensors_metadata(&in, metadata[2 * i]), metadata[2 * i + 1]), "another text");
    for (int i = 0; i < count; i++) {
        const SnlsTensor *got = snls_safetensors_find(&in, names[i]), *want = &list[i].tensor;
        if (!CHECK(got && got->dtype == want->dtype && got->ndim == want->ndim, "%s: missing or of another type", names[i])) continue;
        CHECK(!memcmp(got->shape, want->shape, sizeof(int64_t) * (size_t)want->ndim), "%s: another shape", names[i]);
        const size_t size = (size_t)(snls_tensor_elements(want) * snls_dtype_size((SnlsDtype)want->dtype));
        CHECK(snls_tensor_elements(got) == snls_tensor_elements(want) && !memcmp(got->data, want->data, size), "%s: other bytes", names[i]);
    }
    CHECK(!snls_safetensors_find(&in, "block") && !snls_safetensors_metadata(&in, "x"), "finds what is not there");
    snls_safetensors_free(ctx, &in);
    tensors_free();
}

static void bad_writes(void)
{
    SnlsTensor t = spec_tensor(SNLS_F32, SHAPE(2, 3)), turned = t;
    snls_tensor_permute(&turned, (int32_t[]){ 1, 0 });
    SnlsNamedTensor twice[] = { { "a", t }, { "a", t } }, loose = { "a", turned }, nameless = { "", t }, reserved = { "__metadata__", t }, odd = { "\xff", t };
    const struct { SnlsNamedTensor *list; int64_t count; } cases[] = { { twice, 2 }, { &loose, 1 }, { &nameless, 1 }, { &reserved, 1 }, { &odd, 1 } };
    unlink(path);
    for (int i = 0; i < 5; i++)
        CHECK(snls_safetensors_write(ctx, path, &(SnlsSafetensors){ .tensors = cases[i].list, .count = cases[i].count }) == SNLS_ERR_ARG, "case %d is written", i);
    const SnlsSafetensors lists[] = { { .count = 1 }, { .tensors = twice, .count = -1 }, { .metadata_count = 1 }, { .metadata = (const char *[]){ "a", "b" }, .metadata_count = -1 },
                                      { .metadata = (const char *[]){ "a", NULL }, .metadata_count = 1 }, { .metadata = (const char *[]){ NULL, "b" }, .metadata_count = 1 },
                                      { .metadata = (const char *[]){ "a", "b", "c", "d", "a", "b" }, .metadata_count = 3 } };
    for (int i = 0; i < 7; i++) CHECK(snls_safetensors_write(ctx, path, &lists[i]) == SNLS_ERR_ARG && *snls_error(ctx), "list %d is written", i);
    static char name[SNLS_SAFETENSORS_NAME_MAX + 2];
    memset(name, 'n', SNLS_SAFETENSORS_NAME_MAX + 1);
    CHECK(snls_safetensors_write(ctx, path, &(SnlsSafetensors){ .tensors = &(SnlsNamedTensor){ name, t }, .count = 1 }) == SNLS_ERR_ARG, "a name is written that cannot be read");
    CHECK(access(path, F_OK), "a refused write left a file");
    CHECK(snls_safetensors_write(ctx, "/nowhere/x", &(SnlsSafetensors){ 0 }) == SNLS_ERR_IO, "written to nowhere");
    CHECK(snls_safetensors_read(ctx, "/nowhere/x", &(SnlsSafetensors){ 0 }) == SNLS_ERR_IO, "read from nowhere");
    CHECK(snls_safetensors_read(ctx, "/", &(SnlsSafetensors){ 0 }) == SNLS_ERR_IO, "read a folder");
    CHECK(snls_safetensors_read(ctx, "/dev/null", &(SnlsSafetensors){ 0 }) == SNLS_ERR_IO, "read a device");
    tensors_free();
}

/* What a reader refuses is not written: data begin at multiples of their elements in whatever order they are given, and what is empty has no strides that matter. */
static void any_order(void)
{
    static const int32_t types[] = { SNLS_U8, SNLS_F32, SNLS_BF16, SNLS_U8, SNLS_F64, SNLS_I32, SNLS_F16, SNLS_F64 };
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    SnlsNamedTensor list[9];
    SnlsSafetensors in = { 0 };
    for (int i = 0; i < 8; i++) {
        list[i] = (SnlsNamedTensor){ names[i], spec_tensor(types[i], SHAPE(3)) };
        memset(list[i].tensor.data, i + 1, 3 * (size_t)snls_dtype_size((SnlsDtype)types[i]));
    }
    list[8] = (SnlsNamedTensor){ "empty", snls_tensor(NULL, SNLS_F32, SHAPE(3, 0)) };
    CHECK(snls_safetensors_write(ctx, path, &(SnlsSafetensors){ .tensors = list, .count = 9 }) == SNLS_OK && snls_safetensors_read(ctx, path, &in) == SNLS_OK, "%s", snls_error(ctx));
    for (int i = 0; in.count && i < 8; i++) {
        const SnlsTensor *t = snls_safetensors_find(&in, names[i]);
        if (CHECK(t && t->dtype == types[i] && t->shape[0] == 3, "%s is missing", names[i]))
            CHECK(!memcmp(t->data, list[i].tensor.data, 3 * (size_t)snls_dtype_size((SnlsDtype)types[i])), "%s: other bytes", names[i]);
    }
    const SnlsTensor *empty = snls_safetensors_find(&in, "empty");
    CHECK(empty && empty->ndim == 2 && empty->shape[0] == 3 && empty->shape[1] == 0, "an empty tensor");
    CHECK(in.count == 0 || snls_safetensors_write(ctx, path, &in) == SNLS_OK, "what was read is not written: %s", snls_error(ctx));
    snls_safetensors_free(ctx, &in);
    tensors_free();
}

#ifdef SNLS_HAVE_JANSSON
static int64_t json_made, json_fails_at;
static void *json_alloc(size_t bytes)
{
    if (json_made++ != json_fails_at) return malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

static CountedMemory counted;
static SnlsContext *poor_ctx;

/* One call, in which the n-th allocation fails, of the context or of the library that reads JSON. Whether it was reached. */
static bool header_fails_at(bool read, bool json, int64_t n)
{
    float values[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    SnlsNamedTensor list[] = { { "first", snls_tensor(values, SNLS_F32, SHAPE(2, 3)) }, { "second", snls_tensor(values, SNLS_F32, SHAPE(8)) } };
    const SnlsSafetensors out = { .tensors = list, .count = 2, .metadata = (const char *[]){ "key", "value" }, .metadata_count = 1 };
    SnlsSafetensors in = { 0 };
    json_made = 0;
    json_fails_at = json ? n : -1;
    counted.fail_at = json ? -1 : counted.made + n;
    const SnlsStatus status = read ? snls_safetensors_read(poor_ctx, path, &in) : snls_safetensors_write(poor_ctx, path, &out);
    const bool failed = json ? json_made > json_fails_at : counted.made > counted.fail_at;
    json_fails_at = counted.fail_at = -1;
    CHECK(failed ? status == SNLS_ERR_MEMORY && *snls_error(poor_ctx) : status == SNLS_OK, "%s %s, allocation %d fails: status %d (%s)", read ? "read" : "write", json ? "JSON" : "rest", (int)n, (int)status,
          snls_error(poor_ctx));
    if (status >= 0 && !read) CHECK(snls_safetensors_read(poor_ctx, path, &in) == SNLS_OK, "allocation %d of a write fails, then read: %s", (int)n, snls_error(poor_ctx));
    const SnlsTensor *t = snls_safetensors_find(&in, "first");
    if (status >= 0) CHECK(t && t->ndim == 2 && t->shape[1] == 3 && snls_safetensors_metadata(&in, "key"), "allocation %d fails: another tensor", (int)n);
    snls_safetensors_free(poor_ctx, &in);
    return failed;
}

/* A header has no memory: the call says so, and no file is written that says something else. */
static void no_memory_for_headers(void)
{
    counted = (CountedMemory){ .fail_at = -1 };
    if (!CHECK(open_counted(&counted, "ref", 1, &poor_ctx) == SNLS_OK, "open")) return;
    json_set_alloc_funcs(json_alloc, free);
    for (int way = 0; way < 4; way++)
        for (int64_t n = 0; header_fails_at(way / 2, way % 2, n); n++) continue;
    json_set_alloc_funcs(malloc, free);
    snls_close(&poor_ctx);
    CHECK(counted.live == 0, "%d blocks are left", (int)counted.live);
}
#endif

static int left;
static void *failing_alloc(size_t bytes, void *opaque) { return (void)opaque, left-- > 0 ? malloc(bytes) : NULL; }
static void plain_free(void *ptr, void *opaque) { (void)opaque; free(ptr); }

static void failing_allocations(void)
{
    SnlsContext *poor;
    SnlsSafetensors file;
    unsigned char bytes[256];
    left = 100;
    CHECK(snls_open(&poor, &(SnlsContextParams){ .backend = "ref", .allocator = { failing_alloc, plain_free, NULL } }) >= 0, "open");
    put_file(bytes, make_file(bytes, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8));
    for (int n = 0; n <= 3; n++) {
        left = n;
        const SnlsStatus status = snls_safetensors_read(poor, path, &file);
        CHECK(status == (n < 3 ? SNLS_ERR_MEMORY : SNLS_OK), "with %d allocations: %d", n, (int)status);
        snls_safetensors_free(poor, &file);
    }
    snls_close(&poor);
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    snprintf(path, sizeof path, "/tmp/snls_test_safetensors.%d", (int)getpid());
    if (snls_open(&ctx, &(SnlsContextParams){ .backend = "ref" }) < 0) return 1;
#ifndef SNLS_HAVE_JANSSON
    printf("skipped: no jansson\n");
    return 77;
#endif
    check_repeat("%s", argv[0]);
    good_headers();
    bad_headers();
    long_names();
    deep_json();
    lying_lengths();
    cut_files();
    bad_writes();
    any_order();
#ifdef SNLS_HAVE_JANSSON
    no_memory_for_headers();
#endif
    failing_allocations();
    for (uint64_t seed = first; seed < first + (argc > 1 ? 1 : 100); seed++) {
        check_repeat("%s %llu", argv[0], (unsigned long long)seed);
        round_trip(seed);
    }
    unlink(path);
    snls_close(&ctx);
    return check_end();
}
