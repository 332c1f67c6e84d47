/* test_flow.c: optical flow of every method on motion that is known, at every size, thread count and level; clips; what is
 * done with a flow; bad input and failing memory. */
#define _POSIX_C_SOURCE 200809L
#include "spec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "farneback", "tvl1", "dis" };

/* A smooth texture without a period in the frame, defined everywhere. 0..255 */
static double texture(double x, double y)
{
    return 128 + 30 * sin(0.31 * x + 0.11 * y) + 30 * sin(0.23 * y - 0.07 * x + 1) + 20 * sin(0.13 * x - 0.41 * y + 2) +
           15 * sin(0.59 * x + 0.47 * y) + 25 * sin(0.071 * x + 0.053 * y + 0.5);
}

/* Frame 1 shows what frame 0 shows at p, at p + A (p - centre) + d. */
typedef struct Movement {
    const char *name;
    double zoom, angle, dx, dy, bound[3]; /* mean end-point error allowed, for each method */
} Movement;

static const Movement motions[] = {
    { "translation", 1, 0, 2.3, -1.7, { 0.06, 0.08, 0.08 } },
    { "large translation", 1, 0, -9.4, 6.1, { 0.15, 0.1, 0.1 } },
    { "rotation", 1, 0.03, 0, 0, { 0.06, 0.1, 0.1 } },
    { "zoom", 1.04, 0, 0.5, 0.25, { 0.12, 0.1, 0.1 } },
    { "nothing", 1, 0, 0, 0, { 1e-6, 1e-6, 1e-6 } },
};

static void true_flow(const Movement *m, double cx, double cy, double x, double y, double *u, double *v)
{
    const double c = m->zoom * cos(m->angle), s = m->zoom * sin(m->angle);
    *u = c * (x - cx) - s * (y - cy) - (x - cx) + m->dx;
    *v = s * (x - cx) + c * (y - cy) - (y - cy) + m->dy;
}

/* Inverse of the motion: where in frame 0 the pixel (x, y) of frame 1 comes from. */
static void source_of(const Movement *m, double cx, double cy, double x, double y, double *sx, double *sy)
{
    const double c = cos(m->angle) / m->zoom, s = sin(m->angle) / m->zoom, px = x - m->dx - cx, py = y - m->dy - cy;
    *sx = c * px + s * py + cx;
    *sy = -s * px + c * py + cy;
}

static SnlsFlowPair make_pair(const Movement *m, int64_t h, int64_t w)
{
    SnlsFlowPair p = { spec_tensor(SNLS_F32, SHAPE(h, w)), spec_tensor(SNLS_F32, SHAPE(h, w)),
                       spec_tensor(SNLS_F32, SHAPE(h, w, 2)) };
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++) {
            double sx, sy;
            source_of(m, (double)w / 2, (double)h / 2, (double)x, (double)y, &sx, &sy);
            ((float *)p.from.data)[y * w + x] = (float)texture((double)x, (double)y);
            ((float *)p.to.data)[y * w + x] = (float)texture(sx, sy);
        }
    return p;
}

/* Mean end-point error away from the border, where the target may have left the frame. */
static double error_of(const SnlsFlowPair *p, const Movement *m)
{
    const int64_t h = p->flow.shape[0], w = p->flow.shape[1], edge = 16;
    double sum = 0, count = 0;
    for (int64_t y = edge; y < h - edge; y++)
        for (int64_t x = edge; x < w - edge; x++) {
            double u, v;
            true_flow(m, (double)w / 2, (double)h / 2, (double)x, (double)y, &u, &v);
            const float *f = (const float *)p->flow.data + 2 * (y * w + x);
            sum += hypot((double)f[0] - u, (double)f[1] - v);
            count++;
        }
    return sum / count;
}

static void known_motion(SnlsContext *ctx)
{
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    for (size_t i = 0; i < sizeof motions / sizeof *motions; i++)
        for (params.method = 0; params.method < 3; params.method++) {
            SnlsFlowPair p = make_pair(&motions[i], 96, 128);
            CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s: %s", names[params.method], snls_error(ctx));
            const double error = error_of(&p, &motions[i]);
            CHECK(error <= motions[i].bound[params.method], "%s on %s: error %.4f, at most %g", names[params.method],
                  motions[i].name, error, motions[i].bound[params.method]);
        }
}

