// SPDX-License-Identifier: Apache-2.0
// The tensor graph: an append-only array of immutable, hash-consed nodes. Operands come before their users,
// so the array order is a topological order. Equal nodes are one node: common subexpressions merge by
// construction. Passes add new nodes and point the outputs at them; what no output reaches is dead, and
// graph_compact drops it.
#ifndef IR_GRAPH_GRAPH_H
#define IR_GRAPH_GRAPH_H

#include "ir/graph/dim.h"

typedef uint32_t NodeId; // 0 = none (an absent optional operand)

typedef enum DType {
#define DTYPE(name, bytes, bits, cls, onnx, st) DTYPE_##name,
#include "ir/graph/dtypes.def"
#undef DTYPE
    DTYPE_COUNT
} DType;

typedef enum DTypeClass { DCLASS_FLOAT, DCLASS_INT, DCLASS_UINT, DCLASS_BOOL } DTypeClass;

typedef struct DTypeInfo {
    const char *name;     // "f32"
    uint32_t bytes, bits; // bits < 8: one byte holds an element all the same
    DTypeClass cls;
    int32_t onnx; // TensorProto.DataType
    const char *safetensors;
} DTypeInfo;

extern const DTypeInfo dtype_info[DTYPE_COUNT];
// Types of 8 bits and fewer that no target computes with (float8, float4, int4 ...): they are stored, moved
// and cast, and everything else happens in dtype_wide.
static inline bool dtype_is_narrow(DType t)
{
    return t >= DTYPE_f8e4m3fn;
}
static inline DType dtype_wide(DType t)
{
    return !dtype_is_narrow(t) ? t : dtype_info[t].cls == DCLASS_FLOAT ? DTYPE_f32 : DTYPE_i32;
}
// "f32"; also "float32", "int64", "bool" ... as NumPy spells them
bool dtype_parse(const char *name, DType *out);

typedef enum OpId {
#define LEAF(name)       OP_##name,
#define EW(name, ...)    OP_##name,
#define OP(name, ...)    OP_##name,
#define SUGAR(name, ...) OP_##name,
#include "ir/graph/ops.def"
    OP_COUNT
} OpId;
// ops.def defines the row macros as nothing where the includer did not, and undefines all of them at its
// end.

typedef enum OpKind { OPKIND_LEAF, OPKIND_EW, OPKIND_CORE, OPKIND_SUGAR } OpKind;
typedef enum EwClass { EW_NONE, EW_ARITH, EW_FLOAT, EW_INTS, EW_LOGIC, EW_CMP, EW_TEST, EW_SEL } EwClass;
// The columns of ops.def, which says what they mean.
enum {
    OPFLAG_VIEW = 1,
    OPFLAG_PATCH = 2,
    OPFLAG_KEPT = 4,
    OPFLAG_SIZES = 8,
    OPFLAG_COMMUTES = 16,
    OPFLAG_NEARLY = 32,
    OPFLAG_PLUS = 64,
    OPFLAG_POSITIVE = 128,
    OPFLAG_KEEPS = 256,
    OPFLAG_UPDATES = 512,
    OPFLAG_POINT = 1024,
    OPFLAG_PARTS = 2048,
    OPFLAG_LINEAR = 4096
};
typedef enum OpLayout {
    OPLAYOUT_ROWS,
    OPLAYOUT_TABLE,
    OPLAYOUT_ANY,
    OPLAYOUT_IMAGE,
    OPLAYOUT_FOLLOW
} OpLayout;
typedef enum OpJoins {
    OPJOINS_ALONE,
    OPJOINS_AFTER,
    OPJOINS_ONCE,
    OPJOINS_AGAIN,
    OPJOINS_INDEX,
    OPJOINS_COUNT
} OpJoins;
typedef enum OpTypes { OPTYPES_WIDE, OPTYPES_MOVE, OPTYPES_F32, OPTYPES_F32_QUERY } OpTypes;
typedef enum OpSteps {
    OPSTEPS_ALL,
    OPSTEPS_ELEMENTS,
    OPSTEPS_INNER,
    OPSTEPS_FILTER,
    OPSTEPS_KERNEL,
    OPSTEPS_SIDE,
    OPSTEPS_DEPTH,
    OPSTEPS_BODY,
    OPSTEPS_KEYS,
    OPSTEPS_COUNT
} OpSteps;

