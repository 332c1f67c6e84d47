/* pages.c: manual pages (snls man) and completion (snls completion), from the tables of the commands: each command is asked for
 * its help, in another style. */
#include "pages.h"
#include <stdio.h>
#include <string.h>

HelpStyle help_style = HELP_TEXT;

/* ---- manual pages ---- */

static void roff(const char *text)
{
    for (const char *c = text; *c; c++) {
        if ((c == text || c[-1] == '\n') && (*c == '.' || *c == '\'')) fputs("\\&", stdout);
        if (*c == '\\') fputs("\\e", stdout);
        else if (*c == '-') fputs("\\-", stdout);
        else putchar(*c);
    }
}

static void roff_option(const char *name, const char *meta, const char *help)
{
    printf(".TP\n\\fB\\-\\-");
    roff(name);
    printf("\\fR");
    if (meta) printf(" \\fI"), roff(meta), printf("\\fR");
    printf("\n");
    roff(help);
    printf("\n");
}

static void roff_parameters(const SnlsOption *options)
{
    for (const SnlsOption *o = options; o && o->name; o++) {
        char accepts[96], def[40], help[400];
        option_accepts(o, accepts, sizeof accepts);
        option_default(o, def, sizeof def);
        snprintf(help, sizeof help, "%s (%s; %s)", o->help, def, accepts);
        roff_option(o->name, o->type == SNLS_OPTION_ENUM ? "NAME" : o->type == SNLS_OPTION_INT ? "N" : "X", help);
    }
}

static void exit_status(void)
{
    static const char *const list[] = { "done",
                                        "other failure",
                                        "wrong usage",
                                        "input cannot be opened or parsed",
                                        "valid, but not supported",
                                        "out of memory, or over a limit",
                                        "device",
                                        "output cannot be written",
                                        "a check failed" };
    printf(".SH EXIT STATUS\n");
    for (int i = 0; i < 9; i++) printf(".TP\n%d\n%s\n", i, list[i]);
}

static void upper(const char *text)
{
    for (; *text; text++) putchar(*text >= 'a' && *text <= 'z' ? *text - 32 : *text);
}

static void man_page(const ArgTable *t)
{
    printf(".TH SNLS-");
    upper(command_name);
    printf(" 1 \"\" \"snls %s\" \"User Commands\"\n.SH NAME\nsnls-%s \\- ", snls_version(), command_name);
    roff(t->summary);
    printf("\n.SH SYNOPSIS\n.B snls %s\n", command_name);
    for (int i = 0; i < t->positional_max; i++) {
        printf(i < t->positional_min ? "\\fI" : "[\\fI");
        roff(t->positional_names[i]);
        printf(i < t->positional_min ? "\\fR\n" : "\\fR]\n");
    }
    printf("[\\fIOPTIONS\\fR]\n.SH EXAMPLES\n.nf\n");
    roff(t->examples);
    printf(".fi\n");
    if (t->positional_max) printf(".SH ARGUMENTS\n");
    for (int i = 0; i < t->positional_max; i++)
        printf(".TP\n\\fI"), roff(t->positional_names[i]), printf("\\fR\n"), roff(t->positional_help[i]), printf("\n");
    printf(".SH OPTIONS\n");
    for (int i = 0; i < t->arg_count; i++) roff_option(t->args[i].name, t->args[i].meta, t->args[i].help);
    roff_parameters(t->options);
    for (int i = t->no_device ? 3 : 0; i < COMMON_ARGS; i++)
        roff_option(common_args[i].name, common_args[i].meta, common_args[i].help);
    printf(".TP\n\\fB\\-y\\fR\noverwrite outputs that exist\n");
    exit_status();
    printf(".SH SEE ALSO\n.BR snls (1)\n");
}

static int man_overview(void)
{
    printf(".TH SNLS 1 \"\" \"snls %s\" \"User Commands\"\n.SH NAME\nsnls \\- Shifted Non\\-Local Search: denoise, "
           "align and search video\n"
           ".SH SYNOPSIS\n.B snls\n\\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n.SH EXAMPLES\n.nf\nsnls denoise in.mp4 "
           "out.mp4\nsnls help denoise\n.fi\n.SH COMMANDS\n",
           snls_version());
    for (int i = 0; i < command_count; i++) {
        printf(".TP\n\\fB");
        roff(commands[i].name);
        printf("\\fR\n");
        roff(commands[i].help);
        printf("\n");
    }
    exit_status();
    printf(".SH SEE ALSO\n.BR snls\\-denoise (1)\n");
    return flush_stdout();
}

/* ---- completion ---- */

static void words(const SnlsOption *o)
{
    for (int i = 0; o->names[i]; i++) printf("%s%s", i ? " " : "", o->names[i]);
}

