// SPDX-License-Identifier: Apache-2.0
// Changes of attributes, types, shapes and tensors. See mutate_onnx.h.
#include "tests/fuzz/mutate_onnx.h"

#include <string.h>

enum { MAX_DATA = 4096, MAX_TYPE = 17, N_ATTRIBUTE_TYPES = 8 };

static const char *const attribute_names[] = {
    "axis", "axes", "perm", "to", "pads", "strides", "dilations", "kernel_shape", "group", "auto_pad",
    "alpha", "beta", "keepdims", "mode", "transA", "transB", "value", "epsilon", "num_outputs", "split",
    "starts", "ends", "shape", "dims", "hidden_size", "direction", "layout", "activations", "clip",
    "ceil_mode", "storage_order", "count_include_pad", "output_padding", "output_shape", "exclusive",
    "reverse", "largest", "sorted", "blocksize", "batch_dims", "reduction", "equation", "num_heads",
    "q_num_heads", "kv_num_heads", "is_causal", "scale", "softcap", "noop_with_empty_axes", "allowzero",
    "select_last_index", "block_size", "bits", "K", "N", "coordinate_transformation_mode",
    "nearest_mode", "cubic_coeff_a", "exclude_outside", "antialias", "center_point_box", "saturate",
    "dtype", "seed", "high", "low", "sample_size", "upper", "k", "size", "bias", "then_branch",
    "else_branch", "body", "num_scan_inputs", "scan_input_axes", "scan_output_directions", "fmod",
    "detect_positive", "p", "min", "max", "onesided", "output_datatype", "classlabels_int64s",
    "post_transform", "nodes_treeids", "nodes_featureids", "nodes_values", "nodes_modes",
    "coefficients", "intercepts", "interleaved", "rotary_embedding_dim", "local_window_size",
    "do_rotary", "past_present_share_buffer", "ratio", "momentum"};

static const char *const words[] = {
    "constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "SAME_UPPER", "SAME_LOWER",
    "VALID", "NOTSET", "forward", "reverse", "bidirectional", "Relu", "Tanh", "Sigmoid", "HardSigmoid",
    "sum", "mean", "none", "add", "mul", "max", "min", "ij->ji", "bij,bjk->bik", "...ij,jk", "i,i->",
    "DCR", "CRD", "half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize",
    "round_prefer_floor", "floor", "SOFTMAX", "LOGISTIC", "BRANCH_LEQ", "LEAF", "bilinear", "zeros",
    "border", "tanh", "", "MEAN", "[a-z]+", "\xff\xfe"};

static float number_f32(void)
{
    static const float numbers[] = {0, 1, -1, 0.5f, 2, 1e-5f, 1e30f, -1e30f, 3.5f, 1e-40f, 255, -0.0f};
    const size_t i = pick(sizeof numbers / sizeof *numbers + 2);
    const float zero = numbers[0];
    return i < sizeof numbers / sizeof *numbers ? numbers[i] : (i % 2 ? 1 / zero : zero / zero);
}

static ProtobufCBinaryData word(Edit *e)
{
    const char *text = words[pick(sizeof words / sizeof *words)];
    return (ProtobufCBinaryData){strlen(text), arena_copy(e->arena, text, strlen(text) + 1)};
}

// --- tensors -------------------------------------------------------------------------------------------

static size_t element_bytes(int32_t type)
{
    static const uint8_t bytes[MAX_TYPE + 1] = {4, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1};
    return type >= 0 && type <= MAX_TYPE ? bytes[type] : 4;
}

static size_t count(const Onnx__TensorProto *t)
{
    size_t n = 1;
    for (size_t i = 0; i < t->n_dims; i++)
        n = t->dims[i] < 0 || t->dims[i] > MAX_DATA || n > MAX_DATA ? MAX_DATA + 1 : n * (size_t)t->dims[i];
    return n;
}

// Bytes for all elements, where these are few: small whole numbers, so that they can be sizes and axes.
static void fill(Edit *e, Onnx__TensorProto *t)
{
    const size_t each = element_bytes(t->data_type), n = count(t);
    if (n > MAX_DATA || n * each > MAX_DATA)
        return;
    unsigned char *data = arena_alloc(e->arena, n * each);
    for (size_t i = 0; i < n && each; i++) {
        const bool is_bool = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL;
        const int64_t v = is_bool ? (int64_t)pick(2) : edit_number();
        const float f = (float)v;
        if (t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
            memcpy(data + i * each, &f, sizeof f);
        else
            memcpy(data + i * each, &v, each < sizeof v ? each : sizeof v);
    }
    t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){n * each, data};
}

Onnx__TensorProto *edit_make_tensor(Edit *e, int32_t type, size_t n_dims, const int64_t *dims)
{
    Onnx__TensorProto *t = ARENA_NEW(e->arena, Onnx__TensorProto);
    onnx__tensor_proto__init(t);
    t->has_data_type = 1;
    t->data_type = type;
    t->n_dims = n_dims;
    t->dims = arena_copy(e->arena, dims, n_dims * sizeof *dims);
    fill(e, t);
    return t;
}

