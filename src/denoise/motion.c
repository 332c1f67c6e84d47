/* motion.c: flow between two frames that are held, kept in whole pixels: windows are placed by whole pixels. */
#include "denoise/nlb.h"
#include <math.h>
#include <snls/flow.h>

/* The first channel on the scale 0..255, on which the flow methods have their constants. */
static void make_luma(const SnlsDenoiser *d, float *luma, const float *planes)
{
    const NlbPlan *p = &d->plan;
    const float scale = p->channels == 3 ? (float)(1 / sqrt(3)) : 1;
#pragma omp parallel for num_threads(d->ctx->threads)
    for (int64_t i = 0; i < p->height * p->width; i++) luma[i] = scale * planes[i];
}

static SnlsStatus flow_of(SnlsDenoiser *d, int64_t from, int16_t *motion)
{
    static const int32_t methods[] = { [SNLS_DENOISE_FLOW_FARNEBACK] = SNLS_FLOW_FARNEBACK,
                                       [SNLS_DENOISE_FLOW_TVL1] = SNLS_FLOW_TVL1,
                                       [SNLS_DENOISE_FLOW_DIS] = SNLS_FLOW_DIS };
    const NlbPlan *p = &d->plan;
    const int64_t shape[3] = { p->height, p->width, 2 }, count = 2 * p->height * p->width;
    SnlsFlowParams params;
    snls_flow_defaults(&params);
    params.method = methods[p->flow];
    const SnlsFlowPair pair = { .from = snls_tensor(d->luma[from], SNLS_F32, 2, shape),
                                .to = snls_tensor(d->luma[1 - from], SNLS_F32, 2, shape),
                                .flow = snls_tensor(d->flow_pair, SNLS_F32, 3, shape) };
    SNLS_TRY(snls_flow(d->ctx, &pair, &params));
#pragma omp parallel for num_threads(d->ctx->threads)
    for (int64_t i = 0; i < count; i++) motion[i] = (int16_t)rintf(fminf(fmaxf(d->flow_pair[i], -32767), 32767));
    return SNLS_OK;
}

SnlsStatus snls_nlb_motion(SnlsDenoiser *d, int step, int64_t t)
{
    if (d->plan.flow == SNLS_DENOISE_FLOW_NONE) return SNLS_OK;
    const NlbFrame *before = snls_nlb_frame(d, t - 1), *frame = snls_nlb_frame(d, t);
    make_luma(d, d->luma[0], step ? before->sum[0] : before->noisy);
    make_luma(d, d->luma[1], step ? frame->sum[0] : frame->noisy);
    d->late[(t - 1) % d->plan.lates].holder[step] = t - 1;
    SNLS_TRY(flow_of(d, 0, before->motion[step][0]));
    return flow_of(d, 1, frame->motion[step][1]);
}
