/* ffmpeg_clock.c: one time for files that were joined. MPEG's program and transport streams may be put behind each other as
 * they are (cat a.vob b.vob), and then the time stamps of every stream begin anew in the middle. */
#include "video/ffmpeg.h"

enum {
    BACK = 500000,      /* microseconds: more than frames are reordered by */
    FORWARD = 60000000, /* longer than a picture is likely to stand still */
};

SnlsStatus snls_av_clock_open(SnlsAvClock *c, const AVFormatContext *in)
{
    if (!(in->iformat->flags & AVFMT_TS_DISCONT)) return SNLS_OK;
    c->stream = av_calloc(in->nb_streams, sizeof *c->stream);
    if (!c->stream) return SNLS_ERR_MEMORY;
    c->streams = in->nb_streams;
    for (unsigned i = 0; i < c->streams; i++) c->stream[i].end = AV_NOPTS_VALUE;
    return SNLS_OK;
}

/* Where all streams have ended so far. */
static int64_t latest_end(const SnlsAvClock *c)
{
    int64_t end = INT64_MIN;
    for (unsigned i = 0; i < c->streams; i++)
        if (c->stream[i].end != AV_NOPTS_VALUE && c->stream[i].end > end) end = c->stream[i].end;
    return end;
}

/* One stream may pause as long as it likes while another goes on: pictures that stand still, sound that is silent. */
static bool jumps(const SnlsAvClock *c, const struct SnlsAvClockStream *s, int64_t time)
{
    return time < s->end - BACK || time > latest_end(c) + FORWARD;
}

static int64_t added(const SnlsAvClock *c, const struct SnlsAvClockStream *s) { return c->added[s->joins == c->joins]; }

/* The new part begins where all streams of the one before have ended, so that none of them goes back. */
static void join(SnlsAvClock *c, int64_t time)
{
    c->joins++;
    c->added[0] = c->added[1];
    c->added[1] = latest_end(c) - time;
}

/* Parsers hold packets back, so that one stream may come over a join later than another. Streams of few packets cannot tell
 * a jump from a pause, and go with the others. */
static void find_part(SnlsAvClock *c, struct SnlsAvClockStream *s, enum AVMediaType type, int64_t time)
{
    const bool dense = type == AVMEDIA_TYPE_VIDEO || type == AVMEDIA_TYPE_AUDIO;
    if (!dense || s->end == AV_NOPTS_VALUE || s->joins < c->joins - 1) s->joins = c->joins;
    if (!dense || s->end == AV_NOPTS_VALUE || !jumps(c, s, time + added(c, s))) return;
    if (s->joins == c->joins || jumps(c, s, time + c->added[1])) join(c, time);
    s->joins = c->joins;
}

void snls_av_clock_packet(SnlsAvClock *c, const AVFormatContext *in, AVPacket *p)
{
    const int64_t at = p->dts != AV_NOPTS_VALUE ? p->dts : p->pts;
    if ((unsigned)p->stream_index >= c->streams || at == AV_NOPTS_VALUE) return;
    const AVStream *stream = in->streams[p->stream_index];
    struct SnlsAvClockStream *s = &c->stream[p->stream_index];
    const int64_t time = av_rescale_q(at, stream->time_base, AV_TIME_BASE_Q);
    find_part(c, s, stream->codecpar->codec_type, time);
    const int64_t more = av_rescale_q(added(c, s), AV_TIME_BASE_Q, stream->time_base);
    s->end = time + added(c, s) + (p->duration > 0 ? av_rescale_q(p->duration, stream->time_base, AV_TIME_BASE_Q) : 0);
    if (p->pts != AV_NOPTS_VALUE) p->pts += more;
    if (p->dts != AV_NOPTS_VALUE) p->dts += more;
}

void snls_av_clock_close(SnlsAvClock *c)
{
    av_freep(&c->stream);
    c->streams = 0;
}
