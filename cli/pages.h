/* pages.h: the tables that parse and help, written for others to read: manual pages (man.c) and shells (complete.c). */
#ifndef SNLS_CLI_PAGES_H
#define SNLS_CLI_PAGES_H

#include "cli.h"
#include <stdio.h>

typedef enum HelpStyle { HELP_TEXT, HELP_MAN, HELP_BASH, HELP_ZSH, HELP_FISH } HelpStyle;

extern HelpStyle help_style; /* what print_help writes */

void print_page(const ArgTable *table); /* in a style other than text, of the command command_name */

/* ---- pages.c: a page is made as a whole, then printed as it is or in a JSON object ---- */

extern FILE *page; /* where it is written to, from page_begin to page_end */

int page_begin(void);
int page_end(const char *command, bool json); /* prints; command: who made it, {"command": ..., "text": ...} */

/* ---- what a table offers ---- */

int option_count(const SnlsOption *options);
int options_of_all(const ArgTable *table); /* how many of table->options belong to no method */

/* What every command has, beside -y; the first three need a device. */
extern const Arg common_args[];
enum { COMMON_ARGS = 5 };

/* ---- man.c, complete.c ---- */

void man_page(const ArgTable *table);
void man_overview(void);
void bash_lines(const ArgTable *table); /* zsh reads the same */
void fish_lines(const ArgTable *table);
void bash_script(bool zsh);
void fish_script(void);

/* ---- main.c ---- */

extern const Command commands[];
extern const int command_count;
int run_command(const char *name, int argc, char **argv);

#endif
