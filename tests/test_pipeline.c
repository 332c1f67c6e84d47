/* test_pipeline.c: scene cuts on made scenes; readers, writers and the pipeline on arrays and pictures, without FFmpeg; failing
 * memory; a journal that is cut off anywhere. */
#define _POSIX_C_SOURCE 200809L
#include "drawn.h"
#include "pipeline/cuts.h"
#include "spec.h"
#include <math.h>
#include <snls/io.h>
#include <snls/pipeline.h>
#include <snls/video.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { H = 32, W = 40, T = 14 };

static SnlsContext *ctx[3];

/* ---- scene cuts ---- */

/* A scene: waves of its own, moving by dx a frame, in dim light or not, brighter by light, with noise. */
static void scene(Rng *rng, int number, double at, double dim, double light, double noise, float *pixels)
{
    static const double waves[4][6] = { { 0.21, 0.13, 90, 60, 120, 30 },
                                        { 0.07, 0.31, 190, 170, 140, 40 },
                                        { 0.4, 0.05, 40, 90, 60, 25 },
                                        { 0.11, 0.17, 150, 60, 50, 45 } };
    const double *w = waves[number];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++)
                pixels[(y * W + x) * 3 + c] = (float)(dim * (w[2 + c] + w[5] * sin(w[0] * (x + at) + c) * cos(w[1] * y - c)) +
                                                      light + rng_real(rng, -1.7, 1.7) * noise);
}

/* dim: of the first and the last frame. */
static int cuts_of(int first, int second, double speed, double dim, double dim_last, double light, double noise)
{
    static float pixels[H * W * 3];
    Rng rng = { 11 };
    SnlsCuts cuts = { 0 };
    int found = 0;
    for (int t = 0; t < 12; t++) {
        scene(&rng, t < 6 ? first : second, speed * t, dim + (dim_last - dim) * t / 11, light * t, noise, pixels);
        if (snls_cuts_next(&cuts, pixels, H, W, 3)) found += t == 6 ? 1 : 100;
    }
    return found;
}

/* Every other frame brighter, or darker by a share. */
static int cuts_of_flicker(int number, double light, double dim)
{
    static float pixels[H * W * 3];
    Rng rng = { 12 };
    SnlsCuts cuts = { 0 };
    int found = 0;
    for (int t = 0; t < 12; t++) {
        scene(&rng, number, t, t % 2 ? dim : 1, t % 2 ? light : 0, 10, pixels);
        found += snls_cuts_next(&cuts, pixels, H, W, 3);
    }
    return found;
}

/* A wall, nothing but noise, in light that goes up and down; dark: a picture that fades in from black without noise. */
static int cuts_of_flat(bool dark)
{
    static float pixels[H * W * 3];
    Rng rng = { 13 };
    SnlsCuts cuts = { 0 };
    int found = 0;
    for (int t = 0; t < 24; t++) {
        for (int i = 0; i < H * W * 3; i++)
            pixels[i] = (float)(dark ? (t < 8 ? 0 : t - 8) * (2 + sin(i / 3 % W * 0.2)) : (t / 5 % 2 ? 134 : 126) + rng_real(&rng, -17, 17));
        found += snls_cuts_next(&cuts, pixels, H, W, 3);
    }
    return found;
}

