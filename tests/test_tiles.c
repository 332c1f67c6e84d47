/* test_tiles.c: the state of matrix tiles (AMX), which Linux lends to a process for good: only contexts that may use tiles ask for it, and a no is not for ever.
 *   test_tiles */
#define _GNU_SOURCE /* sigaltstack, syscall */
#include "spec.h"
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* arch_prctl(ARCH_GET_XCOMP_PERM): bit 18 are the tiles. */
static bool tiles_are_lent(void)
{
    unsigned long lent = 0;
    return syscall(SYS_arch_prctl, 0x1022L, &lent) == 0 && (lent >> 18 & 1);
}

static int32_t level_in_use(int32_t asked)
{
    SnlsContext *ctx = context_open("cpu", asked, 1);
    const int32_t level = snls_cpu_level(ctx);
    for (int i = 0; i < operator_count; i++) {
        Call call;
        call_make(&call, &operators[i], 5, CALL_SMALL);
        CHECK(call_forward(&call, ctx) >= 0, "%s at level %s: %s", operators[i].name, snls_cpu_level_name(level), snls_error(ctx));
        tensors_free();
    }
    snls_close(&ctx);
    return level;
}

/* Linux lends nothing while a thread's alternate signal stack has no room for it. */
static void refused_while_stack_is_small(void)
{
    static char small[4096];
    const stack_t stack = { .ss_sp = small, .ss_size = sizeof small }, none = { .ss_flags = SS_DISABLE };
    if (sigaltstack(&stack, NULL)) return; /* smaller than anything this processor saves */
    CHECK(level_in_use(SNLS_CPU_AUTO) < SNLS_CPU_AMX && !tiles_are_lent(), "tiles in spite of a small signal stack");
    CHECK(!sigaltstack(&none, NULL), "the signal stack stays");
}

int main(int argc, char **argv)
{
    (void)argc;
    check_repeat("%s", argv[0]);
    unsetenv("SNLS_CPU");
    if (snls_cpu_level_max() < SNLS_CPU_AMX || tiles_are_lent()) {
        printf("no tiles here, or lent already\n");
        return 77;
    }
    for (int32_t level = SNLS_CPU_C; level < SNLS_CPU_AMX; level++) {
        CHECK(level_in_use(level) <= level, "above the level asked for");
        CHECK(!tiles_are_lent(), "level %s asks for tiles", snls_cpu_level_name(level));
    }
    refused_while_stack_is_small();
    const int32_t level = level_in_use(SNLS_CPU_AUTO);
    CHECK(tiles_are_lent() == (level >= SNLS_CPU_AMX), "level %s, and tiles are %slent", snls_cpu_level_name(level), tiles_are_lent() ? "" : "not ");
    return check_end();
}
#else
int main(void) { return 77; }
#endif
