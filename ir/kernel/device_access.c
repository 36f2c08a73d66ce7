// SPDX-License-Identifier: Apache-2.0
// What the device functions of CPUs (dsp.h, mve.h, rvv.h) touch from the addresses that they are given, for
// whoever follows a kernel's accesses. v: the values of all operands.
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"

// byte_window: one run of a pixel.
static int64_t run(const int64_t *v)
{
    return v[2];
}

// mve_sums1, mve_bytes1, a pixel of rvv_sums and rvv_bytes: a window.
static int64_t window(const int64_t *v)
{
    return v[3];
}

// dsp_clamp, byte_clamp: of one pixel, which is read before it is written.
static int64_t clamped(const int64_t *v)
{
    return v[1];
}

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

// What dsp_pair and dsp_edge write, and dsp_bytes2 reads: words of two pixels.
static int64_t words_of_pair(const int64_t *v)
{
    return v[3] * dsp_words(v[4]) * 2;
}

static int64_t words_of_edge(const int64_t *v)
{
    return dsp_words(v[4]) * 2 - 1;
}

static int64_t words(const int64_t *v)
{
    return 2 * v[3];
}

// dsp_row, dsp_eight: 4 elements a step.
static int64_t steps(const int64_t *v)
{
    return 4 * v[3];
}

// dsp_bytes2, mve_bytes1, a pixel of mve_bytes2: four channels a block.
static int64_t bytes(const int64_t *v)
{
    return 4 * v[4];
}

// mve_columns: of one column and row.
static int64_t channels(const int64_t *v)
{
    return v[2];
}

// mve_deep, mve_apart and mve_wide: of one pixel.
static int64_t span(const int64_t *v)
{
    return v[3];
}

// rvv_bytes and rvv_deep: of one pixel.
static int64_t lanes_of_pixel(const int64_t *v)
{
    return v[4];
}

static int64_t deep_lanes(const int64_t *v)
{
    return v[3];
}

static int64_t reach(const int64_t *v)
{
    return v[7];
}

// dsp_points: of one pixel. Two are taken together; one by one is stricter.
static int64_t point(const int64_t *v)
{
    return v[5];
}

static int64_t point_bytes(const int64_t *v)
{
    return v[6];
}

// dsp_windows: windows of a pair, what is made of them, and where they are copied to.
static int64_t pair_runs(const int64_t *v)
{
    const int64_t all = (dsp_window_rows(v[7]) - 1) * dsp_window_pitch(v[7]) + dsp_window_run(v[7]);
    return v[5] == 0 ? 0 : v[5] / 2 + all;
}

static int64_t pair_bytes(const int64_t *v)
{
    return 4 * v[6];
}

static int64_t pair_words(const int64_t *v)
{
    return 2 * dsp_window_words(v[7]);
}

// dsp_planes, dsp_taps: of one row and column.
static int64_t block(const int64_t *v)
{
    (void)v;
    return DSP_BLOCK;
}

enum {
    OF_POINTS = 1 << 4 | 1 << 5 | 1 << 6,
    OF_PAIRS = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7,
    OF_PLANES = 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7,
    OF_TAPS = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6,
    OF_PAIR = 1 << 3 | 1 << 4 | 1 << 5,
    OF_EDGE = 1 << 2 | 1 << 3,
    OF_ROW = 1 << 3,
    OF_BYTES = 1 << 4,
    OF_WINDOW = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6,
    OF_CLAMPED = 1 << 1 | 1 << 2 | 1 << 3,
    OF_PIXELS = OF_BYTES | 1 << 5 | 1 << 6,
    OF_COLUMNS = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7,
    OF_DEEP = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7,
    OF_SUMS = 1 << 3 | 1 << 5 | 1 << 6,
    OF_WINDOWS = 1 << 3 | 1 << 5 | 1 << 8,
    OF_LANES = 1 << 4 | 1 << 5 | 1 << 6,
    OF_REACH = 1 << 4 | 1 << 6 | 1 << 7,
    OF_DEEP_LANES = 1 << 3 | 1 << 4 | 1 << 5,
    TO_PAIR = 1 << 3 | 1 << 4,
    TO_EDGE = 1 << 4
};

