/* outputs.c: outputs are written as NAME.part and renamed when all of them are complete; whatever ends the command
 * before that, a signal (stop.c) included, removes them. */
#define _XOPEN_SOURCE 700
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h> /* sig_atomic_t */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Output {
    char *path;                   /* as given */
    char *target;                 /* links resolved: renaming would replace a link, not what it points to */
    char *part;                   /* equals target for a pipe or a device, which is written in place */
    bool direct, renamed, folder; /* folder: made by us, goes with its files */
    bool member;                  /* one of many, named by number: no two can be the same */
    bool kept;                    /* of inputs: is written too, by who noted it */
    struct Output *next;
} Output;

/* The handler walks this list: an output is complete before it is linked in, and not freed after. */
static Output *volatile outputs;
static Output *inputs; /* only path is used */
static volatile sig_atomic_t committing;

static void remove_parts(void)
{
    if (committing) return;
    for (Output *o = outputs; o; o = o->next) /* newest first: a folder comes after the files in it */
        if (o->folder) rmdir(o->part);
        else if (!o->direct) unlink(o->part);
}

static char *volatile lock; /* of output_lock */

static void remove_lock(void)
{
    if (lock) unlink(lock);
}

void outputs_drop(void)
{
    remove_parts();
    remove_lock();
}

bool outputs_committing(void) { return committing; }

void outputs_init(void)
{
    stop_init();
    atexit(remove_parts);
}

static void *need(void *memory)
{
    if (!memory) exit(fail(EXIT_MEMORY, "out of memory"));
    return memory;
}

static char *joined(const char *a, const char *b)
{
    const size_t size = strlen(a) + strlen(b) + 1;
    char *text = need(malloc(size));
    snprintf(text, size, "%s%s", a, b);
    return text;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = joined(slash == path ? "/" : slash ? path : ".", "");
    if (slash && slash != path) folder[slash - path] = 0;
    return folder;
}

