/* file.h: whole reads and writes on POSIX descriptors. No stdio: it would allocate behind the context's back. */
#ifndef SNLS_IO_FILE_H
#define SNLS_IO_FILE_H

#include "base/context.h"

#define SNLS_NAME_MAX 200 /* bytes of a path shown in a sentence */

typedef struct SnlsName {
    char text[SNLS_NAME_MAX];
} SnlsName;

/* The path as sentences show it: its end, after "...", where it is long. */
SnlsName snls_io_name(const char *path);

/* "96 bytes", "12.0 GiB (12884901888 bytes)" */
typedef struct SnlsSizeText {
    char text[64];
} SnlsSizeText;
SnlsSizeText snls_io_bytes(int64_t bytes);

/* Opens for reading. *size is the length of a regular file, -1 for a pipe or a device. A directory is SNLS_ERR_IO. */
SnlsStatus snls_io_open(SnlsContext *ctx, const char *path, int *fd, int64_t *size);

/* Reads until bytes have come or the file ends; *got tells. */
SnlsStatus snls_io_read(SnlsContext *ctx, const char *path, int fd, void *to, int64_t bytes, int64_t *got);

/* Creates or truncates. */
SnlsStatus snls_io_create(SnlsContext *ctx, const char *path, int *fd);
SnlsStatus snls_io_write(SnlsContext *ctx, const char *path, int fd, const void *from, int64_t bytes);

/* Closes what snls_io_create opened. Where status, or closing, is an error, a regular file is removed: a device or a
 * pipe is somebody else's. Returns status, or the error of closing; the sentence of the first error stays. */
SnlsStatus snls_io_finish(SnlsContext *ctx, const char *path, int fd, SnlsStatus status);

#endif
