/* test_npy.c: the .npy reader and writer: round trips, versions, headers that are malformed or lie, files cut at every byte. */
#define _POSIX_C_SOURCE 200809L /* getpid, mkfifo, fork */
#include "spec.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static SnlsContext *ctx;
static char path[128];

/* Magic, version, little-endian length, dictionary, data of that many bytes. */
static size_t make_file(unsigned char *file, int version, const char *dictionary, size_t data)
{
    const size_t length = strlen(dictionary), begin = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (unsigned char)version;
    file[7] = 0;
    for (size_t i = 8; i < begin; i++) file[i] = (unsigned char)(length >> 8 * (i - 8));
    memcpy(file + begin, dictionary, length);
    for (size_t i = 0; i < data; i++) file[begin + length + i] = (unsigned char)i;
    return begin + length + data;
}

static void put_file(const unsigned char *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, size, f) == size, "cannot write %s", path);
    if (f) fclose(f);
}

/* The same verdict from a buffer and from a file; no data on failure. */
static void check_bytes(const unsigned char *bytes, size_t size, SnlsStatus want, const char *what)
{
    SnlsTensor view;
    unsigned char *exact = malloc(size ? size : 1); /* its own block, so that one byte too far is seen */
    memcpy(exact, bytes, size);
    memset(&view, 0x5a, sizeof view);
    SnlsStatus status = snls_npy_parse(ctx, exact, size, &view);
    free(exact);
    CHECK(status == want, "%s: parse says %d (%s), expected %d", what, (int)status, status < 0 ? snls_error(ctx) : "", (int)want);
    CHECK(status >= 0 || (!view.data && *snls_error(ctx) && !strchr(snls_error(ctx), '\n')), "%s: data or no sentence after a failed parse", what);
    if (status >= 0) snls_array_free(ctx, &view);
    put_file(bytes, size);
    status = snls_npy_read(ctx, path, &view);
    CHECK(status == want, "%s: read says %d (%s), expected %d", what, (int)status, status < 0 ? snls_error(ctx) : "", (int)want);
    CHECK(status >= 0 || (!view.data && strstr(snls_error(ctx), "snls_test_npy")), "%s: the sentence does not name the file: %s", what, snls_error(ctx));
    if (status >= 0) snls_array_free(ctx, &view);
}

static void check_header(const char *dictionary, size_t data, SnlsStatus want)
{
    unsigned char file[2048];
    for (int version = 1; version <= 3; version++) check_bytes(file, make_file(file, version, dictionary, data), want, dictionary);
}

static void good_headers(void)
{
    check_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, SNLS_OK);
    check_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n", 24, SNLS_OK);
    check_header("{'shape': (2, 3), 'fortran_order': False, 'descr': '<f8'}\n", 48, SNLS_OK);
    check_header("{\"descr\":\"<f2\",\"fortran_order\":False,\"shape\":(7,)}", 14, SNLS_OK);
    check_header("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", 1, SNLS_OK);
    check_header("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", 0, SNLS_OK);
    check_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0, 9), }", 0, SNLS_OK);
    check_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 2), }", 8, SNLS_OK);
    check_header("  {  'descr'  :  '<f4'  ,  'fortran_order'  :  False  ,  'shape'  :  (  2  ,  )  ,  }  ", 8, SNLS_OK);
}

static void unsupported_headers(void)
{
    static const char *const descr[] = {">f4", ">f8", "<i4", "<i8", "|i1", "<u2", "|b1", "<c8", "|S3", "<U5", "|O", "<M8[ns]", "<f16", "|V4", "<f1"};
    char text[128];
    for (int i = 0; i < 15; i++) {
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }", descr[i]);
        check_header(text, 8, SNLS_ERR_UNSUPPORTED);
    }
    check_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, SNLS_ERR_UNSUPPORTED);
    check_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", 4, SNLS_ERR_UNSUPPORTED);
    check_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, SNLS_ERR_UNSUPPORTED);
}

static void malformed_headers(void)
{
    static const char *const bad[] = {
        "", "{", "}", "{}", "()", "x", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), ", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3 }",
        "{'descr': '<f4', 'fortran_order': False, }", "{'descr': '<f4', 'shape': (2, 3), }", "{'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1, }",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3), }", "{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': false, 'shape': (2, 3), }", "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3], }", "{'descr': '<f4', 'fortran_order': False, 'shape': (6), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,, 3), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (0x6,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ('6',), }", "{'descr': '<f4', 'fortran_order': False, 'shape': 6, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } x", "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': f4, 'fortran_order': False, 'shape': (2, 3), }", "{'descr': '', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<<f4', 'fortran_order': False, 'shape': (2, 3), }", "{'descr': '<f4\n', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999999, 0), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807, 0), }",
        "{\"descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "{'descr': None, 'fortran_order': False, 'shape': (2, 3), }"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) check_header(bad[i], 24, SNLS_ERR_FORMAT);
}

