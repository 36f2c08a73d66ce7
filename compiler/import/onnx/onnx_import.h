// SPDX-License-Identifier: Apache-2.0
// What the files of the ONNX importer share. A node of the model is imported by one function, found in
// onnx_ops.def, which reads operands and attributes through the helpers below and leaves its results in
// OnnxNode.out. The helpers report what is wrong, mark the node as failed and return 0 or a default; once a
// node has failed they do nothing more, so that import functions need no error paths. What an import function
// does not ask for (an operand, an attribute, a result) is reported as unsupported when it returns: nothing
// of a model is ignored by accident.
#ifndef COMPILER_IMPORT_ONNX_ONNX_IMPORT_H
#define COMPILER_IMPORT_ONNX_ONNX_IMPORT_H

#include "compiler/import/onnx/onnx.h"
#include "compiler/system/rawfile.h"
#include "ir/graph/graph.h"
#include "ir/graph/tensor.h"
#include "onnx.pb-c.h"

// Lists that shape a result (shapes, axes, pads, sizes) have at most this many entries.
enum { ONNX_MAX_LIST = 64 };
// Nesting of sub-graphs.
enum { ONNX_MAX_DEPTH = 16 };
// Nodes of bodies, each counted as often as it is imported: loops and calls multiply.
enum { ONNX_MAX_INLINED = 1 << 20 };
// Constants are evaluated at import up to this many elements; integers, of which indices are made, up to
// more.
enum { ONNX_MAX_FOLD = 4096, ONNX_MAX_FOLD_INTS = 1 << 20 };

// Integers known at import, constant or symbolic: the content of a tensor of rank 0 (then n is 1) or 1.
typedef struct OnnxDims {
    DType dtype;
    uint32_t rank, n;
    Dim dim[ONNX_MAX_LIST];
} OnnxDims;

typedef struct OnnxInts {
    uint32_t n;
    int64_t v[ONNX_MAX_LIST];
} OnnxInts;

typedef enum OnnxValueKind {
    ONNX_ABSENT, // an optional operand that is not given
    ONNX_NODE,   // a node of the graph
    ONNX_DIMS,   // only the dims are known so far: a node is made when one is needed
    ONNX_LIST,   // a sequence: tensors, of known number
    ONNX_ROWS,   // a sequence: the rows of a tensor, as many as the model computes
    ONNX_NONE,   // an optional without a value; one with a value is that value
    ONNX_BROKEN, // what makes it failed, which was reported
} OnnxValueKind;

typedef struct OnnxList OnnxList;
typedef struct OnnxValue {
    OnnxValueKind kind;
    bool is_text;         // ONNX_NODE: strings, u8 with their bytes as one more axis at the end (onnx_text.h)
    NodeId node;          // ONNX_NODE; ONNX_ROWS: all rows; ONNX_DIMS: 0 until made
    const OnnxDims *dims; // ONNX_DIMS
    const OnnxList *list; // ONNX_LIST
    const Onnx__AttributeProto *keys; // ONNX_NODE: labels of the columns, where rows are maps
} OnnxValue;

// Sequences exist in the importer only: what it makes of them are tensors.
struct OnnxList {
    DType dtype;  // of the elements
    bool is_text; // they are strings
    uint32_t n;
    const OnnxValue *v; // ONNX_NODE or ONNX_DIMS
};

// A value of an outer graph that a sub-graph uses.
typedef struct OnnxCapture {
    const char *name;
    NodeId outer;
} OnnxCapture;

typedef struct OnnxCaptures {
    VEC(OnnxCapture)
    list;
} OnnxCaptures;

// A matrix [K, N] of 4 or 2 bits that was dequantised, for products that read it packed (onnx_few_bits.c).
typedef struct OnnxFewBits {
    const Graph *graph;
    NodeId y;              // the result
    NodeId x, scale, zero; // constants; zero may be 0
    uint32_t axis;         // of the scales: 0 in blocks along K, 1 one a column
    int64_t block;         // K where there are no blocks
    NodeId packed[3];      // weight, scale and zero of qmatmul, once a product asked for them
} OnnxFewBits;

