// SPDX-License-Identifier: Apache-2.0
// Every op as Metal text: the op cases (tests/e2e/ops/*.rlx) are lowered for Metal, printed, compiled as C++
// with compiler/metal/metal_stdlib, and run on a device that looks for races (device.h); results are compared
// with the reference evaluator. Each case runs as planned, in memory that is full of NaN before, and with
// every buffer ending at a page that may not be touched; threads run in another order each time, in
// simdgroups of 32 and of 8.
//
//   test_metal COMPILER OPT_LEVEL[/N] FILE.rlx...   all cases of the files, or one of N; prints TAP
//   TEST_OPS=name test_metal COMPILER ...            only cases whose name contains the text; prints kernels
//   TEST_GPU=apple7 test_metal COMPILER ...          for GPUs of this family and later ones
//
// Skipped (77) where the compiler is missing. At the end: how many cases each op was in.
#include "compiler/metal/device.h"
#include "gpu_cases.h"
#include "plan_run.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASES_PER_UNIT = 40, MAX_UNITS = 64, COMPILERS = 2, SIMD = 32, SMALL_SIMD = 8 };

typedef struct Unit {
    const char *path;
    void *lib;
} Unit;

static GpuCases cases = {.tolerance = {.f32 = 1e-5}};
static Unit units[MAX_UNITS];
static uint32_t n_units;
static const char *compiler;
static const char *folder; // of the units

// --- printing and compiling ------------------------------------------------------------------------

static bool has_barrier(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_barrier)
            return kernel_grid(k).n_loops > 0;
    return k->group != 0;
}

static bool has_matrices(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_device)
            return true;
    return false;
}

// The kernel, and a function that the device can call.
static void print_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    Str *out = ctx;
    cfamily_print_kernel(cases.target, k->kernel, out);
    str_printf(out,
               "#ifndef IS_CHECK\nextern \"C\" void launch_%s(void *const *p, const uint *id)\n{\n    %s(",
               k->function, k->function);
    for (uint32_t i = 0; i < k->kernel->params.len; i++)
        str_printf(out, "(device %s *)p[%u], ", cases.target->types[k->kernel->params.data[i].dtype].storage,
                   i);
    str_add(out, k->kernel->params.len ? "" : "(device int *)p[0], ");
    str_printf(out, "%s);\n}\n#endif\n",
               k->kernel->group != 0 ? "uint3{id[3], id[4], id[5]}, id[6], id[7]"
                                     : "uint3{id[0], id[1], id[2]}");
}

static void write_file(const char *path, const char *text, const char *more)
{
    FILE *f = fopen(path, "w");
    rlx_assert(f != NULL);
    fputs(text, f);
    fputs(more, f);
    fclose(f);
}

static void write_unit(const char *dir, uint32_t first, uint32_t end)
{
    Arena a = {0};
    Str body = str_new(&a), all = str_new(&a);
    Unit *u = &units[n_units++];
    for (uint32_t i = first; i < end; i++) {
        cases.jobs.data[i].unit = n_units - 1;
        gpu_each_kernel(&cases.jobs.data[i], print_kernel, &body);
    }
    target_print_prelude(cases.target, str_text(&body), &all);
    if (getenv("TEST_OPS") != NULL)
        printf("%s", str_text(&body));
    u->path = arena_printf(&cases.perm, "%s/unit%u", dir, n_units);
    write_file(arena_printf(&cases.perm, "%s.metal", u->path), str_text(&all), str_text(&body));
    arena_free(&a);
}

// clang reads the text as OpenCL C++ as well, which has address spaces: see metal_spaces.cl.
static const char *check_command(const Unit *u, const char *source)
{
    static const char how[] = "%s -x cl -cl-std=clc++ -w -DIS_CHECK -fsyntax-only -I%s/empty "
                              "-include %s/tests/metal/metal_spaces.cl %s.metal && ";
    return strstr(compiler, "clang") != NULL
               ? arena_printf(&cases.perm, how, compiler, folder, source, u->path)
               : "";
}

