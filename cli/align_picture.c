/* align_picture.c: pictures of an alignment, and of what the search corrects. */
#include "align.h"
#include "frames.h"
#include "picture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPTION = 26, GAP = 6, COLUMNS = 3, CELL = 10 };

/* A frame as RGB; grey ones three times. */
static void paste(SnlsTensor *canvas, int64_t top, int64_t left, const float *pixels, int64_t height, int64_t width,
                  int64_t channels)
{
    float *out = canvas->data;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < 3; c++)
                out[((top + y) * canvas->shape[1] + left + x) * 3 + c] =
                    pixels[(y * width + x) * channels + (channels == 3 ? c : 0)];
}

static void panel(const Align *a, SnlsTensor *canvas, int number, const char *caption, const float *pixels)
{
    const int64_t h = a->clean.shape[1], w = a->clean.shape[2];
    const int64_t top = number / COLUMNS * (h + CAPTION), left = GAP + number % COLUMNS * (w + GAP);
    picture_text(canvas, top + 6, left, w < 420 ? 1 : 2, caption); /* 26 letters at most, 6 or 12 pixels each */
    paste(canvas, top + CAPTION, left, pixels, h, w, a->clean.shape[3]);
}

int align_picture(const Align *a, int64_t t, const char *path)
{
    static const char *const titles[ALIGN_WAYS] = { "frame t+1", "flow only", "unshifted search", "shifted search",
                                                    "kept or searched" };
    const int64_t rows = ALIGN_WAYS / COLUMNS + 1, h = a->clean.shape[1], w = a->clean.shape[2];
    SnlsTensor canvas;
    char caption[64];
    int code = alloc_array(a->ctx, "picture", &canvas, SNLS_F32, 3,
                           (const int64_t[]){ rows * (h + CAPTION) + GAP, GAP + COLUMNS * (w + GAP), 3 });
    if (code) return code;
    picture_fill(&canvas, 255, 255, 255);
    panel(a, &canvas, 0, "frame t", align_frame(&a->clean, t).data);
    for (int way = 0; way < ALIGN_WAYS; way++) {
        const float *pixels = way == ALIGN_NONE ? align_frame(&a->clean, t + 1).data : a->aligned[way].data;
        if (!pixels) continue;
        snprintf(caption, sizeof caption, "%s %.2f dB", titles[way], a->psnr[way]);
        panel(a, &canvas, way + 1, caption, pixels);
    }
    code = write_image(a->ctx, path, &canvas);
    snls_array_free(a->ctx, &canvas);
    return code;
}

/* ---- corrections ---- */

int corrections_begin(AlignCorrections *c, int32_t half)
{
    const size_t side = 2 * (size_t)half + 1;
    *c = (AlignCorrections){ .half = half, .count = calloc(side * side, sizeof(double)) };
    return c->count ? EXIT_DONE : fail(EXIT_MEMORY, "out of memory");
}

/* Offset minus flow. A window that the border pushed aside has corrections beyond half: they count in the moments only where they fit. */
void corrections_add(AlignCorrections *c, const Align *a)
{
    const SnlsTensor *o = &a->offset[ALIGN_SEARCH];
    const int64_t nh = o->shape[3], nw = o->shape[4], step = a->params.stride0, side = 2 * c->half + 1;
    const float *flow = a->flow.data, *offset = o->data;
    for (int64_t i = 0; i < nh * nw; i++) {
        const int64_t at = (i / nw * a->flow.shape[1] + i % nw) * step;
        const double dx = (double)offset[3 * i + 2] - flow[2 * at], dy = (double)offset[3 * i + 1] - flow[2 * at + 1];
        const double cx = nearbyint(dx / a->params.stride1), cy = nearbyint(dy / a->params.stride1);
        if (fabs(cx) > c->half || fabs(cy) > c->half) continue;
        c->count[((int64_t)cy + c->half) * side + (int64_t)cx + c->half]++;
        c->n++;
        c->sum[0] += cx;
        c->sum[1] += cy;
        c->square[0] += cx * cx;
        c->square[1] += cx * cy;
        c->square[2] += cy * cy;
    }
}

