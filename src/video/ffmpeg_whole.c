/* ffmpeg_whole.c: is a file as long as its own parts say? FFmpeg takes the end of a file for the end of the clip, so that
 * what was cut off between two packets would be missed by nobody. Looks at the outermost parts; where frames seem to be missing, at every part. */
#define _POSIX_C_SOURCE 200809L
#include "video/ffmpeg.h"
#include <ctype.h>
#include <fcntl.h>
#include <libavutil/intreadwrite.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEAD = 512,           /* bytes of a part that are looked at: more than any heading has */
    PARTS_MOST = 1 << 22, /* Ogg of 16 GB; a file of nothing but headings is not worth more */
};

/* Of the part whose first bytes are at p, n of them: how long it is with its heading; 0: no part that is known, or its
 * length is not told. */
typedef int64_t PartLength(const uint8_t *p, int64_t n);

static uint64_t big_endian(const uint8_t *p, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | p[i];
    return value;
}

/* Whatever is longer than this is no length but chance. */
static int64_t total(uint64_t heading, uint64_t length)
{
    return length < (uint64_t)1 << 60 ? (int64_t)(heading + length) : 0;
}

/* MP4, MOV: length and four letters. Others than these may be what somebody has appended: a text has letters too. */
static int64_t box_length(const uint8_t *p, int64_t n)
{
    static const char known[] = "ftyp styp moov mdat moof mfra sidx ssix free skip wide uuid meta udta pnot prft emsg pdin ";
    char name[6] = "     ";
    if (n < 8) return 0;
    memcpy(name, p + 4, 4);
    if (memchr(name, 0, 4) || !strstr(known, name)) return 0;
    const uint64_t length = big_endian(p, 4);
    if (length == 1) return n < 16 ? 16 : total(0, big_endian(p + 8, 8));
    return length < 8 ? 0 : total(0, length);
}

/* Matroska: a number whose leading zeros tell its bytes; all ones: not known. 0 bytes where there is none. */
static int ebml_number(const uint8_t *p, int64_t n, uint64_t *value)
{
    int bytes = 1;
    if (n < 1 || !p[0]) return 0;
    while (!(p[0] << (bytes - 1) & 0x80)) bytes++;
    if (n < bytes) return 0;
    const uint64_t mask = ((uint64_t)1 << 7 * bytes) - 1;
    *value = big_endian(p, bytes) & mask;
    if (*value == mask) *value = UINT64_MAX;
    return bytes;
}

static int64_t element_length(const uint8_t *p, int64_t n)
{
    static const uint8_t outer[][4] = { { 0x1a, 0x45, 0xdf, 0xa3 }, { 0x18, 0x53, 0x80, 0x67 }, /* the file's heading, segment; of one without
                                         * a length: index, info, tracks, cluster, cues, tags, chapters, attachments */
                                        { 0x11, 0x4d, 0x9b, 0x74 }, { 0x15, 0x49, 0xa9, 0x66 }, { 0x16, 0x54, 0xae, 0x6b }, { 0x1f, 0x43, 0xb6, 0x75 },
                                        { 0x1c, 0x53, 0xbb, 0x6b }, { 0x12, 0x54, 0xc3, 0x67 }, { 0x10, 0x43, 0xa7, 0x70 }, { 0x19, 0x41, 0xa4, 0x69 } };
    uint64_t length;
    int id = n > 4 && p[0] == 0xec ? 1 : 0; /* empty */
    for (size_t i = 0; !id && n > 4 && i < sizeof outer / sizeof *outer; i++)
        if (!memcmp(p, outer[i], 4)) id = 4;
    const int bytes = id ? ebml_number(p + id, n - id, &length) : 0;
    if (bytes && length == UINT64_MAX && !memcmp(p, outer[1], 4)) return id + bytes; /* its parts tell theirs */
    return bytes ? total((uint64_t)(id + bytes), length) : 0;
}

enum { RIFF_HEADING = 8 }; /* which some writers count in */

