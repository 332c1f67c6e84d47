/* check_tile.c: lists of a search against every candidate of ref's search_all; the same bits from other scratch, threads and less memory. */
#include "tile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* (terms + 2) eps sum|term| and what interpolation may add, by Cauchy-Schwarz from the distance and the largest feature. */
static double tolerance(const TileCase *c, double dist)
{
    const double terms = (double)c->s.query.shape[4] / c->s.params.heads * c->s.params.ps * c->s.params.ps, norm = sqrt(terms) * c->largest;
    if (c->s.params.dist == SNLS_DIST_PROD) return (terms + 8) * EPS_F32 * norm * norm;
    return (terms + 2) * EPS_F32 * dist + 12 * EPS_F32 * sqrt(dist) * norm + 36 * EPS_F32 * EPS_F32 * norm * norm;
}

static int rising(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Candidates [from, from+n) that come before number `index`: those with a better score, and of equal ones the first. */
static int64_t before(const float *every, const int32_t *there, int64_t from, int64_t n, int64_t index, double sign)
{
    int64_t count = 0;
    for (int64_t i = from; i < from + n; i++)
        if (there[i] >= 0) count += sign * every[i] < sign * every[index] || (every[i] == every[index] && i < index);
    return count;
}

void tile_check_list(const TileCase *c, int64_t query, int64_t first, int64_t from, int64_t n, float *sorted)
{
    const float *dist = (const float *)c->s.dist.data + query * c->s.dist.shape[5] + first, *every = (const float *)c->all.dist.data + query * c->per_query;
    const int32_t *index = (const int32_t *)c->s.index.data + query * c->s.dist.shape[5] + first;
    const int32_t *there = (const int32_t *)c->all.index.data + query * c->per_query;
    const float *offset = (const float *)c->s.offset.data + (query * c->s.dist.shape[5] + first) * 3, *places = (const float *)c->all.offset.data + query * c->per_query * 3;
    const double sign = c->s.params.dist == SNLS_DIST_PROD ? -1 : 1;
    int64_t count = 0, next = from;
    for (int64_t i = from; i < from + n; i++)
        if (there[i] >= 0) sorted[count++] = (float)(sign * every[i]);
    qsort(sorted, (size_t)count, sizeof *sorted, rising);
    for (int64_t k = 0; k < c->s.params.k; k++) {
        if (k >= count) {
            CHECK(index[k] == -1 && isinf(dist[k]), "query %lld place %lld: candidate %d, there are only %lld", (long long)query, (long long)k, index[k], (long long)count);
            continue;
        }
        if (!CHECK(index[k] >= from && index[k] < from + n && there[index[k]] >= 0, "query %lld place %lld: candidate %d", (long long)query, (long long)k, index[k])) continue;
        const double slack = tolerance(c, fabs(sorted[k]));
        CHECK(fabs(sign * dist[k] - sorted[k]) <= slack, "query %lld place %lld: distance %.9g, best left %.9g within %.3g", (long long)query, (long long)k, dist[k], sign * sorted[k], slack);
        CHECK(fabs(dist[k] - every[index[k]]) <= slack, "query %lld place %lld: distance %.9g, candidate %d has %.9g", (long long)query, (long long)k, dist[k], index[k], every[index[k]]);
        CHECK(!memcmp(offset + 3 * k, places + 3 * (int64_t)index[k], 3 * sizeof *offset), "query %lld place %lld: offset of another candidate", (long long)query, (long long)k);
        while (there[next] < 0) next++; /* of those that tie the first come first */
        if (c->alike) CHECK(index[k] == next, "query %lld place %lld: candidate %d, all tie and %lld is left", (long long)query, (long long)k, index[k], (long long)next);
        if (c->exact) CHECK(before(every, there, from, n, index[k], sign) == k, "query %lld place %lld: candidate %d is not the next", (long long)query, (long long)k, index[k]);
        next++;
        CHECK(!k || index[k] != index[k - 1], "query %lld: candidate %d twice", (long long)query, index[k]);
    }
}

void tile_check(const TileCase *c)
{
    const int64_t slots = 2 * c->s.params.wt + 1, queries = snls_tensor_elements(&c->s.dist) / c->s.dist.shape[5], cells = c->per_query / slots;
    float *sorted = check_alloc(c->per_query, sizeof *sorted);
    for (int64_t q = 0; q < queries; q++) {
        if (c->s.params.topk == SNLS_TOPK_ALL) tile_check_list(c, q, 0, 0, c->per_query, sorted);
        for (int64_t s = 0; c->s.params.topk == SNLS_TOPK_EACH && s < slots; s++) tile_check_list(c, q, s * c->s.params.k, s * cells, cells, sorted);
    }
}

/* Memory that holds something odd: results must not depend on what scratch held before. */
static void *alloc_filled(size_t bytes, void *opaque)
{
    void *block = malloc(bytes);
    if (block) memset(block, *(const int *)opaque, bytes);
    return block;
}
static void free_filled(void *block, void *opaque)
{
    (void)opaque;
    free(block);
}

uint64_t tile_hash(const SnlsTensor *t)
{
    const unsigned char *bytes = t->data;
    uint64_t sum = 1469598103934665603u;
    for (int64_t i = 0; i < 4 * snls_tensor_elements(t); i++) sum = (sum ^ bytes[i]) * 1099511628211u;
    return sum;
}

/* The same bits from other scratch and another number of threads. */
void tile_check_again(const TileCase *c, SnlsContextParams params, int32_t threads, int fill)
{
    const uint64_t dist = tile_hash(&c->s.dist), index = tile_hash(&c->s.index);
    SnlsContext *ctx = NULL;
    params.threads = threads;
    params.allocator = (SnlsAllocator){alloc_filled, free_filled, &fill};
    if (!CHECK(snls_open(&ctx, &params) >= 0, "open cpu")) return;
    CHECK(snls_search_forward(ctx, &c->s) >= 0, "%s", snls_error(ctx));
    CHECK(tile_hash(&c->s.dist) == dist && tile_hash(&c->s.index) == index, "other bits on %d threads with scratch of 0x%02x", (int)threads, fill);
    snls_close(&ctx);
}

/* Over the results of a call that is to be repeated. */
static void smear(const SnlsTensor *t)
{
    if (t->data) memset(t->data, 0x5a, (size_t)(4 * snls_tensor_elements(t)));
}

/* With a byte less than it took: no memory and nothing written, or another way: the same bits, or sums that were rounded in another order. */
void tile_check_less(const TileCase *c, SnlsContextParams params)
{
    const uint64_t dist = tile_hash(&c->s.dist), index = tile_hash(&c->s.index);
    SnlsContext *ctx = NULL;
    if (!CHECK(snls_open(&ctx, &params) >= 0, "open cpu")) return;
    CHECK(snls_search_forward(ctx, &c->s) >= 0, "%s", snls_error(ctx));
    params.scratch_limit = snls_scratch_peak(ctx) - 1;
    snls_close(&ctx);
    if (params.scratch_limit < 1 || !CHECK(snls_open(&ctx, &params) >= 0, "open cpu")) return;
    smear(&c->s.dist), smear(&c->s.index);
    const uint64_t smeared = tile_hash(&c->s.dist), smeared_index = tile_hash(&c->s.index);
    const SnlsStatus status = snls_search_forward(ctx, &c->s);
    CHECK(status >= 0 || status == SNLS_ERR_MEMORY, "with less scratch: %s", snls_error(ctx));
    if (status >= 0 && (tile_hash(&c->s.dist) != dist || tile_hash(&c->s.index) != index)) tile_check(c);
    CHECK(status >= 0 || (tile_hash(&c->s.dist) == smeared && tile_hash(&c->s.index) == smeared_index), "a call that failed for want of scratch wrote to its outputs");
    CHECK(snls_scratch_peak(ctx) <= params.scratch_limit, "%lld bytes of scratch, %lld are allowed", (long long)snls_scratch_peak(ctx), (long long)params.scratch_limit);
    snls_close(&ctx);
}
