/* complete.c: scripts that complete commands, options and their values. */
#include "pages.h"
#include <ctype.h>
#include <string.h>

/* ---- an option as a shell sees it ---- */

typedef struct Choice {
    const char *name, *help;
    bool value, other; /* has a value; which may be another than these words */
    char words[256]; /* the values that have names, with spaces between; none: "" */
} Choice;

typedef void (*Visit)(const Choice *choice);

static void add_word(Choice *c, const char *word, size_t length)
{
    const size_t at = strlen(c->words);
    if (at + length + 2 <= sizeof c->words) snprintf(c->words + at, sizeof c->words - at, "%s%.*s", at ? " " : "", (int)length, word);
}

/* "auto|cpu|cuda[:n]" offers auto, cpu and cuda; what is written large stands for something else. */
static void words_of_meta(Choice *c, const char *meta)
{
    if (!meta || !strchr(meta, '|')) return;
    for (const char *at = meta; *at; at += at[0] == '|') {
        const size_t length = strcspn(at, "|"), word = strcspn(at, "|[");
        if (islower((unsigned char)*at)) add_word(c, at, word);
        else c->other = true;
        at += length;
    }
}

static void visit_arg(const Arg *a, Visit visit)
{
    Choice c = { .name = a->name, .help = a->help, .value = a->meta };
    words_of_meta(&c, a->meta);
    visit(&c);
}

static void visit_option(const SnlsOption *o, Visit visit)
{
    Choice c = { .name = o->name, .help = o->help, .value = true };
    for (int i = 0; o->type == SNLS_OPTION_ENUM && o->names[i]; i++) add_word(&c, o->names[i], strlen(o->names[i]));
    visit(&c);
}

static bool holds(const SnlsOption *options, const char *name)
{
    for (; options && options->name; options++)
        if (!strcmp(options->name, name)) return true;
    return false;
}

/* Parameters of methods other than the usual one, each name once. */
static void visit_methods(const ArgTable *t, Visit visit)
{
    for (int i = 0; t->methods && t->methods[i]; i++)
        for (const SnlsOption *o = snls_flow_options(t->methods[i]); o && o->name; o++) {
            bool seen = holds(t->options, o->name);
            for (int j = 0; j < i && !seen; j++) seen = holds(snls_flow_options(t->methods[j]), o->name);
            if (!seen) visit_option(o, visit);
        }
}

static void visit_all(const ArgTable *t, Visit visit)
{
    for (int i = 0; i < t->arg_count; i++) visit_arg(&t->args[i], visit);
    for (const SnlsOption *o = t->options; o && o->name; o++) visit_option(o, visit);
    visit_methods(t, visit);
    for (int i = t->no_device ? 3 : 0; i < COMMON_ARGS; i++) visit_arg(&common_args[i], visit);
}

static void print_commands(void)
{
    for (int i = 0; i < command_count; i++) fprintf(page, "%s%s", i ? " " : "", commands[i].name);
}

/* What an argument can be, of commands that take a word. False: a file. */
static bool print_arguments(const char *command)
{
    if (!strcmp(command, "completion")) fputs("bash zsh fish", page);
    else if (!strcmp(command, "man") || !strcmp(command, "help")) print_commands();
    else return false;
    return true;
}

/* ---- bash, and zsh, which reads the same ---- */

static void bash_values(const Choice *c)
{
    if (*c->words) fprintf(page, "    %s:--%s) list='%s' ;;\n", command_name, c->name, c->words);
}

static void bash_name(const Choice *c) { fprintf(page, "--%s ", c->name); }

/* Lines of a case statement: values of an option that have names, then the options. */
void bash_lines(const ArgTable *t)
{
    visit_all(t, bash_values);
    fprintf(page, "    %s:*) if [[ $cur == -* ]]; then list='", command_name);
    visit_all(t, bash_name);
    for (const char *c = t->letters; c && *c; c++) fprintf(page, "-%c ", *c);
    fprintf(page, "-y --help'; else list='");
    print_arguments(command_name);
    fprintf(page, "'; fi ;;\n");
}

