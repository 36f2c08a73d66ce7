// SPDX-License-Identifier: Apache-2.0
// Grouping by post-dominators: a node joins the group of the node d through which all its uses flow, when
// everything on the way is elementwise, of one shape and one axis order. That covers chains, diamonds (x *
// sigmoid(x) spelled out), residual adds and reductions with what feeds them, and can never make a cycle
// between kernels.
#include "passes/plan/group.h"
#include "passes/live/live.h"

enum { GROUP_MAX_NODES = 48, PROLOGUE_MAX_COST = 40, REPEATED_MAX_COST = 6 };

typedef struct Grouper {
    const Plan *plan;
    const Graph *g;
    Arena *arena;
    Groups out;
    NodeId *ipdom;    // immediate post-dominator, 0 = the exit
    uint32_t *depth;  // of the post-dominator tree
    uint32_t *size;   // by root: nodes in the group
    uint32_t *weight; // by root: summed cost of its elementwise nodes
    NodeId *next;     // by node: another member of the same group (circular list)
} Grouper;

static bool is_ew(const Node *n)
{
    return op_is_pointwise((OpId)n->op);
}

static Uses collect_uses(const Graph *g, Arena *a)
{
    const uint32_t n = g->nodes.len;
    uint32_t *first = ARENA_ARRAY(a, uint32_t, n + 2);
    for (NodeId id = 1; id < n; id++)
        for (uint32_t i = 0; i < graph_node(g, id)->n_src; i++)
            first[graph_node(g, id)->src[i] + 1]++;
    for (RootWalk w = {0};
         graph_next_root(g, ROOT_RESULTS | ROOT_SIZE, &w);) // kernels read sizes from memory
        first[w.id + 1]++;
    for (uint32_t i = 0; i <= n; i++)
        first[i + 1] += first[i];
    uint32_t *fill = arena_copy(a, first, (n + 1) * sizeof *first);
    NodeId *user = ARENA_ARRAY(a, NodeId, first[n] + 1);
    for (RootWalk w = {0}; graph_next_root(g, ROOT_RESULTS | ROOT_SIZE, &w);)
        user[fill[w.id]++] = 0;
    for (NodeId id = 1; id < n; id++)
        for (uint32_t i = 0; i < graph_node(g, id)->n_src; i++)
            user[fill[graph_node(g, id)->src[i]]++] = id;
    return (Uses){.first = first, .user = user};
}

// 0 when it is the exit, or further away than a group is large: nothing would be merged that far.
static NodeId common_dominator(const Grouper *s, NodeId a, NodeId b)
{
    for (uint32_t steps = 0; a != b && a != 0 && b != 0; steps++) {
        if (steps > 2 * GROUP_MAX_NODES)
            return 0;
        if (s->depth[a] >= s->depth[b])
            a = s->ipdom[a];
        else
            b = s->ipdom[b];
    }
    return a == b ? a : 0;
}

// Users come after their operands, so one descending sweep sees every user first. The walk is bounded: a
// group is small.
static void find_post_dominators(Grouper *s)
{
    for (NodeId id = s->g->nodes.len - 1; id > 0; id--) {
        const Uses *u = &s->out.uses;
        const uint32_t begin = u->first[id], end = u->first[id + 1];
        NodeId d = begin < end ? u->user[begin] : 0;
        if (end - begin > GROUP_MAX_NODES)
            d = 0;
        for (uint32_t i = begin; i < end && d != 0; i++)
            d = u->user[i] == 0 ? 0 : common_dominator(s, d, u->user[i]);
        s->ipdom[id] = d;
        s->depth[id] = d == 0 ? 1 : s->depth[d] + 1;
    }
}

static bool same_place(const Grouper *s, NodeId a, NodeId b)
{
    return graph_node(s->g, a)->shape == graph_node(s->g, b)->shape &&
           s->plan->orders.data[a] == s->plan->orders.data[b];
}

// How much elementwise work in front of an operand an op takes into its kernel.
static uint32_t prologue_budget(const Node *n)
{
    static const uint8_t budget[OPJOINS_COUNT] = {[OPJOINS_ONCE] = PROLOGUE_MAX_COST,
                                                  [OPJOINS_AGAIN] = REPEATED_MAX_COST,
                                                  [OPJOINS_INDEX] = PROLOGUE_MAX_COST};
    return budget[op_info[n->op].joins];
}

// The operand in front of which it does; -1: none.
static int prologue_operand(const Grouper *s, const Node *n)
{
    if (prologue_budget(n) == 0)
        return -1;
    if (op_info[n->op].joins != OPJOINS_INDEX)
        return 0;
    return graph_node(s->g, n->src[0])->shape->rank == 1 ? 1 : -1;
}

