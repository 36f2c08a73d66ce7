// SPDX-License-Identifier: Apache-2.0
// A graph as ONNX's: its nodes in their order, and the names and types of its inputs and outputs.
#include "compiler/export/onnx/put.h"

#include <string.h>

static const PutOp put_ops[] = {
#define PUT(op, fn, type) {OP_##op, #type, put_##fn},
#include "compiler/export/onnx/put_ops.def"
};

// NULL: ONNX has nothing for it.
static const PutOp *put_op_find(OpId op)
{
    for (uint32_t i = 0; i < sizeof put_ops / sizeof *put_ops; i++)
        if (put_ops[i].op == op)
            return &put_ops[i];
    return NULL;
}

// --- types ---------------------------------------------------------------------------------------

static Onnx__TensorShapeProto__Dimension *size_proto(Put *w, Dim d)
{
    Onnx__TensorShapeProto__Dimension *p = ARENA_NEW(&w->file->scratch, Onnx__TensorShapeProto__Dimension);
    onnx__tensor_shape_proto__dimension__init(p);
    if (dim_is_const(d)) {
        p->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        p->dim_value = d;
        return p;
    }
    Str text = str_new(&w->file->scratch);
    dim_print(w->g->dims, d, &text);
    p->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    p->dim_param = text.data;
    return p;
}

static Onnx__TypeProto *type_proto(Put *w, DType dtype, const Shape *s)
{
    Arena *a = &w->file->scratch;
    Onnx__TypeProto *type = ARENA_NEW(a, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = ARENA_NEW(a, Onnx__TypeProto__Tensor);
    Onnx__TensorShapeProto *shape = ARENA_NEW(a, Onnx__TensorShapeProto);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    shape->dim = ARENA_ARRAY(a, Onnx__TensorShapeProto__Dimension *, SHAPE_MAX_RANK);
    for (; shape->n_dim < s->rank; shape->n_dim++)
        shape->dim[shape->n_dim] = size_proto(w, s->dim[shape->n_dim]);
    tensor->has_elem_type = true;
    tensor->elem_type = dtype_info[dtype].onnx;
    tensor->shape = shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    return type;
}

void put_declare(Put *w, Value name, DType type, const Shape *s, bool is_output)
{
    Arena *a = &w->file->scratch;
    Onnx__ValueInfoProto *info = ARENA_NEW(a, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(info);
    info->name = arena_strdup(a, name);
    info->type = type_proto(w, type, s);
    if (is_output)
        vec_push(a, &w->outputs, info);
    else
        vec_push(a, &w->inputs, info);
}

// --- nodes ---------------------------------------------------------------------------------------

// The last node gives its result this name. False: another value is meant.
static bool rename_last(Put *w, Value old, Value name)
{
    Onnx__NodeProto *n = w->nodes.len != 0 ? w->nodes.data[w->nodes.len - 1] : NULL;
    for (size_t i = 0; n != NULL && i < n->n_output; i++)
        if (strcmp(n->output[i], old) == 0) {
            n->output[i] = arena_strdup(&w->file->scratch, name);
            return true;
        }
    return false;
}

static Value written(Put *w)
{
    const Node *n = put_node(w);
    if (node_result(n) != 0)
        return w->results[n->src[0]][node_result(n)];
    if (op_info[n->op].kind == OPKIND_EW)
        return put_elementwise(w);
    const PutOp *op = put_op_find((OpId)n->op);
    if (op != NULL)
        return op->put(w, op->type);
    put_fail(w, "this op has no form in ONNX");
    return "";
}

static void put_one(Put *w, NodeId id)
{
    const Node *n = graph_node(w->g, id);
    w->at = id;
    if (n->n_results > 1) {
        w->results[id] = ARENA_ARRAY(&w->file->scratch, Value, n->n_results);
        for (uint32_t i = 0; i < n->n_results; i++)
            w->results[id][i] = "";
    }
    const Value v = written(w);
    const char *label = w->g->labels.data[id];
    const Value name = w->named[id] != NULL ? w->named[id] : label != NULL ? put_new_name(w->file, label) : v;
    w->value[id] = v != name && node_result(n) == 0 && rename_last(w, v, name) ? name : v;
}

void put_nodes(Put *w)
{
    const bool *is_needed = graph_mark_needed(w->g, ROOT_OUTPUT | ROOT_NEXT | ROOT_EXTENT, &w->file->scratch);
    for (NodeId id = 1; id < w->g->nodes.len; id++) {
        const Node *n = graph_node(w->g, id);
        if (is_needed[id] && node_result(n) != 0)
            w->wanted[n->src[0]] |= UINT64_C(1) << node_result(n);
    }
    for (NodeId id = 1; id < w->g->nodes.len; id++)
        if (is_needed[id] && op_info[graph_node(w->g, id)->op].kind != OPKIND_LEAF)
            put_one(w, id);
}

void put_begin_graph(Put *w, PutFile *file, const Graph *g, const Put *outer)
{
    Arena *a = &file->scratch;
    const uint32_t n = g->nodes.len;
    *w = (Put){.file = file, .outer = outer, .g = g};
    w->value = ARENA_ARRAY(a, Value, n);
    w->named = ARENA_ARRAY(a, Value, n);
    w->results = ARENA_ARRAY(a, Value *, n);
    w->wanted = ARENA_ARRAY(a, uint64_t, n);
    onnx__graph_proto__init(&w->proto);
    w->proto.name = arena_strdup(a, g->name != NULL && g->name[0] != '\0' ? g->name : "graph");
}

void put_inner_outputs(Put *w, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const NodeId id = w->g->outputs.data[i].node;
        const Node *out = graph_node(w->g, id);
        put_declare(w, put_op1(w, "Identity", put_value(w, id)), (DType)out->dtype, out->shape, true);
    }
}

void put_end_graph(Put *w)
{
    w->proto.n_node = w->nodes.len;
    w->proto.node = w->nodes.data;
    w->proto.n_initializer = w->constants.len;
    w->proto.initializer = w->constants.data;
    w->proto.n_input = w->inputs.len;
    w->proto.input = w->inputs.data;
    w->proto.n_output = w->outputs.len;
    w->proto.output = w->outputs.data;
}
