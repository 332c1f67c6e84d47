/* model.h: networks that denoise video: opened from a file of weights, run on windows of frames.
 *
 *   SnlsModel *model;
 *   if (snls_model_open(&model, ctx, "weights/stan-s.safetensors", NULL) < 0) puts(snls_error(ctx));
 *   SnlsModelRun run = { .frames = noisy, .out = clean, .count = T, .sigma = 20 };   // (T,H,W,3), f32, 0..255
 *   if (snls_model_run(model, &run) < 0) puts(snls_error(ctx));
 *   snls_model_close(&model);
 *
 * A file of weights is safetensors; its metadata name the architecture and tell where the weights come from. */
#ifndef SNLS_MODEL_H
#define SNLS_MODEL_H

#include <snls/context.h>
#include <snls/safetensors.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SnlsModel SnlsModel;

typedef struct SnlsModelParams {
    int32_t dtype;        /* of the values between layers: SNLS_F32, SNLS_BF16, or -1: bf16 where this processor multiplies matrices of them (-1). Backend ref has f32, whatever is asked for */
    int32_t flow;         /* SnlsFlowMethod where an architecture asks for flow (dis) */
    int32_t rows;         /* most rows of a frame that are worked on at a time, of the coarsest level in work; what comes out is the same but for the order of sums. 0: as fit a cache (0) */
    int32_t reserved[13]; /* zero */
} SnlsModelParams;

SNLS_API void snls_model_defaults(SnlsModelParams *params);

/* path: a file of weights, or a folder that holds those of an architecture made of several (dvdnet: dvdnet_spatial.safetensors
 * and dvdnet_temporal.safetensors). Names may be those of the authors' PyTorch programs; without an
 * architecture in the metadata the names tell it, but for stan-s. NULL params = defaults. Every tensor of the file must be one of
 * the architecture's, and of its shape. The model uses ctx until it is closed. On failure *out is NULL. SNLS_ERR_UNSUPPORTED: an architecture nobody knows. */
SNLS_API SnlsStatus snls_model_open(SnlsModel **out, SnlsContext *ctx, const char *path, const SnlsModelParams *params);
SNLS_API void       snls_model_close(SnlsModel **model); /* sets *model to NULL; NULL is allowed */

/* The architecture that snls_model_open would take a file for: by its metadata, else by the names of its tensors; NULL: none that is known. Static. */
SNLS_API const char *snls_model_architecture(const SnlsSafetensors *file);

typedef struct SnlsModelInfo {
    char    architecture[32]; /* "dvdnet" */
    int64_t parameters;       /* numbers that training finds; running means of batch norm are not */
    int32_t radius;           /* most frames on either side that a frame's result depends on; of stan, which mixes all frames of a window, those it searches */
    int32_t dtype;            /* SnlsDtype in use */
    int32_t reserved[8];      /* zero */
} SnlsModelInfo;
SNLS_API SnlsStatus snls_model_info(const SnlsModel *model, SnlsModelInfo *info);

/* Denoises frames first .. first+count-1 of a window. The others are what they are denoised with: give radius frames on either
 * side where the clip has them; what lies at the window's end is taken to be at the clip's. Both are in CPU memory, whatever the context's device. SNLS_ERR_ARG: a value is not
 * finite; SNLS_ERR_FORMAT: with these weights results are not. stan takes up to twelve frames whole and goes over longer ones in windows of twelve; a stream, which is what `snls denoise`
 * and `snls eval` go by, has shorter windows, and gives something else from seven frames on. */
typedef struct SnlsModelRun {
    SnlsTensor frames;       /* in  (T,H,W,3), f32, contiguous, 0..255, neither clipped nor rounded */
    SnlsTensor out;          /* out (count,H,W,3), f32, contiguous, apart from frames; not clipped unless the architecture does */
    int64_t    first, count;
    double     sigma;        /* standard deviation of the noise, 0..255 */
} SnlsModelRun;
SNLS_API SnlsStatus snls_model_run(SnlsModel *model, const SnlsModelRun *run);

/* Frame after frame: what is pushed comes out denoised, in order and after a delay, in memory that does not grow with the clip. */
typedef struct SnlsModelStream SnlsModelStream;

typedef struct SnlsModelStreamParams {
    int64_t height, width;
    int32_t lean;         /* 1: what would take much memory to keep is computed again, the same to the bit (0) */
    int32_t reserved[11]; /* zero */
} SnlsModelStreamParams;

/* The stream uses the model until it is closed. On failure *out is NULL. */
SNLS_API SnlsStatus snls_model_stream_open(SnlsModelStream **out, SnlsModel *model, const SnlsModelStreamParams *params);
SNLS_API void       snls_model_stream_close(SnlsModelStream **stream); /* sets *stream to NULL; NULL is allowed */

#define SNLS_MODEL_PERIOD 8 /* a stream that begins on a frame whose number in its scene is a multiple of this gives, after its delay, what one that began with the scene does */

/* push takes a copy of a frame (H,W,3), f32, 0..255, and after each one pull is to be called until it has nothing ready, SNLS_END. finish: the scene ends
 * here; when all of it is pulled, the next push begins another. SNLS_ERR_ARG, and nothing is taken: a value is not finite. What fails for want of memory may be called
 * again: a failed push has taken nothing, the next one may give another frame; a failed pull gives the same frame the next time; a failed finish is to be repeated before
 * anything else is pushed. sigma is that of the frame; of networks that run on windows of frames, which are all but stan-s on backend cpu, the last one above 0 that was given in the
 * scene is that of the window. With sigma 0 a frame goes through the network like any other, told that there is no noise; what that makes of it is the frame as it came of stan-s, which changes
 * no number by more than four times sigma, but not of others (pipelines, and snls.Model of Python, copy such frames, and are given them as neighbours). */
SNLS_API SnlsStatus snls_model_stream_push(SnlsModelStream *stream, const float *frame, double sigma);
SNLS_API SnlsStatus snls_model_stream_finish(SnlsModelStream *stream);
SNLS_API SnlsStatus snls_model_stream_pull(SnlsModelStream *stream, float *frame); /* SNLS_OK: a frame; SNLS_END: none is ready; SNLS_ERR_FORMAT: with these weights it is not finite */
SNLS_API int64_t    snls_model_stream_delay(const SnlsModelStream *stream);        /* most frames between a frame's push and its pull, itself included */
/* Bytes that a stream will hold, weights and what libraries keep for themselves not counted; known without taking them. -1: a size that cannot be. */
SNLS_API int64_t    snls_model_stream_memory(SnlsModel *model, const SnlsModelStreamParams *params);

#ifdef __cplusplus
}
#endif
#endif
