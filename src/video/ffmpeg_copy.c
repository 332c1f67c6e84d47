/* ffmpeg_copy.c: audio, subtitles, chapters, attachments and tags of the input, copied beside the video. The input is opened a
 * second time for it, so that decoding and encoding need no common queue of packets. */
#include "video/ffmpeg.h"
#include "io/file.h"
#include <libavutil/avstring.h>
#include <libavutil/timecode.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Containers of which FFmpeg does not say what they hold: what others play from them. */
static bool known_to_hold(const AVOutputFormat *f, enum AVCodecID id)
{
    static const enum AVCodecID transport[] = { AV_CODEC_ID_MP2,  AV_CODEC_ID_MP3,    AV_CODEC_ID_AAC,          AV_CODEC_ID_AAC_LATM,
                                                AV_CODEC_ID_AC3,  AV_CODEC_ID_EAC3,   AV_CODEC_ID_DTS,          AV_CODEC_ID_TRUEHD,
                                                AV_CODEC_ID_H264, AV_CODEC_ID_HEVC,   AV_CODEC_ID_MPEG1VIDEO,   AV_CODEC_ID_MPEG4,
                                                AV_CODEC_ID_OPUS, AV_CODEC_ID_DVB_SUBTITLE, AV_CODEC_ID_DVB_TELETEXT, AV_CODEC_ID_NONE };
    static const enum AVCodecID program[] = { AV_CODEC_ID_MP2, AV_CODEC_ID_MP3,          AV_CODEC_ID_AC3,        AV_CODEC_ID_MPEG1VIDEO,
                                              AV_CODEC_ID_DTS, AV_CODEC_ID_DVD_SUBTITLE, AV_CODEC_ID_MPEG2VIDEO, AV_CODEC_ID_NONE };
    static const enum AVCodecID exchange[] = { AV_CODEC_ID_PCM_S16LE, AV_CODEC_ID_PCM_S24LE, AV_CODEC_ID_NONE };
    const enum AVCodecID *list = !strcmp(f->name, "mpegts")              ? transport
                                 : strstr("mpeg,vob,dvd,svcd", f->name) ? program
                                 : !strcmp(f->name, "mxf")               ? exchange
                                                                         : NULL;
    while (list && *list != AV_CODEC_ID_NONE)
        if (*list++ == id) return true;
    return false;
}

static bool keeps(const SnlsAvWriter *a, const AVStream *s)
{
    const AVOutputFormat *f = a->out->oformat;
    const bool matroska = !strcmp(f->name, "matroska"), mp4 = strstr("mp4,ipod", f->name) != NULL; /* FFmpeg's .mov takes covers and does not write them */
    switch (s->codecpar->codec_type) {
    case AVMEDIA_TYPE_ATTACHMENT: return matroska;
    case AVMEDIA_TYPE_VIDEO:
        if (s->disposition & AV_DISPOSITION_ATTACHED_PIC)
            return mp4; /* elsewhere it would become a second video, or is a file */
        break;
    case AVMEDIA_TYPE_AUDIO:
        if (f->audio_codec == AV_CODEC_ID_NONE || (!strcmp(f->name, "mxf") && s->codecpar->sample_rate != 48000)) return false;
        break;
    case AVMEDIA_TYPE_SUBTITLE: break;
    default: return false;
    }
    return avformat_query_codec(f, s->codecpar->codec_id, FF_COMPLIANCE_EXPERIMENTAL) == 1 ||
           known_to_hold(f, s->codecpar->codec_id);
}

/* Words about the packets that were, not about the clip. */
static bool is_statistic(const char *key)
{
    static const char *const list[] = { "BPS",         "NUMBER_OF_FRAMES", "NUMBER_OF_BYTES", "DURATION",
                                        "_STATISTICS", "encoder",          "alpha_mode" };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!av_strncasecmp(key, list[i], strlen(list[i]))) return true;
    return false;
}

static void copy_tags(AVDictionary **to, const AVDictionary *from, bool video)
{
    const AVDictionaryEntry *e = NULL;
    while ((e = av_dict_get(from, "", e, AV_DICT_IGNORE_SUFFIX)))
        if (!(video && is_statistic(e->key)) && strcmp(e->key, "major_brand") && strcmp(e->key, "minor_version") &&
            strcmp(e->key, "compatible_brands") && av_strcasecmp(e->key, "encoder"))
            av_dict_set(to, e->key, e->value, 0);
}

