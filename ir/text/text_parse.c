// SPDX-License-Identifier: Apache-2.0
// Parsing the text form of a graph: one function per kind of statement. The first error ends the parse; all
// nodes go through the builder, so that hand-written text meets the same checks as an imported model.
#include "ir/graph/intern.h"
#include "ir/text/text.h"
#include "ir/text/text_lex.h"

// The names of one graph; a sub-graph has its own.
typedef struct Scope {
    Graph *graph;
    Map numbers; // of %12: NodeId
    Map states;  // NodeId: index into graph->states
    uint32_t depth;
} Scope;

static bool parse_body(Lexer *l, Scope *s);

// --- references ---

static bool parse_number(Lexer *l, uint64_t *out)
{
    int64_t v = 0;
    if (!lex_expect(l, "%"))
        return false;
    size_t begin = l->at;
    while (l->at < l->len && l->text[l->at] >= '0' && l->text[l->at] <= '9')
        l->at++;
    if (!str_parse_i64(l->text + begin, l->at - begin, &v))
        return lex_fail(l, begin, E0107, "expected the number of a node");
    *out = (uint64_t)v;
    return true;
}

static bool parse_reference(Lexer *l, const Scope *s, NodeId *out)
{
    uint64_t number = 0, found = 0;
    lex_skip(l);
    size_t begin = l->at;
    if (!parse_number(l, &number))
        return false;
    if (!map_get(&s->numbers, &number, sizeof number, &found))
        return lex_fail(l, begin, E0103, "no line before defines %%%llu", (unsigned long long)number);
    *out = (NodeId)found;
    return true;
}

// --- attributes ---

static bool parse_sub_graph(Lexer *l, const Scope *outer, Graph **out)
{
    Scope s = {.depth = outer->depth + 1};
    const char *name = NULL;
    if (s.depth > GRAPH_MAX_DEPTH)
        return lex_fail(l, l->at, E0004, "sub-graphs nest deeper than %d", GRAPH_MAX_DEPTH);
    if (!lex_expect(l, "graph") || !lex_string(l, "the name of the graph", &name))
        return false;
    s.graph = *out = graph_new_like(outer->graph, name);
    return parse_body(l, &s);
}

static bool parse_bool(Lexer *l, int64_t *out)
{
    *out = lex_take(l, "true");
    return *out || lex_take(l, "false") || lex_fail(l, l->at, E0107, "expected true or false");
}

static bool parse_int_attr(Lexer *l, AttrType type, int64_t *out)
{
    DType dtype = DTYPE_f32;
    if (type == ATTR_BOOL)
        return parse_bool(l, out);
    if (type == ATTR_INT)
        return lex_int(l, "a number", out);
    bool ok = lex_dtype(l, &dtype);
    *out = dtype;
    return ok;
}

static bool parse_list_attr(Lexer *l, const Scope *s, NodeBuild *b, AttrId id)
{
    DimList list = {0};
    if (attr_info[id].type == ATTR_INTS ? !lex_ints(l, &list) : !lex_dims(l, s->graph->dims, &list))
        return false;
    node_ints(b, id, list.v.data, list.v.len);
    return true;
}

static bool parse_attr_value(Lexer *l, const Scope *s, NodeBuild *b, AttrId id)
{
    const char *text = NULL;
    Graph *sub = NULL;
    double number = 0;
    int64_t v = 0;
    switch (attr_info[id].type) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_DTYPE:
        if (!parse_int_attr(l, attr_info[id].type, &v))
            return false;
        node_int(b, id, v);
        return true;
    case ATTR_FLOAT:
        if (!lex_float(l, &number))
            return false;
        node_float(b, id, number);
        return true;
    case ATTR_STR:
        if (!lex_string(l, "a text", &text))
            return false;
        node_str(b, id, text);
        return true;
    case ATTR_INTS:
    case ATTR_DIMS:
        return parse_list_attr(l, s, b, id);
    case ATTR_GRAPH:
        if (!parse_sub_graph(l, s, &sub))
            return false;
        node_graph(b, id, sub);
        return true;
    case ATTR_BLOB:
        break;
    }
    diag_bug(__FILE__, __LINE__, "only leaves have blobs");
}

