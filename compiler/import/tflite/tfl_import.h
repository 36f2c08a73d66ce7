// SPDX-License-Identifier: Apache-2.0
// What the files of the .tflite importer share. An operator of the model is imported by one function, found
// in tfl_ops.def, which reads operands and options through the helpers below and leaves its results by
// tfl_out. The helpers report what is wrong, mark the operator as failed and return 0 or a default; once it
// has failed they do nothing more, so that import functions need no error paths. What a function does not ask
// for (an operand, an option, a result) is reported as unsupported when it returns: nothing is ignored by
// accident.
#ifndef COMPILER_IMPORT_TFLITE_TFL_IMPORT_H
#define COMPILER_IMPORT_TFLITE_TFL_IMPORT_H

#include "base/map.h"
#include "compiler/import/tflite/tfl_file.h"
#include "compiler/import/tflite/tflite.h"
#include "ir/graph/tensor.h"

enum { TFL_MAX_LIST = 64, TFL_MAX_DEPTH = 16, TFL_MAX_IMPORTED = 1 << 18, TFL_MAX_FOLD = 4096 };
enum { TFL_VALID = 1 }; // padding of windows; 0 is SAME

// A variable: a tensor of the file that keeps its value, or one that operators read and write by a handle.
typedef struct TflVariable {
    const char *name;
    bool is_handle;
    NodeId first;     // the constant that an initialising sub-graph gave it; 0: zeros
    NodeId leaf, now; // the state, and what it has become so far; 0: not read yet
    NodeId assigned;  // what was assigned, perhaps before it was read
} TflVariable;

typedef struct TflModel {
    Arena *arena;
    Diag *diag;
    uint32_t span_file;
    const TflSource *source;
    TflFile file;
    VEC(TflVariable) variables;
    uint64_t work, made; // spent on constants: units of evaluation, elements
    uint64_t n_imported; // operators, each as often as it was imported
    Map sizes;           // by graph and node: the symbolic size that the node is the value of (tfl_dims.c)
    const TflSignature *signature; // that names inputs and outputs; NULL: tensors' names do
} TflModel;

// A sub-graph while it is imported, into a graph of its own or as a part of another.
typedef struct TflScope {
    TflModel *model;
    Graph *graph;
    const TflGraph *of;
    NodeId *values;    // by tensor: 0 none yet
    uint32_t *handles; // by tensor: the variable that it is the handle of, plus 1
    uint32_t depth;
    bool has_states; // the graph is the model's own
    bool is_first;   // it gives variables their first values
} TflScope;

typedef struct TflNode TflNode;
typedef struct TflOp {
    int32_t code;
    const char *name;
    int32_t options; // number of its table in the schema's union; 0: it has none
    bool is_new;     // the union is BuiltinOptions2
    OpId op;         // for functions that serve several operators
    void (*import)(TflNode *n);
} TflOp;

struct TflNode {
    TflModel *model;
    TflScope *scope;
    Graph *graph;
    const TflOp *op;
    const char *label;
    Span span;
    FlatTable options;
    uint64_t options_used; // by field
    FlatList custom;       // of custom operators: their options, bytes
    uint32_t n_in, n_out;
    int64_t *in, *out; // tensors; -1: absent
    bool *in_used;
    bool failed;
};

// The row of an operator, and of a custom one. NULL: unknown.
const TflOp *tfl_op_find(int32_t code);
const TflOp *tfl_op_named(const char *name);
// The declaration of a custom operator (--custom), NULL: there is none of that name.
const struct CustomDecl *tfl_custom_find(const TflModel *m, const char *name);
void tfl_import_custom(TflNode *n);
// A number among the options of a custom operator. False: there is none of that name.
bool tfl_custom_number(const TflNode *n, const char *name, double *out);

