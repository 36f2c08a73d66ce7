// SPDX-License-Identifier: Apache-2.0
// The kernel builders: reuse, folding, forms, the listing, and that the verifier refuses what it must.
#include "ir/kernel/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
// cmocka.h needs the two above.
#include <cmocka.h>

static Arena arena;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

static Kernel *new_kernel(void)
{
    Kernel *k = kernel_new(&arena, "k");
    kernel_param(k, "x", DTYPE_f32, false, true);
    kernel_param(k, "y", DTYPE_f32, true, false);
    return k;
}

static void expect_text(const Kernel *k, const char *text)
{
    Str s = str_new(&arena);
    kernel_print(k, &s);
    assert_string_equal(str_text(&s), text);
}

static void test_listing(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    k->comment = "relu";
    const KRef i = k_for(k, k_index(k, 0), k_index(k, 100), 16, KFOR_PARALLEL, "i");
    const KRef x = k_load(k, 0, i, 16, 7);
    const KRef at = k_expr(k, "$ * 2 + 3", i);
    k_store(k, 1, at, k_max(k, x, k_number(k, DTYPE_f32, 0.0)), 16);
    k_end(k);
    assert_null(kernel_verify(k));
    assert_int_equal(k->max_lanes, 16);
    expect_text(k, "kernel k\n"
                   "  # relu\n"
                   "  param x: f32 read\n"
                   "  param y: f32 write\n"
                   "  for %1 = 0 .. 100 step 16 parallel \"i\"\n"
                   "    %2 = load f32x16 x[%1] count 7\n"
                   "    %3 = mul index %1 2\n"
                   "    %4 = add index %3 3\n"
                   "    %5 = splat f32x16 0.0\n"
                   "    %6 = max f32x16 %2 %5\n"
                   "    store y[%4] = %6\n"
                   "  end\n");
}

static void test_reuse_follows_scopes(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    const KRef n = k_index(k, 10);
    const KRef i = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, NULL);
    const KRef sum = k_add(k, i, i);
    const KRef cond = k_lt(k, sum, n);
    k_if(k, cond);
    assert_int_equal(k_add(k, i, i), sum);
    const KRef inner = k_mul(k, i, i);
    assert_int_equal(k_mul(k, i, i), inner);
    k_else(k);
    assert_int_not_equal(k_mul(k, i, i), inner);
    k_end(k);
    assert_int_not_equal(k_mul(k, i, i), inner);
    const KRef a = k_load(k, 0, i, 1, 1);
    assert_int_not_equal(k_load(k, 0, i, 1, 1), a);
    k_end(k);
    assert_null(kernel_verify(k));
}

static int64_t value_of(const Kernel *k, KRef r)
{
    int64_t v = 0;
    assert_true(k_is_const(k, r, &v));
    return v;
}

static void test_index_folding(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    const KRef zero = k_index(k, 0), one = k_index(k, 1), six = k_index(k, 6), four = k_index(k, 4);
    const KRef i = k_for(k, zero, six, 1, KFOR_SERIAL, NULL), j = k_for(k, zero, six, 1, KFOR_SERIAL, NULL);
    assert_int_equal(k_add(k, i, zero), i);
    assert_int_equal(k_add(k, zero, i), i);
    assert_int_equal(k_mul(k, i, one), i);
    assert_int_equal(k_mul(k, i, zero), zero);
    assert_int_equal(k_sub(k, i, i), zero);
    assert_int_equal(k_expr(k, "0 - ($ - 1)", i), k_sub(k, one, i)); // 1 - i
    assert_int_equal(k_div(k, i, one), i);
    assert_int_equal(value_of(k, k_expr(k, "-7 % $", four)), -3);
    assert_int_equal(value_of(k, k_div(k, six, zero)), 0);
    assert_int_equal(value_of(k, k_lt(k, four, six)), 1);
    // (i + 1) + (j + 6) and (i + j) + 7 are one expression.
    const KRef sum = k_expr(k, "$ + $ + ($ + $)", i, one, six, j);
    assert_int_equal(sum, k_expr(k, "$ + $ + 7", i, j));
    // (i + 1) * 4 * 6 is i * 24 + 24, and dividing by 4 takes the factor back.
    assert_int_equal(k_expr(k, "($ + $) * $ * $", i, one, four, six), k_expr(k, "$ * 24 + 24", i));
    assert_int_equal(k_expr(k, "$ * 24 / $", i, four), k_mul(k, i, six));
    assert_int_equal(k_expr(k, "$ * 24 % $", i, four), zero);
    // Not exact: the quotient stays.
    assert_int_not_equal(k_expr(k, "$ * $ / $", i, six, four), i);
    const KRef always = k_le(k, zero, zero), test = k_lt(k, i, j);
    assert_int_equal(k_and(k, always, test), test);
    assert_int_equal(k_or(k, test, always), always);
    assert_int_equal(k_select(k, always, i, j), i);
    // Conditions that exclude each other, as of a window that is larger than its image.
    assert_int_equal(value_of(k, k_expr(k, "0 <= $ & $ < -2", i, i)), 0);
    assert_int_equal(value_of(k, k_expr(k, "0 <= $ & $ < $ & 0 <= $ & $ < 0", i, i, j, j, j)), 0);
    assert_int_not_equal(k_expr(k, "0 <= $ & $ < 1", i, i), k_expr(k, "0 <= $ & $ < 0", i, i));
    k_end(k);
    k_end(k);
    assert_null(kernel_verify(k));
}

