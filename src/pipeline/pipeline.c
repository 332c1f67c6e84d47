/* pipeline.c: three threads with bounded queues between them: read and look for cuts; denoise (the caller's thread); write. */
#include "base/network.h"
#include "base/options.h"
#include "pipeline/cuts.h"
#include "pipeline/journal.h"
#include "pipeline/queue.h"
#include "pipeline/stage.h"
#include "video/kind.h" /* the contexts of reader and writer */
#include <snls/pipeline.h>
#include <stdio.h>
#include <string.h>

enum { POOL_EXTRA = 2 }; /* buffers beyond a queue: one in work on either side */

typedef struct Run {
    const SnlsPipeline *job;
    SnlsVideoInfo info;
    int64_t frame_floats, buffer_floats; /* of pixels; with room for flow behind them */
    SnlsStage stage;
    bool copies;       /* frames go through as they are */
    SnlsContext local; /* allocator and error of the journal */
    SnlsJournal journal;
    SnlsQueue decoded, finished, free_in, free_out;
    float *memory;
    pthread_mutex_t lock; /* of what follows */
    SnlsStatus status;
    SnlsPipelineResult *result;
    int64_t with_noise; /* frames that result->sigma is the mean of */
} Run;

void snls_pipeline_defaults(SnlsPipelineParams *params)
{
    if (params) *params = (SnlsPipelineParams){ .queue = 2, .find_cuts = 1 };
}

/* The first failure is the cause; everybody stops. */
static void fail_run(Run *r, SnlsStatus status, const char *sentence, bool writing)
{
    pthread_mutex_lock(&r->lock);
    if (r->status >= 0) {
        r->status = status;
        r->result->writing = writing;
        snprintf(r->result->error, sizeof r->result->error, "%s",
                 sentence && *sentence ? sentence : snls_status_text(status));
    }
    pthread_mutex_unlock(&r->lock);
    SnlsQueue *const all[] = { &r->decoded, &r->finished, &r->free_in, &r->free_out };
    for (int i = 0; i < 4; i++) snls_queue_stop(all[i]);
}

static SnlsContext *reader_context(const Run *r) { return r->job->reader->ctx; }
static SnlsContext *writer_context(const Run *r) { return r->job->writer->ctx; }

static bool going_well(Run *r)
{
    pthread_mutex_lock(&r->lock);
    const bool good = r->status >= 0;
    pthread_mutex_unlock(&r->lock);
    return good;
}

static void drop(SnlsQueue *pool, SnlsItem *item)
{
    snls_frame_free(&item->frame);
    if (item->pixels && pool) snls_queue_put(pool, &(SnlsItem){ .pixels = item->pixels });
    item->pixels = NULL;
}

/* A frame has no context to say why: it is told to that of the stage. */
static SnlsStatus read_pixels(SnlsContext *ctx, const SnlsFrame *frame, float *pixels)
{
    const SnlsStatus status = snls_frame_read(frame, pixels);
    return status < 0 ? snls_fail(ctx, status, "pipeline: out of memory for the pixels of a frame") : SNLS_OK;
}

/* ---- reading ---- */

static void *read_frames(void *opaque)
{
    Run *r = opaque;
    SnlsCuts cuts = { 0 };
    for (int64_t number = 0;; number++) {
        SnlsItem item = { 0 };
        SnlsStatus status = SNLS_OK;
        if (!r->copies && !snls_queue_take(&r->free_in, &item)) break;
        item.number = number;
        status = snls_reader_next(r->job->reader, &item.frame);
        if (status == SNLS_OK && item.pixels) {
            status = read_pixels(reader_context(r), item.frame, item.pixels);
            item.cut = status == SNLS_OK && r->job->params.find_cuts &&
                       snls_cuts_next(&cuts, item.pixels, r->info.height, r->info.width, r->info.channels);
        }
        if (status != SNLS_OK) {
            snls_frame_free(&item.frame);
            if (status < 0) fail_run(r, status, snls_error(reader_context(r)), false);
            break;
        }
        if (!snls_queue_put(&r->decoded, &item)) {
            snls_frame_free(&item.frame);
            break;
        }
    }
    snls_queue_end(&r->decoded);
    return NULL;
}

