/* test_ffmpeg_formats.c: every pixel format of this FFmpeg that we take: random samples to floats and back are the same bits,
 * at odd sizes, in both ranges and all matrices. */
#include "check.h"
#include "video/ffmpeg.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static SnlsContext *ctx;

/* Bits that belong to samples get random values; those between them stay 0, as decoders leave them. */
static void fill(Rng *rng, const SnlsPixels *p, const AVFrame *frame)
{
    for (int c = 0; c < p->components; c++) {
        const SnlsComponent *k = &p->component[c];
        int64_t rows, bytes;
        snls_pixels_plane(p, k->plane, &rows, &bytes);
        for (int64_t y = 0; y < rows; y++)
            for (int64_t x = 0; x + k->step <= bytes; x += k->step) {
                if (x / k->step >= (c == 1 || c == 2 ? INT64_MAX : p->width)) break; /* packed pairs have a last half */
                uint8_t *at = frame->data[k->plane] + y * frame->linesize[k->plane] + x + k->offset;
                const unsigned value = (unsigned)rng_int(rng, 0, (1 << (k->depth < 16 ? k->depth : 16)) - 1)
                                       << k->shift;
                if (p->real) {
                    const float f = (float)rng_real(rng, -0.5, 1.5);
                    memcpy(at, &f, 4);
                } else if (k->shift + k->depth <= 8) at[p->big_endian] |= (uint8_t)value;
                else at[p->big_endian] |= (uint8_t)value, at[!p->big_endian] |= (uint8_t)(value >> 8);
            }
    }
}

static AVFrame *frame_of(enum AVPixelFormat format, int width, int height, int range, int space)
{
    AVFrame *frame = av_frame_alloc();
    frame->format = format;
    frame->width = width;
    frame->height = height;
    frame->color_range = range;
    frame->colorspace = space;
    if (av_frame_get_buffer(frame, 0) < 0) abort();
    for (int i = 0; i < AV_NUM_DATA_POINTERS && frame->buf[i]; i++) memset(frame->buf[i]->data, 0, frame->buf[i]->size);
    return frame;
}

static void round_trip(Rng *rng, enum AVPixelFormat format, int width, int height, int range, int space)
{
    AVFrame *a = frame_of(format, width, height, range, space), *b = frame_of(format, width, height, range, space);
    SnlsPixels p;
    SnlsFrame *from = NULL, *to = NULL;
    CHECK(snls_av_frame_pixels(a, &p), "no pixels");
    fill(rng, &p, a);
    CHECK(snls_av_wrap(ctx, a, (AVRational){ 1, 25 }, &from) == SNLS_OK &&
              snls_av_wrap(ctx, b, (AVRational){ 1, 25 }, &to) == SNLS_OK,
          "not wrapped");
    const int64_t bytes = snls_frame_bytes(from);
    float *pixels = malloc((size_t)width * (size_t)height * 3 * sizeof *pixels);
    uint8_t *x = malloc((size_t)bytes), *y = malloc((size_t)bytes);
    snls_frame_read(from, pixels);
    snls_pixels_write(ctx, &p, &to->planes, pixels, snls_pixels_channels(&p));
    snls_pixels_alpha_copy(ctx, &p, &from->planes, &p, &to->planes);
    snls_frame_pack(from, x);
    snls_frame_pack(to, y);
    if (!p.real)
        CHECK(!memcmp(x, y, (size_t)bytes), "%s %dx%d range %d matrix %d: another frame came back",
              av_get_pix_fmt_name(format), width, height, range, space);
    snls_pixels_unpack(&p, x, &to->planes);
    snls_frame_pack(to, y);
    CHECK(!memcmp(x, y, (size_t)bytes), "%s: packing loses samples", av_get_pix_fmt_name(format));
    free(pixels);
    free(x);
    free(y);
    snls_frame_free(&from);
    snls_frame_free(&to);
}

int main(void)
{
    static const int spaces[] = { AVCOL_SPC_BT709,     AVCOL_SPC_SMPTE170M, AVCOL_SPC_BT2020_NCL,
                                  AVCOL_SPC_SMPTE240M, AVCOL_SPC_FCC,       AVCOL_SPC_UNSPECIFIED };
    Rng rng = { 5 };
    int formats = 0;
    if (snls_open(&ctx, NULL) < 0) return 1;
    for (const AVPixFmtDescriptor *d = NULL; (d = av_pix_fmt_desc_next(d));) {
        SnlsPixels p;
        const enum AVPixelFormat format = av_pix_fmt_desc_get_id(d);
        if (!snls_av_pixels(format, &p)) continue;
        formats++;
        for (int i = 0; i < 6; i++)
            for (int range = 0; range < 3; range++)
                round_trip(&rng, format, (int)rng_int(&rng, 1, 40), (int)rng_int(&rng, 1, 20), range, spaces[i]);
    }
    static const char *const must[] = { "yuv420p",     "yuv422p",     "yuv444p",     "yuv420p9le", "yuv422p10le",
                                        "yuv444p12le", "yuv420p14be", "yuv444p16le", "gray",       "gray10le",
                                        "gray16be",    "gbrp",        "gbrp10le",    "gbrp16le",   "gbrpf32le",
                                        "rgb24",       "rgba",        "bgr0",        "rgb48be",    "nv12",
                                        "nv21",        "p010le",      "p016le",      "yuyv422",    "uyvy422",
                                        "yuva420p",    "gbrap12le",   "rgb565le",    "yuvj420p",   "x2rgb10le",
                                        "ya8",         "yuv411p",     "yuv440p" };
    for (size_t i = 0; i < sizeof must / sizeof *must; i++) {
        SnlsPixels p;
        CHECK(snls_av_pixels(av_get_pix_fmt(must[i]), &p), "%s is not taken", must[i]);
    }
    CHECK(formats > 120, "only %d formats", formats);
    printf("%d pixel formats\n", formats);
    snls_close(&ctx);
    return check_end();
}
