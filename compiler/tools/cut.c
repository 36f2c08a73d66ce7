// SPDX-License-Identifier: Apache-2.0
// See cut.h. A node with several results is read as a whole by its `result` nodes and as result 0 by all
// others, so that both are marked and mapped separately.
#include "compiler/tools/cut.h"
#include "ir/graph/intern.h"
#include <string.h>

typedef struct Cut {
    Graph *g, *to;
    const CutEnds *ends;
    Arena *scratch;
    const char **input;    // by NodeId: the name of the input that it becomes, or NULL
    bool *is_value_needed; // by NodeId: result 0
    bool *is_whole_needed;
    NodeId *value, *whole; // by NodeId: in `to`
    bool *is_kept;         // by check of g
} Cut;

// --- what is needed ------------------------------------------------------------------------------

static void need_operands(Cut *c, NodeId id)
{
    const Node *n = graph_node(c->g, id);
    for (uint32_t i = 0; i < n->n_src; i++)
        *(node_result(n) != 0 ? &c->is_whole_needed[n->src[i]] : &c->is_value_needed[n->src[i]]) = true;
}

static bool is_cloned(const Cut *c, NodeId id)
{
    return c->is_whole_needed[id] || (c->is_value_needed[id] && c->input[id] == NULL);
}

static bool shape_uses(const Cut *c, const Shape *s, const GraphExtent *e)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (graph_dim_uses(c->g, s->dim[i], e))
            return true;
    return false;
}

static bool node_uses(const Cut *c, NodeId id, const GraphExtent *e)
{
    const Node *n = graph_node(c->g, id);
    bool uses = shape_uses(c, n->shape, e);
    for (uint32_t i = 0; i < n->n_results && n->results != NULL; i++)
        uses = uses || shape_uses(c, &n->results[i].shape, e);
    return uses;
}

// A size that the model computes: where an input has it, it is a symbol like any other.
static bool needs_extent(const Cut *c, const GraphExtent *e)
{
    bool needs = false;
    for (NodeId id = 1; id < c->g->nodes.len; id++) {
        if (c->is_value_needed[id] && c->input[id] != NULL && node_uses(c, id, e))
            return false;
        needs = needs || (is_cloned(c, id) && node_uses(c, id, e));
    }
    return needs;
}

static void mark(Cut *c)
{
    for (bool again = true; again;) {
        again = false;
        for (NodeId id = c->g->nodes.len - 1; id > 0; id--)
            if (is_cloned(c, id))
                need_operands(c, id);
        for (uint32_t i = 0; i < c->g->extents.len; i++) {
            const GraphExtent *e = &c->g->extents.data[i];
            if (!c->is_value_needed[e->value] && needs_extent(c, e))
                again = c->is_value_needed[e->value] = true;
        }
    }
}

// --- checks --------------------------------------------------------------------------------------

// The part has the values that this node alone needs, or they follow from what it has.
static bool has_operands(const Cut *c, NodeId id, const bool *is_there)
{
    const Node *n = graph_node(c->g, id);
    for (uint32_t i = 0; i < n->n_src; i++) {
        const NodeId src = n->src[i];
        const bool is_input = c->input[src] != NULL && !c->is_whole_needed[src];
        if (src != 0 && (!is_there[src] || (node_result(n) != 0 && is_input)))
            return false;
    }
    return true;
}

// A check goes along with what only checks read, if that comes from values of the part. Where it would need
// other values, it is about another part of the model.
static void keep_checks(Cut *c)
{
    const Graph *g = c->g;
    // What the results of the model come from; what is left, only checks read.
    const bool *is_result = graph_mark_needed(g, ROOT_OUTPUT | ROOT_NEXT | ROOT_EXTENT, c->scratch);
    bool *is_there = ARENA_ARRAY(c->scratch, bool, g->nodes.len);
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        const bool is_of_checks = !is_result[id] && op_info[n->op].kind != OPKIND_LEAF;
        is_there[id] = c->is_value_needed[id] || c->is_whole_needed[id] || n->op == OP_const ||
                       (is_of_checks && has_operands(c, id, is_there));
    }
    uint32_t n_dropped = 0;
    for (uint32_t i = 0; i < g->checks.len; i++) {
        const NodeId cond = g->checks.data[i].cond;
        c->is_kept[i] = is_there[cond];
        c->is_value_needed[cond] |= is_there[cond];
        n_dropped += !is_there[cond];
    }
    mark(c);
    if (n_dropped != 0)
        diag_warning(g->diag, (Span){0}, E0404,
                     "%u of %u checks are about values that this part lacks: not in it", n_dropped,
                     g->checks.len);
}

// --- what is wrong -------------------------------------------------------------------------------

