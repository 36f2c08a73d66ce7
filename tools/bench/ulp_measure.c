// SPDX-License-Identifier: Apache-2.0
// See ulp_measure.h. Compiled for the machine at hand: glibc's vector forms of the double functions (at most
// 4 units in the last place of a double) make the scan of all 2^32 arguments a matter of seconds for each
// function.
#include "tools/bench/ulp_measure.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define VECTOR(name) extern double name(double) __attribute__((simd("notinbranch"), const));
VECTOR(exp)
VECTOR(expm1)
VECTOR(log)
VECTOR(log1p)
VECTOR(tanh)
VECTOR(erf)
VECTOR(erfc)
VECTOR(sin)
VECTOR(cos)
VECTOR(tan)
VECTOR(asin)
VECTOR(acos)
VECTOR(atan)
VECTOR(sinh)
VECTOR(cosh)
VECTOR(asinh)
VECTOR(acosh)
VECTOR(atanh)
extern double pow(double, double) __attribute__((simd("notinbranch"), const));
#endif
#endif

#define EXACT(name, value)                                                                                   \
    static void exact_##name(const float *x, double *y)                                                      \
    {                                                                                                        \
        _Pragma("omp simd") for (int i = 0; i < ULP_BLOCK; i++)                                              \
        {                                                                                                    \
            const double a = (double)x[i];                                                                   \
            y[i] = value;                                                                                    \
        }                                                                                                    \
    }
// The meanings of ops.def, in forms that stay exact at the ends. Their constants are those of the op, not
// rounded.
#define SOFTPLUS ((a > 0 ? a : 0) + log1p(exp(-fabs(a))))
#define GATE     (2 * 0.79788456080286536 * (a + 0.044715 * a * a * a))
EXACT(exp, exp(a))
EXACT(expm1, expm1(a))
EXACT(log, log(a))
EXACT(log1p, log1p(a))
EXACT(tanh, tanh(a))
EXACT(erf, erf(a))
EXACT(sqrt, sqrt(a))
EXACT(floor, floor(a))
EXACT(ceil, ceil(a))
EXACT(trunc, trunc(a))
EXACT(round, rint(a))
EXACT(abs, fabs(a))
EXACT(sigmoid, 1 / (1 + exp(-a)))
EXACT(silu, a / (1 + exp(-a)))
EXACT(gelu_erf, 0.5 * a * erfc(-a * 0.70710678118654752))
EXACT(gelu_tanh, a / (1 + exp(-GATE)))
EXACT(softplus, SOFTPLUS)
EXACT(mish, a *tanh(SOFTPLUS))
EXACT(sin, sin(a))
EXACT(cos, cos(a))
EXACT(tan, tan(a))
EXACT(asin, asin(a))
EXACT(acos, acos(a))
EXACT(atan, atan(a))
EXACT(sinh, sinh(a))
EXACT(cosh, cosh(a))
EXACT(asinh, asinh(a))
EXACT(acosh, acosh(a))
EXACT(atanh, atanh(a))
EXACT(selu, 1.0507009873554805 * (a < 0 ? 1.6732632423543772 * expm1(a) : a))

// From -151 to 129: what 2 is raised to where a power is neither 0 nor infinite, and a little beyond.
static float near_power(float x, uint32_t random)
{
    const double power = (double)random / 0x1p32 * 280 - 151;
    return (float)(power / log2(fabs((double)x)));
}

void ulp_exponents(const float *x, float *e)
{
    static const float ends[] = {0, -0.0f, 1, -1, 0.5f, -0.5f, 2, 3, INFINITY, -INFINITY, NAN, 0x1p24f, -3};
    for (int i = 0; i < ULP_BLOCK; i++) {
        uint32_t bits, random;
        memcpy(&bits, &x[i], sizeof bits);
        random = (bits ^ bits >> 16) * 0x85ebca6bu;
        random = (random ^ random >> 13) * 0xc2b2ae35u;
        random ^= random >> 16;
        const uint32_t rest = random * 0x9e3779b1u;
        if (random % 8 == 0)
            memcpy(&e[i], &rest, sizeof rest);
        else if (random % 8 == 1)
            e[i] = (float)((int)(rest >> 24) - 128);
        else if (random % 8 == 2)
            e[i] = ends[rest % (sizeof ends / sizeof *ends)];
        else
            e[i] = near_power(x[i], rest);
        // Of signalling NaN, C does not say what their power of 0 is.
        if (isnan(x[i]) || isnan(e[i]))
            e[i] = (bits & 0x7fc00000) == 0x7f800000 ? 2 : isnan(e[i]) ? NAN : e[i];
    }
}

