// SPDX-License-Identifier: Apache-2.0
// See estimate.h.
#include "ir/plan/estimate.h"
#include <string.h>

static const struct {
    const char *cpu;
    double error, n[WORK_KINDS];
} rows[] = {
#define ESTIMATE(cpu, error, ...) {cpu, error, {__VA_ARGS__}},
#include "ir/plan/estimates.def"
#undef ESTIMATE
};

double estimate_error(const char *cpu)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].cpu, cpu) == 0)
            return rows[i].error;
    return -1;
}

Estimate estimate_kernel(const char *cpu, const Kernel *k)
{
    Estimate e = {.error = -1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].cpu, cpu) != 0)
            continue;
        const Work work = work_of_kernel(k);
        e.error = rows[i].error;
        for (uint32_t j = 0; j < WORK_KINDS; j++)
            e.insns += rows[i].n[j] * work.n[j];
    }
    return e;
}
