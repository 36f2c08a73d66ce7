// SPDX-License-Identifier: Apache-2.0
// Copies by the engine, wgmma and clusters in the interpreter of kernels: each against a direct computation,
// and with a line left out that orders it against others, which must be found.
#include "eval_bench.h"

// --- the copy engine -----------------------------------------------------------------------------

enum { COLUMNS = 72, ROWS = 10 };

static const PlanTensorMap box_map = {.type = DTYPE_f16,
                                      .rank = 2,
                                      .dim = {COLUMNS, ROWS},
                                      .stride = {0, COLUMNS * 2},
                                      .box = {64, 8},
                                      .swizzle = 128};

static const char load_box[] = "kernel k\n"
                               "  groups of 32 threads\n"
                               "  shared 2048 bytes\n"
                               "  param map: u64 read\n"
                               "  param y: u32 write\n"
                               "  for %1 = 0 .. 1 step 1 group\n"
                               "    %2 = thread\n"
                               "    %3 = call shared_begin\n"
                               "    %4 = add index %3 1024\n"
                               "    %5 = eq index %2 0\n"
                               "    if %5\n"
                               "      device bar_init %4 1\n"
                               "      device bar_init_done\n"
                               "    end\n"
                               "    barrier\n"
                               "    if %5\n"
                               "      device bar_expect %4 1024\n"
                               "      %6 = address map[0]\n"
                               "      device tma_load_2d %3 %6 8 4 %4\n"
                               "    end\n"
                               "    device bar_wait %4 0\n"
                               "    %7 = array u32[8]\n"
                               "    %8 = mul index %2 32\n"
                               "    %9 = add index %3 %8\n"
                               "    device shared_words<8> %7 %9\n"
                               "    %10 = mul index %2 8\n"
                               "    for %11 = 0 .. 8 step 1 unroll\n"
                               "      %12 = aload u32 %7 %11\n"
                               "      %13 = add index %10 %11\n"
                               "      store y[%13] = %12\n"
                               "    end\n"
                               "  end\n";

static uint16_t *bench_box(void)
{
    uint16_t *x = half_numbers(DTYPE_f16, COLUMNS * ROWS);
    bench_memory(0, COLUMNS * ROWS * 2, x);
    bench.args[0].map = &box_map;
    return x;
}

static void test_load_box(void **state)
{
    (void)state;
    const uint16_t *x = bench_box(), *y = bench_memory(1, 1024, NULL);
    bench_accepted(load_box);
    for (uint32_t row = 0; row < 8; row++)
        for (uint32_t column = 0; column < 64; column++) {
            const uint32_t place = row * 64 + (column / 8 ^ row) * 8 + column % 8;
            assert_int_equal(y[place], row + 4 < ROWS ? x[(row + 4) * COLUMNS + column + 8] : 0);
        }
}

static void test_load_faults(void **state)
{
    (void)state;
    bench_box();
    bench_memory(1, 1024, NULL);
    bench_refused(load_box, "bar_wait", "", "race");
    bench_refused(load_box, "bar_wait", "    device bar_wait %4 1", "for ever");
    bench_refused(load_box, "bar_expect", "", "");
    bench_refused(load_box, "bar_expect", "      device bar_expect %4 1040", "");
    bench_refused(load_box, "bar_init_done", "", "bar_init_done");
    bench_refused(load_box, "    barrier", "", "");
    bench_refused(load_box, "tma_load", "      device tma_load_2d 1040 %6 8 4 %4", "128");
    bench_refused(load_box, "tma_load", "      device tma_load_2d 2048 %6 8 4 %4", "");
}

static const char store_box[] = "kernel k\n"
                                "  groups of 64 threads\n"
                                "  shared 2048 bytes\n"
                                "  param map: u64 read\n"
                                "  param x: u32 read\n"
                                "  for %1 = 0 .. 1 step 1 group\n"
                                "    %2 = thread\n"
                                "    %3 = call shared_begin\n"
                                "    %4 = mul index %2 16\n"
                                "    %5 = add index %3 %4\n"
                                "    %6 = eq index %2 0\n"
                                "    %7 = load u32 x[%2]\n"
                                "    device shared_put_words %5 %7 %7 %7 %7\n"
                                "    device proxy_fence\n"
                                "    barrier\n"
                                "    if %6\n"
                                "      %8 = address map[0]\n"
                                "      device tma_store_2d %8 %3 -8 4\n"
                                "      device bulk_commit\n"
                                "      device bulk_wait_read<0>\n"
                                "    end\n"
                                "    barrier\n"
                                "    device shared_put_words %5 1 1 1 1\n"
                                "  end\n";

