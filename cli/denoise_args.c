/* denoise_args.c: reading --sigma. */
#include "denoise_args.h"
#include <stdlib.h>
#include <string.h>

int parse_numbers(const char *option, const char *text, double *list, int most, int *count)
{
    *count = 0;
    for (const char *at = text; *count < most;) {
        char *end;
        const double value = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(value >= 0 && value <= 1000)) break;
        list[(*count)++] = value;
        if (!*end) return EXIT_DONE;
        at = end + 1;
    }
    return fail(EXIT_USAGE, "--%s is %s, must be 1 to %d numbers from 0 to 1000 with commas between them", option,
                *text ? text : "empty", most);
}

int parse_sigma(const char *text, double sigma[3])
{
    int count = 0;
    for (int c = 0; c < 3; c++) sigma[c] = -1;
    if (!text || !strcmp(text, "auto")) return EXIT_DONE;
    const int code = parse_numbers("sigma", text, sigma, 3, &count);
    if (!code && count == 2) return fail(EXIT_USAGE, "--sigma is %s, must be auto, one number or three", text);
    if (!code && count == 1) sigma[1] = sigma[2] = sigma[0];
    return code;
}
