/* tile_pick.h: loops that keep the smallest values of every lane. Part of tile_body.h, which says what it needs; also
 *   SWAP_WHERE(Mask, a, b): a and b exchanged in those lanes; SORT_BY_LEAST: 1 if insert_known is worth a look whether there is NaN
 *   append_lanes(out, base, bits), if there is one: base + l for every bit l into out, where LANES may be written; how many
 *   APPEND_GROUPS(end, first, const Mask[4]), if there is one: the numbers first + i of those with a lane to end, four may be written; the new end. */

static void least(float *out, const float *value, ptrdiff_t n)
{
    EACH_PART {
        Vec low = v_set(__builtin_inff());
        for (ptrdiff_t i = 0; i < n; i++) low = v_min(v_load(value + i * LANES + h), low); /* NaN leaves low as it is */
        v_store(out + h, low);
    }
}

ALWAYS void lower_bar_part(float *bar, const float *top, const float *value, ptrdiff_t n, ptrdiff_t k, float *work)
{
    const ptrdiff_t size = n / (3 * k) > 1 ? n / (3 * k) : 1; /* values in a group: three times as many groups as are wanted */
    const Vec none = v_set(__builtin_inff());
    for (ptrdiff_t j = 0; j < k; j++) v_store(work + j * LANES, v_min(v_load(top + j * LANES), none));
    for (ptrdiff_t i = 0; i < n; i += size) {
        Vec low = none;
        for (ptrdiff_t j = i; j < i + size && j < n; j++) low = v_min(v_load(value + j * LANES), low);
        for (ptrdiff_t j = 0; j < k; j++) { /* into the sorted list */
            const Vec have = v_load(work + j * LANES);
            v_store(work + j * LANES, v_min(low, have));
            low = v_max(low, have);
        }
    }
    v_store(bar, v_load(work + (k - 1) * LANES));
}

static void lower_bar(float *bar, const float *top, const float *value, ptrdiff_t n, ptrdiff_t k, float *work)
{
    EACH_PART lower_bar_part(bar + h, top + h, value + h, n, k, work + h);
}

#ifdef append_lanes
static ptrdiff_t below(uint32_t *out, const float *value, ptrdiff_t n, const float *bar, uint32_t *work)
{
    uint32_t *end = out;
    (void)work;
    for (ptrdiff_t i = 0; i < n; i++) end += append_lanes(end, (uint32_t)i * 16, m_bits(value + i * LANES, bar));
    return end - out;
}
#else
/* Few vectors hold any: they are found first, without a branch that nobody could predict. */
static ptrdiff_t below(uint32_t *out, const float *value, ptrdiff_t n, const float *bar, uint32_t *work)
{
    uint32_t *end = out;
    ptrdiff_t found = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const uint32_t lanes = m_bits(value + i * LANES, bar);
        work[found] = (uint32_t)i << 16 | lanes;
        found += lanes != 0;
    }
    for (ptrdiff_t j = 0; j < found; j++) {
        uint32_t lanes = work[j] & 0xffff;
        do *end++ = (work[j] >> 16) * 16 + (uint32_t)__builtin_ctz(lanes);
        while (lanes &= lanes - 1);
    }
    return end - out;
}
#endif

/* Lists of up to KEEP_MAX places are held in registers, values and numbers. */
#define KEEP_MAX 10
#define ALL_LANES ((1u << LANES) - 1)

static ptrdiff_t keep(ptrdiff_t k) { return k <= 4 || k > KEEP_MAX ? k : (k + 1) / 2 * 2; }

/* x into a list before the first that it is to come before, which with all that follow moves on by one. */
ALWAYS void move_on(Vec *top, Vec *number, const Mask *before, Vec x, Vec id, const int k)
{
UNROLLED(16)
    for (int j = k - 1; j > 0; j--) {
        top[j] = v_pick(before[j], top[j], v_pick(before[j - 1], x, top[j - 1]));
        number[j] = v_pick(before[j], number[j], v_pick(before[j - 1], id, number[j - 1]));
    }
    top[0] = v_pick(before[0], top[0], x);
    number[0] = v_pick(before[0], number[0], id);
}

/* Before the first that is not below or equal, or that is none. */
ALWAYS void insert_vec(Vec *top, Vec *number, Vec x, Vec id, const int k)
{
    Mask before[KEEP_MAX];
    const Mask there = m_number(x);
UNROLLED(16)
    for (int j = 0; j < k; j++) before[j] = m_not_below(there, top[j], x);
    move_on(top, number, before, x, id, k);
}

/* The same where neither x nor the list has NaN: then least and greatest move scores on. */
ALWAYS void insert_known(Vec *top, Vec *number, Vec x, Vec id, const int k)
{
    Mask before[KEEP_MAX];
UNROLLED(16)
    for (int j = 0; j < k; j++) before[j] = m_below(x, top[j]);
UNROLLED(16)
    for (int j = 0; j < k; j++) {
        const Vec have = top[j];
        top[j] = v_min(x, have);
        x = v_max(have, x);
        SWAP_WHERE(before[j], number[j], id);
    }
}