/* Of a Gaussian with the same mean and covariance: the ellipse that holds this share. */
void corrections_ellipse(const AlignCorrections *c, double share, double *radius, double *angle)
{
    const double n = fmax(c->n, 1), mx = c->sum[0] / n, my = c->sum[1] / n;
    const double xx = c->square[0] / n - mx * mx, xy = c->square[1] / n - mx * my, yy = c->square[2] / n - my * my;
    const double mean = (xx + yy) / 2, apart = hypot((xx - yy) / 2, xy), scale = -2 * log(1 - share);
    radius[0] = sqrt(scale * fmax(mean + apart, 0));
    radius[1] = sqrt(scale * fmax(mean - apart, 0));
    *angle = 0.5 * atan2(2 * xy, xx - yy) * 180 / 3.14159265358979323846;
}

static void draw_ellipse(const AlignCorrections *c, SnlsTensor *canvas, double share, const float *rgb)
{
    double radius[2], angle;
    const double n = fmax(c->n, 1), middle = (c->half + 0.5) * CELL;
    corrections_ellipse(c, share, radius, &angle);
    const double cosine = cos(angle * 3.14159265358979323846 / 180), sine = sin(angle * 3.14159265358979323846 / 180);
    for (int i = 0; i < 4000; i++) {
        const double phi = i * 6.283185307179586 / 4000, p = radius[0] * cos(phi), q = radius[1] * sin(phi);
        const int64_t x = (int64_t)(middle + CELL * (c->sum[0] / n + cosine * p - sine * q)),
                      y = (int64_t)(middle + CELL * (c->sum[1] / n + sine * p + cosine * q));
        for (int64_t k = 0; k < 4; k++) {
            const int64_t px = x + k % 2, py = y + k / 2;
            if (px < 0 || py < 0 || px >= canvas->shape[1] || py >= canvas->shape[0]) continue;
            for (int b = 0; b < 3; b++) ((float *)canvas->data)[(py * canvas->shape[1] + px) * 3 + b] = rgb[b];
        }
    }
}

/* Cells in grey, the logarithm of their share; ellipses of 68 % (red) and 90 % (blue). */
int corrections_draw(const AlignCorrections *c, SnlsContext *ctx, const char *path)
{
    static const float red[3] = { 220, 40, 40 }, blue[3] = { 40, 80, 220 };
    const int64_t side = 2 * c->half + 1, size = side * CELL;
    SnlsTensor canvas;
    double most = 1;
    int code = alloc_array(ctx, "picture", &canvas, SNLS_F32, 3, (const int64_t[]){ size, size, 3 });
    if (code) return code;
    for (int64_t i = 0; i < side * side; i++) most = fmax(most, c->count[i]);
    for (int64_t i = 0; i < size * size; i++) {
        const double count = c->count[i / size / CELL * side + i % size / CELL];
        const float shade = (float)(255 * (1 - log1p(count) / log1p(most)));
        for (int b = 0; b < 3; b++) ((float *)canvas.data)[3 * i + b] = shade;
    }
    draw_ellipse(c, &canvas, 0.68, red);
    draw_ellipse(c, &canvas, 0.90, blue);
    code = write_image(ctx, path, &canvas);
    snls_array_free(ctx, &canvas);
    return code;
}

json_t *corrections_json(const AlignCorrections *c)
{
    json_t *report = json_object();
    const double n = fmax(c->n, 1), side = 2.0 * c->half + 1;
    double inside = 0;
    for (int64_t i = 0; i < (int64_t)(side * side); i++) {
        const double x = i % (int64_t)side - c->half, y = i / (int64_t)side - c->half;
        if (fabs(x) <= 5 && fabs(y) <= 5) inside += c->count[i];
    }
    json_object_set_new(report, "steps", json_integer((json_int_t)c->n));
    json_object_set_new(report, "mean", json_pack("[f,f]", c->sum[0] / n, c->sum[1] / n));
    json_object_set_new(report, "none", json_real(c->count[(int64_t)(side * side) / 2] / n));
    json_object_set_new(report, "within_11x11", json_real(inside / n));
    for (int i = 0; i < 2; i++) {
        double radius[2], angle;
        corrections_ellipse(c, i ? 0.90 : 0.68, radius, &angle);
        json_object_set_new(report, i ? "ellipse_90" : "ellipse_68",
                            json_pack("{s:[f,f], s:f}", "half_axes", radius[0], radius[1], "degrees", angle));
    }
    return report;
}
