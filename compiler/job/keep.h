// SPDX-License-Identifier: Apache-2.0
// What runs compute and keep beside all outputs: values inside the model (--keep), sets of outputs
// (--output-set).
#ifndef COMPILER_JOB_KEEP_H
#define COMPILER_JOB_KEEP_H

#include "compiler/cli/cli.h"
#include "ir/plan/plan.h"

// Makes values of the imported graph outputs, after all others. False: reported.
bool keep_apply(Cli *c, const Strings *given, Graph *g);
// Moves these from the outputs of the plan to what it keeps.
void keep_take(const Strings *given, Plan *p);
// Reads --output-set. False: reported.
bool sets_apply(Cli *c, Plan *p);

#endif
