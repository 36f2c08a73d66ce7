// SPDX-License-Identifier: Apache-2.0
// What the device functions of CPUs (dsp.h) touch from the addresses that they are given, for whoever follows
// a kernel's accesses. v: the values of all operands.
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"

static KDeviceRuns one_run(int64_t length)
{
    return (KDeviceRuns){length, {1, 1}, {0, 0}};
}

// dsp_pair: `rows` runs of n elements, `pitch` apart.
static KDeviceRuns of_pair(const int64_t *v)
{
    return (KDeviceRuns){v[4], {v[3], 1}, {v[5], 0}};
}

// dsp_edge: elements lo .. hi - 1.
static KDeviceRuns of_edge(const int64_t *v)
{
    return one_run(v[3] - v[2]);
}

// dsp_row: 4 elements a step.
static KDeviceRuns of_row(const int64_t *v)
{
    return one_run(4 * v[3]);
}

// dsp_bytes2: four channels a block.
static KDeviceRuns of_bytes(const int64_t *v)
{
    return one_run(4 * v[4]);
}

// dsp_points: two pixels, or one by one where one is left, which is stricter.
static KDeviceRuns pixels(int64_t n, int64_t bytes)
{
    const int64_t each = n % 2 == 0 ? 2 : 1;
    return (KDeviceRuns){each * bytes, {n / each, 1}, {each * bytes, 0}};
}

static KDeviceRuns of_points(const int64_t *v)
{
    return pixels(v[4], v[5]);
}

static KDeviceRuns of_point_bytes(const int64_t *v)
{
    return pixels(v[4], DSP_BLOCK * v[6]);
}

// dsp_planes: four channels of the columns of the rows lo .. hi - 1.
static KDeviceRuns of_planes(const int64_t *v)
{
    return (KDeviceRuns){DSP_BLOCK, {v[3] - v[2], dsp_columns(v[7])}, {v[5], v[6]}};
}

// dsp_taps: four channels of rows and columns.
static KDeviceRuns of_taps(const int64_t *v)
{
    return (KDeviceRuns){DSP_BLOCK, {v[3], v[4]}, {v[5], v[6]}};
}

enum {
    FOR_PAIR = 1 << 3 | 1 << 4 | 1 << 5,
    FOR_EDGE = 1 << 2 | 1 << 3,
    FOR_ROW = 1 << 3,
    FOR_BYTES = 1 << 4,
    FOR_POINTS = 1 << 4 | 1 << 5 | 1 << 6,
    FOR_PLANES = 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7,
    FOR_TAPS = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6
};

static const KDeviceAccess accesses[] = {
    {KDEV_dsp_pair_i8, 1, FOR_PAIR, false, of_pair},
    {KDEV_dsp_pair_i8, 2, FOR_PAIR, false, of_pair},
    {KDEV_dsp_pair_u8, 1, FOR_PAIR, false, of_pair},
    {KDEV_dsp_pair_u8, 2, FOR_PAIR, false, of_pair},
    {KDEV_dsp_edge_i8, 1, FOR_EDGE, false, of_edge},
    {KDEV_dsp_edge_u8, 1, FOR_EDGE, false, of_edge},
    {KDEV_dsp_row_i8, 1, FOR_ROW, false, of_row},
    {KDEV_dsp_row_u8, 1, FOR_ROW, false, of_row},
    {KDEV_dsp_bytes2, 0, FOR_BYTES, true, of_bytes},
    {KDEV_dsp_bytes2, 5, FOR_BYTES, true, of_bytes},
    {KDEV_dsp_points, 0, FOR_POINTS, true, of_point_bytes},
    {KDEV_dsp_points, 1, FOR_POINTS, false, of_points},
    {KDEV_dsp_planes_i8, 1, FOR_PLANES, false, of_planes},
    {KDEV_dsp_planes_u8, 1, FOR_PLANES, false, of_planes},
    {KDEV_dsp_taps1, 0, FOR_TAPS, true, of_taps},
    {KDEV_dsp_taps2, 0, FOR_TAPS, true, of_taps},
};

const KDeviceAccess *k_device_access(KDevice f, uint32_t operand)
{
    rlx_assert(f < KDEV_COUNT);
    for (uint32_t i = 0; i < sizeof accesses / sizeof *accesses; i++)
        if (accesses[i].function == f && accesses[i].operand == operand)
            return &accesses[i];
    return NULL;
}