/* Motion that only the pyramid can bridge: an iteration a level must begin at the enlarged and scaled flow of the one above. */
static void pyramid(SnlsContext *ctx)
{
    static const Movement far = { "far", 1, 0, 8.5, -5.25, { 0.5, 0.015, 0.5 } };
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    params.farneback.iterations = 1;
    params.tvl1.warps = 3;
    params.dis.warps = 0;
    params.dis.steps = 1;
    for (params.method = 0; params.method < 3; params.method++) {
        SnlsFlowPair p = make_pair(&far, 200, 260);
        CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s: %s", names[params.method], snls_error(ctx));
        CHECK(error_of(&p, &far) <= far.bound[params.method], "%s on 10 pixels: error %.4f", names[params.method],
              error_of(&p, &far));
    }
}

static void add_light(const SnlsTensor *frame, double gain, double offset)
{
    for (int64_t i = 0; i < frame->shape[0] * frame->shape[1]; i++)
        ((float *)frame->data)[i] = (float)(gain * (double)((float *)frame->data)[i] + offset);
}

/* Dense inverse search does not take a change of brightness for motion. */
static void brightness(SnlsContext *ctx)
{
    static const struct {
        double gain, offset, dx, dy, bound;
    } cases[] = { { 1, 5, 0, 0, 1e-3 }, { 1, -20, 0, 0, 1e-3 }, { 1, 20, 3.7, -1.3, 0.1 }, { 0.8, 0, 0, 0, 0.3 } };
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    params.method = SNLS_FLOW_DIS;
    for (params.dis.finest = 0; params.dis.finest < 2; params.dis.finest++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const Movement m = { "light", 1, 0, cases[i].dx, cases[i].dy, { 0 } };
            SnlsFlowPair p = make_pair(&m, 96, 128);
            add_light(&p.to, cases[i].gain, cases[i].offset);
            CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s", snls_error(ctx));
            CHECK(error_of(&p, &m) <= cases[i].bound, "dis, finest %d, brightness * %g %+g: error %.4f, at most %g",
                  (int)params.dis.finest, cases[i].gain, cases[i].offset, error_of(&p, &m), cases[i].bound);
        }
}

static double chance(int64_t x, int64_t y) /* of a place in the plane; 0..1 */
{
    uint32_t h = (uint32_t)x * 0x9e3779b1u ^ (uint32_t)y * 0x85ebca6bu;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return (double)(h ^ h >> 15) / 4294967296.0;
}

/* Chance at every scale, as stills have it: no part of the frame looks like another. 0..255 */
static double still(int64_t x, int64_t y)
{
    double sum = 0;
    for (int64_t size = 2; size <= 64; size *= 2) {
        const int64_t i = x / size, j = y / size;
        const double r = (double)(x % size) / (double)size, d = (double)(y % size) / (double)size;
        const double top = chance(i, j + 1000 * size) * (1 - r) + chance(i + 1, j + 1000 * size) * r,
                     low = chance(i, j + 1 + 1000 * size) * (1 - r) + chance(i + 1, j + 1 + 1000 * size) * r;
        sum += (double)size * (top * (1 - d) + low * d);
    }
    return sum * 255 / 126;
}

/* A camera that pans by an eighth of the frame and more: mean end-point error of dense inverse search where the target is in view. */
static void pan(SnlsContext *ctx, int64_t dx, int64_t dy)
{
    const int64_t h = 240, w = 320;
    SnlsFlowPair p = { spec_tensor(SNLS_F32, SHAPE(h, w)), spec_tensor(SNLS_F32, SHAPE(h, w)),
                       spec_tensor(SNLS_F32, SHAPE(h, w, 2)) };
    SnlsFlowParams params;
    double sum = 0, count = 0;
    for (int64_t i = 0; i < h * w; i++) {
        ((float *)p.from.data)[i] = (float)still(i % w + dx, i / w + dy);
        ((float *)p.to.data)[i] = (float)still(i % w, i / w);
    }
    snls_flow_defaults(&params);
    params.method = SNLS_FLOW_DIS;
    CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s", snls_error(ctx));
    for (int64_t i = 0; i < h * w; i++) {
        const float *f = (const float *)p.flow.data + 2 * i;
        if (i % w + dx >= w - 4 || i / w + dy >= h - 4) continue;
        sum += hypot((double)f[0] - (double)dx, (double)f[1] - (double)dy);
        count++;
    }
    CHECK(sum / count <= 0.2, "dis, pan of (%d, %d): error %.4f, at most 0.2", (int)dx, (int)dy, sum / count);
}

