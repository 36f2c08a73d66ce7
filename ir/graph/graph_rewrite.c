// SPDX-License-Identifier: Apache-2.0
// What walks whole graphs: cloning nodes, the driver of rewriting passes, compaction and binding of symbols.
// All walks go over the array of nodes; none recurses along operands, whose chains may be long.
#include "ir/graph/intern.h"

#include <string.h>

// --- cloning ---

static bool same_results(const Node *a, const Node *b)
{
    if (a->dtype != b->dtype || a->n_results != b->n_results || !shape_equal(a->shape, b->shape))
        return false;
    for (uint32_t i = 1; i < a->n_results; i++) {
        const TensorType *x = &a->results[i], *y = &b->results[i];
        if (x->dtype != y->dtype || !shape_equal(&x->shape, &y->shape))
            return false;
    }
    return true;
}

static bool same_operand_types(const Graph *g, const NodeId *src, const Graph *from, const Node *n)
{
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (!src[i] || !n->src[i] ? src[i] != n->src[i]
                                  : !same_results(graph_node(g, src[i]), graph_node(from, n->src[i])))
            return false;
    }
    return true;
}

// A leaf in another graph, with a shape of its own; an input may become another kind. A leaf that is already
// there serves again.
static NodeId clone_leaf(Graph *g, const Graph *from, NodeId id, const Shape *shape, OpId op)
{
    const Node *n = graph_node(from, id);
    static const AttrVal none = {0};
    const char *name = leaf_name(n);
    NodeId old = name ? intern_find_name(g, NAME_LEAF, name) : 0;
    DType t = (DType)n->dtype;
    Span span = node_span(from, id);
    const AttrVal *payload = n->op == OP_const ? &n->attr[0] : n->op == OP_input ? &none : &n->attr[1];
    NodeId made = 0;
    if (old && graph_node(g, old)->op == op && graph_node(g, old)->dtype == t &&
        shape_equal(graph_node(g, old)->shape, shape))
        return old;
    if (op == OP_const)
        made = graph_const(g, t, shape, payload->u.blob, payload->len, span);
    else if (op == OP_input)
        made = graph_input(g, name, t, shape, span);
    else if (op == OP_param)
        made = graph_param(g, name, t, shape, payload->u.blob, payload->len, span);
    else
        made = graph_state(g, name, t, shape, payload->u.blob, payload->len, span);
    if (made)
        intern_origin(g, made, span, from->labels.data[id]);
    return made;
}

static NodeBuild begin_clone(Graph *g, const Graph *from, NodeId id, const NodeId *src)
{
    NodeBuild b = node_copy_begin(g, from, id);
    for (uint32_t i = 0; i < graph_node(from, id)->n_src; i++)
        node_src(&b, src[i]);
    return b;
}

// The types of a node follow from those of its operands: where these are the same, nothing is inferred again.
NodeId graph_clone_node(Graph *g, const Graph *from, NodeId id, const NodeId *src)
{
    Node n = *graph_node(from, id);
    rlx_assert(g->dims == from->dims && g->payloads == from->payloads);
    if (op_info[n.op].kind == OPKIND_LEAF)
        return g == from ? id : clone_leaf(g, from, id, n.shape, (OpId)n.op);
    if (!same_operand_types(g, src, from, &n)) {
        NodeBuild b = begin_clone(g, from, id, src);
        return node_end(&b);
    }
    n.src = src;
    return intern_node(g, &n, node_span(from, id), from->labels.data[id]);
}

// --- rewriting ---

typedef struct Rewrite {
    Graph *g;
    NodeId *rebuilt;  // by old id: the node with its operands replaced
    NodeId *replaced; // by old id: what step made of that
    RewriteVisit visit; // NULL: nobody asks
    RewriteStep step;
    void *ctx;
    NodeId src[NODE_MAX_SRC];
} Rewrite;

