// SPDX-License-Identifier: Apache-2.0
// Channels through ops that treat them one by one: which axis of the result goes on with an axis of an
// operand, and which channel is which. The column `live` of ops.def says how axes go through an op.
#include "ir/shape/forms.h"
#include "passes/graph/prune.h"

typedef struct Site {
    const Graph *g;
    const Node *n;
    const Shape *from; // of the operand
    uint32_t operand, axis, operand_axis;
    Arena *arena;
} Site;

// What differs from a link in which each channel is itself.
typedef bool (*LinkFn)(const Site *s, Link *l);

static bool link_same(const Site *s, Link *l)
{
    return s->axis == s->operand_axis + (s->n->shape->rank - s->from->rank) && l->n == l->modulo;
}

static bool link_transpose(const Site *s, Link *l)
{
    (void)l;
    return node_find_attr(s->n, "perm")->u.ints[s->axis] == (int64_t)s->operand_axis;
}

static int64_t product(const Shape *s, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t i = from; i < to; i++)
        n *= s->dim[i];
    return n;
}

// An axis that stays, or is joined with others: a channel then has `inner` places next to each other.
static bool link_reshape(const Site *s, Link *l)
{
    const Shape *to = s->n->shape;
    if (!shape_is_const(s->from) || !shape_is_const(to) || shape_numel(to) == 0)
        return false;
    const int64_t before = product(to, 0, s->axis), size = to->dim[s->axis];
    uint32_t first = s->operand_axis, end = s->operand_axis + 1;
    while (first > 0 && product(s->from, 0, first) != before)
        first--;
    while (end < s->from->rank && product(s->from, first, end) < size)
        end++;
    l->inner = product(s->from, s->operand_axis + 1, end);
    l->modulo = l->n;
    return product(s->from, 0, first) == before && product(s->from, first, end) == size;
}

static bool link_reduced(const Site *s, Link *l)
{
    const AttrVal *axes = node_find_attr(s->n, "axes");
    const bool keeps = node_find_attr(s->n, "keepdims")->u.i != 0;
    uint32_t axis = s->operand_axis;
    (void)l;
    for (uint64_t i = 0; i < axes->len; i++) {
        if (axes->u.ints[i] == (int64_t)s->operand_axis)
            return false;
        axis -= !keeps && axes->u.ints[i] < (int64_t)s->operand_axis;
    }
    return axes->len != 0 && axis == s->axis;
}

// Pools and resizes; of other ops with windows, channels are sums.
static bool link_first(const Site *s, Link *l)
{
    return s->n->n_src == 1 && s->axis == s->operand_axis && s->axis < 2 && l->n == l->modulo;
}

static bool link_pad(const Site *s, Link *l)
{
    const int64_t *pads = pad_amounts(s->n);
    (void)l;
    return s->operand == 0 && s->axis == s->operand_axis && pads[s->axis] == 0 &&
           pads[s->n->shape->rank + s->axis] == 0;
}

static bool link_slice(const Site *s, Link *l)
{
    const int64_t n = s->from->dim[s->operand_axis];
    const SliceForm form = slice_form(s->n, s->axis);
    const int64_t start = form.start < 0 ? form.start + n : form.start;
    l->offset = start < 0 ? 0 : start > n ? n : start;
    return s->axis == s->operand_axis && form.step == 1;
}

static bool link_concat(const Site *s, Link *l)
{
    for (uint32_t i = 0; i < s->operand && s->axis == (uint32_t)concat_axis(s->n); i++) {
        const Dim d = graph_node(s->g, s->n->src[i])->shape->dim[s->axis];
        if (!dim_is_const(d))
            return false;
        l->offset -= d;
    }
    return s->axis == s->operand_axis;
}

