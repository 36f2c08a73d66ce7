// SPDX-License-Identifier: Apache-2.0
// What warps do together in the interpreter of kernels: mma.sync, matrices in shared memory, named barriers,
// simdgroup and cooperative matrices; with the faults that must be found.
#include "eval_bench.h"

// --- mma.sync ------------------------------------------------------------------------------------

// Rows of 16 halves, 32 bytes: 16 of a, then 8 columns of b, by ldmatrix. Matrix of ldmatrix: %6.
static const char mma[] = "kernel k\n"
                          "  groups of 32 threads\n"
                          "  shared 1024 bytes\n"
                          "  param x: u32 read\n"
                          "  param y: f32 write\n"
                          "  for %1 = 0 .. 1 step 1 group\n"
                          "    %2 = thread\n"
                          "    %3 = call shared_begin\n"
                          "    for %4 = 0 .. 6 step 1\n"
                          "      %5 = mul index %4 32\n"
                          "      %6 = add index %5 %2\n"
                          "      %7 = mul index %6 4\n"
                          "      %8 = add index %3 %7\n"
                          "      %9 = address x[%6]\n"
                          "      device cp_async4 %8 %9\n"
                          "    end\n"
                          "    device cp_async_commit\n"
                          "    device cp_async_wait<0>\n"
                          "    device warp_sync\n"
                          "    %10 = array u32[4]\n"
                          "    %11 = array u32[4]\n"
                          "    %12 = array f32[4]\n"
                          "    for %13 = 0 .. 4 step 1 unroll\n"
                          "      astore %12 %13 1.0\n"
                          "    end\n"
                          "    %14 = rem index %2 16\n"
                          "    %15 = mul index %14 32\n"
                          "    %16 = div index %2 16\n"
                          "    %17 = mul index %16 16\n"
                          "    %18 = add index %15 %17\n"
                          "    %19 = add index %3 %18\n"
                          "    device ldmatrix4 %10 0 %19\n"
                          "    %20 = rem index %2 8\n"
                          "    %21 = mul index %20 32\n"
                          "    %22 = div index %2 8\n"
                          "    %23 = rem index %22 2\n"
                          "    %24 = mul index %23 16\n"
                          "    %25 = add index %21 %24\n"
                          "    %26 = add index %25 512\n"
                          "    %27 = add index %3 %26\n"
                          "    device ldmatrix4 %11 0 %27\n"
                          "    device mma_f16 %12 0 %10 0 %11 0\n"
                          "    %28 = mul index %2 4\n"
                          "    for %29 = 0 .. 4 step 1 unroll\n"
                          "      %30 = aload f32 %12 %29\n"
                          "      %31 = add index %28 %29\n"
                          "      store y[%31] = %30\n"
                          "    end\n"
                          "  end\n";

static bool is_product(const float *y)
{
    for (uint32_t t = 0; t < 32; t++)
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = t / 4 + i / 2 * 8, column = t % 4 * 2 + i % 2;
            double sum = 1;
            for (uint32_t k = 0; k < 16; k++)
                sum += number(row * 16 + k) * number(256 + column * 16 + k);
            if ((double)y[t * 4 + i] != sum)
                return false;
        }
    return true;
}

static void test_mma(void **state)
{
    (void)state;
    bench_memory(0, 24 * 16 * 2, half_numbers(DTYPE_f16, 24 * 16));
    const float *y = bench_memory(1, 32 * 4 * 4, NULL);
    bench_accepted(mma);
    assert_true(is_product(y));
    bench_accepted(bench_changed(mma, "mma_f16", "    device mma_f16 %12 0 %10 0 %11 2"));
    assert_true(is_product(y)); // matrices 2 and 3 of b are the same as 0 and 1
    const char *swapped = bench_changed(mma, "rem index %2 16", "    %14 = rem index %2 8");
    bench_accepted(swapped);
    assert_false(is_product(y));
    bench_accepted(bench_changed(mma, "ldmatrix4 %10", "    device ldmatrix4_t %10 0 %19"));
    assert_false(is_product(y));
}

static void test_mma_faults(void **state)
{
    (void)state;
    bench_memory(0, 24 * 16 * 2, half_numbers(DTYPE_f16, 24 * 16));
    bench_memory(1, 32 * 4 * 4, NULL);
    bench_refused(mma, "cp_async_wait", "", "");
    bench_refused(mma, "cp_async_wait", "    device cp_async_wait<1>", "");
    bench_refused(mma, "cp_async_commit", "", "");
    bench_refused(mma, "warp_sync", "", "race");
    bench_refused(mma, "0 .. 6", "    for %4 = 0 .. 5 step 1", "");
    bench_refused(mma, "      astore %12", "", "");
}

