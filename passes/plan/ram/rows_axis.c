// SPDX-License-Identifier: Apache-2.0
// Along which axis of an input its rows are: which axis of it becomes the first spatial one of an image.
// Values behind the input are followed as products of its axes, so that reshapes to pixels and back, as dense
// layers of each pixel have, do not hide it; what these layers have as a spatial axis, of all pixels or of 1,
// is none of it.
#include "ir/graph/intern.h"
#include "passes/plan/ram/rows_input.h"

enum { MOST_PARTS = 2 * SHAPE_MAX_RANK };

// An axis of the input, or of none, which is an axis of a value, or a factor of one. Sizes of 1 are left out.
typedef struct Part {
    int64_t size;
    uint32_t axis;   // of the value
    uint32_t origin; // 1 + the axis of the input; 0: none
} Part;

// A value by its parts, from the outermost to the innermost; none: nothing is known of it.
typedef struct Spread {
    uint32_t n;
    Part part[MOST_PARTS];
} Spread;

static void add_part(Spread *s, int64_t size, uint32_t axis, uint32_t origin)
{
    rlx_assert(s->n < MOST_PARTS);
    s->part[s->n++] = (Part){size, axis, origin};
}

static Spread spread_of_input(const Shape *shape)
{
    Spread s = {0};
    for (uint32_t i = 0; i < shape->rank && shape_numel(shape) != 0; i++)
        if (shape->dim[i] != 1)
            add_part(&s, shape->dim[i], i, i + 1);
    return s;
}

// The same elements in order as other axes. If a part is cut in two, the outer one goes along its axis.
static Spread spread_of_view(Spread from, const Shape *shape)
{
    Spread s = {0};
    uint32_t at = 0;
    for (uint32_t i = 0; i < shape->rank; i++) {
        for (int64_t size = shape->dim[i], taken = 0; size > 1; size /= taken) {
            rlx_assert(at < from.n);
            Part *p = &from.part[at];
            const bool is_cut = size < p->size;
            taken = is_cut ? size : p->size;
            if (s.n == MOST_PARTS || (is_cut ? p->size : size) % taken != 0)
                return (Spread){0};
            add_part(&s, taken, i, p->origin);
            *p = (Part){p->size / taken, p->axis, 0};
            at += !is_cut;
        }
    }
    return s;
}

static Spread spread_of_transpose(const Spread *from, const AttrVal *perm)
{
    Spread s = {0};
    for (uint32_t i = 0; i < perm->len; i++)
        for (uint32_t k = 0; k < from->n; k++)
            if (from->part[k].axis == (uint32_t)perm->u.ints[i])
                add_part(&s, from->part[k].size, i, from->part[k].origin);
    return s;
}

// The parts of one axis.
static uint32_t parts_of_axis(const Spread *s, uint32_t axis, const Part **first)
{
    uint32_t n = 0;
    for (uint32_t i = s->n; i-- > 0;) {
        const bool is_of = s->part[i].axis == axis;
        n += is_of;
        *first = is_of ? &s->part[i] : *first;
    }
    return n;
}

// Of a node of the rank of its operand: its axes are those, also where their sizes differ, as behind a slice.
static Spread spread_of_axes(const Spread *from, const Shape *shape)
{
    Spread s = {0};
    if (from->n + shape->rank > MOST_PARTS || shape_numel(shape) == 0)
        return s;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const Part *first = NULL;
        const uint32_t n = parts_of_axis(from, i, &first);
        int64_t size = 1;
        for (uint32_t k = 0; k < n; k++)
            size *= first[k].size;
        for (uint32_t k = 0; k < n && size == shape->dim[i]; k++)
            add_part(&s, first[k].size, i, first[k].origin);
        if (size != shape->dim[i] && shape->dim[i] != 1)
            add_part(&s, shape->dim[i], i, n == 1 ? first->origin : 0);
    }
    return s;
}

static Spread spread_of_node(const Graph *g, const Node *n, NodeId operand, const Spread *from)
{
    const Shape *shape = graph_node(g, operand)->shape;
    if (n->op == OP_transpose)
        return spread_of_transpose(from, node_attr(n, A_transpose_perm));
    if (op_is_view_of_rows((OpId)n->op) && shape_numel(shape) == shape_numel(n->shape))
        return spread_of_view(*from, n->shape);
    return n->shape->rank == shape->rank ? spread_of_axes(from, n->shape) : (Spread){0};
}

// Finds the axis of the input that is this axis of a value, or whose outer part it is.
static bool find_origin(const Spread *s, uint32_t axis, uint32_t *found)
{
    const Part *first = NULL;
    if (parts_of_axis(s, axis, &first) != 1 || first->origin == 0)
        return false;
    *found = first->origin - 1;
    return true;
}

// The first of several axes that a reduction such as a mean goes over, as those of images do; 0: it is no
// such node.
static uint32_t reduced_axis(const Node *n)
{
    const AttrId id = attr_find((OpId)n->op, "axes");
    int64_t least = SHAPE_MAX_RANK;
    if (id == ATTR_COUNT || attr_find((OpId)n->op, "keepdims") == ATTR_COUNT)
        return 0;
    const AttrVal *axes = node_attr(n, id);
    for (uint64_t i = 0; axes->len > 1 && i < axes->len; i++)
        least = axes->u.ints[i] < least ? axes->u.ints[i] : least;
    return least >= 1 && least < SHAPE_MAX_RANK ? (uint32_t)least : 0;
}

// The axis of a node's operands that has rows; 0: it is not such a node.
static uint32_t axis_with_rows(const Node *n)
{
    return op_info[n->op].layout == OPLAYOUT_IMAGE ? ROWS_IMAGE_AXIS : reduced_axis(n);
}

uint32_t rows_input_axis(const Graph *g, NodeId input, Arena *scratch)
{
    const bool *is_live = graph_mark_live(g, scratch);
    Spread *spread = ARENA_ARRAY(scratch, Spread, g->nodes.len);
    uint32_t found = ROWS_IMAGE_AXIS;
    spread[input] = spread_of_input(graph_node(g, input)->shape);
    for (NodeId id = input + 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; is_live[id] && i < n->n_src && spread[id].n == 0; i++) {
            const Spread *from = &spread[n->src[i]];
            if (from->n == 0)
                continue;
            if (axis_with_rows(n) != 0 && find_origin(from, axis_with_rows(n), &found))
                return found;
            spread[id] = spread_of_node(g, n, n->src[i], from);
        }
    }
    return found;
}

bool rows_input_has_axes(const Graph *g, NodeId input, NodeId value)
{
    const Node *n = graph_node(g, value);
    return value == input || (n->op == OP_transpose && n->src[0] == input);
}
