// SPDX-License-Identifier: Apache-2.0
// rope: turns pairs of elements of the last axis by an angle. A point of the loop is one pair and stores two
// elements; vectors run along pairs (i, i + distance), whose halves are each next to each other. Angles that
// positions and theta give are computed here: on CPUs once for all heads of a place, into a local array.
// Elements that do not turn are copied by the same kernel.
#include "passes/lower/operand.h"
#include "passes/lower/wide.h"

#include <math.h>

typedef struct Rope {
    NodeId x, cosine, sine, positions, factors;
    int64_t half, distance, rest; // pairs; between the elements of one; elements that stay
    bool is_interleaved, has_theta;
    int type;         // of angles and products
    uint32_t inverse; // parameter of theta's frequencies
    KRef turned[2];   // arrays of cos and sin of all pairs of a place; 0: there are none
    const Domain *out;
} Rope;

// --- cos and sin ----------------------------------------------------------------------------------

static KRef position_index(Lower *l, const Rope *r, const Point *at)
{
    return operand_broadcast_index(l, r->positions, at->idx, r->out->rank - 1);
}

// Pair `pair` of the row of a table that the position names.
static KRef table_index(Lower *l, const Rope *r, NodeId id, const Point *at)
{
    const int64_t rows = lower_node(l, id)->shape->dim[0];
    const KRef row = operand_clamped(l, r->positions, position_index(l, r, at), 0, rows - 1);
    return operand_index(l, id, (const KRef[]){row, at->idx[r->out->rank - 1]});
}

static KRef factor(Lower *l, const Rope *r, const Point *at, NodeId id)
{
    const Shape *s = lower_node(l, id)->shape;
    const bool varies = s->rank > 0 && s->dim[s->rank - 1] > 1;
    const int64_t stride = varies ? lower_loc(l, id)->stride[s->rank - 1] : 0;
    const KRef index = r->positions != 0 ? table_index(l, r, id, at)
                                         : operand_broadcast_index(l, id, at->idx, r->out->rank);
    return k_cast(l->k, operand_load(l, id, index, at, stride), r->type);
}

static void angle_turn(Lower *l, const Rope *r, KRef position, KRef pair, KRef *turn)
{
    Kernel *k = l->k;
    KRef angle = k_mul(k, position, k_load(k, r->inverse, pair, 1, 1));
    if (r->factors != 0)
        angle = k_div(k, angle, operand_scalar(l, r->factors, operand_index(l, r->factors, &pair), r->type));
    turn[0] = k_cos(k, angle);
    turn[1] = k_sin(k, angle);
}

static KRef position_at(Lower *l, const Rope *r, const Point *at)
{
    return operand_scalar(l, r->positions, position_index(l, r, at), r->type);
}

static void turn_at(Lower *l, const Rope *r, const Point *at, KRef *turn)
{
    const KRef pair = at->idx[r->out->rank - 1];
    if (r->turned[0] != 0) {
        for (uint32_t i = 0; i < 2; i++)
            turn[i] = k_aload(l->k, r->turned[i], pair, at->lanes);
    } else if (r->has_theta) {
        angle_turn(l, r, position_at(l, r, at), pair, turn);
    } else {
        turn[0] = factor(l, r, at, r->cosine);
        turn[1] = factor(l, r, at, r->sine);
    }
}

// --- pairs ----------------------------------------------------------------------------------------

static void rope_pair(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Rope *r = ctx;
    Kernel *k = l->k;
    const uint32_t last = d->rank - 1;
    const int dtype = lower_node(l, r->x)->dtype;
    Point first = at, second = at;
    if (r->is_interleaved)
        first.idx[last] = k_expr(k, "$ * 2", at.idx[last]);
    second.idx[last] = k_expr(k, "$ + #", first.idx[last], r->is_interleaved ? 1 : r->distance);
    const KRef x1 = k_cast(k, operand_load(l, r->x, operand_index(l, r->x, first.idx), &at, 1), r->type);
    const KRef x2 = k_cast(k, operand_load(l, r->x, operand_index(l, r->x, second.idx), &at, 1), r->type);
    KRef turn[2];
    turn_at(l, r, &at, turn);
    const KRef c = turn[0], s = turn[1];
    const KRef x1c = k_mul(k, x1, c), x2s = k_mul(k, x2, s), x2c = k_mul(k, x2, c), x1s = k_mul(k, x1, s);
    const KRef y1 = k_sub(k, x1c, x2s), y2 = k_add(k, x2c, x1s);
    pull_store_root(l, r->out, first, k_cast(k, y1, dtype));
    pull_store_root(l, r->out, second, k_cast(k, y2, dtype));
}

