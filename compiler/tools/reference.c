// SPDX-License-Identifier: Apache-2.0
// See reference.h.
#include "compiler/tools/reference.h"
#include "compiler/job/feeds.h"
#include "compiler/job/open_sizes.h"

Graph *reference_graph(Job *j)
{
    return graph_compact(j->graph, NULL);
}

bool reference_outputs(Job *j, Graph *reference, const int64_t *sizes, const Tensor *inputs, Tensor **out)
{
    const PipelineOptions fixed = open_sizes_fixed(j, sizes);
    Graph *bound = NULL;
    if (!pipeline_bind(reference, &fixed, &bound))
        return false;
    EvalRun run = eval_begin(bound, j->cli->arena, (DimValues){0});
    for (uint32_t i = 0; i < bound->inputs.len; i++)
        run.value[bound->inputs.data[i]] = inputs[i];
    for (uint32_t i = 0; i < bound->params.len; i++) {
        const Tensor *given = feeds_param(j, node_name(bound, bound->params.data[i]));
        if (given != NULL)
            run.value[bound->params.data[i]] = *given;
    }
    cli_progress("evaluating the reference");
    if (!eval_graph(&run))
        return false;
    *out = ARENA_ARRAY(j->cli->arena, Tensor, bound->outputs.len + 1);
    for (uint32_t i = 0; i < bound->outputs.len; i++)
        (*out)[i] = run.value[bound->outputs.data[i].node];
    return true;
}