// Of elements of a constant table with one axis: those of the indices. Else of constant indices.
static bool link_gather(const Site *s, Link *l)
{
    const Node *table = graph_node(s->g, s->n->src[0]);
    if (s->operand == 1)
        return table->shape->rank == 1 && s->axis == s->operand_axis;
    const Shape *indices = graph_node(s->g, s->n->src[1])->shape;
    const int64_t along = gather_axis(s->n);
    if (s->operand_axis != along)
        return s->axis == s->operand_axis + (s->operand_axis > along ? indices->rank - 1 : 0);
    if (!node_is_const(s->g, s->n->src[1]) || indices->rank != 1 || s->axis != along)
        return false;
    const Tensor t = tensor_of_const(s->g, s->n->src[1]);
    const int64_t n = s->from->dim[s->axis];
    int64_t *index = ARENA_ARRAY(s->arena, int64_t, t.numel);
    for (int64_t i = 0; i < t.numel; i++) {
        const int64_t v = tensor_get_i64(&t, i), at = v < 0 ? v + n : v;
        index[i] = at < 0 ? 0 : at >= n ? n - 1 : at;
    }
    l->index = index;
    return true;
}

// Of rules that nothing is known of here.
static bool link_none(const Site *s, Link *l)
{
    (void)s;
    (void)l;
    return false;
}

#define link_pointwise link_same
#define link_axes      link_none
#define link_matmul    link_none
#define link_experts   link_none
#define link_but_last  link_none
#define link_decode    link_none
#define link_chosen    link_none

static const LinkFn links[OP_COUNT] = {
#define EW(name, ...) [OP_##name] = link_same,
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    [OP_##name] = link_##live,
#include "ir/graph/ops.def"
};

bool prune_is_spread(const Node *n)
{
    return op_is_pointwise((OpId)n->op) || concat_axis(n) >= 0;
}

bool prune_link(const Prune *p, NodeId id, uint32_t operand, uint32_t axis, uint32_t operand_axis, Link *out)
{
    const Node *n = graph_node(p->g, id);
    const Site s = {p->g, n, graph_node(p->g, n->src[operand])->shape, operand, axis, operand_axis, p->arena};
    const LinkFn fn = links[n->op];
    if (fn == NULL || operand_axis >= s.from->rank || !dim_is_const(s.from->dim[operand_axis]) ||
        !dim_is_const(n->shape->dim[axis]))
        return false;
    *out = (Link){.inner = 1, .modulo = n->shape->dim[axis], .n = s.from->dim[operand_axis]};
    return fn(&s, out);
}

bool prune_link_of(const Prune *p, NodeId id, uint32_t operand, Link *out)
{
    const NodeId src = graph_node(p->g, id)->src[operand];
    return src != 0 && p->of[id].axis != AXIS_NONE && p->of[src].axis != AXIS_NONE &&
           prune_link(p, id, operand, p->of[id].axis, p->of[src].axis, out);
}

uint32_t prune_axis_at(const Graph *g, NodeId id, uint32_t operand, uint32_t axis)
{
    const Node *n = graph_node(g, id);
    const Shape *s = graph_node(g, n->src[operand])->shape;
    const uint32_t lead = n->shape->rank - s->rank;
    if (concat_axis(n) >= 0)
        return axis;
    return axis < lead || (s->dim[axis - lead] == 1 && n->shape->dim[axis] != 1) ? AXIS_NONE : axis - lead;
}

int64_t link_channel(const Link *l, int64_t j)
{
    const int64_t c = l->index != NULL ? l->index[j] : j / l->inner % l->modulo + l->offset;
    return c >= 0 && c < l->n ? c : -1;
}

uint32_t prune_axis_of(const Prune *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    Link l;
    if (n->n_results != 1)
        return AXIS_NONE;
    for (uint32_t i = 0; i < n->n_src; i++)
        for (uint32_t axis = 0; n->src[i] != 0 && p->of[n->src[i]].axis != AXIS_NONE && axis < n->shape->rank;
             axis++)
            if (prune_link(p, id, i, axis, p->of[n->src[i]].axis, &l))
                return axis;
    return AXIS_NONE;
}
