/* test_array.c: arrays of a context: allocation, copies between types and layouts, pictures. */
#define _POSIX_C_SOURCE 200809L /* getpid */
#include "spec.h"
#include "base/half.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static SnlsContext *ctx;
static const int32_t dtypes[] = {SNLS_F32, SNLS_F64, SNLS_F16, SNLS_BF16, SNLS_U8};

/* What a value becomes in a type. */
static double stored(int32_t dtype, double x)
{
    switch (dtype) {
    case SNLS_F32: return (float)x;
    case SNLS_F16: return snls_f16_to_float(snls_float_to_f16((float)x));
    case SNLS_BF16: return snls_bf16_to_float(snls_float_to_bf16((float)x));
    case SNLS_U8: return isnan(x) ? 0 : fmin(255, fmax(0, nearbyint(x)));
    }
    return x;
}

static void copies(void)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        Rng rng = {seed};
        int64_t shape[SNLS_MAX_DIM];
        const int32_t ndim = (int32_t)rng_int(&rng, 0, 6), from_type = dtypes[rng_int(&rng, 0, 4)], to_type = dtypes[rng_int(&rng, 0, 4)];
        for (int i = 0; i < ndim; i++) shape[i] = rng_one_in(&rng, 20) ? 0 : rng_int(&rng, 1, 4);
        const SnlsTensor from = tensor_new(&rng, from_type, ndim, shape, LAYOUT_INPUT), to = tensor_new(&rng, to_type, ndim, shape, LAYOUT_OUTPUT);
        for (int64_t i = 0; i < tensor_count(&from); i++)
            tensor_set(&from, i, from_type == SNLS_U8 ? (double)rng_int(&rng, 0, 255) : RNG_PICK(&rng, rng_real(&rng, -300, 300), 0.5, 1.5, 2.5, 254.5, 255.5, -0.5, 1e9, -1e9, INFINITY, -INFINITY));
        tensor_mark(&from);
        check_repeat("test_array (copy %d)", (int)seed);
        if (!CHECK(snls_array_copy(ctx, &to, &from) == SNLS_OK, "%s", snls_error(ctx))) continue;
        int64_t wrong = -1;
        for (int64_t i = 0; i < tensor_count(&to); i++)
            if (tensor_get(&to, i) != stored(to_type, tensor_get(&from, i))) wrong = i;
        CHECK(wrong < 0, "%s to %s: %.9g became %.9g", snls_dtype_name((SnlsDtype)from_type), snls_dtype_name((SnlsDtype)to_type), tensor_get(&from, wrong), tensor_get(&to, wrong));
        CHECK(tensor_unchanged(&from) && tensor_padding_unchanged(&to), "bytes beside the copy were written to");
        tensors_free();
    }
    check_repeat("test_array");
}

static void bad_copies(void)
{
    SnlsTensor a = spec_tensor(SNLS_F32, SHAPE(2, 3)), b = spec_tensor(SNLS_F32, SHAPE(3, 2)), c = spec_tensor(SNLS_F32, SHAPE(2, 3, 1));
    tensor_mark(&b);
    CHECK(snls_array_copy(NULL, &a, &a) == SNLS_ERR_ARG && snls_array_copy(ctx, NULL, &a) == SNLS_ERR_ARG && snls_array_copy(ctx, &a, NULL) == SNLS_ERR_ARG, "NULL was copied");
    CHECK(snls_array_copy(ctx, &b, &a) < 0 && snls_array_copy(ctx, &c, &a) < 0 && tensor_unchanged(&b), "another shape was copied");
    a.data = NULL;
    CHECK(snls_array_copy(ctx, &b, &a) < 0, "nothing was copied");
    a = spec_tensor(SNLS_F32, SHAPE(2, 3));
    a.dtype = 42;
    CHECK(snls_array_copy(ctx, &a, &a) < 0, "an unknown type was copied");
    a.dtype = SNLS_F32;
    a.device = SNLS_DEVICE_CUDA;
    CHECK(snls_array_copy(ctx, &b, &a) < 0 && *snls_error(ctx), "another device was copied");
    const int64_t three = 3;
    float from[3] = { 1, 2, 3 }, to[3] = { 0 };
    SnlsTensor source = snls_tensor(from, SNLS_F32, 1, &three), target = snls_tensor(to, SNLS_F32, 1, &three);
    target.stride[0] = 0;
    CHECK(snls_array_copy(ctx, &target, &source) == SNLS_ERR_ARG && strstr(snls_error(ctx), "overlap") && !to[0], "a target that overlaps itself was written");
    tensors_free();
}

