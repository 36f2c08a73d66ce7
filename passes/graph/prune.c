// SPDX-License-Identifier: Apache-2.0
// Takes channels out of a network that nobody reads, or whose value is always the same. A constant channel
// joins the bias of the convolutions that read it, where no padding of another value stands beside it.
// Results stay the same bit for bit in integers; sums of floats lose only terms that are zero. What is
// proved, and what is not, is in docs/FIRMWARE.md.
//
// First forward: where channels begin, how they go on, and in which range each is. Then backward: what each
// reader wants. Channels that only exist together (through sums, concats, depthwise convolutions) are a
// class, which stays if one of them is wanted. prune_build.c makes the new graph.
#include "passes/graph/prune.h"
#include "ir/graph/intern.h"
#include "passes/pass.h"

// Entries of the tables: 25 bytes each.
enum { MAX_ENTRIES = 1 << 22, LEAST_QUANTUM = 4, MOST_QUANTUM = 16 };

// --- classes -------------------------------------------------------------------------------------

static uint32_t class_of(const Prune *p, uint32_t entry)
{
    uint32_t *parent = p->parent.data;
    while (parent[entry] != entry)
        entry = parent[entry] = parent[parent[entry]];
    return entry;
}

static void join(Prune *p, uint32_t a, uint32_t b)
{
    const uint32_t x = class_of(p, a), y = class_of(p, b);
    p->parent.data[x > y ? x : y] = x < y ? x : y;
}

bool prune_keeps(const Prune *p, NodeId id, uint32_t channel)
{
    return p->is_kept[class_of(p, p->of[id].first + channel)];
}

// --- forward -------------------------------------------------------------------------------------

static bool add_entries(Prune *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    Channels *c = &p->of[id];
    p->conv[id] = prune_conv_of(p, id);
    c->axis = p->conv[id] != NULL ? 1 : prune_axis_of(p, id);
    c->first = p->range.len;
    if (c->axis != AXIS_NONE && n->shape->dim[c->axis] > MAX_ENTRIES)
        return false;
    c->n = c->axis != AXIS_NONE ? (uint32_t)n->shape->dim[c->axis] : 1;
    for (uint32_t j = 0; j < c->n; j++) {
        vec_push(p->arena, &p->range, ((Range){0, 0}));
        vec_push(p->arena, &p->parent, c->first + j);
    }
    return p->range.len <= MAX_ENTRIES;
}

// The channels of a group of a convolution live and die together, so that all groups stay alike.
static void join_groups(Prune *p, NodeId id)
{
    const PruneConv *c = p->conv[id];
    const Channels x = p->of[graph_node(p->g, id)->src[0]], y = p->of[id];
    const int64_t each = c->outputs / c->group;
    for (int64_t o = 0; o < c->outputs && c->group > 1; o++)
        join(p, y.first + (uint32_t)o, y.first + (uint32_t)(o / each * each));
    for (int64_t i = 0; x.axis == 1 && i < c->group * c->inputs && c->group > 1; i++)
        join(p, x.first + (uint32_t)i, y.first + (uint32_t)(i / c->inputs * each));
}

static void join_links(Prune *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    Link l;
    if (p->conv[id] != NULL)
        join_groups(p, id);
    for (uint32_t i = 0; i < n->n_src && p->conv[id] == NULL; i++) {
        const bool is_linked = prune_link_of(p, id, i, &l);
        for (uint32_t j = 0; is_linked && j < p->of[id].n; j++)
            if (link_channel(&l, j) >= 0)
                join(p, p->of[id].first + j, p->of[n->src[i]].first + (uint32_t)link_channel(&l, j));
    }
}

static bool go_forward(Prune *p)
{
    for (NodeId id = 1; id < p->n_nodes; id++) {
        p->of[id] = (Channels){AXIS_NONE, 0, 0};
        if (!p->is_live[id])
            continue;
        if (!add_entries(p, id))
            return false;
        prune_find_ranges(p, id);
        join_links(p, id);
    }
    p->n = p->range.len;
    return true;
}

// --- backward ------------------------------------------------------------------------------------

Want prune_want_below(const Prune *p, NodeId id, uint32_t j)
{
    const uint32_t at = p->of[id].first + j;
    return p->want[at] == WANT_EXACT && range_is_value(p->range.data[at]) ? WANT_ANY : (Want)p->want[at];
}

