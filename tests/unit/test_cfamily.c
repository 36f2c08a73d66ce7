// SPDX-License-Identifier: Apache-2.0
// What the C target prints does what kops.def says: every op on every type, scalar and in vectors, is
// printed, compiled by the compilers of this machine without a warning, run over extreme values, and compared
// with the table's meaning.
#include "cc_run.h"
#include "codegen/target/target.h"
#include "ir/kernel/kernel_fold.h"
#include "ir/eval/scalar.h"
#include "ir/graph/tensor.h"

#include <float.h>
#include <setjmp.h>
// cmocka.h needs the one above.
#include <cmocka.h>

// Unsigned values are never negative: the shared meanings ask anyway.
#pragma GCC diagnostic ignored "-Wtype-limits"

#define NONE 0
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    static double f_##name(double a, double b, double c)                                                     \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return fexpr;                                                                                        \
    }
#include "ir/kernel/kops.def"
#undef KOP
#define I int64_t
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    static int64_t s_##name(int64_t a, int64_t b, int64_t c)                                                 \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return iexpr;                                                                                        \
    }
#include "ir/kernel/kops.def"
#undef KOP
#undef I
#define I uint64_t
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    static uint64_t u_##name(uint64_t a, uint64_t b, uint64_t c)                                             \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return iexpr;                                                                                        \
    }
#include "ir/kernel/kops.def"
#undef KOP
#undef I

typedef struct Meaning {
    double (*f)(double a, double b, double c);
    int64_t (*s)(int64_t a, int64_t b, int64_t c);
    uint64_t (*u)(uint64_t a, uint64_t b, uint64_t c);
} Meaning;

static const Meaning meaning[KOP_COUNT] = {
#define KOP(name, arity, cost, fexpr, iexpr, cls) {f_##name, s_##name, u_##name},
#include "ir/kernel/kops.def"
#undef KOP
};

static Arena arena;
static const Target *target = &target_c; // of the running test
static int64_t slack;                    // more units that it may be off where it is not exact

// Largest distance from the rounded meaning, in units in the last place. Ops that are not here are exact.
typedef struct Bound {
    uint8_t kop;
    uint8_t ulp;
} Bound;
static const Bound bounds[] = {
    {KOP_exp, 2},   {KOP_log, 2},   {KOP_log1p, 2}, {KOP_expm1, 3}, {KOP_sin, 2},  {KOP_cos, 2},
    {KOP_tan, 2},   {KOP_asin, 2},  {KOP_acos, 2},  {KOP_atan, 2},  {KOP_sinh, 3}, {KOP_cosh, 3},
    {KOP_tanh, 3},  {KOP_asinh, 3}, {KOP_acosh, 3}, {KOP_atanh, 3}, {KOP_erf, 2},  {KOP_pow, 2},
    {KOP_atan2, 2}, {KOP_gate, 2},  {KOP_gelu, 3},
};

static int64_t bound_of(KOp op)
{
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].kop == op)
            return bounds[i].ulp + slack;
    return 0;
}

static const double floats[] = {0.0,
                                -0.0,
                                1.0,
                                -1.0,
                                0.5,
                                -0.5,
                                1.5,
                                -1.5,
                                2.5,
                                -2.5,
                                3.0,
                                -7.0,
                                0.1,
                                -0.3,
                                0.92,
                                0.544,
                                0.546,
                                -0.29,
                                0.41,
                                -0.999,
                                1e-3,
                                -1e-5,
                                1e-8,
                                1e-20,
                                -1e-30,
                                1.4e-45,
                                -1.4e-45,
                                1e-40,
                                -1e-39,
                                1.17549435e-38,
                                8388607.5,
                                8388608.0,
                                -8388609.0,
                                16777217.0,
                                2147483648.0,
                                -2147483648.0,
                                -2147483904.0,
                                1e10,
                                -1e12,
                                1e30,
                                -3.4028234663852886e38,
                                3.4028234663852886e38,
                                88.7,
                                88.73,
                                89.5,
                                -87.3,
                                -87.4,
                                -103.0,
                                -104.5,
                                -150.0,
                                17.0,
                                -17.5,
                                9.1,
                                0.70710678,
                                1.4142135,
                                100.25,
                                65504.0,
                                65520.0,
                                6e-8,
                                -3e-8,
                                (double)INFINITY,
                                -(double)INFINITY,
                                (double)NAN};
