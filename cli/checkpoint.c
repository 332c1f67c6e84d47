/* checkpoint.c: the file that keeps the state of a training. */
#define _XOPEN_SOURCE 700
#include "checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_old(const char *path, bool replace)
{
    struct stat info;
    if (stat(path, &info)) return errno == ENOENT ? EXIT_DONE : fail(EXIT_OUTPUT, "--checkpoint %s: cannot be written: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return fail(EXIT_OUTPUT, "--checkpoint %s: is no plain file", path);
    return replace ? EXIT_DONE : fail(EXIT_OUTPUT, "--checkpoint %s: exists; --resume goes on with it, -y begins anew", path);
}

/* Made and removed again: that a folder is missing or read-only is known before any work. */
static int try_part(const char *part)
{
    const int fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return fail(EXIT_OUTPUT, "--checkpoint: %s cannot be created: %s", part, strerror(errno));
    close(fd);
    unlink(part);
    return EXIT_DONE;
}

int checkpoint_open(Checkpoint *c, const char *path, bool replace)
{
    if (!path) return EXIT_DONE;
    int code = check_old(path, replace);
    if (code) return code;
    c->path = realpath(path, NULL); /* renaming would replace a link, not what it leads to */
    if (!c->path) c->path = strdup(path);
    c->part = c->path ? malloc(strlen(c->path) + sizeof ".part") : NULL;
    if (!c->part) return fail(EXIT_MEMORY, "out of memory");
    strcat(strcpy(c->part, c->path), ".part");
    code = try_part(c->part);
    if (code) return code;
    output_note(path);
    output_note(c->part);
    return EXIT_DONE;
}

/* On the disk before it takes the old one's place: no power cut leaves neither. */
static int settle(const char *part)
{
    const int fd = open(part, O_RDONLY | O_CLOEXEC);
    const int bad = fd < 0 || fsync(fd) ? errno : 0;
    if (fd >= 0) close(fd);
    return bad ? fail(EXIT_OUTPUT, "%s: cannot be written: %s", part, strerror(bad)) : EXIT_DONE;
}

int checkpoint_save(const Checkpoint *c, SnlsContext *ctx, SnlsTrainer *trainer)
{
    if (!c->path) return EXIT_DONE;
    const SnlsStatus status = snls_trainer_save(trainer, c->part);
    if (status < 0) return fail_found(ctx, status, true);
    const int code = settle(c->part);
    if (code) return code;
    return rename(c->part, c->path) ? fail(EXIT_OUTPUT, "%s: cannot be renamed: %s", c->part, strerror(errno)) : EXIT_DONE;
}

void checkpoint_close(Checkpoint *c)
{
    free(c->path);
    free(c->part);
    *c = (Checkpoint){ 0 };
}