// A `result` keeps reading the node before its replacement when that has no such result (see graph.h).
static NodeId find_operand(const Rewrite *r, const Node *user, NodeId old)
{
    NodeId now = r->replaced[old];
    if (node_result(user) != 0 && node_result(user) >= graph_node(r->g, now)->n_results)
        return r->rebuilt[old];
    return now;
}

static NodeId rebuild_node(Rewrite *r, NodeId id)
{
    Node n = *graph_node(r->g, id);
    bool is_changed = false;
    for (uint32_t i = 0; i < n.n_src; i++) {
        r->src[i] = n.src[i] ? find_operand(r, &n, n.src[i]) : 0;
        is_changed |= r->src[i] != n.src[i];
    }
    return is_changed ? graph_clone_node(r->g, r->g, id, r->src) : id;
}

static bool rewrite_node(Rewrite *r, NodeId id)
{
    Graph *g = r->g;
    NodeId rebuilt = rebuild_node(r, id);
    rlx_assert(rebuilt);
    if (r->visit != NULL)
        r->visit(id, rebuilt, r->ctx);
    uint32_t n_before = g->nodes.len;
    NodeId made = r->step(g, rebuilt, r->ctx);
    if (!made)
        made = rebuilt;
    rlx_assert(graph_node(g, made)->dtype == graph_node(g, id)->dtype);
    rlx_assert(shape_equal(graph_node(g, made)->shape, graph_node(g, id)->shape));
    if (made >= n_before)
        intern_origin(g, made, node_span(g, id), g->labels.data[id]);
    r->rebuilt[id] = rebuilt;
    r->replaced[id] = made;
    return made != id;
}

// At once: what step makes of later nodes may read the sizes.
static void redirect_extents(Graph *g, const NodeId *before, uint32_t n, NodeId id, NodeId now)
{
    for (uint32_t i = 0; i < n; i++)
        if (before[i] == id)
            g->extents.data[i].value = now;
}

// An entry is for the node that makes the axis: not for what another op stands for it.
static void redirect_lives(Graph *g, const NodeId *replaced, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->lives.len; i++) {
        GraphLive v = g->lives.data[i];
        const uint16_t op = graph_node(g, v.node)->op;
        if (i < n)
            v = (GraphLive){replaced[v.node], v.axis, replaced[v.size]};
        if (v.node != 0 && v.size != 0 && graph_node(g, v.node)->op == op)
            g->lives.data[kept++] = v;
    }
    g->lives.len = kept;
}

bool graph_rewrite(Graph *g, RewriteStep step, void *ctx)
{
    return graph_rewrite_watched(g, NULL, step, ctx);
}

bool graph_rewrite_watched(Graph *g, RewriteVisit visit, RewriteStep step, void *ctx)
{
    Arena scratch = {0};
    uint32_t n_old = g->nodes.len;
    const bool *is_live = graph_mark_live(g, &scratch);
    Rewrite *r = ARENA_NEW(&scratch, Rewrite);
    const uint32_t n_extents = g->extents.len;
    const uint32_t n_lives = g->lives.len;
    const uint32_t n_checks = g->checks.len; // those that step adds read what is there already
    bool is_changed = false;
    rlx_assert(step != NULL);
    *r = (Rewrite){.g = g, .visit = visit, .step = step, .ctx = ctx};
    r->rebuilt = ARENA_ARRAY(&scratch, NodeId, n_old);
    r->replaced = ARENA_ARRAY(&scratch, NodeId, n_old);
    NodeId *extents = ARENA_ARRAY(&scratch, NodeId, n_extents);
    for (uint32_t i = 0; i < n_extents; i++)
        extents[i] = g->extents.data[i].value;
    for (NodeId id = 1; id < n_old; id++) {
        if (!is_live[id])
            continue;
        is_changed |= rewrite_node(r, id);
        redirect_extents(g, extents, n_extents, id, r->replaced[id]);
    }
    for (uint32_t i = 0; i < g->outputs.len; i++)
        g->outputs.data[i].node = r->replaced[g->outputs.data[i].node];
    for (uint32_t i = 0; i < g->states.len; i++)
        g->states.data[i].next = r->replaced[g->states.data[i].next];
    for (uint32_t i = 0; i < n_checks; i++)
        g->checks.data[i].cond = r->replaced[g->checks.data[i].cond];
    redirect_lives(g, r->replaced, n_lives);
    arena_free(&scratch);
    return is_changed;
}

