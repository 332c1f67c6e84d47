/* texture.h: an endless texture, defined at every real position. */
#ifndef SNLS_CLI_TEXTURE_H
#define SNLS_CLI_TEXTURE_H

#include <stdint.h>

void texture_at(uint64_t seed, double x, double y, double *rgb); /* 0..255 */

#endif
