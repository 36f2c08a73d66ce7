// SPDX-License-Identifier: Apache-2.0
// The tables of machines. See machine.h.
#include "ir/machine/machine.h"

const CpuMachine cpu_machines[CPU_MACHINE_COUNT] = {
#define CPU_MACHINE(name, ...) {#name, __VA_ARGS__},
#define GPU_MACHINE(...)
#include "ir/machine/machines.def"
#undef CPU_MACHINE
#undef GPU_MACHINE
};

#define CLUSTERS(...)                                                                                        \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define RATES(...)                                                                                           \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
static const GpuMachine gpu_machines[] = {
#define CPU_MACHINE(...)
#define GPU_MACHINE(name, ...) {#name, __VA_ARGS__},
#include "ir/machine/machines.def"
#undef CPU_MACHINE
#undef GPU_MACHINE
};
enum { N_GPU_MACHINES = sizeof gpu_machines / sizeof *gpu_machines, DEFAULT_ARCH = 90 };

const GpuMachine *gpu_machine(uint32_t arch)
{
    const GpuMachine *found = &gpu_machines[0];
    for (uint32_t i = 1; i < N_GPU_MACHINES && gpu_machines[i].arch <= arch; i++)
        found = &gpu_machines[i];
    return found;
}

const GpuMachine *gpu_machine_default(void)
{
    return gpu_machine(DEFAULT_ARCH);
}

static uint64_t power_below(uint64_t n)
{
    uint64_t p = 1;
    while (2 * p <= n)
        p *= 2;
    return p;
}

uint64_t gpu_about_threads(const GpuMachine *m)
{
    return power_below((uint64_t)m->processors * m->threads);
}

uint64_t gpu_about_l2(const GpuMachine *m)
{
    return power_below(m->l2_bytes);
}
