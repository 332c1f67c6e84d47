/* ffmpeg_options.c: options of encoders that a caller asks for, checked before the encoder is opened: x264 prints what it thinks of some, past FFmpeg and
 * past us, and an error of avcodec_open2 does not tell which one it is about. */
#include "video/ffmpeg.h"
#include "base/number.h"
#include <libavutil/log.h>
#include <libavutil/opt.h>
#include <stdio.h>
#include <strings.h>

enum { KEY_ROOM = 64 };

/* ---- names that encoders have for values ---- */

#define PRESETS  "ultrafast superfast veryfast faster fast medium slow slower veryslow placebo"
#define PROFILES "baseline main high high10 high422 high444"
#define PSY      "film animation grain stillimage psnr ssim touhou" /* x264 goes by the first of these alone */

static const struct Names {
    const char *encoder, *key; /* encoders whose names begin so */
    const char *names;         /* with a space between */
    const char *between;       /* several values may be given with one of these between; NULL: one */
} known[] = {
    { "libx264", "preset", PRESETS, NULL },
    { "libx264", "tune", PSY " fastdecode zerolatency", ",./-+" },
    { "libx264", "profile", PROFILES, NULL },
    { "libx265", "preset", PRESETS, NULL },
    { "libx265", "tune", "psnr ssim grain animation vmaf fastdecode zerolatency fast-decode zero-latency", NULL },
};

/* Which of these names it is, from 0; -1: none. */
static int name_at(const char *names, const char *value, size_t length)
{
    for (int i = 0;; i++) {
        const size_t n = strcspn(names, " ");
        if (n == length && !strncasecmp(names, value, n)) return i;
        if (!names[n]) return -1;
        names += n + 1;
    }
}

static SnlsStatus check_names(SnlsWriter *w, const AVCodec *codec, const struct Names *k, const char *value)
{
    const bool number = k->names[0] == 'u' && value[0] >= '0' && value[0] <= '9' && !value[1]; /* presets have numbers too */
    const char *between = k->between ? k->between : "";
    int psy = 0;
    size_t n;
    for (const char *at = value; !number && *at; at += n + !!at[n]) {
        n = strcspn(at, between);
        const bool empty = !n && k->between;
        SNLS_REQUIRE(w->ctx, empty || name_at(k->names, at, n) >= 0, SNLS_ERR_ARG, "writer: params.options holds %s=%.60s, must be one of %s%s (the encoder %s)",
                     k->key, value, k->names, k->between ? ", or some with commas between" : k->names[0] == 'u' ? ", or 0 to 9" : "", codec->name);
        psy += k->between && !empty && name_at(PSY, at, n) >= 0;
    }
    SNLS_REQUIRE(w->ctx, psy < 2, SNLS_ERR_ARG, "writer: params.options holds %s=%.60s, must be no more than one of " PSY " (the encoder %s)", k->key, value,
                 codec->name);
    return SNLS_OK;
}

static SnlsStatus check_known(SnlsWriter *w, const AVCodec *codec, const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(codec->name, known[i].encoder, strlen(known[i].encoder)) && !strcmp(key, known[i].key)) SNLS_TRY(check_names(w, codec, &known[i], value));
    return SNLS_OK;
}

/* ---- profiles of H.264 ---- */

static bool is_lossless(AVCodecContext *probe, int depth)
{
    double crf = -1;
    int64_t qp = -1;
    av_opt_get_double(probe, "crf", AV_OPT_SEARCH_CHILDREN, &crf);
    av_opt_get_int(probe, "qp", AV_OPT_SEARCH_CHILDREN, &qp);
    return crf >= 0 ? (int)(crf + 6 * (depth - 8)) <= 0 : !qp; /* as x264 counts */
}

/* What frames of this format have that the profile, of PROFILES, has not; NULL: nothing. */
static const char *beyond_profile(AVCodecContext *probe, enum AVPixelFormat format, int profile)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(format);
    const bool grey = d->nb_components < 3, full = !grey && !d->log2_chroma_w, half = !grey && !d->log2_chroma_h;
    if (profile < 5 && is_lossless(probe, d->comp[0].depth)) return "lossless mode";
    if (profile < 5 && full) return "4:4:4";
    if (profile < 4 && half) return "4:2:2";
    if (profile < 3 && d->comp[0].depth > 8) return "more than 8 bits";
    return profile < 2 && grey ? "grey" : NULL;
}

