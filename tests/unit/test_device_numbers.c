// SPDX-License-Identifier: Apache-2.0
// What copies and products of the interpreter of kernels go by: fragments, descriptors, boxes, as numbers.
#include "ir/interp/device_box.h"
#include "ir/interp/device_matrix.h"
#include "ir/graph/small_float.h"
#include "unit.h"

#include <math.h>

// --- numbers and descriptors ---------------------------------------------------------------------

static void test_numbers(void **state)
{
    (void)state;
    static const DType types[] = {DTYPE_f16, DTYPE_bf16, DTYPE_f8e4m3fn, DTYPE_f8e5m2};
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t bits = 0; bits < 1u << 8 * dtype_info[types[t]].bytes; bits++) {
            const double expected = small_float_widen(types[t], bits);
            const float found = matrix_number(types[t], bits);
            if (isnan(expected))
                assert_true(isnan(found));
            else
                assert_true((double)found == expected && !signbit(found) == !signbit(expected));
        }
}

// Rows of 128 bytes, k next to each other: byte 16 * c of row r is in place c ^ r % 8 of the row.
static void test_desc_rows(void **state)
{
    (void)state;
    for (uint32_t step = 0; step < 4; step++) {
        const MatrixDesc made = {.address = 2048 + 32 * step, .lead = 16, .stride = 1024, .swizzle = 128};
        const MatrixDesc d = matrix_desc_of(matrix_desc_bits(&made), false, 2);
        for (uint32_t row = 0; row < 64; row++)
            for (uint32_t k = 0; k < 16; k += 8)
                assert_int_equal(matrix_desc_place(&d, row, k),
                                 2048 + row * 128 + ((2 * step + k / 8) ^ row % 8) * 16);
        const MatrixDesc bytes = matrix_desc_of(matrix_desc_bits(&made), false, 1);
        for (uint32_t row = 0; row < 64; row++)
            for (uint32_t k = 0; k < 32; k += 16)
                assert_int_equal(matrix_desc_place(&bytes, row, k),
                                 2048 + row * 128 + ((2 * step + k / 16) ^ row % 8) * 16);
    }
}

// Blocks of 64 columns next to each other, a line of 128 bytes for each step.
static void test_desc_columns(void **state)
{
    (void)state;
    for (uint32_t step = 0; step < 4; step++) {
        const MatrixDesc made = {
            .address = 1024 + 16 * 128 * step, .lead = 8192, .stride = 1024, .swizzle = 128};
        const MatrixDesc d = matrix_desc_of(matrix_desc_bits(&made), true, 2);
        for (uint32_t column = 0; column < 256; column += 8)
            for (uint32_t k = 0; k < 16; k++)
                assert_int_equal(matrix_desc_place(&d, column, k), 1024 + column / 64 * 8192 +
                                                                       (16 * step + k) * 128 +
                                                                       (column % 64 / 8 ^ k % 8) * 16);
    }
}

// Without swizzle: 8 rows of 16 bytes, lead to the next eight steps. With rows of 64 bytes: two bits of the
// address, exclusive or'ed with bits 7 and 8.
static void test_desc_narrow(void **state)
{
    (void)state;
    const MatrixDesc plain = {.address = 512, .lead = 1024, .stride = 128};
    const MatrixDesc half = {.address = 512, .lead = 16, .stride = 512, .swizzle = 64};
    const MatrixDesc a = matrix_desc_of(matrix_desc_bits(&plain), false, 2);
    const MatrixDesc b = matrix_desc_of(matrix_desc_bits(&half), false, 2);
    for (uint32_t row = 0; row < 64; row++)
        for (uint32_t k = 0; k < 16; k += 8) {
            assert_int_equal(matrix_desc_place(&a, row, k), 512 + k / 8 * 1024 + row * 16);
            assert_int_equal(matrix_desc_place(&b, row, k), 512 + row * 64 + (k / 8 ^ row / 2 % 4) * 16);
        }
}

// --- boxes ---------------------------------------------------------------------------------------

static void test_box_lines(void **state)
{
    (void)state;
    const PlanTensorMap m = {.type = DTYPE_f16,
                             .rank = 3,
                             .dim = {40, 5, 3},
                             .stride = {0, 96, 512},
                             .box = {32, 4, 2},
                             .swizzle = 64};
    const BoxAt at = {.at = {16, -1, 2}};
    assert_null(box_wrong(&m, &at));
    assert_int_equal(box_bytes(&m), 32 * 2 * 4 * 2);
    for (uint32_t line = 0; line < box_lines(&m); line++) {
        const BoxLine l = box_line(&m, &at, line);
        const int64_t y = (int64_t)line % 4 - 1, z = 2 + line / 4;
        const bool is_in = y >= 0 && y < 5 && z < 3;
        assert_int_equal(l.from, 32 + y * 96 + z * 512);
        assert_int_equal(l.first, 0);
        assert_int_equal(l.end, is_in ? (40 - 16) * 2 : 0);
    }
    const BoxLine left = box_line(&m, &(BoxAt){.at = {-8, 0, 0}}, 0);
    assert_int_equal(left.first, 16);
    assert_int_equal(left.end, 64);
}

static void test_box_refused(void **state)
{
    (void)state;
    PlanTensorMap m = {
        .type = DTYPE_f16, .rank = 2, .dim = {64, 8}, .stride = {0, 128}, .box = {64, 8}, .swizzle = 64};
    const BoxAt at = {0};
    assert_non_null(box_wrong(&m, &at)); // lines of 128 bytes
    m.swizzle = 128;
    assert_null(box_wrong(&m, &at));
    m.stride[1] = 120;
    assert_non_null(box_wrong(&m, &at));
}

// Pixels of a convolution of 3 x 3 taps with padding 1 and step 2, output by output, at every tap.
static void test_box_pixels(void **state)
{
    (void)state;
    enum { C = 8, W = 7, H = 5, N = 2, OUT_W = 4, OUT_H = 3, PIXELS = 16 };
    const PlanTensorMap m = {.type = DTYPE_bf16,
                             .rank = 4,
                             .dim = {C, W, H, N},
                             .stride = {0, C * 2, C * W * 2, C * W * H * 2},
                             .box = {C, PIXELS},
                             .is_image = true,
                             .low = {-1, -1},
                             .high = {-1, -1},
                             .step = {2, 2}};
    for (int64_t first = 0; first < OUT_W * OUT_H * N; first += 5)
        for (int64_t tap = 0; tap < 9; tap++) {
            const BoxAt at = {
                .at = {0, first % OUT_W * 2 - 1, first / OUT_W % OUT_H * 2 - 1, first / (OUT_W * OUT_H)},
                .tap = {tap % 3, tap / 3}};
            assert_null(box_wrong(&m, &at));
            for (uint32_t line = 0; line < PIXELS; line++) {
                const int64_t out = first + line, n = out / (OUT_W * OUT_H);
                const int64_t x = out % OUT_W * 2 - 1 + tap % 3, y = out / OUT_W % OUT_H * 2 - 1 + tap / 3;
                const bool is_in = x >= 0 && x < W && y >= 0 && y < H && n < N;
                const BoxLine l = box_line(&m, &at, line);
                assert_int_equal(l.end, is_in ? C * 2 : 0);
                if (is_in)
                    assert_int_equal(l.from, ((n * H + y) * W + x) * C * 2);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_desc_rows),
        cmocka_unit_test(test_desc_columns), cmocka_unit_test(test_desc_narrow),
        cmocka_unit_test(test_box_lines),    cmocka_unit_test(test_box_refused),
        cmocka_unit_test(test_box_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
