/* train_device.h: a step of training where a GPU does it: drawing, loss and optimiser, beside the network's own steps. Everything lives on
 * the device, the number of the step too, so a step is one CUDA graph that is launched again and again. */
#ifndef SNLS_TRAIN_DEVICE_H
#define SNLS_TRAIN_DEVICE_H

#include "base/context.h"
#include "base/tensor.h"
#include "model/train_math.h"

typedef enum TrainNumber { TRAIN_LOSS, TRAIN_SQUARE, TRAIN_SQUARE_NOISY, TRAIN_NORM, TRAIN_RATE, TRAIN_NUMBERS } TrainNumber; /* sums, not means */

typedef struct TrainState {
    SnlsTrainParams  p;
    const TrainClip *clips;
    int64_t          clip_count;
    int64_t         *step;          /* done so far */
    SnlsTensor       in, out, d_out; /* of the network: noisy colours and sigma; what is added to the colours; its gradient */
    float           *clean, *noisy; /* (batch*frames, crop, crop, 3), 0..255 */
    TrainWeights     weights;
    const uint8_t   *decay;         /* of each weight: whether it decays */
    int64_t          total;
    double          *numbers;       /* TRAIN_NUMBERS of the last step */
    double          *parts;         /* TRAIN_PARTS x TRAIN_NUMBERS */
} TrainState;

enum { TRAIN_PARTS = 512 }; /* of every sum: added in their order, so a run repeats bit for bit */

typedef struct TrainDevice {
    SnlsStatus (*batch)(SnlsContext *ctx, const TrainState *s);  /* fills in, clean and noisy */
    SnlsStatus (*judge)(SnlsContext *ctx, const TrainState *s);  /* fills d_out and the first three numbers */
    SnlsStatus (*update)(SnlsContext *ctx, const TrainState *s); /* moves the weights, unless loss or gradient is not finite; counts the step */
    SnlsStatus (*stream_open)(SnlsContext *ctx, void **stream);  /* of its own: the default one cannot be captured */
    void (*stream_close)(void *stream);
    SnlsStatus (*capture_begin)(SnlsContext *ctx);
    SnlsStatus (*capture_end)(SnlsContext *ctx, void **graph);   /* also after a failure; *graph may then be NULL */
    SnlsStatus (*launch)(SnlsContext *ctx, void *graph);
    void (*graph_close)(void *graph);
} TrainDevice;

extern const TrainDevice snls_train_cuda; /* in libsnls_nn_cuda.so */

#endif
