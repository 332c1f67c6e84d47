/* demo.c: the experiment behind `snls demo`. A pair of frames is a batch of its own with T = 1: paired search. */
#include "demo.h"
#include <math.h>

static double gauss(uint64_t seed, int64_t layer, int64_t at)
{
    const double u = 1 - synth_lattice(seed, layer, at, 0), v = synth_lattice(seed, layer, at, 1); /* u > 0 */
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static void add_noise(const Demo *d, const SnlsTensor *clean, const SnlsTensor *noisy, int64_t layer)
{
    const int64_t n = snls_tensor_elements(clean);
    const float *from = clean->data;
    float *to = noisy->data;
    for (int64_t i = 0; i < n; i++) to[i] = from[i] + (float)(d->params.noise * gauss(d->scene.seed, layer, i));
}

static void render(Demo *d)
{
    const int64_t pairs = d->params.frames - 1, pixels = (int64_t)d->params.height * d->params.width;
    Synth exact = d->scene;
    exact.disturb = 0;
    for (int64_t t = 0; t < pairs; t++) {
        synth_frame(&d->scene, t, (float *)d->target.data + t * pixels * 3);
        synth_frame(&d->scene, t + 1, (float *)d->source.data + t * pixels * 3);
        synth_flow(&d->scene, t, 1, (float *)d->flow.data + t * pixels * 2);
        synth_flow(&exact, t, 1, (float *)d->exact.data + t * pixels * 2);
        float *visible = (float *)d->visible.data + t * pixels;
        synth_occlusion(&exact, t, 1, visible);
        for (int64_t i = 0; i < pixels; i++) visible[i] = 1 - visible[i];
    }
    add_noise(d, &d->target, &d->noisy_target, 5000);
    add_noise(d, &d->source, &d->noisy_source, 5001);
}

int demo_make(Demo *d)
{
    const int64_t pairs = d->params.frames - 1, h = d->params.height, w = d->params.width;
    const int64_t video[] = { pairs, 1, h, w, 3 }, flow[] = { pairs, 1, 1, h, w, 2 };
    SnlsTensor *const videos[] = { &d->target, &d->source, &d->noisy_target, &d->noisy_source }, *const flows[] = {
        &d->flow, &d->exact
    };
    int code = alloc_array(d->ctx, "visible pixels", &d->visible, SNLS_F32, 4, video);
    for (int i = 0; i < 4 && !code; i++) code = alloc_array(d->ctx, "frames", videos[i], SNLS_F32, 5, video);
    for (int i = 0; i < 2 && !code; i++) code = alloc_array(d->ctx, "flow", flows[i], SNLS_F32, 6, flow);
    if (!code) render(d);
    return code;
}

void demo_free(Demo *d)
{
    SnlsTensor *const all[] = { &d->target, &d->source, &d->noisy_target, &d->noisy_source,
                                &d->flow,   &d->exact,  &d->visible };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) snls_array_free(d->ctx, all[i]);
}

static SnlsStatus search(Demo *d, SnlsSearch *s)
{
    SnlsStatus status = snls_search_shape(d->ctx, s);
    if (status >= 0) status = snls_array_alloc(d->ctx, &s->dist, SNLS_F32, s->dist.ndim, s->dist.shape);
    if (status >= 0) status = snls_array_alloc(d->ctx, &s->offset, SNLS_F32, s->offset.ndim, s->offset.shape);
    Loan loans[] = { { .tensor = &s->query },
                     { .tensor = &s->key },
                     { .tensor = &s->flow },
                     { &s->dist, true, NULL },
                     { &s->offset, true, NULL } };
    if (status >= 0) {
        status = loans_give(d->ctx, loans, 5);
        if (status >= 0) status = snls_search_forward(d->ctx, s);
        status = loans_return(d->ctx, loans, 5, status);
    }
    return status;
}

