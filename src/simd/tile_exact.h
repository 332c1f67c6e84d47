/* tile_exact.h: l2 of single candidates from their pixels. Part of tile_body.h, which says what it needs. */

/* (1-f)*a + f*b, for vectors and for what is left of them */
ALWAYS Vec weigh(Vec a, Vec b, Vec f) { return v_fma(f, v_sub(b, a), a); }
ALWAYS float weigh_one(float a, float b, float f) { return a + f * (b - a); }

/* A query against a place between four pixels, `right` and `down` floats apart. */
static float exact_one(const float *query, const float *at, ptrdiff_t right, ptrdiff_t down, float fy, float fx, ptrdiff_t n)
{
    const Vec y = v_set(fy), x = v_set(fx);
    const ptrdiff_t whole = n / WIDTH * WIDTH;
    Vec sum = v_zero();
    float lane[WIDTH], rest = 0;
    for (ptrdiff_t f = 0; f < whole; f += WIDTH) {
        const float *p = at + f;
        const Vec k = weigh(weigh(v_load(p), v_load(p + right), x), weigh(v_load(p + down), v_load(p + down + right), x), y), d = v_sub(v_load(query + f), k);
        sum = v_fma(d, d, sum);
    }
    for (ptrdiff_t f = whole; f < n; f++) {
        const float *p = at + f, d = query[f] - weigh_one(weigh_one(p[0], p[right], fx), weigh_one(p[down], p[down + right], fx), fy);
        rest += d * d;
    }
    v_store(lane, sum);
    for (int l = 0; l < WIDTH; l++) rest += lane[l];
    return rest;
}

/* A place along an axis: the pixel before it, and how far it is from there. A tap of weight 0 does not count, even if it is no number or outside the frame. */
typedef struct Spot { ptrdiff_t pixel; float fraction; } Spot;

ALWAYS Spot spot_of(const double *centre, const int32_t *origin, ptrdiff_t at, uint32_t cell, double step)
{
    const double place = centre[at] + step * (double)((int32_t)cell - origin[at]);
    const ptrdiff_t pixel = (ptrdiff_t)place;
    return (Spot){pixel, (float)(place - (double)pixel)};
}

static void exact(float *out, const uint32_t *candidate, ptrdiff_t n, const SnlsTileExact *in)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const uint32_t l = candidate[i] % 16, cell = in->cell[candidate[i] / 16], slot = cell >> 20;
        const ptrdiff_t at = slot * in->apart + l;
        const Spot y = spot_of(in->centre_y, in->origin_y, at, cell >> 10 & 1023, in->step), x = spot_of(in->centre_x, in->origin_x, at, cell & 1023, in->step);
        out[i] = exact_one(in->query + l * in->query_step, in->frame[slot] + y.pixel * in->down + x.pixel * in->right, x.fraction != 0 ? in->right : 0,
                           y.fraction != 0 ? in->down : 0, y.fraction, x.fraction, in->features);
    }
}

/* Floats f .. f+WIDTH-1 of a row of keys, mixed along x. */
ALWAYS Vec patch_row(const float *key, ptrdiff_t right, Vec fx) { return weigh(v_load(key), v_load(key + right), fx); }

static float exact_patch(const SnlsTilePatch *p)
{
    const ptrdiff_t right = p->fraction_x != 0 ? p->right : 0, next = p->fraction_y != 0 ? p->down : 0, whole = p->n / WIDTH * WIDTH;
    const Vec fy = v_set(p->fraction_y), fx = v_set(p->fraction_x);
    Vec sum = v_zero();
    float lane[WIDTH], rest = 0;
    for (ptrdiff_t r = 0; r < p->side; r++) {
        const float *query = p->query + r * p->query_down, *key = p->key + r * p->down;
        for (ptrdiff_t f = 0; f < whole; f += WIDTH) {
            const Vec d = v_sub(v_load(query + f), weigh(patch_row(key + f, right, fx), patch_row(key + f + next, right, fx), fy));
            sum = v_fma(d, d, sum);
        }
        for (ptrdiff_t f = whole; f < p->n; f++) {
            const float above = weigh_one(key[f], key[f + right], p->fraction_x), below = weigh_one(key[f + next], key[f + next + right], p->fraction_x);
            const float d = query[f] - weigh_one(above, below, p->fraction_y);
            rest += d * d;
        }
    }
    v_store(lane, sum);
    for (int l = 0; l < WIDTH; l++) rest += lane[l];
    return rest;
}
