// SPDX-License-Identifier: Apache-2.0
// Operators on sequences and optionals. Sequences are lists of values here and leave no trace in the graph:
// where an element goes or comes from must be known. An optional with a value is that value.
#include "compiler/import/onnx/onnx_text.h"

#include <string.h>

// --- helpers ---

static bool is_tensor(OnnxValue v)
{
    return v.kind == ONNX_NODE || v.kind == ONNX_DIMS;
}

static DType value_dtype(const OnnxNode *n, OnnxValue v)
{
    rlx_assert(is_tensor(v));
    return v.kind == ONNX_DIMS ? v.dims->dtype : onnx_dtype(n, v.node);
}

// A tensor operand that becomes an element.
static OnnxValue element(OnnxNode *n, uint32_t i)
{
    const OnnxValue v = onnx_any(n, i);
    if (!n->failed && !is_tensor(v))
        onnx_fail(n, E0205, "input %u must be a tensor", i);
    return v;
}

static bool same_type(OnnxNode *n, const OnnxList *list, OnnxValue v)
{
    if (n->failed)
        return false;
    const DType t = value_dtype(n, v);
    if (list->dtype == t && list->is_text == v.is_text)
        return true;
    return onnx_fail(n, E0205, "a tensor of %s does not fit a sequence of %s",
                     v.is_text ? "strings" : dtype_info[t].name,
                     list->is_text ? "strings" : dtype_info[list->dtype].name);
}

// Operand i as a position in [0, end], which may count from the back of `count` elements.
static bool position(OnnxNode *n, uint32_t i, uint32_t count, uint32_t end, uint32_t *out)
{
    OnnxInts at;
    if (n->failed || !onnx_src_ints(n, i, &at))
        return false;
    const int64_t v = at.n == 1 && at.v[0] < 0 ? at.v[0] + count : at.v[0];
    if (at.n != 1 || v < 0 || v > end)
        return onnx_fail(n, E0203, "there is no such position in a sequence of %u elements", count);
    *out = (uint32_t)v;
    return true;
}

// --- sequences ---

void onnx_import_sequence_construct(OnnxNode *n)
{
    OnnxList list = {0};
    OnnxValue *v = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_in);
    for (uint32_t i = 0; i < n->n_in && !n->failed; i++) {
        v[i] = element(n, i);
        if (i == 0 && !n->failed)
            list = (OnnxList){.dtype = value_dtype(n, v[0]), .is_text = v[0].is_text};
        same_type(n, &list, v[i]);
    }
    if (n->n_in == 0)
        onnx_fail(n, E0202, "needs at least one input");
    onnx_out_list(n, 0, list.dtype, list.is_text, v, n->n_in);
}

void onnx_import_sequence_empty(OnnxNode *n)
{
    const bool is_text = onnx_int(n, "dtype", 1) == ONNX_STRING;
    onnx_out_list(n, 0, is_text ? DTYPE_u8 : onnx_type_attr(n, "dtype", DTYPE_f32), is_text, NULL, 0);
}

void onnx_import_sequence_insert(OnnxNode *n)
{
    const OnnxList *list = onnx_list(n, 0);
    const OnnxValue x = element(n, 1);
    if (n->failed || !same_type(n, list, x))
        return;
    uint32_t at = list->n;
    if (onnx_has(n, 2) && !position(n, 2, list->n, list->n, &at))
        return;
    OnnxValue *v = ARENA_ARRAY(n->model->arena, OnnxValue, list->n + 1);
    for (uint32_t i = 0; i <= list->n; i++)
        v[i] = i < at ? list->v[i] : i == at ? x : list->v[i - 1];
    onnx_out_list(n, 0, list->dtype, list->is_text, v, list->n + 1);
}

