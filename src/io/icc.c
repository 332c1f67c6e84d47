/* icc.c: whether a picture has a colour profile that changes what its numbers look like. That of sRGB does not: it is what players take for granted. */
#include "io/image.h"
#include <string.h>

static bool holds(const unsigned char *data, int64_t size, const char *word, int64_t length)
{
    for (int64_t i = 0; i + length <= size; i++)
        if (!memcmp(data + i, word, (size_t)length)) return true;
    return false;
}

/* Segments before the pixels, of which several may be one profile: its name, in bytes or in UTF-16, is in the first. */
static bool jpeg_other(const unsigned char *data, int64_t size)
{
    for (int64_t at = 2; at + 18 <= size && data[at] == 0xff && data[at + 1] != 0xda;) {
        const int64_t end = at + 2 + (data[at + 2] << 8 | data[at + 3]), there = (end < size ? end : size) - at;
        if (data[at + 1] == 0xe2 && !memcmp(data + at + 4, "ICC_PROFILE", 12))
            return !holds(data + at, there, "sRGB", 4) && !holds(data + at, there, "s\0R\0G\0B", 7);
        at = end;
    }
    return false;
}

/* Chunks before the pixels; iCCP begins with the profile's name. */
static bool png_other(const unsigned char *data, int64_t size)
{
    for (int64_t at = 8; at + 12 <= size && memcmp(data + at + 4, "IDAT", 4);) {
        const int64_t length = (int64_t)data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3];
        if (!memcmp(data + at + 4, "iCCP", 4)) return memcmp(data + at + 8, "sRGB", 4) != 0;
        at += 12 + length;
    }
    return false;
}

bool snls_icc_other(const unsigned char *data, int64_t size)
{
    return size > 8 && (data[0] == 0xff ? jpeg_other(data, size) : !memcmp(data, "\x89PNG", 4) && png_other(data, size));
}
