// SPDX-License-Identifier: Apache-2.0
// How op cases are planned: the rows of ops_configs.def, for whoever runs them.
#ifndef TESTS_E2E_OPS_PLAN_H
#define TESTS_E2E_OPS_PLAN_H

#include "codegen/target/target.h"
#include "ops_check.h"
#include "passes/pass.h"

typedef struct OpsConfig {
    const char *name, *cpu;
    int opt_level;
    uint8_t lanes;              // 0: what the CPU has
    uint32_t every;             // takes every n-th case
    bool is_gpu, channels_last; // is_gpu: the GPU's schedules, with their parallel loops as plain ones
    uint8_t threads;            // 0: one; else all kernels are split that can be
    uint8_t winograd;           // tile of Winograd convolutions; 0: plain sums
    uint8_t strips;             // 2: stages join wherever they can
    const char *only;           // part of the names of the cases that it takes, or NULL
    const char *choice;         // taken where it is a candidate, whatever the cost model says
} OpsConfig;

extern const OpsConfig ops_configs[];
extern const uint32_t ops_n_configs;

// Is case i, of that name, one of the config's?
bool ops_config_takes(const OpsConfig *c, uint32_t i, const char *name);
OpsTolerance ops_config_tolerance(const OpsConfig *c);
// The plan of a case: of a copy of its graph, in the same arena, because copies share what they intern. NULL:
// a pass failed, which has said why.
Plan *ops_plan(Arena *scratch, Graph *g, const OpsConfig *config);
// The same with options that someone else has made.
Plan *ops_plan_with(Arena *scratch, Graph *g, const PassOptions *o);
// NULL, or what is wrong with a plan that plan_verify has passed: by the order of its kernels
// (check_order.h), and by their listings, each of which must read back to a kernel with the same text
// (kernel_round.h; of a quarter of them, another one each day).
const char *ops_check_plan(Arena *scratch, Plan *p, const Target *target);

#endif
