// SPDX-License-Identifier: Apache-2.0
// What import functions read: operands, the attributes of one node by name, and how they report. Every read
// marks what was read, so that the driver in onnx_graph.c can tell what an import function did not look at.
#include "compiler/import/onnx/onnx_import.h"

#include <string.h>

bool onnx_fail(OnnxNode *n, DiagCode code, const char *fmt, ...)
{
    if (n->failed)
        return false;
    n->failed = true;
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(n->model->arena, fmt, args);
    va_end(args);
    if (code == E0206) // what is missing may be there in another version
        return diag_error(n->model->diag, n->span, code, "node '%s': %s (opset %lld): %s", n->label, n->op,
                          (long long)n->opset, text);
    return diag_error(n->model->diag, n->span, code, "node '%s': %s: %s", n->label, n->op, text);
}

// --- operands ---

bool onnx_has(const OnnxNode *n, uint32_t i)
{
    return i < n->n_in && n->in[i].kind != ONNX_ABSENT;
}

void onnx_skip(OnnxNode *n, uint32_t i)
{
    if (i < n->n_in)
        n->in_used[i] = true;
}

// What keeps an operand from being read as a node.
static bool check_tensor(OnnxNode *n, uint32_t i)
{
    rlx_assert(i < n->n_in);
    const OnnxValue *v = &n->in[i];
    const char *what = onnx_is_sequence(*v)   ? "a sequence"
                       : v->kind == ONNX_NONE ? "an optional without a value"
                       : v->is_text           ? "a tensor of strings"
                                              : NULL;
    return !what || onnx_fail(n, E0205, "input %u ('%s') is %s, which this operator does not take", i,
                              onnx_text(n->proto->input[i]), what);
}

OnnxValue onnx_any(OnnxNode *n, uint32_t i)
{
    onnx_skip(n, i);
    if (n->failed)
        return (OnnxValue){.kind = ONNX_BROKEN};
    return i < n->n_in ? n->in[i] : (OnnxValue){.kind = ONNX_ABSENT};
}

const OnnxList *onnx_list(OnnxNode *n, uint32_t i)
{
    const OnnxValue v = onnx_any(n, i);
    rlx_assert(v.kind != ONNX_LIST || v.list != NULL);
    if (v.kind == ONNX_LIST)
        return v.list;
    if (v.kind == ONNX_ROWS)
        onnx_fail(n, E0207, "input %u: the number of tensors in this sequence must be known", i);
    else
        onnx_fail(n, E0205, "input %u must be a sequence", i);
    return NULL;
}

NodeId onnx_opt(OnnxNode *n, uint32_t i)
{
    onnx_skip(n, i);
    if (n->failed || !onnx_has(n, i) || !check_tensor(n, i))
        return 0;
    const NodeId id = onnx_value_node(n->scope, &n->in[i], n->span);
    rlx_assert(id < n->graph->nodes.len);
    n->failed = id == 0; // its own failure was reported
    return id;
}

NodeId onnx_src(OnnxNode *n, uint32_t i)
{
    if (!onnx_has(n, i)) {
        onnx_fail(n, E0202, "input %u is missing", i);
        return 0;
    }
    return onnx_opt(n, i);
}

bool onnx_peek_dims(OnnxNode *n, uint32_t i, OnnxDims *out)
{
    return onnx_has(n, i) && onnx_value_dims(n->scope, &n->in[i], out);
}

bool onnx_src_dims(OnnxNode *n, uint32_t i, OnnxDims *out)
{
    onnx_skip(n, i);
    if (n->failed)
        return false;
    if (!onnx_has(n, i))
        return onnx_fail(n, E0202, "input %u is missing", i);
    Tensor known;
    if (onnx_peek_dims(n, i, out) || (onnx_assume(n, i, &known) && onnx_peek_dims(n, i, out)))
        return true;
    const NodeId id = onnx_src(n, i);
    if (node_is_const(n->graph, id))
        return onnx_fail(n, E0203, "input %u ('%s') must be a list of at most %d whole numbers", i,
                         n->proto->input[i], ONNX_MAX_LIST);
    return onnx_fail_unknown(n, i);
}