static void option_names(const ArgTable *t)
{
    for (int i = 0; i < t->arg_count; i++) printf("--%s ", t->args[i].name);
    for (const SnlsOption *o = t->options; o && o->name; o++) printf("--%s ", o->name);
    for (int i = t->no_device ? 3 : 0; i < COMMON_ARGS; i++) printf("--%s ", common_args[i].name);
    printf("-y --help");
}

/* Lines of two case statements: values of a parameter with names, then the options. zsh reads the same. */
static void bash_lines(const ArgTable *t)
{
    for (const SnlsOption *o = t->options; o && o->name; o++)
        if (o->type == SNLS_OPTION_ENUM)
            printf("    %s:--%s) words='", command_name, o->name), words(o), printf("' ;;\n");
    printf("    %s:*) [[ $cur == -* ]] && words='", command_name);
    option_names(t);
    printf("' ;;\n");
}

static void fish_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
}

static void fish_option(const char *name, bool value, const char *help, const SnlsOption *o)
{
    printf("complete -c snls -n '__fish_seen_subcommand_from %s' -l %s%s -d '", command_name, name, value ? " -r" : "");
    fish_text(help);
    printf("'");
    if (o && o->type == SNLS_OPTION_ENUM) printf(" -f -a '"), words(o), printf("'");
    printf("\n");
}

static void fish_lines(const ArgTable *t)
{
    for (int i = 0; i < t->arg_count; i++) fish_option(t->args[i].name, t->args[i].meta, t->args[i].help, NULL);
    for (const SnlsOption *o = t->options; o && o->name; o++) fish_option(o->name, true, o->help, o);
    for (int i = t->no_device ? 3 : 0; i < COMMON_ARGS; i++)
        fish_option(common_args[i].name, common_args[i].meta, common_args[i].help, NULL);
}

void print_page(const ArgTable *table)
{
    if (help_style == HELP_MAN) man_page(table);
    else if (help_style == HELP_FISH) fish_lines(table);
    else bash_lines(table);
}

static void ask_all(void)
{
    for (int i = 0; i < command_count; i++)
        run_command(commands[i].name, 2, (char *[]){ (char *)commands[i].name, "--help", NULL });
}

static void bash_script(bool zsh)
{
    if (zsh) printf("#compdef snls\nautoload -U +X bashcompinit && bashcompinit\n");
    printf("# completion of snls, made by `snls completion %s`\n_snls()\n{\n  local cur=${COMP_WORDS[COMP_CWORD]} "
           "prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
           "  COMPREPLY=()\n  if [ \"$COMP_CWORD\" = 1 ]; then\n    COMPREPLY=($(compgen -W '",
           zsh ? "zsh" : "bash");
    for (int i = 0; i < command_count; i++) printf("%s ", commands[i].name);
    printf("help' -- \"$cur\"))\n    return\n  fi\n  case ${COMP_WORDS[1]}:$prev in\n");
    ask_all();
    printf("  esac\n  if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); fi\n}\ncomplete -o "
           "default -F _snls snls\n");
}

static void fish_script(void)
{
    printf("# completion of snls, made by `snls completion fish`\n");
    for (int i = 0; i < command_count; i++) {
        printf("complete -c snls -f -n __fish_use_subcommand -a %s -d '", commands[i].name);
        fish_text(commands[i].help);
        printf("'\n");
    }
    ask_all();
}

int cmd_completion(int argc, char **argv)
{
    static const char *const names[] = { "SHELL" }, *const help[] = { "bash, zsh or fish" };
    const char *shell = NULL;
    int code;
    Common common;
    const ArgTable table = { .summary = "a script that completes commands and options in a shell",
                             .examples = "  snls completion bash > ~/.local/share/bash-completion/completions/snls\n  "
                                         "snls completion fish > ~/.config/fish/completions/snls.fish\n",
                             .positional_names = names,
                             .positional_help = help,
                             .positional = &shell,
                             .positional_min = 1,
                             .positional_max = 1,
                             .no_device = true };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    if (strcmp(shell, "bash") && strcmp(shell, "zsh") && strcmp(shell, "fish"))
        return fail(EXIT_USAGE, "SHELL is %s, must be bash, zsh or fish", shell);
    help_style = !strcmp(shell, "bash") ? HELP_BASH : !strcmp(shell, "zsh") ? HELP_ZSH : HELP_FISH;
    if (help_style == HELP_FISH) fish_script();
    else bash_script(help_style == HELP_ZSH);
    return flush_stdout();
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
    help_style = HELP_MAN;
    return command ? run_command(command, 2, (char *[]){ (char *)command, "--help", NULL }) : man_overview();
}
