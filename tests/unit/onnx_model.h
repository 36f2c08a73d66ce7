// SPDX-License-Identifier: Apache-2.0
// ONNX models for tests, written as text. Statements are separated by ';':
//   opset 13                          of the default domain, first
//   in x f32 2,n,?                    input; a number, a name or ? (not known) an axis, "-" for none,
//                                     "*" where not even their number is known
//   init w i64 2 = 3,4                initializer in the typed field; "raw w ..." in raw_data
//   node Add x,w -> z axis=1          "-" for no inputs or outputs, "_" for an absent one
//   begin then_branch; ...; end       a sub-graph as attribute of the last node
//   out z                             perhaps with its type: out z f32 2,3
//   function f x,y -> z a,b; ...; end  a function of the domain `test` with attributes a, b (- for none)
// Attributes: r=@a (an attribute of the function), i=1, f=0.5, s=text, list=[1,2], list=[0.5], list=[a,b],
// t=<f32/2/1,2>.
#ifndef TESTS_UNIT_ONNX_MODEL_H
#define TESTS_UNIT_ONNX_MODEL_H

#include "base/vec.h"
#include "ir/graph/tensor.h"
#include "onnx.pb-c.h"
#include "unit.h"

typedef struct TestGraph {
    VEC(Onnx__NodeProto *)
    nodes;
    VEC(Onnx__TensorProto *)
    inits;
    VEC(Onnx__ValueInfoProto *)
    inputs, outputs;
} TestGraph;

typedef struct TestModel {
    Arena *arena;
    int64_t opset;
    TestGraph graphs[8]; // innermost last
    char *attr_name[8];  // what graphs[i] becomes
    uint32_t depth;
    Onnx__FunctionProto *function; // that is being read
    VEC(Onnx__FunctionProto *)
    functions;
} TestModel;

// The pieces of s between separators, without spaces around them; separators in brackets do not count.
typedef struct Pieces {
    char *at[256];
    uint32_t n;
} Pieces;

static inline Pieces split(Arena *a, const char *s, char separator)
{
    Pieces p = {0};
    while (*s) {
        int nesting = 0;
        size_t n = 0;
        while (s[n] && (s[n] != separator || nesting > 0)) {
            nesting += (s[n] == '[' || s[n] == '<') - (s[n] == ']' || (s[n] == '>' && nesting > 0));
            n++;
        }
        const char *next = s[n] ? s + n + 1 : s + n;
        while (n && *s == ' ')
            s++, n--;
        while (n && s[n - 1] == ' ')
            n--;
        assert_true(p.n < 256);
        if (n)
            p.at[p.n++] = arena_strndup(a, s, n);
        s = next;
    }
    return p;
}

static inline DType test_dtype(const char *name)
{
    DType t = DTYPE_f32;
    if (!dtype_parse(name, &t))
        fail_msg("no element type '%s'", name);
    return t;
}

// --- tensors ---

static inline Tensor elements_of(Arena *a, DType dtype, const Pieces *v)
{
    Tensor data = tensor_new(a, dtype, 1, &(int64_t){v->n});
    for (uint32_t i = 0; i < v->n; i++) {
        if (dtype_info[dtype].cls == DCLASS_FLOAT)
            tensor_set_f64(&data, i, strtod(v->at[i], NULL));
        else
            tensor_set_i64(&data, i, strtoll(v->at[i], NULL, 0));
    }
    return data;
}

// Elements of 4 or 2 bits as bytes, the first one in the lowest bits; others as they are. Returns their
// number.
static inline size_t packed_bytes(Arena *a, DType dtype, const Pieces *v, uint8_t **out)
{
    const Tensor data = elements_of(a, dtype, v);
    const uint32_t bits = dtype_info[dtype].bits, bytes = dtype_info[dtype].bytes;
    *out = data.data;
    if (bits >= 8 || dtype == DTYPE_bool)
        return (size_t)v->n * bytes;
    *out = ARENA_ARRAY(a, uint8_t, v->n);
    for (uint32_t i = 0; i < v->n; i++)
        (*out)[i * bits / 8] |= (uint8_t)(tensor_get_bits(&data, i) << (i * bits % 8));
    return (v->n * bits + 7) / 8;
}

static inline void put_narrow(Arena *a, Onnx__TensorProto *t, DType dtype, const Pieces *v)
{
    uint8_t *bytes = NULL;
    t->n_int32_data = packed_bytes(a, dtype, v, &bytes);
    t->int32_data = ARENA_ARRAY(a, int32_t, t->n_int32_data);
    for (size_t i = 0; i < t->n_int32_data; i++)
        t->int32_data[i] = bytes[i];
}

