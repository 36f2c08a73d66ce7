// SPDX-License-Identifier: Apache-2.0
// Changes ONNX models as models: what comes out can be read as protobuf, and most names in it are those of
// values, so that it gets deep into the importer and the passes. Here are the changes of nodes, operands and
// the interface; the others stand in mutate_onnx_parts.c and mutate_onnx_nest.c.
#include "tests/fuzz/mutate_onnx.h"
#include "compiler/import/onnx/onnx_proto.h"

#include <string.h>

enum { MAX_DEPTH = 64, MAX_STEPS = 5 };

static const struct {
    const char *domain, *name;
} ops[] = {
#define ONNX_ROW(domain, name, min, max, fn, op) {domain, #name},
#include "compiler/import/onnx/onnx_ops.def"
};

// --- lists and picks -----------------------------------------------------------------------------------

void *list_open(Arena *a, const void *list, size_t n, size_t size, size_t at)
{
    char *copy = arena_alloc_array(a, n + 1, size);
    if (n) {
        memcpy(copy, list, at * size);
        memcpy(copy + (at + 1) * size, (const char *)list + at * size, (n - at) * size);
    }
    return copy;
}

void list_cut(void *list, size_t *n, size_t size, size_t at)
{
    char *p = list;
    memmove(p + at * size, p + (at + 1) * size, (*n - at - 1) * size);
    *n -= 1;
}

Onnx__NodeProto *edit_node(Edit *e)
{
    return e->graph->n_node ? e->graph->node[pick(e->graph->n_node)] : NULL;
}

char *edit_new_name(Edit *e, const char *kind)
{
    return arena_printf(e->arena, "%s_%x", kind, (unsigned)(random_bits() & 0xffff));
}

char *edit_name(Edit *e)
{
    if (!pick(24))
        return arena_strdup(e->arena, "");
    return e->names.len && pick(24) ? arena_strdup(e->arena, e->names.data[pick(e->names.len)])
                                    : edit_new_name(e, "none");
}

int64_t edit_number(void)
{
    static const int64_t numbers[] = {
        0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 255, -1, -2, -3, -8, 100, 4096, 65536, INT32_MAX, INT64_MAX,
        INT64_MIN, 1 << 20};
    const size_t n = sizeof numbers / sizeof *numbers;
    const int64_t v = numbers[pick(pick(3) ? 9 : n)];
    return pick(6) || v == INT64_MIN ? v : -v;
}

// --- what the model holds ------------------------------------------------------------------------------

static void note_name(Edit *e, const char *name)
{
    if (name && *name)
        vec_push(e->arena, &e->names, name);
}

static void collect(Edit *e, Onnx__GraphProto *g, uint32_t depth);

static void collect_node(Edit *e, const Onnx__NodeProto *n, uint32_t depth)
{
    for (size_t i = 0; i < n->n_output; i++)
        note_name(e, n->output[i]);
    for (size_t i = 0; i < n->n_attribute; i++)
        if (n->attribute[i]->g)
            collect(e, n->attribute[i]->g, depth + 1);
}

static void collect(Edit *e, Onnx__GraphProto *g, uint32_t depth)
{
    if (depth > MAX_DEPTH)
        return;
    vec_push(e->arena, &e->graphs, g);
    for (size_t i = 0; i < g->n_input; i++)
        note_name(e, g->input[i]->name);
    for (size_t i = 0; i < g->n_initializer; i++)
        note_name(e, g->initializer[i]->name);
    for (size_t i = 0; i < g->n_node; i++)
        collect_node(e, g->node[i], depth);
}

static Onnx__NodeProto *copy_node(Edit *e, const Onnx__NodeProto *n)
{
    const size_t len = onnx__node_proto__get_packed_size(n);
    uint8_t *bytes = arena_alloc(e->arena, len);
    onnx__node_proto__pack(n, bytes);
    ProtobufCAllocator allocator = edit_allocator(e->arena);
    return onnx__node_proto__unpack(&allocator, len, bytes);
}

// --- operands ------------------------------------------------------------------------------------------

static void change_operand(Edit *e)
{
    Onnx__NodeProto *n = edit_node(e);
    if (n && n->n_input)
        n->input[pick(n->n_input)] = edit_name(e);
}