/* A time code is that of the first frame, which is another where some are skipped. */
static void move_timecode(SnlsWriter *w, AVDictionary **tags)
{
    const SnlsReader *like = w->params.like;
    const AVDictionaryEntry *e = av_dict_get(*tags, "timecode", NULL, 0);
    AVTimecode code;
    char text[AV_TIMECODE_STR_SIZE] = "";
    if (!e || !like->params.first) return;
    if (like->params.first < INT32_MAX &&
        av_timecode_init_from_string(&code, av_d2q(like->info.rate, 100000), e->value, NULL) >= 0)
        av_timecode_make_string(&code, text, (int)like->params.first);
    else snls_note(&w->info, "the time code %.20s is left out: it cannot be counted on from the first frame", e->value);
    av_dict_set(tags, "timecode", *text ? text : NULL, 0);
}

static void note_rotation(SnlsVideoInfo *info, const char *format)
{
    snls_note(info, "the rotation is not marked in the output: %s has no place for it here; .mp4 and .mov do", format);
}

/* Later versions write turns and mirror images into Matroska too. */
static bool holds_rotation(const char *format, const AVPacketSideData *side)
{
    if (strstr("mp4,mov,ipod", format)) return true;
#if LIBAVFORMAT_VERSION_MAJOR >= 61
    const int32_t *m = (const int32_t *)side->data;
    const bool turns = m[0] == m[4] && m[1] == -(int64_t)m[3], mirrors = m[0] == -(int64_t)m[4] && m[1] == m[3];
    return strstr("matroska,webm", format) && (turns || mirrors) && (m[0] || m[1]) && !m[2] && !m[5];
#else
    (void)side;
    return false;
#endif
}

/* Rotation, HDR mastering, stereo, ... belong to the stream. Dolby Vision's would lie about frames it did not see. */
static void copy_side_data(SnlsWriter *w, AVStream *to, const AVStream *from)
{
    const SnlsAvWriter *a = w->priv;
    const char *format = a->out->oformat->name;
#if SNLS_SIDE_OF_CODEC
    const AVPacketSideData *list = from->codecpar->coded_side_data;
    const int count = from->codecpar->nb_coded_side_data;
#else
    const AVPacketSideData *list = from->side_data;
    const int count = from->nb_side_data;
#endif
    for (int i = 0; i < count; i++) {
        if (list[i].type == AV_PKT_DATA_DOVI_CONF) {
            snls_note(&w->info, "Dolby Vision's extra layer is left out; the base layer is what is denoised");
            continue;
        }
        if (list[i].type == AV_PKT_DATA_CPB_PROPERTIES) continue;
        if (list[i].type == AV_PKT_DATA_DISPLAYMATRIX && !holds_rotation(format, &list[i])) note_rotation(&w->info, format);
        if (list[i].type == AV_PKT_DATA_SPHERICAL) snls_av_spherical_note(&w->info, format, from);
        if (list[i].type == AV_PKT_DATA_STEREO3D && to == a->stream) continue; /* frames may tell it as well */
        snls_av_stream_put(to, list[i].type, list[i].data, list[i].size);
    }
}

/* A stream of out like this one; NULL where there is no memory. */
static AVStream *stream_like(AVFormatContext *out, const AVStream *from)
{
    AVStream *to = avformat_new_stream(out, NULL);
    if (!to || avcodec_parameters_copy(to->codecpar, from->codecpar) < 0) return NULL;
    const struct AVCodecTag *const *tags = out->oformat->codec_tag;
    unsigned tag;
    if (tags && av_codec_get_id(tags, to->codecpar->codec_tag) != to->codecpar->codec_id &&
        av_codec_get_tag2(tags, to->codecpar->codec_id, &tag))
        to->codecpar->codec_tag = 0; /* the container has its own word for it */
    to->time_base = from->time_base;
    to->avg_frame_rate = from->avg_frame_rate; /* without it, MXF's muxer divides by zero */
    to->disposition = from->disposition;
    to->sample_aspect_ratio = from->sample_aspect_ratio;
    copy_tags(&to->metadata, from->metadata, false);
    snls_av_tags_fit(to, out->oformat);
    return to;
}

