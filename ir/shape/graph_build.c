// SPDX-License-Identifier: Apache-2.0
// Building one node: operands and attributes are collected, completed, checked against the tables, typed by
// the shape rules and interned. What is wrong with the input is reported here once, for every importer.
#include "ir/graph/intern.h"
#include "ir/shape/shape.h"

#include <string.h>

enum { INLINE_SRC = 8 };

__attribute__((format(printf, 3, 4))) static bool fail(NodeBuild *b, DiagCode code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(b->graph->arena, fmt, args);
    va_end(args);
    b->failed = true;
    const char *op = op_info[b->op].name;
    if (b->label)
        return diag_error(b->graph->diag, b->span, code, "%s '%s': %s", op, b->label, text);
    return diag_error(b->graph->diag, b->span, code, "%s: %s", op, text);
}

NodeBuild node_begin(Graph *g, OpId op, Span span, const char *label)
{
    rlx_assert(op < OP_COUNT && op_info[op].kind != OPKIND_LEAF);
    return (NodeBuild){.graph = g, .op = op, .span = span, .label = label};
}

void node_src(NodeBuild *b, NodeId src)
{
    rlx_assert(src < b->graph->nodes.len);
    if (b->failed)
        return;
    if (b->src.len == NODE_MAX_SRC)
        fail(b, E0004, "more than %d inputs", NODE_MAX_SRC);
    else
        vec_push(b->graph->arena, &b->src, src);
}

static AttrVal *find_attr(NodeBuild *b, AttrId id)
{
    for (uint32_t i = 0; i < b->n_attr; i++)
        if (b->attr[i].id == id)
            return &b->attr[i];
    return NULL;
}

// The place for an attribute; the last of several values counts.
static AttrVal *add_attr(NodeBuild *b, AttrId id)
{
    rlx_assert(id < ATTR_COUNT && attr_info[id].op == b->op);
    AttrVal *v = find_attr(b, id);
    if (!v) {
        rlx_assert(b->n_attr < BUILD_MAX_ATTRS);
        v = &b->attr[b->n_attr++];
    }
    *v = (AttrVal){.id = id};
    return v;
}

void node_int(NodeBuild *b, AttrId id, int64_t value)
{
    AttrVal *v = add_attr(b, id);
    AttrType type = attr_info[id].type;
    rlx_assert(type == ATTR_INT || type == ATTR_BOOL || type == ATTR_DTYPE);
    rlx_assert(type != ATTR_DTYPE || (value >= 0 && value < DTYPE_COUNT));
    v->u.i = type == ATTR_BOOL ? value != 0 : value;
}

void node_float(NodeBuild *b, AttrId id, double value)
{
    AttrVal *v = add_attr(b, id);
    rlx_assert(attr_info[id].type == ATTR_FLOAT);
    memcpy(&v->u.f64_bits, &value, sizeof value);
}

void node_str(NodeBuild *b, AttrId id, const char *value)
{
    AttrVal *v = add_attr(b, id);
    rlx_assert(attr_info[id].type == ATTR_STR);
    v->u.str = intern_str(b->graph, value);
}

void node_ints(NodeBuild *b, AttrId id, const int64_t *values, uint32_t n)
{
    AttrVal *v = add_attr(b, id);
    rlx_assert(attr_info[id].type == ATTR_INTS || attr_info[id].type == ATTR_DIMS);
    for (uint32_t i = 0; attr_info[id].type == ATTR_DIMS && i < n; i++)
        rlx_assert(dim_is_valid(b->graph->dims, values[i]));
    v->len = n;
    v->u.ints = intern_ints(b->graph, values, n);
}

void node_graph(NodeBuild *b, AttrId id, Graph *sub)
{
    AttrVal *v = add_attr(b, id);
    rlx_assert(attr_info[id].type == ATTR_GRAPH && sub->dims == b->graph->dims);
    v->u.graph = sub;
    if (sub->depth >= GRAPH_MAX_DEPTH)
        fail(b, E0004, "sub-graphs nest deeper than %d", GRAPH_MAX_DEPTH);
}

void node_copy_attrs(NodeBuild *b, const Node *of)
{
    for (uint32_t i = 0; i < of->n_attr; i++) {
        const AttrVal *v = &of->attr[i];
        const AttrId id = of->op == b->op ? v->id : attr_find(b->op, attr_info[v->id].name);
        rlx_assert(id != ATTR_COUNT && attr_info[id].type == attr_info[v->id].type);
        AttrVal *to = add_attr(b, id);
        *to = *v;
        to->id = id;
    }
}

