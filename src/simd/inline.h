/* inline.h: what the files of every instruction set say to their compiler. */
#ifndef SNLS_INLINE_H
#define SNLS_INLINE_H

#define ALWAYS static inline __attribute__((always_inline)) /* also where a constant argument must select the code */

/* Keeps a compiler from deriving p from its neighbours: addresses stay base + index, not a chain of additions. */
#define OPAQUE(p) __asm__("" : "+r"(p))

enum { DOT, L2 };

#endif
