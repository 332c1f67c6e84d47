/* help.c: --help, from the same tables that parse. Examples come first. */
#include "pages.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const Arg common_args[COMMON_ARGS] = {
    { "backend", "ref|cpu|cuda", "who computes; wins over --device", NULL },
    { "device", "auto|cpu|cuda[:n]", "where to compute (auto)", NULL },
    { "threads", "N", "threads, 0 for all this process may use (0)", NULL },
    { "seed", "N", "seed of everything random (0; train 1)", NULL },
    { "json", NULL, "one JSON object on stdout, nothing else there", NULL },
};

void option_accepts(const SnlsOption *o, char *text, size_t size)
{
    if (o->type != SNLS_OPTION_ENUM) {
        snprintf(text, size, "%.10g to %.10g", o->min, o->max);
        return;
    }
    size_t at = 0;
    for (int i = 0; o->names[i] && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? "|" : "", o->names[i]);
}

void option_default(const SnlsOption *o, char *text, size_t size)
{
    if (o->type == SNLS_OPTION_ENUM) snprintf(text, size, "%s", o->names[(int)o->def]);
    else snprintf(text, size, "%.10g", o->def);
}

enum { COLUMN = 28 };

/* A list of words that would not leave the column to the others goes behind the text. */
static void print_arg(const char *name, const char *meta, const char *help)
{
    char left[128];
    const bool list = meta && strchr(meta, '|') && strlen(name) + strlen(meta) + 3 > COLUMN;
    snprintf(left, sizeof left, "--%s%s%s", name, meta ? " " : "", list ? "NAME" : meta ? meta : "");
    fprintf(page, "  %-*s %s%s%s\n", COLUMN, left, help, list ? ": " : "", list ? meta : "");
}

/* Those of the one that is chosen are in the list. */
static void print_methods(const ArgTable *t)
{
    fprintf(page, "\nThe parameters of each method:");
    for (int i = 0; t->methods[i]; i++) fprintf(page, "%s --%s %s --help", i ? "," : "", t->chosen_by, t->methods[i]);
    fprintf(page, "\n");
}

static void print_parameters(const SnlsOption *options)
{
    char left[64], accepts[96], def[40];
    fprintf(page, "\nParameters (default; accepted):\n");
    for (const SnlsOption *o = options; o->name; o++) {
        option_accepts(o, accepts, sizeof accepts);
        option_default(o, def, sizeof def);
        snprintf(left, sizeof left, "--%s %s", o->name,
                 o->type == SNLS_OPTION_ENUM  ? "NAME"
                 : o->type == SNLS_OPTION_INT ? "N"
                                              : "X");
        fprintf(page, "  %-28s %s (%s; %s)\n", left, o->help, def, accepts);
    }
}

static void print_text(const ArgTable *t)
{
    fprintf(page, "snls %s: %s\n\nExamples:\n%s\nUsage: snls %s", command_name, t->summary, t->examples, command_name);
    for (int i = 0; i < t->positional_max; i++) fprintf(page, i < t->positional_min ? " %s" : " [%s]", t->positional_names[i]);
    fprintf(page, " [OPTIONS]\n");
    if (t->positional_max) fprintf(page, "\nArguments:\n");
    for (int i = 0; i < t->positional_max; i++) fprintf(page, "  %-28s %s\n", t->positional_names[i], t->positional_help[i]);
    if (t->arg_count) fprintf(page, "\nFiles and switches:\n");
    for (int i = 0; i < t->arg_count; i++) print_arg(t->args[i].name, t->args[i].meta, t->args[i].help);
    if (t->options) print_parameters(t->options);
    if (t->methods) print_methods(t);
    fprintf(page, "\nEvery command has:\n");
    for (int i = 0; i < COMMON_ARGS; i++)
        if (!t->no_device || i > 2) print_arg(common_args[i].name, common_args[i].meta, common_args[i].help);
    fprintf(page, "  %-28s %s\n  %-28s %s\n", "-y", "overwrite outputs that exist", "--", "ends the options");
    fprintf(page, "\nExit: 0 done, 1 other failure, 2 usage, 3 input, 4 unsupported, 5 memory, 6 device, 7 output, 8 a check "
           "failed.\n");
}

int print_help(const ArgTable *t, bool json)
{
    if (help_style != HELP_TEXT) return print_page(t), EXIT_DONE; /* onto a page that is open */
    const int code = page_begin();
    if (code) return code;
    print_text(t);
    return page_end(command_name, json);
}
