/* flow_args.c: one list of options from the tables of the flow methods. */
#include "flow_args.h"
#include <string.h>

const char *const flow_methods[] = { "farneback", "tvl1", "dis", NULL };

const char *flow_method_given(int argc, char **argv, const char *name, const char *fallback)
{
    const size_t n = strlen(name);
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        if (strncmp(argv[i], "--", 2) || strncmp(argv[i] + 2, name, n)) continue;
        if (argv[i][2 + n] == '=') return argv[i] + 3 + n;
        if (!argv[i][2 + n] && i + 1 < argc) return argv[i + 1];
    }
    return fallback;
}

void flow_options(SnlsOption *list, const SnlsOption *more, size_t params_at, const char *method)
{
    static const struct {
        const char *name;
        size_t at;
    } methods[] = { { "farneback", offsetof(SnlsFlowParams, farneback) },
                    { "tvl1", offsetof(SnlsFlowParams, tvl1) },
                    { "dis", offsetof(SnlsFlowParams, dis) } };
    int count = 0;
    for (; more && more->name; more++) list[count++] = *more;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (const SnlsOption *o = strcmp(method, methods[i].name) ? NULL : snls_flow_options(method);
             o && o->name && count < FLOW_OPTIONS_MAX - 1; o++) {
            list[count] = *o;
            list[count++].offset += (uint32_t)(params_at + methods[i].at);
        }
    list[count] = (SnlsOption){ 0 };
}
