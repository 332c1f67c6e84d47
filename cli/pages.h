/* pages.h: the tables that parse and help, written for others to read: manual pages and shells. */
#ifndef SNLS_CLI_PAGES_H
#define SNLS_CLI_PAGES_H

#include "cli.h"

typedef enum HelpStyle { HELP_TEXT, HELP_MAN, HELP_BASH, HELP_ZSH, HELP_FISH } HelpStyle;

extern HelpStyle help_style; /* what print_help writes */

void print_page(const ArgTable *table); /* in a style other than text, of the command command_name */

/* What every command has, beside -y; the first three need a device. */
extern const Arg common_args[];
enum { COMMON_ARGS = 5 };

/* main.c */
extern const Command commands[];
extern const int command_count;
int run_command(const char *name, int argc, char **argv);

#endif
