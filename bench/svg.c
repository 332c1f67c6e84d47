/* svg.c: the report as a picture: a bar for each case, and a panel of log-log lines for each thing that was scaled. */
#include "bench.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum {
    WIDTH = 1120,
    HEAD = 96,    /* title and machine */
    ROW = 17,     /* one bar */
    LEFT = 430,   /* where bars begin */
    FULL = 420,   /* length of 100 % */
    PANEL = 340,  /* a panel of lines, with its margins */
    PANELS = 3,   /* beside each other */
    INSET = 46,   /* from a panel's edge to its axes */
    PLOT_H = 210, /* height between the axes' ends */
    PLOT_W = PANEL - INSET - 24
};

static const char *const colours[] = { "#1b6ca8", "#e08e2b", "#3f9c5a", "#8a5ca8" };

/* What comes from the system may hold anything. */
static void escaped(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '&') fputs("&amp;", f);
        else if (*text == '<') fputs("&lt;", f);
        else if (*text == '>') fputs("&gt;", f);
        else if ((unsigned char)*text >= 32 && (unsigned char)*text < 127) fputc(*text, f);
        else fputc('?', f);
    }
}

#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
static void
label(FILE *f, double x, double y, const char *style, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style);
    escaped(f, text);
    fputs("</text>\n", f);
}

static void line(FILE *f, double x1, double y1, double x2, double y2, const char *style)
{
    fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, style);
}

static void draw_head(const BenchReport *r, FILE *f, int height)
{
    const BenchMachine *m = &r->machine;
    const BenchCeilings *c = bench_ceilings_of(r, r->threads);
    char rates[200] = "";
    size_t at = 0;
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\">\n<style>text{font:12px sans-serif;fill:#222}.title{font-size:17px;"
            "font-weight:bold}.soft{fill:#666}.end{text-anchor:end}.mid{text-anchor:middle;fill:#666}.head{font-weight:"
            "bold}.grid{stroke:#ddd}.axis{stroke:#555}.full{stroke:#b33}</style>\n<rect width=\"%d\" height=\"%d\" "
            "fill=\"#fff\"/>\n",
            WIDTH, height, WIDTH, height, WIDTH, height);
    for (int i = 0; i < c->count && at < sizeof rates; i++)
        at += (size_t)snprintf(rates + at, sizeof rates - at, "%s%s %.1f", i ? ", " : "", c->rungs[i].name,
                               c->rungs[i].rate * 1e-9);
    label(f, 16, 28, "title", "snls %s: operators against the limits of this machine", snls_version());
    label(f, 16, 50, "", "%s, %d cores; backend %s, threads %d, %s; %s", m->model, (int)m->cores, r->backend,
          (int)r->threads, snls_cpu_level_name(r->cpu_level), m->compiler);
    label(f, 16, 68, "", "measured in the same run: multiply-add %.1f GFLOP/s, triad %s GB/s", c->fma_rate * 1e-9,
          rates);
}

/* ---- bars ---- */

static void draw_bar(const BenchReport *r, const BenchResult *one, FILE *f, double y)
{
    const char *bound;
    const double share = bench_result_floor(r, one, &bound) / one->seconds, most = 1.1;
    const double length = FULL * fmin(fmax(share, 0), most);
    if (!one->backward) label(f, LEFT - 10, y + ROW - 4, "end", "%s %s", one->which.op, one->which.name);
    if (!isfinite(share)) {
        label(f, LEFT + 6, y + ROW - 4, "soft", "not enough memory");
        return;
    }
    fprintf(f, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", LEFT, y + 2, length, ROW - 4,
            colours[one->backward]);
    label(f, LEFT + length + 6, y + ROW - 4, "soft", "%.0f %% of %s, %.3g ms%s", 100 * share, bound, 1e3 * one->seconds,
          share > most ? " (shares work)" : "");
}

static double draw_bars(const BenchReport *r, FILE *f, double top)
{
    label(f, 16, top + 14, "head", "Share of the limit that binds");
    for (int i = 0; i < 2; i++) {
        fprintf(f, "<rect x=\"%d\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", 240 + 90 * i, top + 4,
                colours[i]);
        label(f, 257 + 90 * i, top + 14, "", "%s", i ? "backward" : "forward");
    }
    const double first = top + 40, last = first + (double)r->count * ROW + 4;
    for (int i = 0; i <= 5; i++) {
        const double x = LEFT + FULL * i / 5.0;
        line(f, x, first - 4, x, last, i == 5 ? "full" : "grid");
        label(f, x, first - 8, "mid", "%d %%", 20 * i);
    }
    for (int i = 0; i < r->count; i++) draw_bar(r, &r->results[i], f, first + (double)i * ROW);
    return last + 24;
}

