/* texture.c: value noise, and a texture made of it: coloured regions with edges, and detail at every scale. */
#include "texture.h"
#include "synth.h"
#include <math.h>

static uint64_t splitmix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

double synth_lattice(uint64_t seed, int64_t layer, int64_t x, int64_t y)
{
    uint64_t h = splitmix64(seed ^ (uint64_t)layer * 0xd1b54a32d192ed03u);
    h = splitmix64(h ^ (uint64_t)x * 0x9e3779b97f4a7c15u);
    h = splitmix64(h ^ (uint64_t)y * 0xc2b2ae3d27d4eb4fu);
    return (double)(h >> 11) * 0x1p-53;
}

static double ease(double x) { return x * x * x * (x * (x * 6 - 15) + 10); } /* second derivative continuous */

double synth_noise(uint64_t seed, int64_t layer, double x, double y, double wavelength)
{
    x /= wavelength;
    y /= wavelength;
    const double fx = floor(x), fy = floor(y), wx = ease(x - fx), wy = ease(y - fy);
    const int64_t ix = (int64_t)fx, iy = (int64_t)fy;
    const double a = synth_lattice(seed, layer, ix, iy), b = synth_lattice(seed, layer, ix + 1, iy);
    const double c = synth_lattice(seed, layer, ix, iy + 1), d = synth_lattice(seed, layer, ix + 1, iy + 1);
    return 2 * ((a + wx * (b - a)) * (1 - wy) + (c + wx * (d - c)) * wy) - 1;
}

/* 0 below from, 1 above to. */
static double ramp(double x, double from, double to)
{
    const double s = (x - from) / (to - from);
    return s <= 0 ? 0 : s >= 1 ? 1 : s * s * (3 - 2 * s);
}

enum { REGIONS = 5 };

/* A colour of middle brightness for each region of each texture. */
static void palette(uint64_t seed, int region, double *rgb)
{
    for (int c = 0; c < 3; c++) rgb[c] = 50 + 155 * synth_lattice(seed, 90, region, c);
}

void texture_at(uint64_t seed, double x, double y, double *rgb)
{
    /* regions: level sets of slow noise, whose borders wander because its coordinates are warped */
    const double wx = x + 9 * synth_noise(seed, 1, x, y, 23), wy = y + 9 * synth_noise(seed, 2, x, y, 23);
    const double level = synth_noise(seed, 3, wx, wy, 41) + 0.5 * synth_noise(seed, 4, wx, wy, 19);
    double color[3], next[3];
    palette(seed, 0, color);
    for (int i = 1; i < REGIONS; i++) {
        const double edge = -0.6 + 1.2 * i / REGIONS, mix = ramp(level, edge - 0.03, edge + 0.03);
        palette(seed, i, next);
        for (int c = 0; c < 3; c++) color[c] += mix * (next[c] - color[c]);
    }
    /* detail: amplitude falls with the wavelength, as in pictures of the world */
    double detail = 0, tint = synth_noise(seed, 20, x, y, 13);
    double amplitude = 26;
    int64_t layer = 10;
    for (double wavelength = 34; wavelength > 3.5; wavelength /= 1.9, amplitude *= 0.72) detail += amplitude * synth_noise(seed, layer++, x, y, wavelength);
    for (int c = 0; c < 3; c++) rgb[c] = fmin(fmax(color[c] + detail + 14 * tint * (c - 1), 0), 255);
}