static void start_compiler(const Unit *u)
{
    const char *given = getenv("RLXC_SOURCE"), *source = given != NULL ? given : ".";
    // Warnings are the business of tests/gpu_text. The device brings what the instrumented accesses call:
    // linked without the option. Compiling and running take least together at this level.
    const char *level = strstr(compiler, "clang") != NULL ? "-O0" : "-Og";
    static const char how[] =
        "%s%s -x c++ -std=c++14 %s -w -fPIC -ffp-contract=off -fno-strict-aliasing -fsanitize=thread "
        "-I%s/compiler/metal -c -o %s.o %s.metal && %s -shared -o %s.so %s.o";
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c",
              arena_printf(&cases.perm, how, check_command(u, source), compiler, level, source, u->path,
                           u->path, compiler, u->path, u->path),
              (char *)NULL);
        _exit(127);
    }
}

static void compile_units(void)
{
    uint32_t started = 0;
    fflush(stdout);
    for (uint32_t ended = 0; ended < n_units; ended++) {
        while (started < n_units && started - ended < COMPILERS)
            start_compiler(&units[started++]);
        int status = 0;
        wait(&status);
        if (status != 0) {
            fprintf(stderr, "the C++ compiler failed\n");
            exit(1);
        }
    }
    for (uint32_t i = 0; i < n_units; i++) {
        units[i].lib = dlopen(arena_printf(&cases.perm, "%s.so", units[i].path), RTLD_NOW | RTLD_LOCAL);
        if (units[i].lib == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
    }
}

// --- running ---------------------------------------------------------------------------------------

typedef struct Launcher {
    const GpuJob *job;
    uint64_t seed;
    uint32_t simd;
    const char *wrong;
} Launcher;

static DeviceKernel find_launch(uint32_t unit, const char *kernel)
{
    DeviceKernel fn = NULL;
    void *found = dlsym(units[unit].lib, arena_printf(&cases.scratch, "launch_%s", kernel));
    memcpy(&fn, &found, sizeof fn);
    rlx_assert(fn != NULL);
    return fn;
}

static bool launch(void *ctx, const PlanKernel *k, void **args)
{
    Launcher *l = ctx;
    const DeviceKernel fn = find_launch(l->job->unit, k->function);
    const KernelGrid g = kernel_grid(k->kernel);
    const uint32_t simd = has_matrices(k->kernel) ? DEVICE_MATRIX_SIMD : l->simd;
    const DeviceGrid grid = {{g.threads, 1, 1}, g.group, has_barrier(k->kernel), simd, false, false};
    DeviceRange written[DEVICE_MAX_RANGES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *arg = &k->args.data[i];
        const char *base = (const char *)args[i] - arg->byte_offset;
        rlx_assert(n < DEVICE_MAX_RANGES);
        if (arg->is_written)
            written[n++] = (DeviceRange){base + arg->begin, base + arg->end};
    }
    const char *wrong = device_launch(fn, args, written, n, grid, l->seed++);
    if (wrong != NULL)
        l->wrong = arena_printf(&cases.scratch, "%s: %s", k->function, wrong);
    return wrong == NULL;
}

static bool run_placed(const GpuJob *j, const Reference *ref, Placing placing)
{
    Memory m = ops_make_memory(&cases.scratch, j->plan, placing);
    Launcher l = {.job = j, .seed = hash_text(j->c->name) + placing};
    l.simd = placing == PLACE_GUARDED ? SMALL_SIMD : SIMD;
    const char *wrong = NULL;
    for (uint32_t run = 0; run < OPS_RUNS && wrong == NULL; run++) {
        ops_set_inputs(j->plan, &m, ref, run);
        wrong = plan_run(j->plan, m.buffer, launch, &l)
                    ? ops_check_results(&cases.scratch, j->plan, &m, ref, run, cases.tolerance)
                    : l.wrong;
    }
    if (wrong != NULL)
        gpu_fail(
            &cases, j,
            arena_printf(&cases.scratch, "%s (%s)", wrong, placing == PLACE_GUARDED ? "guarded" : "planned"));
    ops_free_memory(&m);
    return wrong == NULL;
}

static bool run_job(void *ctx, const GpuJob *j, const Reference *ref)
{
    (void)ctx;
    return run_placed(j, ref, PLACE_PLANNED) && run_placed(j, ref, PLACE_GUARDED);
}

// --- the device itself -------------------------------------------------------------------------------

static const struct {
    const char *kernel, *wrong; // what the device must say; NULL: nothing
} selftests[] = {
    {"right", NULL},          {"without_barrier", "read"}, {"across_groups", "read"},
    {"same_byte", "threads"}, {"outside", "not theirs"},   {"not_all", "have ended"},
    {"behind_swap", "write"}, {"not_all_swap", "hand values"}, {"bytes_of_words", NULL},
    {"byte_of_word", "read"}, {"word_of_bytes", "read"},
};
enum { N_SELFTESTS = sizeof selftests / sizeof *selftests, SELFTEST_THREADS = 256 };

// The last unit: tests/metal/selftest.metal with functions that the device can call.
static void write_selftest(const char *dir)
{
    const char *source = getenv("RLXC_SOURCE");
    Str s = str_new(&cases.perm);
    str_printf(&s, "#include \"%s/tests/metal/selftest.metal\"\n", source != NULL ? source : ".");
    for (uint32_t i = 0; i < N_SELFTESTS; i++)
        str_printf(&s,
                   "#ifndef IS_CHECK\nextern \"C\" void launch_%s(void *const *p, const uint *id)\n{\n"
                   "    %s((device int *)p[0], uint3{id[0], id[1], id[2]});\n}\n#endif\n",
                   selftests[i].kernel, selftests[i].kernel);
    units[n_units].path = arena_printf(&cases.perm, "%s/selftest", dir);
    write_file(arena_printf(&cases.perm, "%s.metal", units[n_units++].path), str_text(&s), "");
}

static void run_selftest(uint32_t number)
{
    bool is_right = true;
    for (uint32_t i = 0; i < N_SELFTESTS; i++) {
        int out[SELFTEST_THREADS + 1] = {0};
        void *args[] = {out};
        const DeviceRange all = {(char *)out, (char *)(out + SELFTEST_THREADS)};
        const DeviceGrid grid = {{SELFTEST_THREADS, 1, 1}, 128, i != 3 && i != 4, SIMD, false, false};
        const char *wrong =
                       device_launch(find_launch(n_units - 1, selftests[i].kernel), args, &all, 1, grid, i),
                   *wanted = selftests[i].wrong;
        const bool ok = wanted == NULL ? wrong == NULL && out[0] == 8128 && out[1] == 24512
                                       : wrong != NULL && strstr(wrong, wanted) != NULL;
        if (!ok)
            printf("# the device says of %s: %s\n", selftests[i].kernel, wrong != NULL ? wrong : "nothing");
        is_right = is_right && ok;
    }
    cases.n_failed += !is_right;
    printf("%s %u - the device finds races\n", is_right ? "ok" : "not ok", number);
}

int main(int argc, char **argv)
{
    char name[] = "/tmp/rlxc_metal_XXXXXX";
    rlx_assert(argc > 3);
    compiler = argv[1];
    if (system(arena_printf(&cases.perm, "command -v %s >/dev/null 2>&1", compiler)) != 0) {
        printf("1..0 # SKIP %s is not installed (tools/setup does it)\n", compiler);
        return GPU_SKIPPED;
    }
    const char *dir = mkdtemp(name);
    rlx_assert(dir != NULL);
    folder = dir;
    rlx_assert(mkdir(arena_printf(&cases.perm, "%s/empty", dir), 0700) == 0);
    write_file(arena_printf(&cases.perm, "%s/empty/metal_stdlib", dir), "", "");
    const char *gpu = getenv("TEST_GPU");
    gpu_keep(&cases,
             arena_printf(&cases.perm, "metal_%s_%s_%c", gpu != NULL ? gpu : "", compiler, argv[2][0]));
    gpu_plan(&cases, "metal", gpu_read_level(&cases, argv[2]), argv + 3, argc - 3);
    const uint32_t n = cases.jobs.len;
    printf("1..%u\n", n + 1);
    for (uint32_t i = 0; i < n; i += CASES_PER_UNIT)
        write_unit(dir, i, i + CASES_PER_UNIT < n ? i + CASES_PER_UNIT : n);
    write_selftest(dir);
    compile_units();
    gpu_run(&cases, run_job, NULL);
    run_selftest(n + 1);
    if (getenv("KEEP") == NULL && system(arena_printf(&cases.perm, "rm -rf %s", dir)) != 0)
        fprintf(stderr, "%s stays behind\n", dir);
    return gpu_end(&cases,
                   arena_printf(&cases.perm, "%llu threads, %llu accesses",
                                (unsigned long long)device_threads(), (unsigned long long)device_accesses()));
}