static void test_store_box(void **state)
{
    (void)state;
    uint32_t words[64];
    for (uint32_t i = 0; i < 64; i++)
        words[i] = i << 16 | i;
    const uint16_t *y = bench_box();
    const uint16_t *to = bench_memory(0, COLUMNS * ROWS * 2, y);
    bench.args[0].map = &box_map;
    bench_memory(1, sizeof words, words);
    bench_accepted(store_box);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t column = 0; column < COLUMNS; column++) {
            const uint32_t line = row - 4, chunk = (column + 8) / 8;
            const bool is_in = row >= 4 && line < 8 && column < 56;
            assert_int_equal(to[row * COLUMNS + column],
                             is_in ? line * 8 + (chunk ^ line) : y[row * COLUMNS + column]);
        }
}

static void test_store_faults(void **state)
{
    (void)state;
    uint32_t words[64] = {0};
    bench_box();
    bench_memory(1, sizeof words, words);
    bench_refused(store_box, "proxy_fence", "", "");
    bench_refused(store_box, "barrier", "", "race");
    bench_refused(store_box, "bulk_wait_read", "", "race");
    bench_refused(store_box, "bulk_wait_read", "      device bulk_wait_read<1>", "race");
    bench_refused(store_box, "bulk_commit", "", "race");
    const char *last = bench_changed(store_box, "1 1 1 1", ""); // nothing is stored behind the copy
    bench_refused(last, "bulk_wait_read", "", "ends before the stores");
    bench_refused(last, "bulk_commit", "", "ends before the stores");
}

static const char copy_bytes[] = "kernel k\n"
                                 "  groups of 32 threads\n"
                                 "  shared 1024 bytes\n"
                                 "  param x: u32 read\n"
                                 "  param y: u32 read write\n"
                                 "  for %1 = 0 .. 1 step 1 group\n"
                                 "    %2 = thread\n"
                                 "    %3 = call shared_begin\n"
                                 "    %4 = add index %3 512\n"
                                 "    %5 = eq index %2 0\n"
                                 "    if %5\n"
                                 "      device bar_init %4 1\n"
                                 "      device bar_init_done\n"
                                 "      device bar_expect %4 512\n"
                                 "      %6 = address x[4]\n"
                                 "      device bulk_load %3 %6 512 %4\n"
                                 "      device bar_wait %4 0\n"
                                 "      %7 = address y[0]\n"
                                 "      device bulk_store %7 %3 512\n"
                                 "      device bulk_commit\n"
                                 "      device bulk_wait<0>\n"
                                 "    end\n"
                                 "  end\n";

static void test_copy_bytes(void **state)
{
    (void)state;
    uint32_t x[132];
    for (uint32_t i = 0; i < 132; i++)
        x[i] = i;
    bench_memory(0, sizeof x, x);
    const uint32_t *y = bench_memory(1, 512, NULL);
    bench_accepted(copy_bytes);
    assert_memory_equal(y, x + 4, 512);
    bench_refused(copy_bytes, "bar_wait", "", "race");
    bench_refused(copy_bytes, "bulk_wait", "", "ends before the stores");
    bench_refused(copy_bytes, "bulk_load", "      device bulk_load %3 %6 520 %4", "520");
    bench_refused(copy_bytes, "address x", "      %6 = address x[8]", "");
}

// --- wgmma ---------------------------------------------------------------------------------------

enum { WG_N = 64, WG_K = 64, WG_M = 64 };

static const PlanTensorMap square_map = {
    .type = DTYPE_f16, .rank = 2, .dim = {64, 64}, .stride = {0, 128}, .box = {64, 64}, .swizzle = 128};

