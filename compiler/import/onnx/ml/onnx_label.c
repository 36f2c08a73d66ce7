// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml's LabelEncoder and CategoryMapper: a value is looked up in a list of keys, and what stands at
// the same place of another list is the result. Strings are found by an automaton, numbers by comparing with
// all keys. Where a key is there twice the last one counts.
#include "compiler/import/onnx/onnx_text.h"

#include <string.h>

// One of the two lists, in whatever form the attributes have it.
typedef struct Labels {
    bool is_text, is_given;
    size_t count;
    const ProtobufCBinaryData *text;
    NodeId numbers; // [count]
} Labels;

static NodeId list_const(OnnxNode *n, DType t, const void *data, size_t count)
{
    rlx_assert(data != NULL || count == 0);
    const Shape s = {.rank = 1, .dim = {(Dim)count}};
    const uint64_t bytes = (uint64_t)count * dtype_info[t].bytes;
    return onnx_const(n, t, &s, count ? arena_copy(n->model->arena, data, (size_t)bytes) : NULL, bytes);
}

static void from_tensor(OnnxNode *n, const char *name, Labels *out)
{
    const Onnx__TensorProto *t = onnx_tensor(n, name);
    const char *what = arena_printf(n->model->arena, "node '%s': attribute '%s'", n->label, name);
    if (!t)
        return;
    out->is_text = t->data_type == ONNX_STRING;
    out->text = t->string_data;
    out->count = t->n_string_data;
    if (out->is_text)
        return;
    const Dim flat = -1;
    out->numbers = onnx_tensor_const(n->model, n->graph, t, what, n->span);
    n->failed = n->failed || !out->numbers;
    out->numbers = onnx_reshape_to(n, out->numbers, &flat, 1);
    out->count = n->failed ? 0 : (size_t)onnx_const_dim(n, out->numbers, 0);
}

// Attributes PREFIX_strings, PREFIX_int64s, PREFIX_floats or PREFIX_tensor.
static Labels read_labels(OnnxNode *n, const char *prefix)
{
    Labels l = {0};
    const Onnx__AttributeProto *a = NULL;
    char *name[4];
    static const char *const types[] = {"strings", "int64s", "floats", "tensor"};
    for (uint32_t i = 0; i < 4 && !l.is_given; i++) {
        name[i] = arena_printf(n->model->arena, "%s_%s", prefix, types[i]);
        if (!onnx_has_attr(n, name[i]) || (i < 3 && !(a = onnx_attr(n, name[i]))))
            continue;
        l.is_given = true;
        l.is_text = i == 0;
        if (i == 3) {
            from_tensor(n, name[i], &l);
        } else if (i == 0) {
            l.text = a->strings;
            l.count = a->n_strings;
        } else {
            l.count = i == 1 ? a->n_ints : a->n_floats;
            l.numbers = i == 1 ? list_const(n, DTYPE_i64, a->ints, l.count)
                               : list_const(n, DTYPE_f32, a->floats, l.count);
        }
    }
    rlx_assert(!l.is_text || l.text != NULL || l.count == 0);
    return l;
}

// --- where a value is in the keys, or -1 ---

static NodeId find_number(OnnxNode *n, NodeId x, const Labels *keys)
{
    if (n->failed)
        return 0;
    const DType t = onnx_dtype(n, x);
    const int64_t last[] = {onnx_shape(n, x)->rank};
    const NodeId wide = onnx_unsqueeze(n, x, last, 1), list = onnx_cast(n, keys->numbers, t);
    NodeId same = onnx_op2(n, OP_eq, wide, list);
    if (dtype_info[t].cls == DCLASS_FLOAT) { // a key that is NaN stands for all of them
        const NodeId both =
            onnx_op2(n, OP_logical_and, onnx_op1(n, OP_is_nan, wide), onnx_op1(n, OP_is_nan, list));
        same = onnx_op2(n, OP_logical_or, same, both);
    }
    const NodeId index = onnx_cast(n, onnx_iota(n, (Dim)keys->count), DTYPE_i32);
    const NodeId at = onnx_op3(n, OP_where, same, index, onnx_scalar(n, DTYPE_i32, -1));
    return onnx_squeeze(n, onnx_reduce(n, OP_reduce_max, at, last, 1), last, 1);
}

static NodeId find_key(OnnxNode *n, uint32_t operand, const Labels *keys)
{
    if (keys->is_text)
        return onnx_text_find(n, onnx_text_src(n, operand), keys->text, keys->count);
    return find_number(n, onnx_src(n, operand), keys);
}

// --- what stands there ---

