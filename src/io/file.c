/* file.c: whole reads and writes on POSIX descriptors. */
#define _POSIX_C_SOURCE 200809L
#include "io/file.h"
#include "base/number.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((int64_t)1 << 30) /* one read or write moves at most about 2 GiB on Linux */

SnlsName snls_io_name(const char *path)
{
    SnlsName name;
    const size_t length = strlen(path), room = sizeof name.text - 1;
    if (length <= room) snprintf(name.text, sizeof name.text, "%s", path);
    else snprintf(name.text, sizeof name.text, "...%s", path + length - (room - 3));
    return name;
}

SnlsSizeText snls_io_bytes(int64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    SnlsSizeText size;
    double value = (double)bytes / 1024;
    int unit = 0;
    for (; value >= 1024 && unit < 5; unit++) value /= 1024;
    if (bytes < 10240) snprintf(size.text, sizeof size.text, "%lld bytes", (long long)bytes);
    else snls_number_text(size.text, sizeof size.text, "%.1f %s (%lld bytes)", value, units[unit], (long long)bytes);
    return size;
}

static SnlsStatus fail_errno(SnlsContext *ctx, const char *path, const char *verb)
{
    const int error = errno;
    if (!*path) return snls_fail(ctx, SNLS_ERR_IO, "a file cannot be %s: its path is empty", verb);
    return snls_fail(ctx, SNLS_ERR_IO, "%s: cannot be %s: %s", snls_io_name(path).text, verb, strerror(error));
}

SnlsStatus snls_io_open(SnlsContext *ctx, const char *path, int *fd, int64_t *size)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return fail_errno(ctx, path, "opened");
    errno = fstat(*fd, &info) ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (errno) {
        const SnlsStatus status = fail_errno(ctx, path, "read");
        close(*fd);
        *fd = -1;
        return status;
    }
    *size = S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
    return SNLS_OK;
}

SnlsStatus snls_io_read(SnlsContext *ctx, const char *path, int fd, void *to, int64_t bytes, int64_t *got)
{
    for (*got = 0; *got < bytes;) {
        const int64_t want = bytes - *got < CHUNK ? bytes - *got : CHUNK;
        const ssize_t n = read(fd, (char *)to + *got, (size_t)want);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(ctx, path, "read");
        if (n == 0) break;
        *got += n;
    }
    return SNLS_OK;
}

SnlsStatus snls_io_create(SnlsContext *ctx, const char *path, int *fd)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *fd < 0 ? fail_errno(ctx, path, "created") : SNLS_OK;
}

SnlsStatus snls_io_write(SnlsContext *ctx, const char *path, int fd, const void *from, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        const int64_t want = bytes - done < CHUNK ? bytes - done : CHUNK;
        const ssize_t n = write(fd, (const char *)from + done, (size_t)want);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(ctx, path, "written");
        done += n;
    }
    return SNLS_OK;
}

SnlsStatus snls_io_finish(SnlsContext *ctx, const char *path, int fd, SnlsStatus status)
{
    struct stat info;
    const int regular = !fstat(fd, &info) && S_ISREG(info.st_mode);
    if (close(fd) && status >= 0) status = fail_errno(ctx, path, "written");
    if (status < 0 && regular) unlink(path);
    return status;
}
