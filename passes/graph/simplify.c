// SPDX-License-Identifier: Apache-2.0
// Simplification: the rules of rules.def and the structural functions of simplify_*.c, applied to every node
// until nothing changes. This file decides what is taken: it keeps the uses of all nodes up to date while the
// graph is rewritten, so that the cost of what a replacement adds can be held against the cost of what it
// makes superfluous.
#include "passes/graph/simplify.h"
#include "ir/graph/intern.h"
#include "passes/graph/cost.h"
#include "passes/graph/fold.h"
#include "passes/graph/rules.h"

// Rewrites are confluent in practice: a graph settles in three or four rounds. The limits only stop two rules
// that undo each other.
enum { MAX_ROUNDS = 12, MAX_STEPS = 16 };

typedef struct Driver {
    Simplify s;
    const RuleSet *rules;
    VEC(uint32_t) uses;  // of the nodes as rewritten so far; see rename_node
    VEC(NodeId) pending; // of drop_use and add_use
} Driver;

static const SimplifyFn ew_steps[] = {simplify_broadcast, simplify_weights, simplify_shuffled,
                                      simplify_rows};

// The functions for an op that is not elementwise, in the order in which they are tried.
enum { MAX_FNS = 4 };
static const SimplifyFn steps[OP_COUNT][MAX_FNS] = {
    [OP_reshape] = {simplify_reshape},
    [OP_transpose] = {simplify_transpose, simplify_transposes},
    [OP_expand] = {simplify_expand},
    [OP_cast] = {simplify_cast, simplify_rows},
    [OP_bitcast] = {simplify_bitcast, simplify_rows},
    [OP_copy] = {simplify_copy},
    [OP_reduce_sum] = {simplify_reduce},
    [OP_reduce_mean] = {simplify_reduce},
    [OP_reduce_max] = {simplify_reduce},
    [OP_reduce_min] = {simplify_reduce},
    [OP_reduce_prod] = {simplify_reduce},
    [OP_slice] = {simplify_slice},
    [OP_concat] = {simplify_concat},
    [OP_gather] = {simplify_gather},
    [OP_pad] = {simplify_pad},
    [OP_block_decode] = {simplify_block_decode},
    [OP_int_conv] = {simplify_window_pad},
    [OP_conv] = {simplify_window_pad, simplify_taps, simplify_shuffle, simplify_scale_conv},
    [OP_max_pool] = {simplify_window_pad, simplify_max_pool},
    [OP_avg_pool] = {simplify_window_pad},
    [OP_matmul] = {simplify_matmul, simplify_spelled_attention, simplify_scaled_product},
    [OP_attention] = {simplify_cached_attention},
};

// --- uses ---

static void grow_uses(Driver *d)
{
    while (d->uses.len < d->s.g->nodes.len)
        vec_push(d->s.scratch, &d->uses, 0);
    d->s.uses = d->uses.data;
}

// Uses by nodes that are needed, and by the graph itself of all that the rewriting driver visits.
static void count_uses(Driver *d)
{
    const Graph *g = d->s.g;
    d->uses.len = 0;
    grow_uses(d);
    uint32_t *uses = d->uses.data;
    const bool *is_live = graph_mark_live(g, d->s.scratch);
    for (RootWalk w = {0}; graph_next_root(g, ROOT_ALL & ~ROOT_SIZE, &w);)
        uses[w.id]++;
    for (uint32_t i = 0; i < g->lives.len; i++)
        uses[g->lives.data[i].size] += is_live[g->lives.data[i].node];
    for (NodeId id = g->nodes.len; id-- > 1;)
        for (uint32_t i = 0; uses[id] > 0 && i < graph_node(g, id)->n_src; i++)
            uses[graph_node(g, id)->src[i]]++;
    uses[0] = 0;
}

// Takes `count` uses from a node. One that loses its last use takes a use from its operands; the result is
// the cost of all nodes that went this way.
static double drop_uses(Driver *d, NodeId id, uint32_t count)
{
    const Graph *g = d->s.g;
    uint32_t *uses = d->uses.data;
    double cost = 0;
    rlx_assert(uses[id] >= count);
    uses[id] -= count;
    d->pending.len = 0;
    if (uses[id] == 0 && count > 0)
        vec_push(d->s.scratch, &d->pending, id);
    while (d->pending.len > 0) {
        const NodeId dead = d->pending.data[--d->pending.len];
        const Node *n = graph_node(g, dead);
        cost += cost_node(g, dead);
        for (uint32_t i = 0; i < n->n_src; i++)
            if (n->src[i] != 0 && --uses[n->src[i]] == 0)
                vec_push(d->s.scratch, &d->pending, n->src[i]);
    }
    return cost;
}