static bool same_place(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

const char *name_of(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

/* Under whatever spelling; of files that are not there yet by their folders, x.npy and ./x.npy. */
bool same_file(const char *a, const char *b)
{
    struct stat info;
    if (!strcmp(a, b) || same_place(a, b)) return true;
    if (strcmp(name_of(a), name_of(b)) || !stat(a, &info) || !stat(b, &info)) return false;
    char *from = folder_of(a), *to = folder_of(b);
    const bool same = same_place(from, to);
    free(from);
    free(to);
    return same;
}

/* A pipe or a device is written in place: there is nothing to rename, and nothing old to lose. */
bool output_special(const char *path)
{
    struct stat info;
    return !stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Where path really leads. A name that does not exist yet stays as it is, and so does a link to a pipe, /dev/fd/63, which no path leads to. */
static int resolve(const char *path, char **target)
{
    struct stat info;
    if (lstat(path, &info) || !S_ISLNK(info.st_mode) || output_special(path)) {
        *target = joined(path, "");
        return EXIT_DONE;
    }
    *target = realpath(path, NULL);
    return *target ? EXIT_DONE : fail(EXIT_OUTPUT, "%s: is a link that leads nowhere: %s", path, strerror(errno));
}

static bool json_there; /* on standard output */

void outputs_beside_json(bool json) { json_there = json; }

bool leads_to_stdout(const struct stat *place)
{
    struct stat out;
    return !fstat(STDOUT_FILENO, &out) && !S_ISCHR(out.st_mode) && out.st_dev == place->st_dev && out.st_ino == place->st_ino;
}

bool outputs_on_stdout(void)
{
    struct stat info;
    for (const Output *o = outputs; o; o = o->next)
        if (o->direct && !stat(o->target, &info) && leads_to_stdout(&info)) return true;
    return false;
}

const char *clip_name(const char *path)
{
    struct stat info;
    const bool other = !strchr(strrchr(path, '/') ? strrchr(path, '/') : path, '.') && output_special(path) && !stat(path, &info) && leads_to_stdout(&info);
    return other || !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/fd/1") ? "-" : path;
}

static int check_target(const Output *o, bool overwrite)
{
    struct stat info;
    if (stat(o->target, &info))
        return errno == ENOENT ? EXIT_DONE : fail(EXIT_OUTPUT, "%s: cannot be written: %s", o->path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return fail(EXIT_OUTPUT, "%s: is a directory, a file name is needed", o->path);
    if (json_there && leads_to_stdout(&info))
        return fail(EXIT_USAGE, "%s: is standard output, and so is --json: one of them", o->path);
    if (!o->direct && !overwrite) return fail(EXIT_OUTPUT, "%s: exists; -y overwrites it", o->path);
    return EXIT_DONE;
}

bool names_picture(const char *path)
{
    static const char *const endings[] = { ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".ppm", ".pgm", ".pnm", ".webp", ".exr", ".dpx", ".tga", ".jp2" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (snls_path_ends(path, endings[i])) return true;
    return false;
}

/* Is target a picture that the pattern input, "dir/a%05d.png", stands for? */
static bool fits_pattern(const char *input, const char *target)
{
    const char *given = name_of(input), *name = name_of(target);
    const char *percent = strchr(given, '%'), *behind = percent ? percent + 1 + strspn(percent + 1, "0123456789") : NULL;
    if (!percent || *behind != 'd') return false;
    const size_t before = (size_t)(percent - given), digits = strspn(name + (strlen(name) < before ? 0 : before), "0123456789");
    return !strncmp(name, given, before) && digits && !strcmp(name + before + digits, behind + 1);
}

/* Is target a picture of input, a folder or a pattern of them, or would it be one? */
static bool stands_among(const char *input, const char *target)
{
    struct stat info;
    const bool folder = !stat(input, &info) && S_ISDIR(info.st_mode);
    if (folder ? !names_picture(target) : !fits_pattern(input, target)) return false;
    char *beside = folder_of(target), *from = folder ? joined(input, "") : folder_of(input);
    const bool same = same_file(beside, from);
    free(beside);
    free(from);
    return same;
}

/* One that is read, so it is there. */
static bool among_pictures(const char *input, const char *target)
{
    struct stat info;
    return !stat(target, &info) && stands_among(input, target);
}

/* The input that writing to target or part would overwrite; NULL: none. */
static const Output *input_hit(const char *target, const char *part)
{
    const Output *input = inputs;
    while (input && !same_file(input->path, target) && !same_file(input->path, part) && !among_pictures(input->path, target))
        input = input->next;
    return input;
}

static int check_inputs(const char *path, const char *target, const char *part)
{
    const Output *input = input_hit(target, part);
    if (!input) return EXIT_DONE;
    if (input->kept) return fail(EXIT_USAGE, "%s: two outputs would be the same file", path);
    return fail(EXIT_USAGE, "%s: is an input, and the output %s would overwrite it",
                among_pictures(input->path, target) ? target : input->path, path);
}

int output_spares_inputs(const char *path) { return check_inputs(path, path, path); }

static int check_others(const Output *o)
{
    for (const Output *other = outputs; other; other = other->next) {
        if (other->folder || (o->member && other->member) || (o->direct && other->direct)) continue; /* two outputs may go to /dev/null */
        /* parts exist from the moment they are added: two spellings of a new name meet there */
        if (same_file(o->target, other->target) || same_file(o->target, other->part) ||
            same_file(o->part, other->target) || same_file(o->part, other->part))
            return fail(EXIT_USAGE, "%s: two outputs would be the same file", o->path);
    }
    return o->direct ? EXIT_DONE : check_inputs(o->path, o->target, o->part);
}

/* Does the name still mean the open file? Between opening and locking its owner may have renamed or removed it. */
static bool still_named(const char *path, int fd)
{
    struct stat named, mine;
    return !stat(path, &named) && !fstat(fd, &mine) && named.st_dev == mine.st_dev && named.st_ino == mine.st_ino;
}

enum { ATTEMPTS = 100 }; /* not for ever: a file system may number its files as it likes */

/* Open, ours alone and empty; -1 with errno, which is EWOULDBLOCK where another run has it. The system lets go of the lock with the process,
 * however that ends. A file system without locks gives none, and the run goes on. */
static int open_locked(const char *part)
{
    for (int left = ATTEMPTS;; left--) {
        const int fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) return fd;
        const bool taken = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
        if (!taken && (!left || still_named(part, fd))) return (void)!ftruncate(fd, 0), fd;
        close(fd);
        if (taken) return errno = EWOULDBLOCK, -1;
    }
}

int output_lock(const char *path)
{
    if (output_special(path)) return EXIT_DONE;
    char *name = joined(path, ".lock");
    stop_hold();
    const int fd = open_locked(name); /* open until the program ends */
    const bool taken = fd < 0 && errno == EWOULDBLOCK; /* that nothing can be written there the first write tells */
    if (fd >= 0) lock = name, atexit(remove_lock);
    else free(name);
    stop_release();
    return taken ? fail(EXIT_OUTPUT, "%s: another run is writing it", path) : EXIT_DONE;
}

/* Of the many files of a pattern, which all begin at one number, the first stands for all: there are fewer descriptors than pictures. */
static bool keeps_lock(const Output *o)
{
    for (const Output *other = outputs; o->member && other; other = other->next)
        if (other->member) return false;
    return true;
}

/* /proc and its kin are there, and take nothing new. */
static int no_place(const Output *o)
{
    struct stat info;
    char *folder = folder_of(o->part);
    const bool there = !stat(folder, &info) && S_ISDIR(info.st_mode);
    free(folder);
    return fail(EXIT_OUTPUT, "%s: cannot be created: its folder %s", o->path,
                there ? "takes no files" : "is not there");
}

/* Made now, empty: that a directory is missing or read-only, or that another run writes there, is known before any work. */
static int create_part(const Output *o)
{
    struct stat info;
    if (o->direct) return EXIT_DONE;
    if (!lstat(o->part, &info) && !S_ISREG(info.st_mode))
        return fail(EXIT_OUTPUT, "%s: is in the way, and no plain file", o->part);
    const int fd = open_locked(o->part);
    if (fd < 0 && errno == EWOULDBLOCK) return fail(EXIT_OUTPUT, "%s: another run is writing it", o->path);
    if (fd < 0 && errno == ENOENT) return no_place(o);
    if (fd < 0) return fail(EXIT_OUTPUT, "%s: cannot be created: %s", o->part, strerror(errno));
    if (!keeps_lock(o)) close(fd); /* else open until the program ends, behind the last rename */
    return EXIT_DONE;
}

static void note(const char *path, bool kept)
{
    Output *input = need(calloc(1, sizeof *input));
    input->path = joined(path, "");
    input->kept = kept;
    input->next = inputs;
    inputs = input;
}

const char *input_name(const char *path) { return strcmp(path, "-") ? path : "standard input"; }
void input_note(const char *path) { note(path, false); }
void output_note(const char *path) { note(path, true); }

static int discard(Output *o, int code) /* one that was never linked in */
{
    free(o->path);
    free(o->target);
    free(o->part);
    free(o);
    return code;
}

static int add(const char *path, bool overwrite, bool member)
{
    if (!strcmp(path, "-")) return fail(EXIT_USAGE, "-: is standard output, which takes clips only (OUT, as y4m); a file of that name is ./-");
    Output *o = need(calloc(1, sizeof *o));
    o->member = member;
    o->path = joined(path, "");
    int code = resolve(path, &o->target);
    if (code) return discard(o, code);
    o->direct = output_special(o->target);
    o->part = joined(o->target, o->direct ? "" : ".part");
    code = check_others(o);
    if (!code) code = check_target(o, overwrite);
    if (!code) code = create_part(o);
    if (code) return discard(o, code);
    o->next = outputs;
    outputs = o;
    return check_target(o, overwrite); /* again: the run that had the lock may have finished in between */
}

/* From the moment it is made to the moment the list has it no signal may end the program. */
static int add_held(const char *path, bool overwrite, bool member)
{
    stop_hold();
    const int code = add(path, overwrite, member);
    stop_release();
    return code;
}

/* A picture of pattern, or what it is called until it is complete. */
static bool is_member(const char *pattern, const char *target)
{
    char *name = joined(target, "");
    if (snls_path_ends(name, ".part")) name[strlen(name) - strlen(".part")] = 0;
    const bool member = stands_among(pattern, name);
    free(name);
    return member;
}

int output_in_place(const char *path, const char *pattern, bool overwrite)
{
    Output o = { .path = (char *)path };
    int code = resolve(path, &o.target);
    if (code) return code;
    o.part = o.target;
    o.direct = output_special(o.target);
    code = check_others(&o);
    if (!code && !o.direct && pattern && is_member(pattern, o.target)) code = fail(EXIT_USAGE, "%s: two outputs would be the same file", path);
    if (!code) code = check_target(&o, overwrite);
    if (!code && !o.direct) output_note(o.target);
    free(o.target);
    return code;
}

int output_add(const char *path, bool overwrite) { return add_held(path, overwrite, false); }

/* Under the name of another format it would be taken for that one. */
int output_array(const char *path, bool overwrite)
{
    if (snls_path_ends(path, ".flo") || names_picture(path)) return fail(EXIT_USAGE, "%s: arrays are written as .npy", path);
    return output_add(path, overwrite);
}

int output_member(const char *path, bool overwrite) { return add_held(path, overwrite, true); }
int output_member_held(const char *path, bool overwrite) { return add(path, overwrite, true); }

int64_t output_member_in_way(const char *pattern, int64_t count, bool overwrite)
{
    char name[4300];
    struct stat info;
    for (int64_t i = 0; i < count && i < 1000000; i++) { /* a file may claim to have any number */
        if (!snls_path_number(pattern, i, name, sizeof name) || stat(name, &info)) continue;
        if (!overwrite || input_hit(name, name)) return i;
    }
    return -1;
}

int output_member_refuse(const char *pattern, int64_t number)
{
    char name[4300];
    snls_path_number(pattern, number, name, sizeof name);
    const int code = output_spares_inputs(name);
    return code ? code : fail(EXIT_OUTPUT, "%s: exists; -y overwrites it", name);
}

static int make_folder(const char *path)
{
    if (mkdir(path, 0777)) return fail(EXIT_OUTPUT, "%s: cannot be made: %s", path, strerror(errno));
    Output *o = need(calloc(1, sizeof *o));
    o->path = joined(path, "");
    o->target = joined(path, "");
    o->part = joined(path, "");
    o->direct = o->folder = true;
    o->next = outputs;
    outputs = o;
    return EXIT_DONE;
}

int output_folder(const char *path)
{
    struct stat info;
    if (!stat(path, &info))
        return S_ISDIR(info.st_mode) ? EXIT_DONE : fail(EXIT_OUTPUT, "%s: exists and is no directory", path);
    stop_hold();
    const int code = make_folder(path);
    stop_release();
    return code;
}

/* Of dir%d/a.png, which numbers folders, none is made: how many there are to be is not known yet. */
int output_folder_of(const char *pattern)
{
    char *folder = folder_of(pattern);
    const int code = strchr(folder, '%') ? EXIT_DONE : output_folder(folder);
    free(folder);
    return code;
}

const char *output_path(const char *path)
{
    for (const Output *o = outputs; o; o = o->next)
        if (!strcmp(path, o->path)) return o->part;
    return path;
}

static char *numbered; /* pattern of the members, where -y may have left some of an older result */
static int64_t number_end;

void output_ends(const char *pattern, int64_t count, bool overwrite)
{
    free(numbered);
    numbered = overwrite ? joined(pattern, "") : NULL;
    number_end = count;
}

/* Not removed: they may be what a run over a part of the clip was to leave alone. What stands behind a gap is not of the clip that a reader would see. */
static void tell_older(void)
{
    char name[4300];
    struct stat info;
    int64_t at = number_end;
    while (numbered && snls_path_number(numbered, at, name, sizeof name) && !lstat(name, &info)) at++;
    if (at == number_end) return;
    snls_path_number(numbered, number_end, name, sizeof name);
    fprintf(stderr, "snls %s: %lld file%s of an older, longer result %s still there, from %s on\n", command_name, (long long)(at - number_end),
            at - number_end == 1 ? "" : "s", at - number_end == 1 ? "is" : "are", name);
}

int outputs_commit(void)
{
    int code = EXIT_DONE;
    committing = 1;
    for (Output *o = outputs; o && !code; o = o->next) {
        if (o->direct) continue;
        if (rename(o->part, o->target))
            code = fail(EXIT_OUTPUT, "%s: cannot be renamed to %s: %s", o->part, o->target, strerror(errno));
        else o->renamed = true;
    }
    for (Output *o = outputs; o && code; o = o->next)
        if (o->renamed) unlink(o->target); /* all or none */
    if (code) {
        committing = 0;
        remove_parts();
    } else tell_older();
    return code;
}

bool outputs_committed(void) { return committing && outputs; }
