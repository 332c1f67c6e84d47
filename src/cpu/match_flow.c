/* match_flow.c: what is known of the flow of a whole search before it begins. */
#include "cpu/match.h"
#include <string.h>

/* Of n floats, x and y in turn: whether one is not whole, and whether one is not that of the first vector. */
typedef struct Flows { int odd, differ; } Flows;

static Flows flows_of(const float *flow, const float first[2], int64_t n)
{
    const float round = 0x1.8p23f, x = first[0], y = first[1]; /* round leaves no fraction in a sum */
    int odd = 0, differ = 0;
    for (int64_t i = 0; i < n; i += 2) {
        odd |= (flow[i] + round - round != flow[i]) | (flow[i + 1] + round - round != flow[i + 1]);
        differ |= (flow[i] != x) | (flow[i + 1] != y);
    }
    return (Flows){odd, differ};
}

/* prod gains nothing by a flow that is whole but not even. */
static bool is_of_no_use(const SnlsMatch *m, int odd, int differ) { return odd || (m->prod && differ); }

static Flows flows_of_plane(const SnlsMatch *m, const float *plane, int64_t n)
{
    enum { AT_ONCE = 1024 };
    Flows all = {0, 0};
    for (int64_t i = 0; i < n && !is_of_no_use(m, all.odd, all.differ); i += AT_ONCE) {
        const Flows f = flows_of(plane + i, plane, n - i < AT_ONCE ? n - i : AT_ONCE);
        all.odd |= f.odd, all.differ |= f.differ;
    }
    return all;
}

/* Only looked at where it lies in one piece. Most flows are known to be of no use after a few vectors of the first plane; then no thread is woken. */
void snls_cpu_look_at_flow(SnlsContext *ctx, CpuMatch *c)
{
    const SnlsMatch *m = &c->m;
    const int64_t plane = 2 * m->rows * m->columns;
    const float *flow = m->centre.data;
    SnlsTensor dense = m->centre;
    c->whole_flow = false;
    c->even_flow = !m->flow_slots;
    if (!m->flow_slots) return;
    snls_tensor_contiguous(&dense);
    if (memcmp(dense.stride, m->centre.stride, (size_t)dense.ndim * sizeof *dense.stride) != 0) return;
    const int64_t planes = snls_tensor_elements(&dense) / plane; /* 0: a batch of none */
    if (planes == 0) return;
    const Flows first = flows_of_plane(m, flow, plane);
    int odd = first.odd, differ = first.differ;
    if (is_of_no_use(m, odd, differ)) return;
#pragma omp parallel for num_threads(ctx->threads) reduction(| : odd, differ)
    for (int64_t p = 1; p < planes; p++) {
        const Flows f = is_of_no_use(m, odd, differ) ? first : flows_of_plane(m, flow + p * plane, plane);
        odd |= f.odd, differ |= f.differ;
    }
    c->whole_flow = !is_of_no_use(m, odd, differ);
    c->even_flow = c->whole_flow && !differ;
}