// The reverse: a node that gets its first use gives one to its operands.
static double add_uses(Driver *d, NodeId id, uint32_t count)
{
    const Graph *g = d->s.g;
    uint32_t *uses = d->uses.data;
    double cost = 0;
    d->pending.len = 0;
    if (uses[id] == 0 && count > 0)
        vec_push(d->s.scratch, &d->pending, id);
    uses[id] += count;
    while (d->pending.len > 0) {
        const NodeId alive = d->pending.data[--d->pending.len];
        const Node *n = graph_node(g, alive);
        cost += cost_node(g, alive);
        for (uint32_t i = 0; i < n->n_src; i++)
            if (n->src[i] != 0 && uses[n->src[i]]++ == 0)
                vec_push(d->s.scratch, &d->pending, n->src[i]);
    }
    return cost;
}

// The driver has put `id`, which reads the replacements of its operands, in the place of `old`. Uses of
// operands went to their replacements when these were made, so only the node itself changes hands.
static void rename_node(NodeId old, NodeId id, void *ctx)
{
    Driver *d = ctx;
    grow_uses(d);
    rlx_assert(graph_node(d->s.g, old)->op == graph_node(d->s.g, id)->op);
    const uint32_t count = d->uses.data[old];
    if (old == id)
        return;
    const bool is_merged = d->uses.data[id] > 0;
    d->uses.data[old] = 0;
    d->uses.data[id] += count;
    const Node *n = graph_node(d->s.g, id);
    for (uint32_t i = 0; is_merged && i < n->n_src; i++)
        if (n->src[i] != 0)
            drop_uses(d, n->src[i], 1);
}

// Moves all uses of a node to its replacement, unless that costs more.
static bool accept(Driver *d, NodeId id, NodeId made)
{
    grow_uses(d);
    const uint32_t count = d->uses.data[id];
    const double more = add_uses(d, made, count), less = drop_uses(d, id, count);
    if (more <= less)
        return true;
    add_uses(d, id, count);
    drop_uses(d, made, count);
    return false;
}

// --- steps ---

static bool has_same_type(const Graph *g, NodeId a, NodeId b)
{
    return graph_node(g, a)->dtype == graph_node(g, b)->dtype &&
           shape_equal(graph_node(g, a)->shape, graph_node(g, b)->shape);
}

static NodeId take(Driver *d, NodeId id, NodeId made)
{
    if (made == 0 || made == id)
        return id;
    rlx_assert(has_same_type(d->s.g, id, made));
    return accept(d, id, made) ? made : id;
}

static NodeId apply_rules(Driver *d, NodeId id)
{
    const RuleSet *set = d->rules;
    for (uint32_t i = set->first[graph_node(d->s.g, id)->op]; i != 0; i = set->next[i - 1]) {
        const NodeId made = take(d, id, rules_try(set, i - 1, d->s.g, id));
        if (made != id)
            return made;
    }
    return id;
}

static NodeId apply_list(Driver *d, NodeId id, const SimplifyFn *fns, uint32_t n)
{
    NodeId made = id;
    for (uint32_t i = 0; i < n && fns[i] && made == id; i++)
        made = take(d, id, fns[i](&d->s, id));
    return made;
}

static NodeId improve(Driver *d, NodeId id)
{
    const OpId op = (OpId)graph_node(d->s.g, id)->op;
    NodeId made = take(d, id, fold_node(d->s.g, id));
    if (made == id)
        made = apply_rules(d, id);
    if (made != id)
        return made;
    if (op_info[op].kind == OPKIND_EW)
        return apply_list(d, id, ew_steps, sizeof ew_steps / sizeof ew_steps[0]);
    return apply_list(d, id, steps[op], MAX_FNS);
}

static NodeId step(Graph *g, NodeId id, void *ctx)
{
    Driver *d = ctx;
    (void)g;
    NodeId before = 0, made = id;
    for (uint32_t i = 0; i < MAX_STEPS && made != before && d->uses.data[made] > 0; i++) {
        before = made;
        made = improve(d, before);
    }
    return made;
}

// --- rounds ---

static bool run_rounds(Pass *p, RuleClass most)
{
    Driver d = {.s = {.g = p->graph, .scratch = p->scratch, .caps = p->options->caps}};
    d.rules = rules_new(p->scratch, rule_table, rule_count, most);
    bool is_changed = false;
    for (uint32_t i = 0; i < MAX_ROUNDS; i++) {
        count_uses(&d);
        if (!graph_rewrite_watched(p->graph, rename_node, step, &d))
            break;
        is_changed = true;
    }
    return is_changed;
}

// FAST rules come last: they would take apart what the others recognise. Replacements that were not taken
// leave nodes behind even where nothing changed.
bool pass_simplify(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    const uint32_t errors = p->diag->n_errors, n_nodes = p->graph->nodes.len;
    bool is_changed = run_rounds(p, RULE_FUSED);
    if (p->options->allow_fast)
        is_changed |= run_rounds(p, RULE_FAST);
    p->failed = p->diag->n_errors != errors;
    if (p->graph->nodes.len != n_nodes)
        p->graph = graph_compact(p->graph, NULL);
    return is_changed;
}
