// SPDX-License-Identifier: Apache-2.0
// Memory plan: when every buffer holds data, which ones share bytes in place, and at which offset each lies.
// The bound beside the result is the largest sum of buffers that hold data at one time.
#include "passes/plan/dispatch.h"
#include "passes/plan/place/place.h"

typedef struct Planner {
    Pass *pass;
    Plan *plan;
    BufId *owner;    // by buffer: the one whose bytes it uses (itself unless in place)
    bool *is_output; // by buffer: holds an output of the graph or a condition
    bool *is_staged; // by buffer: part of what a GPU and its host exchange (Plan.gpu.staged)
    bool is_latency; // memory is not used again where that costs a barrier
} Planner;

enum { STAGED_ALIGN = 256, STAGED_PAD = 64 };

// GPUs read memory by lines of 128 bytes and fetch pairs of them. Rows that are whole lines need half as many
// requests where they begin with one. Buffers that are smaller are left where they are.
enum { GPU_ALIGN = 256 };

static PlanBuffer *buffer_of(Planner *m, BufId b)
{
    return &m->plan->buffers.data[b];
}

static bool is_arena(Planner *m, BufId b)
{
    return b != 0 && buffer_of(m, b)->region == REGION_ARENA;
}

static uint64_t align_to(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

// Regions that another one begins behind are whole lines, too.
static void align_regions(Plan *p)
{
    static const Region before[] = {REGION_STATE, REGION_WEIGHTS};
    for (uint32_t i = 0; i < sizeof before / sizeof *before; i++)
        p->region_bytes[before[i]] = align_to(p->region_bytes[before[i]], GPU_ALIGN);
}

static void align_buffers(Plan *p)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        PlanBuffer *buf = &p->buffers.data[b];
        if (buf->bytes >= GPU_ALIGN && buf->align < GPU_ALIGN)
            buf->align = GPU_ALIGN;
    }
}

// --- in place ------------------------------------------------------------------------------------

static bool same_loc_strides(const Graph *g, NodeId id, const Loc *a, const Loc *b)
{
    const Shape *s = graph_node(g, id)->shape;
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dim[i] > 1 && a->stride[i] != b->stride[i])
            return false;
    return true;
}

// Is `id` read by this kernel only at the point that is being stored: as an operand of elementwise nodes
// after the anchor?
static bool is_read_point_wise(const PlanKernel *k, const Graph *g, NodeId id)
{
    for (uint32_t i = 0; i < k->body.len; i++) {
        const Node *n = graph_node(g, k->body.data[i]);
        const bool is_ew = op_is_pointwise((OpId)n->op);
        for (uint32_t j = 0; j < n->n_src; j++)
            if (n->src[j] == id && (!is_ew || k->body.data[i] <= k->anchor))
                return false;
    }
    return true;
}

// Does another kernel of the group of kernel `at` touch the bytes?
static bool has_neighbour(Planner *m, BufId owner, uint32_t at)
{
    const Plan *p = m->plan;
    for (uint32_t i = at; i-- > 0 && p->kernels.data[i].launch.group == p->kernels.data[at].launch.group;)
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++)
            if (m->owner[p->kernels.data[i].args.data[j].buf] == owner)
                return true;
    return false;
}

// Nothing needs the buffer's bytes after kernel `at`; nor beside it, when memory must not cost a barrier.
static bool dies_at(Planner *m, BufId owner, uint32_t at)
{
    return buffer_of(m, owner)->last == at && !m->is_output[owner] && !m->is_staged[owner] &&
           (!m->is_latency || !has_neighbour(m, owner, at));
}

// Does the kernel read another value out of the same bytes?
static bool has_other_use(Planner *m, const PlanKernel *k, NodeId id, BufId owner)
{
    for (uint32_t i = 0; i < k->body.len; i++) {
        const Node *n = graph_node(m->plan->graph, k->body.data[i]);
        for (uint32_t j = 0; j < n->n_src; j++) {
            const BufId b = n->src[j] == 0 ? 0 : m->plan->locs.data[n->src[j]].buf;
            if (b != 0 && n->src[j] != id && m->owner[b] == owner)
                return true;
        }
    }
    return false;
}

static void share(Planner *m, BufId from, BufId with)
{
    const BufId owner = m->owner[with];
    m->owner[from] = owner;
    buffer_of(m, from)->shares = owner;
    buffer_of(m, owner)->last = buffer_of(m, from)->last;
    m->is_output[owner] |= m->is_output[from];
}

