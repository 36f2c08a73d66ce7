// SPDX-License-Identifier: Apache-2.0
// The sizes of values as functions of symbols, for the tables of --tables: passes know them, and code
// generators do not see passes.
#ifndef COMPILER_JOB_EXTENTS_H
#define COMPILER_JOB_EXTENTS_H

#include "ir/plan/plan.h"

// Fills Plan.extents, also of the plans for other sizes.
void extents_note(Plan *p);

#endif
