/* pixels.c: samples to floats and back. YUV goes through the analytic matrix in f32, with chroma repeated on the way in and
 * averaged over the pixels it covers on the way out, so that a round trip gives the same samples (tests/test_pixels.c). */
#include "video/pixels.h"
#include <math.h>
#include <string.h>

bool snls_pixels_alpha(const SnlsPixels *p) { return p->components == 2 || p->components == 4; }

bool snls_pixels_same(const SnlsPixels *a, const SnlsPixels *b)
{
    return a->width == b->width && a->height == b->height && a->components == b->components && a->matrix == b->matrix &&
           a->log2_w == b->log2_w && a->log2_h == b->log2_h && a->rgb == b->rgb && a->full == b->full &&
           a->big_endian == b->big_endian && a->real == b->real && a->unit == b->unit &&
           !memcmp(a->component, b->component, (size_t)a->components * sizeof *a->component);
}

bool snls_pixels_hold(const SnlsPixels *to, const SnlsPixels *from)
{
    const bool grey = from->components < 3, same = grey || (from->rgb == to->rgb && from->matrix == to->matrix);
    return same && (grey || (to->log2_w <= from->log2_w && to->log2_h <= from->log2_h)) && from->full == to->full &&
           to->component[0].depth >= from->component[0].depth && (!snls_pixels_alpha(from) || snls_pixels_alpha(to));
}

SnlsPixels snls_pixels_packed(int64_t height, int64_t width, int32_t channels, int32_t depth)
{
    const uint8_t bytes = (uint8_t)(depth / 8);
    SnlsPixels p = { .width = width, .height = height, .components = channels, .rgb = channels > 2, .full = true };
    p.real = depth == 32;
    for (int32_t c = 0; c < channels; c++)
        p.component[c] = (SnlsComponent){ 0, (uint8_t)(bytes * channels), (uint8_t)(bytes * c), 0, (uint8_t)depth };
    return p;
}

static bool is_chroma(const SnlsPixels *p, int32_t c) { return !p->rgb && p->components > 2 && (c == 1 || c == 2); }

static int64_t shrunk(int64_t n, int shift) { return (n + (1 << shift) - 1) >> shift; }

static int64_t row_length(const SnlsPixels *p, int32_t c)
{
    return is_chroma(p, c) ? shrunk(p->width, p->log2_w) : p->width;
}

int32_t snls_pixels_planes(const SnlsPixels *p)
{
    int32_t last = 0;
    for (int32_t c = 0; c < p->components; c++)
        if (p->component[c].plane > last) last = p->component[c].plane;
    return last + 1;
}

void snls_pixels_plane(const SnlsPixels *p, int32_t plane, int64_t *rows, int64_t *bytes)
{
    *rows = *bytes = 0;
    for (int32_t c = 0; c < p->components; c++) {
        const SnlsComponent *k = &p->component[c];
        if (k->plane != plane) continue;
        const int64_t row = row_length(p, c) * k->step;
        if (row > *bytes) *bytes = row;
        *rows = is_chroma(p, c) ? shrunk(p->height, p->log2_h) : p->height;
    }
}

int64_t snls_pixels_bytes(const SnlsPixels *p)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < snls_pixels_planes(p); i++) {
        int64_t rows, bytes;
        snls_pixels_plane(p, i, &rows, &bytes);
        sum += rows * bytes;
    }
    return sum;
}

void snls_pixels_pack(const SnlsPixels *p, const SnlsPlanes *from, void *bytes)
{
    char *to = bytes;
    for (int32_t i = 0; i < snls_pixels_planes(p); i++) {
        int64_t rows, row;
        snls_pixels_plane(p, i, &rows, &row);
        for (int64_t y = 0; y < rows; y++, to += row) memcpy(to, from->data[i] + y * from->stride[i], (size_t)row);
    }
}

void snls_pixels_unpack(const SnlsPixels *p, const void *bytes, const SnlsPlanes *to)
{
    const char *from = bytes;
    for (int32_t i = 0; i < snls_pixels_planes(p); i++) {
        int64_t rows, row;
        snls_pixels_plane(p, i, &rows, &row);
        for (int64_t y = 0; y < rows; y++, from += row) memcpy(to->data[i] + y * to->stride[i], from, (size_t)row);
    }
}