bool onnx_src_ints(OnnxNode *n, uint32_t i, OnnxInts *out)
{
    OnnxDims dims;
    out->n = 0;
    if (!onnx_src_dims(n, i, &dims))
        return false;
    for (uint32_t k = 0; k < dims.n; k++)
        if (!dim_is_const(dims.dim[k]))
            return onnx_fail(n, E0207,
                             "input %u ('%s') depends on a symbolic dimension; it must be a constant", i,
                             n->proto->input[i]);
    rlx_assert(dims.n <= ONNX_MAX_LIST);
    out->n = dims.n;
    memcpy(out->v, dims.dim, dims.n * sizeof *out->v);
    return true;
}

const Shape *onnx_shape(const OnnxNode *n, NodeId id)
{
    rlx_assert(id < n->graph->nodes.len);
    static const Shape scalar = {0};
    return id ? graph_node(n->graph, id)->shape : &scalar;
}

DType onnx_dtype(const OnnxNode *n, NodeId id)
{
    return id ? (DType)graph_node(n->graph, id)->dtype : DTYPE_f32;
}

int64_t onnx_const_dim(OnnxNode *n, NodeId id, uint32_t axis)
{
    const Shape *s = onnx_shape(n, id);
    if (n->failed)
        return 0;
    if (axis >= s->rank) {
        onnx_fail(n, E0204, "expected an input with at least %u axes, found %u", axis + 1, s->rank);
        return 0;
    }
    if (dim_is_const(s->dim[axis]))
        return s->dim[axis];
    Str text = str_new(n->model->arena);
    dim_print(n->graph->dims, s->dim[axis], &text);
    onnx_fail(n, E0207, "the size of axis %u is %s; it must be a number", axis, str_text(&text));
    return 0;
}

bool onnx_axis(OnnxNode *n, int64_t axis, uint32_t rank, uint32_t *out)
{
    rlx_assert(rank <= SHAPE_MAX_RANK + 1); // of a result that has an axis more
    *out = 0;
    if (n->failed)
        return false;
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return onnx_fail(n, E0203, "axis %lld is out of range for rank %u", (long long)axis, rank);
    *out = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    rlx_assert(*out < rank);
    return true;
}

// --- attributes ---

static const Onnx__AttributeProto *find_attr(const OnnxNode *n, const char *name, size_t *index);

// What an attribute stands for: in the body of a function it may name one of the call.
static const Onnx__AttributeProto *resolve_attr(const OnnxNode *n, const Onnx__AttributeProto *a)
{
    const char *name = onnx_text(a->ref_attr_name);
    const OnnxCall *call = onnx_scope_call(n->scope);
    size_t index = 0;
    if (name[0] == '\0' || !call)
        return a;
    rlx_assert(call->node != NULL && call->function != NULL);
    const Onnx__AttributeProto *given = find_attr(call->node, name, &index);
    return given ? given : onnx_function_default(n->model, call->function, name);
}

static const Onnx__AttributeProto *find_attr(const OnnxNode *n, const char *name, size_t *index)
{
    for (size_t i = 0; i < n->proto->n_attribute; i++) {
        *index = i;
        if (strcmp(onnx_text(n->proto->attribute[i]->name), name) == 0)
            return resolve_attr(n, n->proto->attribute[i]);
    }
    return NULL;
}

static void use_attr(OnnxNode *n, const char *name)
{
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        if (strcmp(onnx_text(n->proto->attribute[i]->name), name) == 0)
            n->attr_used[i] = true;
}

const Onnx__AttributeProto *onnx_attr(OnnxNode *n, const char *name)
{
    size_t index = 0;
    use_attr(n, name);
    const Onnx__AttributeProto *a = n->failed ? NULL : find_attr(n, name, &index);
    if (!a)
        return NULL;
    if (a != n->proto->attribute[index] && a->g)
        onnx_fail(n, E0206, "attribute '%s': a graph that is an attribute of a function is not supported",
                  name);
    else if (onnx_text(a->ref_attr_name)[0])
        onnx_fail(n, E0106,
                  "attribute '%s' refers to an attribute of a function, but the node is not in a function",
                  name);
    return n->failed ? NULL : a;
}

bool onnx_has_attr(const OnnxNode *n, const char *name)
{
    size_t index = 0;
    return find_attr(n, name, &index) != NULL;
}

