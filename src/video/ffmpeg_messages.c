/* ffmpeg_messages.c: FFmpeg has one place for messages of everybody in the process. Who asked for it hears those of its own decoders and encoders here;
 * what a message means is the listener's matter. */
#include "video/ffmpeg.h"
#include <libavutil/log.h>
#include <pthread.h>

/* A codec of ours, and the copy of it that each of its threads has, is known by its opaque pointer being in this list. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static SnlsAvListener *listeners;

/* False: not a codec of ours. */
static bool hear(const AVCodecContext *codec, int level, const char *format, va_list arguments)
{
    pthread_mutex_lock(&lock);
    SnlsAvListener *l = listeners;
    while (l && l != codec->opaque) l = l->next;
    if (l) l->hear(l, codec, level, format, arguments);
    pthread_mutex_unlock(&lock);
    return l;
}

/* Messages of others go where they went before. */
static void on_message(void *from, int level, const char *format, va_list arguments)
{
    const bool codec = from && level <= AV_LOG_INFO && *(const AVClass *const *)from == avcodec_get_class();
    if (!codec || !hear(from, level, format, arguments)) av_log_default_callback(from, level, format, arguments);
}

void snls_av_listen(SnlsAvListener *l, AVCodecContext *codec)
{
    codec->opaque = l;
    pthread_mutex_lock(&lock);
    l->next = listeners;
    listeners = l;
    l->listens = true;
    av_log_set_callback(on_message);
    pthread_mutex_unlock(&lock);
}

void snls_av_listen_end(SnlsAvListener *l)
{
    pthread_mutex_lock(&lock);
    SnlsAvListener **at = &listeners;
    while (l->listens && *at != l) at = &(*at)->next;
    if (l->listens) *at = l->next;
    l->listens = false;
    pthread_mutex_unlock(&lock);
}