static void cut_operand(Edit *e)
{
    Onnx__NodeProto *n = edit_node(e);
    if (n && n->n_input)
        LIST_CUT(n->input, n->n_input, pick(n->n_input));
}

static void add_operand(Edit *e)
{
    Onnx__NodeProto *n = edit_node(e);
    if (n)
        LIST_PUT(e, n->input, n->n_input, edit_name(e));
}

static void swap_operands(Edit *e)
{
    Onnx__NodeProto *n = edit_node(e);
    if (!n || n->n_input < 2)
        return;
    char **a = &n->input[pick(n->n_input)], **b = &n->input[pick(n->n_input)], *kept = *a;
    *a = *b;
    *b = kept;
}

static void add_result(Edit *e)
{
    Onnx__NodeProto *n = edit_node(e);
    if (n)
        LIST_PUT(e, n->output, n->n_output, edit_new_name(e, "more"));
}

// --- nodes ---------------------------------------------------------------------------------------------

static void set_op(Edit *e, Onnx__NodeProto *n)
{
    const size_t i = pick(sizeof ops / sizeof *ops);
    n->domain = arena_strdup(e->arena, strcmp(ops[i].domain, "ai.onnx") == 0 ? "" : ops[i].domain);
    n->op_type = arena_strdup(e->arena, ops[i].name);
}

static void change_op(Edit *e)
{
    Onnx__NodeProto *n = edit_node(e);
    if (n)
        set_op(e, n);
}

// What the graph and its nodes read as `from` they read as `to`, from node `first` on.
static void redirect(Edit *e, size_t first, const char *from, char *to)
{
    for (size_t i = first; i < e->graph->n_node; i++)
        for (size_t k = 0; k < e->graph->node[i]->n_input; k++)
            if (strcmp(e->graph->node[i]->input[k], from) == 0)
                e->graph->node[i]->input[k] = to;
}

static void insert_node(Edit *e, Onnx__NodeProto *n, size_t at)
{
    e->graph->node = list_open(e->arena, e->graph->node, e->graph->n_node, sizeof *e->graph->node, at);
    e->graph->node[at] = n;
    e->graph->n_node++;
}

// A node of any op behind another, which what read the other reads instead.
static void add_node(Edit *e)
{
    if (!e->graph->n_node)
        return;
    const size_t at = pick(e->graph->n_node);
    const Onnx__NodeProto *before = e->graph->node[at];
    Onnx__NodeProto *n = ARENA_NEW(e->arena, Onnx__NodeProto);
    onnx__node_proto__init(n);
    set_op(e, n);
    char *result = edit_new_name(e, "new");
    if (before->n_output)
        redirect(e, at + 1, before->output[0], result);
    LIST_PUT(e, n->input, n->n_input, before->n_output ? before->output[0] : edit_name(e));
    for (size_t more = pick(3); more > 0; more--)
        LIST_PUT(e, n->input, n->n_input, edit_name(e));
    LIST_PUT(e, n->output, n->n_output, result);
    for (size_t more = pick(3); more > 0; more--)
        LIST_PUT(e, n->attribute, n->n_attribute, edit_make_attribute(e, NULL));
    insert_node(e, n, at + 1);
}

// What read the node's first result reads its first operand.
static void cut_node(Edit *e)
{
    if (!e->graph->n_node)
        return;
    const size_t at = pick(e->graph->n_node);
    const Onnx__NodeProto *n = e->graph->node[at];
    if (n->n_input && n->n_output)
        redirect(e, at + 1, n->output[0], n->input[0]);
    LIST_CUT(e->graph->node, e->graph->n_node, at);
}

// A copy of a node of this graph or of another seed, with results of its own.
static void graft(Edit *e, const Onnx__NodeProto *from, int renames)
{
    Onnx__NodeProto *n = copy_node(e, from);
    if (!n)
        return;
    for (size_t i = 0; i < n->n_output; i++)
        if (*n->output[i])
            n->output[i] = edit_new_name(e, "copy");
    for (size_t i = 0; i < n->n_input && renames; i++)
        n->input[i] = edit_name(e);
    const size_t at = pick(e->graph->n_node + 1);
    if (n->n_output)
        redirect(e, at, edit_name(e), n->output[0]);
    insert_node(e, n, at);
}

