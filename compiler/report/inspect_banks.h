// SPDX-License-Identifier: Apache-2.0
// Banks of memory (--bank) for rlxc inspect and certificates: nothing where there are none.
#ifndef COMPILER_REPORT_INSPECT_BANKS_H
#define COMPILER_REPORT_INSPECT_BANKS_H

#include "base/str.h"
#include "ir/plan/plan.h"

// A line for each bank, and one for each buffer in it.
void inspect_banks_text(const Plan *p, Str *out);
// "banks": [...], as a member of a JSON object with another one behind it.
void inspect_banks_json(const Plan *p, Str *out);

#endif
