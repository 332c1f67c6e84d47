/* dsp.h: the table of inner loops, one implementation a row for each instruction set.
 * Everything here works on contiguous floats: no border, no allocation, any alignment, any n >= 0. Knows nothing of the
 * rest of the library. dsp.c is the plain C version; the others overwrite what they have and must agree with it up to
 * the order of summation. Results depend on the arguments alone, never on alignment, so that they are reproducible. */
#ifndef SNLS_DSP_H
#define SNLS_DSP_H

#include <stddef.h>
#include <stdint.h>

typedef struct SnlsDsp {
    /* sum a[i]*b[i];  sum (a[i]-b[i])^2 */
    float (*dot)(const float *a, const float *b, ptrdiff_t n);
    float (*l2)(const float *a, const float *b, ptrdiff_t n);

    /* One query against m keys, key j at key + j*step floats: out[j] += dot(q, key_j);  out[j] += l2(q, key_j) */
    void (*dot_row)(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n);
    void (*l2_row)(float *out, const float *q, const float *key, ptrdiff_t step, ptrdiff_t m, ptrdiff_t n);

    /* A bilinear read is up to four taps with weights. taps is 1, 2 or 4; taps beyond it are not touched.
     * blend: out[i] = sum_t w[t]*tap[t][i];  dot_blend, l2_blend: dot and l2 of q with that, nothing stored. */
    void  (*blend)(float *out, const float *const *tap, const float *w, int taps, ptrdiff_t n);
    float (*dot_blend)(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n);
    float (*l2_blend)(const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n);

    /* Its gradients. blend_sub: out[i] = blend[i] - q[i];  dots: out[t] = dot(x, tap[t]), always four;
     * unblend: y[t][i] += w[t]*x[i] for 1, 2 or 4 arrays, which may overlap: then one that is in two gets both. */
    void (*blend_sub)(float *out, const float *q, const float *const *tap, const float *w, int taps, ptrdiff_t n);
    void (*dots)(float *out, const float *x, const float *const *tap, ptrdiff_t n);
    void (*unblend)(float *const *y, const float *w, int taps, const float *x, ptrdiff_t n);

    void (*axpy)(float *y, float a, const float *x, ptrdiff_t n);        /* y[i] += a*x[i] */
    void (*scale)(float *y, float a, ptrdiff_t n);                       /* y[i] *= a */
    void (*sub)(float *out, const float *a, const float *b, ptrdiff_t n);/* out[i] = a[i] - b[i] */

    /* storage types; to_* round to nearest even, NaN stays NaN, f16 overflow becomes infinity, denormals are kept */
    void (*from_f16)(float *out, const uint16_t *in, ptrdiff_t n);
    void (*from_bf16)(float *out, const uint16_t *in, ptrdiff_t n);
    void (*to_f16)(uint16_t *out, const float *in, ptrdiff_t n);
    void (*to_bf16)(uint16_t *out, const float *in, ptrdiff_t n);
} SnlsDsp;

/* Levels are the values of SnlsCpuLevel: 1 C, 2 AVX2+FMA+F16C, 3 AVX-512 F+BW+DQ+VL. */
int snls_dsp_level_max(void);               /* what this machine (and its operating system) can run */
void snls_dsp_init(SnlsDsp *dsp, int level); /* level above level_max is lowered to it */

/* One a file. Each overwrites what it has; absent on other architectures. */
void snls_dsp_init_c(SnlsDsp *dsp);
void snls_dsp_init_avx2(SnlsDsp *dsp);
void snls_dsp_init_avx512(SnlsDsp *dsp);

#endif
