/* cmd_bench.c: to come. */
#include "cli.h"

int cmd_bench(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return fail(EXIT_UNSUPPORTED, "is not written yet");
}
