// SPDX-License-Identifier: Apache-2.0
// The preparation stage: kernels that depend on parameters (and constants) only run once after a parameter
// was set, not in every run; what they make for the others lives in the state block. Lowering makes such
// kernels of its own: they pack parameters in the order in which products and convolutions read them, as
// constants are. What convolutions read as weights, and is made by the run, is packed alike, in every run.
#ifndef PASSES_LOWER_PACKER_H
#define PASSES_LOWER_PACKER_H

#include "passes/lower/lower.h"

// For each node: is it made of parameters and constants, and not of constants alone? NULL: none is.
bool *packer_find_lasting(const Graph *g, Arena *a);
// May the value be packed by a kernel of its own that need not run in every run?
static inline bool packer_can_pack(const Lower *l, NodeId id)
{
    return l->lasting != NULL && l->lasting[id] && lower_loc(l, id)->buf != 0;
}

// A kernel that packs the value `id` for the kernel of l.
typedef struct Packer {
    Lower l;         // emits into the packing kernel
    uint32_t from;   // its parameters: the value ...
    uint32_t to;     // ... and the packed elements, all of which are to be written
    uint32_t reader; // of the kernel that l was: the packed elements
} Packer;

void packer_open(const Lower *l, NodeId id, DType t, uint64_t elements, Packer *packer);
// Adds the kernel to the plan, and the parameter to the reader's.
void packer_close(Lower *l, Packer *packer);

// Packing kernels come right before their readers, as do others that lowering made (Plan.prepare.packings).
// By kernel before: where it is now.
const uint32_t *packer_add_kernels(Plan *p, Arena *a);

#endif
