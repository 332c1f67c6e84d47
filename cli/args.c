/* args.c: the command line. Parameters come from the library's option tables; the rest from a command's own list. */
#include "cli.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GIVEN_MAX = 128 }; /* more options than any command has */

typedef struct Parser {
    const ArgTable *table;
    const char *given[GIVEN_MAX]; /* names of the options that had a value */
    int given_count;
    Common *common;
    int argc, at; /* at: the next argument */
    char **argv;
    int positional;
    int code;
} Parser;

static bool refuse(Parser *p, int code)
{
    p->code = code;
    return false;
}

/* "--ws" or "--ws=9": does arg name this option? Points *value behind the '=', or to NULL. */
static bool names(const char *arg, const char *option, const char **value)
{
    const size_t n = strlen(option);
    if (strncmp(arg, "--", 2)) return false;
    for (size_t i = 0; i < n; i++) /* --pyr_scale, as other programs call it, is --pyr-scale */
        if (arg[2 + i] != option[i] && !(arg[2 + i] == '_' && option[i] == '-')) return false;
    *value = arg[2 + n] == '=' ? arg + 3 + n : NULL;
    return arg[2 + n] == '=' || !arg[2 + n];
}

/* Of two values one would be ignored, and nobody would know which. */
static bool first_time(Parser *p, const char *option)
{
    for (int i = 0; i < p->given_count; i++)
        if (!strcmp(p->given[i], option)) return refuse(p, fail(EXIT_USAGE, "--%s is given twice", option));
    if (p->given_count < GIVEN_MAX) p->given[p->given_count++] = option;
    return true;
}

static bool take_value(Parser *p, const char *option, const char **value)
{
    if (!first_time(p, option)) return false;
    if (*value) return true;
    if (p->at < p->argc && strncmp(p->argv[p->at], "--", 2)) {
        *value = p->argv[p->at++];
        return true;
    }
    return refuse(p, fail(EXIT_USAGE, "--%s needs a value", option));
}

static bool set_flag(Parser *p, const char *option, const char *value, bool *flag)
{
    if (value) return refuse(p, fail(EXIT_USAGE, "--%s takes no value, '%s' was given", option, value));
    *flag = true;
    return true;
}

static bool set_text(Parser *p, const char *option, const char *value, const char **to)
{
    if (!take_value(p, option, &value)) return false;
    if (!*value) return refuse(p, fail(EXIT_USAGE, "--%s is empty", option));
    *to = value;
    return true;
}

static bool set_number(Parser *p, const char *option, const char *value, uint64_t max, uint64_t *to)
{
    if (!take_value(p, option, &value)) return false;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(value, &end, 10);
    if (!*value || !strchr("+0123456789", *value) || end == value || *end || errno || number > max)
        return refuse(p, fail(EXIT_USAGE, "--%s is %s, must be 0 to %llu", option, *value ? value : "empty",
                              (unsigned long long)max));
    *to = number;
    return true;
}

bool parse_sides(const char *text, int count, int32_t *to)
{
    for (int i = 0; i < count; i++) {
        const size_t digits = strspn(text, "0123456789");
        if (!digits || digits > 9 || text[digits] != (i < count - 1 ? 'x' : 0)) return false;
        to[i] = (int32_t)strtol(text, NULL, 10);
        text += digits + 1;
    }
    return true;
}

/* Options that every command has. *known: it was one of them. */
static bool parse_common(Parser *p, const char *arg, bool *known)
{
    const char *value;
    uint64_t number = 0;
    Common *c = p->common;
    *known = true;
    if (!strcmp(arg, "-y")) return c->overwrite = true;
    if (names(arg, "json", &value)) return set_flag(p, "json", value, &c->json);
    if (names(arg, "backend", &value)) return set_text(p, "backend", value, &c->backend);
    if (names(arg, "device", &value)) return set_text(p, "device", value, &c->device);
    if (names(arg, "threads", &value)) {
        if (!set_number(p, "threads", value, 1024, &number)) return false;
        c->threads = (int32_t)number;
        return true;
    }
    if (names(arg, "seed", &value)) return c->seed_given = true, set_number(p, "seed", value, INT64_MAX, &c->seed); /* what JSON of ours holds */
    *known = false;
    return true;
}

static bool parse_parameter(Parser *p, const SnlsOption *option, const char *value)
{
    char why[256];
    if (!take_value(p, option->name, &value)) return false;
    if (snls_option_parse(option, p->table->params, value, why, sizeof why) >= 0) return true;
    return refuse(p, fail(EXIT_USAGE, "--%s %s", option->name, why));
}

static bool parse_option(Parser *p, const char *arg)
{
    const ArgTable *t = p->table;
    const char *value;
    bool known;
    if (!parse_common(p, arg, &known)) return false;
    if (known) return true;
    for (const SnlsOption *o = t->options; o && o->name; o++)
        if (names(arg, o->name, &value)) {
            if (t->options_given) *t->options_given |= (uint64_t)1 << (o - t->options);
            return parse_parameter(p, o, value);
        }
    for (int i = 0; i < t->arg_count; i++) {
        const Arg *a = &t->args[i];
        if (!names(arg, a->name, &value)) continue;
        return a->meta ? set_text(p, a->name, value, a->to) : set_flag(p, a->name, value, a->to);
    }
    return refuse(p, fail(EXIT_USAGE, "there is no option %.*s; 'snls %s%s%s%s%s --help' lists them", (int)strcspn(arg, "="), arg,
                          command_name, t->chosen_by ? " --" : "", t->chosen_by ? t->chosen_by : "", t->chosen_by ? " " : "",
                          t->chosen_by ? t->chosen : ""));
}

static bool parse_positional(Parser *p, const char *arg)
{
    const ArgTable *t = p->table;
    if (p->positional == t->positional_max)
        return refuse(p, fail(EXIT_USAGE, "'%s' is one argument too many; 'snls %s --help' tells what is expected", arg,
                              command_name));
    if (!*arg) return refuse(p, fail(EXIT_USAGE, "%s is empty", t->positional_names[p->positional]));
    t->positional[p->positional++] = arg;
    return true;
}

/* Among the options, wherever: help is given whatever is wrong with the rest. */
static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], word)) return true;
    return false;
}

bool parse_args(int argc, char **argv, const ArgTable *table, Common *common, int *code)
{
    Parser p = { .table = table, .common = common, .argc = argc, .at = 1, .argv = argv };
    *common = (Common){ 0 };
    *code = EXIT_DONE;
    if (has_word(argc, argv, "--help") || has_word(argc, argv, "-h"))
        return *code = print_help(table, has_word(argc, argv, "--json")), false;
    bool options = true, good = true;
    while (good && p.at < argc) {
        const char *arg = argv[p.at++];
        if (options && !strcmp(arg, "--")) options = false;
        else if (options && arg[0] == '-' && arg[1]) good = parse_option(&p, arg);
        else good = parse_positional(&p, arg);
    }
    if (good && p.positional < table->positional_min)
        good = refuse(&p, fail(EXIT_USAGE, "%s is missing; 'snls %s --help' shows examples",
                               table->positional_names[p.positional], command_name));
    SnlsContextParams unused; /* commands that open no context refuse what others refuse */
    if (good && (p.code = context_params(common, &unused)) != EXIT_DONE) good = false;
    *code = p.code;
    outputs_beside_json(common->json);
    return good;
}