static void exact_pow(const float *x, double *y)
{
    static _Thread_local float e[ULP_BLOCK];
    ulp_exponents(x, e);
    _Pragma("omp simd") for (int i = 0; i < ULP_BLOCK; i++) y[i] = pow((double)x[i], (double)e[i]);
}

static const struct {
    const char *name;
    UlpExact exact;
} functions[] = {
    {"exp", exact_exp},           {"expm1", exact_expm1},
    {"log", exact_log},           {"log1p", exact_log1p},
    {"tanh", exact_tanh},         {"erf", exact_erf},
    {"sqrt", exact_sqrt},         {"floor", exact_floor},
    {"ceil", exact_ceil},         {"trunc", exact_trunc},
    {"round", exact_round},       {"abs", exact_abs},
    {"sigmoid", exact_sigmoid},   {"silu", exact_silu},
    {"gelu_erf", exact_gelu_erf}, {"gelu_tanh", exact_gelu_tanh},
    {"softplus", exact_softplus}, {"mish", exact_mish},
    {"selu", exact_selu},         {"sin", exact_sin},
    {"cos", exact_cos},           {"tan", exact_tan},
    {"asin", exact_asin},         {"acos", exact_acos},
    {"atan", exact_atan},         {"sinh", exact_sinh},
    {"cosh", exact_cosh},         {"asinh", exact_asinh},
    {"acosh", exact_acosh},       {"atanh", exact_atanh},
    {"pow", exact_pow},
};

UlpExact ulp_exact(const char *name)
{
    for (uint32_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name))
            return functions[i].exact;
    return NULL;
}

enum { EXP_BIAS = 1023, FRACTION_BITS = 52 };

// Distances of a block; -1 where one of the two is no finite f32, or both are zero.
static double distances(const float *got, const double *exact, double least, double *ulp)
{
    const int64_t lowest = least > 0x1p-126 ? ilogb(least) : -126;
    double most = -1, smallest = 0;
#pragma omp simd reduction(max : most) reduction(min : smallest)
    for (int i = 0; i < ULP_BLOCK; i++) {
        int64_t bits;
        memcpy(&bits, &exact[i], sizeof bits);
        int64_t e = ((bits >> FRACTION_BITS) & 0x7ff) - EXP_BIAS;
        e = e < lowest ? lowest : e;
        const int64_t unit_bits = (EXP_BIAS + 23 - (e > 128 ? 128 : e)) << FRACTION_BITS; // 1 / 2^(e - 23)
        double per_unit;
        memcpy(&per_unit, &unit_bits, sizeof per_unit);
        const double g = (double)got[i];
        const bool is_plain = fabs(g) <= 3.4028235e38 && fabs(exact[i]) <= 3.4028235e38 &&
                              !(g == 0 && fabs(exact[i]) < 0x1p-149);
        ulp[i] = is_plain ? fabs(g - exact[i]) * per_unit : -1;
        most = ulp[i] > most ? ulp[i] : most;
        smallest = ulp[i] < smallest ? ulp[i] : smallest;
    }
    return smallest < 0 ? HUGE_VAL : most;
}

static void count_special(float x, float got, double exact, UlpWorst *w)
{
    const float want = (float)exact;
    // At the edge of overflow, and of the least denormal, a result may round either way.
    const bool is_edge = isinf(got) != isinf(want) && fabs(exact) > 3.4028233e38 && !isnan(got);
    bool is_right = is_edge || (isnan(want) && isnan(got)) || want == got;
    if (want == 0 || got == 0)
        is_right = signbit(want) == signbit(got) && fabs(exact) < 0x1p-148 && !isnan(got);
    if (is_right)
        return;
    if (w->n_wrong++ == 0) {
        w->wrong_at = x;
        w->wrong_got = got;
    }
}

void ulp_measure(const float *x, const float *got, const double *exact, double least, UlpWorst *w)
{
    double ulp[ULP_BLOCK];
    if (distances(got, exact, least, ulp) <= w->ulp)
        return;
    for (int i = 0; i < ULP_BLOCK; i++) {
        if (ulp[i] < 0)
            count_special(x[i], got[i], exact[i], w);
        else if (ulp[i] > w->ulp) {
            w->ulp = ulp[i];
            w->at = x[i];
            w->got = got[i];
        }
    }
}

void ulp_join(UlpWorst *to, const UlpWorst *from)
{
    const uint64_t n_wrong = to->n_wrong + from->n_wrong;
    if (to->n_wrong == 0) {
        to->wrong_at = from->wrong_at;
        to->wrong_got = from->wrong_got;
    }
    if (from->ulp > to->ulp || (from->ulp == to->ulp && from->at < to->at)) {
        to->ulp = from->ulp;
        to->at = from->at;
        to->got = from->got;
    }
    to->n_wrong = n_wrong;
}
