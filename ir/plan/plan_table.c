// SPDX-License-Identifier: Apache-2.0
// See plan_table.h.
#include "ir/plan/plan_table.h"
#include <string.h>

// --- counts --------------------------------------------------------------------------------------

static void end_group(PlanCounts *c, uint32_t size)
{
    if (size == 0)
        return;
    c->groups++;
    c->largest_group = size > c->largest_group ? size : c->largest_group;
    c->groups_by_size[(size < PLAN_GROUP_SIZES ? size : PLAN_GROUP_SIZES) - 1]++;
}

static bool opens_group(const Plan *p, uint32_t kernel)
{
    return p->caps->is_gpu ? plan_opens_group(p, kernel) : p->kernels.data[kernel].threads.waits;
}

// Recursion: as deep as loops nest.
static void count(const Plan *p, PlanCounts *c)
{
    uint32_t size = 0; // of the group so far; loops are none
    c->barriers_placed += p->gpu.n_barriers_placed;
    c->moved += p->gpu.n_moved;
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        if (opens_group(p, i)) {
            c->barriers++;
            end_group(c, size);
            size = 0;
        }
        c->barriers += k->threads.phases.len != 0 ? k->threads.phases.len - 1u : 0u;
        if (k->loop != NULL) {
            count(k->loop->body, c);
            continue;
        }
        size++;
        c->launches++;
        c->fused += k->body.len != 0 ? k->body.len - 1u : 0u;
    }
    end_group(c, size);
}

PlanCounts plan_counts(const Plan *p)
{
    rlx_assert(p->caps != NULL);
    PlanCounts c = {.split = p->gpu.split != 0 ? p->gpu.split - p->prepare.n_kernels : 0};
    count(p, &c);
    if (!p->caps->is_gpu) // where they are placed once
        c.barriers_placed = c.barriers;
    return c;
}

// --- nodes of buffers ----------------------------------------------------------------------------

PlanNodes plan_nodes(const Plan *p, Arena *a)
{
    rlx_assert(p->locs.len == p->graph->nodes.len);
    PlanNodes n = {p, ARENA_ARRAY(a, NodeId, p->buffers.len + 1u), ARENA_ARRAY(a, NodeId, p->locs.len + 1u)};
    for (NodeId id = p->locs.len; id-- > 1;) { // so that lists are ascending
        const BufId b = p->locs.data[id].buf;
        n.next[id] = n.first[b];
        n.first[b] = id;
    }
    n.first[0] = 0;
    return n;
}

// The node of which an output or kept value is a copy; 0: none.
static NodeId copied_node(const Plan *p, BufId b)
{
    for (uint32_t i = 0; i < p->outputs.len; i++)
        if (p->outputs.data[i].buf == b && p->outputs.data[i].byte_offset == 0)
            return p->outputs.data[i].node;
    for (uint32_t i = 0; i < p->kept.len; i++)
        if (p->kept.data[i].buf == b && p->kept.data[i].byte_offset == 0)
            return p->kept.data[i].node;
    return 0;
}

NodeId plan_buffer_node(const PlanNodes *n, BufId b)
{
    rlx_assert(b < n->plan->buffers.len);
    const char *name = n->plan->buffers.data[b].name;
    for (NodeId id = n->first[b]; id != 0 && name != NULL; id = n->next[id])
        if (strcmp(node_name(n->plan->graph, id), name) == 0)
            return id;
    return n->first[b] != 0 ? n->first[b] : copied_node(n->plan, b);
}

const char *plan_buffer_nodes(const PlanNodes *n, BufId b, Arena *a)
{
    rlx_assert(b < n->plan->buffers.len);
    Str out = str_new(a);
    for (NodeId id = n->first[b]; id != 0; id = n->next[id])
        str_printf(&out, "%s%s", out.len == 0 ? "" : ", ", node_name(n->plan->graph, id));
    if (out.len == 0 && copied_node(n->plan, b) != 0)
        str_add(&out, node_name(n->plan->graph, copied_node(n->plan, b)));
    return str_text(&out);
}
