/* html.c: the report: some frames of the clip as pictures inside the page, a slider between before and after, and curves. */
#define _POSIX_C_SOURCE 200809L
#include "html.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE_X = 1280, SIDE_Y = 720 }; /* of larger frames the middle is shown: shrinking would hide the noise */

/* A file that goes with the program, however that ends. */
static int open_scratch(Html *h)
{
    h->own = tmpfile();
    if (!h->own) return fail(EXIT_OUTPUT, "--report: there is no place for a file while it is made: %s", strerror(errno));
    snprintf(h->own_name, sizeof h->own_name, "/dev/fd/%d", fileno(h->own));
    h->scratch = h->own_name;
    return EXIT_DONE;
}

int html_begin(Html *h, SnlsContext *ctx, const char *scratch, int64_t height, int64_t width, int64_t channels,
                int64_t total)
{
    *h = (Html){ .ctx = ctx, .height = height, .width = width, .channels = channels, .total = total, .step = 1, .scratch = scratch };
    if (total > HTML_FRAMES) h->step = (total + HTML_FRAMES - 1) / HTML_FRAMES;
    return scratch ? EXIT_DONE : open_scratch(h);
}

bool html_wants(const Html *h, int64_t number) { return number % h->step == 0; }

static void frame_free(HtmlFrame *f)
{
    free(f->before);
    free(f->after);
    free(f->residual);
    free(f->flow);
    *f = (HtmlFrame){ 0 };
}

void html_free(Html *h)
{
    for (int i = 0; i < h->count; i++) frame_free(&h->frame[i]);
    h->count = 0;
    if (h->own) fclose(h->own);
    h->own = NULL;
}

/* More frames than were expected: every other one goes. */
static void thin_out(Html *h)
{
    int kept = 0;
    h->step *= 2;
    for (int i = 0; i < h->count; i++)
        if (h->frame[i].number % h->step == 0) h->frame[kept++] = h->frame[i];
        else frame_free(&h->frame[i]);
    h->count = kept;
}

/* ---- pictures ---- */

static char *base64(const unsigned char *from, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;
    for (size_t i = 0; text && i < size; i += 3) {
        const unsigned long word = (unsigned long)from[i] << 16 | (i + 1 < size ? (unsigned long)from[i + 1] << 8 : 0) |
                                   (i + 2 < size ? from[i + 2] : 0);
        for (int k = 0; k < 4; k++) *to++ = i + (size_t)k <= size ? digits[word >> (18 - 6 * k) & 63] : '=';
    }
    if (text) *to = 0;
    return text;
}

static char *file_base64(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file && !fseek(file, 0, SEEK_END)) {
        const long size = ftell(file);
        unsigned char *bytes = size > 0 ? malloc((size_t)size) : NULL;
        rewind(file);
        if (bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size) text = base64(bytes, (size_t)size);
        free(bytes);
    }
    if (file) fclose(file);
    return text;
}

/* The middle of a view of (H,W,C) as PNG in base64. */
static int picture(Html *h, const SnlsTensor *image, char **text)
{
    SnlsTensor part = *image;
    const int64_t most[2] = { SIDE_Y, SIDE_X };
    for (int i = 0; i < 2; i++)
        if (part.shape[i] > most[i]) {
            const int64_t skip = (part.shape[i] - most[i]) / 2;
            part.data = (char *)part.data + skip * part.stride[i] * snls_dtype_size((SnlsDtype)part.dtype);
            part.shape[i] = most[i];
        }
    const SnlsStatus status = snls_png_write(h->ctx, h->scratch, &part);
    if (status < 0) return fail_library(h->ctx, status, true);
    *text = file_base64(h->scratch);
    return *text ? EXIT_DONE : fail(EXIT_OUTPUT, "%s: cannot be read back", h->scratch);
}

/* What was taken away, four times as strong around grey. */
static int residual_picture(Html *h, const SnlsPipelineFrame *f, char **text)
{
    SnlsTensor image = { 0 };
    const int64_t shape[3] = { h->height, h->width, h->channels }, n = h->height * h->width * h->channels;
    int code = alloc_array(h->ctx, "residual", &image, SNLS_F32, 3, shape);
    for (int64_t i = 0; !code && i < n; i++) ((float *)image.data)[i] = 128 + 4 * (f->before[i] - f->after[i]);
    if (!code) code = picture(h, &image, text);
    snls_array_free(h->ctx, &image);
    return code;
}

static int flow_picture(Html *h, const SnlsPipelineFrame *f, char **text)
{
    SnlsTensor image = { 0 };
    if (!f->flow) return EXIT_DONE;
    const SnlsTensor flow = snls_tensor((void *)f->flow, SNLS_F32, 3, (const int64_t[]){ h->height, h->width, 2 });
    int code = alloc_array(h->ctx, "flow", &image, SNLS_U8, 3, (const int64_t[]){ h->height, h->width, 3 });
    if (!code && snls_flow_color(h->ctx, &flow, 0, &image) < 0) code = fail_library(h->ctx, SNLS_ERR_SHAPE, false);
    if (!code) code = picture(h, &image, text);
    snls_array_free(h->ctx, &image);
    return code;
}

