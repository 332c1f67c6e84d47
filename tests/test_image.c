/* test_image.c: pictures and flow in files: round trips, every cut of a file, headers that lie, and the colours of a flow. */
#define _POSIX_C_SOURCE 200809L /* getpid */
#include "spec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static SnlsContext *ctx;
static char path[128];

typedef SnlsStatus (*Parse)(SnlsContext *c, const void *bytes, size_t size, SnlsTensor *view);
typedef SnlsStatus (*Read)(SnlsContext *c, const char *file, SnlsTensor *view);

static size_t get_file(unsigned char *bytes, size_t room)
{
    FILE *f = fopen(path, "rb");
    const size_t size = f ? fread(bytes, 1, room, f) : 0;
    if (f) fclose(f);
    CHECK(size > 0 && size < room, "cannot read %s", path);
    return size;
}

static void refuses(Parse parse, const unsigned char *bytes, size_t size, SnlsStatus want, const char *what)
{
    SnlsTensor view;
    unsigned char *exact = malloc(size ? size : 1); /* its own block, so that one byte too far is seen */
    memcpy(exact, bytes, size);
    memset(&view, 0x5a, sizeof view);
    const SnlsStatus status = parse(ctx, exact, size, &view);
    free(exact);
    CHECK(status == want, "%s: status %d (%s), expected %d", what, (int)status, status < 0 ? snls_error(ctx) : "",
          (int)want);
    CHECK(!view.data && *snls_error(ctx) && !strchr(snls_error(ctx), '\n'),
          "%s: data or no sentence after a failed parse", what);
    if (status >= 0) snls_array_free(ctx, &view);
}

/* A file that is good as a whole is bad at every shorter length. */
static void every_cut(Parse parse, const char *what)
{
    unsigned char bytes[65536] = { 0 };
    const size_t size = get_file(bytes, sizeof bytes - 1);
    for (size_t cut = 0; cut < size; cut++) {
        SnlsTensor view;
        const SnlsStatus status = parse(ctx, bytes, cut, &view);
        CHECK((status == SNLS_ERR_FORMAT || (cut < 12 && status == SNLS_ERR_UNSUPPORTED)) && !view.data,
              "%s cut to %d of %d bytes: status %d", what, (int)cut, (int)size, (int)status);
        if (status >= 0) snls_array_free(ctx, &view);
    }
}

/* A .flo of another length than it tells is no .flo; a picture ends where its format says, and who put something behind it (an editor, a phone) left the picture as it was. */
static void bytes_behind(Parse parse, bool taken, const char *what)
{
    unsigned char bytes[65536] = { 0 };
    const size_t size = get_file(bytes, sizeof bytes - 1);
    SnlsTensor whole, more;
    if (!taken) {
        refuses(parse, bytes, size + 1, SNLS_ERR_FORMAT, what);
        return;
    }
    const SnlsStatus status = parse(ctx, bytes, size + 1, &more);
    if (!CHECK(status == SNLS_OK, "%s with a byte behind it: %s", what, snls_error(ctx)) ||
        !CHECK(parse(ctx, bytes, size, &whole) == SNLS_OK, "%s", snls_error(ctx)))
        return;
    const bool same =
        !memcmp(whole.shape, more.shape, sizeof whole.shape) &&
        !memcmp(whole.data, more.data, (size_t)(tensor_count(&whole) * snls_dtype_size((SnlsDtype)whole.dtype)));
    CHECK(same, "%s with a byte behind it is another picture", what);
    snls_array_free(ctx, &whole);
    snls_array_free(ctx, &more);
}

static SnlsTensor some_flow(Rng *rng, int64_t h, int64_t w, double scale)
{
    SnlsTensor flow = tensor_new(rng, SNLS_F64, SHAPE(h, w, 2), LAYOUT_OUTPUT);
    for (int64_t i = 0; i < 2 * h * w; i++) tensor_set(&flow, i, nearbyint(rng_real(rng, -32767, 32767)) * scale);
    tensor_set(&flow, 4, 2e9); /* unknown: one component is enough, in whichever way */
    tensor_set(&flow, 9, NAN);
    return flow;
}