typedef struct OpInfo {
    const char *name;
    OpKind kind;
    uint8_t min_src, max_src;
    uint8_t n_results; // 0: as many as the shape rule says
    uint16_t flags;    // OPFLAG_*
    uint8_t cost;      // elementwise ops: relative cost of one element
    EwClass ew;
    const char *kernel; // elementwise ops: kernel form
    OpLayout layout;
    OpJoins joins;
    OpTypes types;
    OpSteps steps;
    uint8_t cost_operand, cost_result; // of an element, of structural ops
} OpInfo;

extern const OpInfo op_info[OP_COUNT];
// Finds an op by its name, or by an older one that is still read.
bool op_parse(const char *name, OpId *out);
// The older name of an op, NULL: it never had another.
const char *op_old_name(OpId op);
// Computes each element from the elements at its place: what kernels compute in place, on scalars.
static inline bool op_is_pointwise(OpId op)
{
    return op_info[op].kind == OPKIND_EW || (op_info[op].flags & OPFLAG_POINT) != 0;
}

// Does a kernel compute it? Others are there before a run, or have no memory of their own.
static inline bool op_is_computed(OpId op)
{
    return op_info[op].kind != OPKIND_LEAF && (op_info[op].flags & (OPFLAG_VIEW | OPFLAG_PARTS)) == 0;
}
// A view for which the operand has to lie in rows, because it joins or parts axes.
static inline bool op_is_view_of_rows(OpId op)
{
    return (op_info[op].flags & OPFLAG_VIEW) != 0 && op_info[op].layout == OPLAYOUT_ROWS;
}

typedef enum AttrType {
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_BOOL,
    ATTR_STR,
    ATTR_INTS,
    ATTR_DIMS,
    ATTR_DTYPE,
    ATTR_BLOB,
    ATTR_GRAPH
} AttrType;

typedef enum AttrId {
#define ATTR(op, name, type, dflt, text) A_##op##_##name,
#include "ir/graph/ops.def"
    ATTR_COUNT
} AttrId;

typedef struct AttrInfo {
    OpId op;
    const char *name;
    AttrType type;
    const char *dflt; // NULL = required
    const char *text;
} AttrInfo;

extern const AttrInfo attr_info[ATTR_COUNT];
// The attribute of an op by name, or ATTR_COUNT.
AttrId attr_find(OpId op, const char *name);
// The attributes of an op are attr_info[first .. first + count).
void attr_range(OpId op, AttrId *first, uint32_t *count);

typedef struct Graph Graph;

typedef struct AttrVal {
    AttrId id;
    uint64_t len; // INTS, DIMS: count; BLOB: bytes
    union {
        int64_t i;           // INT, BOOL, DTYPE
        uint64_t f64_bits;   // FLOAT
        const int64_t *ints; // INTS, DIMS
        const char *str;     // STR
        const void *blob;    // BLOB; 16-byte aligned or in a mapped file
        Graph *graph;        // GRAPH
    } u;
} AttrVal;

// Parts of attention (OP_attention_part): how many, and what stands behind the sums of each.
enum { ATTENTION_MAX_PARTS = 1024, ATTENTION_PART_EXTRA = 4 };
enum { SHAPE_MAX_RANK = 8, NODE_MAX_RESULTS = 64, NODE_MAX_SRC = 65535, GRAPH_MAX_DEPTH = 32 };

typedef struct Shape {
    uint32_t rank;
    Dim dim[SHAPE_MAX_RANK];
} Shape;

typedef struct TensorType {
    DType dtype;
    Shape shape;
} TensorType;

typedef struct Node {
    uint16_t op;   // OpId
    uint8_t dtype; // DType of result 0
    uint8_t n_results;
    uint16_t n_src;
    uint16_t n_attr;
    const Shape *shape; // of result 0, interned: equal shapes are one pointer
    const NodeId *src;
    const AttrVal *attr;       // all attributes of the op in the order of ops.def, defaults filled in
    const TensorType *results; // all n_results types when n_results > 1, else NULL
} Node;

// shape_of: 0; else this is no output of its own but the sizes (i64[rank]) that output shape_of - 1 has after
// a run. These stand after all others; the extent pass makes them.
typedef struct GraphOutput {
    const char *name;
    NodeId node;
    uint32_t shape_of;
} GraphOutput;

// A size that the model computes: a symbol of the dim table with the value of a node (i64, one element),
// which is never more than max. Values have the shape that the symbols say, whatever their size in a run; the
// extent pass gives them their largest size before anything is planned.
typedef struct GraphExtent {
    Dim dim; // the symbol
    NodeId value;
    Dim max;
    bool is_set; // not computed: the value is set between runs, an entry of Graph.page
} GraphExtent;