void onnx_import_sequence_erase(OnnxNode *n)
{
    const OnnxList *list = onnx_list(n, 0);
    if (!n->failed && list->n == 0)
        onnx_fail(n, E0204, "the sequence is empty");
    if (n->failed)
        return;
    uint32_t at = list->n - 1;
    if (onnx_has(n, 1) && !position(n, 1, list->n, list->n - 1, &at))
        return;
    OnnxValue *v = ARENA_ARRAY(n->model->arena, OnnxValue, list->n);
    for (uint32_t i = 0; i + 1 < list->n; i++)
        v[i] = list->v[i < at ? i : i + 1];
    onnx_out_list(n, 0, list->dtype, list->is_text, v, list->n - 1);
}

// A row of a tensor with as many rows as the model computes: that there is such a row is checked in each run.
static void row_at(OnnxNode *n, NodeId rows)
{
    OnnxInts at;
    if (n->failed || !onnx_src_ints(n, 1, &at))
        return;
    if (at.n != 1) {
        onnx_fail(n, E0203, "the position must be one number");
        return;
    }
    const double least = at.v[0] < 0 ? -(double)at.v[0] : (double)at.v[0] + 1;
    const NodeId count = onnx_dim_value(n, onnx_shape(n, rows)->dim[0]);
    onnx_require(n, onnx_op2(n, OP_ge, count, onnx_scalar(n, DTYPE_i64, least)),
                 arena_printf(n->model->arena,
                              GRAPH_RANGE "node '%s': the sequence must have a position %lld", n->label,
                              (long long)at.v[0]));
    onnx_out(n, 0, onnx_gather(n, rows, onnx_scalar(n, DTYPE_i64, (double)at.v[0]), 0));
}

void onnx_import_sequence_at(OnnxNode *n)
{
    if (onnx_any(n, 0).kind == ONNX_ROWS) {
        row_at(n, onnx_any(n, 0).node);
        return;
    }
    const OnnxList *list = onnx_list(n, 0);
    uint32_t at = 0;
    if (!n->failed && list->n == 0)
        onnx_fail(n, E0204, "the sequence is empty");
    if (!n->failed && position(n, 1, list->n, list->n - 1, &at))
        onnx_out_any(n, 0, list->v[at]);
}

void onnx_import_sequence_length(OnnxNode *n)
{
    if (onnx_any(n, 0).kind == ONNX_ROWS) {
        onnx_out(n, 0, onnx_dim_value(n, onnx_shape(n, onnx_any(n, 0).node)->dim[0]));
        return;
    }
    const OnnxList *list = onnx_list(n, 0);
    if (list)
        onnx_out(n, 0, onnx_scalar(n, DTYPE_i64, list->n));
}

// --- parts of a tensor ---

typedef struct Parts {
    uint32_t axis;
    int64_t size;
    int64_t *length;
    uint32_t n;
    bool drops_axis;
} Parts;

// The lengths of the parts that operand 1 wants: one for all, one each, or 1 where it is not given.
static bool read_parts(OnnxNode *n, Parts *p)
{
    OnnxInts given = {.n = 1, .v = {1}};
    bool is_list = false;
    if (onnx_has(n, 1)) {
        OnnxDims dims;
        if (!onnx_src_ints(n, 1, &given))
            return false;
        is_list = onnx_peek_dims(n, 1, &dims) && dims.rank == 1;
    }
    if (!is_list && (given.n != 1 || given.v[0] < 1))
        return onnx_fail(n, E0203, "the length of the parts must be positive");
    const int64_t count = is_list ? given.n : p->size / given.v[0] + (p->size % given.v[0] != 0);
    int64_t at = 0;
    if (!onnx_spend(n, count))
        return false;
    p->n = (uint32_t)count;
    p->length = ARENA_ARRAY(n->model->arena, int64_t, count);
    for (uint32_t i = 0; i < p->n; i++) {
        const int64_t left = p->size - at, length = is_list ? given.v[i] : given.v[0];
        if (length < 0 || (is_list && length > left))
            return onnx_fail(n, E0204, "the parts do not fit an axis of size %lld", (long long)p->size);
        p->length[i] = length < left ? length : left;
        at += p->length[i];
    }
    return at == p->size || onnx_fail(n, E0204, "the parts sum up to %lld, but the axis has %lld",
                                      (long long)at, (long long)p->size);
}