static inline void put_typed(Arena *a, Onnx__TensorProto *t, DType dtype, const Pieces *v)
{
    if (dtype_is_narrow(dtype)) {
        put_narrow(a, t, dtype, v);
        return;
    }
    const bool is_wide = dtype == DTYPE_i64 || dtype == DTYPE_u64 || dtype == DTYPE_u32;
    t->float_data = ARENA_ARRAY(a, float, v->n);
    t->double_data = ARENA_ARRAY(a, double, v->n);
    t->int64_data = ARENA_ARRAY(a, int64_t, v->n);
    t->uint64_data = ARENA_ARRAY(a, uint64_t, v->n);
    t->int32_data = ARENA_ARRAY(a, int32_t, v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        const double x = strtod(v->at[i], NULL);
        const long long n = strtoll(v->at[i], NULL, 0);
        t->float_data[i] = (float)x;
        t->double_data[i] = x;
        t->int64_data[i] = n;
        t->uint64_data[i] = (uint64_t)n;
        t->int32_data[i] = dtype == DTYPE_f16    ? f16_from_f64(x)
                           : dtype == DTYPE_bf16 ? bf16_from_f64(x)
                                                 : (int32_t)n;
    }
    t->n_float_data = dtype == DTYPE_f32 ? v->n : 0;
    t->n_double_data = dtype == DTYPE_f64 ? v->n : 0;
    t->n_int64_data = dtype == DTYPE_i64 ? v->n : 0;
    t->n_uint64_data = is_wide && dtype != DTYPE_i64 ? v->n : 0;
    t->n_int32_data = is_wide || dtype == DTYPE_f32 || dtype == DTYPE_f64 ? 0 : v->n;
}

static inline void put_raw(Arena *a, Onnx__TensorProto *t, DType dtype, const Pieces *v)
{
    uint8_t *bytes = NULL;
    const size_t n = packed_bytes(a, dtype, v, &bytes);
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){n, bytes};
}

static inline Onnx__TensorProto *make_tensor(Arena *a, const char *type, const char *dims, const char *values,
                                             bool is_raw)
{
    Onnx__TensorProto *t = ARENA_NEW(a, Onnx__TensorProto);
    onnx__tensor_proto__init(t);
    const DType dtype = test_dtype(type);
    const Pieces d = split(a, strcmp(dims, "-") ? dims : "", ','), v = split(a, values, ',');
    t->has_data_type = 1;
    t->data_type = dtype_info[dtype].onnx;
    t->n_dims = d.n;
    t->dims = ARENA_ARRAY(a, int64_t, d.n);
    for (uint32_t i = 0; i < d.n; i++)
        t->dims[i] = strtoll(d.at[i], NULL, 0);
    if (is_raw)
        put_raw(a, t, dtype, &v);
    else
        put_typed(a, t, dtype, &v);
    return t;
}