#define WGMMA_BEGIN                                                                                          \
    "kernel k\n"                                                                                             \
    "  groups of 128 threads\n"                                                                              \
    "  shared 17408 bytes\n"                                                                                 \
    "  param a: u64 read\n"                                                                                  \
    "  param b: u64 read\n"                                                                                  \
    "  param y: f32 write\n"                                                                                 \
    "  for %1 = 0 .. 1 step 1 group\n"                                                                       \
    "    %2 = thread\n"                                                                                      \
    "    %3 = call shared_begin\n"                                                                           \
    "    %4 = add index %3 16384\n"                                                                          \
    "    %5 = eq index %2 0\n"                                                                               \
    "    if %5\n"                                                                                            \
    "      device bar_init %4 1\n"                                                                           \
    "      device bar_init_done\n"                                                                           \
    "    end\n"                                                                                              \
    "    barrier\n"                                                                                          \
    "    %6 = add index %3 8192\n"                                                                           \
    "    if %5\n"                                                                                            \
    "      device bar_expect %4 16384\n"                                                                     \
    "      %7 = address a[0]\n"                                                                              \
    "      %8 = address b[0]\n"                                                                              \
    "      device tma_load_2d %3 %7 0 0 %4\n"                                                                \
    "      device tma_load_2d %6 %8 0 0 %4\n"                                                                \
    "    end\n"                                                                                              \
    "    device bar_wait %4 0\n"                                                                             \
    "    %9 = call wgmma_desc %3 16 1024\n"                                                                  \
    "    %10 = call wgmma_desc %6 16 1024\n"                                                                 \
    "    %11 = array f32[32]\n"

// by: descriptor units for 16 steps; product: what multiplies, of which 576 is f16 with 64 columns.
#define WGMMA_STEPS(by, product)                                                                             \
    "    device wgmma_fence\n"                                                                               \
    "    for %12 = 0 .. 4 step 1 unroll\n"                                                                   \
    "      %13 = lt index 0 %12\n"                                                                           \
    "      %14 = cast u64 %12\n"                                                                             \
    "      %15 = mul u64 %14 " by "\n"                                                                       \
    "      %16 = add u64 %9 %15\n"                                                                           \
    "      %17 = add u64 %10 %15\n"                                                                          \
    "      device wgmma<" product "> %11 %16 %17 %13\n"                                                      \
    "    end\n"                                                                                              \
    "    device wgmma_commit\n"                                                                              \
    "    device wgmma_wait<0>\n"                                                                             \
    "    %18 = mul index %2 32\n"                                                                            \
    "    for %19 = 0 .. 32 step 1 unroll\n"                                                                  \
    "      %20 = aload f32 %11 %19\n"                                                                        \
    "      %21 = add index %18 %19\n"                                                                        \
    "      store y[%21] = %20\n"                                                                             \
    "    end\n"                                                                                              \
    "  end\n"

// Both operands with k next to each other.
static const char wgmma_rows[] = WGMMA_BEGIN WGMMA_STEPS("2", "576");
// Rows of a, and columns of b, next to each other: 16 steps are 16 lines of 128 bytes.
static const char wgmma_steps[] = WGMMA_BEGIN WGMMA_STEPS("128", "3648");

static const float *bench_wgmma(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        bench_memory(i, 64 * 64 * 2, half_numbers(DTYPE_f16, 64 * 64));
        bench.args[i].map = &square_map;
    }
    return bench_memory(2, 128 * 32 * 4, NULL);
}

// d[row][column] of thread t, as PTX lays out the sums of m64n64: row of the group of eight lanes, two
// neighbours, eight rows below, eight columns on.
static void check_sums(const float *y, bool is_turned)
{
    for (uint32_t t = 0; t < 128; t++)
        for (uint32_t i = 0; i < 32; i++) {
            const uint32_t row = t / 32 * 16 + t % 32 / 4 + (i & 2) * 4;
            const uint32_t column = i / 4 * 8 + t % 4 * 2 + (i & 1);
            double sum = 0;
            for (uint32_t k = 0; k < WG_K; k++)
                sum += is_turned ? number(k * 64 + row) * number(k * 64 + column)
                                 : number(row * 64 + k) * number(column * 64 + k);
            assert_true((double)y[t * 32 + i] == sum);
        }
}

