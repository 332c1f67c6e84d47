/* images.c: clips as pictures: a folder in the order of its names, a pattern of numbers, one picture. PNG and JPEG by
 * src/io, without FFmpeg; others by FFmpeg. PNG is written, with 16 bits where the input has more than 8. */
#define _POSIX_C_SOURCE 200809L
#include "io/image.h"
#include "io/file.h"
#include "video/kind.h"
#include <dirent.h>
#include <math.h>
#include <snls/io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Images {
    char **name; /* of a folder, sorted; NULL for a pattern */
    int64_t count, room, at;
    int64_t number; /* of the first file of a pattern */
    bool deep, told; /* 16 bits for all, since one of them has 16; that a later one has more than the first */
    bool told_turned; /* that EXIF has a picture turned */
} Images;

static bool is_own(const char *name)
{
    return snls_path_ends(name, ".png") || snls_path_ends(name, ".jpg") || snls_path_ends(name, ".jpeg");
}

static bool is_other(const char *name)
{
    static const char *const ending[] = { ".tif", ".tiff", ".bmp", ".ppm", ".pgm", ".pnm", ".webp", ".exr", ".dpx", ".tga", ".jp2" };
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (snls_path_ends(name, ending[i])) return true;
    return false;
}

static SnlsStatus add_name(SnlsReader *r, Images *m, const char *folder, const char *file)
{
    const SnlsAllocator *a = &r->ctx->allocator;
    const size_t size = strlen(folder) + strlen(file) + 2;
    if (m->count == m->room) {
        const int64_t room = m->room ? 2 * m->room : 256;
        char **larger = snls_mem_alloc(a, room * (int64_t)sizeof *larger);
        SNLS_REQUIRE(r->ctx, larger, SNLS_ERR_MEMORY, "%s: out of memory for its names", snls_io_name(r->path).text);
        if (m->count) memcpy(larger, m->name, (size_t)m->count * sizeof *larger);
        snls_mem_free(a, m->name);
        m->name = larger;
        m->room = room;
    }
    char *text = snls_mem_alloc(a, (int64_t)size);
    SNLS_REQUIRE(r->ctx, text, SNLS_ERR_MEMORY, "%s: out of memory for its names", snls_io_name(r->path).text);
    snprintf(text, size, "%s%s%s", folder, *folder ? "/" : "", file);
    m->name[m->count++] = text;
    return SNLS_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* A name that leads nowhere is no folder: that a picture is missing is found when it is read. */
static bool is_folder(DIR *in, const char *name)
{
    struct stat info;
    return !fstatat(dirfd(in), name, &info, 0) && S_ISDIR(info.st_mode);
}

static SnlsStatus list_names(SnlsReader *r, Images *m, DIR *folder, bool (*wanted)(const char *name))
{
    SnlsStatus status = SNLS_OK;
    rewinddir(folder);
    for (struct dirent *e; status >= 0 && (e = readdir(folder));)
        if (e->d_name[0] != '.' && wanted(e->d_name) && !is_folder(folder, e->d_name)) status = add_name(r, m, r->path, e->d_name);
    return status;
}

/* Others than PNG and JPEG only where there are none of these: such a folder is of one kind. */
static SnlsStatus list_folder(SnlsReader *r, Images *m)
{
    DIR *folder = opendir(r->path);
    SNLS_REQUIRE(r->ctx, folder, SNLS_ERR_IO, "%s: cannot be opened", snls_io_name(r->path).text);
    SnlsStatus status = list_names(r, m, folder, is_own);
    if (status >= 0 && !m->count) status = list_names(r, m, folder, is_other);
    closedir(folder);
    SNLS_TRY(status);
    SNLS_REQUIRE(r->ctx, m->count, SNLS_ERR_FORMAT, "%s: holds no picture (.png, .jpg, .tif, ...)", snls_io_name(r->path).text);
    qsort(m->name, (size_t)m->count, sizeof *m->name, by_name);
    return SNLS_OK;
}

static bool pattern_there(const char *pattern, int64_t number)
{
    char name[SNLS_PATH_MAX];
    return snls_path_number(pattern, number, name, sizeof name) && !access(name, F_OK);
}

enum { GAP_MAX = 1000 };

/* That a clip ends at a number which was left out would otherwise be found by nobody. */
static SnlsStatus check_gap(SnlsReader *r, const Images *m)
{
    const int64_t missing = m->number + m->count;
    if (r->params.lenient || (r->params.count > 0 && r->params.first + r->params.count <= m->count)) return SNLS_OK;
    for (int64_t i = 1; i <= GAP_MAX; i++)
        SNLS_REQUIRE(r->ctx, !pattern_there(r->path, missing + i), SNLS_ERR_FORMAT,
                     "%s: number %lld is missing, %lld is there again; the folder takes all there are, params.lenient those before the gap", snls_io_name(r->path).text,
                     (long long)missing, (long long)(missing + i));
    return SNLS_OK;
}

/* The number by which name is one of the pattern's, -1 where it is none. Both without folders. */
static int64_t number_of(const char *pattern, const char *name)
{
    char again[SNLS_PATH_MAX];
    const size_t before = strcspn(pattern, "%");
    if (strncmp(pattern, name, before) || strspn(name + before, "0123456789") > 18) return -1;
    const int64_t number = strtoll(name + before, NULL, 10);
    return number >= 0 && snls_path_number(pattern, number, again, sizeof again) && !strcmp(again, name) ? number : -1;
}

/* The lowest number that is there, -1 where there is none; of a pattern for folders it is looked for up to GAP_MAX. */
static int64_t first_number(const char *pattern)
{
    const char *slash = strrchr(pattern, '/'), *base = slash ? slash + 1 : pattern;
    char folder[SNLS_PATH_MAX];
    int64_t first = -1;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - pattern) + 1 : 1, slash ? pattern : ".");
    DIR *open = strchr(base, '%') ? opendir(folder) : NULL;
    for (int64_t i = 0; !open && i <= GAP_MAX; i++) /* a number in the folder's name, or one that may be entered and not listed */
        if (pattern_there(pattern, i)) return i;
    for (struct dirent *e; open && (e = readdir(open));) {
        const int64_t number = number_of(base, e->d_name);
        if (number >= 0 && (first < 0 || number < first)) first = number;
    }
    if (open) closedir(open);
    return first;
}

