// SPDX-License-Identifier: Apache-2.0
// See put.h: nodes, attributes and constants of ONNX, and what functions read of the node that they write.
#include "compiler/export/onnx/put.h"
#include "compiler/export/json_write.h"

#include <string.h>

enum { MORE_RESULTS = 4 }; // of a node in ONNX than ours has

void put_fail(Put *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(&w->file->scratch, fmt, args);
    va_end(args);
    w->failed = true;
    diag_error(w->file->diag, node_span(w->g, w->at), E0206, "node '%s' (%s): %s", node_name(w->g, w->at),
               op_info[put_node(w)->op].name, text);
}

Value put_new_name(PutFile *f, const char *label)
{
    return json_unique_name(&f->scratch, &f->names, json_clean_name(&f->scratch, label));
}

static char *copy(Put *w, const char *text)
{
    return arena_strdup(&w->file->scratch, text);
}

// --- nodes ---------------------------------------------------------------------------------------

Onnx__NodeProto *put_begin(Put *w, const char *type, const Value *in, uint32_t n)
{
    Arena *a = &w->file->scratch;
    Onnx__NodeProto *node = ARENA_NEW(a, Onnx__NodeProto);
    onnx__node_proto__init(node);
    while (n > 0 && *in[n - 1] == '\0') // absent operands at the end are left out
        n--;
    node->op_type = copy(w, type);
    node->input = ARENA_ARRAY(a, char *, n + 1);
    node->output = ARENA_ARRAY(a, char *, MORE_RESULTS + put_node(w)->n_results);
    node->attribute = ARENA_ARRAY(a, Onnx__AttributeProto *, BUILD_MAX_ATTRS);
    for (; node->n_input < n; node->n_input++)
        node->input[node->n_input] = copy(w, in[node->n_input]);
    vec_push(a, &w->nodes, node);
    return node;
}

void put_since(Put *w, int64_t opset)
{
    if (w->file->opset < opset)
        w->file->opset = opset;
}

static Onnx__AttributeProto *add_attr(Put *w, Onnx__NodeProto *n, const char *name,
                                      Onnx__AttributeProto__AttributeType type)
{
    rlx_assert(n->n_attribute < BUILD_MAX_ATTRS);
    Onnx__AttributeProto *attr = ARENA_NEW(&w->file->scratch, Onnx__AttributeProto);
    onnx__attribute_proto__init(attr);
    attr->name = copy(w, name);
    attr->has_type = true;
    attr->type = type;
    n->attribute[n->n_attribute++] = attr;
    return attr;
}