/* Noise alone does not move what has no texture, and does not hide motion of what has little. A slope of brightness looks the
 * same everywhere to patches that are compared without their means. */
static void noisy(SnlsContext *ctx, double slope, double texture_share, double dx, double dy, double bound)
{
    const int64_t h = 240, w = 320;
    SnlsFlowPair p = { spec_tensor(SNLS_F32, SHAPE(h, w)), spec_tensor(SNLS_F32, SHAPE(h, w)),
                       spec_tensor(SNLS_F32, SHAPE(h, w, 2)) };
    SnlsFlowParams params;
    Rng rng = { 41 };
    double sum = 0;
    for (int64_t i = 0; i < h * w; i++)
        for (int f = 0; f < 2; f++) { /* uniform noise with a standard deviation of 15 */
            const double x = (double)(i % w) - (f ? dx : 0), y = (double)(i / w) - (f ? dy : 0);
            ((float *)(f ? p.to.data : p.from.data))[i] =
                (float)(slope * (x + y) + texture_share * texture(x, y) + rng_real(&rng, -26, 26));
        }
    snls_flow_defaults(&params);
    params.method = SNLS_FLOW_DIS;
    CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s", snls_error(ctx));
    for (int64_t i = 0; i < h * w; i++) {
        const float *f = (const float *)p.flow.data + 2 * i;
        sum += hypot((double)f[0] - dx, (double)f[1] - dy);
    }
    CHECK(sum / (double)(h * w) <= bound, "dis in noise, slope %g, texture %g, motion (%g, %g): error %.4f, at most %g", slope, texture_share,
          dx, dy, sum / (double)(h * w), bound);
}

/* Every shape, however small: finite numbers, and the same on any number of threads and at any level. */
static void sizes_and_threads(void)
{
    static const int64_t sizes[][2] = { { 1, 1 }, { 1, 9 },   { 40, 1 },  { 2, 3 },   { 7, 5 },
                                        { 8, 8 }, { 17, 33 }, { 31, 70 }, { 65, 90 }, { 130, 35 } };
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (params.method = 0; params.method < 3; params.method++) {
            SnlsFlowPair p = make_pair(&motions[0], sizes[i][0], sizes[i][1]);
            SnlsTensor first = { 0 };
            for (int32_t threads = 1; threads <= 4; threads += threads)
                for (int32_t level = threads == 1 ? SNLS_CPU_C : snls_cpu_level_max(); level <= snls_cpu_level_max();
                     level++) {
                    SnlsContext *ctx = NULL;
                    if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .threads = threads, .cpu_level = level }) ==
                                   SNLS_OK,
                               "open"))
                        return;
                    p.flow = spec_tensor(SNLS_F32, SHAPE(sizes[i][0], sizes[i][1], 2));
                    CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s", snls_error(ctx));
                    if (!first.data) first = p.flow;
                    CHECK(same_bits(&first, &p.flow), "%s at %dx%d: %d threads, level %s give another flow",
                          names[params.method], (int)sizes[i][1], (int)sizes[i][0], (int)threads,
                          snls_cpu_level_name(level));
                    snls_close(&ctx);
                }
            for (int64_t e = 0; e < snls_tensor_elements(&first); e++)
                CHECK(isfinite(tensor_get(&first, e)), "%s: not finite", names[params.method]);
        }
}

