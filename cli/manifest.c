/* manifest.c: weights against their manifest. */
#include "manifest.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int find_sum(Manifest *m, const char *weights)
{
    FILE *file = fopen(weights, "rb");
    const int bad = !file || sha256_file(file, m->sha256);
    const int code = bad ? fail(EXIT_INPUT, "%s: cannot be read: %s", weights, strerror(errno)) : EXIT_DONE;
    if (file) fclose(file);
    return code;
}

/* What lies under the manifest's name: NULL where that is no regular file (a pipe would be waited for), or no JSON (*code). */
static json_t *load(const char *path, const char *weights, int *code)
{
    struct stat info;
    json_error_t error;
    FILE *file = !stat(path, &info) && S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL;
    if (!file) return NULL;
    json_t *root = json_loadf(file, JSON_DECODE_ANY, &error);
    if (!root) *code = fail(EXIT_INPUT, "%s: the manifest of %s is no JSON: line %d: %s", path, weights, error.line, error.text);
    fclose(file);
    return root;
}

int manifest_check(Manifest *m, const char *weights)
{
    static const char end[] = ".safetensors";
    const size_t length = strlen(weights);
    *m = (Manifest){ 0 };
    int code = find_sum(m, weights);
    if (code || !snls_path_ends(weights, end) || length >= sizeof m->path) return code;
    snprintf(m->path, sizeof m->path, "%.*s.json", (int)(length - (sizeof end - 1)), weights);
    json_t *root = load(m->path, weights, &code);
    const char *want = json_string_value(json_object_get(root, "sha256"));
    if (!want) m->path[0] = 0; /* some other file of that name */
    else if (strcmp(want, m->sha256)) code = fail(EXIT_CHECK, "%s: its checksum is %s, its manifest %s has %.64s: it was changed or is damaged", weights, m->sha256, m->path, want);
    json_decref(root);
    return code;
}