// --- errors: "operator 3 (CONV_2D, 'x'): ..."; they return false ---
bool tfl_fail(TflNode *n, DiagCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// --- operands ---
bool tfl_has(const TflNode *n, uint32_t i);
// What the file says about operand or result i; never NULL (a tensor without a type after a failure).
const TflTensor *tfl_in(TflNode *n, uint32_t i);
const TflTensor *tfl_of_out(TflNode *n, uint32_t i);
NodeId tfl_src(TflNode *n, uint32_t i);
NodeId tfl_opt(TflNode *n, uint32_t i); // 0: absent
// Complex numbers: f32, with an axis for their parts behind the others. Only few operators take them.
bool tfl_is_complex(TflNode *n, uint32_t i);
NodeId tfl_src_complex(TflNode *n, uint32_t i);
void tfl_skip(TflNode *n, uint32_t i);  // its value does not matter
// All elements of a sparse constant (tfl_sparse.c). NULL: reported.
const void *tfl_sparse_values(TflNode *n, const TflTensor *t);
// Integers that are known at import: at most TFL_MAX_LIST of them. False: they are not (reported).
bool tfl_src_ints(TflNode *n, uint32_t i, int64_t *out, uint32_t *count);
// The same; sizes may be symbolic.
bool tfl_src_dims(TflNode *n, uint32_t i, Dim *out, uint32_t *count);
// The shape of the result, as an operand says it. Where the model computes it, it is the one that the file
// says, and a run in which it is another one fails.
bool tfl_src_shape(TflNode *n, uint32_t i, Dim *out, uint32_t *count);
int64_t tfl_src_int(TflNode *n, uint32_t i); // of one element
// An axis of operand i as operand k says, or as a number; 0 after a failure.
uint32_t tfl_axis(TflNode *n, int64_t axis, uint32_t rank);
const Shape *tfl_shape(const TflNode *n, NodeId id);
DType tfl_type(const TflNode *n, NodeId id);
uint32_t tfl_rank(const TflNode *n, NodeId id);
int64_t tfl_size(TflNode *n, NodeId id, uint32_t axis); // a number, else it fails
// A tensor that another operator reads later: writes what a variable tensor (an operand) becomes.
void tfl_write(TflNode *n, uint32_t i, NodeId id);

// --- options, by their number in the schema ---
int64_t tfl_option(TflNode *n, uint32_t field, FlatInt type, int64_t dflt);
double tfl_option_f32(TflNode *n, uint32_t field, double dflt);
bool tfl_option_ints(TflNode *n, uint32_t field, int64_t *out, uint32_t *count);
const float *tfl_option_floats(TflNode *n, uint32_t field, uint32_t *count);
const char *tfl_option_text(TflNode *n, uint32_t field);
void tfl_ignore(TflNode *n, uint32_t field); // says nothing about the result

// --- results ---
// It must have the element type that the file says.
void tfl_out(TflNode *n, uint32_t i, NodeId id);
void tfl_out_complex(TflNode *n, uint32_t i, NodeId id);

// --- building: as in ir/graph/graph.h, but small constants are evaluated at once ---
NodeBuild tfl_begin(TflNode *n, OpId op);
NodeId tfl_end(TflNode *n, NodeBuild *b);
NodeId tfl_op1(TflNode *n, OpId op, NodeId a);
NodeId tfl_op2(TflNode *n, OpId op, NodeId a, NodeId b);
NodeId tfl_op3(TflNode *n, OpId op, NodeId a, NodeId b, NodeId c);
NodeId tfl_number(TflNode *n, DType t, double v);
NodeId tfl_op_number(TflNode *n, OpId op, NodeId a, double v);
NodeId tfl_clamp(TflNode *n, NodeId x, double lo, double hi);
NodeId tfl_const(TflNode *n, DType t, const Shape *s,
                 const void *data);                                     // data must live as long as the graph
NodeId tfl_ints(TflNode *n, DType t, const int64_t *v, uint32_t count); // [count]
NodeId tfl_counted(TflNode *n, int64_t count);                          // i64: 0, 1 .. count - 1
NodeId tfl_cast(TflNode *n, NodeId a, DType to);
NodeId tfl_reshape(TflNode *n, NodeId a, const Dim *dims, uint32_t rank); // one may be -1
NodeId tfl_reshape_like(TflNode *n, NodeId a, const Shape *s);
NodeId tfl_transpose(TflNode *n, NodeId a, const int64_t *perm);
NodeId tfl_expand(TflNode *n, NodeId a, const Dim *dims, uint32_t rank);
NodeId tfl_reduce(TflNode *n, OpId op, NodeId a, const int64_t *axes, uint32_t count, bool keeps);
NodeId tfl_concat(TflNode *n, const NodeId *src, uint32_t count, int64_t axis);
NodeId tfl_slice(TflNode *n, NodeId a, int64_t axis, int64_t start, int64_t end, int64_t step);
NodeId tfl_gather(TflNode *n, NodeId a, NodeId indices, int64_t axis);
NodeId tfl_result(TflNode *n, NodeId a, uint32_t index);
NodeId tfl_matmul(TflNode *n, NodeId a, NodeId b, bool transpose_a, bool transpose_b);
NodeId tfl_pad(TflNode *n, NodeId a, const int64_t *pads, const char *mode, NodeId value);
NodeId tfl_dim_value(TflNode *n, Dim d, DType t); // a scalar
void tfl_dim_remember(TflNode *n, NodeId id, Dim d);
// The content of a small integer tensor, symbolic where it follows from open sizes. False: it is not known.
bool tfl_known_dims(TflNode *n, NodeId id, Dim *out, uint32_t *count);
// Between images as the file has them, [N, spatial, C], and as products over windows want them, [N, C,
// spatial].
NodeId tfl_to_channels(TflNode *n, NodeId x);
NodeId tfl_from_channels(TflNode *n, NodeId x);
// Counts elements that an import function makes. False: too many (reported).
bool tfl_spend(TflNode *n, uint64_t elements);

// --- quantised values (tfl_quant.c) ---
typedef struct TflQuant {
    double scale; // an f32
    int64_t zero;
} TflQuant;
// Is it a quantised integer?
bool tfl_is_quantised(const TflTensor *t);
// Of a tensor with one scale; fails otherwise.
TflQuant tfl_quant(TflNode *n, const TflTensor *t);
bool tfl_same_quant(const TflTensor *a, const TflTensor *b);
// For operators that move elements as they are: fails where operand i has another scale than the result.
void tfl_same_scale(TflNode *n, uint32_t i);
// Entry i of the scales of a tensor, or the only one.
double tfl_scale_at(const TflTensor *t, uint32_t i);
// (x - zero) * scale in f32, along the axis of the tensor where it has several scales.
NodeId tfl_dequantise(TflNode *n, NodeId x, const TflTensor *t);
// round(x / scale) + zero in the type of the tensor, within it: halves go to even.
NodeId tfl_quantise(TflNode *n, NodeId x, const TflTensor *t);
// x, a number of steps of result t as f32, rounded (halves to even), with the zero point, clamped as the
// activation says.
NodeId tfl_from_steps(TflNode *n, NodeId x, const TflTensor *t, int64_t activation);
// The least and greatest integer of a quantised result after an activation.
typedef struct TflRange {
    int64_t lo, hi;
} TflRange;
TflRange tfl_range(TflNode *n, const TflTensor *t, int64_t activation);
// An integer (not yet with zero point) with the zero point of t, clamped, in its type.
NodeId tfl_finish(TflNode *n, NodeId x, const TflTensor *t, int64_t activation);
// The same of an integer that has it.
NodeId tfl_saturate(TflNode *n, NodeId x, const TflTensor *t, int64_t activation);
// A real factor as a 31-bit one and a power of two: factor = multiplier * 2^(shift - 31).
typedef struct TflFactor {
    int32_t multiplier, shift;
    bool is_upward; // the second rounding is to the upper neighbour where gemmlowp's is away from zero
} TflFactor;
TflFactor tfl_factor(double real);
// The i32 x times a factor, by the rule of gemmlowp: doubled high product, then shift, both rounding.
NodeId tfl_scaled(TflNode *n, NodeId x, TflFactor f);
NodeId tfl_scaled_by(TflNode *n, NodeId x, const TflFactor *f, const Shape *s); // factors of that shape
int32_t tfl_scaled_number(int32_t x, TflFactor f);
// A sum in i64 times factors that have 16 bits (is_narrow: 31), rounded once, halves up.
NodeId tfl_scaled_wide(TflNode *n, NodeId sum, const TflFactor *f, const Shape *s, bool is_narrow);
// How a sum of products becomes a quantised result.
typedef enum TflRounding {
    ROUND_BY_TYPE, // what the types of operands and of sums ask for
    ROUND_REAL,    // by an f32, halves to even
    ROUND_TWICE,   // by 31 bits and a power of two, the rule of gemmlowp
    ROUND_UP,      // the same, halves up
    ROUND_EIGHTS,  // ROUND_UP in the channels that make up whole eights, ROUND_TWICE in the rest
    ROUND_ONCE,    // by 31 bits, once, halves up
    ROUND_SHORT    // by 16 bits, once, halves up
} TflRounding;
// A sum of products x * w with its bias as a quantised result. The channels stand `ones` axes before the
// last.
typedef struct TflProduct {
    const TflTensor *x, *w;
    int64_t channels;
    uint32_t ones;
    int64_t activation;
    bool is_narrow; // sums of 16-bit operands that are i32
    int64_t copies; // how often the channels follow each other; 0 counts as 1
    bool is_matrix; // no convolution: where there is one scale, those of x and w are multiplied in f32
    TflRounding rounding; // of LiteRT's default path; --rounding double has its own
} TflProduct;
// Does the type of the bias, or of sums as the options say it, make sums of 16-bit operands i32?
bool tfl_is_narrow(TflNode *n, const TflTensor *x, uint32_t bias, int64_t type);
NodeId tfl_rescale(TflNode *n, NodeId sum, const TflProduct *p);
// The zero point, in the tensor's type; 0: none.
NodeId tfl_zero_point(TflNode *n, const TflTensor *t);
// An integer less its zero point, in a type in which that is exact.
NodeId tfl_centred(TflNode *n, NodeId x, const TflTensor *t, DType type);
static inline bool tfl_is_byte(DType t)
{
    return t == DTYPE_i8 || t == DTYPE_u8;
}
// Weights as reals of the type of x, whatever the file has.
NodeId tfl_float_weight(TflNode *n, NodeId weight, const TflTensor *t, NodeId x);
// Reals rounded to bytes by their own range over some axes, and products with quantised weights
// (tfl_hybrid.c).
NodeId tfl_dynamic(TflNode *n, NodeId x, const int64_t *axes, uint32_t count, NodeId *step);
NodeId tfl_dynamic_symmetric(TflNode *n, NodeId x, const int64_t *axes, uint32_t count, NodeId *step);
NodeId tfl_weight_scale(TflNode *n, const TflTensor *w, int64_t channels, uint32_t ones);
DType tfl_exact_type(int64_t taps);
NodeId tfl_activate(TflNode *n, NodeId x, int64_t activation); // of floats
// Results for each value of an 8-bit operand, by a table. value: of a real; whole: steps as a whole number
// (round: halves away from zero), has_zero: with the zero point, which is added before.
typedef struct TflCurve {
    double (*value)(TflNode *, double);
    double (*whole)(double);
    bool has_zero;
} TflCurve;
NodeId tfl_table(TflNode *n, NodeId x, const TflTensor *from, const TflTensor *to, TflCurve curve);
// The same from integers to integers: both less their zero points.
typedef int64_t TflSteps(const TflQuant *from, const TflQuant *to, int64_t x, double option);
NodeId tfl_integer_table(TflNode *n, NodeId x, TflSteps *value, double option);
// Another scale: the factor of the built-in kernels, rounded twice, from a ratio of scales in f32.
TflFactor tfl_ratio(const TflQuant *from, const TflQuant *to, double times);
int64_t tfl_rescaled(const TflQuant *from, const TflQuant *to, int64_t x, double option);
// XNNPACK's: a factor in 1/256 for each side (option: the slope below 0), halves up.
bool tfl_fits_256ths(const TflQuant *from, const TflQuant *to, double slope);
int64_t tfl_in_256ths(const TflQuant *from, const TflQuant *to, int64_t x, double slope);

// Places in the first k axes of shape s, lists of k numbers, as places in one axis (tfl_gather.c).
NodeId tfl_flat_places(TflNode *n, NodeId index, const Shape *s, uint32_t k);
// LOGISTIC and TANH of reals and bytes (tfl_unary.c).
void tfl_squash_bytes(TflNode *n);
// The sigmoid or tanh of 16-bit values of a scale, in steps of 1/32768 (tfl_wide.c).
NodeId tfl_squash_wide(TflNode *n, NodeId x, double scale, bool is_tanh);
// Rows [N, I] of bytes times weights [O, I]: exact sums in i32, [N, O] (tfl_matmul.c).
NodeId tfl_byte_rows(TflNode *n, NodeId rows, NodeId weight, NodeId bias, const TflTensor *x,
                     const TflTensor *w);
// The same of rows of 16 bits, in i64, of at most TFL_WIDE_MOST elements: upper and lower bytes apart.
enum { TFL_WIDE_MOST = 65536 };
NodeId tfl_wide_rows(TflNode *n, NodeId rows, NodeId weight, NodeId bias);
// An LSTM as a loop over its steps (tfl_lstm.c).
void tfl_lstm_steps(TflNode *n, bool is_time_major, double clip);

// Softmax of 16-bit values along the last axis (tfl_wide.c).
NodeId tfl_softmax_wide(TflNode *n, NodeId x, double beta);

// --- graphs (tflite.c) ---
// Imports a sub-graph into the graph of the scope, with these inputs. False: reported.
bool tfl_import_graph(TflScope *s, Span span, const NodeId *in, uint32_t n_in, NodeId *out, uint32_t n_out);
bool tfl_scope(TflScope *s, TflScope *outer, Graph *graph, const TflGraph *of);
const TflGraph *tfl_subgraph(TflNode *n, int64_t index);

#define TFL_OP(code, name, options, fn)     void tfl_import_##fn(TflNode *n);
#define TFL_NEW(code, name, options, fn)    void tfl_import_##fn(TflNode *n);
#define TFL_CUSTOM(name, fn)                void tfl_import_##fn(TflNode *n);
#define TFL_EW(code, name, options, fn, op) void tfl_import_##fn(TflNode *n);
#include "compiler/import/tflite/tfl_ops.def"

#endif
