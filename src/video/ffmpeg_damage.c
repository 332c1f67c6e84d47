/* ffmpeg_damage.c: damaged data for which a decoder gives a picture all the same, with what it could not read filled in. Some decoders mark such
 * frames; here is what others only say in their messages, and how many frames it is about. Whether to go on is the reader's matter. */
#include "video/ffmpeg.h"
#include <pthread.h>

/* Beginnings of messages that no whole file was found to bring about: those of missing references and of numbers that do not follow each other come
 * wherever a stream was cut or joined. Words that another FFmpeg has changed are not heard. */
static const struct Complaint {
    enum AVCodecID codec;
    const char *begin;
    bool is_mark; /* the frame is marked too, but with several threads it may be given away before it is */
    bool once;    /* comes once for each frame */
    bool loud;    /* at a quiet level it says that all is well */
} complaints[] = {
    { AV_CODEC_ID_H264, "error while decoding MB", true, false, false },
    { AV_CODEC_ID_H264, "concealing ", true, true, false },
    { AV_CODEC_ID_MJPEG, "error y=", false, false, false },
    { AV_CODEC_ID_MJPEG, "overread ", false, false, false },
    { AV_CODEC_ID_HEVC, "mismatching checksum of plane", false, true, false },
    { AV_CODEC_ID_HEVC, "Verifying checksum for frame with POC %d: %s", false, true, true }, /* since FFmpeg 6.1, of all planes */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what is heard, which threads of the decoder write */

static const struct Complaint *complaint_of(enum AVCodecID codec, const char *format)
{
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++)
        if (complaints[i].codec == codec && !strncmp(format, complaints[i].begin, strlen(complaints[i].begin)))
            return &complaints[i];
    return NULL;
}

static void hear(SnlsAvListener *listener, const AVCodecContext *decoder, int level, const char *format, va_list arguments)
{
    SnlsAvDamage *d = (SnlsAvDamage *)listener;
    const struct Complaint *complaint = complaint_of(decoder->codec_id, format);
    (void)arguments;
    if (!complaint || (complaint->loud && level > AV_LOG_ERROR)) return;
    pthread_mutex_lock(&lock);
    d->heard = true;
    d->heard_mark |= complaint->is_mark;
    d->heard_once += complaint->once;
    pthread_mutex_unlock(&lock);
}

void snls_av_damage_listen(SnlsAvDamage *d, AVCodecContext *decoder)
{
    if (decoder->codec_id == AV_CODEC_ID_HEVC) decoder->err_recognition |= AV_EF_CRCCHECK; /* of frames that have a sum */
    d->listener.hear = hear;
    snls_av_listen(&d->listener, decoder);
}

void snls_av_damage_close(SnlsAvDamage *d) { snls_av_listen_end(&d->listener); }

/* The reader has forgotten what was counted in frames that are skipped. */
static void begin_anew(const SnlsReader *r, SnlsAvDamage *d)
{
    if (r->info.damaged_frames || !d->counted) return;
    d->marked = d->spoken = d->spoken_once = d->packets = d->counted = 0;
}

/* Frames that were spoken of are marked too, if later, so that the larger number is taken of the two. */
static void count(SnlsReader *r, SnlsAvDamage *d, int64_t number, double time)
{
    const int64_t spoken = d->spoken_once ? d->spoken_once : d->spoken,
                  most = (d->marked > spoken ? d->marked : spoken) + d->packets;
    if (most <= d->counted) return;
    if (!r->info.damaged_frames) r->damaged_first = number, r->damaged_time = time;
    if (r->info.damaged_frames < INT32_MAX / 2) r->info.damaged_frames += (int32_t)(most - d->counted);
    d->counted = most;
}

/* What was heard waits until all frames are out whose packets the decoder had then: it is ahead of its frames, and those before the damage are right. */
static void take_heard(SnlsAvDamage *d, bool ignored, int64_t packets)
{
    pthread_mutex_lock(&lock);
    if (d->heard && !ignored) {
        if (!d->due) d->due = packets;
        d->waiting++;
        d->waiting_once += d->heard_once;
        d->waiting_mark |= d->heard_mark;
    }
    d->heard = d->heard_mark = false;
    d->heard_once = 0;
    pthread_mutex_unlock(&lock);
}

bool snls_av_damage_frame(SnlsReader *r, SnlsAvDamage *d, const AVFrame *frame, int64_t number, int64_t packets, double time)
{
    const bool marked = frame && (frame->decode_error_flags || frame->flags & AV_FRAME_FLAG_CORRUPT);
    begin_anew(r, d);
    take_heard(d, d->headless && !number, packets);
    const bool due = d->due && (!frame || number + 1 >= d->due), mark = marked || (due && d->waiting_mark);
    d->marked += marked;
    if (due) {
        d->spoken += d->waiting;
        d->spoken_once += d->waiting_once;
        d->due = d->waiting = d->waiting_once = 0;
        d->waiting_mark = false;
    }
    if (marked || due) count(r, d, number, time);
    return mark;
}

void snls_av_damage_packet(SnlsReader *r, SnlsAvDamage *d, int64_t number, double time)
{
    begin_anew(r, d);
    d->packets++;
    count(r, d, number, time);
}
