/* attention.c: space-time attention in four calls: search, softmax, weighted sum. */
#include <snls/snls.h>
#include <stdio.h>

enum { T = 3, H = 16, W = 16, C = 4, K = 5 };
static float video[T * H * W * C], dist[T * H * W * K], offset[T * H * W * K * 3], weight[T * H * W * K],
    out[T * H * W * C];

int main(void)
{
    for (int i = 0; i < T * H * W * C; i++) video[i] = (float)(i * 7919 % 1000) / 1000; /* any frames: (B,T,H,W,C) */
    const SnlsTensor v = snls_tensor(video, SNLS_F32, 5, (int64_t[]){ 1, T, H, W, C });
    SnlsContext *ctx = NULL;
    if (snls_open(&ctx, NULL) < 0) return 1;

    SnlsSearch s = { .query = v, .key = v };
    snls_search_defaults(&s.params);
    s.params.wt = 1; /* three frames */
    s.params.k = K;
    SnlsStatus status = snls_search_shape(ctx, &s); /* fills in the shapes of the outputs */
    s.dist.data = dist;
    s.offset.data = offset;
    if (status >= 0) status = snls_search_forward(ctx, &s);

    SnlsWeights w = { .dist = s.dist, .weight = snls_tensor(weight, SNLS_F32, s.dist.ndim, s.dist.shape) };
    snls_weights_defaults(&w.params);
    if (status >= 0) status = snls_weights_forward(ctx, &w);

    SnlsGatherAdd g = {
        .value = v, .weight = w.weight, .offset = s.offset, .out = snls_tensor(out, SNLS_F32, 5, v.shape)
    };
    snls_gather_add_defaults(&g.params);
    if (status >= 0) status = snls_gather_add_forward(ctx, &g);

    if (status < 0) fprintf(stderr, "%s\n", snls_error(ctx));
    else printf("pixel 0 was %.3f and is %.3f, from %d neighbours\n", video[0], out[0], K);
    snls_close(&ctx);
    return status < 0;
}
