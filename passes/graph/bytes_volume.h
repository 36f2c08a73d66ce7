// SPDX-License-Identifier: Apache-2.0
// Convolutions of bytes over volumes, as such convolutions over images.
#ifndef PASSES_GRAPH_BYTES_VOLUME_H
#define PASSES_GRAPH_BYTES_VOLUME_H

#include "passes/pass.h"

// Operands of the convolution over images; axes: the spatial axes of the volume that are rows and columns.
typedef struct VolumeImages {
    NodeId x, w;
    uint32_t axes[2];
} VolumeImages;

// Is this convolution one over a volume that is worth being one over images?
bool bytes_volume_fits(const Graph *g, NodeId id);
VolumeImages bytes_volume_images(Graph *g, NodeId id);
// The value of the convolution `id`, of the result of the one over images.
NodeId bytes_volume_of(Graph *g, NodeId id, NodeId images);

#endif
