// SPDX-License-Identifier: Apache-2.0
// Where resize reads: the coordinate rules of ONNX Resize along one axis. Shared by the evaluator and by the
// lowering, which computes the same positions at compile time.
#ifndef IR_SHAPE_RESIZE_H
#define IR_SHAPE_RESIZE_H

#include "ir/graph/graph.h"

typedef enum ResizeMode { RESIZE_nearest, RESIZE_linear, RESIZE_cubic } ResizeMode;

typedef enum ResizeCoord {
    RESIZE_half_pixel,
    RESIZE_asymmetric,
    RESIZE_align_corners,
    RESIZE_pytorch_half_pixel,
    RESIZE_half_pixel_symmetric,
    RESIZE_tf_half_pixel_for_nn,
    RESIZE_tf_crop_and_resize
} ResizeCoord;

typedef struct ResizeAxis {
    int64_t in, out;   // sizes
    double scale;      // as given by the attribute; 0 when the op was given sizes, and out / in counts
    double begin, end; // of the region that tf_crop_and_resize reads, in parts of the axis
    double coeff;      // of mode cubic
    const char *rounding;
    ResizeMode mode;
    ResizeCoord coord;
    bool is_identity; // every element stays
    bool antialias, excludes_outside;
} ResizeAxis;

// A result element reads (1 - weight) * x[lower] + weight * x[upper]; both indices are inside the axis.
typedef struct ResizeLinear {
    int64_t lower, upper;
    double weight;
} ResizeLinear;

ResizeAxis resize_axis(const Node *n, uint32_t axis, int64_t in, int64_t out);
// Is there something to read for result element i? Only tf_crop_and_resize says no.
bool resize_is_inside(const ResizeAxis *a, int64_t i);
// The element that mode nearest reads. in > 0.
int64_t resize_nearest(const ResizeAxis *a, int64_t i);
// Mode linear without antialias and exclude_outside.
static inline bool resize_is_plain(const ResizeAxis *a)
{
    return a->mode == RESIZE_linear && !a->antialias && !a->excludes_outside;
}
ResizeLinear resize_linear(const ResizeAxis *a, int64_t i);
// The general case: how many elements each result element reads, and those of element i, which are all inside
// the axis, with their weights.
int64_t resize_tap_count(const ResizeAxis *a);
void resize_taps(const ResizeAxis *a, int64_t i, int64_t *index, double *weight);

#endif
