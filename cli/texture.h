/* texture.h: an endless texture, defined at every real position. */
#ifndef SNLS_CLI_TEXTURE_H
#define SNLS_CLI_TEXTURE_H

#include <stdint.h>

/* Stones about size pixels wide; warmth 0 as they are, 1 reddish. 0..255 */
void texture_at(uint64_t seed, double size, double warmth, double x, double y, double *rgb);

#endif
