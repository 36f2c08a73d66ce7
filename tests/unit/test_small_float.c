// SPDX-License-Identifier: Apache-2.0
// The narrow element types: every code of every format by its definition, rounding between all neighbours,
// and the same again in the emitted text, for the C target by the compilers of this machine and for a GPU
// target as C++.
#include "cc_run.h"
#include "codegen/target/target.h"
#include "ir/graph/small_float.h"
#include "ir/graph/tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// cmocka.h needs the ones above.
#include <cmocka.h>

static Arena arena;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

// --- the formats by their definition -------------------------------------------------------------

typedef struct Format {
    DType type;
    int bits, frac, bias;
    uint32_t largest;  // code of the largest number
    uint32_t overflow; // what larger positive numbers become
    uint32_t nan;      // what a NaN without sign becomes
    bool has_negative_zero;
} Format;

static const Format formats[] = {
    {DTYPE_f8e4m3fn, 8, 3, 7, 0x7e, 0x7f, 0x7f, true}, {DTYPE_f8e4m3fnuz, 8, 3, 8, 0x7f, 0x80, 0x80, false},
    {DTYPE_f8e5m2, 8, 2, 15, 0x7b, 0x7c, 0x7e, true},  {DTYPE_f8e5m2fnuz, 8, 2, 16, 0x7f, 0x80, 0x80, false},
    {DTYPE_f4e2m1, 4, 1, 1, 0x07, 0x07, 0x08, true},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

// The number of a finite code without sign.
static double magnitude_of(const Format *f, uint32_t code)
{
    const int e = (int)(code >> f->frac), fraction = (int)code & ((1 << f->frac) - 1);
    return e == 0 ? ldexp(fraction, 1 - f->bias - f->frac)
                  : ldexp(fraction + (1 << f->frac), e - f->bias - f->frac);
}

static void test_codes(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_FORMATS; k++) {
        const Format *f = &formats[k];
        const uint32_t sign = 1u << (f->bits - 1);
        for (uint32_t code = 0; code <= f->largest; code++) {
            const double want = magnitude_of(f, code), got = small_float_widen(f->type, code);
            assert_memory_equal(&got, &want, sizeof got);
            assert_int_equal(small_float_narrow(f->type, want), code);
            const bool is_zero = code == 0 && !f->has_negative_zero;
            assert_int_equal(small_float_narrow(f->type, -want), is_zero ? 0 : sign | code);
            if (!is_zero)
                assert_true(small_float_widen(f->type, sign | code) == -want);
        }
        for (uint32_t code = f->largest + 1; code < sign; code++)
            assert_true(!isfinite(small_float_widen(f->type, code)));
        assert_true(small_float_max(f->type) == magnitude_of(f, f->largest));
    }
    assert_true(isinf(small_float_widen(DTYPE_f8e5m2, 0x7c)) != 0 &&
                isinf(small_float_widen(DTYPE_f8e5m2, 0xfc)));
    for (uint32_t code = 0x7d; code < 0x80; code++)
        assert_true(isnan(small_float_widen(DTYPE_f8e5m2, code)));
    assert_true(isnan(small_float_widen(DTYPE_f8e4m3fn, 0x7f)) &&
                isnan(small_float_widen(DTYPE_f8e4m3fn, 0xff)));
    assert_true(isnan(small_float_widen(DTYPE_f8e4m3fnuz, 0x80)));
    assert_true(isnan(small_float_widen(DTYPE_f8e5m2fnuz, 0x80)));
    assert_true(small_float_max(DTYPE_f8e4m3fn) == 448 && small_float_max(DTYPE_f8e4m3fnuz) == 240);
    assert_true(small_float_max(DTYPE_f8e5m2) == 57344 && small_float_max(DTYPE_f8e5m2fnuz) == 57344);
    assert_true(small_float_max(DTYPE_f4e2m1) == 6);
}