/* Data that begin anywhere, as those of a mapped file do, are copied, whatever the types are. */
static void loose_copies(void)
{
    double room_from[8] = { 0 }, room_to[8] = { 0 };
    for (int f = 0; f < 5; f++)
        for (int t = 0; t < 5; t++)
            for (int which = 0; which < 4; which++) {
                const double values[] = { 1, 0.5, 200 };
                SnlsTensor from = snls_tensor((char *)room_from + which % 2, (SnlsDtype)dtypes[f], SHAPE(3)), to = snls_tensor((char *)room_to + which / 2, (SnlsDtype)dtypes[t], SHAPE(3));
                double exact[3], got[3];
                SnlsTensor given = snls_tensor((void *)values, SNLS_F64, SHAPE(3)), between = snls_tensor(exact, SNLS_F64, SHAPE(3)), back = snls_tensor(got, SNLS_F64, SHAPE(3));
                CHECK(snls_array_copy(ctx, &from, &given) == SNLS_OK && snls_array_copy(ctx, &between, &from) == SNLS_OK && snls_array_copy(ctx, &to, &from) == SNLS_OK &&
                          snls_array_copy(ctx, &back, &to) == SNLS_OK, "%s", snls_error(ctx));
                for (int i = 0; i < 3; i++)
                    CHECK(exact[i] == stored(dtypes[f], values[i]) && got[i] == stored(dtypes[t], exact[i]), "%s to %s, %d and %d bytes beside their places: %g became %g",
                          snls_dtype_name((SnlsDtype)dtypes[f]), snls_dtype_name((SnlsDtype)dtypes[t]), which % 2, which / 2, exact[i], got[i]);
            }
}

/* No memory reaches so far; an empty view has nothing there. */
static void far_strides(void)
{
    static const int64_t far[] = { INT64_MAX, INT64_MIN, (int64_t)1 << 62, -((int64_t)1 << 61) };
    SnlsTensor good = spec_tensor(SNLS_F32, SHAPE(2, 3));
    char path[128];
    const char *tmp = getenv("TMPDIR");
    double psnr;
    snprintf(path, sizeof path, "%.80s/snls_test_far_%ld.npy", tmp && *tmp ? tmp : "/tmp", (long)getpid());
    for (int i = 0; i < 4; i++) {
        SnlsTensor t = good;
        t.stride[0] = far[i];
        CHECK(snls_array_copy(ctx, &t, &good) == SNLS_ERR_ARG && snls_array_copy(ctx, &good, &t) == SNLS_ERR_ARG, "copied over a stride of %lld", (long long)far[i]);
        CHECK(snls_npy_write(ctx, path, &t) == SNLS_ERR_ARG && access(path, F_OK), "written over a stride of %lld", (long long)far[i]);
        CHECK(snls_psnr(ctx, &t, &good, &psnr) == SNLS_ERR_SHAPE && snls_psnr(ctx, &good, &t, &psnr) == SNLS_ERR_SHAPE, "compared over a stride of %lld", (long long)far[i]);
        t.shape[1] = 0;
        SnlsTensor none = good;
        none.shape[1] = 0;
        CHECK(snls_array_copy(ctx, &t, &none) == SNLS_OK, "nothing with a stride of %lld: %s", (long long)far[i], snls_error(ctx));
    }
    tensors_free();
}