static void test_wgmma(void **state)
{
    (void)state;
    const float *y = bench_wgmma();
    bench_accepted(wgmma_rows);
    check_sums(y, false);
    reset(NULL);
    y = bench_wgmma();
    bench_accepted(wgmma_steps);
    check_sums(y, true);
}

static void test_wgmma_faults(void **state)
{
    (void)state;
    bench_wgmma();
    bench_refused(wgmma_rows, "wgmma_wait", "", "");
    bench_refused(wgmma_rows, "wgmma_wait", "    device wgmma_wait<1>", "");
    bench_refused(wgmma_rows, "wgmma_commit", "", "");
    bench_refused(wgmma_rows, "wgmma_fence", "", "wgmma_fence");
    bench_refused(wgmma_rows, "bar_wait", "", "race");
    bench_refused(wgmma_rows, "wgmma_wait", "    device shared_put %3 1\n    device wgmma_wait<0>", "race");
}

// The fragment of a from registers: four words of 16 steps, those of mma.sync.
static const char wgmma_words[] = "kernel k\n"
                                  "  groups of 128 threads\n"
                                  "  shared 17408 bytes\n"
                                  "  param a: u32 read\n"
                                  "  param b: u64 read\n"
                                  "  param y: f32 write\n"
                                  "  for %1 = 0 .. 1 step 1 group\n"
                                  "    %2 = thread\n"
                                  "    %3 = call shared_begin\n"
                                  "    %4 = add index %3 16384\n"
                                  "    %5 = eq index %2 0\n"
                                  "    if %5\n"
                                  "      device bar_init %4 1\n"
                                  "      device bar_init_done\n"
                                  "    end\n"
                                  "    barrier\n"
                                  "    if %5\n"
                                  "      device bar_expect %4 8192\n"
                                  "      %6 = address b[0]\n"
                                  "      device tma_load_2d %3 %6 0 0 %4\n"
                                  "    end\n"
                                  "    device bar_wait %4 0\n"
                                  "    %7 = call wgmma_desc %3 16 1024\n"
                                  "    %8 = array f32[32]\n"
                                  "    %9 = array u32[4]\n"
                                  "    %10 = div index %2 4\n"
                                  "    %11 = div index %2 32\n"
                                  "    %12 = mul index %11 8\n"
                                  "    %13 = add index %10 %12\n" // row: 16 a warp, 8 of them by quads
                                  "    %14 = rem index %2 4\n"
                                  "    for %15 = 0 .. 4 step 1 unroll\n"
                                  "      %16 = rem index %15 2\n"
                                  "      %17 = mul index %16 8\n"
                                  "      %18 = add index %13 %17\n"
                                  "      %19 = div index %15 2\n"
                                  "      %20 = mul index %19 4\n"
                                  "      %21 = add index %14 %20\n"
                                  "      %22 = mul index %18 32\n"
                                  "      %23 = add index %22 %21\n"
                                  "      %24 = load u32 a[%23]\n"
                                  "      astore %9 %15 %24\n"
                                  "    end\n"
                                  "    device wgmma_fence\n"
                                  "    device wgmma_r<576> %8 %9 0 %7 0\n"
                                  "    device wgmma_commit\n"
                                  "    device wgmma_wait<0>\n"
                                  "    %25 = mul index %2 32\n"
                                  "    for %26 = 0 .. 32 step 1 unroll\n"
                                  "      %27 = aload f32 %8 %26\n"
                                  "      %28 = add index %25 %26\n"
                                  "      store y[%28] = %27\n"
                                  "    end\n"
                                  "  end\n";

static bool is_product_of_words(const float *y)
{
    for (uint32_t t = 0; t < 128; t++)
        for (uint32_t i = 0; i < 32; i++) {
            const uint32_t row = t / 32 * 16 + t % 32 / 4 + (i & 2) * 4;
            const uint32_t column = i / 4 * 8 + t % 4 * 2 + (i & 1);
            double sum = 0;
            for (uint32_t k = 0; k < 16; k++)
                sum += number(row * 64 + k) * number(column * 64 + k);
            if ((double)y[t * 32 + i] != sum)
                return false;
        }
    return true;
}

