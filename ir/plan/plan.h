// SPDX-License-Identifier: Apache-2.0
// The kernel graph: fused kernels, the buffers between them, where every value lives, and in which order all
// runs. Passes fill it in stages (fuse -> lower -> order -> memplan); emitters read it.
#ifndef IR_PLAN_PLAN_H
#define IR_PLAN_PLAN_H

#include "ir/kernel/kernel.h"
#include "ir/plan/plan_live.h"

typedef uint32_t BufId; // 0 = none

typedef enum Region {
    REGION_ARENA,    // scratch of one run, inputs and outputs included; offsets by memplan
    REGION_STATE,    // lives across runs (states)
    REGION_PARAM,    // settable parameters; lives across runs
    REGION_WEIGHTS,  // constants, packed as the kernels read them; read-only
    REGION_PREPARED, // made of parameters once after they were set; lives across runs
    REGION_EXPERTS,  // constants too: packed weights of experts (Plan.experts), behind the others
    REGION_OUTER,    // in the body of a loop: memory that is not its own (Plan.slots)
    REGION_MAPS,     // tensor maps of a GPU (PlanTensorMap), made when a model is opened; read-only
    REGION_FILE,     // constants that are read where they are in a file of the user (PlanFile); read-only
    REGION_ROWS,     // an input of which the program gives rows in order (Plan.rows); read-only
    REGION_COUNT
} Region;

// Writes all bytes of a buffer. Packed weights are made one by one when they are written out, so that a
// model's weights are never in memory twice.
typedef void (*PlanFill)(const void *ctx, void *out);

// A file that the program maps, as it is mapped here while it is compiled for (--weights inplace).
typedef struct PlanFile {
    const char *path;
    const unsigned char *data;
    uint64_t len;
    uint64_t header; // bytes at its begin that say what is in it
} PlanFile;

// Smaller constants and those at other places are copied: a page of memory has room for them, and vectors and
// words are loaded from multiples of an element's size.
enum { PLAN_FILE_LEAST = 4096, PLAN_FILE_ALIGN = 8 };
// Are these bytes read where they are in the file (NULL: there is none)?
bool plan_file_has(const PlanFile *f, const void *bytes, uint64_t n);

// A tensor as the copy engine of a GPU sees it. Whoever opens the model makes the device's form of it
// (PLAN_MAP_BYTES), which is what kernels are given.
enum { PLAN_MAP_BYTES = 128, PLAN_MAP_MAX_RANK = 5 };
typedef struct PlanTensorMap {
    BufId buf; // not REGION_OUTER
    uint64_t byte_offset;
    DType type;                         // f32 or of 16 bits
    uint32_t rank;                      // innermost axis first, whose elements are next to each other
    uint64_t dim[PLAN_MAP_MAX_RANK];    // what is beyond is read as 0, and not written
    uint64_t stride[PLAN_MAP_MAX_RANK]; // in bytes, multiples of 16; of axis 0 it is not read
    uint32_t box[PLAN_MAP_MAX_RANK];    // what one copy moves
    uint32_t swizzle;                   // 0, 32, 64 or 128 bytes
    // The tensor is an image [C, W, H, N] (rank 4), as a convolution reads it: box is channels and pixels,
    // which follow each other along W, H and N as the outputs of the convolution do. By axis W, H: the first
    // place of the kernel's first tap, its last place counted from the image's last pixel, and the stride.
    bool is_image;
    int32_t low[2], high[2];
    uint32_t step[2];
} PlanTensorMap;

// Memory of a kind of its own (--bank). A plan with banks has them one after the other in a region: those of
// RAM in the arena, where the first is the one that inputs, outputs and what else the program reads are in;
// those of constants in the weights.
enum { PLAN_MAX_BANKS = 8 };
typedef struct PlanBank {
    const char *name;     // a C identifier
    uint64_t size;        // bytes that it has
    double cycles;        // that a byte read or written costs; only ratios matter
    bool is_weights;      // of constants
    bool is_copied;       // RAM that start-up code fills with constants
    uint64_t base;        // of its part of the region
    uint64_t bytes;       // of that part
    uint64_t state;       // behind it: bytes of the state block, if that lies here
    double traffic;       // bytes read and written in a run, by what lies here
    uint64_t lower_bound; // of `bytes`, with what lies here
    bool is_optimal;
} PlanBank;

