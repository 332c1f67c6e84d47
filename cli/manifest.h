/* manifest.h: NAME.json beside NAME.safetensors tells where weights come from, and their checksum. */
#ifndef SNLS_CLI_MANIFEST_H
#define SNLS_CLI_MANIFEST_H

#include "cli.h"
#include "sha256.h"

typedef struct Manifest {
    char path[4096], sha256[SHA256_TEXT]; /* of the manifest, "": there is none; of the weights */
} Manifest;

/* Finds the checksum of a file of weights; EXIT_CHECK where a manifest beside it has another. */
int manifest_check(Manifest *m, const char *weights);

#endif
