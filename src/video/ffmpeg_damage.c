/* ffmpeg_damage.c: damaged data for which a decoder gives a picture all the same, with what it could not read filled in. Some decoders mark such
 * frames; here is what others only say in their messages, and how many frames it is about. Whether to go on is the reader's matter. */
#include "video/ffmpeg.h"
#include <libavutil/log.h>
#include <pthread.h>
#include <stdarg.h>

/* Beginnings of messages that no whole file was found to bring about: those of missing references and of numbers that do not follow each other come
 * wherever a stream was cut or joined. Words that another FFmpeg has changed are not heard. */
static const struct Complaint {
    enum AVCodecID codec;
    const char *begin;
    bool is_mark; /* the frame is marked too, but with several threads it may be given away before it is */
    bool once;    /* comes once for each frame */
} complaints[] = {
    { AV_CODEC_ID_H264, "error while decoding MB", true, false },
    { AV_CODEC_ID_H264, "concealing ", true, true },
    { AV_CODEC_ID_MJPEG, "error y=", false, false },
    { AV_CODEC_ID_MJPEG, "overread ", false, false },
    { AV_CODEC_ID_HEVC, "mismatching checksum of plane", false, true },
};

/* FFmpeg has one place for messages of everybody in the process. A decoder of ours, and the copy of it that each of its threads has, is known by its
 * opaque pointer being in this list. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static SnlsAvDamage *listeners;

static const struct Complaint *complaint_of(enum AVCodecID codec, const char *format)
{
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++)
        if (complaints[i].codec == codec && !strncmp(format, complaints[i].begin, strlen(complaints[i].begin)))
            return &complaints[i];
    return NULL;
}

/* False: not a decoder of ours. */
static bool hear(const AVCodecContext *decoder, const struct Complaint *complaint)
{
    pthread_mutex_lock(&lock);
    SnlsAvDamage *d = listeners;
    while (d && d != decoder->opaque) d = d->next;
    if (d && complaint) {
        d->heard = true;
        d->heard_mark |= complaint->is_mark;
        d->heard_once += complaint->once;
    }
    pthread_mutex_unlock(&lock);
    return d;
}

/* Messages of others go where they went before. */
static void on_message(void *from, int level, const char *format, va_list arguments)
{
    const bool decoder = from && level <= AV_LOG_INFO && *(const AVClass *const *)from == avcodec_get_class();
    const AVCodecContext *c = decoder ? from : NULL;
    if (!c || !hear(c, complaint_of(c->codec_id, format))) av_log_default_callback(from, level, format, arguments);
}

void snls_av_damage_listen(SnlsAvDamage *d, AVCodecContext *decoder)
{
    decoder->opaque = d;
    if (decoder->codec_id == AV_CODEC_ID_HEVC) decoder->err_recognition |= AV_EF_CRCCHECK; /* of frames that have a sum */
    pthread_mutex_lock(&lock);
    d->next = listeners;
    listeners = d;
    d->listens = true;
    av_log_set_callback(on_message);
    pthread_mutex_unlock(&lock);
}

void snls_av_damage_close(SnlsAvDamage *d)
{
    pthread_mutex_lock(&lock);
    SnlsAvDamage **at = &listeners;
    while (d->listens && *at != d) at = &(*at)->next;
    if (d->listens) *at = d->next;
    d->listens = false;
    pthread_mutex_unlock(&lock);
}

/* Frames that were spoken of are marked too, if later, so that the larger number is taken of the two. */
static void count(SnlsReader *r, SnlsAvDamage *d, int64_t number, double time)
{
    const int64_t spoken = d->spoken_once ? d->spoken_once : d->spoken,
                  most = (d->marked > spoken ? d->marked : spoken) + d->packets;
    if (!r->info.damaged_frames) r->damaged_first = number, r->damaged_time = time;
    if (r->info.damaged_frames < INT32_MAX / 2) r->info.damaged_frames += (int32_t)(most - d->counted);
    d->counted = most;
}

bool snls_av_damage_frame(SnlsReader *r, SnlsAvDamage *d, const AVFrame *frame, int64_t number, double time)
{
    const bool marked = frame && (frame->decode_error_flags || frame->flags & AV_FRAME_FLAG_CORRUPT);
    pthread_mutex_lock(&lock);
    const bool ignored = d->headless && !number, spoken = d->heard && !ignored, mark = marked || (d->heard_mark && !ignored);
    d->spoken += spoken;
    d->spoken_once += ignored ? 0 : d->heard_once;
    d->heard = d->heard_mark = false;
    d->heard_once = 0;
    pthread_mutex_unlock(&lock);
    d->marked += marked;
    if (marked || spoken) count(r, d, number, time);
    return mark;
}

void snls_av_damage_packet(SnlsReader *r, SnlsAvDamage *d, int64_t number, double time)
{
    d->packets++;
    count(r, d, number, time);
}
