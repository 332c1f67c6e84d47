/* safetensors.h: named arrays in one file, as https://github.com/huggingface/safetensors defines it: eight bytes of
 * little-endian length, a JSON header, tight data. Files are untrusted: sizes, ranges, overlaps and names are checked before
 * memory for the data is taken. Needs jansson; without it these functions say SNLS_ERR_UNSUPPORTED. (jansson takes its own
 * working memory, for the header, from malloc.) */
#ifndef SNLS_SAFETENSORS_H
#define SNLS_SAFETENSORS_H

#include <snls/context.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SNLS_SAFETENSORS_HEADER_MAX 100000000 /* bytes of header that a reader accepts */
#define SNLS_SAFETENSORS_NAME_MAX 1024        /* bytes of a tensor's name */

typedef struct SnlsNamedTensor {
    const char *name;   /* UTF-8 */
    SnlsTensor  tensor; /* contiguous. Of a type that SnlsDtype lacks (BOOL, I64, ...): no data, dtype -1 */
} SnlsNamedTensor;

typedef struct SnlsSafetensors {
    SnlsNamedTensor *tensors; /* in the order of their data */
    int64_t          count;
    const char     **metadata; /* key, value, key, value, ... */
    int64_t          metadata_count; /* pairs */
    void            *memory;  /* all of the above; snls_safetensors_free gives it back */
} SnlsSafetensors;

/* On success *file is the caller's to free, with the same context; on failure it is zero. SNLS_ERR_IO: cannot be opened or
 * read. SNLS_ERR_FORMAT: malformed. SNLS_ERR_UNSUPPORTED: a type that nobody knows, more than SNLS_MAX_DIM axes. */
SNLS_API SnlsStatus snls_safetensors_read(SnlsContext *ctx, const char *path, SnlsSafetensors *file);
SNLS_API SnlsStatus snls_safetensors_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsSafetensors *file);
SNLS_API void       snls_safetensors_free(SnlsContext *ctx, SnlsSafetensors *file); /* zeroes it; a zeroed one is allowed */

/* NULL where there is none of this name. */
SNLS_API const SnlsTensor *snls_safetensors_find(const SnlsSafetensors *file, const char *name);
SNLS_API const char       *snls_safetensors_metadata(const SnlsSafetensors *file, const char *key);

/* Writes file's tensors, which must be contiguous, and metadata; data lie in the order of the list, but those of larger elements first, so that each begins at
 * a multiple of its elements. The file is path itself: write to a temporary name and rename
 * it where a half-written file would harm. A file that could not be written to its end is removed; what is refused before it is
 * opened leaves what was there. */
SNLS_API SnlsStatus snls_safetensors_write(SnlsContext *ctx, const char *path, const SnlsSafetensors *file);

#ifdef __cplusplus
}
#endif
#endif
