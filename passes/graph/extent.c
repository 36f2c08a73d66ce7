// SPDX-License-Identifier: Apache-2.0
// The extent pass: gives sizes that the model computes, or that are set between runs, their largest value, so
// that everything after it is static. What mixes elements along such an axis is rewritten first
// (extent_rules.c, extent_move.c), so that the part beyond the live elements has no influence. Inputs are
// spread from dense to the pitches of the largest size, outputs are made dense; params and states stay as
// large as they can be. Sizes that the model computes become outputs beside what has them.
#include "passes/graph/extent.h"
#include "ir/shape/forms.h"

enum { MAX_TRIED = 1 << 16 }; // values of a symbol

// --- helpers of the rules ---

uint32_t extent_axes(const Graph *g, NodeId id)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; id && i < graph_node(g, id)->shape->rank; i++)
        mask |= extent_is_live(g, id, i) ? 1u << i : 0;
    return mask;
}

// The first size of the node or its operands that is not known; 0: none.
static Dim first_size(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    for (uint32_t k = 0; k <= n->n_src; k++) {
        const NodeId value = k < n->n_src ? n->src[k] : id;
        const uint32_t mask = extent_axes(g, value);
        if (mask != 0)
            return graph_node(g, value)->shape->dim[__builtin_ctz(mask)];
    }
    return 0;
}

// The --dim options that would make a size known.
static const char *dims_for(const Graph *g, Dim d)
{
    Str text = str_new(g->arena);
    for (uint32_t i = 0; i < g->extents.len; i++)
        if (g->extents.data[i].is_set && graph_dim_uses(g, d, &g->extents.data[i]))
            str_printf(&text, " --dim %s=VALUE",
                       g->dims->symbols.data[dim_as_symbol(g->dims, g->extents.data[i].dim)].name);
    return str_text(&text);
}

NodeId extent_refuse(Graph *g, NodeId id, const char *why)
{
    rlx_assert(why != NULL);
    const Dim d = first_size(g, id);
    const bool is_set = graph_dim_is_set(g, d);
    Str text = str_new(g->arena);
    dim_print(g->dims, d, &text);
    diag_error(g->diag, node_span(g, id), E0206, "%s: %s does not work along an axis whose size %s (%s)%s%s",
               node_name(g, id), op_info[graph_node(g, id)->op].name,
               is_set ? "is set between runs" : "the model computes", str_text(&text), why[0] ? ": " : "",
               why);
    if (is_set)
        diag_note(g->diag, node_span(g, id), "it works for one size: give it with%s", dims_for(g, d));
    return 0;
}

NodeId extent_scalar(Graph *g, NodeId like, double v)
{
    return graph_scalar(g, (DType)graph_node(g, like)->dtype, v, node_span(g, like));
}

NodeId extent_size(Graph *g, Dim d)
{
    return graph_dim_value(g, d, (Span){0});
}

NodeId extent_iota(Graph *g, Dim d)
{
    NodeBuild ones = node_begin(g, OP_expand, (Span){0}, NULL);
    node_src(&ones, graph_scalar(g, DTYPE_i64, 1, (Span){0}));
    node_ints(&ones, A_expand_shape, &d, 1);
    NodeBuild sum = node_begin(g, OP_cumsum, (Span){0}, NULL);
    node_src(&sum, node_end(&ones));
    node_int(&sum, A_cumsum_axis, 0);
    node_int(&sum, A_cumsum_exclusive, 1);
    return node_end(&sum);
}

NodeId extent_mask(Graph *g, NodeId id, uint32_t mask, double v)
{
    rlx_assert(graph_node(g, id)->shape->rank <= SHAPE_MAX_RANK);
    const Shape s = *graph_node(g, id)->shape;
    for (uint32_t i = 0; i < s.rank; i++) {
        if (!(mask >> i & 1) || !graph_dim_is_computed(g, s.dim[i]))
            continue;
        Shape along = {.rank = s.rank - i, .dim = {s.dim[i], 1, 1, 1, 1, 1, 1, 1}};
        const NodeId is_live = graph_op2(g, OP_lt, extent_iota(g, s.dim[i]), extent_size(g, s.dim[i]));
        id = graph_op3(g, OP_where, graph_reshape(g, is_live, &along), id, extent_scalar(g, id, v));
    }
    return id;
}

