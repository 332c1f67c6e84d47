/* io.h: arrays and pictures in files. Files are untrusted: every size is checked before anything is allocated. */
#ifndef SNLS_IO_H
#define SNLS_IO_H

#include <snls/context.h>
#include <snls/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a NumPy .npy file (versions 1 to 3; little-endian f4, f8, f2, u1; C order). On success *view is a contiguous
 * array whose memory snls_array_free gives back (with the same context); on failure *view has no data.
 * SNLS_ERR_IO: cannot be opened or read. SNLS_ERR_FORMAT: malformed, or shorter than its header promises.
 * SNLS_ERR_UNSUPPORTED: Fortran order, big-endian, another type, more than SNLS_MAX_DIM axes. */
SNLS_API SnlsStatus snls_npy_read(SnlsContext *ctx, const char *path, SnlsTensor *view);

/* The same from a buffer that holds the whole file. */
SNLS_API SnlsStatus snls_npy_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *view);

/* Writes any strided view of f32, f64, f16, i32 or u8 in C order, version 1. The file is path itself: write to a temporary
 * name and rename it where a half-written file would harm. On failure the file is removed. */
SNLS_API SnlsStatus snls_npy_write(SnlsContext *ctx, const char *path, const SnlsTensor *view);

/* The same piece by piece, for arrays that are larger than memory. *array gets dtype and shape, no data. A file must have the length that its header promises; of a pipe
 * that is seen at its end. snls_npy_reader_next fills piece, a contiguous array of the same dtype, with the next elements; SNLS_ERR_FORMAT where there are not as many. */
typedef struct SnlsNpyReader SnlsNpyReader;
SNLS_API SnlsStatus snls_npy_reader_open(SnlsNpyReader **out, SnlsContext *ctx, const char *path, SnlsTensor *array);
SNLS_API SnlsStatus snls_npy_reader_next(SnlsNpyReader *reader, const SnlsTensor *piece);
SNLS_API void       snls_npy_reader_close(SnlsNpyReader **reader);

/* array: dtype and shape, data is not looked at. Pieces are strided views of that dtype, of any shape, each behind the one before. How long the first axis is may be known only
 * at the end: snls_npy_writer_finish corrects the header, which a pipe has no way back for (SNLS_ERR_IO). Without it the file is not complete; closing leaves it as it is. */
typedef struct SnlsNpyWriter SnlsNpyWriter;
SNLS_API SnlsStatus snls_npy_writer_open(SnlsNpyWriter **out, SnlsContext *ctx, const char *path, const SnlsTensor *array);
SNLS_API SnlsStatus snls_npy_writer_add(SnlsNpyWriter *writer, const SnlsTensor *piece);
SNLS_API SnlsStatus snls_npy_writer_finish(SnlsNpyWriter *writer);
SNLS_API void       snls_npy_writer_close(SnlsNpyWriter **writer);

/* Memory for a contiguous array of this dtype and shape, zeroed. view's own data is not looked at. */
SNLS_API SnlsStatus snls_array_alloc(SnlsContext *ctx, SnlsTensor *view, SnlsDtype dtype, int32_t ndim, const int64_t *shape);
SNLS_API void       snls_array_free(SnlsContext *ctx, SnlsTensor *view); /* sets data to NULL; a view without data is allowed */

/* Copies between two views of one shape, converting f32, f64, f16, bf16, u8 (to u8: rounded half to even and clamped). Elements of the target must not overlap each other, nor the source's. */
SNLS_API SnlsStatus snls_array_copy(SnlsContext *ctx, const SnlsTensor *to, const SnlsTensor *from);

/* Writes (H,W,1) or (H,W,3) as an 8-bit PNG; f32 and f64 values are on the 0..255 scale, rounded and clamped.
 * SNLS_ERR_UNSUPPORTED where the library was built without libpng. */
SNLS_API SnlsStatus snls_png_write(SnlsContext *ctx, const char *path, const SnlsTensor *image);

/* Reads a picture: PNG (grey, RGB or palette, 1 to 16 bits; transparency is dropped) or JPEG (grey or colour). *view
 * becomes (H,W,1) or (H,W,3), u8; of a 16-bit PNG f32, 0..255. snls_array_free gives its memory back; no data on failure.
 * What lies behind the picture's end is passed over.
 * SNLS_ERR_FORMAT: malformed, cut off, or promises more than its bytes could hold. SNLS_ERR_UNSUPPORTED: another format, or
 * this build has no libpng or libjpeg. (libjpeg takes its own working memory from malloc.) */
SNLS_API SnlsStatus snls_image_read(SnlsContext *ctx, const char *path, SnlsTensor *view);
SNLS_API SnlsStatus snls_image_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *view);

/* Whether a path ends so (".png", in small letters), whatever its own case. NULL does not. */
SNLS_API int snls_path_ends(const char *path, const char *ending);

#define SNLS_PATH_DIGITS 20 /* most that a pattern may ask for, %020d */

/* The name of picture `number` of a pattern, which holds one %d or %05d and nothing else of that kind; where it is in the file's name, folders may be
 * called anything. 0: it does not, asks for more digits, or size bytes are too few. */
SNLS_API int snls_path_number(const char *pattern, int64_t number, char *name, size_t size);

/* Optical flow, (H,W,2), (x,y). Where it is unknown, both components are 1e10 after reading; a component of 1e9 or more in
 * magnitude, or NaN, counts as unknown when it is written. */

/* Middlebury's .flo: "PIEH", width, height (i32), f32 pairs, all little-endian. */
SNLS_API SnlsStatus snls_flo_read(SnlsContext *ctx, const char *path, SnlsTensor *flow);
SNLS_API SnlsStatus snls_flo_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *flow);
SNLS_API SnlsStatus snls_flo_write(SnlsContext *ctx, const char *path, const SnlsTensor *flow);

/* KITTI's 16-bit RGB PNG: x and y as 64 * value + 32768, blue 1 where it is known. Values from -512 to 511.98, in steps of
 * 1/64; others are SNLS_ERR_ARG when written, and a file of that name stays as it is. */
SNLS_API SnlsStatus snls_kitti_read(SnlsContext *ctx, const char *path, SnlsTensor *flow);
SNLS_API SnlsStatus snls_kitti_parse(SnlsContext *ctx, const void *bytes, size_t size, SnlsTensor *flow);
SNLS_API SnlsStatus snls_kitti_write(SnlsContext *ctx, const char *path, const SnlsTensor *flow);

#ifdef __cplusplus
}
#endif
#endif