// What a choice costs, and what is proved of all others: none costs less than `least`.
typedef struct PlanBound {
    double cost, least; // both 0: there was no choice
} PlanBound;
static inline PlanBound plan_bound(double cost, double least)
{
    const double rounding = 1e-9; // of sums in another order
    return (PlanBound){cost, least >= cost * (1 - rounding) ? cost : least};
}
static inline bool plan_bound_is_optimal(const PlanBound *b)
{
    return b->cost <= b->least;
}

typedef struct PlanBuffer {
    Region region;
    uint32_t bank;  // ARENA, WEIGHTS of a plan that has such banks: index into Plan.banks
    double traffic; // then, of one with bytes of its own: bytes read and written in a run
    uint64_t bytes;
    uint64_t align;
    uint64_t offset;      // in its region, when planned
    uint32_t first, last; // ARENA: first and last step (index into Plan.kernels) at which it holds data;
                          // inputs start at 0, outputs end at n_kernels - 1
    bool is_pinned;       // an input or output of the graph: never shared by others in place
    BufId shares;         // in place: occupies the same bytes as this earlier buffer (0 = own bytes)
    uint32_t slot;        // OUTER: index into Plan.slots
    const void *data;     // WEIGHTS: the bytes; STATE, PARAM: initial bytes or NULL (zeros / must be set)
    PlanFill fill;        // WEIGHTS: makes the bytes from fill_ctx instead (data is NULL)
    const void *fill_ctx;
    uint64_t made_of[2];      // with fill: not 0: what it packs and how; equal ones make equal bytes
    const PlanTensorMap *map; // MAPS
    const char *name;         // for reports
} PlanBuffer;

// How the axes of a value follow each other in memory, outermost first.
typedef enum AxisOrder {
    ORDER_ROW_MAJOR,
    ORDER_CHANNELS_LAST, // axis 1 moved to the end: N, spatial axes, C
} AxisOrder;

// Where a node's value lives. Strides and offset are in elements; element (i0, i1 ...) is at offset + sum(i_k
// * stride[k]).
typedef struct Loc {
    BufId buf; // 0: the node has no memory of its own (fused into its users)
    int64_t offset;
    int64_t stride[SHAPE_MAX_RANK];
} Loc;

// One kernel argument: param i of the kernel is buffer + byte offset.
typedef struct PlanArg {
    BufId buf;
    uint64_t byte_offset; // of element 0
    uint64_t begin, end;  // byte range in the buffer that the kernel may touch through it
    uint64_t below;       // of a launch: bytes before element 0 where its address is (KParam.first)
    bool is_written, is_read;
    uint32_t move; // 0, or 1 + index in PlanLoop.moves of the loop around: where its address is read
} PlanArg;

// Do two kernels touch bytes of a buffer through them that one of both writes?
static inline bool plan_args_meet(const PlanArg *a, const PlanArg *b)
{
    return a->buf == b->buf && (a->is_written || b->is_written) && a->begin < b->end && b->begin < a->end;
}

static inline uint64_t plan_round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

// A strided copy of one value: what views that are none, parts of concats that could not be placed, outputs
// and states need.
typedef struct PlanCopy {
    NodeId src; // 0: the kernel computes its root instead
    Loc dst;    // strides on the axes of src
} PlanCopy;

// Where a buffer of a loop's body begins in iteration i: argument `arg` of the loop's kernel + start + i *
// step bytes.
typedef struct PlanSlot {
    uint32_t arg; // PLAN_NO_ARG: the number of the iteration itself
    int64_t start, step;
    bool is_written;
} PlanSlot;

#define PLAN_NO_ARG UINT32_MAX

// Where the device goes around a loop by itself (device_loops.c): an address that kernels of the body
// read from memory, since it changes with the iteration. Argument `arg` of the loop's kernel + start + i *
// step bytes; the argument itself may be a move of the loop around.
typedef struct PlanMove {
    uint32_t arg;
    int64_t start, step;
} PlanMove;

