/* cmd_op.c: runs any operator on arrays: load, forward, backward, write. What differs is in the tables of ops.c. */
#include "ops.h"
#include <stdio.h>
#include <string.h>

typedef struct Run {
    const OpCommand *command;
    Common common;
    SnlsContext *ctx;
    Call call;
    Grad grad;
    const char *path[SLOTS_MAX]; /* of each slot's file, NULL where not given */
    bool wide;                   /* everything is f64 */
    bool backward;
    SnlsStatus status; /* of forward: SNLS_UNCOVERED is told */
    double forward_seconds, backward_seconds;
} Run;

static SnlsTensor *tensor_of(Run *r, const Slot *slot)
{
    char *base = slot->kind == SLOT_INPUT || slot->kind == SLOT_OUTPUT ? (char *)&r->call : (char *)&r->grad;
    return (SnlsTensor *)(void *)(base + slot->at);
}

static bool is_read(const Slot *slot) { return slot->kind == SLOT_INPUT || slot->kind == SLOT_SEED; }

static bool begins_with_option(const char *op, const char *text)
{
    const size_t n = strcspn(text, " ");
    for (const SnlsOption *o = snls_options(op); o && o->name; o++)
        if (strlen(o->name) == n && !strncmp(o->name, text, n)) return true;
    return false;
}

/* "... no gradient to centre": the option that asked for it; NULL where the sentence ends otherwise. */
static const char *gradient_named(const Run *r, const char *text)
{
    static const char words[] = "no gradient to ";
    const char *member = strstr(text, words);
    for (int i = 0; member && i < r->command->slot_count; i++) {
        const Slot *slot = &r->command->slots[i];
        const char *of = slot->kind == SLOT_GRAD && r->path[i] ? strrchr(slot->label, ' ') : NULL; /* "gradient of centre" */
        if (of && !strcmp(of + 1, member + sizeof words - 1)) return slot->option;
    }
    return NULL;
}

/* The library says "search: key has shape ..."; the user gave a file: "k.npy: key has shape ...". */
static int fail_call(Run *r, SnlsStatus status)
{
    const char *text = snls_error(r->ctx), *best = NULL;
    const size_t prefix = strlen(r->command->op) + 2;
    size_t longest = 0;
    if (strlen(text) > prefix && !strncmp(text, r->command->op, prefix - 2) && text[prefix - 2] == ':') text += prefix;
    for (int i = 0; i < r->command->slot_count; i++) {
        const Slot *slot = &r->command->slots[i];
        const size_t n = strlen(slot->label);
        if (!r->path[i] || !is_read(slot) || n <= longest || strncmp(text, slot->label, n) || text[n] != ' ') continue;
        best = r->path[i];
        longest = n;
    }
    if (best && status == SNLS_ERR_SHAPE) return fail(EXIT_INPUT, "%s: %s", best, text);
    const char *gradient = gradient_named(r, text);
    return fail(code_of(status, false), "%s%s%s%s%s", begins_with_option(r->command->op, text) ? "--" : "", text, gradient ? " (--" : "", gradient ? gradient : "", gradient ? ")" : "");
}

/* ---- arguments ---- */

static bool parse(Run *r, int argc, char **argv, int *code)
{
    Arg args[SLOTS_MAX];
    const char *names[SLOTS_MAX], *help[SLOTS_MAX], *values[SLOTS_MAX] = { NULL };
    static char lines[SLOTS_MAX][160];
    int positional = 0, count = 0;
    for (int i = 0; i < r->command->slot_count; i++) {
        const Slot *slot = &r->command->slots[i];
        snprintf(lines[i], sizeof lines[i], "%s%s%s", slot->help, *slot->layout ? " " : "", slot->layout);
        if (slot->option) {
            args[count++] = (Arg){ slot->option, slot->meta, lines[i], &r->path[i] };
        } else {
            names[positional] = slot->meta;
            help[positional++] = lines[i];
        }
    }
    const ArgTable table = { .summary = r->command->summary,
                             .examples = r->command->examples,
                             .args = args,
                             .arg_count = count,
                             .options = snls_options(r->command->op),
                             .params = &r->call,
                             .positional_names = names,
                             .positional_help = help,
                             .positional = values,
                             .positional_min = positional,
                             .positional_max = positional };
    if (!parse_args(argc, argv, &table, &r->common, code)) return false;
    for (int i = 0, at = 0; i < r->command->slot_count; i++)
        if (!r->command->slots[i].option) r->path[i] = values[at++];
    return true;
}

