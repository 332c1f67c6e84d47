/* safetensors_header.c: the JSON header of a safetensors file: checked whole, then laid out in one block of memory. */
#include "base/tensor.h"
#include "io/safetensors.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef SNLS_HAVE_JANSSON
#include <jansson.h>

typedef struct Entry { /* a tensor as the header tells of it */
    const char *name;
    int32_t     dtype, ndim;
    int64_t     begin, end, shape[SNLS_MAX_DIM];
} Entry;

typedef struct Header {
    SnlsContext *ctx;
    const char  *file; /* its name, for sentences */
    Entry       *entries;
    int64_t      count, pairs, text; /* tensors; metadata; bytes of all strings with their ends */
    json_t      *metadata;           /* NULL: none */
} Header;

#define BAD(h, condition, ...) SNLS_REQUIRE((h)->ctx, condition, SNLS_ERR_FORMAT, __VA_ARGS__)

static SnlsStatus read_shape(Header *h, Entry *e, const json_t *shape, int64_t *elements)
{
    BAD(h, json_is_array(shape), "%s: %.80s has no list called shape", h->file, e->name);
    SNLS_REQUIRE(h->ctx, json_array_size(shape) <= SNLS_MAX_DIM, SNLS_ERR_UNSUPPORTED, "%s: %.80s has %llu axes, at most %d can be read",
                 h->file, e->name, (unsigned long long)json_array_size(shape), SNLS_MAX_DIM);
    e->ndim = (int32_t)json_array_size(shape);
    *elements = 1;
    for (int32_t i = 0; i < e->ndim; i++) {
        const json_t *length = json_array_get(shape, (size_t)i);
        BAD(h, json_is_integer(length) && json_integer_value(length) >= 0, "%s: axis %d of %.80s has no length", h->file, (int)i, e->name);
        e->shape[i] = json_integer_value(length);
        BAD(h, snls_mul_size(*elements, e->shape[i], elements), "%s: the shape of %.80s has more elements than 64 bits count", h->file, e->name);
    }
    return SNLS_OK;
}

static SnlsStatus read_offsets(Header *h, Entry *e, const json_t *offsets, int64_t data_bytes)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    BAD(h, json_array_size(offsets) == 2 && json_is_integer(begin) && json_is_integer(end), "%s: %.80s has no two data_offsets", h->file, e->name);
    e->begin = json_integer_value(begin);
    e->end = json_integer_value(end);
    BAD(h, e->begin >= 0 && e->begin <= e->end && e->end <= data_bytes, "%s: %.80s lies from byte %lld to %lld of %lld", h->file, e->name,
        (long long)e->begin, (long long)e->end, (long long)data_bytes);
    return SNLS_OK;
}

static SnlsStatus read_entry(Header *h, const char *name, const json_t *value, int64_t data_bytes)
{
    Entry *e = &h->entries[h->count++];
    int64_t elements, bytes;
    const size_t length = strlen(name);
    BAD(h, length && length <= SNLS_SAFETENSORS_NAME_MAX, "%s: a tensor's name has %llu bytes, must be 1 to %d", h->file,
        (unsigned long long)length, SNLS_SAFETENSORS_NAME_MAX);
    BAD(h, json_is_object(value), "%s: %.80s is no object", h->file, name);
    BAD(h, json_object_size(value) == 3, "%s: %.80s must have dtype, shape and data_offsets, and nothing else", h->file, name);
    e->name = name;
    h->text += (int64_t)length + 1;
    const char *type = json_string_value(json_object_get(value, "dtype"));
    BAD(h, type, "%s: %.80s has no dtype", h->file, name);
    const int64_t size = snls_safetensors_type(type, &e->dtype);
    SNLS_REQUIRE(h->ctx, size, SNLS_ERR_UNSUPPORTED, "%s: %.80s has the unknown dtype %.20s", h->file, name, type);
    SNLS_TRY(read_shape(h, e, json_object_get(value, "shape"), &elements));
    SNLS_TRY(read_offsets(h, e, json_object_get(value, "data_offsets"), data_bytes));
    BAD(h, snls_mul_size(elements, size, &bytes) && bytes == e->end - e->begin, "%s: %.80s has %lld bytes of data, its shape asks for another number",
        h->file, name, (long long)(e->end - e->begin));
    SNLS_REQUIRE(h->ctx, e->begin % size == 0, SNLS_ERR_UNSUPPORTED, "%s: %.80s begins at byte %lld, which is no multiple of its element's %lld", h->file,
                 name, (long long)e->begin, (long long)size);
    return SNLS_OK;
}

static SnlsStatus read_metadata(Header *h, json_t *value)
{
    const char *key;
    json_t *text;
    BAD(h, json_is_object(value), "%s: __metadata__ is no object", h->file);
    h->metadata = value;
    json_object_foreach(value, key, text) {
        BAD(h, json_is_string(text), "%s: the metadata %.80s is no string", h->file, key);
        h->text += (int64_t)strlen(key) + (int64_t)json_string_length(text) + 2;
        h->pairs++;
    }
    return SNLS_OK;
}