/* No NaN among them, nor infinities of both signs. */
ALWAYS int all_numbers(const float *value, ptrdiff_t n, const float *top, ptrdiff_t k)
{
    float sums[LANES];
    EACH_PART {
        Vec sum = v_zero();
        for (ptrdiff_t j = 0; j < k; j++) sum = v_add(sum, v_load(top + j * LANES + h));
        for (ptrdiff_t i = 0; i < n; i++) sum = v_add(sum, v_load(value + i * LANES + h));
        v_store(sums + h, sum);
    }
    return m_bits(sums, sums) == ALL_LANES;
}

/* n vectors, each with its numbers, or (ids NULL) numbered from `first` on. known: there is no NaN */
ALWAYS void insert_part(float *top, float *number, const float *value, const float *ids, ptrdiff_t n, float first, const int k, int known)
{
    Vec t[KEEP_MAX], d[KEEP_MAX], id = v_set(first);
    const Vec one = v_set(1);
UNROLLED(16)
    for (int j = 0; j < k; j++) t[j] = v_load(top + j * LANES), d[j] = v_load(number + j * LANES);
    if (known) {
        for (ptrdiff_t i = 0; i < n; i++, id = v_add(id, one)) insert_known(t, d, v_load(value + i * LANES), id, k);
    } else
        for (ptrdiff_t i = 0; i < n; i++, id = v_add(id, one)) insert_vec(t, d, v_load(value + i * LANES), ids ? v_load(ids + i * LANES) : id, k);
UNROLLED(16)
    for (int j = 0; j < k; j++) v_store(top + j * LANES, t[j]), v_store(number + j * LANES, d[j]);
}

#ifdef APPEND_GROUPS
/* Few values enter a list, and of three in a row in a few lanes often none. Their least is compared with a bar that no value above it can pass: the last of the list and of
 * the least of groups. Groups with one below are found first, without a branch that nobody could predict. */
enum { GROUP = 3, GROUPS_MAX = 36, FILTERED = 4 * GROUP * GROUP };

ALWAYS void enter_sorted(Vec *sorted, Vec x, const int k)
{
UNROLLED(16)
    for (int j = 0; j < k; j++) {
        const Vec have = sorted[j];
        sorted[j] = v_min(x, have);
        x = v_max(x, have);
    }
}

/* Groups of which some lane is not above the bar. */
ALWAYS int groups_below(uint16_t *group, const float *value, int groups, const Vec *top, const int k)
{
    const Vec none = v_set(__builtin_inff());
    Vec low[GROUPS_MAX], sorted[KEEP_MAX];
    uint16_t *end = group;
UNROLLED(16)
    for (int j = 0; j < k; j++) sorted[j] = v_min(top[j], none);
    for (int g = 0; g < groups; g += GROUP) {
        Vec least_of = none;
        for (int i = g; i < g + GROUP; i++, value += GROUP * LANES) {
            if (i < groups) least_of = v_min(low[i] = v_min(v_min(v_load(value), v_load(value + LANES)), v_load(value + 2 * LANES)), least_of);
        }
        enter_sorted(sorted, least_of, k);
    }
    for (int g = groups; g % 4; g++) low[g] = v_set(__builtin_nanf(""));
    for (int g = 0; g < groups; g += 4) {
        const Mask below_bar[4] = {m_le(low[g], sorted[k - 1]), m_le(low[g + 1], sorted[k - 1]), m_le(low[g + 2], sorted[k - 1]), m_le(low[g + 3], sorted[k - 1])};
        end = APPEND_GROUPS(end, (uint32_t)g, below_bar);
    }
    return (int)(end - group);
}

ALWAYS void insert_few_part(float *top, float *number, const float *value, ptrdiff_t n, float first, const int k)
{
    uint16_t group[GROUPS_MAX + 4];
    Vec t[KEEP_MAX], d[KEEP_MAX];
    const Vec one = v_set(1);
UNROLLED(16)
    for (int j = 0; j < k; j++) t[j] = v_load(top + j * LANES), d[j] = v_load(number + j * LANES);
    for (; n >= GROUP; ) {
        const int groups = (int)(n / GROUP < GROUPS_MAX ? n / GROUP : GROUPS_MAX), found = groups_below(group, value, groups, t, k);
        for (int i = 0; i < found; i++) {
            const float *at = value + group[i] * GROUP * LANES;
            Vec id = v_set(first + (float)(group[i] * GROUP));
UNROLLED(4)
            for (int j = 0; j < GROUP; j++, id = v_add(id, one)) insert_vec(t, d, v_load(at + j * LANES), id, k);
        }
        n -= groups * GROUP, value += groups * GROUP * LANES, first += (float)(groups * GROUP);
    }
    for (; n > 0; n--, value += LANES, first += 1) insert_vec(t, d, v_load(value), v_set(first), k);
UNROLLED(16)
    for (int j = 0; j < k; j++) v_store(top + j * LANES, t[j]), v_store(number + j * LANES, d[j]);
}
#endif

