// SPDX-License-Identifier: Apache-2.0
// What joins products of few rows (matvec.h) beyond what group.c finds: they take in the norm of their rows,
// which each of several computes again, and a second product of the same rows that only their epilogue reads.
// Other products take in numbers by which their operands are multiplied, and casts of 8-bit floats. And
// rotated keys, which go straight into their cache.
#include "ir/shape/forms.h"
#include "passes/graph/simplify_eighths.h"
#include "passes/graph/simplify_scale.h"
#include "passes/lower/blocks/blocks_product.h"
#include "passes/lower/product/experts.h"
#include "passes/lower/product/matmul.h"
#include "passes/lower/product/matvec.h"
#include "passes/plan/group.h"

#include <string.h>

typedef struct Products {
    Pass *pass;
    const Plan *plan;
    const Graph *g;
    Groups *groups;
    uint32_t *size; // by root: nodes of the group
} Products;

static bool is_alone(const Products *p, NodeId id)
{
    return p->groups->root[id] == id && p->size[id] == 1;
}

static bool are_same_rows(const Graph *g, NodeId one, NodeId other)
{
    const Node *a = graph_node(g, one), *b = graph_node(g, other);
    if (experts_are_product(a) && !experts_are_alike(g, a, b))
        return false;
    return a->src[0] == b->src[0] && a->shape == b->shape &&
           graph_node(g, a->src[1])->shape == graph_node(g, b->src[1])->shape && a->op == b->op &&
           (a->op != OP_block_matmul || strcmp(node_get_str(a, A_block_matmul_format),
                                               node_get_str(b, A_block_matmul_format)) == 0);
}

static bool is_product(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return matmul_form(n).is_there || n->op == OP_block_matmul || experts_are_product(n);
}

// Is a value read as rows of products only? Then it is nobody's part.
static bool has_alike_users(const Products *p, NodeId id)
{
    const Uses *u = &p->groups->uses;
    for (uint32_t i = u->first[id]; i < u->first[id + 1]; i++) {
        const Node *user = graph_node(p->g, u->user[i]);
        if (u->user[i] == 0 || !matmul_form(user).is_there || user->src[0] != id)
            return false;
    }
    return true;
}

// May another product of the same rows be computed in the same kernel?
static bool takes_second(const Products *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    if (experts_are_product(n))
        return p->pass->options->moe_slots == 0 && experts_take_second(p->plan, id);
    if (!matmul_form(n).is_there)
        return block_stream_takes(p->pass, id);
    return matvec_takes(p->plan, id) ||
           (has_alike_users(p, n->src[0]) && gpu_matmul_takes_second(p->plan, id));
}

static bool is_number(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return n->op == OP_const && shape_numel(n->shape) == 1;
}

// Does the group of a product have nothing but what follows from its sums (casts, silu)?
static bool is_chain(const Products *p, NodeId product, NodeId root)
{
    for (NodeId i = product + 1; i <= root; i++) {
        const Node *n = graph_node(p->g, i);
        for (uint32_t j = 0; p->groups->root[i] == root && j < n->n_src; j++)
            if (p->groups->root[n->src[j]] != root && !is_number(p->g, n->src[j]))
                return false;
    }
    return true;
}

// silu(x A) * (x B): the groups of both products become one.
static void join_second(Products *p, NodeId id)
{
    const Uses *u = &p->groups->uses;
    const NodeId own = p->groups->root[id];
    const uint32_t first = u->first[own];
    const NodeId user = u->first[own + 1] - first == 1 ? u->user[first] : 0;
    const NodeId root = user != 0 ? p->groups->root[user] : 0;
    const NodeId anchor = root != 0 ? p->groups->anchor[root] : 0;
    if (own == 0 || root == own || p->groups->anchor[own] != id || anchor == 0 || user == anchor ||
        !is_product(p->g, anchor) || !are_same_rows(p->g, id, anchor) || !takes_second(p, id) ||
        !takes_second(p, anchor) || !is_chain(p, id, own))
        return;
    for (NodeId i = 1; i < root; i++) // there is room for one more
        if (i != anchor && p->groups->root[i] == root && is_product(p->g, i))
            return;
    for (NodeId i = id; i <= own; i++)
        p->groups->root[i] = p->groups->root[i] == own ? root : p->groups->root[i];
    p->size[root] += p->size[own];
}

