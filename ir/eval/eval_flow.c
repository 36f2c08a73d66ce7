// SPDX-License-Identifier: Apache-2.0
// Evaluation of the ops that own sub-graphs: if and loop.
#include "ir/eval/eval_ops.h"
#include "ir/shape/forms.h"

#include <string.h>

static void copy_value(Tensor *to, const Tensor *from)
{
    if (from->numel > 0)
        memcpy(to->data, from->data, (size_t)from->numel * dtype_info[from->dtype].bytes);
}

static EvalRun begin_sub_graph(const EvalCtx *c, const Graph *g, Arena *a)
{
    EvalRun run = eval_begin(g, a, c->symbols);
    run.depth = c->depth + 1;
    run.bytes = c->bytes;
    run.steps = c->steps;
    return run;
}

// One run of the branch that is taken; the other is not touched.
bool eval_if(EvalCtx *c)
{
    rlx_assert(node_attr(c->node, A_if_then)->u.graph->inputs.len + 1 == c->node->n_src);
    const AttrId which = tensor_get_i64(&c->in[0], 0) != 0 ? A_if_then : A_if_else;
    const Graph *g = node_attr(c->node, which)->u.graph;
    EvalRun run = begin_sub_graph(c, g, c->arena);
    for (uint32_t i = 0; i < g->inputs.len; i++)
        run.value[g->inputs.data[i]] = c->in[i + 1];
    if (!eval_graph(&run))
        return false;
    c->bytes = run.bytes;
    c->steps = run.steps;
    for (uint32_t i = 0; i < c->node->n_results; i++)
        copy_value(&c->out[i], &run.value[g->outputs.data[i].node]);
    return true;
}

// --- loop ---

// One entry of the first axis, as a tensor over the same memory.
static Tensor row_of(const Tensor *t, int64_t row)
{
    Tensor r = {.dtype = t->dtype, .rank = t->rank - 1, .numel = eval_count(t, 1, t->rank)};
    memcpy(r.dim, t->dim + 1, r.rank * sizeof *r.dim);
    r.data = (char *)t->data + (size_t)(row * r.numel) * dtype_info[t->dtype].bytes;
    return r;
}

// One iteration. All outputs are read before the first carried value is stored: they may be old carried
// values.
static bool run_iteration(EvalCtx *c, Arena *a, int64_t i, bool *goes_on)
{
    const LoopForm form = loop_form(c->node);
    const Graph *g = form.body;
    const uint32_t n_carried = form.n_carried;
    EvalRun run = begin_sub_graph(c, g, a);
    Tensor number = tensor_new(a, DTYPE_i64, 0, NULL), go = tensor_new(a, DTYPE_bool, 0, NULL);
    tensor_set_i64(&number, 0, i);
    tensor_set_i64(&go, 0, 1);
    run.value[g->inputs.data[0]] = number;
    run.value[g->inputs.data[1]] = go;
    for (uint32_t k = 2; k < g->inputs.len; k++)
        run.value[g->inputs.data[k]] = k < 2 + n_carried ? c->out[k - 2] : c->in[k];
    if (!eval_graph(&run))
        return false;
    c->steps = run.steps + 1;
    *goes_on = tensor_get_i64(&run.value[g->outputs.data[0].node], 0) != 0;
    for (uint32_t k = n_carried; k + 1 < c->node->n_results; k++) {
        Tensor row = row_of(&c->out[k], i);
        copy_value(&row, &run.value[g->outputs.data[1 + k].node]);
    }
    Tensor *next = ARENA_ARRAY(a, Tensor, n_carried + 1);
    for (uint32_t k = 0; k < n_carried; k++) {
        next[k] = tensor_new(a, c->out[k].dtype, c->out[k].rank, c->out[k].dim);
        copy_value(&next[k], &run.value[g->outputs.data[1 + k].node]);
    }
    for (uint32_t k = 0; k < n_carried; k++)
        copy_value(&c->out[k], &next[k]);
    return true;
}

static bool trip_limit(EvalCtx *c, int64_t *trips)
{
    const Dim *max = loop_form(c->node).max_trips;
    int64_t limit = INT64_MAX;
    if (max != NULL && !dim_eval(c->g->dims, *max, c->symbols, &limit))
        return eval_fail(c, E0207, "max_trips depends on a dimension without a value");
    const int64_t count = tensor_get_i64(&c->in[0], 0);
    *trips = count < limit ? count : limit;
    return true;
}

bool eval_loop(EvalCtx *c)
{
    const uint32_t n_carried = loop_form(c->node).n_carried;
    rlx_assert(c->node->n_src >= 2 + n_carried && c->node->n_results > n_carried);
    bool goes_on = tensor_get_i64(&c->in[1], 0) != 0, ok = true;
    int64_t trips = 0, done = 0;
    Arena a = {0};
    if (!trip_limit(c, &trips))
        return false;
    for (uint32_t k = 0; k < n_carried; k++)
        copy_value(&c->out[k], &c->in[k + 2]);
    for (; ok && goes_on && done < trips; done++) {
        ok = run_iteration(c, &a, done, &goes_on);
        if (ok && c->steps > EVAL_MAX_STEPS)
            ok = eval_fail(c, E0004, "the loop runs longer than the reference evaluator accepts");
        arena_reset(&a);
    }
    arena_free(&a);
    tensor_set_i64(&c->out[c->node->n_results - 1], 0, done);
    return ok;
}
