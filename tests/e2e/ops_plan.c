// SPDX-License-Identifier: Apache-2.0
// See ops_plan.h.
#include "ops_plan.h"

#include "../common/kernel_round.h"
#include "../gpu/check_order.h"
#include "passes/graph/driver.h"

#include <string.h>

static const uint64_t place_budget = 20000;

const OpsConfig ops_configs[] = {
#define CONFIG(...) {__VA_ARGS__},
#include "ops_configs.def"
#undef CONFIG
};
const uint32_t ops_n_configs = sizeof ops_configs / sizeof *ops_configs;

bool ops_config_takes(const OpsConfig *c, uint32_t i, const char *name)
{
    return i % c->every == 0 && (c->only == NULL || strstr(name, c->only) != NULL);
}

// Rows of block_matmul are rounded to digits; dot products of bytes need no instruction for it here.
static bool is_digits(const OpsConfig *c)
{
    return strncmp(c->name, "digits", 6) == 0;
}

// The same with the products of two bytes that the CPU has.
static bool is_pairs(const OpsConfig *c)
{
    return strncmp(c->name, "pairs", 5) == 0;
}

// Many rows have numbers of 16 bits.
static bool is_middle(const OpsConfig *c)
{
    return strstr(c->name, " middle") != NULL;
}

// As few digits as there are.
static bool is_coarse(const OpsConfig *c)
{
    return strstr(c->name, " coarse") != NULL;
}

// Sums are of pairs of bf16; "native" may have such registers as well, but is for plain sums.
static bool is_matrix(const OpsConfig *c)
{
    return strncmp(c->name, "matrix", 6) == 0;
}

static TargetCaps caps_of(const OpsConfig *c)
{
    CpuInfo cpu;
    const bool is_known = cpu_find(c->cpu, &cpu);
    rlx_assert(is_known);
    TargetCaps caps = target_caps(target_find("c"), &cpu);
    caps.f32_lanes = c->lanes != 0 ? c->lanes : caps.f32_lanes;
    caps.channels_last = c->channels_last;
    caps.is_gpu = c->is_gpu;
    caps.packs_weights = !c->is_gpu;
    caps.has_dot8 = caps.has_dot8 || is_digits(c);
    if (c->threads != 0) {
        caps.threads = c->threads;
        caps.split_cycles = 0;
    }
    return caps;
}

// An element of a product with blocks is two numbers on matrix registers; else three, as by default.
static bool is_short(const OpsConfig *c)
{
    return strstr(c->name, " short") != NULL;
}

// Digits make NaN of infinity, so cases of blocks with special values are for plain sums.
static double accuracy_of(const char *name, const OpsConfig *config)
{
    // Group-affine weights become blocks.
    const bool has_blocks = strncmp(name, "blocks", 6) == 0 || strncmp(name, "affine", 6) == 0;
    if (has_blocks && strstr(name, "special") != NULL)
        return 0;
    if (is_digits(config) || is_pairs(config) || (has_blocks && is_matrix(config)))
        return is_coarse(config) ? 1e-2 : is_middle(config) ? 1e-4 : is_short(config) ? 2e-5 : 1e-5;
    return is_matrix(config) ? 1e-4 : config->winograd;
}

// Convolutions in tiles: what is not finite goes to other outputs of the tile.
OpsTolerance ops_config_tolerance(const OpsConfig *c)
{
    return (OpsTolerance){.f32 = is_coarse(c) ? 3e-2 : is_middle(c) ? 3e-4 : c->winograd > 4 ? 3e-5 : 1e-5,
                          .may_spread = c->winograd || is_matrix(c)};
}

Plan *ops_plan_with(Arena *scratch, Graph *g, const PassOptions *o)
{
    Pass p = {.perm = g->arena, .scratch = scratch, .diag = g->diag, .options = o};
    const bool is_copied = graph_bind(g, (DimValues){0}, &p.graph);
    rlx_assert(is_copied);
    pass_run_all(&p);
    if (!p.failed)
        return p.plan;
    diag_print(g->diag, stderr, DIAG_PLAIN);
    return NULL;
}

static Plan *plan_tuned(Arena *scratch, Graph *g, const OpsConfig *config, const PassOptions *tuned)
{
    TargetCaps *caps = ARENA_NEW(g->arena, TargetCaps);
    PassOptions *o = ARENA_NEW(g->arena, PassOptions);
    *caps = caps_of(config);
    *o = *tuned;
    o->opt_level = config->opt_level;
    o->caps = caps;
    o->place_budget = place_budget;
    o->accuracy = accuracy_of(g->name, config);
    o->winograd = config->winograd;
    o->strips = config->strips;
    return ops_plan_with(scratch, g, o);
}

// Convolutions of bytes have the same bits on matrix registers and on vectors; here they take the former, for
// shapes as well that are too small to gain.
Plan *ops_plan(Arena *scratch, Graph *g, const OpsConfig *config)
{
    VEC(PlanChoice) tuned = {0};
    Plan *p = plan_tuned(scratch, g, config, &(PassOptions){0});
    for (uint32_t i = 0; config->choice != NULL && p != NULL && i < p->choices.len; i++) {
        const PlanChoice made = p->choices.data[i];
        const PlanChoice forced = {made.question, config->choice, made.others, made.kernel};
        if (strncmp(made.question, "int_conv", 8) == 0)
            vec_push(g->arena, &tuned, forced);
    }
    return tuned.len == 0
               ? p
               : plan_tuned(scratch, g, config, &(PassOptions){.tuned = tuned.data, .n_tuned = tuned.len});
}

typedef struct Listings {
    Arena *scratch;
    const Target *target;
    const char *wrong;
} Listings;

// One of four kernels: reading them back takes as long as planning.
static void check_listing(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    static uint32_t number;
    (void)p, (void)times;
    Listings *l = ctx;
    if (l->wrong == NULL && ops_is_sampled(number++, 4, 0))
        l->wrong = kernel_round(l->scratch, l->target, k->kernel);
}

const char *ops_check_plan(Arena *scratch, Plan *p, const Target *target)
{
    plan_find_edges(p);
    plan_find_groups(p);
    Listings l = {scratch, target, check_order(p)};
    plan_walk(p, check_listing, &l);
    return l.wrong;
}
