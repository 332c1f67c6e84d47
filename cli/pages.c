/* pages.c: manual pages (snls man) and completion (snls completion), from the tables of the commands: each command is asked for
 * its help, in another style. */
#define _POSIX_C_SOURCE 200809L
#include "pages.h"
#include <stdlib.h>
#include <string.h>

HelpStyle help_style = HELP_TEXT;
FILE *page;
static char *text; /* of the page */
static size_t length;

int page_begin(void)
{
    page = open_memstream(&text, &length);
    return page ? EXIT_DONE : fail(EXIT_MEMORY, "out of memory");
}

int page_end(const char *command, bool json)
{
    const bool bad = ferror(page);
    command_name = command; /* who was asked for help has put its own name there */
    if (fclose(page) || bad) return free(text), fail(EXIT_MEMORY, "out of memory");
    int code;
    if (json) {
        json_t *report = report_begin(NULL);
        json_object_set_new(report, "text", json_text(text));
        code = report_print(report);
    } else {
        fputs(text, stdout);
        code = flush_stdout();
    }
    free(text);
    return code;
}

int option_count(const SnlsOption *options)
{
    int count = 0;
    while (options && options[count].name) count++;
    return count;
}

int options_of_all(const ArgTable *t)
{
    return option_count(t->options) - (t->methods ? option_count(snls_flow_options(t->chosen)) : 0);
}

void print_page(const ArgTable *table)
{
    if (help_style == HELP_MAN) man_page(table);
    else if (help_style == HELP_FISH) fish_lines(table);
    else bash_lines(table);
}

int cmd_completion(int argc, char **argv)
{
    static const char *const names[] = { "SHELL" }, *const help[] = { "bash, zsh or fish" };
    const char *shell = NULL;
    int code;
    Common common;
    const ArgTable table = { .summary = "a script that completes commands and options in a shell",
                             .examples = "  snls completion bash > ~/.local/share/bash-completion/completions/snls\n"
                                         "  snls completion zsh > _snls          # in a folder of $fpath\n"
                                         "  snls completion fish > ~/.config/fish/completions/snls.fish\n",
                             .positional_names = names,
                             .positional_help = help,
                             .positional = &shell,
                             .positional_min = 1,
                             .positional_max = 1,
                             .no_device = true };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    if (strcmp(shell, "bash") && strcmp(shell, "zsh") && strcmp(shell, "fish"))
        return fail(EXIT_USAGE, "SHELL is %s, must be bash, zsh or fish", shell);
    code = page_begin();
    if (code) return code;
    help_style = !strcmp(shell, "bash") ? HELP_BASH : !strcmp(shell, "zsh") ? HELP_ZSH : HELP_FISH;
    if (help_style == HELP_FISH) fish_script();
    else bash_script(help_style == HELP_ZSH);
    return page_end("completion", common.json);
}

int cmd_man(int argc, char **argv)
{
    static const char *const names[] = { "COMMAND" }, *const help[] = { "whose page; none: the page of snls" };
    const char *command = NULL;
    int code;
    Common common;
    const ArgTable table = { .summary = "a manual page, for man",
                             .examples = "  snls man denoise | man -l -\n  snls man > snls.1\n",
                             .positional_names = names,
                             .positional_help = help,
                             .positional = &command,
                             .positional_max = 1,
                             .no_device = true };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    code = page_begin();
    if (code) return code;
    help_style = HELP_MAN;
    if (!command) man_overview();
    else code = run_command(command, 2, (char *[]){ (char *)command, "--help", NULL });
    return code ? code : page_end("man", common.json);
}