NodeBuild node_copy_begin(Graph *g, const Graph *from, NodeId id)
{
    NodeBuild b = node_begin(g, (OpId)graph_node(from, id)->op, node_span(from, id), from->labels.data[id]);
    node_copy_attrs(&b, graph_node(from, id));
    return b;
}

NodeId graph_clone_with(Graph *g, NodeId id, const NodeId *src, uint32_t n)
{
    NodeBuild b = node_copy_begin(g, g, id);
    for (uint32_t i = 0; i < n; i++)
        node_src(&b, src[i]);
    return node_end(&b);
}

// --- completing ---

static bool check_operands(NodeBuild *b)
{
    const OpInfo *info = &op_info[b->op];
    while (b->src.len > info->min_src && b->src.data[b->src.len - 1] == 0)
        b->src.len--;
    uint32_t n = b->src.len;
    if (n < info->min_src || n > info->max_src) {
        if (info->min_src == info->max_src)
            return fail(b, E0202, "needs %u input%s, got %u", info->min_src, info->min_src == 1 ? "" : "s",
                        n);
        return fail(b, E0202, "needs %u to %u inputs, got %u", info->min_src, info->max_src, n);
    }
    for (uint32_t i = 0; i < info->min_src; i++)
        if (!b->src.data[i])
            return fail(b, E0202, "input %u is missing", i);
    return true;
}

AttrVal attr_default(Graph *g, AttrId id)
{
    const char *text = attr_info[id].dflt;
    AttrVal v = {.id = id};
    DType dtype = DTYPE_f32;
    double number = 0;
    bool ok = text != NULL;
    rlx_assert(ok);
    switch (attr_info[id].type) {
    case ATTR_INT:
        ok = str_parse_i64(text, strlen(text), &v.u.i);
        break;
    case ATTR_BOOL:
        v.u.i = str_equal(text, "true");
        ok = v.u.i || str_equal(text, "false");
        break;
    case ATTR_FLOAT:
        ok = str_parse_f64(text, strlen(text), &number);
        memcpy(&v.u.f64_bits, &number, sizeof number);
        break;
    case ATTR_STR:
        v.u.str = intern_str(g, text);
        break;
    case ATTR_DTYPE:
        ok = dtype_parse(text, &dtype);
        v.u.i = dtype;
        break;
    case ATTR_INTS:
    case ATTR_DIMS:
        ok = *text == 0;
        v.u.ints = intern_ints(g, NULL, 0);
        break;
    case ATTR_BLOB:
        ok = *text == 0;
        break;
    case ATTR_GRAPH:
        ok = false;
        break;
    }
    rlx_assert(ok);
    return v;
}

// Brings the attributes into the order of ops.def and adds those not given.
static bool complete_attrs(NodeBuild *b)
{
    AttrVal full[BUILD_MAX_ATTRS];
    AttrId first = ATTR_COUNT;
    uint32_t count = 0;
    attr_range(b->op, &first, &count);
    rlx_assert(count <= BUILD_MAX_ATTRS);
    for (uint32_t i = 0; i < count; i++) {
        AttrId id = (AttrId)(first + i);
        const AttrVal *given = find_attr(b, id);
        if (!given && !attr_info[id].dflt)
            return fail(b, E0203, "needs the attribute '%s': %s", attr_info[id].name, attr_info[id].text);
        full[i] = given ? *given : attr_default(b->graph, id);
    }
    if (count)
        memcpy(b->attr, full, count * sizeof *full);
    b->n_attr = count;
    return true;
}

// Axes are 0 .. limit - 1, or negative and count from the back of `rank`.
static bool normalise_axis(NodeBuild *b, AttrId id, int64_t *axis, int64_t rank, int64_t limit)
{
    int64_t v = *axis < 0 ? *axis + rank : *axis;
    if (*axis < -rank || v >= limit || v < 0) {
        return fail(b, E0203, "%s %lld is out of range for %s of rank %lld", attr_info[id].name,
                    (long long)*axis, b->op == OP_unsqueeze ? "a result" : "an input", (long long)rank);
    }
    *axis = v;
    return true;
}