/* Numbers go up from the lowest until one is missing. Frames count from 0, whatever the first number, as in every clip. */
static SnlsStatus list_pattern(SnlsReader *r, Images *m)
{
    char name[SNLS_PATH_MAX];
    SNLS_REQUIRE(r->ctx, snls_path_number(r->path, 0, name, sizeof name), SNLS_ERR_ARG,
                 "%s: a pattern has one %%d or %%05d, of %d digits at most", snls_io_name(r->path).text, SNLS_PATH_DIGITS);
    m->number = first_number(r->path);
    while (m->number >= 0 && pattern_there(r->path, m->number + m->count)) m->count++;
    SNLS_REQUIRE(r->ctx, m->count, SNLS_ERR_IO, "%s: no file has such a name with a number in it",
                 snls_io_name(r->path).text);
    return check_gap(r, m);
}

static void name_of(const SnlsReader *r, const Images *m, int64_t at, char *name, size_t size)
{
    if (m->name) snprintf(name, size, "%s", m->name[at]);
    else snls_path_number(r->path, m->number + at, name, size);
}

/* The first bytes of a file, size at most; returns how many. What is no file is not touched: a pipe gives its bytes once. */
static int64_t read_head(const char *name, unsigned char *head, size_t size)
{
    struct stat info;
    FILE *file = !stat(name, &info) && S_ISREG(info.st_mode) ? fopen(name, "rb") : NULL;
    const size_t read = file ? fread(head, 1, size, file) : 0;
    if (file) fclose(file);
    return (int64_t)read;
}

/* Those of a PNG up to its depth and colour type; false for all else. */
static bool png_head(const char *name, unsigned char head[26]) { return snls_path_ends(name, ".png") && read_head(name, head, 26) == 26; }

/* Has any of the pictures that are wanted 16 bits? A sequence has one depth, which the first picture alone does not tell. */
static bool has_deep(const SnlsReader *r, const Images *m)
{
    const int64_t end = r->params.count > 0 && r->params.count < m->count - m->at ? m->at + r->params.count : m->count;
    char name[SNLS_PATH_MAX];
    unsigned char head[26];
    for (int64_t i = m->at; i < end && end - m->at > 1; i++) {
        name_of(r, m, i, name, sizeof name);
        if (png_head(name, head) && head[24] == 16) return true;
    }
    return false;
}

