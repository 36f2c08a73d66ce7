// SPDX-License-Identifier: Apache-2.0
#ifndef COMPILER_REPORT_INSPECT_DISPATCH_H
#define COMPILER_REPORT_INSPECT_DISPATCH_H

#include "base/str.h"
#include "ir/plan/plan.h"

// What a run of a GPU target launches, for rlxc inspect: lines of text, or members of a JSON object.
void inspect_dispatch_print(const Plan *p);
void inspect_dispatch_json(const Plan *p, Str *out);

#endif
