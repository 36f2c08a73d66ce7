// SPDX-License-Identifier: Apache-2.0
// The evaluator's custom op (job/custom.h) is a model of one node, compiled for plain C without any pass that
// the model itself would take part in: one meaning of the text, and the one that the user wrote for C.
#include "compiler/job/custom.h"
#include "compiler/native/native.h"
#include "ir/eval/eval.h"

#include <string.h>

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
                                      .ram = j->pipeline.ram,
                                      .spare_ram = j->pipeline.spare_ram,
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
    rlx_assert(sub.plan->outputs.len == c->node->n_results);
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
    rlx_assert(j->graph != NULL && j->graph->budget != NULL);
    j->graph->budget->custom = run_text;
    j->graph->budget->custom_ctx = j;
}