/* Types, strides and channels of the frames; a flow in double and with other strides. */
static void layouts(SnlsContext *ctx)
{
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    SnlsFlowPair p = make_pair(&motions[0], 40, 50);
    for (int64_t i = 0; i < 2000; i++) /* whole numbers, so that bytes hold them */
        for (int f = 0; f < 2; f++) {
            float *x = (float *)(f ? p.to.data : p.from.data) + i;
            *x = nearbyintf(*x);
        }
    CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s", snls_error(ctx));
    static const int32_t types[] = { SNLS_F64, SNLS_F16, SNLS_BF16, SNLS_U8 };
    Rng rng = { 5 };
    for (int t = 0; t < 4; t++) {
        SnlsFlowPair q = { tensor_new(&rng, types[t], SHAPE(40, 50, 2), LAYOUT_OUTPUT),
                           tensor_new(&rng, types[t], SHAPE(40, 50, 2), LAYOUT_OUTPUT),
                           tensor_new(&rng, SNLS_F64, SHAPE(40, 50, 2), LAYOUT_OUTPUT) };
        for (int64_t i = 0; i < 4000; i++) { /* two equal channels: their mean is the frame */
            tensor_set(&q.from, i, tensor_get(&p.from, i / 2));
            tensor_set(&q.to, i, tensor_get(&p.to, i / 2));
        }
        CHECK(snls_flow(ctx, &q, &params) == SNLS_OK, "%s", snls_error(ctx));
        for (int64_t i = 0; i < 4000; i++)
            CHECK(tensor_get(&q.flow, i) == tensor_get(&p.flow, i), "type %s gives another flow",
                  snls_dtype_name((SnlsDtype)types[t]));
        CHECK(tensor_padding_unchanged(&q.flow), "padding was written");
    }
}

static void clips(SnlsContext *ctx)
{
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    const int64_t h = 33, w = 41, n = h * w;
    SnlsFlowClip clip = { spec_tensor(SNLS_F32, SHAPE(3, h, w, 3)), spec_tensor(SNLS_F32, SHAPE(3, h, w, 2)),
                          spec_tensor(SNLS_F32, SHAPE(3, h, w, 2)) };
    for (int64_t i = 0; i < 3 * n; i++)
        for (int c = 0; c < 3; c++)
            ((float *)clip.video.data)[3 * i + c] =
                (float)texture((double)(i % w) - (double)(i / n) + 5 * c, (double)(i / w % h));
    memset(clip.forward.data, 0x55, (size_t)(6 * n) * sizeof(float));
    CHECK(snls_flow_clip(ctx, &clip, &params) == SNLS_OK, "%s", snls_error(ctx));
    const float *forward = clip.forward.data, *backward = clip.backward.data;
    for (int64_t i = 0; i < 2 * n; i++)
        CHECK(forward[4 * n + i] == 0 && backward[i] == 0, "flow out of the clip is not 0");
    CHECK(fabs(forward[2 * (16 * w + 20)] - 1) < 0.1 && fabs(backward[2 * n + 2 * (16 * w + 20)] + 1) < 0.1,
          "a step of one pixel: %g there, %g back", forward[2 * (16 * w + 20)], backward[2 * n + 2 * (16 * w + 20)]);
    clip.backward.data = NULL;
    CHECK(snls_flow_clip(ctx, &clip, &params) == SNLS_OK, "forward alone: %s", snls_error(ctx));
    clip.forward.shape[1]++;
    CHECK(snls_flow_clip(ctx, &clip, &params) == SNLS_ERR_SHAPE, "a forward flow of another height");
}

static SnlsTensor frame_at(const SnlsTensor *t, int64_t i)
{
    const int64_t size = t->shape[1] * t->shape[2] * t->shape[3];
    return snls_tensor((float *)t->data + i * size, SNLS_F32, 3, t->shape + 1);
}

