// SPDX-License-Identifier: Apache-2.0
// Carried values that grow: every iteration joins rows to what there is, as PyTorch's scripting writes lists
// that a loop fills. The rows are a scan output, and the join comes once, behind the loop.
#include "compiler/import/onnx/onnx_loop.h"

#include <string.h>

// A carried value that grows: its place among the carried values, the name of the rows in the body.
typedef struct Growing {
    uint32_t at;
    const char *rows;
} Growing;

// How often a name is read in a graph and the graphs inside. Nesting is limited by the reader of protobuf.
static uint32_t count_uses(const Onnx__GraphProto *g, const char *name)
{
    uint32_t uses = 0;
    for (size_t i = 0; i < g->n_output; i++)
        uses += strcmp(onnx_text(g->output[i]->name), name) == 0;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        for (size_t k = 0; k < n->n_input; k++)
            uses += strcmp(onnx_text(n->input[k]), name) == 0;
        for (size_t k = 0; k < n->n_attribute; k++)
            uses += n->attribute[k]->g ? count_uses(n->attribute[k]->g, name) : 0;
    }
    return uses;
}

static const Onnx__NodeProto *find_maker(const Onnx__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (g->node[i]->n_output == 1 && strcmp(onnx_text(g->node[i]->output[0]), name) == 0)
            return g->node[i];
    return NULL;
}

static bool is_op(const Onnx__NodeProto *n, const char *op)
{
    return n && strcmp(onnx_text(n->op_type), op) == 0 && onnx_text(n->domain)[0] == '\0';
}

static bool joins_rows(const Onnx__NodeProto *n)
{
    return is_op(n, "Concat") && n->n_input == 2 && n->n_attribute == 1 && n->attribute[0]->i == 0 &&
           strcmp(onnx_text(n->attribute[0]->name), "axis") == 0;
}

// The type that a Cast gives, 0: it is an Identity, which keeps any.
static int64_t type_given(const Onnx__NodeProto *n)
{
    int64_t to = 0;
    for (size_t i = 0; i < n->n_attribute; i++)
        to = strcmp(onnx_text(n->attribute[i]->name), "to") == 0 ? n->attribute[i]->i : to;
    return to;
}

// The nodes from the carried value to the join; 0: it is not one that grows. Casts to several types would
// round the rows again in each iteration.
static uint32_t find_chain(const Onnx__GraphProto *g, const char *in, const char *out,
                           const Onnx__NodeProto **chain, uint32_t most)
{
    rlx_assert(most >= 1);
    const Onnx__NodeProto *at = find_maker(g, out);
    uint32_t n = 0;
    int64_t type = 0;
    if (!joins_rows(at) || count_uses(g, out) != 1 || count_uses(g, in) != 1)
        return 0;
    chain[n++] = at;
    while (strcmp(onnx_text(at->input[0]), in) != 0) {
        const char *name = onnx_text(at->input[0]);
        at = find_maker(g, name);
        if (n == most || (!is_op(at, "Identity") && !is_op(at, "Cast")) || at->n_input != 1 ||
            count_uses(g, name) != 1)
            return 0;
        const int64_t given = type_given(at);
        if (type != 0 && given != 0 && given != type)
            return 0;
        type = given != 0 ? given : type;
        chain[n++] = at;
    }
    return n;
}

static void leave_out(Onnx__GraphProto *g, const Onnx__NodeProto *const *chain, uint32_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->n_node; i++) {
        bool is_in = false;
        for (uint32_t k = 0; k < n; k++)
            is_in = is_in || g->node[i] == chain[k];
        if (!is_in)
            g->node[kept++] = g->node[i];
    }
    g->n_node = kept;
}