static bool normalise_axes(NodeBuild *b, AttrVal *v, int64_t rank)
{
    int64_t axes[SHAPE_MAX_RANK] = {0};
    bool is_seen[SHAPE_MAX_RANK] = {false};
    if (b->op == OP_unsqueeze)
        rank += (int64_t)v->len;
    if (v->len > SHAPE_MAX_RANK || rank > SHAPE_MAX_RANK) {
        return fail(b, E0203, "%s lists %llu axes; a tensor has at most %d", attr_info[v->id].name,
                    (unsigned long long)v->len, SHAPE_MAX_RANK);
    }
    for (uint32_t i = 0; i < v->len; i++) {
        axes[i] = v->u.ints[i];
        if (!normalise_axis(b, v->id, &axes[i], rank, rank))
            return false;
        if (is_seen[axes[i]])
            return fail(b, E0203, "%s lists axis %lld twice", attr_info[v->id].name, (long long)axes[i]);
        is_seen[axes[i]] = true;
    }
    v->u.ints = intern_ints(b->graph, axes, v->len);
    return true;
}

static bool normalise_attrs(NodeBuild *b)
{
    for (uint32_t i = 0; i < b->n_attr; i++) {
        AttrVal *v = &b->attr[i];
        const AttrInfo *info = &attr_info[v->id];
        int64_t rank = graph_node(b->graph, b->src.data[0])->shape->rank;
        bool ok = true;
        if (info->type == ATTR_INT && str_equal(info->name, "axis"))
            ok = normalise_axis(b, v->id, &v->u.i, rank, rank + (b->op == OP_flatten));
        else if (info->type == ATTR_INTS && str_equal(info->name, "axes"))
            ok = normalise_axes(b, v, rank);
        if (!ok)
            return false;
    }
    return true;
}

// --- typing ---

static void read_operand_types(const NodeBuild *b, TensorType *in)
{
    for (uint32_t i = 0; i < b->src.len; i++) {
        in[i] = (TensorType){0};
        if (!b->src.data[i])
            continue;
        const Node *n = graph_node(b->graph, b->src.data[i]);
        in[i] = (TensorType){(DType)n->dtype, *n->shape};
    }
}

static bool check_results(NodeBuild *b, const TensorType *out, uint32_t n_out)
{
    rlx_assert(n_out >= 1 && n_out <= NODE_MAX_RESULTS);
    for (uint32_t i = 0; i < n_out; i++)
        if (!type_check(b->graph, b->span, b->label ? b->label : op_info[b->op].name, &out[i]))
            return false;
    return true;
}

static NodeId intern_built(NodeBuild *b, const TensorType *out, uint32_t n_out)
{
    for (uint32_t i = 0; i < b->n_attr; i++)
        intern_attr(b->graph, &b->attr[i]);
    Node n = {
        .op = (uint16_t)b->op,
        .dtype = (uint8_t)out->dtype,
        .n_results = (uint8_t)n_out,
        .n_src = (uint16_t)b->src.len,
        .n_attr = (uint16_t)b->n_attr,
        .shape = graph_intern_shape(b->graph, &out->shape),
        .src = b->src.data,
        .attr = b->attr,
        .results = n_out > 1 ? out : NULL,
    };
    return intern_node(b->graph, &n, b->span, b->label);
}

static NodeId infer_and_intern(NodeBuild *b)
{
    TensorType small_in[INLINE_SRC], out[NODE_MAX_RESULTS];
    TensorType *in =
        b->src.len <= INLINE_SRC ? small_in : ARENA_ARRAY(b->graph->arena, TensorType, b->src.len);
    uint32_t n_results = op_info[b->op].n_results;
    ShapeCtx c = {
        .g = b->graph,
        .op = b->op,
        .span = b->span,
        .n_src = b->src.len,
        .src = b->src.data,
        .in = in,
        .attr = b->attr,
        .n_attr = b->n_attr,
        .out = out,
        .n_out = n_results,
    };
    read_operand_types(b, in);
    memset(out, 0, (n_results ? n_results : NODE_MAX_RESULTS) * sizeof *out);
    if (!shape_infer(&c)) {
        if (b->label)
            diag_note(b->graph->diag, b->span, "in the node '%s'", b->label);
        return 0;
    }
    return check_results(b, out, c.n_out) ? intern_built(b, out, c.n_out) : 0;
}

NodeId node_end(NodeBuild *b)
{
    if (b->failed || !check_operands(b) || !complete_attrs(b) || !normalise_attrs(b))
        return 0;
    return infer_and_intern(b);
}