// Elements that stay: of the last axis from `first` on.
typedef struct RopeRest {
    const Rope *r;
    int64_t first;
} RopeRest;

static void rope_copy(Lower *l, const Domain *d, Point at, void *ctx)
{
    const RopeRest *rest = ctx;
    const Rope *r = rest->r;
    at.idx[d->rank - 1] = k_expr(l->k, "$ + #", at.idx[d->rank - 1], rest->first);
    pull_store_root(l, r->out, at, operand_load(l, r->x, operand_index(l, r->x, at.idx), &at, 1));
}

// The factors' last axis has one element a pair: an axis of size 1 is the same for all.
static bool has_factor_vectors(const Lower *l, NodeId id)
{
    const uint32_t rank = lower_node(l, id)->shape->rank;
    return rank == 0 || operand_has_vectors(l, id, rank - 1);
}

static uint8_t rope_lanes(const Lower *l, const Rope *r, const Domain *pairs)
{
    const uint32_t last = pairs->rank - 1;
    if (l->caps->is_gpu || r->is_interleaved || !operand_has_vectors(l, r->x, last))
        return 1;
    if (!r->has_theta && (!has_factor_vectors(l, r->cosine) || !has_factor_vectors(l, r->sine)))
        return 1;
    return domain_lanes(l, pairs, last);
}

// --- several pairs a thread -----------------------------------------------------------------------

enum { OF_X, OF_COSINE, OF_SINE, FETCHED };
// What is more than the cache holds goes past it, where the factors of all heads stay, in smaller
// groups; others are as large as those of kernels that they may share a launch with.
enum { PAST_CACHE_GROUP = 128 };

typedef struct WideRope {
    const Rope *r;
    Domain pairs;
    NodeId node[FETCHED];
    uint32_t param[FETCHED], piece[FETCHED];
    KRef array[FETCHED]; // of x: those of the first elements, then of the second; or in turns
    uint32_t n;          // pairs
    Wide out;
} WideRope;

// Rows of a table are found by position.
static uint32_t piece_of_rows(const Lower *l, const Rope *r, NodeId id, uint32_t piece)
{
    while (piece > 1 && r->positions != 0 && lower_loc(l, id)->stride[0] % piece != 0)
        piece /= 2;
    return piece;
}

static bool wide_rope_fits(Lower *l, WideRope *w)
{
    const uint32_t last = w->pairs.rank - 1;
    if (w->r->rest != 0 || last == 0)
        return false;
    for (uint32_t i = 0; i < (w->r->has_theta ? OF_COSINE : FETCHED); i++) {
        const Shape *s = lower_node(l, w->node[i])->shape;
        domain_add(l, &w->pairs, w->node[i]);
        w->piece[i] = wide_piece(l, &w->pairs, w->node[i], last);
        if (w->piece[i] == 0 || s->rank == 0 || s->dim[s->rank - 1] == 1)
            return false;
        w->piece[i] = i == OF_X ? w->piece[i] : piece_of_rows(l, w->r, w->node[i], w->piece[i]);
    }
    w->n = w->r->is_interleaved ? w->piece[OF_X] / 2 : w->piece[OF_X];
    while (w->n > 1 && w->r->half % w->n != 0)
        w->n /= 2;
    if (w->n < 2 || !wide_new(l, w->r->out, last, &w->out) || w->out.n_values != 0 || !w->out.is_root_wide)
        return false;
    return w->pairs.live[last].size == 0;
}

