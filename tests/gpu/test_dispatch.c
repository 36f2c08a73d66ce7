// SPDX-License-Identifier: Apache-2.0
// The order of launches of random graphs, planned for every GPU target in several ways: no group has a hazard
// in it, and edges order all hazards (check_order.h). Every other graph is of products only, many and side by
// side.
//
//   test_dispatch [COUNT [SEED]]    graphs SEED .. SEED + COUNT - 1; prints TAP
#include "../e2e/random_graph.h"
#include "check_order.h"
#include "codegen/target/target.h"
#include "compiler/job/pipeline.h"
#include "ir/text/text.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 100 };

typedef struct Way {
    const char *name, *target;
    int opt_level;
    PlanGoal goal;
    bool no_fuse, no_reorder;
    uint64_t barriers, placed, moved, arena; // sums
} Way;

static Way ways[] = {
    {"memory", "cuda", 3, PLAN_MEMORY, true, false, 0, 0, 0, 0},
    {"latency", "cuda", 3, PLAN_LATENCY, true, false, 0, 0, 0, 0},
    {"no order", "vulkan", 3, PLAN_MEMORY, true, true, 0, 0, 0, 0},
    {"latency, no order", "vulkan", 1, PLAN_LATENCY, true, true, 0, 0, 0, 0},
    {"fused", "metal", 3, PLAN_LATENCY, false, false, 0, 0, 0, 0},
    {"-O0", "metal", 0, PLAN_MEMORY, false, false, 0, 0, 0, 0},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void add_plan(const Plan *p, Way *w)
{
    w->placed += p->gpu.n_barriers_placed;
    w->moved += p->gpu.n_moved;
    w->arena += p->region_bytes[REGION_ARENA];
    w->barriers += p->kernels.len != 0 ? p->kernels.data[p->kernels.len - 1].launch.group : 0;
}

// A check that takes a plan with one edge too few for right would take all for right.
static const char *check_missing_edge(Plan *p)
{
    for (uint32_t i = p->kernels.len; i-- > 0;)
        if (p->kernels.data[i].launch.after.len != 0) {
            p->kernels.data[i].launch.after.len--;
            return check_order(p) == NULL ? "an edge can be left out" : NULL;
        }
    return NULL;
}

// 20 to 100 products of values of a few sizes, so that many of them are alive at a time.
static Graph *make_products(Arena *a, uint64_t seed)
{
    enum { LEAVES = 9, MOST = 110 };
    static const int sizes[] = {8, 24, 40};
    int rows[MOST], columns[MOST];
    uint64_t rng = seed;
    const uint32_t n = LEAVES + 20 + (uint32_t)(rng_u64(&rng) % 80);
    const bool is_near = rng_u64(&rng) % 2;
    Str s = str_new(a);
    Diag *d = ARENA_NEW(a, Diag);
    Graph *g = NULL;
    str_add(&s, "graph \"products\" {\n");
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = sizes[i % 3];
        columns[i] = sizes[i / 3 % 3];
        if (i < LEAVES) {
            str_printf(&s, "  %%%u = input \"x%u\" : f32[%d, %d]\n", i + 1, i, rows[i], columns[i]);
            continue;
        }
        const uint32_t from = is_near && i > 20 ? i - 12 : 0; // in graphs of short edges memory is used again
        const uint32_t left = from + (uint32_t)(rng_u64(&rng) % (i - from));
        uint32_t right = (uint32_t)(rng_u64(&rng) % i);
        while (rows[right] != columns[left])
            right = (right + 1) % i;
        rows[i] = rows[left];
        columns[i] = columns[right];
        str_printf(&s, "  %%%u = matmul(%%%u, %%%u)\n", i + 1, left + 1, right + 1);
    }
    for (uint32_t i = 0; i < 4; i++)
        str_printf(&s, "  output \"y%u\" = %%%u\n", i,
                   i == 0 ? n : LEAVES + 1 + (uint32_t)(rng_u64(&rng) % (n - LEAVES)));
    str_add(&s, "}\n");
    *d = diag_new(a);
    const bool ok = graph_parse(a, d, diag_add_file(d, "products", str_text(&s), strlen(str_text(&s))), &g);
    diag_print(d, stderr, DIAG_PLAIN);
    rlx_assert(ok);
    return g;
}

static const char *check_way(Arena *a, Graph *g, Way *w)
{
    CpuInfo cpu;
    const Target *t = target_find(w->target);
    rlx_assert(t != NULL && cpu_find("generic", &cpu));
    const TargetCaps caps = target_caps(t, &cpu);
    const PipelineOptions o = {.opt_level = w->opt_level,
                               .accuracy = SAMPLE_ACCURACY,
                               .caps = &caps,
                               .goal = w->goal,
                               .no_fuse = w->no_fuse,
                               .no_reorder = w->no_reorder,
                               .report = stderr};
    Diag d = diag_new(a);
    Plan *p = NULL;
    if (!pipeline_run(a, &d, g, &o, &p)) {
        diag_print(&d, stderr, DIAG_PLAIN);
        return "a pass failed";
    }
    const char *wrong = plan_verify(p);
    wrong = wrong == NULL ? check_order(p) : wrong;
    add_plan(p, w);
    return wrong == NULL ? check_missing_edge(p) : wrong;
}

static bool check_batch(uint64_t first, uint64_t n)
{
    bool ok = true;
    for (uint64_t seed = first; seed < first + n; seed++) {
        Arena a = {0};
        Graph *g = seed % 2 != 0 ? make_products(&a, seed) : sample_make(&a, seed)->g;
        for (uint32_t i = 0; i < WAYS; i++) {
            const char *wrong = check_way(&a, g, &ways[i]);
            if (wrong != NULL)
                printf("# graph %llu, %s: %s\n", (unsigned long long)seed, ways[i].name, wrong);
            ok = ok && wrong == NULL;
        }
        arena_free(&a);
    }
    return ok;
}

// Over all graphs, since one may come out worse: greedy placement is no exact science.
static bool print_sums(void)
{
    bool ok = ways[0].moved != 0 && ways[1].barriers < ways[0].barriers && ways[2].moved == 0;
    for (uint32_t i = 0; i < WAYS; i++) {
        printf("# %s: %llu barriers (%llu before %llu kernels were moved), arena %llu bytes\n", ways[i].name,
               (unsigned long long)ways[i].barriers, (unsigned long long)ways[i].placed,
               (unsigned long long)ways[i].moved, (unsigned long long)ways[i].arena);
        ok = ok && ways[i].barriers <= ways[i].placed;
    }
    return ok;
}

int main(int argc, char **argv)
{
    const uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 200,
                   seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const uint64_t batches = (n + BATCH - 1) / BATCH;
    bool all_ok = true;
    printf("1..%llu\n", (unsigned long long)batches + 1);
    for (uint64_t b = 0; b < batches; b++) {
        const uint64_t size = (b + 1) * BATCH < n ? BATCH : n - b * BATCH;
        const bool ok = check_batch(seed + b * BATCH, size);
        printf("%sok %llu - graphs from %llu\n", ok ? "" : "not ", (unsigned long long)b + 1,
               (unsigned long long)(seed + b * BATCH));
        fflush(stdout);
        all_ok = all_ok && ok;
    }
    const bool ok = print_sums();
    printf("%sok %llu - barriers\n", ok ? "" : "not ", (unsigned long long)batches + 1);
    return !(all_ok && ok);
}
