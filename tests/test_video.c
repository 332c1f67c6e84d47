/* test_video.c: readers and writers as a C program has them: how long things must live, what is refused and what it says. Without FFmpeg on arrays
 * and pictures only. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "check.h"
#include <math.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { T = 3, H = 32, W = 48 };

static SnlsContext *ctx[2]; /* of readers, of writers */

static void make_clip(void)
{
    static float pixels[T * H * W * 3];
    Rng rng = { 5 };
    const SnlsTensor clip = snls_tensor(pixels, SNLS_F32, 4, (const int64_t[]){ T, H, W, 3 });
    tensor_fill(&clip, &rng, 0, 255);
    CHECK(snls_npy_write(ctx[0], in_folder("clip.npy"), &clip) == SNLS_OK, "%s", snls_error(ctx[0]));
}

/* A clip to read, and what a writer is told that writes one like it. */
static SnlsReader *open_like(SnlsContext *c, const char *name, SnlsWriterParams *p)
{
    SnlsReader *r = NULL;
    CHECK(snls_reader_open(&r, c, in_folder(name), NULL) == SNLS_OK, "%s", snls_error(c));
    snls_writer_defaults(p);
    p->like = r;
    return r;
}

/* ---- lifetimes ---- */

/* Each block its own pages, so that what is used after it was given back ends the program. */
static void *take_pages(size_t bytes, void *opaque)
{
    (void)opaque;
    size_t *head = mmap(NULL, bytes + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (head == MAP_FAILED) return NULL;
    *head = bytes + 64;
    return (char *)head + 64;
}

static void give_pages(void *ptr, void *opaque)
{
    (void)opaque;
    if (ptr) munmap((char *)ptr - 64, *(size_t *)(void *)((char *)ptr - 64));
}

static void reader_closed_first(SnlsContext *pages, const char *out)
{
    SnlsWriter *w = NULL;
    SnlsFrame *frame = NULL;
    SnlsWriterParams p;
    SnlsReader *r = open_like(pages, "clip.npy", &p);
    const SnlsStatus status = snls_writer_open(&w, ctx[1], out, &p);
    if (CHECK(status == SNLS_OK || status == SNLS_ERR_UNSUPPORTED, "%s", snls_error(ctx[1])) && w) {
        memset(&p, 0x5a, sizeof p);
        CHECK(snls_reader_next(r, &frame) == SNLS_OK, "%s", snls_error(pages));
        snls_reader_close(&r);
        CHECK(snls_writer_write(w, frame) == SNLS_OK && snls_writer_finish(w) == SNLS_OK, "%s: %s", out, snls_error(ctx[1]));
    }
    snls_frame_free(&frame);
    snls_writer_close(&w);
    snls_reader_close(&r);
}

static void lifetimes(void)
{
    SnlsContextParams p;
    SnlsContext *pages;
    snls_context_defaults(&p);
    p.allocator = (SnlsAllocator){ take_pages, give_pages, NULL };
    if (!CHECK(snls_open(&pages, &p) == SNLS_OK, "open")) return;
    static const char *const names[] = { "a.npy", "a%d.png", "a.mkv", "a.mp4", "a.y4m" };
    for (int i = 0; i < 5; i++) reader_closed_first(pages, in_folder(names[i]));
    snls_close(&pages);
}

/* ---- what is missing ---- */

static const char *no_path(void *opaque, const char *name) { return (void)opaque, (void)name, NULL; }

/* Who only looks at finish learns that a frame is missing, as often as he asks. */
static void unwritten(void)
{
    SnlsWriter *out = NULL;
    SnlsFrame *frame = NULL;
    SnlsWriterParams p;
    SnlsReader *in = open_like(ctx[0], "clip.npy", &p);
    p.rename = no_path;
    if (snls_writer_open(&out, ctx[1], in_folder("u%d.png"), &p) == SNLS_OK && snls_reader_next(in, &frame) == SNLS_OK) {
        CHECK(snls_writer_write(out, frame) == SNLS_ERR_IO, "a picture without a path");
        for (int i = 0; i < 2; i++) CHECK(snls_writer_finish(out) == SNLS_ERR_IO && strstr(snls_error(ctx[1]), "not complete"), "finish %d: %s", i, snls_error(ctx[1]));
    }
    snls_frame_free(&frame);
    snls_writer_close(&out);
    snls_reader_close(&in);
}

/* A clip without a frame is none to any reader, whatever the container. */
static void empty(void)
{
    static const char *const names[] = { "e.npy", "e%d.png", "e.mkv", "e.mp4", "e.y4m", "e.avi", "e.gif" };
    for (int i = 0; i < 7; i++) {
        SnlsWriter *out = NULL;
        SnlsWriterParams p;
        SnlsReader *in = open_like(ctx[0], "clip.npy", &p);
        const SnlsStatus status = snls_writer_open(&out, ctx[1], in_folder(names[i]), &p);
        CHECK(status == SNLS_OK || status == SNLS_ERR_UNSUPPORTED, "%s: %s", names[i], snls_error(ctx[1]));
        if (out) CHECK(snls_writer_finish(out) == SNLS_ERR_ARG && strstr(snls_error(ctx[1]), "no frame was written"), "%s: %s", names[i], snls_error(ctx[1]));
        if (out) CHECK(snls_writer_finish(out) == SNLS_ERR_ARG, "%s: the second time", names[i]);
        snls_writer_close(&out);
        snls_reader_close(&in);
    }
}

static void says_so(SnlsContext *c, SnlsStatus status, const char *what)
{
    CHECK(status == SNLS_ERR_ARG && strstr(snls_error(c), "NULL"), "%s: %d, \"%s\"", what, (int)status, snls_error(c));
    snls_array_alloc(c, &(SnlsTensor){ 0 }, SNLS_F32, -1, NULL); /* says something else */
}

static void missing(void)
{
    static float pixels[H * W * 3];
    SnlsWriter *w = NULL;
    SnlsFrame *frame = NULL, *made = NULL;
    SnlsWriterParams p;
    SnlsReader *r = open_like(ctx[0], "clip.npy", &p);
    CHECK(snls_writer_open(&w, ctx[1], in_folder("m.npy"), &p) == SNLS_OK, "%s", snls_error(ctx[1]));
    says_so(ctx[0], snls_reader_next(r, NULL), "reader_next");
    CHECK(snls_reader_next(r, &frame) == SNLS_OK, "%s", snls_error(ctx[0]));
    says_so(ctx[1], snls_writer_write(w, NULL), "writer_write");
    says_so(ctx[1], snls_writer_make(w, frame, pixels, NULL), "writer_make");
    says_so(ctx[1], snls_writer_make(w, NULL, pixels, &made), "writer_make");
    says_so(ctx[1], snls_writer_unpack(w, frame, NULL, 1, &made), "writer_unpack");
    made = frame;
    CHECK(snls_writer_make(w, NULL, pixels, &made) < 0 && !made && (made = frame) && snls_writer_unpack(w, frame, NULL, 1, &made) < 0 && !made, "a frame of before is left");
    snls_frame_free(&frame);
    snls_writer_close(&w);
    snls_reader_close(&r);
}

/* Frames of another reader: of its own size only, since no more samples are read than a frame has. */
static void other_sizes(void)
{
    static float pixels[2 * H * 2 * W * 3];
    char bytes[64] = { 0 };
    const SnlsTensor large = snls_tensor(pixels, SNLS_F32, 4, (const int64_t[]){ 1, 2 * H, 2 * W, 3 }), grey = snls_tensor(pixels, SNLS_F32, 4, (const int64_t[]){ 1, H, W, 1 });
    SnlsWriterParams p;
    SnlsWriter *w = NULL;
    SnlsFrame *frame = NULL, *made = NULL;
    CHECK(snls_npy_write(ctx[0], in_folder("large.npy"), &large) == SNLS_OK && snls_npy_write(ctx[0], in_folder("grey.npy"), &grey) == SNLS_OK, "%s", snls_error(ctx[0]));
    for (int i = 0; i < 2; i++) { /* larger frames than the writer's, and smaller ones */
        SnlsReader *like = open_like(ctx[0], i ? "large.npy" : "clip.npy", &p), *other = open_like(ctx[0], i ? "clip.npy" : "large.npy", &(SnlsWriterParams){ 0 });
        CHECK(snls_writer_open(&w, ctx[1], in_folder("o.npy"), &p) == SNLS_OK && snls_reader_next(other, &frame) == SNLS_OK, "%s", snls_error(ctx[1]));
        CHECK(snls_writer_write(w, frame) == SNLS_ERR_SHAPE && strstr(snls_error(ctx[1]), "pixels"), "written: %s", snls_error(ctx[1]));
        CHECK(snls_writer_make(w, frame, pixels, &made) == SNLS_ERR_SHAPE && !made, "made: %s", snls_error(ctx[1]));
        CHECK(snls_writer_unpack(w, frame, bytes, 64, &made) == SNLS_ERR_SHAPE && !made && strstr(snls_error(ctx[1]), "the reader"), "unpacked: %s", snls_error(ctx[1]));
        snls_frame_free(&frame);
        snls_writer_close(&w);
        snls_reader_close(&other);
        snls_reader_close(&like);
    }
    SnlsReader *like = open_like(ctx[0], "clip.npy", &p), *other = open_like(ctx[0], "grey.npy", &(SnlsWriterParams){ 0 });
    CHECK(snls_writer_open(&w, ctx[1], in_folder("o.npy"), &p) == SNLS_OK && snls_reader_next(other, &frame) == SNLS_OK && snls_writer_write(w, frame) == SNLS_OK, "a grey frame in colour: %s", snls_error(ctx[1]));
    snls_frame_free(&frame);
    snls_writer_close(&w);
    snls_reader_close(&other);
    snls_reader_close(&like);
}

/* ---- a clip that would be written over, or cannot be read to its end ---- */

static void own_input(void)
{
    SnlsWriter *w = NULL;
    SnlsFrame *frame = NULL;
    SnlsWriterParams p;
    SnlsTensor clip;
    CHECK(snls_npy_read(ctx[0], in_folder("clip.npy"), &clip) == SNLS_OK && snls_npy_write(ctx[0], in_folder("own.npy"), &clip) == SNLS_OK, "%s", snls_error(ctx[0]));
    snls_array_free(ctx[0], &clip);
    SnlsReader *r = open_like(ctx[0], "own.npy", &p);
    CHECK(snls_writer_open(&w, ctx[1], in_folder("./own.npy"), &p) == SNLS_ERR_ARG && !w && strstr(snls_error(ctx[1]), "is the clip that is read"), "%s", snls_error(ctx[1]));
    int count = 0;
    for (; snls_reader_next(r, &frame) == SNLS_OK; count++) snls_frame_free(&frame);
    CHECK(count == T, "%d frames are left", count);
    snls_writer_close(&w);
    snls_reader_close(&r);
}

/* A host that asks again must not take what failed for the end. */
static void cut_off(void)
{
    SnlsReader *r = NULL;
    SnlsFrame *frame = NULL;
    CHECK(snls_reader_open(&r, ctx[0], in_folder("own.npy"), NULL) == SNLS_OK, "%s", snls_error(ctx[0]));
    CHECK(!truncate(in_folder("own.npy"), 200), "truncate");
    CHECK(snls_reader_next(r, &frame) == SNLS_OK, "the first frame is read by open: %s", snls_error(ctx[0]));
    snls_frame_free(&frame);
    for (int i = 0; r && i < 3; i++) {
        const SnlsStatus status = snls_reader_next(r, &frame);
        CHECK(status == SNLS_ERR_FORMAT && !frame && strstr(snls_error(ctx[0]), "own.npy: "), "call %d: %d, %s", i, (int)status, snls_error(ctx[0]));
    }
    snls_reader_close(&r);
}

/* ---- without libpng ---- */

/* Said before the first frame, and of the name that was given, not of the one that a picture has while it is written. */
static void no_libpng(void)
{
#ifndef SNLS_HAVE_PNG
    SnlsWriter *w = NULL;
    SnlsWriterParams p;
    SnlsReader *r = open_like(ctx[0], "clip.npy", &p);
    p.path = "x%d.png";
    const SnlsStatus status = snls_writer_open(&w, ctx[1], in_folder("x.part"), &p);
    CHECK(status == SNLS_ERR_UNSUPPORTED && !w && !strcmp(snls_error(ctx[1]), "x%d.png: this build has no libpng"), "%d, \"%s\"", (int)status, snls_error(ctx[1]));
    snls_reader_close(&r);
#endif
}

/* ---- params ---- */

static void bad_reader(const SnlsReaderParams *p, const char *word)
{
    SnlsReader *r = NULL;
    CHECK(snls_reader_open(&r, ctx[0], in_folder("clip.npy"), p) == SNLS_ERR_ARG && !r && strstr(snls_error(ctx[0]), word), "%s: %s", word, snls_error(ctx[0]));
    snls_reader_close(&r);
}

static void bad_writer(const SnlsWriterParams *p, const char *word)
{
    SnlsWriter *w = NULL;
    CHECK(snls_writer_open(&w, ctx[1], in_folder("p.npy"), p) == SNLS_ERR_ARG && !w && strstr(snls_error(ctx[1]), word), "%s: %s", word, snls_error(ctx[1]));
    snls_writer_close(&w);
}

static void params(void)
{
    SnlsReaderParams r, good;
    SnlsWriterParams w, plain;
    SnlsReader *like = NULL;
    snls_reader_defaults(&good);
    bad_reader((r = good, r.threads = -5, &r), "threads is -5");
    bad_reader((r = good, r.rate = 1e300, &r), "rate is 1e+300");
    bad_reader((r = good, r.rate = 1e-300, &r), "rate is 1e-300");
    bad_reader((r = good, r.rate = NAN, &r), "rate is nan");
    bad_reader((r = good, r.count = -1, &r), "count -1");
    bad_reader((r = good, r.lenient = 2, &r), "lenient is 2");
    bad_reader((r = good, r.listen = -1, &r), "listen is -1");
    bad_reader((r = good, r.reserved[3] = 7, &r), "reserved[3] of params is 7, must be 0 (call snls_reader_defaults first)");
    CHECK(snls_reader_open(&like, ctx[0], in_folder("clip.npy"), (r = good, r.rate = 0, &r)) == SNLS_OK, "%s", snls_error(ctx[0]));
    snls_writer_defaults(&plain);
    plain.like = like;
    bad_writer((w = plain, w.crf = NAN, &w), "crf is nan");
    bad_writer((w = plain, w.crf = 1e9, &w), "crf is 1e+09");
    bad_writer((w = plain, w.threads = -1, &w), "threads is -1");
    bad_writer((w = plain, w.lossless = 2, &w), "lossless is 2");
    bad_writer((w = plain, w.listen = 2, &w), "listen is 2");
    bad_writer((w = plain, w.reserved[13] = 1, &w), "snls_writer_defaults");
    snls_reader_close(&like);
}

/* What FFmpeg cannot do is said of the field, which the command line shows as its option. */
static void encoders(void)
{
    static const char *const odd[] = { "nokey", NULL }, *const unknown[] = { "foo=bar", NULL };
    SnlsReader *like = NULL;
    SnlsWriterParams p[6];
    static const char *const words[6] = { "params.codec is none,", "params.format is none,", "params.options holds nokey,", "params.options holds foo,", "params.crf is 20,", "params.format is rgba," };
    char text[400];
    if (snls_video_about(NULL, text, sizeof text) < 0) return;
    CHECK(snls_reader_open(&like, ctx[0], in_folder("clip.npy"), NULL) == SNLS_OK, "%s", snls_error(ctx[0]));
    for (int i = 0; i < 6; i++) snls_writer_defaults(&p[i]), p[i].like = like, p[i].codec = "ffv1";
    p[0].codec = "none", p[1].format = "none", p[2].options = odd, p[3].options = unknown, p[4].crf = 20, p[5].codec = "mpeg4", p[5].format = "rgba";
    for (int i = 0; i < 6; i++) {
        SnlsWriter *w = NULL;
        CHECK(snls_writer_open(&w, ctx[1], in_folder("e.mkv"), &p[i]) < 0 && strstr(snls_error(ctx[1]), words[i]) && !strstr(snls_error(ctx[1]), "--"), "%s: %s", words[i], snls_error(ctx[1]));
        snls_writer_close(&w);
    }
    snls_reader_close(&like);
}

/* Values of options are checked before the encoder sees them: what x264 prints would go past everybody. */
static void encoder_values(void)
{
    static const struct {
        const char *codec, *option, *words;
    } bad[] = { { "libx264", "preset=zzz", "holds preset=zzz, must be one of ultrafast" },     { "libx264", "preset=10", "or 0 to 9" },
                { "libx264", "tune=film,grain", "no more than one of film" },                  { "libx264", "tune=psnr,zzz", "must be one of film" },
                { "libx264", "profile=zzz", "must be one of baseline" },                       { "libx264", "profile=high", "has no 4:4:4 (yuv444p)" },
                { "libx264", "b=abc", "holds b=abc, must be a number from 0 on" },             { "libx264", "crf=500", "holds crf=500, must be 0 to 63" },
                { "mpeg4", "qmin=69", "does not start with params.options qmin=69: " },        { "libx265", "tune=film", "must be one of psnr" },
                { "libvpx-vp9", "cpu-used=99", "holds cpu-used=99, must be -8 to 8" },         { "libx264", "x264-params=foo", "must be key=value" },
                { "libx264", "x264-params=foo=bar", "libx264 does not take: " } };
    SnlsReader *like = NULL;
    char text[400];
    if (snls_video_about(NULL, text, sizeof text) < 0 || strstr(text, " no ")) return;
    CHECK(snls_reader_open(&like, ctx[0], in_folder("clip.npy"), NULL) == SNLS_OK, "%s", snls_error(ctx[0]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const options[] = { bad[i].option, NULL };
        SnlsWriter *w = NULL;
        SnlsWriterParams p;
        snls_writer_defaults(&p);
        p.like = like, p.codec = bad[i].codec, p.options = options, p.listen = strstr(bad[i].option, "foo=") != NULL;
        p.format = strcmp(p.codec, "mpeg4") ? "yuv444p" : NULL; /* x264 that does not start keeps memory of its own for good, so that is mpeg4's here */
        const SnlsStatus status = snls_writer_open(&w, ctx[1], in_folder("v.mkv"), &p);
        CHECK(status == SNLS_ERR_ARG && !w && strstr(snls_error(ctx[1]), bad[i].words), "%s: %d, %s", bad[i].option, (int)status, snls_error(ctx[1]));
        snls_writer_close(&w);
    }
    snls_reader_close(&like);
}

/* ---- about ---- */

static void about(void)
{
    const char *was = getenv("SNLS_FFMPEG_LIBRARY");
    char keep[1024] = "", text[400] = "x";
    if (was) snprintf(keep, sizeof keep, "%s", was);
    setenv("SNLS_FFMPEG_LIBRARY", "/none/such.so", 1);
    for (int i = 0; i < 2; i++) {
        memset(text, 'x', sizeof text);
        CHECK(snls_video_about(i ? ctx[0] : NULL, text, sizeof text) == SNLS_ERR_UNSUPPORTED && strstr(text, "such.so"), "why not: \"%.100s\"", text);
    }
    CHECK(!strcmp(text, snls_error(ctx[0])), "%s", snls_error(ctx[0]));
    char small[4] = "xxx";
    CHECK(snls_video_about(NULL, small, sizeof small) < 0 && strlen(small) == 3, "a small buffer");
    CHECK(snls_video_about(ctx[0], NULL, 5) == SNLS_ERR_ARG && strstr(snls_error(ctx[0]), "room"), "%s", snls_error(ctx[0]));
    if (was) setenv("SNLS_FFMPEG_LIBRARY", keep, 1);
    else unsetenv("SNLS_FFMPEG_LIBRARY");
}

int main(void)
{
    check_repeat("test_video");
    for (int i = 0; i < 2; i++)
        if (!CHECK(snls_open(&ctx[i], NULL) == SNLS_OK, "open")) return check_end();
    make_clip();
    lifetimes();
    unwritten();
    empty();
    missing();
    other_sizes();
    own_input();
    cut_off();
    no_libpng();
    params();
    encoders();
    encoder_values();
    about();
    check_folder_remove();
    for (int i = 0; i < 2; i++) snls_close(&ctx[i]);
    return check_end();
}
