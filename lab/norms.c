/* norms.c: what rounding does to |q|^2 + |k|^2 - 2<q,k> where it would do most: all features of a query one number, all of its key another, so that roundings do not cancel. The largest error of those
 * distances that src/cpu/tile_norms.c takes as they are, as a share of the (terms + 2) roundings that operators allow. Not part of the library.
 *   cc -O2 -march=native lab/norms.c -lm -o norms && ./norms */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

static double uniform(void)
{
    static uint64_t x = 1;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (double)(x >> 11) * 0x1p-53;
}

/* 0 where the distance would be summed anew. */
static double share_of(float a, float b, int features, int ps)
{
    const float pixels = (float)(ps * ps);
    float query = 0, key = 0;
    for (int f = 0; f < features; f++) query = fmaf(a, a, query), key = fmaf(b, b, key);
    float sum = query + key;
    for (int f = 0; f < features; f++) sum = fmaf(-2 * a, b, sum);
    const double exact = features * ((double)a - b) * ((double)a - b);
    if (sum * pixels * pixels < 1.5f * query * pixels + sum * pixels) return 0; /* snls_tile_norms_lose */
    return fabs((double)sum - exact) / ((features * (double)pixels + 2) * FLT_EPSILON * exact);
}

int main(void)
{
    static const int features[] = {32, 64, 128, 512, 2048}, sides[] = {2, 3, 5, 7};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 4; j++) {
            double worst = 0;
            for (int n = 0; n < 2000000 / features[i]; n++) {
                const float a = 1 + (float)uniform(), b = a * (float)(1 + 1.5 * uniform());
                worst = fmax(worst, share_of(a, n % 2 ? b : -b, features[i], sides[j]));
            }
            printf("%4d features, %d x %d: %.2f\n", features[i], sides[j], sides[j], worst);
        }
    return 0;
}
