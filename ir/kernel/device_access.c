// SPDX-License-Identifier: Apache-2.0
// What the device functions of CPUs (dsp.h) touch from the addresses that they are given, for whoever follows
// a kernel's accesses. v: the values of all operands.
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"

// dsp_pair: `rows` runs of n elements, `pitch` apart.
static int64_t runs(const int64_t *v)
{
    return (v[3] - 1) * v[5] + v[4];
}

// dsp_edge: elements lo .. hi - 1.
static int64_t part(const int64_t *v)
{
    return v[3] > v[2] ? v[3] - v[2] : 0;
}

// dsp_row: 4 elements a step.
static int64_t steps(const int64_t *v)
{
    return 4 * v[3];
}

static const KDeviceAccess accesses[] = {
    {KDEV_dsp_pair_i8, 1, 1 << 3 | 1 << 4 | 1 << 5, runs},
    {KDEV_dsp_pair_i8, 2, 1 << 3 | 1 << 4 | 1 << 5, runs},
    {KDEV_dsp_pair_u8, 1, 1 << 3 | 1 << 4 | 1 << 5, runs},
    {KDEV_dsp_pair_u8, 2, 1 << 3 | 1 << 4 | 1 << 5, runs},
    {KDEV_dsp_edge_i8, 1, 1 << 2 | 1 << 3, part},
    {KDEV_dsp_edge_u8, 1, 1 << 2 | 1 << 3, part},
    {KDEV_dsp_row_i8, 1, 1 << 3, steps},
    {KDEV_dsp_row_u8, 1, 1 << 3, steps},
};

const KDeviceAccess *k_device_access(KDevice f, uint32_t operand)
{
    rlx_assert(f < KDEV_COUNT);
    for (uint32_t i = 0; i < sizeof accesses / sizeof *accesses; i++)
        if (accesses[i].function == f && accesses[i].operand == operand)
            return &accesses[i];
    return NULL;
}
