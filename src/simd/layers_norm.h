/* layers_norm.h: layer norm over the channels of each pixel. Part of layers_body.h. Sums are made in PARTS parts, channel i in part i % PARTS, which are
 * added in one order: the first half and the second, until one is left. */

/* ---- any number of channels ---- */

/* Sums of a few pixels at a time, so that none waits for the one before: of x, or of squares of x - mean. Each is made in PARTS parts
 * that are added in one order. */
ALWAYS void sum_group(const float *restrict x, int64_t n, int count, const float *restrict mean, int squares, float *restrict sums)
{
    float part[SNLS_NORM_ROWS][PARTS] = { { 0 } };
    for (int p = 0; p < count; p++) {
        const float *row = x + p * n, m = squares ? mean[p] : 0;
        int64_t i = 0;
        for (; i + PARTS <= n; i += PARTS)
            VECTORS for (int k = 0; k < PARTS; k++) part[p][k] += squares ? (row[i + k] - m) * (row[i + k] - m) : row[i + k];
        for (int k = 0; i + k < n; k++) part[p][k] += squares ? (row[i + k] - m) * (row[i + k] - m) : row[i + k];
    }
    for (int step = PARTS / 2; step > 0; step /= 2)
        for (int p = 0; p < count; p++)
            VECTORS for (int i = 0; i < step; i++) part[p][i] += part[p][i + step];
    for (int p = 0; p < count; p++) sums[p] = part[p][0];
}

ALWAYS void norm_group(char *restrict y, const char *restrict x, const float *restrict gamma, const float *restrict beta, double eps, int64_t n, int count, float *restrict room, int bf16)
{
    float mean[SNLS_NORM_ROWS], scale[SNLS_NORM_ROWS];
    VECTORS for (int64_t i = 0; i < count * n; i++) room[i] = get(x, i, bf16);
    sum_group(room, n, count, NULL, 0, mean);
    for (int p = 0; p < count; p++) mean[p] /= (float)n;
    sum_group(room, n, count, mean, 1, scale);
    VECTORS for (int p = 0; p < count; p++) scale[p] = (float)(1 / sqrt((double)(scale[p] / (float)n) + eps));
    for (int p = 0; p < count; p++)
        VECTORS for (int64_t i = 0; i < n; i++) put(y, p * n + i, gamma[i] * ((room[p * n + i] - mean[p]) * scale[p]) + beta[i], bf16);
}

ALWAYS void norm_rows(char *restrict y, const char *restrict x, const float *gamma, const float *beta, double eps, const SnlsRows *rows, float *room, int bf16)
{
    const int64_t n = rows->channels, size = bf16 ? 2 : 4;
    int64_t p = 0;
    for (; p + SNLS_NORM_ROWS <= rows->pixels; p += SNLS_NORM_ROWS) norm_group(y + p * n * size, x + p * n * size, gamma, beta, eps, n, SNLS_NORM_ROWS, room, bf16);
    for (; p < rows->pixels; p++) norm_group(y + p * n * size, x + p * n * size, gamma, beta, eps, n, 1, room, bf16);
}

#ifdef __AVX512BW__
#include <immintrin.h>

/* ---- 32, 64 or 128 channels, read anew for each pass: no room in between ---- */

typedef float    Lanes __attribute__((vector_size(4 * PARTS)));
typedef uint32_t Bits __attribute__((vector_size(4 * PARTS)));

ALWAYS Lanes get_lanes(const void *from, int64_t at, int bf16)
{
    if (!bf16) return (Lanes)_mm512_loadu_ps((const float *)from + at);
    return (Lanes)((Bits)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)((const uint16_t *)from + at))) << 16);
}

ALWAYS void put_lanes(void *to, int64_t at, Lanes x, int bf16) /* as put */
{
    const Bits u = (Bits)x, high = u >> 16, rounded = (u + 0x7fff + (high & 1)) >> 16, is_nan = (Bits)(x != x), half = ((high | 0x40) & is_nan) | (rounded & ~is_nan);
    if (bf16) _mm256_storeu_si256((void *)((uint16_t *)to + at), _mm512_cvtepi32_epi16((__m512i)half));
    else _mm512_storeu_ps((float *)to + at, (__m512)x);
}

ALWAYS float sum_of_lanes(Lanes x)
{
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)), two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Of a few pixels at a time, so that none waits for the sums of the one before. */
ALWAYS void norm_pixels(char *restrict y, const char *restrict x, const float *gamma, const float *beta, double eps, int count, int parts, int bf16)
{
    float mean[SNLS_NORM_ROWS], scale[SNLS_NORM_ROWS];
    const float n = (float)(parts * PARTS);
    for (int p = 0; p < count; p++) {
        Lanes sum = get_lanes(x, p * parts * PARTS, bf16);
        for (int i = 1; i < parts; i++) sum += get_lanes(x, (p * parts + i) * PARTS, bf16);
        mean[p] = sum_of_lanes(sum) / n;
    }
    for (int p = 0; p < count; p++) {
        Lanes square = { 0 };
        for (int i = 0; i < parts; i++) {
            const Lanes off = get_lanes(x, (p * parts + i) * PARTS, bf16) - mean[p];
            square += off * off;
        }
        scale[p] = sum_of_lanes(square) / n;
    }
    VECTORS for (int p = 0; p < count; p++) scale[p] = (float)(1 / sqrt((double)scale[p] + eps));
    for (int i = 0; i < parts; i++) {
        const Lanes g = get_lanes(gamma, i * PARTS, 0), b = get_lanes(beta, i * PARTS, 0);
        for (int p = 0; p < count; p++) {
            const int64_t at = (p * parts + i) * PARTS;
            put_lanes(y, at, g * ((get_lanes(x, at, bf16) - mean[p]) * scale[p]) + b, bf16);
        }
    }
}

ALWAYS void norm_groups(char *restrict y, const char *restrict x, const float *gamma, const float *beta, double eps, const SnlsRows *rows, int parts, int bf16)
{
    const int64_t bytes = parts * PARTS * (bf16 ? 2 : 4);
    int64_t p = 0;
    for (; p + SNLS_NORM_ROWS <= rows->pixels; p += SNLS_NORM_ROWS) norm_pixels(y + p * bytes, x + p * bytes, gamma, beta, eps, SNLS_NORM_ROWS, parts, bf16);
    for (; p < rows->pixels; p++) norm_pixels(y + p * bytes, x + p * bytes, gamma, beta, eps, 1, parts, bf16);
}

ALWAYS void norm_any(char *restrict y, const char *restrict x, const float *gamma, const float *beta, double eps, const SnlsRows *rows, float *room, int bf16)
{
    switch (rows->channels) {
    case 2 * PARTS: norm_groups(y, x, gamma, beta, eps, rows, 2, bf16); break;
    case 4 * PARTS: norm_groups(y, x, gamma, beta, eps, rows, 4, bf16); break;
    case 8 * PARTS: norm_groups(y, x, gamma, beta, eps, rows, 8, bf16); break;
    default: norm_rows(y, x, gamma, beta, eps, rows, room, bf16);
    }
}

#else
#define norm_any norm_rows
#endif

static void norm(void *y, const void *x, const float *gamma, const float *beta, double eps, const SnlsRows *rows, float *room)
{
    if (rows->bf16) norm_any(y, x, gamma, beta, eps, rows, room, 1);
    else norm_any(y, x, gamma, beta, eps, rows, room, 0);
}
