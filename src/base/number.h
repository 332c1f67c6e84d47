/* number.h: numbers as text with a point, whatever locale the program around us has set: files and other libraries read them. */
#ifndef SNLS_BASE_NUMBER_H
#define SNLS_BASE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>

/* Between the two this thread has the locale "C"; that of the process and of other threads stays. For calls of libraries that read or write numbers
 * as text. Begin always succeeds: a system that has no "C" has nothing to change. */
typedef struct SnlsPlainLocale {
    void *was, *plain; /* locale_t */
} SnlsPlainLocale;
SnlsPlainLocale snls_plain_begin(void);
void snls_plain_end(SnlsPlainLocale locale);

/* strtod and snprintf in the locale "C". */
double snls_number_read(const char *text, char **end);
int snls_number_vtext(char *text, size_t size, const char *format, va_list args);
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int snls_number_text(char *text, size_t size, const char *format, ...);

#endif