/* ---- denoising ---- */

typedef struct Pending { /* frames that were pushed and not yet pulled */
    SnlsItem *item;
    int64_t first, count, room;
    int64_t scene; /* where the scene in work begins */
    int64_t begin;  /* the first frame that the denoiser sees; -1: not yet */
    int64_t warm;   /* frames that it must see before those that count */
    int64_t period; /* frames of a scene between those that it may begin on */
} Pending;

/* A frame in which a network has nothing to do comes out as it came: it is still here. */
static bool restore_quiet(Run *r, const SnlsItem *item)
{
    const SnlsStatus status = snls_stage_quiet(&r->stage) ? read_pixels(r->job->ctx, item->frame, item->pixels) : SNLS_OK;
    if (status < 0) fail_run(r, status, snls_error(r->job->ctx), false);
    return status >= 0;
}

static bool pull_all(Run *r, Pending *p)
{
    for (;;) {
        SnlsItem buffer;
        if (!snls_queue_take(&r->free_out, &buffer)) return false;
        const SnlsStatus status = snls_stage_pull(&r->stage, buffer.pixels);
        if (status != SNLS_OK) {
            snls_queue_put(&r->free_out, &buffer);
            if (status < 0) fail_run(r, status, snls_error(r->job->ctx), false);
            return status >= 0;
        }
        SnlsItem item = p->item[p->first];
        p->first = (p->first + 1) % p->room;
        p->count--;
        if (!item.frame) { /* only there for its neighbours: it is in the journal */
            snls_queue_put(&r->free_out, &buffer);
            continue;
        }
        item.pixels = buffer.pixels;
        if (r->job->params.watch) item.has_flow = snls_stage_flow(&r->stage, item.pixels + r->frame_floats);
        snls_stage_noise(&r->stage, item.noise);
        if (!restore_quiet(r, &item) || !snls_queue_put(&r->finished, &item)) {
            snls_frame_free(&item.frame);
            return false;
        }
    }
}

static bool remember(Run *r, Pending *p, const SnlsItem *item)
{
    if (p->count == p->room) { /* it would not be known which frame comes out next */
        fail_run(r, SNLS_ERR_ARG, "pipeline: the denoiser holds more frames than its delay", false);
        return false;
    }
    p->item[(p->first + p->count++) % p->room] = *item;
    return true;
}

/* Has the denoiser begun by this frame? On the last one from which it comes to the state it had before the journal ends. */
static bool begins(const Run *r, Pending *p, const SnlsItem *item)
{
    if (item->cut) p->scene = item->number;
    if (p->begin < 0 && (item->number - p->scene) % p->period == 0 &&
        item->number + p->warm + p->period > r->journal.frames)
        p->begin = item->number;
    return p->begin >= 0;
}

/* One decoded frame: replayed from the journal, or through the denoiser, or both where it is a neighbour of later ones. */
static bool pass_on(Run *r, Pending *p, SnlsItem *item)
{
    SnlsItem ahead = *item;
    ahead.pixels = NULL;
    if (item->cut) r->result->cuts++;
    const bool replay = item->number < r->journal.frames;
    if (r->copies || replay) {
        ahead.replay = replay;
        if (!snls_queue_put(&r->finished, &ahead)) return false;
        item->frame = ahead.frame = NULL;
    }
    if (r->copies || !begins(r, p, item)) return true;
    if (!remember(r, p, &ahead)) return false;
    item->frame = NULL; /* the list's from here on */
    const SnlsStatus status = snls_stage_push(&r->stage, item->pixels, item->cut && item->number > p->begin);
    if (status < 0) return fail_run(r, status, snls_error(r->job->ctx), false), false;
    snls_queue_put(&r->free_in, &(SnlsItem){ .pixels = item->pixels });
    item->pixels = NULL;
    return pull_all(r, p);
}