// The symbols that stay open in what is planned: their values are set between runs. A leaf of the graph, its
// page, has one i64 for each. Shapes are in these symbols; NULL: the shape has none of them, or also sizes
// that the model computes.
typedef struct GraphSymbols {
    uint32_t n, n_inputs, n_outputs;
    const Symbol *symbol; // range; dflt: the first value
    const Dim *dim;
    const Shape **inputs, **outputs; // of the model, in order
    const Shape **states;            // of the graph, in order
} GraphSymbols;

// What the extent pass knows about a value that it planned at its largest: along `axis` only the first `size`
// elements (a node: i64, one element) mean anything in a run, and what lies beyond has no influence on any
// result. Only values that others follow from have entries: leaves, and nodes that make such an axis. This is
// for speed alone: an entry that gets lost costs time. `size` is kept as long as the node is.
typedef struct GraphLive {
    NodeId node;
    uint32_t axis;
    NodeId size;
} GraphLive;

// A state lives across runs: `node` (a leaf) is its value at the start of a run, `next` what it becomes at
// the end (0 until set).
typedef struct GraphState {
    NodeId node, next;
    const char *output; // of the model, which is read from the state after a run (--handle); or NULL
} GraphState;

// An input or output of the model from which the graph was imported. What it consists of are inputs or
// outputs of the graph: one for a tensor, one per element for a sequence, none for an optional without a
// value. Strings are u8, with their bytes as one more axis at the end, filled up with zeros.
typedef enum GraphIoKind { IO_TENSOR, IO_STRING, IO_SEQUENCE, IO_OPTIONAL } GraphIoKind;

typedef struct GraphIo {
    const char *name; // in the model
    GraphIoKind kind;
    GraphIoKind of; // sequences: of tensors or strings; optionals: what they may hold
    bool is_output, is_text;
    bool has_value; // optionals
    DType dtype;    // of the elements; u8 for strings
    const char *const *parts;
    uint32_t n_parts;
    // What the columns of a matrix are called where the model makes maps of its rows: names, or numbers.
    const char *const *text_keys;
    const int64_t *keys;
    uint32_t n_keys; // 0: no maps
} GraphIo;

// What must hold for the results of a run to mean anything: `cond` is a bool with one element. A run whose
// condition is false ends with an error and the message; it changes no state. In a branch of an `if` it must
// hold when the branch is taken. One whose message begins with GRAPH_RANGE says that a size is within its
// bound: generated code returns another status.
typedef struct GraphCheck {
    NodeId cond;
    const char *message;
} GraphCheck;

#define GRAPH_RANGE "range: "

// What the files with the model's weights say about themselves, for those who write such files.
typedef struct GraphNote {
    const char *name, *text;
} GraphNote;
typedef struct GraphNotes {
    VEC(GraphNote)
    list;
} GraphNotes;

// What the passes that evaluate may still spend on one model: time, and bytes of new constants.
struct EvalCtx;
typedef struct EvalBudget {
    bool is_set;
    uint64_t work, bytes;
    // Evaluates an OP_custom by running its text; NULL: nobody here can. False: reported.
    bool (*custom)(void *ctx, struct EvalCtx *c);
    void *custom_ctx;
} EvalBudget;

typedef struct GraphReads GraphReads; // ir/graph/reads.h

struct Graph {
    Arena *arena;
    Diag *diag;
    DimTable *dims; // shared with sub-graphs
    const char *name;
    VEC(Node) nodes; // [0] is unused
    VEC(Span) spans; // by NodeId: where the node came from; first writer wins
    // by NodeId: the name in the source model, or NULL; for messages, comments and profiles
    VEC(const char *) labels;
    VEC(NodeId) inputs, params;
    VEC(GraphState) states;
    VEC(GraphOutput) outputs;
    VEC(GraphIo) io; // of imported ONNX models; copies of the graph do not have it
    VEC(GraphCheck) checks;
    VEC(GraphExtent) extents;
    const GraphNotes *notes;     // shared with sub-graphs; NULL: none
    const GraphSymbols *symbols; // NULL: all sizes are known or computed
    NodeId page;                 // their values, a param that is in no list; 0: none
    VEC(GraphLive) lives;
    Map interned; // nodes by content, leaves by name
    // of sub-graphs inside: 0 = none; at most GRAPH_MAX_DEPTH, which bounds every recursion into them
    uint32_t depth;
    Map *payloads;      // shapes and attribute payloads by content; shared with sub-graphs and copies
    EvalBudget *budget; // of evaluating at compile time; shared in the same way
    // Constants whose elements somebody has looked at, by address; shared in the same way. NULL: nobody asks.
    struct GraphReads *reads;
};