static NodeId to_front(OnnxNode *n, NodeId x, uint32_t axis)
{
    rlx_assert(axis < onnx_shape(n, x)->rank);
    int64_t perm[SHAPE_MAX_RANK];
    perm[0] = axis;
    for (uint32_t i = 1; i < onnx_shape(n, x)->rank; i++)
        perm[i] = i - (i <= axis);
    return axis == 0 ? x : onnx_transpose(n, x, perm);
}

// Parts whose sizes are a list that the model computes. False: they are numbers, or it failed.
static bool split_listed(OnnxNode *n, NodeId x, uint32_t axis)
{
    Dim part[ONNX_MAX_LIST];
    OnnxValue v[ONNX_MAX_LIST];
    if (n->failed || !onnx_has(n, 1) || onnx_shape(n, onnx_src(n, 1))->rank != 1)
        return false;
    const Dim count = onnx_shape(n, onnx_src(n, 1))->dim[0];
    if (!dim_is_const(count) || count > ONNX_MAX_LIST ||
        !onnx_open_parts(n, axis, onnx_shape(n, x)->dim[axis], (uint32_t)count, part))
        return false;
    onnx_split_open(n, x, axis, (uint32_t)count, part, v);
    onnx_out_list(n, 0, onnx_dtype(n, x), false, v, (uint32_t)count);
    return true;
}

void onnx_import_split_to_sequence(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    Parts p = {.drops_axis = onnx_int(n, "keepdims", 1) == 0 && !onnx_has(n, 1)};
    if (!onnx_axis(n, onnx_int(n, "axis", 0), onnx_shape(n, x)->rank, &p.axis))
        return;
    if (p.drops_axis && !dim_is_const(onnx_shape(n, x)->dim[p.axis])) {
        onnx_out_any(n, 0, (OnnxValue){.kind = ONNX_ROWS, .node = to_front(n, x, p.axis)});
        return;
    }
    if (split_listed(n, x, p.axis))
        return;
    p.size = onnx_const_dim(n, x, p.axis);
    if (n->failed || !read_parts(n, &p))
        return;
    OnnxValue *v = ARENA_ARRAY(n->model->arena, OnnxValue, p.n);
    const int64_t axis = p.axis;
    int64_t at = 0;
    for (uint32_t i = 0; i < p.n && !n->failed; i++) {
        const NodeId part = onnx_slice(n, x, axis, at, at + p.length[i], 1);
        v[i] = onnx_value(p.drops_axis ? onnx_squeeze(n, part, &axis, 1) : part);
        at += p.length[i];
    }
    onnx_out_list(n, 0, onnx_dtype(n, x), false, v, p.n);
}

// Strings with as much room each. Their bytes stay the last axis.
static void concat_text(OnnxNode *n, const OnnxList *list, int64_t axis, bool is_new)
{
    rlx_assert(list->is_text && list->n >= 1);
    NodeId *src = ARENA_ARRAY(n->model->arena, NodeId, list->n);
    uint32_t at = 0;
    int64_t room = 1;
    for (uint32_t i = 0; i < list->n; i++) {
        const int64_t needs = onnx_text_capacity(n, list->v[i].node);
        room = needs > room ? needs : room;
    }
    for (uint32_t i = 0; i < list->n && !n->failed; i++) {
        const uint32_t rank = onnx_shape(n, list->v[i].node)->rank - 1 + is_new;
        if (!onnx_axis(n, axis, rank, &at))
            return;
        src[i] = onnx_text_widen(n, list->v[i].node, room);
        if (is_new)
            src[i] = onnx_unsqueeze(n, src[i], (const int64_t[]){at}, 1);
    }
    onnx_out_text(n, 0, onnx_concat_many(n, src, list->n, at));
}