int html_add(Html *h, const SnlsPipelineFrame *f)
{
    if (h->count == HTML_FRAMES) thin_out(h);
    if (!html_wants(h, f->number)) return EXIT_DONE;
    const int64_t shape[3] = { h->height, h->width, h->channels };
    const SnlsTensor before = snls_tensor((void *)f->before, SNLS_F32, 3, shape),
                     after = snls_tensor((void *)f->after, SNLS_F32, 3, shape);
    HtmlFrame *to = &h->frame[h->count++];
    *to = (HtmlFrame){ .number = f->number, .time = f->time };
    int code = picture(h, &before, &to->before);
    if (!code) code = picture(h, &after, &to->after);
    if (!code) code = residual_picture(h, f, &to->residual);
    return code ? code : flow_picture(h, f, &to->flow);
}

/* ---- the page ---- */

static void put_text(FILE *to, const char *text)
{
    for (; *text; text++)
        if (*text == '<') fputs("&lt;", to);
        else if (*text == '>') fputs("&gt;", to);
        else if (*text == '&') fputs("&amp;", to);
        else if (*text == '"') fputs("&quot;", to);
        else fputc(*text, to);
}

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1320px;padding:1em;background:#fafafa;color:#222}"
    "h1{font-size:1.3em;overflow-wrap:anywhere}h2{font-size:1.05em;margin:1.4em 0 .4em}"
    ".view{position:relative;display:inline-block;max-width:100%;background:#000;line-height:0;overflow:hidden}"
    ".view img{max-width:100%;min-width:min(100%,640px);image-rendering:pixelated}label{display:block}.view "
    ".top{position:absolute;left:0;top:0;width:100%;height:100%}"
    ".bar{position:absolute;top:0;bottom:0;width:2px;background:#fff;box-shadow:0 0 3px #000;pointer-events:none}"
    ".tag{position:absolute;bottom:4px;font-size:12px;line-height:1.4;color:#fff;background:#0008;padding:1px 6px}"
    "#slider{width:100%;max-width:1280px;margin:.5em 0}button{margin:0 .3em .3em 0;padding:.2em "
    ".7em}button.on{background:#246;color:#fff}"
    "table{border-collapse:collapse}td{border:1px solid #ccc;padding:2px "
    "10px}td:first-child{color:#555}svg{background:#fff;border:1px solid #ccc;max-width:100%}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td{border-color:#444}td:first-child{color:#"
    "aaa}}";

static const char script[] =
    "const $=s=>document.querySelector(s);let at=0,view='compare';\n"
    "function show(){const f=frames[at],top=$('#top'),x=+$('#slider').value,cmp=view=='compare';\n"
    "const pick={compare:f.b,before:f.b,after:f.a,residual:f.r,motion:f.f||f.r};\n"
    "$('#under').src='data:image/png;base64,'+pick[view];top.src='data:image/png;base64,'+f.a;top.hidden=!cmp;\n"
    "top.style.clipPath='inset(0 0 0 "
    "'+x+'%)';$('#bar').hidden=!cmp;$('#bar').style.left=x+'%';$('#slider').disabled=!cmp;\n"
    "$('#left').textContent=cmp?'before':view;$('#right').hidden=!cmp;\n"
    "document.querySelectorAll('#frames button').forEach((b,i)=>b.classList.toggle('on',i==at));\n"
    "document.querySelectorAll('#views button').forEach(b=>b.classList.toggle('on',b.dataset.v==view));}\n"
    "frames.forEach((f,i)=>{const b=document.createElement('button');b.textContent='frame "
    "'+f.n;b.onclick=()=>{at=i;show()};$('#frames').append(b)});\n"
    "document.querySelectorAll('#views button').forEach(b=>b.onclick=()=>{view=b.dataset.v;show()});\n"
    "$('#slider').addEventListener('input',show);\n"
    "$('#view').addEventListener('pointermove',e=>{if(e.buttons&&view=='compare'){const "
    "r=$('#view').getBoundingClientRect();\n"
    "$('#slider').value=100*(e.clientX-r.left)/"
    "r.width;show()}});$('#view').addEventListener('dragstart',e=>e.preventDefault());show();\n";

