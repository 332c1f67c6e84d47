/* check_tensor.c: tensors of the tests: random strides, canaries in every byte that no element owns; many end where memory ends. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "check.h"
#include "base/half.h"
#include <snls/context.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A fuzzer that watches these loops spends its time on them and learns nothing. */
#if defined(__clang__)
#  define UNWATCHED __attribute__((no_sanitize("coverage")))
#else
#  define UNWATCHED
#endif

typedef struct Block {
    struct Block *next;
    char   *base; /* NULL for plain memory */
    char   *was;
    int64_t bytes;
    char   *lent; /* its copy on a device */
    int     views;/* that point into the copy */
    size_t  pages;/* bytes of a mapping that ends with a page nobody may touch, or 0 */
} Block;

static Block *blocks;

static void *must_alloc(size_t bytes)
{
    void *p = calloc(bytes ? bytes : 1, 1);
    if (p) return p;
    printf("out of memory in the test itself\n");
    exit(1);
}

/* The last bytes before a page that nobody may touch, not even with an instruction that writes nothing there. */
static char *before_the_end(Block *b, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    char *p = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + size, page, PROT_NONE)) {
        printf("out of memory in the test itself\n");
        exit(1);
    }
    b->pages = size + page;
    return p + size - bytes;
}

static void drop_memory(const Block *b)
{
    if (b->pages) munmap(b->base + b->bytes - (b->pages - (size_t)sysconf(_SC_PAGESIZE)), b->pages);
    else free(b->base);
}

static Block *new_block(int64_t bytes, bool at_the_end)
{
    Block *b = must_alloc(sizeof *b);
    b->base = at_the_end ? before_the_end(b, (size_t)bytes) : must_alloc((size_t)bytes);
    b->bytes = bytes;
    b->next = blocks;
    return blocks = b;
}

void *check_alloc(int64_t count, size_t size) { return new_block((count > 0 ? count : 1) * (int64_t)size, false)->base; }

void tensors_free(void)
{
    while (blocks) {
        Block *b = blocks;
        blocks = b->next;
        drop_memory(b);
        free(b->was);
        free(b);
    }
}

UNWATCHED static Block *block_of(const SnlsTensor *t)
{
    const char *p = t->data;
    for (Block *b = blocks; b; b = b->next)
        if (p >= b->base && p < b->base + b->bytes) return b;
    printf("a tensor of no known block\n");
    exit(1);
}

