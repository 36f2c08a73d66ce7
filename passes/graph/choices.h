// SPDX-License-Identifier: Apache-2.0
// Which of two integers that differ by 1 at most counts: where both are equal it does not matter, else a bit
// that is stored for the lower one says it. Needs elementwise nodes only, so that it stays in the kernel of
// what it reads.
#ifndef PASSES_GRAPH_CHOICES_H
#define PASSES_GRAPH_CHOICES_H

#include "ir/graph/graph.h"

enum { CHOICE_WORDS = 8 }; // with a bit for each value of a byte

// Bit i of a channel: the upper one of least + i and least + i + 1 counts.
typedef struct Choices {
    const uint32_t (*upper)[CHOICE_WORDS]; // of each channel
    uint32_t channels;                     // along axis 1; 1: all have the same
    int64_t least, most;                   // beyond these, results are clamped behind it
} Choices;

NodeId choose_stored(Graph *g, NodeId low, NodeId high, const Choices *c);
// A constant for the channels along axis 1 of a value of this rank; a scalar where all are equal.
NodeId choices_const(Graph *g, DType t, uint32_t rank, const int64_t *v, uint32_t n, Span span);

#endif