// --- copies ---

typedef struct Copy {
    Graph *from, *to;
    const DimValues *bound; // NULL: nothing is bound
    const OpId *becomes;    // by input: what it becomes; NULL: they stay inputs
    const GraphRoom *rooms;
    uint32_t n_rooms;
    NodeId *whole; // with rooms, by node: the leaf, or the update of one, of which `map` has a part; 0: none
    const Shape *const *room; // by input: the shape of what it becomes; NULL: its own
    NodeId *leaf;             // by input: what it became
    NodeId *map;
    bool *is_settled; // by extent: what computes it comes first
    bool is_sorted;   // inputs come first, in the order of their list
    NodeId src[NODE_MAX_SRC];
} Copy;

static bool copy_graph(Copy *c);

static bool bind_sub_graph(const Copy *c, AttrVal *v)
{
    Arena scratch = {0};
    Copy *sub = ARENA_NEW(&scratch, Copy);
    sub->from = v->u.graph;
    sub->to = graph_new_like(c->to, v->u.graph->name);
    sub->bound = c->bound;
    bool ok = copy_graph(sub);
    v->u.graph = sub->to;
    arena_free(&scratch);
    return ok;
}

static void bind_dims(Copy *c, AttrVal *v)
{
    Dim *dims = ARENA_ARRAY(c->to->arena, Dim, v->len);
    for (uint64_t i = 0; i < v->len; i++)
        dims[i] = dim_substitute(c->to->dims, v->u.ints[i], *c->bound);
    v->u.ints = intern_ints(c->to, dims, v->len);
}

static NodeId bind_node(Copy *c, NodeId id)
{
    NodeBuild b = begin_clone(c->to, c->from, id, c->src);
    bool is_changed = false;
    for (uint32_t i = 0; i < b.n_attr; i++) {
        AttrVal *v = &b.attr[i];
        AttrVal before = *v;
        if (attr_info[v->id].type == ATTR_DIMS)
            bind_dims(c, v);
        else if (attr_info[v->id].type == ATTR_GRAPH && !bind_sub_graph(c, v))
            return 0;
        is_changed |= !attr_equal(v, &before);
    }
    return is_changed ? node_end(&b) : graph_clone_node(c->to, c->from, id, c->src);
}

static NodeId bind_leaf(Copy *c, NodeId id)
{
    Shape s = *graph_node(c->from, id)->shape;
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = dim_substitute(c->to->dims, s.dim[i], *c->bound);
    return clone_leaf(c->to, c->from, id, &s, (OpId)graph_node(c->from, id)->op);
}

// What an input of `from` becomes.
static OpId kind_of_input(const Copy *c, uint32_t i)
{
    return c->becomes ? c->becomes[i] : OP_input;
}

static bool convert_inputs(Copy *c)
{
    bool ok = true;
    c->leaf = ARENA_ARRAY(c->to->arena, NodeId, c->from->inputs.len + 1u);
    for (uint32_t i = 0; ok && i < c->from->inputs.len; i++) {
        const NodeId id = c->from->inputs.data[i];
        const Shape s = *graph_node(c->from, id)->shape, *room = c->room[i] ? c->room[i] : &s;
        NodeId made = c->leaf[i] = clone_leaf(c->to, c->from, id, room, kind_of_input(c, i));
        for (uint32_t k = 0; made && k < s.rank; k++)
            if (room->dim[k] != s.dim[k])
                made = graph_first(c->to, made, k, s.dim[k], node_span(c->from, id));
        c->map[id] = made;
        ok = made != 0;
    }
    return ok;
}

