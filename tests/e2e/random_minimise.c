// SPDX-License-Identifier: Apache-2.0
// Deletes parts of a sample as long as it fails: outputs, states, and nodes, which become an operand of the
// same type or an input that holds what the node computed. See random_minimise.h.
#include "random_minimise.h"
#include "random_check.h"

enum { MAX_ROUNDS = 6 };

typedef enum EditKind { EDIT_DROP_OUTPUT, EDIT_DROP_STATE, EDIT_TO_INPUT, EDIT_TO_OPERAND } EditKind;

typedef struct Edit {
    EditKind kind;
    uint32_t at;      // output, state or node
    uint32_t operand; // of EDIT_TO_OPERAND
} Edit;

typedef struct Rebuild {
    const Sample *from;
    Sample *to;
    const Reference *ref;
    Edit edit;
    NodeId *map;
} Rebuild;

static bool same_type(const Graph *g, NodeId a, NodeId b)
{
    return graph_node(g, a)->dtype == graph_node(g, b)->dtype &&
           shape_equal(graph_node(g, a)->shape, graph_node(g, b)->shape);
}

// An input with the values that the node of the old graph had.
static NodeId add_input(Rebuild *r, NodeId id)
{
    Arena *a = r->from->arena;
    const Node *n = graph_node(r->from->g, id);
    const char *name =
        n->op == OP_input ? node_name(r->from->g, id) : arena_printf(a, "v%u_%u", id, r->from->g->nodes.len);
    Tensor *runs = ARENA_ARRAY(a, Tensor, SAMPLE_RUNS);
    for (uint32_t i = 0; i < SAMPLE_RUNS; i++)
        runs[i] = r->ref->run[i].value[id];
    map_put_str(a, &r->to->values, name, (uintptr_t)runs);
    return graph_input(r->to->g, name, (DType)n->dtype, n->shape, (Span){0});
}

static NodeId copy_leaf(Rebuild *r, NodeId id)
{
    const Node *n = graph_node(r->from->g, id);
    Graph *g = r->to->g;
    const DType t = (DType)n->dtype;
    if (n->op == OP_const)
        return graph_const(g, t, n->shape, node_attr(n, A_const_data)->u.blob,
                           node_attr(n, A_const_data)->len, (Span){0});
    if (n->op == OP_param)
        return graph_param(g, node_name(r->from->g, id), t, n->shape, node_attr(n, A_param_init)->u.blob,
                           node_attr(n, A_param_init)->len, (Span){0});
    if (n->op == OP_state)
        return graph_state(g, node_name(r->from->g, id), t, n->shape, node_attr(n, A_state_init)->u.blob,
                           node_attr(n, A_state_init)->len, (Span){0});
    return add_input(r, id);
}

static NodeId copy_node(Rebuild *r, NodeId id)
{
    const Graph *from = r->from->g;
    const Node *n = graph_node(from, id);
    NodeId src[64];
    if (r->edit.kind == EDIT_TO_INPUT && r->edit.at == id)
        return add_input(r, id);
    if (r->edit.kind == EDIT_TO_OPERAND && r->edit.at == id)
        return r->map[n->src[r->edit.operand]];
    if (r->edit.kind == EDIT_DROP_STATE && n->op == OP_state &&
        r->from->g->states.data[r->edit.at].node == id)
        return add_input(r, id);
    if (op_info[n->op].kind == OPKIND_LEAF)
        return copy_leaf(r, id);
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = n->src[i] == 0 ? 0 : r->map[n->src[i]];
    return graph_clone_node(r->to->g, from, id, src);
}

