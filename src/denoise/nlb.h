/* nlb.h: what the files of the denoiser share: its plan, the frames it holds, groups of patches.
 *
 * plan.c     parameters and presets to numbers, and the memory they take
 * stream.c   the public functions: frames in and out, which frame is worked on when
 * frame.c    colours, frames to planes and back
 * motion.c   flow between the frames held
 * match.c    the patches of a group: windows along the motion, scores, the best
 * bayes.c    the filter of one group
 * eigen.c    the eigenvectors it needs
 * nlm.c      method nlm, by the operators
 * step.c     a step for one reference frame: references, groups, sums
 * noise.c, estimate.c   noise made and measured
 * turn.c     where it becomes stronger or weaker within a scene */
#ifndef SNLS_DENOISE_NLB_H
#define SNLS_DENOISE_NLB_H

#include "base/context.h"
#include "simd/group.h"
#include "simd/patch.h"
#include <snls/denoise.h>
#include <stdbool.h>

enum { STEPS = 2, CHANNELS_MAX = 3, SIDE_MAX = 7, DEPTH_MAX = 2, RADIUS_MAX = 8, SPAN_MAX = 2 * RADIUS_MAX + 2, GUESSES = 64, TURN_REACH = 9 };

typedef struct NlbStep {
    int64_t start;         /* columns that subspace iteration begins with; 0: all eigenvectors, by LAPACK */
    int64_t window;        /* side of the search window */
    int64_t patches;       /* of a group, at most */
    int64_t stride;        /* pixels between references */
    int64_t rows, columns; /* of the grid of references */
    int64_t rank;          /* most eigenvectors */
    double theta;          /* eigenvalues up to theta * sigma^2 count as noise */
    int64_t reuse; /* halves of a patch, 0 to 2, under which no reference is needed */
} NlbStep;

typedef struct NlbPlan {
    int64_t height, width, channels;
    int64_t plane;  /* floats of a plane: its pixels, and room for vectors that read past the last */
    int64_t side;   /* of a patch, pixels */
    int64_t depth;  /* of a patch, frames */
    int64_t radius; /* frames searched on either side */
    int64_t slots;  /* frames held */
    int64_t lates;  /* frames that a step works on at a time: those of a search, a partner, one to spare */
    int32_t method, flow, steps;
    bool unequal; /* red, green and blue were told to have unequal noise: frames are kept as they came */
    NlbStep step[STEPS];
} NlbPlan;

/* What a frame says of its noise: standard deviations, of red, green and blue and of the decorrelated channels. */
typedef struct NlbGuess {
    double sigma[CHANNELS_MAX], noise[CHANNELS_MAX];
} NlbGuess;

#define NLB_LARGEST  1e9f   /* value of a pixel: squares of such summed over groups are far from the end of f32 */
#define SAYS_NOTHING (-1.0) /* a guess at a frame that shows no noise of a camera */
#define IS_CONSTANT  (-2.0) /* ... since most of it has one value: no noise can be there */

/* A frame that is held. Planes are (channel, H, W), decorrelated channels. What only the frames of a search need lies in fewer
 * places than there are frames (NlbLate), which the frames take in turn. */
typedef struct NlbFrame {
    float *noisy;
    float *came; /* (H,W,C): as it was pushed, where that is kept */
    float *
        sum[STEPS]; /* planes: of the filtered patches over each pixel, then their mean, the estimate; late in step 2 */
    int32_t *corners[STEPS];   /* late: one plane, how many of them have their corner there */
    int16_t *motion[STEPS][2]; /* late: (H,W,2), (x,y): to the next frame, to the one before */
    uint8_t *used[STEPS];      /* of each reference: a patch about there was in a group */
    bool first;                /* of its scene */
    int64_t origin;            /* the first frame of the scene that it was pushed in: noise that turns parts scenes too, but periods are not counted from there */
    NlbGuess use;              /* the noise that its references are filtered by: known when step 1 comes to it */
    bool quiet;                /* no noise was found: it stays as it is */
} NlbFrame;

