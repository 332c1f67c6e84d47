/* ffmpeg_read.c: frames of a file by libavformat and libavcodec; and the door of libsnls_ffmpeg.so. */
#include "video/ffmpeg.h"
#include "base/number.h"
#include "io/file.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static SnlsStatus no_memory(SnlsReader *r)
{
    return snls_fail(r->ctx, SNLS_ERR_MEMORY, "%s: out of memory", snls_io_name(snls_reader_name(r)).text);
}

/* The path is always a file's: no name can become an address of the network or another protocol of libav. */
static SnlsStatus open_input(SnlsReader *r, SnlsAvReader *a)
{
    char url[SNLS_PATH_MAX + 8];
    AVDictionary *options = NULL;
    SNLS_TRY(snls_av_input_open(r, a));
    const bool y4m = *a->input.line;
    snprintf(url, sizeof url, "file:%s", r->path);
    av_dict_set(&options, "protocol_whitelist", "file,pipe,crypto,data", 0);
    const int error = avformat_open_input(&a->in, url, y4m ? av_find_input_format("yuv4mpegpipe") : NULL, &options);
    av_dict_free(&options);
    if (error == AVERROR(ENOENT) || error == AVERROR(EACCES) || error == AVERROR(EISDIR))
        return snls_av_fail(r->ctx, SNLS_ERR_IO, snls_reader_name(r), "cannot be opened", error);
    SNLS_REQUIRE(r->ctx, error >= 0 || !y4m, SNLS_ERR_FORMAT, "%s: FFmpeg does not read this y4m header: %s",
                 snls_io_name(snls_reader_name(r)).text, a->input.line);
    if (error < 0) return snls_av_fail(r->ctx, SNLS_ERR_FORMAT, snls_reader_name(r), "is no video that FFmpeg can read", error);
    const int found = avformat_find_stream_info(a->in, NULL);
    return found < 0 ? snls_av_fail(r->ctx, SNLS_ERR_FORMAT, snls_reader_name(r), "cannot be parsed", found) : SNLS_OK;
}

/* WebM has transparency as a second picture beside each VP8 or VP9 frame, which only libvpx's decoders put together. */
static const AVCodec *decoder_of(SnlsReader *r, const AVStream *s, const AVCodec *usual)
{
    const enum AVCodecID id = s->codecpar->codec_id;
    const AVDictionaryEntry *mode = av_dict_get(s->metadata, "alpha_mode", NULL, 0);
    if (!mode || strcmp(mode->value, "1") || (id != AV_CODEC_ID_VP8 && id != AV_CODEC_ID_VP9)) return usual;
    const AVCodec *codec = avcodec_find_decoder_by_name(id == AV_CODEC_ID_VP8 ? "libvpx" : "libvpx-vp9");
    if (!codec) snls_note(&r->info, "transparency is left out: this FFmpeg has no libvpx to decode it");
    return codec ? codec : usual;
}

