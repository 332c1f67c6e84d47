/* denoise_args.c: reading --sigma and --fps. */
#include "denoise_args.h"
#include <math.h>
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

/* 30000/1001; false where it is no fraction of whole numbers. */
static bool read_fraction(const char *text, double *value)
{
    static const char digits[] = "0123456789";
    const size_t first = strspn(text, digits), second = text[first] == '/' ? strspn(text + first + 1, digits) : 0;
    if (!first || !second || text[first + 1 + second]) return false;
    *value = strtod(text, NULL) / strtod(text + first + 1, NULL);
    return true;
}

/* Television's rates are whole numbers times 1000/1001, which people write with two digits or more, rounded, or cut off at three or more: 23.976
 * means 24000/1001. Other decimals mean what they say. */
static double meant_rate(const char *text, double value)
{
    static const int whole[] = { 24, 30, 48, 60, 120, 240 };
    const char *point = strchr(text, '.');
    const size_t digits = point ? strspn(point + 1, "0123456789") : 0;
    const double step = pow(10, -(double)digits);
    for (size_t i = 0; digits > 1 && !point[1 + digits] && i < sizeof whole / sizeof *whole; i++) {
        const double rate = whole[i] * 1000.0 / 1001, above = rate - value;
        if (fabs(above) <= 0.5 * step + 1e-12 || (digits > 2 && above > 0 && above < step)) return rate;
    }
    return value;
}

int parse_rate(const char *text, double *to)
{
    char *end = NULL;
    double value = 0;
    if (!text) return EXIT_DONE;
    const bool fraction = read_fraction(text, &value);
    if (!fraction) value = read_number(text, &end);
    if ((!fraction && (end == text || *end)) || !(value >= 0.01 && value <= 10000))
        return fail(EXIT_USAGE, "--fps is %s, must be 0.01 to 10000, or a fraction such as 30000/1001", text);
    *to = fraction ? value : meant_rate(text, value);
    return EXIT_DONE;
}