void onnx_ignore_attr(OnnxNode *n, const char *name)
{
    use_attr(n, name);
}

// Writers that follow protobuf 3 leave zeros out: the type then is all that is there.
static bool has_type(const Onnx__AttributeProto *a, Onnx__AttributeProto__AttributeType type)
{
    return a->has_type && a->type == type;
}

static bool wrong_type(OnnxNode *n, const char *name, const char *wanted)
{
    return onnx_fail(n, E0203, "attribute '%s' must be %s", name, wanted);
}

int64_t onnx_int(OnnxNode *n, const char *name, int64_t dflt)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a)
        return dflt;
    if (!a->has_i && !has_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT))
        wrong_type(n, name, "a whole number");
    return a->i;
}

// Once for the same words: nodes of loops are read again and again.
static bool is_said(const Diag *d, const char *message)
{
    for (uint32_t i = 0; i < d->items.len; i++)
        if (strcmp(d->items.data[i].message, message) == 0)
            return true;
    return false;
}

void onnx_pass_on(OnnxNode *n, const Diag *from)
{
    for (uint32_t i = 0; i < from->items.len; i++) {
        const DiagItem *item = &from->items.data[i];
        if (item->level == DIAG_ERROR)
            diag_error(n->model->diag, item->span, item->code, "%s", item->message);
        else if (item->level == DIAG_WARNING)
            diag_warning(n->model->diag, item->span, item->code, "%s", item->message);
        else
            diag_note(n->model->diag, item->span, "%s", item->message);
    }
}

void onnx_warn_once(OnnxNode *n, DiagCode code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(n->model->arena, fmt, args);
    va_end(args);
    const char *message = arena_printf(n->model->arena, "node '%s': %s: %s", n->label, n->op, text);
    if (!is_said(n->model->diag, message))
        diag_warning(n->model->diag, n->span, code, "%s", message);
}

bool onnx_flag(OnnxNode *n, const char *name, bool dflt)
{
    const int64_t value = onnx_int(n, name, dflt);
    if (!n->failed && value != 0 && value != 1)
        onnx_warn_once(n, E0203, "attribute '%s' is %lld, expected 0 or 1; taken as 1", name,
                       (long long)value);
    return value != 0;
}

double onnx_float(OnnxNode *n, const char *name, double dflt)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a)
        return dflt;
    if (!a->has_f && !has_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT))
        wrong_type(n, name, "a number");
    return (double)a->f;
}

// Bytes as text: up to the first zero byte.
static const char *text_of(OnnxNode *n, const ProtobufCBinaryData *b)
{
    return b->len ? arena_strndup(n->model->arena, (const char *)b->data, b->len) : "";
}

const char *onnx_str(OnnxNode *n, const char *name, const char *dflt)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a)
        return dflt;
    if (!a->has_s && !has_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING))
        wrong_type(n, name, "a string");
    return text_of(n, &a->s);
}

uint32_t onnx_word(OnnxNode *n, const char *name, const char *const *words, uint32_t count)
{
    rlx_assert(count >= 1);
    const char *given = onnx_str(n, name, words[0]);
    for (uint32_t i = 0; i < count; i++)
        if (str_equal(given, words[i]))
            return i;
    Str list = str_new(n->model->arena);
    for (uint32_t i = 0; i < count; i++)
        str_printf(&list, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", words[i]);
    onnx_fail(n, E0203, "attribute '%s' is '%s', expected %s", name, given, str_text(&list));
    return 0;
}

bool onnx_need_attr(OnnxNode *n, const char *name)
{
    return onnx_has_attr(n, name) || onnx_fail(n, E0203, "needs the attribute '%s'", name);
}

bool onnx_ints(OnnxNode *n, const char *name, OnnxInts *out)
{
    out->n = 0;
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a)
        return false;
    if (a->n_ints > ONNX_MAX_LIST)
        return onnx_fail(n, E0004, "attribute '%s' has %zu entries; at most %d are possible", name, a->n_ints,
                         ONNX_MAX_LIST);
    if (!a->n_ints && (a->has_i || a->has_f || a->has_s || a->n_floats || a->n_strings || a->t))
        return wrong_type(n, name, "a list of whole numbers");
    out->n = (uint32_t)a->n_ints;
    if (a->n_ints)
        memcpy(out->v, a->ints, a->n_ints * sizeof *out->v);
    return true;
}