/* Which files were asked for, and whether they make sense together. */
static int check_request(Run *r)
{
    bool outputs = false, seeds = false, grads = false;
    const char *seed_option = NULL, *grad_option = NULL;
    for (int i = 0; i < r->command->slot_count; i++) {
        const Slot *slot = &r->command->slots[i];
        if (slot->kind == SLOT_SEED && !seed_option) seed_option = slot->option;
        if (slot->kind == SLOT_GRAD && !grad_option) grad_option = slot->option;
        if (!r->path[i]) continue;
        outputs |= slot->kind == SLOT_OUTPUT;
        seeds |= slot->kind == SLOT_SEED;
        grads |= slot->kind == SLOT_GRAD;
        for (int j = 0; slot->kind == SLOT_GRAD && j < r->command->slot_count; j++) {
            const Slot *input = &r->command->slots[j];
            if (input->kind == SLOT_INPUT && input->at == slot->like && !r->path[j])
                return fail(EXIT_USAGE, "--%s is asked for, but --%s is not given", slot->option, input->option);
        }
    }
    if (!outputs && !grads)
        return fail(EXIT_USAGE, "no output is asked for; 'snls %s --help' lists the --out options", command_name);
    if (grads && !seeds) return fail(EXIT_USAGE, "a gradient is asked for, but --%s is not given", seed_option);
    if (seeds && !grads)
        return fail(EXIT_USAGE, "--%s is given, but no gradient (such as --%s) is asked for", seed_option, grad_option);
    r->backward = grads;
    return EXIT_DONE;
}

static int reserve_files(Run *r)
{
    int code = EXIT_DONE;
    for (int i = 0; i < r->command->slot_count; i++)
        if (r->path[i] && is_read(&r->command->slots[i])) input_note(r->path[i]);
    for (int i = 0; i < r->command->slot_count && !code; i++)
        if (r->path[i] && !is_read(&r->command->slots[i])) code = output_array(r->path[i], r->common.overwrite);
    return code;
}

/* ---- arrays in ---- */

/* One clip as a batch of one. */
static void add_batch_axis(SnlsTensor *t)
{
    int64_t shape[SNLS_MAX_DIM] = { 1 };
    memcpy(shape + 1, t->shape, (size_t)t->ndim * sizeof *shape);
    *t = snls_tensor(t->data, (SnlsDtype)t->dtype, t->ndim + 1, shape);
}

static int load_slot(Run *r, const Slot *slot, const char *path)
{
    SnlsTensor *t = tensor_of(r, slot);
    const int code = load_array(r->ctx, path, t);
    if (code) return code;
    if (slot->flags & SLOT_CLIP && t->ndim == slot->rank_min - 1) add_batch_axis(t);
    if (t->ndim < slot->rank_min || t->ndim > slot->rank_max)
        return fail(EXIT_INPUT, "%s: has shape %s, the %s must be %s", path, shape_text(t).text, slot->label,
                    slot->layout);
    return EXIT_DONE;
}