static void denoise_frames(Run *r)
{
    const int64_t delay = r->copies ? 0 : snls_stage_delay(&r->stage);
    const int64_t period = r->copies ? 1 : snls_stage_period(&r->stage);
    Pending p = { .room = delay + 64, .begin = -1, .warm = delay + (r->job->model ? 0 : period), .period = period };
    p.item = snls_mem_alloc(&r->job->ctx->allocator, p.room * (int64_t)sizeof *p.item);
    if (!p.item) fail_run(r, SNLS_ERR_MEMORY, "pipeline: out of memory", false);
    SnlsItem item;
    while (p.item && snls_queue_take(&r->decoded, &item)) {
        const bool good = pass_on(r, &p, &item);
        if (!good) {
            snls_frame_free(&item.frame);
            break;
        }
        if (item.pixels) snls_queue_put(&r->free_in, &(SnlsItem){ .pixels = item.pixels });
    }
    if (!r->copies && going_well(r)) {
        const SnlsStatus status = snls_stage_finish(&r->stage);
        if (status < 0) fail_run(r, status, snls_error(r->job->ctx), false);
        else pull_all(r, &p);
    }
    for (; p.item && p.count; p.count--, p.first = (p.first + 1) % p.room) snls_frame_free(&p.item[p.first].frame);
    snls_mem_free(&r->job->ctx->allocator, p.item);
    snls_queue_end(&r->finished);
}

/* ---- writing ---- */

static SnlsStatus from_journal(Run *r, const SnlsItem *item, SnlsFrame **made)
{
    int64_t size;
    const SnlsStatus status = snls_journal_read(&r->local, &r->journal, &size);
    if (status < 0) return snls_fail(writer_context(r), status, "%s", r->local.error);
    return snls_writer_unpack(r->job->writer, item->frame, r->journal.bytes, size, made);
}

static void to_journal(Run *r, const SnlsFrame *made, const double noise[SNLS_NOISE])
{
    const int64_t size = snls_frame_bytes(made);
    if (r->journal.fd < 0 || r->journal.failed || !snls_journal_room(&r->local, &r->journal, size)) return;
    snls_frame_pack(made, r->journal.bytes);
    snls_journal_add(&r->journal, size, noise);
}

/* What came out as the watcher sees it: of a finished frame, so that rounding is in it. */
static SnlsStatus show(Run *r, const SnlsItem *item, const SnlsFrame *made, float *scratch)
{
    const SnlsPipelineFrame frame = { .number = item->number,
                                      .time = snls_frame_time(item->frame),
                                      .cut = item->cut,
                                      .resumed = item->replay,
                                      .before = scratch,
                                      .after = scratch + r->frame_floats,
                                      .flow = item->has_flow ? item->pixels + r->frame_floats : NULL };
    SnlsVideoInfo out;
    snls_writer_info(r->job->writer, &out);
    SNLS_TRY(read_pixels(writer_context(r), item->frame, scratch));
    if (out.channels == r->info.channels && made) SNLS_TRY(read_pixels(writer_context(r), made, scratch + r->frame_floats));
    else
        memcpy(scratch + r->frame_floats, item->pixels ? item->pixels : scratch,
               (size_t)r->frame_floats * sizeof(float));
    const SnlsStatus status = r->job->params.watch(r->job->params.opaque, &frame);
    return status < 0 ? snls_fail(writer_context(r), status, "pipeline: the watcher has stopped the run") : SNLS_OK;
}

/* The noise of one more frame into the means and bounds. */
static void tell_noise(Run *r, const double noise[SNLS_NOISE])
{
    SnlsPipelineResult *result = r->result;
    const double mean = (noise[0] + noise[1] + noise[2]) / 3;
    bool estimated = false;
    for (int c = 0; c < r->info.channels && c < 3; c++) estimated |= r->job->denoise->sigma[c] < 0;
    if (estimated && noise[0] < SNLS_NO_NOISE && noise[1] < SNLS_NO_NOISE && noise[2] < SNLS_NO_NOISE) {
        result->quiet++;
        return;
    }
    const double n = (double)++r->with_noise;
    for (int i = 0; i < 3; i++) result->sigma[i] += (noise[i] - result->sigma[i]) / n;
    for (int i = 0; i < 3; i++) result->noise[i] += (noise[3 + i] - result->noise[i]) / n;
    if (n == 1 || mean < result->sigma_least) result->sigma_least = mean;
    if (n == 1 || mean > result->sigma_most) result->sigma_most = mean;
}

