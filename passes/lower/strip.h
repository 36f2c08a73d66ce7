// SPDX-License-Identifier: Apache-2.0
// Kernels of several stages: a convolution or pooling whose value only the next one reads is made a strip of
// rows at a time, in scratch memory that stays in the second-level cache, and is read from there at once. The
// value never exists as a whole: neither its bytes in the arena nor the way to far memory and back.
//
// The result's rows are cut into chunks, one for each thread, and these into strips, which follow each other.
// For every strip each stage makes the rows that the next one needs and has not got yet; rows that the strip
// before has made and that are needed again move to the front of the scratch memory. So only chunks repeat
// rows, at their beginnings. Every sum runs as it does alone: the bits are the same.
#ifndef PASSES_LOWER_STRIP_H
#define PASSES_LOWER_STRIP_H

#include "passes/lower/lower.h"

enum { STRIP_MAX_STAGES = 3 };

// The anchor of a stage, [N, C, rows, columns], along its rows.
typedef struct StripStage {
    NodeId root, anchor;
    int64_t in_rows, rows;                 // what it reads, what it makes
    int64_t kernel, stride, dilation, pad; // along the rows
    bool has_pairs;                        // depthwise: two rows at a time where there are two
    int64_t pitch;                         // elements from row to row of its value in scratch memory
    int64_t pixel_pitch;
    double cycles;       // estimated, of the multiply-adds
    double weight_bytes; // which every strip reads again
} StripStage;

typedef struct Strip {
    uint32_t n;
    StripStage stage[STRIP_MAX_STAGES];
    int64_t rows;                       // of the result
    int64_t max_rows[STRIP_MAX_STAGES]; // of each stage that a strip holds
    bool has_even_rows[STRIP_MAX_STAGES]; // what a strip makes begins and ends with an even number of rows
} Strip;

// The stage with this anchor and root; false: it is none.
bool strip_stage(const Graph *g, const TargetCaps *caps, NodeId anchor, NodeId root, StripStage *s);
// Sets max_rows and has_even_rows from rows.
void strip_count_rows(Strip *s);
// Does a strip need rows of a stage that the strip before has made?
bool strip_has_overlap(const Strip *s, uint32_t stage);
// Lowers a kernel with stages.
void strip_lower(Lower *l);

#endif