static KRef pair_product(Lower *l, const WideRope *w, KRef x, uint32_t factor, KRef j)
{
    const int type = operand_sum_type(k_inst(l->k, x)->dtype);
    return k_mul(l->k, k_cast(l->k, x, type), k_cast(l->k, k_aload(l->k, w->array[factor], j, 1), type));
}

// Pair j of the vector that begins at a point.
static void wide_rope_pair(Lower *l, const WideRope *w, Point at, KRef j)
{
    Kernel *k = l->k;
    const Rope *r = w->r;
    const uint32_t last = w->pairs.rank - 1;
    const int dtype = lower_node(l, r->x)->dtype;
    Point one[2] = {at, at};
    for (uint32_t h = 0; h < 2; h++) {
        one[h].lane = r->is_interleaved ? k_expr(k, "$ * 2 + #", j, h) : k_expr(k, "$ + #", j, h * w->n);
        one[h].slot = one[h].lane;
        one[h].idx[last] = r->is_interleaved ? k_expr(k, "($ + $) * 2 + #", at.idx[last], j, h)
                                             : k_expr(k, "$ + $ + #", at.idx[last], j, (int64_t)h * r->half);
    }
    const KRef x1 = k_aload(k, w->array[OF_X], one[0].lane, 1),
               x2 = k_aload(k, w->array[OF_X], one[1].lane, 1);
    const KRef x1c = pair_product(l, w, x1, OF_COSINE, j), x2s = pair_product(l, w, x2, OF_SINE, j),
               x2c = pair_product(l, w, x2, OF_COSINE, j), x1s = pair_product(l, w, x1, OF_SINE, j);
    pull_store_root(l, r->out, one[0], k_cast(k, k_sub(k, x1c, x2s), dtype));
    pull_store_root(l, r->out, one[1], k_cast(k, k_add(k, x2c, x1s), dtype));
}

// cos and sin of the pairs from `at` on.
static void wide_angles(Lower *l, WideRope *w, const Point *at)
{
    Kernel *k = l->k;
    const Rope *r = w->r;
    const KRef position = position_at(l, r, at);
    KRef turn[2];
    for (uint32_t i = OF_COSINE; i < FETCHED; i++)
        w->array[i] = k_array(k, r->type, w->n);
    const KRef j = k_loop(k, w->n, KFOR_UNROLL, "j");
    angle_turn(l, r, position, k_add(k, at->idx[w->pairs.rank - 1], j), turn);
    for (uint32_t i = 0; i < 2; i++)
        k_astore(k, w->array[OF_COSINE + i], j, turn[i]);
    k_end(k);
}

static void wide_fetch_x(Lower *l, WideRope *w, const Point *at, WideSpan span)
{
    Kernel *k = l->k;
    const Rope *r = w->r;
    Pull p = pull_at(l, &w->pairs, *at);
    if (r->is_interleaved)
        p.at.idx[w->pairs.rank - 1] = k_expr(k, "$ * 2", at->idx[w->pairs.rank - 1]);
    const uint32_t param = lower_param(l, r->x, PARAM_READ);
    const KRef index = pull_index(&p, r->x);
    w->array[OF_X] = k_array(k, lower_node(l, r->x)->dtype, 2 * w->n);
    span.piece = w->piece[OF_X];
    wide_load(l, param, index, w->array[OF_X], 0, span);
    if (!r->is_interleaved)
        wide_load(l, param, k_expr(k, "$ + #", index, r->distance), w->array[OF_X], w->n, span);
}

static void wide_fetch_tables(Lower *l, WideRope *w, const Point *at)
{
    Pull p = pull_at(l, &w->pairs, *at);
    for (uint32_t i = OF_COSINE; i < FETCHED; i++) {
        const WideSpan span = {.n = w->n, .piece = w->piece[i]};
        const KRef index =
            w->r->positions != 0 ? table_index(l, w->r, w->node[i], at) : pull_index(&p, w->node[i]);
        w->array[i] = k_array(l->k, lower_node(l, w->node[i])->dtype, w->n);
        wide_load(l, lower_param(l, w->node[i], PARAM_READ), index, w->array[i], 0, span);
    }
}

