/* progress.h: how far a long command is: a bar on a terminal, a line now and then elsewhere, FFmpeg's key=value for programs. */
#ifndef SNLS_CLI_PROGRESS_H
#define SNLS_CLI_PROGRESS_H

#include "cli.h"

typedef struct Progress {
    int64_t total;   /* frames; -1: not known */
    int64_t resumed; /* of them done before this run */
    double rate;     /* frames a second of the clip; 0: none */
    bool quiet, bar;
    int machine; /* descriptor for key=value lines; -1: none */
    bool owns;   /* machine is a file of ours */
    const char *to; /* what the command line calls it; NULL: nowhere */
    int flags;      /* that a file is opened with */
    double start, shown, told;
    int64_t frames;
} Progress;

/* Refuses (line printed) a place that is standard output, where another output, which other words name, is there already. */
int progress_spares_stdout(const char *to, const char *other);

/* to: a descriptor's number, a file name or - for standard output, NULL for none. Refuses (line printed) a number that is no open descriptor:
 * to be asked before any file is opened, which might get that number. */
int progress_check(const char *to);

/* Refuses (line printed) a file that is an input, another output or a picture of pattern (NULL: there are none), or that exists, without overwrite; a run that
 * goes on adds to it. When inputs and outputs are known; nothing is opened yet. */
int progress_place(Progress *p, const char *to, const char *pattern, bool overwrite, bool goes_on);

int progress_begin(Progress *p, int64_t total, double rate, bool quiet);
void progress_frame(Progress *p, int64_t frames);
void progress_end(Progress *p, bool good);

#endif
