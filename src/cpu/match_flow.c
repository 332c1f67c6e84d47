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

/* Only looked at where it lies in one piece, until it is known to be of no use: prod has none for a flow that is whole but not even. */
void snls_cpu_look_at_flow(CpuMatch *c)
{
    enum { AT_ONCE = 1024 };
    const SnlsMatch *m = &c->m;
    const int64_t plane = 2 * m->rows * m->columns;
    const float *flow = m->centre.data;
    SnlsTensor dense = m->centre;
    c->whole_flow = false;
    c->even_flow = !m->flow_slots;
    if (!m->flow_slots) return;
    snls_tensor_contiguous(&dense);
    if (memcmp(dense.stride, m->centre.stride, (size_t)dense.ndim * sizeof *dense.stride) != 0) return;
    bool even = true;
    for (int64_t at = 0, count = snls_tensor_elements(&dense); at < count; at += plane)
        for (int64_t i = 0; i < plane; i += AT_ONCE) {
            const Flows f = flows_of(flow + at + i, flow + at, plane - i < AT_ONCE ? plane - i : AT_ONCE);
            even &= !f.differ;
            if (f.odd || (m->prod && !even)) return;
        }
    c->whole_flow = true;
    c->even_flow = even;
}
