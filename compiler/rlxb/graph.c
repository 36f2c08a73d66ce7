// SPDX-License-Identifier: Apache-2.0
// The graph in an .rlxb file: nodes in order, numbered from 1, then the lists that name some of them. One
// function for each part reads and writes it.
#include "compiler/import/tensors/tensor_bytes.h"
#include "compiler/rlxb/codec.h"
#include "ir/graph/intern.h"

#include <string.h>

enum { MAX_ATTRS = 64, KNOWN_FROM = 64 * 1024 };

typedef struct Scope {
    Graph *g;
    uint32_t *number; // writing, by NodeId: in the file; 0: not written
    NodeId *ids;      // reading, by number
    uint32_t n;       // nodes so far
    uint32_t depth;
} Scope;

static Graph *code_graph(Codec *c, Graph *g, Graph *parent, uint32_t depth);

// A node that was there before; 0: none.
static NodeId code_id(Codec *c, const Scope *s, NodeId id)
{
    if (c->is_writing) {
        rlx_assert(id == 0 || s->number[id] != 0); // it was written before
        codec_u32(c, s->number[id]);
        return id;
    }
    return s->ids[codec_enum(c, 0, s->n + 1, "a node that comes before")];
}

static NodeId code_node_of(Codec *c, const Scope *s, NodeId id)
{
    id = code_id(c, s, id);
    if (!c->is_writing && !id)
        codec_fail(c, "expected the number of a node, found none");
    return id;
}

// --- attributes --------------------------------------------------

// Tags are part of the format: they do not change when AttrType does.
static const uint32_t tags[] = {[ATTR_INT] = 1,  [ATTR_FLOAT] = 2, [ATTR_BOOL] = 3,
                                [ATTR_STR] = 4,  [ATTR_INTS] = 5,  [ATTR_DIMS] = 6,
                                [ATTR_DTYPE] = 7, [ATTR_BLOB] = 8,  [ATTR_GRAPH] = 9};

static void code_list(Codec *c, AttrVal *v, bool is_dims)
{
    v->len = codec_count(c, (uint32_t)v->len, 8);
    int64_t *list = ARENA_ARRAY(c->arena, int64_t, v->len);
    if (c->is_writing && v->len)
        memcpy(list, v->u.ints, (size_t)v->len * sizeof *list);
    for (uint64_t i = 0; i < v->len; i++)
        list[i] = is_dims ? codec_dim(c, list[i]) : codec_i64(c, list[i]);
    v->u.ints = list;
}

static void code_value(Codec *c, Scope *s, AttrVal *v)
{
    switch (attr_info[v->id].type) {
    case ATTR_INT:
    case ATTR_FLOAT: // its bits
        v->u.i = codec_i64(c, v->u.i);
        break;
    case ATTR_BOOL:
        v->u.i = codec_enum(c, (uint32_t)v->u.i, 2, "a bool");
        break;
    case ATTR_STR:
        v->u.str = codec_str(c, v->u.str);
        break;
    case ATTR_INTS:
    case ATTR_DIMS:
        code_list(c, v, attr_info[v->id].type == ATTR_DIMS);
        break;
    case ATTR_DTYPE:
        v->u.i = codec_dtype(c, (DType)v->u.i);
        break;
    case ATTR_BLOB:
        codec_tensor(c, &v->u.blob, &v->len);
        break;
    case ATTR_GRAPH:
        v->u.graph = code_graph(c, c->is_writing ? v->u.graph : NULL, s->g, s->depth + 1);
        break;
    }
}

static bool find_attr(Codec *c, OpId op, const char *name, AttrVal *v)
{
    v->id = c->has_failed ? ATTR_COUNT : attr_find(op, name);
    return v->id < ATTR_COUNT || codec_fail(c, "the op %s has no attribute '%s'", op_info[op].name, name);
}

// One attribute. False: failed.
static bool code_attr(Codec *c, Scope *s, OpId op, AttrVal *v)
{
    const char *name = codec_str(c, c->is_writing ? attr_info[v->id].name : NULL);
    if (!c->is_writing && !find_attr(c, op, name, v))
        return false;
    const uint32_t tag = codec_u32(c, tags[attr_info[v->id].type]);
    if (tag != tags[attr_info[v->id].type])
        return codec_fail(c, "the attribute '%s' of %s: expected type %u, found %u", name, op_info[op].name,
                          tags[attr_info[v->id].type], tag);
    code_value(c, s, v);
    return !c->has_failed;
}