// Between each two neighbours: just below the middle, the middle (to even) and just above. Above the largest
// number stands the one that would come next.
static void test_rounding(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_FORMATS; k++) {
        const Format *f = &formats[k];
        for (uint32_t code = 0; code <= f->largest; code++) {
            const uint32_t next = code == f->largest ? f->overflow : code + 1;
            const double low = magnitude_of(f, code), high = magnitude_of(f, code + 1);
            const double middle = low + (high - low) / 2;
            assert_int_equal(small_float_narrow(f->type, middle), code % 2 ? next : code);
            assert_int_equal(small_float_narrow(f->type, nextafter(middle, low)), code);
            assert_int_equal(small_float_narrow(f->type, nextafter(middle, high)), next);
        }
        assert_int_equal(small_float_narrow(f->type, (double)INFINITY), f->overflow);
        assert_int_equal(small_float_narrow(f->type, 1e300), f->overflow);
        assert_int_equal(small_float_narrow(f->type, (double)NAN), f->nan);
        assert_int_equal(small_float_narrow(f->type, 1e-300), 0);
    }
}

static void test_powers(void **state)
{
    (void)state;
    const DType t = DTYPE_f8e8m0;
    for (int code = 0; code < 255; code++) {
        const double v = ldexp(1, code - 127);
        assert_true(small_float_widen(t, (uint32_t)code) == v);
        assert_int_equal(small_float_narrow(t, v), code);
        assert_int_equal(small_float_narrow(t, nextafter(1.5 * v, 0)), code);
        assert_int_equal(small_float_narrow(t, 1.5 * v), code + 1);
    }
    const double not_a_power[] = {(double)NAN, (double)INFINITY, -1, -(double)INFINITY, 1e39};
    for (size_t i = 0; i < sizeof not_a_power / sizeof *not_a_power; i++)
        assert_int_equal(small_float_narrow(t, not_a_power[i]), 255);
    assert_int_equal(small_float_narrow(t, 0), 0);
    assert_int_equal(small_float_narrow(t, -0.0), 0);
    assert_int_equal(small_float_narrow(t, 1e-300), 0);
    assert_true(isnan(small_float_widen(t, 255)));
}