static SnlsStatus write_item(Run *r, const SnlsItem *item, float *scratch)
{
    SnlsFrame *made = NULL;
    SnlsStatus status = SNLS_OK;
    if (item->replay) status = from_journal(r, item, &made);
    else if (item->pixels) status = snls_writer_make(r->job->writer, item->frame, item->pixels, &made);
    if (status >= 0) status = snls_writer_write(r->job->writer, made ? made : item->frame);
    if (status >= 0 && made && !item->replay) to_journal(r, made, item->noise);
    if (status >= 0 && scratch) status = show(r, item, made ? made : item->frame, scratch);
    snls_frame_free(&made);
    if (status < 0) return status;
    r->result->frames++;
    r->result->resumed += item->replay;
    if (item->pixels) tell_noise(r, item->noise);
    else if (item->replay && !r->copies) tell_noise(r, r->journal.noise);
    if (r->job->params.progress) r->job->params.progress(r->job->params.opaque, r->result->frames);
    return SNLS_OK;
}

static void *write_frames(void *opaque)
{
    Run *r = opaque;
    SnlsItem item;
    SnlsStatus status = SNLS_OK;
    const SnlsAllocator *a = &r->local.allocator;
    float *scratch = r->job->params.watch ? snls_mem_alloc(a, 2 * r->frame_floats * (int64_t)sizeof(float)) : NULL;
    if (r->job->params.watch && !scratch) fail_run(r, SNLS_ERR_MEMORY, "pipeline: out of memory for a frame", false);
    while (status >= 0 && snls_queue_take(&r->finished, &item)) {
        status = write_item(r, &item, scratch);
        if (status < 0) fail_run(r, status, snls_error(writer_context(r)), true);
        drop(&r->free_out, &item);
    }
    snls_mem_free(a, scratch);
    if (!going_well(r)) return NULL;
    status = snls_writer_finish(r->job->writer);
    if (status < 0) fail_run(r, status, snls_error(writer_context(r)), true);
    return NULL;
}

/* ---- the run ---- */

/* Of grey only the first sigma counts, whatever the others are. */
static bool is_copy(const SnlsDenoiseParams *d, int64_t channels)
{
    bool all = true;
    for (int64_t c = 0; d && c < channels && c < 3; c++) all &= d->sigma[c] == 0;
    return all;
}

static SnlsStatus open_denoiser(Run *r)
{
    const SnlsPipeline *job = r->job;
    r->copies = is_copy(job->denoise, r->info.channels);
    if (r->copies) return SNLS_OK;
    return snls_stage_open(&r->stage, job->ctx, job->denoise, job->model, job->params.lean != 0, r->info.height, r->info.width, r->info.channels);
}

/* Buffers of both pools in one block. */
static SnlsStatus fill_pools(Run *r)
{
    const int count = r->job->params.queue + POOL_EXTRA;
    if (r->copies) return SNLS_OK;
    const int64_t pixels = r->frame_floats, both = r->buffer_floats;
    r->memory = snls_mem_alloc(&r->local.allocator, count * (pixels + both) * (int64_t)sizeof(float));
    SNLS_REQUIRE(r->job->ctx, r->memory, SNLS_ERR_MEMORY, "pipeline: out of memory for %d frames", 2 * count);
    for (int i = 0; i < count; i++) {
        snls_queue_put(&r->free_in, &(SnlsItem){ .pixels = r->memory + i * pixels });
        snls_queue_put(&r->free_out, &(SnlsItem){ .pixels = r->memory + count * pixels + i * both });
    }
    return SNLS_OK;
}

