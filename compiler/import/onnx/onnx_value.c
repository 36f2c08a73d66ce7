// SPDX-License-Identifier: Apache-2.0
// The values of a model by name: scopes of sub-graphs, what they capture from outside, and values of which so
// far only the content is known because they were computed from sizes.
#include "compiler/import/onnx/onnx_import.h"

#include <string.h>

bool onnx_put(OnnxScope *s, const char *name, OnnxValue v, Span span)
{
    OnnxModel *m = s->model;
    uint64_t index = 0;
    if (map_get_str(&s->names, name, &index))
        return diag_error(m->diag, span, E0104, "the value '%s' is defined twice", name);
    map_put_str(m->arena, &s->names, name, s->values.len);
    vec_push(m->arena, &s->values, v);
    rlx_assert(s->names.len == s->values.len);
    return true;
}

const OnnxCall *onnx_scope_call(const OnnxScope *s)
{
    while (s->parent)
        s = s->parent;
    return s->call;
}

int64_t onnx_scope_opset(const OnnxScope *s)
{
    const OnnxCall *call = onnx_scope_call(s);
    return call ? call->opset : s->model->opset;
}

// --- captures ---

static OnnxValue capture(OnnxScope *s, const char *name, OnnxValue outer, Span span);

static OnnxValue capture_list(OnnxScope *s, const char *name, const OnnxList *list, Span span)
{
    rlx_assert(list != NULL && (list->n == 0 || list->v != NULL));
    Arena *a = s->model->arena;
    OnnxList copy = *list;
    OnnxValue *v = ARENA_ARRAY(a, OnnxValue, list->n);
    for (uint32_t i = 0; i < list->n; i++)
        v[i] = capture(s, arena_printf(a, "%s[%u]", name, i), list->v[i], span);
    copy.v = v;
    return (OnnxValue){.kind = ONNX_LIST, .list = arena_copy(a, &copy, sizeof copy)};
}

static NodeId find_input(const Graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->inputs.len; i++)
        if (str_equal(node_get_str(graph_node(g, g->inputs.data[i]), A_input_name), name))
            return g->inputs.data[i];
    return 0;
}

// The input that stands for a node of the parent's graph: one for all its names.
static NodeId capture_node(OnnxScope *s, const char *name, NodeId outer, Span span)
{
    OnnxCaptures *c = s->captures;
    rlx_assert(s->parent != NULL && c != NULL && outer != 0);
    for (uint32_t i = 0; i < c->list.len; i++) {
        const NodeId known = c->list.data[i].outer == outer ? find_input(s->graph, c->list.data[i].name) : 0;
        if (known)
            return known;
    }
    const Node *n = graph_node(s->parent->graph, outer);
    const Shape shape = *n->shape;
    const DType dtype = (DType)n->dtype;
    while (find_input(s->graph, name))
        name = arena_printf(s->model->arena, "%s'", name);
    vec_push(s->model->arena, &c->list, ((OnnxCapture){name, outer}));
    return graph_input(s->graph, name, dtype, &shape, span);
}

// A value of the parent's graph as one of this graph: constants are copied, others become inputs.
static OnnxValue capture(OnnxScope *s, const char *name, OnnxValue outer, Span span)
{
    if (outer.kind == ONNX_LIST)
        return capture_list(s, name, outer.list, span);
    if (outer.kind == ONNX_DIMS)
        outer.node = 0; // that node is in the other graph
    if (outer.kind != ONNX_NODE && outer.kind != ONNX_ROWS)
        return outer;
    rlx_assert(outer.node != 0 && outer.node < s->parent->graph->nodes.len);
    const Node *n = graph_node(s->parent->graph, outer.node);
    OnnxValue v = outer;
    if (n->op == OP_const) {
        const AttrVal *data = node_attr(n, A_const_data);
        const Shape shape = *n->shape;
        v.node = graph_const(s->graph, (DType)n->dtype, &shape, data->u.blob, data->len, span);
    } else {
        v.node = capture_node(s, name, outer.node, span);
    }
    v.kind = v.node ? outer.kind : ONNX_BROKEN;
    return v;
}

static bool find(OnnxScope *s, const char *name, Span span, OnnxValue *out)
{
    uint64_t index = 0;
    if (map_get_str(&s->names, name, &index)) {
        rlx_assert(index < s->values.len);
        *out = s->values.data[index];
        return true;
    }
    if (!s->parent || !find(s->parent, name, span, out))
        return false;
    if (s->captures) {
        *out = capture(s, name, *out, span);
        onnx_put(s, name, *out, span);
    }
    return true;
}

OnnxValue onnx_get(OnnxScope *s, const char *name, Span span, const char *user)
{
    OnnxValue v = {.kind = ONNX_ABSENT};
    if (name[0] == '\0' || find(s, name, span, &v))
        return v;
    diag_error(s->model->diag, span, E0103,
               "%s uses the value '%s', which no input, initializer or node defines", user, name);
    return (OnnxValue){.kind = ONNX_BROKEN};
}

// --- content ---