static const int64_t ints[] = {0,
                               1,
                               -1,
                               2,
                               -2,
                               3,
                               5,
                               -7,
                               8,
                               31,
                               32,
                               33,
                               63,
                               64,
                               100,
                               -100,
                               127,
                               128,
                               -128,
                               -129,
                               255,
                               256,
                               32767,
                               -32768,
                               65535,
                               65536,
                               2147483647,
                               -2147483647 - 1,
                               4294967295,
                               4294967296,
                               INT64_MAX,
                               INT64_MIN,
                               INT64_MAX - 1,
                               123456789012345};
enum { N_FLOATS = sizeof floats / sizeof *floats, N_INTS = sizeof ints / sizeof *ints, MAX_CASES = 9000 };

static bool is_float_type(DType t)
{
    return dtype_info[t].cls == DCLASS_FLOAT;
}

// The meaning's operands come from the tensors, so they are rounded to the type already.
static void fill(Tensor *t, int64_t at, uint32_t which)
{
    if (is_float_type(t->dtype))
        tensor_set_f64(t, at, floats[which % N_FLOATS]);
    else
        tensor_set_i64(t, at, t->dtype == DTYPE_bool ? which % 2 : ints[which % N_INTS]);
}

static int64_t fill_operands(Tensor in[3], uint32_t arity)
{
    const uint32_t n = is_float_type(in[1].dtype) ? N_FLOATS : N_INTS;
    int64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < (arity > 1 ? n : 1); j++) {
            for (uint32_t k = 0; k < (arity > 2 ? 2 : 1); k++, at++) {
                fill(&in[0], at, i);
                fill(&in[1], at, j);
                fill(&in[2], at, arity > 2 ? i * 7 + j * 3 + k : 0);
            }
        }
    }
    return at;
}

// --- one kernel per op ---------------------------------------------------------------------------

typedef struct Case {
    KOp op;
    DType type;
    uint8_t lanes;
    const char *name;
    DType result; // as stored
} Case;

static bool has_case(KOp op, DType type, uint8_t lanes)
{
    static const bool is_vector_type[DTYPE_COUNT] = {[DTYPE_f32] = true, [DTYPE_i32] = true};
    return (lanes == 1 || is_vector_type[type]) && target->types[type].value &&
           target_spell(target, op, (int)type, lanes);
}

// run_NAME(pointers): what the host calls. On a GPU target it runs the threads one by one.
static void print_runner(const Case *c, int64_t n, Str *out)
{
    const char *type = dtype_info[c->type].name;
    const char *args = arena_printf(&arena, "(rlx_%s *)p[0], (rlx_%s *)p[1], (rlx_%s *)p[2], (rlx_%s *)p[3]",
                                    type, type, type, dtype_info[c->result].name);
    if (target->caps.is_gpu)
        str_printf(out,
                   "extern \"C\" void run_%s(void **p)\n{\n    for (uint i = 0; i < %lld; i++)\n        "
                   "%s(%s, uint3{i, 0, 0});\n}\n",
                   c->name, (long long)n, c->name, args);
    else
        str_printf(out, "void run_%s(void **p);\nvoid run_%s(void **p)\n{\n    %s(%s);\n}\n", c->name,
                   c->name, c->name, args);
}

// y[i] = op(a[i], b[i], c[i]); a test's result is stored as a number, because masks have no memory form.
static void build_case(Case *c, int64_t n, Str *out)
{
    Kernel *k = kernel_new(&arena, c->name);
    const bool is_select = kop_info[c->op].cls == KCLASS_SEL;
    KRef operand[3] = {0};
    const char *const names[3] = {"a", "b", "c"};
    for (uint32_t i = 0; i < 3; i++)
        kernel_param(k, names[i], c->type, false, true);
    const bool is_test = kop_info[c->op].cls == KCLASS_CMP;
    c->result = !is_test ? c->type : c->lanes > 1 ? DTYPE_i32 : DTYPE_bool;
    const uint32_t y = kernel_param(k, "y", c->result, true, false);
    const KRef i = k_for(k, k_index(k, 0), k_index(k, n), c->lanes, KFOR_PARALLEL, "i");
    for (uint32_t s = 0; s < kop_info[c->op].arity; s++)
        operand[s] = k_load(k, s, i, c->lanes, c->lanes);
    if (is_select)
        operand[0] = k_cast(k, operand[0], DTYPE_bool);
    KRef r = k_op(k, c->op, operand[0], operand[1], operand[2]);
    r = k_cast(k, r, (int)c->result);
    k_store(k, y, i, r, c->lanes);
    k_end(k);
    assert_null(kernel_verify(k));
    assert_null(target_lacks(target, k));
    cfamily_print_kernel(target, k, out);
    print_runner(c, n, out);
}

