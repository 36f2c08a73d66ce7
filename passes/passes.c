// SPDX-License-Identifier: Apache-2.0
// The table of passes. See passes.def.
#include "passes/pass.h"

const PassInfo pass_info[] = {
#define PASS(name, level, where, bodies, stage, plan, text)                                                  \
    {#name, pass_##name, level, PASS_##where, BODIES_##bodies, stage, plan, text},
#include "passes/passes.def"
#undef PASS
};

const uint32_t pass_count = sizeof pass_info / sizeof pass_info[0];
