/* video.h: frames in and out of files: everything FFmpeg reads and writes (where it was found at build time), pictures in
 * a folder or by a pattern, .npy, y4m on standard input and output.
 *
 *   SnlsReader *in;
 *   SnlsFrame *frame;
 *   if (snls_reader_open(&in, ctx, "clip.mp4", NULL) < 0) puts(snls_error(ctx));
 *   SnlsVideoInfo info;
 *   snls_reader_info(in, &info);
 *   while (snls_reader_next(in, &frame) == SNLS_OK) {
 *       snls_frame_read(frame, pixels);              // float (H,W,C), 0..255
 *       snls_frame_free(&frame);
 *   }
 *   snls_reader_close(&in);
 *
 * A frame holds the samples exactly as they were decoded, with time stamp, colour tags and side data. Float pixels are RGB
 * (C = 3) or grey (C = 1), 0..255 for black to white at any depth, neither clipped nor rounded: a frame read to floats and
 * made of them again in the same format has the same bits. Chroma is repeated on the way in and averaged on the way out.
 * A reader, a writer and the context each was opened with are used by one thread at a time; frames may go from thread to
 * thread, so the context's allocator must allow that. FFmpeg takes its own memory from malloc. Its level of
 * messages, one for the whole process, is set to quiet when it is first needed, never again: a host may set it after that. */
#ifndef SNLS_VIDEO_H
#define SNLS_VIDEO_H

#include <snls/context.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SnlsReader SnlsReader;
typedef struct SnlsWriter SnlsWriter;
typedef struct SnlsFrame  SnlsFrame;

typedef struct SnlsVideoInfo {
    int64_t width, height;    /* pixels as stored: a rotation is a tag, not applied */
    int64_t frames;           /* how many; -1 where that is not known */
    int32_t frames_exact;     /* 1: counted; 0: what the file claims, or duration times rate */
    int32_t channels;         /* of float pixels, 1 or 3 */
    int32_t depth;            /* bits of a sample; 32 for floats */
    int32_t lossless;         /* writer: what is written comes back bit by bit */
    double  rate;             /* frames a second (mean); 0 where there is none */
    double  duration;         /* seconds; 0 where it is not known */
    char    container[32];    /* "mov,mp4", "images", "npy" */
    char    codec[32];        /* "h264", "png" */
    char    pixel_format[32]; /* FFmpeg's name, "yuv420p10le"; "f32" */
    char    notes[512];       /* what could not be kept, sentences with a newline between; "" */
    int32_t damaged_frames;   /* reader: frames so far that are damaged in the file, of which the decoder gave what it could; at least, and known at SNLS_END */
    int32_t reserved[15];
} SnlsVideoInfo;

typedef struct SnlsReaderParams {
    int64_t first;       /* frames before this one are skipped (0) */
    int64_t count;       /* frames to give at most; 0 = all */
    double  rate;        /* of pictures and arrays, which have none, 0.01 to 10000; 0 = 25 (25) */
    int32_t lenient;     /* 1: goes on behind damaged data, and takes a file that ends early as it is (0: an error) */
    int32_t progressive; /* 1: frames marked as interlaced are taken as whole pictures (0: refused) */
    int32_t threads;     /* of the decoder, 0 = its own choice */
    int32_t listen;      /* 1: damage that decoders only tell in their messages counts too, for which the one place that FFmpeg has for messages in a
                            process is taken (av_log_set_callback): for programs, not for libraries within others (0) */
    int32_t reserved[14]; /* zero */
} SnlsReaderParams;

SNLS_API void snls_reader_defaults(SnlsReaderParams *params);

/* path: a file FFmpeg reads, a folder of pictures (in the order of their names), a pattern with one %d or %05d (numbers
 * from the lowest that is there on; params->first counts from 0 all the same), a .npy file [T,H,W,C] or [H,W,C], "-" for y4m on standard input.
 * The first frame is decoded here. SNLS_ERR_FORMAT: malformed, cut off, no video in it. SNLS_ERR_UNSUPPORTED: interlaced, a
 * pixel format without RGB or YUV meaning, or this build has no FFmpeg. */
SNLS_API SnlsStatus snls_reader_open(SnlsReader **out, SnlsContext *ctx, const char *path, const SnlsReaderParams *params);
SNLS_API void       snls_reader_info(const SnlsReader *reader, SnlsVideoInfo *info);
SNLS_API SnlsStatus snls_reader_next(SnlsReader *reader, SnlsFrame **frame); /* SNLS_END: no further frame, *frame is NULL. After an error the same error, every time: that is not the clip's end */
SNLS_API void       snls_reader_close(SnlsReader **reader);

