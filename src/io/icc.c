/* icc.c: whether a picture has a colour profile that changes what its numbers look like. That of sRGB does not: it is what players take for granted. */
#include "io/image.h"
#include <string.h>

static bool holds(const unsigned char *data, int64_t size, const char *word, int64_t length)
{
    for (int64_t i = 0; i + length <= size; i++)
        if (!memcmp(data + i, word, (size_t)length)) return true;
    return false;
}

/* Several segments may be one profile: its name, in bytes or in UTF-16, is in the first. */
static bool jpeg_other(const unsigned char *data, int64_t size)
{
    int64_t bytes = 0;
    const unsigned char *s = snls_jpeg_segment(data, size, 0xe2, "ICC_PROFILE", 12, &bytes);
    return s && !holds(s, bytes, "sRGB", 4) && !holds(s, bytes, "s\0R\0G\0B", 7);
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