// --- room for larger leaves ---

static const GraphRoom *room_of(const Copy *c, NodeId id)
{
    const Node *n = graph_node(c->from, id);
    for (uint32_t i = 0; i < c->n_rooms && (n->op == OP_param || n->op == OP_state); i++)
        if (strcmp(c->rooms[i].name, leaf_name(n)) == 0 && !shape_equal(&c->rooms[i].shape, n->shape))
            return &c->rooms[i];
    return NULL;
}

// The first elements along every axis.
static NodeId part_of(Graph *g, NodeId whole, const Shape *s)
{
    static const int64_t zeros[SHAPE_MAX_RANK];
    NodeBuild b = node_begin(g, OP_slice, node_span(g, whole), NULL);
    node_src(&b, whole);
    node_ints(&b, A_slice_starts, zeros, s->rank);
    node_ints(&b, A_slice_ends, s->dim, s->rank);
    return node_end(&b);
}

static NodeId put_part(Graph *g, NodeId whole, NodeId part)
{
    static const int64_t zeros[SHAPE_MAX_RANK];
    const Shape one = {.rank = 1, .dim = {graph_node(g, part)->shape->rank}};
    NodeBuild b = node_begin(g, OP_update_slice, node_span(g, part), NULL);
    node_src(&b, whole);
    node_src(&b, part);
    node_src(&b, graph_const(g, DTYPE_i64, &one, zeros, (uint64_t)one.dim[0] * sizeof *zeros, (Span){0}));
    return node_end(&b);
}

// An update of a part of the leaf is one of the whole: nothing is copied.
static bool copy_with_room(Copy *c, NodeId id)
{
    const Node n = *graph_node(c->from, id);
    const GraphRoom *room = room_of(c, id);
    if (room != NULL)
        c->whole[id] = clone_leaf(c->to, c->from, id, &room->shape, (OpId)n.op);
    else if (n.op == OP_update_slice && c->whole[n.src[0]] != 0) {
        NodeBuild b = begin_clone(c->to, c->from, id, c->src);
        b.src.data[0] = c->whole[n.src[0]];
        c->whole[id] = node_end(&b);
    } else
        return false;
    c->map[id] = c->whole[id] != 0 ? part_of(c->to, c->whole[id], n.shape) : 0;
    return true;
}

static void widen_states(Copy *c)
{
    for (uint32_t i = 0; i < c->from->states.len; i++) {
        const GraphState *s = &c->from->states.data[i];
        GraphState *to = &c->to->states.data[i];
        if (c->whole[s->node] == 0)
            continue;
        to->node = c->whole[s->node];
        to->next = c->whole[s->next] != 0 ? c->whole[s->next] : put_part(c->to, to->node, to->next);
    }
    for (uint32_t i = 0, n = 0; i < c->from->params.len; i++) {
        const NodeId id = c->from->params.data[i];
        if (c->map[id] == 0)
            continue;
        if (c->whole[id] != 0)
            c->to->params.data[n] = c->whole[id];
        n++;
    }
}

static bool copy_node(Copy *c, NodeId id)
{
    const Node *n = graph_node(c->from, id);
    for (uint32_t i = 0; i < n->n_src; i++)
        c->src[i] = c->map[n->src[i]];
    if (c->n_rooms != 0 && copy_with_room(c, id))
        return c->map[id] != 0;
    if (!c->bound)
        c->map[id] = graph_clone_node(c->to, c->from, id, c->src);
    else if (op_info[n->op].kind == OPKIND_LEAF)
        c->map[id] = bind_leaf(c, id);
    else
        c->map[id] = bind_node(c, id);
    return c->map[id] != 0;
}

