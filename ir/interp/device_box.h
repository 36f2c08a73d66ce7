// SPDX-License-Identifier: Apache-2.0
// What one copy of the copy engine moves: lines of a box of a tensor, as PlanTensorMap describes it. Only
// numbers; who reads and writes the memory is device_copy.c.
#ifndef IR_INTERP_DEVICE_BOX_H
#define IR_INTERP_DEVICE_BOX_H

#include "ir/plan/plan.h"

// Where a copy begins: the place of its first element by axis, and of an image the tap of the kernel.
typedef struct BoxAt {
    int64_t at[PLAN_MAP_MAX_RANK];
    int64_t tap[2]; // along W and H
} BoxAt;

// A line: elements that are next to each other in the tensor.
typedef struct BoxLine {
    int64_t from;        // byte of the tensor, of the line's first element, be it there or not
    uint32_t first, end; // its bytes that the tensor has; the others are 0, and not written
} BoxLine;

uint32_t box_lines(const PlanTensorMap *m);
uint32_t box_line_bytes(const PlanTensorMap *m);
static inline uint32_t box_bytes(const PlanTensorMap *m)
{
    return box_lines(m) * box_line_bytes(m);
}
// NULL, or why the engine does not take such a copy.
const char *box_wrong(const PlanTensorMap *m, const BoxAt *at);
BoxLine box_line(const PlanTensorMap *m, const BoxAt *at, uint32_t line);

#endif
