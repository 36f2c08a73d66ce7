// SPDX-License-Identifier: Apache-2.0
// Measures the vector mathematics of emitted C against libm in double: the largest error in units in the last
// place.
//   ulp_scan [step [lanes [compiler and flags]]]     every step-th of all 2^32 floats; 1 takes some minutes
#include "codegen/target.h"
#include "tests/unit/cc_run.h"

#include <math.h>

enum { BLOCK = 4096 };

typedef struct Function {
    const char *name;
    KOp op;
    double (*exact)(double x);
} Function;

static const Function functions[] = {
    {"exp", KOP_exp, exp},       {"expm1", KOP_expm1, expm1}, {"log", KOP_log, log},
    {"log1p", KOP_log1p, log1p}, {"tanh", KOP_tanh, tanh},    {"erf", KOP_erf, erf},
    {"sqrt", KOP_sqrt, sqrt},    {"floor", KOP_floor, floor}, {"ceil", KOP_ceil, ceil},
    {"trunc", KOP_trunc, trunc}, {"rint", KOP_rint, rint},    {"abs", KOP_abs, fabs},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct Worst {
    double ulp;
    float at, got;
    uint64_t n_wrong; // NaN, infinity or the sign of zero where they should not be
} Worst;

static void measure(float x, float got, double exact, Worst *w)
{
    const float want = (float)exact;
    if (isnan(want) || isinf(want) || isnan(got) || isinf(got)) {
        // At the edge of overflow a result may round either way.
        const bool is_edge = isinf(got) != isinf(want) && fabs(exact) > 3.4028233e38;
        w->n_wrong += !is_edge && !(isnan(want) && isnan(got)) && want != got;
        return;
    }
    w->n_wrong += want == 0 && got == 0 && signbit(want) != signbit(got);
    int e = 0;
    frexp(exact, &e);
    const double unit = ldexp(1, e - 24 < -149 ? -149 : e - 24);
    const double ulp = fabs((double)got - exact) / unit;
    if (ulp > w->ulp)
        *w = (Worst){ulp, x, got, w->n_wrong};
}

static void scan(const Function *f, void (*run)(const float *x, float *y), uint64_t step)
{
    static float x[BLOCK], y[BLOCK];
    Worst w = {0};
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        uint32_t n = 0;
        for (; n < BLOCK && bits <= UINT32_MAX; n++, bits += step) {
            const uint32_t word = (uint32_t)bits;
            memcpy(&x[n], &word, 4);
        }
        run(x, y);
        for (uint32_t i = 0; i < n; i++)
            measure(x[i], y[i], f->exact((double)x[i]), &w);
    }
    printf("%-6s %.3f ulp at %.9g (got %.9g), %llu wrong special values\n", f->name, w.ulp, (double)w.at,
           (double)w.got, (unsigned long long)w.n_wrong);
    fflush(stdout);
}

static void print_function(Arena *a, const Function *f, uint8_t lanes, Str *out)
{
    Kernel *k = kernel_new(a, arena_printf(a, "k_%s", f->name));
    kernel_param(k, "x", DTYPE_f32, false, true);
    kernel_param(k, "y", DTYPE_f32, true, false);
    const KRef i = k_for(k, k_index(k, 0), k_index(k, BLOCK), lanes, KFOR_PARALLEL, "i");
    const KRef x = k_load(k, 0, i, lanes, lanes);
    k_store(k, 1, i, k_op(k, f->op, x, 0, 0), lanes);
    k_end(k);
    cfamily_print_kernel(target_find("c"), k, out);
    str_printf(out,
               "void run_%s(const float *x, float *y);\nvoid run_%s(const float *x, float *y)\n{\n    "
               "k_%s(x, y);\n}\n",
               f->name, f->name, f->name);
}

int main(int argc, char **argv)
{
    const uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 10) : 37;
    CpuInfo cpu;
    cpu_find("native", &cpu);
    const uint8_t lanes = argc > 2 ? (uint8_t)strtoul(argv[2], NULL, 10) : cpu.f32_lanes;
    Arena a = {0};
    const char *cc = argc > 3 ? argv[3] : arena_printf(&a, "cc -O2 %s", cpu.cc_flags);
    Str text = str_new(&a), all = str_new(&a);
    for (int i = 0; i < N_FUNCTIONS; i++)
        print_function(&a, &functions[i], lanes, &text);
    target_print_prelude(target_find("c"), str_text(&text), &all);
    str_add(&all, str_text(&text));
    printf("%d lanes, every %llu. float, %s\n", lanes, (unsigned long long)step, cc);
    CcRun lib;
    if (!step || !cc_build(&lib, cc, "-shared -fPIC", str_text(&all)))
        return 1;
    for (int i = 0; i < N_FUNCTIONS; i++) {
        void (*run)(const float *x, float *y) = NULL;
        void *symbol = dlsym(lib.lib, arena_printf(&a, "run_%s", functions[i].name));
        memcpy(&run, &symbol, sizeof run);
        scan(&functions[i], run, step);
    }
    cc_close(&lib);
    arena_free(&a);
    return 0;
}
