/* cpu_gather.c: gathering whole pixels without weights is copying rows: what a search on whole pixels finds needs no interpolation and no
 * conversion. Anything else is the operator's. */
#include "nn/cpu.h"

typedef struct Rows { /* a row: the features of one head */
    int64_t frames, h, w, heads, k, bytes, queries;
} Rows;

static Rows rows_of(const NnStep *s)
{
    const int64_t *d = s->x[2].shape; /* (B,heads,T,H,W,K,3) */
    return (Rows){ d[2], d[3], d[4], d[1], d[5], s->x[0].shape[3] / d[1] * snls_dtype_size((SnlsDtype)s->x[0].dtype), d[0] * d[1] * d[2] * d[3] * d[4] };
}

/* The pixel of the value that neighbour `at` of query q is, -1 where it is between pixels or outside. q counts (B,heads,T,H,W). */
static int64_t pixel_of(const Rows *r, const float *at, int64_t q)
{
    const int64_t x = q % r->w, y = q / r->w % r->h, t = q / (r->w * r->h) % r->frames, b = q / (r->w * r->h * r->frames * r->heads);
    const float ft = (float)t + at[0], fy = (float)y + at[1], fx = (float)x + at[2];
    if (!(ft >= 0 && ft < (float)r->frames && fy >= 0 && fy < (float)r->h && fx >= 0 && fx < (float)r->w)) return -1; /* NaN too */
    const int64_t it = (int64_t)ft, iy = (int64_t)fy, ix = (int64_t)fx;
    if ((float)it != ft || (float)iy != fy || (float)ix != fx) return -1;
    return ((b * r->frames + it) * r->h + iy) * r->w + ix;
}

static bool all_whole(const SnlsContext *ctx, const NnStep *s, const Rows *r)
{
    const float *offset = s->x[2].data;
    int64_t between = 0;
    (void)ctx;
#pragma omp parallel for num_threads(ctx->threads) schedule(static) reduction(+ : between)
    for (int64_t q = 0; q < r->queries; q++)
        for (int64_t k = 0; k < r->k; k++) between += pixel_of(r, offset + 3 * (q * r->k + k), q) < 0;
    return !between;
}

static bool copies(const SnlsContext *ctx, const NnStep *s, const Rows *r)
{
    const SnlsGatherParams *p = &s->u.gather.params;
    return !s->x[1].data && !s->u.gather.by_rank && p->heads == s->x[2].shape[1] && p->ps == 1 && p->stride0 == 1 && s->x[2].dtype == SNLS_F32 && s->x[0].dtype == s->y[0].dtype && all_whole(ctx, s, r);
}

SnlsStatus snls_nn_cpu_gather_forward(SnlsContext *ctx, NnStep *s)
{
    const Rows r = rows_of(s);
    if (!copies(ctx, s, &r)) return snls_nn_match_forward(ctx, s);
    const float *offset = s->x[2].data;
    const char *from = s->x[0].data;
    char *to = s->y[0].data;
    const int64_t frame = r.h * r.w;
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
    for (int64_t q = 0; q < r.queries; q++) {
        const int64_t head = q / (frame * r.frames) % r.heads, b = q / (frame * r.frames * r.heads), pixel = b * r.frames * frame + q % (frame * r.frames);
        for (int64_t k = 0; k < r.k; k++)
            memcpy(to + ((pixel * r.heads + head) * r.k + k) * r.bytes, from + (pixel_of(&r, offset + 3 * (q * r.k + k), q) * r.heads + head) * r.bytes, (size_t)r.bytes);
    }
    return SNLS_OK;
}