/* AVI. A length that nobody came to write is 0. */
static int64_t riff_length(const uint8_t *p, int64_t n)
{
    if (n < 12 || memcmp(p, "RIFF", 4)) return 0;
    const uint64_t length = AV_RL32(p + 4);
    return length < 4 || length == UINT32_MAX ? 0 : total(RIFF_HEADING, length + length % 2);
}

/* FLV: the file's heading, then tags, each with its length behind it too, which may be missing at the end. */
static int64_t tag_length(const uint8_t *p, int64_t n)
{
    if (n >= 9 && !memcmp(p, "FLV\1", 4)) return total(0, big_endian(p + 5, 4));
    if (n < 4) return 4;
    const int type = n > 4 ? p[4] : 0;
    return type == 8 || type == 9 || type == 18 ? total(4 + 11, n < 8 ? 0 : big_endian(p + 5, 3)) : 0;
}

static int64_t page_length(const uint8_t *p, int64_t n) /* Ogg */
{
    int64_t length = n >= 27 && !memcmp(p, "OggS", 4) ? 27 + p[26] : 0;
    if (length > n) return length;
    for (int i = 0; length && i < p[26]; i++) length += p[27 + i];
    return length;
}

/* MPEG-TS: packets of one size, which nothing tells but that all of them begin with the same byte. */
static int64_t packet_size(const uint8_t *p, int64_t n, int64_t *begin)
{
    static const int64_t sizes[] = { 188, 192, 204 };
    for (int i = 0; i < 3; i++)
        for (*begin = 0; *begin + 2 * sizes[i] < n && *begin < sizes[i]; ++*begin)
            if (p[*begin] == 0x47 && p[*begin + sizes[i]] == 0x47 && p[*begin + 2 * sizes[i]] == 0x47) return sizes[i];
    return 0;
}

static bool packets_cut(int fd, int64_t size)
{
    uint8_t head[2 * HEAD];
    int64_t begin;
    const int64_t n = pread(fd, head, sizeof head, 0), packet = packet_size(head, n, &begin);
    if (!packet) return false;
    const int64_t rest = (size - begin) % packet,
                  whole = packet == 192 ? 188 : packet; /* the 4 bytes in front of the next */
    return rest && rest < whole && pread(fd, head, 1, size - rest) == 1 && head[0] == 0x47;
}

/* Does a part go over the end, by more than slack? */
static bool parts_cut(int fd, int64_t size, PartLength *length_of, int64_t slack)
{
    uint8_t head[HEAD];
    int64_t at = 0, length;
    for (int i = 0; i < PARTS_MOST && at < size; i++, at += length) {
        const int64_t n = pread(fd, head, sizeof head, at);
        length = n > 0 ? length_of(head, n) : 0;
        if (length <= 0) return false;
        if (length > size - at + slack) return true;
    }
    return false;
}

/* ---- damage between packets ---- */

/* Bytes of the heading of the part at p, n of its bytes; 0: no part begins so. length: of what is behind, -1 where that is not told; inside: that is parts again. */
typedef int PartHeading(const uint8_t *p, int64_t n, bool *inside, int64_t *length);

static int element_heading(const uint8_t *p, int64_t n, bool *inside, int64_t *length)
{
    static const uint8_t segment[] = { 0x18, 0x53, 0x80, 0x67 }, cluster[] = { 0x1f, 0x43, 0xb6, 0x75 };
    uint64_t value;
    int id = 1;
    while (id <= 4 && n > id && !(p[0] << (id - 1) & 0x80)) id++;
    const int bytes = id <= 4 ? ebml_number(p + id, n - id, &value) : 0;
    if (!bytes) return 0;
    *inside = id == 4 && (!memcmp(p, segment, 4) || !memcmp(p, cluster, 4));
    *length = value == UINT64_MAX ? -1 : value < (uint64_t)1 << 60 ? (int64_t)value : INT64_MAX / 2;
    return id + bytes;
}