NodeId extent_inside(Graph *g, const Shape *s)
{
    rlx_assert(s->rank >= 1);
    NodeId all = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (!graph_dim_is_computed(g, s->dim[i]))
            continue;
        const Shape along = {.rank = s->rank - i, .dim = {s->dim[i], 1, 1, 1, 1, 1, 1, 1}};
        const NodeId one = graph_reshape(
            g, graph_op2(g, OP_lt, extent_iota(g, s->dim[i]), extent_size(g, s->dim[i])), &along);
        all = all ? graph_op2(g, OP_logical_and, all, one) : one;
    }
    return all;
}

NodeId extent_with(Graph *g, NodeId id, uint32_t i, NodeId src)
{
    rlx_assert(i < graph_node(g, id)->n_src);
    const Node n = *graph_node(g, id);
    NodeId *all = ARENA_ARRAY(g->arena, NodeId, n.n_src);
    for (uint32_t k = 0; k < n.n_src; k++)
        all[k] = k == i ? src : n.src[k];
    return graph_clone_node(g, g, id, all);
}

NodeId extent_masked(Graph *g, NodeId id, uint32_t i, uint32_t mask, double v)
{
    rlx_assert(i < graph_node(g, id)->n_src);
    const NodeId x = graph_node(g, id)->src[i];
    return (extent_axes(g, x) & mask) == 0 ? id : extent_with(g, id, i, extent_mask(g, x, mask, v));
}

NodeId extent_list(Graph *g, const NodeId *entry, uint32_t n)
{
    rlx_assert(n >= 1);
    rlx_assert(entry[0] != 0);
    const Shape one = {.rank = 1, .dim = {1}};
    NodeBuild b = node_begin(g, OP_concat, (Span){0}, NULL);
    for (uint32_t i = 0; i < n; i++)
        node_src(&b, graph_reshape(g, entry[i], &one));
    node_int(&b, A_concat_axis, 0);
    return node_end(&b);
}

NodeId extent_sizes(Graph *g, const Shape *s)
{
    rlx_assert(s->rank >= 1 && s->rank <= SHAPE_MAX_RANK);
    NodeId entry[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < s->rank; i++)
        entry[i] = extent_size(g, s->dim[i]);
    return extent_list(g, entry, s->rank);
}

Shape extent_rows(Graph *g, const Shape *s)
{
    rlx_assert(s->rank >= 1);
    Shape rows = *s;
    while (rows.rank > 1 && !graph_dim_is_computed(g, rows.dim[rows.rank - 1]) &&
           !graph_dim_is_computed(g, rows.dim[rows.rank - 2])) {
        rows.dim[rows.rank - 2] = dim_mul(g->dims, rows.dim[rows.rank - 2], rows.dim[rows.rank - 1]);
        rows.rank--;
    }
    return rows;
}

// --- the largest sizes ---

static int64_t ceil_to(int64_t v, int64_t multiple)
{
    return (v + multiple - 1) / multiple * multiple;
}

// Bounds may depend on sizes that are computed before.
static bool find_bounds(Graph *g, int64_t *value)
{
    const DimValues known = {value, g->dims->symbols.len};
    uint32_t left = g->extents.len, before = left + 1;
    while (left > 0 && left < before) {
        before = left;
        left = 0;
        for (uint32_t i = 0; i < g->extents.len; i++) {
            const GraphExtent *e = &g->extents.data[i];
            int64_t *v = &value[dim_as_symbol(g->dims, e->dim)];
            if (*v < 0 && !dim_eval(g->dims, e->max, known, v))
                left++;
        }
    }
    for (uint32_t i = 0; i < g->extents.len; i++) {
        const GraphExtent *e = &g->extents.data[i];
        Symbol *s = &g->dims->symbols.data[dim_as_symbol(g->dims, e->dim)];
        const int64_t v = value[dim_as_symbol(g->dims, e->dim)];
        if (v < 0)
            return diag_error(g->diag, node_span(g, e->value), E0207, "the computed size '%s' has no bound",
                              s->name);
        s->max = v;
    }
    return true;
}

