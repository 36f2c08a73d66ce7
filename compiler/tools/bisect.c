// SPDX-License-Identifier: Apache-2.0
// See bisect.h. Every attempt compiles the model again, with other outputs.
#include "compiler/tools/bisect.h"
#include "compiler/job/feeds.h"
#include "compiler/native/native.h"
#include "compiler/job/open_sizes.h"
#include "ir/graph/intern.h"
#include <string.h>

// One compilation, and how far its outputs are off.
typedef struct Attempt {
    Job job;
    Native native;
    Graph *reference;
    uint32_t n_own;    // outputs of the job's graph; those of the reference go on with the expected values
    int64_t *sizes;
    Tensor *inputs, *got, *want;
} Attempt;

double bisect_tolerance(const Bisect *b, DType t)
{
    return b->tolerance >= 0 ? b->tolerance : compare_tolerance(t);
}

// --- one attempt ---------------------------------------------------------------------------------

static void add_output(Graph *g, NodeId id)
{
    graph_output(g, arena_printf(g->arena, "rlxc_bisect_%u", g->outputs.len), id);
}

static const char *seed(const Cli *c)
{
    return c->options.random != NULL ? c->options.random : "1";
}

static bool begin(Bisect *b, Attempt *a)
{
    Diag *d = b->cli->diag;
    const uint32_t n_said = d->items.len;
    *a = (Attempt){0};
    if (!job_begin(&a->job, b->cli, "native", false) || !native_check_cpu(&a->job))
        return false;
    d->items.len = n_said; // warnings about the model, which cmd_bisect has read before
    b->n_compiled++;
    return true;
}

// The evaluator computes the expected values too; for the generated code they are no outputs.
static void take_reference(const Bisect *b, Attempt *a)
{
    rlx_assert(a->job.plan == NULL && a->job.graph != NULL);
    Graph *g = a->job.graph;
    a->n_own = g->outputs.len;
    for (uint32_t i = 0; i < b->expected->list.len; i++)
        add_output(g, b->expected->list.data[i].node);
    a->reference = reference_graph(&a->job);
    g->outputs.len = a->n_own;
}

static bool run(const Bisect *b, Attempt *a)
{
    Job *j = &a->job;
    take_reference(b, a);
    if (!job_plan(j))
        return false;
    a->sizes = ARENA_ARRAY(b->cli->arena, int64_t, open_sizes_count(j) + 1);
    a->got = ARENA_ARRAY(b->cli->arena, Tensor, j->plan->outputs.len + 1);
    return open_sizes_given(j, a->sizes) && feeds_read(j, seed(b->cli), a->sizes, &a->inputs) &&
           native_emit(j, NULL) && native_open(j, NULL, &a->native) &&
           native_set_sizes(j, &a->native, a->sizes) &&
           native_run(j, &a->native, a->inputs, a->got) &&
           reference_outputs(j, a->reference, a->sizes, a->inputs, &a->want);
}

// False: the value is as it should be.
static bool departs(const Bisect *b, const Tensor *got, const Tensor *want, NodeId node, BisectValue *out)
{
    *out = (BisectValue){.node = node, .is_measured = true};
    if (!compare_shapes(got, want)) {
        out->difference = (Difference){.at = -1, .is_special = true};
        return true;
    }
    out->difference = compare_tensors(got, want);
    if (out->difference.at >= 0) {
        out->got = tensor_get_f64(got, out->difference.at);
        out->want = tensor_get_f64(want, out->difference.at);
    }
    return !compare_is_ok(&out->difference, bisect_tolerance(b, want->dtype));
}

static void found(Bisect *b, BisectHow how, const BisectValue *value)
{
    rlx_assert(how != BISECT_NOTHING);
    b->how = how;
    b->first = *value;
    b->number = 0;
    for (uint32_t i = 0; i < b->nodes.len; i++)
        if (b->nodes.data[i] == value->node)
            b->number = i + 1;
}

// --- the search ----------------------------------------------------------------------------------

static void list_nodes(Bisect *b, Job *j)
{
    const Graph *g = b->graph;
    const bool *is_live = graph_mark_live(g, j->cli->arena);
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (is_live[id] && op_info[graph_node(g, id)->op].kind != OPKIND_LEAF)
            vec_push(b->cli->arena, &b->nodes, id);
}

