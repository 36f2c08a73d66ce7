// SPDX-License-Identifier: Apache-2.0
// Values that are strings, and operators that only move them. See onnx_text.h.
#include "compiler/import/onnx/onnx_text.h"

#include <string.h>

// --- values ---

NodeId onnx_text_src(OnnxNode *n, uint32_t i)
{
    const OnnxValue v = onnx_any(n, i);
    if (!n->failed && (v.kind != ONNX_NODE || !v.is_text))
        onnx_fail(n, E0205, "input %u must be a tensor of strings", i);
    return n->failed ? 0 : v.node;
}

void onnx_out_text(OnnxNode *n, uint32_t i, NodeId id)
{
    onnx_out_any(n, i, onnx_text_value(id));
}

Shape onnx_text_shape(const OnnxNode *n, NodeId text)
{
    Shape s = *onnx_shape(n, text);
    s.rank -= s.rank > 0;
    return s;
}

int64_t onnx_text_capacity(const OnnxNode *n, NodeId text)
{
    const Shape *s = onnx_shape(n, text);
    return s->rank ? s->dim[s->rank - 1] : 1;
}

NodeId onnx_text_widen(OnnxNode *n, NodeId text, int64_t capacity)
{
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    const uint32_t rank = onnx_shape(n, text)->rank;
    const int64_t more = capacity - onnx_text_capacity(n, text);
    if (n->failed || more <= 0)
        return text;
    rlx_assert(rank >= 1);
    pads[2 * rank - 1] = more;
    return onnx_op_ints(n, OP_pad, text, A_pad_pads, pads, 2 * rank);
}

// Strings side by side, each in as much room as the longest needs. NULL: reported.
static char *pack(OnnxModel *m, const ProtobufCBinaryData *v, size_t count, const char *what, Span span,
                  size_t *capacity)
{
    const uint64_t max = (UINT64_C(1) << 24) + 16 * (uint64_t)m->source->len;
    *capacity = 1;
    for (size_t i = 0; i < count; i++) {
        *capacity = v[i].len > *capacity ? v[i].len : *capacity;
        if (v[i].len && memchr(v[i].data, 0, v[i].len)) {
            diag_error(m->diag, span, E0206, "%s: a string with a zero byte is not supported", what);
            return NULL;
        }
    }
    if (count && *capacity > max / count) {
        diag_error(m->diag, span, E0004, "%s: %zu strings of up to %zu bytes are too many", what, count,
                   *capacity);
        return NULL;
    }
    char *data = ARENA_ARRAY(m->arena, char, count **capacity + 1);
    for (size_t i = 0; i < count; i++)
        if (v[i].len)
            memcpy(data + i * *capacity, v[i].data, v[i].len);
    return data;
}

NodeId onnx_text_const(OnnxNode *n, const ProtobufCBinaryData *v, size_t count)
{
    size_t capacity = 0;
    const char *what = arena_printf(n->model->arena, "node '%s': %s", n->label, n->op);
    const char *data = n->failed ? NULL : pack(n->model, v, count, what, n->span, &capacity);
    n->failed = !data;
    const Shape s = {.rank = 2, .dim = {(Dim)count, (Dim)capacity}};
    return onnx_const(n, DTYPE_u8, &s, data, count * capacity);
}

static NodeId text_tensor(OnnxModel *m, Graph *g, const Onnx__TensorProto *t, const char *what, Span span)
{
    Shape s = {0};
    size_t capacity = 0;
    uint64_t count = 1;
    if (t->n_dims >= SHAPE_MAX_RANK) {
        diag_error(m->diag, span, E0206, "%s: strings of rank %zu are not supported", what, t->n_dims);
        return 0;
    }
    for (; s.rank < t->n_dims; s.rank++) {
        if (!dim_from_size(t->dims[s.rank], &s.dim[s.rank]) ||
            __builtin_mul_overflow(count, (uint64_t)t->dims[s.rank], &count) ||
            count > (uint64_t)DIM_MAX_VALUE) {
            diag_error(m->diag, span, E0106, "%s: axis %u has the size %lld", what, s.rank,
                       (long long)t->dims[s.rank]);
            return 0;
        }
    }
    if (count != t->n_string_data) {
        diag_error(m->diag, span, E0106, "%s: has %zu strings, but its shape needs %llu", what,
                   t->n_string_data, (unsigned long long)count);
        return 0;
    }
    const char *data = pack(m, t->string_data, t->n_string_data, what, span, &capacity);
    s.dim[s.rank++] = (Dim)capacity;
    return data ? graph_const(g, DTYPE_u8, &s, data, count * capacity, span) : 0;
}

OnnxValue onnx_tensor_value(OnnxModel *m, Graph *g, const Onnx__TensorProto *t, const char *what, Span span)
{
    return t->data_type == ONNX_STRING ? onnx_text_value(text_tensor(m, g, t, what, span))
                                       : onnx_value(onnx_tensor_const(m, g, t, what, span));
}