// The next combination of values of the symbols in `used`; false: that was the last one.
static bool next_values(const Graph *g, const uint32_t *used, uint32_t n, int64_t *value)
{
    for (uint32_t i = 0; i < n; i++) {
        const Symbol *s = &g->dims->symbols.data[used[i]];
        value[used[i]] += s->multiple;
        if (value[used[i]] <= s->max)
            return true;
        value[used[i]] = ceil_to(s->min, s->multiple);
    }
    return false;
}

// Ranges of expressions are wider than what they can be: tries all values, where these are not too many.
static bool is_bounded(Graph *g, Dim d, int64_t bound)
{
    const uint32_t n_symbols = g->dims->symbols.len;
    int64_t *value = ARENA_ARRAY(g->arena, int64_t, n_symbols), tried = 1, size = 0;
    uint32_t *used = ARENA_ARRAY(g->arena, uint32_t, g->extents.len), n = 0;
    for (uint32_t i = 0; i < g->extents.len; i++) {
        const uint32_t symbol = (uint32_t)dim_as_symbol(g->dims, g->extents.data[i].dim);
        const Symbol *s = &g->dims->symbols.data[symbol];
        if (!graph_dim_uses(g, d, &g->extents.data[i]))
            continue;
        const int64_t values = (s->max - s->min) / s->multiple + 1;
        if (values > MAX_TRIED / tried)
            return false;
        tried *= values;
        used[n++] = symbol;
        value[symbol] = ceil_to(s->min, s->multiple);
    }
    do {
        if (!dim_eval(g->dims, d, (DimValues){value, n_symbols}, &size) || size > bound)
            return false;
    } while (next_values(g, used, n, value));
    return true;
}

// A size that is not the largest when all symbols are would leave too little memory.
static bool check_sizes(Graph *g, NodeId id, const Shape *s, DimValues largest)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t low = 0, high = 0, at_largest = 0;
        if (!graph_dim_is_computed(g, s->dim[i]))
            continue;
        dim_range(g->dims, s->dim[i], &low, &high);
        if (!dim_eval(g->dims, s->dim[i], largest, &at_largest) ||
            (high > at_largest && !is_bounded(g, s->dim[i], at_largest))) {
            Str text = str_new(g->arena);
            dim_print(g->dims, s->dim[i], &text);
            return diag_error(g->diag, node_span(g, id), E0206,
                              "%s: a size of %s is not largest where the sizes that %s are", node_name(g, id),
                              str_text(&text),
                              graph_dim_is_set(g, s->dim[i]) ? "are set between runs" : "the model computes");
        }
    }
    return true;
}

static bool check_all_sizes(Graph *g, DimValues largest)
{
    Arena scratch = {0};
    const uint32_t n = g->nodes.len;
    bool ok = true;
    for (NodeId id = 1; ok && id < n; id++) {
        const Node *node = graph_node(g, id);
        ok = check_sizes(g, id, node->shape, largest);
        for (uint32_t i = 1; ok && i < node->n_results; i++)
            ok = check_sizes(g, id, &node->results[i].shape, largest);
    }
    arena_free(&scratch);
    return ok;
}

// --- the pass ---

// A size must be computed before a value can have it, but for the op that computes its own.
static bool check_order(Graph *g)
{
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->shape->rank; i++)
            for (uint32_t k = 0; k < g->extents.len; k++) {
                const GraphExtent *e = &g->extents.data[k];
                const Node *value = graph_node(g, e->value);
                if (e->value < id || !graph_dim_uses(g, n->shape->dim[i], e) ||
                    (node_result(value) != 0 && value->src[0] == (node_result(n) != 0 ? n->src[0] : id)))
                    continue;
                return diag_error(g->diag, node_span(g, id), E0209, "%s has a size that is computed after it",
                                  node_name(g, id));
            }
    }
    return true;
}

