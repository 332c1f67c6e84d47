/* ffmpeg.h: what the files of libsnls_ffmpeg.so share. They alone include libav's headers; written against FFmpeg 5.1, with
 * what later versions renamed in one place here. */
#ifndef SNLS_VIDEO_FFMPEG_H
#define SNLS_VIDEO_FFMPEG_H

#include "video/kind.h"
#include <libavcodec/avcodec.h>
#include <libavcodec/bsf.h>
#include <libavformat/avformat.h>
#include <libavutil/pixdesc.h>
#include <stdarg.h>
#include <string.h>

#if LIBAVUTIL_VERSION_MAJOR >= 58
#    define SNLS_FRAME_DURATION(f)   ((f)->duration)
#    define SNLS_FRAME_INTERLACED(f) ((f)->flags & AV_FRAME_FLAG_INTERLACED)
#else
#    define SNLS_FRAME_DURATION(f)   ((f)->pkt_duration)
#    define SNLS_FRAME_INTERLACED(f) ((f)->interlaced_frame)
#endif

/* Side data of a stream lie in its codec's parameters, not in the stream itself. */
#define SNLS_SIDE_OF_CODEC (LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 30, 101))

/* A sentence "NAME: what: libav's words" and its status. */
SnlsStatus snls_av_fail(SnlsContext *ctx, SnlsStatus status, const char *path, const char *what, int error);

/* ---- formats ---- */

/* How frames of this format lie in memory; false where they have no RGB, YUV or grey meaning that we know. */
bool snls_av_pixels(enum AVPixelFormat format, SnlsPixels *pixels);
/* The same with size, range and matrix of a frame. */
bool snls_av_frame_pixels(const AVFrame *frame, SnlsPixels *pixels);
/* Palettes and single bits become bytes. *frame is replaced; SNLS_OK where there is nothing to do. */
SnlsStatus snls_av_plain(SnlsContext *ctx, AVFrame **frame);
/* A frame of ours around frame, which it owns from here on; freed on failure. */
SnlsStatus snls_av_wrap(SnlsContext *ctx, AVFrame *frame, AVRational time_base, SnlsFrame **out);

/* ---- time ---- */

typedef struct SnlsAvClock { /* of files that were joined, whose time stamps begin anew at each join */
    struct SnlsAvClockStream {
        int64_t end;   /* of the last packet, with what is added; microseconds, or AV_NOPTS_VALUE */
        int64_t joins; /* that this stream has come over */
    } * stream;
    unsigned streams; /* those that were there at the beginning; 0: this format has one clock throughout */
    int64_t joins;    /* seen so far */
    int64_t added[2]; /* to time stamps before the last join, and behind it; microseconds */
} SnlsAvClock;

/* SNLS_ERR_MEMORY without a sentence. */
SnlsStatus snls_av_clock_open(SnlsAvClock *clock, const AVFormatContext *in);
/* Moves the packet's time stamps so that time goes on at a join. Two of the same file agree where both are given every packet of it. */
void snls_av_clock_packet(SnlsAvClock *clock, const AVFormatContext *in, AVPacket *packet);
void snls_av_clock_close(SnlsAvClock *clock);

/* ---- messages ---- */

typedef struct SnlsAvListener { /* to messages of one decoder or encoder */
    /* Called by any thread, by one at a time. */
    void (*hear)(struct SnlsAvListener *l, const AVCodecContext *from, int level, const char *format, va_list arguments);
    bool listens;
    struct SnlsAvListener *next;
} SnlsAvListener;

/* Messages of this codec come to l->hear, until it ends; takes the one place that FFmpeg has for messages in a process. */
void snls_av_listen(SnlsAvListener *l, AVCodecContext *codec);
void snls_av_listen_end(SnlsAvListener *l); /* nothing where it does not listen */

/* ---- reading ---- */

typedef struct SnlsAvInput { /* bytes that libavformat does not fetch itself */
    AVIOContext *io;         /* NULL where it does */
    int fd;
    uint8_t *head;       /* the beginning as libavformat is to see it */
    int64_t size, taken; /* bytes of head; bytes of the file that they stand for */
    int64_t at;          /* where reading is, as libavformat counts */
    bool closes, pipe;   /* fd is to be closed; it comes once */
    char line[128];      /* the first of y4m, for sentences */
} SnlsAvInput;

typedef struct SnlsAvSums { /* of the slices of FFV1, as far as packets have told */
    bool has, wrong;
    bool other; /* slices of a packet were not where they are in files that have sums */
} SnlsAvSums;

/* Is a check sum of this packet wrong, or of one before it? Whether there are any is known from the first packet that has a right one; packet NULL: at
 * the end, where none had, from where slices were. */
bool snls_av_ffv1_damaged(SnlsAvSums *sums, const AVPacket *packet);