static int by_place(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Sorted by place, without overlap or gap, all of the data. */
static SnlsStatus check_places(Header *h, int64_t data_bytes)
{
    int64_t at = 0;
    if (h->count) qsort(h->entries, (size_t)h->count, sizeof *h->entries, by_place);
    for (int64_t i = 0; i < h->count; i++) {
        const Entry *e = &h->entries[i];
        BAD(h, e->begin == at, "%s: %.80s begins at byte %lld, %s byte %lld", h->file, e->name, (long long)e->begin,
            e->begin < at ? "inside the tensor that ends at" : "leaving a gap from", (long long)at);
        at = e->end;
    }
    BAD(h, at == data_bytes, "%s: has %lld bytes of data, its tensors %lld", h->file, (long long)data_bytes, (long long)at);
    return SNLS_OK;
}

static SnlsStatus read_header(Header *h, json_t *root, int64_t data_bytes)
{
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        if (strcmp(key, "__metadata__")) SNLS_TRY(read_entry(h, key, value, data_bytes));
        else SNLS_TRY(read_metadata(h, value));
    }
    return check_places(h, data_bytes);
}

static const char *put_text(char **at, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *to = memcpy(*at, text, bytes);
    *at += bytes;
    return to;
}

static void fill(const Header *h, SnlsSafetensors *file, char *data, char *text)
{
    const char *key;
    json_t *value;
    int64_t i = 0;
    for (; i < h->count; i++) {
        const Entry *e = &h->entries[i];
        SnlsTensor *t = &file->tensors[i].tensor;
        *t = snls_tensor(data + e->begin, e->dtype < 0 ? SNLS_U8 : (SnlsDtype)e->dtype, e->ndim, e->shape);
        if (e->dtype < 0) t->data = NULL, t->dtype = -1;
        file->tensors[i].name = put_text(&text, e->name);
    }
    i = 0;
    if (h->metadata)
        json_object_foreach(h->metadata, key, value) {
            file->metadata[i++] = put_text(&text, key);
            file->metadata[i++] = put_text(&text, json_string_value(value));
        }
}

/* One block: data, tensors, metadata pointers, strings. All sizes are bounded by the file's. */
static SnlsStatus take_memory(Header *h, int64_t data_bytes, SnlsSafetensors *file, void **data)
{
    const int64_t room = (data_bytes + SNLS_ALIGN - 1) / SNLS_ALIGN * SNLS_ALIGN;
    const int64_t tensors = h->count * (int64_t)sizeof(SnlsNamedTensor), pointers = 2 * h->pairs * (int64_t)sizeof(char *);
    char *block = snls_mem_alloc(&h->ctx->allocator, room + tensors + pointers + h->text);
    SNLS_REQUIRE(h->ctx, block, SNLS_ERR_MEMORY, "%s: no memory for its %lld bytes", h->file, (long long)data_bytes);
    *file = (SnlsSafetensors){ .memory = block, .count = h->count, .metadata_count = h->pairs };
    file->tensors = (SnlsNamedTensor *)(void *)(block + room);
    file->metadata = (const char **)(void *)(block + room + tensors);
    fill(h, file, block, block + room + tensors + pointers);
    *data = block;
    return SNLS_OK;
}

SnlsStatus snls_safetensors_layout(SnlsContext *ctx, const char *name, const char *header, int64_t header_bytes, int64_t data_bytes,
                                   SnlsSafetensors *file, void **data)
{
    json_error_t error = { .text = "it does not begin with {" };
    Header h = { .ctx = ctx, .file = name };
    errno = 0; /* jansson calls a text malformed where it has no memory for it */
    json_t *root = header_bytes && header[0] == '{' ? json_loadb(header, (size_t)header_bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    SNLS_REQUIRE(ctx, root || errno != ENOMEM, SNLS_ERR_MEMORY, "%s: no memory for what its header tells", name);
    const char *near = strstr(error.text, " near "); /* what follows is the file's, any bytes */
    const int length = near ? (int)(near - error.text) : (int)strlen(error.text);
    SNLS_REQUIRE(ctx, json_is_object(root), SNLS_ERR_FORMAT, "%s: the header of %lld bytes is no JSON object that could be read: %.*s", name, (long long)header_bytes, length, error.text);
    h.entries = snls_mem_alloc(&ctx->allocator, (int64_t)(json_object_size(root) * sizeof(Entry)));
    SnlsStatus status = h.entries ? read_header(&h, root, data_bytes) : snls_fail(ctx, SNLS_ERR_MEMORY, "%s: no memory for its list of tensors", name);
    if (status >= 0) status = take_memory(&h, data_bytes, file, data);
    snls_mem_free(&ctx->allocator, h.entries);
    json_decref(root);
    return status;
}

#else
SnlsStatus snls_safetensors_layout(SnlsContext *ctx, const char *name, const char *header, int64_t header_bytes, int64_t data_bytes,
                                   SnlsSafetensors *file, void **data)
{
    (void)header, (void)header_bytes, (void)data_bytes, (void)file, (void)data;
    return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "%s: this build has no jansson, safetensors files cannot be read", name);
}
#endif