// One number for each element of a row, of the same type, that no kernel makes.
static bool is_plain_scale(const Graph *g, const Node *norm)
{
    if (norm->n_src < 2 || norm->src[1] == 0)
        return true;
    const Node *scale = graph_node(g, norm->src[1]);
    return (scale->op == OP_param || scale->op == OP_const) && scale->dtype == norm->dtype &&
           shape_numel(scale->shape) == norm->shape->dim[norm->shape->rank - 1];
}

// What products read of a norm: itself, or its cast to 16 bits, where that is all that reads it. 0: neither.
static NodeId end_of_norm(const Products *p, NodeId id)
{
    const Uses *u = &p->groups->uses;
    const NodeId root = p->groups->root[id];
    if (is_alone(p, id))
        return id;
    return graph_node(p->g, id)->dtype == DTYPE_f32 && p->size[root] == 2 &&
                   k_is_half(graph_node(p->g, root)->dtype) && u->first[id + 1] - u->first[id] == 1
               ? root
               : 0;
}

static void take_in_norm(Products *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    const Uses *u = &p->groups->uses;
    const NodeId end = end_of_norm(p, id);
    if (end == 0 || node_get_int(n, A_rms_norm_axis) != (int64_t)n->shape->rank - 1 ||
        !is_plain_scale(p->g, n))
        return;
    for (uint32_t i = u->first[end]; i < u->first[end + 1]; i++) {
        const Node *user = graph_node(p->g, u->user[i]);
        if (u->user[i] == 0 || !matvec_takes(p->plan, u->user[i]) || user->src[0] != end)
            return;
    }
    p->groups->root[id] = p->groups->root[end] = 0;
    p->groups->taken_in[id] = p->groups->taken_in[end] = true;
}

static bool takes_scale(const Products *p, NodeId user)
{
    const Node *n = graph_node(p->g, user);
    return user != 0 && matmul_form(n).is_there && lower_is_float(n->dtype) && n->src[0] != n->src[1] &&
           (n->n_src < 3 || n->src[2] == 0) && !matvec_takes(p->plan, user);
}

// x * 0.125 of a product's operand: the sums are scaled, and no kernel is left of it.
static void take_in_scale(Products *p, NodeId id)
{
    const Uses *u = &p->groups->uses;
    double factor = 0;
    if (!is_alone(p, id) || u->first[id] == u->first[id + 1] || scaled_value(p->g, id, &factor) == 0)
        return;
    for (uint32_t i = u->first[id]; i < u->first[id + 1]; i++)
        if (!takes_scale(p, u->user[i]))
            return;
    p->groups->root[id] = 0;
    p->groups->taken_in[id] = true;
}

// Does everyone who reads a cast multiply it with another one? *other: the last of these.
static bool is_multiplied(const Products *p, NodeId id, NodeId *other)
{
    const Uses *u = &p->groups->uses;
    NodeId casts[2];
    for (uint32_t i = u->first[id]; i < u->first[id + 1]; i++) {
        if (u->user[i] == 0 || !eighths_are_read(p->g, u->user[i], casts))
            return false;
        *other = casts[0] == id ? casts[1] : casts[0];
    }
    return u->first[id] != u->first[id + 1];
}

// Do units that multiply it read what was cast, on both sides?
static bool is_read_as_it_was(const Products *p, NodeId id)
{
    NodeId other = 0, back = 0;
    return is_multiplied(p, id, &other) && is_multiplied(p, other, &back);
}

// The last node of a group, or one by itself, is cast by those who read it. What was before it is a group
// without it.
static void take_in_cast(Products *p, NodeId id)
{
    NodeId *root = p->groups->root;
    const NodeId from = eighths_cast_of(p->g, id);
    const bool is_last = root[id] == id && p->size[id] > 1 && root[from] == id;
    if (!p->plan->caps->has_mma || (!is_alone(p, id) && !is_last) || !is_read_as_it_was(p, id))
        return;
    root[id] = 0;
    p->groups->taken_in[id] = true;
    if (!is_last)
        return;
    for (NodeId other = 1; other < id; other++)
        root[other] = root[other] == id ? from : root[other];
    p->size[from] = p->size[id] - 1;
    p->groups->anchor[from] = p->groups->anchor[id];
}

// Not where every node is a kernel, nor in loops, whose bodies have their operands anywhere.
static bool may_join(const Pass *p)
{
    return p->options->opt_level >= 1 && !p->options->no_fuse && p->frame == NULL &&
           p->plan->caps->shared_bytes != 0;
}

