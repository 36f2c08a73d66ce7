// SPDX-License-Identifier: Apache-2.0
// The graph with fewer channels: each node whose result or operands have fewer is made anew beside the old
// one. Values that keep all their channels take the place of the old ones, so that what nobody could cut
// (inputs, outputs, ops that look at all channels) sees no change.
#include "ir/shape/forms.h"
#include "passes/graph/prune.h"

uint32_t prune_kept(const Prune *p, NodeId id, int64_t *list)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < p->of[id].n; j++)
        if (prune_keeps(p, id, j))
            list[n++] = j;
    return n;
}

bool prune_is_cut(const Prune *p, NodeId id)
{
    for (uint32_t j = 0; p->of[id].axis != AXIS_NONE && j < p->of[id].n; j++)
        if (!prune_keeps(p, id, j))
            return true;
    return false;
}

// The elements of a constant at these places of an axis.
static NodeId const_part(const Prune *p, NodeId id, uint32_t axis, const int64_t *at, uint32_t n)
{
    const Tensor from = tensor_of_const(p->g, id);
    Shape s = *graph_node(p->g, id)->shape;
    int64_t inner = 1;
    for (uint32_t i = axis + 1; i < s.rank; i++)
        inner *= s.dim[i];
    s.dim[axis] = n;
    Tensor to = tensor_new(p->g->arena, from.dtype, s.rank, s.dim);
    for (int64_t i = 0; i < to.numel; i++) {
        const int64_t row = i / inner, o = row / n, j = at[row % n];
        tensor_set_bits(&to, i, tensor_get_bits(&from, (o * from.dim[axis] + j) * inner + i % inner));
    }
    return graph_const(p->g, to.dtype, &s, to.data, type_bytes(to.dtype, &s), node_span(p->g, id));
}

// What a constant operand has for the channels that are kept; 0: nothing.
static NodeId const_operand(const Prune *p, NodeId id, uint32_t i)
{
    const NodeId src = graph_node(p->g, id)->src[i];
    const uint32_t axis = prune_axis_at(p->g, id, i, p->of[id].axis);
    Link l;
    if (axis == AXIS_NONE || !prune_link(p, id, i, p->of[id].axis, axis, &l))
        return src;
    int64_t *at = ARENA_ARRAY(p->arena, int64_t, p->of[id].n);
    uint32_t n = 0;
    for (uint32_t j = 0; j < p->of[id].n; j++)
        if (prune_keeps(p, id, j) && link_channel(&l, j) >= 0)
            at[n++] = link_channel(&l, j);
    return n != 0 ? const_part(p, src, axis, at, n) : 0;
}

// How many of the first n channels are kept.
static int64_t kept_before(const Prune *p, NodeId id, int64_t n)
{
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++)
        count += prune_keeps(p, id, (uint32_t)j);
    return count;
}

static void set_slice(const Prune *p, NodeId id, NodeBuild *b)
{
    const Node n = *graph_node(p->g, id);
    const AttrVal *starts = node_find_attr(&n, "starts"), *ends = node_find_attr(&n, "ends"),
                  *axes = node_find_attr(&n, "axes");
    int64_t start[SHAPE_MAX_RANK], end[SHAPE_MAX_RANK];
    Link l;
    const bool is_linked = prune_link_of(p, id, 0, &l);
    rlx_assert(is_linked && starts->len <= SHAPE_MAX_RANK);
    for (uint32_t i = 0; i < starts->len; i++) {
        const uint32_t axis = axes->len != 0 ? (uint32_t)axes->u.ints[i] : i;
        const bool is_here = axis == p->of[id].axis;
        start[i] = is_here ? kept_before(p, n.src[0], l.offset) : starts->u.ints[i];
        end[i] = is_here ? start[i] + kept_before(p, id, p->of[id].n) : ends->u.ints[i];
    }
    node_ints(b, starts->id, start, (uint32_t)starts->len);
    node_ints(b, ends->id, end, (uint32_t)starts->len);
}

static NodeId gather_index(const Prune *p, NodeId id, NodeId index)
{
    const Node n = *graph_node(p->g, id);
    Link l;
    if (!prune_link_of(p, id, 0, &l) || l.index == NULL)
        return index;
    int64_t *at = ARENA_ARRAY(p->g->arena, int64_t, p->of[id].n);
    Shape s = {.rank = 1};
    for (uint32_t j = 0; j < p->of[id].n; j++)
        if (prune_keeps(p, id, j))
            at[s.dim[0]++] = kept_before(p, n.src[0], l.index[j]);
    return graph_const(p->g, DTYPE_i64, &s, at, type_bytes(DTYPE_i64, &s), node_span(p->g, id));
}

// Attributes that are sizes of the result.
static void set_sizes(const Prune *p, NodeId id, NodeBuild *b)
{
    const Node n = *graph_node(p->g, id);
    Shape s = *n.shape;
    if (p->of[id].axis != AXIS_NONE)
        s.dim[p->of[id].axis] = kept_before(p, id, p->of[id].n);
    for (uint32_t i = 0; i < n.n_attr; i++)
        if (attr_info[n.attr[i].id].type == ATTR_DIMS && n.attr[i].len != 0)
            node_ints(b, n.attr[i].id, s.dim, s.rank);
}

static NodeId build(const Prune *p, NodeId id, const NodeId *src)
{
    const Node n = *graph_node(p->g, id);
    const bool is_cut = prune_is_cut(p, id);
    NodeBuild b = node_copy_begin(p->g, p->g, id);
    for (uint32_t i = 0; i < n.n_src; i++) {
        NodeId operand = src[i];
        if (is_cut && operand != 0 && node_is_const(p->g, n.src[i]) && prune_is_spread(&n))
            operand = const_operand(p, id, i);
        else if (i == 1 && gather_axis(&n) >= 0 && p->small[n.src[0]] != 0)
            operand = gather_index(p, id, operand);
        if (operand != 0 || src[i] == 0)
            node_src(&b, operand);
    }
    set_sizes(p, id, &b);
    if (node_find_attr(&n, "starts") != NULL && p->small[n.src[0]] != 0)
        set_slice(p, id, &b);
    return node_end(&b);
}

// Does a convolution leave out what is not wanted, or zero it?
static bool changes_conv(const Prune *p, NodeId id)
{
    const Channels x = p->of[graph_node(p->g, id)->src[0]];
    for (uint32_t o = 0; o < p->of[id].n; o++)
        if (prune_want_below(p, id, o) != WANT_EXACT)
            return true;
    for (uint32_t i = 0; x.axis == 1 && i < x.n; i++)
        if (p->want[x.first + i] == WANT_NONE)
            return true;
    return false;
}

NodeId prune_step(Graph *g, NodeId id, void *ctx)
{
    Prune *p = ctx;
    const NodeId old = p->at;
    const Node n = *graph_node(g, old), now = *graph_node(g, id);
    NodeId *src = ARENA_ARRAY(p->arena, NodeId, n.n_src);
    const bool is_cut = prune_is_cut(p, old), is_conv = p->conv[old] != NULL;
    bool has_small = false;
    for (uint32_t i = 0; i < n.n_src; i++) {
        src[i] = p->small[n.src[i]] != 0 ? p->small[n.src[i]] : now.src[i];
        has_small = has_small || p->small[n.src[i]] != 0;
    }
    if (!is_cut && !has_small && !(is_conv && changes_conv(p, old)))
        return id;
    const NodeId made = is_conv ? prune_conv_build(p, old, src[0]) : build(p, old, src);
    rlx_assert(made != 0);
    if (!is_cut)
        return made;
    p->small[old] = made;
    return id;
}