static void set_attr(NodeBuild *b, const AttrVal *v)
{
    double f = 0;
    switch (attr_info[v->id].type) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_DTYPE:
        node_int(b, v->id, v->u.i);
        break;
    case ATTR_FLOAT:
        memcpy(&f, &v->u.f64_bits, sizeof f);
        node_float(b, v->id, f);
        break;
    case ATTR_STR:
        node_str(b, v->id, v->u.str);
        break;
    case ATTR_INTS:
    case ATTR_DIMS:
        node_ints(b, v->id, v->u.ints, (uint32_t)v->len);
        break;
    case ATTR_GRAPH:
        node_graph(b, v->id, v->u.graph);
        break;
    case ATTR_BLOB:
        rlx_assert(op_info[b->op].kind == OPKIND_LEAF);
        break;
    }
}

// All attributes of a node; those that are read go to `out`, of MAX_ATTRS.
static uint32_t code_attrs(Codec *c, Scope *s, OpId op, const Node *node, AttrVal *out)
{
    const uint32_t n = codec_count(c, node ? node->n_attr : 0, 8);
    if (n > MAX_ATTRS)
        codec_fail(c, "a node has %u attributes; at most %d are possible", n, MAX_ATTRS);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        out[i] = node ? node->attr[i] : (AttrVal){0};
        code_attr(c, s, op, &out[i]);
    }
    return c->has_failed ? 0 : n;
}

// --- nodes --------------------------------------------------

static void code_shape(Codec *c, Shape *shape)
{
    shape->rank = codec_enum(c, shape->rank, SHAPE_MAX_RANK + 1, "the number of axes");
    for (uint32_t i = 0; i < shape->rank; i++) {
        shape->dim[i] = codec_dim(c, shape->dim[i]);
        if (!c->is_writing && dim_is_const(shape->dim[i]) && shape->dim[i] < 0)
            codec_fail(c, "a size must not be negative, found %lld", (long long)shape->dim[i]);
    }
}

// The bytes as they may be used: aligned, of valid values. Large ones are known by the hash in the file, so
// that nothing reads them before it needs them.
static bool take_bytes(Codec *c, Graph *g, const TensorType *type, AttrVal *v)
{
    if (!shape_is_const(&type->shape) || type_bytes(type->dtype, &type->shape) != v->len)
        return true; // the graph says so
    Tensor t = {.dtype = type->dtype, .numel = shape_numel(&type->shape)};
    if (!tensor_set_bytes(c->arena, &t, v->u.blob))
        return codec_fail(c, "a tensor holds %s", tensor_dirt(type->dtype));
    if (v->len >= KNOWN_FROM)
        intern_known(g, t.data, v->len, codec_find_tensor(c, v->u.blob)->hash);
    v->u.blob = t.data;
    return true;
}

static NodeId make_leaf(Codec *c, Graph *g, OpId op, const TensorType *t, const AttrVal *attr, uint32_t n)
{
    const char *name = NULL;
    AttrVal blob = {0};
    rlx_assert(op_info[op].kind == OPKIND_LEAF && !c->is_writing);
    for (uint32_t i = 0; i < n; i++) {
        if (attr_info[attr[i].id].type == ATTR_STR)
            name = attr[i].u.str;
        else
            blob = attr[i];
    }
    const Span span = {.file = c->file, .path = name};
    if (!name && op != OP_const && !codec_fail(c, "an %s has no name", op_info[op].name))
        return 0;
    if (!take_bytes(c, g, t, &blob))
        return 0;
    return op == OP_const   ? graph_const(g, t->dtype, &t->shape, blob.u.blob, blob.len, span)
           : op == OP_input ? graph_input(g, name, t->dtype, &t->shape, span)
           : op == OP_param ? graph_param(g, name, t->dtype, &t->shape, blob.u.blob, blob.len, span)
                            : graph_state(g, name, t->dtype, &t->shape, blob.u.blob, blob.len, span);
}

static NodeId code_leaf(Codec *c, Scope *s, OpId op, NodeId id)
{
    const Node *n = c->is_writing ? graph_node(s->g, id) : NULL;
    AttrVal attr[MAX_ATTRS];
    TensorType t = {0};
    if (n)
        t = (TensorType){(DType)n->dtype, *n->shape};
    t.dtype = codec_dtype(c, t.dtype);
    code_shape(c, &t.shape);
    if (c->has_failed)
        return 0;
    const uint32_t n_attr = code_attrs(c, s, op, n, attr);
    if (c->is_writing || c->has_failed)
        return id;
    if (s->depth && (op == OP_param || op == OP_state)) {
        codec_fail(c, "a sub-graph has a %s, which only the model itself may have", op_info[op].name);
        return 0;
    }
    return make_leaf(c, s->g, op, &t, attr, n_attr);
}