NodeId onnx_text_lengths(OnnxNode *n, NodeId text)
{
    const int64_t last = (int64_t)onnx_shape(n, text)->rank - 1;
    const NodeId is_byte = onnx_op2(n, OP_ne, text, onnx_scalar(n, DTYPE_u8, 0));
    return onnx_reduce(n, OP_reduce_sum, onnx_cast(n, is_byte, DTYPE_i64), &last, 1);
}

NodeId onnx_text_shift(OnnxNode *n, NodeId text, int64_t by)
{
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    const uint32_t rank = onnx_shape(n, text)->rank;
    if (n->failed || rank == 0)
        return text;
    pads[rank - 1] = by;
    pads[2 * rank - 1] = -by;
    return onnx_op_ints(n, OP_pad, text, A_pad_pads, pads, 2 * rank);
}

// The bytes are one flat list behind a zero byte, for positions out of range.
NodeId onnx_text_take(OnnxNode *n, NodeId text, NodeId at)
{
    static const int64_t pads[] = {1, 0};
    const Shape s = onnx_text_shape(n, text);
    const int64_t room = onnx_text_capacity(n, text);
    const Dim count = dim_product(n->graph->dims, s.dim, s.rank);
    const Dim bytes = dim_mul(n->graph->dims, count, room);
    NodeBuild b = ONNX_BEGIN(n, OP_pad, onnx_reshape_to(n, text, &bytes, 1));
    node_ints(&b, A_pad_pads, pads, 2);
    const NodeId flat = onnx_end(n, &b);
    Shape rows = s;
    rows.dim[rows.rank++] = 1;
    const NodeId row = onnx_op2(n, OP_mul, onnx_iota(n, count), onnx_scalar(n, DTYPE_i64, (double)room));
    const NodeId begin = onnx_op2(n, OP_add, onnx_reshape(n, row, &rows), onnx_scalar(n, DTYPE_i64, 1));
    const NodeId is_in = onnx_op2(n, OP_logical_and, onnx_op2(n, OP_ge, at, onnx_scalar(n, DTYPE_i64, 0)),
                                  onnx_op2(n, OP_lt, at, onnx_scalar(n, DTYPE_i64, (double)room)));
    const NodeId index =
        onnx_op3(n, OP_where, is_in, onnx_op2(n, OP_add, begin, at), onnx_scalar(n, DTYPE_i64, 0));
    return onnx_gather(n, flat, index, 0);
}

NodeId onnx_text_first(OnnxNode *n, NodeId text, uint32_t axis, NodeId count)
{
    const Dim size = n->failed ? 0 : onnx_extent(n, 0, axis, count, onnx_shape(n, text)->dim[axis]);
    return dim_is_const(size) ? onnx_slice(n, text, axis, 0, size, 1)
                              : onnx_gather(n, text, onnx_iota(n, size), axis);
}

// --- movement ---

// Operators that move elements: which operands hold them, and whether the results do.
typedef struct Move {
    const char *name;
    uint32_t from; // a bit per operand
    bool is_result_text, needs_empty;
} Move;

static const Move moves[] = {
    {"ArrayFeatureExtractor", 1, true, false},
    {"Compress", 1, true, false},
    {"Concat", UINT32_MAX, true, false},
    {"DepthToSpace", 1, true, false},
    {"Expand", 1, true, false},
    {"Flatten", 1, true, false},
    {"Gather", 1, true, false},
    {"GatherElements", 1, true, false},
    {"GatherND", 1, true, false},
    {"OneHot", 4, true, false},
    {"Pad", 5, true, true},
    {"Reshape", 1, true, false},
    {"ReverseSequence", 1, true, false},
    {"Scatter", 5, true, false},
    {"ScatterElements", 5, true, false},
    {"ScatterND", 5, true, false},
    {"Shape", 1, false, false},
    {"Size", 1, false, false},
    {"Slice", 1, true, false},
    {"SpaceToDepth", 1, true, false},
    {"Split", 1, true, false},
    {"SplitToSequence", 1, true, false},
    {"Squeeze", 1, true, false},
    {"Tile", 1, true, false},
    {"Transpose", 1, true, false},
    {"Unsqueeze", 1, true, false},
    {"Where", 6, true, false},
};

static const Move *find_move(const char *name)
{
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (strcmp(moves[i].name, name) == 0)
            return &moves[i];
    return NULL;
}

static bool is_moved(const OnnxNode *n, const Move *m, uint32_t i)
{
    return n->in[i].is_text && (i < 32 ? (m->from >> i & 1) != 0 : m->from == UINT32_MAX);
}

// All strings of the operands as one list.
typedef struct Rows {
    NodeId *part;
    uint32_t n_parts;
    Dim count;
    int64_t capacity;
    NodeId table;
} Rows;