typedef struct Path {
    NodeId node[GROUP_MAX_NODES];
    uint32_t len;
} Path;

static bool path_has(const Path *p, NodeId id)
{
    for (uint32_t i = 0; i < p->len; i++)
        if (p->node[i] == id)
            return true;
    return false;
}

// `from` and all nodes strictly between it and its post-dominator `to`. False when one of these is no
// elementwise node of the same place.
static bool collect_path(const Grouper *s, NodeId from, NodeId to, Path *path)
{
    path->node[0] = from;
    path->len = 1;
    for (uint32_t at = 0; at < path->len; at++) {
        const NodeId id = path->node[at];
        for (uint32_t i = s->out.uses.first[id]; i < s->out.uses.first[id + 1]; i++) {
            const NodeId user = s->out.uses.user[i];
            if (user == to || path_has(path, user))
                continue;
            if (!is_ew(graph_node(s->g, user)) || !same_place(s, from, user) || path->len == GROUP_MAX_NODES)
                return false;
            path->node[path->len++] = user;
        }
    }
    return true;
}

// May the nodes on the path become the prologue of `to`?
static bool is_prologue_of(const Grouper *s, const Path *path, NodeId to)
{
    const Node *d = graph_node(s->g, to);
    const int operand = prologue_operand(s, d);
    if (operand < 0 || !path_has(path, d->src[operand]) ||
        !same_place(s, path->node[0], d->src[operand]))
        return false;
    for (uint32_t i = 0; i < d->n_src; i++)
        if ((int)i != operand && path_has(path, d->src[i]))
            return false;
    for (uint32_t i = 0; i < path->len; i++)
        if (!is_ew(graph_node(s->g, path->node[i])))
            return false;
    return true;
}

typedef struct Merge {
    NodeId root, anchor;
    uint32_t size, weight;
    bool possible;
} Merge;

// Nothing may join the group of an op whose kernel is its own.
static bool is_alone(const Grouper *s, NodeId anchor)
{
    return op_info[graph_node(s->g, anchor)->op].joins == OPJOINS_ALONE;
}

static void merge_add(const Grouper *s, Merge *m, NodeId root)
{
    if (root == m->root)
        return;
    const NodeId anchor = s->out.anchor[root];
    m->possible = m->possible && (m->anchor == 0 || anchor == 0) && !is_alone(s, anchor);
    m->anchor = m->anchor != 0 ? m->anchor : anchor;
    m->size += s->size[root];
    m->weight += s->weight[root];
    m->root = root > m->root ? root : m->root;
}

// Gives all members of the group of `from` the root `to` and joins the member lists.
static void relabel(Grouper *s, NodeId from, NodeId to)
{
    if (from == to)
        return;
    NodeId id = from;
    do {
        s->out.root[id] = to;
        id = s->next[id];
    } while (id != from);
    const NodeId after = s->next[from];
    s->next[from] = s->next[to];
    s->next[to] = after;
}

// Adds what the members of a group read of other nodes than those of `roots` and is no number in the text.
static void add_operands(const Grouper *s, NodeId member, const NodeId *roots, uint32_t n_roots, Path *out)
{
    NodeId id = member;
    do {
        const Node *n = graph_node(s->g, id);
        for (uint32_t i = 0; i < n->n_src; i++) {
            const Node *src = graph_node(s->g, n->src[i]);
            bool is_inside = src->op == OP_const && shape_numel(src->shape) == 1;
            for (uint32_t j = 0; j < n_roots; j++)
                is_inside = is_inside || s->out.root[n->src[i]] == roots[j];
            if (!is_inside && !path_has(out, n->src[i]) && out->len < GROUP_MAX_NODES)
                out->node[out->len++] = n->src[i];
        }
        id = s->next[id];
    } while (id != member);
}

// Has a kernel of these groups too many parameters for the target? What it writes, and sizes, have some.
static bool reads_too_much(const Grouper *s, const NodeId *roots, uint32_t n)
{
    enum { OTHERS = 4 };
    const uint32_t most = s->plan->caps->max_params;
    Path operands = {.len = 0};
    for (uint32_t i = 0; i < n && most != 0; i++)
        add_operands(s, roots[i], roots, n, &operands);
    return most != 0 && operands.len + OTHERS > most;
}

