/* sha256.h: the checksum that a manifest of weights has (FIPS 180-4). */
#ifndef SNLS_CLI_SHA256_H
#define SNLS_CLI_SHA256_H

#include <stdio.h>

enum { SHA256_TEXT = 65 };
/* Of the rest of a file, in hexadecimal. 0, or -1: it cannot be read. */
int sha256_file(FILE *file, char text[SHA256_TEXT]);

#endif