static bool lower_wide_rope(Lower *l, const Rope *r, const Domain *pairs)
{
    Kernel *k = l->k;
    const uint32_t last = pairs->rank - 1;
    WideRope w = {.r = r, .pairs = *pairs, .node = {r->x, r->cosine, r->sine}};
    w.pairs.access.len = w.pairs.access.cap = 0;
    if (!l->caps->is_gpu || !wide_rope_fits(l, &w))
        return false;
    Point at = {.lanes = 1, .count = 1};
    const bool is_once =
        shape_numel(lower_node(l, r->x)->shape) * 2 * (int64_t)dtype_info[lower_node(l, r->x)->dtype].bytes >
        (int64_t)gpu_about_l2(l->caps->gpu);
    const uint32_t group = is_once ? PAST_CACHE_GROUP : WIDE_GROUP;
    const uint32_t opened = wide_open(l, &w.pairs, last, w.n, group, &at), n = 2 * w.n;
    WideSpan span = {.n = r->is_interleaved ? n : w.n, .is_once = is_once}; // neighbours of x
    wide_fetch_x(l, &w, &at, span);
    if (r->has_theta)
        wide_angles(l, &w, &at);
    else
        wide_fetch_tables(l, &w, &at);
    l->wide.collected = k_array(k, lower_node(l, l->root)->dtype, n);
    const KRef j = k_loop(k, w.n, KFOR_UNROLL, "j");
    wide_rope_pair(l, &w, at, j);
    k_end(k);
    Pull to = pull_at(l, r->out, at);
    if (r->is_interleaved)
        to.at.idx[last] = k_expr(k, "$ * 2", at.idx[last]);
    const KRef index = pull_index(&to, l->root), result = l->wide.collected;
    const uint32_t param = lower_param(l, l->root, PARAM_WRITE);
    span.piece = w.out.root_piece;
    wide_store(l, param, index, result, 0, span);
    if (!r->is_interleaved)
        wide_store(l, param, k_expr(k, "$ + #", index, r->distance), result, w.n, span);
    l->wide.collected = 0;
    lower_close(l, opened);
    return true;
}

// --- one pair a point -----------------------------------------------------------------------------

// Pairs, then the elements that stay: before the second half of distant pairs, and at the end.
static void lower_on_gpu(Lower *l, Rope *r, const Domain *pairs)
{
    Kernel *k = l->k;
    Domain items = *pairs;
    Point at = {.lanes = 1, .count = 1};
    const uint32_t last = items.rank - 1;
    items.extent[last] += r->rest;
    const uint32_t opened = lower_open(l, &items, items.rank, &at);
    if (r->rest == 0) {
        rope_pair(l, &items, at, r);
        lower_close(l, opened);
        return;
    }
    const KRef item = at.idx[last];
    k_if(k, k_expr(k, "$ < #", item, r->half));
    rope_pair(l, &items, at, r);
    k_else(k);
    const KRef is_between = k_expr(k, "$ < #", item, r->distance);
    at.idx[last] = k_select(k, is_between, item, k_expr(k, "$ + #", item, r->half));
    rope_copy(l, &items, at, &(RopeRest){r, 0});
    k_end(k);
    lower_close(l, opened);
}

// Does the position vary along an axis?
static bool has_places(const Lower *l, const Rope *r, uint32_t axis)
{
    const Shape *s = lower_node(l, r->positions)->shape;
    const uint32_t lead = r->out->rank - 1 - s->rank;
    return axis >= lead && s->dim[axis - lead] > 1;
}

// Opens the axes along which positions vary, and computes cos and sin of all pairs of such a place.
static uint32_t open_places(Lower *l, Rope *r, const Domain *pairs, uint8_t lanes, Point *at)
{
    Kernel *k = l->k;
    uint32_t opened = 0;
    KRef turn[2];
    for (uint32_t i = 0; i + 1 < pairs->rank; i++)
        if (has_places(l, r, i))
            opened += lower_open_axis(l, pairs, i, KFOR_PARALLEL, at);
        else
            at->idx[i] = k_index(k, 0);
    for (uint32_t i = 0; i < 2; i++)
        r->turned[i] = k_array(k, r->type, r->half + lanes);
    const KRef position = position_at(l, r, at);
    const KRef j = k_loop(k, r->half, KFOR_SERIAL, "j");
    angle_turn(l, r, position, j, turn);
    for (uint32_t i = 0; i < 2; i++)
        k_astore(k, r->turned[i], j, turn[i]);
    k_end(k);
    for (uint32_t i = 0; i + 1 < pairs->rank; i++)
        if (!has_places(l, r, i))
            opened += lower_open_axis(l, pairs, i, KFOR_SERIAL, at);
    return opened;
}