/* Headers that promise more, or less, than the file holds. */
static void lying_headers(void)
{
    static const char *const shapes[] = {"(2, 4)", "(7,)", "(1000000000000,)", "(5,)", "(0,)", "()", "(2, 3, 2)", "(65536, 65536)"};
    char text[128];
    for (int i = 0; i < 8; i++) {
        snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shapes[i]);
        check_header(text, 24, SNLS_ERR_FORMAT);
    }
}

static void preambles(void)
{
    unsigned char file[512];
    const char *good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    const size_t size = make_file(file, 1, good, 24);
    static const unsigned char versions[][2] = {{0, 0}, {4, 0}, {1, 1}, {255, 0}, {2, 9}};
    for (int i = 0; i < 5; i++) {
        file[6] = versions[i][0];
        file[7] = versions[i][1];
        check_bytes(file, size, SNLS_ERR_FORMAT, "a version that does not exist");
    }
    for (int i = 0; i < 6; i++) {
        make_file(file, 1, good, 24);
        file[i] ^= 1;
        check_bytes(file, size, SNLS_ERR_FORMAT, "another magic");
    }
    make_file(file, 1, good, 24);
    file[8] = file[9] = 255;
    check_bytes(file, size, SNLS_ERR_FORMAT, "a header longer than the file");
    make_file(file, 2, good, 24);
    memset(file + 8, 255, 4);
    check_bytes(file, size + 2, SNLS_ERR_FORMAT, "a header of 4 GiB");
    make_file(file, 1, good, 24);
    file[8] = 0;
    check_bytes(file, size, SNLS_ERR_FORMAT, "a header of no length");
}

/* Cut at every byte, and with one byte too many. */
static void truncated(void)
{
    unsigned char file[512];
    for (int version = 1; version <= 3; version++) {
        const size_t size = make_file(file, version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
        for (size_t n = 0; n < size; n++) check_bytes(file, n, SNLS_ERR_FORMAT, "a cut file");
        check_bytes(file, size, SNLS_OK, "the whole file");
        file[size] = 0;
        check_bytes(file, size + 1, SNLS_ERR_FORMAT, "a byte too many");
    }
}

static void round_trips(void)
{
    static const int32_t dtypes[] = {SNLS_F32, SNLS_F64, SNLS_F16, SNLS_U8};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        Rng rng = {seed};
        int64_t shape[SNLS_MAX_DIM];
        const int32_t ndim = (int32_t)rng_int(&rng, 0, SNLS_MAX_DIM), dtype = dtypes[rng_int(&rng, 0, 3)];
        for (int i = 0; i < ndim; i++) shape[i] = rng_one_in(&rng, 20) ? 0 : rng_int(&rng, 1, 4);
        const SnlsTensor t = tensor_new(&rng, dtype, ndim, shape, LAYOUT_INPUT);
        for (int64_t i = 0; i < tensor_count(&t); i++) tensor_set(&t, i, dtype == SNLS_U8 ? (double)rng_int(&rng, 0, 255) : rng_real(&rng, -9, 9));
        if (dtype != SNLS_U8 && tensor_count(&t)) tensor_set(&t, 0, RNG_PICK(&rng, NAN, INFINITY, -0.0, 6e-8));
        tensor_mark(&t);
        check_repeat("test_npy (round trip %d)", (int)seed);
        SnlsTensor back;
        if (!CHECK(snls_npy_write(ctx, path, &t) == SNLS_OK && snls_npy_read(ctx, path, &back) == SNLS_OK, "%s", snls_error(ctx))) continue;
        bool same = back.dtype == dtype && back.ndim == ndim;
        for (int i = 0; same && i < ndim; i++) same = back.shape[i] == shape[i];
        CHECK(same && same_bits(&t, &back) && tensor_unchanged(&t), "what was written is not what is read");
        snls_array_free(ctx, &back);
        tensors_free();
    }
    check_repeat("test_npy");
}