static void flow_files(SnlsStatus (*write)(SnlsContext *c, const char *file, const SnlsTensor *view), Read read,
                       Parse parse, const char *what)
{
    Rng rng = { 3 };
    const SnlsTensor flow = some_flow(&rng, 5, 7, 1.0 / 64);
    SnlsTensor back;
    CHECK(write(ctx, path, &flow) == SNLS_OK, "%s: %s", what, snls_error(ctx));
    if (!CHECK(read(ctx, path, &back) == SNLS_OK, "%s: %s", what, snls_error(ctx))) return;
    CHECK(back.ndim == 3 && back.shape[0] == 5 && back.shape[1] == 7 && back.shape[2] == 2 && back.dtype == SNLS_F32,
          "%s: another shape", what);
    for (int64_t i = 0; i < 70; i++) {
        const bool known = i / 2 != 2 && i / 2 != 4;
        CHECK(((float *)back.data)[i] == (known ? (float)tensor_get(&flow, i) : 1e10f),
              "%s: element %d came back as %g", what, (int)i, ((float *)back.data)[i]);
    }
    snls_array_free(ctx, &back);
    every_cut(parse, what);
    bytes_behind(parse, parse == snls_kitti_parse, what);
    CHECK(read(ctx, "/nowhere/at.all", &back) == SNLS_ERR_IO && !back.data, "%s: a file that is not there", what);
    CHECK(write(ctx, "/nowhere/at.all", &flow) == SNLS_ERR_IO, "%s: a folder that is not there", what);
}

static void lies(void)
{
    static const struct {
        const char *head; /* 12 bytes */
        const char *what;
    } flo[] = { { "PIEI\1\0\0\0\1\0\0", "another word" },
                { "PIEH\0\0\0\0\1\0\0", "no width" },
                { "PIEH\1\0\0\0\xff\xff\xff\xff", "a negative height" },
                { "PIEH\xff\x7f\0\0\xff\x7f\0", "a height of eight gigabytes" },
                { "PIEH\xff\xff\xff\x7f\xff\xff\xff\x7f", "sizes that overflow" } };
    for (size_t i = 0; i < sizeof flo / sizeof *flo; i++) {
        unsigned char bytes[20] = { 0 };
        memcpy(bytes, flo[i].head, 12);
        refuses(snls_flo_parse, bytes, sizeof bytes, SNLS_ERR_FORMAT, flo[i].what);
    }
    refuses(snls_image_parse, (const unsigned char *)"GIF89a", 6, SNLS_ERR_UNSUPPORTED, "a GIF");
    refuses(snls_image_parse, (const unsigned char *)"no picture", 10, SNLS_ERR_FORMAT, "no picture");
    CHECK(access(path, F_OK) != 0, "a file is left behind");
    CHECK(snls_flo_write(ctx, path, &(SnlsTensor){ .ndim = 2 }) < 0, "flow of two axes");
}

