// SPDX-License-Identifier: Apache-2.0
// Shape and type rules: shape_NAME for every structural op, found by name; one shared rule for elementwise
// ops. They work on dims, constant or symbolic, and report what does not fit with both types in the message.
#ifndef IR_SHAPE_SHAPE_H
#define IR_SHAPE_SHAPE_H

#include "ir/graph/graph.h"

typedef struct ShapeCtx {
    Graph *g;
    OpId op;
    Span span;
    uint32_t n_src;
    const NodeId *src;
    const TensorType *in; // types of the operands; rank 0 f32 for an absent one (src[i] == 0)
    AttrVal *attr;        // in the order of ops.def; the rule may fill in "" defaults (strides, perm ...)
    uint32_t n_attr;
    TensorType *out; // NODE_MAX_RESULTS entries
    uint32_t n_out;  // preset to the row's result count; rules of ops with 0 there set it
} ShapeCtx;

// Runs the rule of c->op. False: reported.
bool shape_infer(ShapeCtx *c);
// The attribute, which a rule may change.
AttrVal *shape_attr(ShapeCtx *c, AttrId id);
bool shape_fail(ShapeCtx *c, DiagCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// NumPy broadcasting of two dims / shapes. A symbolic dim fits an equal one or 1.
bool shape_broadcast(DimTable *t, const Shape *a, const Shape *b, Shape *out);
// What slice selects along an axis of size n, as ONNX: the first index and how many, both possibly symbolic.
typedef struct SliceAxis {
    int64_t start, end, step;
} SliceAxis;
void shape_slice_range(DimTable *t, Dim n, SliceAxis s, Dim *first, Dim *count);
// Reads the `scales` and `roi` of resize: n finite numbers with commas between.
bool shape_resize_numbers(const char *text, uint32_t n, double *out);

#endif
