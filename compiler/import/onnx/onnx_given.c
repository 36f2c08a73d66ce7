// SPDX-License-Identifier: Apache-2.0
// What the user says about the inputs of a model (ImportOptions): numbers for the sizes that the model leaves
// open, from --dim, from shapes and from values; and the values themselves as tensors of the inputs' types.
#include "compiler/import/onnx/onnx_import.h"
#include "compiler/import/sizes.h"

#include <math.h>
#include <string.h>

// --- what is given by name ---

const ImportShape *onnx_given_shape(const OnnxModel *m, const char *name)
{
    const ImportOptions *o = &m->source->options;
    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (str_equal(o->shapes[i].name, name))
            return &o->shapes[i];
    return NULL;
}

const ImportSize *onnx_find_size(const OnnxModel *m, const char *name)
{
    const ImportOptions *o = &m->source->options;
    for (uint32_t i = 0; i < o->n_sizes; i++)
        if (str_equal(o->sizes[i].name, name))
            return &o->sizes[i];
    return NULL;
}

int64_t onnx_given_size(const OnnxModel *m, const char *name)
{
    const ImportSize *size = onnx_find_size(m, name);
    return size && !size->is_range ? size->value : -1;
}

int64_t onnx_given_bound(const OnnxModel *m, const char *name)
{
    const ImportSize *size = onnx_find_size(m, name);
    return size && !size->is_open && !size->keeps_min ? size->value : -1;
}

int64_t onnx_least_size(const OnnxModel *m, const char *name)
{
    const ImportSize *size = onnx_find_size(m, name);
    if (size && size->is_range)
        return size->is_open || size->keeps_min || size->min > 0 ? 1 : 0;
    return size && size->value == 0 ? 0 : 1;
}

bool onnx_stays_open(const OnnxModel *m, const DimTable *t, Dim d)
{
    int64_t *value = ARENA_ARRAY(m->arena, int64_t, t->symbols.len), size = 0;
    for (uint32_t i = 0; i < t->symbols.len; i++) {
        const ImportSize *given = onnx_find_size(m, t->symbols.data[i].name);
        value[i] = given && given->is_range ? -1 : 1;
    }
    return !dim_eval(t, d, (DimValues){value, t->symbols.len}, &size);
}

int64_t onnx_given_parts(const OnnxModel *m, const char *name, bool is_sequence)
{
    int64_t n = 0;
    if (!m->source->options.has_all_inputs)
        return -1;
    if (!is_sequence)
        return onnx_given_shape(m, name) != NULL;
    while (onnx_given_shape(m, arena_printf(m->arena, "%s_%lld", name, (long long)n)))
        n++;
    return n;
}

bool onnx_narrow(OnnxModel *m, Symbol *s)
{
    const ImportSize *size = onnx_find_size(m, s->name);
    return !size || !size->is_range || sizes_narrow(m->diag, (Span){.file = m->file}, s, size);
}

// --- sizes ---

typedef struct Facts {
    OnnxModel *m;
    Graph *graph;
    VEC(SizeFact) list;
} Facts;

static void add_fact(Facts *f, Dim d, int64_t value, const char *what, bool is_firm)
{
    rlx_assert(value >= 0 && what != NULL);
    const SizeFact fact = {d, value, what, is_firm};
    vec_push(f->m->arena, &f->list, fact);
}

// Facts of the input `index` (counted without those that have initializers), with its dims as the model has
// them.
static void input_facts(Facts *f, const Onnx__ValueInfoProto *v, uint32_t index, const Shape *s)
{
    const ImportOptions *o = &f->m->source->options;
    const char *name = onnx_text(v->name);
    const ImportShape *given = onnx_given_shape(f->m, name);
    for (uint32_t i = 0; i < o->n_sizes; i++) {
        uint32_t input = 0, axis = 0;
        const ImportSize *size = &o->sizes[i];
        if (!size->is_range && sizes_parse_axis(size->name, &input, &axis) && input == index &&
            axis < s->rank)
            add_fact(f, s->dim[axis], size->value, arena_printf(f->m->arena, "--dim %s", size->name), true);
    }
    for (uint32_t i = 0; given && given->rank == s->rank && i < s->rank; i++)
        add_fact(f, s->dim[i], given->dim[i],
                 arena_printf(f->m->arena, "axis %u of input '%s' (%s)", i, name, given->origin),
                 given->is_firm);
    for (uint32_t i = 0; i < o->n_values; i++) {
        const Tensor *t = &o->values[i].value;
        if (str_equal(o->values[i].name, name) && (s->rank == 1 || !o->values[i].is_list) &&
            s->rank == t->rank)
            for (uint32_t k = 0; k < s->rank; k++)
                add_fact(f, s->dim[k], t->dim[k], arena_printf(f->m->arena, "axis %u of --value %s", k, name),
                         !o->values[i].is_optional);
    }
}

