/* npy.h: the header of a .npy file, apart from where its bytes come from. */
#ifndef SNLS_IO_NPY_H
#define SNLS_IO_NPY_H

#include "base/context.h"

#define SNLS_NPY_PREAMBLE   12        /* most bytes before the dictionary: magic, version, length */
#define SNLS_NPY_HEADER_MAX (1 << 20) /* a dictionary of three short entries needs no more */

typedef struct SnlsNpyHeader {
    int32_t dtype, ndim;
    int64_t shape[SNLS_MAX_DIM];
    int64_t data_bytes;
} SnlsNpyHeader;

/* First bytes of a file (`have` of them, at least SNLS_NPY_PREAMBLE unless the file is shorter): where the dictionary
 * begins and how long it is. */
SnlsStatus snls_npy_preamble(SnlsContext *ctx, const char *name, const unsigned char *bytes, int64_t have,
                             int64_t *begin, int64_t *length);

/* The dictionary. Its sizes are checked for overflow, not against the file. */
SnlsStatus snls_npy_dictionary(SnlsContext *ctx, const char *name, const char *text, int64_t length,
                               SnlsNpyHeader *header);

/* Header of an open file (size -1: a pipe); leaves the descriptor at the first byte of data, *begin bytes into the file. */
SnlsStatus snls_npy_begin(SnlsContext *ctx, const char *path, int fd, int64_t size, SnlsNpyHeader *header, int64_t *begin);

/* Magic, version, length, dictionary of such an array, padded to a multiple of 64 bytes; returns its size. */
#define SNLS_NPY_HEADER_ROOM (SNLS_MAX_DIM * 24 + 192)
int64_t snls_npy_header(char *text, const SnlsTensor *view);

#endif
