// SPDX-License-Identifier: Apache-2.0
// See custom.h. The evaluator's custom op is a model of one node, compiled for plain C without any pass that
// the model itself would take part in: one meaning of the text, and the one that the user wrote for C.
#include "compiler/custom.h"
#include "compiler/native.h"
#include "ir/custom.h"
#include "ir/eval.h"
#include "ir/eval_work.h"

#include <string.h>

// Calls fn for all custom ops until it returns false. Sub-graphs nest at most GRAPH_MAX_DEPTH deep.
static bool for_all(const Graph *g, bool (*fn)(const Graph *g, NodeId id, const void *ctx), const void *ctx)
{
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (n->op == OP_custom && !fn(g, id, ctx))
            return false;
        for (uint32_t i = 0; i < n->n_attr; i++)
            if (attr_info[n->attr[i].id].type == ATTR_GRAPH && !for_all(n->attr[i].u.graph, fn, ctx))
                return false;
    }
    return true;
}

static bool is_none(const Graph *g, NodeId id, const void *ctx)
{
    (void)g;
    (void)id;
    (void)ctx;
    return false;
}

bool custom_has(const Graph *g)
{
    return !for_all(g, is_none, NULL);
}

static bool has_text(const Graph *g, NodeId id, const void *target)
{
    const AttrId text = custom_text_attr(target);
    const Node *n = graph_node(g, id);
    if (node_get_str(n, text)[0] != '\0')
        return true;
    return diag_error(g->diag, node_span(g, id), E0203,
                      "the custom op '%s' has no text for the target %s: its declaration needs the member "
                      "'%s'",
                      node_get_str(n, A_custom_function), (const char *)target, attr_info[text].name);
}

bool custom_check(const Graph *g, const char *target)
{
    return for_all(g, has_text, target);
}

bool custom_may_run(const Job *j)
{
    if (!j->has_custom || j->cli->options.allow_custom != NULL)
        return true;
    diag_error(j->cli->diag, (Span){0}, E0003,
               "%s has custom ops, whose text would run on this machine with your rights", j->model);
    diag_note(j->cli->diag, (Span){0}, "--allow-custom runs them; `rlxc convert` shows what they say");
    return false;
}

// --- the evaluator -------------------------------------------------------------------------------

static Shape shape_of_tensor(const Tensor *t)
{
    return shape_of(t->rank, t->dim);
}

// A graph of this node alone, on inputs.
static Graph *graph_of_node(Job *j, const EvalCtx *c)
{
    Arena *a = j->cli->arena;
    Graph *g = graph_new(a, j->cli->diag, "custom");
    NodeId *in = ARENA_ARRAY(a, NodeId, c->node->n_src + 1u);
    for (uint32_t i = 0; i < c->node->n_src; i++) {
        const Shape s = shape_of_tensor(&c->in[i]);
        in[i] = graph_input(g, arena_printf(a, "x%u", i), c->in[i].dtype, &s, node_span(c->g, c->id));
    }
    NodeBuild b = node_begin(g, OP_custom, node_span(c->g, c->id), NULL);
    for (uint32_t i = 0; i < c->node->n_src; i++)
        node_src(&b, in[i]);
    for (uint32_t i = 0; i < c->node->n_attr; i++)
        node_str(&b, c->node->attr[i].id, c->node->attr[i].u.str);
    const NodeId id = node_end(&b);
    for (uint32_t i = 0; id != 0 && i < c->node->n_results; i++)
        graph_output(g, arena_printf(a, "y%u", i), graph_result(g, id, i));
    return id == 0 ? NULL : g;
}

static bool make_job(Job *j, const EvalCtx *c, Job *sub)
{
    *sub = (Job){.cli = j->cli, .model = j->model, .target = &target_c, .has_custom = true};
    sub->graph = graph_of_node(j, c);
    if (sub->graph == NULL || !custom_check(sub->graph, target_c.caps.name) ||
        !cpu_find("generic", &sub->cpu))
        return false;
    sub->caps = target_caps(&target_c, &sub->cpu);
    sub->pipeline = (PipelineOptions){.opt_level = j->pipeline.opt_level,
                                      .accuracy = j->pipeline.accuracy,
                                      .memory_price = j->pipeline.memory_price,
                                      .caps = &sub->caps};
    sub->host = (HostOptions){.name = "custom",
                              .compiler = j->host.compiler,
                              .cc_flags = sub->cpu.cc_flags,
                              .cpu = sub->cpu.name,
                              .parts = 1,
                              .runtime = RUNTIME_PASTED};
    return pipeline_run(j->cli->arena, j->cli->diag, sub->graph, &sub->pipeline, &sub->plan);
}

static bool run_text(void *ctx, EvalCtx *c)
{
    Job *j = ctx, sub;
    Native n = {0};
    Tensor *out = ARENA_ARRAY(j->cli->arena, Tensor, c->node->n_results);
    if (!make_job(j, c, &sub) || !job_emit(&sub) || !native_open(&sub, NULL, &n))
        return false;
    const bool ok = native_run(&sub, &n, c->in, out);
    for (uint32_t i = 0; ok && i < c->node->n_results; i++) {
        const size_t bytes = (size_t)c->out[i].numel * dtype_info[c->out[i].dtype].bytes;
        if (bytes != 0)
            memcpy(c->out[i].data, out[i].data, bytes);
    }
    native_close(&n);
    return ok;
}

void custom_evaluate(Job *j)
{
    j->graph->budget->custom = run_text;
    j->graph->budget->custom_ctx = j;
}