static NodeId code_compute(Codec *c, Scope *s, OpId op, NodeId id, const char *label)
{
    const Node *n = c->is_writing ? graph_node(s->g, id) : NULL;
    AttrVal attr[MAX_ATTRS];
    const uint32_t n_src = codec_count(c, n ? n->n_src : 0, 4);
    NodeId *src = ARENA_ARRAY(c->arena, NodeId, n_src);
    for (uint32_t i = 0; i < n_src && !c->has_failed; i++)
        src[i] = code_id(c, s, n ? n->src[i] : 0);
    const uint32_t n_attr = code_attrs(c, s, op, n, attr);
    if (c->is_writing || c->has_failed)
        return id;
    const Span span = {.file = c->file, .path = label ? label : arena_printf(c->arena, "node %u", s->n + 1)};
    NodeBuild b = node_begin(s->g, op, span, label);
    for (uint32_t i = 0; i < n_src; i++)
        node_src(&b, src[i]);
    for (uint32_t i = 0; i < n_attr; i++)
        set_attr(&b, &attr[i]);
    return node_end(&b);
}

static OpId code_op(Codec *c, OpId op)
{
    const char *name = codec_str(c, c->is_writing ? op_info[op].name : NULL);
    if (!c->is_writing && !c->has_failed && (!op_parse(name, &op) || op == OP_none)) {
        codec_fail(c, "there is no op '%s'", name);
        return OP_none;
    }
    return op;
}

static void code_node(Codec *c, Scope *s, NodeId id)
{
    const OpId op = code_op(c, c->is_writing ? (OpId)graph_node(s->g, id)->op : OP_none);
    const bool is_named = op_info[op].kind == OPKIND_LEAF && op != OP_const;
    const char *label = codec_optional(c, c->is_writing && !is_named ? s->g->labels.data[id] : NULL);
    if (label && is_named)
        codec_fail(c, "an %s has a label beside its name", op_info[op].name);
    if (c->has_failed)
        return;
    id = op_info[op].kind == OPKIND_LEAF ? code_leaf(c, s, op, id) : code_compute(c, s, op, id, label);
    if (c->is_writing) {
        s->number[id] = ++s->n;
        return;
    }
    c->has_failed |= id == 0; // reported
    if (id)
        intern_origin(s->g, id, (Span){0}, label);
    s->ids[++s->n] = id;
}

static void write_nodes(Codec *c, Scope *s)
{
    const Graph *g = s->g;
    bool *is_live = graph_mark_live(g, c->arena);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->params.len; i++) // can be set, whoever reads them
        is_live[g->params.data[i]] = 1;
    for (NodeId id = 1; id < g->nodes.len; id++)
        n += is_live[id];
    s->number = ARENA_ARRAY(c->arena, uint32_t, g->nodes.len);
    codec_count(c, n, 1);
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (is_live[id])
            code_node(c, s, id);
}

static void code_nodes(Codec *c, Scope *s)
{
    if (c->is_writing) {
        write_nodes(c, s);
        return;
    }
    const uint32_t n = codec_count(c, 0, 16);
    s->ids = ARENA_ARRAY(c->arena, NodeId, n + 1u);
    for (uint32_t i = 0; i < n && !c->has_failed; i++)
        code_node(c, s, 0);
}

// --- lists --------------------------------------------------

// A permutation of the leaves of one kind, which are `have` in the order of the nodes. next: of states, or
// NULL.
static void code_leaves(Codec *c, const Scope *s, NodeId *have, uint32_t n_have, uint32_t step)
{
    const uint32_t n = codec_count(c, n_have, 4 * step);
    Map seen = {0};
    if (n != n_have)
        codec_fail(c, "a list has %u inputs, params or states, but there are %u such nodes", n, n_have);
    for (uint32_t i = 0; i < n && !c->has_failed; i++)
        map_put(c->arena, &seen, &have[i * step], sizeof *have, 0);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        uint64_t is_listed = 0;
        const NodeId id = code_node_of(c, s, have[i * step]);
        if (!map_get(&seen, &id, sizeof id, &is_listed) || is_listed)
            codec_fail(c, "a list of inputs, params or states names another node, or one node twice");
        map_put(c->arena, &seen, &id, sizeof id, 1);
        have[i * step] = id;
        if (step == 2)
            have[i * 2 + 1] = code_node_of(c, s, have[i * 2 + 1]);
    }
}

