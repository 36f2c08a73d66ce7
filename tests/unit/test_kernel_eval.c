// SPDX-License-Identifier: Apache-2.0
// The core of the interpreter of kernels: what kernels compute, however their threads part, and planted
// faults, each of which it must find. (Every kernel of every op case runs in test_interp.)
#include "eval_bench.h"

enum { N = 128 };

static const float *floats(uint32_t n)
{
    float *v = ARENA_ARRAY(&bench.arena, float, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = (float)number(i);
    return v;
}

// --- groups --------------------------------------------------------------------------------------

static const char turn[] = "kernel k0_turn\n"
                           "  groups of 64 threads\n"
                           "  param x: f32 read\n"
                           "  param y: f32 write\n"
                           "  for %1 = 0 .. 2 step 1 group \"row\"\n"
                           "    %2 = thread\n"
                           "    %3 = mul index %1 64\n"
                           "    %4 = add index %3 %2\n"
                           "    %5 = array f32[64] shared\n"
                           "    %6 = load f32 x[%4]\n"
                           "    astore %5 %2 %6\n"
                           "    barrier\n"
                           "    %7 = sub index 63 %2\n"
                           "    %8 = aload f32 %5 %7\n"
                           "    store y[%4] = %8\n"
                           "  end\n";

static void test_groups(void **state)
{
    const float *x = floats(N);
    const float *y = bench_memory(1, N * sizeof(float), NULL);
    (void)state;
    bench_memory(0, N * sizeof(float), x);
    bench_accepted(turn);
    for (uint32_t i = 0; i < N; i++)
        assert_true(y[i] >= x[i / 64 * 64 + 63 - i % 64] && y[i] <= x[i / 64 * 64 + 63 - i % 64]);
    bench_refused(turn, "barrier\n", "", "line 13 (%8 = aload f32 %5 %7)");
    bench_refused(turn, "barrier\n", "", "race: thread");
    bench_refused(turn, "astore %5 %2 %6\n", "", "a result of what nobody wrote");
    bench_refused(turn, "store y[%4] = %8\n", "    store y[0] = %8", "race");
    bench_refused(turn, "store y[%4] = %8\n", "    store y[%1] = %8", "race");
    bench_refused(turn, "%7 = sub index 63 %2\n", "    %7 = sub index 64 %2", "element 64 of an array of 64");
}

static void test_bounds(void **state)
{
    const char *wrong = NULL;
    (void)state;
    bench_memory(0, N * sizeof(float), floats(N));
    bench_memory(1, (N - 1) * sizeof(float), NULL);
    wrong = bench_run(turn);
    assert_non_null(wrong);
    assert_non_null(
        strstr(wrong, "thread 63 of group 1: written outside: element 127 of y, which has 0 to 126"));
    bench_memory(0, (N - 1) * sizeof(float), floats(N));
    wrong = bench_run(turn);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "read outside"));
}

// Some threads do not come to the barrier, or come to another one.
static void test_barriers(void **state)
{
    static const char head[] = "kernel k0_some\n"
                               "  groups of 64 threads\n"
                               "  param y: f32 write\n"
                               "  %1 = thread\n"
                               "  %2 = lt index %1 40\n"
                               "  if %2\n"
                               "    barrier\n";
    (void)state;
    bench_memory(0, N * sizeof(float), NULL);
    const char *wrong = bench_run(arena_printf(&bench.arena, "%s  end\n  store y[%%1] = 1.0\n", head));
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "threads 0 to 39 wait for ever, and 24 others have ended"));
    wrong = bench_run(arena_printf(&bench.arena, "%s  else\n    barrier\n  end\n", head));
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "different barriers"));
}

// Each thread gets the sum of its team, whoever else has left the loop by then.
static void test_teams(void **state)
{
    static const char sums[] = "kernel k0_sums\n"
                               "  groups of 64 threads\n"
                               "  param y: f32 write\n"
                               "  %1 = thread\n"
                               "  %2 = cast f32 %1\n"
                               "  %3 = team add f32 width 16 %2\n"
                               "  store y[%1] = %3\n";
    const float *y = bench_memory(0, 64 * sizeof(float), NULL);
    (void)state;
    bench_accepted(sums);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal((int)y[i], (int)(i / 16 * 256 + 120));
}

// --- control flow --------------------------------------------------------------------------------

