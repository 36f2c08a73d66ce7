// SPDX-License-Identifier: Apache-2.0
// Every op on Vulkan: the op cases (tests/e2e/ops/*.rlx) are lowered for it, printed as GLSL, compiled to
// SPIR-V, validated, run, and compared with the reference evaluator.
//
//   test_vulkan OPT_LEVEL[/N] FILE.rlx...       all cases of the files, or one of N; prints TAP
//   TEST_OPS=name test_vulkan OPT_LEVEL ...     only cases whose name contains the text; prints kernels
//   TEST_GPU=coopmat test_vulkan ...            with cooperative matrices, by hand where there are none
//   test_vulkan gpu                             prints the device's name; 77: it is a processor, or none
//
// Without a device (Debian's mesa-vulkan-drivers has one that runs on CPUs) it says so and ends with what can
// be said without: that all texts compile and are valid. Skipped (77) without glslang.
#include "compiler/images/spirv.h"
#include "coop_by_hand.h"
#include "driver_loops.h"
#include "gpu_cases.h"
#include "plan_run.h"
#include "runtime-lite/rlx_vulkan.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY_BYTES = 1 << 28, CELL_BYTES = 256 };

static GpuCases cases = {.tolerance = {.f32 = 1e-5}};
static rlx_vulkan device;
static bool has_device;
static unsigned char *host; // the device's memory, or a copy where the host cannot read it fast
static uint64_t n_used;     // bytes of it
static const char *why; // a launch failed

static char *give(void *ctx, uint64_t bytes)
{
    (void)ctx;
    char *const p = (char *)host + n_used;
    n_used += (bytes + 63) / 64 * 64;
    rlx_assert(n_used <= MEMORY_BYTES);
    return p;
}

// One shader.
static Spirv compile(const Kernel *k, Arena *a)
{
    Str body = str_new(a), all = str_new(a);
    cfamily_print_kernel(cases.target, k, &body);
    target_print_prelude(cases.target, str_text(&body), &all);
    if (!device.has_coop && strstr(str_text(&body), "RLX_HAS_COOP") != NULL)
        str_add(&all, coop_by_hand);
    str_add(&all, str_text(&body));
    if (getenv("TEST_OPS") != NULL)
        printf("%s", str_text(&body));
    const SpirvWay way = device.has_coop ? spirv_coop_way(str_text(&all), k->name) : SPIRV_PLAIN;
    return spirv_compile(a, str_text(&all), k->name,
                         way == SPIRV_COOP_BF16 && !device.has_bf16 ? SPIRV_PLAIN : way);
}

// Pipelines of a job by function: a job's kernels are few.
typedef struct Pipeline {
    const char *function;
    uint64_t kernel;
} Pipeline;
static VEC(Pipeline) pipelines;

static void build_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    const GpuJob *j = ctx;
    const Spirv s = compile(k->kernel, &cases.scratch);
    Pipeline made = {.function = k->function};
    if (s.wrong == NULL && has_device &&
        rlx_vulkan_make_kernel(&device, s.words, s.len * sizeof *s.words, &made.kernel) != RLX_VULKAN_OK)
        why = arena_printf(&cases.scratch, "%s: the driver does not take it", k->function);
    if (s.wrong != NULL)
        why = arena_printf(&cases.scratch, "%s: %s", k->function, s.wrong);
    if (why != NULL)
        gpu_fail(&cases, j, why);
    else if (has_device)
        vec_push(&cases.perm, &pipelines, made);
}

// Brings what is used to the device, or back.
static bool is_copied(bool to_device)
{
    if (host == device.host)
        return true;
    return (to_device ? rlx_vulkan_write(&device, device.address, host, n_used)
                      : rlx_vulkan_read(&device, host, device.address, n_used)) == RLX_VULKAN_OK;
}

// Where the host's addresses are on the device. Iteration numbers are on the host's stack: each launch has a
// copy of its own.
static bool launch(void *ctx, const PlanKernel *k, void **args)
{
    uint64_t address[RLX_VULKAN_MAX_ARGS], kernel = 0;
    const KernelGrid g = kernel_grid(k->kernel);
    (void)ctx;
    if (k->args.len > RLX_VULKAN_MAX_ARGS) {
        why = arena_printf(&cases.scratch, "%s has %u arguments", k->function, k->args.len);
        return false;
    }
    for (uint32_t i = 0; i < k->args.len; i++) {
        const unsigned char *p = args[i];
        if (p < host || p >= host + MEMORY_BYTES) {
            char *copy = give(NULL, CELL_BYTES);
            memcpy(copy, p, sizeof(int64_t));
            p = (unsigned char *)copy;
        }
        address[i] = device.address + (uint64_t)(p - host);
    }
    for (uint32_t i = 0; i < pipelines.len; i++)
        if (str_equal(pipelines.data[i].function, k->function))
            kernel = pipelines.data[i].kernel;
    rlx_assert(kernel != 0);
    if (!is_copied(true) ||
        rlx_vulkan_launch(&device, kernel, g.groups, address, k->args.len) != RLX_VULKAN_OK ||
        rlx_vulkan_wait(&device) != RLX_VULKAN_OK || !is_copied(false)) {
        why = arena_printf(&cases.scratch, "%s cannot be run", k->function);
        return false;
    }
    return true;
}