static void test_floats_do_not_fold(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    const KRef x = k_load(k, 0, k_index(k, 0), 1, 1), zero = k_number(k, DTYPE_f32, 0);
    assert_int_not_equal(k_add(k, x, zero), x);
    assert_int_not_equal(k_number(k, DTYPE_f32, -0.0), zero);
    assert_int_equal(k_number(k, DTYPE_f32, (double)NAN), k_number(k, DTYPE_f32, (double)NAN));
}

// Compilers warn of comparisons that are always false.
static void test_ends_of_types_fold(void **state)
{
    static const struct {
        DType type;
        int64_t least, most;
    } ends[] = {{DTYPE_i8, -128, 127},
                {DTYPE_u8, 0, 255},
                {DTYPE_i16, -32768, 32767},
                {DTYPE_i32, INT32_MIN, INT32_MAX}};
    (void)state;
    Kernel *k = new_kernel();
    const KRef i = k_loop(k, 100, KFOR_SERIAL, "i");
    for (uint32_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        const KRef least = k_integer(k, ends[e].type, ends[e].least);
        const KRef most = k_integer(k, ends[e].type, ends[e].most);
        const KRef x = k_cast(k, i, ends[e].type), seven = k_integer(k, ends[e].type, 7);
        assert_int_equal(k_min(k, most, x), x);
        assert_int_equal(k_max(k, x, least), x);
        assert_int_equal(k_max(k, most, x), most);
        assert_int_equal(k_min(k, x, least), least);
        assert_int_not_equal(k_min(k, x, seven), x);
        assert_int_not_equal(k_max(k, seven, x), seven);
    }
    k_end(k);
}

static void test_constants_wrap(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    assert_int_equal(value_of(k, k_integer(k, DTYPE_i8, 200)), -56);
    assert_int_equal(value_of(k, k_integer(k, DTYPE_u8, -1)), 255);
    assert_int_equal(value_of(k, k_integer(k, DTYPE_bool, 5)), 1);
    assert_int_equal(value_of(k, k_cast(k, k_index(k, 7), DTYPE_i32)), 7);
    assert_int_equal(k_inst(k, k_integer(k, DTYPE_f32, 2))->dtype, DTYPE_f32);
}

static void test_forms(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    const KRef x = k_load(k, 0, k_index(k, 0), 8, 8);
    const KRef y = k_form(k, "(select (lt 0 a) (mul a -0.5) (min inf a))", &x, DTYPE_f32);
    k_store(k, 1, k_index(k, 0), y, 8);
    assert_null(kernel_verify(k));
    expect_text(k, "kernel k\n"
                   "  param x: f32 read\n"
                   "  param y: f32 write\n"
                   "  %1 = load f32x8 x[0]\n"
                   "  %2 = splat f32x8 0.0\n"
                   "  %3 = lt f32x8 %2 %1\n"
                   "  %4 = splat f32x8 -0.5\n"
                   "  %5 = mul f32x8 %1 %4\n"
                   "  %6 = splat f32x8 inf\n"
                   "  %7 = min f32x8 %6 %1\n"
                   "  %8 = select f32x8 %3 %5 %7\n"
                   "  store y[0] = %8\n");
}

