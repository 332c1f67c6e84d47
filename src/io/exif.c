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

bool snls_exif_turned(const unsigned char *data, int64_t size)
{
    for (int64_t at = 2; at + 14 <= size && data[at] == 0xff && data[at + 1] != 0xda;) { /* segments before the pixels */
        const int64_t length = data[at + 2] << 8 | data[at + 3], end = at + 2 + length;
        if (data[at + 1] == 0xe1 && !memcmp(data + at + 4, "Exif\0", 6)) {
            const Tiff t = { data + at + 10, (end < size ? end : size) - at - 10, data[at + 10] == 'M' };
            const int64_t orientation = orientation_of(&t);
            return orientation >= 2 && orientation <= 8;
        }
        at = end;
    }
    return false;
}