static void repeat_node(Edit *e)
{
    const Onnx__NodeProto *n = edit_node(e);
    if (n)
        graft(e, n, 0);
}

static void graft_node(Edit *e)
{
    const Onnx__ModelProto *other = edit_read(e->arena, &e->seeds[pick(e->n_seeds)]);
    if (other && other->graph && other->graph->n_node)
        graft(e, other->graph->node[pick(other->graph->n_node)], 1);
}

static void swap_nodes(Edit *e)
{
    if (!e->graph->n_node)
        return;
    Onnx__NodeProto **a = &e->graph->node[pick(e->graph->n_node)], *kept = *a;
    Onnx__NodeProto **b = &e->graph->node[pick(e->graph->n_node)];
    *a = *b;
    *b = kept;
}

// --- the interface -------------------------------------------------------------------------------------

static void change_output(Edit *e)
{
    if (e->graph->n_output && pick(3))
        e->graph->output[pick(e->graph->n_output)]->name = edit_name(e);
    else if (e->graph->n_output && pick(2))
        LIST_CUT(e->graph->output, e->graph->n_output, pick(e->graph->n_output));
    else {
        Onnx__ValueInfoProto *v = ARENA_NEW(e->arena, Onnx__ValueInfoProto);
        onnx__value_info_proto__init(v);
        v->name = edit_name(e);
        LIST_PUT(e, e->graph->output, e->graph->n_output, v);
    }
}

static void change_opset(Edit *e)
{
    if (!e->model->n_opset_import)
        return;
    Onnx__OperatorSetIdProto *o = e->model->opset_import[pick(e->model->n_opset_import)];
    o->has_version = 1;
    o->version = pick(8) ? (int64_t)pick(24) + 1 : edit_number();
}

// --- all of them ---------------------------------------------------------------------------------------

static const EditStep steps[] = {
    change_operand, change_operand,   change_operand,  cut_operand,        add_operand,
    swap_operands,  add_result,       change_op,       change_op,          add_node,
    add_node,       cut_node,         repeat_node,     graft_node,         graft_node,
    swap_nodes,     change_output,    change_opset,    edit_attribute,     edit_attribute,
    edit_attribute, edit_attribute,   edit_tensor,     edit_add_attribute, edit_add_attribute,
    edit_tensor,    edit_value_shape, edit_value_type, edit_cut_attribute, edit_rename_attribute,
    edit_tensor,    edit_value_shape, edit_value_type, edit_wrap_if,       edit_wrap_loop,
    edit_inline,    edit_wrap_if,     edit_wrap_loop,  edit_wrap_function, edit_initializer_to_input,
};

static void *take(void *arena, size_t n)
{
    return arena_alloc(arena, n);
}

static void leave(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

ProtobufCAllocator edit_allocator(Arena *a)
{
    return (ProtobufCAllocator){take, leave, a};
}

Onnx__ModelProto *edit_read(Arena *a, const Bytes *in)
{
    Diag d = diag_new(a);
    return onnx_proto_read(a, &d, (Span){0}, in->data, in->len);
}

bool onnx_mutate(Bytes *in, const Bytes *seeds, size_t n_seeds)
{
    Arena a = {0};
    Edit e = {.arena = &a, .model = edit_read(&a, in), .seeds = seeds, .n_seeds = n_seeds};
    bool fits = e.model && e.model->graph;
    for (size_t n = pick(MAX_STEPS) + 1; fits && n > 0; n--) {
        e.graphs.len = e.names.len = 0;
        collect(&e, e.model->graph, 0);
        e.graph = e.graphs.data[pick(3) ? 0 : pick(e.graphs.len)];
        steps[pick(sizeof steps / sizeof *steps)](&e);
        fits = onnx__model_proto__get_packed_size(e.model) <= INPUT_CAP;
    }
    if (fits)
        in->len = onnx__model_proto__pack(e.model, in->data);
    arena_free(&a);
    return fits;
}