// Sizes whose name is an expression over symbols: --dim "past + 1=5".
static void expression_facts(Facts *f)
{
    const ImportOptions *o = &f->m->source->options;
    for (uint32_t i = 0; i < o->n_sizes; i++) {
        const ImportSize *size = &o->sizes[i];
        Dim d = 0;
        size_t error_at = 0;
        const bool is_new = dim_find_symbol(f->graph->dims, size->name) < 0 && !size->is_range;
        if (is_new &&
            dim_parse(f->graph->dims, size->name, strlen(size->name), DIM_KNOWN_ONLY, &d, &error_at) &&
            !dim_is_unknown(f->graph->dims, d))
            add_fact(f, d, size->value, arena_printf(f->m->arena, "--dim %s", size->name), true);
    }
}

bool onnx_read_sizes(OnnxModel *m, Graph *graph, const Onnx__GraphProto *g, Span span)
{
    Facts f = {.m = m, .graph = graph};
    DimTable *t = graph->dims;
    Map constants = {0};
    uint32_t index = 0;
    for (size_t i = 0; i < g->n_initializer; i++)
        map_put_str(m->arena, &constants, onnx_text(g->initializer[i]->name), 1);
    for (size_t i = 0; i < g->n_input; i++) {
        uint64_t ignored = 0;
        Shape s = {0};
        if (map_get_str(&constants, onnx_text(g->input[i]->name), &ignored))
            continue;
        if (onnx_declared_shape(m, graph, g->input[i], &s))
            input_facts(&f, g->input[i], index, &s);
        index++;
    }
    expression_facts(&f);
    for (uint32_t i = m->sizes.len; i < t->symbols.len; i++) {
        const int64_t size = onnx_given_size(m, t->symbols.data[i].name);
        vec_push(m->arena, &m->sizes, size);
    }
    rlx_assert(m->sizes.len == t->symbols.len);
    if (!sizes_solve(m->arena, m->diag, span, t, f.list.data, f.list.len, m->sizes.data))
        return false;
    for (uint32_t i = 0; i < t->symbols.len; i++) {
        const ImportSize *size = onnx_find_size(m, t->symbols.data[i].name);
        if (size && size->is_range) // set between runs, whatever the size of this one
            m->sizes.data[i] = -1;
    }
    return true;
}

// --- values ---

static const char *numbers_text(Arena *a, const Tensor *t)
{
    Str s = str_new(a);
    for (int64_t i = 0; i < t->numel && i < 8; i++) {
        str_add(&s, i ? ", " : "");
        str_f64(&s, tensor_get_f64(t, i));
    }
    if (t->numel > 8)
        str_add(&s, ", ...");
    return str_text(&s);
}

static bool wrong_value(OnnxModel *m, const char *name, const char *expected)
{
    return diag_error(m->diag, (Span){.file = m->file, .path = name}, E0402, "--value %s: %s", name,
                      expected);
}

static bool fits(DType t, double v)
{
    const DTypeInfo *info = &dtype_info[t];
    const double bits = (double)(info->bytes * 8);
    if (info->cls == DCLASS_FLOAT)
        return true;
    if (info->cls == DCLASS_BOOL)
        return v == 0 || v == 1;
    const double low = info->cls == DCLASS_UINT ? 0 : -exp2(bits - 1);
    const double high = info->cls == DCLASS_UINT ? exp2(bits) : exp2(bits - 1);
    return v >= low && v < high && v == floor(v);
}

