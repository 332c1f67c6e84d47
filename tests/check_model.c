/* check_model.c: geometry, reads and patch comparison of the model (model.h). */
#include "model.h"
#include <math.h>

double model_reflect(double x, int64_t n, double *slope)
{
    double sign = x < 0 ? -1 : 1;
    if (n == 1) {
        if (slope) *slope = 0;
        return 0;
    }
    double u = fmod(fabs(x), 2.0 * (double)(n - 1));
    const double last = (double)(n - 1);
    if (u == 0 || u == last) sign = 1; /* turning points count as ascending */
    if (u > last) {
        u = 2 * last - u;
        sign = -sign;
    }
    if (slope) *slope = sign;
    return u;
}

int64_t model_frame(int64_t t, int64_t slot, int64_t wt, int64_t frames)
{
    /* the W_t frames are [first, last]; slots walk up from t, then down from t */
    int64_t first = t - wt, last = t + wt;
    if (first < 0) { last -= first; first = 0; }
    if (last > frames - 1) { first -= last - (frames - 1); last = frames - 1; }
    return slot <= last - t ? t + slot : t - (slot - (last - t));
}

int64_t model_round_frame(double t, int64_t frames) { return (int64_t)model_reflect(t, frames, NULL); }

double model_origin(double a, int64_t side, double step, int64_t n, bool slide)
{
    double o = floor((double)(side - 1) / 2);
    if (!slide) return o;
    if (a - step * o < 0) o = floor(a / step);
    if (a + step * ((double)(side - 1) - o) > (double)(n - 1)) o = ceil((a - (double)(n - 1)) / step + (double)(side - 1));
    return o;
}

int64_t model_cover(int64_t y, int64_t n, int64_t ps, int64_t dilation, int64_t stride0)
{
    int64_t count = 0;
    for (int64_t query = 0; query < n; query += stride0)
        for (int64_t i = 0; i < ps; i++) count += query + dilation * (i - ps / 2) == y;
    return count;
}

double model_kink(double x)
{
    const double off = fabs(x - nearbyint(x));
    return off == 0 ? 1 : off;
}

ModelTaps model_taps(double x, int64_t n)
{
    ModelTaps taps;
    const double z = model_reflect(x, n, &taps.slope), low = floor(z);
    taps.inside = x >= 0 && x <= (double)(n - 1);
    taps.whole = z == low;
    taps.at[0] = (int64_t)low;
    taps.at[1] = (int64_t)model_reflect(low + 1, n, NULL);
    taps.weight[1] = z - low;
    taps.weight[0] = 1 - taps.weight[1];
    return taps;
}

ModelVideo model_video(const SnlsTensor *t)
{
    ModelVideo v = {tensor_doubles(t), t->shape[0], t->shape[1], t->shape[2], t->shape[3], t->shape[4]};
    return v;
}

int64_t model_at(const ModelVideo *v, int64_t b, int64_t t, int64_t y, int64_t x, int64_t c)
{
    return (((b * v->T + t) * v->H + y) * v->W + x) * v->C + c;
}

ModelRead model_read(const ModelVideo *v, int64_t b, int64_t t, const ModelTaps *y, const ModelTaps *x, int64_t c)
{
    ModelRead r = {0};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const double tap = v->v[model_at(v, b, t, y->at[i], x->at[j], c)];
            const double w = y->weight[i] * x->weight[j], sy = i ? x->weight[j] : -x->weight[j], sx = j ? y->weight[i] : -y->weight[i];
            if (w != 0) { /* a tap of weight 0 is not read */
                r.value += w * tap;
                r.absolute += w * fabs(tap);
            }
            r.cross += i == j ? tap : -tap;
            if (sy != 0) { r.dy += sy * tap; r.dy_abs += fabs(sy * tap); }
            if (sx != 0) { r.dx += sx * tap; r.dx_abs += fabs(sx * tap); }
        }
    return r;
}

/* Patch pixel (i, j) of a pair: where the query is read and how the key; false when the border rule drops it. */
typedef struct Pixel { int64_t qy, qx; ModelTaps y, x; } Pixel;

static bool patch_pixel(const ModelPatch *p, const ModelVideo *q, const ModelPair *pair, int64_t i, int64_t j, Pixel *out)
{
    const int64_t dy = p->dilation * (i - p->ps / 2), dx = p->dilation * (j - p->ps / 2);
    const int64_t qy = pair->y + dy, qx = pair->x + dx;
    out->y = model_taps(pair->py + (double)dy, q->H);
    out->x = model_taps(pair->px + (double)dx, q->W);
    out->qy = (int64_t)model_reflect((double)qy, q->H, NULL);
    out->qx = (int64_t)model_reflect((double)qx, q->W, NULL);
    if (!p->drop) return true;
    return out->y.inside && out->x.inside && qy >= 0 && qy < q->H && qx >= 0 && qx < q->W;
}