static bool has_computed_sizes(const Graph *g, const Node *n, NodeId id)
{
    bool any = extent_axes(g, id) != 0;
    for (uint32_t i = 0; i < n->n_src; i++)
        any = any || extent_axes(g, n->src[i]) != 0;
    for (uint32_t i = 1; i < n->n_results; i++)
        for (uint32_t k = 0; k < n->results[i].shape.rank; k++)
            any = any || graph_dim_is_computed(g, n->results[i].shape.dim[k]);
    return any;
}

// Are there extents, or sizes that g computes? g NULL: extents only. Sub-graphs nest at most GRAPH_MAX_DEPTH
// deep.
static bool has_sizes(const Graph *g, const Graph *sub)
{
    bool any = sub->extents.len > 0;
    for (NodeId id = 1; !any && id < sub->nodes.len; id++) {
        const Node *n = graph_node(sub, id);
        for (uint32_t i = 0; g != NULL && i < n->shape->rank; i++)
            any = any || graph_dim_is_computed(g, n->shape->dim[i]);
        for (uint32_t i = 0; !any && i < n->n_attr; i++)
            any = attr_info[n->attr[i].id].type == ATTR_GRAPH && has_sizes(g, n->attr[i].u.graph);
    }
    return any;
}

bool extent_has_sizes_inside(const Graph *g, const Graph *sub)
{
    return has_sizes(g, sub);
}

// Is the value dense in its live sizes already: is only its outermost axis cut?
static bool is_outermost(const Graph *g, NodeId id, uint32_t axes)
{
    const Shape *s = graph_node(g, id)->shape;
    for (uint32_t i = 0; i < s->rank && axes != 0; i++) {
        if (axes >> i & 1)
            return axes == 1u << i;
        if (s->dim[i] != 1)
            return false;
    }
    return true;
}

// An input has its elements in row order of the live sizes: moves them to where they are in the largest ones.
static NodeId spread_input(Graph *g, NodeId id)
{
    const Shape s = *graph_node(g, id)->shape;
    const Shape flat = {.rank = 1, .dim = {dim_product(g->dims, s.dim, s.rank)}};
    if (is_outermost(g, id, extent_axes(g, id)))
        return id;
    const NodeId count = extent_size(g, flat.dim[0]);
    const Shape rows = extent_rows(g, &s);
    NodeBuild b = node_begin(g, OP_repack, node_span(g, id), node_name(g, id));
    node_src(&b, graph_reshape(g, id, &flat));
    node_src(&b, extent_list(g, &count, 1));
    node_src(&b, extent_sizes(g, &rows));
    node_ints(&b, A_repack_shape, rows.dim, rows.rank);
    return graph_reshape(g, node_end(&b), &s);
}

static NodeId leaf_rule(Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    for (uint32_t i = 0; i < n->shape->rank; i++)
        if (extent_is_live(g, id, i) && !graph_dim_is_set(g, n->shape->dim[i]))
            return extent_refuse(g, id, "only values that nodes compute have such axes");
    return n->op == OP_input ? spread_input(g, id) : id;
}

static NodeId refuse_inside(Graph *g, NodeId id)
{
    diag_error(
        g->diag, node_span(g, id), E0206,
        "%s: %s does not work where its graph has sizes that the model computes or that are set between "
        "runs",
        node_name(g, id), op_info[graph_node(g, id)->op].name);
    return 0;
}

// body: where g is the body of a loop, that; NULL: it is the model, whose inputs are dense. Recursion: loops
// nest at most GRAPH_MAX_DEPTH deep.
static NodeId step_rule(Graph *g, NodeId id, void *body)
{
    const Node *n = graph_node(g, id);
    const ExtentRule rule = extent_rule((OpId)n->op);
    for (uint32_t i = 0; i < n->n_attr; i++) {
        if (attr_info[n->attr[i].id].type != ATTR_GRAPH || !extent_has_sizes_inside(g, n->attr[i].u.graph) ||
            extent_loop_is_over_entries(g, id))
            continue;
        if (loop_form(n).body == NULL)
            return refuse_inside(g, id);
        id = extent_open_loop(g, id, step_rule);
        return id && has_computed_sizes(g, graph_node(g, id), id) ? rule(g, id) : id;
    }
    if (op_info[n->op].kind == OPKIND_EW || !has_computed_sizes(g, n, id))
        return id;
    if (op_info[n->op].kind == OPKIND_LEAF)
        return body != NULL && n->op == OP_input ? id : leaf_rule(g, id);
    return rule ? rule(g, id) : extent_refuse(g, id, "");
}