static void test_every_form_builds(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        const OpInfo *info = &op_info[op];
        if (info->kind != OPKIND_EW)
            continue;
        const bool is_int = info->ew == EW_INTS, is_bool = info->ew == EW_LOGIC;
        const DType t = is_bool ? DTYPE_bool : is_int ? DTYPE_i16 : DTYPE_f32;
        Kernel *k = kernel_new(&arena, info->name);
        KRef operand[3] = {0};
        for (uint32_t i = 0; i < 3; i++) {
            const DType type = info->ew == EW_SEL && i == 0 ? DTYPE_bool : t;
            operand[i] = k_load(k, kernel_param(k, "p", type, false, true), k_index(k, 0), 1, 1);
        }
        const KRef r = k_form(k, info->kernel, operand, (int)t);
        const bool is_test = info->ew == EW_CMP || info->ew == EW_TEST || is_bool;
        assert_int_equal(k_inst(k, r)->dtype, is_test ? DTYPE_bool : t);
        assert_null(kernel_verify(k));
    }
}

// The verifier is handed kernels that the builders would not make.
static void expect_refused(Kernel *k, const char *part)
{
    const char *message = kernel_verify(k);
    assert_non_null(message);
    if (!strstr(message, part))
        fail_msg("'%s' does not say '%s'", message, part);
}

static void test_verifier_refuses(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    k_loop(k, 4, KFOR_SERIAL, NULL);
    expect_refused(k, "not closed");

    k = new_kernel();
    const KRef i = k_loop(k, 4, KFOR_SERIAL, NULL);
    const KRef x = k_load(k, 0, i, 1, 1);
    k_end(k);
    k_store(k, 1, k_index(k, 0), x, 1);
    expect_refused(k, "out of scope");

    k = new_kernel();
    k_store(k, 0, k_index(k, 0), k_number(k, DTYPE_f32, 1), 1);
    expect_refused(k, "not declared as written");

    k = new_kernel();
    k_store(k, 1, k_index(k, 0), k_integer(k, DTYPE_i32, 1), 1);
    expect_refused(k, "i32 value in f32 buffer");

    k = new_kernel();
    k->insts.data[k_sqrt(k, k_number(k, DTYPE_f32, 1))].kop = KOP_bitnot;
    expect_refused(k, "not defined for f32");

    k = new_kernel();
    const KRef sum = k_add(k, k_number(k, DTYPE_f32, 1), k_number(k, DTYPE_f32, 2));
    k->insts.data[sum].b = k_index(k, 2);
    expect_refused(k, "not defined before");

    k = new_kernel();
    k->insts.data[k_splat(k, k_number(k, DTYPE_f32, 1), 4)].lanes = 3;
    expect_refused(k, "3 lanes");

    k = new_kernel();
    k_load(k, 0, k_index(k, 0), 4, 4);
    k->insts.data[k->insts.len - 1].count = 5;
    expect_refused(k, "5 of 4 lanes");

    k = new_kernel();
    k_if(k, k_integer(k, DTYPE_bool, 1));
    k_end(k);
    k->insts.data[k->insts.len - 1].kind = KI_else;
    expect_refused(k, "not closed");
}

static Kernel *new_group(uint32_t threads)
{
    Kernel *k = new_kernel();
    k_set_group(k, threads);
    return k;
}

static void test_groups(void **state)
{
    (void)state;
    Kernel *k = new_group(128);
    const KRef row = k_for_group(k, 7, "row"), t = k_thread(k);
    assert_int_equal(k_thread(k), t);
    const KRef part = k_array(k, DTYPE_f32, 8), all = k_shared(k, DTYPE_f32, 128);
    k_fetch(k, 0, k_expr(k, "$ * 512 + $ * 4", row, t), part, k_index(k, 4), 4);
    const KRef x = k_aload(k, part, k_index(k, 5), 1);
    const KRef sum = k_team(k, KOP_add, x, 128);
    assert_int_equal(k_team(k, KOP_add, x, 1), x);
    k_astore(k, all, t, sum);
    k_barrier(k);
    k_put(k, 1, k_expr(k, "$ * 2", t), part, k_index(k, 0), 2);
    k_end(k);
    assert_null(kernel_verify(k));
    expect_text(k, "kernel k\n"
                   "  groups of 128 threads\n"
                   "  param x: f32 read\n"
                   "  param y: f32 write\n"
                   "  for %1 = 0 .. 7 step 1 group \"row\"\n"
                   "    %2 = thread\n"
                   "    %3 = array f32[8]\n"
                   "    %4 = array f32[128] shared\n"
                   "    %5 = mul index %1 512\n"
                   "    %6 = mul index %2 4\n"
                   "    %7 = add index %5 %6\n"
                   "    fetch 4 x %7 %3 4\n"
                   "    %8 = aload f32 %3 5\n"
                   "    %9 = team add f32 width 128 %8\n"
                   "    astore %4 %2 %9\n"
                   "    barrier\n"
                   "    %10 = mul index %2 2\n"
                   "    put 2 y %10 %3 0\n"
                   "  end\n");
}

