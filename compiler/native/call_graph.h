// SPDX-License-Identifier: Apache-2.0
// The stack that functions take with all that they call, by the graph of calls and the frames that gcc says
// it made (-fcallgraph-info=su): exact for this compiler and these options, but for what libraries take.
#ifndef COMPILER_NATIVE_CALL_GRAPH_H
#define COMPILER_NATIVE_CALL_GRAPH_H

#include "compiler/cli/cli.h"

// The most that a function needs: its own frame and those on the path that needs most.
typedef struct StackEntry {
    const char *function;
    uint64_t bytes;
    const char *path;  // "run > dispatch > k0_conv"
    Strings libraries; // functions that it may call and whose stack is not counted
} StackEntry;

typedef struct CallGraph {
    const char *unknown;     // why nothing is known, or NULL
    VEC(StackEntry) entries; // functions that programs can call
} CallGraph;

// text: one or several files of gcc's. source: the name of the model's file, whose static functions are those
// that pointers lead to; c: its text, which has functions in assembler whose frames gcc does not know.
CallGraph call_graph_read(Arena *a, const char *text, const char *source, const char *c);
// NULL: there is none.
const StackEntry *call_graph_entry(const CallGraph *g, const char *function);

#endif