/* A clip whose last frame holds a NaN: those before it have a flow, but a call that fails writes nothing. */
static void nothing_written(SnlsContext *ctx, const SnlsFlowClip *clip, const SnlsFlowParams *params)
{
    const int64_t pixels = clip->video.shape[1] * clip->video.shape[2], n = clip->video.shape[0] * pixels * 2;
    float *last = (float *)clip->video.data + snls_tensor_elements(&clip->video) - 1, *flow[2] = { clip->forward.data, clip->backward.data };
    const float kept = *last;
    const SnlsFlowPair pairs[2] = { { frame_at(&clip->video, 0), frame_at(&clip->video, 1), frame_at(&clip->forward, 0) },
                                    { frame_at(&clip->video, 2), frame_at(&clip->video, 3), frame_at(&clip->forward, 1) } };
    for (int i = 0; i < 2; i++)
        for (int64_t j = 0; j < n; j++) flow[i][j] = 7;
    *last = NAN;
    CHECK(snls_flow_clip(ctx, clip, params) == SNLS_ERR_ARG && snls_flow_pairs(ctx, pairs, 2, params) == SNLS_ERR_ARG, "a NaN in the last frame");
    *last = kept;
    for (int i = 0; i < 2; i++)
        for (int64_t j = 0; j < n; j++)
            if (!CHECK(flow[i][j] == 7, "a flow was written by a call that failed")) return;
}

/* Pairs of a clip side by side give the bits that each gives on its own, whatever the number of threads. */
static void clips_by_pairs(void)
{
    const int64_t h = 40, w = 37, n = h * w;
    SnlsFlowClip clip = { spec_tensor(SNLS_F32, SHAPE(4, h, w, 3)), spec_tensor(SNLS_F32, SHAPE(4, h, w, 2)), spec_tensor(SNLS_F32, SHAPE(4, h, w, 2)) };
    float *video = clip.video.data, *forward = clip.forward.data, *backward = clip.backward.data;
    SnlsTensor flow = spec_tensor(SNLS_F32, SHAPE(h, w, 2));
    for (int64_t i = 0; i < 12 * n; i++) video[i] = (float)texture((double)(i / 3 % w) - (double)(i / (3 * n)) * 1.25, (double)(i / 3 / w % h) + (double)(i % 3));
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    for (params.method = SNLS_FLOW_FARNEBACK; params.method <= SNLS_FLOW_DIS; params.method++)
        for (int threads = 1; threads <= 9; threads += 4) {
            SnlsContext *ctx;
            if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .threads = threads }) == SNLS_OK, "open")) return;
            CHECK(snls_flow_clip(ctx, &clip, &params) == SNLS_OK, "%s", snls_error(ctx));
            for (int t = 0; t < 3; t++)
                for (int back = 0; back < 2; back++) {
                    const SnlsFlowPair p = { snls_tensor(video + (t + back) * 3 * n, SNLS_F32, 3, (const int64_t[]){ h, w, 3 }),
                                             snls_tensor(video + (t + 1 - back) * 3 * n, SNLS_F32, 3, (const int64_t[]){ h, w, 3 }), flow };
                    CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s", snls_error(ctx));
                    CHECK(!memcmp(flow.data, back ? backward + (t + 1) * 2 * n : forward + t * 2 * n, (size_t)(2 * n) * sizeof(float)),
                          "%s, %d threads: pair %d of a clip differs from the pair alone", names[params.method], threads, t);
                }
            const float kept = video[3 * n];
            video[3 * n] = NAN;
            CHECK(snls_flow_clip(ctx, &clip, &params) == SNLS_ERR_ARG && strstr(snls_error(ctx), "not finite"), "a NaN in a clip: %s", snls_error(ctx));
            video[3 * n] = kept;
            nothing_written(ctx, &clip, &params);
            snls_close(&ctx);
        }
}

static void pairs_refused(SnlsContext *ctx)
{
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    const SnlsFlowPair pairs[2] = { make_pair(&motions[0], 16, 16), make_pair(&motions[0], 16, 20) };
    CHECK(snls_flow_pairs(ctx, NULL, 0, &params) == SNLS_OK, "no pairs: %s", snls_error(ctx));
    CHECK(snls_flow_pairs(ctx, NULL, 1, &params) == SNLS_ERR_ARG && snls_flow_pairs(ctx, pairs, 1, NULL) == SNLS_ERR_ARG, "a struct that is missing");
    CHECK(snls_flow_pairs(ctx, pairs, 2, &params) == SNLS_ERR_SHAPE && strstr(snls_error(ctx), "pair 1 is 20 x 16"), "two sizes: %s", snls_error(ctx));
}