void group_join_products(Pass *pass, Groups *groups)
{
    rlx_assert(groups->root != NULL && groups->taken_in != NULL);
    const Plan *plan = pass->plan;
    const uint32_t n = plan->graph->nodes.len;
    Products p = {.pass = pass, .plan = plan, .g = plan->graph, .groups = groups};
    if (!may_join(pass))
        return;
    p.size = ARENA_ARRAY(pass->scratch, uint32_t, n);
    for (NodeId id = 1; id < n; id++)
        p.size[groups->root[id]]++;
    for (NodeId id = 1; id < n; id++)
        if (is_product(p.g, id))
            join_second(&p, id);
    for (NodeId id = 1; id < n; id++)
        if (graph_node(p.g, id)->op == OP_rms_norm)
            take_in_norm(&p, id);
        else if (eighths_cast_of(p.g, id) != 0)
            take_in_cast(&p, id);
        else
            take_in_scale(&p, id);
}

// --- states -------------------------------------------------------------------------------------

// Is all that a patch may begin at a multiple of 16 bytes away from the first element? Wide stores need that.
static bool begins_aligned(const Plan *plan, const Node *update)
{
    const Graph *g = plan->graph;
    const Shape *whole = update->shape, *part = graph_node(g, update->src[1])->shape;
    const Loc *to = &plan->locs.data[update->src[0]];
    for (uint32_t i = 0; i < whole->rank; i++)
        if (whole->dim[i] != part->dim[i] && to->stride[i] * dtype_info[update->dtype].bytes % 16 != 0)
            return false;
    return true;
}

// Is the state updated in place with what one kernel makes, which nobody else reads?
static bool takes_patch(const Plan *plan, const Groups *groups, const GraphState *s)
{
    const Graph *g = plan->graph;
    const Node *next = graph_node(g, s->next);
    const Loc *to = &plan->locs.data[s->next];
    if (!update_is_whole(next) || to->buf == 0 ||
        to->buf != plan->locs.data[s->node].buf || next->src[0] != s->node || !begins_aligned(plan, next))
        return false;
    const NodeId patch = next->src[1], anchor = groups->anchor[patch];
    const Uses *u = &groups->uses;
    const bool can_patch = (op_info[graph_node(g, anchor)->op].flags & OPFLAG_PATCH) != 0;
    return groups->root[patch] == patch && anchor != 0 && can_patch &&
           u->first[patch + 1] - u->first[patch] == 1 && plan->locs.data[patch].buf == 0 &&
           next->src[2] < anchor; // what is older does not depend on it
}

void group_join_patches(Pass *p, Groups *groups)
{
    rlx_assert(p->plan->locs.len == p->graph->nodes.len);
    const Plan *plan = p->plan;
    const Graph *g = plan->graph;
    NodeId *update = ARENA_ARRAY(p->scratch, NodeId, g->nodes.len); // by root of a patch
    for (uint32_t i = 0; may_join(p) && i < g->states.len; i++) {
        const GraphState *s = &g->states.data[i];
        if (!takes_patch(plan, groups, s))
            continue;
        const NodeId patch = graph_node(g, s->next)->src[1];
        update[patch] = s->next;
        plan->locs.data[patch] = plan->locs.data[s->next];
        groups->anchor[s->next] = groups->anchor[patch];
    }
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (update[groups->root[id]] != 0)
            groups->root[id] = update[groups->root[id]];
}

// In the order of the graph.
static void insert_member(const Plan *plan, PlanKernel *k, NodeId id)
{
    vec_push(plan->arena, &k->body, id);
    for (uint32_t i = k->body.len - 1; i > 0 && k->body.data[i - 1] > id; i--) {
        k->body.data[i] = k->body.data[i - 1];
        k->body.data[i - 1] = id;
    }
}

// Recursion: what is taken in is a norm and its cast at most.
static void add_taken_in(const Plan *plan, const Groups *groups, NodeId id, PlanKernel *k)
{
    const Node *n = graph_node(plan->graph, id);
    for (uint32_t i = 0; i < n->n_src; i++) {
        bool is_new = groups->taken_in[n->src[i]];
        for (uint32_t j = 0; j < k->body.len; j++)
            is_new = is_new && k->body.data[j] != n->src[i];
        if (!is_new)
            continue;
        add_taken_in(plan, groups, n->src[i], k);
        insert_member(plan, k, n->src[i]);
    }
}

void group_add_member(const Plan *plan, const Groups *groups, NodeId id, PlanKernel *k)
{
    rlx_assert(id != 0 && groups->root[id] == k->root);
    add_taken_in(plan, groups, id, k);
    vec_push(plan->arena, &k->body, id);
}