typedef struct SnlsAvDamage { /* that decoders go over */
    SnlsAvListener listener;  /* first: it is what hears */
    bool heard;               /* a complaint since the last frame; this and the next two are written by any thread */
    bool heard_mark;          /* one that is as good as a mark on a frame */
    int heard_once;           /* of those that come once for each frame */
    bool headless;       /* the stream begins with a frame that others should come before: nobody sees what is decoded until the first comes out */
    int64_t due;         /* packets the decoder had when it complained; 0: no complaint waits. What waits: */
    int64_t waiting, waiting_once;
    bool waiting_mark;
    int64_t marked;      /* frames with a mark */
    int64_t spoken;      /* frames before which there were complaints */
    int64_t spoken_once; /* complaints of those that come once for each frame */
    int64_t packets;     /* that could not be decoded, or whose sum is wrong */
    int64_t counted;     /* of all these, in the reader's info; which forgets frames that are skipped */
} SnlsAvDamage;

/* Messages of this decoder come here. Before it is opened; to be closed after it. */
void snls_av_damage_listen(SnlsAvDamage *damage, AVCodecContext *decoder);
void snls_av_damage_close(SnlsAvDamage *damage);
/* Counts a frame that has come out, NULL at the end, if there is damage in it or there were complaints before. Number and time are its own, packets
 * those that the decoder was given. Returns whether the decoder marks it, or one before. */
bool snls_av_damage_frame(SnlsReader *r, SnlsAvDamage *damage, const AVFrame *frame, int64_t number, int64_t packets, double time);
/* Counts a packet of which nothing comes out, or whose check sum is wrong. */
void snls_av_damage_packet(SnlsReader *r, SnlsAvDamage *damage, int64_t number, double time);

typedef struct SnlsAvReader {
    SnlsAvInput input;
    AVFormatContext *in;
    AVCodecContext *decoder;
    AVStream *stream;
    AVPacket *packet;
    SnlsAvClock clock;
    int64_t packets, frames; /* given to the decoder; taken from it */
    int64_t begin;        /* time stamp of the first frame, in the stream's time base */
    int64_t last, length; /* time stamp and duration of the last one */
    int64_t longest;      /* between two frames */
    int64_t offset;       /* subtracted from time stamps: where the file begins */
    int64_t behind;       /* where the last packet ends in the file */
    int failures;         /* of the decoder, after it was told of the end */
    bool draining;
    bool cut;         /* the file ends inside a part of it */
    bool warned;      /* of time stamps that go back */
    bool told_format; /* that the pixel format changes */
    SnlsAvSums sums;
    SnlsAvDamage damage;
    int suspect; /* packets that a join may still come in, to excuse one that counts as damaged; 0: none does */
    int64_t suspect_joins; /* that the video had come over before it */
} SnlsAvReader;

extern const SnlsReaderKind snls_av_reader;

/* Says what of the clip a writer of frames alone leaves out. */
void snls_av_note_beside(const SnlsReader *r, SnlsWriter *w);

/* Opens what libavformat is not to open by its name, and puts it into a->in; a->in stays NULL for all else. */
SnlsStatus snls_av_input_open(SnlsReader *r, SnlsAvReader *a);
void snls_av_input_close(SnlsReader *r, SnlsAvReader *a); /* after a->in */

/* Does the file at path end before its parts do? false where that cannot be told: pipes, and formats that tell no
 * lengths. format is libav's name. */
bool snls_av_file_cut(const char *path, const char *format);
/* Is there anything between the parts of a Matroska or AVI file that is none? Demuxers look for the next one, and what was lost is told nowhere.
 * Goes from packet to packet, so it is for clips in which frames seem to be missing. */
bool snls_av_file_broken(const char *path, const char *format);

/* Frames a second as a fraction of small numbers, as some encoders ask for; of larger ones where it is 120000/1001 or a decimal of three digits. */
AVRational snls_av_rate(double rate);

/* The usual rate and the mean one differ: time stamps that a file with one rate has no place for. */
bool snls_av_rate_varies(const SnlsReader *reader);

/* ---- writing ---- */

typedef struct SnlsAvCopy { /* the streams that are not decoded: read again from the input, beside the video */
    AVFormatContext *in;
    AVPacket *packet; /* read, not yet due */
    SnlsAvClock clock;
    struct SnlsAvCopyStream {
        int to;       /* stream of the output, -1: left out */
        int64_t last; /* time stamp of what was written last, in the output's time base */
        bool moved;   /* some were moved, which has been told */
        AVBSFContext *filter; /* NULL: packets are copied as they are */
    } * stream;
    unsigned streams;   /* those that were there at the beginning */
    unsigned told_late; /* how many of those that began later have been told */
    double origin, end; /* seconds of the input: what lies outside is left out; end < 0: no end */
    bool pending, ended;
    char path[SNLS_PATH_MAX]; /* of the input, for sentences */
} SnlsAvCopy;