static void try_merge(Grouper *s, NodeId id)
{
    const NodeId to = s->ipdom[id];
    Path path;
    if (to == 0 || s->out.root[to] == 0 || !collect_path(s, id, to, &path))
        return;
    const bool joins_ew = is_ew(graph_node(s->g, to)) && same_place(s, id, to);
    if (!joins_ew && !is_prologue_of(s, &path, to))
        return;
    Merge m = {.root = id,
               .anchor = s->out.anchor[id],
               .size = s->size[id],
               .weight = s->weight[id],
               .possible = !is_alone(s, s->out.anchor[id])};
    NodeId seen[GROUP_MAX_NODES + 2];
    uint32_t n_seen = 0;
    for (uint32_t i = 1; i <= path.len; i++) {
        const NodeId root = s->out.root[i < path.len ? path.node[i] : to];
        bool is_new = root != id;
        for (uint32_t j = 0; j < n_seen; j++)
            is_new = is_new && seen[j] != root;
        if (is_new) {
            seen[n_seen++] = root;
            merge_add(s, &m, root);
        }
    }
    const uint32_t budget = m.anchor != 0 ? prologue_budget(graph_node(s->g, m.anchor)) : 0;
    if (!m.possible || m.size > GROUP_MAX_NODES || (budget != 0 && m.anchor > id && m.weight > budget))
        return;
    seen[n_seen] = id;
    if (reads_too_much(s, seen, n_seen + 1))
        return;
    relabel(s, id, m.root);
    for (uint32_t j = 0; j < n_seen; j++)
        relabel(s, seen[j], m.root);
    s->out.anchor[m.root] = m.anchor;
    s->size[m.root] = m.size;
    s->weight[m.root] = m.weight;
}

// Bytes of an anchored group that become wide numbers behind it: a cut here stores the least.
static bool is_narrow_end(const Grouper *s, NodeId id)
{
    const NodeId to = s->ipdom[id];
    const int from = graph_node(s->g, id)->dtype;
    return to != 0 && s->out.anchor[id] != 0 && k_is_byte(from) && graph_node(s->g, to)->op == OP_cast &&
           !k_is_byte(graph_node(s->g, to)->dtype);
}

// A mask behind an anchored group: what reads it may end its loops there, and needs no mask then.
static bool is_mask_end(const Grouper *s, NodeId id)
{
    const NodeId to = s->ipdom[id];
    const LiveFacts *f =
        to != 0 && op_info[graph_node(s->g, to)->op].ew == EW_SEL ? live_facts(s->plan, to) : NULL;
    for (uint32_t i = 0; f != NULL && s->out.anchor[id] != 0 && i < SHAPE_MAX_RANK; i++)
        if (f->axis[i].fill.size != 0)
            return true;
    return false;
}

// Two sums that meet cannot both take in what follows. So first all groups end where values are bytes, and
// before masks, then those that can go on.
static void merge_all(Grouper *s)
{
    for (NodeId id = 1; id < s->g->nodes.len; id++)
        if (s->out.root[id] == id && !is_narrow_end(s, id) && !is_mask_end(s, id))
            try_merge(s, id);
    for (NodeId id = 1; id < s->g->nodes.len; id++)
        if (s->out.root[id] == id && (is_narrow_end(s, id) || is_mask_end(s, id)))
            try_merge(s, id);
}

// The root of a group is its last node, and its own root.
static bool are_roots_last(const Grouper *s)
{
    for (NodeId id = 1; id < s->g->nodes.len; id++) {
        const NodeId root = s->out.root[id];
        if (root != 0 && (root < id || s->out.root[root] != root))
            return false;
    }
    return true;
}

Groups group_nodes(const Plan *plan, Arena *a, GroupMode mode)
{
    rlx_assert(plan->orders.len == plan->graph->nodes.len);
    const Graph *g = plan->graph;
    const uint32_t n = g->nodes.len;
    Grouper s = {.plan = plan, .g = g, .arena = a};
    s.out.uses = collect_uses(g, a);
    s.out.root = ARENA_ARRAY(a, NodeId, n);
    s.out.anchor = ARENA_ARRAY(a, NodeId, n);
    s.ipdom = ARENA_ARRAY(a, NodeId, n);
    s.depth = ARENA_ARRAY(a, uint32_t, n);
    s.size = ARENA_ARRAY(a, uint32_t, n);
    s.weight = ARENA_ARRAY(a, uint32_t, n);
    s.next = ARENA_ARRAY(a, NodeId, n);
    for (NodeId id = 1; id < n; id++) {
        const Node *node = graph_node(g, id);
        s.out.root[id] = op_is_computed((OpId)node->op) ? id : 0;
        s.out.anchor[id] = s.out.root[id] == id && !is_ew(node) ? id : 0;
        s.size[id] = 1;
        s.weight[id] = is_ew(node) ? (op_info[node->op].cost != 0 ? op_info[node->op].cost : 1u) : 0;
        s.next[id] = id;
    }
    if (mode == GROUP_FUSE) {
        find_post_dominators(&s);
        merge_all(&s);
    }
    s.out.taken_in = ARENA_ARRAY(a, bool, n);
    rlx_assert(are_roots_last(&s));
    return s.out;
}
