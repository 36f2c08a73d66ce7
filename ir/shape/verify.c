// SPDX-License-Identifier: Apache-2.0
// The verifier (see verify.h). It trusts nothing that the builder did: types are inferred again, equal nodes
// are looked for again, and every list is compared with the nodes.
#include "ir/shape/verify.h"
#include "ir/graph/intern.h"
#include "ir/shape/shape.h"

#include <string.h>

typedef struct Verifier {
    const Graph *g;
    Stage stage;
    Arena scratch;
    const bool *is_live;    // by NodeId; a stage says nothing about what nobody needs any more
    Diag diag;              // of the shape rules
    const char *message;    // in the graph's arena; the first broken rule
} Verifier;

__attribute__((format(printf, 3, 4))) static bool broken(Verifier *v, NodeId id, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(v->g->arena, fmt, args);
    va_end(args);
    if (id && id < v->g->nodes.len) {
        const Node *n = graph_node(v->g, id);
        const char *label = v->g->labels.data[id];
        v->message = arena_printf(v->g->arena, "graph '%s': %%%u = %s%s%s: %s", v->g->name, id,
                                  n->op < OP_COUNT ? op_info[n->op].name : "?", label ? " # " : "",
                                  label ? label : "", text);
    } else {
        v->message = arena_printf(v->g->arena, "graph '%s': %s", v->g->name, text);
    }
    return false;
}

// --- one node by itself ---

static bool check_form(Verifier *v, NodeId id)
{
    const Node *n = graph_node(v->g, id);
    if (n->op == OP_none || n->op >= OP_COUNT)
        return broken(v, id, "op %u does not exist", n->op);
    const OpInfo *info = &op_info[n->op];
    if (n->dtype >= DTYPE_COUNT || !n->shape || n->shape->rank > SHAPE_MAX_RANK)
        return broken(v, id, "the node has no valid type");
    if (n->n_src < info->min_src || n->n_src > info->max_src)
        return broken(v, id, "%u operands; expected %u to %u", n->n_src, info->min_src, info->max_src);
    if (info->n_results ? n->n_results != info->n_results : n->n_results == 0)
        return broken(v, id, "%u results; expected %u", n->n_results, info->n_results);
    if (n->n_results > NODE_MAX_RESULTS || (n->n_results > 1) != (n->results != NULL))
        return broken(v, id, "%u results and %s list of types", n->n_results, n->results ? "a" : "no");
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (n->src[i] >= id)
            return broken(v, id, "operand %u is %%%u, which does not come before", i, n->src[i]);
        if (!n->src[i] && i < info->min_src)
            return broken(v, id, "operand %u is missing", i);
    }
    return true;
}

static bool check_payload(Verifier *v, NodeId id, const AttrVal *a)
{
    const AttrInfo *info = &attr_info[a->id];
    bool ok = true;
    if (info->type == ATTR_STR)
        ok = a->u.str != NULL;
    else if (info->type == ATTR_INTS || info->type == ATTR_DIMS)
        ok = a->u.ints || !a->len;
    else if (info->type == ATTR_BLOB)
        ok = a->u.blob || !a->len;
    else if (info->type == ATTR_GRAPH)
        ok = a->u.graph && a->u.graph->dims == v->g->dims && a->u.graph->depth < v->g->depth;
    else if (info->type == ATTR_DTYPE)
        ok = a->u.i >= 0 && a->u.i < DTYPE_COUNT;
    else if (info->type == ATTR_BOOL)
        ok = a->u.i == 0 || a->u.i == 1;
    return ok || broken(v, id, "the attribute '%s' has no valid value", info->name);
}

static bool check_attrs(Verifier *v, NodeId id)
{
    const Node *n = graph_node(v->g, id);
    AttrId first = ATTR_COUNT;
    uint32_t count = 0;
    attr_range((OpId)n->op, &first, &count);
    if (n->n_attr != count)
        return broken(v, id, "%u attributes; expected all %u", n->n_attr, count);
    for (uint32_t i = 0; i < count; i++) {
        if (n->attr[i].id != (AttrId)(first + i))
            return broken(v, id, "attribute %u is not '%s'", i, attr_info[first + i].name);
        if (!check_payload(v, id, &n->attr[i]))
            return false;
    }
    return true;
}