static bool wrong(const Cut *c, const char *option, const char *name, const char *what)
{
    return diag_error(c->g->diag, (Span){0}, E0003, "%s %s: %s", option, name, what);
}

// Every end must be of use.
static bool check_ends(Cut *c)
{
    const Graph *g = c->g;
    const CutEnds *e = c->ends;
    bool *depends = ARENA_ARRAY(c->scratch, bool, g->nodes.len), ok = true;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        depends[id] = c->input[id] != NULL;
        for (uint32_t i = 0; i < graph_node(g, id)->n_src; i++)
            depends[id] = depends[id] || depends[graph_node(g, id)->src[i]];
    }
    for (uint32_t i = 0; i < e->n_to; i++)
        if (e->n_from != 0 && !depends[e->to[i]])
            ok = wrong(c, "--to", e->to_names[i], "it does not depend on any value of --from");
    for (uint32_t i = 0; i < e->n_from; i++)
        if (ok && !c->is_value_needed[e->from[i]])
            ok = wrong(c, "--from", e->from_names[i],
                       "no value of --to depends on it, except through other values of --from");
    return ok;
}

// --- the new graph -------------------------------------------------------------------------------

static bool copy_node(Cut *c, NodeId id)
{
    const Node *n = graph_node(c->g, id);
    NodeId *src = ARENA_ARRAY(c->scratch, NodeId, n->n_src + 1u);
    const bool is_state = n->op == OP_state;
    const char *input = is_state && c->input[id] == NULL ? leaf_name(n) : c->input[id];
    if (input != NULL && c->is_value_needed[id]) {
        c->value[id] = graph_input(c->to, input, (DType)n->dtype, n->shape, node_span(c->g, id));
        if (c->value[id] == 0)
            return false;
    }
    if (!is_cloned(c, id) || is_state)
        return true;
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = n->src[i] == 0 ? 0 : node_result(n) != 0 ? c->whole[n->src[i]] : c->value[n->src[i]];
    rlx_assert(c->whole[id] == 0);
    c->whole[id] = graph_clone_node(c->to, c->g, id, src);
    if (input == NULL)
        c->value[id] = c->whole[id];
    return c->whole[id] != 0;
}

static bool copy_extents(Cut *c)
{
    for (uint32_t i = 0; i < c->g->extents.len; i++) {
        GraphExtent e = c->g->extents.data[i];
        if (!c->is_value_needed[e.value] || !needs_extent(c, &e))
            continue;
        e.value = c->value[e.value];
        vec_push(c->to->arena, &c->to->extents, e);
    }
    return true;
}

static bool build(Cut *c)
{
    const CutEnds *e = c->ends;
    c->to = graph_new_like(c->g, c->g->name);
    for (NodeId id = 1; id < c->g->nodes.len; id++)
        if ((c->is_value_needed[id] || c->is_whole_needed[id]) && !copy_node(c, id))
            return false;
    for (uint32_t i = 0; i < e->n_to; i++)
        graph_output(c->to, e->to_names[i], c->value[e->to[i]]);
    bool ok = copy_extents(c);
    for (uint32_t i = 0; i < c->g->checks.len; i++) {
        const GraphCheck *check = &c->g->checks.data[i];
        ok = ok && (!c->is_kept[i] || graph_check(c->to, c->value[check->cond], check->message));
    }
    return ok;
}

bool cut_graph(Graph *g, const CutEnds *ends, Graph **out)
{
    Arena scratch = {0};
    Cut c = {.g = g,
             .ends = ends,
             .scratch = &scratch,
             .input = ARENA_ARRAY(&scratch, const char *, g->nodes.len),
             .is_value_needed = ARENA_ARRAY(&scratch, bool, g->nodes.len),
             .is_whole_needed = ARENA_ARRAY(&scratch, bool, g->nodes.len),
             .value = ARENA_ARRAY(&scratch, NodeId, g->nodes.len),
             .whole = ARENA_ARRAY(&scratch, NodeId, g->nodes.len),
             .is_kept = ARENA_ARRAY(&scratch, bool, g->checks.len)};
    rlx_assert(ends->n_to != 0);
    for (uint32_t i = 0; i < ends->n_from; i++)
        c.input[ends->from[i]] = ends->from_names[i];
    for (uint32_t i = 0; i < ends->n_to; i++) {
        rlx_assert(ends->to[i] != 0 && ends->to[i] < g->nodes.len);
        c.is_value_needed[ends->to[i]] = true;
    }
    mark(&c);
    bool ok = check_ends(&c);
    if (ok)
        keep_checks(&c);
    ok = ok && build(&c);
    *out = c.to;
    arena_free(&scratch);
    return ok;
}
