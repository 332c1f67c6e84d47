/* journal.h: finished frames in a file beside the output, so that a run that was stopped can go on. A record is written as
 * a whole or, after a crash, recognised as cut off by its check sum. */
#ifndef SNLS_PIPELINE_JOURNAL_H
#define SNLS_PIPELINE_JOURNAL_H

#include "base/context.h"
#include <stdbool.h>

enum { SNLS_NOISE = 6 }; /* numbers that tell the noise: sigma of red, green and blue, then of the channels that are filtered */

typedef struct SnlsJournal {
    int fd;
    const char *path;
    int64_t frames;  /* whole records when it was opened */
    int64_t end;     /* bytes of them */
    int64_t at;      /* where the next record is read */
    double noise[SNLS_NOISE]; /* of the record that was read last */
    void *bytes;     /* room for one frame */
    int64_t room;
    bool begun;  /* by this run: nobody else's frames are in it */
    bool failed; /* no room on the disk: goes on without a journal */
} SnlsJournal;

enum { SNLS_JOURNAL_RESUME = 1, SNLS_JOURNAL_OVERWRITE = 2 };

/* Creates it, or with RESUME goes on with one that is there; SNLS_ERR_ARG where its fingerprint is another. A file that is no journal is somebody's own:
 * SNLS_ERR_IO, unless OVERWRITE is given. */
SnlsStatus snls_journal_open(SnlsContext *ctx, SnlsJournal *j, const char *path, const char *fingerprint, int how);
/* The next record, in order, as j->bytes. */
SnlsStatus snls_journal_read(SnlsContext *ctx, SnlsJournal *j, int64_t *size);
void *snls_journal_room(SnlsContext *ctx, SnlsJournal *j, int64_t size); /* NULL: no memory */
void snls_journal_add(SnlsJournal *j, int64_t size,
                      const double noise[SNLS_NOISE]); /* of j->bytes; sets failed where it cannot */
void snls_journal_close(SnlsContext *ctx, SnlsJournal *j, bool remove);

#endif