// May the kernel's root overwrite the value `id`: it dies here, has the same strides and is read point by
// point?
static bool can_overwrite(Planner *m, const PlanKernel *k, uint32_t at, NodeId id)
{
    const Graph *g = m->plan->graph;
    const Loc *in = &m->plan->locs.data[id], *out = &m->plan->locs.data[k->root];
    const Node *n = graph_node(g, id), *root = graph_node(g, k->root);
    if (id == 0 || !is_arena(m, in->buf) || in->buf == out->buf || n->shape != root->shape ||
        n->dtype != root->dtype)
        return false;
    const BufId owner = m->owner[in->buf];
    if (in->offset != out->offset || buffer_of(m, in->buf)->bytes != buffer_of(m, out->buf)->bytes ||
        !same_loc_strides(g, id, in, out))
        return false;
    return dies_at(m, owner, at) && is_read_point_wise(k, g, id) && !has_other_use(m, k, id, owner);
}

static void try_in_place(Planner *m, uint32_t at)
{
    PlanKernel *k = &m->plan->kernels.data[at];
    if (k->copy.src != 0 || k->is_joined)
        return;
    const BufId out = m->plan->locs.data[k->root].buf;
    if (!is_arena(m, out) || m->owner[out] != out || buffer_of(m, out)->first != at || m->is_staged[out])
        return;
    for (uint32_t i = 0; i < k->body.len; i++) {
        const Node *n = graph_node(m->plan->graph, k->body.data[i]);
        for (uint32_t j = 0; j < n->n_src; j++)
            if (can_overwrite(m, k, at, n->src[j])) {
                share(m, out, m->plan->locs.data[n->src[j]].buf);
                k->kernel->may_alias = true;
                return;
            }
    }
}

// --- carried values ------------------------------------------------------------------------------

// Is the old value of a carried state read in this kernel only where the same element of the new one is
// stored?
static bool is_overwritten_point_wise(const Planner *m, const PlanKernel *k, NodeId state)
{
    const Plan *p = m->plan;
    const Node *s = graph_node(p->graph, state), *root = graph_node(p->graph, k->root);
    if (k->copy.src != 0 || s->shape != root->shape || s->dtype != root->dtype ||
        !is_read_point_wise(k, p->graph, state))
        return false;
    for (uint32_t i = 0; i < k->body.len; i++) {
        const Node *n = graph_node(p->graph, k->body.data[i]);
        for (uint32_t j = 0; j < n->n_src; j++)
            if (n->src[j] != 0 && n->src[j] != state &&
                p->locs.data[n->src[j]].buf == p->locs.data[state].buf)
                return false; // through a view
    }
    return true;
}

static bool touches(const PlanKernel *k, BufId buf, bool written)
{
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].buf == buf && (written ? k->args.data[i].is_written : k->args.data[i].is_read))
            return true;
    return false;
}

// May the new value of a state be made in the state's own memory, which the kernel `copy` would else fill?
static bool can_carry(const Planner *m, uint32_t copy, NodeId state)
{
    const Plan *p = m->plan;
    const PlanKernel *k = &p->kernels.data[copy];
    const Loc *next = &p->locs.data[k->copy.src], *to = &p->locs.data[state];
    const PlanBuffer *b = &p->buffers.data[next->buf];
    uint32_t first = 0;
    if (b->region != REGION_ARENA || m->is_output[next->buf] || next->offset != 0 ||
        b->bytes != p->buffers.data[to->buf].bytes || !same_loc_strides(p->graph, state, next, to))
        return false;
    while (first < copy && !touches(&p->kernels.data[first], next->buf, true))
        first++;
    for (uint32_t i = first + 1; i < p->kernels.len; i++)
        if (i != copy &&
            (touches(&p->kernels.data[i], to->buf, false) || touches(&p->kernels.data[i], to->buf, true)))
            return false;
    return first < copy && (!touches(&p->kernels.data[first], to->buf, false) ||
                            is_overwritten_point_wise(m, &p->kernels.data[first], state));
}

static void drop_kernel(Plan *p, uint32_t index)
{
    for (uint32_t i = index; i + 1 < p->kernels.len; i++)
        p->kernels.data[i] = p->kernels.data[i + 1];
    p->kernels.len--;
}

// In the body of a loop, carried values change in place where all readers of the old value come before.
static void carry_in_place(Planner *m)
{
    Plan *p = m->plan;
    for (uint32_t i = 0; i < p->graph->states.len; i++) {
        const GraphState *s = &p->graph->states.data[i];
        const BufId to = p->locs.data[s->node].buf, from = p->locs.data[s->next].buf;
        for (uint32_t k = p->kernels.len; k-- > 0;) {
            const PlanKernel *copy = &p->kernels.data[k];
            if (!copy->is_last || copy->copy.dst.buf != to || !can_carry(m, k, s->node))
                continue;
            p->buffers.data[from].region = REGION_OUTER;
            p->buffers.data[from].slot = p->buffers.data[to].slot;
            for (uint32_t j = 0; j < k; j++)
                if (touches(&p->kernels.data[j], from, true))
                    p->kernels.data[j].kernel->may_alias = true;
            drop_kernel(p, k);
            break;
        }
    }
}

