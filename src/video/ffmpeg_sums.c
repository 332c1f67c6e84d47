/* ffmpeg_sums.c: check sums of FFV1. FFmpeg's decoder compares them, but where one is wrong it shows that spot of the frame before, and tells
 * nobody. */
#include "video/ffmpeg.h"
#include <libavutil/crc.h>

enum { FOOTER = 8 }; /* behind each slice: 3 bytes of its length, 1 that tells errors, 4 of the sum (RFC 9043, 4.9) */

/* Slices are found from the last to the first. Without sums the footer is shorter, and the way does not end at the beginning but by chance. */
bool snls_av_ffv1_damaged(SnlsAvSums *s, const AVPacket *p)
{
    const AVCRC *table = av_crc_get_table(AV_CRC_32_IEEE);
    int64_t end = p ? p->size : 0, right = 0, wrong = 0;
    if (!p) return s->wrong && (s->has || !s->other);
    while (end > 0) {
        const uint8_t *footer = p->data + end - FOOTER;
        const int64_t length =
            end < FOOTER ? end + 1 : ((int64_t)footer[0] << 16 | footer[1] << 8 | footer[2]) + FOOTER;
        if (length > end) break;
        end -= length;
        if (av_crc(table, 0, p->data + end, (size_t)length)) wrong++;
        else right++;
    }
    if (right && !end) s->has = true;
    if (end) s->other = true;
    if (wrong || end) s->wrong = true;
    return s->has && s->wrong;
}