static inline Onnx__ValueInfoProto *make_value(Arena *a, char *name, const char *type, const char *dims)
{
    Onnx__ValueInfoProto *v = ARENA_NEW(a, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(v);
    v->name = name;
    if (!type)
        return v;
    Onnx__TypeProto__Tensor *t = ARENA_NEW(a, Onnx__TypeProto__Tensor);
    onnx__type_proto__tensor__init(t);
    t->has_elem_type = 1;
    t->elem_type = dtype_info[test_dtype(type)].onnx;
    t->shape = ARENA_NEW(a, Onnx__TensorShapeProto);
    onnx__tensor_shape_proto__init(t->shape);
    const Pieces d = split(a, strcmp(dims, "-") ? dims : "", ',');
    t->shape->n_dim = d.n;
    t->shape->dim = ARENA_ARRAY(a, Onnx__TensorShapeProto__Dimension *, d.n);
    for (uint32_t i = 0; i < d.n; i++) {
        Onnx__TensorShapeProto__Dimension *x = ARENA_NEW(a, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(x);
        const bool is_number = (d.at[i][0] >= '0' && d.at[i][0] <= '9') || d.at[i][0] == '-';
        if (is_number) {
            x->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            x->dim_value = strtoll(d.at[i], NULL, 0);
        } else if (strcmp(d.at[i], "?") != 0) {
            x->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            x->dim_param = d.at[i];
        }
        t->shape->dim[i] = x;
    }
    v->type = ARENA_NEW(a, Onnx__TypeProto);
    onnx__type_proto__init(v->type);
    v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type->tensor_type = t;
    if (strcmp(dims, "*") == 0)
        t->shape = NULL;
    return v;
}

// --- nodes ---

static inline bool is_whole(const char *s)
{
    size_t n = strspn(s, "-0123456789");
    return n > 0 && s[n] == 0;
}

static inline bool is_number(const char *s)
{
    char *end = NULL;
    strtod(s, &end);
    return end != s && *end == 0;
}

static inline void put_list(Arena *a, Onnx__AttributeProto *x, char *text)
{
    text[strlen(text) - 1] = 0;
    const Pieces v = split(a, text + 1, ',');
    x->ints = ARENA_ARRAY(a, int64_t, v.n);
    x->floats = ARENA_ARRAY(a, float, v.n);
    x->strings = ARENA_ARRAY(a, ProtobufCBinaryData, v.n);
    const bool whole = v.n == 0 || is_whole(v.at[0]), number = v.n == 0 || is_number(v.at[0]);
    for (uint32_t i = 0; i < v.n; i++) {
        x->ints[i] = strtoll(v.at[i], NULL, 0);
        x->floats[i] = strtof(v.at[i], NULL);
        x->strings[i] = (ProtobufCBinaryData){strlen(v.at[i]), (uint8_t *)v.at[i]};
    }
    x->n_ints = whole ? v.n : 0;
    x->n_floats = !whole && number ? v.n : 0;
    x->n_strings = !number ? v.n : 0;
    x->type = whole    ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS
              : number ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS
                       : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
}

static inline Onnx__AttributeProto *new_attr(Arena *a, char *name)
{
    Onnx__AttributeProto *x = ARENA_NEW(a, Onnx__AttributeProto);
    onnx__attribute_proto__init(x);
    x->name = name;
    x->has_type = 1;
    return x;
}

static inline Onnx__AttributeProto *make_attr(Arena *a, char *text)
{
    char *v = strchr(text, '=');
    assert_non_null(v);
    *v++ = 0;
    Onnx__AttributeProto *x = new_attr(a, text);
    if (*v == '@') {
        x->ref_attr_name = v + 1;
        x->has_type = 0;
    } else if (*v == '[') {
        put_list(a, x, v);
    } else if (*v == '<') {
        v[strlen(v) - 1] = 0;
        const Pieces p = split(a, v + 1, '/');
        x->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
        x->t = make_tensor(a, p.at[0], p.at[1], p.n > 2 ? p.at[2] : "", false);
    } else if (is_whole(v)) {
        x->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        x->has_i = 1;
        x->i = strtoll(v, NULL, 0);
    } else if (is_number(v)) {
        x->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        x->has_f = 1;
        x->f = strtof(v, NULL);
    } else {
        x->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        x->has_s = 1;
        x->s = (ProtobufCBinaryData){strlen(v), (uint8_t *)v};
    }
    return x;
}

static inline char **name_list(Arena *a, const char *text, size_t *n)
{
    const Pieces p = split(a, strcmp(text, "-") ? text : "", ',');
    char **out = ARENA_ARRAY(a, char *, p.n);
    for (uint32_t i = 0; i < p.n; i++)
        out[i] = strcmp(p.at[i], "_") ? p.at[i] : arena_strdup(a, "");
    *n = p.n;
    return out;
}

static inline void add_node(TestModel *m, const Pieces *w)
{
    Arena *a = m->arena;
    Onnx__NodeProto *n = ARENA_NEW(a, Onnx__NodeProto);
    onnx__node_proto__init(n);
    assert_true(w->n >= 5);
    n->op_type = w->at[1];
    n->input = name_list(a, w->at[2], &n->n_input);
    n->output = name_list(a, w->at[4], &n->n_output);
    n->attribute = ARENA_ARRAY(a, Onnx__AttributeProto *, w->n + 2); // two more may be graphs
    for (uint32_t i = 5; i < w->n; i++) {
        if (strncmp(w->at[i], "name=", 5) == 0)
            n->name = w->at[i] + 5;
        else if (strncmp(w->at[i], "domain=", 7) == 0)
            n->domain = w->at[i] + 7;
        else
            n->attribute[n->n_attribute++] = make_attr(a, w->at[i]);
    }
    vec_push(a, &m->graphs[m->depth].nodes, n);
}

// --- graphs ---

static inline Onnx__GraphProto *make_graph(Arena *a, const TestGraph *g)
{
    Onnx__GraphProto *p = ARENA_NEW(a, Onnx__GraphProto);
    onnx__graph_proto__init(p);
    p->name = arena_strdup(a, "g");
    p->n_node = g->nodes.len;
    p->node = g->nodes.data;
    p->n_initializer = g->inits.len;
    p->initializer = g->inits.data;
    p->n_input = g->inputs.len;
    p->input = g->inputs.data;
    p->n_output = g->outputs.len;
    p->output = g->outputs.data;
    return p;
}

static inline void begin_function(TestModel *m, const Pieces *w)
{
    Onnx__FunctionProto *f = ARENA_NEW(m->arena, Onnx__FunctionProto);
    onnx__function_proto__init(f);
    assert_true(w->n == 6 && m->depth == 0);
    f->name = w->at[1];
    f->domain = arena_strdup(m->arena, "test");
    f->input = name_list(m->arena, w->at[2], &f->n_input);
    f->output = name_list(m->arena, w->at[4], &f->n_output);
    f->attribute = name_list(m->arena, w->at[5], &f->n_attribute);
    m->function = f;
    m->graphs[++m->depth] = (TestGraph){0};
}

static inline void end_function(TestModel *m)
{
    const TestGraph *g = &m->graphs[m->depth--];
    m->function->n_node = g->nodes.len;
    m->function->node = g->nodes.data;
    vec_push(m->arena, &m->functions, m->function);
    m->function = NULL;
}

static inline void end_graph(TestModel *m)
{
    if (m->function && m->depth == 1) {
        end_function(m);
        return;
    }
    Onnx__AttributeProto *x = new_attr(m->arena, m->attr_name[m->depth]);
    x->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    x->g = make_graph(m->arena, &m->graphs[m->depth--]);
    const TestGraph *outer = &m->graphs[m->depth];
    Onnx__NodeProto *n = outer->nodes.data[outer->nodes.len - 1];
    n->attribute[n->n_attribute++] = x;
}

static inline void add_statement(TestModel *m, const char *text)
{
    Arena *a = m->arena;
    const Pieces w = split(a, text, ' ');
    TestGraph *g = &m->graphs[m->depth];
    const char *what = w.at[0];
    if (strcmp(what, "opset") == 0) {
        m->opset = strtoll(w.at[1], NULL, 0);
    } else if (strcmp(what, "in") == 0) {
        vec_push(a, &g->inputs, make_value(a, w.at[1], w.at[2], w.at[3]));
    } else if (strcmp(what, "out") == 0) {
        vec_push(a, &g->outputs, make_value(a, w.at[1], w.n > 3 ? w.at[2] : NULL, w.n > 3 ? w.at[3] : NULL));
    } else if (strcmp(what, "init") == 0 || strcmp(what, "raw") == 0) {
        Onnx__TensorProto *t = make_tensor(a, w.at[2], w.at[3], w.n > 5 ? w.at[5] : "", *what == 'r');
        t->name = w.at[1];
        vec_push(a, &g->inits, t);
    } else if (strcmp(what, "node") == 0) {
        add_node(m, &w);
    } else if (strcmp(what, "function") == 0) {
        begin_function(m, &w);
    } else if (strcmp(what, "begin") == 0) {
        assert_true(m->depth < 7);
        m->graphs[++m->depth] = (TestGraph){0};
        m->attr_name[m->depth] = w.at[1];
    } else {
        assert_string_equal(what, "end");
        end_graph(m);
    }
}

// The serialized model.
static inline uint8_t *onnx_model(Arena *a, const char *text, size_t *len)
{
    TestModel m = {.arena = a};
    const Pieces statements = split(a, text, ';');
    for (uint32_t i = 0; i < statements.n; i++)
        add_statement(&m, statements.at[i]);
    assert_int_equal(m.depth, 0);
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, ml = opset, *opsets[] = {&opset, &ml};
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    opset.has_version = 1;
    opset.version = m.opset;
    model.has_ir_version = 1;
    model.ir_version = 8;
    ml.domain = arena_strdup(a, "ai.onnx.ml");
    ml.has_version = 1;
    ml.version = 4;
    model.functions = m.functions.data;
    model.n_functions = m.functions.len;
    model.n_opset_import = 2;
    model.opset_import = opsets;
    model.graph = make_graph(a, &m.graphs[0]);
    *len = onnx__model_proto__get_packed_size(&model);
    uint8_t *data = arena_alloc(a, *len);
    assert_int_equal(onnx__model_proto__pack(&model, data), *len);
    return data;
}

#endif