static void copy_rest(Lower *l, const Rope *r, const Domain *pairs, uint8_t lanes, Point at)
{
    const int64_t size = 2 * r->half + r->rest;
    const int64_t from[2] = {r->half, r->distance + r->half}, to[2] = {r->distance, size};
    for (uint32_t i = 0; i < 2; i++) {
        Domain d = *pairs;
        RopeRest rest = {r, from[i]};
        d.extent[d.rank - 1] = to[i] - from[i];
        if (to[i] > from[i])
            lower_along(l, &d, d.rank - 1, lanes, at, rope_copy, &rest);
    }
}

static void lower_on_cpu(Lower *l, Rope *r, const Domain *pairs)
{
    Point at = {.lanes = 1, .count = 1};
    const uint8_t lanes = rope_lanes(l, r, pairs);
    const uint32_t last = pairs->rank - 1;
    const uint32_t opened =
        r->has_theta ? open_places(l, r, pairs, lanes, &at) : lower_open(l, pairs, last, &at);
    lower_along(l, pairs, last, lanes, at, rope_pair, r);
    copy_rest(l, r, pairs, lanes, at);
    lower_close(l, opened);
}

// theta^(-2i / denominator), rounded to the type of the angles.
static uint32_t inverse_of(Lower *l, const Rope *r, double theta, double denominator)
{
    const bool is_double = r->type == DTYPE_f64;
    const uint64_t bytes = (uint64_t)r->half * dtype_info[r->type].bytes;
    double *wide = ARENA_ARRAY(l->pass->perm, double, r->half);
    float *single = ARENA_ARRAY(l->pass->perm, float, r->half);
    for (int64_t i = 0; i < r->half; i++) {
        wide[i] = pow(theta, -2 * (double)i / denominator);
        single[i] = (float)wide[i];
    }
    return lower_param_data(l, "frequencies", (DType)r->type, is_double ? (void *)wide : single, bytes);
}

static NodeId operand(const Node *n, uint32_t i)
{
    return i < n->n_src ? n->src[i] : 0;
}

static Rope rope_of(Lower *l, const Node *n, const Domain *out)
{
    const int64_t size = out->extent[out->rank - 1], dims = node_get_int(n, A_rope_dims);
    const int64_t turned = dims != 0 ? dims : size, distance = node_get_int(n, A_rope_distance);
    const int64_t denominator = node_get_int(n, A_rope_denominator);
    const double theta = node_get_float(n, A_rope_theta);
    Rope r = {.x = n->src[0],
              .cosine = operand(n, 1),
              .sine = operand(n, 2),
              .positions = operand(n, 3),
              .factors = operand(n, 4),
              .half = turned / 2,
              .distance = distance != 0 ? distance : turned / 2,
              .rest = size - turned,
              .is_interleaved = node_get_int(n, A_rope_interleaved) != 0,
              .has_theta = theta > 0,
              .type = operand_sum_type(n->dtype),
              .out = out};
    if (r.has_theta)
        r.inverse = inverse_of(l, &r, theta, (double)(denominator != 0 ? denominator : turned));
    return r;
}

void lower_rope(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    Domain out = domain_of_root(l);
    Rope r = rope_of(l, n, &out);
    rlx_assert(out.rank >= 1 && r.half >= 0);
    Domain pairs = out;
    pairs.extent[pairs.rank - 1] = r.half;
    if (lower_wide_rope(l, &r, &pairs))
        return;
    if (l->caps->is_gpu)
        lower_on_gpu(l, &r, &pairs);
    else
        lower_on_cpu(l, &r, &pairs);
}