/* What there is so far: some muxers take one stream of a kind. Attached files, which may be large, are no matter. */
static bool streams_like(AVFormatContext *out, const AVFormatContext *so_far)
{
    for (unsigned i = 0; i < so_far->nb_streams; i++)
        if (so_far->streams[i]->codecpar->codec_type != AVMEDIA_TYPE_ATTACHMENT && !stream_like(out, so_far->streams[i])) return false;
    return true;
}

/* Does the muxer begin with our video, what is copied already, and this stream (NULL: none)? Into memory, which is thrown away. */
static bool begins_with(const SnlsAvWriter *a, const AVStream *s)
{
    AVFormatContext *out = NULL;
    uint8_t *bytes = NULL;
    if (avformat_alloc_output_context2(&out, a->out->oformat, NULL, a->out->url) < 0) return true;
    out->strict_std_compliance = a->out->strict_std_compliance;
    const bool ready = avio_open_dyn_buf(&out->pb) >= 0 && streams_like(out, a->out) && (!s || stream_like(out, s));
    const bool begins = !ready || avformat_write_header(out, NULL) >= 0;
    if (out->pb) avio_close_dyn_buf(out->pb, &bytes);
    out->pb = NULL;
    av_free(bytes);
    avformat_free_context(out);
    return begins;
}

/* Opens its filter, where it needs one. What muxers list is not all they ask for: some refuse a codec that they list, a rate, or a stream of which
 * nothing is known yet. */
static bool refuses(SnlsAvWriter *a, const AVStream *s)
{
    if (snls_av_bitstream_open(&a->copy.stream[s->index].filter, a->out->oformat, s) < 0) return true;
    if (a->out->oformat->flags & AVFMT_NOFILE) return false; /* its header would be a file */
    return !begins_with(a, s) && begins_with(a, NULL);
}

/* What a decoder begins with has the form of the packets. */
static bool takes_filtered(AVStream *to, const AVBSFContext *filter)
{
    const unsigned tag = to->codecpar->codec_tag;
    if (!filter) return true;
    if (avcodec_parameters_copy(to->codecpar, filter->par_out) < 0) return false;
    to->codecpar->codec_tag = tag;
    return true;
}

static SnlsStatus add_stream(SnlsWriter *w, SnlsAvWriter *a, AVStream *from)
{
    AVStream *to = stream_like(a->out, from);
    SNLS_REQUIRE(w->ctx, to && takes_filtered(to, a->copy.stream[from->index].filter), SNLS_ERR_MEMORY, "%s: out of memory", snls_io_name(w->name).text);
    copy_side_data(w, to, from);
    a->copy.stream[from->index].to = to->index;
    return SNLS_OK;
}

/* Matroska has cover pictures as attached files. */
static bool is_cover_file(const SnlsAvWriter *a, const AVStream *s)
{
    const enum AVCodecID id = s->codecpar->codec_id;
    return s->disposition & AV_DISPOSITION_ATTACHED_PIC && s->attached_pic.size > 0 &&
           !strcmp(a->out->oformat->name, "matroska") && (id == AV_CODEC_ID_MJPEG || id == AV_CODEC_ID_PNG);
}

static SnlsStatus attach_cover(SnlsWriter *w, SnlsAvWriter *a, const AVStream *from)
{
    const bool png = from->codecpar->codec_id == AV_CODEC_ID_PNG;
    AVStream *to = avformat_new_stream(a->out, NULL);
    uint8_t *data = to ? av_mallocz((size_t)from->attached_pic.size + AV_INPUT_BUFFER_PADDING_SIZE) : NULL;
    SNLS_REQUIRE(w->ctx, data, SNLS_ERR_MEMORY, "%s: out of memory", snls_io_name(w->name).text);
    memcpy(data, from->attached_pic.data, (size_t)from->attached_pic.size);
    to->codecpar->codec_type = AVMEDIA_TYPE_ATTACHMENT;
    to->codecpar->codec_id = from->codecpar->codec_id;
    to->codecpar->extradata = data;
    to->codecpar->extradata_size = from->attached_pic.size;
    av_dict_set(&to->metadata, "filename", png ? "cover.png" : "cover.jpg", 0);
    av_dict_set(&to->metadata, "mimetype", png ? "image/png" : "image/jpeg", 0);
    copy_tags(&to->metadata, from->metadata, false);
    return SNLS_OK;
}