static void score_pixel(const ModelPatch *p, const ModelVideo *q, const ModelVideo *k, const ModelPair *pair, const Pixel *at, ModelScore *s)
{
    const bool whole = at->y.whole && at->x.whole;
    for (int64_t f = 0; f < p->features; f++) {
        const int64_t c = pair->head * p->features + f;
        const double a = q->v[model_at(q, pair->b, pair->t, at->qy, at->qx, c)];
        const ModelRead r = model_read(k, pair->b, pair->frame, &at->y, &at->x, c);
        const double term = p->prod ? a * r.value : (a - r.value) * (a - r.value);
        s->value += term;
        s->magnitude += fabs(term);
        s->terms += 1;
        if (whole) continue;
        s->read += p->prod ? 6 * fabs(a) * r.absolute : 12 * fabs(a - r.value) * r.absolute;
        s->read2 += p->prod ? 0 : 36 * r.absolute * r.absolute;
    }
}

ModelScore model_score(const ModelPatch *p, const ModelVideo *q, const ModelVideo *k, const ModelPair *pair)
{
    ModelScore s = {0};
    for (int64_t i = 0; i < p->ps; i++)
        for (int64_t j = 0; j < p->ps; j++) {
            Pixel at;
            if (patch_pixel(p, q, pair, i, j, &at)) score_pixel(p, q, k, pair, &at, &s);
        }
    return s;
}

double model_score_tolerance(const ModelScore *s, double eps, int32_t dtype)
{
    const double sum = (s->terms + 2) * eps * s->magnitude + eps * s->read + eps * eps * s->read2;
    return sum * 1.0001 + dtype_rounding(dtype) * (fabs(s->value) + sum) * 1.01 + 3e-38;
}

/* d dist / d(q, k) of one channel, the gradient into the taps, and the pull on the position. */
static void pull_pixel(const ModelPatch *p, const ModelVideo *q, const ModelVideo *k, const ModelPair *pair, const Pixel *at, double g,
                       Sums *dq, Sums *dk, ModelPull *pull)
{
    for (int64_t f = 0; f < p->features; f++) {
        const int64_t c = pair->head * p->features + f, qi = model_at(q, pair->b, pair->t, at->qy, at->qx, c);
        const ModelRead r = model_read(k, pair->b, pair->frame, &at->y, &at->x, c);
        const double a = q->v[qi], difference = a - r.value;
        const double to_q = p->prod ? g * r.value : 2 * g * difference, to_k = p->prod ? g * a : -2 * g * difference;
        const double q_read = 6 * fabs(p->prod ? g : 2 * g) * r.absolute, k_read = p->prod ? 0 : q_read;
        if (dq->count) sums_add(dq, qi, to_q, q_read);
        for (int tap = 0; dk->count && tap < 4; tap++) {
            const double w = at->y.weight[tap / 2] * at->x.weight[tap % 2];
            if (w == 0) continue;
            sums_add(dk, model_at(k, pair->b, pair->frame, at->y.at[tap / 2], at->x.at[tap % 2], c), w * to_k, w * (k_read + 4 * fabs(to_k)));
        }
        pull->y += at->y.slope * to_k * r.dy;
        pull->x += at->x.slope * to_k * r.dx;
        pull->y_magnitude += fabs(to_k) * r.dy_abs;
        pull->x_magnitude += fabs(to_k) * r.dx_abs;
        pull->y_read += (k_read + 6 * fabs(to_k)) * r.dy_abs;
        pull->x_read += (k_read + 6 * fabs(to_k)) * r.dx_abs;
        pull->terms += 1;
    }
}

ModelPull model_pull(const ModelPatch *p, const ModelVideo *q, const ModelVideo *k, const ModelPair *pair, double g, Sums *dq, Sums *dk)
{
    ModelPull pull = {.kink = fmin(model_kink(pair->py), model_kink(pair->px))};
    for (int64_t i = 0; i < p->ps; i++)
        for (int64_t j = 0; j < p->ps; j++) {
            Pixel at;
            if (patch_pixel(p, q, pair, i, j, &at)) pull_pixel(p, q, k, pair, &at, g, dq, dk, &pull);
        }
    return pull;
}
