// SPDX-License-Identifier: Apache-2.0
// Which buffers use the bytes of another one. See memplan.h.
#include "passes/plan/memplan.h"

// --- in place ------------------------------------------------------------------------------------

static bool same_loc_strides(const Graph *g, NodeId id, const Loc *a, const Loc *b)
{
    const Shape *s = graph_node(g, id)->shape;
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dim[i] > 1 && a->stride[i] != b->stride[i])
            return false;
    return true;
}

static bool reads(const Node *n, NodeId id)
{
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] == id)
            return true;
    return false;
}

// Does the anchor need node `at` of the body, which is computed before it? They are in order.
static bool feeds_anchor(const PlanKernel *k, const Graph *g, uint32_t at)
{
    bool *made_of_it = ARENA_ARRAY(g->arena, bool, k->body.len);
    made_of_it[at] = true;
    for (uint32_t i = at + 1; i < k->body.len && k->body.data[i] <= k->anchor; i++) {
        for (uint32_t j = at; j < i; j++)
            made_of_it[i] |= made_of_it[j] && reads(graph_node(g, k->body.data[i]), k->body.data[j]);
        if (k->body.data[i] == k->anchor)
            return made_of_it[i];
    }
    return false;
}

// Is `id` read by this kernel only at the point that is being stored: as an operand of elementwise nodes that
// the anchor does not need?
static bool is_read_point_wise(const PlanKernel *k, const Graph *g, NodeId id)
{
    for (uint32_t i = 0; i < k->body.len; i++) {
        const Node *n = graph_node(g, k->body.data[i]);
        if (!reads(n, id))
            continue;
        if (!op_is_pointwise((OpId)n->op) || k->body.data[i] == k->anchor ||
            (k->body.data[i] < k->anchor && feeds_anchor(k, g, i)))
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
    return planner_buffer(m, owner)->last == at && !m->is_output[owner] && !m->is_staged[owner] &&
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
    rlx_assert(from != with && m->owner[owner] == owner);
    m->owner[from] = owner;
    planner_buffer(m, from)->shares = owner;
    planner_buffer(m, owner)->last = planner_buffer(m, from)->last;
    m->is_output[owner] |= m->is_output[from];
}

// May the kernel's root overwrite the value `id`: it dies here, has the same strides and is read point by
// point?
static bool can_overwrite(Planner *m, const PlanKernel *k, uint32_t at, NodeId id)
{
    const Graph *g = m->plan->graph;
    const Loc *in = &m->plan->locs.data[id], *out = &m->plan->locs.data[k->root];
    const Node *n = graph_node(g, id), *root = graph_node(g, k->root);
    if (id == 0 || !planner_is_arena(m, in->buf) || in->buf == out->buf || n->shape != root->shape ||
        n->dtype != root->dtype)
        return false;
    const BufId owner = m->owner[in->buf];
    rlx_assert(owner != 0 && m->owner[owner] == owner);
    if (in->offset != out->offset ||
        planner_buffer(m, in->buf)->bytes != planner_buffer(m, out->buf)->bytes ||
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
    if (!planner_is_arena(m, out) || m->owner[out] != out || planner_buffer(m, out)->first != at ||
        m->is_staged[out])
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

void memplan_share(Planner *m)
{
    for (uint32_t i = 0; i < m->plan->kernels.len; i++)
        try_in_place(m, i);
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

void memplan_carry(Planner *m)
{
    rlx_assert(m->pass->frame != NULL);
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
