// SPDX-License-Identifier: Apache-2.0
// The tables that a model on a GPU is run by: launches, the addresses of their arguments, loops
// (runtime-lite/rlx_gpu.h). They depend on no target.
#include "codegen/host/host_parts.h"

#define NONE UINT32_MAX // RLX_GPU_NONE, and PLAN_NO_ARG

typedef struct LaunchStep {
    const Plan *plan; // that the kernel is of
    const PlanKernel *kernel;
    uint32_t loop, args;
    bool waits;
    uint32_t first, edges; // step of the plan's first kernel; in the list of edges
} LaunchStep;

typedef struct Loop {
    const PlanKernel *kernel;
    uint32_t steps, slots, clears, moves;
} Loop;

typedef struct Tables {
    const HostEmit *e;
    VEC(LaunchStep) steps;
    VEC(Loop) loops;
    uint32_t n_args, n_slots, n_clears, n_moves, n_edges;
} Tables;

// The kernels of a plan in one row, then those of the bodies of its loops. Recursion: as deep as loops nest.
static uint32_t add_steps(Tables *t, const Plan *p)
{
    const uint32_t first = t->steps.len;
    Arena *a = t->e->arena;
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        vec_push(a, &t->steps,
                 ((LaunchStep){p, k, NONE, t->n_args, plan_opens_group(p, i), first, t->n_edges}));
        t->n_args += k->args.len;
        t->n_edges += k->launch.after.len;
    }
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        if (k->loop == NULL)
            continue;
        const uint32_t number = t->loops.len;
        t->steps.data[first + i].loop = number;
        vec_push(a, &t->loops, ((Loop){k, 0, t->n_slots, t->n_clears, t->n_moves}));
        t->n_slots += k->loop->body->slots.len;
        t->n_clears += k->loop->cleared.len;
        t->n_moves += k->loop->moves.len;
        const uint32_t steps = add_steps(t, k->loop->body);
        t->loops.data[number].steps = steps;
    }
    return first;
}

static const char *number_text(Arena *a, uint32_t n)
{
    return n == NONE ? "RLX_GPU_NONE" : arena_printf(a, "%uu", n);
}

// --- tables --------------------------------------------------------------------------------------

// is_loop: the arguments of a loop are where element 0 is.
static void emit_arg(const Tables *t, const Plan *p, const PlanArg *arg, bool is_loop, bool is_moved,
                     Str *out)
{
    static const char *const base[REGION_COUNT] = {
        [REGION_ARENA] = "RLX_GPU_ARENA",     [REGION_STATE] = "RLX_GPU_STATE",
        [REGION_PARAM] = "RLX_GPU_STATE",     [REGION_PREPARED] = "RLX_GPU_STATE",
        [REGION_WEIGHTS] = "RLX_GPU_WEIGHTS", [REGION_EXPERTS] = "RLX_GPU_WEIGHTS",
        [REGION_MAPS] = "RLX_GPU_MAPS"};
    const PlanBuffer *b = &p->buffers.data[arg->buf];
    const uint64_t offset = arg->byte_offset - (is_loop ? 0 : arg->below);
    uint64_t at = host_region_base(p, b->region) + b->offset + offset;
    const char *from =
        b->region == REGION_OUTER ? arena_printf(t->e->arena, "RLX_GPU_SLOT + %u", b->slot) : base[b->region];
    if (b->region == REGION_EXPERTS && p->experts.slots > 0) // all slots, of which a table says where
        at = t->e->gpu->experts - host_gpu_weights_offset(t->e->device);
    if (p->page != 0 && arg->buf == p->page) { // where each run brings it
        from = base[REGION_ARENA];
        at = p->gpu.staged + offset;
    }
    if (is_moved) {
        from = arena_printf(t->e->arena, "RLX_GPU_MOVED + %uu", arg->move - 1);
        at = 0;
    }
    str_printf(out, "    {%s, %lluu},\n", from, (unsigned long long)at);
}

static void emit_args(const Tables *t, Str *out)
{
    if (t->n_args == 0)
        return;
    str_printf(out, "static const rlx_gpu_arg args%s[] = {\n", t->e->suffix);
    for (uint32_t i = 0; i < t->steps.len; i++) {
        const PlanKernel *k = t->steps.data[i].kernel;
        for (uint32_t j = 0; j < k->args.len; j++)
            emit_arg(t, t->steps.data[i].plan, &k->args.data[j], k->loop != NULL,
                     k->loop == NULL && k->kernel->params.data[j].is_moved, out);
    }
    str_add(out, "};\n");
}