#ifdef SNLS_HAVE_PNG
static void far_flow(void)
{
    Rng rng = { 4 };
    SnlsTensor far = some_flow(&rng, 3, 3, 1);
    unlink(path); /* what other tests have written */
    CHECK(snls_kitti_write(ctx, path, &far) == SNLS_ERR_ARG && strstr(snls_error(ctx), "511.98"),
          "flow of 30000 pixels: %s", snls_error(ctx));
    CHECK(access(path, F_OK) != 0, "a file is left behind");
    const float zero[2 * 2 * 2] = { 0 };
    const SnlsTensor near = snls_tensor((void *)zero, SNLS_F32, 3, (const int64_t[]){ 2, 2, 2 });
    SnlsTensor back;
    CHECK(snls_kitti_write(ctx, path, &near) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(snls_kitti_write(ctx, path, &far) == SNLS_ERR_ARG && snls_kitti_read(ctx, path, &back) == SNLS_OK, "a refused flow took away the file that was there");
    snls_array_free(ctx, &back);
    unlink(path);
}

static void png_files(void)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 }, { 3, 5, 3 }, { 40, 31, 1 }, { 17, 64, 3 } };
    Rng rng = { 7 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const SnlsTensor image = tensor_new(&rng, SNLS_U8, 3, sizes[i], LAYOUT_OUTPUT);
        SnlsTensor back;
        for (int64_t e = 0; e < tensor_count(&image); e++) tensor_set(&image, e, (double)rng_int(&rng, 0, 255));
        CHECK(snls_png_write(ctx, path, &image) == SNLS_OK, "%s", snls_error(ctx));
        if (!CHECK(snls_image_read(ctx, path, &back) == SNLS_OK, "%s", snls_error(ctx))) continue;
        bool same = back.dtype == SNLS_U8 && back.ndim == 3 && !memcmp(back.shape, image.shape, 3 * sizeof *back.shape);
        for (int64_t e = 0; same && e < tensor_count(&image); e++)
            same = ((uint8_t *)back.data)[e] == tensor_get(&image, e);
        CHECK(same, "a PNG of %dx%dx%d came back changed", (int)sizes[i][1], (int)sizes[i][0], (int)sizes[i][2]);
        snls_array_free(ctx, &back);
        if (i < 2) every_cut(snls_image_parse, "png");
        bytes_behind(snls_image_parse, true, "png");
    }
}

/* The header of a small PNG made to promise a large picture; its checksum is not the point, so both are refused. */
static void png_bombs(void)
{
    unsigned char bytes[4096];
    Rng rng = { 8 };
    const SnlsTensor image = tensor_new(&rng, SNLS_U8, SHAPE(4, 4, 3), LAYOUT_PLAIN);
    CHECK(snls_png_write(ctx, path, &image) == SNLS_OK, "%s", snls_error(ctx));
    const size_t size = get_file(bytes, sizeof bytes);
    bytes[18] = bytes[22] = 0x7f; /* width and height of 32516 */
    refuses(snls_image_parse, bytes, size, SNLS_ERR_FORMAT, "a PNG of a billion pixels");
}

/* n-th allocation fails. */
typedef struct Memory {
    int64_t made, live, fail_at;
} Memory;

static void *counted_alloc(size_t bytes, void *opaque)
{
    Memory *m = opaque;
    if (m->made++ == m->fail_at) return NULL;
    m->live++;
    return malloc(bytes ? bytes : 1);
}

static void counted_free(void *p, void *opaque)
{
    ((Memory *)opaque)->live -= p != NULL;
    free(p);
}

static void memory(const char *what, Read read)
{
    for (int64_t n = 0;; n++) {
        Memory m = { .fail_at = -1 };
        SnlsContext *c = NULL;
        SnlsTensor view;
        if (!CHECK(snls_open(&c, &(SnlsContextParams){ .backend = "ref",
                                                       .threads = 1,
                                                       .allocator = { counted_alloc, counted_free, &m } }) == SNLS_OK,
                   "open"))
            return;
        m.fail_at = m.made + n;
        const SnlsStatus status = read(c, path, &view);
        const bool reached = m.made > m.fail_at;
        CHECK(reached ? status == SNLS_ERR_MEMORY && !view.data : status == SNLS_OK,
              "%s, allocation %d fails: status %d", what, (int)n, (int)status);
        snls_array_free(c, &view);
        snls_close(&c);
        CHECK(m.live == 0, "%s, allocation %d fails: %d blocks are left", what, (int)n, (int)m.live);
        if (!reached) return;
    }
}
#endif

/* Directions have the colours of Middlebury's key: right red, down yellow to green, left cyan, up violet. */
#if defined SNLS_HAVE_JPEG && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && defined __linux__
/* A progressive JPEG, all of whose pixels libjpeg holds at once: 200 MB, and the process gets no more than 100. The file is cut off behind its header,
 * filled up with comments so that its length does not give it away. */