bool onnx_dims_attr(OnnxNode *n, const char *name, OnnxDims *out)
{
    OnnxInts ints;
    if (!onnx_ints(n, name, &ints))
        return false;
    *out = (OnnxDims){.dtype = DTYPE_i64, .rank = 1, .n = ints.n};
    for (uint32_t i = 0; i < ints.n; i++)
        out->dim[i] = dim_from_entry(ints.v[i]);
    return true;
}

bool onnx_strs(OnnxNode *n, const char *name, uint32_t *count, const char **out, uint32_t max)
{
    rlx_assert(out != NULL && max >= 1);
    *count = 0;
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a)
        return false;
    if (a->n_strings > max)
        return onnx_fail(n, E0203, "attribute '%s' has %zu entries, expected at most %u", name, a->n_strings,
                         max);
    for (size_t i = 0; i < a->n_strings; i++)
        out[(*count)++] = text_of(n, &a->strings[i]);
    return true;
}

const ProtobufCBinaryData *onnx_strings(OnnxNode *n, const char *name, size_t *count)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    *count = a ? a->n_strings : 0;
    return a ? a->strings : NULL;
}

const Onnx__TensorProto *onnx_tensor(OnnxNode *n, const char *name)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (a && !a->t)
        wrong_type(n, name, "a tensor");
    return a ? a->t : NULL;
}

const Onnx__GraphProto *onnx_graph(OnnxNode *n, const char *name)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a || !a->g)
        onnx_fail(n, E0203, "needs the attribute '%s', a graph", name);
    return a ? a->g : NULL;
}

DType onnx_type_attr(OnnxNode *n, const char *name, DType dflt)
{
    DType t = dflt;
    if (!onnx_has_attr(n, name))
        return dflt;
    const int64_t v = onnx_int(n, name, 0);
    if (v < 0 || v > INT32_MAX || !onnx_dtype_of((int32_t)v, &t))
        onnx_fail(n, E0206, "element type %s is not supported",
                  onnx_dtype_text(v < 0 || v > 255 ? 0 : (int32_t)v));
    return t;
}

// --- results ---

void onnx_out(OnnxNode *n, uint32_t i, NodeId id)
{
    if (n->failed || i >= n->n_out)
        return;
    rlx_assert(id != 0 && id < n->graph->nodes.len);
    n->out[i] = onnx_value(id);
}

void onnx_out_any(OnnxNode *n, uint32_t i, OnnxValue v)
{
    if (n->failed || i >= n->n_out)
        return;
    rlx_assert((v.kind != ONNX_NODE && v.kind != ONNX_ROWS) || v.node != 0);
    n->out[i] = v;
}

void onnx_out_list(OnnxNode *n, uint32_t i, DType dtype, bool is_text, const OnnxValue *v, uint32_t count)
{
    if (n->failed || !onnx_spend(n, count))
        return;
    rlx_assert(v != NULL || count == 0);
    const OnnxList list = {
        .dtype = dtype,
        .is_text = is_text,
        .n = count,
        .v = count ? arena_copy(n->model->arena, v, count * sizeof *v) : NULL,
    };
    onnx_out_any(n, i,
                 (OnnxValue){.kind = ONNX_LIST, .list = arena_copy(n->model->arena, &list, sizeof list)});
}

bool onnx_wants(const OnnxNode *n, uint32_t i)
{
    return i < n->n_out && onnx_text(n->proto->output[i])[0] != '\0';
}

void onnx_out_dims(OnnxNode *n, uint32_t i, const OnnxDims *dims)
{
    if (n->failed || i >= n->n_out)
        return;
    rlx_assert(dims->n <= ONNX_MAX_LIST && (dims->rank != 0 || dims->n == 1));
    OnnxValue v = {.kind = ONNX_DIMS, .dims = arena_copy(n->model->arena, dims, sizeof *dims)};
    bool is_const = true;
    for (uint32_t k = 0; k < dims->n; k++)
        is_const = is_const && dim_is_const(dims->dim[k]);
    n->out[i] = is_const ? onnx_value(onnx_value_node(n->scope, &v, n->span)) : v;
}