/* ---- rows of one component, as the numbers that are stored ---- */

typedef struct Row {
    uint8_t *at;
    int64_t n;
    const SnlsComponent *k;
    bool wide, big, real;
} Row;

static Row row_of(const SnlsPixels *p, const SnlsPlanes *f, int32_t c, int64_t y)
{
    const SnlsComponent *k = &p->component[c];
    Row r = {
        f->data[k->plane] + y * f->stride[k->plane] + k->offset, row_length(p, c), k, false, p->big_endian, p->real
    };
    r.wide = k->shift + k->depth > 8;
    if (!r.wide && r.big) r.at++; /* the low byte of a big-endian word that is described as 16 bits */
    return r;
}

static unsigned load16(const uint8_t *at, bool big)
{
    return big ? (unsigned)at[0] << 8 | at[1] : (unsigned)at[1] << 8 | at[0];
}

static float load_real(const uint8_t *at, bool big)
{
    uint8_t b[4];
    float value;
    for (int i = 0; i < 4; i++) b[i] = at[big ? 3 - i : i];
    memcpy(&value, b, 4); /* little-endian machines only, as everywhere in snls */
    return value;
}

static void store_real(uint8_t *at, bool big, float value)
{
    uint8_t b[4];
    memcpy(b, &value, 4);
    for (int i = 0; i < 4; i++) at[big ? 3 - i : i] = b[i];
}

static void read_row(Row r, float *to)
{
    const unsigned mask = r.real ? 0 : (1u << r.k->depth) - 1, step = r.k->step, shift = r.k->shift;
    if (r.real)
        for (int64_t i = 0; i < r.n; i++) to[i] = load_real(r.at + i * step, r.big);
    else if (!r.wide)
        for (int64_t i = 0; i < r.n; i++) to[i] = (float)(r.at[i * step] >> shift & mask);
    else
        for (int64_t i = 0; i < r.n; i++) to[i] = (float)(load16(r.at + i * step, r.big) >> shift & mask);
}

/* Neighbours in the same word stay; NaN becomes 0. */
static void write_row(Row r, const float *from)
{
    const unsigned mask = r.real ? 0 : (1u << r.k->depth) - 1, step = r.k->step, shift = r.k->shift;
    for (int64_t i = 0; i < r.n; i++) {
        uint8_t *at = r.at + i * step;
        if (r.real) {
            store_real(at, r.big, from[i]);
            continue;
        }
        const float v = from[i] > 0 ? (from[i] < (float)mask ? from[i] : (float)mask) : 0;
        const unsigned value = (unsigned)lrintf(v) << shift, keep = ~(mask << shift);
        if (!r.wide) {
            at[0] = (uint8_t)((at[0] & keep) | value);
            continue;
        }
        const unsigned word = (load16(at, r.big) & keep) | value;
        at[r.big] = (uint8_t)(word & 255);
        at[!r.big] = (uint8_t)(word >> 8);
    }
}

/* ---- stored numbers to 0..255 (chroma: -127.5..127.5): value = (number - zero) * gain ---- */

typedef struct Scale {
    float zero, gain;
} Scale;

static Scale scale_of(const SnlsPixels *p, int32_t c)
{
    const int depth = p->component[c].depth;
    if (p->real) return (Scale){ 0, p->unit ? 255.0f : 1.0f };
    const double top = (double)((1u << depth) - 1), unit = ldexp(1, depth - 8); /* unit: one step of eight bits */
    const bool alpha = snls_pixels_alpha(p) && c == p->components - 1;
    if (is_chroma(p, c)) return (Scale){ (float)(128 * unit), (float)(255 / (p->full ? top : 224 * unit)) };
    if (p->full || p->rgb || alpha) return (Scale){ 0, (float)(255 / top) };
    return (Scale){ (float)(16 * unit), (float)(255 / (219 * unit)) };
}

