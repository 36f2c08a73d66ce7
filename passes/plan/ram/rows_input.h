// SPDX-License-Identifier: Apache-2.0
// An input that the program gives row by row (--stream-input): the first kernel of a group that runs row by
// row copies each row to where the others read it, so that they run as far as the rows allow.
#ifndef PASSES_PLAN_RAM_ROWS_INPUT_H
#define PASSES_PLAN_RAM_ROWS_INPUT_H

#include "passes/plan/ram/rows.h"

enum { ROWS_IMAGE_AXIS = 2 }; // the first spatial axis of an image

// The axis of an input that is the first spatial one of a node behind it with such axes, or, if a mean or
// another reduction over several axes comes before it, the first of these: of the first node whose axis comes
// from one of the input. Where there is none, it is the third one (rows_axis.c).
uint32_t rows_input_axis(const Graph *g, NodeId input, Arena *scratch);
// What kernels read of an input of this graph; 0: it has no rows. They are along the third axis of a view of
// the input, and along `axis` of the input itself.
NodeId rows_input_value(const Graph *g, NodeId input, uint32_t axis, Arena *scratch);
// Does that have the axes of the input, in any order?
bool rows_input_has_axes(const Graph *g, NodeId input, NodeId value);
// Before the plan: *value is what kernels read of the input; 0: no input comes row by row. False: it has no
// rows, which was reported.
bool rows_input_begin(Pass *p, NodeId *value);
// Before rows are cut. False: they cannot be, which was reported.
bool rows_input_check(Pass *p);
// The kernel that copies rows, and behind the last one that reads what it makes; UINT32_MAX and 0: no input
// comes row by row.
void rows_input_span(const Plan *p, uint32_t *first, uint32_t *end);
// Says which node keeps the kernels that read the input from running row by row.
void rows_input_report(const Pass *p, const Rows *r);
// Once memory is planned: which kernel takes the rows.
void rows_input_end(Plan *p);

#endif
