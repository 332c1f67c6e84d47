/* journal.c: header "snls journal 4\n", length of the fingerprint, fingerprint; then records {size, check sum, noise} and
 * the packed samples of a frame. Written with write(2), so that what was finished is there whatever ends the program. */
#define _XOPEN_SOURCE 700
#include "pipeline/journal.h"
#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char magic[16] = "snls journal 4\n";
enum { MAGIC_NAME = 13 }; /* its characters without the version */

typedef struct Record {
    int64_t size;
    uint64_t sum;
    double noise[SNLS_NOISE];
} Record;

/* FNV-1a over words of eight bytes: finds what was cut off or not written. */
static uint64_t check_sum(const void *bytes, int64_t size, const double *noise)
{
    uint64_t sum = 14695981039346656037u, word;
    const char *at = bytes;
    for (int64_t i = 0; i < size; i += 8) {
        word = 0;
        memcpy(&word, at + i, (size_t)(size - i < 8 ? size - i : 8));
        sum = (sum ^ word) * 1099511628211u;
    }
    for (int c = 0; c < SNLS_NOISE; c++) {
        memcpy(&word, noise + c, 8);
        sum = (sum ^ word) * 1099511628211u;
    }
    return sum;
}

void *snls_journal_room(SnlsContext *ctx, SnlsJournal *j, int64_t size)
{
    if (size <= j->room) return j->bytes;
    snls_mem_free(&ctx->allocator, j->bytes);
    j->bytes = snls_mem_alloc(&ctx->allocator, size);
    j->room = j->bytes ? size : 0;
    return j->bytes;
}

static bool read_exactly(int fd, void *to, int64_t size, int64_t at)
{
    for (int64_t done = 0; done < size;) {
        const ssize_t n = pread(fd, (char *)to + done, (size_t)(size - done), at + done);
        if (n <= 0) return false;
        done += n;
    }
    return true;
}

/* A whole record at j->at into j->bytes; false: none, or damaged. */
static bool read_record(SnlsContext *ctx, SnlsJournal *j, int64_t length, Record *r)
{
    if (!read_exactly(j->fd, r, sizeof *r, j->at) || r->size < 1 || r->size > length - j->at - (int64_t)sizeof *r)
        return false;
    if (!snls_journal_room(ctx, j, r->size) || !read_exactly(j->fd, j->bytes, r->size, j->at + (int64_t)sizeof *r))
        return false;
    if (check_sum(j->bytes, r->size, r->noise) != r->sum) return false;
    j->at += (int64_t)sizeof *r + r->size;
    return true;
}

static SnlsStatus check_header(SnlsContext *ctx, SnlsJournal *j, const char *fingerprint)
{
    char head[sizeof magic], text[2048];
    int64_t size = 0;
    const bool begins = read_exactly(j->fd, head, sizeof head, 0), named = begins && !memcmp(head, magic, MAGIC_NAME);
    const bool ours = named && !memcmp(head, magic, sizeof magic) && read_exactly(j->fd, &size, sizeof size, sizeof head);
    SNLS_REQUIRE(ctx, ours || !named || !memcmp(head, magic, sizeof magic), SNLS_ERR_ARG,
                 "%s: is the journal of another version of snls, which that one can resume; or remove it", snls_io_name(j->path).text);
    SNLS_REQUIRE(ctx, ours, SNLS_ERR_ARG, "%s: is no journal of snls, so there is nothing to resume; remove it",
                 snls_io_name(j->path).text);
    const bool same = size == (int64_t)strlen(fingerprint) && size < (int64_t)sizeof text &&
                      read_exactly(j->fd, text, size, sizeof head + sizeof size) &&
                      !memcmp(text, fingerprint, (size_t)size);
    SNLS_REQUIRE(ctx, same, SNLS_ERR_ARG,
                 "%s: is the journal of a run with another input or other options; the same are needed to resume it",
                 snls_io_name(j->path).text);
    j->at = (int64_t)sizeof head + (int64_t)sizeof size + size;
    return SNLS_OK;
}

static SnlsStatus continue_old(SnlsContext *ctx, SnlsJournal *j, const char *fingerprint)
{
    Record r;
    SNLS_TRY(check_header(ctx, j, fingerprint));
    const int64_t begin = j->at, length = lseek(j->fd, 0, SEEK_END);
    while (read_record(ctx, j, length, &r)) j->frames++;
    j->end = j->at;
    j->at = begin;
    const bool cut = !ftruncate(j->fd, j->end) && lseek(j->fd, j->end, SEEK_SET) == j->end;
    SNLS_REQUIRE(ctx, cut, SNLS_ERR_IO, "%s: cannot be continued", snls_io_name(j->path).text);
    return SNLS_OK;
}

/* Does the name still mean the open file? Between opening and locking its owner may have removed it. */
static bool still_named(const SnlsJournal *j)
{
    struct stat named, mine;
    return !stat(j->path, &named) && !fstat(j->fd, &mine) && named.st_dev == mine.st_dev && named.st_ino == mine.st_ino;
}