static void test_wgmma_words(void **state)
{
    (void)state;
    const float *y = bench_wgmma();
    bench.args[0].map = NULL;
    bench_accepted(wgmma_words);
    assert_true(is_product_of_words(y));
    bench_accepted(bench_changed(wgmma_words, "rem index %15 2", "      %16 = div index %15 2"));
    assert_false(is_product_of_words(y)); // words 1 and 2 swapped, or read twice
    bench_refused(wgmma_words, "wgmma_wait", "    astore %9 0 1", "");
}

// --- clusters ------------------------------------------------------------------------------------

// Group 0 of a cluster puts numbers into the memory of group 1, and the same box goes to both.
static const char cluster[] = "kernel k\n"
                              "  groups of 32 threads\n"
                              "  clusters of 2 groups\n"
                              "  shared 3072 bytes\n"
                              "  param map: u64 read\n"
                              "  param y: f32 write\n"
                              "  for %1 = 0 .. 2 step 1 group\n"
                              "    %2 = thread\n"
                              "    %3 = call shared_begin\n"
                              "    %4 = call cluster_rank\n"
                              "    %5 = add index %3 1024\n"
                              "    %6 = eq index %2 0\n"
                              "    if %6\n"
                              "      device bar_init %5 1\n"
                              "      device bar_init_done\n"
                              "    end\n"
                              "    device cluster_sync\n"
                              "    %7 = eq index %4 0\n"
                              "    if %6\n"
                              "      device bar_expect %5 1024\n"
                              "      if %7\n"
                              "        %8 = address map[0]\n"
                              "        device tma_share_2d %3 %8 8 0 %5 3\n"
                              "      end\n"
                              "    end\n"
                              "    device bar_wait %5 0\n"
                              "    %9 = array f32[4]\n"
                              "    %10 = mul index %2 16\n"
                              "    %11 = add index %10 2048\n"
                              "    %12 = add index %11 1024\n"
                              "    device pair_f16 %9 0 %3\n"
                              "    %13 = aload f32 %9 0\n"
                              "    %14 = cast f32 %2\n"
                              "    %15 = add f32 %13 %14\n"
                              "    for %16 = 0 .. 4 step 1 unroll\n"
                              "      astore %9 %16 %15\n"
                              "    end\n"
                              "    %17 = sub index 1 %4\n"
                              "    device cluster_put4 %12 %17 %9 0\n"
                              "    device cluster_sync\n"
                              "    %18 = array f32[4]\n"
                              "    device shared_get4 %18 0 %12\n"
                              "    %19 = aload f32 %18 3\n"
                              "    %20 = mul index %4 32\n"
                              "    %21 = add index %20 %2\n"
                              "    store y[%21] = %19\n"
                              "  end\n";

static void test_cluster(void **state)
{
    (void)state;
    bench_box();
    const float *y = bench_memory(1, 64 * 4, NULL);
    bench_accepted(cluster);
    for (uint32_t i = 0; i < 64; i++)
        assert_true((double)y[i] == number(8) + i % 32);
    bench_refused(cluster, "tma_share", "        device tma_share_2d %3 %8 8 0 %5 1", "");
    bench_refused(cluster, "    device cluster_sync", "", "");
    bench_refused(cluster, "cluster_put4", "    device cluster_put4 %12 2 %9 0", "");
    const char *second = strstr(cluster, "cluster_put4");
    const char *late = arena_printf(&bench.arena, "%.*s%s", (int)(second - cluster), cluster,
                                    bench_changed(second, "cluster_sync", ""));
    const char *wrong = bench_run(late);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "race"));
}

// --- all groups ----------------------------------------------------------------------------------

