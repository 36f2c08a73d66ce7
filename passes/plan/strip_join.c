// SPDX-License-Identifier: Apache-2.0
// Which convolutions and poolings become stages of one kernel, and how many rows a strip has. Estimated
// cycles decide: those of writing a value to far memory and reading it again, against those of reading the
// weights of all stages again for every strip. See strip.h.
#include "passes/lower/amx/matrix.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/strip.h"
#include "passes/plan/strip_join.h"

enum {
    STAGE_CYCLES = 300, // of one strip: moving rows, loops
    MIN_COLUMNS = 8,    // tiles of strips are parts of one row
    MAX_STRIP_ROWS = 32,
};
// The share of the time of a kernel's sums that strips of few rows may cost before larger ones are taken.
static const double small_share = 0.02;
// Of what caches give to reads alone, what reading and writing values beyond the second-level one reaches,
// and what reading weights within it does.
static const double l3_share = 0.8, l2_share = 2.0 / 3;
// Estimates are this sure.
static const double margin = 1.3;
// A value and what it is made from leave the second-level cache from this share of it on.
static const double far_share = 0.75;

// --- costs ---------------------------------------------------------------------------------------

typedef struct Joiner {
    const Plan *plan;
    const Graph *g;
    const PassOptions *options;
    Groups *groups;
} Joiner;

static double scratch_bytes(const Strip *s)
{
    double sum = 0;
    for (uint32_t i = 0; i + 1 < s->n; i++)
        sum += 4.0 * (double)s->max_rows[i] * (double)s->stage[i].pitch;
    return sum;
}

static double value_bytes(const Graph *g, NodeId id)
{
    return 4.0 * (double)shape_numel(graph_node(g, id)->shape);
}

static double weight_bytes(const Strip *s)
{
    double weights = 0;
    for (uint32_t i = 0; i < s->n; i++)
        weights += s->stage[i].weight_bytes;
    return weights;
}

// Cycles that strips cost beside the sums.
static double strip_cycles(const Joiner *j, const Strip *s)
{
    const double weights = weight_bytes(s);
    const double strips = (double)ceil_div(s->stage[s->n - 1].rows, s->rows);
    return strips * (weights / (l2_share * j->plan->caps->cpu.l2_rate) + STAGE_CYCLES * s->n);
}

// Cycles without the writing and reading of the last value between stages: of what leaves the cache.
static double saved_cycles(const Joiner *j, const Strip *s)
{
    const StripStage *t = &s->stage[s->n - 2];
    const double own = value_bytes(j->g, t->root);
    const double all = own + value_bytes(j->g, graph_node(j->g, t->anchor)->src[0]);
    const double beyond = all - far_share * j->plan->caps->cpu.l2_bytes;
    return beyond <= 0 ? 0 : 2 * (beyond < own ? beyond : own) / (l3_share * j->plan->caps->cpu.l3_rate);
}

// The fewest rows that cost little; false: none fit the cache.
static bool choose_rows(const Joiner *j, Strip *s)
{
    const StripStage *last = &s->stage[s->n - 1];
    double cycles = 0, best = 0;
    int64_t chosen = 0;
    bool has_pairs = false;
    for (uint32_t i = 0; i < s->n; i++) {
        cycles += s->stage[i].cycles;
        has_pairs = has_pairs || s->stage[i].has_pairs;
    }
    for (int64_t rows = has_pairs ? 2 : 1; rows <= MAX_STRIP_ROWS && rows < last->rows; rows *= 2) {
        s->rows = rows;
        strip_count_rows(s);
        const double cost = strip_cycles(j, s);
        if (scratch_bytes(s) + weight_bytes(s) > j->plan->caps->cpu.l2_bytes / 2.0)
            break;
        if (chosen == 0 || cost < best)
            chosen = rows;
        best = chosen == rows ? cost : best;
        if (cost <= small_share * cycles || j->options->strips == 2)
            break;
    }
    s->rows = chosen;
    strip_count_rows(s);
    return chosen != 0;
}

// --- joining -------------------------------------------------------------------------------------

// Convolutions for which Winograd's sums or matrix registers may be chosen stay apart: they round
// differently.
static bool sums_elsewhere(const Joiner *j, const StripStage *s)
{
    const Node *n = graph_node(j->g, s->anchor);
    if (op_info[n->op].steps != OPSTEPS_FILTER || s->has_pairs)
        return false;
    const Shape *w = graph_node(j->g, n->src[1])->shape;
    const bool is_3x3 = w->dim[2] == 3 && w->dim[3] == 3 && s->stride == 1 && s->dilation == 1;
    const PassOptions *o = j->options;
    return matrix_takes_f32(o) || conv_comes_from_bf16(j->g, o, n) ||
           (is_3x3 && o->accuracy > 0 && w->dim[1] >= 8 && w->dim[0] >= 4);
}

static bool is_channels_last(const Joiner *j, NodeId id)
{
    return j->plan->orders.data[id] == ORDER_CHANNELS_LAST || graph_node(j->g, id)->shape->dim[1] == 1;
}