static void shuffle(Rng *rng, int32_t *order, int32_t n)
{
    for (int32_t i = 0; i < n; i++) order[i] = i;
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t j = (int32_t)rng_int(rng, 0, i), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

/* Sets strides; returns how many elements the view spans, *first is where its element 0 lies among them. */
static int64_t random_strides(Rng *rng, SnlsTensor *t, bool broadcast, int64_t *first)
{
    int32_t order[SNLS_MAX_DIM];
    shuffle(rng, order, t->ndim);
    if (rng_one_in(rng, 2)) /* the last axis innermost, as fast paths like it */
        for (int32_t i = 0; i < t->ndim; i++) order[i] = t->ndim - 1 - i;
    int64_t span = rng_one_in(rng, 4) ? rng_int(rng, 2, 3) : 1;
    *first = 0;
    for (int32_t i = 0; i < t->ndim; i++) {
        const int32_t axis = order[i];
        const int64_t n = t->shape[axis] > 0 ? t->shape[axis] : 1;
        if (broadcast && rng_one_in(rng, 40)) {
            t->stride[axis] = 0;
            continue;
        }
        t->stride[axis] = span;
        if (rng_one_in(rng, 8)) {
            *first += (n - 1) * span;
            t->stride[axis] = -span;
        }
        span *= n + (rng_one_in(rng, 2) ? rng_int(rng, 0, 3) : 0);
    }
    return span;
}

UNWATCHED static void fill_with_canaries(Block *b)
{
    for (int64_t i = 0; i < b->bytes; i++) b->base[i] = (char)(i * 37 + 11 + (i >> 5));
}

SnlsTensor tensor_new(Rng *rng, int32_t dtype, int32_t ndim, const int64_t *shape, Layout layout)
{
    SnlsTensor t = snls_tensor(NULL, (SnlsDtype)dtype, ndim, shape);
    int64_t first = 0, span = 1, lead = 8, tail = 4; /* lead: 16 bytes of the smallest type, so that vectors are possible */
    t.ndim = ndim;
    if (layout == LAYOUT_PLAIN) {
        for (int32_t i = 0; i < ndim; i++) span *= shape[i] > 0 ? shape[i] : 1;
    } else {
        span = random_strides(rng, &t, layout == LAYOUT_INPUT, &first);
        lead = rng_int(rng, 1, 9); /* any alignment to the element */
        tail = rng_int(rng, 1, 9);
    }
    const int64_t size = snls_dtype_size((SnlsDtype)dtype);
    const bool at_the_end = rng && rng->state >> 17 & 1; /* not drawn, so that other choices stay what they were */
    Block *b = new_block((lead + span + (at_the_end ? 0 : tail)) * size, at_the_end);
    fill_with_canaries(b);
    t.data = b->base + (lead + first) * size;
    tensor_mark(&t);
    return t;
}

int64_t tensor_count(const SnlsTensor *t) { return t->data ? snls_tensor_elements(t) : 0; }

UNWATCHED static int64_t place(const SnlsTensor *t, int64_t flat)
{
    int64_t at = 0;
    for (int32_t i = t->ndim; i-- > 0;) {
        at += flat % t->shape[i] * t->stride[i];
        flat /= t->shape[i];
    }
    return at;
}

UNWATCHED static double load(int32_t dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case SNLS_F32: return ((const float *)data)[at];
    case SNLS_F64: return ((const double *)data)[at];
    case SNLS_F16: return snls_f16_to_float(((const uint16_t *)data)[at]);
    case SNLS_BF16: return snls_bf16_to_float(((const uint16_t *)data)[at]);
    case SNLS_I32: return ((const int32_t *)data)[at];
    case SNLS_U8: return ((const uint8_t *)data)[at];
    }
    return 0;
}

double tensor_get(const SnlsTensor *t, int64_t flat) { return load(t->dtype, t->data, place(t, flat)); }

double tensor_was(const SnlsTensor *t, int64_t flat)
{
    const Block *b = block_of(t);
    return load(t->dtype, b->was + ((char *)t->data - b->base), place(t, flat));
}

void tensor_set(const SnlsTensor *t, int64_t flat, double value)
{
    const int64_t at = place(t, flat);
    switch (t->dtype) {
    case SNLS_F32: ((float *)t->data)[at] = (float)value; break;
    case SNLS_F64: ((double *)t->data)[at] = value; break;
    case SNLS_F16: ((uint16_t *)t->data)[at] = snls_float_to_f16((float)value); break;
    case SNLS_BF16: ((uint16_t *)t->data)[at] = snls_float_to_bf16((float)value); break;
    case SNLS_I32: ((int32_t *)t->data)[at] = (int32_t)value; break;
    case SNLS_U8: ((uint8_t *)t->data)[at] = (uint8_t)value; break;
    }
}

double *tensor_doubles(const SnlsTensor *t)
{
    const int64_t n = tensor_count(t);
    double *copy = check_alloc(n, sizeof *copy);
    for (int64_t i = 0; i < n; i++) copy[i] = tensor_get(t, i);
    return copy;
}

void tensor_fill(const SnlsTensor *t, Rng *rng, double low, double high)
{
    const int64_t n = tensor_count(t);
    for (int64_t i = 0; i < n; i++) tensor_set(t, i, rng_real(rng, low, high));
}

void tensor_mark(const SnlsTensor *t)
{
    Block *b = block_of(t);
    if (!b->was) b->was = must_alloc((size_t)b->bytes);
    memcpy(b->was, b->base, (size_t)b->bytes);
}

