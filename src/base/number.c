/* number.c: numbers as text with a point. uselocale is of one thread, which setlocale is not. */
#define _POSIX_C_SOURCE 200809L
#include "base/number.h"
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

SnlsPlainLocale snls_plain_begin(void)
{
    const int kept = errno;
    SnlsPlainLocale locale = { NULL, newlocale(LC_ALL_MASK, "C", (locale_t)0) }; /* one that the C library keeps: nothing is allocated */
    if (locale.plain) locale.was = uselocale((locale_t)locale.plain);
    errno = kept;
    return locale;
}

void snls_plain_end(SnlsPlainLocale locale)
{
    if (!locale.plain) return;
    const int kept = errno; /* of the call in between */
    uselocale((locale_t)locale.was);
    freelocale((locale_t)locale.plain);
    errno = kept;
}

double snls_number_read(const char *text, char **end)
{
    const SnlsPlainLocale locale = snls_plain_begin();
    const double value = strtod(text, end);
    snls_plain_end(locale);
    return value;
}

int snls_number_vtext(char *text, size_t size, const char *format, va_list args)
{
    const SnlsPlainLocale locale = snls_plain_begin();
    const int length = vsnprintf(text, size, format, args);
    snls_plain_end(locale);
    return length;
}

int snls_number_text(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = snls_number_vtext(text, size, format, args);
    va_end(args);
    return length;
}