static void ask_all(void)
{
    for (int i = 0; i < command_count; i++)
        run_command(commands[i].name, 2, (char *[]){ (char *)commands[i].name, "--help", NULL });
}

void bash_script(bool zsh)
{
    if (zsh) fprintf(page, "#compdef snls\nautoload -U +X bashcompinit && bashcompinit\n");
    fprintf(page, "# completion of snls, made by `snls completion %s`\n_snls()\n{\n  local cur=${COMP_WORDS[COMP_CWORD]} "
                  "prev=${COMP_WORDS[COMP_CWORD-1]} list= before=\n  COMPREPLY=()\n",
            zsh ? "zsh" : "bash");
    /* --preset=f is three words to bash, and one to zsh */
    fprintf(page, "  if [[ $cur == '=' ]]; then cur=\n  elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                  "  elif [[ $cur == --*=* ]]; then before=${cur%%%%=*}= prev=${cur%%%%=*} cur=${cur#*=}\n  fi\n  case ${COMP_WORDS[1]}:$prev in\n");
    ask_all();
    fprintf(page, "    help:*) list='");
    print_arguments("help");
    fprintf(page, "' ;;\n  esac\n  if [ \"$COMP_CWORD\" = 1 ]; then\n"
                  "    if [[ $cur == -* ]]; then list='--help --version'; else list='");
    print_commands();
    fprintf(page, " help'; fi\n  fi\n"
                  "  if [ -n \"$list\" ]; then COMPREPLY=($(compgen -P \"$before\" -W \"$list\" -- \"$cur\")); fi\n}\n"
                  "complete -o default -F _snls snls\n");
    if (zsh) /* this file is the body of _snls the first time it is called, and has only defined it so far */
        fprintf(page, "if [[ ${funcstack[1]-} == _snls ]]; then _bash_complete -o default -F _snls; fi\n");
}

/* ---- fish ---- */

static void fish_text(const char *words)
{
    for (; *words; words++) {
        if (*words == '\'' || *words == '\\') fputc('\\', page);
        fputc(*words, page);
    }
}

static void fish_when(const char *command) { fprintf(page, "complete -c snls -n '__fish_seen_subcommand_from %s' ", command); }

static void fish_option(const Choice *c)
{
    fish_when(command_name);
    fprintf(page, "-l %s%s -d '", c->name, c->value ? " -r" : "");
    fish_text(c->help);
    fprintf(page, "'");
    if (*c->words) fprintf(page, "%s -a '%s'", c->other ? "" : " -f", c->words);
    fprintf(page, "\n");
}

static void fish_arguments(const char *command)
{
    fish_when(command);
    fprintf(page, "-f -a '");
    print_arguments(command);
    fprintf(page, "'\n");
}

void fish_lines(const ArgTable *t)
{
    visit_all(t, fish_option);
    for (const char *c = t->letters; c && *c; c++) fish_when(command_name), fprintf(page, "-s %c -r\n", *c);
    fish_when(command_name);
    fprintf(page, "-s y -d 'overwrite outputs that exist'\n");
    fish_when(command_name);
    fprintf(page, "-l help -d 'examples and options'\n");
    if (!strcmp(command_name, "man") || !strcmp(command_name, "completion")) fish_arguments(command_name);
}

void fish_script(void)
{
    fprintf(page, "# completion of snls, made by `snls completion fish`\n");
    for (int i = 0; i < command_count; i++) {
        fprintf(page, "complete -c snls -f -n __fish_use_subcommand -a %s -d '", commands[i].name);
        fish_text(commands[i].help);
        fprintf(page, "'\n");
    }
    fprintf(page, "complete -c snls -f -n __fish_use_subcommand -a help -d 'what a command does'\n"
                  "complete -c snls -n __fish_use_subcommand -l help -d 'the commands'\n"
                  "complete -c snls -n __fish_use_subcommand -l version -d 'what was built'\n");
    fish_arguments("help");
    ask_all();
}
