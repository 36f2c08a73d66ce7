// SPDX-License-Identifier: Apache-2.0
// tree_walk: for every row and tree, a loop that stands still once it has reached a leaf. Only the
// comparisons that the tables use are in the code, where they are constants.
#include "passes/lower/operand.h"

enum { KINDS = 7, NAN_TO_YES = 8 };

typedef struct Walk {
    NodeId x, nodes, thresholds, roots;
    int64_t depth, n_nodes, features;
    bool has_kind[KINDS], has_nan;
} Walk;

// Which kinds of nodes there are; all of them where that is not known.
static void find_kinds(const Lower *l, Walk *w)
{
    const bool is_known = node_is_const(l->g, w->nodes);
    for (uint32_t i = 0; i < KINDS; i++)
        w->has_kind[i] = !is_known;
    w->has_nan = !is_known;
    if (!is_known)
        return;
    const int32_t *node = node_attr(lower_node(l, w->nodes), A_const_data)->u.blob;
    for (int64_t i = 0; i < w->n_nodes; i++) {
        const int32_t kind = node[4 * i + 1];
        if ((kind & 7) < KINDS)
            w->has_kind[kind & 7] = true;
        w->has_nan = w->has_nan || (kind & NAN_TO_YES) != 0;
    }
}

static KRef field(Lower *l, const Walk *w, KRef node, int64_t i)
{
    const KRef idx[2] = {node, k_index(l->k, i)};
    return operand_index(l, w->nodes, idx);
}

static KRef both(Lower *l, KRef a, KRef b)
{
    return k_and(l->k, a, b);
}

// Does a node of this kind send v to `yes`?
static KRef holds(Lower *l, const Walk *w, KRef kind, KRef v, KRef threshold)
{
    static const struct {
        KOp op;
        bool is_swapped;
    } compare[KINDS] = {{KOP_eq, false}, {KOP_le, false}, {KOP_lt, false}, {KOP_le, true},
                        {KOP_lt, true},  {KOP_eq, false}, {KOP_ne, false}};
    Kernel *k = l->k;
    const KRef low = k_and(k, kind, k_integer(k, DTYPE_i32, 7));
    KRef yes = k_integer(k, DTYPE_bool, 0);
    for (uint32_t i = 1; i < KINDS; i++) {
        if (!w->has_kind[i])
            continue;
        const bool is_swapped = compare[i].is_swapped;
        const KRef test = k_op(k, compare[i].op, is_swapped ? threshold : v, is_swapped ? v : threshold, 0);
        const KRef is_kind = k_eq(k, low, k_integer(k, DTYPE_i32, i));
        yes = k_or(k, yes, both(l, is_kind, test));
    }
    if (w->has_nan) {
        const KRef bit = k_and(k, kind, k_integer(k, DTYPE_i32, NAN_TO_YES));
        const KRef tracks = k_ne(k, bit, k_integer(k, DTYPE_i32, 0));
        yes = k_or(k, yes, both(l, tracks, k_ne(k, v, v)));
    }
    return yes;
}

static KRef walk_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Walk *w = ctx;
    Kernel *k = l->k;
    (void)d;
    const int64_t last = w->n_nodes - 1;
    const KRef root = operand_clamped(l, w->roots, operand_index(l, w->roots, &at.idx[1]), 0, last);
    const KRef node = k_var(k, root, "node");
    k_loop(k, w->depth, KFOR_SERIAL, "step");
    const KRef here = k_get(k, node);
    const KRef kind = operand_scalar(l, w->nodes, field(l, w, here, 1), DTYPE_i32);
    k_if(k, k_ne(k, kind, k_integer(k, DTYPE_i32, 0)));
    const KRef feature = operand_clamped(l, w->nodes, field(l, w, here, 0), 0, w->features - 1);
    const KRef idx[2] = {at.idx[0], feature};
    const int type = operand_sum_type(lower_node(l, w->x)->dtype);
    const KRef v = operand_scalar(l, w->x, operand_index(l, w->x, idx), type);
    const KRef threshold = operand_scalar(l, w->thresholds, operand_index(l, w->thresholds, &here), type);
    const KRef yes = holds(l, w, kind, v, threshold);
    const KRef next = k_select(k, yes, field(l, w, here, 2), field(l, w, here, 3));
    k_set(k, node, operand_clamped(l, w->nodes, next, 0, last));
    k_ends(k, 2);
    return operand_scalar(l, w->nodes, field(l, w, k_get(k, node), 2), DTYPE_i32);
}

void lower_tree_walk(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    rlx_assert(n->n_src >= 4);
    Walk w = {.x = n->src[0],
              .nodes = n->src[1],
              .thresholds = n->src[2],
              .roots = n->src[3],
              .depth = node_get_int(n, A_tree_walk_depth),
              .n_nodes = lower_node(l, n->src[1])->shape->dim[0],
              .features = lower_node(l, n->src[0])->shape->dim[1]};
    find_kinds(l, &w);
    lower_map(l, walk_point, &w, MAP_SCALAR);
}