static void emit_image(const PlanTensorMap *m, Str *out)
{
    str_printf(out, ", {%d, %d}, {%d, %d}, {%u, %u}", m->low[0], m->low[1], m->high[0], m->high[1],
               m->is_image ? m->step[0] : 0, m->is_image ? m->step[1] : 0);
}

// In the order of their places.
static void emit_maps(const Tables *t, Str *out)
{
    const Plan *p = t->e->device;
    if (p->region_bytes[REGION_MAPS] == 0)
        return;
    str_printf(out, "static const rlx_gpu_map maps%s[] = {\n", t->e->suffix);
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanTensorMap *m = p->buffers.data[b].region == REGION_MAPS ? p->buffers.data[b].map : NULL;
        if (m == NULL)
            continue;
        const PlanArg arg = {.buf = m->buf, .byte_offset = m->byte_offset};
        str_add(out, "    {\n");
        emit_arg(t, p, &arg, false, false, out);
        str_printf(out, "     %u, %u, %u, {", dtype_info[m->type].bytes, m->rank, m->swizzle);
        for (uint32_t i = 0; i < m->rank; i++)
            str_printf(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)m->dim[i]);
        str_add(out, "}, {");
        for (uint32_t i = 0; i < m->rank; i++)
            str_printf(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)(i > 0 ? m->stride[i] : 0));
        str_add(out, "}, {");
        for (uint32_t i = 0; i < m->rank; i++)
            str_printf(out, "%s%u", i > 0 ? ", " : "", m->box[i]);
        str_add(out, "}");
        emit_image(m, out);
        str_add(out, "},\n");
    }
    str_add(out, "};\n");
}

static void emit_edges(const Tables *t, Str *out)
{
    uint32_t n = 0;
    if (t->n_edges == 0)
        return;
    str_printf(out, "static const uint32_t edges%s[] = {", t->e->suffix);
    for (uint32_t i = 0; i < t->steps.len; i++)
        for (uint32_t j = 0; j < t->steps.data[i].kernel->launch.after.len; j++, n++)
            str_printf(out, "%s%uu",
                       n == 0        ? ""
                       : n % 16 == 0 ? ",\n    "
                                     : ", ",
                       t->steps.data[i].first + t->steps.data[i].kernel->launch.after.data[j]);
    str_add(out, "};\n");
}

static void emit_steps(const Tables *t, Str *out)
{
    if (t->steps.len == 0)
        return;
    str_printf(out, "static const rlx_gpu_step steps%s[] = {\n", t->e->suffix);
    for (uint32_t i = 0; i < t->steps.len; i++) {
        const LaunchStep *s = &t->steps.data[i];
        uint64_t function = NONE;
        KernelGrid grid = {0};
        if (s->loop == NONE) {
            map_get_str(&t->e->gpu->functions, s->kernel->function, &function);
            grid = kernel_grid(s->kernel->kernel);
        }
        str_printf(out, "    {%s, %s, %uu, %uu, %uu, %lluu, %uu, %uu, %uu, %du, %uu, %uu, %uu, %uu}, // %s\n",
                   number_text(t->e->arena, (uint32_t)function), number_text(t->e->arena, s->loop), s->args,
                   s->kernel->args.len, grid.group, (unsigned long long)grid.groups,
                   s->loop == NONE ? s->kernel->kernel->shared_bytes : 0, s->kernel->skipped_by,
                   s->kernel->launch.row, s->waits, s->edges, s->kernel->launch.after.len,
                   s->plan == t->e->device ? host_moe_layer_of(s->plan, s->kernel) : 0u,
                   s->loop == NONE && s->kernel->kernel->resident != 0 ? 1u : 0u,
                   s->kernel->kernel->name);
    }
    str_add(out, "};\n");
}

static void emit_slots(const Tables *t, Str *out)
{
    if (t->n_slots == 0)
        return;
    str_printf(out, "static const rlx_gpu_slot slots%s[] = {\n", t->e->suffix);
    for (uint32_t i = 0; i < t->loops.len; i++) {
        const Plan *body = t->loops.data[i].kernel->loop->body;
        for (uint32_t j = 0; j < body->slots.len; j++)
            str_printf(out, "    {%s, %lld, %lld},\n", number_text(t->e->arena, body->slots.data[j].arg),
                       (long long)body->slots.data[j].start, (long long)body->slots.data[j].step);
    }
    str_add(out, "};\n");
}