static bool parse_attr(Lexer *l, const Scope *s, NodeBuild *b)
{
    const char *name = NULL;
    lex_skip(l);
    size_t begin = l->at;
    if (!lex_word(l, "the name of an attribute", &name))
        return false;
    AttrId id = attr_find(b->op, name);
    if (id == ATTR_COUNT)
        return lex_fail(l, begin, E0203, "%s has no attribute '%s'", op_info[b->op].name, name);
    for (uint32_t i = 0; i < b->n_attr; i++)
        if (b->attr[i].id == id)
            return lex_fail(l, begin, E0107, "the attribute '%s' is given twice", name);
    return lex_expect(l, "=") && parse_attr_value(l, s, b, id);
}

static bool parse_attrs(Lexer *l, const Scope *s, NodeBuild *b)
{
    if (!lex_take(l, "{"))
        return true;
    for (bool is_first = true; !lex_at(l, '}'); is_first = false)
        if ((!is_first && !lex_expect(l, ",")) || !parse_attr(l, s, b))
            return false;
    return lex_expect(l, "}");
}

// --- nodes ---

static bool parse_operands(Lexer *l, const Scope *s, NodeBuild *b)
{
    if (!lex_expect(l, "("))
        return false;
    for (bool is_first = true; !lex_at(l, ')'); is_first = false) {
        NodeId id = 0;
        if (!is_first && !lex_expect(l, ","))
            return false;
        if (!lex_take(l, "_") && !parse_reference(l, s, &id))
            return false;
        node_src(b, id);
    }
    return lex_expect(l, ")");
}

// The types behind the colon; n = 0 when there are none.
static bool parse_types(Lexer *l, DimTable *t, TensorType *types, uint32_t *n)
{
    *n = 0;
    if (!lex_take(l, ":"))
        return true;
    if (!lex_take(l, "(")) {
        *n = 1;
        return lex_type(l, t, types);
    }
    do {
        if (*n == NODE_MAX_RESULTS)
            return lex_fail(l, l->at, E0107, "more than %d results", NODE_MAX_RESULTS);
        if (!lex_type(l, t, &types[(*n)++]))
            return false;
    } while (lex_take(l, ","));
    return lex_expect(l, ")");
}

static bool check_types(const Lexer *l, const Graph *g, NodeId id, const TensorType *types, uint32_t n)
{
    const Node *node = graph_node(g, id);
    if (n && n != node->n_results)
        return diag_error(l->diag, node_span(g, id), E0107, "the line gives %u types, the op has %u results",
                          n, node->n_results);
    for (uint32_t i = 0; i < n; i++) {
        DType dtype = i ? node->results[i].dtype : (DType)node->dtype;
        const Shape *shape = i ? &node->results[i].shape : node->shape;
        if (dtype == types[i].dtype && shape_equal(shape, &types[i].shape))
            continue;
        Str given = str_new(l->arena), made = str_new(l->arena);
        shape_print(g->dims, types[i].dtype, &types[i].shape, &given);
        shape_print(g->dims, dtype, shape, &made);
        return diag_error(l->diag, node_span(g, id), E0107, "result %u is %s, the line says %s", i,
                          str_text(&made), str_text(&given));
    }
    return true;
}

static bool parse_op(Lexer *l, const Scope *s, OpId op, size_t begin, NodeId *out)
{
    TensorType types[NODE_MAX_RESULTS];
    uint32_t n_types = 0;
    NodeBuild b = node_begin(s->graph, op, (Span){0}, NULL);
    if (!parse_operands(l, s, &b) || !parse_attrs(l, s, &b) ||
        !parse_types(l, s->graph->dims, types, &n_types))
        return false;
    b.span = lex_span(l, begin);
    b.label = lex_take_comment(l);
    *out = node_end(&b);
    return *out && check_types(l, s->graph, *out, types, n_types);
}

static bool parse_leaf_values(Lexer *l, const Scope *s, OpId op, const TensorType *type, Tensor *out)
{
    lex_skip(l);
    size_t begin = l->at;
    *out = (Tensor){0};
    if (op == OP_input || (op != OP_const && !lex_at(l, '=')))
        return true;
    if (!lex_expect(l, "=") || !type_check(s->graph, lex_span(l, begin), op_info[op].name, type))
        return false;
    if (!shape_is_const(&type->shape))
        return lex_fail(l, begin, E0207, "a tensor with values needs a constant shape");
    return lex_values(l, type, out);
}

static NodeId make_leaf(const Scope *s, OpId op, const char *name, const TensorType *type,
                        const Tensor *values, Span span)
{
    Graph *g = s->graph;
    uint64_t bytes = values->data ? type_bytes(type->dtype, &type->shape) : 0;
    if (op == OP_input)
        return graph_input(g, name, type->dtype, &type->shape, span);
    if (op == OP_param)
        return graph_param(g, name, type->dtype, &type->shape, values->data, bytes, span);
    if (op == OP_state)
        return graph_state(g, name, type->dtype, &type->shape, values->data, bytes, span);
    return graph_const(g, type->dtype, &type->shape, values->data, bytes, span);
}

