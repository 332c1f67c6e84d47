/* eval_filter.c: the denoiser or a network, frame after frame. */
#include "eval.h"
#include <math.h>
#include <time.h>

typedef struct Watch {
    double start;
    clock_t ticks;
} Watch;

static Watch watch_start(void) { return (Watch){ seconds_now(), clock() }; }

static int watch_stop(Filter *f, Watch w, SnlsStatus status)
{
    f->seconds += seconds_now() - w.start;
    f->processor += (double)(clock() - w.ticks) / CLOCKS_PER_SEC;
    return status < 0 ? fail_library(f->job->model ? f->job->model_ctx : f->job->ctx, status, false) : EXIT_DONE;
}

static SnlsStatus open_it(Filter *f, const int64_t size[3])
{
    const EvalJob *job = f->job;
    const SnlsModelStreamParams stream = { .height = size[0], .width = size[1] };
    if (job->model) return snls_model_stream_open(&f->stream, job->model, &stream); /* as `snls denoise` does it: windows of another length would be another result */
    return snls_denoiser_open(&f->denoiser, job->ctx, &job->params, size[0], size[1], size[2]);
}

int filter_open(Filter *f, const EvalJob *job, const int64_t size[3])
{
    const int64_t three[3] = { size[0], size[1], 3 };
    *f = (Filter){ .job = job, .pixels = size[0] * size[1] };
    const Watch w = watch_start();
    const int code = watch_stop(f, w, open_it(f, size));
    return code || !job->model || size[2] == 3 ? code : alloc_array(job->ctx, "three channels", &f->three, SNLS_F32, 3, three);
}

int64_t filter_delay(const Filter *f) { return f->stream ? snls_model_stream_delay(f->stream) : snls_denoiser_delay(f->denoiser); }

/* Grey as `snls denoise` does it: three equal channels, whose mean has the noise of channels with sqrt(3) times as much each; their mean comes out. */
static double told_sigma(const Filter *f) { return f->three.data ? fmin(sqrt(3) * f->job->sigma, 255) : f->job->sigma; }

static const float *to_three(Filter *f, const float *grey)
{
    float *three = f->three.data;
    for (int64_t i = 0; i < 3 * f->pixels; i++) three[i] = grey[i / 3];
    return three;
}

static void from_three(const Filter *f, float *grey)
{
    const float *three = f->three.data;
    for (int64_t i = 0; i < f->pixels; i++) grey[i] = (three[3 * i] + three[3 * i + 1] + three[3 * i + 2]) / 3;
}

int filter_push(Filter *f, const float *frame)
{
    if (f->three.data) frame = to_three(f, frame);
    const Watch w = watch_start();
    return watch_stop(f, w, f->stream ? snls_model_stream_push(f->stream, frame, told_sigma(f)) : snls_denoiser_push(f->denoiser, frame, 0));
}

int filter_finish(Filter *f)
{
    const Watch w = watch_start();
    return watch_stop(f, w, f->stream ? snls_model_stream_finish(f->stream) : snls_denoiser_finish(f->denoiser));
}

int filter_pull(Filter *f, float *frame, bool *there)
{
    float *to = f->three.data ? f->three.data : frame;
    const Watch w = watch_start();
    const SnlsStatus status = f->stream ? snls_model_stream_pull(f->stream, to) : snls_denoiser_pull(f->denoiser, to);
    *there = status == SNLS_OK;
    if (*there && f->three.data) from_three(f, frame);
    return watch_stop(f, w, status);
}

void filter_sigma(const Filter *f, double sigma[3])
{
    for (int c = 0; c < 3; c++) sigma[c] = f->job->sigma;
    if (f->denoiser) snls_denoiser_sigma(f->denoiser, sigma);
}

void filter_groups(const Filter *f, int64_t groups[2])
{
    groups[0] = groups[1] = 0;
    if (f->denoiser) snls_denoiser_groups(f->denoiser, groups);
}

void filter_close(Filter *f)
{
    snls_denoiser_close(&f->denoiser);
    snls_model_stream_close(&f->stream);
    if (f->job) snls_array_free(f->job->ctx, &f->three);
}
