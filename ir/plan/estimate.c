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

// --- by kinds of kernels -------------------------------------------------------------------------

typedef enum KernelKind {
#define KIND(name, meaning) KIND_##name,
#define TIMES_OF(cpu, as, error)
#define TIMES(cpu, kind, ...)
#include "ir/plan/times.def"
#undef KIND
#undef TIMES
    KERNEL_KINDS
} KernelKind;

static const char *const kind_names[KERNEL_KINDS] = {
#define KIND(name, meaning)   #name,
#define TIMES(cpu, kind, ...)
#include "ir/plan/times.def"
#undef KIND
#undef TIMES_OF
};

static const struct {
    const char *cpu, *as;
    double error;
} times_of[] = {
#define KIND(name, meaning)
#define TIMES_OF(cpu, as, error) {cpu, as, error},
#include "ir/plan/times.def"
#undef TIMES_OF
#undef TIMES
};

static const struct {
    const char *cpu;
    KernelKind kind;
    double n[WORK_KINDS];
} times[] = {
#define TIMES_OF(cpu, as, error)
#define N(work, n)            [WORK_##work] = n
#define TIMES(cpu, kind, ...) {cpu, KIND_##kind, {__VA_ARGS__}},
#include "ir/plan/times.def"
#undef N
#undef TIMES
#undef TIMES_OF
#undef KIND
};

static KernelKind kind_of(const Work *w)
{
    static const struct {
        WorkKind work;
        KernelKind kind;
    } functions[] = {{WORK_planes, KIND_planes},   {WORK_windows, KIND_planes}, {WORK_strided, KIND_planes},
                     {WORK_rows, KIND_rows},       {WORK_pairs, KIND_pairs},    {WORK_singles, KIND_singles}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (w->n[functions[i].work] > 0)
            return functions[i].kind;
    if (w->n[WORK_product] == 0)
        return KIND_moves;
    return w->n[WORK_load] < 1.05 * w->n[WORK_product] ? KIND_deep : KIND_sums;
}

const char *estimate_kind(const Kernel *k)
{
    const Work work = work_of_kernel(k);
    return kind_names[kind_of(&work)];
}

double estimate_error(const char *cpu)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].cpu, cpu) == 0)
            return rows[i].error;
    return -1;
}

static double sum_of(const double *numbers, const Work *work)
{
    double insns = 0;
    for (uint32_t i = 0; i < WORK_KINDS; i++)
        insns += numbers[i] * work->n[i];
    return insns;
}

Estimate estimate_kernel(const char *cpu, const Kernel *k)
{
    Estimate e = {.error = -1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].cpu, cpu) != 0)
            continue;
        const Work work = work_of_kernel(k);
        e = (Estimate){sum_of(rows[i].n, &work), rows[i].error};
    }
    return e;
}

Estimate estimate_time(const char *cpu, const Kernel *k)
{
    const Work work = work_of_kernel(k);
    for (size_t i = 0; i < sizeof times_of / sizeof *times_of; i++)
        for (size_t j = 0; j < sizeof times / sizeof *times && strcmp(times_of[i].cpu, cpu) == 0; j++)
            if (strcmp(times[j].cpu, times_of[i].as) == 0 && times[j].kind == kind_of(&work))
                return (Estimate){sum_of(times[j].n, &work), times_of[i].error};
    return estimate_kernel(cpu, k);
}
