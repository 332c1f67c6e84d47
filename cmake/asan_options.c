/* Linked into the programs of a sanitizer build: an allocation that is too large fails, as it does without sanitizer,
 * and does not end the program. */
#define _POSIX_C_SOURCE 200112L
#include <stdlib.h>

__attribute__((visibility("default"))) const char *__asan_default_options(void);

#if defined(__aarch64__) /* there the search for leaks takes four seconds at the end of every program, of which scripts start hundreds; leaks are those of x86-64 */
#define LEAKS ":detect_leaks=0"
#else
#define LEAKS
#endif

const char *__asan_default_options(void) { return "allocator_may_return_null=1" LEAKS; }

/* x265, which FFmpeg loads, keeps a block of its own for good, and so does setlocale of the C library, of LOCPATH. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:x265\nleak:argz_add_sep\n"; }

/* While oneDNN 2.6 makes a kernel of matrix tiles it reads one number behind the end of a list of its own. Behind a block of the C library there is always more
 * memory; behind a sanitizer's there may be none, and now and then a run ended there. So it makes kernels without tiles here. */
__attribute__((constructor)) static void without_tiles(void) { setenv("DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16", 0); }