/* What is done with a frame uses no context, since other threads may be at work with it: the status alone tells what failed, and snls_error stays as it was. */
SNLS_API SnlsStatus snls_frame_read(const SnlsFrame *frame, float *pixels); /* (H,W,C), contiguous, written; SNLS_ERR_MEMORY: no rows to work in */
SNLS_API double     snls_frame_time(const SnlsFrame *frame);                /* seconds */
SNLS_API void       snls_frame_free(SnlsFrame **frame);

/* The samples alone, rows packed one after the other, planes in order: what a frame needs to be made again. */
SNLS_API int64_t    snls_frame_bytes(const SnlsFrame *frame);
SNLS_API SnlsStatus snls_frame_pack(const SnlsFrame *frame, void *bytes);

typedef struct SnlsWriterParams {
    const SnlsReader  *like;      /* size, rate, colour and other streams are this reader's; needed */
    const char        *path;      /* its ending chooses the container, NULL = the path of the writer */
    const char        *codec;     /* FFmpeg's name of an encoder; NULL = by container and depth */
    const char        *format;    /* FFmpeg's name of a pixel format; NULL = the input's or the nearest that the codec has */
    const char *const *options;   /* of the encoder, "key=value", ended by NULL; NULL = none. SNLS_ERR_ARG: it has no such option, or not with this value */
    double             crf;       /* 0 to 63; < 0 = the default */
    int32_t            lossless;  /* 1: the encoder's lossless mode where it has one (0) */
    int32_t            no_copy;   /* 1: audio, subtitles, chapters and attachments are left out (0: copied) */
    int32_t            threads;   /* of the encoder, 0 = its own choice */
    int32_t            listen;    /* 1: what the encoder only says in its messages while it is opened is heard too, as SnlsReaderParams.listen does: parts of
                                     x264-params and the like that it would go on without are an error, and why it does not start is told (0) */
    int32_t            reserved[14]; /* zero */
    /* Pictures by a pattern: called with the name of each, returns the path to write to, NULL to stop; NULL = the name. */
    const char *(*rename)(void *opaque, const char *name);
    void       *opaque;
} SnlsWriterParams;

SNLS_API void snls_writer_defaults(SnlsWriterParams *params);

/* path: a video file, a pattern (dir/%05d.png), a folder that exists, .npy, "-" for y4m on standard output. The reader must not have given frames yet, and its file cannot be
 * written over (SNLS_ERR_ARG). Nothing of params but rename and opaque is looked at later: the reader may be closed before the writer, texts may be freed. Other streams are read from the file itself, which must stay. */
SNLS_API SnlsStatus snls_writer_open(SnlsWriter **out, SnlsContext *ctx, const char *path, const SnlsWriterParams *params);
SNLS_API void       snls_writer_info(const SnlsWriter *writer, SnlsVideoInfo *info);

/* A frame in the writer's format: time, tags, side data and alpha of like, colours from pixels (H,W,C), rounded and clamped. Frames have the size of those that the reader gives which the
 * writer was opened for (SNLS_ERR_SHAPE), and like's channels. */
SNLS_API SnlsStatus snls_writer_make(SnlsWriter *writer, const SnlsFrame *like, const float *pixels, SnlsFrame **frame);
/* The same from the bytes that snls_frame_pack gave of such a frame. */
SNLS_API SnlsStatus snls_writer_unpack(SnlsWriter *writer, const SnlsFrame *like, const void *bytes, int64_t size, SnlsFrame **frame);
SNLS_API SnlsStatus snls_writer_write(SnlsWriter *writer, const SnlsFrame *frame); /* converted where its format is another */
SNLS_API SnlsStatus snls_writer_finish(SnlsWriter *writer); /* the file is complete only after this; an error too, and every time, where a frame could not be written or a pipeline run with this writer failed; SNLS_ERR_ARG: there was no frame */
SNLS_API void       snls_writer_close(SnlsWriter **writer);

/* What this build can do: "FFmpeg 5.1.9 (libavformat 59.27.100), encoders ffv1 libx264 ...", or why it cannot. ctx may be NULL. */
SNLS_API SnlsStatus snls_video_about(SnlsContext *ctx, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