// What stmatrix puts, ldmatrix turned or not takes: word m of lane t is elements of row t / 4 of matrix m.
static const char stmatrix[] = "kernel k\n"
                               "  groups of 32 threads\n"
                               "  shared 512 bytes\n"
                               "  param x: u32 read\n"
                               "  param y: u32 write\n"
                               "  for %1 = 0 .. 1 step 1 group\n"
                               "    %2 = thread\n"
                               "    %3 = call shared_begin\n"
                               "    %4 = mul index %2 16\n"
                               "    %5 = add index %3 %4\n"
                               "    %6 = add index %2 32\n"
                               "    %7 = add index %2 64\n"
                               "    %8 = add index %2 96\n"
                               "    %9 = load u32 x[%2]\n"
                               "    %10 = load u32 x[%6]\n"
                               "    %11 = load u32 x[%7]\n"
                               "    %12 = load u32 x[%8]\n"
                               "    device stmatrix4 %5 %9 %10 %11 %12\n"
                               "    device warp_sync\n"
                               "    %13 = array u32[4]\n"
                               "    device ldmatrix4_t %13 0 %5\n"
                               "    for %14 = 0 .. 4 step 1 unroll\n"
                               "      %15 = aload u32 %13 %14\n"
                               "      %16 = mul index %14 32\n"
                               "      %17 = add index %16 %2\n"
                               "      store y[%17] = %15\n"
                               "    end\n"
                               "  end\n";

static void test_stmatrix(void **state)
{
    (void)state;
    uint16_t x[256];
    for (uint32_t i = 0; i < 256; i++) // matrix, row, column
        x[i] = (uint16_t)i;
    bench_memory(0, sizeof x, x);
    const uint16_t *y = bench_memory(1, sizeof x, NULL);
    bench_accepted(stmatrix);
    for (uint32_t matrix = 0; matrix < 4; matrix++)
        for (uint32_t row = 0; row < 8; row++)
            for (uint32_t column = 0; column < 8; column++)
                assert_int_equal(y[matrix * 64 + row * 8 + column], matrix * 64 + column * 8 + row);
    bench_accepted(bench_changed(stmatrix, "ldmatrix", "    device ldmatrix4 %13 0 %5"));
    assert_memory_equal(y, x, sizeof x);
    bench_refused(stmatrix, "warp_sync", "", "race");
}

// --- threads that wait ---------------------------------------------------------------------------

// Warp 1 reads what warp 0 put. %4: does the thread put?
static const char named[] = "kernel k\n"
                            "  groups of 64 threads\n"
                            "  shared 128 bytes\n"
                            "  param y: f32 write\n"
                            "  for %1 = 0 .. 1 step 1 group\n"
                            "    %2 = thread\n"
                            "    %3 = call shared_begin\n"
                            "    %4 = lt index %2 32\n"
                            "    %5 = rem index %2 32\n"
                            "    %6 = mul index %5 4\n"
                            "    %7 = add index %3 %6\n"
                            "    if %4\n"
                            "      device shared_put %7 %2\n"
                            "      device named_arrive 1 64\n"
                            "    else\n"
                            "      device named_sync 1 64\n"
                            "      %8 = var index 0\n"
                            "      %9 = sub index 1148 %7\n"
                            "      %10 = add index %9 1024\n"
                            "      device shared_get %8 %10\n"
                            "      %11 = get index %8\n"
                            "      %12 = cast f32 %11\n"
                            "      store y[%5] = %12\n"
                            "    end\n"
                            "  end\n";

static void test_named(void **state)
{
    (void)state;
    const float *y = bench_memory(0, 32 * 4, NULL);
    bench_accepted(named);
    for (uint32_t i = 0; i < 32; i++)
        assert_true(y[i] == (float)(31 - i));
    bench_refused(named, "named_arrive", "", "");
    bench_refused(named, "named_sync", "", "race");
    bench_refused(named, "named_sync", "      device named_sync 2 64", "");
    bench_refused(named, "named_sync", "      device named_sync 1 32", "");
}

// --- simdgroups, cooperative matrices ------------------------------------------------------------

// 8 steps of 16 rows, 8 steps of 32 columns, lines 36 numbers apart.
static const char simd[] = "kernel k\n"
                           "  groups of 32 threads\n"
                           "  param x: f32 read\n"
                           "  param y: f32 write\n"
                           "  for %1 = 0 .. 1 step 1 group\n"
                           "    %2 = array f32[288] shared\n"
                           "    %3 = array f32[288] shared\n"
                           "    %4 = array f32[576] shared\n"
                           "    %5 = array f32[16]\n"
                           "    %6 = thread\n"
                           "    for %7 = %6 .. 288 step 32\n"
                           "      %8 = load f32 x[%7]\n"
                           "      astore %2 %7 %8\n"
                           "      %9 = add index %7 288\n"
                           "      %10 = load f32 x[%9]\n"
                           "      astore %3 %7 %10\n"
                           "    end\n"
                           "    for %11 = 0 .. 16 step 1 unroll\n"
                           "      astore %5 %11 1.0\n"
                           "    end\n"
                           "    barrier\n"
                           "    device simd_product<36> %5 %2 0 %3 0\n"
                           "    device simd_put<36> %4 0 %5\n"
                           "    barrier\n"
                           "    for %12 = %6 .. 576 step 32\n"
                           "      %13 = rem index %12 36\n"
                           "      %14 = lt index %13 32\n"
                           "      if %14\n"
                           "        %15 = aload f32 %4 %12\n"
                           "        store y[%12] = %15\n"
                           "      end\n"
                           "    end\n"
                           "  end\n";

