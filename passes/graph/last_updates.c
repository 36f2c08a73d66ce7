// SPDX-License-Identifier: Apache-2.0
// Scatters of many updates that replace rows, on GPUs that find the largest of many numbers in memory at
// once: the number of the last update of each row is the maximum of the numbers of its updates, in any order.
// Each element of the result is then that of this update, or what was there.
#include "passes/graph/last_updates.h"
#include "ir/shape/forms.h"
#include "passes/pass.h"

enum {
    LEAST = 4096, // updates; of fewer, groups of threads list those of their rows (scatter_group.c)
    SHARE = 4     // of the elements are updates: of fewer, data is not copied
};

static NodeId nobody(Graph *g, Dim rows, NodeId like)
{
    NodeBuild b = node_begin(g, OP_expand, node_span(g, like), g->labels.data[like]);
    node_src(&b, graph_scalar(g, DTYPE_i32, -1, node_span(g, like)));
    node_ints(&b, A_expand_shape, &rows, 1);
    return node_end(&b);
}

static NodeId numbers(Graph *g, int64_t count, NodeId like)
{
    int32_t *value = ARENA_ARRAY(g->arena, int32_t, count);
    const Shape s = shape_of(1, &count);
    for (int64_t i = 0; i < count; i++)
        value[i] = (int32_t)i;
    return graph_const(g, DTYPE_i32, &s, value, (uint64_t)count * sizeof *value, node_span(g, like));
}

static bool has_many(const Graph *g, const Node *n)
{
    const Shape *updates = graph_node(g, n->src[2])->shape;
    return str_equal(node_get_str(n, A_scatter_reduction), "none") && shape_is_const(n->shape) &&
           shape_is_const(updates) && updates->dim[0] >= LEAST && updates->dim[0] < INT32_MAX / 2 &&
           n->shape->dim[0] < INT32_MAX && shape_numel(updates) > 0 &&
           shape_numel(n->shape) <= SHARE * shape_numel(updates);
}

NodeId last_updates_find(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    if (n.op != OP_scatter || !has_many(g, &n))
        return id;
    const Shape all = *n.shape;
    Shape rows = {.rank = all.rank, .dim = {all.dim[0]}};
    for (uint32_t i = 1; i < all.rank; i++)
        rows.dim[i] = 1;
    NodeBuild b = node_begin(g, OP_scatter, node_span(g, id), g->labels.data[id]);
    node_src(&b, nobody(g, all.dim[0], id)); // -1 for each row
    node_src(&b, n.src[1]);
    node_src(&b, numbers(g, graph_node(g, n.src[2])->shape->dim[0], id));
    node_str(&b, A_scatter_reduction, "max");
    const NodeId last = node_end(&b);
    NodeBuild chosen = node_begin(g, OP_gather, node_span(g, id), g->labels.data[id]);
    node_gather(&chosen, n.src[2], last, 0); // any of them where there is none
    const NodeId update = node_end(&chosen);
    const NodeId is_there = graph_op2(g, OP_ge, last, graph_scalar(g, DTYPE_i32, 0, node_span(g, id)));
    return graph_op3(g, OP_where, graph_reshape(g, is_there, &rows), update, n.src[0]);
}
