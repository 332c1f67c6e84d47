/* match.c: the patches of a group. A window follows the motion from frame to frame; every patch in it is scored against
 * the reference by squared differences, of noisy luma in step 1, of all channels of the first estimate in step 2.
 *
 * A patch of two frames has its second half in its frame's partner, displaced as the window is: the motion of the
 * window's centre, so that both halves show the same thing wherever it moves. */
#include "denoise/nlb.h"
#include <string.h>

typedef struct Place {
    int64_t y, x; /* of a patch's corner */
} Place;

/* Where a patch of frame s goes in the next frame (way 0) or the one before (way 1). */
static Place follow(const SnlsDenoiser *d, int step, int64_t s, int way, Place at)
{
    const NlbPlan *p = &d->plan;
    const int16_t *motion = snls_nlb_frame(d, s)->motion[step][way];
    if (!motion) return at;
    const int16_t *move = motion + 2 * ((at.y + p->side / 2) * p->width + at.x + p->side / 2);
    return (Place){ snls_nlb_clamp(at.y + move[1], 0, p->height - p->side),
                    snls_nlb_clamp(at.x + move[0], 0, p->width - p->side) };
}

static int64_t corner(int64_t at, int64_t window, int64_t side, int64_t length)
{
    return snls_nlb_clamp(at - window / 2, 0, length - side + 1 - window);
}

/* The windows' corners in frames first .. first + count, one more than is searched: the last one's partner. */
static void trajectory(const SnlsDenoiser *d, int step, int64_t t, Place at, int64_t first, int64_t count,
                       Place *corners)
{
    const NlbPlan *p = &d->plan;
    const int64_t window = p->step[step].window,
                  past = d->end >= 0 && first + count >= d->end ? d->end : first + count + 1;
    Place now = at;
    for (int64_t s = t; s < past; s++) {
        corners[s - first] =
            (Place){ corner(now.y, window, p->side, p->height), corner(now.x, window, p->side, p->width) };
        if (s + 1 < past) now = follow(d, step, s, 0, now);
    }
    now = at;
    for (int64_t s = t; s > first; s--) {
        now = follow(d, step, s, 1, now);
        corners[s - 1 - first] =
            (Place){ corner(now.y, window, p->side, p->height), corner(now.x, window, p->side, p->width) };
    }
}

static const float *source(const SnlsDenoiser *d, int step, int64_t t)
{
    const NlbFrame *f = snls_nlb_frame(d, t);
    return step ? f->sum[0] : f->noisy;
}

static int64_t partner(const SnlsDenoiser *d, int64_t s) { return d->end >= 0 && s + 1 >= d->end ? s - 1 : s + 1; }

typedef struct Search {
    const SnlsDenoiser *d;
    int step;
    int64_t t, first, count;
    Place offset; /* of the reference in its window */
    Place corners[SPAN_MAX + 1];
} Search;

static int64_t place_of(const Search *s, int64_t frame, Place offset)
{
    const Place c = s->corners[frame - s->first];
    return (c.y + offset.y) * s->d->plan.width + c.x + offset.x;
}

/* Scores of the window in frame; dist is (window, pitch). */
static void score(const Search *s, int64_t frame, float *dist, int64_t pitch)
{
    const SnlsDenoiser *d = s->d;
    const NlbPlan *p = &d->plan;
    const int64_t window = p->step[s->step].window, channels = s->step ? p->channels : 1;
    memset(dist, 0, (size_t)(window * pitch) * sizeof *dist);
    for (int64_t part = 0; part < d->depth; part++) {
        const int64_t mine = part ? partner(d, s->t) : s->t, theirs = part ? partner(d, frame) : frame;
        const float *query = source(d, s->step, mine) + place_of(s, mine, s->offset),
                    *key = source(d, s->step, theirs) + place_of(s, theirs, (Place){ 0, 0 });
        for (int64_t c = 0; c < channels; c++)
            (window <= 8 ? d->loops.score_narrow : d->loops.score)(dist, pitch, query + c * p->plane, key + c * p->plane,
                                                                   p->width, p->side, window, window);
    }
}

/* Distance above candidate number: squared distances are not negative, so their bits are in order. */
static int64_t collect(uint64_t *key, const float *dist, int64_t window, int64_t pitch, int64_t number)
{
    for (int64_t r = 0; r < window; r++)
        for (int64_t c = 0; c < window; c++) {
            uint32_t bits;
            memcpy(&bits, &dist[r * pitch + c], sizeof bits);
            *key++ = (uint64_t)bits << 32 | (uint64_t)(number + r * window + c);
        }
    return window * window;
}

static void swap(uint64_t *a, uint64_t *b)
{
    const uint64_t t = *a;
    *a = *b;
    *b = t;
}

/* The n least keys to the front (Hoare's selection; keys are distinct). */
static void select_least(uint64_t *key, int64_t count, int64_t n)
{
    int64_t low = 0, high = count - 1;
    while (low < high && n < count) {
        const int64_t middle = low + (high - low) / 2;
        if (key[middle] < key[low]) swap(&key[middle], &key[low]);
        if (key[high] < key[low]) swap(&key[high], &key[low]);
        if (key[high] < key[middle]) swap(&key[high], &key[middle]);
        const uint64_t pivot = key[middle];
        int64_t i = low, j = high;
        while (i <= j) {
            while (key[i] < pivot) i++;
            while (key[j] > pivot) j--;
            if (i <= j) swap(&key[i++], &key[j--]);
        }
        if (n - 1 <= j) high = j;
        else if (n - 1 >= i) low = i;
        else return;
    }
}

static NlbPatch patch_of(const Search *s, uint64_t key)
{
    const int64_t window = s->d->plan.step[s->step].window, number = (int64_t)(key & 0xffffffff),
                  frame = s->first + number / (window * window), rest = number % (window * window);
    const Place offset = { rest / window, rest % window };
    const int64_t second = s->d->depth > 1 ? partner(s->d, frame) : frame;
    return (NlbPatch){ { (int32_t)(frame - s->first), (int32_t)(second - s->first) },
                       { (int32_t)place_of(s, frame, offset), (int32_t)place_of(s, second, offset) } };
}

void snls_nlb_match(const SnlsDenoiser *d, int step, int64_t t, int64_t y, int64_t x, NlbWork *work, NlbGroup *group)
{
    const NlbStep *p = &d->plan.step[step];
    const int64_t pitch = (p->window + SNLS_PATCH_LANES - 1) / SNLS_PATCH_LANES * SNLS_PATCH_LANES;
    Search s = { .d = d, .step = step, .t = t };
    s.count = snls_nlb_span(d, t, &s.first);
    trajectory(d, step, t, (Place){ y, x }, s.first, s.count, s.corners);
    s.offset = (Place){ y - s.corners[t - s.first].y, x - s.corners[t - s.first].x };
    int64_t found = 0;
    for (int64_t i = 0; i < s.count; i++) {
        score(&s, s.first + i, work->dist, pitch);
        found += collect(work->key + found, work->dist, p->window, pitch, i * p->window * p->window);
    }
    group->count = found < p->patches ? found : p->patches;
    select_least(work->key, found, group->count);
    for (int64_t i = 0; i < group->count; i++) group->patch[i] = patch_of(&s, work->key[i]);
}