static void scene_cuts(void)
{
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int i = 0; i < 3; i++) {
                const double noise = i * 25, speed = i;
                const int found = cuts_of(a, b, speed, 1, 1, 0, noise), dark = cuts_of(a, b, speed, 0.12, 0.12, 0, 0.12 * noise);
                CHECK(found == (a != b), "scene %d to %d, noise %g: %d", a, b, noise, found);
                CHECK(dark == (a != b), "scene %d to %d in the dark, noise %g: %d", a, b, 0.12 * noise, dark);
            }
    CHECK(cuts_of_flat(false) == 0 && cuts_of_flat(true) == 0, "a wall's light or a picture that comes out of black is taken for cuts");
    CHECK(cuts_of(1, 1, 9, 1, 1, 0, 20) == 0, "a fast pan is taken for cuts");
    CHECK(cuts_of(2, 2, 1, 1, 1, 4, 20) == 0, "a fade is taken for cuts");
    for (int a = 0; a < 4; a++) {
        CHECK(cuts_of_flicker(a, 30, 1) == 0 && cuts_of_flicker(a, 0, 0.7) == 0, "scene %d: flicker is taken for cuts", a);
        CHECK(cuts_of(a, a, 1, 0, 0.3, 0, 3) == 0, "scene %d: fading in is taken for a cut", a);
        CHECK(cuts_of(a, a, 1, 0.3, 0, 0, 0) == 0, "scene %d: fading out is taken for a cut", a);
    }
}

/* ---- arrays and pictures ---- */

static void make_grey(const char *path, int frames)
{
    SnlsTensor clip;
    if (!CHECK(snls_array_alloc(ctx[0], &clip, SNLS_F32, 4, (const int64_t[]){ frames, H, W, 1 }) == SNLS_OK, "memory")) return;
    for (int i = 0; i < frames * H * W; i++) ((float *)clip.data)[i] = (float)(i % 251);
    CHECK(snls_npy_write(ctx[0], path, &clip) == SNLS_OK, "%s", snls_error(ctx[0]));
    snls_array_free(ctx[0], &clip);
}

static void make_clip(const char *path, int frames)
{
    Rng rng = { 3 };
    SnlsTensor clip;
    if (!CHECK(snls_array_alloc(ctx[0], &clip, SNLS_F32, 4, (const int64_t[]){ frames, H, W, 3 }) == SNLS_OK, "memory"))
        return;
    for (int t = 0; t < frames; t++) scene(&rng, t < 8 ? 0 : 1, t, 1, 0, 10, (float *)clip.data + t * H * W * 3);
    CHECK(snls_npy_write(ctx[0], path, &clip) == SNLS_OK, "%s", snls_error(ctx[0]));
    snls_array_free(ctx[0], &clip);
}

static SnlsStatus run(const char *in, const char *out, const SnlsDenoiseParams *denoise,
                      const SnlsPipelineParams *params, SnlsPipelineResult *result)
{
    SnlsPipeline job = { .ctx = ctx[0], .denoise = denoise };
    SnlsWriterParams wp;
    *result = (SnlsPipelineResult){ 0 };
    SnlsStatus status = snls_reader_open(&job.reader, ctx[1], in, NULL);
    snls_writer_defaults(&wp);
    wp.like = job.reader;
    if (status >= 0) status = snls_writer_open(&job.writer, ctx[2], out, &wp);
    if (params) job.params = *params;
    else snls_pipeline_defaults(&job.params);
    if (status >= 0) status = snls_pipeline_run(&job, result);
    snls_writer_close(&job.writer);
    snls_reader_close(&job.reader);
    return status;
}

static bool same_files(const char *a, const char *b)
{
    FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
    int p = 0, q = 0;
    while (x && y && p == q && p != EOF) p = fgetc(x), q = fgetc(y);
    if (x) fclose(x);
    if (y) fclose(y);
    return x && y && p == q;
}