static void test_small_integers(void **state)
{
    (void)state;
    static const struct {
        DType type;
        int64_t set, get;
        double set_f, get_f;
    } rows[] = {{DTYPE_i4, 7, 7, 7.9, 7},    {DTYPE_i4, 8, -8, 9, 7},   {DTYPE_i4, -9, 7, -1e9, -8},
                {DTYPE_u4, 16, 0, 99, 15},   {DTYPE_u4, -1, 15, -1, 0}, {DTYPE_i2, 2, -2, 2, 1},
                {DTYPE_i2, -3, 1, -7.5, -2}, {DTYPE_u2, 5, 1, 3.99, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Tensor t = tensor_new(&arena, rows[i].type, 0, NULL);
        tensor_set_i64(&t, 0, rows[i].set);
        assert_int_equal(tensor_get_i64(&t, 0), rows[i].get);
        assert_true(tensor_is_clean(&t, 0));
        tensor_set_f64(&t, 0, rows[i].set_f);
        assert_true(tensor_get_f64(&t, 0) == rows[i].get_f);
        assert_true(tensor_is_clean(&t, 0));
        *(uint8_t *)t.data = 0x70;
        assert_false(tensor_is_clean(&t, 0));
    }
}

// --- what is emitted -----------------------------------------------------------------------------

enum { N_VALUES = 1 << 14 };

// y[i] = x[i], cast or as the same bits.
static void print_one(const Target *t, DType from, DType to, bool is_bits, Str *out)
{
    const char *name = arena_printf(&arena, "%s_%s_%s", is_bits ? "bits" : "cast", dtype_info[from].name,
                                    dtype_info[to].name);
    Kernel *k = kernel_new(&arena, name);
    kernel_param(k, "x", from, false, true);
    kernel_param(k, "y", to, true, false);
    const KRef i = k_loop(k, N_VALUES, KFOR_PARALLEL, "i");
    const KRef x = k_load(k, 0, i, 1, 1);
    k_store(k, 1, i, is_bits ? k_bitcast(k, x, (int)to) : k_cast(k, x, (int)to), 1);
    k_end(k);
    assert_null(kernel_verify(k));
    assert_null(target_lacks(t, k));
    cfamily_print_kernel(t, k, out);
    const char *args =
        arena_printf(&arena, "(rlx_%s *)x, (rlx_%s *)y", dtype_info[from].name, dtype_info[to].name);
    if (t->caps.is_gpu)
        str_printf(out,
                   "extern \"C\" void run_%s(void *x, void *y)\n{\n    for (uint i = 0; i < %d; i++)\n"
                   "        %s(%s, uint3{i, 0, 0});\n}\n",
                   name, N_VALUES, name, args);
    else
        str_printf(out, "void run_%s(void *x, void *y);\nvoid run_%s(void *x, void *y)\n{\n    %s(%s);\n}\n",
                   name, name, name, args);
}

// All codes of all formats, the middles between them and their neighbours, then random bits.
static void fill_f32(Tensor *x)
{
    int64_t n = 0;
    uint64_t rng = 88172645463325252u;
    float *out = x->data;
    for (size_t k = 0; k < N_FORMATS; k++)
        for (uint32_t code = 0; code <= formats[k].largest; code++) {
            const float low = (float)magnitude_of(&formats[k], code);
            const float middle = (float)(magnitude_of(&formats[k], code + 1) + (double)low) / 2;
            const float near[] = {low,  middle, nextafterf(middle, 0), nextafterf(middle, INFINITY),
                                  -low, -middle};
            for (int i = 0; i < 6; i++)
                out[n++] = near[i];
        }
    for (int e = -149; e < 128; e++) {
        out[n++] = ldexpf(1, e);
        out[n++] = nextafterf(ldexpf(1.5f, e), 0);
        out[n++] = ldexpf(1.5f, e);
    }
    const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, -1e-40f};
    for (int i = 0; i < 8; i++)
        out[n++] = special[i];
    assert_true(n < N_VALUES);
    for (; n < N_VALUES; n++) {
        rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
        const uint32_t bits = (uint32_t)(rng >> 32);
        memcpy(&out[n], &bits, sizeof bits);
    }
}

static void fill(Tensor *x)
{
    if (x->dtype == DTYPE_f32) {
        fill_f32(x);
        return;
    }
    for (int64_t i = 0; i < N_VALUES; i++)
        tensor_set_bits(x, i, (uint64_t)i * 2654435761u >> (dtype_info[x->dtype].bits > 8 ? 0 : 3));
}

static bool is_same(const Tensor *got, const Tensor *want, int64_t i)
{
    const bool is_float = dtype_info[got->dtype].cls == DCLASS_FLOAT;
    if (is_float && isnan(tensor_get_f64(want, i)))
        return isnan(tensor_get_f64(got, i));
    return memcmp((char *)got->data + i * dtype_info[got->dtype].bytes,
                  (char *)want->data + i * dtype_info[got->dtype].bytes, dtype_info[got->dtype].bytes) == 0;
}

static void check_one(const CcRun *lib, DType from, DType to, bool is_bits)
{
    void (*run)(void *x, void *y) = NULL;
    const char *name = arena_printf(&arena, "run_%s_%s_%s", is_bits ? "bits" : "cast", dtype_info[from].name,
                                    dtype_info[to].name);
    void *address = dlsym(lib->lib, name);
    assert_non_null(address);
    memcpy(&run, &address, sizeof run);
    Tensor x = tensor_new(&arena, from, 1, (int64_t[]){N_VALUES}), y = tensor_new(&arena, to, 1, x.dim),
           want = tensor_new(&arena, to, 1, x.dim);
    fill(&x);
    run(x.data, y.data);
    const bool is_float = dtype_info[from].cls == DCLASS_FLOAT;
    for (int64_t i = 0; i < N_VALUES; i++) {
        if (is_bits && is_float && dtype_info[from].bits == 16 && isnan(tensor_get_f64(&x, i)))
            continue; // machines may make it a quiet one
        if (is_bits)
            tensor_set_bits(&want, i, tensor_get_bits(&x, i));
        else if (is_float)
            tensor_set_f64(&want, i, tensor_get_f64(&x, i));
        else
            tensor_set_i64(&want, i, tensor_get_i64(&x, i));
        if (!is_same(&y, &want, i))
            fail_msg("%s(%a) = %a, not %a", name, tensor_get_f64(&x, i), tensor_get_f64(&y, i),
                     tensor_get_f64(&want, i));
    }
}

