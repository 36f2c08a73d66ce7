// SPDX-License-Identifier: Apache-2.0
// The tables of --tables (runtime-lite/rlx_tables.h): buffers, launches and their numbers, of each plan. No
// other emitted code depends on them.
#include "codegen/host/host_parts.h"
#include "ir/plan/plan_table.h"

// The plan that has the kernels: that of the device, where there is one.
static const Plan *plan_of(const HostEmit *e)
{
    return e->device != NULL ? e->device : e->plan;
}

static const char *const regions[REGION_COUNT] = {
    [REGION_ARENA] = "ARENA",     [REGION_STATE] = "STATE",     [REGION_PARAM] = "STATE",
    [REGION_WEIGHTS] = "WEIGHTS", [REGION_PREPARED] = "STATE",  [REGION_EXPERTS] = "EXPERTS",
    [REGION_MAPS] = "MAPS",       [REGION_FILE] = "FILE",
    [REGION_ROWS] = "ROWS"};

// Experts are behind the other weights unless the program has slots for some.
static const char *region_name(const Plan *p, const PlanBuffer *b)
{
    return b->region == REGION_EXPERTS && p->experts.slots == 0 ? regions[REGION_WEIGHTS]
                                                                : regions[b->region];
}

static bool is_on_host(const HostEmit *e, const PlanBuffer *b)
{
    const Plan *p = plan_of(e);
    switch (b->region) {
    case REGION_ARENA:
        return e->device == NULL || b->offset >= p->gpu.staged;
    case REGION_PREPARED: // where a device has its own, the host has the record
        return e->device == NULL;
    case REGION_EXPERTS:
        return p->experts.slots == 0;
    case REGION_WEIGHTS: // beside a file of the user they are not what rlx_init is given
        return p->file == NULL;
    default:
        return b->region != REGION_MAPS;
    }
}

static const char *host_offset(const HostEmit *e, BufId id)
{
    rlx_assert(id < e->plan->buffers.len && id < plan_of(e)->buffers.len);
    const PlanBuffer *b = &e->plan->buffers.data[id]; // whose arena is the host's
    if (!is_on_host(e, &plan_of(e)->buffers.data[id]))
        return "RLX_NO_COPY";
    return arena_printf(e->arena, "%lluu",
                        (unsigned long long)(host_region_base(e->plan, b->region) + b->offset));
}

// 1 + the slot of the whole value in a list, or 0.
static uint32_t slot_of(const PlanIo *io, uint32_t n, BufId b)
{
    for (uint32_t i = 0; i < n; i++)
        if (io[i].buf == b && io[i].byte_offset == 0)
            return 1 + i;
    return 0;
}

static bool is_kept(const Plan *p, BufId b)
{
    return p->buffers.data[b].region != REGION_ARENA || slot_of(p->outputs.data, p->outputs.len, b) != 0 ||
           slot_of(p->kept.data, p->kept.len, b) != 0;
}

// The sizes of a node in a run, where some follow from symbols.
static const char *emit_live(const HostEmit *e, BufId id, NodeId node, Str *out)
{
    const Plan *p = plan_of(e);
    const PlanExtent *x = p->extents != NULL && node != 0 ? &p->extents[(size_t)node * SHAPE_MAX_RANK] : NULL;
    const uint32_t rank = node != 0 ? graph_node(p->graph, node)->shape->rank : 0;
    bool is_open = false;
    for (uint32_t i = 0; x != NULL && i < rank; i++)
        is_open = is_open || x[i].symbol != 0;
    if (!is_open)
        return "NULL";
    str_printf(out, "static const rlx_live live_%u%s[] = {", id, e->suffix);
    for (uint32_t i = 0; i < rank; i++)
        str_printf(out, "%s{%uu, %lld, %lld, %lld}", i == 0 ? "" : ", ", x[i].symbol, (long long)x[i].times,
                   (long long)x[i].plus, (long long)x[i].by);
    str_add(out, "};\n");
    return arena_printf(e->arena, "live_%u%s", id, e->suffix);
}

static void print_sizes(const int64_t *size, uint32_t rank, Str *out)
{
    str_add(out, "{");
    for (uint32_t i = 0; i < SHAPE_MAX_RANK; i++)
        str_printf(out, "%s%lld", i == 0 ? "" : ", ", i < rank ? (long long)size[i] : 0LL);
    str_add(out, "}");
}

// The strides of a copy that has no place of its own: dense, row-major.
static void find_strides(const Plan *p, BufId id, NodeId node, int64_t *stride)
{
    const Shape *s = graph_node(p->graph, node)->shape;
    int64_t next = 1;
    for (uint32_t i = s->rank; i-- > 0; next *= s->dim[i])
        stride[i] = p->locs.data[node].buf == id ? p->locs.data[node].stride[i] : next;
}