static SnlsStatus images_open(SnlsReader *r)
{
    struct stat info;
    Images *m = r->priv = snls_mem_alloc(&r->ctx->allocator, sizeof *m);
    SNLS_REQUIRE(r->ctx, m, SNLS_ERR_MEMORY, "video: out of memory");
    *m = (Images){ 0 };
    if (!stat(r->path, &info)) SNLS_TRY(S_ISDIR(info.st_mode) ? list_folder(r, m) : add_name(r, m, "", r->path));
    else if (strchr(r->path, '%')) SNLS_TRY(list_pattern(r, m));
    else return snls_reader_missing(r);
    SNLS_REQUIRE(r->ctx, r->params.first < m->count, SNLS_ERR_ARG,
                 "%s: has %lld frames, the first wanted is number %lld", snls_io_name(r->path).text,
                 (long long)m->count, (long long)r->params.first);
    m->at = r->params.first;
    m->deep = has_deep(r, m);
    r->info.frames = m->count;
    r->info.frames_exact = 1;
    r->info.rate = r->params.rate;
    r->info.duration = (double)m->count / r->params.rate;
    snprintf(r->info.container, sizeof r->info.container, "images");
    return SNLS_OK;
}

/* 16 bits were read as f32 in steps of 1/257: back to whole numbers, so that a copy is exact. 8 bits among them are such steps too. */
static void take_pixels(const SnlsTensor *image, SnlsFrame *frame)
{
    const int64_t count = snls_tensor_elements(image);
    const bool deep = frame->pixels.component[0].depth > 8;
    if (image->dtype == SNLS_U8 && !deep) memcpy(frame->memory, image->data, (size_t)count);
    else if (image->dtype == SNLS_U8)
        for (int64_t i = 0; i < count; i++) ((uint16_t *)frame->memory)[i] = (uint16_t)(257 * ((const uint8_t *)image->data)[i]);
    else
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)frame->memory)[i] = (uint16_t)lrintf(fminf(fmaxf(((const float *)image->data)[i] * 257, 0), 65535));
}

/* As snls_image_read has it: u8 where 8 bits are enough, else f32. */
static SnlsStatus frame_to_array(SnlsContext *ctx, const SnlsFrame *frame, SnlsTensor *image)
{
    const SnlsPixels *p = &frame->pixels;
    const int64_t shape[3] = { p->height, p->width, snls_pixels_channels(p) };
    SnlsTensor pixels;
    SNLS_TRY(snls_array_alloc(ctx, &pixels, SNLS_F32, 3, shape));
    SnlsStatus status = snls_pixels_read(ctx, p, &frame->planes, pixels.data);
    if (status >= 0 && p->component[0].depth > 8) {
        *image = pixels;
        return SNLS_OK;
    }
    if (status >= 0) status = snls_array_alloc(ctx, image, SNLS_U8, 3, shape);
    for (int64_t i = 0; status >= 0 && i < snls_tensor_elements(&pixels); i++)
        ((uint8_t *)image->data)[i] = (uint8_t)lrintf(fminf(fmaxf(((const float *)pixels.data)[i], 0), 255));
    snls_array_free(ctx, &pixels);
    return status;
}

/* What is neither PNG nor JPEG is a clip of one frame to FFmpeg. */
static SnlsStatus read_other(SnlsContext *ctx, const char *name, SnlsTensor *image, bool *floats)
{
    SnlsReader *one;
    SnlsFrame *frame = NULL;
    SNLS_TRY(snls_reader_open(&one, ctx, name, NULL));
    SnlsStatus status = snls_reader_next(one, &frame);
    *floats = status >= 0 && frame->pixels.component[0].depth == 32;
    if (status >= 0) status = frame_to_array(ctx, frame, image);
    snls_frame_free(&frame);
    snls_reader_close(&one);
    return status;
}

/* By the colour type in the header of a PNG, which is read without transparency. */
static bool has_alpha(const char *name)
{
    unsigned char head[26];
    return png_head(name, head) && head[25] & 4;
}

/* Depths of others than PNG are known only as they come. */
static void note_depth(SnlsReader *r, Images *m, int64_t t, int32_t depth)
{
    if (m->told || !r->info.depth || depth <= r->info.depth) return;
    m->told = true;
    snls_note(&r->info, "from frame %lld on pictures have %d bits a sample, before %d: the output has one depth for all", (long long)t, (int)depth, (int)r->info.depth);
}