static bool parse_leaf(Lexer *l, Scope *s, OpId op, size_t begin, NodeId *out)
{
    const char *name = NULL;
    TensorType type = {0};
    Tensor values = {0};
    if (op != OP_const && !lex_string(l, "a name", &name))
        return false;
    if (!lex_expect(l, ":") || !lex_type(l, s->graph->dims, &type) ||
        !parse_leaf_values(l, s, op, &type, &values))
        return false;
    Span span = lex_span(l, begin);
    const char *label = lex_take_comment(l);
    *out = make_leaf(s, op, name, &type, &values, span);
    if (!*out)
        return false;
    if (label)
        intern_origin(s->graph, *out, span, label);
    if (op == OP_state)
        map_put(l->arena, &s->states, out, sizeof *out, s->graph->states.len - 1);
    return true;
}

static bool parse_node(Lexer *l, Scope *s)
{
    size_t begin = l->at;
    const char *name = NULL;
    uint64_t number = 0;
    NodeId id = 0;
    OpId op = OP_none;
    if (!parse_number(l, &number))
        return false;
    if (map_get(&s->numbers, &number, sizeof number, NULL))
        return lex_fail(l, begin, E0104, "%%%llu is defined twice", (unsigned long long)number);
    if (!lex_expect(l, "="))
        return false;
    lex_skip(l);
    size_t op_at = l->at;
    if (!lex_word(l, "an operator", &name))
        return false;
    if (!op_parse(name, &op))
        return lex_fail(l, op_at, E0201, "there is no operator '%s'", name);
    bool is_leaf = op_info[op].kind == OPKIND_LEAF;
    if (is_leaf ? !parse_leaf(l, s, op, begin, &id) : !parse_op(l, s, op, begin, &id))
        return false;
    map_put(l->arena, &s->numbers, &number, sizeof number, id);
    return true;
}

// --- other statements ---

static bool parse_symbol_numbers(Lexer *l, Symbol *out)
{
    out->multiple = 1;
    if (!lex_expect(l, "[") || !lex_int(l, "the smallest value", &out->min) || !lex_expect(l, ",") ||
        !lex_int(l, "the largest value", &out->max) || !lex_expect(l, "]"))
        return false;
    if (lex_take(l, "multiple") && !lex_int(l, "a divisor of all values", &out->multiple))
        return false;
    out->has_dflt = lex_take(l, "default");
    return !out->has_dflt || lex_int(l, "the default value", &out->dflt);
}

static bool parse_symbol(Lexer *l, const Scope *s)
{
    Symbol sym = {0};
    DimTable *t = s->graph->dims;
    lex_skip(l);
    size_t begin = l->at;
    sym.name = lex_take_word(l);
    if (!sym.name && !lex_string(l, "the name of a symbol", &sym.name))
        return false;
    if (dim_find_symbol(t, sym.name) >= 0)
        return lex_fail(l, begin, E0104, "there is already a symbol '%s'", sym.name);
    if (!parse_symbol_numbers(l, &sym))
        return false;
    if (sym.min < 0 || sym.min > sym.max || sym.max > DIM_MAX_VALUE || sym.multiple < 1 ||
        sym.multiple > DIM_MAX_VALUE)
        return lex_fail(l, begin, E0208, "symbol '%s': expected 0 <= min <= max <= %lld and 1 <= multiple",
                        sym.name, (long long)DIM_MAX_VALUE);
    if (sym.has_dflt && (sym.dflt < sym.min || sym.dflt > sym.max || sym.dflt % sym.multiple))
        return lex_fail(l, begin, E0208, "symbol '%s': the default is not one of its values", sym.name);
    dim_symbol(t, sym.name, sym.min, sym.max, sym.multiple);
    if (sym.has_dflt)
        dim_set_default(t, sym.name, sym.dflt);
    return true;
}