// Threads part in every way: loops of different length, conditions in them, and a way out of a condition.
static const char paths[] = "kernel k0_paths\n"
                            "  groups of 64 threads\n"
                            "  param y: i32 write\n"
                            "  %1 = thread\n"
                            "  %2 = var i32 0\n"
                            "  %3 = rem index %1 7\n"
                            "  for %4 = 0 .. 20 step 1 \"i\"\n"
                            "    %5 = mul index %3 %4\n"
                            "    %6 = rem index %5 3\n"
                            "    %7 = eq index %6 1\n"
                            "    %8 = get i32 %2\n"
                            "    if %7\n"
                            "      %9 = add i32 %8 10\n"
                            "      set %2 %9\n"
                            "      %10 = lt index 50 %5\n"
                            "      if %10\n"
                            "        device leave\n"
                            "      end\n"
                            "    else\n"
                            "      for %11 = %3 .. %4 step 2 \"j\"\n"
                            "        %12 = get i32 %2\n"
                            "        %13 = add i32 %12 1\n"
                            "        set %2 %13\n"
                            "      end\n"
                            "    end\n"
                            "  end\n"
                            "  %14 = get i32 %2\n"
                            "  store y[%1] = %14\n";

static int32_t path_of(int64_t thread)
{
    int32_t sum = 0;
    const int64_t step = thread % 7;
    for (int64_t i = 0; i < 20; i++) {
        if (step * i % 3 == 1) {
            sum += 10;
            if (step * i > 50)
                break;
            continue;
        }
        for (int64_t j = step; j < i; j += 2)
            sum++;
    }
    return sum;
}

static void test_paths(void **state)
{
    const int32_t *y = bench_memory(0, 64 * sizeof(int32_t), NULL);
    (void)state;
    bench_accepted(paths);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(y[i], path_of(i));
}

static void test_budget(void **state)
{
    static const char ever[] = "kernel k0_ever\n"
                               "  param y: f32 write\n"
                               "  for %1 = 0 .. 1000000000 step 1 \"i\"\n"
                               "    store y[0] = 1.0\n"
                               "  end\n";
    (void)state;
    bench_memory(0, sizeof(float), NULL);
    const EvalLaunch l = {.kernel = bench_parse(ever), .args = bench.args, .max_steps = 5000};
    const char *wrong = kernel_eval(&bench.arena, &l);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "more than 5000 steps"));
}

// --- parallel loops and parts --------------------------------------------------------------------

static const char grid[] = "kernel k0_grid\n"
                           "  param x: f32 read\n"
                           "  param y: f32 read write\n"
                           "  for %1 = 0 .. 9 step 1 parallel \"i\"\n"
                           "    for %2 = 0 .. 14 step 1 parallel \"j\"\n"
                           "      %3 = mul index %1 14\n"
                           "      %4 = add index %3 %2\n"
                           "      %5 = load f32 x[%4]\n"
                           "      %6 = add f32 %5 1.0\n"
                           "      store y[%4] = %6\n"
                           "    end\n"
                           "  end\n";

static void test_parallel(void **state)
{
    const float *x = floats(N), *y = bench_memory(1, 126 * sizeof(float), NULL);
    (void)state;
    bench_memory(0, 126 * sizeof(float), x);
    bench_accepted(grid);
    for (uint32_t i = 0; i < 126; i++)
        assert_int_equal((int)y[i], (int)x[i] + 1);
    bench_refused(grid, "%3 = mul index %1 14\n", "      %3 = mul index %1 13", "race: iteration");
    bench_refused(grid, "%5 = load f32 x[%4]\n", "      %5 = load f32 y[125]", "race: iteration");
}

static const char parts[] = "kernel k0_parts\n"
                            "  param y: f32 write\n"
                            "  param z: f32 read write\n"
                            "  %1 = part\n"
                            "  %2 = cast f32 %1\n"
                            "  store z[%1] = %2\n"
                            "  barrier\n"
                            "  %3 = sub index 2 %1\n"
                            "  %4 = load f32 z[%3]\n"
                            "  store y[%1] = %4\n";

static void test_parts(void **state)
{
    const float *y = bench_memory(0, 3 * sizeof(float), NULL);
    (void)state;
    bench_memory(1, 3 * sizeof(float), NULL);
    EvalLaunch l = {.kernel = bench_parse(parts), .args = bench.args, .parts = 3};
    assert_null(kernel_eval(&bench.arena, &l));
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal((int)y[i], 2 - (int)i);
    l.kernel = bench_parse(bench_changed(parts, "barrier\n", ""));
    const char *wrong = kernel_eval(&bench.arena, &l);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "race: thread"));
}

