/* ffmpeg_side.c: side data of streams, which later versions of libav have elsewhere, and what of it says how two views
 * lie in one picture, or the world around the camera in it. */
#include "video/ffmpeg.h"
#include <libavutil/avstring.h>
#include <libavutil/spherical.h>
#include <libavutil/stereo3d.h>
#include <string.h>

static const uint8_t *stream_data(const AVStream *s, enum AVPacketSideDataType type)
{
#if SNLS_SIDE_OF_CODEC
    const AVPacketSideData *side = av_packet_side_data_get(s->codecpar->coded_side_data, s->codecpar->nb_coded_side_data, type);
    return side ? side->data : NULL;
#else
    return av_stream_get_side_data(s, type, NULL);
#endif
}

bool snls_av_stream_has(const AVStream *s, enum AVPacketSideDataType type) { return stream_data(s, type); }

void snls_av_stream_put(AVStream *to, enum AVPacketSideDataType type, const void *from, size_t size)
{
#if SNLS_SIDE_OF_CODEC
    AVPacketSideData *side = av_packet_side_data_new(&to->codecpar->coded_side_data, &to->codecpar->nb_coded_side_data, type, size, 0);
    uint8_t *data = side ? side->data : NULL;
#else
    uint8_t *data = av_stream_new_side_data(to, type, size);
#endif
    if (data) memcpy(data, from, size);
}

/* The container's word, else the codec's, which is beside each frame. NULL: there is none. */
static const AVStereo3D *stereo_of(const AVStream *s, const AVFrame *first)
{
    const AVFrameSideData *side = first ? av_frame_get_side_data(first, AV_FRAME_DATA_STEREO3D) : NULL;
    const uint8_t *data = stream_data(s, AV_PKT_DATA_STEREO3D);
    return (const AVStereo3D *)(data ? data : side ? side->data : NULL);
}

/* What FFmpeg's muxers write: .webm refuses the others, .mp4 leaves them out. */
static bool holds(const char *format, const AVStereo3D *stereo)
{
    const bool beside = stereo && (stereo->type == AV_STEREO3D_SIDEBYSIDE || stereo->type == AV_STEREO3D_TOPBOTTOM || stereo->type == AV_STEREO3D_2D);
    if (!strcmp(format, "matroska")) return true;
    return beside && (!strcmp(format, "webm") || (!strcmp(format, "mp4") && !stereo->flags));
}

void snls_av_stereo_note(SnlsVideoInfo *info, const char *format, const AVStream *s, const AVFrame *first)
{
    const AVDictionaryEntry *tag = av_dict_get(s->metadata, "stereo_mode", NULL, 0); /* Matroska's word, which copies have too */
    const AVStereo3D *stereo = stereo_of(s, first);
    const bool plain = tag ? !strcmp(tag->value, "mono") : !stereo || stereo->type == AV_STEREO3D_2D;
    if (!plain) snls_note(info, "the stereo mode, %s, is not marked in the output: %s has no place for it here; .mkv does", tag ? tag->value : av_stereo3d_type_name(stereo->type), format);
}

/* What FFmpeg's muxers write, and of projections that have come later than these three none. */
static bool holds_projection(const char *format, const AVSphericalMapping *map)
{
    return av_match_name(format, "matroska,webm,mp4") && map->projection <= AV_SPHERICAL_EQUIRECTANGULAR_TILE;
}

void snls_av_spherical_note(SnlsVideoInfo *info, const char *format, const AVStream *s)
{
    const AVSphericalMapping *map = (const AVSphericalMapping *)stream_data(s, AV_PKT_DATA_SPHERICAL);
    const char *name = map ? av_spherical_projection_name(map->projection) : NULL;
    if (!map || holds_projection(format, map) || !strcmp(name, "rectilinear")) return; /* a plain picture, which later versions have a word for */
    snls_note(info, "the projection of 360 degree video, %s, is not marked in the output: %s has no place for it here; .mp4 and .mkv do", name, format);
}

/* Does x264 write it into its pictures? It takes what frames say, and later decoders tell them what the container says. */
static bool inside(const AVCodecContext *encoder, const AVFrame *first)
{
    const AVFrameSideData *side = av_frame_get_side_data(first, AV_FRAME_DATA_STEREO3D);
    const AVStereo3D *stereo = side ? (const AVStereo3D *)side->data : NULL;
    if (encoder->codec_id != AV_CODEC_ID_H264 || !stereo || stereo->flags & AV_STEREO3D_FLAG_INVERT) return false;
    return stereo->type != AV_STEREO3D_SIDEBYSIDE_QUINCUNX && stereo->type <= AV_STEREO3D_COLUMNS;
}

static void put_stereo(AVStream *to, const char *format, AVStereo3D stereo)
{
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(61, 7, 100)
    if (!strcmp(format, "mp4")) stereo.view = AV_STEREO3D_VIEW_UNSPEC; /* else the file gets a second box, whose reader forgets the first, which has the type */
#else
    (void)format;
#endif
    snls_av_stream_put(to, AV_PKT_DATA_STEREO3D, &stereo, sizeof stereo);
}

void snls_av_stereo_copy(SnlsWriter *w, SnlsAvWriter *a, const AVStream *from, const AVFrame *first)
{
    const AVStereo3D *stereo = stereo_of(from, first);
    const char *format = a->out->oformat->name;
    if (holds(format, stereo)) {
        if (stereo) put_stereo(a->stream, format, *stereo);
        return;
    }
    if (!inside(a->encoder, first)) snls_av_stereo_note(&w->info, format, from, first);
    av_dict_set(&a->stream->metadata, "stereo_mode", NULL, 0);
}
