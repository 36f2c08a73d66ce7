// SPDX-License-Identifier: Apache-2.0
// How the C target prints: names, parentheses, what is written in place and what is named; and that
// statements, partial vectors, horizontal reductions and casts compute what kernel.h says.
#include "cc_run.h"
#include "codegen/walk/names.h"
#include "codegen/target/target.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
// cmocka.h needs the two above.
#include <cmocka.h>

static Arena arena;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

static Kernel *new_kernel(DType x, DType y)
{
    Kernel *k = kernel_new(&arena, "k");
    kernel_param(k, "x", x, false, true);
    kernel_param(k, "y", y, true, true);
    return k;
}

static const char *text_of(const Kernel *k)
{
    assert_null(kernel_verify(k));
    Str s = str_new(&arena);
    cfamily_print_kernel(&target_c, k, &s);
    return str_text(&s);
}

// Prints, compiles with every compiler here and runs the kernel; y is cleared before each run.
static void run_kernel(const Kernel *k, const char *flags, void *x, void *y, size_t y_bytes)
{
    static const char *const compilers[] = {"gcc", "clang"};
    const char *text = text_of(k);
    Str all = str_new(&arena);
    target_print_prelude(&target_c, text, &all);
    str_printf(
        &all,
        "%svoid run(void *x, void *y);\nvoid run(void *x, void *y)\n{\n    k((rlx_%s *)x, (rlx_%s *)y);\n}\n",
        text, dtype_info[k->params.data[0].dtype].name, dtype_info[k->params.data[1].dtype].name);
    for (int cc = 0; cc < 2; cc++) {
        CcRun lib;
        if (!cc_exists(compilers[cc]))
            continue;
        const bool built =
            cc_build(&lib, compilers[cc], arena_printf(&arena, "-std=c99 -O2 %s -shared -fPIC", flags),
                     str_text(&all));
        void (*run)(void *x, void *y) = NULL;
        void *address = built ? dlsym(lib.lib, "run") : NULL;
        memcpy(&run, &address, sizeof run);
        memset(y, 0, y_bytes);
        if (run)
            run(x, y);
        cc_close(&lib);
        assert_non_null(address);
    }
}

static const char *flags_of(uint8_t lanes)
{
    CpuInfo native, cpu;
    assert_true(cpu_find("native", &native) && cpu_find(lanes == 16 ? "x86-64-v4" : "x86-64-v3", &cpu));
    return lanes > 4 && native.f32_lanes >= lanes ? cpu.cc_flags : "";
}

// --- text ----------------------------------------------------------------------------------------

static void test_names_and_inlining(void **state)
{
    (void)state;
    Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
    k->comment = "relu(conv\n1)\\";
    const KRef i = k_loop(k, 6, KFOR_PARALLEL, "i");
    const KRef sum = k_var(k, k_number(k, DTYPE_f32, 0), "double");
    const KRef j = k_for(k, k_index(k, 0), k_index(k, 30), 2, KFOR_SERIAL, "i");
    const KRef base = k_expr(k, "$ * 30 + $", i, j), at = k_expr(k, "$ + 1", base);
    const KRef a = k_load(k, 0, base, 1, 1), b = k_load(k, 0, at, 1, 1), before = k_get(k, sum);
    const KRef product = k_expr(k, "($ - $) * $", a, b, b);
    k_set(k, sum, k_sub(k, before, product));
    k_end(k);
    const KRef total = k_get(k, sum);
    const KRef scaled = k_mul(k, total, k_number(k, DTYPE_f32, -0.5));
    k_store(k, 1, k_expr(k, "$ + -1", i), k_max(k, k_number(k, DTYPE_f32, 0), scaled), 1);
    k_end(k);
    assert_string_equal(text_of(k),
                        "// relu(conv_1)_\n"
                        "RLX_KERNEL void k(const rlx_f32 *RLX_RESTRICT x, rlx_f32 *RLX_RESTRICT y)\n"
                        "{\n"
                        "    for (rlx_idx i = 0; i < 6; i++) {\n"
                        "        float double_ = 0.0f;\n"
                        "        for (rlx_idx i2 = 0; i2 < 30; i2 += 2) {\n"
                        "            const rlx_idx t1 = i * 30 + i2;\n"
                        "            const float t2 = x[t1 + 1];\n"
                        "            double_ = double_ - (x[t1] - t2) * t2;\n"
                        "        }\n"
                        "        const float t3 = double_ * -0.5f;\n"
                        "        y[i - 1] = 0.0f > t3 ? 0.0f : t3;\n"
                        "    }\n"
                        "}\n");
}

