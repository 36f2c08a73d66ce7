// SPDX-License-Identifier: Apache-2.0
// print_gpu MODEL TARGET: the kernels of a model as text for a GPU target, with what they need in front.
#include "compiler/job/pipeline.h"

#include <stdio.h>

// All kernels of the plan; loops belong to the host, so that only their bodies are printed. False: the target
// lacks something.
static bool print_kernels(const Plan *p, const Target *t, Str *out)
{
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        if (p->kernels.data[i].loop != NULL) {
            if (!print_kernels(p->kernels.data[i].loop->body, t, out))
                return false;
            continue;
        }
        const char *lacks = target_lacks(t, p->kernels.data[i].kernel);
        if (lacks != NULL) {
            fprintf(stderr, "%s\n", lacks);
            return false;
        }
        cfamily_print_kernel(t, p->kernels.data[i].kernel, out);
    }
    return true;
}

int main(int argc, char **argv)
{
    Arena a = {0};
    Diag d = diag_new(&a);
    CpuInfo cpu;
    const Target *t = argc == 3 ? target_find(argv[2]) : NULL;
    if (t == NULL || !cpu_find("generic", &cpu))
        return 2;
    const TargetCaps caps = target_caps(t, &cpu);
    const PipelineOptions o = {.opt_level = 3, .caps = &caps, .report = stderr};
    Graph *g = NULL;
    Plan *plan = NULL;
    Str kernels = str_new(&a), all = str_new(&a);
    bool ok = import_model(&a, &d, argv[1], &g) && pipeline_run(&a, &d, g, &o, &plan);
    ok = ok && print_kernels(plan, t, &kernels);
    diag_print(&d, stderr, DIAG_PLAIN);
    target_print_prelude(t, str_text(&kernels), &all);
    printf("%s%s", str_text(&all), str_text(&kernels));
    arena_free(&a);
    return ok ? 0 : 1;
}