// A loop is one kernel of the plan around it, printed as a function that calls the kernels of its body.
// Numbers of arguments are PLAN_NO_ARG where there is none.
typedef struct PlanLoop {
    struct Plan *body;
    int64_t max_trips;       // INT64_MAX: only the argument says
    uint32_t trips, cond;    // arguments: trip count and first condition
    uint32_t arena, weights; // scratch memory for the whole body, and its constants
    uint32_t count;          // where the iterations done are stored
    bool has_cond;           // the body decides whether it goes on: its first output
    VEC(uint32_t) cleared;   // arguments that are zeroed first: not every row may be written
    // First those that exist of trips, cond, count and of `cleared`; empty where the host goes around.
    VEC(PlanMove) moves;
    bool is_on_device;
    bool is_unrolled; // the same, by nodes for every iteration: it has no moves
    uint64_t cell;    // of emitted code: bytes from where the cells of all loops begin
} PlanLoop;

// A question that the cost model answered: which of several ways to compute the same bits. `question` names
// the shapes and all else that the answer depends on, so that a measured answer serves later compilations.
typedef struct PlanChoice {
    const char *question, *answer;
    const char *others; // the candidates, those first that were estimated to be faster, separated by spaces
    uint32_t kernel;    // index in Plan.kernels when it was made
} PlanChoice;

// One of several sums of a kernel. The value of every stage but the last is never in memory as a whole: the
// next stage reads it from a strip of rows in scratch memory (passes/lower/strip.h).
typedef struct PlanStage {
    NodeId root, anchor;
    VEC(NodeId) body; // its part of PlanKernel.body
} PlanStage;

// What a kernel does between two of its barriers. Parameter i is argument args[i] of the whole kernel.
typedef struct PlanPhase {
    Kernel *kernel;
    uint32_t *args;
    const char *function; // as PlanKernel.function
} PlanPhase;

// What a kernel that trades memory for time was given, beside the plain one: scratch memory while it runs,
// and larger weights; cycles of a run by estimate.
typedef struct PlanTrade {
    const char *what; // NULL: it trades nothing
    uint64_t scratch_bytes, weight_bytes, cycles, plain_cycles;
} PlanTrade;

// How threads share a kernel, with --threads.
typedef struct PlanThreads {
    double cycles;  // estimated, of one thread
    bool is_shared; // all threads run their parts of it; else thread `thread` runs it alone
    bool waits;     // a barrier comes before it
    uint8_t thread;
    VEC(PlanPhase) phases; // none where it has no barriers, or cannot be cut at them; in a loop's body: none
} PlanThreads;

// When a kernel runs among the others, and its row in the table of kernels of the emitted code.
typedef struct PlanDispatch {
    VEC(uint32_t) after; // plan_find_edges: kernels that it waits for, ascending
    uint32_t level;      // the same: 0 waits for nobody, else one more than the largest of `after`
    uint32_t group;      // plan_find_groups
    uint32_t row;        // in the table of kernels of the emitted code
} PlanDispatch;

typedef struct PlanKernel {
    Kernel *kernel; // NULL before the lower pass; of a loop: only name, comment and parameters
    NodeId root;    // the value that it stores
    NodeId anchor;  // structural op that shapes its loops; 0 = elementwise
    PlanCopy copy;
    bool is_first;         // must run before all others (moves a state)
    bool is_last;          // must run after all others (writes a state)
    bool is_joined;        // of several that were kernels of their own: `root` is only one of them
    bool is_start;         // copies a carried value to where the loop `root` changes it, or an operand of the
                           // custom op `root` to dense rows: must run before that
    VEC(NodeId) body;      // all nodes computed inside, in order, root last
    VEC(PlanStage) stages; // in order, the last with root and anchor of the kernel; empty: there is but one
    int64_t strip_rows;    // of the root, in one strip
    VEC(PlanArg) args;
    uint64_t flops, macs;
    uint64_t read_bytes, write_bytes;
    PlanTrade trade;
    const char *schedule;     // "tile v1r3c4o", what the cost model chose; NULL: there is one way
    const Loc *operands;      // of a custom op: where its operands lie as dense rows
    const Loc *results;       // of a loop: places of all its results; 0 = nobody wants it
    PlanLoop *loop;           // NULL: a plain kernel
    struct PlanKernel *other; // another way, with less scratch memory; the memory plan chooses. NULL: none
    struct PlanKernel *merged; // it with the kernel before it, whose value is never there as a whole: a way
                               // that takes less memory and computes parts of that value again. NULL: none
    uint64_t again;            // of macs, those that are computed again
    PlanThreads threads;
    PlanDispatch launch;
    uint32_t skipped_by;  // bit s: nothing that set s of Plan.sets wants depends on it
    const char *function; // in emitted text: its own name, or that of an earlier kernel with the same text
                          // (of one that is cut only the phases are there)
} PlanKernel;

