/* man.c: the manual page of a command, and that of snls. */
#include "pages.h"
#include <string.h>

#ifndef SNLS_DATE /* the build's, where a packager says so (SOURCE_DATE_EPOCH) */
#  define SNLS_DATE SNLS_VERSION_DATE
#endif

static void roff(const char *text)
{
    for (const char *c = text; *c; c++) {
        if ((c == text || c[-1] == '\n') && (*c == '.' || *c == '\'')) fputs("\\&", page);
        if (*c == '\\') fputs("\\e", page);
        else if (*c == '-') fputs("\\-", page);
        else fputc(*c, page);
    }
}

static void roff_option(const char *name, const char *meta, const char *help)
{
    fprintf(page, ".TP\n\\fB\\-\\-");
    roff(name);
    fprintf(page, "\\fR");
    if (meta) fprintf(page, " \\fI"), roff(meta), fprintf(page, "\\fR");
    fprintf(page, "\n");
    roff(help);
    fprintf(page, "\n");
}

static void roff_parameters(const SnlsOption *options, int count)
{
    for (const SnlsOption *o = options; o < options + count; o++) {
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
    fprintf(page, ".SH EXIT STATUS\n");
    for (int i = 0; i < 9; i++) fprintf(page, ".TP\n%d\n%s\n", i, list[i]);
}

static void upper(const char *text)
{
    for (; *text; text++) fputc(*text >= 'a' && *text <= 'z' ? *text - 32 : *text, page);
}

static void head(const char *dash, const char *name)
{
    fprintf(page, ".TH SNLS%s", dash);
    upper(name);
    fprintf(page, " 1 \"" SNLS_DATE "\" \"snls %s\" \"User Commands\"\n.SH NAME\nsnls%s%s \\- ", snls_version(), dash, name);
}

static void synopsis(const ArgTable *t)
{
    fprintf(page, "\n.SH SYNOPSIS\n.B snls %s\n", command_name);
    for (int i = 0; i < t->positional_max; i++) {
        fprintf(page, i < t->positional_min ? "\\fI" : "[\\fI");
        roff(t->positional_names[i]);
        fprintf(page, i < t->positional_min ? "\\fR\n" : "\\fR]\n");
    }
    fprintf(page, "[\\fIOPTIONS\\fR]\n.SH EXAMPLES\n.nf\n");
    roff(t->examples);
    fprintf(page, ".fi\n");
}

/* A method's parameters are accepted beside its name only: a section for each. */
static void methods(const ArgTable *t)
{
    for (int i = 0; t->methods && t->methods[i]; i++) {
        const SnlsOption *own = snls_flow_options(t->methods[i]);
        fprintf(page, ".SH PARAMETERS OF \\-\\-%s %s\n", t->chosen_by, t->methods[i]);
        roff_parameters(own, option_count(own));
    }
}

void man_page(const ArgTable *t)
{
    head("-", command_name);
    roff(t->summary);
    synopsis(t);
    if (t->positional_max) fprintf(page, ".SH ARGUMENTS\n");
    for (int i = 0; i < t->positional_max; i++) {
        fprintf(page, ".TP\n\\fI");
        roff(t->positional_names[i]);
        fprintf(page, "\\fR\n");
        roff(t->positional_help[i]);
        fprintf(page, "\n");
    }
    fprintf(page, ".SH OPTIONS\n");
    for (int i = 0; i < t->arg_count; i++) roff_option(t->args[i].name, t->args[i].meta, t->args[i].help);
    roff_parameters(t->options, options_of_all(t));
    for (int i = t->no_device ? 3 : 0; i < COMMON_ARGS; i++)
        roff_option(common_args[i].name, common_args[i].meta, common_args[i].help);
    fprintf(page, ".TP\n\\fB\\-y\\fR\noverwrite outputs that exist\n");
    methods(t);
    exit_status();
    fprintf(page, ".SH SEE ALSO\n.BR snls (1)\n");
}

void man_overview(void)
{
    head("", "");
    fprintf(page, "Shifted Non\\-Local Search: denoise, align and search video\n"
                  ".SH SYNOPSIS\n.B snls\n\\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n.SH EXAMPLES\n.nf\nsnls denoise in.mp4 "
                  "out.mp4\nsnls help denoise\n.fi\n.SH COMMANDS\n");
    for (int i = 0; i < command_count; i++) {
        fprintf(page, ".TP\n\\fB");
        roff(commands[i].name);
        fprintf(page, "\\fR\n");
        roff(commands[i].help);
        fprintf(page, "\n");
    }
    exit_status();
    fprintf(page, ".SH SEE ALSO\n.BR snls\\-denoise (1)\n");
}