typedef struct NlbLate {
    float *sum;
    int32_t *corners[STEPS];
    int16_t *motion[STEPS][2];
    int64_t holder[STEPS]; /* the frame whose motion this is */
} NlbLate;

typedef struct NlbPatch {
    int32_t frame[DEPTH_MAX]; /* from the first frame of the search */
    int32_t at[DEPTH_MAX];    /* pixel of its corner, in the plane */
} NlbPatch;

typedef struct NlbGroup {
    int64_t count;
    NlbPatch *patch;
    float *value; /* (channel, count, side*side*depth): the filtered patches */
} NlbGroup;

/* One of the depth halves of a patch: half h of group g is half h % depth of its patch h / depth. */
typedef struct NlbHalf {
    int32_t group, half;
} NlbHalf;

/* Memory of one thread. */
typedef struct NlbWork {
    float *dist;
    uint64_t *key;
    const float **at;     /* patches */
    float *noisy, *basic; /* groups as matrices: of every channel, of one */
    float *mean;          /* patches: of every channel of the one, then of the other */
    float *matrix, *values, *vectors, *left, *right, *lapack, *small;
    int32_t *lapack_int;
} NlbWork;

/* What method nlm works with. */
typedef struct NlbNlm {
    int64_t rows, columns, stride, k; /* queries; neighbours in each frame */
    float *dist, *offset, *weight;    /* (rows, columns, frames * k), three of each in offset */
    float *flow, *out;                /* (rows, columns, 2); planes */
} NlbNlm;

struct SnlsDenoiser {
    SnlsContext *ctx;
    SnlsDenoiseParams params;
    NlbPlan plan;
    SnlsPatchLoops loops;
    SnlsGroupLoops group_loops;
    NlbFrame *frame; /* plan.slots of them; frame t is at t % slots */
    NlbLate *late;   /* plan.lates of them */
    NlbGroup *group; /* of a batch */
    NlbWork *work;   /* of a thread */
    NlbHalf *half;   /* of the patches of a batch, by frame */
    int64_t batch;
    int64_t *cell;  /* references of a class */
    int32_t *cover; /* of each thread: two rows of pixels */
    NlbNlm nlm;
    float *luma[2];    /* what flow is computed from */
    int16_t *flow_out; /* of the last pulled frame */
    float *flow_pair;  /* (H,W,2) */
    void *block;
    float variance[3];        /* of the decorrelated channels, for the frame in work */
    bool estimates;           /* sigma of a channel is to be estimated */
    NlbGuess told;            /* where it is not: the noise of all frames */
    bool told_quiet;          /* and whether that is none */
    NlbGuess guess[GUESSES];  /* of the last frames: frame t's is at t % GUESSES; frames that were not asked say nothing */
    NlbGuess last;            /* what the last pulled frame was filtered by */
    bool silent;              /* the last frame that was asked said nothing */
    double rough[TURN_REACH]; /* of the last frames, as turn.c measures it: frame t's is at t % TURN_REACH */
    bool finished, has_flow;
    bool copy;              /* sigma is 0: frames are kept as they came */
    int64_t pushed, pulled; /* frames */
    int64_t scene;          /* the first frame of the scene that was pushed last */
    int64_t begin, end;     /* the scene in work: its first frame, and one past its last, or -1 while open */
    int64_t done[STEPS];    /* references of this step are done before this frame */
    int64_t groups[STEPS]; /* filtered so far */
    int64_t opened[STEPS];  /* sums are cleared and motion is known before this frame */
    int64_t ready[STEPS];   /* estimates of this step are made before this frame */
    int64_t depth;          /* frames of a patch in this scene */
};

static inline NlbFrame *snls_nlb_frame(const SnlsDenoiser *d, int64_t t) { return &d->frame[t % d->plan.slots]; }

static inline int64_t snls_nlb_clamp(int64_t x, int64_t low, int64_t high)
{
    x = x > high ? high : x;
    return x < low ? low : x;
}

