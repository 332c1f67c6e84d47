/* stop.c: a signal ends the program with one line on stderr, and takes with it the outputs that are not complete. */
#define _XOPEN_SOURCE 700
#include "cli.h"
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static const char *volatile after_words, *volatile after_file; /* what the sentence about a signal ends with, where this file is there */
static bool terminal;

void stop_words(const char *words, const char *file)
{
    after_file = file;
    after_words = words;
}

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return; /* nobody listens */
}

static const struct { int number; const char *name; } stops[] = {
    { SIGINT, "SIGINT" }, { SIGTERM, "SIGTERM" }, { SIGHUP, "SIGHUP" }, { SIGQUIT, "SIGQUIT" }, { SIGXCPU, "SIGXCPU" },
    { SIGUSR1, "SIGUSR1" }, { SIGUSR2, "SIGUSR2" } /* what batch systems send before the time is up */
};
enum { STOPS = sizeof stops / sizeof *stops };

static const char *signal_name(int number)
{
    int i = 0;
    while (i < STOPS - 1 && stops[i].number != number) i++;
    return stops[i].name;
}

static void say_why(int number)
{
    say(terminal ? "\nsnls " : "snls "); /* behind a progress bar */
    say(command_name ? command_name : "");
    say(": stopped by ");
    say(signal_name(number));
    if (after_words && !access(after_file, F_OK)) say(after_words);
    say("\n");
}

static atomic_int holds;   /* threads that are making files */
static atomic_int stop_by; /* the signal that ends the program; 0: none */

/* One thread ends the program; another that comes here meanwhile waits for that. Signals stay away until all is removed. */
static void stop(int number)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    while (atomic_flag_test_and_set(&taken)) pause();
    outputs_drop();
    say_why(number);
    signal(number, SIG_DFL);
    raise(number);
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* A file that another thread makes right now would be left behind: that thread stops the program when it is done. A second signal does not
 * wait for it. */
static void on_signal(int number)
{
    int none = 0;
    if (outputs_committing()) return; /* complete: let the last renames happen */
    const bool first = atomic_compare_exchange_strong(&stop_by, &none, number);
    if (!first || !atomic_load(&holds)) stop(number);
}

void stop_release(void)
{
    if (atomic_fetch_sub(&holds, 1) == 1 && atomic_load(&stop_by)) stop(atomic_load(&stop_by));
}

void stop_hold(void)
{
    atomic_fetch_add(&holds, 1);
    if (!atomic_load(&stop_by)) return;
    stop_release(); /* too late: everything is being removed */
    for (;;) pause();
}

void stop_init(void)
{
    struct sigaction action = { .sa_handler = on_signal }, old;
    sigfillset(&action.sa_mask);
    for (int i = 0; i < STOPS; i++)
        if (!sigaction(stops[i].number, NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(stops[i].number, &action, NULL); /* nohup stays */
    signal(SIGPIPE, SIG_IGN);                     /* a closed stdout is an error like any other */
    signal(SIGXFSZ, SIG_IGN);                     /* so is a file that grows past its limit */
    terminal = isatty(STDERR_FILENO);
}