// What a name must be: the hint, else the hint with the smallest free number.
static const char *expected_name(Arena *a, const Names *n, const char *base, const char *joint)
{
    for (uint32_t number = 1;; number++) {
        const char *name = number == 1 ? base : arena_printf(a, "%s%s%u", base, joint, number);
        bool is_free = true;
        for (uint32_t i = 0; i < n->in_scope.len; i++)
            is_free = is_free && strcmp(n->in_scope.data[i], name) != 0;
        if (is_free)
            return name;
    }
}

static void test_names_in_scopes(void **state)
{
    (void)state;
    static const char *const hint[][3] = {{"i", "i", ""},           {"i2", "i2", "_"},
                                          {"i2_3", "i2_3", "_"},    {"t", "t", "_"},
                                          {"t1", "t1_", ""},        {"t_3", "t_3", "_"},
                                          {"rlx_x", "v_rlx_x", ""}, {"for", "for_", ""},
                                          {"i5", "i5", "_"},        {"RLX_MAX", "v_RLX_MAX", ""},
                                          {NULL, "v", ""},          {"t1_2", "t1_2", "_"}};
    Arena a = {0};
    Names n = {.arena = &a};
    uint32_t mark[64], depth = 0, random = 1;
    for (uint32_t step = 0; step < 4000; step++) {
        random = random * 1664525 + 1013904223;
        const uint32_t what = random >> 24;
        if (what < 24 && depth < 64) {
            mark[depth++] = names_mark(&n);
        } else if (what < 56 && depth > 0) {
            names_release(&n, mark[--depth]);
        } else {
            const char *const *h = hint[(random >> 12) % (sizeof hint / sizeof *hint)];
            const char *expected = expected_name(&a, &n, h[1], h[2]);
            assert_string_equal(names_take(&n, h[0]), expected);
        }
    }
    names_release(&n, 0);
    for (uint32_t i = 1; i < 100000; i++)
        names_take(&n, "t");
    assert_string_equal(names_take(&n, "t"), "t_100000");
    assert_string_equal(names_take_temp(&n), "t1");
    arena_free(&a);
}

