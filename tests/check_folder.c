/* check_folder.c: a folder of its own for a test program. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <stdio.h>
#include <stdlib.h>

static char folder[] = "/tmp/snls_test_XXXXXX";

const char *check_folder(void)
{
    static bool made;
    if (!made && !mkdtemp(folder)) {
        printf("skipped: no folder in /tmp\n");
        exit(77);
    }
    made = true;
    return folder;
}

const char *in_folder(const char *name)
{
    static char path[4][128];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", check_folder(), name);
    return path[turn];
}

void check_folder_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) printf("%s is left\n", folder);
}