/* Streams that the container cannot hold: one sentence for all, since there may be dozens, and room is for a few sentences. */
typedef struct LeftOut {
    char text[160];
    int count, told; /* told: those that the text has */
} LeftOut;

static void leave_out(LeftOut *out, SnlsVideoInfo *info, const AVStream *s)
{
    const enum AVMediaType type = s->codecpar->codec_type;
    const unsigned tag = s->codecpar->codec_tag; /* chapters and time code of MP4 are such streams, and are copied as tags */
    const char *word = av_get_media_type_string(type) ? av_get_media_type_string(type) : "?", *codec = avcodec_get_name(s->codecpar->codec_id);
    if (type == AVMEDIA_TYPE_DATA && (tag == MKTAG('t', 'e', 'x', 't') || tag == MKTAG('t', 'm', 'c', 'd'))) return;
    if (type == AVMEDIA_TYPE_AUDIO && s->codecpar->sample_rate <= 0) {
        snls_note(info, "stream %d (%s, %s) is left out: nothing is known of it so far", s->index, word, codec);
        return;
    }
    char one[96];
    const size_t used = strlen(out->text);
    const int size = snprintf(one, sizeof one, "%s%d (%s, %s)", out->count ? ", " : "", s->index, word, codec);
    if (out->told == out->count++ && used + (size_t)size < sizeof out->text) strcpy(out->text + used, one), out->told++;
}

static void note_left_out(SnlsVideoInfo *info, const char *format, const LeftOut *out)
{
    char more[32] = "";
    if (out->told < out->count) snprintf(more, sizeof more, " and %d more", out->count - out->told);
    if (out->count) snls_note(info, out->count > 1 ? "streams %s%s are left out: %s cannot hold them" : "stream %s%s is left out: %s cannot hold it", out->text, more, format);
}

static void note_chapters(SnlsVideoInfo *info, const char *format) { snls_note(info, "chapters are left out: %s cannot hold them", format); }

static bool holds_chapters(const AVOutputFormat *f)
{
    static const char *const list[] = { "matroska", "webm", "mp4", "mov", "ipod", "3gp", "3g2",
                                        "psp",      "ismv", "f4v", "nut", "ogg",  "ogv", "asf" };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(f->name, list[i])) return true;
    return false;
}

/* Where the output begins on the clock of the input, in ticks. */
static int64_t begin_of(const SnlsAvCopy *c, AVRational tick)
{
    const int64_t begin =
        c->in->start_time == AV_NOPTS_VALUE ? 0 : av_rescale_q(c->in->start_time, AV_TIME_BASE_Q, tick);
    return begin + llrint(c->origin / av_q2d(tick));
}

/* And where it ends. */
static int64_t end_of(const SnlsAvCopy *c, AVRational tick)
{
    return c->end < 0 ? INT64_MAX : begin_of(c, tick) + llrint((c->end - c->origin) / av_q2d(tick));
}

static void copy_chapters(SnlsWriter *w, SnlsAvWriter *a)
{
    const AVFormatContext *in = a->copy.in;
    if (in->nb_chapters && !holds_chapters(a->out->oformat)) {
        note_chapters(&w->info, a->out->oformat->name);
        return;
    }
    AVChapter **list = av_calloc(in->nb_chapters ? in->nb_chapters : 1, sizeof *list);
    for (unsigned i = 0; list && i < in->nb_chapters; i++) {
        const AVChapter *from = in->chapters[i];
        const int64_t shift = begin_of(&a->copy, from->time_base), end = end_of(&a->copy, from->time_base);
        AVChapter *to = av_mallocz(sizeof *to);
        if (!to || from->end <= shift || from->start >= end) {
            av_free(to);
            continue;
        }
        to->id = from->id;
        to->time_base = from->time_base;
        to->start = from->start > shift ? from->start - shift : 0;
        to->end = (from->end < end ? from->end : end) - shift;
        av_dict_copy(&to->metadata, from->metadata, 0);
        list[a->out->nb_chapters++] = to;
    }
    a->out->chapters = list;
}