static bool has_size(const Graph *g, const Node *n, const GraphExtent *e)
{
    bool any = false;
    for (uint32_t i = 0; i < n->shape->rank; i++)
        any = any || graph_dim_uses(g, n->shape->dim[i], e);
    return any;
}

// Passes may have replaced what computes a size by nodes that come after those that have it: they go first.
// Recursion: each round settles a size.
static bool copy_sizes(Copy *c, NodeId id)
{
    const Graph *g = c->from;
    for (uint32_t i = 0; i < g->extents.len; i++) {
        const GraphExtent *e = &g->extents.data[i];
        if (e->value <= id || c->map[e->value] != 0 || c->is_settled[i] || !has_size(g, graph_node(g, id), e))
            continue;
        Arena scratch = {0};
        uint8_t *needed = ARENA_ARRAY(&scratch, uint8_t, e->value + 1);
        bool ok = true;
        c->is_settled[i] = true;
        needed[e->value] = 1;
        for (NodeId at = e->value; at > 0; at--)
            for (uint32_t k = 0; needed[at] && k < graph_node(g, at)->n_src; k++)
                needed[graph_node(g, at)->src[k]] = 1;
        for (NodeId at = 1; ok && !needed[id] && at <= e->value; at++)
            ok = !needed[at] || c->map[at] != 0 ||
                 (copy_sizes(c, at) && (c->map[at] != 0 || copy_node(c, at)));
        arena_free(&scratch);
        if (!ok)
            return false;
    }
    return true;
}

// The lists of leaves keep their order, whatever the order of the ids.
static void copy_lists(Copy *c)
{
    const Graph *from = c->from;
    Graph *to = c->to;
    to->inputs.len = to->params.len = to->states.len = 0;
    if (from->symbols) {
        to->symbols = from->symbols;
        to->page = c->map[from->page];
    }
    for (uint32_t i = 0; i < from->inputs.len; i++)
        if (kind_of_input(c, i) == OP_input)
            vec_push(to->arena, &to->inputs, c->map[from->inputs.data[i]]);
    for (uint32_t i = 0; i < from->params.len; i++)
        if (c->map[from->params.data[i]])
            vec_push(to->arena, &to->params, c->map[from->params.data[i]]);
    for (uint32_t i = 0; i < from->inputs.len; i++)
        if (kind_of_input(c, i) == OP_param)
            vec_push(to->arena, &to->params, c->leaf[i]);
    for (uint32_t i = 0; i < from->states.len; i++) {
        GraphState s = from->states.data[i];
        s.node = c->map[s.node];
        s.next = c->map[s.next];
        vec_push(to->arena, &to->states, s);
    }
    for (uint32_t i = 0; i < from->inputs.len; i++)
        if (kind_of_input(c, i) == OP_state)
            vec_push(to->arena, &to->states, ((GraphState){.node = c->leaf[i]}));
    for (uint32_t i = 0; i < from->outputs.len; i++) {
        graph_output(to, from->outputs.data[i].name, c->map[from->outputs.data[i].node]);
        to->outputs.data[i].shape_of = from->outputs.data[i].shape_of;
    }
    for (uint32_t i = 0; i < from->extents.len; i++) {
        GraphExtent e = from->extents.data[i];
        e.value = c->map[e.value];
        if (c->bound) {
            e.dim = dim_substitute(to->dims, e.dim, *c->bound);
            e.max = dim_substitute(to->dims, e.max, *c->bound);
        }
        if (!dim_is_const(e.dim))
            vec_push(to->arena, &to->extents, e);
    }
    for (uint32_t i = 0; i < from->checks.len; i++) {
        GraphCheck check = {c->map[from->checks.data[i].cond], from->checks.data[i].message};
        vec_push(to->arena, &to->checks, check);
    }
    for (uint32_t i = 0; i < from->lives.len; i++) {
        const GraphLive *v = &from->lives.data[i];
        if (c->map[v->node])
            graph_add_live(to, c->map[v->node], v->axis, c->map[v->size]);
        if (c->n_rooms != 0 && c->whole[v->node])
            graph_add_live(to, c->whole[v->node], v->axis, c->map[v->size]);
    }
}

