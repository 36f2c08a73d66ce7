// SPDX-License-Identifier: Apache-2.0
// The frame in which every lower_NAME works. A schedule walks the points of a domain (an iteration space with
// the strides of everything that it reads and writes) and pulls values: elementwise nodes of the kernel are
// computed where they are needed, everything else is a load.
#ifndef PASSES_LOWER_LOWER_H
#define PASSES_LOWER_LOWER_H

#include "passes/live/live.h"
#include "passes/pass.h"

// The rows [lo, hi) of one image, to which a stage of a kernel keeps. Where it is set, no loop is parallel.
typedef struct RowWindow {
    KRef image, lo, hi;
    int64_t rows; // at most
    bool is_even; // their number always is
} RowWindow;
enum { WINDOW_IMAGE = 0, WINDOW_ROW = 2 }; // axes of the values of stages: [N, C, H, W]

// A value of which some rows are in scratch memory: what is added to the index of its elements.
typedef struct HeldRows {
    NodeId id;
    uint32_t param;
    KRef base;
} HeldRows;
// A value whose elements at a point are in registers: element Point.slot of an array.
typedef enum Space { SPACE_IN, SPACE_OUT } Space;
typedef struct RegisterValue {
    NodeId node;
    Space space;
    KRef array;
} RegisterValue;

// The sizes that this kernel's loops may end at, as numbers read at its start.
typedef struct LowerSizes {
    uint32_t n;
    NodeId node[LIVE_MAX_SIZES];
    KRef value[LIVE_MAX_SIZES];
    NodeId unmasked[4]; // nodes where(mask, x, v) that are x as far as loops go
    uint32_t n_unmasked;
} LowerSizes;

// What a kernel of several stages computes at a time (passes/lower/strip.h).
typedef struct LowerStrip {
    const RowWindow *window; // NULL: all rows of all images
    const HeldRows *held;    // values of other stages
    uint32_t n_held;
} LowerStrip;

// What a loop over several vectors keeps in registers (passes/lower/wide.h).
typedef struct LowerWide {
    const RegisterValue *registers; // for points that have a slot
    uint32_t n_registers;
    KRef collected; // the array that gets the root's elements at Point.lane; 0: they are stored
} LowerWide;

typedef struct Lower {
    Pass *pass;
    Plan *plan;
    const Graph *g;
    PlanKernel *pk;
    Kernel *k;
    const TargetCaps *caps;
    NodeId anchor;  // structural node of this kernel, 0 = elementwise
    NodeId root;    // the value to store
    uint32_t index; // of the kernel in the plan
    LowerSizes sizes;
    LowerStrip strip;
    LowerWide wide;
    uint64_t constant_bytes; // of the whole graph: where they fit, a cache keeps them from run to run
    const bool *whole;       // by node: an integer is cut off from it, so that a rounding could change that
    const bool *lasting;     // by node: made of parameters and constants only (prepare.h); NULL: none is
    uint32_t refused;        // ways to compute that are still refused (lower_take)
    bool has_taken;          // one was taken
    const PlanKernel *maker; // the kernel before it, which this one is merged with; NULL: none
    bool is_merged;          // the schedule makes what the maker would have made
} Lower;

// a / b rounded up; a is not negative, and b is positive.
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// Does the kernel read rows of an input as they come (Plan.rows)? Then it makes rows one by one, since
// several at once would have to wait for each other.
bool lower_goes_by_rows(const Lower *l);

// The types of floats that schedules for f32 read and write: f32, f16 and bf16.
static inline bool lower_is_float(int type)
{
    return type == DTYPE_f32 || k_is_half(type);
}
// A loop of n iterations, which counts in *opened, or none for one: the number of the iteration.
static inline KRef lower_open_count(Kernel *k, int64_t n, uint8_t flags, const char *name, uint32_t *opened)
{
    if (n == 1)
        return k_index(k, 0);
    ++*opened;
    return k_loop(k, n, flags, name);
}

// --- kernel parameters ---------------------------------------------------------------------------

typedef enum ParamUse { PARAM_READ = 1, PARAM_WRITE = 2, PARAM_READ_WRITE = 3 } ParamUse;

