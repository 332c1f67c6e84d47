/* bins.cuh: entries sorted by the cell they belong to (a counting sort on the device), so that a cell's owner can go through them. A
 * spread becomes a pull: no floating-point atomics, and with `ordered` the same order of entries in every run. */
#ifndef SNLS_CUDA_BINS_H
#define SNLS_CUDA_BINS_H

#include "cuda/cuda.h"

#define SNLS_BIN_NONE UINT32_MAX

/* Entries of cell c, after snls_bins_fill: list[c ? ends[c-1] : 0] up to list[ends[c]]. */
typedef struct SnlsBins {
    int64_t entries, cells; /* in use; fewer than 2^31 - 1 */
    uint32_t *keys;         /* entry -> cell, or SNLS_BIN_NONE */
    uint32_t *list;         /* entries */
    uint32_t *ends;         /* cells, and the rest of a block of the scan */
    uint32_t *sums;         /* one for each block of the scan */
    uint32_t *crowded;      /* how many cells have too many entries for one thread to sort; then these cells */
} SnlsBins;

static __device__ __forceinline__ uint32_t snls_bin_begin(const SnlsBins *b, int64_t cell) { return cell > 0 ? b->ends[cell - 1] : 0; }

/* Called for each entry by a kernel between begin and scan. */
static __device__ __forceinline__ void snls_bin_count(const SnlsBins *b, int64_t entry, uint32_t cell)
{
    b->keys[entry] = cell;
    if (cell != SNLS_BIN_NONE) atomicAdd(&b->ends[cell], 1u);
}

void snls_bins_plan(SnlsContext *ctx, int64_t entries, int64_t cells);
void snls_bins_claim(SnlsContext *ctx, SnlsBins *bins, int64_t entries, int64_t cells);
SnlsStatus snls_bins_begin(SnlsContext *ctx, const char *op, const SnlsBins *bins); /* no entries yet */
SnlsStatus snls_bins_scan(SnlsContext *ctx, const char *op, const SnlsBins *bins);  /* ends: where each cell's entries begin */
/* The list; ordered: each cell's entries rise. Who needs no order can fill a list of his own by atomicAdd(&ends[cell], 1). */
SnlsStatus snls_bins_fill(SnlsContext *ctx, const char *op, const SnlsBins *bins, bool ordered);

/* How a job larger than the scratch it may have is cut: lines of sources, `entries` a line, go to lines of cells; both run over
 * planes that have nothing to do with each other. */
typedef struct SnlsBinCut {
    int64_t planes, source_lines, target_lines; /* in all; of a plane */
    int64_t sources, targets;                   /* lines done at once: whole planes, or parts of one */
} SnlsBinCut;

/* budget: bytes; entry: bytes of scratch for one, with SNLS_BIN_ENTRY of them for the bins themselves. False: lines do not fit. */
enum { SNLS_BIN_ENTRY = 8 };
bool snls_bins_cut(SnlsBinCut *cut, int64_t budget, int64_t entries, int64_t cells, int64_t entry);

/* What a call may take: a little less than 64 MiB and 2 % of its tensors; once more for sums of 16-bit outputs that come in parts (spread.cu). */
int64_t snls_bins_budget(const SnlsTensor *const *tensors, int count);

#endif