/* EXIF stands at the beginning, before what may be long. */
static void note_turned(SnlsReader *r, Images *m, const char *name)
{
    unsigned char head[4096];
    if (m->told_turned || !(snls_path_ends(name, ".jpg") || snls_path_ends(name, ".jpeg") || snls_path_ends(name, ".png"))) return;
    m->told_turned = snls_exif_turned(head, read_head(name, head, sizeof head));
    if (m->told_turned) snls_note(&r->info, "%s: is not turned as its EXIF data says; pixels stay as they are stored", snls_io_name(name).text);
}

enum { PROFILE_HEAD = 1 << 17 }; /* bytes: EXIF, which may come before, has 64 KiB at most */

static void note_profile(SnlsReader *r, const char *name)
{
    unsigned char *head = snls_mem_alloc(&r->ctx->allocator, PROFILE_HEAD);
    if (head && snls_icc_other(head, read_head(name, head, PROFILE_HEAD)))
        snls_note(&r->info, "the colour profile (ICC) of the pictures is left out: colours will be taken for those of sRGB");
    snls_mem_free(&r->ctx->allocator, head);
}

static SnlsStatus images_next(SnlsReader *r, SnlsFrame **frame)
{
    char name[SNLS_PATH_MAX];
    Images *m = r->priv;
    SnlsTensor image;
    if (m->at >= m->count) return SNLS_END;
    const int64_t t = m->at++;
    name_of(r, m, t, name, sizeof name);
    bool floats = false;
    SNLS_TRY(is_other(name) ? read_other(r->ctx, name, &image, &floats) : snls_image_read(r->ctx, name, &image));
    if (floats && !*r->info.notes)
        snls_note(&r->info, "floats are read as 16 bits a sample, and what lies outside 0 to 1 is cut; one picture by its name is not");
    if (!r->given && !r->peeked) note_profile(r, name);
    if (!r->given && !r->peeked && has_alpha(name)) snls_note(&r->info, "transparency of PNG pictures is left out");
    const int32_t channels = (int32_t)image.shape[2], depth = image.dtype == SNLS_U8 && !m->deep ? 8 : 16;
    note_depth(r, m, t, depth);
    note_turned(r, m, name);
    const SnlsPixels p = snls_pixels_packed(image.shape[0], image.shape[1], channels, depth);
    const SnlsStatus status = snls_frame_plain(r->ctx, &p, frame);
    if (status >= 0) {
        take_pixels(&image, *frame);
        (*frame)->time = (double)t / r->params.rate;
        snprintf(r->info.codec, sizeof r->info.codec, "%s", is_other(name) ? strrchr(name, '.') + 1 : snls_path_ends(name, ".png") ? "png" : "jpeg");
        snprintf(r->info.pixel_format, sizeof r->info.pixel_format, "%s%s",
                 channels == 1 ? "gray"
                 : depth == 8  ? "rgb24"
                               : "rgb48",
                 depth == 8      ? ""
                 : channels == 1 ? "16le"
                                 : "le");
    }
    snls_array_free(r->ctx, &image);
    return status;
}

static void images_close(SnlsReader *r)
{
    Images *m = r->priv;
    for (int64_t i = 0; m && m->name && i < m->count; i++) snls_mem_free(&r->ctx->allocator, m->name[i]);
    if (m) snls_mem_free(&r->ctx->allocator, m->name);
    snls_mem_free(&r->ctx->allocator, m);
}

const SnlsReaderKind snls_images_reader = { images_open, images_next, images_close, true, NULL };

/* ---- writing ---- */

/* A folder that is there may have any name, but one that ends as pictures do is a pattern all the same. */
static bool is_numbered(const SnlsWriter *w)
{
    struct stat info;
    return strchr(w->name, '%') && (snls_path_ends(w->name, ".png") || stat(w->path, &info) || !S_ISDIR(info.st_mode));
}