/* Data begins at a multiple of 64, version 1, as NumPy itself writes it. */
static void written_form(void)
{
    unsigned char head[128] = {0};
    float values[6] = {0};
    const SnlsTensor t = snls_tensor(values, SNLS_F32, SHAPE(2, 3));
    CHECK(snls_npy_write(ctx, path, &t) == SNLS_OK, "%s", snls_error(ctx));
    FILE *f = fopen(path, "rb");
    const size_t size = f ? fread(head, 1, sizeof head, f) : 0;
    if (f) fclose(f);
    CHECK(size >= 64 && (10 + head[8] + 256 * head[9]) % 64 == 0 && head[6] == 1 && head[9 + head[8] + 256 * head[9]] == '\n', "the header is not padded");
    CHECK(strstr((char *)head + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }") == (char *)head + 10, "the dictionary is %.60s", (char *)head + 10);
}

static void bad_calls(void)
{
    SnlsTensor view, t = snls_tensor(NULL, SNLS_F32, SHAPE(2, 3));
    float values[6] = {0};
    CHECK(snls_npy_read(NULL, path, &view) == SNLS_ERR_ARG && snls_npy_read(ctx, NULL, &view) == SNLS_ERR_ARG && snls_npy_read(ctx, path, NULL) == SNLS_ERR_ARG &&
              snls_npy_parse(ctx, NULL, 3, &view) == SNLS_ERR_ARG && snls_npy_parse(NULL, values, 3, &view) == SNLS_ERR_ARG, "NULL was read");
    CHECK(snls_npy_write(NULL, path, &t) == SNLS_ERR_ARG && snls_npy_write(ctx, NULL, &t) == SNLS_ERR_ARG && snls_npy_write(ctx, path, NULL) == SNLS_ERR_ARG &&
              snls_npy_write(ctx, path, &t) == SNLS_ERR_ARG, "NULL was written");
    t.data = values;
    t.dtype = SNLS_BF16;
    CHECK(snls_npy_write(ctx, path, &t) == SNLS_ERR_UNSUPPORTED, "NumPy has no bf16");
    t.dtype = 77;
    CHECK(snls_npy_write(ctx, path, &t) == SNLS_ERR_ARG, "an unknown type was written");
    t.dtype = SNLS_F32;
    CHECK(snls_npy_read(ctx, "/nowhere/at/all.npy", &view) == SNLS_ERR_IO && !view.data && strstr(snls_error(ctx), "/nowhere/at/all.npy"), "read: %s", snls_error(ctx));
    CHECK(snls_npy_read(ctx, "/", &view) == SNLS_ERR_IO && !view.data, "a directory was read");
    CHECK(snls_npy_write(ctx, "/nowhere/at/all.npy", &t) == SNLS_ERR_IO, "written to nowhere");
    CHECK(snls_npy_write(ctx, "/", &t) == SNLS_ERR_IO, "a directory was written");
    if (!access("/dev/full", W_OK)) CHECK(snls_npy_write(ctx, "/dev/full", &t) == SNLS_ERR_IO, "a full device was written");
}

/* A file that may not grow: a piece is missing, and finish, which many look at alone, says so. */
static void unwritten_piece(void)
{
    static float values[4096];
    const SnlsTensor whole = snls_tensor(values, SNLS_F32, SHAPE(2, 4096)), piece = snls_tensor(values, SNLS_F32, SHAPE(1, 4096));
    SnlsNpyWriter *w = NULL;
    struct rlimit was, least;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    CHECK(snls_npy_writer_open(&w, ctx, path, &whole) == SNLS_OK && snls_npy_writer_add(w, &piece) == SNLS_OK, "%s", snls_error(ctx));
    getrlimit(RLIMIT_FSIZE, &was);
    least = was, least.rlim_cur = 20000;
    setrlimit(RLIMIT_FSIZE, &least);
    CHECK(snls_npy_writer_add(w, &piece) == SNLS_ERR_IO, "a piece beyond what a file may hold was written");
    setrlimit(RLIMIT_FSIZE, &was);
    CHECK(snls_npy_writer_finish(w) == SNLS_ERR_IO && strstr(snls_error(ctx), "not complete"), "finish without a piece: %s", snls_error(ctx));
    snls_npy_writer_close(&w);
    signal(SIGXFSZ, handler);
}

/* A pipe has no size: the header is believed only as far as data comes. */
static void pipes(void)
{
    unsigned char file[512];
    const size_t size = make_file(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
    for (int cut = -1; cut < 3; cut++) {
        remove(path);
        if (mkfifo(path, 0600)) return;
        const pid_t child = fork();
        if (child == 0) {
            FILE *f = fopen(path, "wb");
            if (f) fwrite(file, 1, size - (size_t)(cut > 0 ? cut : 0) + (cut < 0), f);
            if (f) fclose(f);
            _exit(0);
        }
        SnlsTensor view;
        const SnlsStatus status = snls_npy_read(ctx, path, &view), want = cut == 0 ? SNLS_OK : SNLS_ERR_FORMAT;
        CHECK(status == want, "a pipe with %d bytes missing: status %d", cut, (int)status);
        if (status == SNLS_OK) snls_array_free(ctx, &view);
        waitpid(child, NULL, 0);
    }
}

/* An array written and read a row at a time is the one that is written and read whole, whether its length was known or not; what is cut off or too much to ask for is an error. */
static void pieces(int64_t said)
{
    float values[3][4], row[4];
    for (int i = 0; i < 12; i++) values[i / 4][i % 4] = (float)i;
    const SnlsTensor whole = snls_tensor(values, SNLS_F32, 2, (const int64_t[]){ 3, 4 }), piece = snls_tensor(row, SNLS_F32, 1, (const int64_t[]){ 4 });
    const SnlsTensor begun = snls_tensor(NULL, SNLS_F32, 2, (const int64_t[]){ said, 4 });
    SnlsNpyWriter *to;
    SnlsNpyReader *from;
    SnlsTensor view;
    CHECK(snls_npy_writer_open(&to, ctx, path, &begun) == SNLS_OK, "pieces: %s", snls_error(ctx));
    for (int t = 0; t < 3; t++) {
        const SnlsTensor one = snls_tensor(values[t], SNLS_F32, 1, (const int64_t[]){ 4 });
        CHECK(snls_npy_writer_add(to, &one) == SNLS_OK, "piece %d: %s", t, snls_error(ctx));
    }
    CHECK(snls_npy_writer_finish(to) == SNLS_OK && snls_npy_writer_finish(to) == SNLS_ERR_ARG, "pieces: %s", snls_error(ctx));
    snls_npy_writer_close(&to);
    CHECK(snls_npy_read(ctx, path, &view) == SNLS_OK && view.shape[0] == 3 && !memcmp(view.data, values, sizeof values), "pieces read whole");
    snls_array_free(ctx, &view);
    CHECK(snls_npy_write(ctx, path, &whole) == SNLS_OK && snls_npy_reader_open(&from, ctx, path, &view) == SNLS_OK, "pieces: %s", snls_error(ctx));
    CHECK(!view.data && view.ndim == 2 && view.shape[0] == 3 && view.shape[1] == 4 && view.dtype == SNLS_F32, "pieces: another array");
    for (int t = 0; t < 3; t++) CHECK(snls_npy_reader_next(from, &piece) == SNLS_OK && !memcmp(row, values[t], sizeof row), "row %d", t);
    CHECK(snls_npy_reader_next(from, &piece) == SNLS_ERR_FORMAT, "a row behind the last");
    snls_npy_reader_close(&from);
}

static void bad_pieces(void)
{
    float row[4] = { 0 };
    SnlsNpyWriter *to = NULL;
    SnlsNpyReader *from = NULL;
    const SnlsTensor whole = snls_tensor(NULL, SNLS_F32, 2, (const int64_t[]){ 2, 4 }), huge = snls_tensor(NULL, SNLS_F32, 3, (const int64_t[]){ 1, INT64_MAX, 4 }),
                     half = snls_tensor(row, SNLS_F32, 1, (const int64_t[]){ 3 }), other = snls_tensor(row, SNLS_U8, 1, (const int64_t[]){ 4 });
    SnlsTensor view;
    CHECK(snls_npy_writer_open(&to, ctx, path, &huge) == SNLS_ERR_ARG && !to && snls_npy_writer_open(&to, ctx, "/nowhere/at/all.npy", &whole) == SNLS_ERR_IO && !to, "a writer was opened");
    CHECK(snls_npy_writer_open(NULL, ctx, path, &whole) == SNLS_ERR_ARG && snls_npy_writer_add(NULL, &half) == SNLS_ERR_ARG && snls_npy_writer_finish(NULL) == SNLS_ERR_ARG, "NULL was written");
    CHECK(snls_npy_reader_open(&from, ctx, NULL, &view) == SNLS_ERR_ARG && snls_npy_reader_next(NULL, &half) == SNLS_ERR_ARG, "NULL was read");
    CHECK(snls_npy_reader_open(&from, ctx, "/nowhere/at/all.npy", &view) == SNLS_ERR_IO && !from && !view.data, "nothing was read");
    CHECK(snls_npy_writer_open(&to, ctx, path, &whole) == SNLS_OK && snls_npy_writer_add(to, &other) == SNLS_ERR_SHAPE && snls_npy_writer_add(to, &half) == SNLS_OK, "pieces: %s", snls_error(ctx));
    CHECK(snls_npy_writer_finish(to) == SNLS_ERR_SHAPE, "a row that is not whole");
    snls_npy_writer_close(&to);
    CHECK(snls_npy_reader_open(&from, ctx, path, &view) == SNLS_ERR_FORMAT && !from, "a file that was not finished");
    snls_npy_writer_close(&to);
    snls_npy_reader_close(&from);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.80s/snls_test_npy_%ld.npy", tmp && *tmp ? tmp : "/tmp", (long)getpid());
    ctx = context_open("cpu", 0, 1);
    check_repeat("test_npy");
    good_headers();
    unsupported_headers();
    malformed_headers();
    lying_headers();
    preambles();
    truncated();
    round_trips();
    written_form();
    bad_calls();
    unwritten_piece();
    pipes();
    remove(path);
    pieces(3);
    pieces(0);
    bad_pieces();
    remove(path);
    snls_close(&ctx);
    return check_end();
}