static SnlsStatus prepare(Run *r)
{
    const SnlsPipelineParams *p = &r->job->params;
    if (p->journal) {
        const int how = (p->resume ? SNLS_JOURNAL_RESUME : 0) | (p->overwrite_journal ? SNLS_JOURNAL_OVERWRITE : 0);
        const SnlsStatus status = snls_journal_open(&r->local, &r->journal, p->journal, p->fingerprint ? p->fingerprint : "", how);
        if (status < 0) return snls_fail(r->job->ctx, status, "%s", r->local.error);
    }
    SNLS_TRY(open_denoiser(r));
    return fill_pools(r);
}

static void run_threads(Run *r)
{
    pthread_t reading, writing;
    if (pthread_create(&reading, NULL, read_frames, r)) {
        fail_run(r, SNLS_ERR_MEMORY, "pipeline: no thread can be started", false);
        return;
    }
    if (pthread_create(&writing, NULL, write_frames, r)) {
        fail_run(r, SNLS_ERR_MEMORY, "pipeline: no thread can be started", false);
        pthread_join(reading, NULL);
        return;
    }
    denoise_frames(r);
    pthread_join(reading, NULL);
    pthread_join(writing, NULL);
}

static void drop_rest(SnlsQueue *q)
{
    for (; q->count; q->count--, q->first = (q->first + 1) % SNLS_QUEUE_MAX) snls_frame_free(&q->item[q->first].frame);
    snls_queue_free(q);
}

static SnlsStatus check_job(SnlsContext *ctx, const SnlsPipeline *job, const SnlsPipelineResult *result)
{
    SNLS_REQUIRE(ctx, job && result && job->ctx && job->reader && job->writer, SNLS_ERR_ARG,
                 "pipeline: the %s is missing (NULL)", !job ? "pipeline" : !result ? "result" : !job->ctx ? "context" : !job->reader ? "reader" : "writer");
    SNLS_REQUIRE(ctx, job->params.queue >= 1 && job->params.queue <= 64, SNLS_ERR_ARG,
                 "pipeline: queue is %d, must be 1 to 64 (call snls_pipeline_defaults first)", (int)job->params.queue);
    SNLS_TRY(snls_flag_check(ctx, "pipeline", "find_cuts", job->params.find_cuts));
    SNLS_TRY(snls_flag_check(ctx, "pipeline", "resume", job->params.resume));
    SNLS_TRY(snls_flag_check(ctx, "pipeline", "lean", job->params.lean));
    SNLS_TRY(snls_flag_check(ctx, "pipeline", "keep_journal", job->params.keep_journal));
    SNLS_TRY(snls_flag_check(ctx, "pipeline", "overwrite_journal", job->params.overwrite_journal));
    SNLS_REQUIRE(ctx, !job->params.journal || *job->params.journal, SNLS_ERR_ARG,
                 "pipeline: the path of the journal is empty, must be NULL for none");
    SNLS_TRY(snls_reserved_check(ctx, "pipeline", "snls_pipeline_defaults", job->params.reserved, sizeof job->params.reserved / sizeof *job->params.reserved));
    SNLS_REQUIRE(ctx, job->ctx != job->reader->ctx && job->ctx != job->writer->ctx && job->reader->ctx != job->writer->ctx, SNLS_ERR_ARG,
                 "pipeline: reader, writer and denoiser need a context each");
    SNLS_REQUIRE(ctx, !job->model || snls_model_context(job->model) == job->ctx, SNLS_ERR_ARG, "pipeline: the network was opened with another context than the run's, which may be at work elsewhere");
    SNLS_REQUIRE(ctx, !job->reader->lost, SNLS_ERR_ARG, "pipeline: the reader was in a run that failed, and frames that it had read are gone; open it and the writer again");
    const SnlsVideoInfo *from = &job->reader->info, *to = &job->writer->info;
    SNLS_REQUIRE(ctx, from->width == to->width && from->height == to->height, SNLS_ERR_ARG, "pipeline: the writer was opened for another reader, whose frames are %lldx%lld, not %lldx%lld", (long long)to->width,
                 (long long)to->height, (long long)from->width, (long long)from->height);
    SNLS_REQUIRE(ctx, !job->writer->finished, SNLS_ERR_ARG, "pipeline: the writer is finished already, which a run does at its end");
    return SNLS_OK;
}