static void poor_jpeg(void)
{
    static const unsigned char frame[] = { 0xff, 0xc2, 0, 17, 8, 5760 >> 8, 5760 & 255, 5760 >> 8, 5760 & 255, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0 },
                               scan[] = { 0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 0, 0 };
    enum { COMMENT = 65533, COMMENTS = 2, SIZE = 2 + COMMENTS * (COMMENT + 2) + sizeof frame + sizeof scan };
    unsigned char *file = calloc(SIZE, 1), *at = file;
    struct rlimit was, less;
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!CHECK(file && f && fscanf(f, "%ld", &pages) == 1 && !getrlimit(RLIMIT_AS, &was), "no memory, or no limit of it")) return;
    fclose(f);
    *at++ = 0xff, *at++ = 0xd8;
    for (int i = 0; i < COMMENTS; i++, at += COMMENT + 2) at[0] = 0xff, at[1] = 0xfe, at[2] = COMMENT >> 8, at[3] = COMMENT & 255;
    memcpy(at, frame, sizeof frame);
    memcpy(at + sizeof frame, scan, sizeof scan);
    less = was;
    less.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 100000000;
    CHECK(!setrlimit(RLIMIT_AS, &less), "no limit");
    refuses(snls_image_parse, file, SIZE, SNLS_ERR_MEMORY, "a JPEG that libjpeg has no memory for");
    CHECK(!setrlimit(RLIMIT_AS, &was), "the limit stays");
    refuses(snls_image_parse, file, SIZE, SNLS_ERR_FORMAT, "a JPEG that ends behind its header");
    free(file);
}
#else
static void poor_jpeg(void) {}
#endif

static void colors(void)
{
    SnlsTensor flow = spec_tensor(SNLS_F32, SHAPE(1, 6, 2)), image = spec_tensor(SNLS_U8, SHAPE(1, 6, 3));
    static const double vectors[12] = { 2, 0, 0, 2, -2, 0, 0, -2, 0, 0, 2e9, 0 };
    for (int i = 0; i < 12; i++) tensor_set(&flow, i, vectors[i]);
    CHECK(snls_flow_color(ctx, &flow, 0, &image) == SNLS_OK, "%s", snls_error(ctx));
    const uint8_t *p = image.data;
    CHECK(p[0] == 255 && p[1] < 30 && p[2] < 30, "right is %d %d %d", p[0], p[1], p[2]);
    CHECK(p[3] > 200 && p[4] > 200 && p[5] < 30, "down is %d %d %d", p[3], p[4], p[5]);
    CHECK(p[6] < 30 && p[7] > 150 && p[8] > 200, "left is %d %d %d", p[6], p[7], p[8]);
    CHECK(p[10] < 100 && p[11] > 200, "up is %d %d %d", p[9], p[10], p[11]);
    CHECK(p[12] == 255 && p[13] == 255 && p[14] == 255, "rest is not white");
    CHECK(p[15] == 0 && p[16] == 0 && p[17] == 0, "unknown is not black");
    CHECK(snls_flow_color(ctx, &flow, NAN, &image) == SNLS_ERR_ARG &&
              snls_flow_color(ctx, &flow, 0, &flow) == SNLS_ERR_SHAPE,
          "bad arguments");
}

int main(void)
{
    check_repeat("test_image");
    snprintf(path, sizeof path, "/tmp/snls_test_image_%ld", (long)getpid());
    if (!CHECK(snls_open(&ctx, NULL) == SNLS_OK, "open")) return check_end();
    flow_files(snls_flo_write, snls_flo_read, snls_flo_parse, "flo");
#ifdef SNLS_HAVE_PNG
    memory("flo", snls_flo_read);
    flow_files(snls_kitti_write, snls_kitti_read, snls_kitti_parse, "kitti");
    memory("kitti", snls_kitti_read);
    far_flow();
    png_files();
    memory("png", snls_image_read);
    png_bombs();
#endif
    unlink(path);
    lies();
    colors();
    poor_jpeg();
    unlink(path);
    snls_close(&ctx);
    tensors_free();
    return check_end();
}