static SnlsStatus check_profile(SnlsWriter *w, const AVCodec *codec, AVCodecContext *probe, enum AVPixelFormat format)
{
    uint8_t *value = NULL;
    if (strncmp(codec->name, "libx264", 7) || av_opt_get(probe, "profile", AV_OPT_SEARCH_CHILDREN, &value) < 0) return SNLS_OK;
    const char *text = value ? (const char *)value : "";
    const int profile = name_at(PROFILES, text, strlen(text));
    const char *beyond = profile < 0 ? NULL : beyond_profile(probe, format, profile);
    const SnlsStatus status = beyond ? snls_fail(w->ctx, SNLS_ERR_ARG, "writer: params.options holds profile=%.60s, which has no %s (%s)", text, beyond,
                                                 av_get_pix_fmt_name(format))
                                     : SNLS_OK;
    av_free(value);
    return status;
}

/* ---- what FFmpeg tells of an option ---- */

/* Names for values of an option, with a space between; "" where there are none. */
static void value_names(void *target, const AVOption *o, char *text, size_t size)
{
    const AVOption *c = NULL;
    size_t used = 0;
    while (o->unit && (c = av_opt_next(target, c)))
        if (c->type == AV_OPT_TYPE_CONST && c->unit && !strcmp(c->unit, o->unit) && used + strlen(c->name) + 2 < size)
            used += (size_t)snprintf(text + used, size - used, " %s", c->name);
}

static bool is_number(const AVOption *o)
{
    return o->type == AV_OPT_TYPE_INT || o->type == AV_OPT_TYPE_INT64 || o->type == AV_OPT_TYPE_UINT64 || o->type == AV_OPT_TYPE_FLOAT ||
           o->type == AV_OPT_TYPE_DOUBLE || o->type == AV_OPT_TYPE_RATIONAL || o->type == AV_OPT_TYPE_BOOL;
}

/* What may be given, for the end of a sentence. */
static void accepted(void *target, const AVOption *o, char *text, size_t size)
{
    char names[240] = "", range[80] = "a number";
    const bool least = o->min > -1e9, most = o->max < 1e9; /* beyond, a bound is that of the type */
    value_names(target, o, names, sizeof names);
    if (!strcmp(o->name, "crf")) snprintf(range, sizeof range, "0 to 63"); /* as check_crf has it */
    else if (least && most) snls_number_text(range, sizeof range, "%.10g to %.10g", o->min, o->max);
    else if (least) snls_number_text(range, sizeof range, "a number from %.10g on", o->min);
    if (o->type == AV_OPT_TYPE_FLAGS && *names) snprintf(text, size, "must be some with + between of%s", names);
    else if (is_number(o)) snprintf(text, size, "must be %s%s%s", range, *names ? ", or one of" : "", names);
    else if (o->type == AV_OPT_TYPE_DICT) snprintf(text, size, "must be key=value, with : between several");
    else snprintf(text, size, "FFmpeg does not take that");
}

static SnlsStatus check_option(SnlsWriter *w, const AVCodec *codec, AVCodecContext *probe, const char *key, const char *value)
{
    void *target = NULL;
    char text[400];
    const AVOption *o = av_opt_find2(probe, key, NULL, 0, AV_OPT_SEARCH_CHILDREN, &target);
    SNLS_REQUIRE(w->ctx, o, SNLS_ERR_ARG, "writer: params.options holds %.60s, the encoder %s has no such option", key, snls_av_encoder_name(codec));
    SNLS_TRY(check_known(w, codec, key, value));
    const int error = av_opt_set(target, key, value, 0);
    SNLS_REQUIRE(w->ctx, error != AVERROR(ENOMEM), SNLS_ERR_MEMORY, "writer: out of memory");
    if (error >= 0) return SNLS_OK;
    accepted(target, o, text, sizeof text);
    return snls_fail(w->ctx, SNLS_ERR_ARG, "writer: params.options holds %s=%.60s, %s (the encoder %s)", key, value, text, snls_av_encoder_name(codec));
}