static void to_value(float *row, int64_t n, Scale s)
{
    for (int64_t i = 0; i < n; i++) row[i] = (row[i] - s.zero) * s.gain;
}

static void to_number(float *row, int64_t n, Scale s)
{
    const float per = 1 / s.gain;
    for (int64_t i = 0; i < n; i++) row[i] = row[i] * per + s.zero;
}

/* Weights of red and blue in luma: BT.601, 709, 2020, SMPTE 240M, FCC (ITU-T H.273, table 4). */
static void weights_of(const SnlsPixels *p, float *red, float *blue)
{
    static const float list[][2] = {
        { 0.299f, 0.114f }, { 0.2126f, 0.0722f }, { 0.2627f, 0.0593f }, { 0.212f, 0.087f }, { 0.30f, 0.11f }
    };
    const int32_t m = p->matrix >= 0 && p->matrix <= SNLS_MATRIX_FCC ? p->matrix : SNLS_MATRIX_601;
    *red = list[m][0];
    *blue = list[m][1];
}

static float *rows_alloc(SnlsContext *ctx, int64_t width, int rows)
{
    float *memory = snls_mem_alloc(&ctx->allocator, width * rows * (int64_t)sizeof(float));
    if (!memory) snls_fail(ctx, SNLS_ERR_MEMORY, "video: out of memory for rows of %lld pixels", (long long)width);
    return memory;
}

static void read_value(const SnlsPixels *p, const SnlsPlanes *f, int32_t c, int64_t y, float *row)
{
    const Row r = row_of(p, f, c, y);
    read_row(r, row);
    to_value(row, r.n, scale_of(p, c));
}

static void write_value(const SnlsPixels *p, const SnlsPlanes *f, int32_t c, int64_t y, float *row)
{
    const Row r = row_of(p, f, c, y);
    to_number(row, r.n, scale_of(p, c));
    write_row(r, row);
}

static void yuv_to_rgb(const SnlsPixels *p, const float *luma, const float *u, const float *v, float *to)
{
    float red, blue;
    weights_of(p, &red, &blue);
    const float green = 1 - red - blue, vr = 2 * (1 - red), ub = 2 * (1 - blue);
    const float ug = ub * blue / green, vg = vr * red / green;
    for (int64_t x = 0; x < p->width; x++, to += 3) {
        const float cb = u[x >> p->log2_w], cr = v[x >> p->log2_w];
        to[0] = luma[x] + vr * cr;
        to[1] = luma[x] - ug * cb - vg * cr;
        to[2] = luma[x] + ub * cb;
    }
}

SnlsStatus snls_pixels_read(SnlsContext *ctx, const SnlsPixels *p, const SnlsPlanes *from, float *to)
{
    const int64_t w = p->width;
    const int32_t channels = snls_pixels_channels(p);
    float *row = rows_alloc(ctx, w, 3);
    if (!row) return SNLS_ERR_MEMORY;
    for (int64_t y = 0; y < p->height; y++, to += w * channels) {
        if (channels == 1) {
            read_value(p, from, 0, y, to);
            continue;
        }
        for (int32_t c = 0; c < 3; c++) {
            const int64_t at = is_chroma(p, c) ? y >> p->log2_h : y;
            if (c == 0 || p->rgb || !(y & ((1 << p->log2_h) - 1))) read_value(p, from, c, at, row + c * w);
        }
        if (!p->rgb) yuv_to_rgb(p, row, row + w, row + 2 * w, to);
        else
            for (int64_t x = 0; x < w; x++)
                for (int32_t c = 0; c < 3; c++) to[3 * x + c] = row[c * w + x];
    }
    snls_mem_free(&ctx->allocator, row);
    return SNLS_OK;
}

/* ---- floats to samples ---- */

typedef struct Out {
    const SnlsPixels *p;
    const SnlsPlanes *to;
    const float *from; /* (H,W,channels) */
    int32_t channels;
    float *row, *u, *v; /* rows of w floats */
} Out;