static bool is_stage(const Joiner *j, NodeId root, StripStage *s)
{
    const NodeId anchor = j->groups->anchor[root];
    if (anchor == 0 || !strip_stage(j->g, j->plan->caps, anchor, root, s))
        return false;
    const Node *n = graph_node(j->g, root);
    return n->shape == graph_node(j->g, anchor)->shape && n->dtype == DTYPE_f32 &&
           is_channels_last(j, root) && !sums_elsewhere(j, s);
}

// The root of the group whose value the anchor reads, when nobody else does; else 0.
static NodeId only_producer(const Joiner *j, NodeId anchor)
{
    const Node *n = graph_node(j->g, anchor);
    const NodeId id = n->src[0];
    const Uses *u = &j->groups->uses;
    for (uint32_t i = 1; i < n->n_src; i++)
        if (n->src[i] == id)
            return 0;
    const bool is_only = u->first[id + 1] - u->first[id] == 1 && u->user[u->first[id]] == anchor;
    return is_only && j->groups->stage[id] == id ? id : 0;
}

// All stages up to the one with this root.
static bool collect_stages(const Joiner *j, NodeId root, Strip *s)
{
    NodeId at[STRIP_MAX_STAGES + 1];
    uint32_t n = 0;
    for (; root != 0; root = j->groups->stage_before[root]) {
        if (n == STRIP_MAX_STAGES)
            return false;
        at[n++] = root;
    }
    *s = (Strip){.n = n};
    for (uint32_t i = 0; i < n; i++)
        if (!is_stage(j, at[n - 1 - i], &s->stage[i]))
            return false;
    return n > 1;
}

// Is it a gain that the last stage joins those before?
static bool is_worthwhile(const Joiner *j, Strip *s)
{
    if (!choose_rows(j, s))
        return false;
    for (uint32_t i = 0; i < s->n; i++)
        if (j->options->strips != 2 && graph_node(j->g, s->stage[i].anchor)->shape->dim[3] < MIN_COLUMNS)
            return false;
    Strip before = *s;
    before.n--;
    before.rows = j->groups->strip_rows[before.stage[before.n - 1].root];
    const double had = before.n > 1 ? strip_cycles(j, &before) : 0;
    return j->options->strips == 2 || saved_cycles(j, s) > margin * (strip_cycles(j, s) - had);
}

static void try_join(Joiner *j, NodeId root)
{
    Strip s;
    Groups *g = j->groups;
    const NodeId before = g->anchor[root] != 0 ? only_producer(j, g->anchor[root]) : 0;
    if (before == 0)
        return;
    g->stage_before[root] = before;
    if (collect_stages(j, root, &s) && is_worthwhile(j, &s))
        g->strip_rows[root] = s.rows;
    else
        g->stage_before[root] = 0;
}

void strip_join(const Plan *plan, const PassOptions *options, Arena *a, Groups *groups)
{
    rlx_assert(groups->stage == NULL && groups->root != NULL);
    const Graph *g = plan->graph;
    const TargetCaps *caps = plan->caps;
    Joiner j = {.plan = plan, .g = g, .options = options, .groups = groups};
    if (options->strips == 1 || caps->is_gpu || !caps->packs_weights ||
        (options->strips == 0 && options->opt_level < 2))
        return;
    groups->stage = arena_copy(a, groups->root, g->nodes.len * sizeof *groups->root);
    groups->stage_before = ARENA_ARRAY(a, NodeId, g->nodes.len);
    groups->strip_rows = ARENA_ARRAY(a, int64_t, g->nodes.len);
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (groups->stage[id] == id)
            try_join(&j, id);
    NodeId *last = ARENA_ARRAY(a, NodeId, g->nodes.len); // by root of a stage: that of its kernel
    for (NodeId id = g->nodes.len; id-- > 1;)
        if (groups->stage[id] == id) {
            last[id] = last[id] != 0 ? last[id] : id;
            last[groups->stage_before[id]] = last[id];
        }
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (groups->root[id] != 0)
            groups->root[id] = last[groups->root[id]];
}

void strip_add_stages(const Groups *g, Arena *a, PlanKernel *k)
{
    NodeId at[STRIP_MAX_STAGES];
    uint32_t n = 0;
    if (g->stage == NULL || g->stage_before[k->root] == 0)
        return;
    for (NodeId root = k->root; root != 0; root = g->stage_before[root])
        at[n++] = root;
    rlx_assert(n >= 2 && n <= STRIP_MAX_STAGES);
    while (n-- > 0) {
        PlanStage s = {.root = at[n], .anchor = g->anchor[at[n]]};
        for (uint32_t i = 0; i < k->body.len; i++)
            if (g->stage[k->body.data[i]] == s.root)
                vec_push(a, &s.body, k->body.data[i]);
        vec_push(a, &k->stages, s);
    }
    k->strip_rows = g->strip_rows[k->root];
}