static bool check_type_limits(Verifier *v, NodeId id, const TensorType *t)
{
    Graph copy = *v->g; // only so that the report goes to our own Diag
    copy.diag = &v->diag;
    if (!type_check(&copy, (Span){0}, "type", t))
        return broken(v, id, "%s", v->diag.items.data[0].message);
    return true;
}

static TensorType result_type(const Node *n, uint32_t i)
{
    return i ? n->results[i] : (TensorType){(DType)n->dtype, *n->shape};
}

static bool check_result_types(Verifier *v, NodeId id)
{
    const Node *n = graph_node(v->g, id);
    for (uint32_t i = 0; i < n->n_results; i++) {
        TensorType t = result_type(n, i);
        if (!check_type_limits(v, id, &t))
            return false;
    }
    if (n->results && (n->results[0].dtype != n->dtype || !shape_equal(&n->results[0].shape, n->shape)))
        return broken(v, id, "the list of result types begins with another type than the node's");
    return true;
}

static bool check_is_bound(Verifier *v, NodeId id)
{
    const Node *n = graph_node(v->g, id);
    for (uint32_t i = 0; i < n->n_results; i++) {
        TensorType t = result_type(n, i);
        if (!shape_is_const(&t.shape))
            return broken(v, id, "the shape is not constant, which this stage demands");
    }
    for (uint32_t i = 0; i < n->n_attr; i++) {
        const AttrVal *a = &n->attr[i];
        for (uint64_t k = 0; attr_info[a->id].type == ATTR_DIMS && k < a->len; k++)
            if (!dim_is_const(a->u.ints[k]))
                return broken(v, id, "'%s' is not constant, which this stage demands", attr_info[a->id].name);
    }
    return true;
}

static bool check_stage(Verifier *v, NodeId id)
{
    if (v->stage >= STAGE_CORE && op_info[graph_node(v->g, id)->op].kind == OPKIND_SUGAR)
        return broken(v, id, "this stage has no convenience ops");
    return v->stage < STAGE_BOUND || check_is_bound(v, id);
}

// --- types again ---

static bool compare_results(Verifier *v, NodeId id, const ShapeCtx *c)
{
    const Node *n = graph_node(v->g, id);
    if (c->n_out != n->n_results)
        return broken(v, id, "%u results; the shape rule makes %u", n->n_results, c->n_out);
    for (uint32_t i = 0; i < c->n_out; i++) {
        TensorType stored = result_type(n, i);
        if (stored.dtype == c->out[i].dtype && shape_equal(&stored.shape, &c->out[i].shape))
            continue;
        Str have = str_new(&v->scratch), want = str_new(&v->scratch);
        shape_print(v->g->dims, stored.dtype, &stored.shape, &have);
        shape_print(v->g->dims, c->out[i].dtype, &c->out[i].shape, &want);
        return broken(v, id, "result %u is %s; the shape rule makes %s", i, str_text(&have), str_text(&want));
    }
    return true;
}

// Runs the rule on copies of the attributes. It may add dims to the shared table, which changes no dim that
// is there.
static bool infer_again(Verifier *v, NodeId id)
{
    const Node *n = graph_node(v->g, id);
    Graph copy = *v->g;
    copy.diag = &v->diag;
    TensorType *in = ARENA_ARRAY(&v->scratch, TensorType, n->n_src), out[NODE_MAX_RESULTS];
    memset(out, 0, sizeof out);
    ShapeCtx c = {
        .g = &copy,
        .op = (OpId)n->op,
        .n_src = n->n_src,
        .src = n->src,
        .in = in,
        .attr = arena_copy(&v->scratch, n->attr, n->n_attr * sizeof *n->attr),
        .n_attr = n->n_attr,
        .out = out,
        .n_out = op_info[n->op].n_results,
    };
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i])
            in[i] = result_type(graph_node(v->g, n->src[i]), 0);
    if (!shape_infer(&c))
        return broken(v, id, "%s", v->diag.items.data[0].message);
    return compare_results(v, id, &c);
}

