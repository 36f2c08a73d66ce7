// SPDX-License-Identifier: Apache-2.0
// What is counted of the IR of kernels for estimates of microcontrollers, against numbers worked out by hand.
#include "ir/plan/estimate.h"
#include "ir/kernel/kernel_parse.h"
#include "unit.h"

static Arena arena;
static Diag diag;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    diag = diag_new(&arena);
    return 0;
}

static KernelBytes bytes[2]; // of x and y, by the last call

static Work work_of(const char *body)
{
    const char *text = arena_printf(&arena, "kernel k0\n  param x: i8 read\n  param y: i8 write\n%s", body);
    const Kernel *k = kernel_parse(&arena, &diag, diag_add_file(&diag, "k", text, strlen(text)));
    if (k == NULL)
        diag_print(&diag, stderr, (DiagStyle){0});
    assert_non_null(k);
    memset(bytes, 0, sizeof bytes);
    return work_and_bytes(k, bytes);
}

// Element i of 10 is the sum of those of i - 1 .. i + 1 that exist: 28 in all.
static void test_borders(void **state)
{
    (void)state;
    const Work w = work_of("  for %1 = 0 .. 10 step 1 \"i\"\n"
                           "    %2 = sub index 1 %1\n"
                           "    %3 = max index 0 %2\n"
                           "    %4 = sub index 11 %1\n"
                           "    %5 = min index 3 %4\n"
                           "    %6 = var i32 0\n"
                           "    for %7 = %3 .. %5 step 1 \"k\"\n"
                           "      %8 = add index %1 %7\n"
                           "      %9 = load i8 x[%8]\n"
                           "      %10 = cast i32 %9\n"
                           "      %11 = get i32 %6\n"
                           "      %12 = fma i32 %10 3 %11\n"
                           "      set %6 %12\n"
                           "    end\n"
                           "    %13 = get i32 %6\n"
                           "    %14 = cast i8 %13\n"
                           "    store y[%1] = %14\n"
                           "  end\n");
    assert_true(w.n[WORK_kernel] == 1 && w.n[WORK_turn] == 10 + 28);
    assert_true(w.n[WORK_load] == 28 && w.n[WORK_product] == 28 && w.n[WORK_store] == 10);
    assert_true(w.n[WORK_integer] == 28 + 10); // casts
    assert_true(bytes[0].read == 28 && bytes[0].written == 0 && bytes[1].read == 0 && bytes[1].written == 10);
    assert_true(w.n[WORK_index] == 4 * 10 + 28);
    assert_true(w.n[WORK_entry] == 10 && w.n[WORK_in_turn] == 28 && w.n[WORK_byte] == 28);
    assert_true(w.n[WORK_in_load] == 28 && w.n[WORK_in_product] == 28 && w.n[WORK_in_store] == 0);
}

// What does not depend on the inner loop counts once for each turn of the outer one; branches on data half.
static void test_outside(void **state)
{
    (void)state;
    const Work w = work_of("  for %1 = 0 .. 4 step 1 \"i\"\n"
                           "    for %2 = 0 .. 8 step 2 unroll \"j\"\n"
                           "      %3 = mul index %1 5\n"
                           "      %4 = add index %3 %2\n"
                           "      %5 = load i8 x[%4]\n"
                           "      %6 = lt i8 %5 7:i8\n"
                           "      if %6\n"
                           "        store y[%4] = %5\n"
                           "      else\n"
                           "        store y[%3] = %5\n"
                           "      end\n"
                           "    end\n"
                           "  end\n");
    assert_true(w.n[WORK_turn] == 4 && w.n[WORK_load] == 16 && w.n[WORK_choice] == 16);
    assert_true(w.n[WORK_store] == 16 && w.n[WORK_index] == 4 + 16);
}

static void test_rows(void **state)
{
    (void)state;
    Kernel *k = kernel_new(&arena, "k");
    assert_true(estimate_kernel("cortex-m4", k).error > 0 && estimate_kernel("armv8-a", k).error < 0);
    assert_true(estimate_time("cortex-m7", k).error > 0 && estimate_time("armv8-a", k).error < 0);
    assert_true(estimate_time("cortex-m7", k).insns == estimate_time("cortex-m4", k).insns);
    assert_string_equal(estimate_kind(k), "moves");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_borders, reset),
                                       cmocka_unit_test_setup(test_outside, reset),
                                       cmocka_unit_test_setup(test_rows, reset)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