static void fields(SnlsContext *ctx)
{
    SnlsTensor f = spec_tensor(SNLS_F32, SHAPE(12, 20, 2)), b = spec_tensor(SNLS_F32, SHAPE(12, 20, 2)),
               half = spec_tensor(SNLS_F32, SHAPE(6, 10, 2)), twice = spec_tensor(SNLS_F64, SHAPE(24, 40, 2)),
               error = spec_tensor(SNLS_F32, SHAPE(12, 20)), mask = spec_tensor(SNLS_U8, SHAPE(12, 20));
    for (int64_t i = 0; i < 240; i++) {
        tensor_set(&f, 2 * i, 3);
        tensor_set(&f, 2 * i + 1, -2);
        tensor_set(&b, 2 * i, i % 20 < 10 ? -3 : -2.5);
        tensor_set(&b, 2 * i + 1, 2);
    }
    CHECK(snls_flow_resize(ctx, &f, &half) == SNLS_OK && snls_flow_resize(ctx, &f, &twice) == SNLS_OK, "%s",
          snls_error(ctx));
    for (int64_t i = 0; i < 120; i++)
        CHECK(tensor_get(&half, i) == (i % 2 ? -1 : 1.5), "half size: %g", tensor_get(&half, i));
    for (int64_t i = 0; i < 1920; i++)
        CHECK(tensor_get(&twice, i) == (i % 2 ? -4 : 6), "twice the size: %g", tensor_get(&twice, i));
    CHECK(snls_flow_consistency(ctx, &f, &b, &error, &mask) == SNLS_OK, "%s", snls_error(ctx));
    for (int64_t y = 0; y < 12; y++)
        for (int64_t x = 0; x < 20; x++) {
            const double e = tensor_get(&error, y * 20 + x), want = x + 3 > 19 || y < 2 ? INFINITY
                                                                    : x + 3 < 10        ? 0
                                                                                        : 0.5;
            CHECK(e == want, "round trip at (%d,%d): %g, expected %g", (int)x, (int)y, e, want);
            CHECK(tensor_get(&mask, y * 20 + x) == (want < 1), "mask at (%d,%d)", (int)x, (int)y);
        }
    SnlsTensor image = spec_tensor(SNLS_F32, SHAPE(12, 20, 1)), moved = spec_tensor(SNLS_F32, SHAPE(12, 20, 1));
    for (int64_t i = 0; i < 240; i++) tensor_set(&image, i, (double)(i % 20 + 100 * (i / 20)));
    CHECK(snls_flow_warp(ctx, &image, &f, &moved) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(tensor_get(&moved, 5 * 20 + 7) == 310 && tensor_get(&moved, 0) == 3, "warp: %g and %g",
          tensor_get(&moved, 107), tensor_get(&moved, 0));
    double epe;
    tensor_set(&f, 0, 2e9);
    CHECK(snls_flow_error(ctx, &b, &f, &epe) == SNLS_OK, "%s", snls_error(ctx));
    CHECK(fabs(epe - (119 * sqrt(36 + 16) + 120 * sqrt(5.5 * 5.5 + 16)) / 239) < 1e-9, "end-point error %.12g", epe);
}

static void refused(SnlsContext *ctx)
{
    SnlsFlowParams good, bad;
    snls_flow_defaults(&good);
    SnlsFlowPair p = make_pair(&motions[0], 20, 20), q = p;
#define REFUSES(call, status, words)                                                                             \
    CHECK((call) == (status) && strstr(snls_error(ctx), words), "expected %d and '%s', got '%s'", status, words, \
          snls_error(ctx))
    REFUSES(snls_flow(ctx, NULL, &good), SNLS_ERR_ARG, "NULL");
    CHECK(snls_flow(NULL, &p, &good) == SNLS_ERR_ARG, "no context");
    bad = good, bad.method = 3;
    REFUSES(snls_flow(ctx, &p, &bad), SNLS_ERR_ARG, "method is 3");
    bad = good, bad.farneback.winsize = 0;
    REFUSES(snls_flow(ctx, &p, &bad), SNLS_ERR_ARG, "winsize is 0");
    bad = good, bad.farneback.reserved[1] = 1;
    REFUSES(snls_flow(ctx, &p, &bad), SNLS_ERR_ARG, "reserved[1]");
    bad = good, bad.method = SNLS_FLOW_TVL1, bad.tvl1.theta = NAN;
    REFUSES(snls_flow(ctx, &p, &bad), SNLS_ERR_ARG, "theta");
    bad = good, bad.method = SNLS_FLOW_DIS, bad.dis.stride = 9;
    REFUSES(snls_flow(ctx, &p, &bad), SNLS_ERR_ARG, "stride is 9");
    q.flow.shape[2] = 1;
    REFUSES(snls_flow(ctx, &q, &good), SNLS_ERR_SHAPE, "components");
    q = p, q.to.shape[0] = 19;
    REFUSES(snls_flow(ctx, &q, &good), SNLS_ERR_SHAPE, "high");
    q = p, q.from.data = NULL;
    REFUSES(snls_flow(ctx, &q, &good), SNLS_ERR_ARG, "no data");
    q = p, q.from.dtype = SNLS_I32;
    REFUSES(snls_flow(ctx, &q, &good), SNLS_ERR_SHAPE, "i32, must be f32, f16, bf16, f64 or u8");
    q = p, q.from.shape[0] = q.to.shape[0] = q.flow.shape[0] = 0;
    REFUSES(snls_flow(ctx, &q, &good), SNLS_ERR_SHAPE, "pixels");
    REFUSES(snls_flow_pairs(ctx, &p, -1, &good), SNLS_ERR_ARG, "count is -1");
    ((float *)p.to.data)[17] = NAN;
    REFUSES(snls_flow(ctx, &p, &good), SNLS_ERR_ARG, "not finite");
    ((float *)p.to.data)[17] = 1e30F;
    REFUSES(snls_flow(ctx, &p, &good), SNLS_ERR_ARG, "beyond 1e+09");
    SnlsTensor field = spec_tensor(SNLS_F32, SHAPE(4, 5, 2)), map = spec_tensor(SNLS_F32, SHAPE(4, 5)), mask = spec_tensor(SNLS_U8, SHAPE(4, 5)), picture = spec_tensor(SNLS_U8, SHAPE(4, 5, 3));
    map.stride[1] = mask.stride[0] = picture.stride[1] = 0;
    REFUSES(snls_flow_consistency(ctx, &field, &field, &map, NULL), SNLS_ERR_ARG, "error is an output whose elements overlap");
    REFUSES(snls_flow_consistency(ctx, &field, &field, NULL, &mask), SNLS_ERR_ARG, "mask is an output whose elements overlap");
    REFUSES(snls_flow_color(ctx, &field, 0, &picture), SNLS_ERR_ARG, "image is an output whose elements overlap");
    map.stride[1] = 1, map.stride[0] = INT64_MAX;
    REFUSES(snls_flow_consistency(ctx, &field, &field, &map, NULL), SNLS_ERR_SHAPE, "larger than memory");
    map.stride[0] = 5, map.data = (char *)map.data + 1, map.shape[0] = field.shape[0] = 3;
    REFUSES(snls_flow_consistency(ctx, &field, &field, &map, NULL), SNLS_ERR_ARG, "not aligned");
    CHECK(snls_flow_options("farneback") && snls_flow_options("dis") && !snls_flow_options("search"), "option tables");
}

/* Scratch of pairs that go side by side is counted where that of one pair is. */
static void pairs_counted(void)
{
    int64_t peak[2] = { 0 };
    int32_t threads = 1;
    for (int i = 0; i < 2; i++) {
        SnlsContext *ctx = NULL;
        SnlsFlowParams params;
        const SnlsFlowPair pairs[2] = { make_pair(&motions[0], 40, 50), make_pair(&motions[1], 40, 50) };
        snls_flow_defaults(&params);
        if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .threads = 1 + i }) == SNLS_OK, "open")) return;
        CHECK(snls_flow_pairs(ctx, pairs, 2, &params) == SNLS_OK, "%s", snls_error(ctx));
        peak[i] = snls_scratch_peak(ctx);
        threads = snls_threads(ctx);
        snls_close(&ctx);
    }
    CHECK(peak[0] > 0 && (threads < 2 || peak[1] > peak[0]), /* one thread without OpenMP */ "pairs in turn held %lld bytes of scratch, side by side %lld", (long long)peak[0], (long long)peak[1]);
}