// The parameter that points at element 0 of a node's value (made on first use).
uint32_t lower_param(Lower *l, NodeId id, ParamUse use);
// A parameter for a place other than the node's own (the destination of a copy); loc is on the node's axes.
uint32_t lower_param_at(Lower *l, NodeId id, const Loc *loc, ParamUse use);
// The memory of a node's value, which is only read, as elements of another type.
uint32_t lower_param_words(Lower *l, NodeId id, DType t);
// The same for what is at loc, or is written there.
uint32_t lower_param_words_at(Lower *l, NodeId id, const Loc *loc, DType t, ParamUse use);
// A parameter for any value of a type.
uint32_t lower_param_typed(Lower *l, const TensorType *t, const Loc *loc, const char *name, ParamUse use);
// A constant that the compiler makes (packed weights, tables): `bytes` bytes at data, which must live in
// pass->perm.
uint32_t lower_param_data(Lower *l, const char *name, DType t, const void *data, uint64_t bytes);
// The same, with the bytes made by `fill` when they are written out; they are zero before. ctx, and what it
// points at, must live in pass->perm or in the graph.
uint32_t lower_param_filled(Lower *l, const char *name, DType t, PlanFill fill, const void *ctx,
                            uint64_t bytes);
// A buffer of the plan, all of it.
uint32_t lower_param_buffer(Lower *l, BufId b, DType t, ParamUse use);
// Where integers are cheap: 1 + the parameter for a constant of i64 as i32, if all of it fits; else 0.
uint32_t lower_param_narrow(Lower *l, NodeId id);
// Parameters for packed weights of experts, and for a table of n addresses (u64) in the state block, 0 at
// first.
uint32_t lower_param_experts(Lower *l, const char *name, DType t, PlanFill fill, const void *ctx,
                             uint64_t bytes);
uint32_t lower_param_table(Lower *l, const char *name, uint64_t n);
// n numbers (u32) in the state block, 0 at first, that a kernel leaves at 0.
uint32_t lower_param_counter(Lower *l, const char *name, uint64_t n);
// Scratch memory of this kernel in the arena.
uint32_t lower_param_scratch(Lower *l, const char *name, DType t, uint64_t elements);
// Asks for a way to compute that needs scratch memory, the fastest one first; false: take another one. Where
// RAM is short, a kernel is made in each of these ways, and in the one without.
bool lower_take(Lower *l);
// A second parameter for the memory of `scratch`, as elements of another type.
uint32_t lower_param_view(Lower *l, uint32_t scratch, DType t);
// Scratch memory that every thread has for itself; base: index of this thread's first element.
uint32_t lower_param_thread_scratch(Lower *l, const char *name, DType t, uint64_t elements, KRef *base);
// A tensor map (u64, of which only the address matters). The tensor has to be a parameter as well: that says
// when its memory is in use. Maps only hold where the memory of a kernel does not move:
bool lower_can_map(const Lower *l, BufId b);
uint32_t lower_param_map(Lower *l, const PlanTensorMap *map);
const Loc *lower_loc(const Lower *l, NodeId id);
// A constant that is read where it is in a file (PlanFile), so not packed.
bool lower_is_in_file(const Lower *l, NodeId id);
// Element 0 of a value is at a multiple of so many bytes (a power of two, at least the element's size).
uint32_t lower_alignment(const Lower *l, const Loc *loc, DType t);
// What is added to the index of a value's elements: 0 but for values in scratch memory.
KRef lower_base(const Lower *l, NodeId id);
// The lower_NAME of the anchor.
void lower_anchor(Lower *l);
static inline const Node *lower_node(const Lower *l, NodeId id)
{
    return graph_node(l->g, id);
}
// The `result` node of the anchor's result `index`, or 0 when nobody asks for it.
NodeId lower_find_result(const Lower *l, int64_t index);
bool lower_is_in_body(const Lower *l, NodeId id);

// --- domains -------------------------------------------------------------------------------------

