// SPDX-License-Identifier: Apache-2.0
// Pictures of a model and its plan: `rlxc inspect --html` and `--dot`.
#ifndef COMPILER_PAGES_PAGES_H
#define COMPILER_PAGES_PAGES_H

#include "compiler/pages/times.h"

// For each node: is it an input or a state, or do results need it?
bool *pages_needed(const Graph *g, Arena *a);
// The nodes of a graph that its results need, as one line of JSON: {"nodes": [...], "outputs": [...]}.
const char *pages_graph(Arena *a, const Graph *g);
// Kernels with what they compute, read and write, and the weights as they are packed: members of an object.
void pages_plan(const Plan *p, Str *out);

// The whole page. before: pages_graph of the model as it was read, made before passes changed it. facts: of
// inspect_json. times: NULL: none were measured. False: reported.
bool pages_write_html(Job *j, const char *path, const char *before, const char *facts, const Times *times);
// The nodes after all passes, in one box for each kernel, for Graphviz. "-": to the standard output.
bool pages_write_dot(Job *j, const char *path);

#endif