static bool check_const(Verifier *v, NodeId id)
{
    const Node *n = graph_node(v->g, id);
    const AttrVal *blob = n->op == OP_input ? NULL : &n->attr[n->n_attr - 1];
    if (!blob || (n->op != OP_const && !blob->len))
        return true;
    if (!shape_is_const(n->shape))
        return broken(v, id, "values with a symbolic shape");
    uint64_t bytes = type_bytes((DType)n->dtype, n->shape);
    if (blob->len != bytes)
        return broken(v, id, "%llu bytes of values; the type has %llu", (unsigned long long)blob->len,
                      (unsigned long long)bytes);
    return true;
}

// --- the graph ---

static bool check_sub_graphs(Verifier *v, NodeId id)
{
    const Node *n = graph_node(v->g, id);
    for (uint32_t i = 0; i < n->n_attr; i++) {
        if (attr_info[n->attr[i].id].type != ATTR_GRAPH)
            continue;
        v->message = graph_verify(n->attr[i].u.graph, v->is_live[id] ? v->stage : STAGE_IMPORTED);
        if (v->message)
            return broken(v, id, "in '%s': %s", attr_info[n->attr[i].id].name, v->message);
    }
    return true;
}

static bool check_node(Verifier *v, NodeId id)
{
    if ((v->is_live[id] && !check_stage(v, id)) || !check_sub_graphs(v, id))
        return false;
    bool is_leaf = op_info[graph_node(v->g, id)->op].kind == OPKIND_LEAF;
    return is_leaf ? check_const(v, id) : infer_again(v, id);
}

static bool check_payloads_are_canonical(Verifier *v, NodeId id)
{
    const Node *n = graph_node(v->g, id);
    Graph copy = *v->g; // the payloads are behind a pointer, so interning through the copy is the same
    if (graph_intern_shape(&copy, n->shape) != n->shape)
        return broken(v, id, "the shape is not interned");
    for (uint32_t i = 0; i < n->n_attr; i++) {
        AttrVal a = n->attr[i];
        intern_attr(&copy, &a);
        if (!attr_equal(&a, &n->attr[i]))
            return broken(v, id, "the value of '%s' is not interned", attr_info[a.id].name);
    }
    return true;
}

// With canonical payloads, nodes are equal when their keys are.
static bool check_no_two_nodes_are_equal(Verifier *v)
{
    Map seen = {0};
    for (NodeId id = 1; id < v->g->nodes.len; id++) {
        const Node *n = graph_node(v->g, id);
        if (!check_payloads_are_canonical(v, id))
            return false;
        uint64_t *key = ARENA_ARRAY(&v->scratch, uint64_t, node_key_len(n));
        uint64_t other = 0;
        size_t bytes = node_key_len(n) * sizeof *key;
        node_key(n, key);
        if (map_get(&seen, key, bytes, &other))
            return broken(v, id, "equal to %%%u", (NodeId)other);
        map_put(&v->scratch, &seen, key, bytes, id);
    }
    return true;
}

// How often each node stands in its list; every leaf must stand once.
static bool check_list(Verifier *v, OpId op, const NodeId *ids, uint32_t n, uint8_t *is_listed)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!ids[i] || ids[i] >= v->g->nodes.len || graph_node(v->g, ids[i])->op != op)
            return broken(v, 0, "entry %u of the list of %ss is %%%u", i, op_info[op].name, ids[i]);
        if (is_listed[ids[i]])
            return broken(v, ids[i], "the leaf is listed twice");
        is_listed[ids[i]] = 1;
    }
    return true;
}

