/* npy_header.c: a strict parser of the .npy header, a Python dictionary with exactly three keys:
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * Keys may come in any order. Works on a buffer, allocates nothing. */
#include "io/npy.h"
#include <snls/io.h>
#include <stdbool.h>
#include <string.h>

typedef struct Cursor {
    const char *at, *end;
} Cursor;

SnlsStatus snls_npy_preamble(SnlsContext *ctx, const char *name, const unsigned char *bytes, int64_t have,
                             int64_t *begin, int64_t *length)
{
    SNLS_REQUIRE(ctx, have >= 6 && !memcmp(bytes, "\x93NUMPY", 6), SNLS_ERR_FORMAT,
                 "%s: is no .npy file: it does not begin with the NumPy magic", name);
    SNLS_REQUIRE(ctx, have >= 8 && bytes[6] >= 1 && bytes[6] <= 3 && bytes[7] == 0, SNLS_ERR_FORMAT,
                 "%s: has .npy version %d.%d, must be 1.0, 2.0 or 3.0", name, have > 6 ? bytes[6] : 0,
                 have > 7 ? bytes[7] : 0);
    *begin = bytes[6] == 1 ? 10 : 12; /* version 1 has a 16-bit length, the others 32-bit */
    SNLS_REQUIRE(ctx, have >= *begin, SNLS_ERR_FORMAT, "%s: ends inside its .npy header", name);
    *length = 0;
    for (int64_t i = *begin; i-- > 8;) *length = *length << 8 | bytes[i];
    SNLS_REQUIRE(ctx, *length <= SNLS_NPY_HEADER_MAX, SNLS_ERR_FORMAT,
                 "%s: has a .npy header of %lld bytes, at most %d are accepted", name, (long long)*length,
                 SNLS_NPY_HEADER_MAX);
    return SNLS_OK;
}

static void skip_space(Cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')) c->at++;
}

static bool take(Cursor *c, char want)
{
    skip_space(c);
    if (c->at == c->end || *c->at != want) return false;
    c->at++;
    return true;
}

static bool take_word(Cursor *c, const char *word)
{
    const size_t n = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n)) return false;
    c->at += n;
    return true;
}

/* 'text' or "text" without escapes, shorter than size. */
static bool take_string(Cursor *c, char *text, size_t size)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    const char quote = *c->at++;
    size_t n = 0;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (n + 1 >= size || *c->at == '\\' || (unsigned char)*c->at < ' ' || (unsigned char)*c->at > '~') return false;
        text[n++] = *c->at;
    }
    text[n] = 0;
    return c->at++ < c->end;
}

static bool take_number(Cursor *c, int64_t *value)
{
    skip_space(c);
    const char *first = c->at;
    for (*value = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!snls_mul_size(*value, 10, value) || !snls_add_size(*value, *c->at - '0', value)) return false;
    return c->at > first && (*first != '0' || c->at == first + 1); /* Python has no 03 */
}

/* "<i8", "|O", "<M8[ns]": byte order, kind, size, perhaps a unit in brackets. */
static bool is_descr(const char *text)
{
    if (!*text || !strchr("<>|=", *text++)) return false;
    if (*text != '?' && !((*text | 32) >= 'a' && (*text | 32) <= 'z')) return false;
    text++;
    text += strspn(text, "0123456789");
    const size_t length = strlen(text);
    return !length || (*text == '[' && text[length - 1] == ']');
}

/* What is well formed but not ours is unsupported, the rest malformed. */
static SnlsStatus parse_descr(SnlsContext *ctx, const char *name, Cursor *c, SnlsNpyHeader *h)
{
    static const struct {
        const char *descr;
        SnlsDtype dtype;
    } known[] = {
        { "<f4", SNLS_F32 }, { "<f8", SNLS_F64 }, { "<f2", SNLS_F16 }, { "|u1", SNLS_U8 }, { "<u1", SNLS_U8 }
    };
    char descr[32];
    skip_space(c);
    SNLS_REQUIRE(ctx, c->at == c->end || *c->at != '[', SNLS_ERR_UNSUPPORTED,
                 "%s: holds records; accepted are little-endian f4, f8, f2 and u1", name);
    SNLS_REQUIRE(ctx, take_string(c, descr, sizeof descr), SNLS_ERR_FORMAT,
                 "%s: .npy header: 'descr' is no short string", name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(descr, known[i].descr)) {
            h->dtype = (int32_t)known[i].dtype;
            return SNLS_OK;
        }
    return snls_fail(ctx, is_descr(descr) ? SNLS_ERR_UNSUPPORTED : SNLS_ERR_FORMAT,
                     "%s: has element type '%s'; accepted are little-endian f4, f8, f2 and u1", name, descr);
}