static void emit_clears(const Tables *t, Str *out)
{
    if (t->n_clears == 0)
        return;
    str_printf(out, "static const rlx_gpu_clear clears%s[] = {\n", t->e->suffix);
    for (uint32_t i = 0; i < t->loops.len; i++) {
        const PlanKernel *k = t->loops.data[i].kernel;
        for (uint32_t j = 0; j < k->loop->cleared.len; j++) {
            const PlanArg *arg = &k->args.data[k->loop->cleared.data[j]];
            str_printf(out, "    {%uu, %lluu},\n", k->loop->cleared.data[j],
                       (unsigned long long)(arg->end > arg->begin ? arg->end - arg->begin : 0));
        }
    }
    str_add(out, "};\n");
}

static void emit_moves(const Tables *t, Str *out)
{
    if (t->n_moves == 0)
        return;
    str_printf(out, "static const rlx_gpu_move moves%s[] = {\n", t->e->suffix);
    for (uint32_t i = 0; i < t->loops.len; i++) {
        const PlanKernel *k = t->loops.data[i].kernel;
        for (uint32_t j = 0; j < k->loop->moves.len; j++) {
            const PlanMove *m = &k->loop->moves.data[j];
            str_printf(out, "    {%uu, %s, %lld, %lld},\n", m->arg,
                       number_text(t->e->arena, k->args.data[m->arg].move - 1), (long long)m->start,
                       (long long)m->step);
        }
    }
    str_add(out, "};\n");
}

static void emit_loop(const Tables *t, uint32_t index, Str *out)
{
    const Loop *x = &t->loops.data[index];
    const PlanLoop *l = x->kernel->loop;
    Arena *a = t->e->arena;
    uint64_t cond = 0;
    if (l->has_cond)
        cond =
            l->body->buffers.data[l->body->outputs.data[0].buf].offset + l->body->outputs.data[0].byte_offset;
    str_printf(out, "    {%uu, %uu, %uu, %uu, ", x->steps, l->body->kernels.len, x->slots,
               l->body->slots.len);
    str_printf(out, "%uu, %uu, %uu, %uu, ", x->clears, l->cleared.len, x->moves, l->moves.len);
    if (l->max_trips == INT64_MAX)
        str_add(out, "INT64_MAX, ");
    else
        str_printf(out, "%lld, ", (long long)l->max_trips);
    str_printf(out, "%s, %s, %s, ", number_text(a, l->trips), number_text(a, l->cond),
               number_text(a, l->arena));
    str_printf(out, "%s, %s, %d, %d, %lluu, %lluu},\n", number_text(a, l->weights), number_text(a, l->count),
               l->has_cond, l->is_unrolled, (unsigned long long)cond,
               (unsigned long long)(t->e->gpu->cells + l->cell));
}

static void emit_loops(const Tables *t, Str *out)
{
    emit_slots(t, out);
    emit_clears(t, out);
    emit_moves(t, out);
    if (t->loops.len == 0)
        return;
    str_printf(out, "static const rlx_gpu_loop loops%s[] = {\n", t->e->suffix);
    for (uint32_t i = 0; i < t->loops.len; i++)
        emit_loop(t, i, out);
    str_add(out, "};\n");
}

// --- the program -------------------------------------------------------------------------------------

static const char *own_list(const HostEmit *e, const char *name, uint32_t n)
{
    return n != 0 ? arena_printf(e->arena, "%s%s", name, e->suffix) : "NULL";
}

// What the host reads after a run beside outputs: where rows went.
static void emit_spans(const Tables *t, Str *out)
{
    const Plan *p = t->e->plan;
    if (p->experts.layers.len == 0)
        return;
    str_printf(out, "static const rlx_gpu_span spans%s[] = {\n", t->e->suffix);
    for (uint32_t i = 0; i < p->experts.layers.len; i++) {
        const PlanBuffer *b = &p->buffers.data[p->experts.layers.data[i].choice];
        str_printf(out, "    {%llu, %llu},\n", (unsigned long long)b->offset,
                   (unsigned long long)(b->offset + b->bytes));
    }
    str_add(out, "};\n");
}