static void copies(void)
{
    SnlsPipelineResult r;
    make_clip(in_folder("a.npy"), T);
    CHECK(run(in_folder("a.npy"), in_folder("b.npy"), NULL, NULL, &r) == SNLS_OK && r.frames == T, "copy: %s", r.error);
    CHECK(same_files(in_folder("a.npy"), in_folder("b.npy")), "a copy of an array differs");
#ifdef SNLS_HAVE_PNG
    mkdir(in_folder("p"), 0777);
    CHECK(run(in_folder("a.npy"), in_folder("p"), NULL, NULL, &r) == SNLS_OK && r.frames == T, "pictures: %s", r.error);
    CHECK(run(in_folder("p"), in_folder("q%d.png"), NULL, NULL, &r) == SNLS_OK && r.frames == T, "pattern: %s",
          r.error);
    CHECK(same_files(in_folder("p/00003.png"), in_folder("q3.png")), "a copy of pictures differs");
#endif
    CHECK(run(in_folder("none.npy"), in_folder("c.npy"), NULL, NULL, &r) == SNLS_ERR_IO, "a missing file");
    CHECK(run(in_folder("none%d%d.png"), in_folder("c.npy"), NULL, NULL, &r) == SNLS_ERR_ARG,
          "two numbers in a pattern");
    CHECK(run(in_folder("none%s.png"), in_folder("c.npy"), NULL, NULL, &r) == SNLS_ERR_ARG, "a pattern of printf's");
    CHECK(run(in_folder("a.npy"), in_folder("no/c.npy"), NULL, NULL, &r) == SNLS_ERR_IO, "a missing folder");
}

/* Grey has one sigma, the first: a clip that is told 0 is copied, and no noise was looked for in it. */
static void grey(void)
{
    SnlsDenoiseParams d;
    SnlsPipelineParams p;
    SnlsPipelineResult r;
    const SnlsVideoInfo in = { .width = W, .height = H, .channels = 1, .depth = 8 };
    snls_denoise_defaults(&d);
    snls_pipeline_defaults(&p);
    d.method = SNLS_DENOISE_NLM;
    d.sigma[0] = 0; /* the others stay as they are by default: estimated */
    make_grey(in_folder("g.npy"), 3);
    CHECK(run(in_folder("g.npy"), in_folder("h.npy"), &d, NULL, &r) == SNLS_OK && r.frames == 3, "grey: %s", r.error);
    CHECK(r.quiet == 0 && r.sigma[0] == 0 && same_files(in_folder("g.npy"), in_folder("h.npy")), "a copy of grey: %d without noise", (int)r.quiet);
    CHECK(snls_pipeline_memory(&p, &in, &d, NULL, 1) == snls_pipeline_memory(&p, &in, NULL, NULL, 1), "a copy of grey holds more than frames");
}

static void ranges(void)
{
    SnlsReaderParams p;
    SnlsReader *reader;
    SnlsFrame *frame;
    snls_reader_defaults(&p);
    p.first = 5, p.count = 4;
    if (!CHECK(snls_reader_open(&reader, ctx[1], in_folder("a.npy"), &p) == SNLS_OK, "%s", snls_error(ctx[1]))) return;
    SnlsVideoInfo info;
    snls_reader_info(reader, &info);
    CHECK(info.frames == 4 && info.width == W && info.height == H && info.channels == 3, "info of a range");
    int count = 0;
    for (; snls_reader_next(reader, &frame) == SNLS_OK; count++) {
        CHECK(fabs(snls_frame_time(frame) - (5 + count) / 25.0) < 1e-9, "time of frame %d", count);
        snls_frame_free(&frame);
    }
    CHECK(count == 4 && !frame, "%d frames of 4", count);
    snls_reader_close(&reader);
    p.first = T;
    CHECK(snls_reader_open(&reader, ctx[1], in_folder("a.npy"), &p) == SNLS_ERR_ARG && !reader,
          "a range behind the end");
    p.first = -1;
    CHECK(snls_reader_open(&reader, ctx[1], in_folder("a.npy"), &p) == SNLS_ERR_ARG && !reader, "a negative range");
}

