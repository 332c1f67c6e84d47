/* denoise_args.h: what the commands that denoise share: --sigma; and --fps. */
#ifndef SNLS_CLI_DENOISE_ARGS_H
#define SNLS_CLI_DENOISE_ARGS_H

#include "cli.h"

/* "20", or three numbers "20,18,25" for red, green, blue; with may_be_auto "auto" too, and NULL is that. Refuses others with a line. */
int parse_sigma(const char *text, bool may_be_auto, double sigma[3]);

/* Refuses (line printed) three numbers for a clip without colours. */
int check_sigma_channels(const char *text, const char *clip, int64_t channels);

/* A list of numbers "10,20,50" of 1 to most entries from 0 to 1000; *count of them. */
int parse_numbers(const char *option, const char *text, double *list, int most, int *count);

/* Frames a second: "25", "30000/1001", or "29.97", which means that. NULL: *to stays. */
int parse_rate(const char *text, double *to);

double read_number(const char *text, char **end); /* as strtod, but decimal digits only: *end is text for ' 5', 0x5 and inf */

#endif
