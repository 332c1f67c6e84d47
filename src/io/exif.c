/* exif.c: which side of a JPEG is up, by the EXIF data before its pixels. Nothing else of EXIF is looked at. */
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
        const int64_t end = at + 2 + (data[at + 2] << 8 | data[at + 3]);
        *bytes = (end < size ? end : size) - at;
        if (data[at + 1] == marker && !memcmp(data + at + 4, word, (size_t)length)) return data + at;
        at = end;
    }
    return NULL;
}

bool snls_exif_turned(const unsigned char *data, int64_t size)
{
    int64_t bytes = 0;
    const unsigned char *s = snls_jpeg_segment(data, size, 0xe1, "Exif\0", 6, &bytes);
    if (!s || bytes < 14) return false;
    const Tiff t = { s + 10, bytes - 10, s[10] == 'M' };
    const int64_t orientation = orientation_of(&t);
    return orientation >= 2 && orientation <= 8;
}