// --- comparison ----------------------------------------------------------------------------------

// Positions of f32 and f64 on a line on which neighbours differ by one and both zeros are apart.
static int64_t place_of(DType t, double v)
{
    int64_t bits = 0;
    if (t == DTYPE_f64) {
        memcpy(&bits, &v, 8);
        return bits < 0 ? INT64_MIN - bits - 1 : bits;
    }
    const float f = (float)v;
    int32_t word = 0;
    memcpy(&word, &f, 4);
    return word < 0 ? INT32_MIN - (int64_t)word - 1 : word;
}

static bool is_near(DType t, double got, double want, int64_t ulp)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (ulp == 0 && got == want)
        return signbit(got) == signbit(want);
    const int64_t far = place_of(t, got) - place_of(t, want);
    return far >= -ulp && far <= ulp;
}

static double rounded(DType t, double v)
{
    if (t == DTYPE_f16)
        return f16_to_f64(f16_from_f64(v));
    if (t == DTYPE_bf16)
        return bf16_to_f64(bf16_from_f64(v));
    return t == DTYPE_f32 ? (double)(float)v : v;
}

// Products beyond the largest number are infinite where they are not fused, and numbers below 2^-126 may
// count as 0; of any two f32 some pairs are such.
static bool is_open_pair(double a, double b, double x, bool is_upper)
{
    const float p = num_half_of(a, is_upper), q = num_half_of(b, is_upper), of[] = {p, q, p * q, (float)x};
    for (uint32_t i = 0; i < 4; i++)
        if (!isfinite(of[i]) || (of[i] != 0 && fabsf(of[i]) < 0x1p-126f))
            return true;
    return false;
}

static bool check_float(const Case *c, const Tensor in[3], double got, int64_t i)
{
    const double a = tensor_get_f64(&in[0], i), b = tensor_get_f64(&in[1], i), x = tensor_get_f64(&in[2], i);
    const double want = meaning[c->op].f(a, b, x);
    // gelu is as exact in absolute terms below 0.5 as it is there.
    if (c->op == KOP_gelu && fabs(got - want) <= ldexp(2, c->type == DTYPE_f64 ? -53 : -24))
        return true;
    if (c->type == DTYPE_f64)
        return is_near(DTYPE_f64, got, want, c->op == KOP_fma ? 0 : bound_of(c->op)) ||
               (c->op == KOP_fma && is_near(DTYPE_f64, got, a * b + x, 0));
    // A sum of products may be fused or not; 16-bit results are rounded from f32.
    if (c->op == KOP_fma) {
        const double apart = rounded(c->type, (double)((float)a * (float)b + (float)x));
        return is_near(DTYPE_f32, got, apart, 0) ||
               is_near(DTYPE_f32, got, rounded(c->type, (double)fmaf((float)a, (float)b, (float)x)), 0);
    }
    if (c->op == KOP_dot_bf16 && (is_open_pair(a, b, x, true) || is_open_pair(a, b, x, false)))
        return true;
    // In f32 the gate is shut at once below -121, whatever comes to it: 0, or NaN of an infinity.
    if (c->op == KOP_gate && c->type != DTYPE_f64 && b < -121 && fabs(a) > 16777216)
        return isnan(got) || fabs(got) <= fabs(want);
    // GPUs divide by what overflows below -88.
    if (c->op == KOP_gate && target->device != DEVICE_HOST && b < -88)
        return isnan(got) || fabs(got) <= fabs(want);
    if (c->type == DTYPE_f32)
        return is_near(DTYPE_f32, got, (double)(float)want, bound_of(c->op));
    const double direct = rounded(c->type, want), by_f32 = rounded(c->type, (double)(float)want);
    const double above = rounded(c->type, (double)nextafterf((float)want, INFINITY));
    const double below = rounded(c->type, (double)nextafterf((float)want, -INFINITY));
    return is_near(DTYPE_f32, got, direct, 0) || is_near(DTYPE_f32, got, by_f32, 0) ||
           (bound_of(c->op) && (is_near(DTYPE_f32, got, above, 0) || is_near(DTYPE_f32, got, below, 0)));
}

