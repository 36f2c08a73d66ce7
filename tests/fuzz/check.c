// SPDX-License-Identifier: Apache-2.0
// What happens to an input: it is read, printed and read back, and compiled.
#include "codegen/host/host.h"
#include "compiler/export/onnx/put_file.h"
#include "compiler/job/pipeline.h"
#include "ir/shape/verify.h"
#include "ir/text/text.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { PLACE_BUDGET = 20000, STREAM_CAP = 8 << 20 }; // large weights take long to pack
#define MEMORY_PRICE 0.03

static void fail(const char *why)
{
    fprintf(stderr, "fuzz: %s\n", why);
    exit(1);
}

// A graph that was read is printed, read back, and printed the same.
static void check_graph(Arena *a, Graph *g)
{
    const char *broken = graph_verify(g, STAGE_IMPORTED);
    if (broken)
        fail(broken);
    Str first = str_new(a), second = str_new(a);
    Graph *back = NULL;
    Diag d = diag_new(a);
    graph_print(g, &first, TEXT_FULL);
    if (!graph_parse(a, &d, diag_add_file(&d, "printed", first.data, first.len), &back)) {
        fputs(str_text(&first), stderr);
        diag_print(&d, stderr, DIAG_PLAIN);
        fail("the printed graph does not parse");
    }
    graph_print(back, &second, TEXT_FULL);
    if (strcmp(str_text(&first), str_text(&second)) != 0) {
        fprintf(stderr, "--- printed\n%s--- read back and printed\n%s", str_text(&first), str_text(&second));
        fail("the printed graph reads back differently");
    }
}

// --- compiling -----------------------------------------------------------------------------------------

// What it is compiled for, and how.
typedef struct Way {
    const char *target, *cpu;
    int opt_level;
    uint8_t threads;
    bool is_dynamic; // sizes stay open where they can
} Way;

static const Way ways[] = {
    {"c", "generic", 0, 1, false},    {"c", "x86-64-v4", 3, 1, false},
    {"cuda", "generic", 3, 1, false}, {"c", "generic", 3, 1, true},
    {"c", "x86-64-v4", 3, 4, true},   {"vulkan", "generic", 3, 1, false},
    {"c", "x86-64-v4", 0, 1, false},  {"c", "generic", 3, 1, false},
    {"metal", "generic", 3, 1, true}, {"c", "armv8.2-dotprod", 3, 2, false},
    {"cuda", "generic", 0, 1, true},
};

static TargetCaps find_caps(const Way *way, const Target *target, CpuInfo *cpu)
{
    if (!cpu_find(way->cpu, cpu))
        fail("no such CPU");
    TargetCaps caps = target_caps(target, cpu);
    caps.threads = caps.is_gpu ? caps.threads : way->threads;
    const char *gpu = target->device == DEVICE_VULKAN ? "coopmat" : "apple7";
    if (target->set_gpu != NULL && !target->set_gpu(gpu, &caps))
        fail("no such GPU");
    return caps;
}

static bool count_bytes(void *ctx, const void *bytes, size_t n)
{
    size_t *sum = ctx;
    *sum += n;
    return bytes != NULL || n == 0;
}

static bool emit(Arena *a, Diag *d, const Target *target, Plan *plan, const CpuInfo *cpu)
{
    Emitted out;
    const HostOptions host = {.name = "fuzz",
                              .compiler = "rlxc",
                              .cc_flags = cpu->cc_flags,
                              .cpu = cpu->name,
                              .weights = WEIGHTS_FILE,
                              .parts = 1};
    if (!host_emit(a, d, target, plan, &host, &out))
        return false;
    for (uint32_t i = 0; i < out.files.len; i++) {
        const EmittedFile *f = &out.files.data[i];
        size_t sum = 0;
        if (f->len <= STREAM_CAP && (!host_stream(f, count_bytes, &sum) || sum != f->len))
            fail("a file has not the length that was said");
    }
    return true;
}

static void compile_graph(Arena *a, Diag *d, Graph *g, uint64_t choice, FILE *sink)
{
    const Way *way = &ways[choice % (sizeof ways / sizeof *ways)];
    const Target *target = target_find(way->target);
    CpuInfo cpu;
    const TargetCaps caps = find_caps(way, target, &cpu);
    PipelineOptions o = {.opt_level = way->opt_level,
                         .caps = &caps,
                         .is_dynamic = way->is_dynamic,
                         .memory_price = MEMORY_PRICE,
                         .accuracy = 1e-5,
                         .place_budget = PLACE_BUDGET,
                         .report = sink};
    for (uint32_t i = 0; i < g->dims->symbols.len && !way->is_dynamic; i++) {
        const Symbol *s = &g->dims->symbols.data[i];
        vec_push(a, &o.dims, ((ImportSize){.name = s->name, .value = s->has_dflt ? s->dflt : s->min}));
    }
    Plan *plan = NULL;
    const bool ok = pipeline_run(a, d, g, &o, &plan) && emit(a, d, target, plan, &cpu);
    if (ok != (d->n_errors == 0))
        fail(ok ? "compiled with an error" : "not compiled, without an error");
}

// What can be read is written as ONNX, or refused with a message.
static void write_graph(Arena *a, const Graph *g)
{
    Diag d = diag_new(a);
    const bool ok = export_onnx_with(g, NULL, &d, UINT64_MAX);
    if (ok != (d.n_errors == 0))
        fail(ok ? "written as ONNX with an error" : "not written as ONNX, without an error");
}

bool fuzz_try(const Format *f, Arena *a, const Bytes *in, uint64_t choice, FILE *sink)
{
    Diag d = diag_new(a);
    Graph *g = NULL;
    const bool ok = f->read(a, &d, in, &g);
    if (ok != (d.n_errors == 0))
        fail(ok ? "read with an error" : "refused without an error");
    diag_print(&d, sink, DIAG_PLAIN);
    if (a->used >> 20 >= f->most_mib)
        fail("reading took too much memory");
    if (ok && g) {
        check_graph(a, g);
        write_graph(a, g);
        compile_graph(a, &d, g, choice, sink);
    }
    return ok;
}
