// SPDX-License-Identifier: Apache-2.0
// What is emitted for op cases, as one line of `hash case` each, for tools/compare-emission. $TEST_GPU names
// a family of GPUs as in the other tests; for CPUs, test_ops does this where $TEST_EMIT is set.
//
//   print_emission TARGET FILE.rlx...
#include "../gpu/gpu_cases.h"
#include "base/map.h"
#include "codegen/host/host.h"

#include <stdio.h>

static const Target *target;

static void print_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    cfamily_print_kernel(target, k->kernel, ctx);
}

int main(int argc, char **argv)
{
    GpuCases cases = {0};
    if (argc < 3 || target_find(argv[1]) == NULL)
        return 2;
    target = target_find(argv[1]);
    gpu_plan(&cases, argv[1], 1, argv + 2, argc - 2);
    for (uint32_t i = 0; i < cases.jobs.len; i++) {
        const GpuJob *j = &cases.jobs.data[i];
        Str text = str_new(&cases.scratch);
        gpu_each_kernel(j, print_kernel, &text);
        printf("%016llx %s\n", (unsigned long long)hash_bytes64(str_text(&text), text.len, 0), j->c->name);
        arena_reset(&cases.scratch);
    }
    return cases.n_failed != 0 || cases.jobs.len == 0;
}
