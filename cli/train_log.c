/* train_log.c: JSON lines and the curve of a training. */
#define _XOPEN_SOURCE 700
#include "train_log.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int add_point(TrainLog *log, double step, double gain)
{
    if (!isfinite(gain)) return EXIT_DONE; /* without noise there is nothing to gain on */
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

typedef struct Lines { /* of a log that is there already */
    int64_t done; /* steps of the run that goes on, -1: one that begins */
    off_t end, cut; /* of the last whole line; of the last one that the run has behind it */
    bool ours, whole; /* every line is a step's, or begins as one; the last one has its end */
} Lines;

static int read_line(TrainLog *log, const char *text, Lines *l)
{
    json_t *row = json_loads(text, 0, NULL);
    const json_t *step = json_object_get(row, "step"), *psnr = json_object_get(row, "psnr"), *noisy = json_object_get(row, "psnr_noisy");
    const bool number = json_is_number(step);
    const double at = number ? json_number_value(step) : 0;
    int code = EXIT_DONE;
    l->ours = l->ours && number;
    if (number && (l->done < 0 || at <= (double)l->done)) l->cut = l->end;
    if (number && json_is_number(psnr) && json_is_number(noisy)) code = add_point(log, at, json_number_value(psnr) - json_number_value(noisy));
    json_decref(row);
    return code;
}

/* Half a line, of a run that was killed? */
static bool begins_step(const char *line, size_t length)
{
    static const char begin[] = "{\"step\":";
    return !memcmp(line, begin, length < sizeof begin - 1 ? length : sizeof begin - 1);
}

static int read_lines(TrainLog *log, FILE *old, Lines *l)
{
    char *line = NULL;
    size_t room = 0;
    int code = EXIT_DONE;
    for (ssize_t length; !code && (length = getline(&line, &room, old)) > 0;) {
        l->whole = line[length - 1] == '\n';
        if (!l->whole) {
            l->ours = l->ours && begins_step(line, (size_t)length);
            break;
        }
        l->end += length;
        code = read_line(log, line, l);
    }
    free(line);
    return code;
}

/* A run that was killed may have left half a line, and steps that it does again: the log of a run that goes on has each once. A file of
 * something else is only added to. */
static int go_on(TrainLog *log, const char *path, int64_t done)
{
    struct stat info;
    Lines l = { .done = done, .ours = true, .whole = true };
    if (stat(path, &info) || !S_ISREG(info.st_mode)) return EXIT_DONE; /* a pipe or a device would not end */
    FILE *old = fopen(path, "r");
    const int code = old ? read_lines(log, old, &l) : EXIT_DONE;
    if (old) fclose(old);
    if (code) return code;
    if (done >= 0 && l.ours && l.cut < info.st_size && truncate(path, l.cut)) return fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno));
    log->file = fopen(path, "a");
    if (log->file && !l.whole && !(done >= 0 && l.ours)) fputc('\n', log->file);
    return EXIT_DONE;
}

int train_log_open(TrainLog *log, const char *path, int64_t done)
{
    log->path = path;
    const int code = path ? go_on(log, path, done) : EXIT_DONE;
    if (code || !path) return code;
    if (!log->file) log->file = fopen(path, "a");
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
    return bad ? fail(EXIT_OUTPUT, "%s: cannot be written: %s", log->path, strerror(errno)) : EXIT_DONE;
}

void train_log_close(TrainLog *log)
{
    if (log->file) fclose(log->file);
    free(log->points);
    *log = (TrainLog){ 0 };
}

/* ---- the curve: means over a fortieth of the run ---- */

enum { WIDTH = 640, HEIGHT = 320, LEFT = 52, BOTTOM = 40, TOP = 34, RIGHT = 16, MEANS = 40 };

/* By steps: points may begin late, where a run went on without its log. Parts without points have the mean before them, those before the first
 * point none: the first part that has one is returned. */
static int find_means(const TrainLog *log, double *mean, double *low, double *high)
{
    int64_t count[MEANS] = { 0 };
    const double last = log->count ? log->points[log->count - 1].step : 1;
    int first = MEANS;
    for (int i = 0; i < MEANS; i++) mean[i] = 0;
    for (int64_t k = 0; k < log->count; k++) {
        const double part = (log->points[k].step - 1) * MEANS / last;
        const int i = part > 0 ? (int)part : 0;
        mean[i] += (log->points[k].gain - mean[i]) / (double)++count[i];
    }
    for (int i = 0; i < MEANS; i++) {
        if (!count[i] && first == MEANS) continue;
        if (!count[i]) mean[i] = mean[i - 1];
        if (first == MEANS) first = i, *low = *high = mean[i];
        if (mean[i] < *low) *low = mean[i];
        if (mean[i] > *high) *high = mean[i];
    }
    if (*high - *low < 1) *high = *low + 1;
    return first;
}

static void draw(FILE *f, const TrainLog *log)
{
    double mean[MEANS], low = 0, high = 1;
    const int first = find_means(log, mean, &low, &high);
    const double last = log->count ? log->points[log->count - 1].step : 0, plot_w = WIDTH - LEFT - RIGHT, plot_h = HEIGHT - TOP - BOTTOM;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
               "<text x=\"%d\" y=\"20\" font-size=\"14\">PSNR above the noisy clips, dB</text>\n", WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    for (int i = 0; i <= 4; i++) {
        const double y = TOP + plot_h * i / 4;
        fprintf(f, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n", LEFT, y, WIDTH - RIGHT, y,
                LEFT - 6, y + 4, high - (high - low) * i / 4);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", LEFT + plot_w * i / 4, HEIGHT - BOTTOM + 18, last * i / 4);
    }
    fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">steps</text>\n<polyline fill=\"none\" stroke=\"#1b6ca8\" stroke-width=\"2\" points=\"", LEFT + plot_w / 2, HEIGHT - 6);
    for (int i = first; i < MEANS; i++) fprintf(f, "%.1f,%.1f ", LEFT + plot_w * (i + 0.5) / MEANS, TOP + plot_h * (high - mean[i]) / (high - low));
    fputs("\"/>\n</svg>\n", f);
}

int train_curve(const TrainLog *log, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f) return fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno));
    draw(f, log);
    const int bad = ferror(f);
    return fclose(f) || bad ? fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno)) : EXIT_DONE;
}