static SnlsStatus note_once(SnlsWriter *w, const SnlsAvWriter *a, const SnlsAvReader *reader)
{
    snls_av_tags_note(&w->info, a->out->oformat->name, reader->in, reader->stream->index, NULL);
    if (reader->in->nb_streams < 2 && !reader->in->nb_chapters) return SNLS_OK;
    return snls_note(&w->info,
                     "audio, subtitles and chapters are left out: %s is a pipe, and they are read from a file that can "
                     "be opened twice",
                     snls_io_name(w->params.like->path).text);
}

/* Ogg has tags of its streams alone: those of the clip are with the video. */
static void copy_clip_tags(SnlsWriter *w, SnlsAvWriter *a, const SnlsAvReader *reader)
{
    copy_tags(&a->out->metadata, reader->in->metadata, false);
    move_timecode(w, &a->out->metadata);
    if (av_match_name(a->out->oformat->name, "ogg,ogv")) av_dict_copy(&a->stream->metadata, a->out->metadata, AV_DICT_DONT_OVERWRITE);
}

void snls_av_note_beside(const SnlsReader *r, SnlsWriter *w)
{
    const SnlsAvReader *reader = r->priv;
    const AVFormatContext *in = reader->in;
    const AVRational aspect = ((const AVFrame *)r->peeked->owner)->sample_aspect_ratio;
    const char *format = w->info.codec;
    if (snls_av_stream_has(reader->stream, AV_PKT_DATA_DISPLAYMATRIX)) note_rotation(&w->info, format);
    snls_av_stereo_note(&w->info, format, reader->stream, r->peeked->owner);
    snls_av_spherical_note(&w->info, format, reader->stream);
    if (aspect.num > 0 && aspect.den > 0 && aspect.num != aspect.den)
        snls_note(&w->info, "the shape of pixels, %d:%d, is not marked in the output: %s has no place for it here", aspect.num, aspect.den, format);
    if (w->params.no_copy) return;
    LeftOut out = { .count = 0 };
    for (unsigned i = 0; i < in->nb_streams; i++)
        if (in->streams[i] != reader->stream) leave_out(&out, &w->info, in->streams[i]);
    note_left_out(&w->info, format, &out);
    if (in->nb_chapters) note_chapters(&w->info, format);
    snls_av_tags_note(&w->info, format, in, reader->stream->index, NULL);
}

SnlsStatus snls_av_copy_open(SnlsWriter *w, SnlsAvWriter *a)
{
    SnlsAvCopy *c = &a->copy;
    const SnlsReader *like = w->params.like;
    char url[SNLS_PATH_MAX + 8];
    c->ended = true;
    c->end = -1;
    if (like->kind != &snls_av_reader) return SNLS_OK;
    const SnlsAvReader *reader = like->priv;
    copy_tags(&a->stream->metadata, reader->stream->metadata, true);
    move_timecode(w, &a->stream->metadata);
    snls_av_tags_fit(a->stream, a->out->oformat);
    copy_side_data(w, a->stream, reader->stream);
    snls_av_stereo_copy(w, a, reader->stream, like->peeked->owner);
    a->stream->disposition = reader->stream->disposition;
    if (w->params.no_copy) return SNLS_OK;
    copy_clip_tags(w, a, reader);
    if (reader->input.io) return note_once(w, a, reader); /* or y4m, which has one stream */
    snprintf(url, sizeof url, "file:%s", like->path);
    snprintf(c->path, sizeof c->path, "%s", like->path);
    int error = avformat_open_input(&c->in, url, reader->in->iformat, NULL);
    if (error >= 0) error = avformat_find_stream_info(c->in, NULL);
    if (error < 0) return snls_av_fail(w->ctx, SNLS_ERR_IO, like->path, "cannot be opened a second time", error);
    if (c->in->start_time == AV_NOPTS_VALUE) c->in->start_time = reader->in->start_time; /* that of the first frame */
    c->stream = av_calloc(c->in->nb_streams, sizeof *c->stream);
    c->streams = c->in->nb_streams;
    c->packet = av_packet_alloc();
    SNLS_REQUIRE(w->ctx, c->stream && c->packet && snls_av_clock_open(&c->clock, c->in) >= 0, SNLS_ERR_MEMORY,
                 "%s: out of memory", snls_io_name(w->name).text);
    c->origin = like->origin;
    if (like->params.count > 0 && like->info.rate > 0)
        c->end = c->origin + (double)like->params.count / like->info.rate;
    LeftOut out = { .count = 0 };
    for (unsigned i = 0; i < c->streams; i++) {
        AVStream *s = c->in->streams[i];
        const bool video = (int)i == reader->stream->index;
        c->stream[i] = (struct SnlsAvCopyStream){ .to = -1, .last = AV_NOPTS_VALUE };
        if (!video && is_cover_file(a, s)) SNLS_TRY(attach_cover(w, a, s));
        else if (!video && keeps(a, s) && !refuses(a, s)) SNLS_TRY(add_stream(w, a, s));
        else if (!video) leave_out(&out, &w->info, s);
        if (c->stream[i].to < 0 && !c->clock.streams) s->discard = AVDISCARD_ALL;
    }
    note_left_out(&w->info, a->out->oformat->name, &out);
    copy_chapters(w, a);
    snls_av_tags_note(&w->info, a->out->oformat->name, c->in, reader->stream->index, c);
    c->ended = a->out->nb_streams < 2;
    return SNLS_OK;
}

