// SPDX-License-Identifier: Apache-2.0
// Shape rules of the ops that own sub-graphs.
#include "ir/shape/forms.h"
#include "ir/shape/shape_rules.h"

static bool types_equal(const TensorType *a, const TensorType *b)
{
    return a->dtype == b->dtype && shape_equal(&a->shape, &b->shape);
}

static TensorType type_of(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return (TensorType){.dtype = (DType)n->dtype, .shape = *n->shape};
}

static const char *type_text(ShapeCtx *c, const TensorType *t)
{
    Str s = str_new(c->g->arena);
    shape_print(c->g->dims, t->dtype, &t->shape, &s);
    return str_text(&s);
}

static bool check_branch(ShapeCtx *c, const Graph *b, const char *name)
{
    if (b->states.len != 0)
        return shape_fail(c, E0209, "the graph `%s` must not have states", name);
    if (b->inputs.len != c->n_src - 1)
        return shape_fail(c, E0202, "the graph `%s` has %u inputs, but there are %u operands for it", name,
                          b->inputs.len, c->n_src - 1);
    for (uint32_t i = 0; i < b->inputs.len; i++) {
        const TensorType t = type_of(b, b->inputs.data[i]);
        if (!types_equal(&t, &c->in[i + 1]))
            return shape_fail(c, E0204, "input %u of the graph `%s` is %s, but operand %u is %s", i, name,
                              type_text(c, &t), i + 1, type_text(c, &c->in[i + 1]));
    }
    return true;
}

bool shape_if(ShapeCtx *c)
{
    const Graph *a = shape_attr(c, A_if_then)->u.graph, *b = shape_attr(c, A_if_else)->u.graph;
    if (c->in[0].dtype != DTYPE_bool)
        return shape_fail(c, E0205, "operand 0 must be bool");
    for (uint32_t i = 0; i < c->in[0].shape.rank; i++)
        if (c->in[0].shape.dim[i] != 1)
            return shape_fail(c, E0204, "operand 0 must have one element");
    if (!check_branch(c, a, "then") || !check_branch(c, b, "else"))
        return false;
    if (a->outputs.len != b->outputs.len || a->outputs.len == 0 || a->outputs.len > NODE_MAX_RESULTS)
        return shape_fail(c, E0204, "the graphs have %u and %u outputs; expected the same number, 1 to %d",
                          a->outputs.len, b->outputs.len, NODE_MAX_RESULTS);
    c->n_out = a->outputs.len;
    for (uint32_t i = 0; i < c->n_out; i++) {
        const TensorType x = type_of(a, a->outputs.data[i].node), y = type_of(b, b->outputs.data[i].node);
        if (!types_equal(&x, &y))
            return shape_fail(c, E0204, "output %u is %s in one graph and %s in the other", i,
                              type_text(c, &x), type_text(c, &y));
        c->out[i] = x;
    }
    return true;
}

// --- loop ---

static bool check_one_element(ShapeCtx *c, uint32_t operand, DType t)
{
    if (c->in[operand].dtype != t)
        return shape_fail(c, E0205, "operand %u must be %s", operand, dtype_info[t].name);
    for (uint32_t i = 0; i < c->in[operand].shape.rank; i++)
        if (c->in[operand].shape.dim[i] != 1)
            return shape_fail(c, E0204, "operand %u must have one element", operand);
    return true;
}

static bool check_body_inputs(ShapeCtx *c, const Graph *b)
{
    if (b->states.len != 0 || b->params.len != 0 || b->checks.len != 0)
        return shape_fail(c, E0209, "the graph `body` must not have states, params or checks");
    if (b->inputs.len != c->n_src)
        return shape_fail(c, E0202, "the graph `body` has %u inputs, but the loop has %u operands",
                          b->inputs.len, c->n_src);
    for (uint32_t i = 0; i < b->inputs.len; i++) {
        const TensorType t = type_of(b, b->inputs.data[i]);
        TensorType want = c->in[i];
        if (i < 2)
            want.shape = (Shape){0};
        if (!types_equal(&t, &want))
            return shape_fail(c, E0204, "input %u of the graph `body` is %s, expected %s", i,
                              type_text(c, &t), type_text(c, &want));
    }
    return true;
}

