// SPDX-License-Identifier: Apache-2.0
// Kernels that read one value across the order in which they write. CPUs turn blocks in vector registers;
// turn_gpu.h says what GPUs do.
#ifndef PASSES_LOWER_TURN_H
#define PASSES_LOWER_TURN_H

#include "passes/lower/lower.h"

// Stores what a point makes of the turned value there.
typedef void (*TurnStore)(Lower *l, const Domain *d, Point at, NodeId from, KRef value);

// A whole kernel over the domain, which has been simplified: `to` is what it writes (0: the destination of a
// copy). False: nothing was emitted, because there is no such value, or more than one.
bool turn_map(Lower *l, const Domain *d, NodeId to, TurnStore store);

#endif