ALWAYS void insert_all(float *top, float *number, const float *value, const float *ids, ptrdiff_t n, float first, const int k)
{
#ifdef APPEND_GROUPS
    if (!ids && n >= FILTERED) {
        EACH_PART insert_few_part(top + h, number + h, value + h, n, first, k);
        return;
    }
#endif
    const int known = SORT_BY_LEAST && !ids && all_numbers(value, n, top, k);
    EACH_PART insert_part(top + h, number + h, value + h, ids ? ids + h : NULL, n, first, k, known);
}

/* The same for lists that are too long for registers. */
ALWAYS void insert_long_part(float *top, float *number, const float *value, const float *ids, ptrdiff_t n, ptrdiff_t k)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const Vec x = v_load(value + i * LANES), id = v_load(ids + i * LANES);
        const Mask there = m_number(x);
        Vec after = v_load(top + (k - 1) * LANES), after_id = v_load(number + (k - 1) * LANES);
        for (ptrdiff_t j = k - 1; j >= 0; j--) {
            const Mask here = m_not_below(there, after, x);
            const Vec last = j ? v_load(top + (j - 1) * LANES) : x, last_id = j ? v_load(number + (j - 1) * LANES) : id;
            const Mask before = m_not_below(there, last, x);
            v_store(top + j * LANES, v_pick(here, after, v_pick(before, x, last)));
            v_store(number + j * LANES, v_pick(here, after_id, v_pick(before, id, last_id)));
            after = last;
            after_id = last_id;
        }
    }
}

static void insert_long(float *top, float *number, const float *value, const float *ids, ptrdiff_t n, ptrdiff_t k)
{
    EACH_PART insert_long_part(top + h, number + h, value + h, ids + h, n, k);
}

static void insert_lists(float *top, float *number, ptrdiff_t k, const float *value, const float *ids, ptrdiff_t n)
{
    switch (keep(k)) {
    case 1: insert_all(top, number, value, ids, n, 0, 1); break;
    case 2: insert_all(top, number, value, ids, n, 0, 2); break;
    case 3: insert_all(top, number, value, ids, n, 0, 3); break;
    case 4: insert_all(top, number, value, ids, n, 0, 4); break;
    case 6: insert_all(top, number, value, ids, n, 0, 6); break;
    case 8: insert_all(top, number, value, ids, n, 0, 8); break;
    case 10: insert_all(top, number, value, ids, n, 0, 10); break;
    default: insert_long(top, number, value, ids, n, k);
    }
}

static void clear_lists(float *value, float *ids, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n * LANES; i += WIDTH) v_store(value + i, v_set(__builtin_nanf(""))), v_store(ids + i, v_set(SNLS_TILE_NONE));
}

/* Candidates wait in lists of their lanes, in order, and are inserted all lanes at a time. Their scores: score[i], or (NULL) value[candidate*LANES + lane]. */
ALWAYS void enter_from(float *top, float *number, ptrdiff_t k, const uint32_t *candidate, ptrdiff_t n, const float *score, const float *value, float first, float *work)
{
    float *wait = work + (keep(k) + 1) * LANES, *ids = wait + SNLS_TILE_LIST * LANES;
    int count[LANES] = {0}, rows = 0;
    clear_lists(wait, ids, SNLS_TILE_LIST);
    for (ptrdiff_t i = 0; i < n; i++) {
        const int l = (int)(candidate[i] % 16), c = (int)(candidate[i] / 16);
        if (count[l] == SNLS_TILE_LIST) {
            insert_lists(top, number, k, wait, ids, SNLS_TILE_LIST);
            clear_lists(wait, ids, SNLS_TILE_LIST);
            for (int j = 0; j < LANES; j++) count[j] = 0;
        }
        const int at = count[l]++;
        wait[at * LANES + l] = score ? score[i] : value[c * LANES + l];
        ids[at * LANES + l] = first + (float)c;
    }
    for (int l = 0; l < LANES; l++) rows = count[l] > rows ? count[l] : rows;
    insert_lists(top, number, k, wait, ids, rows);
}

static void enter(float *top, float *number, ptrdiff_t k, const uint32_t *candidate, const float *score, ptrdiff_t n, float first, float *work)
{
    enter_from(top, number, k, candidate, n, score, NULL, first, work);
}

/* Values not above a bar. */
static void insert_many(float *top, float *number, ptrdiff_t k, const float *value, ptrdiff_t n, float first, int active, float *work, uint32_t *under)
{
    float bar[LANES];
    lower_bar(bar, top, value, n, k, work);
    for (int l = active; l < LANES; l++) bar[l] = __builtin_nanf("");
    const ptrdiff_t found = below(under, value, n, bar, under + n * LANES);
    enter_from(top, number, k, under, found, NULL, value, first, work);
}

static void insert(float *top, float *number, ptrdiff_t k, const float *value, ptrdiff_t n, float first, int active, float *work, uint32_t *under)
{
    switch (k) {
    case 1: insert_all(top, number, value, NULL, n, first, 1); break;
    case 2: insert_all(top, number, value, NULL, n, first, 2); break;
    case 3: insert_all(top, number, value, NULL, n, first, 3); break;
    case 4: insert_all(top, number, value, NULL, n, first, 4); break;
    default: insert_many(top, number, k, value, n, first, active, work, under);
    }
}
