/* train_log.h: what a training tells: JSON lines in a file, and a curve. */
#ifndef SNLS_CLI_TRAIN_LOG_H
#define SNLS_CLI_TRAIN_LOG_H

#include "cli.h"
#include <stdio.h>

typedef struct Point { double step, gain; } Point; /* gain: decibels above the noisy clips */

typedef struct TrainLog {
    FILE *file; /* NULL: none */
    const char *path;
    Point *points;
    int64_t count, room;
} TrainLog;

/* Opens the file for appending; what it holds already belongs to the curve. done: steps of a run that goes on, whose lines behind them are
 * cut off; -1: a run that begins. path may be NULL. */
int train_log_open(TrainLog *log, const char *path, int64_t done);
int train_log_step(TrainLog *log, const SnlsTrainReport *r, double seconds);
void train_log_close(TrainLog *log);

int train_curve(const TrainLog *log, const char *path); /* an SVG at path */

#endif
