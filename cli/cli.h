/* cli.h: what the commands share. A command parses its arguments (args.c), reserves its outputs (outputs.c), opens a
 * context and loads arrays (arrays.c), works, reports (report.c) and commits its outputs. Of snls it sees the public
 * headers only. */
#ifndef SNLS_CLI_H
#define SNLS_CLI_H

#include <jansson.h>
#include <snls/snls.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum ExitCode {
    EXIT_DONE = 0,
    EXIT_OTHER = 1,
    EXIT_USAGE = 2,       /* options */
    EXIT_INPUT = 3,       /* cannot be opened or parsed; shapes that do not agree */
    EXIT_UNSUPPORTED = 4, /* valid, but not here */
    EXIT_MEMORY = 5,
    EXIT_DEVICE = 6,
    EXIT_OUTPUT = 7,
    EXIT_CHECK = 8 /* a check failed */
} ExitCode;

/* ---- exit.c: the one line on stderr ---- */

extern const char *command_name; /* "search"; begins every message */

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int fail(int code, const char *format, ...); /* prints "snls search: ..." (once); returns code */

/* The exit code of a failed library call; a failed write is an output problem, a failed read an input problem. */
int code_of(SnlsStatus status, bool writing);

int fail_library(SnlsContext *ctx, SnlsStatus status, bool writing);
int fail_found(SnlsContext *ctx, SnlsStatus status, bool writing); /* the same, but SNLS_ERR_ARG is said of numbers that a run came to: no wrong usage */
int fail_text(SnlsStatus status, bool writing, const char *text); /* the same with a sentence of the library that lies elsewhere */

/* A sentence of the library without the word for its area ("model: ") in front, which users did not write; one that they did write may be a file's name. */
const char *without_area(const char *text);
void words_note(char **argv); /* what stands behind the command; ended by NULL */

/* A clip to path could not be written: code, without a line where that is standard output and its reader has gone, who knows. */
int fail_clip(SnlsStatus status, bool writing, const char *path, const char *text);

int flush_stdout(void);   /* EXIT_DONE, or EXIT_OUTPUT with its line */
void guard_streams(void); /* descriptors 0 to 2 exist from here on, so that no file of ours becomes one of them */

/* ---- args.c, help.c ---- */

typedef struct Common {
    const char *backend, *device; /* as given, NULL where not */
    int32_t threads;              /* 0: all */
    uint64_t seed;
    bool seed_given, json, overwrite;
    bool deterministic; /* of commands that offer it */
} Common;

typedef struct Arg {  /* an option that is no parameter: a file name, a word, a flag */
    const char *name; /* "out-dist", without dashes */
    const char *meta; /* "D.npy"; NULL: a flag */
    const char *help;
    void *to; /* const char ** or, for a flag, bool * */
} Arg;

typedef struct ArgTable {
    const char *summary;  /* one line */
    const char *examples; /* lines, each indented by two */
    const Arg *args;
    int arg_count;
    const SnlsOption *options; /* numbers and enums of params; may be NULL */
    void *params;
    uint64_t *options_given; /* gets a bit for each of options that was given; may be NULL */
    const char *const *positional_names; /* "Q.npy" ..., positional_max of them */
    const char *const *positional_help;
    const char **positional;
    int positional_min, positional_max;
    const char *chosen_by, *chosen; /* options are those of --chosen_by chosen; may be NULL */
    const char *const *methods;     /* with chosen_by: all that can be chosen and have options (snls_flow_options), NULL behind the last */
    const char *letters;            /* "io": -i and -o have a value too; may be NULL */
    bool no_device; /* --device, --backend and --threads have no meaning here (but are accepted) */
} ArgTable;

/* True: go on. False: *code is the exit code, help or the error line is printed. */
bool parse_args(int argc, char **argv, const ArgTable *table, Common *common, int *code);

/* "10x480x480": count numbers of 1 to 9 digits with an x between them, no sign and no blank. False: it is something else. */
bool parse_sides(const char *text, int count, int32_t *to);

int print_help(const ArgTable *table, bool json);
void option_accepts(const SnlsOption *option, char *text, size_t size); /* "1 to 32767", "l2|prod" */
void option_default(const SnlsOption *option, char *text, size_t size);

/* ---- stop.c: signals ---- */

void stop_init(void);
/* A signal says "stopped by SIGTERM", then these words where the file is there; both are kept, not copied. */
void stop_words(const char *words, const char *file);
/* Between the two a signal waits: files may be made that are to go with the outputs. A thread that holds must not hold again. */
void stop_hold(void);
void stop_release(void); /* from any thread; ends the program where a signal has come meanwhile */

/* ---- outputs.c: files appear under their names all together, or not at all ---- */

void outputs_init(void); /* signal handlers, removal at exit */
void outputs_drop(void); /* what is there of them goes: for who ends by a signal of its own */
bool outputs_committing(void); /* they are complete, and being renamed */

const char *input_name(const char *path); /* as sentences name it: "-" is standard input */
void input_note(const char *path); /* before the outputs are added: none of them may be this file, or one of this folder or pattern */
void output_note(const char *path); /* the same for a file that is written by other means than output_add */
int output_spares_inputs(const char *path); /* refuses (line printed) a path that is one of these: for outputs that are added late */

