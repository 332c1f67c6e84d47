/* frame.c: frames to planes of decorrelated channels and back. */
#include "denoise/nlb.h"
#include <math.h>

/* Orthonormal: white noise stays white. Rows: (R+G+B)/sqrt 3, (R-B)/sqrt 2, (R-2G+B)/sqrt 6. */
static void to_planes(float *planes, int64_t plane, const float *rgb, int64_t pixels)
{
    const float y = (float)(1 / sqrt(3)), u = (float)(1 / sqrt(2)), v = (float)(1 / sqrt(6));
    for (int64_t i = 0; i < pixels; i++) {
        const float r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];
        planes[i] = y * (r + g + b);
        planes[plane + i] = u * (r - b);
        planes[2 * plane + i] = v * (r - 2 * g + b);
    }
}

static void from_planes(float *rgb, const float *planes, int64_t plane, int64_t pixels)
{
    const float y = (float)(1 / sqrt(3)), u = (float)(1 / sqrt(2)), v = (float)(1 / sqrt(6));
    for (int64_t i = 0; i < pixels; i++) {
        const float a = y * planes[i], b = u * planes[plane + i], c = v * planes[2 * plane + i];
        rgb[3 * i] = a + b + c;
        rgb[3 * i + 1] = a - 2 * c;
        rgb[3 * i + 2] = a - b + c;
    }
}

void snls_nlb_load(const NlbPlan *p, float *planes, const float *frame)
{
    const int64_t pixels = p->height * p->width;
    if (p->channels == 3) to_planes(planes, p->plane, frame, pixels);
    else
        for (int64_t i = 0; i < pixels; i++) planes[i] = frame[i];
    for (int64_t c = 0; c < p->channels; c++) /* read by vectors, used by nobody */
        for (int64_t i = pixels; i < p->plane; i++) planes[c * p->plane + i] = 0;
}

/* Mean square of what was taken off channel c. */
static double taken_off(const NlbPlan *p, const float *frame, const float *came, int64_t c)
{
    const int64_t pixels = p->height * p->width;
    double sum = 0;
    for (int64_t i = 0; i < pixels; i++) {
        const double e = (double)came[3 * i + c] - frame[3 * i + c];
        sum += e * e;
    }
    return sum / (double)pixels;
}

void snls_nlb_mix(const NlbPlan *p, float *frame, const float *came, const double sigma[3])
{
    for (int64_t c = 0; c < 3; c++) {
        const double noise = sigma[c] * sigma[c], error = fmax(taken_off(p, frame, came, c) - noise, 0); /* what is beyond the noise was no noise */
        const float share = noise > 0 ? (float)(error / (error + noise)) : 1;
        for (int64_t i = c; i < 3 * p->height * p->width; i += 3)
            frame[i] = share < 1 ? frame[i] + share * (came[i] - frame[i]) : came[i];
    }
}

void snls_nlb_store(const NlbPlan *p, float *frame, const float *planes)
{
    const int64_t pixels = p->height * p->width;
    if (p->channels == 3) from_planes(frame, planes, p->plane, pixels);
    else
        for (int64_t i = 0; i < pixels; i++) frame[i] = planes[i];
}
