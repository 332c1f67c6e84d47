/* train.h: training of STAN-S: clean clips in, noise made here, weights out.
 *
 *   SnlsTrainParams p;
 *   snls_train_defaults(&p);
 *   SnlsTrainer *t;
 *   if (snls_trainer_open(&t, ctx, &p) < 0) puts(snls_error(ctx));
 *   snls_trainer_add_clip(t, &clip);                          // (T,H,W,3), as many as there are
 *   SnlsTrainReport r;
 *   while (snls_trainer_step(t, &r) == SNLS_OK) printf("%lld %g\n", (long long)r.step, r.loss);
 *   snls_trainer_export(t, "small.safetensors", NULL, 0);     // what snls_model_open takes
 *   snls_trainer_close(&t);
 *
 * Every random choice is a function of seed and step, and a checkpoint holds all else to the last bit: a run that is resumed from one
 * equals a run that was never stopped (same machine, same number of threads). */
#ifndef SNLS_TRAIN_H
#define SNLS_TRAIN_H

#include <snls/context.h>
#include <snls/options.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum SnlsTrainLoss { SNLS_LOSS_CHARBONNIER = 0, SNLS_LOSS_L1 = 1, SNLS_LOSS_MSE = 2 } SnlsTrainLoss;
typedef enum SnlsTrainStore { SNLS_STORE_F32 = 0, SNLS_STORE_F16 = 1 } SnlsTrainStore;
typedef enum SnlsTrainPrecision { SNLS_TRAIN_AUTO = 0, SNLS_TRAIN_F32 = 1, SNLS_TRAIN_BF16 = 2 } SnlsTrainPrecision;

typedef struct SnlsTrainParams {
    int32_t width;        /* channels of the upper level; 2 and 4 times as many below (32) */
    int32_t blocks;       /* of the lowest level, each with a fusion of frames (4) */
    int32_t ws, wt;       /* search of the fusion: window, temporal radius; wt 0: a network of single frames (13, 2) */
    int32_t batch;        /* clips of a step (8) */
    int32_t frames;       /* of a clip, at least 2*wt+1 (7) */
    int32_t crop;         /* side of the part of a frame that is used, a multiple of 4 (128) */
    int32_t steps;        /* of the whole run (20000) */
    int32_t warmup;       /* steps until the full rate (500) */
    int32_t loss;         /* SnlsTrainLoss (charbonnier) */
    int32_t seed;         /* of every random choice (1) */
    int32_t store;        /* SnlsTrainStore: element type of exported weights (f32) */
    int32_t precision;    /* SnlsTrainPrecision: of the values between layers; weights and their gradients are f32 always (auto: bf16 on a GPU) */
    double  rate, rate_end;       /* learning rate, and where its cosine ends (4e-4, 1e-6) */
    double  beta1, beta2, decay;  /* AdamW: of the means, of the weights (0.9, 0.99, 1e-4) */
    double  clip;                 /* largest norm of a gradient (1) */
    double  ema;                  /* mean of the weights that is exported (0.999) */
    double  sigma_low, sigma_high;/* standard deviation of the noise: drawn evenly for each clip (0, 55) */
    int32_t reserved[16];         /* zero */
} SnlsTrainParams;

SNLS_API void snls_train_defaults(SnlsTrainParams *params);
SNLS_API const SnlsOption *snls_train_options(void); /* static */

typedef struct SnlsTrainer SnlsTrainer;

/* The trainer uses ctx until it is closed. On failure *out is NULL. */
SNLS_API SnlsStatus snls_trainer_open(SnlsTrainer **out, SnlsContext *ctx, const SnlsTrainParams *params);
/* From a checkpoint: parameters, weights and step are those of when it was saved; clips must be added again, in the same order. */
SNLS_API SnlsStatus snls_trainer_resume(SnlsTrainer **out, SnlsContext *ctx, const char *path);
/* A run that goes on may get other steps (no fewer than are done; the cosine of the rate becomes that of the new number) and another
 * store. SNLS_ERR_ARG, and nothing is changed: another field is not as the run began. */
SNLS_API SnlsStatus snls_trainer_change(SnlsTrainer *trainer, const SnlsTrainParams *params);
SNLS_API void       snls_trainer_close(SnlsTrainer **trainer); /* sets *trainer to NULL; NULL is allowed */

/* Weights to begin with, of a file that snls_trainer_export made for a network of the same options; the optimiser begins anew. */
SNLS_API SnlsStatus snls_trainer_load(SnlsTrainer *trainer, const char *path);

/* Takes a copy, rounded to whole numbers 0..255. clip: (T,H,W,3), f32 or u8, contiguous, with at least params.frames frames of
 * params.crop pixels a side, in CPU memory, finite. */
SNLS_API SnlsStatus snls_trainer_add_clip(SnlsTrainer *trainer, const SnlsTensor *clip);
/* After a resume, when all clips are there: SNLS_ERR_ARG where they are not those of the checkpoint, or in another order; with others a run
 * can go on, but ends elsewhere. SNLS_OK too where the checkpoint does not tell. */
SNLS_API SnlsStatus snls_trainer_same_clips(SnlsTrainer *trainer);
/* After a resume: SNLS_ERR_ARG where the checkpoint was saved by another backend, or by another number of threads on a processor: their sums may
 * differ in the last bits, and with them what the run comes to. SNLS_OK too where the checkpoint does not tell. */
SNLS_API SnlsStatus snls_trainer_same_place(SnlsTrainer *trainer);

/* What started the run, or made it go on, UTF-8: checkpoints keep it, and exported weights tell it in their metadata: as "command" that of a run
 * that began, as "resume 1", "resume 2", ... those that went on, with the step they began at. A text of these names that an export is given replaces it.
 * SNLS_ERR_ARG: no UTF-8. */
SNLS_API SnlsStatus snls_trainer_command(SnlsTrainer *trainer, const char *command);

typedef struct SnlsTrainReport {
    int64_t step;                       /* done so far */
    double  loss, psnr, psnr_noisy;     /* of this step's clips; PSNR of all of them together, not clipped */
    double  rate, norm;                 /* learning rate; norm of the gradient before it was clipped */
    double  reserved[4];                /* zero */
} SnlsTrainReport;

/* One step. SNLS_END: all steps are done. A loss that is not finite is SNLS_ERR_ARG, and the weights are as before. With report NULL a GPU
 * is not waited for, and what went wrong shows in a later report. */
SNLS_API SnlsStatus snls_trainer_step(SnlsTrainer *trainer, SnlsTrainReport *report);

SNLS_API int64_t    snls_trainer_done(const SnlsTrainer *trainer);       /* steps */
SNLS_API int64_t    snls_trainer_parameters(const SnlsTrainer *trainer); /* how many */
SNLS_API SnlsStatus snls_trainer_params(const SnlsTrainer *trainer, SnlsTrainParams *params);
/* The file is path itself: write to a temporary name and rename it. SNLS_ERR_ARG, and nothing is written, where a number is not finite (export: in the type that store says). */
SNLS_API SnlsStatus snls_trainer_save(SnlsTrainer *trainer, const char *path);
/* The mean weights as a model's file; metadata: count pairs of texts that are added to what describes the network. */
SNLS_API SnlsStatus snls_trainer_export(SnlsTrainer *trainer, const char *path, const char *const *metadata, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
