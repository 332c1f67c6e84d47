/* unroll.h: loops of up to n turns that are to be written out; sums indexed by their counters stay in registers only then. clang passes over GCC's word for it, and with a
 * count it writes them out too late for registers. */
#ifndef SNLS_UNROLL_H
#define SNLS_UNROLL_H

#define SNLS_PRAGMA(words) _Pragma(#words)
#if defined(__clang__)
#    define UNROLLED(n) SNLS_PRAGMA(clang loop unroll(full))
#elif defined(__OPTIMIZE__)
#    define UNROLLED(n) SNLS_PRAGMA(GCC unroll n)
#else
#    define UNROLLED(n) /* GCC would do nothing, and warn of loops that end for two reasons */
#endif

#endif
