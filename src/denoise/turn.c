/* turn.c: where noise becomes stronger or weaker from one frame to the next, as where material of two recordings meets without a cut or the gain of a
 * camera jumps. What is before and behind such a frame is filtered as two scenes: a group of patches is taken to have noise of one strength. */
#include "denoise/nlb.h"
#include <math.h>

enum { SIDE = 8, BLOCKS_MOST = 1024 };
#define ROUGHER 1.5 /* times as rough, or as smooth, as any of the frames just before: worth an estimate */
#define TURNED  2.0 /* times as much noise is estimated, or half: believed */
#define SEEN    3.0 /* noise that is seen; less does not matter */

/* Sum of the sizes of second differences both ways, which neither slopes nor straight edges along rows and columns have (Immerkaer, 1996). */
static double block_roughness(const float *v, int64_t width)
{
    double sum = 0;
    for (int64_t y = 1; y < SIDE - 1; y++)
        for (int64_t x = 1; x < SIDE - 1; x++) {
            const float *a = v + (y - 1) * width + x, *b = a + width, *c = b + width;
            sum += fabsf(a[-1] - 2 * a[0] + a[1] - 2 * (b[-1] - 2 * b[0] + b[1]) + c[-1] - 2 * c[0] + c[1]);
        }
    return sum;
}

/* Of brightness: the lower quartile over blocks that are not of one value. 0: there are none. */
static double roughness(const NlbPlan *p, const float *plane)
{
    double all[BLOCKS_MOST];
    int64_t step = SIDE, count = 0;
    while ((p->height / step + 1) * (p->width / step + 1) > BLOCKS_MOST) step += SIDE;
    for (int64_t y = 0; y + SIDE <= p->height; y += step)
        for (int64_t x = 0; x + SIDE <= p->width; x += step) {
            const double r = block_roughness(plane + y * p->width + x, p->width);
            if (r > 0) all[count++] = r;
        }
    snls_nlb_sort(all, count);
    return count ? all[count / 4] : 0;
}

bool snls_nlb_may_turn(SnlsDenoiser *d, const float *planes)
{
    const double now = d->rough[d->pushed % TURN_REACH] = roughness(&d->plan, planes);
    double least = INFINITY, most = 0;
    for (int64_t t = d->pushed - 1; t >= d->scene && t > d->pushed - TURN_REACH; t--) {
        const double r = d->rough[t % TURN_REACH];
        if (r > 0) least = fmin(least, r), most = fmax(most, r);
    }
    return now > 0 && most > 0 && (now > ROUGHER * most || ROUGHER * now < least);
}

static double strength(const NlbGuess *g)
{
    double sum = 0;
    for (int c = 0; c < CHANNELS_MAX; c++) sum += g->noise[c] >= 0 ? g->noise[c] * g->noise[c] / CHANNELS_MAX : 0;
    return sqrt(sum);
}

bool snls_nlb_turned(const SnlsDenoiser *d)
{
    const NlbGuess *now = &d->guess[d->pushed % GUESSES];
    if (now->noise[0] < 0) return false;
    for (int64_t t = d->pushed - 1; t >= d->scene && t > d->pushed - TURN_REACH; t--) {
        const NlbGuess *before = &d->guess[t % GUESSES];
        if (before->noise[0] < 0) continue;
        const double a = strength(before), b = strength(now);
        return fmax(a, b) >= SEEN && fmax(a, b) > TURNED * fmin(a, b);
    }
    return false;
}