static Onnx__ValueInfoProto *named_value(Arena *a, const char *name)
{
    Onnx__ValueInfoProto *v = ARENA_NEW(a, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(v);
    v->name = arena_strdup(a, name);
    return v;
}

// The body without the values that grow and what joins them; their rows are its last outputs. Returns how
// many there are.
static uint32_t find_growing(Arena *a, const Onnx__GraphProto *body, uint32_t n_carried, Growing *grown,
                             Onnx__GraphProto *out)
{
    enum { MOST = 8 };
    const Onnx__NodeProto *chain[MOST];
    uint32_t n = 0;
    if (body->n_input != 2 + (size_t)n_carried || body->n_output < 1 + (size_t)n_carried)
        return 0;
    *out = *body;
    out->node = arena_copy(a, body->node, body->n_node * sizeof *body->node);
    out->input = ARENA_ARRAY(a, Onnx__ValueInfoProto *, body->n_input);
    out->output = ARENA_ARRAY(a, Onnx__ValueInfoProto *, body->n_output);
    out->n_input = out->n_output = 0;
    for (size_t i = 0; i < body->n_input; i++) {
        const char *in = onnx_text(body->input[i]->name);
        const char *next = i < 2 ? "" : onnx_text(body->output[i - 1]->name);
        const uint32_t length = i < 2 ? 0 : find_chain(body, in, next, chain, MOST);
        leave_out(out, chain, length);
        if (length != 0) {
            grown[n++] = (Growing){(uint32_t)i - 2, onnx_text(chain[0]->input[1])};
            continue;
        }
        out->input[out->n_input++] = body->input[i];
        if (i > 0)
            out->output[out->n_output++] = body->output[i - 1];
    }
    for (size_t i = 1 + n_carried; i < body->n_output; i++)
        out->output[out->n_output++] = body->output[i];
    for (uint32_t i = 0; i < n; i++)
        out->output[out->n_output++] = named_value(a, grown[i].rows);
    rlx_assert(out->n_input + n == body->n_input && out->n_output == body->n_output);
    return n;
}

// What was there before, and the rows of all iterations.
static NodeId join(OnnxNode *n, NodeId before, OnnxValue all)
{
    const Shape s = *onnx_shape(n, all.node);
    Dim flat[SHAPE_MAX_RANK];
    if (n->failed || all.kind != ONNX_NODE || s.rank < 2)
        return 0;
    flat[0] = dim_mul(n->graph->dims, s.dim[0], s.dim[1]);
    for (uint32_t i = 2; i < s.rank; i++)
        flat[i - 1] = s.dim[i];
    const NodeId rows = onnx_reshape_to(n, all.node, flat, s.rank - 1);
    const NodeId parts[] = {onnx_cast(n, before, onnx_dtype(n, rows)), rows};
    const Shape *first = onnx_shape(n, before);
    return first->rank && first->dim[0] == 0 ? rows : onnx_concat(n, parts, 2, 0);
}

// Imports the loop with the values that grow as scan outputs.
static void import_with_rows(OnnxNode *n, const Onnx__GraphProto *body, const Growing *grown, uint32_t count)
{
    rlx_assert(count >= 1 && n->n_in >= 2 + count && n->n_out >= n->n_in - 2);
    Arena *a = n->model->arena;
    Onnx__NodeProto proto = *n->proto;
    OnnxNode loop = *n;
    const uint32_t n_scan = n->n_out - (n->n_in - 2);
    uint32_t *from = ARENA_ARRAY(a, uint32_t, n->n_out + 1), at = 0, g = 0;
    NodeId *like = ARENA_ARRAY(a, NodeId, n->n_out + 1);
    proto.output = ARENA_ARRAY(a, char *, n->n_out + 1);
    loop.proto = &proto;
    loop.in = ARENA_ARRAY(a, OnnxValue, n->n_in);
    loop.in_used = ARENA_ARRAY(a, bool, n->n_in);
    loop.out = ARENA_ARRAY(a, OnnxValue, n->n_out + 1);
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (i >= 2 && g < count && grown[g].at == i - 2) {
            like[n_scan + g++] = onnx_src(n, i);
            continue;
        }
        if (i >= 2)
            from[at++] = i - 2;
        loop.in[i < 2 ? i : at + 1] = n->in[i];
        onnx_skip(n, i);
    }
    for (uint32_t i = n->n_in - 2; i < n->n_out; i++)
        from[at++] = i;
    for (uint32_t i = 0; i < count; i++)
        from[at++] = grown[i].at;
    for (uint32_t i = 0; i < at; i++)
        proto.output[i] = n->proto->output[from[i]];
    rlx_assert(at == n->n_out && g == count);
    loop.n_in -= count;
    loop.failed = n->failed;
    onnx_loop_with(&loop, body, like);
    n->failed = loop.failed;
    for (uint32_t i = 0; i < at && !n->failed; i++) {
        const bool is_grown = i >= at - count;
        if (!is_grown)
            n->out[from[i]] = loop.out[i];
        else if (onnx_wants(n, from[i]))
            onnx_out(n, from[i], join(n, like[n_scan + i - (at - count)], loop.out[i]));
    }
}

// Where the trip count is known the loop is unrolled, and rows of any size are joined.
static bool is_open(OnnxNode *n)
{
    OnnxDims trips;
    return onnx_has(n, 0) && !(onnx_peek_dims(n, 0, &trips) && trips.n == 1 && dim_is_const(trips.dim[0]));
}

void onnx_import_loop(OnnxNode *n)
{
    const Onnx__GraphProto *body = onnx_graph(n, "body");
    Onnx__GraphProto without;
    if (n->n_in < 2)
        onnx_fail(n, E0202, "needs at least 2 inputs, got %u", n->n_in);
    if (n->failed)
        return;
    Growing *grown = ARENA_ARRAY(n->model->arena, Growing, n->n_in);
    const uint32_t n_carried = n->n_in - 2;
    uint32_t count = 0;
    bool are_tensors = true;
    if (is_open(n) && n->n_out >= n_carried)
        count = find_growing(n->model->arena, body, n_carried, grown, &without);
    for (uint32_t i = 0; i < count; i++) {
        const OnnxValue *v = &n->in[2 + grown[i].at];
        are_tensors = are_tensors && v->kind == ONNX_NODE && !v->is_text;
    }
    if (count != 0 && are_tensors)
        import_with_rows(n, arena_copy(n->model->arena, &without, sizeof without), grown, count);
    else
        onnx_loop_with(n, body, NULL);
}
