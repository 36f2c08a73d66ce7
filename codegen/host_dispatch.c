// SPDX-License-Identifier: Apache-2.0
// The function that runs a model: the calls of its kernels in order.
#include "codegen/host_parts.h"

// All threads come to the same answer before one of them uses the memory again.
static void emit_checks(bool is_shared, Str *out)
{
    if (!is_shared) {
        str_add(out, "    if (rlx_failed_check(ctx) != NULL)\n        return RLX_ERR_VALUE;\n");
        return;
    }
    str_add(out, "    rlx_barrier(team);\n    const int is_wrong = rlx_failed_check(ctx) != NULL;\n"
                 "    rlx_barrier(team);\n    if (is_wrong)\n        return RLX_ERR_VALUE;\n");
}

static void find_matrix(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    *(bool *)ctx |= k->loop == NULL && kernel_has_matrix(k->kernel);
}

// What the calls of the dispatch function name.
static void emit_names(const HostEmit *e, Str *out)
{
    bool used[REGION_COUNT] = {false}, is_limited = false;
    for (uint32_t i = 0; i < e->plan->kernels.len; i++) {
        const PlanKernel *k = &e->plan->kernels.data[i];
        is_limited = is_limited || k->skipped_by != 0;
        for (uint32_t j = 0; j < k->args.len; j++)
            used[e->plan->buffers.data[k->args.data[j].buf].region] = true;
    }
    if (used[REGION_ARENA])
        str_add(out, "    unsigned char *const a = ctx->arena;\n");
    if (used[REGION_STATE] || used[REGION_PARAM])
        str_add(out, "    unsigned char *const s = ctx->state;\n");
    if (used[REGION_WEIGHTS])
        str_add(out, "    const unsigned char *const w = ctx->weights;\n");
    if (is_limited)
        str_add(out, "    const uint32_t skipped = ctx->outputs == 0 ? 0u : 1u << (ctx->outputs - 1u);\n");
    if (!used[REGION_ARENA] && !used[REGION_STATE] && !used[REGION_PARAM] && !used[REGION_WEIGHTS])
        str_add(out, "    (void)ctx;\n");
}

void host_emit_dispatch(const HostEmit *e, Str *out)
{
    bool has_matrix = false;
    plan_walk(e->plan, find_matrix, &has_matrix);
    const bool is_shared = e->plan->is_shared, laps = e->options->has_profile;
    const uint32_t checked = e->plan->n_check_kernels;
    str_add(out, is_shared ? "static rlx_status dispatch_part(rlx_ctx *ctx, rlx_team *team)\n{\n"
                           : "static rlx_status dispatch(rlx_ctx *ctx)\n{\n");
    emit_names(e, out);
    if (has_matrix)
        str_add(out, "    if (!rlx_matrix_is_allowed())\n        return RLX_ERR_CPU;\n");
    if (e->plan->probe != 0)
        str_add(out, "    rlx_probe(0u);\n");
    if (laps)
        str_printf(out,
                   "    const rlx_profile *const profile = %sctx->profile;\n    uint64_t time = "
                   "rlx_lap_begin(profile);\n",
                   is_shared ? "team->part != 0 ? NULL : " : "");
    host_print_calls(e->plan, (HostCalls){0, checked, laps}, "    ", out);
    if (e->plan->checks.len != 0)
        emit_checks(is_shared, out);
    host_print_calls(e->plan, (HostCalls){checked, e->plan->kernels.len, laps}, "    ", out);
    if (laps)
        str_printf(out, "    (void)time;\n    if (profile != NULL)\n        ctx->profile->runs++;\n");
    str_add(out, "    return RLX_OK;\n}\n\n");
    if (is_shared)
        str_add(out, "static rlx_status dispatch(rlx_ctx *ctx)\n{\n    return rlx_threads_run(ctx, "
                     "dispatch_part);\n}\n\n");
}
