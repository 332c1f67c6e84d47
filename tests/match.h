/* match.h: the model of search, search_all and refine: every candidate of every query, scored in double. */
#ifndef MATCH_H
#define MATCH_H

#include "case.h"

typedef struct MatchCandidate {
    bool inside;          /* geometry: finite flow, place in the frame, not excluded */
    bool valid;           /* and its distance is a number */
    double y, x;
    ModelScore score;
} MatchCandidate;

typedef struct MatchWindow {
    bool finite;
    int64_t frame;
    double y, x, slope_y, slope_x, origin_y, origin_x;
    int64_t motion_at;    /* element of the flow's (x,y) or the centre's (dt,dy,dx); -1: the window does not move */
    double kink;
} MatchWindow;

typedef struct Match {
    const char *op;
    ModelPatch patch;
    ModelVideo q, k;
    int64_t heads, rows, columns, stride0, windows, side, keep, kept, wt;
    double step;
    bool refine, all, each, slide, nearest;
    int32_t anchor, exclude;
    const SnlsTensor *motion; /* flow or centre; no data: none */
    double *moves;            /* its values */
    int64_t slots;            /* of the flow */
    SnlsTensor *dist, *offset, *index;              /* out */
    SnlsTensor *g_dist, *g_offset, *g_q, *g_k, *g_motion;
    MatchCandidate *candidates; /* [query][window][row][column] */
    MatchWindow *windows_of;    /* [query][window] */
    int64_t *anchors;           /* [query][window]: candidate number in the query, -1 none; a search only */
} Match;

Match *match_of(Call *call); /* worked out at the first call, kept in call->model */
void match_check_forward(Call *call, double eps);
void match_check_backward(Call *call, double eps);

/* b, head, t, i, j of a query number */
typedef struct MatchQuery { int64_t number, b, head, t, i, j; } MatchQuery;
MatchQuery match_query(const Match *m, int64_t number);
int64_t match_queries(const Match *m);
int64_t match_per_query(const Match *m); /* candidates of one query */

#endif