/* Frames that were on their way are gone: neither end can be gone on with, and the output is not complete. */
static void spoil(const Run *r, int64_t given)
{
    if (r->status >= 0 || r->job->reader->given == given) return;
    r->job->reader->lost = true;
    if (r->job->writer->failed >= 0) r->job->writer->failed = r->status;
}

SnlsStatus snls_pipeline_run(const SnlsPipeline *job, SnlsPipelineResult *result)
{
    SnlsContext none = { 0 }, *said = job && job->ctx ? job->ctx : &none;
    if (result) *result = (SnlsPipelineResult){ 0 };
    const SnlsStatus good = check_job(said, job, result);
    if (good < 0 && result) snprintf(result->error, sizeof result->error, "%s", said->error);
    if (good < 0) return good;
    Run r = { .job = job, .result = result, .journal = { .fd = -1 }, .local = { .allocator = job->ctx->allocator } };
    snls_reader_info(job->reader, &r.info);
    r.frame_floats = r.info.height * r.info.width * r.info.channels;
    r.buffer_floats = r.frame_floats + (job->params.watch ? 2 * r.info.height * r.info.width : 0);
    pthread_mutex_init(&r.lock, NULL);
    SnlsQueue *const all[] = { &r.decoded, &r.finished, &r.free_in, &r.free_out };
    for (int i = 0; i < 4; i++) snls_queue_init(all[i], i < 2 ? job->params.queue : SNLS_QUEUE_MAX);
    const int64_t given = job->reader->given;
    const SnlsStatus status = prepare(&r);
    if (status < 0) fail_run(&r, status, snls_error(job->ctx), status == SNLS_ERR_IO);
    else run_threads(&r);
    spoil(&r, given);
    for (int i = 0; i < 4; i++) drop_rest(all[i]);
    snls_stage_close(&r.stage);
    const bool kept = r.status >= 0 ? job->params.keep_journal : result->writing && result->frames;
    snls_journal_close(&r.local, &r.journal, status < 0 ? r.journal.begun : !kept);
    snls_mem_free(&r.local.allocator, r.memory);
    pthread_mutex_destroy(&r.lock);
    return r.status;
}

enum { MOST_EACH = 4096 }; /* bytes for a pixel, of all buffers below together with 64 frames in queues: less */

/* Sizes that are ones, and whose bytes can be counted. */
static bool is_possible(const SnlsPipelineParams *params, const SnlsVideoInfo *in, int64_t *pixels)
{
    return in->width >= 1 && in->height >= 1 && snls_mul_size(in->width, in->height, pixels) && *pixels <= INT64_MAX / 2 / MOST_EACH &&
           (in->channels == 1 || in->channels == 3) && params->queue >= 1 && params->queue <= 64;
}

int64_t snls_pipeline_memory(const SnlsPipelineParams *params, const SnlsVideoInfo *in,
                             const SnlsDenoiseParams *denoise, SnlsModel *model, int32_t threads)
{
    int64_t pixels = 0;
    if (!params || !in || !is_possible(params, in, &pixels)) return -1;
    const int64_t frame = pixels * in->channels * (in->depth > 8 ? 2 : 1),
                  buffers = params->queue + POOL_EXTRA;
    const int64_t floats = pixels * in->channels * (int64_t)sizeof(float), watch = params->watch ? 2 * floats : 0;
    if (is_copy(denoise, in->channels)) return (2 * params->queue + 3) * frame + watch;
    const int64_t held = model ? snls_stage_model_memory(model, params->lean != 0, in->height, in->width)
                               : snls_denoiser_memory(denoise, in->height, in->width, in->channels, threads);
    if (held < 0) return -1;
    const int64_t flow = params->watch ? 2 * pixels * (int64_t)sizeof(float) : 0;
    return held + buffers * (2 * floats + flow) + (2 * params->queue + 24) * frame + watch;
}