static SnlsStatus picture_name(const SnlsWriter *w, int64_t number, char *name, size_t size)
{
    if (is_numbered(w)) {
        SNLS_REQUIRE(w->ctx, snls_path_number(w->name, number, name, size), SNLS_ERR_ARG,
                     "%s: a pattern has one %%d or %%05d, of %d digits at most", snls_io_name(w->name).text, SNLS_PATH_DIGITS);
        return SNLS_OK;
    }
    SNLS_REQUIRE(w->ctx, !snls_path_ends(w->name, ".png") || !number, SNLS_ERR_ARG,
                 "%s: is one picture, the clip has more frames; a pattern (%%05d.png) or a folder takes them",
                 snls_io_name(w->name).text);
    const int n = snls_path_ends(w->name, ".png") ? snprintf(name, size, "%s", w->name)
                                                  : snprintf(name, size, "%s/%05lld.png", w->name, (long long)number);
    SNLS_REQUIRE(w->ctx, n > 0 && (size_t)n < size, SNLS_ERR_ARG, "%s: the name is too long",
                 snls_io_name(w->name).text);
    return SNLS_OK;
}

static SnlsStatus images_create(SnlsWriter *w)
{
    char name[SNLS_PATH_MAX];
    const SnlsVideoInfo *info = &w->params.like->info;
    const int32_t depth = info->depth > 8 && info->depth < 32 ? 16 : 8;
    SNLS_REQUIRE(w->ctx, !is_numbered(w) || snls_path_ends(w->name, ".png"), SNLS_ERR_UNSUPPORTED,
                 "%s: pictures are written as .png", snls_io_name(w->name).text);
    SNLS_TRY(snls_png_writable(w->ctx, w->name));
    SNLS_TRY(picture_name(w, info->frames > 1 ? 1 : 0, name, sizeof name));
    w->pixels = snls_pixels_packed(info->height, info->width, info->channels, depth);
    w->info.depth = depth;
    const SnlsPixels *from = &w->params.like->peeked->pixels;
    const bool converted = from->components > 2 && !from->rgb; /* YUV, some of which is no RGB that PNG holds */
    w->info.lossless = info->depth <= depth && !converted;
    snprintf(w->info.container, sizeof w->info.container, "images");
    snprintf(w->info.codec, sizeof w->info.codec, "png");
    snprintf(w->info.pixel_format, sizeof w->info.pixel_format, "%s%s",
             info->channels == 1 ? "gray"
             : depth == 8        ? "rgb24"
                                 : "rgb48",
             depth == 8            ? ""
             : info->channels == 1 ? "16le"
                                   : "le");
    if (converted && w->params.lossless) snls_note(&w->info, "YUV becomes RGB in PNG, rounded and clamped; video files keep the samples");
    if (info->depth == 32) snls_note(&w->info, "floats are rounded and clamped to 8 bits in PNG; .npy keeps them");
    return SNLS_OK;
}

static SnlsStatus images_blank(SnlsWriter *w, const SnlsFrame *like, SnlsFrame **frame)
{
    SNLS_TRY(snls_frame_plain(w->ctx, &w->pixels, frame));
    (*frame)->time = like->time;
    return SNLS_OK;
}

static SnlsStatus fill_row(SnlsContext *ctx, void *opaque, int64_t y, uint8_t *row)
{
    (void)ctx;
    const SnlsFrame *frame = opaque;
    const SnlsPixels *p = &frame->pixels;
    const int64_t n = p->width * p->components;
    const uint8_t *from = frame->planes.data[0] + y * frame->planes.stride[0];
    if (p->component[0].depth == 8) memcpy(row, from, (size_t)n);
    else
        for (int64_t i = 0; i < 2 * n; i++) row[i] = from[i ^ 1]; /* PNG has the high byte first */
    return SNLS_OK;
}

static SnlsStatus images_write(SnlsWriter *w, const SnlsFrame *frame)
{
    char name[SNLS_PATH_MAX];
    const SnlsPixels *p = &frame->pixels;
    SnlsFrame view = *frame;
    SNLS_TRY(picture_name(w, w->written, name, sizeof name));
    const char *path = w->params.rename ? w->params.rename(w->params.opaque, name) : name;
    SNLS_REQUIRE(w->ctx, path, SNLS_ERR_IO, "%s: is not to be written", snls_io_name(name).text);
    const SnlsPngOut out = { p->width, p->height, p->components, p->component[0].depth, fill_row, &view };
    return snls_png_out(w->ctx, path, &out);
}

static SnlsStatus images_finish(SnlsWriter *w)
{
    (void)w;
    return SNLS_OK;
}

static void images_end(SnlsWriter *w) { (void)w; }

const SnlsWriterKind snls_images_writer = { images_create, images_blank, images_write, images_finish, images_end };
