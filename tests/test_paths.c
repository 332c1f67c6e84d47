/* test_paths.c: what a function that reads or writes a file says of a path that is empty: a sentence, not a colon behind nothing. */
#include "check.h"
#include <snls/snls.h>
#include <string.h>

enum { H = 16, W = 24 };

static SnlsContext *ctx;

/* In a build without the library for a kind of files it may say that instead. */
static void refused(const char *what, SnlsStatus status)
{
    const char *said = snls_error(ctx);
    CHECK(status < 0 && said[0] != ':' && (strstr(said, "path is empty") || strstr(said, "this build has no")), "%s of an empty path: %d, \"%s\"", what, (int)status, said);
}

static void reads(void)
{
    SnlsTensor view = { 0 };
    SnlsSafetensors file = { 0 };
    SnlsNpyReader *npy;
    SnlsReader *reader;
    SnlsModel *model;
    SnlsTrainer *trainer;
    refused("npy_read", snls_npy_read(ctx, "", &view));
    refused("npy_reader_open", snls_npy_reader_open(&npy, ctx, "", &view));
    refused("image_read", snls_image_read(ctx, "", &view));
    refused("flo_read", snls_flo_read(ctx, "", &view));
    refused("kitti_read", snls_kitti_read(ctx, "", &view));
    refused("safetensors_read", snls_safetensors_read(ctx, "", &file));
    refused("model_open", snls_model_open(&model, ctx, "", NULL));
    refused("trainer_resume", snls_trainer_resume(&trainer, ctx, ""));
    refused("reader_open", snls_reader_open(&reader, ctx, "", NULL));
}

static void writes(void)
{
    static float pixels[H * W * 3];
    const SnlsTensor image = snls_tensor(pixels, SNLS_F32, 3, (const int64_t[]){ H, W, 3 }), flow = snls_tensor(pixels, SNLS_F32, 3, (const int64_t[]){ H, W, 2 });
    SnlsNpyWriter *npy;
    refused("npy_write", snls_npy_write(ctx, "", &image));
    refused("npy_writer_open", snls_npy_writer_open(&npy, ctx, "", &image));
    refused("png_write", snls_png_write(ctx, "", &image));
    refused("flo_write", snls_flo_write(ctx, "", &flow));
    refused("kitti_write", snls_kitti_write(ctx, "", &flow));
    refused("safetensors_write", snls_safetensors_write(ctx, "", &(SnlsSafetensors){ 0 }));
}

static void clips(void)
{
    static float pixels[H * W * 3];
    const SnlsTensor clip = snls_tensor(pixels, SNLS_F32, 4, (const int64_t[]){ 1, H, W, 3 });
    SnlsReader *reader = NULL;
    SnlsWriter *writer;
    SnlsWriterParams p;
    snls_writer_defaults(&p);
    CHECK(snls_npy_write(ctx, in_folder("clip.npy"), &clip) == SNLS_OK && snls_reader_open(&reader, ctx, in_folder("clip.npy"), NULL) == SNLS_OK, "%s", snls_error(ctx));
    p.like = reader;
    refused("writer_open", snls_writer_open(&writer, ctx, "", &p));
    p.path = "";
    refused("writer_open with params.path", snls_writer_open(&writer, ctx, in_folder("out.npy"), &p));
    snls_reader_close(&reader);
}

static void training(void)
{
    SnlsTrainParams p;
    SnlsTrainer *trainer;
    snls_train_defaults(&p);
    p.width = 4, p.blocks = 1, p.ws = 3, p.wt = 1, p.frames = 3, p.crop = 16;
    if (!CHECK(snls_trainer_open(&trainer, ctx, &p) == SNLS_OK, "%s", snls_error(ctx))) return;
    refused("trainer_load", snls_trainer_load(trainer, ""));
    refused("trainer_save", snls_trainer_save(trainer, ""));
    refused("trainer_export", snls_trainer_export(trainer, "", NULL, 0));
    snls_trainer_close(&trainer);
}

int main(void)
{
    check_repeat("test_paths");
    if (!CHECK(snls_open(&ctx, NULL) == SNLS_OK, "open")) return check_end();
    reads();
    writes();
    clips();
    training();
    snls_close(&ctx);
    check_folder_remove();
    return check_end();
}