// --- offsets -------------------------------------------------------------------------------------

static void place_arena(Planner *m)
{
    Plan *p = m->plan;
    PlaceItem *items = ARENA_ARRAY(m->pass->scratch, PlaceItem, p->buffers.len);
    BufId *ids = ARENA_ARRAY(m->pass->scratch, BufId, p->buffers.len);
    uint32_t n = 0;
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (!is_arena(m, b) || m->owner[b] != b || buf->first == UINT32_MAX || m->is_staged[b])
            continue;
        ids[n] = b;
        items[n++] = (PlaceItem){
            .first = buf->first, .last = buf->last, .size = buf->bytes, .align = buf->align, .fixed = -1};
    }
    PlaceResult result;
    place_solve(m->pass->scratch, items, n, (PlaceBudget){m->pass->options->place_budget}, &result);
    for (uint32_t i = 0; i < n; i++)
        p->buffers.data[ids[i]].offset = items[i].offset;
    for (BufId b = 1; b < p->buffers.len; b++)
        if (m->owner[b] != b)
            p->buffers.data[b].offset = p->buffers.data[m->owner[b]].offset;
    p->region_bytes[REGION_ARENA] = result.arena;
    p->arena_lower_bound = result.lower_bound;
    p->arena_optimal = result.optimal;
}

// --- what a GPU and its host exchange ------------------------------------------------------------

// Calls fn for the values that the host writes before a run or reads after it.
static void for_exchanged(Planner *m, void (*fn)(Planner *m, BufId b))
{
    const Plan *p = m->plan;
    for (uint32_t i = 0; i < p->inputs.len; i++)
        fn(m, p->inputs.data[i].buf);
    for (uint32_t i = 0; i < p->outputs.len; i++)
        fn(m, p->outputs.data[i].buf);
    for (uint32_t i = 0; i < p->kept.len; i++)
        fn(m, p->kept.data[i].buf);
    for (uint32_t i = 0; i < p->sizes.len; i++)
        fn(m, p->sizes.data[i].buf);
    for (uint32_t i = 0; i < p->checks.len; i++)
        fn(m, p->checks.data[i].buf);
    for (uint32_t i = 0; i < p->experts.layers.len; i++)
        fn(m, p->experts.layers.data[i].choice);
}

static void mark_staged(Planner *m, BufId b)
{
    m->is_staged[b] = is_arena(m, b);
}

static void place_staged(Planner *m, BufId b)
{
    uint64_t *end = &m->plan->region_bytes[REGION_ARENA];
    if (!m->is_staged[b])
        return;
    m->is_staged[b] = false; // once
    PlanBuffer *buf = buffer_of(m, b);
    buf->offset = align_to(*end, buf->align);
    *end = buf->offset + align_to(buf->bytes, STAGED_PAD);
}

// Behind all else in the arena, so that few copies move all of it.
static void place_exchanged(Planner *m)
{
    Plan *p = m->plan;
    uint64_t *end = &p->region_bytes[REGION_ARENA];
    *end = p->gpu.staged = align_to(*end, STAGED_ALIGN);
    if (p->page != 0)
        *end += align_to(buffer_of(m, p->page)->bytes, STAGED_PAD);
    for_exchanged(m, place_staged);
    p->arena_lower_bound += *end - p->gpu.staged;
}

// Persistent regions: one after the other. Constants that no kernel reads any more (they were packed) get no
// bytes.
static void place_region(Planner *m, Region region)
{
    uint64_t next = 0;
    for (BufId b = 1; b < m->plan->buffers.len; b++) {
        PlanBuffer *buf = buffer_of(m, b);
        if (buf->region != region || (region == REGION_WEIGHTS && buf->first == UINT32_MAX))
            continue;
        buf->offset = align_to(next, buf->align);
        next = buf->offset + align_to(buf->bytes, buf->align);
    }
    m->plan->region_bytes[region] = next;
}

// Constants that stay in the user's file: whole ones, as the model has them. (What the bodies of loops read
// is copied next to each other.)
static void find_in_file(Planner *m)
{
    const PlanFile *f = m->pass->options->file;
    if (f == NULL || m->pass->frame != NULL)
        return;
    m->plan->file = f;
    m->plan->region_bytes[REGION_FILE] = f->len;
    for (BufId b = 1; b < m->plan->buffers.len; b++) {
        PlanBuffer *buf = buffer_of(m, b);
        if (buf->region != REGION_WEIGHTS || buf->first == UINT32_MAX ||
            !plan_file_has(f, buf->data, buf->bytes))
            continue;
        buf->region = REGION_FILE;
        buf->align = PLAN_FILE_ALIGN;
        buf->offset = (uint64_t)((const unsigned char *)buf->data - f->data);
    }
}

