// SPDX-License-Identifier: Apache-2.0
// rope: turns pairs of elements of the last axis by an angle. A point of the loop is one pair and stores two
// elements; vectors run along pairs (i, i + d/2), whose halves are each next to each other.
#include "passes/operand.h"
#include "passes/wide.h"

typedef struct Rope {
    NodeId x, cosine, sine;
    int64_t half;
    bool is_interleaved;
    const Domain *out;
} Rope;

static KRef factor(Lower *l, const Domain *d, const Point *at, NodeId id)
{
    const Shape *s = lower_node(l, id)->shape;
    const bool varies = s->rank > 0 && s->dim[s->rank - 1] > 1;
    const int64_t stride = varies ? lower_loc(l, id)->stride[s->rank - 1] : 0;
    const KRef v = operand_load(l, id, operand_broadcast_index(l, id, at->idx, d->rank), at, stride);
    return k_cast(l->k, v, operand_sum_type(lower_node(l, id)->dtype));
}

static void rope_pair(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Rope *r = ctx;
    Kernel *k = l->k;
    const uint32_t last = d->rank - 1;
    const int dtype = lower_node(l, r->x)->dtype, type = operand_sum_type(dtype);
    Point first = at, second = at;
    if (r->is_interleaved)
        first.idx[last] = k_mul(k, at.idx[last], k_index(k, 2));
    second.idx[last] = k_add(k, first.idx[last], k_index(k, r->is_interleaved ? 1 : r->half));
    const KRef x1 = k_cast(k, operand_load(l, r->x, operand_index(l, r->x, first.idx), &at, 1), type);
    const KRef x2 = k_cast(k, operand_load(l, r->x, operand_index(l, r->x, second.idx), &at, 1), type);
    const KRef c = factor(l, d, &at, r->cosine), s = factor(l, d, &at, r->sine);
    const KRef x1c = k_mul(k, x1, c), x2s = k_mul(k, x2, s), x2c = k_mul(k, x2, c), x1s = k_mul(k, x1, s);
    const KRef y1 = k_op(k, KOP_sub, x1c, x2s, 0), y2 = k_add(k, x2c, x1s);
    pull_store_root(l, r->out, first, k_cast(k, y1, dtype));
    pull_store_root(l, r->out, second, k_cast(k, y2, dtype));
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
    if (!has_factor_vectors(l, r->cosine) || !has_factor_vectors(l, r->sine))
        return 1;
    return domain_lanes(l, pairs, last);
}

// --- several pairs a thread -----------------------------------------------------------------------

enum { OF_X, OF_COSINE, OF_SINE, FETCHED };
// What is read and written beyond this goes past the cache, where the factors of all heads stay, in smaller
// groups; others are as large as those of kernels that they may share a launch with.
enum { CACHE_BYTES = 32 << 20, PAST_CACHE_GROUP = 128 };

typedef struct WideRope {
    const Rope *r;
    Domain pairs;
    NodeId node[FETCHED];
    uint32_t param[FETCHED], piece[FETCHED];
    KRef array[FETCHED]; // of x: those of the first elements, then of the second; or in turns
    uint32_t n;          // pairs
    Wide out;
} WideRope;