// A list behind its default: the result for place -1 is the first.
static void out_number(OnnxNode *n, NodeId at, NodeId list, NodeId dflt)
{
    rlx_assert(list != 0);
    const Dim one = 1;
    const NodeId both[] = {onnx_reshape_to(n, onnx_cast(n, dflt, onnx_dtype(n, list)), &one, 1), list};
    const NodeId place = onnx_op2(n, OP_add, at, onnx_scalar(n, DTYPE_i32, 1));
    onnx_out(n, 0, onnx_gather(n, onnx_concat(n, both, 2, 0), place, 0));
}

static void out_text(OnnxNode *n, NodeId at, const ProtobufCBinaryData *list, size_t count,
                     ProtobufCBinaryData dflt)
{
    ProtobufCBinaryData *all = ARENA_ARRAY(n->model->arena, ProtobufCBinaryData, count + 1);
    all[0] = dflt;
    if (count)
        memcpy(all + 1, list, count * sizeof *list);
    const NodeId place = onnx_op2(n, OP_add, at, onnx_scalar(n, DTYPE_i32, 1));
    onnx_out_text(n, 0, onnx_gather(n, onnx_text_const(n, all, count + 1), place, 0));
}

static ProtobufCBinaryData bytes_of(const char *s)
{
    return (ProtobufCBinaryData){.len = strlen(s), .data = (uint8_t *)(uintptr_t)s};
}

static ProtobufCBinaryData default_text(OnnxNode *n)
{
    const Onnx__AttributeProto *a = NULL;
    onnx_str(n, "default_string", ""); // for its type
    if (onnx_has_attr(n, "default_string") && (a = onnx_attr(n, "default_string")))
        return a->s;
    const Onnx__TensorProto *t = onnx_has_attr(n, "default_tensor") ? onnx_tensor(n, "default_tensor") : NULL;
    return t && t->n_string_data ? t->string_data[0] : bytes_of("_Unused");
}

static NodeId default_number(OnnxNode *n, DType t)
{
    Labels given = {0};
    if (onnx_has_attr(n, "default_tensor"))
        from_tensor(n, "default_tensor", &given);
    if (given.numbers && given.count == 1)
        return given.numbers;
    const bool is_float = dtype_info[t].cls == DCLASS_FLOAT;
    return onnx_scalar(
        n, t, is_float ? onnx_float(n, "default_float", -0.0) : (double)onnx_int(n, "default_int64", -1));
}

static void ignore_defaults(OnnxNode *n)
{
    onnx_ignore_attr(n, "default_float");
    onnx_ignore_attr(n, "default_int64");
    onnx_ignore_attr(n, "default_string");
    onnx_ignore_attr(n, "default_tensor");
}

static void map_labels(OnnxNode *n, const Labels *keys, const Labels *values)
{
    if (!n->failed && keys->count != values->count)
        onnx_fail(n, E0203, "%zu keys, but %zu values", keys->count, values->count);
    const NodeId at = find_key(n, 0, keys);
    if (values->is_text)
        out_text(n, at, values->text, values->count, default_text(n));
    else if (!n->failed)
        out_number(n, at, values->numbers, default_number(n, onnx_dtype(n, values->numbers)));
    ignore_defaults(n);
}

// --- operators ---

// From strings to their places, or from places to strings: as the input is.
static void import_places(OnnxNode *n, const ProtobufCBinaryData *list, size_t count, NodeId numbers)
{
    Labels text = {.is_text = true, .count = count, .text = list};
    Labels places = {.count = count, .numbers = numbers};
    const bool is_text = n->n_in > 0 && n->in[0].is_text;
    map_labels(n, is_text ? &text : &places, is_text ? &places : &text);
}

void onnx_import_label_encoder(OnnxNode *n)
{
    if (n->opset >= 2) {
        const Labels keys = read_labels(n, "keys"), values = read_labels(n, "values");
        if (!n->failed && (!keys.is_given || !values.is_given))
            onnx_fail(n, E0203, "needs keys and values");
        map_labels(n, &keys, &values);
        return;
    }
    size_t count = 0;
    const ProtobufCBinaryData *list = onnx_strings(n, "classes_strings", &count);
    import_places(n, list, count, onnx_iota(n, (Dim)count));
}

void onnx_import_category_mapper(OnnxNode *n)
{
    const Labels numbers = read_labels(n, "cats"); // strings come first
    const Onnx__AttributeProto *ints = onnx_attr(n, "cats_int64s");
    if (!n->failed && (!numbers.is_text || !ints || ints->n_ints != numbers.count))
        onnx_fail(n, E0203, "needs 'cats_strings' and as many 'cats_int64s'");
    if (!n->failed)
        import_places(n, numbers.text, numbers.count, list_const(n, DTYPE_i64, ints->ints, ints->n_ints));
}