/* Finite numbers come out of the largest that are taken, and of such as differ by less than can be stretched to 0..255. */
static void extremes(SnlsContext *ctx)
{
    static const double scales[] = { 1e9, 1e-30, 1e-38, 1e-44 };
    for (int i = 0; i < 12; i++) {
        Rng rng = { 77 };
        SnlsFlowParams params;
        SnlsFlowPair p = make_pair(&motions[4], 26, 33);
        snls_flow_defaults(&params);
        params.method = i % 3;
        for (int64_t j = 0; j < 26 * 33; j++) {
            tensor_set(&p.from, j, scales[i / 3] * rng_real(&rng, -1, 1));
            tensor_set(&p.to, j, scales[i / 3] * rng_real(&rng, -1, 1));
        }
        CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s of pixels of %g: %s", names[params.method], scales[i / 3], snls_error(ctx));
        int64_t bad = 0;
        for (int64_t j = 0; j < 2 * 26 * 33; j++) bad += !isfinite(tensor_get(&p.flow, j));
        CHECK(bad == 0, "%s of pixels of %g: %d numbers are not finite", names[params.method], scales[i / 3], (int)bad);
    }
}

typedef struct Memory {
    int64_t made, live, fail_at;
} Memory;

static void *counted_alloc(size_t bytes, void *opaque)
{
    Memory *m = opaque;
    if (m->made++ == m->fail_at) return NULL;
    void *p = malloc(bytes ? bytes : 1);
    if (p) memset(p, 0xff, bytes); /* NaN: nobody may count on zeros */
    m->live += p != NULL;
    return p;
}

