/* cmd_options.c: the parameters of all operators. docs/options.md is what --markdown prints. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *op, *command;
} operators[] = {
    { "search", "search" },           { "search_all", "search-all" },   { "refine", "refine" },
    { "flow_compose", "compose" },    { "weights", "weights" },         { "gather", "gather" },
    { "gather_add", "gather-add" },   { "scatter_add", "scatter-add" }, { "farneback", "flow --method farneback" },
    { "tvl1", "flow --method tvl1" }, { "dis", "flow --method dis" },
    { "denoise", "denoise" },
};

static const SnlsOption *table_of(const char *op)
{
    const SnlsOption *table = snls_options(op);
    if (!table) table = snls_flow_options(op);
    return table || strcmp(op, "denoise") ? table : snls_denoise_options();
}

enum { OPERATORS = sizeof operators / sizeof *operators };

static void print_markdown(void)
{
    printf("# Options\n\n"
           "Made by `snls options --markdown` from the option tables; do not edit.\n"
           "A name is a field of the parameter struct in `<snls/ops.h>`, `<snls/flow.h>` or `<snls/denoise.h>` and, with two dashes, an "
           "option of the "
           "command.\n");
    for (int i = 0; i < OPERATORS; i++) {
        printf("\n## %s (`snls %s`)\n\n| name | default | accepted | meaning |\n|---|---|---|---|\n", operators[i].op,
               operators[i].command);
        for (const SnlsOption *o = table_of(operators[i].op); o && o->name; o++) {
            char accepts[96], def[40];
            option_accepts(o, accepts, sizeof accepts);
            option_default(o, def, sizeof def);
            for (char *c = accepts; *c; c++)
                if (*c == '|') *c = '/'; /* a bar would end the cell */
            printf("| `%s` | %s | %s | %s |\n", o->name, def, accepts, o->help);
        }
    }
}

static void print_text(void)
{
    for (int i = 0; i < OPERATORS; i++) {
        printf("%s%s\n", i ? "\n" : "", operators[i].command);
        for (const SnlsOption *o = table_of(operators[i].op); o && o->name; o++) {
            char accepts[96], def[40];
            option_accepts(o, accepts, sizeof accepts);
            option_default(o, def, sizeof def);
            printf("  --%-10s %s (%s; %s)\n", o->name, o->help, def, accepts);
        }
    }
}

static json_t *option_json(const SnlsOption *o)
{
    json_t *entry = json_pack("{s:s, s:s}", "name", o->name, "help", o->help);
    if (o->type == SNLS_OPTION_ENUM) {
        json_t *names = json_array();
        for (int i = 0; o->names[i]; i++) json_array_append_new(names, json_string(o->names[i]));
        json_object_set_new(entry, "default", json_string(o->names[(int)o->def]));
        json_object_set_new(entry, "names", names);
    } else {
        const bool whole = o->type == SNLS_OPTION_INT;
        json_object_set_new(entry, "default", whole ? json_integer((json_int_t)o->def) : json_real(o->def));
        json_object_set_new(entry, "min", whole ? json_integer((json_int_t)o->min) : json_real(o->min));
        json_object_set_new(entry, "max", whole ? json_integer((json_int_t)o->max) : json_real(o->max));
    }
    return entry;
}

static json_t *make_json(void)
{
    json_t *report = report_begin(NULL), *list = json_object();
    for (int i = 0; i < OPERATORS; i++) {
        json_t *options = json_array();
        for (const SnlsOption *o = table_of(operators[i].op); o && o->name; o++)
            json_array_append_new(options, option_json(o));
        json_object_set_new(list, operators[i].op, options);
    }
    json_object_set_new(report, "options", list);
    return report;
}

int cmd_options(int argc, char **argv)
{
    int code;
    bool markdown = false;
    Common common;
    const Arg args[] = { { "markdown", NULL, "as Markdown tables, for the documentation", &markdown } };
    const ArgTable table = { .summary = "the parameters of all operators",
                             .examples = "  snls options\n  snls options --markdown > options.md\n",
                             .args = args,
                             .arg_count = 1,
                             .no_device = true };
    if (!parse_args(argc, argv, &table, &common, &code)) return code;
    if (common.json) return report_print(make_json());
    if (markdown) print_markdown();
    else print_text();
    return EXIT_DONE;
}
