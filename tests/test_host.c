/* test_host.c: what works in CPU memory with every context (flow, metrics, noise), with the context of a GPU, whose scratch no CPU may
 * touch. Where there is no GPU, a CPU context with such scratch stands for it: pages that may neither be read nor written.
 *   test_host [--backend cuda] */
/* ctest: label=fast */
/* ctest: name=cuda label=cuda args=--backend cuda */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "base/context.h"
#include "spec.h"
#include <string.h>
#include <sys/mman.h>

enum { HEIGHT = 40, WIDTH = 48, PAGES = 64 << 20 };

static void *forbidden(size_t bytes, void *opaque)
{
    (void)opaque;
    void *p = bytes <= PAGES ? mmap(NULL, PAGES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    return p == MAP_FAILED ? NULL : p;
}

static void leave(void *p, void *opaque)
{
    (void)opaque;
    if (p) munmap(p, PAGES);
}

static SnlsContext *open_untouchable(void)
{
    SnlsContext *ctx = context_open("cpu", SNLS_CPU_C, 2); /* a GPU's context has that level too */
    ctx->scratch.alloc = forbidden;
    ctx->scratch.free = leave;
    ctx->arena.device = true;
    return ctx;
}

/* What the functions say: of a clip of two frames with noise. */
typedef struct Said {
    double ssim, sigma[3], level;
    SnlsStrred strred;
    SnlsStatus strred_status;
    float flow[3][2][HEIGHT * WIDTH * 2]; /* method; alone, as one of two pairs */
} Said;

static SnlsTensor frame_of(const SnlsTensor *clip, int64_t t)
{
    return snls_tensor((float *)clip->data + t * HEIGHT * WIDTH * 3, SNLS_F32, SHAPE(HEIGHT, WIDTH, 3));
}

static void ask_flow(SnlsContext *ctx, const SnlsTensor *clip, Said *said)
{
    SnlsFlowParams p;
    snls_flow_defaults(&p);
    for (int method = 0; method < 3; method++) {
        SnlsFlowPair pair[2];
        float beside[HEIGHT * WIDTH * 2];
        float *const to[3] = { said->flow[method][0], said->flow[method][1], beside };
        p.method = method;
        for (int i = 0; i < 2; i++)
            pair[i] = (SnlsFlowPair){ frame_of(clip, i), frame_of(clip, 1 - i), snls_tensor(to[i + 1], SNLS_F32, SHAPE(HEIGHT, WIDTH, 2)) };
        CHECK(snls_flow_pairs(ctx, pair, 2, &p) == SNLS_OK, "flow_pairs: %s", snls_error(ctx));
        pair[0].flow.data = to[0];
        CHECK(snls_flow(ctx, &pair[0], &p) == SNLS_OK, "flow: %s", snls_error(ctx));
        CHECK(!memcmp(to[0], to[1], sizeof beside), "method %d: a pair alone and one of two differ", method);
    }
}

static void ask(SnlsContext *ctx, const SnlsTensor *clip, Said *said)
{
    memset(said, 0, sizeof *said);
    const SnlsTensor first = frame_of(clip, 0), second = frame_of(clip, 1);
    CHECK(snls_ssim(ctx, &first, &second, &said->ssim) == SNLS_OK, "ssim: %s", snls_error(ctx));
    said->strred_status = snls_strred(ctx, clip, clip, &said->strred); /* a build may have no LAPACK */
    CHECK(snls_noise_estimate(ctx, clip->data, 2, HEIGHT, WIDTH, 3, said->sigma) == SNLS_OK, "noise_estimate: %s", snls_error(ctx));
    CHECK(snls_noise_level(ctx, clip->data, 2, HEIGHT, WIDTH, 3, &said->level) == SNLS_OK, "noise_level: %s", snls_error(ctx));
    ask_flow(ctx, clip, said);
}

/* A failure on the way is the caller's to read. */
static void too_little(SnlsContext *ctx, const SnlsTensor *clip)
{
    const SnlsTensor frame = frame_of(clip, 0);
    double ssim;
    ctx->scratch_limit = 16;
    CHECK(snls_ssim(ctx, &frame, &frame, &ssim) == SNLS_ERR_MEMORY && strstr(snls_error(ctx), "the limit is 16"), "ssim with little scratch: %s", snls_error(ctx));
    ctx->scratch_limit = 0;
}

int main(int argc, char **argv)
{
    static Said here, there;
    Rng rng = { 4 };
    check_repeat("test_host%s", argc > 1 ? " --backend cuda" : "");
    SnlsContext *gpu = argc > 2 && !strcmp(argv[2], "cuda") ? context_open_cuda(false) : open_untouchable();
    SnlsContext *cpu = context_open("cpu", SNLS_CPU_C, 2);
    SnlsTensor clip = spec_tensor(SNLS_F32, SHAPE(2, HEIGHT, WIDTH, 3));
    tensor_fill(&clip, &rng, 0, 255);
    ask(cpu, &clip, &here);
    ask(gpu, &clip, &there);
    CHECK(!memcmp(&here, &there, sizeof here), "the context of a GPU gives another result");
    too_little(gpu, &clip);
    snls_close(&gpu);
    snls_close(&cpu);
    tensors_free();
    return check_end();
}
