// SPDX-License-Identifier: Apache-2.0
// What is emitted for op cases, as one line of `hash case` each, for tools/compare-emission. $TEST_GPU names
// a family of GPUs as in the other tests; for CPUs, test_ops does this where $TEST_EMIT is set.
// Every kernel is also read back from its listing, which must give the same text.
//
//   print_emission TARGET FILE.rlx...
#include "../common/kernel_round.h"
#include "../gpu/gpu_cases.h"
#include "base/map.h"
#include "codegen/host/host.h"

#include <stdio.h>

typedef struct Printer {
    const Target *target;
    Str *text;
    const char *wrong; // with a kernel's listing
} Printer;

static void print_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    Printer *to = ctx;
    const char *wrong = kernel_round(to->text->arena, to->target, k->kernel);
    to->wrong = to->wrong != NULL ? to->wrong : wrong;
    cfamily_print_kernel(to->target, k->kernel, to->text);
}

int main(int argc, char **argv)
{
    GpuCases cases = {0};
    uint32_t n_wrong = 0;
    if (argc < 3 || target_find(argv[1]) == NULL)
        return 2;
    gpu_plan(&cases, argv[1], 1, argv + 2, argc - 2);
    for (uint32_t i = 0; i < cases.jobs.len; i++) {
        const GpuJob *j = &cases.jobs.data[i];
        Str text = str_new(&cases.scratch);
        Printer to = {cases.target, &text, NULL};
        gpu_each_kernel(j, print_kernel, &to);
        printf("%016llx %s\n", (unsigned long long)hash_bytes64(str_text(&text), text.len, 0), j->c->name);
        if (to.wrong != NULL)
            printf("# %s: %s\n", j->c->name, to.wrong);
        n_wrong += to.wrong != NULL;
        arena_reset(&cases.scratch);
    }
    return cases.n_failed != 0 || n_wrong != 0 || cases.jobs.len == 0;
}
