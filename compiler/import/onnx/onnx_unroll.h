// SPDX-License-Identifier: Apache-2.0
// Running the body of Loop or Scan at import: every iteration becomes nodes of the graph around it, so that
// whatever is known of an iteration (its number, sizes, lengths of sequences) is known. For loops whose
// values change in kind or shape from one iteration to the next, and for very short ones.
#ifndef COMPILER_IMPORT_ONNX_ONNX_UNROLL_H
#define COMPILER_IMPORT_ONNX_ONNX_UNROLL_H

#include "compiler/import/onnx/onnx_import.h"

typedef struct OnnxValueList {
    VEC(OnnxValue)
    v;
} OnnxValueList;

typedef struct OnnxUnroll OnnxUnroll;
// The value of row input `row` in iteration `i`; broken when it failed (reported).
typedef OnnxValue (*OnnxRowFn)(OnnxNode *n, const OnnxUnroll *u, uint32_t row, int64_t i);

struct OnnxUnroll {
    const Onnx__GraphProto *body;
    int64_t trips;    // at most; INT64_MAX: until the condition ends it
    bool has_control; // Loop: inputs begin with the iteration and the condition, outputs with the condition
    bool may_assume;  // the condition may be what it is with the values that the user gave
    OnnxValue cond;   // before the first iteration; absent: true
    uint32_t n_carried;
    OnnxValue *carried; // of any kind; what they are at the beginning, afterwards what they are at the end
    uint32_t n_rows;    // inputs after the carried ones, which differ by iteration
    OnnxRowFn row;
    void *ctx;
    uint32_t n_scan;     // outputs after the carried ones
    OnnxValueList *scan; // by output: its value in every iteration
    int64_t done;        // iterations
};

// The body has as many inputs and outputs as the loop needs. False: reported.
bool onnx_check_body(OnnxNode *n, const OnnxUnroll *u);
// True when the body may run that often without the import becoming long. Says nothing.
bool onnx_may_unroll(OnnxNode *n, const Onnx__GraphProto *body, int64_t trips);
// Fills in carried, scan and done. False: failed (reported).
bool onnx_unroll(OnnxNode *n, OnnxUnroll *u);
// The values of one scan output as a tensor, stacked along a new first axis. `like` is one such value, for
// the type when there are none; it may be broken when there are some.
NodeId onnx_stack(OnnxNode *n, const OnnxValueList *list, OnnxValue like);

#endif