static int64_t wrap(DType t, int64_t v)
{
    Tensor one = tensor_new(&arena, t, 0, NULL);
    if (t == DTYPE_bool)
        return v & 1;
    tensor_set_i64(&one, 0, v);
    return tensor_get_i64(&one, 0);
}

static bool check_case(const Case *c, const Tensor in[3], const Tensor *y, int64_t i)
{
    const bool is_test = kop_info[c->op].cls == KCLASS_CMP;
    if (is_float_type(c->type) && is_test)
        return tensor_get_i64(y, i) ==
               (int64_t)meaning[c->op].f(tensor_get_f64(&in[0], i), tensor_get_f64(&in[1], i), 0);
    if (is_float_type(c->type))
        return check_float(c, in, tensor_get_f64(y, i), i);
    const int64_t a = tensor_get_i64(&in[0], i), b = tensor_get_i64(&in[1], i), x = tensor_get_i64(&in[2], i);
    const bool is_signed = dtype_info[c->type].cls == DCLASS_INT;
    const int64_t want = is_signed ? meaning[c->op].s(a, b, x)
                                   : (int64_t)meaning[c->op].u((uint64_t)a, (uint64_t)b, (uint64_t)x);
    return tensor_get_i64(y, i) == (is_test ? want : wrap(c->type, want));
}

static void run_case(const Case *c, const CcRun *lib, int64_t n)
{
    void (*run)(void **p) = NULL;
    const char *symbol = arena_printf(&arena, "run_%s", c->name);
    void *address = dlsym(lib->lib, symbol);
    assert_non_null(address);
    memcpy(&run, &address, sizeof run);
    Tensor in[3];
    const int64_t dim[1] = {n};
    for (int i = 0; i < 3; i++)
        in[i] = tensor_new(&arena, c->type, 1, dim);
    Tensor y = tensor_new(&arena, c->result, 1, dim);
    const int64_t used = fill_operands(in, kop_info[c->op].arity);
    assert_true(used <= n);
    void *p[4] = {in[0].data, in[1].data, in[2].data, y.data};
    run(p);
    for (int64_t i = 0; i < used; i++) {
        if (check_case(c, in, &y, i))
            continue;
        Str s = str_new(&arena);
        str_printf(&s, "%s(", c->name);
        for (uint32_t j = 0; j < kop_info[c->op].arity; j++) {
            str_add(&s, j ? ", " : "");
            str_f64(&s, tensor_get_f64(&in[j], i));
        }
        str_add(&s, ") = ");
        str_f64(&s, tensor_get_f64(&y, i));
        fail_msg("%s", str_text(&s));
    }
}

// --- the tests -----------------------------------------------------------------------------------

static const char *const compilers[] = {"gcc", "clang"};
static const char *const standards[] = {"-std=c99 -O2", "-std=gnu11 -O1"};

static const char *flags_for(uint8_t lanes)
{
    CpuInfo cpu, native; // of this machine all, where it has no more lanes
    assert_true(cpu_find(lanes == 16 ? "x86-64-v4" : lanes == 8 ? "x86-64-v3" : "generic", &cpu));
    assert_true(cpu_find("native", &native));
    return native.f32_lanes == lanes ? native.cc_flags : cpu.cc_flags;
}

static bool runs_here(uint8_t lanes)
{
    CpuInfo cpu;
    assert_true(cpu_find("native", &cpu));
    const bool runs = lanes <= 4 || lanes <= cpu.f32_lanes;
    if (!runs)
        fprintf(stderr, "SKIPPED: this CPU has no vectors of %d lanes\n", lanes);
    return runs;
}

enum { N_CASES = MAX_CASES - MAX_CASES % 16 };

typedef VEC(Case) Cases;

