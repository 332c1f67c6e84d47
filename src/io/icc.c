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

/* iCCP begins with the profile's name. */
static bool png_other(const unsigned char *data, int64_t size)
{
    int64_t bytes = 0;
    const unsigned char *s = snls_png_chunk(data, size, "iCCP", &bytes);
    return s && (bytes < 4 || memcmp(s, "sRGB", 4));
}

bool snls_icc_other(const unsigned char *data, int64_t size)
{
    return size > 8 && (data[0] == 0xff ? jpeg_other(data, size) : !memcmp(data, "\x89PNG", 4) && png_other(data, size));
}
