/* texture.c: value noise, and a texture made of it: coloured stones with dark joints, and detail at every scale. */
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

/* Colours of stone, sand, earth, moss, leaf and slate. */
static const double palette[][3] = { { 168, 158, 142 }, { 198, 176, 136 }, { 122, 92, 66 }, { 104, 116, 70 },
                                     { 72, 96, 62 },    { 110, 122, 134 }, { 150, 96, 70 }, { 186, 188, 184 } };
enum { COLORS = sizeof palette / sizeof *palette };

typedef struct Cell {
    double distance;
    int64_t x, y;
} Cell;

/* The two nearest of points scattered one to a square of the lattice. */
static void nearest_cells(uint64_t seed, double x, double y, Cell *first, Cell *second)
{
    const int64_t ix = (int64_t)floor(x), iy = (int64_t)floor(y);
    *first = *second = (Cell){ 1e9, 0, 0 };
    for (int64_t cy = iy - 2; cy <= iy + 2; cy++)
        for (int64_t cx = ix - 2; cx <= ix + 2; cx++) {
            const double dx = (double)cx + synth_lattice(seed, 5, cx, cy) - x,
                         dy = (double)cy + synth_lattice(seed, 6, cx, cy) - y;
            const Cell cell = { sqrt(dx * dx + dy * dy), cx, cy };
            if (cell.distance < first->distance) {
                *second = *first;
                *first = cell;
            } else if (cell.distance < second->distance) {
                *second = cell;
            }
        }
}

static double cell_color(uint64_t seed, const Cell *cell, int channel)
{
    const double *color = palette[(int)(COLORS * synth_lattice(seed, 7, cell->x, cell->y))];
    return color[channel] * (0.75 + 0.5 * synth_lattice(seed, 8, cell->x, cell->y));
}

void texture_at(uint64_t seed, double size, double warmth, double x, double y, double *rgb)
{
    /* the outline of a stone wanders because coordinates are warped */
    const double wx = x + 7 * synth_noise(seed, 1, x, y, 21), wy = y + 7 * synth_noise(seed, 2, x, y, 21);
    Cell first, second;
    nearest_cells(seed, wx / size, wy / size, &first, &second);
    const double inside = ramp(size * (second.distance - first.distance), 0, 3), shade = 0.55 + 0.45 * inside;
    /* detail: amplitude falls with the wavelength, as in pictures of the world */
    double detail = 30 * synth_noise(seed, 20, x, y, 70), amplitude = 24;
    int64_t layer = 10;
    for (double wavelength = 30; wavelength > 3.2; wavelength /= 1.9, amplitude *= 0.8)
        detail += amplitude * synth_noise(seed, layer++, x, y, wavelength);
    const double tint = 10 * synth_noise(seed, 21, x, y, 15);
    for (int c = 0; c < 3; c++) {
        const double one = cell_color(seed, &first, c), two = cell_color(seed, &second, c);
        const double color =
            two + (0.5 + 0.5 * inside) * (one - two); /* half each on the border, so that it has no step */
        rgb[c] = fmin(fmax(shade * color + detail + (tint - 40 * warmth) * (c - 1), 0), 255);
    }
}