// A kernel that lowering another one made, which comes right before that: it packs a parameter in the order
// in which that one reads it, or (on GPUs) says which experts its rows go to.
typedef struct PlanPacking {
    PlanKernel kernel;
    uint32_t reader; // index in Plan.kernels when it was made
} PlanPacking;

typedef struct PlanIo {
    const char *name;
    NodeId node;
    DType dtype;
    uint32_t rank;
    int64_t dim[SHAPE_MAX_RANK];
    BufId buf; // dense, row-major, at byte_offset
    uint64_t byte_offset;
    uint64_t bytes;
    uint32_t sizes; // outputs: 0, or 1 + the entry of Plan.sizes that says how much of it a run has given
} PlanIo;

// A condition of the graph: one byte, 0 when it does not hold.
typedef struct PlanCheck {
    const char *message;
    BufId buf;
    uint64_t byte_offset;
} PlanCheck;

// Outputs that a run may be limited to.
enum { PLAN_MAX_SETS = 31 };
typedef struct PlanSet {
    const char *name;
    const uint8_t *has; // by output
} PlanSet;

// Plans of one graph for several sizes, smallest first. The last is the largest, and the one that has this.
// They have the same inputs, outputs, params and states, one layout of states, params and weights, and one
// arena.
enum { PLAN_MAX_BUCKETS = 64, PLAN_MAX_BUCKET_SYMBOLS = 8 };
typedef struct PlanBuckets {
    uint32_t n, n_symbols;
    struct Plan *plan[PLAN_MAX_BUCKETS];
    uint32_t slot[PLAN_MAX_BUCKET_SYMBOLS];                  // of Graph.symbols
    int64_t size[PLAN_MAX_BUCKETS][PLAN_MAX_BUCKET_SYMBOLS]; // the largest that they are planned for
    uint64_t arena_bytes[PLAN_MAX_BUCKETS];                  // that each plan needs of the arena
    uint64_t shared_bytes, single_bytes; // of weights: that several plans read, that only one does
} PlanBuckets;

// An axis of a value in a run: floor((symbol * times + plus) / by) elements, within [0, its size].
typedef struct PlanExtent {
    uint32_t symbol; // 1 + its slot in Graph.symbols; 0: as large as planned, or the model computes the size
    int64_t times, plus, by;
} PlanExtent;

// An array of weights of experts that one product reads: expert e is at e * stride, unless entry e of the
// table (u64, in the state block) has the address of a copy. On GPUs they are as they were given; with a
// table (0: there is none), entry e is where expert e begins, in elements from the first of
// Plan.experts.slots.
typedef struct PlanMoePart {
    BufId weights, table;
    uint64_t stride;
    uint32_t width; // bytes of an element
} PlanMoePart;

// Products whose rows go to experts by one index.
typedef struct PlanMoe {
    NodeId index;
    const char *name;
    int64_t n_experts, rows;
    int64_t per_row; // rows of the index that are one row before it: its last axis, or 1
    BufId choice;    // by row: i32, the expert or -1, from its first kernel on
    BufId page;      // in the state block, where the runtime keeps what belongs to the layer
    VEC(PlanMoePart) parts;
} PlanMoe;

// Rows in the order of their experts, which kernels of a GPU made for a product and later ones read, too.
typedef struct PlanSorted {
    NodeId index, x;
    int64_t n_experts;
    BufId lists, rows;
} PlanSorted;