GraphReads *graph_reads_new(Arena *a);
Graph *graph_new(Arena *a, Diag *d, const char *name);
// An empty graph that shares arena, diag and dim table with `parent`: for sub-graphs and rebuilt copies.
Graph *graph_new_like(Graph *parent, const char *name);

// --- building ---

// A node under construction. Begin, add operands and attributes in any order, end. Errors are reported at the
// span, and node_end returns 0; every setter after an error is a no-op.
enum { BUILD_MAX_ATTRS = 16 };
typedef struct NodeBuild {
    Graph *graph;
    OpId op;
    Span span;
    const char *label;
    VEC(NodeId) src;
    AttrVal attr[BUILD_MAX_ATTRS];
    uint32_t n_attr;
    bool failed;
} NodeBuild;

NodeBuild node_begin(Graph *g, OpId op, Span span, const char *label);
void node_src(NodeBuild *b, NodeId src);           // 0 = absent optional operand
void node_int(NodeBuild *b, AttrId id, int64_t v); // INT, BOOL, DTYPE
void node_float(NodeBuild *b, AttrId id, double v);
void node_str(NodeBuild *b, AttrId id, const char *v);
void node_ints(NodeBuild *b, AttrId id, const int64_t *v, uint32_t n); // INTS, DIMS; copied
void node_graph(NodeBuild *b, AttrId id, Graph *sub);
// Takes over all attributes of a node, by name where it is of another op, which must have them all; what is
// set afterwards counts instead. Nodes are rebuilt with this, so that no attribute is forgotten.
void node_copy_attrs(NodeBuild *b, const Node *of);
// A node of the same op with the same attributes, span and label as node `id` of `from`; operands follow.
NodeBuild node_copy_begin(Graph *g, const Graph *from, NodeId id);
// Checks counts, fills defaults, normalises negative axes, infers types (ir/shape/shape.h), hash-conses.
NodeId node_end(NodeBuild *b);

// A name for a node that has none: of a constant, what the model calls it.
void graph_label(Graph *g, NodeId id, const char *label);
// Shorthands. Spans and labels are taken from the operand where none is given.
NodeId graph_input(Graph *g, const char *name, DType t, const Shape *s, Span span);
// An input with another shape in the place of input `slot`; nothing reads it yet.
NodeId graph_input_again(Graph *g, uint32_t slot, const Shape *s);
NodeId graph_param(Graph *g, const char *name, DType t, const Shape *s, const void *init, uint64_t bytes,
                   Span span);
NodeId graph_state(Graph *g, const char *name, DType t, const Shape *s, const void *init, uint64_t bytes,
                   Span span);
// data is not copied; bytes must equal the size of the (constant) shape.
NodeId graph_const(Graph *g, DType t, const Shape *s, const void *data, uint64_t bytes, Span span);
// A rank-0 constant, rounded to t.
NodeId graph_scalar(Graph *g, DType t, double v, Span span);
NodeId graph_op1(Graph *g, OpId op, NodeId a);
NodeId graph_op2(Graph *g, OpId op, NodeId a, NodeId b);
NodeId graph_op3(Graph *g, OpId op, NodeId a, NodeId b, NodeId c);
NodeId graph_cast(Graph *g, NodeId a, DType to);                 // a itself when it has that type
NodeId graph_reshape(Graph *g, NodeId a, const Shape *s);        // a itself when it has that shape
NodeId graph_transpose(Graph *g, NodeId a, const int64_t *perm); // rank(a) entries
NodeId graph_expand(Graph *g, NodeId a, const Shape *s);         // a itself when it has that shape
// Elements start, start + step, ... before end of an axis of known size; a itself when these are all.
NodeId graph_slice(Graph *g, NodeId a, int64_t axis, int64_t start, int64_t end, int64_t step);
NodeId graph_result(Graph *g, NodeId a, uint32_t index);         // a itself for index 0
// The order of axes that moves channels from the last axis to axis 1, or back.
void order_of_channels(uint32_t rank, bool to_front, int64_t *perm);
void graph_output(Graph *g, const char *name, NodeId node);
// Operands and attributes of a node that has begun. A slice has elements of one axis, as in ONNX.
void node_slice(NodeBuild *b, NodeId x, int64_t axis, int64_t start, int64_t end, int64_t step);
// Of any op of the names reduce_X. No axes: all of them.
void node_reduce(NodeBuild *b, NodeId x, const int64_t *axes, uint32_t n, bool keeps);
void node_gather(NodeBuild *b, NodeId x, NodeId index, int64_t axis);
void node_concat(NodeBuild *b, const NodeId *src, uint32_t n, int64_t axis);
void node_matmul(NodeBuild *b, NodeId x, NodeId y, bool transpose_x, bool transpose_y);
// The sizes (i64[rank]) that output `index` has after a run; all outputs of the model must be there.
bool graph_output_sizes(Graph *g, uint32_t index, NodeId sizes);
// A condition that is constant true is dropped, one that is constant false is reported, and so is one of
// another type. False: reported.
bool graph_check(Graph *g, NodeId cond, const char *message);
// Applies the same to checks that have become constant.
bool graph_settle_checks(Graph *g);
// Re-creates node `id` of `from` in `g` with other operands (as many as it has): same op, attributes, span,
// label.
NodeId graph_clone_node(Graph *g, const Graph *from, NodeId id, const NodeId *src);
// The same in its own graph with n operands; types are inferred again.
NodeId graph_clone_with(Graph *g, NodeId id, const NodeId *src, uint32_t n);