// A kernel whose root has other axes than its operand (a reduction) keeps two spaces on one domain: the
// operand's side and the root's side, in which the same node may have other strides.
typedef struct Access {
    NodeId node;
    Space space;
    int64_t stride[SHAPE_MAX_RANK]; // elements per step along each axis of the domain; 0 = broadcast
} Access;

typedef struct Domain {
    uint32_t rank;
    int64_t extent[SHAPE_MAX_RANK];
    LiveRef
        live[SHAPE_MAX_RANK]; // where loops end, if not at the extent: what is beyond may be computed or not
    VEC(Access) access;
    bool is_exact;      // nothing may be stored beyond: the memory keeps what it has there
    bool has_out_space; // the root and what its epilogue loads are in SPACE_OUT; else all is in SPACE_IN
} Domain;

// Where the axes of a shape are in a domain: axis i of the shape is axis to[i].
typedef struct AxisMap {
    uint32_t to[SHAPE_MAX_RANK];
} AxisMap;

// An iteration space with the axes of a constant shape.
Domain domain_of(const Shape *s);
// Ends the loops over a value's axes, which are the domain's, where its live elements end.
void domain_trim(const Lower *l, Domain *d, NodeId id);
// Does an axis end earlier than its extent in some runs?
bool domain_has_live(const Domain *d);
// Adds the access to a stored value, broadcast against the domain's axes (aligned at the last one).
void domain_add(Lower *l, Domain *d, NodeId id);
// The access to a value, or NULL.
const Access *domain_access(const Domain *d, NodeId id, Space space);
// Adds all values from outside that pulling `id` needs: loads of the elementwise body below it, stopping at
// the anchor.
void domain_add_operands(Lower *l, Domain *d, NodeId id);
// The domain of the kernel's result as it is stored: its axes, where it ends in a run, its access, and those
// of all that its elementwise body loads.
Domain domain_of_root(Lower *l);
// Adds the operands of the root's side: axes of the root's shape go where map says. Sets has_out_space.
void domain_add_root(Lower *l, Domain *d, const AxisMap *map);
// Stable: axes of class 0 first, then those of class 1; class is permuted along.
void domain_move_class(Domain *d, uint8_t *class);
// Sorts the axes by falling stride of the access to `id`, then joins neighbours where every access allows it.
// Axes with a different class are not reordered past each other and not joined (class NULL: all the same);
// class is permuted along.
void domain_simplify(Lower *l, Domain *d, NodeId id, uint8_t *class);
// The widest vector that fits along the last axis: all accesses are f32, i32, 16-bit floats or bytes with
// stride 1 or 0 there, and all of the body has vectors. 1 = scalar.
uint8_t domain_lanes(const Lower *l, const Domain *d, uint32_t axis);
// The same where every other element of what is read may be taken: for points that only pull.
uint8_t domain_lanes_apart(const Lower *l, const Domain *d, uint32_t axis);

// --- sizes that a run knows (lower_live.c) --------------------------------------------------------

// Loads the sizes of the kernel: at its start.
void lower_begin_sizes(Lower *l);
// Can the bound be read? Where not, loops go to the end.
bool lower_knows(const Lower *l, const LiveRef *r);
// The bound as an index, at most `extent`; the extent where it is not known.
KRef lower_live(Lower *l, const LiveRef *r, int64_t extent);

// Is the node among those whose mask is true as far as loops go? Then it is its operand 1.
bool lower_is_unmasked(const Lower *l, NodeId id);

// --- points and pulling --------------------------------------------------------------------------

typedef struct Point {
    KRef idx[SHAPE_MAX_RANK]; // by axis of the domain
    uint32_t vec_axis;        // lanes run along it
    uint8_t lanes, count;     // 1, 1 = scalar
    KRef slot, lane;          // 0, or place in the arrays of registers, and of what is collected
} Point;

// Lanes are a power of two, and some of them count.
static inline bool point_is_sound(const Point *at)
{
    return at->lanes >= 1 && (at->lanes & (at->lanes - 1)) == 0 && at->count >= 1 && at->count <= at->lanes;
}

// The scalar point of an element by its number, where the last axis of the domain is the innermost.
Point domain_point(Kernel *k, const Domain *d, KRef number);