// The value of a node, or bytes.
static void print_value(const Plan *p, BufId id, NodeId node, Str *out)
{
    const int64_t bytes = (int64_t)p->buffers.data[id].bytes;
    int64_t stride[SHAPE_MAX_RANK] = {1};
    const Node *n = node != 0 ? graph_node(p->graph, node) : NULL;
    if (n != NULL)
        find_strides(p, id, node, stride);
    str_printf(out, "RLX_%s, %u, ", n != NULL ? host_upper(p->arena, dtype_info[n->dtype].name) : "U8",
               n != NULL ? n->shape->rank : 1u);
    print_sizes(n != NULL ? n->shape->dim : &bytes, n != NULL ? n->shape->rank : 1, out);
    str_add(out, ", ");
    print_sizes(stride, n != NULL ? n->shape->rank : 1, out);
}

// Kernels by their rows; the arena alone is used in turns.
static void print_times(const Plan *p, const PlanBuffer *b, Str *out)
{
    const bool is_timed = b->region == REGION_ARENA && b->last < p->kernels.len;
    const uint32_t last = p->kernels.len != 0 ? p->kernels.len - 1 : 0;
    const uint32_t from = is_timed ? b->first : 0, to = is_timed ? b->last : last;
    rlx_assert(from <= to);
    str_printf(out, "%uu, %uu, ", p->kernels.len != 0 ? p->kernels.data[from].launch.row : 0,
               p->kernels.len != 0 ? p->kernels.data[to].launch.row : 0);
}

static void print_buffer(const HostEmit *e, const PlanNodes *nodes, BufId id, const char *live, Str *out)
{
    const Plan *p = plan_of(e);
    const PlanBuffer *b = &p->buffers.data[id];
    const uint64_t base = b->region == REGION_ARENA ? 0 : host_region_base(p, b->region);
    str_printf(out, "    {%uu, %uu, %s, ", id, b->shares,
               host_string_literal(e->arena, b->name != NULL ? b->name : ""));
    str_printf(out, "%s,\n     RLX_REGION_%s, ",
               host_note_literal(e->arena, plan_buffer_nodes(nodes, id, e->arena)), region_name(p, b));
    str_printf(out, "%lluu, %lluu, %s, ", (unsigned long long)(base + b->offset),
               (unsigned long long)b->bytes, host_offset(e, id));
    print_times(p, b, out);
    str_printf(out, "%d, %uu, %uu,\n     ", is_kept(p, id), slot_of(p->inputs.data, p->inputs.len, id),
               slot_of(p->outputs.data, p->outputs.len, id));
    print_value(p, id, plan_buffer_node(nodes, id), out);
    str_printf(out, ", %s},\n", live);
}

static uint32_t emit_buffers(const HostEmit *e, Str *out)
{
    const Plan *p = plan_of(e);
    const PlanNodes nodes = plan_nodes(p, e->arena);
    Str rows = str_new(e->arena);
    uint32_t n = 0;
    for (BufId id = 1; id < p->buffers.len; id++) {
        if (!plan_has_bytes(&p->buffers.data[id]))
            continue;
        print_buffer(e, &nodes, id, emit_live(e, id, plan_buffer_node(&nodes, id), out), &rows);
        n++;
    }
    if (n != 0)
        str_printf(out, "static const rlx_buffer buffers%s[] = {\n%s};\n", e->suffix, str_text(&rows));
    return n;
}

typedef struct Grids {
    const HostEmit *e;
    Str *out;
} Grids;

static void print_grid(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    const Grids *g = ctx;
    (void)times;
    KernelGrid grid = {.groups = k->threads.is_shared ? host_used_threads(g->e) : 1, .group = 1};
    if (k->loop != NULL)
        grid = (KernelGrid){0};
    else if (p->caps->is_gpu)
        grid = kernel_grid(k->kernel);
    str_printf(g->out, "    {%lluu, %uu},\n", (unsigned long long)grid.groups, grid.group);
}

void host_emit_grids(const HostEmit *e, Str *out)
{
    Grids g = {e, out};
    const Plan *p = plan_of(e);
    if (!e->options->has_tables || host_count_kernels(e) == 0)
        return;
    str_printf(out, "static const rlx_grid grids%s[] = {\n", e->side);
    for (uint32_t i = 0; i < host_n_plans(p); i++)
        plan_walk(host_plan(p, i), print_grid, &g);
    str_add(out, "};\n\n");
}

const char *host_emit_tables(const HostEmit *e, bool has_kernels, Str *out)
{
    if (!e->options->has_tables)
        return "NULL";
    const PlanCounts c = plan_counts(plan_of(e));
    const uint32_t n = emit_buffers(e, out);
    str_printf(out, "static const rlx_tables tables%s = {{%uu, %uu, %uu, %uu, %uu, %uu, %uu, %uu},\n    ",
               e->suffix, c.launches, c.barriers, c.barriers_placed, c.moved, c.groups, c.largest_group,
               c.fused, c.split);
    str_printf(out, "%uu, %s%s, %s%s};\n\n", n, n != 0 ? "buffers" : "NULL", n != 0 ? e->suffix : "",
               has_kernels ? "grids" : "NULL", has_kernels ? e->side : "");
    return arena_printf(e->arena, "&tables%s", e->suffix);
}