static void code_outputs(Codec *c, const Scope *s)
{
    const Graph *g = s->g;
    const uint32_t n = codec_count(c, g->outputs.len, 8);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        GraphOutput o = c->is_writing ? g->outputs.data[i] : (GraphOutput){0};
        o.name = codec_str(c, o.name);
        o.node = code_node_of(c, s, o.node);
        if (!c->is_writing && !c->has_failed)
            graph_output(s->g, o.name, o.node);
    }
}

static void code_checks(Codec *c, const Scope *s)
{
    const uint32_t n = codec_count(c, s->g->checks.len, 8);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        GraphCheck k = c->is_writing ? s->g->checks.data[i] : (GraphCheck){0};
        k.cond = code_node_of(c, s, k.cond);
        k.message = codec_str(c, k.message);
        if (!c->is_writing && !c->has_failed)
            c->has_failed = !graph_check(s->g, k.cond, k.message);
    }
}

static void code_extents(Codec *c, const Scope *s)
{
    const uint32_t n = codec_count(c, s->g->extents.len, 20);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        GraphExtent e = c->is_writing ? s->g->extents.data[i] : (GraphExtent){0};
        e.dim = codec_dim(c, e.dim);
        e.value = code_node_of(c, s, e.value);
        e.max = codec_dim(c, e.max);
        if (!c->is_writing && !c->has_failed)
            c->has_failed = !graph_add_extent(s->g, e.dim, e.value, e.max);
    }
}

static void code_states(Codec *c, const Scope *s)
{
    Graph *g = s->g;
    NodeId *pairs = ARENA_ARRAY(c->arena, NodeId, (size_t)g->states.len * 2);
    for (uint32_t i = 0; i < g->states.len; i++) {
        pairs[i * 2] = g->states.data[i].node;
        pairs[i * 2 + 1] = g->states.data[i].next;
    }
    code_leaves(c, s, pairs, g->states.len, 2);
    for (uint32_t i = 0; i < g->states.len && !c->is_writing; i++)
        g->states.data[i] = (GraphState){.node = pairs[i * 2], .next = pairs[i * 2 + 1]};
}

static Graph *code_graph(Codec *c, Graph *g, Graph *parent, uint32_t depth)
{
    const char *name = codec_str(c, g ? g->name : NULL);
    if (!g && depth > GRAPH_MAX_DEPTH)
        codec_fail(c, "sub-graphs are nested more than %d deep", GRAPH_MAX_DEPTH);
    if (!g)
        g = graph_new_like(parent, name);
    Scope s = {.g = g, .depth = depth};
    if (c->has_failed)
        return g;
    code_nodes(c, &s);
    if (c->has_failed)
        return g;
    code_leaves(c, &s, g->inputs.data, g->inputs.len, 1);
    code_leaves(c, &s, g->params.data, g->params.len, 1);
    code_states(c, &s);
    code_outputs(c, &s);
    code_checks(c, &s);
    code_extents(c, &s);
    return g;
}

// --- what the model calls its inputs and outputs --------------------------------------------------

static void code_parts(Codec *c, GraphIo *io)
{
    io->n_parts = codec_count(c, io->n_parts, 4);
    const char **parts = ARENA_ARRAY(c->arena, const char *, io->n_parts);
    for (uint32_t i = 0; i < io->n_parts; i++)
        parts[i] = codec_str(c, c->is_writing ? io->parts[i] : NULL);
    io->parts = parts;
}

static void code_io(Codec *c, Graph *g)
{
    const uint32_t n = codec_count(c, g->io.len, 32);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        GraphIo io = c->is_writing ? g->io.data[i] : (GraphIo){0};
        io.name = codec_str(c, io.name);
        io.kind = codec_enum(c, io.kind, IO_OPTIONAL + 1, "a kind of input");
        io.of = codec_enum(c, io.of, IO_OPTIONAL + 1, "a kind of input");
        io.is_output = codec_enum(c, io.is_output, 2, "a bool");
        io.is_text = codec_enum(c, io.is_text, 2, "a bool");
        io.has_value = codec_enum(c, io.has_value, 2, "a bool");
        io.dtype = codec_dtype(c, io.dtype);
        code_parts(c, &io);
        if (!c->is_writing && !c->has_failed)
            vec_push(g->arena, &g->io, io);
    }
}

void codec_model(Codec *c, Graph **g)
{
    if (c->is_writing) {
        rlx_assert(*g != NULL);
        code_graph(c, *g, NULL, 0);
        code_io(c, *g);
        return;
    }
    Graph *parent = *g;
    *g = code_graph(c, NULL, parent, 0);
    code_io(c, *g);
    if (!c->has_failed && c->at != c->end)
        codec_fail(c, "%zu bytes follow the graph, which must end its section", c->end - c->at);
    if (c->has_failed)
        *g = NULL;
}