// The text of all cases with the prelude that they need.
static const char *print_all(uint8_t lanes, Cases *cases)
{
    Str text = str_new(&arena), all = str_new(&arena);
    for (int op = 0; op < KOP_COUNT; op++) {
        for (int t = 0; t < DTYPE_COUNT; t++) {
            Case c = {(KOp)op, (DType)t, lanes,
                      arena_printf(&arena, "%s_%s", kop_info[op].name, dtype_info[t].name), (DType)t};
            if (dtype_is_narrow((DType)t) || !kop_is_defined((KOp)op, t) ||
                !has_case((KOp)op, (DType)t, lanes))
                continue;
            build_case(&c, N_CASES, &text);
            vec_push(&arena, cases, c);
        }
    }
    assert_true(cases->len > 40);
    target_print_prelude(target, str_text(&text), &all);
    str_add(&all, str_text(&text));
    return str_text(&all);
}

static void run_all(const Cases *cases, const char *cc, const char *flags, const char *text)
{
    if (!cc_exists(cc)) {
        fprintf(stderr, "SKIPPED: no %s\n", cc);
        return;
    }
    CcRun run;
    const bool built = cc_build(&run, cc, flags, text);
    for (uint32_t i = 0; built && run.lib && i < cases->len; i++)
        run_case(&cases->data[i], &run, N_CASES);
    cc_close(&run);
    assert_true(built);
}

static void check_all(uint8_t lanes, const char *flags)
{
    Cases cases = {0};
    const char *text = print_all(lanes, &cases);
    for (int cc = 0; cc < 2; cc++)
        run_all(&cases, compilers[cc],
                arena_printf(&arena, "%s %s -shared -fPIC -ffp-contract=%s", standards[cc], flags,
                             cc ? "fast" : "off"),
                text);
    run_all(&cases, "g++", arena_printf(&arena, "-x c++ -std=c++11 %s -fsyntax-only", flags), text);
}

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

static void test_scalar_ops(void **state)
{
    (void)state;
    check_all(1, "");
    if (runs_here(8)) // conversions of 16-bit floats by instructions
        check_all(1, flags_for(8));
}

static void test_vector_ops(void **state)
{
    (void)state;
    for (uint8_t lanes = 4; lanes <= 16; lanes = (uint8_t)(lanes * 2))
        if (runs_here(lanes))
            check_all(lanes, flags_for(lanes));
}

// Without the instruction set every builtin has its plain branch.
static void test_vector_ops_without_instructions(void **state)
{
    (void)state;
    check_all(8, "");
    check_all(16, "");
}

// A GPU target's text, run on this machine as C++: its shared helpers are then tested as numbers, not only
// compiled.
static void check_gpu(const Target *t, int64_t more)
{
    const char *source = getenv("RLXC_SOURCE");
    Cases cases = {0};
    target = t;
    slack = more;
    const char *flags =
        arena_printf(&arena, "-x c++ -std=c++14 -w -O1 -ffp-contract=off -shared -fPIC -I%s/compiler/metal",
                     source ? source : ".");
    run_all(&cases, "clang++", flags, print_all(1, &cases));
    target = &target_c;
    slack = 0;
}

static void test_metal(void **state)
{
    (void)state;
    check_gpu(&target_metal, 0);
}

// GLSL is not C++, but its own mathematics is in the subset that Metal reads.
static void test_glsl_mathematics(void **state)
{
    (void)state;
    Target t = target_metal;
    SpellOverride list[64];
    const SpellOverride *own = target_vulkan.overrides;
    uint32_t n = 0;
    for (uint32_t i = 0; i < target_vulkan.n_overrides; i++)
        if (own[i].col == SPELL_F32 && !strncmp(own[i].text, "rlx_", 4))
            list[n++] = own[i];
    assert_true(n > 10 && n + t.n_overrides < 64);
    for (uint32_t i = 0; i < t.n_overrides; i++)
        list[n++] = t.overrides[i];
    t.overrides = list;
    t.n_overrides = n;
    check_gpu(&t, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_scalar_ops, reset),
        cmocka_unit_test_setup(test_vector_ops, reset),
        cmocka_unit_test_setup(test_vector_ops_without_instructions, reset),
        cmocka_unit_test_setup(test_metal, reset),
        cmocka_unit_test_setup(test_glsl_mathematics, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