void prune_raise(Prune *p, NodeId id, uint32_t channel, Want want)
{
    uint8_t *at = &p->want[p->of[id].first + channel];
    *at = *at < want ? (uint8_t)want : *at;
}

void prune_raise_all(Prune *p, NodeId id, Want want)
{
    for (uint32_t j = 0; j < p->of[id].n; j++)
        prune_raise(p, id, j, want);
}

// Of an operand that has a value for all channels, or is looked at as a whole.
static void want_whole(Prune *p, NodeId id, NodeId src)
{
    Want most = op_is_pointwise((OpId)graph_node(p->g, id)->op) ? WANT_NONE : WANT_EXACT;
    for (uint32_t j = 0; j < p->of[id].n; j++) {
        const Want want = prune_want_below(p, id, j);
        most = want > most ? want : most;
    }
    prune_raise_all(p, src, p->of[src].axis != AXIS_NONE ? WANT_EXACT : most);
}

static void want_operands(Prune *p, NodeId id)
{
    const Node n = *graph_node(p->g, id);
    Link l;
    for (uint32_t i = 0; i < n.n_src; i++) {
        if (n.src[i] == 0)
            continue;
        if (!prune_link_of(p, id, i, &l)) {
            want_whole(p, id, n.src[i]);
            continue;
        }
        for (uint32_t j = 0; j < p->of[id].n; j++)
            if (link_channel(&l, j) >= 0)
                prune_raise(p, n.src[i], (uint32_t)link_channel(&l, j), prune_want_below(p, id, j));
    }
}

static void go_backward(Prune *p)
{
    p->want = ARENA_ARRAY(p->arena, uint8_t, p->n);
    for (RootWalk w = {0}; graph_next_root(p->g, ROOT_ALL, &w);)
        prune_raise_all(p, w.id, WANT_EXACT);
    for (NodeId id = p->n_nodes; id-- > 1;) {
        if (p->is_live[id] && p->conv[id] != NULL)
            prune_conv_wants(p, id);
        else if (p->is_live[id])
            want_operands(p, id);
    }
}

// --- which channels stay -------------------------------------------------------------------------

// Operands that have all channels although nothing is known of them: the result keeps its own.
static bool is_pinned(const Prune *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    Link l;
    bool any = false;
    if (p->of[id].axis == AXIS_NONE)
        return false;
    if (p->conv[id] != NULL)
        return p->conv[id]->group > 1 && p->of[n->src[0]].axis != 1;
    for (uint32_t i = 0; i < n->n_src && prune_is_spread(n); i++)
        any =
            any || (n->src[i] != 0 && !node_is_const(p->g, n->src[i]) &&
                    prune_axis_at(p->g, id, i, p->of[id].axis) != AXIS_NONE && !prune_link_of(p, id, i, &l));
    return any;
}

static uint32_t count_kept(const Prune *p, NodeId id)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < p->of[id].n; j++)
        n += prune_keeps(p, id, j);
    return n;
}

// Kernels take some channels at a time: as many stay as fill their vectors.
static void fill_up(Prune *p, NodeId id, uint32_t quantum)
{
    const Channels c = p->of[id];
    while (c.n % quantum != 0)
        quantum /= 2;
    uint32_t kept = count_kept(p, id);
    for (uint32_t j = 0; j < c.n && (kept == 0 || kept % quantum != 0); j++) {
        p->is_kept[class_of(p, c.first + j)] = 1;
        kept = count_kept(p, id);
    }
}

static void choose(Prune *p, const TargetCaps *caps)
{
    const uint32_t lanes = caps->is_gpu ? MOST_QUANTUM : caps->f32_lanes;
    uint32_t quantum = LEAST_QUANTUM;
    while (quantum < lanes && quantum < MOST_QUANTUM)
        quantum *= 2;
    p->is_kept = ARENA_ARRAY(p->arena, uint8_t, p->n);
    for (NodeId id = 1; id < p->n_nodes; id++)
        for (uint32_t j = 0, pinned = is_pinned(p, id); j < p->of[id].n; j++)
            if (pinned || p->want[p->of[id].first + j] != WANT_NONE)
                p->is_kept[class_of(p, p->of[id].first + j)] = 1;
    for (NodeId id = 1; id < p->n_nodes; id++)
        if (p->of[id].axis != AXIS_NONE)
            fill_up(p, id, quantum);
}

// --- the pass ------------------------------------------------------------------------------------

