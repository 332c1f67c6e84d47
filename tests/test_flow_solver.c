/* test_flow_solver.c: the waves and bands of the TV-L1 solver against plain iterations over the whole frame, in double. */
#include "flow/methods.h"
#include "spec.h"
#include <math.h>
#include <string.h>

typedef struct Plain { /* u, v, then the duals: along x and y of u, of v */
    int64_t h, w;
    double *u[2], *p[4], *gx, *gy, *rest, *square;
} Plain;

/* The paper's steps, each over the whole frame. */
static void plain_iteration(Plain *s, double limit, double theta, double step)
{
    for (int64_t y = 0; y < s->h; y++)
        for (int64_t x = 0; x < s->w; x++) {
            const int64_t i = y * s->w + x;
            const double rho = s->rest[i] + s->gx[i] * s->u[0][i] + s->gy[i] * s->u[1][i];
            double d = s->square[i] > 1e-10 ? -rho / s->square[i] : 0;
            d = fmin(fmax(d, -limit), limit);
            for (int c = 0; c < 2; c++) {
                const double *px = s->p[2 * c], *py = s->p[2 * c + 1];
                const double div = px[i] - (x ? px[i - 1] : 0) + py[i] - (y ? py[i - s->w] : 0);
                s->u[c][i] += d * (c ? s->gy[i] : s->gx[i]) + theta * div;
            }
        }
    for (int64_t i = 0; i < s->h * s->w; i++)
        for (int c = 0; c < 2; c++) {
            const double *u = s->u[c], ux = i % s->w < s->w - 1 ? u[i + 1] - u[i] : 0,
                         uy = i / s->w < s->h - 1 ? u[i + s->w] - u[i] : 0;
            const double shrink = 1 + step * hypot(ux, uy);
            s->p[2 * c][i] = (s->p[2 * c][i] + step * ux) / shrink;
            s->p[2 * c + 1][i] = (s->p[2 * c + 1][i] + step * uy) / shrink;
        }
}

/* One warp from flow zero: frame `to` as it is, and its gradient. */
static void plain_begin(Plain *s, const float *from, const float *to)
{
    for (int i = 0; i < 4; i++) s->p[i] = check_alloc(s->h * s->w, sizeof(double));
    for (int i = 0; i < 2; i++) s->u[i] = check_alloc(s->h * s->w, sizeof(double));
    s->gx = check_alloc(s->h * s->w, sizeof(double));
    s->gy = check_alloc(s->h * s->w, sizeof(double));
    s->rest = check_alloc(s->h * s->w, sizeof(double));
    s->square = check_alloc(s->h * s->w, sizeof(double));
    for (int64_t i = 0; i < s->h * s->w; i++) {
        const int64_t x = i % s->w, y = i / s->w;
        s->gx[i] = 0.5 * ((double)to[i + (x < s->w - 1)] - to[i - (x > 0)]);
        s->gy[i] = 0.5 * ((double)to[i + (y < s->h - 1 ? s->w : 0)] - to[i - (y > 0 ? s->w : 0)]);
        s->rest[i] = (double)to[i] - from[i];
        s->square[i] = s->gx[i] * s->gx[i] + s->gy[i] * s->gy[i];
    }
}

static void compare(SnlsContext *ctx, Rng *rng, int64_t h, int64_t w, int32_t iterations)
{
    SnlsFlowJob job = { .ctx = ctx, .threads = ctx->threads };
    SnlsTvl1Solver solver = { .limit = 0.045f, .theta = 0.3f, .step = 0.25f / 0.3f };
    SnlsTvl1Scale scale;
    SnlsPlane *const planes[4] = { &scale.from, &scale.to, &scale.u, &scale.v };
    Plain plain = { .h = h, .w = w };
    snls_flow_loops(&job.loops, ctx->cpu_level);
    for (int i = 0; i < 4; i++) *planes[i] = (SnlsPlane){ check_alloc(h * w, sizeof(float)), w, h, w };
    for (int64_t i = 0; i < h * w; i++) {
        scale.from.data[i] = (float)rng_real(rng, 0, 255);
        scale.to.data[i] = scale.from.data[i] + (float)rng_real(rng, -20, 20);
    }
    snls_arena_begin(&ctx->arena);
    snls_tvl1_solver_take(&job, &solver, h, w);
    if (!CHECK(snls_scratch_commit(ctx, "test") == SNLS_OK, "%s", snls_error(ctx))) return;
    job.claim = true;
    snls_tvl1_solver_take(&job, &solver, h, w);
    memset(solver.memory, 0xff, (size_t)(solver.memory_rows * w) * sizeof(float)); /* NaN where nothing was put */
    snls_tvl1_solve(&job, &solver, &scale, 1, iterations, 0);
    plain_begin(&plain, scale.from.data, scale.to.data);
    for (int32_t i = 0; i < iterations; i++) plain_iteration(&plain, 0.045f, 0.3f, 0.25f / 0.3f);
    for (int64_t i = 0; i < h * w; i++)
        for (int c = 0; c < 2; c++) {
            const double got = (c ? scale.v : scale.u).data[i], want = plain.u[c][i];
            /* an iteration adds a handful of roundings of numbers as large as the frame's differences over its gradient */
            if (!CHECK(fabs(got - want) <= 2e-5 * (iterations + 4) * (1 + fabs(want)),
                       "%dx%d, %d iterations, pixel %d: %.9g, expected %.9g", (int)w, (int)h, (int)iterations, (int)i,
                       got, want))
                return;
        }
}

int main(void)
{
    check_repeat("test_flow_solver");
    Rng rng = { 11 };
    for (int32_t threads = 1; threads <= 4; threads++)
        for (int32_t level = SNLS_CPU_C; level <= snls_cpu_level_max(); level++) {
            SnlsContext *ctx = NULL;
            if (!CHECK(snls_open(&ctx, &(SnlsContextParams){ .threads = threads, .cpu_level = level }) == SNLS_OK,
                       "open"))
                break;
            static const int32_t iterations[] = { 1, 2, 7, 8, 9, 20 };
            for (int i = 0; i < 6; i++) {
                compare(ctx, &rng, 131, 37, iterations[i]); /* up to four bands */
                compare(ctx, &rng, 64, 70, iterations[i]);
                compare(ctx, &rng, 5, 3, iterations[i]);
                compare(ctx, &rng, 1, 1, iterations[i]);
            }
            snls_close(&ctx);
        }
    tensors_free();
    return check_end();
}