/* What comes behind a cut does not matter to the frames before it. */
static void across_a_cut(void)
{
    SnlsDenoiseParams d;
    SnlsPipelineResult r;
    SnlsTensor both, first;
    snls_denoise_defaults(&d);
    d.preset = SNLS_DENOISE_FAST;
    d.radius = 1;
    d.sigma[0] = d.sigma[1] = d.sigma[2] = 10;
    make_clip(in_folder("eight.npy"), 8);
    if (run(in_folder("a.npy"), in_folder("both.npy"), &d, NULL, &r) == SNLS_ERR_UNSUPPORTED) return;
    CHECK(r.cuts == 1 && run(in_folder("eight.npy"), in_folder("first.npy"), &d, NULL, &r) == SNLS_OK, "denoise: %s",
          r.error);
    if (!CHECK(snls_npy_read(ctx[0], in_folder("both.npy"), &both) == SNLS_OK &&
                   snls_npy_read(ctx[0], in_folder("first.npy"), &first) == SNLS_OK,
               "read"))
        return;
    CHECK(!memcmp(both.data, first.data, (size_t)snls_tensor_elements(&first) * sizeof(float)),
          "something is taken from behind a cut");
    snls_array_free(ctx[0], &both);
    snls_array_free(ctx[0], &first);
}

/* ---- the journal ---- */

static SnlsStatus stop_at(void *opaque, const SnlsPipelineFrame *frame)
{
    return frame->number == *(int *)opaque ? SNLS_ERR_IO : SNLS_OK;
}

static void cut_file(const char *path, long less)
{
    struct stat info;
    if (!stat(path, &info) && info.st_size > less) CHECK(!truncate(path, info.st_size - less), "truncate");
}

static void journals(void)
{
    SnlsDenoiseParams d;
    SnlsPipelineParams p;
    SnlsPipelineResult r;
    snls_denoise_defaults(&d);
    d.preset = SNLS_DENOISE_FAST;
    d.radius = 1;
    snls_pipeline_defaults(&p);
    const SnlsStatus whole = run(in_folder("a.npy"), in_folder("whole.npy"), &d, &p, &r);
    if (whole == SNLS_ERR_UNSUPPORTED) {
        printf("no LAPACK: the journal is not tried\n");
        return;
    }
    CHECK(whole == SNLS_OK && r.frames == T && r.cuts == 1, "denoise: %s, %d cuts", r.error, (int)r.cuts);
    p.journal = in_folder("j");
    p.fingerprint = "x";
    for (int at = 3; at < T; at += 6) {
        char journal[128];
        snprintf(journal, sizeof journal, "%s", in_folder("j"));
        p.journal = journal;
        p.resume = 0, p.watch = stop_at, p.opaque = &at;
        CHECK(run(in_folder("a.npy"), in_folder("part.npy"), &d, &p, &r) == SNLS_ERR_IO && r.writing,
              "not stopped at %d", at);
        cut_file(journal, at * 31L);
        p.resume = 1, p.watch = NULL, p.fingerprint = "y";
        CHECK(run(in_folder("a.npy"), in_folder("part.npy"), &d, &p, &r) == SNLS_ERR_ARG, "a foreign journal is taken");
        p.fingerprint = "x";
        CHECK(run(in_folder("a.npy"), in_folder("part.npy"), &d, &p, &r) == SNLS_OK && r.frames == T && r.resumed == at,
              "resumed %d at %d: %s", (int)r.resumed, at, r.error);
        CHECK(same_files(in_folder("whole.npy"), in_folder("part.npy")), "a run stopped at %d and resumed differs", at);
        CHECK(access(journal, F_OK), "the journal is left");
    }
}

