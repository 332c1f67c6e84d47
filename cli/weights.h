/* weights.h: networks as methods of denoising: --method stan is the network that comes with snls. */
#ifndef CLI_WEIGHTS_H
#define CLI_WEIGHTS_H

#include "cli.h"

typedef struct Network {
    const char *method, *precision; /* stan, stan-s, dvdnet, fastdvdnet, or NULL: none is meant; of --precision, or NULL */
    int32_t flow; /* SnlsDenoiseFlow, 0: not given */
    char path[4096];
} Network;
/* The option of every command that runs a network. */
#define PRECISION_ARG(network) { "precision", "auto|f32|bf16", "a network's values between layers; auto: bf16 where this machine multiplies matrices of them (auto)", &(network).precision }

/* The denoiser's table of options, with the networks among the names of --method; ended by an empty one. */
void network_options(SnlsOption *list, int room);
/* Takes --method NAME out of the arguments where NAME is that of a network. rest may be argv itself. */
int network_take(int argc, char **argv, char **rest, int *count, Network *n);
/* The weights of the method: model (of --model) where it is given, else those that come with snls; *model stays NULL where no
 * network is meant. --precision is looked at too. */
int network_find(Network *n, const char **model);
/* Of the parameters of the classical denoiser that were given (a bit each), a network has the method of flow only; of those of vnlb nlm has some. */
int network_check(Network *n, const SnlsOption *options, uint64_t given, const SnlsDenoiseParams *params, const char *model);
int network_check_sigma(const char *model, double sigma);
/* Opens weights, which must be of the method that was asked for. */
int network_open(const Network *n, SnlsContext *ctx, const char *path, SnlsModel **model);

#endif