bool same_file(const char *a, const char *b); /* or would be, of names that are not there yet */
bool output_special(const char *path); /* a pipe or a device that is there: written in place */
struct stat;
bool leads_to_stdout(const struct stat *place); /* a terminal and /dev/null are no harm: no program reads from there */
bool outputs_on_stdout(void); /* one of the outputs goes there: a summary behind it would be more of it */
const char *clip_name(const char *path); /* "-" for the other names of standard output, else path: of an OUT that is a clip */
void outputs_beside_json(bool json);   /* refuses outputs that are standard output where --json is there */

/* Refuses (line printed) a file that another run keeps writing anew, under its own name, until the program ends: the lock is beside it, at NAME.lock. */
int output_lock(const char *path);

/* Refuses (line printed) an existing file without overwrite, two outputs of one name, a place it cannot write to. */
int output_add(const char *path, bool overwrite);
int output_array(const char *path, bool overwrite);  /* the same for .npy: refuses the endings of flow and pictures */
int output_member(const char *path, bool overwrite); /* the same for one of many that numbers tell apart: quick */
int output_member_held(const char *path, bool overwrite); /* the same between stop_hold and stop_release */
/* Members are numbers 0 to count - 1 of pattern. Those from count on, up to the first that is missing, are of an older and longer result: with
 * overwrite the commit says that they are still there, since the folder read as a clip would end with another. */
void output_ends(const char *pattern, int64_t count, bool overwrite);
/* The first of count members that would be refused, since it exists or is an input; -1: none, or count < 0, not known. */
int64_t output_member_in_way(const char *pattern, int64_t count, bool overwrite);
int output_member_refuse(const char *pattern, int64_t number); /* that one: line printed */
/* Refuses the same for a file that is written under its own name while the program runs, and stays however that ends: nothing is made here. pattern: of the
 * members that will be added; NULL: there are none. */
int output_in_place(const char *path, const char *pattern, bool overwrite);
const char *name_of(const char *path); /* behind the last '/' */
bool names_picture(const char *path);  /* by its ending, one of those that are read from a folder */
int output_folder(const char *path);       /* makes it where it is missing; removed again on failure */
int output_folder_of(const char *pattern); /* the same for the folder that the files of a pattern lie in */
const char *output_path(const char *path); /* where to write what will become path */
int outputs_commit(void);
bool outputs_committed(void); /* there were some, and they are there to stay */

/* ---- memory.c, arrays.c ---- */

double memory_limit(void);                          /* bytes this program can have at most */
SnlsAllocator limited_allocator(void);              /* refuses what this machine does not have */
int require_memory(const char *what, double bytes); /* EXIT_MEMORY where all of it together would not fit */

int context_params(const Common *common, SnlsContextParams *params); /* of --backend, --device, --threads */
int open_context(const Common *common, SnlsContext **ctx);

int load_array(SnlsContext *ctx, const char *path, SnlsTensor *array);
int convert_array(SnlsContext *ctx, const char *path, SnlsTensor *array, SnlsDtype dtype);
/* first: what array begins with along the first axis, where it is a part of the file; for the sentence. */
int require_finite(const char *path, const char *what, const SnlsTensor *array, int64_t first);
int require_pixels(const char *path, const SnlsTensor *clip, int64_t first); /* f32: no squares that leave the floats */
int alloc_array(SnlsContext *ctx, const char *what, SnlsTensor *array, SnlsDtype dtype, int32_t ndim,
                const int64_t *shape);
int write_array(SnlsContext *ctx, const char *path, const SnlsTensor *array); /* an output that was added */
int write_image(SnlsContext *ctx, const char *path, const SnlsTensor *image);

typedef struct ShapeText {
    char text[192];
} ShapeText;
ShapeText shape_text(const SnlsTensor *array); /* "[1,5,8,8,3]" */

/* ---- loan.c ---- */

/* An array that a call reads, or writes as well, wherever the context computes. */
typedef struct Loan {
    SnlsTensor *tensor; /* data NULL: not given */
    bool written;
    void *here; /* its memory while it is away; NULL: it is not */
} Loan;

SnlsStatus loans_give(SnlsContext *ctx, Loan *loans, int count); /* before the call; return them even if this fails */
/* After the call, which had this status: it, or the failure to copy back what was written. */
SnlsStatus loans_return(SnlsContext *ctx, Loan *loans, int count, SnlsStatus status);

/* ---- report.c ---- */

double seconds_now(void);
json_t *json_shape(const SnlsTensor *array);
json_t *json_real_or_null(double value); /* JSON has no infinity and no NaN */
json_t *json_text(const char *text);     /* whatever bytes a file name has */
json_t *report_begin(SnlsContext *ctx);  /* command, backend, threads */
int report_print(json_t *report);        /* prints and frees; EXIT_DONE or EXIT_OUTPUT */

/* ---- commands ---- */

typedef struct Command {
    const char *name, *help;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
} Command;

int cmd_search(int argc, char **argv);
int cmd_search_all(int argc, char **argv);
int cmd_refine(int argc, char **argv);
int cmd_compose(int argc, char **argv);
int cmd_weights(int argc, char **argv);
int cmd_gather(int argc, char **argv);
int cmd_gather_add(int argc, char **argv);
int cmd_scatter_add(int argc, char **argv);
int cmd_denoise(int argc, char **argv);
int cmd_flow(int argc, char **argv);
int cmd_metrics(int argc, char **argv);
int cmd_align(int argc, char **argv);
int cmd_noise(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_model(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_man(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_options(int argc, char **argv);

int cmd_version(int argc, char **argv); /* snls --version */

#endif
