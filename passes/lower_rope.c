// SPDX-License-Identifier: Apache-2.0
// rope: turns pairs of elements of the last axis by an angle. A point of the loop is one pair and stores two
// elements; vectors run along pairs (i, i + d/2), whose halves are each next to each other.
#include "passes/operand.h"

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
