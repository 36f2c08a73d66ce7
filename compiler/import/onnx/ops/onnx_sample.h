// SPDX-License-Identifier: Apache-2.0
// Reading an image at computed positions: what GridSample and DeformConv share.
#ifndef COMPILER_IMPORT_ONNX_OPS_ONNX_SAMPLE_H
#define COMPILER_IMPORT_ONNX_OPS_ONNX_SAMPLE_H

#include "compiler/import/onnx/onnx_import.h"

typedef enum SampleMode { SAMPLE_NEAREST, SAMPLE_LINEAR, SAMPLE_CUBIC } SampleMode;
typedef enum SamplePadding { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION } SamplePadding;

typedef struct Sampling {
    SampleMode mode;
    SamplePadding padding;
    bool align_corners; // reflection is at the centres of the border elements, not at their edges
} Sampling;

enum { SAMPLE_MAX_AXES = 3 };

// x [N, C, spatial ...]; coord: per spatial axis the positions [N, P] as floats, in elements. [N, P, C].
NodeId onnx_sample(OnnxNode *n, NodeId x, const NodeId *coord, Sampling s);

#endif
