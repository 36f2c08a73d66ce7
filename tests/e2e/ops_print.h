// SPDX-License-Identifier: Apache-2.0
// The text of a plan's kernels and of their calls, for test_ops.
#ifndef TESTS_E2E_OPS_PRINT_H
#define TESTS_E2E_OPS_PRINT_H

#include "codegen/host/host.h"

// Texts of jobs differ by what they compute only: OPS_ID stands where names have the number of the job.
#define OPS_ID '@'
#define OPS_PREFIX "c@_"

// The functions of a kernel, of a loop those of its body first; their names begin with OPS_PREFIX, from now
// on. NULL, or what the C target lacks for it.
const char *ops_print_functions(PlanKernel *k, Str *out);
// Its calls, with barriers between its phases, on the buffers b[BufId]; who shares it is `team`.
void ops_print_calls(const PlanKernel *k, Str *out);
// The text with a number in place of every OPS_ID.
void ops_print_with_id(const char *text, uint32_t id, Str *out);

#endif