static bool check_leaves_are_listed(Verifier *v)
{
    const Graph *g = v->g;
    uint8_t *is_listed = ARENA_ARRAY(&v->scratch, uint8_t, g->nodes.len);
    NodeId *states = ARENA_ARRAY(&v->scratch, NodeId, g->states.len);
    Map names = {0};
    for (uint32_t i = 0; i < g->states.len; i++)
        states[i] = g->states.data[i].node;
    is_listed[g->page] = 1;
    if (!check_list(v, OP_input, g->inputs.data, g->inputs.len, is_listed) ||
        !check_list(v, OP_param, g->params.data, g->params.len, is_listed) ||
        !check_list(v, OP_state, states, g->states.len, is_listed))
        return false;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const char *name = leaf_name(graph_node(g, id));
        if (!name)
            continue;
        if (!is_listed[id])
            return broken(v, id, "the leaf is not in its list");
        if (!map_put_str(&v->scratch, &names, name, id))
            return broken(v, id, "another leaf has the name '%s' too", name);
    }
    return true;
}

static bool check_states(Verifier *v)
{
    for (uint32_t i = 0; i < v->g->states.len; i++) {
        GraphState s = v->g->states.data[i];
        if (!s.next || s.next >= v->g->nodes.len)
            return broken(v, s.node, "the state has no next value");
        const Node *a = graph_node(v->g, s.node), *b = graph_node(v->g, s.next);
        if (a->dtype != b->dtype || !shape_equal(a->shape, b->shape))
            return broken(v, s.node, "the next value of the state, %%%u, has another type", s.next);
    }
    return true;
}

static bool check_outputs(Verifier *v)
{
    Map names = {0};
    if (!v->g->outputs.len && !v->g->states.len)
        return broken(v, 0, "no output and no state: nothing to compute");
    for (uint32_t i = 0; i < v->g->outputs.len; i++) {
        const GraphOutput *o = &v->g->outputs.data[i];
        if (!o->node || o->node >= v->g->nodes.len)
            return broken(v, 0, "the output '%s' is not a node", o->name);
        if (!map_put_str(&v->scratch, &names, o->name, i))
            return broken(v, 0, "there are two outputs '%s'", o->name);
    }
    return true;
}

static bool check_extents(Verifier *v)
{
    for (uint32_t i = 0; i < v->g->extents.len; i++) {
        const GraphExtent *e = &v->g->extents.data[i];
        if (!e->value || e->value >= v->g->nodes.len)
            return broken(v, 0, "extent %u is not a node", i);
        const Node *n = graph_node(v->g, e->value);
        if (n->dtype != DTYPE_i64 || !shape_is_const(n->shape) || shape_numel(n->shape) != 1)
            return broken(v, e->value, "an extent must be an i64 with one element");
        if (dim_as_symbol(v->g->dims, e->dim) < 0)
            return broken(v, e->value, "the extent has no symbol");
    }
    return true;
}

static bool check_checks(Verifier *v)
{
    for (uint32_t i = 0; i < v->g->checks.len; i++) {
        const GraphCheck *c = &v->g->checks.data[i];
        if (!c->cond || c->cond >= v->g->nodes.len || !c->message)
            return broken(v, 0, "check %u is not of a node, or has no message", i);
        const Node *n = graph_node(v->g, c->cond);
        if (n->dtype != DTYPE_bool || !shape_is_const(n->shape) || shape_numel(n->shape) != 1)
            return broken(v, c->cond, "the condition of a check is not a bool with one element");
    }
    return true;
}

static bool check_graph(Verifier *v)
{
    for (NodeId id = 1; id < v->g->nodes.len; id++)
        if (!check_form(v, id) || !check_attrs(v, id) || !check_result_types(v, id))
            return false;
    if (!check_leaves_are_listed(v) || !check_states(v) || !check_outputs(v) || !check_checks(v) ||
        !check_extents(v))
        return false;
    v->is_live = graph_mark_live(v->g, &v->scratch);
    for (NodeId id = 1; id < v->g->nodes.len; id++)
        if (!check_node(v, id))
            return false;
    return check_no_two_nodes_are_equal(v);
}

const char *graph_verify(const Graph *g, Stage stage)
{
    Verifier v = {.g = g, .stage = stage};
    v.diag = diag_new(g->arena);
    bool ok = check_graph(&v);
    rlx_assert(ok == (v.message == NULL));
    arena_free(&v.scratch);
    return v.message;
}