static SnlsStatus weigh(Demo *d, SnlsWeights *w)
{
    Loan loans[] = { { .tensor = &w->dist }, { &w->weight, true, NULL } };
    SnlsStatus status = loans_give(d->ctx, loans, 2);
    if (status >= 0) status = snls_weights_forward(d->ctx, w);
    return loans_return(d->ctx, loans, 2, status);
}

static SnlsStatus gather(Demo *d, SnlsGatherAdd *g)
{
    Loan loans[] = {
        { .tensor = &g->value }, { .tensor = &g->weight }, { .tensor = &g->offset }, { &g->out, true, NULL }
    };
    SnlsStatus status = loans_give(d->ctx, loans, 4);
    if (status >= 0) status = snls_gather_add_forward(d->ctx, g);
    return loans_return(d->ctx, loans, 4, status);
}

static SnlsStatus aggregate(Demo *d, const SnlsSearch *s, SnlsWeights *w, SnlsTensor *video)
{
    w->dist = s->dist;
    snls_weights_defaults(&w->params);
    /* distances are sums over ps*ps*3 values of noise 2*noise^2 each: a softmax that tells them apart, and no more */
    w->params.scale = 1 / (6.0 * s->params.ps * s->params.ps * (d->params.noise * d->params.noise + 1));
    SnlsStatus status = snls_array_alloc(d->ctx, &w->weight, SNLS_F32, s->dist.ndim, s->dist.shape);
    if (status >= 0) status = weigh(d, w);
    SnlsGatherAdd g = { .value = d->source, .weight = w->weight, .offset = s->offset };
    snls_gather_add_defaults(&g.params);
    g.params.ps = s->params.ps;
    if (status >= 0) status = snls_gather_add_shape(d->ctx, &g);
    if (status >= 0) status = snls_array_alloc(d->ctx, &g.out, SNLS_F32, g.out.ndim, g.out.shape);
    if (status >= 0) status = gather(d, &g);
    *video = g.out;
    return status;
}

int demo_align(Demo *d, const SnlsTensor *flow, int32_t ws, int32_t ps, int32_t k, DemoResult *result)
{
    SnlsSearch s = { .query = d->noisy_target, .key = d->noisy_source, .flow = *flow };
    SnlsWeights w = { .weight = { 0 } };
    snls_search_defaults(&s.params);
    s.params.ws = ws;
    s.params.ps = ps;
    s.params.k = k;
    s.params.stride1 = d->params.stride1;
    const double start = seconds_now();
    SnlsStatus status = search(d, &s);
    if (status >= 0) status = aggregate(d, &s, &w, &result->video);
    result->seconds = seconds_now() - start;
    snls_array_free(d->ctx, &s.dist);
    snls_array_free(d->ctx, &s.offset);
    snls_array_free(d->ctx, &w.weight);
    return status < 0 ? fail_library(d->ctx, status, false) : demo_measure(d, result);
}

static double psnr(double squares, double count)
{
    return 10 * log10(255 * 255 / fmax(squares / fmax(count, 1), 1e-10));
}

int demo_measure(Demo *d, DemoResult *result)
{
    const int64_t pairs = d->params.frames - 1, pixels = (int64_t)d->params.height * d->params.width;
    result->psnr = result->visible = 0;
    for (int64_t t = 0; t < pairs; t++) {
        double all = 0, seen = 0, count = 0;
        for (int64_t i = t * pixels; i < (t + 1) * pixels; i++) {
            const double show = ((const float *)d->visible.data)[i];
            count += 3 * show;
            for (int64_t c = 3 * i; c < 3 * i + 3; c++) {
                const double e = (double)((const float *)result->video.data)[c] - ((const float *)d->target.data)[c];
                all += e * e;
                seen += show * e * e;
            }
        }
        result->psnr += psnr(all, 3 * (double)pixels) / (double)pairs;
        result->visible += psnr(seen, count) / (double)pairs;
    }
    return EXIT_DONE;
}