// What lies beyond the live elements of a state stays there, for runs with larger sizes. Updates of a part do
// not touch it.
static void keep_rest_of_states(Graph *g)
{
    for (uint32_t i = 0; i < g->states.len; i++) {
        const NodeId state = g->states.data[i].node, next = g->states.data[i].next;
        const Node *n = graph_node(g, next);
        const bool is_update = (op_info[n->op].flags & OPFLAG_UPDATES) != 0 && n->src[0] == state;
        const Shape s = *graph_node(g, state)->shape;
        const uint32_t axes = extent_axes(g, state);
        if (axes != 0 && !is_update)
            g->states.data[i].next = graph_op3(g, OP_where, extent_inside(g, &s), next, state);
    }
}

// The live sizes of outputs, as outputs after all others.
static void add_sizes(Graph *g)
{
    const uint32_t n = g->outputs.len;
    for (uint32_t i = 0; i < n; i++)
        if (extent_axes(g, g->outputs.data[i].node) != 0) {
            const Shape s = *graph_node(g, g->outputs.data[i].node)->shape;
            graph_output_sizes(g, i, extent_sizes(g, &s));
        }
}

// Elements in row order of the live sizes, in the same memory.
static NodeId make_dense(Graph *g, NodeId id, NodeId sizes)
{
    const Shape s = *graph_node(g, id)->shape;
    const int64_t numel = shape_numel(&s);
    NodeId count = 0;
    NodeBuild product = node_begin(g, OP_reduce_prod, (Span){0}, NULL);
    node_src(&product, sizes);
    node_int(&product, A_reduce_prod_keepdims, 1);
    count = node_end(&product);
    NodeBuild b = node_begin(g, OP_repack, node_span(g, id), NULL);
    node_src(&b, id);
    node_src(&b, sizes);
    node_src(&b, count);
    node_ints(&b, A_repack_shape, &numel, 1);
    const NodeId dense = node_end(&b);
    graph_add_live(g, dense, 0, count);
    return graph_reshape(g, dense, &s);
}

// axes: by output, those that had a computed size.
static void make_outputs_dense(Graph *g, const uint32_t *axes)
{
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        const GraphOutput *o = &g->outputs.data[i];
        if (!o->shape_of || is_outermost(g, g->outputs.data[o->shape_of - 1].node, axes[o->shape_of - 1]))
            continue;
        GraphOutput *of = &g->outputs.data[o->shape_of - 1];
        of->node = make_dense(g, of->node, o->node);
    }
}

// Sizes that are set between runs are known without a run.
static void drop_known_sizes(Graph *g)
{
    const GraphSymbols *s = g->symbols;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        const GraphOutput o = g->outputs.data[i];
        if (!o.shape_of || !s || !s->outputs[o.shape_of - 1])
            g->outputs.data[n++] = o;
    }
    g->outputs.len = n;
}

// Does another node become the same one when sizes are bound, although it has other sizes?
static bool is_ambiguous(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    for (NodeId other = 1; other < g->nodes.len && n->n_src > 0; other++) {
        const Node *o = graph_node(g, other);
        if (o->op == n->op && o->n_src == n->n_src && o->src[0] == n->src[0] && o->shape != n->shape)
            return true;
    }
    return false;
}

// Ops beyond whose live elements there is nothing: all else follows from their operands.
static bool makes_axes(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    const OpId op = node_result(n) != 0 ? (OpId)graph_node(g, n->src[0])->op : (OpId)n->op;
    if (op == OP_input) // others are dense in their live sizes, and spread by a repack
        return is_outermost(g, id, extent_axes(g, id));
    if (op_info[op].kind == OPKIND_LEAF)
        return op != OP_const;
    return (op_info[op].flags & OPFLAG_SIZES) != 0 && !is_ambiguous(g, id);
}