static void counted_free(void *p, void *opaque)
{
    ((Memory *)opaque)->live -= p != NULL;
    free(p);
}

static void memory(void)
{
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    for (params.method = 0; params.method < 3; params.method++) {
        Memory m = { .fail_at = -1 };
        SnlsContext *ctx = NULL;
        SnlsFlowPair p = make_pair(&motions[0], 70, 90);
        if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .threads = 2,
                                                         .allocator = { counted_alloc, counted_free, &m } }) == SNLS_OK,
                   "open"))
            return;
        m.fail_at = m.made;
        CHECK(snls_flow(ctx, &p, &params) == SNLS_ERR_MEMORY && strstr(snls_error(ctx), "scratch"),
              "%s without memory: %s", names[params.method], snls_error(ctx));
        m.fail_at = -1;
        CHECK(snls_flow(ctx, &p, &params) == SNLS_OK, "%s: %s", names[params.method], snls_error(ctx));
        CHECK(error_of(&p, &motions[0]) < 0.1, "%s in memory full of NaN", names[params.method]);
        const int64_t made = m.made;
        CHECK(snls_flow(ctx, &p, &params) == SNLS_OK && m.made == made, "%s: the second call allocates",
              names[params.method]);
        snls_close(&ctx);
        CHECK(m.live == 0, "%d blocks are left", (int)m.live);
    }
}

int main(void)
{
    SnlsContext *ctx = NULL;
    check_repeat("test_flow");
    if (CHECK(snls_open(&ctx, &(SnlsContextParams){ .threads = 2 }) == SNLS_OK, "open")) {
        known_motion(ctx);
        pyramid(ctx);
        brightness(ctx);
        pan(ctx, 40, 20);
        pan(ctx, 52, 13);
        noisy(ctx, 0, 0, 0, 0, 0.6);
        noisy(ctx, 0.4, 0, 0, 0, 0.6);
        noisy(ctx, 0.4, 0.2, 4, -3, 0.8);
        layouts(ctx);
        clips(ctx);
        pairs_refused(ctx);
        fields(ctx);
        refused(ctx);
        extremes(ctx);
    }
    clips_by_pairs();
    pairs_counted();
    sizes_and_threads();
    memory();
    snls_close(&ctx);
    tensors_free();
    return check_end();
}