static float sample(const Out *o, int64_t y, int64_t x, int32_t c)
{
    return o->from[(y * o->p->width + x) * o->channels + (o->channels == 1 ? 0 : c)];
}

static void write_rgb(const Out *o, int64_t y)
{
    for (int32_t c = 0; c < 3; c++) {
        for (int64_t x = 0; x < o->p->width; x++) o->row[x] = sample(o, y, x, c);
        write_value(o->p, o->to, c, y, o->row);
    }
}

/* Luma of a row into o->row; where it is wanted, chroma added to o->u and o->v. */
static void luma_row(const Out *o, int64_t y, bool chroma)
{
    float red, blue;
    weights_of(o->p, &red, &blue);
    const float green = 1 - red - blue, vr = 0.5f / (1 - red), ub = 0.5f / (1 - blue);
    for (int64_t x = 0; x < o->p->width; x++) {
        const float r = sample(o, y, x, 0), g = sample(o, y, x, 1), b = sample(o, y, x, 2);
        o->row[x] = red * r + green * g + blue * b;
        if (!chroma) continue;
        o->u[x >> o->p->log2_w] += (b - o->row[x]) * ub;
        o->v[x >> o->p->log2_w] += (r - o->row[x]) * vr;
    }
}

static void write_chroma(const Out *o, int64_t y, int64_t rows)
{
    const int64_t n = row_length(o->p, 1);
    const int lw = o->p->log2_w;
    for (int64_t x = 0; x < n; x++) {
        const int64_t columns = o->p->width - (x << lw) < 1 << lw ? o->p->width - (x << lw) : 1 << lw;
        const float mean = 1.0f / (float)(rows * columns);
        o->u[x] *= mean;
        o->v[x] *= mean;
    }
    write_value(o->p, o->to, 1, y, o->u);
    write_value(o->p, o->to, 2, y, o->v);
}

static void write_yuv(const Out *o, int64_t y)
{
    const int lh = o->p->log2_h;
    const int64_t first = y >> lh << lh;
    if (y == first) memset(o->u, 0, (size_t)o->p->width * 2 * sizeof(float)); /* u and v lie side by side */
    luma_row(o, y, true);
    write_value(o->p, o->to, 0, y, o->row);
    if (y + 1 == o->p->height || (y + 1) >> lh != y >> lh) write_chroma(o, y >> lh, y + 1 - first);
}

static void write_grey(const Out *o, int64_t y)
{
    if (o->channels == 3) luma_row(o, y, false);
    else memcpy(o->row, o->from + y * o->p->width, (size_t)o->p->width * sizeof(float));
    write_value(o->p, o->to, 0, y, o->row);
}

SnlsStatus snls_pixels_write(SnlsContext *ctx, const SnlsPixels *p, const SnlsPlanes *to, const float *from,
                             int32_t channels)
{
    float *row = rows_alloc(ctx, p->width, 3);
    if (!row) return SNLS_ERR_MEMORY;
    const Out o = { p, to, from, channels, row, row + p->width, row + 2 * p->width };
    for (int64_t y = 0; y < p->height; y++)
        if (snls_pixels_channels(p) == 1) write_grey(&o, y);
        else if (p->rgb) write_rgb(&o, y);
        else write_yuv(&o, y);
    snls_mem_free(&ctx->allocator, row);
    return SNLS_OK;
}

SnlsStatus snls_pixels_alpha_copy(SnlsContext *ctx, const SnlsPixels *pf, const SnlsPlanes *from, const SnlsPixels *pt,
                                  const SnlsPlanes *to)
{
    if (!snls_pixels_alpha(pt)) return SNLS_OK;
    float *row = rows_alloc(ctx, pt->width, 1);
    if (!row) return SNLS_ERR_MEMORY;
    for (int64_t y = 0; y < pt->height; y++) {
        for (int64_t x = 0; x < pt->width; x++) row[x] = 255;
        if (snls_pixels_alpha(pf)) read_value(pf, from, pf->components - 1, y, row);
        write_value(pt, to, pt->components - 1, y, row);
    }
    snls_mem_free(&ctx->allocator, row);
    return SNLS_OK;
}