// By entry: does the channel always have the same value, or what is computed of it before the next
// convolution?
static const bool *find_constants(const Prune *p)
{
    bool *is_constant = ARENA_ARRAY(p->arena, bool, p->n);
    Link l;
    for (NodeId id = p->n_nodes; id-- > 1;) {
        const Node *n = graph_node(p->g, id);
        const Channels c = p->of[id];
        for (uint32_t j = 0; j < c.n; j++)
            is_constant[c.first + j] |= range_is_value(p->range.data[c.first + j]);
        for (uint32_t i = 0; i < n->n_src && p->is_live[id] && p->conv[id] == NULL; i++) {
            const bool is_linked = prune_link_of(p, id, i, &l);
            for (uint32_t j = 0; is_linked && j < c.n; j++)
                if (is_constant[c.first + j] && link_channel(&l, j) >= 0)
                    is_constant[p->of[n->src[i]].first + (uint32_t)link_channel(&l, j)] = true;
        }
    }
    return is_constant;
}

static void report(const Prune *p, PlanPruned *out)
{
    const bool *is_constant = find_constants(p);
    for (NodeId id = 1; id < p->n_nodes; id++) {
        const PruneConv *c = p->conv[id];
        if (c == NULL)
            continue;
        const Node *n = graph_node(p->g, id), *small = graph_node(p->g, p->small[id]);
        const Node *x = graph_node(p->g, p->small[n->src[0]] != 0 ? p->small[n->src[0]] : n->src[0]);
        const int64_t pixels = shape_is_const(n->shape) ? shape_numel(n->shape) / c->outputs : 1;
        const int64_t outputs = p->small[id] != 0 ? small->shape->dim[1] : c->outputs;
        const int64_t inputs = c->group > 1 ? c->inputs : x->shape->dim[1];
        const uint64_t bytes = dtype_info[c->weight.dtype].bytes;
        for (uint32_t o = 0; o < p->of[id].n; o++)
            if (!prune_keeps(p, id, o))
                (*(is_constant[p->of[id].first + o] ? &out->constant : &out->unread))++;
        out->channels += (uint64_t)c->outputs;
        out->macs[0] += (uint64_t)(pixels * c->outputs * c->inputs * c->taps);
        out->macs[1] += (uint64_t)(pixels * outputs * inputs * c->taps);
        out->weight_bytes[0] += (uint64_t)c->weight.numel * bytes;
        out->weight_bytes[1] += (uint64_t)(outputs * inputs * c->taps) * bytes;
    }
}

static void visit(NodeId old, NodeId rebuilt, void *ctx)
{
    (void)rebuilt;
    ((Prune *)ctx)->at = old;
}

static bool prune_graph(Prune *p, Pass *pass)
{
    bool any = false;
    p->n_nodes = p->g->nodes.len;
    p->is_live = graph_mark_live(p->g, p->arena);
    p->of = ARENA_ARRAY(p->arena, Channels, p->n_nodes);
    p->conv = ARENA_ARRAY(p->arena, PruneConv *, p->n_nodes);
    p->small = ARENA_ARRAY(p->arena, NodeId, p->n_nodes);
    if (!go_forward(p))
        return false;
    go_backward(p);
    choose(p, pass->options->caps);
    for (NodeId id = 1; id < p->n_nodes && !any; id++)
        any = prune_is_cut(p, id);
    if (!any)
        return false;
    graph_rewrite_watched(p->g, visit, prune_step, p);
    report(p, &pass->pruned);
    return true;
}

static bool has_convolutions(const Graph *g)
{
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (op_info[graph_node(g, id)->op].steps == OPSTEPS_FILTER)
            return true;
    return false;
}

bool pass_prune(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    const Graph *g = p->graph;
    const bool is_sized = g->symbols != NULL || g->extents.len != 0 || g->lives.len != 0;
    if (p->options->no_prune || is_sized || !has_convolutions(g))
        return false;
    const uint32_t errors = p->diag->n_errors;
    Arena scratch = {0};
    // Rounded operands of matrix units, and what schedules with fewer multiplications are allowed.
    const double room = 1.0 / 256 + p->options->accuracy;
    Prune prune = {.g = p->graph, .arena = &scratch, .room = room};
    const bool changed = prune_graph(&prune, p);
    arena_free(&scratch);
    p->failed = p->diag->n_errors != errors;
    return changed;
}
