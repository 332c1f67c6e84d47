/* fuzz_journal.c: whole records and then any bytes: opened again, exactly the records are there, and what follows is cut off. Or
 * only the bytes, with a header before them or without. */
#define _GNU_SOURCE /* memfd_create */
#include "file.h"
#include "pipeline/journal.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { RECORDS_MOST = 4 };

static const char fingerprint[] = "the same input and options";

static void add_records(SnlsContext *ctx, SnlsJournal *j, int count, const uint8_t *bytes, size_t size)
{
    for (int i = 0; i < count; i++) {
        const double noise[SNLS_NOISE] = { i, 0.5, (double)size };
        const int64_t length = (int64_t)(size ? size : 1) * (i + 1);
        must(snls_journal_room(ctx, j, length) != NULL);
        for (int64_t k = 0; k < length; k++) ((uint8_t *)j->bytes)[k] = size ? bytes[(size_t)k % size] ^ (uint8_t)i : 0;
        snls_journal_add(j, length, noise);
        must(!j->failed);
    }
}

static void read_records(SnlsContext *ctx, SnlsJournal *j, int wanted, const uint8_t *bytes, size_t size)
{
    must(j->frames == wanted);
    for (int i = 0; i < j->frames; i++) {
        int64_t length = 0;
        must(snls_journal_read(ctx, j, &length) == SNLS_OK && length == (int64_t)(size ? size : 1) * (i + 1));
        for (int64_t k = 0; size && k < length; k++) must(((uint8_t *)j->bytes)[k] == (bytes[(size_t)k % size] ^ (uint8_t)i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static SnlsContext *ctx;
    SnlsJournal j;
    const char *path;
    const int fd = memory_file(&path), records = size ? bytes[0] % (RECORDS_MOST + 2) - 1 : 0; /* -1: not even a header */
    if (!ctx) must(snls_open(&ctx, &(SnlsContextParams){ .backend = "ref", .threads = 1 }) == SNLS_OK);
    if (records >= 0) {
        must(snls_journal_open(ctx, &j, path, fingerprint, 0) == SNLS_OK);
        add_records(ctx, &j, records, bytes, size);
        snls_journal_close(ctx, &j, false);
    }
    must(lseek(fd, 0, SEEK_END) >= 0);
    put(fd, bytes, size);
    const SnlsStatus status = snls_journal_open(ctx, &j, path, fingerprint, SNLS_JOURNAL_RESUME);
    must(status == SNLS_OK || (status == SNLS_ERR_ARG && records < 0 && snls_error(ctx)[0]));
    if (status == SNLS_OK && records >= 0) read_records(ctx, &j, records, bytes, size);
    snls_journal_close(ctx, &j, false);
    return 0;
}