static void test_groups_refused(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    k_thread(k);
    expect_refused(k, "without groups");

    k = new_group(64);
    const KRef v = k_number(k, DTYPE_f32, 1);
    k->insts.data[k_team(k, KOP_add, v, 64)].imm = 128;
    expect_refused(k, "width of a team");

    k = new_group(64);
    k->insts.data[k_team(k, KOP_add, k_number(k, DTYPE_f32, 1), 64)].kop = KOP_sub;
    expect_refused(k, "no horizontal sub");

    k = new_group(64);
    k_for_group(k, 7, "i");
    k_end(k);
    k_for_group(k, 7, "j");
    k_end(k);
    expect_refused(k, "in or behind something else");

    k = new_group(64);
    k_loop(k, 7, KFOR_SERIAL, "i");
    k_for_group(k, 7, "j");
    k_end(k);
    k_end(k);
    expect_refused(k, "in or behind something else");

    k = new_group(64);
    const KRef part = k_array(k, DTYPE_f32, 4);
    k_fetch(k, 0, k_index(k, 0), part, k_index(k, 4), 4);
    expect_refused(k, "outside of the array");

    k = new_group(64);
    k_put(k, 1, k_index(k, 0), k_array(k, DTYPE_f32, 4), k_index(k, 0), 4);
    k->insts.data[k->insts.len - 1].count = 3;
    expect_refused(k, "one access moves");

    k = new_group(64);
    k_put(k, 0, k_index(k, 0), k_array(k, DTYPE_f32, 4), k_index(k, 0), 4);
    expect_refused(k, "not declared as written");
}

// A formula is the calls of builders that it stands for: equal expressions are one instruction.
static void test_formulas(void **state)
{
    (void)state;
    Kernel *k = new_kernel();
    const KRef i = k_loop(k, 100, KFOR_SERIAL, "i"), j = k_loop(k, 8, KFOR_SERIAL, "j");
    const KRef two = k_index(k, 2), sum = k_add(k, i, j);
    assert_int_equal(k_expr(k, "$ + $ * 2", i, j), k_add(k, i, k_mul(k, j, two)));
    assert_int_equal(k_expr(k, "($ + $) * #", i, j, 2), k_mul(k, sum, two));
    assert_int_equal(k_expr(k, "$ - $ - $", i, j, i), k_sub(k, k_sub(k, i, j), i));
    assert_int_equal(k_expr(k, "$ / 2 % #", i, 7), k_rem(k, k_div(k, i, two), k_index(k, 7)));
    assert_int_equal(k_expr(k, "$ + -3", i), k_add(k, i, k_index(k, -3)));
    assert_int_equal(k_expr(k, "min($, max($ * 2, #))", i, j, 9),
                     k_min(k, i, k_max(k, k_mul(k, j, two), k_index(k, 9))));
    assert_int_equal(k_expr(k, "$ <= $ & $ < 2 | $ != $", i, j, j, i, j),
                     k_or(k, k_and(k, k_le(k, i, j), k_lt(k, j, two)), k_ne(k, i, j)));
    assert_int_equal(k_expr(k, "($ == $) & ($ < $)", i, j, i, sum), k_and(k, k_eq(k, i, j), k_lt(k, i, sum)));
    k_end(k);
    k_end(k);
    assert_null(kernel_verify(k));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_listing, reset),
        cmocka_unit_test_setup(test_formulas, reset),
        cmocka_unit_test_setup(test_ends_of_types_fold, reset),
        cmocka_unit_test_setup(test_reuse_follows_scopes, reset),
        cmocka_unit_test_setup(test_index_folding, reset),
        cmocka_unit_test_setup(test_floats_do_not_fold, reset),
        cmocka_unit_test_setup(test_constants_wrap, reset),
        cmocka_unit_test_setup(test_forms, reset),
        cmocka_unit_test_setup(test_every_form_builds, reset),
        cmocka_unit_test_setup(test_verifier_refuses, reset),
        cmocka_unit_test_setup(test_groups, reset),
        cmocka_unit_test_setup(test_groups_refused, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
