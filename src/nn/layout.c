/* layout.c: where the values of a network lie in its block of memory. Values that are never alive together share memory; while training all
 * of them are kept. The largest are placed first: small ones find gaps between large ones, not the other way round. */
#include "nn/device.h"
#include <stdlib.h>

/* What a value, and those that lie on it afterwards, need. */
typedef struct Place { int64_t value, at, size; int32_t first, last, kept; } Place;

int64_t snls_nn_value_bytes(const NnValue *v)
{
    const int64_t bytes = snls_tensor_elements(&v->t) * snls_dtype_size((SnlsDtype)v->t.dtype);
    return (bytes + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN;
}

/* The value that i may lie on: the residual of the convolution that makes it, where that is read for the last time there. Backend cpu
 * adds to what is there. */
static int32_t in_place_of(const NnNet *net, int64_t i)
{
    const NnValue *v = &net->values[i];
    if (net->backend != &snls_nn_cpu || net->train || v->first < 0) return -1;
    const NnStep *s = &net->steps[v->first];
    const int32_t residual = s->op == NN_conv ? s->xi[1] : -1;
    if (residual < 0 || residual == s->xi[0] || net->values[residual].kept || net->values[residual].last != v->first) return -1;
    return v->kept && net->values[residual].first >= 0 ? -1 : residual; /* nothing may have lain there before a value that is kept */
}

static bool alive_together(const Place *a, const Place *b) { return a->kept || b->kept || (a->first <= b->last && b->first <= a->last); }

/* The lowest place where number n meets none of those before it that lives with it. */
static int64_t lowest(const Place *places, int64_t n)
{
    int64_t at = 0;
    for (int64_t j = 0; j < n; j++) {
        const int64_t begin = places[j].at, end = begin + places[j].size;
        if (!alive_together(&places[n], &places[j]) || at + places[n].size <= begin || end <= at) continue;
        at = end;
        j = -1; /* look at all of them again from the new place */
    }
    return at;
}

static int larger_first(const void *a, const void *b)
{
    const Place *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* One place for every chain of values that lie on one another, by the number of its first. A value's own `place` is that number meanwhile. */
static void gather_chains(NnNet *net, Place *places)
{
    for (int64_t i = 0; i < net->value_count; i++) {
        NnValue *v = &net->values[i];
        const int32_t under = in_place_of(net, i);
        v->place = under < 0 ? i : net->values[under].place;
        places[i] = (Place){ .value = i, .first = v->first, .last = v->last, .kept = v->kept || net->train };
        Place *chain = &places[v->place];
        if (snls_nn_value_bytes(v) > chain->size) chain->size = snls_nn_value_bytes(v);
        if (v->last > chain->last) chain->last = v->last;
        chain->kept |= v->kept;
    }
}

int64_t snls_nn_bytes(NnNet *net)
{
    if (net->status < 0) return -1;
    int64_t used = 0;
    const int64_t n = net->value_count;
    Place *places = snls_mem_alloc(&net->ctx->allocator, 2 * n * (int64_t)sizeof *places), *sorted = places + n;
    if (n && !places) return snls_fail(net->ctx, SNLS_ERR_MEMORY, "network: no memory for a list of %lld", (long long)n), -1;
    gather_chains(net, places);
    for (int64_t i = 0; i < n; i++) sorted[i] = places[i];
    if (!net->train) qsort(sorted, (size_t)n, sizeof *sorted, larger_first);
    for (int64_t i = 0; i < n; i++) {
        sorted[i].at = net->train ? used : lowest(sorted, i);
        places[sorted[i].value].at = sorted[i].at;
        if (sorted[i].at + sorted[i].size > used) used = sorted[i].at + sorted[i].size;
    }
    for (int64_t i = 0; i < n; i++) net->values[i].place = places[net->values[i].place].at;
    snls_mem_free(&net->ctx->allocator, places);
    return used;
}