static const KDeviceAccess accesses[] = {
    {KDEV_dsp_pair_i8, 0, TO_PAIR, true, words_of_pair, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_pair_u8, 0, TO_PAIR, true, words_of_pair, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_edge_i8, 0, TO_EDGE, true, words_of_edge, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_edge_u8, 0, TO_EDGE, true, words_of_edge, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_bytes2, 1, OF_ROW, false, words, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_eight_i8, 1, OF_ROW, false, steps, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_eight_u8, 1, OF_ROW, false, steps, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_pair_i8, 1, OF_PAIR, false, runs, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_pair_i8, 2, OF_PAIR, false, runs, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_pair_u8, 1, OF_PAIR, false, runs, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_pair_u8, 2, OF_PAIR, false, runs, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_edge_i8, 1, OF_EDGE, false, part, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_edge_u8, 1, OF_EDGE, false, part, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_row_i8, 1, OF_ROW, false, steps, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_row_u8, 1, OF_ROW, false, steps, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_bytes2, 0, OF_BYTES, true, bytes, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_bytes2, 5, OF_BYTES, true, bytes, 0, 0, 0, 0, 0, false},
    {KDEV_dsp_points, 0, OF_POINTS, true, point_bytes, 4, 6, 0, 0, 0, false},
    {KDEV_dsp_points, 1, OF_POINTS, false, point, 4, 5, 0, 0, 0, false},
    {KDEV_dsp_windows, 0, OF_PAIRS, true, pair_bytes, 4, 6, 0, 0, 4, false},
    {KDEV_dsp_windows, 3, OF_PAIRS, false, pair_runs, 4, 5, 0, 0, 1, false},
    {KDEV_dsp_ahead, 0, OF_PAIRS, true, pair_bytes, 4, 6, 0, 0, 4, false},
    {KDEV_dsp_ahead, 1, OF_PAIRS, true, pair_words, 4, 6, 0, 0, 1, true},
    {KDEV_dsp_ahead, 3, OF_PAIRS, false, pair_runs, 4, 5, 0, 0, 1, false},
    {KDEV_dsp_planes_i8, 1, OF_PLANES, false, block, 3, 6, 5, 7, 0, false},
    {KDEV_dsp_planes_u8, 1, OF_PLANES, false, block, 3, 6, 5, 7, 0, false},
    {KDEV_dsp_taps1, 0, OF_TAPS, true, block, 3, 5, 4, 6, 0, false},
    {KDEV_dsp_taps2, 0, OF_TAPS, true, block, 3, 5, 4, 6, 0, false},
    {KDEV_byte_window_i8, 1, OF_WINDOW, false, run, 3, 4, 5, 6, 0, false},
    {KDEV_byte_window_u8, 1, OF_WINDOW, false, run, 3, 4, 5, 6, 0, false},
    {KDEV_dsp_clamp, 0, OF_CLAMPED, true, clamped, 2, 3, 0, 0, 0, false},
    {KDEV_byte_clamp, 0, OF_CLAMPED, true, clamped, 2, 3, 0, 0, 0, false},
    {KDEV_mve_sums1, 1, OF_ROW, false, window, 0, 0, 0, 0, 0, false},
    {KDEV_mve_bytes1, 1, OF_ROW, false, window, 0, 0, 0, 0, 0, false},
    {KDEV_mve_bytes1, 0, OF_BYTES, true, bytes, 0, 0, 0, 0, 0, false},
    {KDEV_mve_columns_i8, 1, OF_COLUMNS, false, channels, 3, 4, 6, 7, 0, false},
    {KDEV_mve_columns_u8, 1, OF_COLUMNS, false, channels, 3, 4, 6, 7, 0, false},
    {KDEV_mve_deep, 0, OF_DEEP, true, span, 4, 6, 5, 7, 0, false},
    {KDEV_mve_apart, 0, OF_DEEP, true, span, 4, 6, 5, 7, 0, false},
    {KDEV_mve_wide, 0, OF_DEEP, true, span, 4, 6, 5, 7, 0, false},
    {KDEV_mve_bytes2, 0, OF_PIXELS, true, bytes, 5, 6, 0, 0, 0, false},
    {KDEV_rvv_sums, 1, OF_SUMS, false, window, 5, 6, 0, 0, 0, false},
    {KDEV_rvv_bytes, 1, OF_WINDOWS, false, window, 5, 8, 0, 0, 0, false},
    {KDEV_rvv_bytes, 0, OF_LANES, true, lanes_of_pixel, 5, 6, 0, 0, 0, false},
    {KDEV_rvv_deep, 1, OF_REACH, false, reach, 4, 6, 0, 0, 0, false},
    {KDEV_rvv_deep, 0, OF_DEEP_LANES, true, deep_lanes, 4, 5, 0, 0, 0, false},
};

const KDeviceAccess *k_device_access(KDevice f, uint32_t operand)
{
    rlx_assert(f < KDEV_COUNT);
    for (uint32_t i = 0; i < sizeof accesses / sizeof *accesses; i++)
        if (accesses[i].function == f && accesses[i].operand == operand)
            return &accesses[i];
    return NULL;
}