// Each group reads what the other one has stored.
static const char resident[] = "kernel k\n"
                               "  groups of 32 threads\n"
                               "  resident 2 groups\n"
                               "  param counter: u32 write\n"
                               "  param x: f32 read write\n"
                               "  param y: f32 write\n"
                               "  for %1 = 0 .. 2 step 1 group\n"
                               "    %2 = thread\n"
                               "    %3 = mul index %1 32\n"
                               "    %4 = add index %3 %2\n"
                               "    %5 = cast f32 %4\n"
                               "    %6 = var index -1\n"
                               "    %7 = address counter[0]\n"
                               "    store x[%4] = %5\n"
                               "    device grid_sync %6 %7\n"
                               "    %8 = sub index 63 %4\n"
                               "    %9 = load f32 x[%8]\n"
                               "    store y[%4] = %9\n"
                               "  end\n";

static void test_resident(void **state)
{
    (void)state;
    bench_memory(0, 4, NULL);
    bench_memory(1, 64 * 4, NULL);
    const float *y = bench_memory(2, 64 * 4, NULL);
    bench.is_result[0] = bench.is_result[1] = false;
    bench_accepted(resident);
    for (uint32_t i = 0; i < 64; i++)
        assert_true((double)y[i] == 63.0 - i);
    bench_refused(resident, "    device grid_sync %6 %7", "", "");
    bench_refused(resident, "  resident", "", "");
}

// Two groups share sums of 32 threads: the last one adds them up and leaves the counter at 0.
static const char parts[] = "kernel k\n"
                            "  groups of 32 threads\n"
                            "  param counter: u32 write\n"
                            "  param x: f32 write\n"
                            "  param y: f32 write\n"
                            "  for %1 = 0 .. 2 step 1 group\n"
                            "    %2 = thread\n"
                            "    %3 = array f32[4]\n"
                            "    %4 = var index 0\n"
                            "    for %5 = 0 .. 4 step 1 unroll\n"
                            "      %6 = add index %1 %5\n"
                            "      %7 = cast f32 %6\n"
                            "      astore %3 %5 %7\n"
                            "    end\n"
                            "    %8 = mul index %1 32\n"
                            "    %9 = add index %8 %2\n"
                            "    %10 = mul index %9 4\n"
                            "    %11 = mul index %2 4\n"
                            "    %12 = add index %11 128\n"
                            "    %13 = address x[%10]\n"
                            "    %14 = address counter[0]\n"
                            "    %15 = address x[%11]\n"
                            "    %16 = address x[%12]\n"
                            "    device part_put %13 %3 0\n"
                            "    device part_last %4 %14 2\n"
                            "    %17 = get index %4\n"
                            "    %18 = eq index %17 1\n"
                            "    if %18\n"
                            "      device part_get %3 0 %15\n"
                            "      %19 = aload f32 %3 3\n"
                            "      device part_get %3 0 %16\n"
                            "      %20 = aload f32 %3 3\n"
                            "      %21 = add f32 %19 %20\n"
                            "      store y[%2] = %21\n"
                            "    end\n"
                            "  end\n";

static void test_parts(void **state)
{
    (void)state;
    const uint32_t zero = 0, *counter = bench_memory(0, 4, &zero);
    bench_memory(1, 256 * 4, NULL);
    const float *y = bench_memory(2, 32 * 4, NULL);
    for (uint32_t again = 0; again < 2; again++) {
        bench_accepted(parts);
        assert_true(*counter == 0);
        for (uint32_t i = 0; i < 32; i++)
            assert_true((double)y[i] == 7.0);
    }
    bench_refused(parts, "%18 = eq", "    %18 = lt index %17 2", "not the last");
    bench_refused(parts, "device part_put", "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_load_box, reset),   cmocka_unit_test_setup(test_load_faults, reset),
        cmocka_unit_test_setup(test_store_box, reset),  cmocka_unit_test_setup(test_store_faults, reset),
        cmocka_unit_test_setup(test_wgmma, reset),      cmocka_unit_test_setup(test_wgmma_faults, reset),
        cmocka_unit_test_setup(test_copy_bytes, reset), cmocka_unit_test_setup(test_wgmma_words, reset),
        cmocka_unit_test_setup(test_cluster, reset),    cmocka_unit_test_setup(test_resident, reset),
        cmocka_unit_test_setup(test_parts, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