// A node that has the value of a size that the model computes.
typedef struct OnnxSizeNode {
    const Graph *graph;
    NodeId node;
    Dim dim;
} OnnxSizeNode;

// What DequantizeLinear read: x with constant scale and zero point (0: none).
typedef struct OnnxDequantised {
    NodeId x, scale, zero;
    uint32_t axis; // of scales and zero points that are not of one element
    int64_t block; // of elements along it that share an entry; 0: none do
} OnnxDequantised;

// The whole import.
typedef struct OnnxModel {
    Arena *arena;
    Diag *diag;
    uint32_t file; // for spans
    const Onnx__ModelProto *proto;
    const Graph *graph; // of the model itself
    const OnnxSource *source;
    Map odd_bytes; // of external data that is not aligned: where the copies are
    int64_t opset;      // of the default domain; 0 = not imported
    VEC(int64_t) sizes; // by symbol, as far as it was needed: the number that the caller gave, or -1
    Map known;          // by graph: what nodes are with the values that the caller gave (onnx_known.c)
    uint64_t fold_work; // what evaluating constants has cost so far
    uint64_t made;      // elements of constants that are not in the file
    uint64_t unrolled;  // bytes of loop bodies that were imported again and again
    uint64_t inlined;   // nodes in bodies of functions and in sub-graphs that became part of a graph
    Map functions;      // by domain, name and overload, their indices; filled when first needed
    Map defaults;       // of attributes of functions: by their bytes in the file, Onnx__AttributeProto
    Map io_names;       // names of inputs and outputs, of the model and of the tensors that they consist of
    Map related;        // symbols that stand for expressions over others (--dim S=P+T)
    VEC(OnnxFewBits)
    few_bits;
    VEC(OnnxSizeNode)
    size_nodes;      // so that what is made of such a size again has the same one
    Map dequantised; // by graph and node, OnnxDequantised (onnx_qdq.c)
    Map missing;     // operators that were reported as unsupported
    Map orders;      // by list of nodes in the file, the order to import them in (onnx_order.c)
} OnnxModel;

typedef struct OnnxNode OnnxNode;

// A call of a function of the model: what its body refers to.
typedef struct OnnxCall OnnxCall;
struct OnnxCall {
    const OnnxCall *outer; // the call in whose body this one is
    const Onnx__FunctionProto *function;
    OnnxNode *node; // the node that calls
    int64_t opset;  // of the default domain, in the body
};

// Names of values. A branch that is known to be taken has a scope of its own in the graph of its parent; so
// does the body of a function, but without a parent: it sees its inputs only.
typedef struct OnnxScope OnnxScope;
struct OnnxScope {
    OnnxModel *model;
    OnnxScope *parent;
    const OnnxCall *call; // of the outermost scope of a function's body
    Graph *graph;
    OnnxCaptures *captures; // values that come from the parent's graph; NULL when that is this graph
    uint32_t depth;
    const Onnx__GraphProto *proto; // once its nodes are imported
    bool has_declared;
    Map declared; // names to what the model says about their types (onnx_declared.c); filled when needed
    Map names;    // to indices of values
    VEC(OnnxValue)
    values;
};

// One node of the model while it is imported.
struct OnnxNode {
    OnnxModel *model;
    OnnxScope *scope;
    Graph *graph;
    const Onnx__NodeProto *proto;
    const char *op, *label;
    OpId row_op; // the op of ours that its row names, or OP_none
    int64_t opset;
    Span span;
    uint32_t n_in, n_out;
    OnnxValue *in, *out;
    bool *in_used, *attr_used;
    bool failed;
};

