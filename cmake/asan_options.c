/* Linked into the programs of a sanitizer build: an allocation that is too large fails, as it does without sanitizer,
 * and does not end the program. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

/* x265 keeps a block of its own for good; it is loaded by FFmpeg. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:x265\n"; }