typedef struct SnlsAvWriter {
    AVFormatContext *out;
    AVCodecContext *encoder;
    AVStream *stream;
    AVPacket *packet;
    SnlsAvCopy copy;
    AVFrame *like;                 /* without samples: colour tags and size of what is encoded */
    int64_t offset, last;          /* subtracted from time stamps; the last one sent */
    int64_t pts[64], duration[64]; /* of frames sent, by time stamp modulo 64 entries */
    int sent;
    AVRational from; /* time base of the frames that come */
    bool header, limited; /* limited: not all frames of the input, so other streams end with the last of them */
    bool counts;          /* the file has no times: the number of a frame and the rate tell its time */
    bool told_rate;       /* that the rate varies */
    bool told_captions;   /* that they are left out */
    double begin;         /* time of the first frame */
} SnlsAvWriter;

extern const SnlsWriterKind snls_av_writer;

/* Encoder, its format and options by container, depth and what was asked for; opens it. */
SnlsStatus snls_av_encoder_open(SnlsWriter *w, SnlsAvWriter *a, const AVFrame *first);

/* Is there side data of this kind for all of the stream? */
bool snls_av_stream_has(const AVStream *s, enum AVPacketSideDataType type);

/* A copy of size bytes. */
void snls_av_stream_put(AVStream *to, enum AVPacketSideDataType type, const void *from, size_t size);

/* Says that the output does not tell how two views lie in each picture, where the stream or its first frame does. */
void snls_av_stereo_note(SnlsVideoInfo *info, const char *format, const AVStream *s, const AVFrame *first);
/* Copies that, or says so. */
void snls_av_stereo_copy(SnlsWriter *w, SnlsAvWriter *a, const AVStream *from, const AVFrame *first);

/* Says that the output does not tell how a picture shows the world around the camera, where the stream does and format has no place for it. */
void snls_av_spherical_note(SnlsVideoInfo *info, const char *format, const AVStream *s);

/* What is told of an encoder: nobody knows y4m's by FFmpeg's word for it. */
static inline const char *snls_av_encoder_name(const AVCodec *codec) { return codec->id == AV_CODEC_ID_WRAPPED_AVFRAME ? "y4m" : codec->name; }

/* Adds w->params.options to those of ours. SNLS_ERR_ARG: one that this encoder does not have, or not with this value. format: of what is encoded. */
SnlsStatus snls_av_options_add(SnlsWriter *w, const AVCodec *codec, enum AVPixelFormat format, AVDictionary **options);
/* All of w->params.options, for a sentence: " with params.options a=1 b=2"; "" where there are none. */
void snls_av_options_text(const SnlsWriter *w, char *text, size_t size);

typedef struct SnlsAvOpening { /* what an encoder says while it is opened */
    SnlsAvListener listener;   /* first: it is what hears */
    char ignored[160];         /* of an option that it goes on without; "" */
    char failed[160];          /* why it does not start; "" */
} SnlsAvOpening;

void snls_av_opening_listen(SnlsAvOpening *o, AVCodecContext *encoder);
void snls_av_opening_end(SnlsAvOpening *o, AVCodecContext *encoder);

/* Says that the rate varies, and is lost. */
void snls_av_note_rate(SnlsWriter *w);

/* y4m, which is not encoded: a->encoder only tells its format. */
static inline bool snls_av_is_y4m(const SnlsAvWriter *a) { return a->encoder->codec_id == AV_CODEC_ID_WRAPPED_AVFRAME; }
SnlsStatus snls_av_y4m_frame(SnlsWriter *w, SnlsAvWriter *a, const SnlsFrame *frame);
SnlsStatus snls_av_y4m_finish(SnlsWriter *w, SnlsAvWriter *a);

/* Puts title and language of a stream where this container has them, in the words that FFmpeg takes for it. */
void snls_av_tags_fit(AVStream *to, const AVOutputFormat *format);
/* Says which titles and languages of the input have no place in the output: of the clip, of its video, and of the streams that are copied (NULL: none). */
void snls_av_tags_note(SnlsVideoInfo *info, const char *format, const AVFormatContext *in, int video, const SnlsAvCopy *copied);

/* Packets of a stream in the form that this container wants. 0, with *filter NULL where nothing is to be done; below, libav's error: the stream cannot be had so. */
int snls_av_bitstream_open(AVBSFContext **filter, const AVOutputFormat *format, const AVStream *from);
int snls_av_bitstream_packet(AVBSFContext *filter, AVPacket *packet);

/* Adds streams, chapters and tags of the input to a->out, before its header is written. */
SnlsStatus snls_av_copy_open(SnlsWriter *w, SnlsAvWriter *a);
/* Writes what is due before this time (seconds of the output); all of it at infinity. */
SnlsStatus snls_av_copy_until(SnlsWriter *w, SnlsAvWriter *a, double time);
void snls_av_copy_close(SnlsAvCopy *copy);

#endif