void onnx_import_concat_from_sequence(OnnxNode *n)
{
    const OnnxList *list = onnx_list(n, 0);
    const bool is_new = onnx_flag(n, "new_axis", 0);
    int64_t axis = onnx_int(n, "axis", 0);
    onnx_need_attr(n, "axis");
    if (!n->failed && list->n == 0)
        onnx_fail(n, E0204, "the sequence is empty");
    if (n->failed)
        return;
    if (list->is_text) {
        concat_text(n, list, axis, is_new);
        return;
    }
    NodeId *src = ARENA_ARRAY(n->model->arena, NodeId, list->n);
    for (uint32_t i = 0; i < list->n && !n->failed; i++) {
        OnnxValue v = list->v[i];
        src[i] = onnx_value_node(n->scope, &v, n->span);
        n->failed = !src[i];
        uint32_t at = 0;
        if (is_new && onnx_axis(n, axis, onnx_shape(n, src[i])->rank + 1, &at))
            src[i] = onnx_unsqueeze(n, src[i], (const int64_t[]){at}, 1);
    }
    onnx_out(n, 0, onnx_concat_many(n, src, list->n, axis));
}

// --- map ---

void onnx_import_sequence_map(OnnxNode *n)
{
    const OnnxList *list = onnx_list(n, 0);
    const Onnx__GraphProto *body = onnx_graph(n, "body");
    OnnxValue *args = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_in);
    OnnxList *results = ARENA_ARRAY(n->model->arena, OnnxList, n->n_out);
    if (n->failed)
        return;
    OnnxValue *out = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_out);
    OnnxValue *v = ARENA_ARRAY(n->model->arena, OnnxValue, (size_t)n->n_out * (list->n + 1));
    for (uint32_t i = 0; i < list->n && !n->failed; i++) {
        for (uint32_t k = 0; k < n->n_in; k++) {
            args[k] = onnx_any(n, k);
            if (args[k].kind == ONNX_LIST && args[k].list->n != list->n)
                onnx_fail(n, E0204, "sequences of %u and %u elements", list->n, args[k].list->n);
            else if (args[k].kind == ONNX_LIST)
                args[k] = args[k].list->v[i];
        }
        if (n->failed || !onnx_inline_graph(n, body, args, n->n_in, out, n->n_out))
            return;
        for (uint32_t k = 0; k < n->n_out; k++) {
            if (!is_tensor(out[k]))
                onnx_fail(n, E0205, "output %u of the body must be a tensor", k);
            else if (i == 0)
                results[k] = (OnnxList){.dtype = value_dtype(n, out[k]), .is_text = out[k].is_text};
            v[(size_t)k * list->n + i] = out[k];
        }
    }
    for (uint32_t k = 0; k < n->n_in; k++)
        onnx_skip(n, k);
    for (uint32_t k = 0; k < n->n_out; k++)
        onnx_out_list(n, k, results[k].dtype, results[k].is_text, v + (size_t)k * list->n, list->n);
}

// --- optionals ---

void onnx_import_optional(OnnxNode *n)
{
    const OnnxValue v = onnx_any(n, 0);
    onnx_ignore_attr(n, "type");
    onnx_out_any(n, 0, v.kind == ONNX_ABSENT ? (OnnxValue){.kind = ONNX_NONE} : v);
}

void onnx_import_optional_has_element(OnnxNode *n)
{
    const OnnxValue v = onnx_any(n, 0);
    onnx_out(n, 0, onnx_scalar(n, DTYPE_bool, v.kind != ONNX_ABSENT && v.kind != ONNX_NONE));
}

void onnx_import_optional_get_element(OnnxNode *n)
{
    const OnnxValue v = onnx_any(n, 0);
    if (v.kind == ONNX_ABSENT || v.kind == ONNX_NONE)
        onnx_fail(n, E0204, "the optional has no value");
    onnx_out_any(n, 0, v);
}