typedef void (*PairFn)(void *ctx, DType from, DType to, bool is_bits);

// Every narrow type to and from f32, i32 and u8, and bits to u8, i8 and each other.
static void each_pair(PairFn fn, void *ctx)
{
    static const DType wide[] = {DTYPE_f32, DTYPE_i32, DTYPE_u8, DTYPE_bf16};
    for (int t = DTYPE_f8e4m3fn; t < DTYPE_COUNT; t++) {
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
            fn(ctx, (DType)t, wide[i], false);
            if (wide[i] != DTYPE_bf16)
                fn(ctx, wide[i], (DType)t, false);
        }
        for (int to = 0; to < DTYPE_COUNT; to++)
            if (to != t && to != DTYPE_bool && dtype_info[to].bits == dtype_info[t].bits)
                fn(ctx, (DType)t, (DType)to, true);
    }
    fn(ctx, DTYPE_f32, DTYPE_u32, true);
    fn(ctx, DTYPE_i32, DTYPE_f32, true);
    fn(ctx, DTYPE_f16, DTYPE_i16, true);
    fn(ctx, DTYPE_u16, DTYPE_bf16, true);
}

typedef struct Printed {
    const Target *target;
    Str text;
} Printed;

static void print_pair(void *ctx, DType from, DType to, bool is_bits)
{
    Printed *p = ctx;
    print_one(p->target, from, to, is_bits, &p->text);
}

static void check_pair(void *ctx, DType from, DType to, bool is_bits)
{
    check_one(ctx, from, to, is_bits);
}

static void check_target(const Target *t, const char *cc, const char *flags)
{
    Printed p = {t, str_new(&arena)};
    Str all = str_new(&arena);
    each_pair(print_pair, &p);
    target_print_prelude(t, str_text(&p.text), &all);
    str_add(&all, str_text(&p.text));
    if (!cc_exists(cc)) {
        fprintf(stderr, "SKIPPED: no %s\n", cc);
        return;
    }
    CcRun run;
    const bool built = cc_build(&run, cc, flags, str_text(&all));
    if (built && run.lib)
        each_pair(check_pair, &run);
    cc_close(&run);
    assert_true(built);
}

static void test_emitted_c(void **state)
{
    (void)state;
    check_target(&target_c, "gcc", "-std=c99 -O2 -shared -fPIC");
    check_target(&target_c, "clang", "-std=gnu11 -O1 -shared -fPIC");
    check_target(&target_c, "g++", "-x c++ -std=c++11 -fsyntax-only");
}

static void test_emitted_gpu(void **state)
{
    (void)state;
    const char *source = getenv("RLXC_SOURCE");
    check_target(
        &target_metal, "clang++",
        arena_printf(&arena,
                     "-x c++ -std=c++14 -w -O1 -ffp-contract=off -shared -fPIC -I%s/compiler/metal",
                     source ? source : "."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_codes, reset),     cmocka_unit_test_setup(test_rounding, reset),
        cmocka_unit_test_setup(test_powers, reset),    cmocka_unit_test_setup(test_small_integers, reset),
        cmocka_unit_test_setup(test_emitted_c, reset), cmocka_unit_test_setup(test_emitted_gpu, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