static bool wide_rope_fits(Lower *l, WideRope *w)
{
    const uint32_t last = w->pairs.rank - 1;
    for (uint32_t i = 0; i < FETCHED; i++) {
        const Shape *s = lower_node(l, w->node[i])->shape;
        domain_add(l, &w->pairs, w->node[i]);
        w->piece[i] = wide_piece(l, &w->pairs, w->node[i], last);
        if (w->piece[i] == 0 || s->rank == 0 || s->dim[s->rank - 1] == 1)
            return false;
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
        one[h].lane =
            r->is_interleaved ? k_mul_add(k, j, 2, k_index(k, h)) : k_add(k, j, k_index(k, h * w->n));
        one[h].slot = one[h].lane;
        one[h].idx[last] = r->is_interleaved
                               ? k_mul_add(k, k_add(k, at.idx[last], j), 2, k_index(k, h))
                               : k_add(k, k_add(k, at.idx[last], j), k_index(k, (int64_t)h * r->half));
    }
    const KRef x1 = k_aload(k, w->array[OF_X], one[0].lane, 1),
               x2 = k_aload(k, w->array[OF_X], one[1].lane, 1);
    const KRef x1c = pair_product(l, w, x1, OF_COSINE, j), x2s = pair_product(l, w, x2, OF_SINE, j),
               x2c = pair_product(l, w, x2, OF_COSINE, j), x1s = pair_product(l, w, x1, OF_SINE, j);
    pull_store_root(l, r->out, one[0], k_cast(k, k_op(k, KOP_sub, x1c, x2s, 0), dtype));
    pull_store_root(l, r->out, one[1], k_cast(k, k_add(k, x2c, x1s), dtype));
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
    const bool is_once = shape_numel(lower_node(l, r->x)->shape) * 2 *
                             (int64_t)dtype_info[lower_node(l, r->x)->dtype].bytes > CACHE_BYTES;
    const uint32_t group = is_once ? PAST_CACHE_GROUP : WIDE_GROUP;
    const uint32_t opened = wide_open(l, &w.pairs, last, w.n, group, &at), n = 2 * w.n;
    Pull p = pull_at(l, &w.pairs, at);
    const uint32_t run = r->is_interleaved ? n : w.n; // neighbours of x
    for (uint32_t i = 0; i < FETCHED; i++) {
        const bool is_x = i == OF_X;
        const WideSpan span = {.n = is_x ? run : w.n, .piece = w.piece[i], .is_once = is_x && is_once};
        w.array[i] = k_array(k, lower_node(l, w.node[i])->dtype, is_x ? n : w.n);
        w.param[i] = lower_param(l, w.node[i], PARAM_READ);
        Pull of_x = p;
        if (is_x && r->is_interleaved)
            of_x.at.idx[last] = k_mul(k, at.idx[last], k_index(k, 2));
        const KRef index = pull_index(&of_x, w.node[i]);
        wide_load(l, w.param[i], index, w.array[i], 0, span);
        if (is_x && !r->is_interleaved)
            wide_load(l, w.param[i], k_add(k, index, k_index(k, r->half)), w.array[i], w.n, span);
    }
    l->collected = k_array(k, lower_node(l, l->root)->dtype, n);
    const KRef j = k_for(k, k_index(k, 0), k_index(k, w.n), 1, KFOR_UNROLL, "j");
    wide_rope_pair(l, &w, at, j);
    k_end(k);
    Pull to = pull_at(l, r->out, at);
    if (r->is_interleaved)
        to.at.idx[last] = k_mul(k, at.idx[last], k_index(k, 2));
    const KRef index = pull_index(&to, l->root), result = l->collected;
    const uint32_t param = lower_param(l, l->root, PARAM_WRITE);
    const WideSpan span = {.n = run, .piece = w.out.root_piece, .is_once = is_once};
    wide_store(l, param, index, result, 0, span);
    if (!r->is_interleaved)
        wide_store(l, param, k_add(k, index, k_index(k, r->half)), result, w.n, span);
    l->collected = 0;
    lower_close(l, opened);
    return true;
}

void lower_rope(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    Domain out = domain_of(lower_node(l, l->root)->shape);
    domain_trim(l, &out, l->root);
    domain_add(l, &out, l->root);
    domain_add_operands(l, &out, l->root);
    Domain pairs = out;
    pairs.extent[pairs.rank - 1] /= 2;
    Rope r = {.x = n->src[0],
              .cosine = n->src[1],
              .sine = n->src[2],
              .half = pairs.extent[pairs.rank - 1],
              .is_interleaved = node_get_int(n, A_rope_interleaved) != 0,
              .out = &out};
    Point at = {.lanes = 1, .count = 1};
    if (lower_wide_rope(l, &r, &pairs))
        return;
    if (l->caps->is_gpu) {
        const uint32_t opened = lower_open(l, &pairs, pairs.rank, &at);
        rope_pair(l, &pairs, at, &r);
        lower_close(l, opened);
        return;
    }
    const uint32_t opened = lower_open(l, &pairs, pairs.rank - 1, &at);
    lower_along(l, &pairs, pairs.rank - 1, rope_lanes(l, &r, &pairs), at, rope_pair, &r);
    lower_close(l, opened);
}
