// SPDX-License-Identifier: Apache-2.0
// What the model declares about its values beside their computation (value_info, outputs): looked up where
// a size is not known otherwise (onnx_promise.c), and compared with what follows from the nodes.
#include "compiler/import/onnx/onnx_import.h"

// Contradictions that are named: what follows from the first ones says nothing new.
enum { MAX_NAMED = 8 };

static const Onnx__ValueInfoProto *declared_at(const Onnx__GraphProto *g, uint64_t i)
{
    rlx_assert(i < g->n_value_info + g->n_output);
    return i < g->n_value_info ? g->value_info[i] : g->output[i - g->n_value_info];
}

const Onnx__ValueInfoProto *onnx_find_declared(OnnxScope *s, const char *name)
{
    const Onnx__GraphProto *g = s->proto;
    uint64_t index = 0;
    if (!g)
        return NULL;
    if (!s->has_declared)
        for (size_t i = 0; i < g->n_value_info + g->n_output; i++)
            map_put_str(s->model->arena, &s->declared, onnx_text(declared_at(g, i)->name), i);
    s->has_declared = true;
    return map_get_str(&s->declared, name, &index) ? declared_at(g, index) : NULL;
}

static const Onnx__TensorShapeProto *shape_of_type(const Onnx__ValueInfoProto *v)
{
    const bool is_tensor =
        v && v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && v->type->tensor_type;
    return is_tensor ? v->type->tensor_type->shape : NULL;
}

static bool read_number(const Onnx__TensorShapeProto__Dimension *d, Dim *out)
{
    return d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
           dim_from_size(d->dim_value, out);
}

bool onnx_declared_numbers(const Onnx__ValueInfoProto *v, Shape *out)
{
    const Onnx__TensorShapeProto *s = shape_of_type(v);
    if (!s || s->n_dim > SHAPE_MAX_RANK)
        return false;
    *out = (Shape){.rank = (uint32_t)s->n_dim};
    for (uint32_t i = 0; i < out->rank; i++)
        if (!read_number(s->dim[i], &out->dim[i]))
            return false;
    return true;
}

int64_t onnx_declared_rank(OnnxNode *n, uint32_t i)
{
    const Onnx__TensorShapeProto *s =
        onnx_wants(n, i) ? shape_of_type(onnx_find_declared(n->scope, onnx_text(n->proto->output[i]))) : NULL;
    return s ? (int64_t)s->n_dim : -1;
}

// --- against what was inferred ---

// The shape of a tensor as ONNX counts it: the bytes of strings are no axis. False: it is no tensor.
static bool inferred_shape(const OnnxNode *n, const OnnxValue *v, Shape *out)
{
    if (v->kind == ONNX_DIMS)
        *out = (Shape){.rank = v->dims->rank, .dim = {v->dims->n}};
    else if (v->kind == ONNX_NODE && v->node)
        *out = *onnx_shape(n, v->node);
    else
        return false;
    rlx_assert(!v->is_text || out->rank >= 1);
    out->rank -= v->is_text;
    return true;
}

// Sizes that are open on either side contradict nothing.
static bool contradicts(const Onnx__TensorShapeProto *declared, const Shape *s)
{
    if (declared->n_dim != s->rank)
        return true;
    for (uint32_t i = 0; i < s->rank; i++) {
        Dim size = 0;
        if (read_number(declared->dim[i], &size) && dim_is_const(s->dim[i]) && size != s->dim[i])
            return true;
    }
    return false;
}

static void print_declared(const Onnx__TensorShapeProto *s, Str *out)
{
    str_add(out, "[");
    for (size_t i = 0; i < s->n_dim && i < SHAPE_MAX_RANK; i++) {
        const Onnx__TensorShapeProto__Dimension *d = s->dim[i];
        Dim size = 0;
        const bool is_named = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        str_add(out, i ? ", " : "");
        if (read_number(d, &size))
            str_printf(out, "%lld", (long long)size);
        else
            str_add(out, is_named ? onnx_text(d->dim_param) : "?");
    }
    str_add(out, s->n_dim > SHAPE_MAX_RANK ? ", ...]" : "]");
}

static uint32_t count_named(const Diag *d)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->items.len; i++)
        count += d->items.data[i].level == DIAG_WARNING && d->items.data[i].code == E0204;
    return count;
}

static void warn(OnnxNode *n, uint32_t i, const Onnx__TensorShapeProto *declared, const Shape *s)
{
    Str said = str_new(n->model->arena), found = str_new(n->model->arena);
    print_declared(declared, &said);
    str_add(&found, "[");
    for (uint32_t k = 0; k < s->rank; k++) {
        str_add(&found, k ? ", " : "");
        dim_print(n->graph->dims, s->dim[k], &found);
    }
    onnx_warn_once(n, E0204,
                   "the model declares the shape %s for output %u ('%s'), but it is %s], which is taken",
                   str_text(&said), i, n->proto->output[i], str_text(&found));
}

void onnx_check_declared(OnnxNode *n)
{
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++) {
        Shape s;
        const Onnx__TensorShapeProto *declared =
            onnx_wants(n, i) ? shape_of_type(onnx_find_declared(n->scope, n->proto->output[i])) : NULL;
        if (declared && inferred_shape(n, &n->out[i], &s) && contradicts(declared, &s) &&
            count_named(n->model->diag) < MAX_NAMED)
            warn(n, i, declared, &s);
    }
}