/* A file of the journal's name that is somebody's own stays as it is, unless it is given up; an empty one, and a journal of any version, is taken. */
static void journal_in_the_way(void)
{
    static const char *const there[] = { "mine, and longer than a header", "short", "", "snls journal 2\nand frames" };
    SnlsDenoiseParams d;
    SnlsPipelineParams p;
    SnlsPipelineResult r;
    char journal[128], text[64] = "";
    snls_denoise_defaults(&d);
    d.method = SNLS_DENOISE_NLM, d.preset = SNLS_DENOISE_FAST, d.flow = SNLS_DENOISE_FLOW_NONE, d.radius = 0;
    snls_pipeline_defaults(&p);
    snprintf(journal, sizeof journal, "%s", in_folder("own"));
    p.journal = journal;
    for (int i = 0; i < 8; i++) {
        p.overwrite_journal = i / 4;
        FILE *file = fopen(journal, "wb");
        CHECK(file && fputs(there[i % 4], file) >= 0 && !fclose(file), "a file");
        const bool taken = p.overwrite_journal || i % 4 > 1;
        const SnlsStatus status = run(in_folder("a.npy"), in_folder("own.npy"), &d, &p, &r);
        CHECK(taken ? status == SNLS_OK : status == SNLS_ERR_IO && r.writing && !r.frames && strstr(r.error, "is no journal"), "'%s' with overwrite %d: %s", there[i % 4], i / 4, r.error);
        file = fopen(journal, "rb");
        CHECK(taken ? !file : file && fgets(text, sizeof text, file) && !strcmp(text, there[i % 4]), "'%s' with overwrite %d is %s", there[i % 4], i / 4, file ? text : "gone");
        if (file) fclose(file);
    }
}

/* Every failure has its sentence in the result, those of arguments too. */
static void refused(const SnlsPipeline *job, const char *word)
{
    SnlsPipelineResult r;
    memset(&r, 'x', sizeof r);
    CHECK(snls_pipeline_run(job, &r) == SNLS_ERR_ARG && strstr(r.error, word) && !r.frames, "%s: \"%.100s\"", word, r.error);
}

static void arguments(void)
{
    SnlsPipeline good = { .ctx = ctx[0] }, job;
    SnlsWriterParams wp;
    snls_pipeline_defaults(&good.params);
    snls_writer_defaults(&wp);
    CHECK(snls_reader_open(&good.reader, ctx[1], in_folder("a.npy"), NULL) == SNLS_OK, "%s", snls_error(ctx[1]));
    wp.like = good.reader;
    CHECK(snls_writer_open(&good.writer, ctx[2], in_folder("d.npy"), &wp) == SNLS_OK, "%s", snls_error(ctx[2]));
    refused(NULL, "pipeline is missing");
    refused((job = good, job.ctx = NULL, &job), "context is missing");
    refused((job = good, job.reader = NULL, &job), "reader is missing");
    refused((job = good, job.writer = NULL, &job), "writer is missing");
    refused((job = good, job.ctx = ctx[1], &job), "a context each");
    refused((job = good, job.params.queue = 65, &job), "queue is 65");
    refused((job = good, job.params.lean = 2, &job), "lean is 2");
    refused((job = good, job.params.resume = -1, &job), "resume is -1");
    refused((job = good, job.params.journal = "", &job), "the path of the journal is empty");
    refused((job = good, job.params.reserved[9] = 4, &job), "reserved[9] of params is 4, must be 0 (call snls_pipeline_defaults first)");
    refused((job = good, memset(&job.params, 0, sizeof job.params), &job), "snls_pipeline_defaults");
    SnlsModel model = make_model(ctx[1], &snls_stan_s, SNLS_F32, &(StanSConfig){ .width = 4, .blocks = 1, .ws = 3, .wt = 1 });
    SnlsDenoiseParams d;
    snls_denoise_defaults(&d);
    refused((job = good, job.model = &model, job.denoise = &d, &job), "opened with another context");
    free_model(&model);
    const SnlsTensor small = snls_tensor((float[5 * 7 * 3]){ 0 }, SNLS_F32, 4, (const int64_t[]){ 1, 5, 7, 3 });
    SnlsReader *other = NULL;
    CHECK(snls_npy_write(ctx[1], in_folder("small.npy"), &small) == SNLS_OK && snls_reader_open(&other, ctx[1], in_folder("small.npy"), NULL) == SNLS_OK, "%s", snls_error(ctx[1]));
    refused((job = good, job.reader = other, &job), "not 7x5");
    snls_reader_close(&other);
    CHECK(snls_pipeline_run(&good, NULL) == SNLS_ERR_ARG && strstr(snls_error(ctx[0]), "result is missing"), "%s", snls_error(ctx[0]));
    snls_writer_close(&good.writer);
    snls_reader_close(&good.reader);
}