static void emit_record(const Tables *t, Str *out)
{
    const HostEmit *e = t->e;
    const Plan *p = e->device;
    const HostGpu *g = e->gpu;
    str_printf(out, "static const rlx_gpu_program program%s = {\n    %lluu, %lluu, %lluu, %lluu, %s,\n",
               e->suffix, (unsigned long long)host_gpu_state_offset(p),
               (unsigned long long)host_gpu_weights_offset(p), (unsigned long long)g->memory_bytes,
               (unsigned long long)p->gpu.staged, g->images);
    str_printf(out, "    %uu, %s, %uu, %uu, %uu, %uu, %uu, %uu, %s, %s, %s, %s, %s, %s, %s,\n", g->names.len,
               g->names.len != 0 ? "functions" : "NULL", g->max_args, g->max_steps, p->kernels.len,
               p->prepare.n_kernels, p->checks.len != 0 ? p->n_check_kernels : p->prepare.n_kernels,
               p->gpu.split, own_list(e, "steps", t->steps.len), own_list(e, "edges", t->n_edges),
               own_list(e, "args", t->n_args), own_list(e, "loops", t->loops.len),
               own_list(e, "slots", t->n_slots), own_list(e, "clears", t->n_clears),
               own_list(e, "moves", t->n_moves));
    const uint64_t n_maps = p->region_bytes[REGION_MAPS] / PLAN_MAP_BYTES;
    str_printf(out, "    %uu, %uu, %lluu, %s, %lluu, %uu, %s, %s};\n\n", p->prepare.n_marks, p->prepare.mark,
               (unsigned long long)n_maps, own_list(e, "maps", (uint32_t)n_maps),
               (unsigned long long)g->maps[e->variant], p->experts.layers.len,
               own_list(e, "spans", p->experts.layers.len),
               p->experts.layers.len != 0 && p->experts.slots > 0 ? "rlx_moe_fetch" : "NULL");
}

// Functions of all variants. Layers of experts are counted when a run has ended; with slots, which the host
// fills in the middle of it, a run ends before its dispatch returns.
void host_gpu_emit_runs(const HostEmit *e, Str *out)
{
    rlx_assert(e->gpu != NULL);
    const char *rt = e->gpu->host->runtime, *side = e->side;
    if (e->plan->experts.layers.len == 0) {
        str_printf(out,
                   "static rlx_status run_all%s(rlx_ctx *ctx)\n{\n"
                   "    return rlx_gpu_run(ctx, %s_start, %s_fetch, %s_wait_for);\n}\n\n",
                   side, rt, rt, rt);
        return;
    }
    str_printf(out,
               "static rlx_status run_all%s(rlx_ctx *ctx)\n{\n    rlx_status status = rlx_moe_begin(ctx);\n"
               "    if (status == RLX_OK)\n        status = rlx_gpu_run(ctx, %s_start, %s_fetch, "
               "%s_wait_for);\n"
               "    if (status == RLX_OK)\n        rlx_moe_note(ctx);\n    return status;\n}\n\n",
               side, rt, rt, rt);
    if (e->plan->experts.slots > 0)
        return;
    str_printf(out,
               "static rlx_status start%s(rlx_ctx *ctx, rlx_turn turn)\n{\n"
               "    return rlx_moe_started(ctx, %s_start(ctx, turn));\n}\n\n"
               "static rlx_status wait_for%s(rlx_ctx *ctx, rlx_awaited what, int *is_done)\n{\n"
               "    const rlx_status status = %s_wait_for(ctx, what, is_done);\n"
               "    if (what == RLX_WAIT_OUTPUTS && is_done == NULL)\n"
               "        return rlx_moe_ended(ctx, status);\n    return status;\n}\n\n",
               side, rt, side, rt);
}

// C: rlx_device.start and what follows.
static const char *run_functions(const HostEmit *e)
{
    const char *rt = e->gpu->host->runtime;
    if (e->plan->experts.layers.len == 0)
        return arena_printf(e->arena, "%s_start, %s_fetch, %s_wait_for", rt, rt, rt);
    return e->plan->experts.slots > 0
               ? "NULL, NULL, NULL"
               : arena_printf(e->arena, "start%s, %s_fetch, wait_for%s", e->side, rt, e->side);
}

void host_gpu_emit_program(const HostEmit *e, Str *out)
{
    rlx_assert(e->gpu != NULL && e->device != NULL);
    Tables t = {.e = e};
    const Plan *p = e->device;
    const char *rt = e->gpu->host->runtime;
    add_steps(&t, p);
    emit_args(&t, out);
    emit_maps(&t, out);
    emit_edges(&t, out);
    emit_steps(&t, out);
    emit_loops(&t, out);
    emit_spans(&t, out);
    emit_record(&t, out);
    str_printf(out,
               "static const rlx_device device%s = {%lluu, %lluu, %s_open, %s_close, %s_bring, %s_get, "
               "%s_fetch_part, %s, %s_move, &program%s, %d, %s_list};\n\n",
               e->suffix, (unsigned long long)host_initial_bytes(e->plan),
               (unsigned long long)host_gpu_state_offset(p), rt, rt, rt, rt, rt, run_functions(e), rt,
               e->suffix,
               e->gpu->host->queues && e->plan->experts.layers.len == 0, rt);
    str_printf(out, "static rlx_status dispatch%s(rlx_ctx *ctx)\n{\n    return run_all%s(ctx);\n}\n\n",
               e->suffix, e->side);
}
