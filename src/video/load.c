/* load.c: libsnls_ffmpeg.so, loaded when a file needs FFmpeg: its libraries are many and slow to load, and most commands do
 * without. SNLS_FFMPEG_LIBRARY in the environment names another. */
#include "base/load.h"
#include "io/file.h"
#include "video/kind.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libsnls_ffmpeg.so"

SnlsStatus snls_ffmpeg_load(SnlsContext *ctx, const char *path, const SnlsVideoBackend **backend)
{
    char said[320];
    const SnlsName name = snls_io_name(path ? path : "video");
    void *library = snls_library_open(LIBRARY, getenv("SNLS_FFMPEG_LIBRARY"), said, sizeof said);
    SNLS_REQUIRE(ctx, library, SNLS_ERR_UNSUPPORTED,
                 "%s: is read and written by FFmpeg, but " LIBRARY
                 " cannot be loaded (%.200s); pictures and .npy work without",
                 name.text, said);
    SnlsFfmpegEntry *entry = NULL;
    void *symbol = snls_library_symbol(library, SNLS_FFMPEG_ENTRY);
    memcpy(&entry, &symbol, sizeof entry); /* C has no conversion from an object pointer to a function pointer */
    *backend = entry ? entry(SNLS_API_VERSION, SNLS_READER_SIZE, sizeof(SnlsWriter)) : NULL;
    SNLS_REQUIRE(ctx, *backend, SNLS_ERR_UNSUPPORTED, "%s: " LIBRARY " belongs to another version of snls", name.text);
    return SNLS_OK;
}

SnlsStatus snls_video_about(SnlsContext *ctx, char *text, size_t size)
{
    const SnlsVideoBackend *backend;
    SnlsContext none = { 0 }, *said = ctx ? ctx : &none;
    SNLS_REQUIRE(ctx, text && size, SNLS_ERR_ARG, "video_about: there is no room for a text");
    const SnlsStatus status = snls_ffmpeg_load(said, NULL, &backend);
    if (status < 0) snprintf(text, size, "%s", said->error);
    else backend->about(text, size);
    return status;
}
