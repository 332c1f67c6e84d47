/* main.c: runs a fuzz target over files and folders, for builds without libFuzzer: a corpus run is a test.
 *   fuzz_npy FILE|FOLDER... */
#define _POSIX_C_SOURCE 200809L /* opendir */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) { printf("cannot read %s\n", path); return 0; }
    const long size = ftell(f);
    uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1); /* its own block, so that one byte too far is seen */
    rewind(f);
    const size_t got = bytes && size > 0 ? fread(bytes, 1, (size_t)size, f) : 0;
    fclose(f);
    LLVMFuzzerTestOneInput(bytes, got);
    free(bytes);
    return 1;
}

static int run_folder(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        char name[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        count += run_file(name);
    }
    if (folder) closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info)) printf("cannot find %s\n", argv[i]);
        else count += S_ISDIR(info.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    }
    printf("%d inputs run, no crash\n", count);
    return count == 0; /* a corpus that is not there is a failure */
}