// A list of numbers as a tensor of the input's type.
static bool convert_list(OnnxModel *m, const ImportValue *v, const TensorType *type, Tensor *out)
{
    *out = tensor_new(m->arena, type->dtype, type->shape.rank, type->shape.dim);
    if (out->numel != v->value.numel)
        return wrong_value(m, v->name,
                           arena_printf(m->arena, "%lld numbers are given, but the input has %lld elements",
                                        (long long)v->value.numel, (long long)out->numel));
    for (int64_t i = 0; i < out->numel; i++) {
        if (!fits(type->dtype, tensor_get_f64(&v->value, i)))
            return wrong_value(m, v->name,
                               arena_printf(m->arena, "%g is not a value of type %s",
                                            tensor_get_f64(&v->value, i), dtype_info[type->dtype].name));
        tensor_set_from(out, i, &v->value);
    }
    return true;
}

static bool same_type(const Tensor *t, const TensorType *type)
{
    bool same = t->dtype == type->dtype && t->rank == type->shape.rank;
    for (uint32_t i = 0; same && i < t->rank; i++)
        same = t->dim[i] == type->shape.dim[i];
    return same;
}

// False: wrong (reported). out->data is NULL when the value cannot be used.
static bool read_value(OnnxModel *m, const Graph *g, NodeId input, const ImportValue *v, Tensor *out)
{
    rlx_assert(graph_node(g, input)->op == OP_input);
    const Node *n = graph_node(g, input);
    const TensorType type = {.dtype = (DType)n->dtype, .shape = *n->shape};
    *out = (Tensor){0};
    if (!shape_is_const(n->shape))
        return v->is_optional || wrong_value(m, v->name, "the sizes of the input must be known: see --shape");
    if (v->is_list && v->is_optional && v->value.numel != shape_numel(n->shape))
        return true;
    if (v->is_list)
        return convert_list(m, v, &type, out);
    if (same_type(&v->value, &type))
        *out = v->value;
    Str text = str_new(m->arena);
    shape_print(g->dims, type.dtype, &type.shape, &text);
    return out->data || v->is_optional || v->value.numel == 0 ||
           wrong_value(m, v->name,
                       arena_printf(m->arena, "the file holds another type or shape than the input's %s",
                                    str_text(&text)));
}

static NodeId find_input(const Graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->inputs.len; i++)
        if (str_equal(node_name(g, g->inputs.data[i]), name))
            return g->inputs.data[i];
    return 0;
}

static bool is_declared(const OnnxModel *m, const char *name)
{
    const Onnx__GraphProto *g = m->proto->graph;
    for (size_t i = 0; i < g->n_input; i++)
        if (str_equal(onnx_text(g->input[i]->name), name))
            return true;
    return false;
}

static bool unknown_input(OnnxModel *m, const Graph *g, const char *option, const char *name)
{
    if (m->diag->n_errors != 0 && is_declared(m, name)) // why it is missing was reported
        return false;
    diag_error(m->diag, (Span){.file = m->file}, E0402, "%s %s: the model has no such input", option, name);
    const char **names = ARENA_ARRAY(m->arena, const char *, g->inputs.len + 1u);
    for (uint32_t i = 0; i < g->inputs.len; i++)
        names[i] = node_name(g, g->inputs.data[i]);
    diag_note_names(m->diag, (Span){.file = m->file}, name, names, NULL, g->inputs.len);
    return false;
}

bool onnx_read_values(OnnxModel *m, Graph *g)
{
    const ImportOptions *o = &m->source->options;
    bool ok = true;
    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (!find_input(g, o->shapes[i].name))
            ok = unknown_input(m, g, o->shapes[i].is_firm ? "--shape" : "--input", o->shapes[i].name);
    for (uint32_t i = 0; i < o->n_values; i++) {
        const NodeId id = find_input(g, o->values[i].name);
        Tensor t = {0};
        if (!id && !o->values[i].is_optional)
            ok = unknown_input(m, g, "--value", o->values[i].name);
        else if (id && !read_value(m, g, id, &o->values[i], &t))
            ok = false;
        else if (id && t.data)
            onnx_know(m, g, id, &t);
    }
    return ok;
}

const char *onnx_tensor_text(Arena *a, const Tensor *t)
{
    return arena_printf(a, t->rank == 0 ? "%s" : "[%s]", numbers_text(a, t));
}
