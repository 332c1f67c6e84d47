/* ffmpeg_bitstream.c: packets of copied streams in the form that the output's container has them in, where its muxer does not see to that itself. */
#include "video/ffmpeg.h"

/* NULL: as they are. MP4 and Matroska have H.264 with lengths between its parts, where AVI has start codes, and what a decoder begins with beside
 * MPEG-4 instead of in it. Muxers of transport streams see to H.264 and H.265. */
static const char *filter_name(const AVOutputFormat *format, enum AVCodecID id)
{
    if (!strcmp(format->name, "avi") && id == AV_CODEC_ID_H264) return "h264_mp4toannexb";
    if (!strcmp(format->name, "mpegts") && id == AV_CODEC_ID_MPEG4) return "dump_extra";
    return NULL;
}

int snls_av_bitstream_open(AVBSFContext **filter, const AVOutputFormat *format, const AVStream *from)
{
    const char *name = filter_name(format, from->codecpar->codec_id);
    const AVBitStreamFilter *kind = name ? av_bsf_get_by_name(name) : NULL;
    *filter = NULL;
    if (!name) return 0;
    int error = kind ? av_bsf_alloc(kind, filter) : AVERROR_BSF_NOT_FOUND;
    if (error >= 0) error = avcodec_parameters_copy((*filter)->par_in, from->codecpar);
    if (error < 0) goto failed;
    (*filter)->time_base_in = from->time_base;
    error = av_bsf_init(*filter);
    if (error >= 0) return 0;
failed:
    av_bsf_free(filter);
    return error;
}

/* These filters give one packet for one. */
int snls_av_bitstream_packet(AVBSFContext *filter, AVPacket *packet)
{
    if (!filter) return 0;
    const int error = av_bsf_send_packet(filter, packet);
    return error < 0 ? error : av_bsf_receive_packet(filter, packet);
}
