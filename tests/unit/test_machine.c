// SPDX-License-Identifier: Apache-2.0
// The table of machines: rows that can be true, the row that a GPU gets, and that every row can be planned
// for.
#include "codegen/target/target.h"
#include "compiler/job/pipeline.h"
#include "graph_fixture.h"
#include "ir/text/text.h"

static void rows_can_be_true(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CPU_MACHINE_COUNT; i++) {
        const CpuMachine *m = &cpu_machines[i];
        assert_true(m->l1_bytes < m->l2_bytes && m->l2_bytes < m->l3_bytes);
        assert_int_equal(m->l1_bytes % m->way_bytes, 0);
        assert_true(m->l2_rate > m->l3_rate && m->l3_rate > m->memory_rate);
        assert_true(m->memory_rate >= m->shared_rate && m->shared_rate > 0);
        assert_true(m->pairs_per_cycle >= 0 && m->pairs_per_cycle <= m->fma_per_cycle);
        assert_true(m->fma_per_cycle > 0 && m->fma_latency > 0 && m->loads_per_cycle > 0);
        assert_true(m->line_cycles > 0 && m->barrier_cycles > m->line_cycles);
    }
    uint16_t before = 0;
    for (uint32_t arch = 80; arch <= 120; arch++) {
        const GpuMachine *m = gpu_machine(arch);
        assert_true(m->arch >= before && m->arch <= arch);
        before = m->arch;
        assert_true(m->group_shared < m->processor_shared && m->group_shared >= GPU_LEAST_SHARED);
        assert_int_equal(m->clusters[0], m->processors);
        for (uint32_t i = 1; i < 4; i++)
            assert_true(m->clusters[i] <= m->clusters[i - 1] / 2);
        assert_true(m->cache_rate[0] > m->memory_rate && m->cache_rate[3] >= m->cache_rate[0]);
    }
}

static void gpus_find_their_rows(void **state)
{
    static const struct {
        uint32_t arch;
        const char *name;
    } cases[] = {{50, "a100"}, {80, "a100"}, {86, "a100"}, {89, "rtx4090"}, {90, "h200"}, {100, "h200"}};
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(gpu_machine(cases[i].arch)->name, cases[i].name);
    assert_string_equal(gpu_machine_default()->name, "h200");
    assert_int_equal(gpu_about_threads(gpu_machine_default()), 1 << 18);
    assert_int_equal(gpu_about_l2(gpu_machine_default()), 32 << 20);
}

static const char products[] = "graph \"products\" {\n"
                               "  %1 = input \"x\" : f16[512, 1024]\n"
                               "  %2 = input \"w\" : f16[1024, 768]\n"
                               "  %3 = matmul(%1, %2) : f16[512, 768]\n"
                               "  output \"y\" = %3\n"
                               "  %4 = input \"q\" : f16[1, 8, 256, 128]\n"
                               "  %5 = attention(%4, %4, %4) : f16[1, 8, 256, 128]\n"
                               "  output \"z\" = %5\n"
                               "}\n";

static const Plan *plan_for(Fixture *f, const TargetCaps *caps)
{
    Graph *g = NULL;
    Plan *plan = NULL;
    const uint32_t file = diag_add_file(&f->diag, "products", products, strlen(products));
    const PipelineOptions o = {.opt_level = 3, .caps = caps, .report = stderr};
    assert_true(graph_parse(&f->arena, &f->diag, file, &g));
    assert_true(pipeline_run(&f->arena, &f->diag, g, &o, &plan));
    return plan;
}

// The pipeline verifies kernels; here, that none asks for more than the GPU has, and that figures count.
static void every_gpu_can_be_planned_for(void **state)
{
    static const uint32_t archs[] = {80, 89, 90};
    Fixture *f = *state;
    CpuInfo cpu;
    uint32_t large = 0;
    assert_true(cpu_find("generic", &cpu));
    for (uint32_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        TargetCaps caps = target_caps(&target_cuda, &cpu);
        caps.gpu = gpu_machine(archs[i]);
        const Plan *p = plan_for(f, &caps);
        for (uint32_t j = 0; j < p->kernels.len; j++) {
            const Kernel *k = p->kernels.data[j].kernel;
            assert_true(k->shared_bytes <= caps.gpu->group_shared);
            assert_true(k->cluster <= 1 || caps.gpu->clusters[1] > 0);
            large += k->shared_bytes > GPU_LEAST_SHARED;
        }
    }
    assert_true(large > 0); // where there is more, it is used
}

static void native_has_a_row(void **state)
{
    (void)state;
    CpuInfo cpu, zen4, kind;
    assert_true(cpu_find("native", &cpu) && cpu_find("zen4", &zen4) && cpu_find("x86-64-v4-bf16", &kind));
    assert_non_null(cpu.machine.name);
    assert_string_equal(zen4.machine.name, "zen4");
    assert_string_equal(kind.machine.name, "x86_64_v4");
    assert_string_not_equal(cpu.name, "zen4"); // it is for those who name it
}

static bool is_guest(void)
{
    char flags[1 << 13] = {0};
    FILE *f = fopen("/proc/cpuinfo", "r");
    const size_t n = f != NULL ? fread(flags, 1, sizeof flags - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    return n > 0 && strstr(flags, " hypervisor") != NULL;
}

// What one core can use: the C library tells the sum over all complexes of cores on some machines, and a
// virtual machine is told of a cache that others on the host use too.
static void native_has_the_third_cache_of_a_core(void **state)
{
    (void)state;
    CpuInfo cpu, named;
    unsigned kilobytes = 0;
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    const bool is_known = f != NULL && fscanf(f, "%uK", &kilobytes) == 1;
    if (f != NULL)
        fclose(f);
    if (!is_known)
        skip();
    assert_true(cpu_find("native", &cpu) && cpu_find(cpu.name, &named));
    if (is_guest() && named.machine.l3_bytes / 1024 < kilobytes)
        kilobytes = named.machine.l3_bytes / 1024;
    assert_int_equal(cpu.machine.l3_bytes / 1024, kilobytes);
}

// Only a family that was measured gets a row of its own, and that row has the instructions of the others.
static void families_find_their_rows(void **state)
{
    (void)state;
    CpuInfo zen5, kind;
    assert_true(cpu_find("zen5", &zen5) && cpu_find("x86-64-v4-bf16", &kind));
    assert_string_equal(cpu_of_family("AuthenticAMD", 26), "zen5");
    assert_null(cpu_of_family("AuthenticAMD", 25));
    assert_null(cpu_of_family("GenuineIntel", 26));
    assert_string_equal(zen5.machine.name, "zen5");
    assert_string_equal(zen5.cc_flags, kind.cc_flags);
    assert_int_equal(zen5.features, kind.features);
    assert_true(zen5.machine.fma_per_cycle == 2 && zen5.machine.pairs_per_cycle == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_can_be_true),
        TEST(gpus_find_their_rows),
        TEST(every_gpu_can_be_planned_for),
        TEST(native_has_a_row),
        TEST(native_has_the_third_cache_of_a_core),
        TEST(families_find_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