static bool parse_state(Lexer *l, const Scope *s)
{
    NodeId state = 0, next = 0;
    uint64_t index = 0;
    lex_skip(l);
    size_t begin = l->at;
    if (!parse_reference(l, s, &state))
        return false;
    if (!map_get(&s->states, &state, sizeof state, &index))
        return lex_fail(l, begin, E0209, "%%%u is not a state", state);
    rlx_assert(index < s->graph->states.len && s->graph->states.data[index].node == state);
    GraphState *entry = &s->graph->states.data[index];
    if (entry->next)
        return lex_fail(l, begin, E0209, "the next value of this state is given twice");
    if (!lex_expect(l, "->") || !parse_reference(l, s, &next))
        return false;
    const Node *a = graph_node(s->graph, state), *b = graph_node(s->graph, next);
    if (a->dtype != b->dtype || !shape_equal(a->shape, b->shape))
        return lex_fail(l, begin, E0209, "the next value has another type than the state");
    entry->next = next;
    return true;
}

static bool parse_output(Lexer *l, const Scope *s)
{
    const char *name = NULL;
    NodeId id = 0;
    uint32_t n_errors = l->diag->n_errors;
    if (!lex_string(l, "the name of the output", &name) || !lex_expect(l, "=") || !parse_reference(l, s, &id))
        return false;
    graph_output(s->graph, name, id);
    return l->diag->n_errors == n_errors;
}

// What an output's sizes are after a run: an output of the graph that is not the model's.
static bool parse_sizes(Lexer *l, const Scope *s)
{
    const char *name = NULL;
    NodeId id = 0;
    const Graph *g = s->graph;
    lex_skip(l);
    const size_t begin = l->at;
    if (!lex_string(l, "the name of an output", &name) || !lex_expect(l, "=") || !parse_reference(l, s, &id))
        return false;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (str_equal(g->outputs.data[i].name, name))
            return graph_output_sizes(s->graph, i, id);
    return lex_fail(l, begin, E0103, "there is no output '%s'", name);
}

// The value of a computed size, its symbol and its bound.
static bool parse_extent(Lexer *l, const Scope *s)
{
    NodeId value = 0;
    DimList dims = {0};
    if (!parse_reference(l, s, &value))
        return false;
    const size_t begin = l->at;
    if (!lex_dims(l, s->graph->dims, &dims))
        return false;
    if (dims.v.len != 2)
        return lex_fail(l, begin, E0107, "expected the symbol and its largest value: [n, 100]");
    return graph_add_extent(s->graph, dims.v.data[0], value, dims.v.data[1]);
}

static bool parse_check(Lexer *l, const Scope *s)
{
    const char *message = NULL;
    NodeId cond = 0;
    return parse_reference(l, s, &cond) && lex_string(l, "the message of the check", &message) &&
           graph_check(s->graph, cond, message);
}

static bool parse_statement(Lexer *l, Scope *s)
{
    size_t begin = l->at;
    if (lex_at(l, '%'))
        return parse_node(l, s);
    const char *word = lex_take_word(l);
    if (word && str_equal(word, "symbol") && s->depth == 0)
        return parse_symbol(l, s);
    if (word && str_equal(word, "state"))
        return parse_state(l, s);
    if (word && str_equal(word, "output"))
        return parse_output(l, s);
    if (word && str_equal(word, "check"))
        return parse_check(l, s);
    if (word && str_equal(word, "sizes"))
        return parse_sizes(l, s);
    if (word && str_equal(word, "extent"))
        return parse_extent(l, s);
    return lex_fail(l, begin, E0107,
                    "expected a node (%%1 = ...), symbol, state, output, check, "
                    "extent, sizes or '}'");
}

static bool parse_body(Lexer *l, Scope *s)
{
    if (!lex_expect(l, "{"))
        return false;
    while (!lex_at(l, '}'))
        if (!parse_statement(l, s))
            return false;
    return lex_expect(l, "}");
}

bool graph_parse(Arena *a, Diag *d, uint32_t file, Graph **out)
{
    rlx_assert(file >= 1 && file <= d->files.len);
    const DiagFile *f = &d->files.data[file - 1];
    Lexer l = {.arena = a, .diag = d, .file = file, .text = f->text ? f->text : "", .len = f->len};
    Scope s = {0};
    const char *name = NULL;
    if (f->len >= UINT32_MAX)
        return diag_error(d, (Span){.file = file}, E0004, "the text is longer than 4 GiB");
    if (!lex_expect(&l, "graph") || !lex_string(&l, "the name of the graph", &name))
        return false;
    s.graph = graph_new(a, d, name);
    if (!parse_body(&l, &s))
        return false;
    lex_skip(&l);
    if (l.at < l.len)
        return lex_fail(&l, l.at, E0107, "expected the end of the text");
    *out = s.graph;
    return true;
}