// Kernels by what they depend on, as if no bytes were used twice: their groups are what memory must not
// split.
static void find_groups_first(Planner *m)
{
    place_region(m, REGION_ARENA);
    place_region(m, REGION_STATE);
    place_region(m, REGION_PARAM);
    dispatch_arrange(m->plan, m->pass->options);
}

// A buffer holds data for the whole of a group, whose kernels are in no order.
static void extend_to_groups(Plan *p, Arena *scratch)
{
    const uint32_t n = p->kernels.len;
    uint32_t *begin = ARENA_ARRAY(scratch, uint32_t, n + 1u), *end = ARENA_ARRAY(scratch, uint32_t, n + 1u);
    for (uint32_t i = 1; i < n; i++)
        begin[i] = plan_opens_group(p, i) ? i : begin[i - 1];
    for (uint32_t i = n; i-- > 0;)
        end[i] = i + 1 < n && !plan_opens_group(p, i + 1) ? end[i + 1] : i;
    for (BufId b = 1; b < p->buffers.len && n != 0; b++) {
        PlanBuffer *buf = &p->buffers.data[b];
        buf->first = buf->first < n ? begin[buf->first] : buf->first;
        buf->last = end[buf->last];
    }
}

// A buffer without bytes may have the address of another one.
static bool is_empty_alias(const Plan *p, const PlanArg *written, const PlanArg *other)
{
    const PlanBuffer *a = &p->buffers.data[written->buf], *b = &p->buffers.data[other->buf];
    return a->region == b->region && (a->bytes == 0 || b->bytes == 0) &&
           a->offset + written->byte_offset == b->offset + other->byte_offset;
}

// Compilers may warn of restrict pointers that are equal, though nothing is read or written through them.
static void mark_empty_aliases(Plan *p, PlanKernel *k)
{
    for (uint32_t i = 0; i < k->args.len; i++)
        for (uint32_t j = 0; k->args.data[i].is_written && j < k->args.len; j++)
            if (i != j && is_empty_alias(p, &k->args.data[i], &k->args.data[j]))
                k->kernel->may_alias = true;
}

bool pass_memplan(Pass *p)
{
    Planner m = {.pass = p,
                 .plan = p->plan,
                 .is_latency = p->options->goal == PLAN_LATENCY && p->options->caps->is_gpu};
    m.owner = ARENA_ARRAY(p->scratch, BufId, p->plan->buffers.len);
    m.is_output = ARENA_ARRAY(p->scratch, bool, p->plan->buffers.len);
    m.is_staged = ARENA_ARRAY(p->scratch, bool, p->plan->buffers.len);
    if (p->options->caps->is_gpu)
        align_buffers(p->plan);
    const bool has_exchange = p->options->caps->is_gpu && p->frame == NULL;
    if (has_exchange)
        for_exchanged(&m, mark_staged);
    for (BufId b = 1; b < p->plan->buffers.len; b++)
        m.owner[b] = b;
    for (uint32_t i = 0; i < p->plan->outputs.len; i++)
        m.is_output[p->plan->outputs.data[i].buf] = true;
    for (uint32_t i = 0; i < p->plan->sizes.len; i++)
        m.is_output[p->plan->sizes.data[i].buf] = true;
    for (uint32_t i = 0; i < p->plan->checks.len; i++)
        m.is_output[p->plan->checks.data[i].buf] = true;
    if (p->frame != NULL && p->options->opt_level >= 1)
        carry_in_place(&m);
    if (m.is_latency)
        find_groups_first(&m);
    plan_find_lifetimes(p->plan);
    if (p->options->opt_level >= 1)
        for (uint32_t i = 0; i < p->plan->kernels.len; i++)
            try_in_place(&m, i);
    if (m.is_latency)
        extend_to_groups(p->plan, p->scratch);
    place_arena(&m);
    if (m.is_latency)
        plan_find_lifetimes(p->plan);
    if (has_exchange)
        place_exchanged(&m);
    place_region(&m, REGION_STATE);
    place_region(&m, REGION_PARAM);
    place_region(&m, REGION_PREPARED);
    find_in_file(&m);
    place_region(&m, REGION_WEIGHTS);
    place_region(&m, REGION_EXPERTS);
    place_region(&m, REGION_MAPS);
    if (p->options->caps->is_gpu)
        align_regions(p->plan);
    for (uint32_t i = 0; i < p->plan->kernels.len; i++)
        mark_empty_aliases(p->plan, &p->plan->kernels.data[i]);
    return true;
}