void tensor_restore(const SnlsTensor *t)
{
    Block *b = block_of(t);
    memcpy(b->base, b->was, (size_t)b->bytes);
}

bool tensor_unchanged(const SnlsTensor *t)
{
    const Block *b = block_of(t);
    return !memcmp(b->base, b->was, (size_t)b->bytes);
}

UNWATCHED bool tensor_padding_unchanged(const SnlsTensor *t)
{
    const Block *b = block_of(t);
    const int64_t size = snls_dtype_size((SnlsDtype)t->dtype);
    bool absurd;
    int64_t n = tensor_count(t);
    if (n * size > b->bytes || !tensor_fits(t, &absurd)) n = 0; /* no view of this memory: none of it may change */
    char *now = must_alloc((size_t)b->bytes);
    memcpy(now, b->base, (size_t)b->bytes);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = (char *)t->data - b->base + place(t, i) * size;
        memcpy(now + at, b->was + at, (size_t)size);
    }
    const bool same = !memcmp(now, b->was, (size_t)b->bytes);
    free(now);
    return same;
}

bool tensor_fits(const SnlsTensor *t, bool *absurd)
{
    *absurd = false;
    const long double size = (long double)snls_dtype_size((SnlsDtype)t->dtype);
    long double low = 0, high = size;
    bool empty = false;
    if (t->ndim < 0 || t->ndim > SNLS_MAX_DIM || size == 0) return true; /* refused before anything is read */
    for (int32_t i = 0; i < t->ndim; i++) {
        empty = empty || t->shape[i] == 0;
        if (t->shape[i] < 0) return true;
        const long double reach = (long double)(t->shape[i] - 1) * (long double)t->stride[i] * size;
        *(reach < 0 ? &low : &high) += t->shape[i] ? reach : 0;
    }
    if (empty) return true;
    *absurd = high - low > 9.3e18L;
    const Block *b = block_of(t);
    const char *data = t->data;
    return low >= (long double)(b->base - data) && high <= (long double)(b->base + b->bytes - data);
}

static void device_must(SnlsContext *ctx, SnlsStatus status)
{
    if (status >= 0) return;
    printf("FAIL %s\n", snls_error(ctx));
    exit(1);
}

void tensor_lend(SnlsContext *ctx, SnlsTensor *t)
{
    if (!t->data || snls_device_type(ctx) == SNLS_DEVICE_CPU) return;
    Block *b = block_of(t);
    if (!b->lent) {
        void *copy;
        device_must(ctx, snls_device_alloc(ctx, &copy, b->bytes));
        device_must(ctx, snls_device_copy(ctx, copy, b->base, b->bytes, SNLS_COPY_TO_DEVICE));
        b->lent = copy;
    }
    b->views++;
    t->data = b->lent + ((char *)t->data - b->base);
    t->device = snls_device_type(ctx);
}

void tensor_return(SnlsContext *ctx, SnlsTensor *t)
{
    if (!t->data || t->device == SNLS_DEVICE_CPU) return;
    Block *b = blocks;
    while (b && !(b->lent && (char *)t->data >= b->lent && (char *)t->data < b->lent + b->bytes)) b = b->next;
    if (!b) return;
    t->data = b->base + ((char *)t->data - b->lent);
    t->device = SNLS_DEVICE_CPU;
    if (--b->views) return;
    device_must(ctx, snls_device_copy(ctx, b->base, b->lent, b->bytes, SNLS_COPY_FROM_DEVICE));
    snls_device_free(ctx, b->lent);
    b->lent = NULL;
}

UNWATCHED uint64_t tensor_hash(const SnlsTensor *t)
{
    const Block *b = block_of(t);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (int64_t i = 0; i < b->bytes; i++) hash = (hash ^ (unsigned char)b->base[i]) * 0x100000001b3u;
    return hash;
}
