/* clips.c: the clips of a folder, or a single one. */
#define _XOPEN_SOURCE 700
#include "clips.h"
#include "frames.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_clip(const char *path)
{
    static const char *const suffixes[] = { ".npy", ".mkv", ".mp4", ".y4m", ".mov", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".m2ts", ".mts", ".vob", ".nut", ".asf", ".ivf", ".wmv", ".flv", ".ogv", ".3gp", ".mxf", ".gif" };
    struct stat info;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (snls_path_ends(path, suffixes[i])) return true;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static size_t without_slashes(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    return length;
}

static int keep(Clips *clips, const char *path)
{
    if (clips->count == clips->room) {
        const int room = clips->room ? 2 * clips->room : 64;
        char **larger = realloc(clips->path, (size_t)room * sizeof *larger);
        if (!larger) return fail(EXIT_MEMORY, "out of memory");
        clips->path = larger, clips->room = room;
    }
    clips->path[clips->count] = strndup(path, without_slashes(path));
    return clips->path[clips->count++] ? EXIT_DONE : fail(EXIT_MEMORY, "out of memory");
}

static int add_clip(Clips *clips, const char *folder, const char *name, const char *only)
{
    char path[4096];
    const size_t length = without_slashes(folder);
    const int written = snprintf(path, sizeof path, "%.*s%s%s", (int)length, folder, folder[length - 1] == '/' ? "" : "/", name);
    if (name[0] == '.' || written < 0 || (size_t)written >= sizeof path || !is_clip(path)) return EXIT_DONE;
    if (only && !strstr(name, only)) return EXIT_DONE;
    return keep(clips, path);
}

/* Standard input, a file, a pipe, a pattern of pictures. */
static bool is_one(const char *path)
{
    struct stat info;
    if (!strcmp(path, "-")) return true;
    return stat(path, &info) ? errno == ENOENT && strchr(path, '%') : !S_ISDIR(info.st_mode);
}

int clips_list(Clips *clips, const char *folder, const char *only)
{
    bool pictures = false; /* folder holds some: without clips it is one */
    if (is_one(folder)) return only ? fail(EXIT_USAGE, "--only has no meaning with one clip, %s: it chooses from a folder", folder) : keep(clips, folder);
    DIR *open = opendir(folder);
    int code = open ? EXIT_DONE : fail(EXIT_INPUT, errno == ENOENT ? "%s: is not there" : "%s: cannot be opened as a folder of clips", folder);
    for (struct dirent *entry; !code && (entry = readdir(open));) {
        pictures = pictures || (entry->d_name[0] != '.' && names_picture(entry->d_name));
        code = add_clip(clips, folder, entry->d_name, only);
    }
    if (open) closedir(open);
    if (!code && !clips->count && only)
        code = fail(EXIT_INPUT, "%s: holds no clip with '%s' in its name, as --only asks for", folder, only);
    if (!code && !clips->count) code = pictures ? keep(clips, folder) : fail(EXIT_INPUT, "%s: holds no clip (folders of images, .npy, videos)", folder);
    if (!code) qsort(clips->path, (size_t)clips->count, sizeof *clips->path, by_name);
    return code;
}

void clips_free(Clips *clips)
{
    for (int i = 0; i < clips->count; i++) free(clips->path[i]);
    free(clips->path);
    *clips = (Clips){ 0 };
}