static void test_simd(void **state)
{
    (void)state;
    float x[576];
    for (uint32_t i = 0; i < 576; i++)
        x[i] = (float)number(i);
    bench_memory(0, sizeof x, x);
    const float *y = bench_memory(1, sizeof x, NULL);
    bench_accepted(simd);
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t column = 0; column < 32; column++) {
            double sum = 1;
            for (uint32_t k = 0; k < 8; k++)
                sum += number(k * 36 + row) * number(288 + k * 36 + column);
            assert_true((double)y[row * 36 + column] == sum);
        }
    bench_refused(simd, "    barrier\n", "", "race");
    bench_refused(simd, "%4 0 %5\n    barrier", "", "race");
    bench_refused(simd, "astore %5", "", "nobody");
}

// Lines of 16 halves, 12 words apart.
static const char coop[] = "kernel k\n"
                           "  groups of 32 threads\n"
                           "  param x: u32 read\n"
                           "  param y: f32 write\n"
                           "  for %1 = 0 .. 1 step 1 group\n"
                           "    %2 = array f32[384] shared\n"
                           "    %3 = array u32[4]\n"
                           "    %4 = thread\n"
                           "    for %5 = %4 .. 48 step 32\n"
                           "      %6 = mul index %5 4\n"
                           "      for %7 = 0 .. 4 step 1 unroll\n"
                           "        %8 = add index %6 %7\n"
                           "        %9 = load u32 x[%8]\n"
                           "        astore %3 %7 %9\n"
                           "      end\n"
                           "      device coop_share %2 %6 %3 0\n"
                           "      for %10 = 0 .. 4 step 1 unroll\n"
                           "        %11 = add index %6 %10\n"
                           "        %12 = add index %11 192\n"
                           "        %13 = load u32 x[%12]\n"
                           "        astore %3 %10 %13\n"
                           "      end\n"
                           "      %14 = add index %6 192\n"
                           "      device coop_share %2 %14 %3 0\n"
                           "    end\n"
                           "    device coop_zero 0 1\n"
                           "    barrier\n"
                           "    device coop_product %2 0 192 1 1 12 12 0 0\n"
                           "    barrier\n"
                           "    device coop_put 0 %2 0 16 0\n"
                           "    barrier\n"
                           "    %15 = array f32[4]\n"
                           "    for %16 = %4 .. 64 step 32\n"
                           "      %17 = mul index %16 4\n"
                           "      device coop_get %15 0 %2 %17\n"
                           "      for %18 = 0 .. 4 step 1 unroll\n"
                           "        %19 = add index %17 %18\n"
                           "        %20 = aload f32 %15 %18\n"
                           "        store y[%19] = %20\n"
                           "      end\n"
                           "    end\n"
                           "  end\n";

static void check_coop(const float *y, bool a_by_steps, bool b_by_steps, bool is_by_column)
{
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t column = 0; column < 16; column++) {
            double sum = 0;
            for (uint32_t k = 0; k < 16; k++)
                sum += number(a_by_steps ? k * 24 + row : row * 24 + k) *
                       number(384 + (b_by_steps ? k * 24 + column : column * 24 + k));
            assert_true((double)y[is_by_column ? column * 16 + row : row * 16 + column] == sum);
        }
}

static void test_coop(void **state)
{
    (void)state;
    bench_memory(0, 768 * 2, half_numbers(DTYPE_f16, 768));
    const float *y = bench_memory(1, 256 * 4, NULL);
    bench_accepted(coop);
    check_coop(y, false, false, false);
    bench_accepted(bench_changed(coop, "coop_product", "    device coop_product %2 0 192 1 1 12 12 1 0"));
    check_coop(y, true, false, false);
    bench_accepted(bench_changed(coop, "coop_product", "    device coop_product %2 0 192 1 1 12 12 2 0"));
    check_coop(y, false, true, false);
    bench_accepted(bench_changed(coop, "coop_put", "    device coop_put 0 %2 0 16 1"));
    check_coop(y, false, false, true);
    bench_refused(coop, "    barrier\n", "", "race");
    bench_refused(coop, "12 12 0 0\n    barrier", "", "race");
    bench_refused(coop, "0 %2 0 16 0\n    barrier", "", "race");
    bench_refused(coop, "coop_zero", "", "nobody");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_mma, reset),      cmocka_unit_test_setup(test_mma_faults, reset),
        cmocka_unit_test_setup(test_stmatrix, reset), cmocka_unit_test_setup(test_named, reset),
        cmocka_unit_test_setup(test_simd, reset),     cmocka_unit_test_setup(test_coop, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
