/* synth.c: the scene: where a point of background or object is at each time, and what a pixel shows. */
#include "synth.h"
#include "texture.h"
#include <math.h>
#include <stddef.h>

/* clang-format off */
#define INT(field, name, def, min, max, help) {name, help, SNLS_OPTION_INT, offsetof(Synth, field), def, min, max, NULL}
#define REAL(field, name, def, min, max, help) {name, help, SNLS_OPTION_REAL, offsetof(Synth, field), def, min, max, NULL}
/* clang-format on */

const SnlsOption synth_options[] = {
    INT(frames, "frames", 5, 1, 100000, "frames"),
    INT(height, "height", 128, 1, 32768, "rows"),
    INT(width, "width", 160, 1, 32768, "columns"),
    REAL(camera_x, "camera-x", 2.3, -1000, 1000, "motion of the background to the right, pixels per frame"),
    REAL(camera_y, "camera-y", -1.4, -1000, 1000, "motion of the background downwards, pixels per frame"),
    REAL(zoom, "zoom", 1, 0.9, 1.1, "magnification of the background per frame, about the centre"),
    REAL(object_x, "object-x", -3.6, -1000, 1000, "motion of the object to the right, pixels per frame"),
    REAL(object_y, "object-y", 1.7, -1000, 1000, "motion of the object downwards, pixels per frame"),
    REAL(object_size, "object-size", 0.4, 0, 2, "radius of the object, 1 for half the shorter side, 0 for no object"),
    REAL(disturb, "disturb", 0, 0, 1000, "error put on the flow: its root mean square length in every frame, pixels"),
    { NULL, NULL, 0, 0, 0, 0, 0, NULL }
};

void synth_defaults(Synth *scene)
{
    *scene = (Synth){ 0 };
    for (const SnlsOption *o = synth_options; o->name; o++) {
        char *at = (char *)scene + o->offset;
        if (o->type == SNLS_OPTION_INT) *(int32_t *)(void *)at = (int32_t)o->def;
        else *(double *)(void *)at = o->def;
    }
}

typedef struct Point {
    double x, y;
} Point;

static Point centre(const Synth *s) { return (Point){ 0.5 * (s->width - 1), 0.5 * (s->height - 1) }; }

/* The texture coordinate of the background that pixel (x,y) shows at time t: the camera's motion undone. */
static Point background_at(const Synth *s, int64_t t, double x, double y)
{
    const Point c = centre(s);
    const double g = pow(s->zoom, -(double)t);
    return (Point){ c.x + g * (x - c.x - (double)t * s->camera_x), c.y + g * (y - c.y - (double)t * s->camera_y) };
}

/* The object's own coordinate of pixel (x,y): its middle is in the picture's at half time. */
static Point object_at(const Synth *s, int64_t t, double x, double y)
{
    const Point c = centre(s);
    const double late = (double)t - 0.5 * (s->frames - 1);
    return (Point){ x - c.x - late * s->object_x, y - c.y - late * s->object_y };
}

/* Pixels from the object's outline, negative inside. The outline is a wavy circle. */
static double object_distance(const Synth *s, Point o)
{
    const double radius = 0.5 * s->object_size * (s->width < s->height ? s->width : s->height);
    if (radius <= 0) return 1e9;
    const double angle = atan2(o.y, o.x), phase = 6.283 * synth_lattice(s->seed, 80, 0, 0);
    return hypot(o.x, o.y) - radius * (1 + 0.13 * sin(3 * angle + phase) + 0.08 * sin(5 * angle - 2 * phase));
}

static int on_object(const Synth *s, int64_t t, double x, double y)
{
    return object_distance(s, object_at(s, t, x, y)) < 0;
}

/* Motion of what pixel (x,y) shows, from t to t+step. */
static Point motion(const Synth *s, int64_t t, int64_t step, double x, double y)
{
    const double n = (double)step;
    if (on_object(s, t, x, y)) return (Point){ n * s->object_x, n * s->object_y };
    const Point c = centre(s);
    const double g = pow(s->zoom, n) - 1;
    return (Point){ n * s->camera_x + g * (x - c.x - (double)t * s->camera_x),
                    n * s->camera_y + g * (y - c.y - (double)t * s->camera_y) };
}

static void pixel(const Synth *s, int64_t t, double x, double y, float *out)
{
    double back[3], front[3] = { 0 };
    const Point b = background_at(s, t, x, y), o = object_at(s, t, x, y);
    const double inside = fmin(fmax(0.5 - object_distance(s, o), 0), 1); /* one soft pixel at the outline */
    texture_at(s->seed, 26, 0, b.x, b.y, back);
    if (inside > 0) texture_at(s->seed + 1, 11, 1, o.x, o.y, front);
    for (int c = 0; c < 3; c++) out[c] = (float)(back[c] + inside * (front[c] - back[c]));
}

void synth_frame(const Synth *s, int64_t t, float *rgb)
{
    for (int64_t y = 0; y < s->height; y++)
        for (int64_t x = 0; x < s->width; x++, rgb += 3) pixel(s, t, (double)x, (double)y, rgb);
}

/* Smooth errors of the flow, of a size of their own. */
static Point flow_error(const Synth *s, int64_t layer, double x, double y)
{
    const double wavelength = 12;
    return (Point){ synth_noise(s->seed, layer, x, y, wavelength), synth_noise(s->seed, layer + 1, x, y, wavelength) };
}

/* What makes the root mean square length of a frame's errors the one that is asked for. */
static double error_scale(const Synth *s, int64_t layer)
{
    double squares = 0;
    if (s->disturb <= 0) return 0;
    for (int64_t y = 0; y < s->height; y++)
        for (int64_t x = 0; x < s->width; x++) {
            const Point e = flow_error(s, layer, (double)x, (double)y);
            squares += e.x * e.x + e.y * e.y;
        }
    return squares > 0 ? s->disturb / sqrt(squares / ((double)s->height * s->width)) : 0;
}

void synth_flow(const Synth *s, int64_t t, int64_t step, float *flow)
{
    const int64_t layer = 1000 + 4 * t + (step < 0 ? 2 : 0);
    const double scale = error_scale(s, layer);
    for (int64_t y = 0; y < s->height; y++)
        for (int64_t x = 0; x < s->width; x++, flow += 2) {
            const Point m = motion(s, t, step, (double)x, (double)y);
            const Point e = scale > 0 ? flow_error(s, layer, (double)x, (double)y) : (Point){ 0, 0 };
            flow[0] = (float)(m.x + scale * e.x);
            flow[1] = (float)(m.y + scale * e.y);
        }
}

void synth_occlusion(const Synth *s, int64_t t, int64_t step, float *mask)
{
    for (int64_t y = 0; y < s->height; y++)
        for (int64_t x = 0; x < s->width; x++) {
            const Point m = motion(s, t, step, (double)x, (double)y);
            const double to_x = (double)x + m.x, to_y = (double)y + m.y;
            const int outside = to_x < 0 || to_y < 0 || to_x > s->width - 1 || to_y > s->height - 1;
            const int hidden = !on_object(s, t, (double)x, (double)y) && on_object(s, t + step, to_x, to_y);
            *mask++ = (float)(outside || hidden);
        }
}