static void test_parentheses(void **state)
{
    (void)state;
    static const char *const forms[][2] = {
        {"(sub a (sub b c))", "v0 - (v1 - v2)"},
        {"(sub (sub a b) c)", "v0 - v1 - v2"},
        {"(mul (add a b) (neg c))", "(v0 + v1) * -v2"},
        {"(neg (neg a))", "-(-v0)"},
        {"(div a (mul b c))", "v0 / (v1 * v2)"},
        {"(select (lt (add a b) -1) c (exp (add a d)))", "v0 + v1 < -1.0f ? v2 : expf(v0 + v3)"},
        {"(select (and (lt a b) (not (le c d))) a (select (eq a 0) 1 d))",
         "(v0 < v1 && !(v2 <= v3)) ? v0 : (v0 == 0.0f ? 1.0f : v3)"},
        {"(select (or (and (lt a b) (lt b c)) (lt c d)) 1 2)",
         "((v0 < v1 && v1 < v2) || v2 < v3) ? 1.0f : 2.0f"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
        KRef operand[4];
        for (int j = 0; j < 4; j++)
            operand[j] = k_var(k, k_load(k, 0, k_index(k, j), 1, 1), arena_printf(&arena, "v%d", j));
        for (int j = 0; j < 4; j++)
            operand[j] = k_get(k, operand[j]);
        k_store(k, 1, k_index(k, 0), k_form(k, forms[i][0], operand, DTYPE_f32), 1);
        const char *want = arena_printf(&arena, "    y[0] = %s;\n", forms[i][1]);
        if (!strstr(text_of(k), want))
            fail_msg("expected %s, got %s", want, text_of(k));
    }
}

static void test_constants(void **state)
{
    (void)state;
    Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
    static const double values[] = {
        1e-45, 3.4028234663852886e38, 0.1, -0.0, 16777216, (double)INFINITY, -(double)INFINITY};
    for (int i = 0; i < 7; i++)
        k_store(k, 1, k_index(k, i), k_number(k, DTYPE_f32, values[i]), 1);
    const uint32_t ints = kernel_param(k, "n", DTYPE_i64, true, false);
    k_store(k, ints, k_index(k, 0), k_integer(k, DTYPE_i64, INT64_MIN), 1);
    assert_string_equal(
        text_of(k),
        "RLX_KERNEL void k(const rlx_f32 *RLX_RESTRICT x, rlx_f32 *RLX_RESTRICT y, rlx_i64 *RLX_RESTRICT n)\n"
        "{\n"
        "    (void)x;\n"
        "    y[0] = 1e-45f;\n"
        "    y[1] = 3.4028235e38f;\n"
        "    y[2] = 0.1f;\n"
        "    y[3] = -0.0f;\n"
        "    y[4] = 16777216.0f;\n"
        "    y[5] = RLX_INF;\n"
        "    y[6] = -RLX_INF;\n"
        "    n[0] = -9223372036854775807LL - 1;\n"
        "}\n");
}

// clang tries both arms of each choice in the initialisers of constants, again for each use of one: a
// maximum of forty operands would take it years.
static void test_choices_are_no_constants(void **state)
{
    (void)state;
    Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
    const KRef at = k_index(k, 0), a = k_load(k, 0, at, 1, 1), b = k_mul(k, a, a);
    const KRef most = k_select(k, k_ne(k, b, b), b, k_max(k, b, a));
    k_store(k, 1, at, k_mul(k, most, most), 1);
    const char *text = text_of(k);
    assert_non_null(strstr(text, "\n    float t3 = t2 != t2 ? "));
    assert_non_null(strstr(text, "const float t2 = t1 * t1;"));
}

// A read must keep its place before a write that may touch what it read.
static void test_reads_stay_before_writes(void **state)
{
    (void)state;
    for (int alias = 0; alias < 2; alias++) {
        Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
        k->may_alias = alias;
        const KRef x = k_load(k, 0, k_index(k, 1), 1, 1);
        k_store(k, 1, k_index(k, 0), k_number(k, DTYPE_f32, 7), 1);
        k_store(k, 1, k_index(k, 1), x, 1);
        const char *text = text_of(k);
        assert_true((strstr(text, "const float t1 = x[1];") != NULL) == alias);
        assert_true((strstr(text, "RLX_RESTRICT") == NULL) == alias);
    }
    Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
    const KRef a = k_var(k, k_number(k, DTYPE_f32, 1), "a"), old = k_get(k, a);
    k_set(k, a, k_number(k, DTYPE_f32, 2));
    const KRef now = k_get(k, a);
    k_store(k, 1, k_index(k, 0), k_sub(k, old, now), 1);
    float x[1] = {0}, y[1];
    run_kernel(k, "", x, y, sizeof y);
    assert_true(y[0] == -1);
}

// y[..] = x[..] - x[..] after a loop that stores, or a barrier, with the reads before that.
static const char *print_late_use(bool with_barrier)
{
    Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
    k->may_alias = true;
    const KRef i = k_loop(k, 9, KFOR_SERIAL, "i");
    KRef at[2], x[2];
    for (int j = 0; j < 2; j++) {
        at[j] = k_expr(k, "$ * #", i, 5 + j);
        x[j] = k_load(k, 0, at[j], 1, 1);
    }
    if (with_barrier)
        vec_push(k->arena, &k->insts, ((KInst){.kind = KI_barrier, .lanes = 1}));
    const KRef j = k_for(k, k_index(k, 0), at[1], 1, KFOR_SERIAL, "j");
    if (!with_barrier)
        k_store(k, 1, j, k_number(k, DTYPE_f32, 5), 1);
    k_end(k);
    k_store(k, 1, at[0], k_sub(k, x[0], x[1]), 1);
    k_end(k);
    return text_of(k);
}

static void test_order_of_building(void **state)
{
    (void)state;
    for (int with_barrier = 0; with_barrier < 2; with_barrier++) {
        const char *text = print_late_use(with_barrier);
        // What is read before the write is read there, though it is used later.
        const char *load = strstr(text, "= x["), *loop = strstr(text, "for (rlx_idx j"),
                   *store = strstr(text, " - ");
        assert_true(load && loop && store && load < loop && loop < store);
    }
    Kernel *k[2];
    for (int swapped = 0; swapped < 2; swapped++) {
        k[swapped] = new_kernel(DTYPE_f32, DTYPE_f32);
        const KRef i = k_loop(k[swapped], 9, KFOR_SERIAL, "i");
        KRef at[2], x[2];
        for (int j = 0; j < 2; j++) {
            const int which = swapped ? 1 - j : j;
            at[which] = k_expr(k[swapped], "$ * # + $", i, 5 + which, i);
            x[which] = k_load(k[swapped], 0, at[which], 1, 1);
        }
        k_store(k[swapped], 1, at[1], k_max(k[swapped], x[0], x[1]), 1);
        k_store(k[swapped], 1, at[0], x[1], 1);
        k_end(k[swapped]);
    }
    assert_string_equal(text_of(k[0]), text_of(k[1]));
}

// Kernels wait for those before at their top, or where the schedule says so.
static void test_wait(void **state)
{
    (void)state;
    for (int is_placed = 0; is_placed < 2; is_placed++) {
        Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
        const KRef early = k_var(k, k_load(k, 0, k_index(k, 1), 1, 1), "early");
        if (is_placed)
            k_wait(k);
        k_store(k, 1, k_index(k, 0), k_get(k, early), 1);
        assert_null(kernel_verify(k));
        assert_null(strstr(text_of(k), "rlx_wait"));
        Str cuda = str_new(&arena);
        cfamily_print_kernel(&target_cuda, k, &cuda);
        const char *text = str_text(&cuda);
        const char *load = strstr(text, "early = "), *wait = strstr(text, "rlx_wait();");
        assert_true(load && wait && (load < wait) == is_placed);
        assert_null(strstr(wait + 1, "rlx_wait"));
    }
}

// What takes long does not let the kernels behind it begin.
static void test_late_wait(void **state)
{
    (void)state;
    for (int64_t turns = 1; turns <= 1000; turns += 999) {
        Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
        const KRef sum = k_var(k, k_number(k, DTYPE_f32, 0), "sum");
        const KRef i = k_loop(k, turns, KFOR_SERIAL, "i");
        k_set(k, sum, k_add(k, k_get(k, sum), k_load(k, 0, i, 1, 1)));
        k_end(k);
        k_store(k, 1, k_index(k, 0), k_get(k, sum), 1);
        assert_true(kernel_reads(k) == (double)turns);
        Str cuda = str_new(&arena);
        cfamily_print_kernel(&target_cuda, k, &cuda);
        assert_true((strstr(str_text(&cuda), "rlx_late_wait();") != NULL) == (turns > 1));
    }
}

static void test_same_text_every_time(void **state)
{
    (void)state;
    const char *first = NULL;
    for (int round = 0; round < 2; round++) {
        Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
        const KRef x = k_load(k, 0, k_index(k, 0), 8, 8);
        k_store(k, 1, k_index(k, 0), k_form(k, "(mul a (tanh (erf a)))", &x, DTYPE_f32), 8);
        Str all = str_new(&arena);
        target_print_prelude(&target_c, text_of(k), &all);
        str_add(&all, text_of(k));
        if (first)
            assert_string_equal(first, str_text(&all));
        first = str_text(&all);
    }
    // Nothing that is not used.
    assert_null(strstr(first, "v16f"));
    assert_null(strstr(first, "_log"));
}

// --- results -------------------------------------------------------------------------------------

static void test_partial_vectors(void **state)
{
    (void)state;
    for (uint8_t lanes = 4; lanes <= 16; lanes = (uint8_t)(lanes * 2)) {
        for (uint8_t count = 1; count <= lanes; count = (uint8_t)(count * 2 + 1)) {
            Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
            const KRef x = k_load(k, 0, k_index(k, 1), lanes, count);
            k_store(k, 1, k_index(k, 0), k_add(k, x, k_number(k, DTYPE_f32, 1)), lanes);
            k_store(k, 1, k_index(k, 20), x, count);
            float in[32], out[40];
            for (int i = 0; i < 32; i++)
                in[i] = (float)(i + 100);
            run_kernel(k, flags_of(lanes), in, out, sizeof out);
            for (int i = 0; i < 20; i++) {
                assert_true(out[i] == (i >= lanes ? 0.0f : i < count ? in[i + 1] + 1 : 1.0f));
                assert_true(out[20 + i] == (i < count ? in[i + 1] : 0.0f));
            }
        }
    }
}

static void test_horizontal(void **state)
{
    (void)state;
    static const KOp ops[] = {KOP_add, KOP_mul, KOP_min, KOP_max};
    for (uint8_t lanes = 4; lanes <= 16; lanes = (uint8_t)(lanes * 2)) {
        Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
        const KRef x = k_load(k, 0, k_index(k, 0), lanes, lanes);
        for (int i = 0; i < 4; i++)
            k_store(k, 1, k_index(k, i), k_hreduce(k, ops[i], x), 1);
        const KRef mask = k_lt(k, x, k_number(k, DTYPE_f32, 0));
        k_store(k, 1, k_index(k, 4), k_cast(k, k_hreduce(k, KOP_and, mask), DTYPE_f32), 1);
        k_store(k, 1, k_index(k, 5), k_cast(k, k_hreduce(k, KOP_or, mask), DTYPE_f32), 1);
        const KRef whole = k_cast(k, x, DTYPE_i32);
        k_store(k, 1, k_index(k, 6), k_cast(k, k_hreduce(k, KOP_add, whole), DTYPE_f32), 1);
        float in[16], out[7], sum[16], low = 100, high = -100, product = 1, whole_sum = 0;
        for (int i = 0; i < lanes; i++) {
            in[i] = sum[i] = (float)(i * 7 % 5) - 1.75f;
            low = in[i] < low ? in[i] : low;
            high = in[i] > high ? in[i] : high;
            product *= in[i];
            whole_sum += truncf(in[i]);
        }
        for (int half = lanes / 2; half > 0; half /= 2)
            for (int i = 0; i < half; i++)
                sum[i] += sum[i + half];
        run_kernel(k, flags_of(lanes), in, out, sizeof out);
        assert_true(out[0] == sum[0] && out[2] == low && out[3] == high && out[6] == whole_sum);
        assert_true(fabsf(out[1] - product) <= 1e-5f * fabsf(product));
        assert_true(out[4] == 0 && out[5] == 1);
    }
}

static void test_casts(void **state)
{
    (void)state;
    static const float in[16] = {0,     -0.5f, 1.9f,   -1.9f, 127.5f,   300,       -300,  3e9f,
                                 -3e9f, 1e20f, -1e20f, NAN,   INFINITY, -INFINITY, 65537, 2.5f};
    static const int64_t low[] = {INT8_MIN, INT32_MIN, INT64_MIN, 0},
                         high[] = {INT8_MAX, INT32_MAX, INT64_MAX, UINT8_MAX};
    static const DType to[] = {DTYPE_i8, DTYPE_i32, DTYPE_i64, DTYPE_u8};
    for (int t = 0; t < 4; t++) {
        Kernel *k = new_kernel(DTYPE_f32, DTYPE_i64);
        const KRef i = k_loop(k, 16, KFOR_SERIAL, "i");
        const KRef x = k_load(k, 0, i, 1, 1);
        k_store(k, 1, i, k_cast(k, k_cast(k, x, (int)to[t]), DTYPE_i64), 1);
        k_end(k);
        float x16[16];
        int64_t out[16];
        memcpy(x16, in, sizeof in);
        run_kernel(k, "", x16, out, sizeof out);
        for (int j = 0; j < 16; j++) {
            const double v = isnan(in[j]) ? 0 : trunc((double)in[j]);
            const int64_t want = v >= (double)high[t] ? high[t] : v <= (double)low[t] ? low[t] : (int64_t)v;
            assert_int_equal(out[j], want);
        }
    }
    Kernel *k = new_kernel(DTYPE_f32, DTYPE_i32); // in vectors
    const KRef x = k_load(k, 0, k_index(k, 0), 16, 16), whole = k_cast(k, x, DTYPE_i32);
    k_store(k, 1, k_index(k, 0), whole, 16);
    k_store(k, 1, k_index(k, 16),
            k_cast(k, k_cast(k, k_lt(k, x, k_number(k, DTYPE_f32, 1)), DTYPE_f32), DTYPE_i32), 16);
    float x16[16];
    int32_t out[32];
    memcpy(x16, in, sizeof in);
    run_kernel(k, flags_of(16), x16, out, sizeof out);
    for (int j = 0; j < 16; j++) {
        const double v = isnan(in[j]) ? 0 : trunc((double)in[j]);
        assert_int_equal(out[j], v >= INT32_MAX ? INT32_MAX : v <= INT32_MIN ? INT32_MIN : (int32_t)v);
        assert_int_equal(out[16 + j], in[j] < 1);
    }
}

// Arrays, branches and loops with bounds that are computed.
static void test_statements(void **state)
{
    (void)state;
    Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
    const KRef part = k_array(k, DTYPE_f32, 16), zero = k_index(k, 0), n = k_index(k, 16);
    KRef i = k_for(k, zero, n, 1, KFOR_UNROLL, "i");
    const KRef x = k_load(k, 0, i, 1, 1);
    k_if(k, k_lt(k, x, k_number(k, DTYPE_f32, 4)));
    k_astore(k, part, i, x);
    k_else(k);
    k_comment(k, "large ones are halved");
    k_astore(k, part, i, k_mul(k, x, k_number(k, DTYPE_f32, 0.5)));
    k_end(k);
    k_end(k);
    const KRef v = k_aload(k, part, k_index(k, 8), 8);
    k_store(k, 1, k_index(k, 16), v, 8);
    i = k_for(k, zero, n, 1, KFOR_SERIAL, "i");
    const KRef sum = k_var(k, k_number(k, DTYPE_f32, 0), "sum");
    const KRef j = k_for(k, zero, k_expr(k, "$ + 1", i), 1, KFOR_SERIAL, "j");
    const KRef one = k_aload(k, part, j, 1), before = k_get(k, sum);
    k_set(k, sum, k_add(k, before, one));
    k_end(k);
    const KRef total = k_get(k, sum);
    k_store(k, 1, i, total, 1);
    k_end(k);
    float in[16], out[24], want = 0;
    for (int t = 0; t < 16; t++)
        in[t] = (float)t;
    run_kernel(k, flags_of(8), in, out, sizeof out);
    for (int t = 0; t < 16; t++) {
        const float kept = in[t] < 4 ? in[t] : in[t] * 0.5f;
        want += kept;
        assert_true(out[t] == want);
        if (t >= 8)
            assert_true(out[8 + t] == kept);
    }
}

static void test_cpus(void **state)
{
    (void)state;
    CpuInfo cpu;
    assert_false(cpu_find("z80", &cpu));
    for (int i = 0; cpu_names[i]; i++) {
        assert_true(cpu_find(cpu_names[i], &cpu));
        assert_string_not_equal(cpu.name, "native");
        assert_true(cpu.machine.l1_bytes >= 4096 && cpu.machine.l2_bytes >= cpu.machine.l1_bytes);
        const TargetCaps caps = target_caps(&target_c, &cpu);
        assert_int_equal(caps.f32_lanes, cpu.f32_lanes);
    }
    assert_int_equal(target_caps(&target_cuda, &cpu).f32_lanes, 1);
    assert_null(target_find("fortran"));
    for (int i = 0; target_names[i]; i++)
        assert_string_equal(target_find(target_names[i])->name, target_names[i]);
}

static void test_grid(void **state)
{
    (void)state;
    Kernel *k = new_kernel(DTYPE_f32, DTYPE_f32);
    KRef at = k_index(k, 0);
    for (int d = 0; d < 4; d++)
        at =
            k_add(k, at, k_for(k, k_index(k, d == 0), k_index(k, 5 + d), d == 3 ? 3 : 1, KFOR_PARALLEL, "i"));
    k_store(k, 1, at, k_number(k, DTYPE_f32, 1), 1);
    for (int d = 0; d < 4; d++)
        k_end(k);
    KernelGrid g = kernel_grid(k);
    assert_int_equal(g.n_loops, 4);
    assert_int_equal(g.threads, 3 * 7 * 6 * 4);
    // A statement after the nest: no grid.
    k_store(k, 1, k_index(k, 0), k_number(k, DTYPE_f32, 1), 1);
    g = kernel_grid(k);
    assert_int_equal(g.n_loops, 0);
    assert_int_equal(g.threads, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_names_and_inlining, reset),
        cmocka_unit_test_setup(test_names_in_scopes, reset),
        cmocka_unit_test_setup(test_parentheses, reset),
        cmocka_unit_test_setup(test_constants, reset),
        cmocka_unit_test_setup(test_choices_are_no_constants, reset),
        cmocka_unit_test_setup(test_reads_stay_before_writes, reset),
        cmocka_unit_test_setup(test_order_of_building, reset),
        cmocka_unit_test_setup(test_wait, reset),
        cmocka_unit_test_setup(test_late_wait, reset),
        cmocka_unit_test_setup(test_same_text_every_time, reset),
        cmocka_unit_test_setup(test_partial_vectors, reset),
        cmocka_unit_test_setup(test_horizontal, reset),
        cmocka_unit_test_setup(test_casts, reset),
        cmocka_unit_test_setup(test_statements, reset),
        cmocka_unit_test_setup(test_cpus, reset),
        cmocka_unit_test_setup(test_grid, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