static bool check_body_outputs(ShapeCtx *c, const Graph *b, uint32_t n_carried)
{
    if (b->outputs.len < 1 + n_carried || b->outputs.len > NODE_MAX_RESULTS)
        return shape_fail(c, E0204, "the graph `body` has %u outputs; expected %u to %d", b->outputs.len,
                          1 + n_carried, NODE_MAX_RESULTS);
    for (uint32_t i = 0; i < b->outputs.len; i++) {
        const Shape *s = graph_node(b, b->outputs.data[i].node)->shape;
        for (uint32_t k = 0; k < s->rank; k++)
            if (graph_dim_is_computed(b, s->dim[k]))
                return shape_fail(c, E0209, "output %u of the graph `body` has a size that it computes", i);
    }
    for (uint32_t i = 0; i <= n_carried; i++) {
        const TensorType t = type_of(b, b->outputs.data[i].node);
        const TensorType want = i == 0 ? (TensorType){.dtype = DTYPE_bool} : c->in[i + 1];
        if (!types_equal(&t, &want))
            return shape_fail(c, E0204, "output %u of the graph `body` is %s, expected %s", i,
                              type_text(c, &t), type_text(c, &want));
    }
    return true;
}

// Nothing may run without an end that can be seen.
static bool check_bound(ShapeCtx *c, const AttrVal *max_trips, bool has_scans)
{
    double trips = 0;
    const bool is_const = node_is_scalar_const(c->g, c->src[0], &trips);
    if (max_trips->len > 1)
        return shape_fail(c, E0203, "`max_trips` has %llu entries, expected one",
                          (unsigned long long)max_trips->len);
    if (max_trips->len == 1) {
        int64_t low = 0, high = 0;
        dim_range(c->g->dims, max_trips->u.ints[0], &low, &high);
        return low >= 0 || shape_fail(c, E0203, "`max_trips` must not be negative");
    }
    if (has_scans)
        return shape_fail(c, E0203, "scan outputs need `max_trips`, which is their size");
    return !is_const || trips <= (double)DIM_MAX_VALUE ||
           shape_fail(c, E0203, "needs `max_trips`: the trip count is no bound");
}

static bool add_scan(ShapeCtx *c, const TensorType *row, Dim trips)
{
    Shape s = {.rank = row->shape.rank + 1, .dim = {trips}};
    if (s.rank > SHAPE_MAX_RANK)
        return shape_fail(c, E0204, "a scan output would have more than %d axes", SHAPE_MAX_RANK);
    for (uint32_t i = 0; i < row->shape.rank; i++)
        s.dim[i + 1] = row->shape.dim[i];
    rule_out(c, c->n_out++, row->dtype, &s);
    return true;
}

bool shape_loop(ShapeCtx *c)
{
    const Graph *b = shape_attr(c, A_loop_body)->u.graph;
    const int64_t carried = shape_attr(c, A_loop_carried)->u.i;
    const AttrVal *max_trips = shape_attr(c, A_loop_max_trips);
    if (!check_one_element(c, 0, DTYPE_i64) || !check_one_element(c, 1, DTYPE_bool))
        return false;
    if (carried < 0 || carried > (int64_t)c->n_src - 2)
        return shape_fail(c, E0203, "`carried` is %lld, but there are %u operands for it", (long long)carried,
                          c->n_src - 2);
    const uint32_t n_carried = (uint32_t)carried;
    if (!check_body_inputs(c, b) || !check_body_outputs(c, b, n_carried) ||
        !check_bound(c, max_trips, b->outputs.len > 1 + n_carried))
        return false;
    c->n_out = 0;
    for (uint32_t i = 0; i < n_carried; i++)
        rule_out(c, c->n_out++, c->in[i + 2].dtype, &c->in[i + 2].shape);
    for (uint32_t i = 1 + n_carried; i < b->outputs.len; i++) {
        const TensorType row = type_of(b, b->outputs.data[i].node);
        if (!add_scan(c, &row, max_trips->u.ints[0]))
            return false;
    }
    rule_out(c, c->n_out++, DTYPE_i64, &(Shape){0});
    return true;
}

LoopForm loop_form(const Node *n)
{
    if (n->op != OP_loop)
        return (LoopForm){0};
    const AttrVal *max = node_attr(n, A_loop_max_trips);
    return (LoopForm){.body = node_attr(n, A_loop_body)->u.graph,
                      .n_carried = (uint32_t)node_get_int(n, A_loop_carried),
                      .max_trips = max->len != 0 ? max->u.ints : NULL};
}
