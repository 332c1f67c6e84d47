/* checkpoint.h: the file that keeps the state of a training: looked at before the work, replaced whole. */
#ifndef SNLS_CLI_CHECKPOINT_H
#define SNLS_CLI_CHECKPOINT_H

#include "cli.h"

typedef struct Checkpoint { char *path, *part; } Checkpoint; /* NULL: none */

/* Finds out whether a checkpoint can be kept there. replace: one that is there may go. path may be NULL. */
int checkpoint_open(Checkpoint *c, const char *path, bool replace);
int checkpoint_save(const Checkpoint *c, SnlsContext *ctx, SnlsTrainer *trainer);
void checkpoint_close(Checkpoint *c);

#endif
