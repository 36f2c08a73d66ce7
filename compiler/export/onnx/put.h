// SPDX-License-Identifier: Apache-2.0
// What the files of the ONNX writer share. An op of the graph becomes one or more ONNX nodes, by a text of
// put_forms.def or by a function of put_ops.def. Values are named by texts ("" is an operand that is absent);
// a function makes nodes through the helpers below and returns the name of its result. The helpers report
// what cannot be written and mark the writer as failed; functions need no error paths.
#ifndef COMPILER_EXPORT_ONNX_PUT_H
#define COMPILER_EXPORT_ONNX_PUT_H

#include "base/map.h"
#include "ir/graph/tensor.h"
#include "onnx.pb-c.h"

// The opset of what is written, where no operator needs a later one.
#define PUT_CUSTOM_DOMAIN "rlxc.custom"
enum { PUT_OPSET = 21, PUT_IR_VERSION = 10 };

typedef const char *Value;

// A tensor whose elements may be in a file of their own.
typedef struct PutTensor {
    Onnx__TensorProto *proto;
    const void *data;
    uint64_t bytes;
} PutTensor;

typedef struct PutFile {
    Arena scratch;
    Diag *diag;
    VEC(PutTensor) tensors;
    Map names;
    uint32_t n_values;
    int64_t opset;
    bool has_microsoft, has_custom; // other domains
} PutFile;

// A graph, or a sub-graph, while it is written.
typedef struct Put {
    PutFile *file;
    const struct Put *outer; // the graph around it, NULL: none
    const Graph *g;
    Onnx__GraphProto proto;
    VEC(Onnx__NodeProto *) nodes;
    VEC(Onnx__TensorProto *) constants;
    VEC(Onnx__ValueInfoProto *) inputs;
    VEC(Onnx__ValueInfoProto *) outputs;
    Value *value;     // by NodeId
    Value *named;     // by NodeId: the name that the value must have; NULL: any
    Value **results;  // by NodeId, of nodes with several results
    uint64_t *wanted; // by NodeId: a bit for each result beyond the first that a node reads
    Map made;         // values of texts, small constants and sizes, by what they are
    NodeId at;        // the node that is being written
    bool failed;
} Put;

// "node 'x' (conv): ..."; the writer has failed.
void put_fail(Put *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// --- nodes of ONNX ---
// A node under construction; attributes follow, then its results.
Onnx__NodeProto *put_begin(Put *w, const char *type, const Value *in, uint32_t n);
void put_since(Put *w, int64_t opset); // the operator exists from this opset on
void put_int(Put *w, Onnx__NodeProto *n, const char *name, int64_t v);
void put_float(Put *w, Onnx__NodeProto *n, const char *name, double v);
void put_text(Put *w, Onnx__NodeProto *n, const char *name, const char *v);
void put_texts(Put *w, Onnx__NodeProto *n, const char *name, const char *const *v, uint64_t count);
void put_ints(Put *w, Onnx__NodeProto *n, const char *name, const int64_t *v, uint64_t count);
void put_graph(Put *w, Onnx__NodeProto *n, const char *name, const Put *sub);
// Names one more result and gives it back.
Value put_result(Put *w, Onnx__NodeProto *n);
// A node without attributes, with one result.
Value put_op1(Put *w, const char *type, Value a);
Value put_op2(Put *w, const char *type, Value a, Value b);
Value put_op3(Put *w, const char *type, Value a, Value b, Value c);
Value put_cast(Put *w, Value x, DType from, DType to);
Value put_reshape(Put *w, Value x, const int64_t *shape, uint32_t rank); // by Reshape's rules for 0 and -1
Value put_transpose(Put *w, Value x, const int64_t *perm, uint32_t rank);
Value put_gather(Put *w, Value x, const int64_t *at, uint32_t n, int64_t axis);
Value put_slice(Put *w, Value x, Value starts, Value ends, int64_t axis);
Value put_concat(Put *w, const Value *in, uint32_t n, int64_t axis);

// --- constants ---
Value put_tensor(Put *w, const Tensor *t, const char *label);
Value put_small(Put *w, const Tensor *t);             // small ones of one kind, content and shape are one
Value put_number(Put *w, DType t, double v);          // a scalar
Value put_list(Put *w, const int64_t *v, uint64_t n); // i64[n]
Value put_dim(Put *w, Dim d);                         // i64[1]
Value put_dims(Put *w, const Dim *d, uint64_t n);     // i64[n]
Value put_range(Put *w, Dim size);                    // 0, 1 ... up to the size: i64[size]

// --- the node that is being written ---
static inline const Node *put_node(const Put *w)
{
    return graph_node(w->g, w->at);
}
Value put_value(Put *w, NodeId id); // constants are written when they are first asked for
Value put_src(Put *w, uint32_t i);  // of operand i, "" where it is absent
const Value *put_all_src(Put *w);   // of all operands
bool put_has(const Put *w, uint32_t i);
const Shape *put_shape(const Put *w, uint32_t i); // of operand i
DType put_type(const Put *w, uint32_t i);
static inline bool put_is_float(DType t)
{
    return dtype_info[t].cls == DCLASS_FLOAT;
}
int64_t put_get(const Put *w, const char *attr); // INT, BOOL, DTYPE
double put_get_float(const Put *w, const char *attr);
const char *put_get_text(const Put *w, const char *attr);
const AttrVal *put_get_list(const Put *w, const char *attr);
// Its numbers as a value, "" where there are none.
Value put_attr_list(Put *w, const char *attr);
// Gives ONNX's attribute the numbers that ours has.
void put_copy_ints(Put *w, Onnx__NodeProto *n, const char *ours, const char *name);
void put_copy_int(Put *w, Onnx__NodeProto *n, const char *ours, const char *name);
// Results beyond the first, for nodes that have several.
void put_more(Put *w, uint32_t index, Value v);
bool put_wants(const Put *w, uint32_t index);

// --- graphs (put_graph.c) ---
void put_begin_graph(Put *w, PutFile *file, const Graph *g, const Put *outer);
// Writes all nodes; values of leaves are there already.
void put_nodes(Put *w);
// Outputs of a sub-graph, from one to before another.
void put_inner_outputs(Put *w, uint32_t from, uint32_t to);
void put_end_graph(Put *w);
void put_declare(Put *w, Value name, DType type, const Shape *s, bool is_output);
Value put_new_name(PutFile *f, const char *label);

// --- ops (the tables) ---
typedef struct PutOp {
    OpId op;
    const char *type; // of ONNX
    Value (*put)(Put *w, const char *type);
} PutOp;
Value put_elementwise(Put *w);

#define PUT(op, fn, type) Value put_##fn(Put *w, const char *type_name);
#include "compiler/export/onnx/put_ops.def"

#endif