// What the edited graph still needs.
static bool *mark_needed(const Rebuild *r)
{
    const Graph *g = r->from->g;
    bool *needed = ARENA_ARRAY(r->from->arena, bool, g->nodes.len);
    for (uint32_t i = 0; i < g->outputs.len; i++)
        needed[g->outputs.data[i].node] |= r->edit.kind != EDIT_DROP_OUTPUT || r->edit.at != i;
    for (uint32_t i = 0; i < g->states.len; i++)
        if (r->edit.kind != EDIT_DROP_STATE || r->edit.at != i)
            needed[g->states.data[i].node] = needed[g->states.data[i].next] = true;
    for (NodeId id = g->nodes.len; id-- > 1;) {
        const Node *n = graph_node(g, id);
        const bool is_cut = r->edit.kind == EDIT_TO_INPUT && r->edit.at == id;
        for (uint32_t i = 0; i < n->n_src && needed[id] && !is_cut; i++)
            if (r->edit.kind != EDIT_TO_OPERAND || r->edit.at != id || r->edit.operand == i)
                needed[n->src[i]] = true;
    }
    needed[0] = false;
    return needed;
}

static Sample *apply(const Sample *s, const Reference *ref, Edit edit)
{
    Rebuild r = {.from = s, .ref = ref, .edit = edit, .to = ARENA_NEW(s->arena, Sample)};
    Diag *d = ARENA_NEW(s->arena, Diag);
    *d = diag_new(s->arena);
    *r.to = (Sample){.arena = s->arena, .seed = s->seed, .is_special = s->is_special};
    r.to->g = graph_new_like(s->g, s->g->name);
    r.map = ARENA_ARRAY(s->arena, NodeId, s->g->nodes.len);
    const bool *needed = mark_needed(&r);
    for (NodeId id = 1; id < s->g->nodes.len; id++)
        if (needed[id])
            r.map[id] = copy_node(&r, id);
    for (uint32_t i = 0; i < s->g->outputs.len; i++)
        if (edit.kind != EDIT_DROP_OUTPUT || edit.at != i)
            graph_output(r.to->g, s->g->outputs.data[i].name, r.map[s->g->outputs.data[i].node]);
    for (uint32_t i = 0, k = 0; i < s->g->states.len; i++)
        if (edit.kind != EDIT_DROP_STATE || edit.at != i)
            r.to->g->states.data[k++].next = r.map[s->g->states.data[i].next];
    return r.to;
}

typedef struct Search {
    const Sample *best;
    Reference ref;
    FailsFn fails;
    void *ctx;
} Search;

static bool try_edit(Search *s, Edit edit)
{
    const Sample *smaller = apply(s->best, &s->ref, edit);
    if (!s->fails(smaller, s->ctx))
        return false;
    s->best = smaller;
    s->ref = reference_make(smaller->arena, smaller);
    return true;
}

static bool try_lists(Search *s)
{
    bool any = false;
    for (uint32_t i = s->best->g->outputs.len; i-- > 0;)
        if (s->best->g->outputs.len + s->best->g->states.len > 1)
            any |= try_edit(s, (Edit){EDIT_DROP_OUTPUT, i, 0});
    for (uint32_t i = s->best->g->states.len; i-- > 0;)
        if (s->best->g->outputs.len > 0)
            any |= try_edit(s, (Edit){EDIT_DROP_STATE, i, 0});
    return any;
}

// Replaces node `id` by an input or an operand of its type.
static bool try_node(Search *s, NodeId id)
{
    const Graph *g = s->best->g;
    const Node *n = graph_node(g, id);
    if (op_info[n->op].kind == OPKIND_LEAF)
        return (n->op == OP_const || n->op == OP_param) && try_edit(s, (Edit){EDIT_TO_INPUT, id, 0});
    if (n->n_results == 1 && try_edit(s, (Edit){EDIT_TO_INPUT, id, 0}))
        return true;
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0 && n->n_results == 1 && n->op != OP_result && same_type(g, id, n->src[i]) &&
            try_edit(s, (Edit){EDIT_TO_OPERAND, id, i}))
            return true;
    return false;
}

const Sample *sample_minimise(const Sample *sample, FailsFn fails, void *ctx)
{
    Search s = {.best = sample, .ref = reference_make(sample->arena, sample), .fails = fails, .ctx = ctx};
    bool any = true;
    for (uint32_t round = 0; round < MAX_ROUNDS && any; round++) {
        any = try_lists(&s);
        for (NodeId id = s.best->g->nodes.len; id-- > 1;)
            if (id < s.best->g->nodes.len)
                any |= try_node(&s, id);
    }
    return s.best;
}
