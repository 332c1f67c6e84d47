/* taps.h: a bilinear read as up to four pixels of a packed video. */
#ifndef SNLS_CPU_TAPS_H
#define SNLS_CPU_TAPS_H

#include "cpu/video.h"
#include "op/geometry.h"

/* Taps of a bilinear read with weight: pointers to pixels and f32 weights, 1, 2 or 4 of them. */
typedef struct CpuTaps {
    const float *at[4];
    float weight[4];
    int64_t y[4], x[4];
    int count;
} CpuTaps;

/* The key pixel at (u, v), reflected; false: outside and border is drop. channel: first channel of the head. */
static inline bool snls_cpu_taps(CpuTaps *taps, const CpuVideo *v, int64_t b, int64_t frame, int64_t channel, double u, double w,
                                 int64_t height, int64_t width, bool drop)
{
    if (drop && !(snls_inside(u, height) && snls_inside(w, width))) return false;
    const SnlsTaps ty = snls_taps(snls_reflect_real(u, height), height), tx = snls_taps(snls_reflect_real(w, width), width);
    taps->count = 0;
    for (int a = 0; a < 2; a++)
        for (int i = 0; i < 2; i++) {
            if (ty.weight[a] == 0 || tx.weight[i] == 0) continue;
            const int n = taps->count++;
            taps->y[n] = ty.at[a];
            taps->x[n] = tx.at[i];
            taps->at[n] = snls_cpu_pixel(v, b, frame, ty.at[a], tx.at[i]) + channel;
            taps->weight[n] = (float)(ty.weight[a] * tx.weight[i]);
        }
    return true;
}

#endif
