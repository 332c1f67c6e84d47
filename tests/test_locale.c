/* test_locale.c: a program that has set a locale with a comma for a point reads and writes the same numbers as any other: options, sentences,
 * checkpoints, videos. The locale is an installed one, or made here by localedef; where there is neither, the test is skipped. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "check.h"
#include <locale.h>
#include <snls/snls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, T = 3, H = 32, W = 48 };

static SnlsContext *ctx[2];

static bool has_comma(const char *name)
{
    if (setlocale(LC_ALL, name) && localeconv()->decimal_point[0] == ',') return true;
    setlocale(LC_ALL, "C");
    return false;
}

/* Its name, or NULL. */
static const char *comma_locale(void)
{
    static const char *const installed[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8" };
    char command[200];
    for (int i = 0; i < 3; i++)
        if (has_comma(installed[i])) return installed[i];
    snprintf(command, sizeof command, "localedef -c -i de_DE -f UTF-8 %s/snls.UTF-8 >/dev/null 2>&1", check_folder());
    if (system(command)) return NULL;
    setenv("LOCPATH", check_folder(), 1);
    return has_comma("snls.UTF-8") ? "snls.UTF-8" : NULL;
}

static const SnlsOption *option(const char *name)
{
    const SnlsOption *o = snls_options("search");
    while (o->name && strcmp(o->name, name)) o++;
    return o;
}

static void options(void)
{
    SnlsSearch s = { .params = { 0 } };
    char text[64], why[200];
    const SnlsOption *o = option("stride1");
    snls_search_defaults(&s.params);
    CHECK(snls_option_parse(o, &s.params, "0.5", why, sizeof why) == SNLS_OK && s.params.stride1 == 0.5, "0.5 %s", why);
    snls_option_format(o, &s.params, text, sizeof text);
    CHECK(!strcmp(text, "0.5"), "one half is written %s", text);
    CHECK(snls_option_parse(o, &s.params, "0,5", why, sizeof why) == SNLS_ERR_ARG, "0,5 is taken");
    s.params.stride1 = -0.5;
    CHECK(snls_search_shape(ctx[0], &s) < 0 && strstr(snls_error(ctx[0]), "-0.5"), "%s", snls_error(ctx[0]));
    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK(!strcmp(text, "0,5"), "the program's locale was changed: %s", text);
}

#ifdef SNLS_HAVE_JANSSON
static void checkpoint(const char *save, const char *resume)
{
    SnlsTrainParams p, back = { 0 };
    SnlsTrainer *t;
    snls_train_defaults(&p);
    p.width = 4, p.blocks = 1, p.ws = 3, p.wt = 1, p.frames = 3, p.crop = 16, p.rate = 0.000123;
    setlocale(LC_ALL, save);
    CHECK(snls_trainer_open(&t, ctx[0], &p) == SNLS_OK && snls_trainer_save(t, in_folder("run.ck")) == SNLS_OK, "%s", snls_error(ctx[0]));
    snls_trainer_close(&t);
    setlocale(LC_ALL, resume);
    CHECK(snls_trainer_resume(&t, ctx[0], in_folder("run.ck")) == SNLS_OK, "saved in %s, resumed in %s: %s", save, resume, snls_error(ctx[0]));
    if (t) snls_trainer_params(t, &back);
    CHECK(back.rate == p.rate, "a rate of %g becomes %g", p.rate, back.rate);
    snls_trainer_close(&t);
}
#endif

static SnlsStatus encode(const char *path, const char *option)
{
    SnlsReader *in = NULL;
    SnlsWriter *out = NULL;
    SnlsFrame *frame = NULL;
    SnlsWriterParams p;
    const char *const list[] = { option, "threads=1", NULL };
    snls_writer_defaults(&p);
    SnlsStatus status = snls_reader_open(&in, ctx[0], in_folder("clip.npy"), NULL);
    p.like = in, p.codec = "libx264", p.crf = 18.5, p.options = list;
    if (status >= 0) status = snls_writer_open(&out, ctx[1], path, &p);
    while (status >= 0 && snls_reader_next(in, &frame) == SNLS_OK) {
        status = snls_writer_write(out, frame);
        snls_frame_free(&frame);
    }
    if (status >= 0) status = snls_writer_finish(out);
    snls_writer_close(&out);
    snls_reader_close(&in);
    return status;
}

static long file_bytes(const char *path, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    const long n = file ? (long)fread(bytes, 1, room, file) : -1;
    if (file) fclose(file);
    return n;
}

static void make_clip(void)
{
    static float pixels[T * H * W * 3];
    Rng rng = { 5 };
    const SnlsTensor clip = snls_tensor(pixels, SNLS_F32, 4, (const int64_t[]){ T, H, W, 3 });
    tensor_fill(&clip, &rng, 0, 255);
    CHECK(snls_npy_write(ctx[0], in_folder("clip.npy"), &clip) == SNLS_OK, "%s", snls_error(ctx[0]));
}

/* What the encoder was told is in the file. */
static void videos(const char *comma)
{
    static unsigned char a[200000], b[200000];
    setlocale(LC_ALL, "C");
    if (encode(in_folder("c.mkv"), "qcomp=0.7") == SNLS_ERR_UNSUPPORTED) {
        printf("no videos: %s\n", snls_error(ctx[1]));
        return;
    }
    setlocale(LC_ALL, comma);
    CHECK(encode(in_folder("comma.mkv"), "qcomp=0.7") == SNLS_OK, "%s", snls_error(ctx[1]));
    const long n = file_bytes(in_folder("c.mkv"), a, sizeof a), m = file_bytes(in_folder("comma.mkv"), b, sizeof b);
    CHECK(n > 0 && n == m && !memcmp(a, b, (size_t)n), "a video of %ld bytes differs from that of the other locale, of %ld", n, m);
}

/* In Turkish the small letter of I is none of ASCII: endings of files, and the names that encoders have for values, are the same everywhere. */
static void letters(void)
{
    char command[200];
    snprintf(command, sizeof command, "localedef -c -i tr_TR -f UTF-8 %s/tr.UTF-8 >/dev/null 2>&1", check_folder());
    setenv("LOCPATH", check_folder(), 1);
    if (system(command) != -1 && !setlocale(LC_ALL, "tr.UTF-8")) setlocale(LC_ALL, "tr_TR.UTF-8"); /* warnings are a status, too */
    CHECK(snls_path_ends("CLIP.TIF", ".tif") && !snls_path_ends("CLIP.TIF", ".gif"), "the ending of CLIP.TIF in locale %s", setlocale(LC_ALL, NULL));
    const SnlsStatus status = encode(in_folder("tuned.mkv"), "tune=ANIMATION,FASTDECODE");
    CHECK(status == SNLS_OK || status == SNLS_ERR_UNSUPPORTED, "an encoder's option in locale %s: %s", setlocale(LC_ALL, NULL), snls_error(ctx[1]));
    setlocale(LC_ALL, "C");
}

int main(void)
{
    check_repeat("test_locale");
    const char *comma = comma_locale();
    for (int i = 0; i < 2; i++)
        if (!CHECK(snls_open(&ctx[i], NULL) == SNLS_OK, "open")) return check_end();
    make_clip();
    if (comma) {
        options();
#ifdef SNLS_HAVE_JANSSON
        checkpoint(comma, "C");
        checkpoint("C", comma);
#endif
        videos(comma);
    }
    letters();
    for (int i = 0; i < 2; i++) snls_close(&ctx[i]);
    check_folder_remove();
    if (!comma) return printf("skipped: no locale with a comma is installed, and localedef makes none\n"), SKIPPED;
    return check_end();
}