static void change_list(Edit *e, int64_t **list, size_t *n)
{
    const size_t kind = pick(6);
    if (kind == 0 || *n == 0)
        LIST_PUT(e, *list, *n, edit_number());
    else if (kind == 1)
        LIST_CUT(*list, *n, pick(*n));
    else
        (*list)[pick(*n)] = edit_number();
}

static void change_tensor(Edit *e, Onnx__TensorProto *t)
{
    const size_t kind = pick(4);
    if (kind == 0)
        t->data_type = pick(8) ? (int32_t)pick(MAX_TYPE) + 1 : (int32_t)pick(64) - 8;
    if (kind == 1)
        change_list(e, &t->dims, &t->n_dims);
    if (kind == 2 && t->has_raw_data && t->raw_data.len)
        t->raw_data.data[pick(t->raw_data.len)] ^= (uint8_t)(1u << pick(8));
    else if (pick(8))
        fill(e, t);
}

void edit_tensor(Edit *e)
{
    if (e->graph->n_initializer)
        change_tensor(e, e->graph->initializer[pick(e->graph->n_initializer)]);
}

// --- attributes ----------------------------------------------------------------------------------------

static void set_graph(Edit *e, Onnx__AttributeProto *a)
{
    (void)e;
    (void)a; // one is not made here: mutate_onnx_nest.c makes them with what they need
}

static void set_float(Edit *e, Onnx__AttributeProto *a)
{
    (void)e;
    a->has_f = 1;
    a->f = number_f32();
}

static void set_int(Edit *e, Onnx__AttributeProto *a)
{
    (void)e;
    a->has_i = 1;
    a->i = edit_number();
}

static void set_string(Edit *e, Onnx__AttributeProto *a)
{
    a->has_s = 1;
    a->s = word(e);
}

static void set_tensor(Edit *e, Onnx__AttributeProto *a)
{
    int64_t dims[2];
    const int32_t type = (int32_t)pick(MAX_TYPE) + 1;
    const size_t n_dims = pick(3);
    for (size_t i = 0; i < n_dims; i++)
        dims[i] = (int64_t)pick(4);
    if (a->t)
        change_tensor(e, a->t);
    else
        a->t = edit_make_tensor(e, type, n_dims, dims);
}

static void set_floats(Edit *e, Onnx__AttributeProto *a)
{
    if (a->n_floats && pick(2))
        a->floats[pick(a->n_floats)] = number_f32();
    else
        LIST_PUT(e, a->floats, a->n_floats, number_f32());
}

static void set_ints(Edit *e, Onnx__AttributeProto *a)
{
    for (size_t n = a->n_ints ? 1 : pick(4) + 1; n > 0; n--)
        change_list(e, &a->ints, &a->n_ints);
}

static void set_strings(Edit *e, Onnx__AttributeProto *a)
{
    if (a->n_strings && pick(2))
        a->strings[pick(a->n_strings)] = word(e);
    else
        LIST_PUT(e, a->strings, a->n_strings, word(e));
}

static void (*const set_value[N_ATTRIBUTE_TYPES + 1])(Edit *e, Onnx__AttributeProto *a) = {
    NULL, set_float, set_int, set_string, set_tensor, set_graph, set_floats, set_ints, set_strings};

static Onnx__AttributeProto *pick_attribute(Edit *e, Onnx__NodeProto **of)
{
    for (size_t tries = 0; tries < 8; tries++) {
        *of = edit_node(e);
        if (*of && (*of)->n_attribute)
            return (*of)->attribute[pick((*of)->n_attribute)];
    }
    return NULL;
}

Onnx__AttributeProto *edit_make_attribute(Edit *e, const char *name)
{
    Onnx__AttributeProto *a = ARENA_NEW(e->arena, Onnx__AttributeProto);
    onnx__attribute_proto__init(a);
    a->name = arena_strdup(
        e->arena, name ? name : attribute_names[pick(sizeof attribute_names / sizeof *attribute_names)]);
    static const uint8_t types[] = {1, 2, 2, 2, 3, 4, 6, 7, 7, 8};
    a->has_type = 1;
    a->type = (Onnx__AttributeProto__AttributeType)types[pick(sizeof types)];
    set_value[a->type](e, a);
    return a;
}

void edit_attribute(Edit *e)
{
    Onnx__NodeProto *n = NULL;
    Onnx__AttributeProto *a = pick_attribute(e, &n);
    if (a && a->type >= 1 && (int)a->type <= N_ATTRIBUTE_TYPES)
        set_value[a->type](e, a);
}

