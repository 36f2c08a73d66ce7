// SPDX-License-Identifier: Apache-2.0
// How --stream is read: which axes of the inputs go on from run to run. The step takes the place of the
// model.
#ifndef COMPILER_JOB_STREAMING_H
#define COMPILER_JOB_STREAMING_H

#include "compiler/job/given.h"
#include "compiler/job/pipeline.h"
#include "passes/stream/stream.h"

typedef struct StreamName {
    const char *given; // the whole argument
    const char *name;  // of a dimension, or of an input
    bool is_input;
    uint32_t axis;
} StreamName;

typedef struct Streaming {
    VEC(StreamName) names;
    int64_t frames; // in a step; 0: not given
    Graph *whole;   // the model with numbers for all sizes; NULL: no --stream
    StreamReport report;
    uint64_t whole_macs; // multiply-adds of the whole run; 0: nobody has counted them
} Streaming;

// Reads the options. A dimension without a size gets one that is long enough for any window. False: reported.
bool streaming_read(Cli *c, Given *given, Streaming *out);
// Puts the step in the place of the model, if one is asked for. False: reported, with the node that cannot.
bool streaming_apply(Streaming *s, Diag *d, PipelineOptions *o, Graph **graph);
// Plans the whole run too, to count its multiply-adds.
bool streaming_count_whole(Streaming *s, Diag *d, const PipelineOptions *o);
// Lines about the step, whose plan is p; nothing without --stream.
void streaming_print(const Streaming *s, const Plan *p, Str *out);
// The same as a member "stream" with a comma behind it.
void streaming_print_json(const Streaming *s, const Plan *p, Str *out);

#endif
