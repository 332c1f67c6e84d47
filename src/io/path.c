/* path.c: names of files: their endings, and the numbers of a pattern. */
#include <snls/io.h>
#include <stdio.h>
#include <string.h>

/* Not tolower, which goes by the program's locale: in a Turkish one the small letter of I is no i. */
static char small(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }
static int is_digit(char c) { return c >= '0' && c <= '9'; }

int snls_path_ends(const char *path, const char *ending)
{
    if (!path || !ending) return 0;
    const size_t n = strlen(path), m = strlen(ending);
    for (size_t i = 0; n >= m && i < m; i++)
        if (small(path[n - m + i]) != ending[i]) return 0;
    return n >= m;
}

/* The number's place: in the file's name, whatever its folders are called, else in theirs. */
static const char *percent_of(const char *pattern)
{
    const char *slash = strrchr(pattern, '/'), *percent = slash ? strchr(slash, '%') : NULL;
    return percent ? percent : strchr(pattern, '%');
}

/* Only %d and %0Nd are understood, once: nothing else of printf reaches a format from outside. */
int snls_path_number(const char *pattern, int64_t number, char *name, size_t size)
{
    if (!pattern || !name) return 0;
    const char *percent = percent_of(pattern), *end = percent ? percent + 1 : NULL;
    int digits = 0;
    for (; end && is_digit(*end); end++)
        if (digits <= SNLS_PATH_DIGITS) digits = 10 * digits + (*end - '0');
    if (!end || *end != 'd' || strchr(end, '%') || digits > SNLS_PATH_DIGITS) return 0;
    const int written = snprintf(name, size, "%.*s%0*lld%s", (int)(percent - pattern), pattern, digits, (long long)number, end + 1);
    return written > 0 && (size_t)written < size;
}