// --- reading ---

// The pointer is valid until the next node is added.
static inline const Node *graph_node(const Graph *g, NodeId id)
{
    return &g->nodes.data[id];
}
const AttrVal *node_attr(const Node *n, AttrId id); // never NULL: ids of another op are a bug
// The attribute of this name, for rules that serve several ops; NULL: the op has none.
const AttrVal *node_find_attr(const Node *n, const char *name);
static inline int64_t node_get_int(const Node *n, AttrId id)
{
    return node_attr(n, id)->u.i;
}
double node_get_float(const Node *n, AttrId id);
static inline const char *node_get_str(const Node *n, AttrId id)
{
    return node_attr(n, id)->u.str;
}
// Which result of operand 0 a `result` node stands for, from 1; 0: the node is no such one.
uint32_t node_result(const Node *n);
// Element i of a list, or dflt when the list is shorter.
int64_t node_get_at(const Node *n, AttrId id, uint32_t i, int64_t dflt);
// the leaf's name, or the label, or "%12"; in the graph's arena
const char *node_name(const Graph *g, NodeId id);
Span node_span(const Graph *g, NodeId id);
static inline bool node_is_const(const Graph *g, NodeId id)
{
    return id != 0 && graph_node(g, id)->op == OP_const;
}
// True when id is a constant with exactly one element (any rank); its value as double.
bool node_is_scalar_const(const Graph *g, NodeId id, double *value);

// --- shapes ---

const Shape *graph_intern_shape(Graph *g, const Shape *s);
bool shape_equal(const Shape *a, const Shape *b);
bool shape_is_const(const Shape *s);
// Number of elements of a constant shape; asserts that it is constant. Saturates at INT64_MAX, type_bytes at
// UINT64_MAX.
int64_t shape_numel(const Shape *s);
uint64_t type_bytes(DType t, const Shape *s); // constant shapes
Shape shape_of(uint32_t rank, const Dim *dims);
Shape shape_insert(const Shape *s, uint32_t axis, Dim size); // one more axis, of at most SHAPE_MAX_RANK
void shape_print(const DimTable *t, DType dtype, const Shape *s, Str *out); // f32[seq, 4]

// --- sizes that the model computes (graph_extent.c) ---

// The symbol of a node's value: a new one, named after `name`, or the one that this value has already.
Dim graph_extent(Graph *g, const char *name, NodeId value, Dim max);
// Makes an extent of a symbol that is in the table already, as files have it. False: it is not valid, which
// was reported.
bool graph_add_extent(Graph *g, Dim symbol, NodeId value, Dim max);
// The size that the symbol stands for, here or in sub-graphs, is from `least` to `bound`: where it could be
// another, a check says so. False: it is one that a node computes for its own result, or no size of its
// graph: reported.
bool graph_limit_extent(Graph *g, uint32_t symbol, int64_t least, int64_t bound);
// The check of the first of these alone, for a size that a node has. False: reported.
bool graph_check_least(Graph *g, NodeId value, const char *name, int64_t least);
const GraphExtent *graph_find_extent(const Graph *g, uint32_t symbol); // NULL: another symbol
bool graph_dim_is_computed(const Graph *g, Dim d);                     // has such a symbol in it
bool graph_dim_uses(const Graph *g, Dim d, const GraphExtent *of);     // has this one (NULL: any)
bool graph_dim_is_set(const Graph *g, Dim d);         // has symbols that are set between runs, and no others
bool graph_computes(const Graph *g, uint32_t symbol); // here or in a sub-graph
// A size as a number, i64[]; 0: reported, or the size is unknown.
NodeId graph_dim_value(Graph *g, Dim d, Span span);

