// SPDX-License-Identifier: Apache-2.0
// The text of a plan's kernels and of their calls, for test_ops.
#ifndef TESTS_E2E_OPS_PRINT_H
#define TESTS_E2E_OPS_PRINT_H

#include "codegen/host.h"

// The functions of a kernel, of a loop those of its body first; their names begin with "cID_", from now on.
// NULL, or what the C target lacks for it.
const char *ops_print_functions(PlanKernel *k, uint32_t id, Str *out);
// Its calls, with barriers between its phases, on the buffers b[BufId]; who shares it is `team`.
void ops_print_calls(const PlanKernel *k, Str *out);

#endif