static void note_lives(Graph *g)
{
    const uint32_t n = g->nodes.len;
    for (NodeId id = 1; id < n; id++) {
        const uint32_t axes = makes_axes(g, id) ? extent_axes(g, id) : 0;
        for (uint32_t i = 0; axes >> i != 0; i++) {
            const NodeId size = axes >> i & 1 ? extent_size(g, graph_node(g, id)->shape->dim[i]) : 0;
            if (size != 0)
                graph_add_live(g, id, i, size);
        }
    }
}

// Params and states of plans that share them have one layout: that of the largest.
static bool make_room(Pass *p)
{
    const Plan *of = p->options->largest;
    if (of == NULL)
        return true;
    const uint32_t n = of->params.len + of->states.len;
    GraphRoom *rooms = ARENA_ARRAY(p->scratch, GraphRoom, n + 1u);
    for (uint32_t i = 0; i < n; i++) {
        const PlanIo *io = i < of->params.len ? &of->params.data[i] : &of->states.data[i - of->params.len];
        rooms[i] = (GraphRoom){io->name, shape_of(io->rank, io->dim)};
    }
    return graph_make_room(p->graph, rooms, n, &p->graph);
}

// Bodies of loops that compute sizes for themselves: no value that they take or give has one of these.
static bool rewrite_body(Graph *body, int64_t *value)
{
    const DimValues largest = {value, body->dims->symbols.len};
    const uint32_t errors = body->diag->n_errors;
    if (!find_bounds(body, value) || !check_order(body))
        return false;
    graph_rewrite(body, step_rule, NULL);
    for (uint32_t i = 0; i < body->outputs.len && body->diag->n_errors == errors; i++)
        if (extent_axes(body, body->outputs.data[i].node) != 0)
            extent_refuse(body, body->outputs.data[i].node, "a loop has it in its body only");
    if (body->diag->n_errors != errors || !check_all_sizes(body, largest))
        return false;
    body->extents.len = 0;
    return true;
}

// Inner loops first. Sub-graphs nest at most GRAPH_MAX_DEPTH deep.
static bool rewrite_bodies(Graph *g, int64_t *value)
{
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        Graph *body = loop_form(n).body;
        if (body && (!rewrite_bodies(body, value) || (body->extents.len && !rewrite_body(body, value))))
            return false;
    }
    return true;
}

static bool bind(Pass *p)
{
    Graph *g = p->graph;
    const uint32_t n = g->dims->symbols.len, errors = p->diag->n_errors;
    int64_t *value = ARENA_ARRAY(g->arena, int64_t, n);
    for (uint32_t i = 0; i < n; i++)
        value[i] = -1;
    const DimValues largest = {value, n};
    if (!find_bounds(g, value) || !check_order(g) || !rewrite_bodies(g, value))
        return false;
    graph_rewrite(g, step_rule, NULL);
    if (p->diag->n_errors != errors || !check_all_sizes(g, largest))
        return false;
    uint32_t *axes = ARENA_ARRAY(p->scratch, uint32_t, g->outputs.len);
    for (uint32_t i = 0; i < g->outputs.len; i++)
        axes[i] = extent_axes(g, g->outputs.data[i].node);
    keep_rest_of_states(g);
    add_sizes(g);
    note_lives(g);
    if (p->diag->n_errors != errors || !graph_bind(g, largest, &p->graph))
        return false;
    make_outputs_dense(p->graph, axes);
    drop_known_sizes(p->graph);
    p->graph = graph_compact(p->graph, NULL);
    return make_room(p) && p->diag->n_errors == errors;
}

bool extent_has_sizes(const Graph *g)
{
    return has_sizes(NULL, g);
}

bool pass_extent(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    p->graph = graph_compact(p->graph, NULL);
    p->failed = !extent_bind_single(p) || !bind(p);
    rlx_assert(p->failed || !extent_has_sizes(p->graph));
    return true;
}
