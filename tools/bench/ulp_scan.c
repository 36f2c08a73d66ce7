// SPDX-License-Identifier: Apache-2.0
// The vector mathematics of emitted C against libm in double: the largest error in units in the last place,
// for every width of vectors and as scalar code, and the speed.
//   ulp_scan [--step N] [--threads N] [--cc COMPILER] [--only VARIANT] [--speed] [--check]
//   [FUNCTION...]
// Every N-th of all 2^32 floats (default 1: all of them), and the neighbourhood of every power of two and of
// the places where the definitions change their formula. --check fails where a bound is not held: the one
// that stands beside the definition in codegen/prelude/c_math.inc, or in the table below for what is composed
// of others.
#include "codegen/target/prelude.h"
#include "codegen/target/target.h"
#include "tests/unit/cc_run.h"
#include "tools/bench/ulp_measure.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

#define LIBM 2.1 // what scalar code calls: tanhf of glibc is the worst
enum { MAX_THREADS = 64, MANY = 1 << 20, FEW = 2048, NEAR = 48 };

typedef struct Function {
    OpId op;
    double bound; // of what the prelude does not define; 0: what the comment there says
    double least; // units are those at this magnitude where the exact value is smaller
} Function;

// gelu_erf is near x * (1 + erf(x / sqrt(2))) / 2, which cancels for negative x; the argument of gelu_tanh's
// exp is rounded.
static const Function functions[] = {
    {OP_exp, 0, 0},        {OP_expm1, 0, 0},       {OP_log, 0, 0},      {OP_log1p, 0, 0},
    {OP_tanh, 0, 0},       {OP_erf, 0, 0},         {OP_sqrt, 0.5, 0},   {OP_floor, 1e-9, 0},
    {OP_ceil, 1e-9, 0},    {OP_trunc, 1e-9, 0},    {OP_round, 1e-9, 0}, {OP_abs, 1e-9, 0},
    {OP_sigmoid, 1.75, 0}, {OP_silu, 1.8, 0},      {OP_gelu_erf, 2, 0.5}, {OP_gelu_tanh, 2, 0.25},
    {OP_softplus, 2, 0},   {OP_mish, 4.75, 0x1p-100}, {OP_selu, 2, 0},     {OP_sin, 0, 0},
    {OP_cos, 0, 0},        {OP_tan, 0, 0},         {OP_asin, 0, 0},     {OP_acos, 0, 0},
    {OP_atan, 0, 0},       {OP_sinh, 0, 0},        {OP_cosh, 0, 0},     {OP_asinh, 0, 0},
    {OP_acosh, 0, 0},      {OP_atanh, 0, 0},      {OP_pow, 0, 0},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

// `e` has the second operands of a function that has two.
typedef void (*Run)(const float *x, const float *e, float *y, ptrdiff_t n);

typedef struct Variant {
    const char *name, *cpu, *flags;
    uint8_t lanes;
    CcRun lib;
    Run run[N_FUNCTIONS];
} Variant;

static Variant variants[] = {
    {.name = "16 lanes", .cpu = "x86-64-v4", .lanes = 16},
    {.name = "8 lanes", .cpu = "x86-64-v3", .lanes = 8},
    {.name = "4 lanes, fma", .cpu = "x86-64-v3", .lanes = 4},
    {.name = "4 lanes, NEON", .cpu = "armv8-a", .lanes = 4},
    {.name = "4 lanes", .cpu = "generic", .lanes = 4},
    {.name = "scalar", .cpu = "generic", .lanes = 1},
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

// Arguments whose bits are first, first + step ... up to last.
typedef struct Range {
    uint32_t first, last, step;
} Range;

typedef struct Scan {
    const Function *f;
    uint32_t index; // of f
    UlpExact exact;
    VEC(Range) ranges;
    uint32_t n_threads;
} Scan;

typedef struct Worker {
    const Scan *scan;
    uint32_t number;
    pthread_t thread;
    UlpWorst worst[N_VARIANTS];
} Worker;

// --- emitted code --------------------------------------------------------------------------------

static void print_function(Arena *a, const Function *f, uint8_t lanes, Str *out)
{
    const char *name = op_info[f->op].name;
    Kernel *k = kernel_new(a, arena_printf(a, "k_%s", name));
    kernel_param(k, "x", DTYPE_f32, false, true);
    kernel_param(k, "y", DTYPE_f32, true, false);
    kernel_param(k, "n", DTYPE_i32, false, true);
    kernel_param(k, "e", DTYPE_f32, false, true);
    const KRef n = k_cast(k, k_load(k, 2, k_index(k, 0), 1, 1), KT_INDEX);
    const KRef i = k_for(k, k_index(k, 0), n, lanes, KFOR_PARALLEL, "i");
    KRef x[2] = {k_load(k, 0, i, lanes, lanes)};
    if (op_info[f->op].max_src == 2)
        x[1] = k_load(k, 3, i, lanes, lanes);
    k_store(k, 1, i, k_form(k, op_info[f->op].kernel, x, DTYPE_f32), lanes);
    k_end(k);
    cfamily_print_kernel(target_find("c"), k, out);
    str_printf(out,
               "void run_%s(const float *x, const float *e, float *y, ptrdiff_t n);\n"
               "void run_%s(const float *x, const float *e, float *y, ptrdiff_t n)\n{\n"
               "    const int32_t count = (int32_t)n;\n    k_%s(x, y, &count, e);\n}\n",
               name, name, name);
}

// False: this machine cannot run it, or it does not compile.
static bool build_variant(Arena *a, Variant *v, const char *cc)
{
    CpuInfo cpu;
    Str text = str_new(a), all = str_new(a);
    if (!cpu_find(v->cpu, &cpu) || !cpu_runs_here(&cpu))
        return false;
    v->flags = arena_printf(a, "%s -O2 %s", cc, cpu.cc_flags);
    for (int i = 0; i < N_FUNCTIONS; i++)
        print_function(a, &functions[i], v->lanes, &text);
    target_print_prelude(target_find("c"), str_text(&text), &all);
    str_add(&all, str_text(&text));
    if (!cc_build(&v->lib, v->flags, "-std=gnu99 -shared -fPIC", str_text(&all)))
        exit(1);
    for (int i = 0; i < N_FUNCTIONS; i++) {
        void *symbol = dlsym(v->lib.lib, arena_printf(a, "run_%s", op_info[functions[i].op].name));
        memcpy(&v->run[i], &symbol, sizeof symbol);
    }
    return true;
}

// "// 1.05 ulp ..." in the first lines of the piece that defines the function.
static double stated_bound(Arena *a, const char *name)
{
    const char *piece = arena_printf(a, "//@ rlx_v$Lf_%s\n", name);
    for (const char *const *line = prelude_c_math; *line != NULL; line++) {
        char *end = NULL;
        if (strcmp(*line, piece) != 0 || line[1] == NULL || strncmp(line[1], "// ", 3) != 0)
            continue;
        const double bound = strtod(line[1] + 3, &end);
        return strncmp(end, " ulp", 4) == 0 ? bound : 0;
    }
    return 0;
}

static double bound_of(Arena *a, const Function *f)
{
    return f->bound > 0 ? f->bound : stated_bound(a, op_info[f->op].name);
}

// --- the scan ------------------------------------------------------------------------------------

static void add_near(Arena *a, Scan *s, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t first = bits < NEAR ? 0 : bits - NEAR;
    const Range r = {first, bits > UINT32_MAX - NEAR ? UINT32_MAX : bits + NEAR, 1};
    vec_push(a, &s->ranges, r);
}

static void add_ranges(Arena *a, Scan *s, uint32_t step)
{
    static const float places[] = {0.0625f,  9.02f,    3.93f,    5.8125f, 87.0f,   0.75f, 0.92f, 0.29f,
                                   0.414f,   0.5f,     3.95f,    5.5f,    9.0f,    19.0f,  20.0f, 44.0f,
                                   87.3365f, 88.3763f, 88.7228f, 89.0f,   103.97f, 104.0f, 121.0f,
                                   2.4142f,  89.416f,  8192.0f};
    const Range all = {0, UINT32_MAX, step};
    vec_push(a, &s->ranges, all);
    for (int e = -149; step > 1 && e <= 128; e++) {
        add_near(a, s, ldexpf(1, e));
        add_near(a, s, -ldexpf(1, e));
    }
    for (uint32_t i = 0; step > 1 && i < sizeof places / sizeof *places; i++) {
        add_near(a, s, places[i]);
        add_near(a, s, -places[i]);
    }
}

static void scan_block(Worker *w, const float *x)
{
    static _Thread_local float y[ULP_BLOCK], e[ULP_BLOCK];
    static _Thread_local double exact[ULP_BLOCK];
    w->scan->exact(x, exact);
    ulp_exponents(x, e);
    for (int v = 0; v < N_VARIANTS; v++) {
        if (variants[v].lib.lib == NULL)
            continue;
        variants[v].run[w->scan->index](x, e, y, ULP_BLOCK);
        ulp_measure(x, y, exact, w->scan->f->least, &w->worst[v]);
    }
}

static void *scan_thread(void *arg)
{
    static _Thread_local float x[ULP_BLOCK];
    Worker *w = arg;
    uint64_t block = 0;
    for (uint32_t i = 0; i < w->scan->ranges.len; i++) {
        const Range r = w->scan->ranges.data[i];
        for (uint64_t first = r.first; first <= r.last; first += (uint64_t)ULP_BLOCK * r.step) {
            if (block++ % w->scan->n_threads != w->number)
                continue;
            for (uint64_t k = 0, bits = first; k < ULP_BLOCK;
                 k++, bits += bits + r.step <= r.last ? r.step : 0) {
                const uint32_t word = (uint32_t)bits;
                memcpy(&x[k], &word, sizeof word);
            }
            scan_block(w, x);
        }
    }
    return NULL;
}

static void scan(const Scan *s, UlpWorst *worst)
{
    static Worker workers[MAX_THREADS];
    for (uint32_t t = 0; t < s->n_threads; t++) {
        workers[t] = (Worker){.scan = s, .number = t};
        if (pthread_create(&workers[t].thread, NULL, scan_thread, &workers[t]) != 0)
            exit(1);
    }
    for (uint32_t t = 0; t < s->n_threads; t++) {
        pthread_join(workers[t].thread, NULL);
        for (int v = 0; v < N_VARIANTS; v++)
            ulp_join(&worst[v], &workers[t].worst[v]);
    }
}

// --- speed ---------------------------------------------------------------------------------------

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Elements in a nanosecond, the best of many runs over n elements.
static double speed(Run run, ptrdiff_t n)
{
    static float x[MANY] __attribute__((aligned(64))), y[MANY] __attribute__((aligned(64)));
    static float e[MANY] __attribute__((aligned(64)));
    const int repeat = (int)(MANY / n);
    double best = HUGE_VAL;
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] = (float)((double)(i * 7919 % 8191) / 1024 - 4), e[i] = fabsf(x[i]) / 2; // from -4 to 4
    for (int round = 0; round < 40; round++) {
        const double start = seconds();
        for (int i = 0; i < repeat; i++)
            run(x, e, y, n);
        const double s = (seconds() - start) / repeat;
        best = s < best ? s : best;
    }
    return (double)n / best * 1e-9;
}

// --- reports -------------------------------------------------------------------------------------

static bool report(Arena *a, const Function *f, const Variant *v, const UlpWorst *w, bool is_checked)
{
    const double stated = bound_of(a, f), bound = v->lanes == 1 && stated < LIBM ? LIBM : stated;
    const bool is_ok = w->n_wrong == 0 && w->ulp <= bound;
    printf("%-10s %-14s %.3f ulp at %.9g (got %.9g), %llu wrong special values", op_info[f->op].name, v->name,
           w->ulp, (double)w->at, (double)w->got, (unsigned long long)w->n_wrong);
    if (w->n_wrong != 0)
        printf(", the first at %.9g (got %.9g)", (double)w->wrong_at, (double)w->wrong_got);
    if (is_checked && !is_ok)
        printf(": NOT within the bound %.3g", bound);
    printf("\n");
    fflush(stdout);
    return is_ok;
}

typedef struct Settings {
    uint32_t step, n_threads;
    const char *cc, *only;
    bool is_checked, has_speed;
    const char *const *names;
    int n_names;
} Settings;

static bool wants(const Settings *s, const char *name)
{
    bool is_wanted = s->n_names == 0;
    for (int i = 0; i < s->n_names; i++)
        is_wanted |= !strcmp(s->names[i], name);
    return is_wanted;
}

static bool scan_all(Arena *a, const Settings *set)
{
    bool is_ok = true;
    for (uint32_t i = 0; i < N_FUNCTIONS; i++) {
        const char *name = op_info[functions[i].op].name;
        UlpWorst worst[N_VARIANTS] = {0};
        Scan s = {.f = &functions[i], .index = i, .exact = ulp_exact(name), .n_threads = set->n_threads};
        rlx_assert(s.exact != NULL);
        if (!wants(set, name))
            continue;
        add_ranges(a, &s, set->step);
        scan(&s, worst);
        for (int v = 0; v < N_VARIANTS; v++)
            if (variants[v].lib.lib != NULL)
                is_ok = report(a, &functions[i], &variants[v], &worst[v], set->is_checked) && is_ok;
    }
    return is_ok;
}

static void speed_all(const Settings *set)
{
    for (int v = 0; v < N_VARIANTS; v++)
        for (uint32_t i = 0; variants[v].lib.lib != NULL && i < N_FUNCTIONS; i++)
            if (wants(set, op_info[functions[i].op].name))
                printf("%-10s %-14s %6.2f Gelem/s from L1, %6.2f over 1 Mi\n", op_info[functions[i].op].name,
                       variants[v].name, speed(variants[v].run[i], FEW), speed(variants[v].run[i], MANY));
}

static bool parse(int argc, char **argv, Settings *s)
{
    *s = (Settings){.step = 1, .n_threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), .cc = "cc", .only = ""};
    int i = 1;
    for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--check")) {
            s->is_checked = true;
            continue;
        }
        if (!strcmp(argv[i], "--speed")) {
            s->has_speed = true;
            continue;
        }
        if (!strcmp(argv[i], "--step"))
            s->step = (uint32_t)strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--threads"))
            s->n_threads = (uint32_t)strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--cc"))
            s->cc = value;
        else if (!strcmp(argv[i], "--only"))
            s->only = value;
        else
            return false;
        i++;
    }
    s->n_threads = s->n_threads < MAX_THREADS ? s->n_threads : MAX_THREADS;
    s->names = (const char *const *)(argv + i);
    s->n_names = argc - i;
    return s->step > 0 && s->n_threads > 0;
}

int main(int argc, char **argv)
{
    Arena a = {0};
    Settings set;
    if (!parse(argc, argv, &set)) {
        fprintf(stderr, "ulp_scan [--step N] [--threads N] [--cc COMPILER] [--only VARIANT] "
                        "[--speed] [--check] [FUNCTION...]\n");
        return 2;
    }
    for (int v = 0; v < N_VARIANTS; v++)
        if (!strncmp(variants[v].name, set.only, strlen(set.only)) && build_variant(&a, &variants[v], set.cc))
            printf("%-14s %s\n", variants[v].name, variants[v].flags);
    bool is_ok = true;
    if (set.has_speed)
        speed_all(&set);
    else
        is_ok = scan_all(&a, &set);
    for (int v = 0; v < N_VARIANTS; v++)
        if (variants[v].lib.lib != NULL)
            cc_close(&variants[v].lib);
    arena_free(&a);
    return is_ok || !set.is_checked ? 0 : 1;
}