/* Floats of a row of n in a matrix of a group. */
static inline int64_t snls_nlb_pitch(int64_t n)
{
    return (n + SNLS_GROUP_LANES - 1) / SNLS_GROUP_LANES * SNLS_GROUP_LANES;
}

static inline int snls_nlb_lapack_room(int64_t n) { return (int)(2 * n * n + 64 * n + 64); }
static inline int snls_nlb_lapack_int_room(int64_t n) { return (int)(16 * n + 64); }

static inline int64_t snls_nlb_dim(const NlbPlan *p) { return p->side * p->side * p->depth; }

SnlsStatus snls_nlb_plan(SnlsContext *ctx, const SnlsDenoiseParams *params, int64_t height, int64_t width,
                         int64_t channels, NlbPlan *plan);
SnlsStatus snls_nlb_take(SnlsDenoiser *d); /* all memory but the struct itself */
int64_t snls_nlb_bytes(const NlbPlan *plan, int32_t threads);

/* The noise of the decorrelated channels, from that of red, green and blue. */
void snls_nlb_spread(const NlbPlan *p, NlbGuess *guess);
/* What a frame says of its noise; planes: made of it. */
SnlsStatus snls_nlb_guess(SnlsContext *ctx, const NlbPlan *p, const float *planes, const float *frame, NlbGuess *guess);
/* The frame that is being pushed is so much rougher or smoother than those before it that its noise is worth a guess; and by that guess, it is another noise. */
bool snls_nlb_may_turn(SnlsDenoiser *d, const float *planes);
bool snls_nlb_turned(const SnlsDenoiser *d);
/* Of those guesses that say something; 0: none does. room: for count numbers. */
double snls_nlb_median(const double *guess, int64_t count, int64_t stride, double *room);
void snls_nlb_sort(double *values, int64_t count); /* rising */

/* The scene's frames that references in frame t look at: *first, and how many. */
int64_t snls_nlb_span(const SnlsDenoiser *d, int64_t t, int64_t *first);

void snls_nlb_load(const NlbPlan *p, float *planes, const float *frame);
void snls_nlb_store(const NlbPlan *p, float *frame, const float *planes);
/* Unequal noise is spread over the decorrelated channels, and what was weak becomes stronger: each colour is mixed with what came, by the errors
 * of both, so that none is worse than it was; one without noise is what came. */
void snls_nlb_mix(const NlbPlan *p, float *frame, const float *came, const double sigma[3]);
SnlsStatus snls_nlb_motion(SnlsDenoiser *d, int step, int64_t t); /* between t-1 and t, both ways */

/* Patches like the one of reference (y,x) of frame t; group->count of them, the best first. */
void snls_nlb_match(const SnlsDenoiser *d, int step, int64_t t, int64_t y, int64_t x, NlbWork *work, NlbGroup *group);
void snls_nlb_filter(const SnlsDenoiser *d, int step, int64_t first, NlbWork *work, NlbGroup *group);
/* Eigenvalues of work->matrix (n, n; upper half) above low, the largest s->rank of them, to the front of work->values, rising;
 * returns how many. *vectors: their eigenvectors, as rows. Few are above, mostly: iteration on a subspace that doubles
 * until its least value is not, or it is half of all: those are it then. Its first rows are rows of the matrix: one turn for nothing. -1: nearly
 * all are above, and are not found. */
int64_t snls_nlb_eigen(const SnlsGroupLoops *loops, NlbWork *work, int64_t n, float low, const NlbStep *s,
                       const float **vectors);
void snls_nlb_nlm_sizes(const NlbPlan *plan, NlbNlm *nlm);
int64_t snls_nlb_nlm_scratch(const NlbPlan *plan, int32_t threads); /* bytes that its searches take of the context, at most */
SnlsStatus snls_nlb_nlm(SnlsDenoiser *d, int64_t t); /* frame t by method nlm */
SnlsStatus snls_nlb_step(SnlsDenoiser *d, int step, int64_t t);
void snls_nlb_estimate(SnlsDenoiser *d, int step, int64_t t); /* sums to means */

#endif
