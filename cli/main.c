/* main.c: the table of commands. */
#define _POSIX_C_SOURCE 200809L
#include "pages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

const Command commands[] = {
    { "search", "the k best matches of every query, around where the flow says it went", cmd_search },
    { "search-all", "every candidate of a search, for study and tests", cmd_search_all },
    { "refine", "search again around given places", cmd_refine },
    { "compose", "frame-to-frame flow to the flow of every slot of a search", cmd_compose },
    { "weights", "softmax of the distances", cmd_weights },
    { "gather", "weighted patches of each neighbour apart (a stack)", cmd_gather },
    { "gather-add", "weighted sum of the neighbours' patches", cmd_gather_add },
    { "scatter-add", "query patches pushed to the neighbours' places", cmd_scatter_add },
    { "denoise", "a clip without its noise", cmd_denoise },
    { "flow", "the motion between the frames of a clip", cmd_flow },
    { "metrics", "PSNR, SSIM and ST-RRED of a clip against the clean one", cmd_metrics },
    { "align", "frame t+1 aligned to frame t, by flow, by search, by search around the flow", cmd_align },
    { "noise", "white Gaussian noise on a clip", cmd_noise },
    { "eval", "noise, denoiser and metrics over a folder of clean clips", cmd_eval },
    { "synth", "make a clip with known flow", cmd_synth },
    { "demo", "align a clip with wrong flow, and see what the search repairs", cmd_demo },
    { "train", "train a small network on clean clips", cmd_train },
    { "model", "what a file of weights holds", cmd_model },
    { "bench", "time every operator against what this machine can do", cmd_bench },
    { "info", "versions, backends, CPU level, features", cmd_info },
    { "man", "a manual page, for man", cmd_man },
    { "completion", "a script that completes commands and options in a shell", cmd_completion },
    { "options", "the parameters of all operators, as text or Markdown", cmd_options },
};
enum { COMMANDS = sizeof commands / sizeof *commands };
const int command_count = COMMANDS;

static void print_commands(void)
{
    fprintf(page, "snls: Shifted Non-Local Search\n\nExamples:\n"
           "  snls denoise in.mp4 out.mp4\n"
           "  snls synth clip.npy --out-fflow f.npy --out-bflow b.npy\n"
           "  snls compose f.npy b.npy --wt 1 --out flow.npy\n"
           "  snls search clip.npy clip.npy --flow flow.npy --wt 1 --ps 3 --k 5 --out-dist d.npy --out-offset o.npy\n"
           "  snls weights d.npy --scale 0.001 --out w.npy\n"
           "  snls gather-add clip.npy w.npy o.npy --ps 3 --out y.npy\n\n"
           "Usage: snls COMMAND [ARGUMENTS]\n\nCommands:\n");
    for (int i = 0; i < COMMANDS; i++) fprintf(page, "  %-12s %s\n", commands[i].name, commands[i].help);
    fprintf(page, "\nsnls help COMMAND (or snls COMMAND --help) tells more; snls --version tells what was built.\n");
}

int run_command(const char *name, int argc, char **argv)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name)) continue;
        command_name = commands[i].name;
        return commands[i].run(argc, argv);
    }
    return fail(EXIT_USAGE, "there is no command '%s'; 'snls help' lists them", name);
}

static int help_all(bool json)
{
    const int code = page_begin();
    if (code) return code;
    print_commands();
    return page_end("help", json);
}

/* snls help [COMMAND] [--json] */
static int help(int argc, char **argv)
{
    const char *word = NULL;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) json = true;
        else if (!strcmp(argv[i], "-y")) continue; /* every command has it */
        else if (word) return fail(EXIT_USAGE, "'%s' is one argument too many; 'snls help %s' is about one command", argv[i], *word == '-' ? "COMMAND" : word);
        else word = argv[i];
    }
    if (!word || !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h")) return help_all(json);
    if (*word == '-') return fail(EXIT_USAGE, "help has no option %s; 'snls help COMMAND' tells those of a command", word);
    return run_command(word, 2 + json, (char *[]){ (char *)word, "--help", json ? "--json" : NULL, NULL });
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) return fail(EXIT_USAGE, "no command given; 'snls help' lists them");
    const char *first = argv[1];
    if (!strcmp(first, "--version") || !strcmp(first, "version")) return cmd_version(argc - 1, argv + 1);
    if (!strcmp(first, "help") || !strcmp(first, "--help") || !strcmp(first, "-h")) return help(argc - 1, argv + 1);
    return run_command(first, argc - 1, argv + 1);
}

/* OpenMP's threads turn in circles while they wait for each other, as if nobody else wanted the processor: encoder and decoder of the same run do, and so may other
 * programs; a run beside others then takes several times as long. */
static int wait_asleep(void)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv("KMP_BLOCKTIME")) return 0;
    return !setenv("OMP_WAIT_POLICY", "passive", 1);
}

/* OpenBLAS takes a processor that is newer than itself for one of 2004. Where there is another BLAS there is no such function. */
extern char *openblas_get_corename(void) __attribute__((weak));

static int name_processor(void)
{
#if defined(__x86_64__)
    if (!openblas_get_corename || getenv("OPENBLAS_CORETYPE") || strcmp(openblas_get_corename(), "Prescott")) return 0;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return !setenv("OPENBLAS_CORETYPE", "Haswell", 1);
#endif
    return 0;
}

/* Threads of its own, which nobody here asks for, wait for memory when the program ends, for ever where they may have none (ulimit -v). */
static int stop_blas_threads(void)
{
    if (!openblas_get_corename || getenv("OPENBLAS_NUM_THREADS")) return 0;
    return !setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

/* SVT-AV1 tells of itself on stderr, and asks only the environment whether it should. */
static void quiet_encoders(void) { setenv("SVT_LOG", "1", 0); }

/* Is /proc/self/exe this program? Where another runs it, the loader by its name or valgrind, it is that one, which would take our arguments for its own. */
static bool can_restart(void)
{
#if defined(__linux__)
    struct stat running, ours;
    const char *name = (const char *)getauxval(AT_EXECFN);
    return name && !stat("/proc/self/exe", &running) && !stat(name, &ours) && running.st_dev == ours.st_dev && running.st_ino == ours.st_ino;
#else
    return false;
#endif
}

/* Both libraries look at the environment when they are loaded, so the program starts itself anew, once, unless the user has said something there. Where that
 * fails it goes on as it is. */
static void start_prepared(char **argv)
{
    if (!can_restart()) return;
    const int asleep = wait_asleep(), named = name_processor(), alone = stop_blas_threads();
    if (asleep || named || alone) execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    start_prepared(argv);
    quiet_encoders();
    guard_streams();
    outputs_init();
    words_note(argc > 2 ? argv + 2 : NULL);
    const int code = dispatch(argc, argv);
    const int stream = flush_stdout();
    return code ? code : stream;
}
