// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms, for the importers: nodes of graphs that have no operation of their own for
// them. The last axis of x has the parts of numbers, one (real) or two; that of the result has two, or one
// after the inverse of half of a spectrum.
#ifndef COMPILER_IMPORT_DFT_H
#define COMPILER_IMPORT_DFT_H

#include "ir/graph/graph.h"

typedef struct DftKind {
    bool is_inverse, is_onesided;
} DftKind;

// The node of a file that asks for transforms.
typedef struct DftReader {
    Graph *graph;
    Span span;
    const char *label;
    void *node;
    bool (*spend)(void *node, uint64_t elements);   // counts what is made. False: too much (reported)
    void (*refuse)(void *node, const char *reason); // reports it
} DftReader;

// Along any axis but the last; points 0: all of it, else it is cut or filled with zeros. 0: reported.
NodeId dft_along(const DftReader *reader, NodeId x, uint32_t axis, int64_t points, DftKind kind);

#endif
