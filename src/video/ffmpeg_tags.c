/* ffmpeg_tags.c: titles, languages and marks such as "forced": where a container has them, and which it has no place for. */
#include "video/ffmpeg.h"
#include <libavutil/avstring.h>
#include <stdio.h>
#include <string.h>

/* What FFmpeg's muxers write, by their names. */
#define MP4_KIND "mp4,ipod,3gp,3g2,psp,ismv,f4v"
#define KEEPS_ANY "matroska,webm,nut"
#define OGG_KIND "ogg,ogv"

static const char *value_of(const AVDictionary *tags, const char *key)
{
    const AVDictionaryEntry *e = av_dict_get(tags, key, NULL, 0);
    return e && *e->value ? e->value : NULL;
}

/* Languages of QuickTime that FFmpeg has words of its own for: ISO 639-2's, FFmpeg's. */
static const char own_words[][2][4] = { { "swe", "sve" }, { "hrv", "hr " }, { "srp", "sr " }, { "pan", "pa " }, { "fao", "fo " }, { "gle", "iri" } };

/* The code; NULL where there is none, for which "und" is the word. */
static const char *language_of(const AVStream *s)
{
    const char *language = value_of(s->metadata, "language");
    if (!language || !strcmp(language, "und")) return NULL;
    for (size_t i = 0; i < sizeof own_words / sizeof *own_words; i++)
        if (!strcmp(language, own_words[i][1])) return own_words[i][0];
    return language;
}

static bool is_code(const char *language) { return strlen(language) == 3 && strspn(language, "abcdefghijklmnopqrstuvwxyz") == 3; }

/* QuickTime numbers languages, and FFmpeg takes one word for each number: of the two codes that ISO 639-2 has for some languages either the one or the
 * other. NULL where there is no number. */
static const char *quicktime_word(const char *code)
{
    static const char numbered[] = "alb amh ara arm asm aym aze baq bel ben bul bur cat ces chi dan dut dzo eng epo est fin fra geo ger gre grn guj heb hin hun ice ind ita jav jpn "
                                   "kan kas kaz khm kin kir kor kur lao lat lav lit mac mal mar may mlg mlt mon nep nor nya ori orm per pol por pus que ron run rus san sin slk slv smi "
                                   "snd som spa swa tam tat tel tgk tgl tha tib tir tuk tur uig ukr urd uzb vie wel yid";
    static const char second[][2][4] = { { "sqi", "alb" }, { "hye", "arm" }, { "eus", "baq" }, { "mya", "bur" }, { "cze", "ces" }, { "zho", "chi" }, { "nld", "dut" },
                                         { "fre", "fra" }, { "kat", "geo" }, { "deu", "ger" }, { "ell", "gre" }, { "isl", "ice" }, { "mkd", "mac" }, { "msa", "may" },
                                         { "fas", "per" }, { "rum", "ron" }, { "slo", "slk" }, { "bod", "tib" }, { "cym", "wel" } };
    for (size_t i = 0; i < sizeof second / sizeof *second; i++)
        if (!strcmp(code, second[i][0])) return second[i][1];
    for (size_t i = 0; i < sizeof own_words / sizeof *own_words; i++)
        if (!strcmp(code, own_words[i][0])) return own_words[i][1];
    return is_code(code) && strstr(numbered, code) ? code : NULL;
}

void snls_av_tags_fit(AVStream *to, const AVOutputFormat *format)
{
    const bool mov = !strcmp(format->name, "mov");
    const char *title = value_of(to->metadata, "title"), *language = language_of(to), *word = language && mov ? quicktime_word(language) : NULL;
    /* Many players show the handler's name as the track's; .mov has one byte for its length. */
    if (title && av_match_name(format->name, "mov," MP4_KIND) && (!mov || strlen(title) < 256)) av_dict_set(&to->metadata, "handler_name", title, 0);
    if (language) av_dict_set(&to->metadata, "language", word ? word : language, 0);
}

static bool holds_clip_title(const char *format, const AVStream *video)
{
    if (av_match_name(format, OGG_KIND)) return !value_of(video->metadata, "title"); /* it takes that place */
    return av_match_name(format, KEEPS_ANY ",mov," MP4_KIND ",mpegts,avi,flv,asf,rm,wtv");
}

static bool holds_title(const char *format) { return av_match_name(format, KEEPS_ANY ",mov," MP4_KIND "," OGG_KIND ",avi"); }

static bool holds_language(const char *format, const AVStream *s, const char *language)
{
    const enum AVMediaType type = s->codecpar->codec_type;
    if (av_match_name(format, KEEPS_ANY "," OGG_KIND ",asf")) return true;
    if (!strcmp(format, "mov")) return quicktime_word(language);
    if (!strcmp(format, "mpegts")) return is_code(language) && (type == AVMEDIA_TYPE_AUDIO || type == AVMEDIA_TYPE_SUBTITLE);
    return is_code(language) && av_match_name(format, MP4_KIND);
}

/* Adds ", WHAT"; the first without comma. Dots stand for what there is no room for. */
static void add(char *text, size_t size, const char *what, int stream)
{
    char one[48];
    const size_t used = strlen(text), dots = 5;
    snprintf(one, sizeof one, stream < 0 ? "%s%s" : "%s%s of stream %d", used ? ", " : "", what, stream);
    if (used + strlen(one) + dots < size) snprintf(text + used, size - used, "%s", one);
    else if (used < dots || strcmp(text + used - 3, "...")) snprintf(text + used, size - used, ", ...");
}

/* Is it the video, or copied beside it? */
static bool is_written(int stream, int video, const SnlsAvCopy *copied)
{
    return stream == video || (copied && (unsigned)stream < copied->streams && copied->stream[stream].to >= 0);
}

/* What viewers choose a stream by, and the muxers that write it; Matroska writes all of them. */
static const struct {
    int flag;
    const char *word, *formats;
} marks[] = { { AV_DISPOSITION_FORCED, "forced", "matroska,webm,mp4" },
              { AV_DISPOSITION_HEARING_IMPAIRED, "hearing impaired", "matroska,mp4,mpegts" },
              { AV_DISPOSITION_VISUAL_IMPAIRED, "visual impaired", "matroska,mp4,mpegts" },
              { AV_DISPOSITION_COMMENT, "comment", "matroska,mp4,nut" },
              { AV_DISPOSITION_DUB, "dub", "matroska,mp4,nut" },
              { AV_DISPOSITION_ORIGINAL, "original", "matroska,nut" } };

static void add_marks(char *text, size_t size, const char *format, const AVStream *s)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        char word[32];
        snprintf(word, sizeof word, "mark \"%s\"", marks[i].word);
        if (s->disposition & marks[i].flag && !av_match_name(format, marks[i].formats)) add(text, size, word, s->index);
    }
}

void snls_av_tags_note(SnlsVideoInfo *info, const char *format, const AVFormatContext *in, int video, const SnlsAvCopy *copied)
{
    char text[160] = "";
    if (value_of(in->metadata, "title") && !holds_clip_title(format, in->streams[video])) add(text, sizeof text, "title", -1);
    for (int i = 0; i < (int)in->nb_streams; i++) {
        const AVStream *s = in->streams[i];
        const char *language = language_of(s);
        if (!is_written(i, video, copied)) continue;
        if (value_of(s->metadata, "title") && !holds_title(format)) add(text, sizeof text, "title", i);
        if (language && !holds_language(format, s, language)) add(text, sizeof text, "language", i);
        add_marks(text, sizeof text, format, s);
    }
    if (*text) snls_note(info, "not kept: %s; %s has no place for it, .mkv does", text, format);
}
