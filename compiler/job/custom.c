// SPDX-License-Identifier: Apache-2.0
// See custom.h. What evaluates them is native/custom_run.c.
#include "compiler/job/custom.h"
#include "ir/graph/custom.h"

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
    rlx_assert(graph_node(g, id)->op == OP_custom);
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