static SnlsStatus parse_order(SnlsContext *ctx, const char *name, Cursor *c)
{
    if (take_word(c, "False")) return SNLS_OK;
    if (take_word(c, "True"))
        return snls_fail(ctx, SNLS_ERR_UNSUPPORTED, "%s: is in Fortran order; C order is accepted", name);
    return snls_fail(ctx, SNLS_ERR_FORMAT, "%s: .npy header: 'fortran_order' is neither True nor False", name);
}

/* (), (3,), (3, 4), (3, 4,); (3) is a number and no tuple. */
static SnlsStatus parse_shape(SnlsContext *ctx, const char *name, Cursor *c, SnlsNpyHeader *h)
{
    bool comma = true;
    h->ndim = 0;
    SNLS_REQUIRE(ctx, take(c, '('), SNLS_ERR_FORMAT, "%s: .npy header: 'shape' is no tuple", name);
    while (!take(c, ')')) {
        int64_t length;
        SNLS_REQUIRE(ctx, comma && take_number(c, &length), SNLS_ERR_FORMAT,
                     "%s: .npy header: 'shape' is no tuple of lengths from 0 to 2^63-1", name);
        SNLS_REQUIRE(ctx, h->ndim < SNLS_MAX_DIM, SNLS_ERR_UNSUPPORTED, "%s: has more than %d axes", name,
                     SNLS_MAX_DIM);
        h->shape[h->ndim++] = length;
        comma = take(c, ',');
    }
    SNLS_REQUIRE(ctx, h->ndim != 1 || comma, SNLS_ERR_FORMAT, "%s: .npy header: 'shape' is no tuple", name);
    return SNLS_OK;
}

static SnlsStatus parse_entries(SnlsContext *ctx, const char *name, Cursor *c, SnlsNpyHeader *h)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    unsigned seen = 0;
    bool comma = true;
    SNLS_REQUIRE(ctx, take(c, '{'), SNLS_ERR_FORMAT, "%s: .npy header is no dictionary", name);
    while (!take(c, '}')) {
        char key[32];
        unsigned i = 0;
        SNLS_REQUIRE(ctx, comma && take_string(c, key, sizeof key) && take(c, ':'), SNLS_ERR_FORMAT,
                     "%s: .npy header is a malformed dictionary", name);
        while (i < 3 && strcmp(key, keys[i])) i++;
        SNLS_REQUIRE(ctx, i < 3 && !(seen >> i & 1), SNLS_ERR_FORMAT, "%s: .npy header has key '%s' %s", name, key,
                     i < 3 ? "twice" : "beside 'descr', 'fortran_order' and 'shape'");
        seen |= 1u << i;
        SNLS_TRY(i == 0   ? parse_descr(ctx, name, c, h)
                 : i == 1 ? parse_order(ctx, name, c)
                          : parse_shape(ctx, name, c, h));
        comma = take(c, ',');
    }
    for (unsigned i = 0; i < 3; i++)
        SNLS_REQUIRE(ctx, seen >> i & 1, SNLS_ERR_FORMAT, "%s: .npy header lacks '%s'", name, keys[i]);
    return SNLS_OK;
}

SnlsStatus snls_npy_dictionary(SnlsContext *ctx, const char *name, const char *text, int64_t length, SnlsNpyHeader *h)
{
    Cursor c = { text, text + length };
    SNLS_TRY(parse_entries(ctx, name, &c, h));
    skip_space(&c);
    SNLS_REQUIRE(ctx, c.at == c.end, SNLS_ERR_FORMAT, "%s: .npy header has something after its dictionary", name);
    /* an axis of length 0 counts as 1 here, so that strides of an empty array fit as well */
    int64_t bound = snls_dtype_size((SnlsDtype)h->dtype);
    bool fits = true, empty = false;
    for (int32_t i = 0; i < h->ndim; i++) {
        empty |= h->shape[i] == 0;
        fits = fits && snls_mul_size(bound, h->shape[i] ? h->shape[i] : 1, &bound);
    }
    SNLS_REQUIRE(ctx, fits, SNLS_ERR_FORMAT, "%s: .npy header promises more than 2^63 bytes", name);
    h->data_bytes = empty ? 0 : bound;
    return SNLS_OK;
}
