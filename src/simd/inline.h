/* inline.h: what the files of every instruction set say to their compiler. */
#ifndef SNLS_INLINE_H
#define SNLS_INLINE_H

#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)
#    define ALWAYS static inline /* a sanitizer sees the same reads and writes in one function as in its many copies, which take gcc minutes to compile with its questions in them */
#else
#    define ALWAYS static inline __attribute__((always_inline)) /* also where a constant argument must select the code */
#endif

/* Keeps a compiler from deriving p from its neighbours: addresses stay base + index, not a chain of additions. */
#define OPAQUE(p) __asm__("" : "+r"(p))

enum { DOT, L2 };

#endif
