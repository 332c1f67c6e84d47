/* kind.h: what a reader, a writer and a frame are inside. Pictures, arrays and FFmpeg are three kinds behind one table. */
#ifndef SNLS_VIDEO_KIND_H
#define SNLS_VIDEO_KIND_H

#include "video/pixels.h"
#include <snls/video.h>

enum { SNLS_PATH_MAX = 4096 };

struct SnlsFrame {
    SnlsPixels pixels;
    SnlsPlanes planes;
    double time;             /* seconds */
    SnlsAllocator allocator; /* of this struct and of memory */
    void *memory;            /* samples of a plain frame; NULL where owner holds them */
    void *owner;             /* AVFrame */
    void (*release)(void *owner);
};

/* Zeroed, without samples; NULL and a sentence where there is no memory. */
SnlsFrame *snls_frame_new(SnlsContext *ctx, const SnlsPixels *pixels);
/* With samples of its own (zeroed). */
SnlsStatus snls_frame_plain(SnlsContext *ctx, const SnlsPixels *pixels, SnlsFrame **frame);

typedef struct SnlsReaderKind {
    SnlsStatus (*open)(SnlsReader *reader); /* fills priv and info */
    SnlsStatus (*next)(SnlsReader *reader, SnlsFrame **frame);
    void (*close)(SnlsReader *reader); /* after a failed open too */
    bool skips;                        /* open has gone to params.first already */
    void (*note_beside)(const SnlsReader *reader, SnlsWriter *writer); /* what of the clip a file of frames alone has no place for, into the writer's notes;
                                                                          NULL: there is nothing but frames */
} SnlsReaderKind;

struct SnlsReader {
    SnlsContext *ctx;
    const SnlsReaderKind *kind;
    void *priv;
    SnlsReaderParams params;
    SnlsVideoInfo info;
    SnlsFrame *peeked; /* the first frame, read by open */
    int64_t given;     /* frames handed out */
    double origin;     /* time of the first frame that is given, where frames are skipped; else 0 */
    int64_t damaged_first; /* of info.damaged_frames: its number in the file, or a little before */
    double damaged_time;   /* and its time */
    bool ended, told_damage;
    SnlsStatus failed; /* what a frame could not be read for: what follows it is not the clip's end */
    bool lost;         /* a run that failed has taken frames that went nowhere: those that follow are not the clip's rest */
    char path[SNLS_PATH_MAX];
};

/* The input as sentences name it. */
static inline const char *snls_reader_name(const SnlsReader *r) { return r->path[0] == '-' && !r->path[1] ? "standard input" : r->path; }

typedef struct SnlsWriterKind {
    SnlsStatus (*open)(SnlsWriter *writer); /* fills priv, info and pixels */
    SnlsStatus (*blank)(SnlsWriter *writer, const SnlsFrame *like,
                        SnlsFrame **frame);                          /* a frame in the writer's format */
    SnlsStatus (*write)(SnlsWriter *writer, const SnlsFrame *frame); /* one that blank made, or of the same format */
    SnlsStatus (*finish)(SnlsWriter *writer);
    void (*close)(SnlsWriter *writer);
} SnlsWriterKind;

struct SnlsWriter {
    SnlsContext *ctx;
    const SnlsWriterKind *kind;
    void *priv;
    SnlsWriterParams params;
    SnlsVideoInfo info;
    SnlsPixels pixels; /* what is written */
    int64_t written;
    bool finished;
    SnlsStatus failed; /* what a frame or finish could not be written for, or the run that gave it frames failed for: the output is not complete, whatever comes after */
    char path[SNLS_PATH_MAX], name[SNLS_PATH_MAX]; /* where to write; what the ending is taken from */
};

extern const SnlsReaderKind snls_images_reader, snls_npy_reader;
extern const SnlsWriterKind snls_images_writer, snls_npy_writer;

/* ---- libsnls_ffmpeg.so: the only part that knows libav, loaded when a file asks for it ---- */

#define SNLS_FFMPEG_ENTRY "snls_ffmpeg_backend"
typedef struct SnlsVideoBackend {
    const SnlsReaderKind *reader;
    const SnlsWriterKind *writer;
    void (*about)(char *text, size_t size);
} SnlsVideoBackend;
#define SNLS_READER_SIZE (sizeof(SnlsReader) + sizeof(SnlsReaderKind)) /* two that were built from other versions of these do not go together */
typedef const SnlsVideoBackend *SnlsFfmpegEntry(int32_t api_version, size_t reader_size, size_t writer_size);

SnlsStatus snls_ffmpeg_load(SnlsContext *ctx, const char *path, const SnlsVideoBackend **backend);

/* Refuses a frame (H,W,C) with a value that is not finite or so large that sums of its squares are not; number: of the frame in the file. */
SnlsStatus snls_reader_check(SnlsReader *r, const SnlsPixels *pixels, const float *values, int64_t number);

SnlsStatus snls_reader_missing(SnlsReader *r); /* fails with a sentence: there is nothing of this name */

/* Adds a sentence to info->notes. */
SnlsStatus snls_note(SnlsVideoInfo *info, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