// Takes the strings of an operand into the list and puts their positions in its place.
static void take_rows(OnnxNode *n, Rows *r, uint32_t i)
{
    const NodeId text = n->in[i].node;
    const Shape s = onnx_text_shape(n, text);
    const Dim count = dim_product(n->graph->dims, s.dim, s.rank);
    const Dim flat[] = {count, onnx_text_capacity(n, text)};
    NodeId at = onnx_iota(n, count);
    if (r->count != 0) {
        OnnxValue base = {.kind = ONNX_DIMS,
                          .dims = &(OnnxDims){.dtype = DTYPE_i64, .n = 1, .dim = {r->count}}};
        const NodeId id = onnx_value_node(n->scope, &base, n->span);
        at = id ? onnx_op2(n, OP_add, at, id) : 0;
        n->failed = n->failed || !id;
    }
    r->part[r->n_parts++] = onnx_text_widen(n, onnx_reshape_to(n, text, flat, 2), r->capacity);
    r->count = dim_add(n->graph->dims, r->count, count);
    n->in[i] = onnx_value(onnx_reshape(n, at, &s));
    n->failed = n->failed || n->in[i].kind == ONNX_BROKEN;
}

static void begin_rows(OnnxNode *n, Rows *r, const Move *m)
{
    *r = (Rows){.part = ARENA_ARRAY(n->model->arena, NodeId, n->n_in + 1)};
    bool is_empty = true;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!is_moved(n, m, i))
            continue;
        const Shape s = onnx_text_shape(n, n->in[i].node);
        const int64_t capacity = onnx_text_capacity(n, n->in[i].node);
        r->capacity = capacity > r->capacity ? capacity : r->capacity;
        is_empty = is_empty && dim_product(n->graph->dims, s.dim, s.rank) == 0;
    }
    if (m->needs_empty || is_empty) { // the string that position 0 means
        const Dim one[] = {1, r->capacity};
        r->part[r->n_parts++] = onnx_expand(n, onnx_scalar(n, DTYPE_u8, 0), one, 2);
        r->count = 1;
    }
}

// Positions 0, 1, 2 ... of the whole list: nothing moves.
static bool is_in_order(const OnnxNode *n, const Rows *r, NodeId at)
{
    if (!node_is_const(n->graph, at) || !dim_is_const(r->count))
        return false;
    const Tensor t = tensor_of_const(n->graph, at);
    for (int64_t i = 0; i < t.numel; i++)
        if (tensor_get_i64(&t, i) != i)
            return false;
    return t.numel == r->count;
}

static OnnxValue gather_rows(OnnxNode *n, const Rows *r, OnnxValue v)
{
    const NodeId at = onnx_value_node(n->scope, &v, n->span);
    n->failed = n->failed || !at;
    if (n->failed)
        return (OnnxValue){.kind = ONNX_BROKEN};
    Shape s = *onnx_shape(n, at);
    if (s.rank == SHAPE_MAX_RANK) {
        onnx_fail(n, E0206, "strings of rank %u are not supported", s.rank);
        return (OnnxValue){.kind = ONNX_BROKEN};
    }
    s.dim[s.rank++] = r->capacity;
    return onnx_text_value(is_in_order(n, r, at) ? onnx_reshape(n, r->table, &s)
                                                 : onnx_gather(n, r->table, at, 0));
}

static void gather_results(OnnxNode *n, const Rows *r)
{
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++) {
        const OnnxValue v = n->out[i];
        if (v.kind == ONNX_LIST) {
            OnnxValue *each = ARENA_ARRAY(n->model->arena, OnnxValue, v.list->n);
            for (uint32_t k = 0; k < v.list->n; k++)
                each[k] = gather_rows(n, r, v.list->v[k]);
            onnx_out_list(n, i, DTYPE_u8, true, each, v.list->n);
        } else if (v.kind != ONNX_ABSENT) {
            n->out[i] = gather_rows(n, r, v);
        }
    }
}

bool onnx_import_moved_text(OnnxNode *n, const OnnxOp *row)
{
    const Move *m = find_move(n->op);
    Rows r;
    bool has_text = false;
    for (uint32_t i = 0; m && i < n->n_in; i++)
        has_text = has_text || is_moved(n, m, i);
    if (!has_text)
        return false;
    if (onnx_has_attr(n, "reduction") && !str_equal(onnx_str(n, "reduction", "none"), "none"))
        onnx_fail(n, E0206, "strings cannot be reduced");
    begin_rows(n, &r, m);
    for (uint32_t i = 0; i < n->n_in && !n->failed; i++)
        if (is_moved(n, m, i))
            take_rows(n, &r, i);
    if (n->failed)
        return true;
    if (!onnx_import_dims(n))
        row->import(n);
    if (n->failed || !m->is_result_text)
        return true;
    r.table = onnx_concat_many(n, r.part, r.n_parts, 0);
    gather_results(n, &r);
    return true;
}