// Notes that only `size` elements of the node mean anything along the axis.
void graph_add_live(Graph *g, NodeId node, uint32_t axis, NodeId size);

// --- whole graphs ---

// A copy with only the nodes that outputs, states, checks, extents and inputs need, in the same order. map
// (may be NULL) gets one entry a node.
Graph *graph_compact(Graph *g, NodeId **map);
// The same, with the inputs in front of all other nodes, in the order of their list: the text form knows no
// other order.
Graph *graph_sort_inputs(Graph *g);
// A copy in which inputs are what becomes[i] says: OP_input, OP_param or OP_state (without an initial value;
// the caller sets `next`). They follow the params and states that are there. room: by input; NULL: its own
// shape, else that of the param or state, of which the input is the first elements along all axes. False:
// reported.
bool graph_convert_inputs(Graph *g, const OpId *becomes, const Shape *const *room, Graph **out, NodeId **map);
// The first `size` elements along an axis.
NodeId graph_first(Graph *g, NodeId id, uint32_t axis, Dim size, Span span);
// Room that a param or state shall have: at least as much as it has along every axis.
typedef struct GraphRoom {
    const char *name; // of the leaf
    Shape shape;      // constant
} GraphRoom;

// A copy in which these leaves have that room. What reads them reads the part that they were; what states
// become is written to that part, and the rest stays. False: reported.
bool graph_make_room(Graph *g, const GraphRoom *rooms, uint32_t n, Graph **out);
// Binds symbols to values: a new graph in which the known symbols are constants. False (with a message) if a
// shape rule then fails.
bool graph_bind(Graph *g, DimValues v, Graph **out);
// Like graph_bind, but the n symbols in `open` (in rising order) stay open and become sizes that are set
// between runs; `first` are the values that they begin with. Their values in v must be unknown.
bool graph_bind_open(Graph *g, DimValues v, const uint32_t *open, const int64_t *first, uint32_t n,
                     Graph **out);

// --- roots (graph_walk.c) ---

// What a graph is read from, besides by nodes: a set of kinds of roots.
enum {
    ROOT_OUTPUT = 1 << 0,
    ROOT_NEXT = 1 << 1, // of states that have one
    ROOT_CHECK = 1 << 2,
    ROOT_EXTENT = 1 << 3, // values of extents
    ROOT_SIZE = 1 << 4,   // sizes of live axes, of all nodes that have some
    ROOT_STATE = 1 << 5,
    ROOT_INPUT = 1 << 6,
    ROOT_PAGE = 1 << 7,
    ROOT_LISTS = 8,
    ROOT_RESULTS = ROOT_OUTPUT | ROOT_NEXT | ROOT_CHECK,
    ROOT_ALL = (1 << ROOT_LISTS) - 1
};
typedef struct RootWalk {
    uint32_t list, next;
    NodeId id;
} RootWalk;
// for (RootWalk w = {0}; graph_next_root(g, kinds, &w);) visits w.id, never 0, once for each time it is a
// root.
bool graph_next_root(const Graph *g, uint32_t kinds, RootWalk *w);
// By NodeId: is the node such a root, or does one depend on it? [0] is false.
bool *graph_mark_needed(const Graph *g, uint32_t kinds, Arena *a);
// Number of uses of every node (outputs, state nexts, checks and extents count), n_nodes entries in the
// arena.
uint32_t *graph_count_uses(const Graph *g, Arena *a);

// The driver of rewriting passes: visits nodes in order, gives `step` the node as rebuilt so far (operands
// already rewritten); step returns its replacement (itself when nothing applies). Outputs, state nexts and
// checks are redirected. True if anything changed. Nodes that step adds are not visited again in the same
// round; nodes that nothing needs are not visited at all. The replacement must have the type of the node; 0,
// after a failure that was reported, keeps the node. A node with several results may be replaced by one with
// a single result: its `result` nodes then reach step still reading the node as it was before, so that step
// can replace them too.
typedef NodeId (*RewriteStep)(Graph *g, NodeId id, void *ctx);
bool graph_rewrite(Graph *g, RewriteStep step, void *ctx);

#endif