// --- poison --------------------------------------------------------------------------------------

// Lanes that nobody wrote do no harm where nobody looks; no index and no condition may come of them.
static const char lanes[] = "kernel k0_lanes\n"
                            "  param x: f32 read\n"
                            "  param y: f32 write\n"
                            "  %1 = array f32[8]\n"
                            "  for %2 = 0 .. 6 step 1 \"i\"\n"
                            "    %3 = load f32 x[%2]\n"
                            "    astore %1 %2 %3\n"
                            "  end\n"
                            "  %4 = aload f32x8 %1 0\n"
                            "  %5 = add f32x8 %4 %4\n"
                            "  store y[0] count 6 = %5\n"
                            "  %6 = hreduce add f32 %5\n"
                            "  %7 = aload f32 %1 5\n"
                            "  %8 = lt f32 %7 100.0\n"
                            "  if %8\n"
                            "    store y[6] = 1.0\n"
                            "  end\n";

static void test_poison(void **state)
{
    const float *x = floats(N), *y = bench_memory(1, 7 * sizeof(float), NULL);
    (void)state;
    bench_memory(0, 6 * sizeof(float), x);
    bench_accepted(lanes);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal((int)y[i], (int)(2 * x[i]));
    bench_refused(lanes, "store y[6] = 1.0\n", "    store y[6] = %6", "a result of what nobody wrote");
    bench_refused(lanes, "%7 = aload f32 %1 5\n", "  %7 = aload f32 %1 6",
                  "it uses a value that nobody wrote");
}

// --- loops of one thread -------------------------------------------------------------------------

// A sum whose order shows, two variables that change places, and one that is stored as it was.
static const char chain[] = "kernel k0_chain\n"
                            "  param x: f32 read\n"
                            "  param n: i64 read\n"
                            "  param y: f32 write\n"
                            "  %1 = var f32 0.0 \"sum\"\n"
                            "  %2 = var f32 1.0 \"a\"\n"
                            "  %3 = var f32 2.0 \"b\"\n"
                            "  %4 = load i64 n[0]\n"
                            "  %5 = cast index %4\n"
                            "  for %6 = 0 .. %5 step 1\n"
                            "    %7 = mul index %6 3\n"
                            "    %8 = rem index %7 100\n"
                            "    %9 = load f32 x[%8]\n"
                            "    %10 = mul f32 %9 0.1\n"
                            "    %11 = get f32 %1\n"
                            "    %12 = fma f32 %11 1.5 %10\n"
                            "    set %1 %12\n"
                            "    %13 = get f32 %2\n"
                            "    %14 = get f32 %3\n"
                            "    set %2 %14\n"
                            "    set %3 %13\n"
                            "  end\n"
                            "  %15 = get f32 %1\n"
                            "  set %1 9.0\n"
                            "  store y[0] = %15\n"
                            "  %16 = get f32 %2\n"
                            "  store y[1] = %16\n"
                            "  %17 = get f32 %3\n"
                            "  store y[2] = %17\n"
                            "  %18 = get f32 %1\n"
                            "  store y[3] = %18\n";

static void test_chain(void **state)
{
    static const int64_t trips[] = {0, 1, 3, 64, 65, 99, 200};
    const float *x = floats(N);
    (void)state;
    bench_memory(0, N * sizeof(float), x);
    for (uint32_t t = 0; t < sizeof trips / sizeof *trips; t++) {
        float sum = 0;
        for (int64_t i = 0; i < trips[t]; i++)
            sum = (float)((double)sum * 1.5 + (double)(x[i * 3 % 100] * 0.1f));
        bench_memory(1, sizeof *trips, &trips[t]);
        const float *y = bench_memory(2, 4 * sizeof(float), NULL);
        bench_accepted(chain);
        const float want[] = {sum, trips[t] % 2 == 0 ? 1 : 2, trips[t] % 2 == 0 ? 2 : 1, 9};
        assert_memory_equal(y, want, sizeof want);
    }
    bench_refused(chain, "rem index %7 100\n", "    %8 = rem index %7 1000",
                  "read outside: element 129 of x");
    bench.memory[0].written[sizeof *x * 33] = 0;
    bench_memory(2, 4 * sizeof(float), NULL);
    bench_accepted(chain);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(bench.memory[2].written[sizeof *x * i], i != 0);
}

