/* denoise_args.c: reading --sigma. */
#include "denoise_args.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

double read_number(const char *text, char **end)
{
    const double value = strtod(text, end);
    if (strspn(text, "0123456789+-.eE") < (size_t)(*end - text)) *end = (char *)text;
    return value;
}

/* false: not 1 to most numbers from 0 to 1000. */
static bool read_numbers(const char *text, double *list, int most, int *count)
{
    *count = 0;
    for (const char *at = text; *count < most;) {
        char *end;
        const double value = read_number(at, &end);
        if (end == at || (*end && *end != ',') || !(value >= 0 && value <= 1000)) return false;
        list[(*count)++] = value;
        if (!*end) return true;
        at = end + 1;
    }
    return false;
}

int parse_numbers(const char *option, const char *text, double *list, int most, int *count)
{
    if (read_numbers(text, list, most, count)) return EXIT_DONE;
    return fail(EXIT_USAGE, "--%s is %s, must be 1 to %d numbers from 0 to 1000 with commas between them", option,
                *text ? text : "empty", most);
}

int parse_sigma(const char *text, bool may_be_auto, double sigma[3])
{
    int count = 0;
    double given[3];
    for (int c = 0; c < 3; c++) sigma[c] = -1;
    if (may_be_auto && (!text || !strcmp(text, "auto"))) return EXIT_DONE;
    if (!read_numbers(text, given, 3, &count) || count == 2)
        return fail(EXIT_USAGE, "--sigma is %s, must be %sone number or three from 0 to 1000", *text ? text : "empty",
                    may_be_auto ? "auto, or " : "");
    for (int c = 0; c < 3; c++) sigma[c] = given[count == 3 ? c : 0];
    return EXIT_DONE;
}

int check_sigma_channels(const char *text, const char *clip, int64_t channels)
{
    if (channels > 1 || !text || !strchr(text, ',')) return EXIT_DONE;
    return fail(EXIT_USAGE, "--sigma is %s, but %s is grey: it has one", text, input_name(clip));
}