typedef struct Given {
    NodeId id;
    KRef value;
} Given;

typedef struct Pull {
    Lower *l;
    const Domain *d;
    Point at;
    Space space;
    NodeId given; // this node's value is known at the point (the anchor's), 0 = none
    KRef given_value;
    Given other;    // the same
    VEC(KRef) memo; // by place in the body
} Pull;

Pull pull_at(Lower *l, const Domain *d, Point at);
// Does pulling the node compute it in place rather than load it? Is it a constant that needs no memory?
bool pull_is_computed(const Lower *l, NodeId id);
bool pull_is_immediate(const Lower *l, NodeId id);
// Can a node of the body be computed in vectors? Bytes are only cast.
bool pull_is_vector(const Lower *l, NodeId id);
// The value of a node at the point: a scalar, or `lanes` lanes.
KRef pull_value(Pull *p, NodeId id);
// Index of a stored value's element at the point.
KRef pull_index(Pull *p, NodeId id);
// The root made of the given anchor value (of the anchor's type, or f32).
KRef pull_root(Lower *l, const Domain *d, Point at, KRef anchor_value);
// The same with the value of another node of the anchor's type (id 0: none).
KRef pull_root_given(Lower *l, const Domain *d, Point at, KRef anchor_value, const Given *other);
// Computes the root from the given anchor value and stores it. Domain: axes of the root, with its access.
void pull_store_root(Lower *l, const Domain *d, Point at, KRef anchor_value);
// Like pull_store_root, with the value of another node of the anchor's type (id 0: none).
void pull_store_given(Lower *l, const Domain *d, Point at, KRef anchor_value, const Given *other);
// Summed cost of the elementwise nodes between anchor and root.
uint32_t lower_epilogue_cost(const Lower *l);

// --- loops ---------------------------------------------------------------------------------------

// Opens parallel loops over axes [0, n) of the domain and sets at->idx. Close with lower_close(l, returned
// count).
uint32_t lower_open(Lower *l, const Domain *d, uint32_t n, Point *at);
void lower_close(Lower *l, uint32_t n);
// Asks for the first axes that end in a run whether the point is among their live elements. Close as above.
uint32_t lower_open_live(Lower *l, const Domain *d, uint32_t axes, const Point *at);
// One loop over one axis, or none for an axis of one element: returns the number of loops opened.
uint32_t lower_open_axis(Lower *l, const Domain *d, uint32_t axis, uint8_t flags, Point *at);
typedef void (*PointFn)(Lower *l, const Domain *d, Point at, void *ctx);
// Calls fn for vectors of `lanes` along `axis` (a loop, then one shorter rest) or, with lanes 1, in a scalar
// loop.
void lower_along(Lower *l, const Domain *d, uint32_t axis, uint8_t lanes, Point at, PointFn fn, void *ctx);
// A whole map kernel: for every point of the root's shape, value = fn(...) for the anchor, then the epilogue
// and the store. inner_axis_passes: fn maps the last axis straight through, so it may be called with lanes >
// 1 there.
typedef KRef (*MapFn)(Lower *l, const Domain *d, Point at, void *ctx);
typedef enum MapLanes { MAP_SCALAR, MAP_VECTOR } MapLanes;
void lower_map(Lower *l, MapFn fn, void *ctx, MapLanes lanes);

// Walks a whole domain: loops over all axes but the last, fn along it.
void lower_walk(Lower *l, const Domain *d, uint8_t lanes, PointFn fn, void *ctx);
// Stores a value for the point, or collects it.
void lower_store(Lower *l, uint32_t param, KRef index, KRef value, const Point *at);

// Largest power of two <= the target's f32 lanes that fits n elements without wasting more than half.
uint8_t lower_fit_lanes(const Lower *l, int64_t n);

#define OP(name, ...) void lower_##name(Lower *l);
#define NO_KERNEL(name, ...)
#include "ir/graph/ops.def"

// The anchor of a kernel whose root updates a state with what it makes (group_join_patches).
void lower_patch(Lower *l);
void lower_elementwise(Lower *l);
void lower_strided_copy(Lower *l);

#endif