void put_int(Put *w, Onnx__NodeProto *n, const char *name, int64_t v)
{
    Onnx__AttributeProto *attr = add_attr(w, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    attr->has_i = true;
    attr->i = v;
}

void put_float(Put *w, Onnx__NodeProto *n, const char *name, double v)
{
    Onnx__AttributeProto *attr = add_attr(w, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    attr->has_f = true;
    attr->f = (float)v;
}

void put_text(Put *w, Onnx__NodeProto *n, const char *name, const char *v)
{
    Onnx__AttributeProto *attr = add_attr(w, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    attr->has_s = true;
    attr->s = (ProtobufCBinaryData){strlen(v), (uint8_t *)copy(w, v)};
}

void put_texts(Put *w, Onnx__NodeProto *n, const char *name, const char *const *v, uint64_t count)
{
    Onnx__AttributeProto *attr = add_attr(w, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    rlx_assert(v != NULL && count > 0);
    attr->n_strings = (size_t)count;
    attr->strings = ARENA_ARRAY(&w->file->scratch, ProtobufCBinaryData, (int64_t)count);
    for (uint64_t i = 0; i < count; i++)
        attr->strings[i] = (ProtobufCBinaryData){strlen(v[i]), (uint8_t *)copy(w, v[i])};
}

void put_ints(Put *w, Onnx__NodeProto *n, const char *name, const int64_t *v, uint64_t count)
{
    Onnx__AttributeProto *attr = add_attr(w, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    attr->n_ints = (size_t)count;
    attr->ints = arena_copy(&w->file->scratch, v, (size_t)count * sizeof *v);
}

void put_graph(Put *w, Onnx__NodeProto *n, const char *name, const Put *sub)
{
    Onnx__AttributeProto *attr = add_attr(w, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    attr->g = arena_copy(&w->file->scratch, &sub->proto, sizeof sub->proto);
}

Value put_result(Put *w, Onnx__NodeProto *n)
{
    rlx_assert(n->n_output < MORE_RESULTS + (size_t)put_node(w)->n_results);
    const Value name = put_new_name(w->file, arena_printf(&w->file->scratch, "t%u", ++w->file->n_values));
    n->output[n->n_output++] = copy(w, name);
    return name;
}

Value put_op1(Put *w, const char *type, Value a)
{
    return put_result(w, put_begin(w, type, &a, 1));
}

Value put_op2(Put *w, const char *type, Value a, Value b)
{
    return put_result(w, put_begin(w, type, (const Value[]){a, b}, 2));
}

Value put_op3(Put *w, const char *type, Value a, Value b, Value c)
{
    return put_result(w, put_begin(w, type, (const Value[]){a, b, c}, 3));
}

// Types of 8 bits and fewer do not saturate here: numbers beyond them become infinite or NaN.
Value put_cast(Put *w, Value x, DType from, DType to)
{
    if (from == to)
        return x;
    Onnx__NodeProto *n = put_begin(w, "Cast", &x, 1);
    put_int(w, n, "to", dtype_info[to].onnx);
    if (dtype_is_narrow(to) && put_is_float(to))
        put_int(w, n, "saturate", 0);
    if (to == DTYPE_f8e8m0) {
        put_text(w, n, "round_mode", "nearest");
        put_since(w, 24);
    }
    return put_result(w, n);
}

Value put_reshape(Put *w, Value x, const int64_t *shape, uint32_t rank)
{
    return put_op2(w, "Reshape", x, put_list(w, shape, rank));
}

Value put_transpose(Put *w, Value x, const int64_t *perm, uint32_t rank)
{
    Onnx__NodeProto *n = put_begin(w, "Transpose", &x, 1);
    put_ints(w, n, "perm", perm, rank);
    return put_result(w, n);
}

Value put_gather(Put *w, Value x, const int64_t *at, uint32_t count, int64_t axis)
{
    Onnx__NodeProto *n = put_begin(w, "Gather", (const Value[]){x, put_list(w, at, count)}, 2);
    put_int(w, n, "axis", axis);
    return put_result(w, n);
}

Value put_slice(Put *w, Value x, Value starts, Value ends, int64_t axis)
{
    const Value in[] = {x, starts, ends, put_list(w, &axis, 1)};
    return put_result(w, put_begin(w, "Slice", in, 4));
}

Value put_concat(Put *w, const Value *in, uint32_t n, int64_t axis)
{
    if (n == 1)
        return in[0];
    Onnx__NodeProto *node = put_begin(w, "Concat", in, n);
    put_int(w, node, "axis", axis);
    return put_result(w, node);
}

// --- constants -----------------------------------------------------------------------------------

// Elements of fewer than 8 bits lie side by side, the first in the lowest bits.
static const void *pack(Put *w, const Tensor *t, uint64_t *bytes)
{
    const uint32_t bits = dtype_info[t->dtype].bits, per_byte = 8 / bits;
    *bytes = ((uint64_t)t->numel + per_byte - 1) / per_byte;
    uint8_t *out = ARENA_ARRAY(&w->file->scratch, uint8_t, *bytes + 1);
    for (int64_t i = 0; i < t->numel; i++) {
        const uint64_t v = tensor_get_bits(t, i) & ((1u << bits) - 1);
        out[i / per_byte] |= (uint8_t)(v << (i % per_byte * bits));
    }
    return out;
}

Value put_tensor(Put *w, const Tensor *t, const char *label)
{
    Arena *a = &w->file->scratch;
    PutTensor entry = {ARENA_NEW(a, Onnx__TensorProto), t->data,
                       (uint64_t)t->numel * dtype_info[t->dtype].bytes};
    onnx__tensor_proto__init(entry.proto);
    const Value name = put_new_name(w->file, label);
    entry.proto->name = copy(w, name);
    entry.proto->has_data_type = true;
    entry.proto->data_type = dtype_info[t->dtype].onnx;
    entry.proto->n_dims = t->rank;
    entry.proto->dims = arena_copy(a, t->dim, sizeof t->dim);
    if (dtype_info[t->dtype].bits < 8 && t->dtype != DTYPE_bool)
        entry.data = pack(w, t, &entry.bytes);
    vec_push(a, &w->file->tensors, entry);
    vec_push(a, &w->constants, entry.proto);
    return name;
}

// Those of the graphs around are seen inside.
Value put_small(Put *w, const Tensor *t)
{
    Str key = str_new(&w->file->scratch);
    str_printf(&key, "%u %u ", (unsigned)t->dtype, (unsigned)t->rank);
    str_add_n(&key, t->data, (size_t)t->numel * dtype_info[t->dtype].bytes);
    uint64_t known = 0;
    for (const Put *p = w; p != NULL; p = p->outer)
        if (map_get(&p->made, key.data, key.len, &known))
            return (Value)(uintptr_t)known;
    const Value name = put_tensor(w, t, t->rank ? "list" : "number");
    map_put(&w->file->scratch, &w->made, key.data, key.len, (uint64_t)(uintptr_t)name);
    return name;
}

Value put_number(Put *w, DType t, double v)
{
    Tensor one = tensor_new(&w->file->scratch, t, 0, NULL);
    tensor_set_f64(&one, 0, v);
    return put_small(w, &one);
}

Value put_list(Put *w, const int64_t *v, uint64_t n)
{
    const int64_t size = (int64_t)n;
    Tensor list = tensor_new(&w->file->scratch, DTYPE_i64, 1, &size);
    for (int64_t i = 0; i < size; i++)
        tensor_set_i64(&list, i, v[i]);
    return put_small(w, &list);
}

// --- the node that is being written --------------------------------------------------------------

Value put_value(Put *w, NodeId id)
{
    if (w->value[id] == NULL) {
        rlx_assert(node_is_const(w->g, id));
        const Tensor t = tensor_of_const(w->g, id);
        const char *label = w->g->labels.data[id];
        w->value[id] = put_tensor(w, &t, label != NULL ? label : "constant");
    }
    return w->value[id];
}

bool put_has(const Put *w, uint32_t i)
{
    return i < put_node(w)->n_src && put_node(w)->src[i] != 0;
}

Value put_src(Put *w, uint32_t i)
{
    return put_has(w, i) ? put_value(w, put_node(w)->src[i]) : "";
}

const Value *put_all_src(Put *w)
{
    const uint32_t n = put_node(w)->n_src;
    Value *all = ARENA_ARRAY(&w->file->scratch, Value, n + 1);
    for (uint32_t i = 0; i < n; i++)
        all[i] = put_src(w, i);
    return all;
}

const Shape *put_shape(const Put *w, uint32_t i)
{
    rlx_assert(put_has(w, i));
    return graph_node(w->g, put_node(w)->src[i])->shape;
}

DType put_type(const Put *w, uint32_t i)
{
    rlx_assert(put_has(w, i));
    return (DType)graph_node(w->g, put_node(w)->src[i])->dtype;
}

const AttrVal *put_get_list(const Put *w, const char *attr)
{
    const AttrVal *v = node_find_attr(put_node(w), attr);
    rlx_assert(v != NULL);
    return v;
}

int64_t put_get(const Put *w, const char *attr)
{
    return put_get_list(w, attr)->u.i;
}

double put_get_float(const Put *w, const char *attr)
{
    return node_get_float(put_node(w), put_get_list(w, attr)->id);
}

const char *put_get_text(const Put *w, const char *attr)
{
    return put_get_list(w, attr)->u.str;
}

Value put_attr_list(Put *w, const char *attr)
{
    const AttrVal *v = put_get_list(w, attr);
    return v->len != 0 ? put_list(w, v->u.ints, v->len) : "";
}

void put_copy_ints(Put *w, Onnx__NodeProto *n, const char *ours, const char *name)
{
    const AttrVal *v = put_get_list(w, ours);
    if (v->len != 0)
        put_ints(w, n, name, v->u.ints, v->len);
}

void put_copy_int(Put *w, Onnx__NodeProto *n, const char *ours, const char *name)
{
    put_int(w, n, name, put_get(w, ours));
}

void put_more(Put *w, uint32_t index, Value v)
{
    rlx_assert(w->results[w->at] != NULL && index > 0 && index < put_node(w)->n_results);
    w->results[w->at][index] = v;
}

bool put_wants(const Put *w, uint32_t index)
{
    return (w->wanted[w->at] >> index & 1) != 0;
}