static void allocation(void)
{
    static const int64_t huge[] = {INT64_MAX, 2}, negative[] = {2, -1}, wide[] = {(int64_t)1 << 40, (int64_t)1 << 40}, empty[] = {INT64_MAX / 16, 0};
    SnlsTensor t;
    memset(&t, 0x5a, sizeof t);
    CHECK(snls_array_alloc(ctx, &t, SNLS_F64, SHAPE(2, 3)) == SNLS_OK && tensor_get(&t, 5) == 0 && t.stride[0] == 3, "an array of zeros");
    snls_array_free(ctx, &t);
    CHECK(!t.data, "freed");
    CHECK(snls_array_alloc(ctx, &t, SNLS_F32, 2, huge) == SNLS_ERR_MEMORY && !t.data && *snls_error(ctx), "2^64 elements");
    CHECK(snls_array_alloc(ctx, &t, SNLS_F32, 2, wide) == SNLS_ERR_MEMORY && !t.data, "2^80 elements");
    CHECK(snls_array_alloc(ctx, &t, SNLS_F32, 2, negative) == SNLS_ERR_ARG && !t.data, "a negative length");
    CHECK(snls_array_alloc(ctx, &t, SNLS_F32, 9, huge) == SNLS_ERR_ARG && snls_array_alloc(ctx, &t, SNLS_F32, -1, huge) == SNLS_ERR_ARG, "a bad rank");
    CHECK(snls_array_alloc(ctx, &t, (SnlsDtype)42, 1, wide) == SNLS_ERR_ARG && snls_array_alloc(ctx, &t, SNLS_F32, 1, NULL) == SNLS_ERR_ARG, "a bad type or no shape");
    CHECK(snls_array_alloc(NULL, &t, SNLS_F32, 1, wide) == SNLS_ERR_ARG && snls_array_alloc(ctx, NULL, SNLS_F32, 1, wide) == SNLS_ERR_ARG, "NULL");
    const SnlsStatus none = snls_array_alloc(ctx, &t, SNLS_F32, 2, empty);
    CHECK(none == SNLS_OK && snls_tensor_elements(&t) == 0, "an empty array: %d", (int)none);
    snls_array_free(ctx, &t);
    snls_array_free(NULL, &t);
    snls_array_free(ctx, NULL);
}

static void pictures(void)
{
    char path[128];
    const char *tmp = getenv("TMPDIR");
    unsigned char head[8] = {0};
    snprintf(path, sizeof path, "%.80s/snls_test_array_%ld.png", tmp && *tmp ? tmp : "/tmp", (long)getpid());
    SnlsTensor grey = spec_tensor(SNLS_U8, SHAPE(5, 7, 1)), colour = spec_tensor(SNLS_F32, SHAPE(5, 7, 3)), two = spec_tensor(SNLS_F32, SHAPE(5, 7, 2)), flat = spec_tensor(SNLS_F32, SHAPE(5, 7));
    tensor_set(&colour, 0, NAN);
    tensor_set(&colour, 1, 1e9);
    const SnlsStatus status = snls_png_write(ctx, path, &colour);
    if (status == SNLS_ERR_UNSUPPORTED) return; /* built without libpng */
    FILE *f = fopen(path, "rb");
    CHECK(status == SNLS_OK && f && fread(head, 1, 8, f) == 8 && !memcmp(head, "\x89PNG\r\n\x1a\n", 8), "a colour picture: %s", snls_error(ctx));
    if (f) fclose(f);
    CHECK(snls_png_write(ctx, path, &grey) == SNLS_OK, "a grey picture: %s", snls_error(ctx));
    remove(path);
    CHECK(snls_png_write(ctx, path, &two) < 0 && snls_png_write(ctx, path, &flat) < 0 && access(path, F_OK), "two channels, or none");
    CHECK(snls_png_write(NULL, path, &grey) == SNLS_ERR_ARG && snls_png_write(ctx, NULL, &grey) == SNLS_ERR_ARG && snls_png_write(ctx, path, NULL) == SNLS_ERR_ARG, "NULL");
    CHECK(snls_png_write(ctx, "/nowhere/at/all.png", &grey) == SNLS_ERR_IO, "written to nowhere");
    grey.data = NULL;
    CHECK(snls_png_write(ctx, path, &grey) < 0 && access(path, F_OK), "a picture of nothing");
    tensors_free();
}