static bool read_content(const Tensor *t, OnnxDims *out)
{
    rlx_assert(t->rank <= 1 && t->numel <= ONNX_MAX_LIST);
    const bool is_float = dtype_info[t->dtype].cls == DCLASS_FLOAT;
    *out = (OnnxDims){.dtype = t->dtype, .rank = t->rank, .n = (uint32_t)t->numel};
    for (uint32_t i = 0; i < out->n; i++) {
        const double f = is_float ? tensor_get_f64(t, i) : 0;
        if (is_float && !(f >= -1e15 && f <= 1e15 && f == (double)(int64_t)f))
            return false;
        const int64_t v = is_float ? (int64_t)f : tensor_get_i64(t, i);
        out->dim[i] = dim_from_entry(v);
    }
    return true;
}

bool onnx_value_dims(const OnnxScope *s, const OnnxValue *v, OnnxDims *out)
{
    if (v->kind == ONNX_DIMS) {
        *out = *v->dims;
        return true;
    }
    if (v->kind != ONNX_NODE || v->is_text)
        return false;
    rlx_assert(v->node != 0 && v->node < s->graph->nodes.len);
    const Node *n = graph_node(s->graph, v->node);
    if (n->shape->rank == 1 && n->shape->dim[0] == 0) { // whatever computes it
        *out = (OnnxDims){.dtype = (DType)n->dtype, .rank = 1};
        return true;
    }
    if (!node_is_const(s->graph, v->node))
        return false;
    const Tensor t = tensor_of_const(s->graph, v->node);
    return t.rank <= 1 && t.numel <= ONNX_MAX_LIST && read_content(&t, out);
}

// A symbolic size as data: as many ones, summed up. Sizes that may be negative are shifted first.
static NodeId size_node(OnnxScope *s, Dim d, Span span)
{
    rlx_assert(!dim_is_const(d));
    OnnxModel *m = s->model;
    Graph *g = s->graph;
    int64_t lo = 0, hi = 0;
    if (graph_dim_is_computed(g, d)) {
        const OnnxSizeNode made = {g, graph_dim_value(g, d, span), d};
        vec_push(m->arena, &m->size_nodes, made);
        return made.node;
    }
    dim_range(g->dims, d, &lo, &hi);
    if (lo < -DIM_MAX_VALUE) {
        diag_error(m->diag, span, E0207, "a value is computed from sizes in a way that needs their numbers");
        return 0;
    }
    const int64_t shift = lo < 0 ? lo : 0;
    const Dim count = dim_sub(g->dims, d, shift);
    NodeBuild ones = node_begin(g, OP_expand, span, NULL);
    node_src(&ones, graph_scalar(g, DTYPE_i64, 1, span));
    node_ints(&ones, A_expand_shape, &count, 1);
    NodeId id = node_end(&ones);
    if (id)
        id = graph_op1(g, OP_reduce_sum, id);
    return id && shift ? graph_op2(g, OP_add, id, graph_scalar(g, DTYPE_i64, (double)shift, span)) : id;
}

static NodeId const_node(OnnxScope *s, const OnnxDims *dims, Span span)
{
    rlx_assert(dims->rank <= 1);
    const int64_t n = dims->n;
    Tensor t = tensor_new(s->model->arena, dims->dtype, dims->rank, &n);
    for (uint32_t i = 0; i < dims->n; i++) {
        if (dtype_info[dims->dtype].cls == DCLASS_FLOAT)
            tensor_set_f64(&t, i, (double)dims->dim[i]);
        else
            tensor_set_i64(&t, i, dims->dim[i]);
    }
    const Shape shape = shape_of(dims->rank, &n);
    return graph_const(s->graph, dims->dtype, &shape, t.data, (uint64_t)n * dtype_info[dims->dtype].bytes,
                       span);
}

// Entry i as a node of shape [1].
static NodeId entry_node(OnnxScope *s, Dim d, Span span)
{
    if (dim_is_const(d))
        return const_node(s, &(OnnxDims){.dtype = DTYPE_i64, .rank = 1, .n = 1, .dim = {d}}, span);
    const NodeId id = size_node(s, d, span);
    const Shape one = {.rank = 1, .dim = {1}};
    return id ? graph_reshape(s->graph, id, &one) : 0;
}

static NodeId list_node(OnnxScope *s, const OnnxDims *dims, Span span)
{
    rlx_assert(dims->n >= 1);
    NodeBuild b = node_begin(s->graph, OP_concat, span, NULL);
    for (uint32_t i = 0; i < dims->n; i++) {
        const NodeId id = entry_node(s, dims->dim[i], span);
        if (!id)
            return 0;
        node_src(&b, id);
    }
    NodeId id = node_end(&b);
    if (id && dims->rank == 0)
        id = graph_reshape(s->graph, id, &(Shape){0});
    return id ? graph_cast(s->graph, id, dims->dtype) : 0;
}

NodeId onnx_value_node(OnnxScope *s, OnnxValue *v, Span span)
{
    if (onnx_is_sequence(*v) || v->kind == ONNX_NONE) {
        diag_error(s->model->diag, span, E0206, "%s is used where only tensors are supported",
                   onnx_is_sequence(*v) ? "a sequence" : "an optional without a value");
        return 0;
    }
    if (v->kind != ONNX_DIMS || v->node)
        return v->kind == ONNX_BROKEN ? 0 : v->node;
    bool is_const = true;
    for (uint32_t i = 0; i < v->dims->n; i++)
        is_const = is_const && dim_is_const(v->dims->dim[i]);
    rlx_assert(v->dims->n <= ONNX_MAX_LIST && (v->dims->rank != 0 || v->dims->n == 1));
    v->node = is_const ? const_node(s, v->dims, span) : list_node(s, v->dims, span);
    return v->node;
}