/* The same bounds as those of params.crf: FFmpeg has none for x264 and x265, which cut silently what is beyond theirs. */
static SnlsStatus check_crf(SnlsWriter *w, AVCodecContext *probe)
{
    double crf = -1;
    av_opt_get_double(probe, "crf", AV_OPT_SEARCH_CHILDREN, &crf);
    SNLS_REQUIRE(w->ctx, crf <= 63, SNLS_ERR_ARG, "writer: params.options holds crf=%g, must be 0 to 63", crf);
    return SNLS_OK;
}

/* ---- all of them ---- */

/* x265 has one option for all of its own: what is asked for comes behind ours, and the last word holds. */
static void add_option(AVDictionary **options, const char *key, const char *value)
{
    const bool joined = !strcmp(key, "x265-params") && av_dict_get(*options, key, NULL, 0);
    if (joined) av_dict_set(options, key, ":", AV_DICT_APPEND);
    av_dict_set(options, key, value, joined ? AV_DICT_APPEND : 0);
}

static SnlsStatus add_options(SnlsWriter *w, const AVCodec *codec, AVCodecContext *probe, AVDictionary **options)
{
    for (const char *const *o = w->params.options; o && *o; o++) {
        char key[KEY_ROOM];
        const char *equals = strchr(*o, '=');
        SNLS_REQUIRE(w->ctx, equals && equals > *o && equals - *o < (int)sizeof key, SNLS_ERR_ARG,
                     "writer: params.options holds %.60s, must be key=value", *o);
        snprintf(key, sizeof key, "%.*s", (int)(equals - *o), *o);
        SNLS_TRY(check_option(w, codec, probe, key, equals + 1));
        add_option(options, key, equals + 1);
    }
    return SNLS_OK;
}

SnlsStatus snls_av_options_add(SnlsWriter *w, const AVCodec *codec, enum AVPixelFormat format, AVDictionary **options)
{
    const AVDictionaryEntry *ours = NULL;
    if (!w->params.options || !*w->params.options) return SNLS_OK;
    AVCodecContext *probe = avcodec_alloc_context3(codec);
    SNLS_REQUIRE(w->ctx, probe, SNLS_ERR_MEMORY, "writer: out of memory");
    while ((ours = av_dict_get(*options, "", ours, AV_DICT_IGNORE_SUFFIX))) av_opt_set(probe, ours->key, ours->value, AV_OPT_SEARCH_CHILDREN);
    SnlsStatus status = add_options(w, codec, probe, options);
    if (status >= 0) status = check_crf(w, probe);
    if (status >= 0) status = check_profile(w, codec, probe, format);
    avcodec_free_context(&probe);
    return status;
}

void snls_av_options_text(const SnlsWriter *w, char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (const char *const *o = w->params.options; o && *o && used + 1 < size; o++)
        used += (size_t)snprintf(text + used, size - used, "%s %.60s", used ? "" : " with params.options", *o);
}

/* ---- what is heard ---- */

/* Beginnings of warnings behind which an encoder goes on without what it was asked for: libx264, libaom and libsvtav1; libx265; librav1e too. */
static bool is_ignored(const char *format)
{
    static const char *const begins[] = { "Error parsing option", "Unknown option", "Invalid value for" };
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(format, begins[i], strlen(begins[i]))) return true;
    return false;
}

/* The first of each kind: what comes behind it mostly follows from it. */
static void hear(SnlsAvListener *listener, const AVCodecContext *encoder, int level, const char *format, va_list arguments)
{
    SnlsAvOpening *o = (SnlsAvOpening *)listener;
    char *to = is_ignored(format) ? o->ignored : level <= AV_LOG_ERROR ? o->failed : NULL;
    (void)encoder;
    if (!to || *to) return;
    vsnprintf(to, sizeof o->failed, format, arguments);
    for (size_t n = strlen(to); n && strchr(". \n", to[n - 1]); n--) to[n - 1] = 0;
}

void snls_av_opening_listen(SnlsAvOpening *o, AVCodecContext *encoder)
{
    o->listener.hear = hear;
    snls_av_listen(&o->listener, encoder);
}

void snls_av_opening_end(SnlsAvOpening *o, AVCodecContext *encoder)
{
    snls_av_listen_end(&o->listener);
    encoder->opaque = NULL;
}