/* ref takes any float type; the others want f32 for all but videos, which may be f16. */
static SnlsDtype dtype_for(const Run *r, const Slot *slot, int32_t dtype)
{
    if (r->wide || dtype == SNLS_F32) return (SnlsDtype)dtype;
    if (dtype == SNLS_U8) return SNLS_F32;
    if (!strcmp(snls_backend_name(r->ctx), "ref"))
        return slot->flags & SLOT_FINITE && dtype == SNLS_F16 ? SNLS_F32 : (SnlsDtype)dtype;
    return slot->flags & SLOT_VIDEO && dtype == SNLS_F16 ? SNLS_F16 : SNLS_F32;
}

static int load_inputs(Run *r)
{
    int code = EXIT_DONE;
    r->wide = !strcmp(snls_backend_name(r->ctx), "ref");
    for (int i = 0; i < r->command->slot_count && !code; i++) {
        const Slot *slot = &r->command->slots[i];
        if (!r->path[i] || !is_read(slot)) continue;
        code = load_slot(r, slot, r->path[i]);
        if (!code && tensor_of(r, slot)->dtype != SNLS_F64) r->wide = false;
    }
    for (int i = 0; i < r->command->slot_count && !code; i++) {
        const Slot *slot = &r->command->slots[i];
        if (!r->path[i] || !is_read(slot)) continue;
        SnlsTensor *t = tensor_of(r, slot);
        code = convert_array(r->ctx, r->path[i], t, dtype_for(r, slot, t->dtype));
        if (!code && slot->flags & SLOT_FINITE) code = require_finite(r->path[i], slot->label, t, 0);
    }
    return code;
}

/* ---- arrays out ---- */

static bool is_wanted(const Run *r, int i)
{
    const Slot *slot = &r->command->slots[i];
    if (slot->kind == SLOT_GRAD) return r->path[i];
    return slot->kind == SLOT_OUTPUT &&
           (r->path[i] || !(slot->flags & SLOT_OPTIONAL) || (r->backward && slot->flags & SLOT_INDEX));
}

static SnlsDtype output_dtype(const Run *r, const Slot *slot)
{
    return slot->flags & SLOT_INDEX ? SNLS_I32 : r->wide ? SNLS_F64 : SNLS_F32;
}

/* Shapes of everything that will be written, and whether all of it fits. */
static int shape_outputs(Run *r)
{
    double bytes = 0;
    const SnlsStatus status = r->command->shape(r->ctx, &r->call);
    if (status < 0) return fail_call(r, status);
    for (int i = 0; i < r->command->slot_count; i++) {
        const Slot *slot = &r->command->slots[i];
        SnlsTensor *t = tensor_of(r, slot);
        if (!is_wanted(r, i)) continue;
        if (slot->kind == SLOT_GRAD) {
            *t = *(SnlsTensor *)(void *)((char *)&r->call + slot->like);
            t->data = NULL;
        }
        double size = (double)snls_dtype_size(output_dtype(r, slot));
        for (int32_t axis = 0; axis < t->ndim; axis++) size *= (double)t->shape[axis];
        bytes += size;
    }
    return require_memory("outputs", bytes);
}

static int alloc_outputs(Run *r)
{
    int code = shape_outputs(r);
    for (int i = 0; i < r->command->slot_count && !code; i++) {
        const Slot *slot = &r->command->slots[i];
        SnlsTensor *t = tensor_of(r, slot);
        if (is_wanted(r, i))
            code =
                alloc_array(r->ctx, r->path[i] ? r->path[i] : slot->label, t, output_dtype(r, slot), t->ndim, t->shape);
    }
    return code;
}

/* Seconds of a pass are those until its work is done, wherever that is. */
static SnlsStatus timed(Run *r, bool backward, double *seconds)
{
    const double start = seconds_now();
    const SnlsStatus status =
        backward ? r->command->backward(r->ctx, &r->call, &r->grad) : r->command->forward(r->ctx, &r->call);
    const SnlsStatus waited = status < 0 ? status : snls_device_wait(r->ctx);
    *seconds = seconds_now() - start;
    if (status == SNLS_UNCOVERED) r->status = status;
    return waited;
}

