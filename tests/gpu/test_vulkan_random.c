// SPDX-License-Identifier: Apache-2.0
// Random graphs on Vulkan, as users get them: emitted, compiled by the C compiler, run on the device that is
// there, and compared with the reference evaluator. Every other one is planned for latency, and some are not
// fused.
//
//   test_vulkan_random [COUNT [SEED]]    graphs SEED .. SEED + COUNT - 1; prints TAP; 77: no device, or no
//   glslang
#include "../e2e/random_check.h"
#include "codegen/host/host.h"
#include "compiler/job/pipeline.h"
#include "compiler/images/spirv.h"
#include "runtime-lite/rlx_vulkan.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static bool write_file(const char *path, const EmittedFile *f)
{
    FILE *out = fopen(path, "w");
    return out != NULL && fwrite(f->data, 1, f->len, out) == f->len && fclose(out) == 0;
}

// DIR/m.c and what belongs to it. NULL, or why not; *lacks: the target cannot do it.
static const char *emit(const Sample *s, const char *dir, bool *lacks)
{
    CpuInfo cpu;
    rlx_assert(cpu_find("generic", &cpu));
    Arena *a = s->arena;
    Diag *d = s->g->diag;
    const Target *t = target_find("vulkan");
    const TargetCaps caps = target_caps(t, &cpu);
    const PipelineOptions o = {.opt_level = 3,
                               .accuracy = SAMPLE_ACCURACY,
                               .caps = &caps,
                               .goal = s->seed % 2 != 0 ? PLAN_LATENCY : PLAN_MEMORY,
                               .no_fuse = s->seed % 5 == 0,
                               .report = stderr};
    SpirvJob spirv = {a, d};
    const HostOptions host = {.name = "m",
                              .compiler = "rlxc",
                              .cc_flags = "",
                              .cpu = cpu.name,
                              .weights = WEIGHTS_RODATA,
                              .compile_gpu = spirv_compile_all,
                              .compile_gpu_ctx = &spirv};
    Plan *p = NULL;
    Emitted e;
    *lacks = false;
    d->n_errors = 0;
    d->items.len = 0;
    if (!pipeline_run(a, d, sample_copy(s), &o, &p))
        return "a pass failed";
    if (!host_emit(a, d, t, p, &host, &e)) {
        *lacks = strstr(d->items.data[d->items.len - 1].message, " has no ") != NULL;
        return d->items.data[d->items.len - 1].message;
    }
    for (uint32_t i = 0; i < e.files.len; i++)
        if (!write_file(arena_printf(a, "%s/%s", dir, e.files.data[i].name), &e.files.data[i]))
            return "a file cannot be written";
    return NULL;
}

static const char *check_sample(const Sample *s, const char *dir, bool *lacks)
{
    Arena *a = s->arena;
    const char *cc = getenv("CC"), *wrong = emit(s, dir, lacks);
    const char *library = arena_printf(a, "%s/m%llu.so", dir, (unsigned long long)s->seed);
    if (wrong != NULL)
        return wrong;
    if (system(arena_printf(a, "cd %s && %s -O0 -w -std=gnu99 -shared -fPIC -o %s m.c -lm", dir,
                            cc != NULL ? cc : "cc", library)) != 0)
        return "the C compiler failed";
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const rlx_model *m = loaded != NULL ? dlsym(loaded, "m_model") : NULL;
    if (m == NULL)
        return "it does not load";
    const Reference ref = reference_make(a, s);
    wrong = model_check(m, 0, &ref).message;
    dlclose(loaded);
    return wrong;
}

int main(int argc, char **argv)
{
    const uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 20,
                   first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    char dir[] = "/tmp/rlxc_vulkan_XXXXXX";
    rlx_vulkan device;
    uint32_t n_failed = 0, n_left_out = 0;
    if (!spirv_is_here() || rlx_vulkan_begin(&device, 0, 4096) != RLX_VULKAN_OK) {
        printf("1..0 # SKIP no Vulkan device here, or no glslang (tools/setup installs both)\n");
        return SKIPPED;
    }
    rlx_assert(mkdtemp(dir) != NULL);
    printf("1..%llu\n", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        Arena a = {0};
        bool lacks = false;
        const char *wrong = check_sample(sample_make(&a, first + i), dir, &lacks);
        n_left_out += lacks;
        n_failed += wrong != NULL && !lacks;
        printf("%sok %llu - graph %llu%s%s\n", wrong != NULL && !lacks ? "not " : "",
               (unsigned long long)i + 1, (unsigned long long)(first + i), wrong != NULL ? " # SKIP " : "",
               wrong != NULL ? wrong : "");
        fflush(stdout);
        arena_free(&a);
    }
    rlx_vulkan_end(&device);
    printf("# %u left out, %u failed\n", n_left_out, n_failed);
    if (system(arena_printf(&(Arena){0}, "rm -rf %s", dir)) != 0)
        fprintf(stderr, "%s stays behind\n", dir);
    return n_failed != 0;
}