/* After a run that was stopped frames that were read ahead are gone: nothing of it can be gone on with, and nothing says that the output is complete. */
static void stopped(void)
{
    int at = 1;
    SnlsPipeline job = { .ctx = ctx[0] };
    SnlsPipelineResult r;
    SnlsWriterParams wp;
    SnlsFrame *frame;
    snls_pipeline_defaults(&job.params);
    snls_writer_defaults(&wp);
    if (!CHECK(snls_reader_open(&job.reader, ctx[1], in_folder("a.npy"), NULL) == SNLS_OK, "%s", snls_error(ctx[1]))) return;
    wp.like = job.reader;
    mkdir(in_folder("stopped"), 0777);
    if (!CHECK(snls_writer_open(&job.writer, ctx[2], in_folder("stopped"), &wp) == SNLS_OK, "%s", snls_error(ctx[2]))) return;
    job.params.watch = stop_at, job.params.opaque = &at;
    CHECK(snls_pipeline_run(&job, &r) == SNLS_ERR_IO && r.frames < T, "not stopped: %s", r.error);
    job.params.watch = NULL;
    refused(&job, "open it and the writer again");
    CHECK(snls_reader_next(job.reader, &frame) == SNLS_ERR_ARG && strstr(snls_error(ctx[1]), "open it again"), "read on: %s", snls_error(ctx[1]));
    CHECK(snls_writer_finish(job.writer) == SNLS_ERR_IO && strstr(snls_error(ctx[2]), "not complete"), "finish: %s", snls_error(ctx[2]));
    snls_reader_close(&job.reader);
    CHECK(snls_reader_open(&job.reader, ctx[1], in_folder("a.npy"), NULL) == SNLS_OK, "%s", snls_error(ctx[1]));
    refused(&job, "the writer is finished");
    snls_writer_close(&job.writer);
    snls_reader_close(&job.reader);
}

/* Bytes of a copy, which has no bounds but those of numbers. */
static void memory(void)
{
    static const struct {
        int64_t w, h;
        int32_t channels, queue;
        bool counts;
    } cases[] = { { 1920, 1080, 3, 2, true },      { 1, 1, 1, 64, true },       { 1 << 20, 1 << 20, 3, 2, true },         { (int64_t)1 << 31, (int64_t)1 << 31, 3, 2, false },
                  { INT64_MAX, INT64_MAX, 3, 2, false }, { -5, 7, 3, 2, false }, { -5, -7, 3, 2, false },                 { 0, 7, 3, 2, false },
                  { 64, 48, 2, 2, false },         { 64, 48, 3, 0, false },     { 64, 48, 3, INT32_MAX, false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SnlsPipelineParams p;
        snls_pipeline_defaults(&p);
        p.queue = cases[i].queue;
        const SnlsVideoInfo in = { .width = cases[i].w, .height = cases[i].h, .channels = cases[i].channels, .depth = 8 };
        const int64_t bytes = snls_pipeline_memory(&p, &in, NULL, NULL, 1);
        CHECK(cases[i].counts ? bytes >= in.width * in.height * in.channels : bytes == -1, "case %d: %lld", (int)i, (long long)bytes);
    }
}

int main(void)
{
    check_repeat("test_pipeline");
    for (int i = 0; i < 3; i++)
        if (!CHECK(snls_open(&ctx[i], NULL) == SNLS_OK, "open")) return check_end();
    scene_cuts();
    copies();
    grey();
    ranges();
    across_a_cut();
    journals();
    stopped();
    journal_in_the_way();
    arguments();
    memory();
    check_folder_remove();
    for (int i = 0; i < 3; i++) snls_close(&ctx[i]);
    tensors_free();
    return check_end();
}