/* Seconds of the output's clock at which a packet is due. */
static double due(const SnlsAvCopy *c)
{
    const AVStream *s = c->in->streams[c->packet->stream_index];
    const int64_t at = c->packet->dts != AV_NOPTS_VALUE ? c->packet->dts : c->packet->pts;
    const double begin = c->in->start_time == AV_NOPTS_VALUE ? 0 : (double)c->in->start_time / AV_TIME_BASE;
    return at == AV_NOPTS_VALUE ? -1 : (double)at * av_q2d(s->time_base) - begin - c->origin;
}

/* Cuts a subtitle to the range of frames. Is there anything of the packet in it? */
static bool cut_to_range(const SnlsAvCopy *c, double at)
{
    AVPacket *p = c->packet;
    const AVStream *s = c->in->streams[p->stream_index];
    const int64_t begin = begin_of(c, s->time_base), end = end_of(c, s->time_base);
    if (s->codecpar->codec_type != AVMEDIA_TYPE_SUBTITLE || p->pts == AV_NOPTS_VALUE || p->duration <= 0)
        return at >= 0 || !(c->origin > 0);
    if (c->origin > 0 && p->pts < begin) {
        p->duration = av_sat_sub64(p->duration, av_sat_sub64(begin, p->pts)); /* a file may say any number */
        p->pts = p->dts = begin;
    }
    p->duration = FFMIN(p->duration, av_sat_sub64(end, p->pts));
    return p->duration > 0;
}

/* Sound before the beginning that is not to be heard, as of clips that were cut without encoding: MP4's edit lists tell so, and other containers would
 * have it played. The last packet of it stays, with which decoders begin. */
static bool is_lead(const SnlsAvWriter *a, double at)
{
    const AVPacket *p = a->copy.packet;
    const AVStream *s = a->copy.in->streams[p->stream_index];
    const double length = (double)p->duration * av_q2d(s->time_base);
    if (!(p->flags & AV_PKT_FLAG_DISCARD) || s->codecpar->codec_type != AVMEDIA_TYPE_AUDIO || length <= 0) return false;
    return at + 1.99 * length < 0 && !av_match_name(a->out->oformat->name, "mp4,mov,ipod,3gp,3g2,psp,ismv,f4v");
}

/* When a picture is decoded whose container tells only when it is shown, as Matroska does of the first ones: they come in another order, so
 * decoding begins as many pictures earlier as are held back; or at once, where times of decoding may stand still and would move the whole clip
 * if they were before its beginning. */
static int64_t decoding_time(const AVStream *from, const AVStream *to, const AVPacket *p, int64_t last, bool repeats)
{
    const int delay = from->codecpar->codec_type == AVMEDIA_TYPE_VIDEO ? from->codecpar->video_delay : 0;
    if (p->pts == AV_NOPTS_VALUE || delay < 1) return p->pts;
    const AVRational rate = from->avg_frame_rate.num > 0 ? from->avg_frame_rate : (AVRational){ 25, 1 };
    const int64_t step = repeats ? 0 : av_rescale_q(1, av_inv_q(rate), to->time_base);
    return last == AV_NOPTS_VALUE ? av_sat_sub64(p->pts, delay * step) : FFMIN(p->pts, av_sat_add64(last, step));
}

