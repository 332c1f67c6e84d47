/* weights.h: networks as methods of denoising: --method stan is the network that comes with snls. */
#ifndef CLI_WEIGHTS_H
#define CLI_WEIGHTS_H

#include "cli.h"

typedef struct Network { const char *method; char path[4096]; } Network; /* method: stan, stan-s, dvdnet, fastdvdnet, or NULL: none is meant */

/* The denoiser's table of options, with the networks among the names of --method; ended by an empty one. */
void network_options(SnlsOption *list, int room);
/* Takes --method NAME out of the arguments where NAME is that of a network. rest may be argv itself. */
int network_take(int argc, char **argv, char **rest, int *count, Network *n);
/* The weights of the method: model (of --model) where it is given, else those that come with snls; *model stays NULL where no
 * network is meant. */
int network_find(Network *n, const char **model);
/* After the weights are open: whether they are of the method that was asked for. */
int network_check(const Network *n, const SnlsModel *model);

#endif
