/* denoise_tell.c: what `snls denoise` says of a run: its settings and figures, as JSON and as text. */
#include "denoise.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

bool denoise_is_copy(const Denoise *d)
{
    return d->params.sigma[0] == 0 && d->params.sigma[1] == 0 && d->params.sigma[2] == 0;
}

json_t *denoise_report(const Denoise *d)
{
    json_t *report = report_begin(d->ctx[0]);
    const SnlsPipelineResult *r = &d->result;
    SnlsVideoInfo in;
    snls_reader_info(d->reader, &in);
    static const char *const methods[] = { "vnlb", "nlm" }, *const presets[] = { "fast", "medium", "slow" };
    json_object_set_new(report, "input", json_text(d->in));
    json_object_set_new(report, "output", json_text(d->out));
    json_object_set_new(report, "method",
                        json_string(denoise_is_copy(d) ? "copy"
                                    : d->model ? "network"
                                               : methods[d->params.method ? 1 : 0]));
    if (d->model) json_object_set_new(report, "model", json_text(d->model_path));
    else json_object_set_new(report, "preset", json_string(presets[d->params.preset >= 0 && d->params.preset < 3 ? d->params.preset : 1]));
    json_object_set_new(
        report, "sigma",
        json_pack("[f,f,f]", r->sigma[0], r->sigma[d->info.channels > 1], r->sigma[d->info.channels > 1 ? 2 : 0]));
    json_object_set_new(report, "sigma_range", json_pack("[f,f]", r->sigma_least, r->sigma_most));
    if (!d->model && d->info.channels == 3) json_object_set_new(report, "noise", json_pack("[f,f,f]", r->noise[0], r->noise[1], r->noise[2]));
    json_object_set_new(report, "frames_without_noise", json_integer(r->quiet));
    json_object_set_new(report, "sigma_estimated", json_boolean(!denoise_is_copy(d) && d->params.sigma[0] < 0));
    json_object_set_new(report, "frames", json_integer(r->frames));
    json_object_set_new(report, "resumed", json_integer(r->resumed));
    json_object_set_new(report, "damaged_frames", json_integer(in.damaged_frames));
    json_object_set_new(report, "cuts", json_integer(r->cuts));
    json_object_set_new(report, "width", json_integer(d->info.width));
    json_object_set_new(report, "height", json_integer(d->info.height));
    json_object_set_new(report, "rate", json_real(d->info.rate));
    json_object_set_new(report, "input_format",
                        json_pack("{s:s,s:s,s:s}", "container", d->info.container, "codec", d->info.codec, "pixels",
                                  d->info.pixel_format));
    json_object_set_new(report, "output_format",
                        json_pack("{s:s,s:s,s:s,s:b}", "container", d->out_info.container, "codec", d->out_info.codec,
                                  "pixels", d->out_info.pixel_format, "lossless", d->out_info.lossless));
    json_object_set_new(report, "seconds", json_real(d->seconds));
    json_object_set_new(report, "fps", json_real(d->seconds > 0 ? (double)(r->frames - r->resumed) / d->seconds : 0));
    return report;
}

void denoise_add_metrics(const Denoise *d, json_t *report)
{
    const double n = (double)json_array_size(d->psnr);
    if (!d->clean || n < 1) return;
    json_object_set_new(report, "psnr_before",
                        json_pack("{s:o,s:O}", "mean", json_real_or_null(d->sums[0] / n), "frames", d->psnr_before));
    json_object_set_new(report, "psnr",
                        json_pack("{s:o,s:O}", "mean", json_real_or_null(d->sums[1] / n), "frames", d->psnr));
    json_object_set_new(report, "ssim", json_pack("{s:o,s:O}", "mean", json_real_or_null(d->sums[2] / n), "frames", d->ssim));
}

#define TO_BE_TOLD 1.25 /* times as much: a range or another number is worth a word */

/* Behind an estimate: how far it goes up and down, and what the filter goes by where that is another number. */
static void print_estimate(const Denoise *d, FILE *to)
{
    const SnlsPipelineResult *r = &d->result;
    const double sigma = (r->sigma[0] + r->sigma[1] + r->sigma[2]) / 3, strongest = fmax(r->noise[0], fmax(r->noise[1], r->noise[2]));
    if (d->params.sigma[0] >= 0) return;
    fprintf(to, " (estimated");
    if (r->sigma_most > TO_BE_TOLD * r->sigma_least) fprintf(to, "; from frame to frame %.2f to %.2f", r->sigma_least, r->sigma_most);
    if (!d->model && d->info.channels == 3 && strongest > TO_BE_TOLD * sigma)
        fprintf(to, "; brightness %.2f, colour %.2f and %.2f: as one --sigma %.2f", r->noise[0], r->noise[1], r->noise[2], strongest);
    fprintf(to, ")");
}

/* What is copied though nobody asked for a copy. */
void denoise_note_copied(const Denoise *d)
{
    const SnlsPipelineResult *r = &d->result;
    if (!r->quiet || d->quiet) return;
    if (r->quiet == r->frames) fprintf(stderr, "snls denoise: no noise was found, frames are copied as they are; --sigma S tells how much there is\n");
    else fprintf(stderr, "snls denoise: in %lld of %lld frames no noise was found, they are copied as they are\n", (long long)r->quiet, (long long)r->frames);
}

int denoise_print(const Denoise *d)
{
    const SnlsPipelineResult *r = &d->result;
    FILE *to = strcmp(d->out, "-") ? stdout : stderr;
    const double n = (double)json_array_size(d->psnr);
    fprintf(to, "%lld frame%s of %lld x %lld in %.1f s (%.2f fps)", (long long)r->frames, r->frames == 1 ? "" : "s",
            (long long)d->info.width, (long long)d->info.height, d->seconds, d->seconds > 0 ? (double)(r->frames - r->resumed) / d->seconds : 0);
    if (r->resumed) fprintf(to, ", %lld of them finished before", (long long)r->resumed);
    if (r->cuts) fprintf(to, ", %lld scene cut%s", (long long)r->cuts, r->cuts == 1 ? "" : "s");
    if (denoise_is_copy(d)) fprintf(to, ", copied");
    else if (d->info.channels == 1)
        fprintf(to, ", sigma %.2f", r->sigma[0]);
    else
        fprintf(to, ", sigma %.2f, %.2f, %.2f", r->sigma[0], r->sigma[1], r->sigma[2]);
    if (!denoise_is_copy(d)) print_estimate(d, to);
    fprintf(to, "\n%s: %s, %s%s\n", d->out, d->out_info.codec, d->out_info.pixel_format,
            d->out_info.lossless ? ", lossless" : "");
    if (n > 0)
        fprintf(to, "PSNR %.2f dB before, %.2f dB after; SSIM %.4f\n", d->sums[0] / n, d->sums[1] / n, d->sums[2] / n);
    if (d->report) fprintf(to, "report: %s\n", d->report);
    return to == stdout ? flush_stdout() : EXIT_DONE;
}