/* ---- lines ---- */

typedef struct Panel {
    double left, top, x0, x1, y0, y1; /* of the axes' crossing in the picture; ranges are logarithms */
} Panel;

static double at_x(const Panel *p, double value)
{
    return p->left + PLOT_W * (log(value) - p->x0) / fmax(p->x1 - p->x0, 1e-9);
}
static double at_y(const Panel *p, double value)
{
    return p->top + PLOT_H * (1 - (log(value) - p->y0) / fmax(p->y1 - p->y0, 1e-9));
}

static Panel panel_of(const BenchReport *r, const char *axis, double left, double top)
{
    Panel p = { left + INSET, top + 24, INFINITY, -INFINITY, INFINITY, -INFINITY };
    for (int i = 0; i < r->series_count; i++) {
        const BenchSeries *s = &r->series[i];
        for (int j = 0; j < s->count && !strcmp(s->axis, axis); j++) {
            p.x0 = fmin(p.x0, log(s->x[j]));
            p.x1 = fmax(p.x1, log(s->x[j]));
            p.y0 = fmin(p.y0, log(s->points[j].best));
            p.y1 = fmax(p.y1, log(s->points[j].best));
        }
    }
    p.y0 -= 0.2;
    p.y1 += 0.2;
    return p;
}

static void draw_axes(FILE *f, const Panel *p, const char *axis, const BenchSeries *s)
{
    label(f, p->left, p->top - 8, "head", "ms against %s", axis);
    line(f, p->left, p->top, p->left, p->top + PLOT_H, "axis");
    line(f, p->left, p->top + PLOT_H, p->left + PLOT_W, p->top + PLOT_H, "axis");
    for (int i = 0; i < s->count; i++) label(f, at_x(p, s->x[i]), p->top + PLOT_H + 16, "mid", "%g", s->x[i]);
    for (int decade = -7; decade < 4; decade++)
        for (int step = 1; step < 10; step = step == 1 ? 2 : step == 2 ? 5 : 10) {
            const double value = step * pow(10, decade), y = at_y(p, value);
            if (y < p->top || y > p->top + PLOT_H) continue;
            line(f, p->left, y, p->left + PLOT_W, y, "grid");
            label(f, p->left - 5, y + 4, "end soft", "%g", 1e3 * value);
        }
}

static void draw_series(FILE *f, const Panel *p, const BenchSeries *s, int number)
{
    const char *colour = colours[number % 4];
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int i = 0; i < s->count; i++)
        fprintf(f, "%s%.1f,%.1f", i ? " " : "", at_x(p, s->x[i]), at_y(p, s->points[i].best));
    fputs("\"/>\n", f);
    for (int i = 0; i < s->count; i++)
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", at_x(p, s->x[i]),
                at_y(p, s->points[i].best), colour);
    const double y = p->top + PLOT_H + 36 + 16 * number;
    fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"4\" fill=\"%s\"/>\n", p->left, y - 6, colour);
    label(f, p->left + 18, y, "", "%s, slope %.2f", s->name, s->slope);
}

/* How many panels were drawn; without a file they are only counted. */
static int draw_panels(const BenchReport *r, FILE *f, double top)
{
    int panels = 0;
    for (int i = 0; i < r->series_count; i++) {
        const char *axis = r->series[i].axis;
        if (i && !strcmp(r->series[i - 1].axis, axis)) continue; /* those of an axis follow each other */
        const int place = panels++;
        if (!f) continue;
        const Panel p =
            panel_of(r, axis, 16 + PANEL * (place % PANELS), top + (PLOT_H + 130.0) * (double)(place / PANELS));
        draw_axes(f, &p, axis, &r->series[i]);
        for (int j = i; j < r->series_count && !strcmp(r->series[j].axis, axis); j++)
            draw_series(f, &p, &r->series[j], j - i);
    }
    return panels;
}

void bench_svg(const BenchReport *r, FILE *f)
{
    const int panels = draw_panels(r, NULL, 0);
    const int bars = r->count ? 68 + ROW * r->count : 0, lines = (panels + PANELS - 1) / PANELS * (PLOT_H + 130);
    double top = HEAD;
    draw_head(r, f, HEAD + bars + lines + 10);
    if (bars) top = draw_bars(r, f, top);
    if (panels) draw_panels(r, f, top);
    fputs("</svg>\n", f);
}