// The model as it is. The graph of this attempt is planned: names and operands are those of a copy.
static bool try_model(Bisect *b, bool *is_off)
{
    Attempt a;
    BisectValue value;
    if (!begin(b, &a) || !job_import(&a.job, &a.job.given, (Graph **)(uintptr_t)&b->graph))
        return false;
    list_nodes(b, &a.job);
    b->by_node = ARENA_ARRAY(b->cli->arena, BisectValue, b->graph->nodes.len);
    if (!run(b, &a))
        return false;
    *is_off = false;
    for (uint32_t i = 0; i < a.n_own && !*is_off; i++) {
        *is_off = departs(b, &a.got[i], &a.want[i], b->graph->outputs.data[i].node, &value);
        if (*is_off)
            found(b, BISECT_FUSED, &value); // until the search has found more
    }
    const Expected *e = b->expected->list.data;
    NodeId first = 0;
    for (uint32_t i = 0; i < b->expected->list.len && !*is_off; i++) {
        if (departs(b, &a.want[a.n_own + i], &e[i].value, e[i].node, &value) &&
            (first == 0 || e[i].node < first)) {
            first = e[i].node;
            found(b, BISECT_EXPECTED, &value);
        }
        b->by_node[e[i].node] = value;
    }
    native_close(&a.native);
    return true;
}

static bool try_kept(Bisect *b)
{
    Attempt a;
    bool is_off = false;
    if (!begin(b, &a))
        return false;
    const uint32_t n_outputs = a.job.graph->outputs.len;
    for (uint32_t i = 0; i < b->nodes.len; i++)
        add_output(a.job.graph, b->nodes.data[i]);
    if (!run(b, &a))
        return false;
    for (uint32_t i = 0; i < b->nodes.len; i++) {
        const NodeId id = b->nodes.data[i];
        const bool is_this = departs(b, &a.got[n_outputs + i], &a.want[n_outputs + i], id, &b->by_node[id]);
        if (is_this && !is_off)
            found(b, BISECT_KEPT, &b->by_node[id]);
        is_off = is_off || is_this;
    }
    native_close(&a.native);
    return true;
}

// Values of the first n nodes that something after them reads: what such a beginning of the model computes.
static void list_frontier(const Bisect *b, const Graph *g, uint32_t n, bool *is_output)
{
    rlx_assert(n >= 1 && n <= b->nodes.len);
    const NodeId last = b->nodes.data[n - 1];
    for (uint32_t i = 0; i < b->nodes.len; i++) {
        const Node *node = graph_node(g, b->nodes.data[i]);
        for (uint32_t k = 0; k < node->n_src && i >= n; k++)
            is_output[node->src[k]] = true;
    }
    for (RootWalk w = {0}; graph_next_root(g, ROOT_OUTPUT | ROOT_NEXT, &w);)
        is_output[w.id] = true;
    is_output[last] = true;
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (id > last || op_info[graph_node(g, id)->op].kind == OPKIND_LEAF)
            is_output[id] = false;
}

// Only the first n nodes, fused as they are in the model. States keep their values, checks are not made.
static bool try_beginning(Bisect *b, uint32_t n, bool *is_off)
{
    Attempt a;
    BisectValue value;
    if (!begin(b, &a))
        return false;
    Graph *g = a.job.graph;
    bool *is_output = ARENA_ARRAY(b->cli->arena, bool, g->nodes.len);
    NodeId *ids = ARENA_ARRAY(b->cli->arena, NodeId, b->nodes.len);
    list_frontier(b, g, n, is_output);
    g->outputs.len = g->checks.len = 0;
    for (uint32_t i = 0; i < g->states.len; i++)
        g->states.data[i].next = g->states.data[i].node;
    for (uint32_t i = 0; i < n; i++)
        if (is_output[b->nodes.data[i]]) {
            ids[g->outputs.len] = b->nodes.data[i];
            add_output(g, b->nodes.data[i]);
        }
    const NodeId last = b->nodes.data[n - 1];
    if (!run(b, &a))
        return false;
    *is_off = false;
    for (uint32_t i = 0; i < a.n_own; i++)
        if (departs(b, &a.got[i], &a.want[i], ids[i], &value) && (!*is_off || ids[i] == last)) {
            *is_off = true;
            found(b, BISECT_FUSED, &value);
        }
    native_close(&a.native);
    return true;
}

// Beginnings of `low` nodes are right, those of `high` depart.
static bool search_beginnings(Bisect *b)
{
    uint32_t low = 0, high = b->nodes.len;
    rlx_assert(high >= 1);
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        bool is_off = false;
        cli_progress_step("searching nodes", middle, b->nodes.len);
        if (!try_beginning(b, middle, &is_off))
            return false;
        *(is_off ? &high : &low) = middle;
    }
    return true;
}

bool bisect_search(Bisect *b)
{
    bool is_off = false;
    if (!try_model(b, &is_off))
        return false;
    if (!is_off || b->nodes.len == 0)
        return true;
    return try_kept(b) && (b->how == BISECT_KEPT || search_beginnings(b));
}