// Variables that become what does not depend on them: the last value stays; one is read before it changes.
static const char lasts[] = "kernel k0_lasts\n"
                            "  param x: f32 read\n"
                            "  param y: f32 write\n"
                            "  %1 = var f32 0.0 \"last\"\n"
                            "  %2 = var f32 0.0 \"before\"\n"
                            "  %3 = var f32 0.0 \"sum\"\n"
                            "  for %4 = 0 .. 100 step 1\n"
                            "    %5 = load f32 x[%4]\n"
                            "    %6 = get f32 %2\n"
                            "    %7 = get f32 %3\n"
                            "    %8 = fma f32 %6 %5 %7\n"
                            "    set %3 %8\n"
                            "    %9 = mul f32 %5 2.0\n"
                            "    set %1 %9\n"
                            "    %10 = mul f32 %5 0.5\n"
                            "    set %2 %10\n"
                            "  end\n"
                            "  %11 = get f32 %1\n"
                            "  store y[0] = %11\n"
                            "  %12 = get f32 %2\n"
                            "  store y[1] = %12\n"
                            "  %13 = get f32 %3\n"
                            "  store y[2] = %13\n";

static void test_lasts(void **state)
{
    const float *x = floats(N);
    float sum = 0;
    (void)state;
    for (uint32_t i = 1; i < 100; i++)
        sum = (float)((double)(x[i - 1] * 0.5f) * (double)x[i] + (double)sum);
    bench_memory(0, N * sizeof(float), x);
    const float *y = bench_memory(1, 3 * sizeof(float), NULL);
    bench_accepted(lasts);
    const float want[] = {x[99] * 2, x[99] * 0.5f, sum};
    assert_memory_equal(y, want, sizeof want);
}

// --- values --------------------------------------------------------------------------------------

static const char values[] = "kernel k0_values\n"
                             "  param x: f32 read\n"
                             "  param y: f32 write\n"
                             "  param z: i32 write\n"
                             "  param w: f16 read write\n"
                             "  %1 = load f32x4 x[0] count 3\n"
                             "  %2 = load f32x4 x[4]\n"
                             "  %3 = low zip f32x4 %1 %2\n"
                             "  store y[0] = %3\n"
                             "  %4 = high zip f32x4 %1 %2\n"
                             "  store y[4] = %4\n"
                             "  %5 = hreduce max f32 %2\n"
                             "  store y[8] = %5\n"
                             "  %6 = mul f32 %5 0.3\n"
                             "  %7 = cast i32 %6\n"
                             "  store z[0] = %7\n"
                             "  %8 = bitcast i32 %5\n"
                             "  store z[1] = %8\n"
                             "  %9 = splat f32x4 2.5\n"
                             "  %10 = roundcast i32x4 %9\n"
                             "  store z[2] count 2 = %10\n"
                             "  %11 = add i32 2147483647:i32 %7\n"
                             "  store z[4] = %11\n"
                             "  store w[0] = 0.1\n"
                             "  %12 = load f16 w[0]\n"
                             "  %13 = cast f32 %12\n"
                             "  store y[9] = %13\n"
                             "  %14 = even zip f32x4 %1 %2\n"
                             "  store y[10] = %14\n"
                             "  %15 = odd zip f32x4 %1 %2\n"
                             "  store y[14] = %15\n";

static void test_values(void **state)
{
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float want[] = {1, 5, 2, 6, 3, 7, 0, 8, 8, 0.0999755859375f, 1, 3, 5, 7, 2, 0, 6, 8};
    static const int32_t numbers[] = {2, 0x41000000, 2, 2, INT32_MIN + 1};
    (void)state;
    bench_memory(0, sizeof x, x);
    const float *y = bench_memory(1, sizeof want, NULL);
    const int32_t *z = bench_memory(2, sizeof numbers, NULL);
    bench_memory(3, 2, NULL);
    bench_accepted(values);
    assert_memory_equal(y, want, sizeof want);
    assert_memory_equal(z, numbers, sizeof numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_groups, reset),   cmocka_unit_test_setup(test_bounds, reset),
        cmocka_unit_test_setup(test_barriers, reset), cmocka_unit_test_setup(test_teams, reset),
        cmocka_unit_test_setup(test_paths, reset),    cmocka_unit_test_setup(test_budget, reset),
        cmocka_unit_test_setup(test_parallel, reset), cmocka_unit_test_setup(test_parts, reset),
        cmocka_unit_test_setup(test_chain, reset),    cmocka_unit_test_setup(test_lasts, reset),
        cmocka_unit_test_setup(test_poison, reset),   cmocka_unit_test_setup(test_values, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
