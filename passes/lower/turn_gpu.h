// SPDX-License-Identifier: Apache-2.0
// Kernels of GPUs that read one value across the order in which they write. Apart from turn.h, which callers
// include, since only the schedules themselves need this.
#ifndef PASSES_LOWER_TURN_GPU_H
#define PASSES_LOWER_TURN_GPU_H

#include "passes/lower/turn.h"

// The value that is read, and what is written (0: the destination of a copy), with the axes along which
// their elements are neighbours.
typedef struct Turned {
    const Domain *d;
    NodeId from, to;
    uint32_t from_axis, to_axis;
    TurnStore store;
} Turned;

// All of these give false where the case is not theirs: then nothing was emitted.
bool turn_on_gpu(Lower *l, const Turned *t);
// In square tiles: both axes are long.
bool turn_tiles(Lower *l, const Turned *t);

#endif
