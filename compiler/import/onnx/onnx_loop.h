// SPDX-License-Identifier: Apache-2.0
// Loops of the importer: what Loop, Scan and the recurrent operators say about one, and how it becomes nodes.
#ifndef COMPILER_IMPORT_ONNX_ONNX_LOOP_H
#define COMPILER_IMPORT_ONNX_ONNX_LOOP_H

#include "compiler/import/onnx/onnx_unroll.h"

// A tensor of which every iteration gets one entry of an axis.
typedef struct OnnxRow {
    NodeId x;
    uint32_t axis;
    bool is_backward; // from the last entry on
} OnnxRow;

typedef struct OnnxLoop {
    OnnxUnroll u;        // trips: INT64_MAX where only `count` says it
    NodeId count;        // the trip count when the model runs; 0: u.trips, or none
    const OnnxRow *rows; // u.n_rows
    bool has_bound;      // no more iterations than `bound`, which is as long as scan outputs are
    bool must_count;     // it is one node only if its condition counts iterations up to a size or a number
    Dim bound;
    const bool *wants_scan; // by scan output
    const NodeId *row_like; // by scan output: a value outside that has the sizes of its rows but for
                            // the first axis, or 0; NULL: there is none
    Diag *trial;            // what was wrong when the loop was tried as a graph
} OnnxLoop;

// The loop as one node with a graph for a body. out: carried values, then scan outputs (broken where not
// wanted). False: it cannot be one; the reasons are in l->trial, nothing was reported.
bool onnx_loop_graph(OnnxNode *n, OnnxLoop *l, OnnxValue *out);
// Iterations that are counted at most.
enum { ONNX_MAX_COUNT = 1 << 14 };
// How often a loop runs whose condition depends on no input of the model. outer: by input of the body from
// the third one on, its value outside; trips: how often at most, then how often. False: it is not known, or
// finding out would take too long.
bool onnx_count_trips(OnnxModel *m, const Graph *outside, Graph *body, const NodeId *outer,
                      uint32_t n_carried, int64_t *trips);
// The same where the condition compares a counter from 0 on with a size that the loop carries along: that
// size, which may be open.
bool onnx_count_to_size(OnnxNode *outside, const Graph *body, const OnnxUnroll *u, Dim *trips);
// The operator Loop with that body. row_like: see OnnxLoop.
void onnx_loop_with(OnnxNode *n, const Onnx__GraphProto *body, const NodeId *row_like);
// Passes the reasons on.
void onnx_report_trial(OnnxNode *n, const OnnxLoop *l);

// A loop whose body an import function makes: body (in a context of its own graph) gets the nodes of i, the
// carried values, the rows and the captured values, and fills in the next carried values and the scan
// outputs.
typedef struct OnnxBody OnnxBody;
struct OnnxBody {
    uint32_t n_carried, n_rows, n_captured, n_scan;
    bool has_condition;         // whether there is a next iteration: one more output of `make`, bool[]
    NodeId *carried, *captured; // outside
    const OnnxRow *rows;
    Dim trips;
    // in: carried, rows, captured; out: carried, scan outputs, condition
    void (*make)(OnnxNode *n, const OnnxBody *b, NodeId i, const NodeId *in, NodeId *out);
    const void *ctx;
};
// out: carried values, then scan outputs stacked along a new first axis.
void onnx_loop_of(OnnxNode *n, const OnnxBody *b, NodeId *out);

#endif