// What runtime-lite/rlx_moe.h keeps in the state block, for all layers and for each.
enum { PLAN_MOE_HEAD_BYTES = 64 };
static inline uint64_t plan_moe_page_bytes(int64_t n_experts, int64_t rows)
{
    return 64 + ((uint64_t)n_experts + 7) / 8 * 2 + (uint64_t)n_experts * 4 + 8 + (uint64_t)rows * 4;
}

typedef struct PlanExperts {
    VEC(PlanMoe) layers; // none in the body of a loop
    VEC(PlanSorted) sorted;
    BufId head;          // in the state block; 0: there are no layers
    uint32_t slots;      // 0: experts are in the weights block; else they are a file of their own, and the
                         // program has memory for so many
} PlanExperts;

// Kernels that only run when a parameter was set since the last run: those at the beginning.
typedef struct PlanPrepare {
    VEC(PlanPacking) packings; // from the lower pass to the prepare pass
    uint32_t n_kernels;
    // For plans of several sizes: how many different preparations they have, and the number of this one's.
    uint32_t n_marks, mark;
} PlanPrepare;

typedef struct PlanGpu {
    // Barriers in the order in which kernels were placed, and kernels that were brought forward since
    // (dispatch.c).
    uint32_t n_barriers_placed, n_moved;
    uint32_t split; // the kernel before which the first part of the launches is submitted; 0: all at once
    // Where in the arena that begins which the host's arena block holds too: room for the page, then inputs,
    // outputs and what else the host reads, side by side. Nothing else shares its bytes.
    uint64_t staged;
} PlanGpu;

// What pass_prune took out of convolutions: channels of their results, for which reason, and what the rest
// takes, before and after.
typedef struct PlanPruned {
    uint64_t channels, constant, unread; // channels: all that there were
    uint64_t macs[2], weight_bytes[2];
} PlanPruned;

// An input that the program gives row by row (--stream-input). One kernel reads it: its loop KFOR_GIVEN takes
// a row in each of its first n_rows iterations, and the rest when all rows are there. Calls run the kernels
// before it with the first rows, and those behind it after the last ones.
typedef struct PlanRows {
    uint32_t input;  // 1 + its slot; 0: there is none
    uint32_t axis;   // of the input in the model, along which the rows follow each other
    NodeId copy;     // the node that copies rows to where kernels read them
    uint32_t kernel; // index in Plan.kernels
    int64_t n_rows, n_turns;
} PlanRows;

// A frame of zero points around every image of a value (passes/lower/border.h): rows, then columns.
typedef struct PlanBorder {
    NodeId node;
    int64_t before[2], after[2];
    uint8_t value;
} PlanBorder;

typedef struct Plan {
    Arena *arena;
    const Graph *graph;
    const TargetCaps *caps;
    VEC(uint8_t) orders;     // by NodeId: AxisOrder of the value's memory
    VEC(Loc) locs;           // by NodeId
    VEC(PlanBorder) borders;
    VEC(PlanBuffer) buffers; // [0] is unused
    VEC(PlanKernel) kernels; // in execution order
    VEC(PlanIo) inputs, outputs, params, states;
    VEC(PlanIo) sizes;
    BufId page;       // of the values of Graph.symbols; 0: there are none
    VEC(PlanIo) kept; // values that are no outputs, but stay until the next run
    VEC(PlanCheck) checks;
    PlanPrepare prepare;
    uint32_t n_check_kernels; // the checks are tested after that many kernels; none of them writes a state
    VEC(PlanSet) sets;
    VEC(PlanChoice) choices;
    VEC(PlanSlot) slots;       // of the body of a loop
    const LiveTable *live;     // up to where values mean anything in a run; NULL: all of them everywhere
    const PlanExtent *extents; // by node, SHAPE_MAX_RANK axes each; NULL: nobody asked (--tables)
    PlanExperts experts;
    PlanPruned pruned;
    PlanRows rows;
    const PlanFile *file; // where REGION_FILE lies; NULL: it is empty
    bool is_shared;     // threads share a run: some kernel is split, or another thread than the first has one
    const char *prefix; // of the names of its kernels: "k", in the body of kernel 3 "k3_"
    uint32_t probe;     // 0, or 1 + the number under which emitted code reports that kernel 0 has ended
    const PlanBuckets *buckets; // NULL: one plan for all sizes
    PlanGpu gpu;
    VEC(PlanBank) banks; // none in the body of a loop
    PlanBound bank_cost[2]; // of banks of RAM and of constants: cycles of all reads and writes of a run
    uint64_t region_bytes[REGION_COUNT];
    uint64_t arena_lower_bound;
    bool arena_optimal;
    PlanBound schedule_cost; // where a schedule was chosen for its memory: instructions, by estimate
} Plan;

