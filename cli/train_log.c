/* train_log.c: JSON lines and the curve of a training. */
#include "train_log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int add_point(TrainLog *log, double step, double gain)
{
    if (log->count == log->room) {
        const int64_t room = log->room ? 2 * log->room : 256;
        Point *more = realloc(log->points, sizeof *more * (size_t)room);
        if (!more) return fail(EXIT_MEMORY, "out of memory");
        log->points = more;
        log->room = room;
    }
    while (log->count && log->points[log->count - 1].step >= step) log->count--; /* a resumed run does some steps again */
    log->points[log->count++] = (Point){ step, gain };
    return EXIT_DONE;
}

static int read_lines(TrainLog *log, FILE *old)
{
    char line[1024];
    int code = EXIT_DONE;
    while (!code && fgets(line, sizeof line, old)) {
        json_t *row = json_loads(line, 0, NULL);
        const json_t *step = json_object_get(row, "step"), *psnr = json_object_get(row, "psnr"), *noisy = json_object_get(row, "psnr_noisy");
        if (json_is_number(step) && json_is_number(psnr) && json_is_number(noisy))
            code = add_point(log, json_number_value(step), json_number_value(psnr) - json_number_value(noisy));
        json_decref(row);
    }
    return code;
}

int train_log_open(TrainLog *log, const char *path)
{
    if (!path) return EXIT_DONE;
    FILE *old = fopen(path, "r");
    const int code = old ? read_lines(log, old) : EXIT_DONE;
    if (old) fclose(old);
    if (code) return code;
    log->file = fopen(path, "a");
    return log->file ? EXIT_DONE : fail(EXIT_OUTPUT, "%s: cannot be opened: %s", path, strerror(errno));
}

int train_log_step(TrainLog *log, const SnlsTrainReport *r, double seconds)
{
    const int code = add_point(log, (double)r->step, r->psnr - r->psnr_noisy);
    if (code || !log->file) return code;
    json_t *row = json_pack("{s:I, s:o, s:o, s:o, s:f, s:f, s:f}", "step", (json_int_t)r->step, "loss", json_real_or_null(r->loss), "psnr",
                            json_real_or_null(r->psnr), "psnr_noisy", json_real_or_null(r->psnr_noisy), "rate", r->rate, "norm", r->norm, "seconds", seconds);
    const int bad = json_dumpf(row, log->file, JSON_COMPACT | JSON_REAL_PRECISION(9)) || fputc('\n', log->file) == EOF || fflush(log->file);
    json_decref(row);
    return bad ? fail(EXIT_OUTPUT, "the log cannot be written: %s", strerror(errno)) : EXIT_DONE;
}

void train_log_close(TrainLog *log)
{
    if (log->file) fclose(log->file);
    free(log->points);
    *log = (TrainLog){ 0 };
}

/* ---- the curve: means over a fortieth of the run ---- */

enum { WIDTH = 640, HEIGHT = 320, LEFT = 52, BOTTOM = 40, TOP = 34, RIGHT = 16, MEANS = 40 };

static void find_means(const TrainLog *log, double *mean, double *low, double *high)
{
    for (int i = 0; i < MEANS; i++) {
        const int64_t begin = log->count * i / MEANS, end = log->count * (i + 1) / MEANS;
        mean[i] = 0;
        for (int64_t k = begin; k < end; k++) mean[i] += log->points[k].gain / (double)(end - begin);
        if (end == begin) mean[i] = i ? mean[i - 1] : log->points[0].gain;
        if (!i || mean[i] < *low) *low = mean[i];
        if (!i || mean[i] > *high) *high = mean[i];
    }
    if (*high - *low < 1) *high = *low + 1;
}

static void draw(FILE *f, const TrainLog *log)
{
    double mean[MEANS], low = 0, high = 1;
    find_means(log, mean, &low, &high);
    const double last = log->points[log->count - 1].step, plot_w = WIDTH - LEFT - RIGHT, plot_h = HEIGHT - TOP - BOTTOM;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
               "<text x=\"%d\" y=\"20\" font-size=\"14\">PSNR above the noisy clips, dB</text>\n", WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    for (int i = 0; i <= 4; i++) {
        const double y = TOP + plot_h * i / 4;
        fprintf(f, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n", LEFT, y, WIDTH - RIGHT, y,
                LEFT - 6, y + 4, high - (high - low) * i / 4);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", LEFT + plot_w * i / 4, HEIGHT - BOTTOM + 18, last * i / 4);
    }
    fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">steps</text>\n<polyline fill=\"none\" stroke=\"#1b6ca8\" stroke-width=\"2\" points=\"", LEFT + plot_w / 2, HEIGHT - 6);
    for (int i = 0; i < MEANS; i++) fprintf(f, "%.1f,%.1f ", LEFT + plot_w * (i + 0.5) / MEANS, TOP + plot_h * (high - mean[i]) / (high - low));
    fputs("\"/>\n</svg>\n", f);
}

int train_curve(const TrainLog *log, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f) return fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno));
    if (log->count) draw(f, log);
    const int bad = ferror(f);
    return fclose(f) || bad ? fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno)) : EXIT_DONE;
}
