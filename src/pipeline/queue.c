/* queue.c: the bounded queue. */
#include "pipeline/queue.h"
#include <string.h>

void snls_queue_init(SnlsQueue *q, int room)
{
    memset(q, 0, sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->room = room < SNLS_QUEUE_MAX ? room : SNLS_QUEUE_MAX;
}

void snls_queue_free(SnlsQueue *q)
{
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
}

bool snls_queue_put(SnlsQueue *q, const SnlsItem *item)
{
    pthread_mutex_lock(&q->lock);
    while (q->count == q->room && !q->stopped) pthread_cond_wait(&q->changed, &q->lock);
    const bool good = !q->stopped;
    if (good) q->item[(q->first + q->count++) % SNLS_QUEUE_MAX] = *item;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return good;
}

bool snls_queue_take(SnlsQueue *q, SnlsItem *item)
{
    pthread_mutex_lock(&q->lock);
    while (!q->count && !q->ended && !q->stopped) pthread_cond_wait(&q->changed, &q->lock);
    const bool good = q->count && !q->stopped;
    if (good) {
        *item = q->item[q->first];
        q->first = (q->first + 1) % SNLS_QUEUE_MAX;
        q->count--;
    }
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return good;
}

static void mark(SnlsQueue *q, bool *flag)
{
    pthread_mutex_lock(&q->lock);
    *flag = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void snls_queue_end(SnlsQueue *q) { mark(q, &q->ended); }
void snls_queue_stop(SnlsQueue *q) { mark(q, &q->stopped); }