static bool copy_graph(Copy *c)
{
    Arena scratch = {0};
    const bool *is_live = graph_mark_live(c->from, &scratch);
    bool ok = true;
    c->map = ARENA_ARRAY(c->to->arena, NodeId, c->from->nodes.len);
    c->is_settled = ARENA_ARRAY(&scratch, bool, c->from->extents.len + 1);
    if (c->becomes)
        ok = convert_inputs(c);
    for (uint32_t i = 0; ok && c->is_sorted && i < c->from->inputs.len; i++)
        ok = copy_sizes(c, c->from->inputs.data[i]) && copy_node(c, c->from->inputs.data[i]);
    for (NodeId id = 1; ok && id < c->from->nodes.len; id++)
        ok = !is_live[id] || (copy_sizes(c, id) && (c->map[id] != 0 || copy_node(c, id)));
    if (ok)
        copy_lists(c);
    arena_free(&scratch);
    return ok;
}

bool graph_convert_inputs(Graph *g, const OpId *becomes, const Shape *const *room, Graph **out, NodeId **map)
{
    Arena scratch = {0};
    Copy *c = ARENA_NEW(&scratch, Copy);
    c->from = g;
    c->to = graph_new_like(g, g->name);
    c->becomes = becomes;
    c->room = room;
    const bool ok = copy_graph(c);
    *out = c->to;
    *map = c->map;
    arena_free(&scratch);
    return ok;
}

static Graph *copy_settled(Graph *g, Copy *c, NodeId **map)
{
    c->from = g;
    c->to = graph_new_like(g, g->name);
    rlx_assert(copy_graph(c)); // no type changes, so no rule can fail
    if (map)
        *map = c->map;
    return c->to;
}

Graph *graph_compact(Graph *g, NodeId **map)
{
    return copy_settled(g, &(Copy){0}, map);
}

Graph *graph_sort_inputs(Graph *g)
{
    return copy_settled(g, &(Copy){.is_sorted = true}, NULL);
}

static bool check_values(Graph *g, DimValues v)
{
    bool ok = true;
    for (uint32_t i = 0; i < v.n && i < g->dims->symbols.len; i++) {
        const Symbol *s = &g->dims->symbols.data[i];
        if (v.value[i] < 0)
            continue;
        if (v.value[i] < s->min || v.value[i] > s->max)
            ok = diag_error(g->diag, (Span){0}, E0208, "%s = %lld is outside [%lld, %lld]", s->name,
                            (long long)v.value[i], (long long)s->min, (long long)s->max);
        else if (v.value[i] % s->multiple != 0)
            ok = diag_error(g->diag, (Span){0}, E0208, "%s = %lld is not a multiple of %lld", s->name,
                            (long long)v.value[i], (long long)s->multiple);
    }
    return ok;
}

bool graph_copy_bound(Graph *from, DimValues v, Graph *to)
{
    if (!check_values(from, v))
        return false;
    return copy_graph(&(Copy){.from = from, .to = to, .bound = &v});
}

bool graph_make_room(Graph *g, const GraphRoom *rooms, uint32_t n, Graph **out)
{
    Arena scratch = {0};
    Copy *c = ARENA_NEW(&scratch, Copy);
    c->from = g;
    c->to = graph_new_like(g, g->name);
    c->rooms = rooms;
    c->n_rooms = n;
    c->whole = ARENA_ARRAY(&scratch, NodeId, g->nodes.len);
    const bool ok = copy_graph(c);
    if (ok)
        widen_states(c);
    *out = c->to;
    arena_free(&scratch);
    return ok;
}

bool graph_bind(Graph *g, DimValues v, Graph **out)
{
    *out = graph_new_like(g, g->name);
    return graph_copy_bound(g, v, *out);
}