// --- errors ---
// "node 'conv_3': Conv: ..."; marks the node as failed and returns false.
bool onnx_fail(OnnxNode *n, DiagCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// A warning with the same beginning; the same words are said once, as bodies of loops are imported again.
void onnx_warn_once(OnnxNode *n, DiagCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// Repeats what a trial recorded.
void onnx_pass_on(OnnxNode *n, const Diag *from);

// --- operands (onnx_node.c) ---
bool onnx_has(const OnnxNode *n, uint32_t i);
// The node of an operand. onnx_src reports an absent one, onnx_opt returns 0 for it.
NodeId onnx_src(OnnxNode *n, uint32_t i);
NodeId onnx_opt(OnnxNode *n, uint32_t i);
// An operand of any kind, for the few operators that take more than tensors of numbers: those that read a
// node get an error for a sequence, an optional without a value or strings.
OnnxValue onnx_any(OnnxNode *n, uint32_t i);
// A sequence of known number. NULL: it is none (reported).
const OnnxList *onnx_list(OnnxNode *n, uint32_t i);
// Marks an operand as seen without reading it.
void onnx_skip(OnnxNode *n, uint32_t i);
// The content of an operand that shapes the result. False: it is not known before the model runs (reported).
// What is computed from inputs whose values the caller gave is known: it is assumed, with a check.
bool onnx_src_dims(OnnxNode *n, uint32_t i, OnnxDims *out);
bool onnx_src_ints(OnnxNode *n, uint32_t i, OnnxInts *out);
// The content of an operand if it is known: no error when it is not. Does not mark it as seen.
bool onnx_peek_dims(OnnxNode *n, uint32_t i, OnnxDims *out);
// Known operands of any size and type: constants, and what the caller's values decide. No error where they
// are not known. onnx_number: with one element.
bool onnx_assume(OnnxNode *n, uint32_t i, Tensor *out);
bool onnx_number(OnnxNode *n, uint32_t i, double *out);
// Like onnx_assume, for any value; name is for the message of the check.
bool onnx_assume_value(OnnxNode *n, OnnxValue *v, const char *name, Tensor *out);
// Reports that an operand is not known, and what would help. False.
bool onnx_fail_unknown(OnnxNode *n, uint32_t i);
// A condition that must be true at run time: bool with one element.
void onnx_require(OnnxNode *n, NodeId cond, const char *message);
// True when all elements are: one element.
NodeId onnx_all(OnnxNode *n, NodeId cond);
// Type and shape of any node; f32[] for 0, so that failed nodes can be asked.
const Shape *onnx_shape(const OnnxNode *n, NodeId id);
DType onnx_dtype(const OnnxNode *n, NodeId id);
// The size of an axis that must be a constant; 0 on failure.
int64_t onnx_const_dim(OnnxNode *n, NodeId id, uint32_t axis);
// An axis in [0, rank), from one that may count from the back. False: reported.
bool onnx_axis(OnnxNode *n, int64_t axis, uint32_t rank, uint32_t *out);

// --- attributes (onnx_node.c) ---
bool onnx_has_attr(const OnnxNode *n, const char *name);
int64_t onnx_int(OnnxNode *n, const char *name, int64_t dflt);
// An attribute that is 0 or 1; another number counts as 1, with a warning.
bool onnx_flag(OnnxNode *n, const char *name, bool dflt);
double onnx_float(OnnxNode *n, const char *name, double dflt);
// The attribute as text in the arena.
const char *onnx_str(OnnxNode *n, const char *name, const char *dflt);
// Which of these words a string is, from 0; the first one is the default. 0 as well for others (reported).
uint32_t onnx_word(OnnxNode *n, const char *name, const char *const *words, uint32_t count);
#define ONNX_WORD(n, name, ...)                                                                              \
    onnx_word(n, name, (const char *const[]){__VA_ARGS__},                                                   \
              (uint32_t)(sizeof(const char *const[]){__VA_ARGS__} / sizeof(char *)))
// False: the attribute is missing (reported).
bool onnx_need_attr(OnnxNode *n, const char *name);
// False when it is not given, out then is empty.
bool onnx_ints(OnnxNode *n, const char *name, OnnxInts *out);
bool onnx_dims_attr(OnnxNode *n, const char *name, OnnxDims *out); // the same as sizes
bool onnx_strs(OnnxNode *n, const char *name, uint32_t *count, const char **out, uint32_t max);
const Onnx__TensorProto *onnx_tensor(OnnxNode *n, const char *name);
const Onnx__GraphProto *onnx_graph(OnnxNode *n, const char *name);
const Onnx__AttributeProto *onnx_attr(OnnxNode *n, const char *name);
// An element type as ONNX numbers it.
DType onnx_type_attr(OnnxNode *n, const char *name, DType dflt);
// The entries of a list of strings. They may have zero bytes.
const ProtobufCBinaryData *onnx_strings(OnnxNode *n, const char *name, size_t *count);
// Attributes that say nothing about the result.
void onnx_ignore_attr(OnnxNode *n, const char *name);

// --- building (onnx_build.c): as in ir/graph/graph.h, but constants are evaluated at once ---
NodeBuild onnx_begin(OnnxNode *n, OpId op, const NodeId *src, uint32_t count);
#define ONNX_BEGIN(n, op, ...) /* on the operands that follow; 0 stands for one that is left out */          \
    onnx_begin(n, op, (const NodeId[]){__VA_ARGS__},                                                         \
               (uint32_t)(sizeof(const NodeId[]){__VA_ARGS__} / sizeof(NodeId)))
NodeId onnx_end(OnnxNode *n, NodeBuild *b);
NodeId onnx_op1(OnnxNode *n, OpId op, NodeId a);
NodeId onnx_op2(OnnxNode *n, OpId op, NodeId a, NodeId b);
NodeId onnx_op3(OnnxNode *n, OpId op, NodeId a, NodeId b, NodeId c);
// The op on one operand, with one attribute.
NodeId onnx_op_int(OnnxNode *n, OpId op, NodeId a, AttrId id, int64_t v);
NodeId onnx_op_ints(OnnxNode *n, OpId op, NodeId a, AttrId id, const int64_t *v, uint32_t count);
NodeId onnx_scalar(OnnxNode *n, DType t, double v);
NodeId onnx_scalar_like(OnnxNode *n, NodeId like, double v); // of the type of `like`
NodeId onnx_op_number(OnnxNode *n, OpId op, NodeId a, double v);
// The op on two optional operands, or the operand that is there.
NodeId onnx_join(OnnxNode *n, OpId op, NodeId a, NodeId b);
NodeId onnx_softmax(OnnxNode *n, NodeId x, int64_t axis);
NodeId onnx_cumsum(OnnxNode *n, NodeId x, int64_t axis, bool is_exclusive);
// a [B, Hq, S, D] by b [B, Hkv, ...] for heads in groups of Hq / Hkv that share a head of b: [B, Hq, S,
// last].
// rope: cosine and sine broadcast to x but for its last axis, or are tables whose rows `positions` names.
typedef struct OnnxRope {
    NodeId x, cosine, sine, positions;
    int64_t turned; // elements of a head; 0: all
    bool is_interleaved;
} OnnxRope;
NodeId onnx_rope(OnnxNode *n, const OnnxRope *r);
NodeId onnx_grouped_matmul(OnnxNode *n, NodeId a, NodeId b, bool transpose_b);
// x behind what operand `past` has of it, which also goes out as result `present` (onnx_attention.c).
NodeId onnx_with_past(OnnxNode *n, uint32_t past, uint32_t present, NodeId x);
// The last axis to axis 1, or from there to the end.
NodeId onnx_move_channels(OnnxNode *n, NodeId x, bool to_front);
NodeId onnx_ints_const(OnnxNode *n, const int64_t *v, uint32_t count);
NodeId onnx_cast(OnnxNode *n, NodeId a, DType to);
NodeId onnx_bitcast(OnnxNode *n, NodeId a, DType to);
// Casts as the operator Cast does (onnx_cast.c): saturate is for 8-bit floats, mode ("up", "down", "nearest")
// for f8e8m0.
NodeId onnx_cast_mode(OnnxNode *n, NodeId a, DType to, bool saturate, const char *mode);
NodeId onnx_reshape(OnnxNode *n, NodeId a, const Shape *s);
NodeId onnx_reshape_to(OnnxNode *n, NodeId a, const Dim *dims, uint32_t rank); // may have 0 and -1
NodeId onnx_transpose(OnnxNode *n, NodeId a, const int64_t *perm);
NodeId onnx_expand(OnnxNode *n, NodeId a, const Dim *dims, uint32_t rank);
NodeId onnx_unsqueeze(OnnxNode *n, NodeId a, const int64_t *axes, uint32_t count);
NodeId onnx_squeeze(OnnxNode *n, NodeId a, const int64_t *axes, uint32_t count);
NodeId onnx_reduce(OnnxNode *n, OpId op, NodeId a, const int64_t *axes, uint32_t count); // keeps the axes
NodeId onnx_concat(OnnxNode *n, const NodeId *src, uint32_t count, int64_t axis);
// Joins any number of operands, at least one; src is overwritten.
NodeId onnx_concat_many(OnnxNode *n, NodeId *src, uint32_t count, int64_t axis);
NodeId onnx_slice(OnnxNode *n, NodeId a, int64_t axis, int64_t start, int64_t end, int64_t step);
NodeId onnx_gather(OnnxNode *n, NodeId a, NodeId indices, int64_t axis);
// The elements of x that indices of its rank name along an axis.
NodeId onnx_gather_along(OnnxNode *n, NodeId x, NodeId indices, uint32_t axis);
NodeId onnx_result(OnnxNode *n, NodeId a, uint32_t index);
NodeId onnx_matmul(OnnxNode *n, NodeId a, NodeId b, bool transpose_a, bool transpose_b);
// Whether softmax is built of steps that round to the type (onnx_norm.c), and these steps.
bool onnx_steps_softmax(const OnnxNode *n, NodeId x, int64_t axis);
NodeId onnx_softmax_steps(OnnxNode *n, NodeId x, int64_t axis);
// Larger kernels, strides and dilations are mistakes; with this limit no product of them and a size
// overflows.
enum { ONNX_MAX_STEP = 1 << 20 };
// A list of `count` entries, each from dflt to ONNX_MAX_STEP (onnx_window.c).
void onnx_steps(OnnxNode *n, const char *name, int64_t *out, uint32_t count, int64_t dflt);
// A convolution with the window attributes of the node (onnx_window.c).
NodeId onnx_conv(OnnxNode *n, NodeId x, NodeId weight, NodeId bias);
// src: the five operands of int_conv, of which the last three may be 0.
NodeId onnx_int_conv(OnnxNode *n, const NodeId *src);
// 0, 1, ... count - 1 as i64; count may be symbolic.
NodeId onnx_iota(OnnxNode *n, Dim count);
NodeId onnx_dim_value(OnnxNode *n, Dim d); // i64[]
// Counts elements that an import function is about to make. False: too many (reported).
bool onnx_spend(OnnxNode *n, int64_t elements);
// A constant of any size from bytes that live as long as the graph.
NodeId onnx_const(OnnxNode *n, DType t, const Shape *s, const void *data, uint64_t bytes);

// --- parts of an axis (onnx_move.c) ---
// Sizes of `count` parts of an axis of this size that no number is known for: expressions, or entries of the
// list in operand 1 that the model computes, each of which is a size of its own. False: they are numbers, or
// it failed.
bool onnx_open_parts(OnnxNode *n, uint32_t axis, Dim size, uint32_t count, Dim *part);
// These parts: each begins where the sizes before it end.
void onnx_split_open(OnnxNode *n, NodeId x, uint32_t axis, uint32_t count, const Dim *part, OnnxValue *out);

// --- results ---
void onnx_out(OnnxNode *n, uint32_t i, NodeId id);
void onnx_out_any(OnnxNode *n, uint32_t i, OnnxValue v);
// A sequence of values that are copied.
void onnx_out_list(OnnxNode *n, uint32_t i, DType dtype, bool is_text, const OnnxValue *v, uint32_t count);
bool onnx_wants(const OnnxNode *n, uint32_t i);
// Dims become a constant when all of them are constants.
void onnx_out_dims(OnnxNode *n, uint32_t i, const OnnxDims *dims);

// --- values (onnx_value.c) ---
// Names of a scope. put: false when the name is taken (reported). get: absent for "", broken (reported) when
// unknown.
bool onnx_put(OnnxScope *s, const char *name, OnnxValue v, Span span);
OnnxValue onnx_get(OnnxScope *s, const char *name, Span span, const char *user);
// The node of a value, made from dims where there is none yet. 0: broken.
NodeId onnx_value_node(OnnxScope *s, OnnxValue *v, Span span);
// The content of a value where it is known.
bool onnx_value_dims(const OnnxScope *s, const OnnxValue *v, OnnxDims *out);
static inline bool onnx_is_sequence(OnnxValue v)
{
    return v.kind == ONNX_LIST || v.kind == ONNX_ROWS;
}
static inline OnnxValue onnx_value(NodeId id)
{
    return (OnnxValue){.kind = id ? ONNX_NODE : ONNX_BROKEN, .node = id};
}

// --- dims (onnx_dims.c): operands with symbolic content ---
// True when the row of the op computed its results on dims.
bool onnx_import_dims(OnnxNode *n);

// --- tensors, types, graphs ---
// ONNX's number of an element type. False: rlxc has no such type.
bool onnx_dtype_of(int32_t onnx, DType *out);
const char *onnx_dtype_text(int32_t onnx);
// A constant node. 0: reported, with `what` in front.
NodeId onnx_tensor_const(OnnxModel *m, Graph *g, const Onnx__TensorProto *t, const char *what, Span span);
// The same; also of strings.
OnnxValue onnx_tensor_value(OnnxModel *m, Graph *g, const Onnx__TensorProto *t, const char *what, Span span);
// Evaluates a node whose operands are constants, where the result is small; else the node itself.
NodeId onnx_fold(OnnxModel *m, Graph *g, NodeId id);
// The parts of a graph or sub-graph, into s. False: something failed (reported); the rest was imported.
bool onnx_import_initializers(OnnxScope *s, const Onnx__GraphProto *g);
bool onnx_import_nodes(OnnxScope *s, const Onnx__GraphProto *g);
// The call in whose body the scope is; NULL: it is of the model's own graph.
const OnnxCall *onnx_scope_call(const OnnxScope *s);
// The opset of the default domain.
int64_t onnx_scope_opset(const OnnxScope *s);
// True when the node calls a function of the model, which then was imported.
bool onnx_import_call(OnnxNode *n);
// A node that the user has declared (import.h).
void onnx_import_custom(OnnxNode *n);
// The value of an attribute in a function for calls that do not give it; NULL: there is none.
const Onnx__AttributeProto *onnx_function_default(OnnxModel *m, const Onnx__FunctionProto *f,
                                                  const char *name);
const Onnx__FunctionProto *onnx_find_function(OnnxModel *m, const Onnx__NodeProto *n);
// Imports a sub-graph into the graph of the node, with values for its inputs. False: reported. (onnx_flow.c)
bool onnx_inline_graph(OnnxNode *n, const Onnx__GraphProto *g, const OnnxValue *args, uint32_t n_args,
                       OnnxValue *out, uint32_t n_out);
// Counts nodes of a body that is about to be imported. False: too many (reported).
bool onnx_count_inlined(OnnxNode *n, size_t count);
// The inputs and outputs of the model (onnx_io.c). False: reported.
bool onnx_import_inputs(OnnxScope *s, const Onnx__GraphProto *g);
bool onnx_import_outputs(OnnxScope *s, const Onnx__GraphProto *g, Span span);
// What the caller knows of the inputs (onnx_given.c): numbers for sizes, before inputs are imported; values
// of inputs, afterwards. False: wrong (reported).
bool onnx_read_sizes(OnnxModel *m, Graph *graph, const Onnx__GraphProto *g, Span span);
bool onnx_read_values(OnnxModel *m, Graph *g);
// The shape that the caller gives for an input, or NULL.
const ImportShape *onnx_given_shape(const OnnxModel *m, const char *name);
// Puts the range that the caller gives for a symbol. False: wrong (reported).
bool onnx_narrow(OnnxModel *m, Symbol *s);
const char *onnx_tensor_text(Arena *a, const Tensor *t);
// The value of an input; where the inputs of a sub-graph come from. onnx_known: a node as far as that
// decides about it.
void onnx_know(OnnxModel *m, Graph *g, NodeId input, const Tensor *t);
void onnx_know_captures(OnnxModel *m, Graph *g, Graph *outer, const OnnxCaptures *captures);
bool onnx_known(OnnxModel *m, const Graph *g, NodeId id, Tensor *out);
// The number that the caller gives for a size, or -1.
int64_t onnx_given_size(const OnnxModel *m, const char *name);
// Is there a symbol in it that is set between runs?
bool onnx_stays_open(const OnnxModel *m, const DimTable *t, Dim d);
// The least value of a symbol of that name: 1, as nothing is empty unless the caller says so.
int64_t onnx_least_size(const OnnxModel *m, const char *name);
// All that --dim says about a symbol; NULL: nothing.
int64_t onnx_given_bound(const OnnxModel *m, const char *name); // of a computed size: the largest; or -1
const ImportSize *onnx_find_size(const OnnxModel *m, const char *name);
// How many tensors the caller gives for the optional or sequence NAME: NAME itself or NAME_0, NAME_1 ...;
// -1: it gives no inputs.
int64_t onnx_given_parts(const OnnxModel *m, const char *name, bool is_sequence);
// The shape that the model declares, with its symbols. False: there is none that could be used.
bool onnx_declared_shape(OnnxModel *m, Graph *g, const Onnx__ValueInfoProto *v, Shape *out);
// Counts the work of evaluating a node whose operands have known sizes; trips: of a loop, at most. False: too
// much.
bool onnx_spend_fold(OnnxModel *m, const Graph *g, NodeId id, int64_t trips);
// Counts work in units of eval_work.
bool onnx_spend_work(OnnxModel *m, uint64_t work);
// What the model declares about a value of the scope's graph, or NULL; its shape, where all sizes are
// numbers; the rank of result i, -1: it does not say (onnx_declared.c).
const Onnx__ValueInfoProto *onnx_find_declared(OnnxScope *s, const char *name);
bool onnx_declared_numbers(const Onnx__ValueInfoProto *v, Shape *out);
int64_t onnx_declared_rank(OnnxNode *n, uint32_t i);
// Warns where the shape of a result contradicts what the model declares.
void onnx_check_declared(OnnxNode *n);
// Operands that are not known, but whose effect the model declares (onnx_promise.c). The first ones make the
// operand known for this node; the others say whether they made the result. All are silent where they cannot.
void onnx_promise_shape(OnnxNode *n, uint32_t operand); // the operand is the shape of result 0
void onnx_promise_reshape(OnnxNode *n, bool allow_zero);
void onnx_promise_expand(OnnxNode *n);
void onnx_promise_tile(OnnxNode *n);
void onnx_promise_size(OnnxNode *n, uint32_t operand, int64_t axis); // the size of an axis of result 0
void onnx_promise_split(OnnxNode *n, uint32_t axis);
bool onnx_promise_axes(OnnxNode *n, bool inserts, NodeId *out);
bool onnx_promise_range(OnnxNode *n, Dim *count);
bool onnx_promise_slice(OnnxNode *n, NodeId *out);
bool onnx_promise_pad(OnnxNode *n, const char *mode, NodeId value, NodeId *out);
// The type of a graph input. False: reported.
bool onnx_input_type(OnnxModel *m, Graph *g, const Onnx__ValueInfoProto *v, TensorType *out, Span span);

// --- sizes that the model computes (onnx_select.c) ---
#define ONNX_NO_BOUND DIM_SYMBOLIC_BELOW
// A size with the value of an i64 scalar, at most max; `out` and `axis` say where it first is, for its name.
Dim onnx_extent(OnnxNode *n, uint32_t out, uint32_t axis, NodeId value, Dim max);
// What a size is at least: of computed ones, what the user says (--dim NAME=LEAST..MOST), which runs check.
int64_t onnx_least(const OnnxNode *n, Dim d);
// Reshape of numbers to computed sizes: it fits only where these are the largest possible. False: reported.
bool onnx_sizes_fit(OnnxNode *n, NodeId x, const OnnxDims *shape);
// Like onnx_src_dims for a list of sizes; those that the model computes become such symbols where the caller
// says how large they can be.
bool onnx_src_sizes(OnnxNode *n, uint32_t i, OnnxDims *out);
// Entry k of a list, i64[].
NodeId onnx_list_entry(OnnxNode *n, NodeId list, uint32_t k);
// Slice and Tile by numbers that the model computes (onnx_open.c). False: all are known.
bool onnx_slice_open(OnnxNode *n, NodeId x, NodeId *out);
bool onnx_tile_open(OnnxNode *n, NodeId x, NodeId *out);
// The number that a node has: casts, other ranks and slices of one number do not change it.
NodeId onnx_number_of(const Graph *g, NodeId id);
// Is it a number + 1? *less: that number.
bool onnx_is_one_more(const Graph *g, NodeId id, NodeId *less);
// Is `end` written as start + 1, or as the smaller one of that and a size, as exporters write assignments to
// one row? Then the run must take one element, `count` of them.
bool onnx_takes_one(OnnxNode *n, NodeId start, NodeId end);
void onnx_require_one(OnnxNode *n, NodeId count);
// Does the caller say how large the first axis of the result can be?
bool onnx_has_bound(OnnxNode *n);
Dim onnx_range_extent(OnnxNode *n, NodeId start, NodeId limit, NodeId step);

// --- the table (onnx_ops.c) ---
typedef struct OnnxOp {
    const char *domain, *name;
    int32_t min, max; // opsets; max 0 = no limit
    OpId op;          // the op of ours that the row names, or OP_none
    void (*import)(OnnxNode *n);
} OnnxOp;

// The row for a node. NULL: its operator is not supported (reported once per operator).
const OnnxOp *onnx_node_op(const OnnxScope *s, const Onnx__NodeProto *n);
// The version of the node's domain.
int64_t onnx_node_opset(const OnnxScope *s, const Onnx__NodeProto *n);
// Reports unsupported operators in the sub-graphs of a node that cannot be imported.
void onnx_check_graphs(const OnnxScope *s, const Onnx__NodeProto *n, uint32_t depth);
// The name of a node, or of its first output when it has none.
const char *onnx_node_label(const Onnx__NodeProto *n);
// A name, or "" for NULL.
static inline const char *onnx_text(const char *s)
{
    return s ? s : "";
}

#define ONNX_ROW(domain, name, min, max, fn, op) void onnx_import_##fn(OnnxNode *n);
#include "compiler/import/onnx/onnx_ops.def"

#endif