/* Containers take no time stamp that goes back, most of them none that stands still but of subtitles, nor one of showing before
 * that of decoding. */
static void put_in_order(SnlsWriter *w, const SnlsAvWriter *a, const AVStream *from, const AVStream *to, AVPacket *p)
{
    struct SnlsAvCopyStream *s = &a->copy.stream[from->index];
    const bool repeats =
        a->out->oformat->flags & AVFMT_TS_NONSTRICT || from->codecpar->codec_type == AVMEDIA_TYPE_SUBTITLE;
    const int64_t least = s->last == AV_NOPTS_VALUE ? INT64_MIN : s->last + !repeats;
    if (p->dts == AV_NOPTS_VALUE) p->dts = decoding_time(from, to, p, s->last, repeats);
    if (p->dts == AV_NOPTS_VALUE) return;
    if (p->dts < least) {
        p->dts = least;
        if (!s->moved) snls_note(&w->info, "stream %d: time stamps that do not increase are moved", from->index);
        s->moved = true;
    }
    if (p->pts != AV_NOPTS_VALUE && p->pts < p->dts) p->pts = p->dts;
    s->last = p->dts;
}

static SnlsStatus write_packet(SnlsWriter *w, SnlsAvWriter *a)
{
    SnlsAvCopy *c = &a->copy;
    AVPacket *p = c->packet;
    const AVStream *from = c->in->streams[p->stream_index], *to = a->out->streams[c->stream[p->stream_index].to];
    const int64_t shift = begin_of(c, from->time_base);
    if (p->pts != AV_NOPTS_VALUE) p->pts -= shift;
    if (p->dts != AV_NOPTS_VALUE) p->dts -= shift;
    av_packet_rescale_ts(p, from->time_base, to->time_base);
    put_in_order(w, a, from, to, p);
    int error = snls_av_bitstream_packet(c->stream[from->index].filter, p);
    p->stream_index = to->index;
    p->pos = -1;
    if (error >= 0) error = av_interleaved_write_frame(a->out, p);
    if (error == AVERROR(EINVAL) || error == AVERROR_INVALIDDATA) {
        char what[128];
        snprintf(what, sizeof what, "stream %d (%s) cannot be copied into %s (params.no_copy leaves such streams out)",
                 from->index, avcodec_get_name(from->codecpar->codec_id), a->out->oformat->name);
        return snls_av_fail(w->ctx, SNLS_ERR_FORMAT, c->path, what, error);
    }
    return error < 0 ? snls_av_fail(w->ctx, SNLS_ERR_IO, w->name, "cannot be written", error) : SNLS_OK;
}

/* Is the packet of a stream that is copied? MPEG's program and transport streams may have new ones in every part of them,
 * behind the header of the output. */
static bool is_wanted(SnlsWriter *w, SnlsAvCopy *c)
{
    const unsigned index = (unsigned)c->packet->stream_index;
    if (index < c->streams) return c->stream[index].to >= 0;
    for (; c->told_late <= index - c->streams; c->told_late++)
        snls_note(&w->info, "stream %u begins too late to be copied", c->streams + c->told_late);
    return false;
}

/* The next packet of a stream that is copied; false at the end. */
static bool read_packet(SnlsWriter *w, SnlsAvCopy *c)
{
    while (!c->pending && !c->ended) {
        av_packet_unref(c->packet);
        c->ended = av_read_frame(c->in, c->packet) < 0;
        if (c->ended) break;
        snls_av_clock_packet(&c->clock, c->in, c->packet);
        c->pending = is_wanted(w, c);
    }
    return c->pending;
}

SnlsStatus snls_av_copy_until(SnlsWriter *w, SnlsAvWriter *a, double time)
{
    SnlsAvCopy *c = &a->copy;
    while (read_packet(w, c)) {
        const double at = due(c);
        if (at > time) break;
        c->pending = false;
        if (cut_to_range(c, at) && !is_lead(a, at)) SNLS_TRY(write_packet(w, a));
    }
    return SNLS_OK;
}

void snls_av_copy_close(SnlsAvCopy *c)
{
    av_packet_free(&c->packet);
    for (unsigned i = 0; c->stream && i < c->streams; i++) av_bsf_free(&c->stream[i].filter);
    av_freep(&c->stream);
    snls_av_clock_close(&c->clock);
    avformat_close_input(&c->in);
}
