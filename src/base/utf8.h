/* utf8.h: is a text UTF-8? */
#ifndef SNLS_BASE_UTF8_H
#define SNLS_BASE_UTF8_H

#include <stdbool.h>

/* As Unicode defines it: no longer forms than needed, no halves of pairs (U+D800 to U+DFFF), nothing above U+10FFFF. */
bool snls_is_utf8(const char *text);

#endif
