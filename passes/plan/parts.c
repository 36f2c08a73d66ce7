// SPDX-License-Identifier: Apache-2.0
// See parts.h. If the strides of two boxes are the same and each is a multiple of the next one, an element's
// place is a number whose digits are its coordinates: the boxes are apart if one digit never agrees.
#include "passes/plan/parts.h"

typedef struct Box {
    const Shape *shape;
    const Loc *loc;
    uint32_t bytes; // of an element
} Box;

// What the kernel writes through the argument. False: that is not all of one value.
static bool box_of(const Plan *p, const PlanKernel *k, const PlanArg *a, Box *box)
{
    const NodeId id = k->copy.src != 0 ? k->copy.src : k->root;
    if (k->is_joined || k->loop != NULL || k->stages.len != 0 || !a->is_written || a->is_read || id == 0)
        return false;
    const Node *n = graph_node(p->graph, id);
    *box = (Box){n->shape, k->copy.src != 0 ? &k->copy.dst : &p->locs.data[id], dtype_info[n->dtype].bytes};
    return box->loc->buf == a->buf && shape_is_const(n->shape) && box->loc->offset >= 0 &&
           a->byte_offset == (uint64_t)box->loc->offset * box->bytes && a->begin == a->byte_offset;
}

// The axis with the largest stride below `below` along which one of them has several elements; the rank:
// there is none.
static uint32_t next_axis(const Box *x, const Box *y, int64_t below)
{
    uint32_t next = x->shape->rank;
    for (uint32_t i = 0; i < x->shape->rank; i++) {
        const int64_t stride = x->loc->stride[i];
        const bool is_single = x->shape->dim[i] == 1 && y->shape->dim[i] == 1;
        if (!is_single && stride < below && (next == x->shape->rank || stride > x->loc->stride[next]))
            next = i;
    }
    return next;
}

static bool have_equal_strides(const Box *x, const Box *y)
{
    if (x->bytes != y->bytes || x->shape->rank != y->shape->rank)
        return false;
    for (uint32_t i = 0; i < x->shape->rank; i++)
        if ((x->shape->dim[i] != 1 || y->shape->dim[i] != 1) &&
            (x->loc->stride[i] != y->loc->stride[i] || x->loc->stride[i] <= 0))
            return false;
    return true;
}

static bool are_apart(const Box *x, const Box *y)
{
    int64_t x_rest = x->loc->offset, y_rest = y->loc->offset, above = INT64_MAX;
    bool is_apart = false;
    for (uint32_t turn = 0; turn < x->shape->rank; turn++) {
        const uint32_t axis = next_axis(x, y, above);
        if (axis == x->shape->rank)
            break;
        const int64_t stride = x->loc->stride[axis], end = turn == 0 ? INT64_MAX : above / stride;
        const int64_t x_at = x_rest / stride, y_at = y_rest / stride;
        const int64_t x_end = x_at + x->shape->dim[axis], y_end = y_at + y->shape->dim[axis];
        if ((turn > 0 && above % stride != 0) || x_end > end || y_end > end)
            return false;
        is_apart = is_apart || x_end <= y_at || y_end <= x_at;
        x_rest %= stride;
        y_rest %= stride;
        above = stride;
    }
    return is_apart;
}

// Two axes of one stride have no digits of their own.
static bool has_distinct_strides(const Box *x, const Box *y)
{
    for (uint32_t i = 0; i < x->shape->rank; i++)
        for (uint32_t j = 0; j < i; j++)
            if ((x->shape->dim[i] != 1 || y->shape->dim[i] != 1) &&
                (x->shape->dim[j] != 1 || y->shape->dim[j] != 1) && x->loc->stride[i] == x->loc->stride[j])
                return false;
    return true;
}

bool parts_are_apart(const Plan *p, const PlanKernel *k, const PlanArg *a, const PlanKernel *other,
                     const PlanArg *b)
{
    Box x, y;
    return a->buf == b->buf && box_of(p, k, a, &x) && box_of(p, other, b, &y) && have_equal_strides(&x, &y) &&
           has_distinct_strides(&x, &y) && are_apart(&x, &y);
}
