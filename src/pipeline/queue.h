/* queue.h: a bounded queue between two threads. */
#ifndef SNLS_PIPELINE_QUEUE_H
#define SNLS_PIPELINE_QUEUE_H

#include "pipeline/journal.h"
#include <pthread.h>
#include <snls/video.h>
#include <stdbool.h>

enum { SNLS_QUEUE_MAX = 72 };

typedef struct SnlsItem {
    SnlsFrame *frame;
    float *pixels; /* (H,W,C), one of a pool's; NULL: the frame is written as it is, or comes from the journal */
    int64_t number;
    double noise[SNLS_NOISE];
    bool cut, replay, has_flow; /* has_flow: (H,W,2) lies behind pixels */
} SnlsItem;

typedef struct SnlsQueue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    SnlsItem item[SNLS_QUEUE_MAX];
    int room, first, count;
    bool ended;   /* nothing more will be put; what is there can be taken */
    bool stopped; /* nothing can be put or taken */
} SnlsQueue;

void snls_queue_init(SnlsQueue *q, int room);
void snls_queue_free(SnlsQueue *q);
bool snls_queue_put(SnlsQueue *q,
                    const SnlsItem *item);          /* waits for room; false: stopped, the item is still the caller's */
bool snls_queue_take(SnlsQueue *q, SnlsItem *item); /* waits; false: stopped, or ended and empty */
void snls_queue_end(SnlsQueue *q);
void snls_queue_stop(SnlsQueue *q);

#endif