static const char *run_all(const GpuJob *j, const Reference *ref)
{
    Memory m = ops_make_memory_in(&cases.scratch, j->plan, give, NULL);
    const char *wrong = NULL;
    for (uint32_t run = 0; run < OPS_RUNS && wrong == NULL; run++) {
        ops_set_inputs(j->plan, &m, ref, run);
        wrong = plan_run(j->plan, m.buffer, launch, NULL)
                    ? ops_check_results(&cases.scratch, j->plan, &m, ref, run, cases.tolerance)
                    : why;
    }
    return wrong;
}

static bool run_job(void *ctx, const GpuJob *j, const Reference *ref)
{
    (void)ctx;
    why = NULL;
    n_used = 0;
    pipelines.len = 0;
    gpu_each_kernel(j, build_kernel, (void *)(uintptr_t)j);
    if (why != NULL || !has_device)
        return why == NULL;
    const char *wrong = run_all(j, ref);
    for (uint32_t i = 0; i < pipelines.len; i++)
        rlx_vulkan_free_kernel(&device, pipelines.data[i].kernel);
    if (wrong != NULL)
        gpu_fail(&cases, j, wrong);
    return wrong == NULL;
}

static int print_gpu(void)
{
    uint64_t properties[RLX_VK_PROPERTIES] = {0};
    const int status = rlx_vulkan_begin(&device, 0, 4096);
    if (status == RLX_VULKAN_FAILED)
        return 1;
    if (status != RLX_VULKAN_OK || rlx_vulkan_rank(&device, device.physical) == RLX_VULKAN_PROCESSOR)
        return GPU_SKIPPED;
    device.instance_api.properties(device.physical, properties);
    printf("%s\n", (const char *)properties + RLX_VK_DEVICE_NAME);
    rlx_vulkan_end(&device);
    return 0;
}

static void find_long_loops(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    *(bool *)ctx = *(bool *)ctx || driver_iterations(k->kernel) > DRIVER_ITERATIONS;
}

// Kernels that Mesa's driver for CPUs does not run to their end are left out.
static void leave_out_long_loops(void)
{
    if (!has_device || rlx_vulkan_rank(&device, device.physical) != RLX_VULKAN_PROCESSOR)
        return;
    for (uint32_t i = 0; i < cases.jobs.len; i++) {
        bool is_long = false;
        gpu_each_kernel(&cases.jobs.data[i], find_long_loops, &is_long);
        if (is_long)
            cases.jobs.data[i].lacks = "Mesa's driver for CPUs ends loops after 65535 iterations";
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "gpu") == 0)
        return print_gpu();
    rlx_assert(argc > 2);
    if (!spirv_is_here()) {
        printf("1..0 # SKIP rlxc was built without glslang (tools/setup installs it)\n");
        return GPU_SKIPPED;
    }
    has_device = rlx_vulkan_begin(&device, 0, MEMORY_BYTES) == RLX_VULKAN_OK;
    host = device.stage == NULL ? device.host : malloc(MEMORY_BYTES);
    if (!has_device)
        fprintf(stderr, "SKIPPED: no Vulkan device here (tools/setup installs one): only compiling\n");
    const char *gpu = getenv("TEST_GPU");
    gpu_keep(&cases, arena_printf(&cases.perm, "vulkan_%s_%c_%d", gpu != NULL ? gpu : "", argv[1][0],
                                  has_device));
    gpu_plan(&cases, "vulkan", gpu_read_level(&cases, argv[1]), argv + 2, argc - 2);
    leave_out_long_loops();
    printf("1..%u\n", cases.jobs.len);
    gpu_run(&cases, run_job, NULL);
    if (host != device.host)
        free(host);
    rlx_vulkan_end(&device);
    return gpu_end(&cases, has_device ? "run" : "compiled only");
}
