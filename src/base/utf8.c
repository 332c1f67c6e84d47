/* utf8.c: checks texts from outside, before they go into files that promise UTF-8. */
#include "base/utf8.h"
#include <stdint.h>

/* Bytes of the character at p; 0: none. */
static int length_of(const unsigned char *p)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const int n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    uint32_t value = n < 2 ? 0 : p[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if (p[i] >> 6 != 2) return 0; /* the end of the text, too */
        value = value << 6 | (p[i] & 0x3f);
    }
    return value < least[n] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0 : n;
}

bool snls_is_utf8(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    for (int n; *p; p += n)
        if (!(n = length_of(p))) return false;
    return true;
}