static SnlsStatus open_decoder(SnlsReader *r, SnlsAvReader *a)
{
    const AVCodec *codec = NULL;
    const int index = av_find_best_stream(a->in, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    SNLS_REQUIRE(r->ctx, index != AVERROR_STREAM_NOT_FOUND, SNLS_ERR_FORMAT, "%s: holds no video",
                 snls_io_name(snls_reader_name(r)).text);
    SNLS_REQUIRE(r->ctx, index >= 0 && codec, SNLS_ERR_UNSUPPORTED, "%s: this FFmpeg has no decoder for its video",
                 snls_io_name(snls_reader_name(r)).text);
    a->stream = a->in->streams[index];
    SNLS_REQUIRE(r->ctx, !(a->stream->disposition & AV_DISPOSITION_ATTACHED_PIC), SNLS_ERR_FORMAT,
                 "%s: holds no video, only a cover picture", snls_io_name(snls_reader_name(r)).text);
    codec = decoder_of(r, a->stream, codec);
    if (snls_av_clock_open(&a->clock, a->in) < 0) return no_memory(r);
    for (unsigned i = 0; i < a->in->nb_streams && !a->clock.streams; i++)
        if (a->in->streams[i] != a->stream) a->in->streams[i]->discard = AVDISCARD_ALL;
    a->decoder = avcodec_alloc_context3(codec);
    a->packet = av_packet_alloc();
    if (!a->decoder || !a->packet || avcodec_parameters_to_context(a->decoder, a->stream->codecpar) < 0)
        return no_memory(r);
    a->decoder->pkt_timebase = a->stream->time_base;
    a->decoder->thread_count = codec->id == AV_CODEC_ID_THEORA ? 1 : r->params.threads; /* with several it does not begin anew where files were joined */
    if (!r->params.lenient &&
        (codec->id == AV_CODEC_ID_PNG || codec->id == AV_CODEC_ID_APNG)) /* others explode for less than a wrong sum */
        a->decoder->err_recognition |= AV_EF_CRCCHECK | AV_EF_EXPLODE;
    if (r->params.listen) snls_av_damage_listen(&a->damage, a->decoder);
    const int error = avcodec_open2(a->decoder, codec, NULL);
    return error < 0 ? snls_av_fail(r->ctx, SNLS_ERR_UNSUPPORTED, snls_reader_name(r), "its decoder does not start", error)
                     : SNLS_OK;
}

static double stream_begin(const SnlsAvReader *a)
{
    const AVStream *s = a->stream;
    return s->start_time == AV_NOPTS_VALUE || s->start_time < 0 ? 0 : (double)s->start_time * av_q2d(s->time_base);
}

/* When the video ends, in seconds of the file's clock, by what the file says of this stream; 0 where it says nothing.
 * Matroska has it in a tag; one with a language behind its name is an older file's, which FFmpeg has copied. */
static double claimed_end(const SnlsAvReader *a)
{
    const AVStream *s = a->stream;
    if (s->duration > 0) return stream_begin(a) + (double)s->duration * av_q2d(s->time_base);
    const AVDictionaryEntry *tag = av_dict_get(s->metadata, "DURATION", NULL, 0);
    int hours, minutes, at = 0;
    if (!tag || sscanf(tag->value, "%d:%d:%n", &hours, &minutes, &at) != 2 || !at) return 0;
    char *end;
    const double seconds = snls_number_read(tag->value + at, &end);
    return end > tag->value + at ? 3600.0 * hours + 60.0 * minutes + seconds : 0;
}

static void describe(SnlsReader *r, SnlsAvReader *a)
{
    SnlsVideoInfo *info = &r->info;
    const AVRational rate = av_guess_frame_rate(a->in, a->stream, NULL);
    const double whole = a->in->duration > 0 ? (double)a->in->duration / AV_TIME_BASE : 0;
    const double own = claimed_end(a) - stream_begin(a);
    info->rate = rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0;
    info->duration = own > 0 ? own : whole;
    info->frames = a->stream->nb_frames > 0               ? a->stream->nb_frames
                   : info->duration > 0 && info->rate > 0 ? llrint(info->duration * info->rate)
                                                          : -1;
    snprintf(info->container, sizeof info->container, "%s", a->in->iformat->name);
    snprintf(info->codec, sizeof info->codec, "%s", avcodec_get_name(a->stream->codecpar->codec_id));
    a->offset =
        a->in->start_time == AV_NOPTS_VALUE ? 0 : av_rescale_q(a->in->start_time, AV_TIME_BASE_Q, a->stream->time_base);
}

static SnlsStatus refuse_interlaced(SnlsReader *r)
{
    return snls_fail(r->ctx, SNLS_ERR_UNSUPPORTED,
                     "%s: is interlaced; make whole frames of its fields first (ffmpeg -i IN -vf bwdif OUT), or, if "
                     "the mark is wrong, use params.progressive",
                     snls_io_name(snls_reader_name(r)).text);
}

static SnlsStatus refuse_cut(SnlsReader *r)
{
    return snls_fail(r->ctx, SNLS_ERR_FORMAT,
                     "%s: is cut off: it ends before the last part of it does (params.lenient takes what is there)",
                     snls_io_name(snls_reader_name(r)).text);
}

static SnlsStatus open_file(SnlsReader *r)
{
    SnlsAvReader *a = r->priv = snls_mem_alloc(&r->ctx->allocator, sizeof *a);
    if (!a) return no_memory(r);
    *a = (SnlsAvReader){ .last = AV_NOPTS_VALUE };
    SNLS_TRY(open_input(r, a));
    SNLS_TRY(open_decoder(r, a));
    describe(r, a);
    const enum AVFieldOrder order = a->stream->codecpar->field_order;
    if (order != AV_FIELD_UNKNOWN && order != AV_FIELD_PROGRESSIVE && !r->params.progressive)
        return refuse_interlaced(r);
    a->cut = !r->params.lenient && !a->input.io && snls_av_file_cut(r->path, a->in->iformat->name);
    return a->cut && !r->params.count ? refuse_cut(r) : SNLS_OK; /* a part of the clip may lie before the cut */
}

/* Demuxers read numbers of text as the locale writes them. */
static SnlsStatus av_open(SnlsReader *r)
{
    const SnlsPlainLocale locale = snls_plain_begin();
    const SnlsStatus status = open_file(r);
    snls_plain_end(locale);
    return status;
}

/* ---- packets to frames ---- */

static SnlsStatus damaged(SnlsReader *r, const SnlsAvReader *a, const char *what, int error)
{
    char words[AV_ERROR_MAX_STRING_SIZE] = "damaged data";
    if (error) av_strerror(error, words, sizeof words);
    return snls_fail(r->ctx, SNLS_ERR_FORMAT, "%s: %s behind frame %lld: %s (params.lenient goes on with what can be read)",
                     snls_io_name(snls_reader_name(r)).text, what, (long long)a->frames, words);
}

/* Not a claim of this video's: ASF has one time for all streams. Matroska and AVI say how long the last frame is to be seen in their time alone, so
 * that it goes beyond every frame that there is; of files their parts have told already. Elsewhere DURATION is a word that FFmpeg has copied. */
static bool claim_is_loose(const SnlsAvReader *a)
{
    const char *name = a->in->iformat->name;
    const bool matroska = !strncmp(name, "matroska,", 9), file = !a->input.io;
    if (a->in->duration_estimation_method != AVFMT_DURATION_FROM_STREAM || !strcmp(name, "ogg")) return true; /* of where the file ends, or of its bits a second */
    return !strcmp(name, "asf") || (file && (matroska || !strcmp(name, "avi"))) || (!matroska && a->stream->duration <= 0);
}

/* Does it seem that there were more frames: is there a gap between two, or before the first, or behind the last? A clip may be meant so. */
static bool seems_to_miss(const SnlsReader *r, const SnlsAvReader *a)
{
    const double base = av_q2d(a->stream->time_base), frame = r->info.rate > 0 ? 1 / r->info.rate : 0.04;
    return (double)a->longest * base > 1.5 * frame || (double)(a->begin - a->offset) * base > 0.5 * frame ||
           (double)(a->last + a->length) * base + 0.5 * frame < claimed_end(a);
}

static SnlsStatus refuse_broken(SnlsReader *r)
{
    return snls_fail(r->ctx, SNLS_ERR_FORMAT,
                     "%s: is damaged: frames are missing where its parts do not follow each other (params.lenient "
                     "takes what is there)",
                     snls_io_name(snls_reader_name(r)).text);
}

/* A file that ends before the time it claims was cut off. What is left to rounding is less than two frames, of those that
 * are furthest apart: how long the last one is to be seen is not known everywhere. */
static SnlsStatus check_end(SnlsReader *r, const SnlsAvReader *a)
{
    const bool fragments = !strncmp(a->in->iformat->name, "mov,", 4); /* their duration is counted from 0, wherever the first begins */
    const double claims = claimed_end(a) - (fragments ? stream_begin(a) : 0), base = av_q2d(a->stream->time_base);
    if (r->params.lenient) return SNLS_END;
    if (a->cut) return refuse_cut(r);
    if (!a->input.io && a->frames && seems_to_miss(r, a) && snls_av_file_broken(r->path, a->in->iformat->name))
        return refuse_broken(r);
    if (claims <= 0 || a->last == AV_NOPTS_VALUE || claim_is_loose(a)) return SNLS_END;
    const double frame = r->info.rate > 0 ? 1 / r->info.rate : 0.04, longest = fmax(frame, (double)a->longest * base);
    const double end = (double)(a->last + a->length) * base;
    if (end + 1.5 * longest >= claims) return SNLS_END;
    return snls_fail(r->ctx, SNLS_ERR_FORMAT,
                     "%s: ends after %.2f of the %.2f seconds it claims to have (params.lenient takes what is there)",
                     snls_io_name(snls_reader_name(r)).text, end - stream_begin(a), claims - stream_begin(a));
}

/* y4m tells no length, and FFmpeg takes half a frame for the end. */
static bool ends_inside(const SnlsAvReader *a)
{
    return a->in->pb && a->behind > 0 && !strcmp(a->in->iformat->name, "yuv4mpegpipe") && avio_tell(a->in->pb) > a->behind;
}

/* FFV1 from version 2 on, which has a header outside of frames. */
static bool has_slices(const SnlsAvReader *a)
{
    return a->stream->codecpar->codec_id == AV_CODEC_ID_FFV1 && a->stream->codecpar->extradata_size > 0;
}

/* Of Theora's three headers, which come again where files were joined, the one of titles: its decoder takes that for a frame. */
static bool is_comment(const SnlsAvReader *a)
{
    return a->stream->codecpar->codec_id == AV_CODEC_ID_THEORA && a->packet->size > 0 && a->packet->data[0] == 0x81;
}

enum { PATIENCE = 4 }; /* packets: a parser holds one or two back */

/* Transport streams count their packets, and the count begins anew where they were joined: the last packet before counts as damaged. That is one
 * join if the time stamps begin anew at once, too. */
static bool is_corrupt(SnlsAvReader *a)
{
    const bool corrupt = a->packet->flags & AV_PKT_FLAG_CORRUPT;
    if (!a->clock.streams) return corrupt;
    const int64_t joins = a->clock.stream[a->stream->index].joins;
    if (a->suspect && joins > a->suspect_joins) a->suspect = 0;
    else if (a->suspect && !--a->suspect) return true;
    if (corrupt && !a->suspect && joins == a->suspect_joins) a->suspect = PATIENCE;
    if (!a->suspect) a->suspect_joins = joins;
    return false;
}

/* Of the last frame, in seconds of the clip. */
static double frame_time(const SnlsAvReader *a)
{
    return a->last == AV_NOPTS_VALUE ? 0 : (double)(a->last - a->offset) * av_q2d(a->stream->time_base);
}

/* Refused; or counted, and gone on. */
static SnlsStatus damaged_packet(SnlsReader *r, SnlsAvReader *a, const char *what, int error)
{
    const bool counted = error && a->sums.has; /* by its sum */
    if (!r->params.lenient) return damaged(r, a, what, error);
    if (!counted) snls_av_damage_packet(r, &a->damage, a->frames, frame_time(a));
    return SNLS_OK;
}

/* Sums that are wrong; packet NULL: at the end. */
static SnlsStatus check_sums(SnlsReader *r, SnlsAvReader *a, const AVPacket *packet)
{
    if (!has_slices(a) || !snls_av_ffv1_damaged(&a->sums, packet)) return SNLS_OK;
    a->sums.wrong = false; /* the next may be right */
    return damaged_packet(r, a, "a check sum is wrong", 0);
}

/* The frame before stays to be seen for longer, as later versions tell it of Theora: decoders refuse such packets. */
static bool is_empty(const AVPacket *packet) { return !packet->size && !packet->side_data_elems; }

/* One packet of the video into the decoder; at the end of the file the decoder is told. */
static SnlsStatus feed(SnlsReader *r, SnlsAvReader *a)
{
    int error;
    do {
        av_packet_unref(a->packet);
        error = av_read_frame(a->in, a->packet);
        if (error >= 0) snls_av_clock_packet(&a->clock, a->in, a->packet);
    } while (error >= 0 && a->packet->stream_index != a->stream->index);
    if (error < 0 && error != AVERROR_EOF && !r->params.lenient) return damaged(r, a, "reading fails", error);
    if (error < 0 && (ends_inside(a) || a->suspect) && !r->params.lenient) return damaged(r, a, "is cut off", 0);
    if (error < 0) {
        a->draining = true;
        error = avcodec_send_packet(a->decoder, NULL); /* takes a frame at once, and tells of one that is damaged */
        return error < 0 && error != AVERROR_EOF ? damaged_packet(r, a, "decoding fails", error) : SNLS_OK;
    }
    a->behind = a->packet->pos + a->packet->size;
    if (is_corrupt(a) && !r->params.lenient) return damaged(r, a, "is cut off or damaged", 0);
    if (!a->packets++) a->damage.headless = !(a->packet->flags & AV_PKT_FLAG_KEY);
    SNLS_TRY(check_sums(r, a, a->packet));
    if (is_comment(a) || is_empty(a->packet)) return SNLS_OK;
    error = avcodec_send_packet(a->decoder, a->packet);
    return error < 0 && error != AVERROR(EAGAIN) ? damaged_packet(r, a, "decoding fails", error) : SNLS_OK;
}

static void warn_of_time(SnlsReader *r, SnlsAvReader *a, const char *what)
{
    if (!a->warned) snls_note(&r->info, "time stamps %s: frames follow each other there", what);
    a->warned = true;
}

/* Of transport streams with a single packet and of some bare streams nothing tells where their clock begins: with the first frame. */
static void begin_here(SnlsAvReader *a, int64_t pts)
{
    a->offset = pts;
    a->in->start_time = av_rescale_q(pts, a->stream->time_base, AV_TIME_BASE_Q);
}

/* Time stamps of the output's clock; frames without one follow the last, and so do those that go back. */
static void set_time(SnlsReader *r, SnlsAvReader *a, AVFrame *frame)
{
    const AVRational base = a->stream->time_base;
    int64_t pts = frame->best_effort_timestamp != AV_NOPTS_VALUE ? frame->best_effort_timestamp : frame->pts;
    int64_t length = SNLS_FRAME_DURATION(frame);
    if (length <= 0 && r->info.rate > 0) length = llrint(1 / (r->info.rate * av_q2d(base)));
    if (length <= 0) length = 1;
    if (pts == AV_NOPTS_VALUE) pts = a->last == AV_NOPTS_VALUE ? a->offset : a->last + a->length;
    if (a->clock.streams && a->clock.stream[a->stream->index].joins) warn_of_time(r, a, "begin anew in the middle");
    if (a->last != AV_NOPTS_VALUE && pts < a->last) {
        warn_of_time(r, a, "go back in the middle");
        pts = a->last + a->length;
    }
    if (a->last == AV_NOPTS_VALUE && a->in->start_time == AV_NOPTS_VALUE) begin_here(a, pts);
    if (a->last == AV_NOPTS_VALUE) a->begin = pts;
    if (a->last != AV_NOPTS_VALUE && pts - a->last > a->longest) a->longest = pts - a->last;
    a->last = pts;
    a->length = length;
    frame->pts = pts - a->offset;
    SNLS_FRAME_DURATION(frame) = length;
}

static SnlsStatus take_frame(SnlsReader *r, SnlsAvReader *a, AVFrame *frame, SnlsFrame **out)
{
    SnlsStatus status = SNLS_OK;
    set_time(r, a, frame);
    const bool marked = snls_av_damage_frame(r, &a->damage, frame, a->frames, a->packets, frame_time(a));
    if (marked && !r->params.lenient) status = damaged(r, a, "a damaged frame", 0);
    if (SNLS_FRAME_INTERLACED(frame) && !r->params.progressive) status = refuse_interlaced(r);
    if (status >= 0) status = snls_av_plain(r->ctx, &frame);
    if (status < 0) {
        av_frame_free(&frame);
        return status;
    }
    frame->sample_aspect_ratio = av_guess_sample_aspect_ratio(a->in, a->stream, frame); /* y4m, AVI and NUT have it outside of frames */
    if (!a->frames++)
        snprintf(r->info.pixel_format, sizeof r->info.pixel_format, "%s", av_get_pix_fmt_name(frame->format));
    else if (!a->told_format && strcmp(r->info.pixel_format, av_get_pix_fmt_name(frame->format))) {
        a->told_format = true;
        snls_note(&r->info, "from frame %lld on it is %s, before %s: the output has one format for all",
                  (long long)a->frames - 1, av_get_pix_fmt_name(frame->format), r->info.pixel_format);
    }
    return snls_av_wrap(r->ctx, frame, a->stream->time_base, out);
}

static SnlsStatus finish(SnlsReader *r, SnlsAvReader *a)
{
    const bool marked = snls_av_damage_frame(r, &a->damage, NULL, a->frames, a->packets, frame_time(a));
    SNLS_TRY(check_sums(r, a, NULL));
    return marked && !r->params.lenient ? damaged(r, a, "a damaged frame", 0) : check_end(r, a);
}

enum { FAILURES_MOST = 1000 }; /* at the end: more than any decoder holds */

static SnlsStatus av_next(SnlsReader *r, SnlsFrame **out)
{
    SnlsAvReader *a = r->priv;
    AVFrame *frame = av_frame_alloc();
    if (!frame) return no_memory(r);
    SnlsStatus status = SNLS_OK;
    while (status >= 0) {
        const int error = avcodec_receive_frame(a->decoder, frame);
        if (error >= 0) a->failures = 0;
        if (error >= 0) return take_frame(r, a, frame, out);
        if (error == AVERROR_EOF || (a->draining && ++a->failures > FAILURES_MOST)) {
            status = finish(r, a);
            break;
        }
        const bool again = a->draining && a->failures > 1; /* some say the same for ever */
        if (error != AVERROR(EAGAIN) && !again) status = damaged_packet(r, a, "decoding fails", error);
        if (status >= 0 && !a->draining) status = feed(r, a); /* else what a decoder of many threads still holds, behind the damage */
    }
    av_frame_free(&frame);
    return status;
}

static void av_close(SnlsReader *r)
{
    SnlsAvReader *a = r->priv;
    if (!a) return;
    av_packet_free(&a->packet);
    snls_av_clock_close(&a->clock);
    avcodec_free_context(&a->decoder);
    snls_av_damage_close(&a->damage);
    avformat_close_input(&a->in);
    snls_av_input_close(r, a);
    snls_mem_free(&r->ctx->allocator, a);
}

bool snls_av_rate_varies(const SnlsReader *r)
{
    if (r->kind != &snls_av_reader) return false;
    const AVStream *s = ((const SnlsAvReader *)r->priv)->stream;
    const double usual = av_q2d(s->r_frame_rate), mean = av_q2d(s->avg_frame_rate);
    return usual > 0 && mean > 0 && (usual > 1.01 * mean || mean > 1.01 * usual);
}

const SnlsReaderKind snls_av_reader = { av_open, av_next, av_close, false, snls_av_note_beside };

/* ---- the door ---- */

static void about(char *text, size_t size)
{
    const unsigned v = avformat_version();
    static const char *const usual[] = { "ffv1", "libx264", "libx265", "libvpx-vp9" };
    int n = snprintf(text, size, "FFmpeg %s (libavformat %u.%u.%u), encoders", av_version_info(), v >> 16, v >> 8 & 255, v & 255);
    for (size_t i = 0; i < sizeof usual / sizeof *usual && n > 0 && (size_t)n < size; i++)
        n += snprintf(text + n, size - (size_t)n, " %s%s", avcodec_find_encoder_by_name(usual[i]) ? "" : "no ", usual[i]);
}

__attribute__((visibility("default"))) const SnlsVideoBackend *snls_ffmpeg_backend(int32_t api_version,
                                                                                   size_t reader_size,
                                                                                   size_t writer_size);

const SnlsVideoBackend *snls_ffmpeg_backend(int32_t api_version, size_t reader_size, size_t writer_size)
{
    static atomic_flag quiet = ATOMIC_FLAG_INIT; /* once: it is one level for the process, whose host may want another afterwards */
    static const SnlsVideoBackend backend = { &snls_av_reader, &snls_av_writer, about };
    if (api_version != SNLS_API_VERSION || reader_size != SNLS_READER_SIZE || writer_size != sizeof(SnlsWriter))
        return NULL;
    if (!atomic_flag_test_and_set(&quiet)) av_log_set_level(AV_LOG_QUIET); /* the library never prints; errors are sentences */
    return &backend;
}
