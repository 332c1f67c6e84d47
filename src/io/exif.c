/* exif.c: which side of a JPEG or a PNG is up, by the EXIF data before its pixels. Nothing else of EXIF is looked at. */
#include "io/image.h"
#include <string.h>

typedef struct Tiff { /* the numbers of EXIF lie as in a TIFF file, of either byte order */
    const unsigned char *data;
    int64_t size;
    bool big;
} Tiff;

/* bytes: 2 or 4; 0 where they are not all there. */
static int64_t number_at(const Tiff *t, int64_t at, int bytes)
{
    int64_t value = 0;
    if (at < 0 || at > t->size - bytes) return 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | t->data[at + (t->big ? i : bytes - 1 - i)];
    return value;
}

/* The tag "orientation" of the first list of tags; 0 where there is none. */
static int64_t orientation_of(const Tiff *t)
{
    const int64_t list = number_at(t, 4, 4), count = number_at(t, list, 2);
    for (int64_t i = 0; i < count && list + 2 + 12 * i < t->size; i++)
        if (number_at(t, list + 2 + 12 * i, 2) == 0x112) return number_at(t, list + 2 + 12 * i + 8, 2);
    return 0;
}

const unsigned char *snls_jpeg_segment(const unsigned char *data, int64_t size, int marker, const char *word, int64_t length, int64_t *bytes)
{
    for (int64_t at = 2; at + 4 + length <= size && data[at] == 0xff && data[at + 1] != 0xda;) {
        if (data[at + 1] == 0xff) { /* filling, of which there may be any number */
            at++;
            continue;
        }
        const int64_t end = at + 2 + (data[at + 2] << 8 | data[at + 3]);
        *bytes = (end < size ? end : size) - at;
        if (data[at + 1] == marker && !memcmp(data + at + 4, word, (size_t)length)) return data + at;
        at = end;
    }
    return NULL;
}

const unsigned char *snls_png_chunk(const unsigned char *data, int64_t size, const char *kind, int64_t *bytes)
{
    for (int64_t at = 8; at + 12 <= size && memcmp(data + at + 4, "IDAT", 4);) {
        const int64_t length = (int64_t)data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3];
        *bytes = length < size - at - 8 ? length : size - at - 8;
        if (!memcmp(data + at + 4, kind, 4)) return data + at + 8;
        at += 12 + length;
    }
    return NULL;
}

/* A JPEG's begins with a word, a PNG's is the list alone. */
bool snls_exif_turned(const unsigned char *data, int64_t size)
{
    int64_t bytes = 0;
    const bool png = size > 8 && !memcmp(data, "\x89PNG", 4);
    const unsigned char *s = png ? snls_png_chunk(data, size, "eXIf", &bytes) : snls_jpeg_segment(data, size, 0xe1, "Exif\0", 6, &bytes);
    const int64_t before = png ? 0 : 10;
    if (!s || bytes < before + 4) return false;
    const Tiff t = { s + before, bytes - before, s[before] == 'M' };
    const int64_t orientation = orientation_of(&t);
    return orientation >= 2 && orientation <= 8;
}
