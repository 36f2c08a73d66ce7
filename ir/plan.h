// SPDX-License-Identifier: Apache-2.0
// The kernel graph: fused kernels, the buffers between them, where every value lives, and in which order all
// runs. Passes fill it in stages (fuse -> lower -> order -> memplan); emitters read it.
#ifndef IR_PLAN_H
#define IR_PLAN_H

#include "ir/kernel.h"

typedef uint32_t BufId; // 0 = none

typedef enum Region {
    REGION_ARENA,   // scratch of one run, inputs and outputs included; offsets by memplan
    REGION_STATE,   // lives across runs (states)
    REGION_PARAM,   // settable parameters; lives across runs
    REGION_WEIGHTS, // constants, packed as the kernels read them; read-only
    REGION_COUNT
} Region;

// Writes all bytes of a buffer. Packed weights are made one by one when they are written out, so that a
// model's weights are never in memory twice.
typedef void (*PlanFill)(const void *ctx, void *out);

typedef struct PlanBuffer {
    Region region;
    uint64_t bytes;
    uint64_t align;
    uint64_t offset;      // in its region, when planned
    uint32_t first, last; // ARENA: first and last step (index into Plan.kernels) at which it holds data;
                          // inputs start at 0, outputs end at n_kernels - 1
    bool is_pinned;       // an input or output of the graph: never shared by others in place
    BufId shares;         // in place: occupies the same bytes as this earlier buffer (0 = own bytes)
    const void *data;     // WEIGHTS: the bytes; STATE, PARAM: initial bytes or NULL (zeros / must be set)
    PlanFill fill;        // WEIGHTS: makes the bytes from fill_ctx instead (data is NULL)
    const void *fill_ctx;
    const char *name; // for reports
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
    bool is_written, is_read;
} PlanArg;

// A strided copy of one value: what views that are none, parts of concats that could not be placed, outputs
// and states need.
typedef struct PlanCopy {
    NodeId src; // 0: the kernel computes its root instead
    Loc dst;    // strides on the axes of src
} PlanCopy;

typedef struct PlanKernel {
    Kernel *kernel; // NULL before the lower pass
    NodeId root;    // the value that it stores
    NodeId anchor;  // structural op that shapes its loops; 0 = elementwise
    PlanCopy copy;
    bool is_last;     // must run after all others (writes a state)
    VEC(NodeId) body; // all nodes computed inside, in order, root last
    VEC(PlanArg) args;
    uint64_t flops, macs;
    uint64_t read_bytes, write_bytes;
    uint32_t same_text_as; // index + 1 of an earlier kernel with the same text; 0 = own text
} PlanKernel;

typedef struct PlanIo {
    const char *name;
    NodeId node;
    DType dtype;
    uint32_t rank;
    int64_t dim[SHAPE_MAX_RANK];
    BufId buf; // dense, row-major, at byte_offset
    uint64_t byte_offset;
    uint64_t bytes;
} PlanIo;

// A condition of the graph: one byte, 0 when it does not hold.
typedef struct PlanCheck {
    const char *message;
    BufId buf;
    uint64_t byte_offset;
} PlanCheck;

typedef struct Plan {
    Arena *arena;
    const Graph *graph;
    const TargetCaps *caps;
    VEC(uint8_t) orders;     // by NodeId: AxisOrder of the value's memory
    VEC(Loc) locs;           // by NodeId
    VEC(PlanBuffer) buffers; // [0] is unused
    VEC(PlanKernel) kernels; // in execution order
    VEC(PlanIo) inputs, outputs, params, states;
    VEC(PlanCheck) checks;
    uint32_t n_check_kernels; // the checks are tested after that many kernels; none of them writes a state
    uint64_t region_bytes[REGION_COUNT];
    uint64_t arena_lower_bound;
    bool arena_optimal;
} Plan;

// The bytes of a buffer that has some: `data`, or what `fill` makes in the arena.
const void *plan_buffer_bytes(const PlanBuffer *b, Arena *a);
// A hazard between two kernels: their byte ranges overlap after placing, and at least one writes.
bool plan_has_hazard(const Plan *p, uint32_t kernel_a, uint32_t kernel_b);
// Independent re-check of liveness, ranges, overlaps and order. NULL or a message.
const char *plan_verify(const Plan *p);

#endif
