// SPDX-License-Identifier: Apache-2.0
// Streaming: a graph that computes over all elements of an axis becomes a step that takes the next of them
// and keeps what later steps need in states. All steps together compute what the whole run computes, each
// element once, with the same bits. See docs/STREAMING.md.
#ifndef PASSES_STREAM_STREAM_H
#define PASSES_STREAM_STREAM_H

#include "ir/graph/graph.h"

// What the user asks for.
typedef struct StreamAxis {
    uint32_t input, axis; // input: its place in the list of the graph
} StreamAxis;
typedef struct StreamRequest {
    const StreamAxis *axes;
    uint32_t n_axes;
    int64_t frames; // elements of these axes that a step takes; 0: the fewest that work
} StreamRequest;

// An input or output of the step that has the axis.
typedef struct StreamPart {
    const char *name;
    uint32_t axis;
    int64_t frames; // in a step
    int64_t late;   // step k gives elements k * frames - late and following; those below 0 mean nothing
} StreamPart;
typedef struct StreamReport {
    int64_t frames, total; // of the axis: in a step, in the whole run
    VEC(StreamPart)
    parts;             // outputs
    uint64_t bytes;    // of the states that were made
    uint32_t n_states; // so many
} StreamReport;

// whole: after the pass `expand`, all sizes are numbers. False: reported, with the node that cannot stream.
bool stream_graph(Graph *whole, const StreamRequest *r, StreamReport *report, Graph **step);

#endif
