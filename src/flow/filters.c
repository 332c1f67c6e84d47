/* filters.c: separable filters and resampling of planes. Every output row is computed by one thread. */
#include "flow/job.h"
#include <math.h>
#include <string.h>

int64_t snls_edge_index(SnlsEdge edge, int64_t i, int64_t length)
{
    if (i >= 0 && i < length) return i;
    if (edge == SNLS_EDGE_CLAMP || length == 1) return i < 0 ? 0 : length - 1;
    const int64_t period = edge == SNLS_EDGE_REFLECT ? 2 * length : 2 * (length - 1);
    i = (i % period + period) % period;
    if (edge == SNLS_EDGE_REFLECT) return i < length ? i : period - 1 - i;
    return i < length ? i : period - i;
}

void snls_pad_row(float *row, int64_t width, int64_t radius, SnlsEdge edge)
{
    for (int64_t i = 1; i <= radius; i++) {
        row[-i] = row[snls_edge_index(edge, -i, width)];
        row[width - 1 + i] = row[snls_edge_index(edge, width - 1 + i, width)];
    }
}

void snls_filter_take(SnlsFlowJob *job, SnlsFilter *filter, int64_t radius_max, int64_t width_max)
{
    filter->padded_size = width_max + 2 * radius_max;
    filter->taps = snls_flow_floats(job, 2 * radius_max + 1, 1);
    filter->padded = snls_flow_floats(job, job->threads, filter->padded_size);
    filter->rows = snls_flow_take(job, job->threads * (2 * radius_max + 1), sizeof *filter->rows);
}

void snls_filter_gauss(SnlsFilter *filter, int64_t radius, double sigma)
{
    double sum = 0;
    for (int64_t i = -radius; i <= radius; i++) sum += exp(-(double)(i * i) / (2 * sigma * sigma));
    for (int64_t i = -radius; i <= radius; i++)
        filter->taps[i + radius] = (float)(exp(-(double)(i * i) / (2 * sigma * sigma)) / sum);
    filter->radius = radius;
}

void snls_filter_row(const SnlsFlowJob *job, const SnlsFilter *filter, float *out, const SnlsPlane *in, int64_t y)
{
    const int64_t r = filter->radius, n = 2 * r + 1;
    float *padded = filter->padded + snls_flow_thread() * filter->padded_size + r;
    const float **rows = filter->rows + snls_flow_thread() * n;
    for (int64_t i = 0; i < n; i++) rows[i] = snls_plane_row(in, snls_edge_index(filter->edge, y + i - r, in->height));
    job->loops.weigh(padded, rows, filter->taps, n, in->width);
    snls_pad_row(padded, in->width, r, filter->edge);
    for (int64_t i = 0; i < n; i++) rows[i] = padded + i - r;
    job->loops.weigh(out, rows, filter->taps, n, in->width);
}

void snls_filter_plane(const SnlsFlowJob *job, const SnlsFilter *filter, const SnlsPlane *out, const SnlsPlane *in)
{
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < in->height; y++) snls_filter_row(job, filter, snls_plane_row(out, y), in, y);
}

void snls_resample_take(SnlsFlowJob *job, SnlsResample *resample, int64_t width_max)
{
    resample->at = snls_flow_take(job, width_max, sizeof *resample->at);
    resample->right = snls_flow_floats(job, width_max, 1);
}

/* The last index is length-2 with weight 1, so that index + 1 is always inside; a length of 1 has weight 0 at 0. */
int64_t snls_resample_at(int64_t from, int64_t to, int64_t i, float *weight)
{
    const double place = ((double)i + 0.5) * ((double)from / (double)to) - 0.5;
    const double inside = place < 0 ? 0 : place > (double)(from - 1) ? (double)(from - 1) : place;
    int64_t index = (int64_t)inside;
    if (index > from - 2) index = from > 1 ? from - 2 : 0;
    *weight = from > 1 ? (float)(inside - (double)index) : 0;
    return index;
}

void snls_resample_set(SnlsResample *resample, int64_t from, int64_t to)
{
    for (int64_t i = 0; i < to; i++) resample->at[i] = (int32_t)snls_resample_at(from, to, i, &resample->right[i]);
}

static void resample_column(float *out, const float *top, const float *bottom, float down, float scale, int64_t width)
{
    for (int64_t x = 0; x < width; x++) out[x] = scale * (top[0] + down * (bottom[0] - top[0]));
}

void snls_resample_plane(const SnlsFlowJob *job, SnlsResample *resample, const SnlsPlane *out, const SnlsPlane *in,
                         float scale)
{
    snls_resample_set(resample, in->width, out->width);
#pragma omp parallel for num_threads(job->threads) schedule(static)
    for (int64_t y = 0; y < out->height; y++) {
        float down;
        const int64_t top = snls_resample_at(in->height, out->height, y, &down);
        const float *a = snls_plane_row(in, top), *b = snls_plane_row(in, in->height > 1 ? top + 1 : top);
        if (in->width > 1)
            job->loops.blend(snls_plane_row(out, y), a, b, down, resample->at, resample->right, scale, out->width);
        else resample_column(snls_plane_row(out, y), a, b, down, scale, out->width);
    }
}