/* What an earlier call said is not what this one says. */
static void says_so(SnlsStatus status, const char *what)
{
    CHECK(status == SNLS_ERR_ARG && !strncmp(snls_error(ctx), what, strlen(what)) && strstr(snls_error(ctx), "NULL"), "%s: %d, \"%s\"", what, (int)status, snls_error(ctx));
    snls_array_alloc(ctx, &(SnlsTensor){ 0 }, SNLS_F32, -1, NULL);
}

static void missing(void)
{
    SnlsTensor t = { 0 };
    double level;
    says_so(snls_array_alloc(ctx, NULL, SNLS_F32, 1, (const int64_t[]){ 1 }), "array_alloc: ");
    says_so(snls_array_alloc(ctx, &t, SNLS_F32, 2, NULL), "array_alloc: shape");
    says_so(snls_array_copy(ctx, NULL, &t), "array_copy: ");
    says_so(snls_npy_read(ctx, "x", NULL), "npy_read: ");
    says_so(snls_npy_read(ctx, NULL, &t), "npy_read: ");
    says_so(snls_npy_parse(ctx, "x", 1, NULL), "npy_parse: ");
    says_so(snls_image_read(ctx, "x", NULL), "image_read: ");
    says_so(snls_image_read(ctx, NULL, &t), "image_read: ");
    says_so(snls_image_parse(ctx, "x", 1, NULL), "image buffer: ");
    says_so(snls_flo_read(ctx, "x", NULL), "flo_read: ");
    says_so(snls_flo_parse(ctx, "x", 1, NULL), ".flo buffer: ");
    says_so(snls_kitti_read(ctx, "x", NULL), "kitti_read: ");
    says_so(snls_noise_add(ctx, NULL, 4, 0, 1, 1), "noise: the values");
    says_so(snls_noise_level(ctx, NULL, 1, 8, 8, 3, &level), "noise_level: ");
    says_so(snls_reader_open(NULL, ctx, "x", NULL), "reader: ");
    says_so(snls_writer_open(NULL, ctx, "x", NULL), "writer: ");
    says_so(snls_model_open(NULL, ctx, "x", NULL), "model_open: ");
    says_so(snls_trainer_open(NULL, ctx, NULL), "trainer_open: ");
    says_so(snls_trainer_resume(NULL, ctx, "x"), "trainer_resume: ");
}

static void paths(void)
{
    char name[16];
    CHECK(snls_path_ends("A.PNG", ".png") && !snls_path_ends("png", ".png"), "endings");
    CHECK(!snls_path_ends(NULL, ".png") && !snls_path_ends("a.png", NULL), "NULL has an ending");
    CHECK(snls_path_number("a%03d.png", 7, name, sizeof name) && !strcmp(name, "a007.png"), "%s", name);
    char wide[32];
    CHECK(snls_path_number("%020d", 7, wide, sizeof wide) && !strcmp(wide, "00000000000000000007"), "%s", wide);
    CHECK(!snls_path_number("%21d", 7, wide, sizeof wide) && !snls_path_number("%99d", 7, wide, sizeof wide) && !snls_path_number("%4294967301d", 7, wide, sizeof wide), "%s", wide);
    CHECK(snls_path_number("%d/100%/a%d.png", 7, name, sizeof name) && !strcmp(name, "%d/100%/a7.png") && snls_path_number("a%d/b.png", 7, name, sizeof name) && !strcmp(name, "a7/b.png"), "%s", name);
    CHECK(!snls_path_number("a%d/%d/b.png", 7, name, sizeof name) && !snls_path_number("a/%d%d.png", 7, name, sizeof name) && !snls_path_number("a%d/b%.png", 7, name, sizeof name), "%s", name);
    CHECK(!snls_path_number(NULL, 7, name, sizeof name) && !snls_path_number("%d", 7, NULL, sizeof name) && !snls_path_number("%d", 7, name, 1), "NULL is a pattern");
}

int main(void)
{
    ctx = context_open("cpu", 0, 1);
    copies();
    bad_copies();
    loose_copies();
    far_strides();
    allocation();
    pictures();
    missing();
    paths();
    snls_close(&ctx);
    return check_end();
}