static SnlsStatus run_passes(Run *r)
{
    SnlsStatus status = SNLS_OK;
    bool forward = r->command->backward_reads_forward || !r->backward;
    for (int i = 0; i < r->command->slot_count; i++) forward |= r->path[i] && r->command->slots[i].kind == SLOT_OUTPUT;
    if (forward) status = timed(r, false, &r->forward_seconds);
    if (r->backward && status >= 0) status = timed(r, true, &r->backward_seconds);
    return status;
}

static int compute(Run *r)
{
    Loan loans[SLOTS_MAX];
    const int count = r->command->slot_count;
    for (int i = 0; i < count; i++)
        loans[i] = (Loan){ tensor_of(r, &r->command->slots[i]), !is_read(&r->command->slots[i]), NULL };
    SnlsStatus status = loans_give(r->ctx, loans, count);
    if (status >= 0) status = run_passes(r);
    status = loans_return(r->ctx, loans, count, status);
    return status < 0 ? fail_call(r, status) : EXIT_DONE;
}

static int write_outputs(Run *r)
{
    int code = EXIT_DONE;
    for (int i = 0; i < r->command->slot_count && !code; i++)
        if (r->path[i] && !is_read(&r->command->slots[i]))
            code = write_array(r->ctx, r->path[i], tensor_of(r, &r->command->slots[i]));
    return code;
}

/* ---- report ---- */

static json_t *make_report(Run *r)
{
    json_t *report = report_begin(r->ctx), *shapes = json_object(), *outputs = json_array();
    for (int i = 0; i < r->command->slot_count; i++) {
        const Slot *slot = &r->command->slots[i];
        const SnlsTensor *t = tensor_of(r, slot);
        if (!r->path[i]) continue;
        json_object_set_new(shapes, slot->label, json_shape(t));
        if (is_read(slot)) continue;
        json_array_append_new(outputs,
                              json_pack("{s:s, s:o, s:o, s:s}", "option", slot->option, "path", json_text(r->path[i]),
                                        "shape", json_shape(t), "dtype", snls_dtype_name((SnlsDtype)t->dtype)));
    }
    json_object_set_new(report, "shapes", shapes);
    json_object_set_new(report, "seconds", json_real(r->forward_seconds + r->backward_seconds));
    json_object_set_new(report, "seconds_forward", json_real(r->forward_seconds));
    json_object_set_new(report, "seconds_backward", json_real(r->backward_seconds));
    json_object_set_new(report, "outputs", outputs);
    if (!strncmp(r->command->op, "gather", 6))
        json_object_set_new(report, "uncovered", json_boolean(r->status == SNLS_UNCOVERED));
    return report;
}

static int finish(Run *r)
{
    int code = write_outputs(r);
    if (!code && r->common.json) code = report_print(make_report(r));
    if (!code) code = outputs_commit();
    if (code) return code;
    if (r->status == SNLS_UNCOVERED)
        fprintf(stderr,
                "snls %s: warning: some pixels lie under no query patch and are 0 (full coverage needs stride0 - 1 <= "
                "(ps-1)/2)\n",
                command_name);
    return EXIT_DONE;
}

static void free_arrays(Run *r)
{
    for (int i = 0; i < r->command->slot_count && r->ctx; i++)
        snls_array_free(r->ctx, tensor_of(r, &r->command->slots[i]));
    snls_close(&r->ctx);
}

int run_op(const OpCommand *command, int argc, char **argv)
{
    int code;
    Run r = { .command = command };
    command->defaults(&r.call);
    if (!parse(&r, argc, argv, &code)) return code;
    code = check_request(&r);
    if (!code) code = reserve_files(&r);
    if (!code) code = open_context(&r.common, &r.ctx);
    if (!code) code = load_inputs(&r);
    if (!code) code = alloc_outputs(&r);
    if (!code) code = compute(&r);
    if (!code) code = finish(&r);
    free_arrays(&r);
    return code;
}
