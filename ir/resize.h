// SPDX-License-Identifier: Apache-2.0
// Where resize reads: the coordinate rules of ONNX Resize along one axis. Shared by the evaluator and by the
// lowering, which computes the same positions at compile time.
#ifndef IR_RESIZE_H
#define IR_RESIZE_H

#include "ir/graph.h"

typedef enum ResizeCoord {
    RESIZE_half_pixel,
    RESIZE_asymmetric,
    RESIZE_align_corners,
    RESIZE_pytorch_half_pixel
} ResizeCoord;

typedef struct ResizeAxis {
    int64_t in, out; // sizes
    double scale;    // as given by the attribute; 0 when the op was given sizes, and out / in counts
    ResizeCoord coord;
} ResizeAxis;

// A result element reads (1 - weight) * x[lower] + weight * x[upper]; both indices are inside the axis.
typedef struct ResizeLinear {
    int64_t lower, upper;
    double weight;
} ResizeLinear;

ResizeAxis resize_axis(const Node *n, uint32_t axis, int64_t in, int64_t out);
// The coordinate in the operand of result element i; may be outside of the axis.
double resize_coord(const ResizeAxis *a, int64_t i);
// The element that mode nearest reads. in > 0.
int64_t resize_nearest(const Node *n, const ResizeAxis *a, int64_t i);
ResizeLinear resize_linear(const ResizeAxis *a, int64_t i);

#endif