static int chunk_heading(const uint8_t *p, int64_t n, bool *inside, int64_t *length)
{
    for (int i = 0; i < 4; i++)
        if (n < 8 || p[i] < ' ' || p[i] > '~') return 0;
    const uint32_t value = AV_RL32(p + 4);
    *inside = n >= 12 && (!memcmp(p, "RIFF", 4) ||
                          (!memcmp(p, "LIST", 4) && (!memcmp(p + 8, "movi", 4) || !memcmp(p + 8, "rec ", 4))));
    const bool told = value != UINT32_MAX && !(*inside && value < 4); /* who writes to a pipe cannot come back to say it */
    *length = told ? (int64_t)value - (*inside ? 4 : 0) : -1;
    return *inside ? 12 : 8;
}

/* A packet of AVI is named by its stream and kind (00dc), or is one of these. */
static bool is_packet_name(const uint8_t *p)
{
    static const char others[][5] = { "ix00", "JUNK", "LIST", "idx1" };
    for (int i = 0; i < 4; i++)
        if (!memcmp(p, others[i], i ? 4 : 2)) return true;
    return isdigit(p[0]) && isdigit(p[1]) && isalpha(p[2]) && isalpha(p[3]);
}

enum { DEPTH = 4 }; /* RIFF, movi, rec */

typedef struct Chain {
    int fd, depth;
    bool padded; /* the last part was followed by a byte that makes its length even, or should have been */
    int64_t at, end[DEPTH];
} Chain;

static int next_heading(Chain *c, PartHeading *heading_of, bool *inside, int64_t *length)
{
    uint8_t head[17];
    const int64_t n = pread(c->fd, head, sizeof head, c->at - c->padded);
    const bool bare = c->padded && n >= 4 && is_packet_name(head); /* some programs leave that byte out */
    const int64_t skip = c->padded && !bare;
    const int heading = n > skip ? heading_of(head + skip, n - skip, inside, length) : 0;
    c->at -= bare;
    while (c->depth && c->at >= c->end[c->depth]) c->depth--;
    c->at += heading;
    return heading;
}

/* Goes over all parts, and into those that are made of parts. */
static bool chain_broken(int fd, int64_t size, PartHeading *heading_of)
{
    Chain c = { .fd = fd, .end = { size } };
    for (int i = 0; i < PARTS_MOST && c.at < size; i++) {
        bool inside = false;
        int64_t length = 0;
        if (!next_heading(&c, heading_of, &inside, &length))
            return c.depth > 0; /* behind the last may be what others have appended */
        if (length > c.end[c.depth] - c.at && c.depth) return true;
        if (length < 0 && !inside) return false; /* nothing can be told of what follows */
        c.padded = !inside && heading_of == chunk_heading && length % 2;
        if (!inside) c.at += length + c.padded;
        else if (length >= 0 && c.depth + 1 < DEPTH)
            c.depth++, c.end[c.depth] = c.at + length < size ? c.at + length : size;
    }
    return false;
}

static int open_plain(const char *path, int64_t *size)
{
    struct stat info;
    const bool plain = !stat(path, &info) && S_ISREG(info.st_mode);
    *size = plain ? info.st_size : 0;
    return plain ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

bool snls_av_file_broken(const char *path, const char *format)
{
    PartHeading *heading_of = !strncmp(format, "matroska,", 9) ? element_heading
                              : !strcmp(format, "avi")         ? chunk_heading
                                                               : NULL;
    int64_t size;
    const int fd = heading_of ? open_plain(path, &size) : -1;
    if (fd < 0) return false;
    const bool broken = chain_broken(fd, size, heading_of);
    close(fd);
    return broken;
}

bool snls_av_file_cut(const char *path, const char *format)
{
    static const struct {
        const char *format;
        PartLength *length_of;
        int64_t slack;
    } list[] = { { "mov,", box_length, 0 },
                 { "matroska,", element_length, 0 },
                 { "avi", riff_length, RIFF_HEADING },
                 { "flv", tag_length, 0 },
                 { "ogg", page_length, 0 } };
    int64_t size;
    const int fd = open_plain(path, &size);
    if (fd < 0) return false;
    bool cut = !strcmp(format, "mpegts") && packets_cut(fd, size);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strncmp(format, list[i].format, strlen(list[i].format)))
            cut = parts_cut(fd, size, list[i].length_of, list[i].slack);
    close(fd);
    return cut;
}