// One of the names above, or one that another node has, with its value.
void edit_add_attribute(Edit *e)
{
    Onnx__NodeProto *n = edit_node(e), *other = NULL;
    Onnx__AttributeProto *taken = pick_attribute(e, &other);
    if (!n)
        return;
    if (!taken || taken->g || pick(3))
        taken = edit_make_attribute(e, NULL);
    LIST_PUT(e, n->attribute, n->n_attribute, taken);
}

void edit_cut_attribute(Edit *e)
{
    Onnx__NodeProto *n = NULL;
    if (pick_attribute(e, &n))
        LIST_CUT(n->attribute, n->n_attribute, pick(n->n_attribute));
}

void edit_rename_attribute(Edit *e)
{
    Onnx__NodeProto *n = NULL;
    Onnx__AttributeProto *a = pick_attribute(e, &n);
    if (a && pick(2))
        a->type = (Onnx__AttributeProto__AttributeType)pick(N_ATTRIBUTE_TYPES + 1);
    else if (a)
        a->name = edit_make_attribute(e, NULL)->name;
}

// --- types and shapes of values ------------------------------------------------------------------------

static Onnx__TypeProto__Tensor *pick_type(Edit *e)
{
    const Onnx__GraphProto *g = e->graph;
    const size_t at = pick(g->n_input + g->n_output + g->n_value_info);
    const Onnx__ValueInfoProto *v = NULL;
    if (at < g->n_input)
        v = g->input[at];
    else if (at < g->n_input + g->n_output)
        v = g->output[at - g->n_input];
    else if (g->n_value_info)
        v = g->value_info[at - g->n_input - g->n_output];
    return v && v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? v->type->tensor_type
                                                                                     : NULL;
}

void edit_value_type(Edit *e)
{
    Onnx__TypeProto__Tensor *t = pick_type(e);
    if (!t)
        return;
    t->has_elem_type = pick(16) != 0;
    t->elem_type = pick(8) ? (int32_t)pick(MAX_TYPE) + 1 : (int32_t)edit_number();
}

static void set_dim(Edit *e, Onnx__TensorShapeProto__Dimension *d)
{
    static const char *const symbols[] = {"n", "batch", "m", "n + 1", "2*n", "", "seq", "n/2"};
    const bool is_number = pick(3) != 0;
    d->value_case = is_number ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                              : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    if (is_number)
        d->dim_value = edit_number();
    else
        d->dim_param = arena_strdup(e->arena, symbols[pick(sizeof symbols / sizeof *symbols)]);
}

void edit_value_shape(Edit *e)
{
    Onnx__TypeProto__Tensor *t = pick_type(e);
    if (!t)
        return;
    Onnx__TensorShapeProto *s = t->shape;
    const size_t kind = pick(8);
    if (!s || kind == 0) { // open, or of rank 0
        t->shape = s ? NULL : ARENA_NEW(e->arena, Onnx__TensorShapeProto);
        if (t->shape)
            onnx__tensor_shape_proto__init(t->shape);
    } else if (kind == 1 && s->n_dim) {
        LIST_CUT(s->dim, s->n_dim, pick(s->n_dim));
    } else if (kind == 2 || !s->n_dim) {
        Onnx__TensorShapeProto__Dimension *d = ARENA_NEW(e->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(d);
        set_dim(e, d);
        LIST_PUT(e, s->dim, s->n_dim, d);
    } else {
        set_dim(e, s->dim[pick(s->n_dim)]);
    }
}

Onnx__ValueInfoProto *edit_make_value(Edit *e, char *name, int32_t type)
{
    Onnx__ValueInfoProto *v = ARENA_NEW(e->arena, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(v);
    v->name = name;
    v->type = ARENA_NEW(e->arena, Onnx__TypeProto);
    onnx__type_proto__init(v->type);
    v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type->tensor_type = ARENA_NEW(e->arena, Onnx__TypeProto__Tensor);
    onnx__type_proto__tensor__init(v->type->tensor_type);
    v->type->tensor_type->has_elem_type = 1;
    v->type->tensor_type->elem_type = type;
    return v;
}

// What was known is known only when the model runs.
void edit_initializer_to_input(Edit *e)
{
    Onnx__GraphProto *g = e->graph;
    if (!g->n_initializer)
        return;
    const size_t at = pick(g->n_initializer);
    const Onnx__TensorProto *t = g->initializer[at];
    Onnx__ValueInfoProto *v = edit_make_value(e, t->name, t->data_type);
    v->type->tensor_type->shape = ARENA_NEW(e->arena, Onnx__TensorShapeProto);
    Onnx__TensorShapeProto *s = v->type->tensor_type->shape;
    onnx__tensor_shape_proto__init(s);
    for (size_t i = 0; i < t->n_dims; i++) {
        Onnx__TensorShapeProto__Dimension *d = ARENA_NEW(e->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = t->dims[i];
        LIST_PUT(e, s->dim, s->n_dim, d);
    }
    LIST_PUT(e, g->input, g->n_input, v);
    if (pick(2))
        LIST_CUT(g->initializer, g->n_initializer, at);
}
