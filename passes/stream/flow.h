// SPDX-License-Identifier: Apache-2.0
// What the rules of streaming share: what is known of a value of the whole graph in the step, and how values
// are kept for later steps. `Frames` are the elements along the axis of a value.
#ifndef PASSES_STREAM_FLOW_H
#define PASSES_STREAM_FLOW_H

#include "ir/graph/graph.h"

typedef enum FlowKind {
    FLOW_FIXED,  // the same in all steps
    FLOW_FRAMES, // has the axis
    FLOW_LATEST, // has not; what it would be if the whole run ended with this step
    FLOW_NEVER,  // has not, and depends on padding behind the end
} FlowKind;

// Step k = 0, 1 ... computes frames k * frames - late and following. Frames below 0 mean nothing. Where late
// is negative, the first -late frames are known before the first step: they are the constant `ahead`.
typedef struct Flow {
    FlowKind kind;
    NodeId now; // in the step: the value, or the new frames
    NodeId ahead;
    uint32_t axis;
    int64_t frames, late;
    bool is_image;              // [N, C, space ...], made by what targets compute with channels last
    const struct Flow *results; // by result, of nodes with several; NULL: there is one
} Flow;

// A state that keeps frames: reads of the same frames share it.
typedef struct FlowMemory {
    NodeId now, ahead, joined;
    uint32_t axis;
    int64_t history;
} FlowMemory;

typedef struct Streamer {
    Graph *whole, *step;
    Arena *arena;    // scratch
    Flow *flow;      // by node of `whole`
    NodeId *carried; // by state of `whole`: what the recurrent op that begins with it ends with; 0: none
    int64_t frames, total; // of the inputs: in a step, in the whole run
    int64_t factor;        // not 1: a step must be that many times as long
    bool is_body;          // of a loop: there are no states
    NodeId id;             // of `whole`: the node at hand
    NodeId count;          // state: the number of steps before this one; 0: nobody has asked
    VEC(FlowMemory)
    memories;
} Streamer;

typedef bool (*StreamRule)(Streamer *s, const Node *n, Flow *out);
// stream_NAME, as ops.def says. An operand of the node has the kind FRAMES, none LATEST. False: reported, or
// s->factor says why.
StreamRule stream_rule(OpId op);
bool stream_each(Streamer *s, const Node *n, Flow *out);
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    bool stream_##stream(Streamer *s, const Node *n, Flow *out);
#include "ir/graph/ops.def"

// "NAME: OP cannot be streamed: why". Returns false.
bool stream_refuse(const Streamer *s, const char *why);
// Is the number of frames a multiple of `of`? If not, the step must be longer, and the rule ends.
bool stream_has_multiple(Streamer *s, int64_t frames, int64_t of);
// Copies of what is known of the operands; absent ones are FIXED with node 0.
Flow *stream_operands(const Streamer *s, const Node *n);
// The size of the axis in the whole run.
int64_t stream_total(const Streamer *s, NodeId whole, const Flow *f);

// Does the value have all frames of the whole run when the stream ends?
bool stream_has_all(const Streamer *s, NodeId whole, const Flow *f);
// Operands that no step changes broadcast to the result, of `rank` axes: one that has a size along its axis
// must be the same in all frames. False: reported.
bool stream_use_fixed(Streamer *s, Flow *f, uint32_t rank, uint32_t axis);

// --- nodes of the step ---

NodeId stream_cut(Graph *g, NodeId id, uint32_t axis, int64_t from, int64_t to);
NodeId stream_join(Graph *g, NodeId a, NodeId b, uint32_t axis);
// A value with one frame as so many frames.
NodeId stream_repeat(Graph *g, NodeId id, uint32_t axis, int64_t frames);
// A constant with the value in all elements; value: a constant with one element, 0: zeros.
NodeId stream_filled(Streamer *s, DType t, const Shape *shape, NodeId value);
// One frame of a value that has the same in all frames; 0: it has not, or that is not known.
NodeId stream_same(Streamer *s, NodeId id, uint32_t axis);
// bool[]: has every frame of this step, of a value with so many frames that is that late, an index of 0 and
// above? `late` is a multiple of `frames`.
NodeId stream_has_begun(Streamer *s, int64_t frames, int64_t late);
// A state of the step; init is a constant, 0: zeros. False: reported.
bool stream_state(Streamer *s, const char *what, const TensorType *t, NodeId init, NodeId *out);
void stream_set_next(Streamer *s, NodeId state, NodeId next);

// --- frames ---

// The `history` frames before the new ones (if that is negative, without the first new ones), then the new
// ones. Frames before number 0 are zeros until real ones arrive. False: reported.
bool stream_history(Streamer *s, const Flow *f, int64_t history, NodeId *out);
// Makes it later, which must not be earlier than it is.
bool stream_delay(Streamer *s, Flow *f, int64_t late);
// Frames below 0 become `fill`, which broadcasts to a frame.
void stream_mask(Streamer *s, Flow *f, NodeId fill);
// The same for all rows of f->now, which may be more than f->frames: row i is frame k * f->frames - f->late +
// i.
void stream_mask_rows(Streamer *s, Flow *f, NodeId fill);
// Puts constant frames in front of number 0.
bool stream_lead(Streamer *s, Flow *f, NodeId before);
// What windows of `extent` frames that begin every `stride` frames read: in `now` those that end in this
// step, in `ahead` those that are known before the first one. frames and late count windows. False: see
// StreamRule.
bool stream_slide(Streamer *s, Flow *f, int64_t extent, int64_t stride);
// All FRAMES among the operands become as late as the latest. False: reported.
bool stream_align(Streamer *s, Flow *in, uint32_t n);

// --- carried values ---

// A multiple of a step late, so that either all frames of a step are real or none.
bool stream_settle(Streamer *s, Flow *f);
// What operand i, which has the type t, is at the begin of a step. A state of the model that is handed on
// from run to run is so from step to step. False: reported.
bool stream_begin_carried(Streamer *s, const Node *n, uint32_t i, const TensorType *t, NodeId *state);
// It becomes `last`, once the frames of f are real.
void stream_end_carried(Streamer *s, const Node *n, uint32_t i, NodeId state, NodeId last, const Flow *f);
// The kind of what an op that goes along the axis of `whole` hands on at the end.
FlowKind stream_kind_of_last(const Streamer *s, NodeId whole, const Flow *f);
// The flows of all results of s->id: from `first` to `end` - 1 they have the axis, as `frames` says.
void stream_set_results(Streamer *s, const Node *n, const Flow *frames, uint32_t first, uint32_t end,
                        FlowKind other);
// The body of a loop, made for inputs with these flows, which are not late, and what is known of its outputs.
// It can have no states. False: reported.
bool stream_body(const Streamer *s, Graph *body, const Flow *inputs, Flow *outputs, Graph **to);

// The node of the step; frames: how many its operands have. NULL: a clone of s->id.
typedef NodeId (*StreamMake)(Streamer *s, const Node *n, const NodeId *src, int64_t frames);
// An op that computes each frame from the frames of its operands with the same number. `axis`: of all
// results.
bool stream_apply(Streamer *s, const Node *n, Flow *in, uint32_t axis, StreamMake make, Flow *out);

#endif