// The bytes of a buffer that has some: `data`, or what `fill` makes in the arena.
const void *plan_buffer_bytes(const PlanBuffer *b, Arena *a);
// A buffer that has bytes of its own in the arena, and holds data at a step.
static inline bool plan_buffer_is_live(const PlanBuffer *b, uint32_t step)
{
    return b->region == REGION_ARENA && b->shares == 0 && b->first <= step && step <= b->last;
}
// The bank in which a buffer lies; NULL: its region has none.
const PlanBank *plan_bank_of(const Plan *p, const PlanBuffer *b);
// The i-th of what the program reads and writes: inputs, outputs, values that are kept, sizes. NULL: there
// are no more.
const PlanIo *plan_io(const Plan *p, uint32_t i);
// Banks of RAM, or of constants.
uint32_t plan_count_banks(const Plan *p, bool is_weights);
// Bytes of the state block: states, params, their flags and marks, and what is prepared of them.
uint64_t plan_state_bytes(const Plan *p);
// Bytes of the arena that buffers take at a step, those that lie over each other once; and the step at which
// they are the most.
uint64_t plan_live_bytes(const Plan *p, uint32_t step);
uint32_t plan_peak_step(const Plan *p);
// Calls fn for every kernel in the order of execution, and after a loop for those of its body. times:
// iterations of all loops around it, as far as they are bounded.
typedef void (*PlanVisit)(const Plan *p, PlanKernel *k, uint64_t times, void *ctx);
void plan_walk(const Plan *p, PlanVisit fn, void *ctx);
// Bytes that a kernel reads and writes, each once. A loop moves what the kernels of its body do: 0.
uint64_t plan_kernel_bytes(const PlanKernel *k);
// Kernels of the plan and of all bodies in it.
uint32_t plan_count_kernels(const Plan *p);

// Fills PlanDispatch.after and level, also in the bodies of loops (plan_edges.c), from the byte ranges of
// arguments after placing. An edge goes where two of them overlap and one is written, unless a path of others
// does as well.
void plan_find_edges(Plan *plan);
// Fills PlanDispatch.group from the edges: kernels of one group may run side by side, and all of them wait
// for those of the group before.
void plan_find_groups(Plan *plan);
static inline bool plan_opens_group(const Plan *p, uint32_t kernel)
{
    return kernel != 0 && p->kernels.data[kernel].launch.group != p->kernels.data[kernel - 1].launch.group;
}
// Fills PlanBuffer.first and last: of a buffer whose bytes others have in place, over all of them.
void plan_find_lifetimes(Plan *p);
// Fills PlanKernel.skipped_by for the sets of the plan (plan_sets.c).
void plan_use_sets(Plan *p, Arena *scratch);

// Gives the plans one layout of states and params, one arena, and every constant that several of them read
// one place (plan_buckets.c). NULL or a message.
const char *plan_share_buckets(PlanBuckets *b, Arena *scratch);
// Shares what they prepare of params, once params and constants have their places (plan_prepared.c).
void plan_share_prepared(PlanBuckets *b, Arena *scratch);

// Bytes of the weights block: constants, then experts.
uint64_t plan_weight_bytes(const Plan *p);
// A hazard between two kernels: their byte ranges overlap after placing, and at least one writes.
bool plan_has_hazard(const Plan *p, uint32_t kernel_a, uint32_t kernel_b);
// Independent re-check of liveness, ranges, overlaps and order. NULL or a message.
const char *plan_verify(const Plan *p);

#endif
