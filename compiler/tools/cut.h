// SPDX-License-Identifier: Apache-2.0
// A part of an imported graph as a graph of its own: what leads from some values to others.
#ifndef COMPILER_TOOLS_CUT_H
#define COMPILER_TOOLS_CUT_H

#include "ir/graph/graph.h"

// `from` become inputs, `to` outputs, by their names. n_from 0: from the inputs of the graph. Inputs, weights
// and params that are needed beside `from` come along, and states as inputs;
// so do checks that are about values of the part; a warning says how many are not.
typedef struct CutEnds {
    const NodeId *from, *to;
    const char *const *from_names, *const *to_names;
    uint32_t n_from, n_to;
} CutEnds;

// False: reported (a value of `to` does not depend on `from`, or a value of `from` is not needed).
bool cut_graph(Graph *g, const CutEnds *ends, Graph **out);

#endif