enum { ATTEMPTS = 100 }; /* not for ever: a file system may number its files as it likes */

/* *taken: another run has it locked. The lock goes with the process; a file system without locks gives none, and the run goes on. */
static void open_locked(SnlsJournal *j, int flags, bool *taken)
{
    int left = ATTEMPTS;
    do {
        if (j->fd >= 0) close(j->fd);
        j->fd = open(j->path, O_RDWR | O_CLOEXEC | flags, 0666);
        *taken = j->fd >= 0 && flock(j->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    } while (j->fd >= 0 && !*taken && --left && !still_named(j));
}

/* A journal of any version, or what has nothing to lose: a file that was just made, by us or by a run that was killed before it wrote the header. */
static bool may_begin_anew(const SnlsJournal *j)
{
    char head[MAGIC_NAME];
    struct stat info;
    return (!fstat(j->fd, &info) && !info.st_size) || (read_exactly(j->fd, head, sizeof head, 0) && !memcmp(head, magic, sizeof head));
}

static SnlsStatus begin_new(SnlsContext *ctx, SnlsJournal *j, const char *fingerprint, bool overwrite)
{
    const int64_t size = (int64_t)strlen(fingerprint);
    SNLS_REQUIRE(ctx, j->fd < 0 || overwrite || may_begin_anew(j), SNLS_ERR_IO,
                 "%s: exists and is no journal of snls, which would take its place (params.overwrite_journal overwrites it)", snls_io_name(j->path).text);
    SNLS_REQUIRE(ctx, j->fd >= 0 && !ftruncate(j->fd, 0), SNLS_ERR_IO, "%s: cannot be created: %s", snls_io_name(j->path).text, strerror(errno));
    j->begun = true;
    SNLS_TRY(snls_io_write(ctx, j->path, j->fd, magic, sizeof magic));
    SNLS_TRY(snls_io_write(ctx, j->path, j->fd, &size, sizeof size));
    return snls_io_write(ctx, j->path, j->fd, fingerprint, size);
}

SnlsStatus snls_journal_open(SnlsContext *ctx, SnlsJournal *j, const char *path, const char *fingerprint, int how)
{
    bool taken = false;
    *j = (SnlsJournal){ .fd = -1, .path = path };
    if (how & SNLS_JOURNAL_RESUME) open_locked(j, 0, &taken);
    const bool old = j->fd >= 0;
    if (!old) open_locked(j, O_CREAT, &taken);
    if (taken) {
        close(j->fd);
        j->fd = -1;
        return snls_fail(ctx, SNLS_ERR_IO, "%s: another run is writing it", snls_io_name(path).text);
    }
    return old ? continue_old(ctx, j, fingerprint) : begin_new(ctx, j, fingerprint, how & SNLS_JOURNAL_OVERWRITE);
}

SnlsStatus snls_journal_read(SnlsContext *ctx, SnlsJournal *j, int64_t *size)
{
    Record r;
    SNLS_REQUIRE(ctx, read_record(ctx, j, j->end, &r), SNLS_ERR_IO, "%s: cannot be read any more",
                 snls_io_name(j->path).text);
    *size = r.size;
    memcpy(j->noise, r.noise, sizeof j->noise);
    return SNLS_OK;
}

enum { SPARE_FRAMES = 16 };

/* The output needs the rest of the disk more than this: an encoder that meets a full disk cannot go on. A file system of no blocks has no limit
 * that it tells. */
static bool disk_is_short(const SnlsJournal *j, int64_t size)
{
    struct statvfs disk;
    return !fstatvfs(j->fd, &disk) && disk.f_blocks && (double)disk.f_bavail * (double)disk.f_frsize < SPARE_FRAMES * (double)size;
}

void snls_journal_add(SnlsJournal *j, int64_t size, const double noise[SNLS_NOISE])
{
    if (j->fd < 0 || j->failed) return;
    SnlsContext quiet = { 0 };
    Record r = { .size = size };
    memcpy(r.noise, noise, sizeof r.noise);
    r.sum = check_sum(j->bytes, size, noise);
    j->failed = disk_is_short(j, size) || snls_io_write(&quiet, j->path, j->fd, &r, sizeof r) < 0 ||
                snls_io_write(&quiet, j->path, j->fd, j->bytes, size) < 0;
    if (!j->failed) return;
    (void)!ftruncate(j->fd, 0); /* what is open keeps its room; all of it has been replayed when frames are added */
    unlink(j->path);
}

void snls_journal_close(SnlsContext *ctx, SnlsJournal *j, bool remove)
{
    if (j->fd >= 0 && remove) unlink(j->path); /* while it is locked: after that it may be another run's */
    if (j->fd >= 0) close(j->fd);
    j->fd = -1;
    snls_mem_free(&ctx->allocator, j->bytes);
    j->bytes = NULL;
    j->room = 0;
}