static void put_frames(const Html *h, FILE *to)
{
    fprintf(
        to,
        "<h2>Frames</h2>\n<div id=views><button data-v=compare>compare</button><button data-v=before>before</button>"
        "<button data-v=after>after</button><button data-v=residual>residual &times; 4</button><button "
        "data-v=motion>motion</button></div>\n"
        "<div id=frames></div>\n<div class=view id=view><img id=under alt=\"before\"><img id=top class=top "
        "alt=\"after\">"
        "<div class=bar id=bar></div><span class=tag id=left style=\"left:4px\">before</span><span class=tag id=right "
        "style=\"right:4px\">after</span></div>\n"
        "<label>before &harr; after <input type=range id=slider min=0 max=100 step=0.1 value=50 aria-label=\"share of "
        "the picture before denoising\"></label>\n");
    if (h->height > SIDE_Y || h->width > SIDE_X)
        fprintf(to, "<p>The middle %d &times; %d pixels are shown.</p>\n", SIDE_X, SIDE_Y);
    fprintf(to, "<script>\nconst frames=[");
    for (int i = 0; i < h->count; i++) {
        const HtmlFrame *f = &h->frame[i];
        fprintf(to, "%s{n:%lld,b:\"%s\",a:\"%s\",r:\"%s\",f:\"%s\"}", i ? ",\n" : "", (long long)f->number, f->before,
                f->after, f->residual, f->flow ? f->flow : "");
    }
    fprintf(to, "];\n%s</script>\n", script);
}

static void put_curve(FILE *to, json_t *list, double low, double high, const char *colour)
{
    const size_t n = json_array_size(list);
    fprintf(to, "<polyline fill=none stroke=\"%s\" stroke-width=2 points=\"", colour);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        if (json_is_null(value)) continue;
        fprintf(to, "%.1f,%.1f ", 50 + 730.0 * (double)i / (double)(n > 1 ? n - 1 : 1),
                190 - 170 * (json_real_value(value) - low) / (high - low));
    }
    fprintf(to, "\"/>");
}

static void range_of(json_t *list, double *low, double *high)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (json_is_null(value)) continue;
        *low = fmin(*low, json_real_value(value));
        *high = fmax(*high, json_real_value(value));
    }
}

static void put_chart(FILE *to, const char *name, const char *unit, json_t *first, json_t *second)
{
    double low = INFINITY, high = -INFINITY;
    range_of(first, &low, &high);
    if (second) range_of(second, &low, &high);
    if (!(low <= high)) return;
    if (high - low < 1e-6) low -= 0.5, high += 0.5;
    fprintf(to,
            "<h2>%s of each frame%s</h2>\n<svg viewBox=\"0 0 800 210\" width=800 height=210 role=img aria-label=\"%s "
            "of each frame\">"
            "<text x=4 y=24 font-size=12>%.4g%s</text><text x=4 y=194 font-size=12>%.4g%s</text>",
            name, second ? " (before in red, after in blue)" : "", name, high, unit, low, unit);
    if (second) put_curve(to, second, low, high, "#c33");
    put_curve(to, first, low, high, "#26c");
    fprintf(to, "</svg>\n");
}

static void put_settings(FILE *to, const char *prefix, json_t *settings)
{
    const char *key;
    json_t *value;
    json_object_foreach(settings, key, value)
    {
        char name[128];
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (json_is_object(value)) {
            snprintf(name, sizeof name, "%s%s, ", prefix, key);
            put_settings(to, name, value);
            continue;
        }
        char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(5));
        fprintf(to, "<tr><td>");
        put_text(to, name);
        fprintf(to, "</td><td>");
        put_text(to, text ? text : json_is_string(value) ? json_string_value(value) : "");
        fprintf(to, "</td></tr>\n");
        free(text);
    }
}

/* As settings have it: a file name need not be UTF-8, the page must. */
static void put_name(FILE *to, const char *name)
{
    json_t *text = json_text(name);
    put_text(to, text ? json_string_value(text) : "");
    json_decref(text);
}

int html_write(const Html *h, const char *path, const char *title, json_t *settings, json_t *psnr_before, json_t *psnr,
               json_t *ssim)
{
    FILE *to = fopen(path, "w");
    if (!to) return fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno));
    fprintf(to, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
                "content=\"width=device-width\"><title>snls denoise: ");
    put_name(to, title);
    fprintf(to, "</title><style>%s</style></head><body>\n<h1>", style);
    put_name(to, title);
    fprintf(to, " without its noise</h1>\n");
    put_frames(h, to);
    if (json_array_size(psnr)) put_chart(to, "PSNR", " dB", psnr, psnr_before);
    if (json_array_size(ssim)) put_chart(to, "SSIM", "", ssim, NULL);
    fprintf(to, "<h2>Settings</h2>\n<table>\n");
    put_settings(to, "", settings);
    fprintf(to, "</table>\n</body></html>\n");
    const bool bad = ferror(to);
    return fclose(to) || bad ? fail(EXIT_OUTPUT, "%s: cannot be written: %s", path, strerror(errno)) : EXIT_DONE;
}
