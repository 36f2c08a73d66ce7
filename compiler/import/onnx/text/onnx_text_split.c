// SPDX-License-Identifier: Apache-2.0
// StringSplit. Every byte gets the number of the part that it is in, by a running sum; where a part begins
// and how long it is are counts over the bytes, so that all parts of all strings are found at once.
#include "compiler/import/onnx/onnx_text.h"

typedef struct Split {
    NodeId text;
    const uint8_t *delimiter;
    int64_t width;          // of the delimiter; 0: white space
    int64_t max, most;      // splits as the model limits them, -1: not; parts that are possible
    int64_t axis;           // of the parts
    NodeId part, is_inside; // of every byte: its part, i64, and whether it belongs to it
    NodeId count;           // of every string: its parts, with an axis of size 1 at the end
} Split;

static NodeId int_scalar(OnnxNode *n, double v)
{
    return onnx_scalar(n, DTYPE_i64, v);
}

static NodeId is_byte(OnnxNode *n, OpId op, NodeId text, double v)
{
    return onnx_op2(n, op, text, onnx_scalar(n, DTYPE_u8, v));
}

static NodeId running_sum(OnnxNode *n, NodeId flags, bool is_exclusive)
{
    return onnx_cumsum(n, onnx_cast(n, flags, DTYPE_i64), -1, is_exclusive);
}

static NodeId total(OnnxNode *n, NodeId flags, int64_t axis)
{
    return onnx_reduce(n, OP_reduce_sum, onnx_cast(n, flags, DTYPE_i64), &axis, 1);
}

// --- white space ---

// A part begins at a byte that is none, after one that is; what follows the last allowed split is one part.
static void find_words(OnnxNode *n, Split *s)
{
    const NodeId is_control =
        onnx_op2(n, OP_logical_and, is_byte(n, OP_ge, s->text, '\t'), is_byte(n, OP_le, s->text, '\r'));
    const NodeId is_space = onnx_op2(n, OP_logical_or, is_control, is_byte(n, OP_eq, s->text, ' '));
    const NodeId is_there = is_byte(n, OP_ne, s->text, 0);
    const NodeId in_word = onnx_op2(n, OP_logical_and, is_there, onnx_op1(n, OP_logical_not, is_space));
    const NodeId after_word = onnx_text_shift(n, in_word, 1);
    const NodeId begins = onnx_op2(n, OP_logical_and, in_word, onnx_op1(n, OP_logical_not, after_word));
    const NodeId words = running_sum(n, begins, false);
    NodeId part = onnx_op2(n, OP_sub, words, int_scalar(n, 1));
    s->count = total(n, begins, s->axis);
    s->is_inside = in_word;
    if (s->max >= 0) {
        const NodeId last = int_scalar(n, (double)s->max);
        const NodeId in_rest = onnx_op2(n, OP_logical_and, is_there, onnx_op2(n, OP_ge, part, last));
        s->is_inside = onnx_op2(n, OP_logical_or, in_word, in_rest);
        part = onnx_op2(n, OP_min, part, last);
        s->count = onnx_op2(n, OP_min, s->count, int_scalar(n, (double)s->max + 1));
    }
    s->part = part;
}

// --- a delimiter ---

// Where a delimiter ends, from the left and without overlaps: an automaton whose states are how many of its
// bytes were just seen.
static NodeId delimiter_ends(OnnxNode *n, const Split *s)
{
    if (s->width == 1)
        return is_byte(n, OP_eq, s->text, s->delimiter[0]);
    const uint32_t states = (uint32_t)s->width + 1;
    int32_t *table = ARENA_ARRAY(n->model->arena, int32_t, (size_t)states * 256);
    int32_t *classes = ARENA_ARRAY(n->model->arena, int32_t, 256);
    uint32_t fallback = 0; // the state after the bytes but the first
    for (uint32_t c = 0; c < 256; c++)
        classes[c] = (int32_t)c;
    for (uint32_t i = 0; i < states; i++) {
        const uint32_t from = i == states - 1 ? 0 : i;
        for (uint32_t c = 0; c < 256; c++)
            table[i * 256 + c] = i == 0 ? 0 : from == 0 ? table[c] : table[fallback * 256 + c];
        if (from != i)
            break;
        if (i > 0)
            fallback = (uint32_t)table[fallback * 256 + s->delimiter[i]];
        table[i * 256 + s->delimiter[i]] = (int32_t)i + 1;
    }
    const Shape class_shape = {.rank = 1, .dim = {256}}, table_shape = {.rank = 2, .dim = {states, 256}};
    NodeBuild b = ONNX_BEGIN(n, OP_dfa, s->text,
                             onnx_const(n, DTYPE_i32, &class_shape, classes, 256 * sizeof *classes));
    node_src(&b, onnx_const(n, DTYPE_i32, &table_shape, table, (uint64_t)states * 256 * sizeof *table));
    node_int(&b, A_dfa_all, 1);
    return onnx_op2(n, OP_eq, onnx_end(n, &b), onnx_scalar(n, DTYPE_i32, (double)s->width));
}

static void find_pieces(OnnxNode *n, Split *s)
{
    NodeId ends = delimiter_ends(n, s);
    if (s->max >= 0) {
        const NodeId limit = int_scalar(n, (double)s->max);
        ends = onnx_op2(n, OP_logical_and, ends, onnx_op2(n, OP_le, running_sum(n, ends, false), limit));
    }
    s->part = running_sum(n, ends, true);
    s->is_inside = is_byte(n, OP_ne, s->text, 0);
    s->count = onnx_op2(n, OP_add, total(n, ends, s->axis), int_scalar(n, 1));
}

// --- the parts ---

NodeId onnx_text_parts(OnnxNode *n, const OnnxTextParts *p, NodeId index, NodeId less)
{
    const int64_t axis = p->axis, bytes = axis + 1;
    const NodeId part = onnx_unsqueeze(n, p->part, &axis, 1);
    const NodeId inside = onnx_unsqueeze(n, p->is_inside, &axis, 1);
    const NodeId begin = total(n, onnx_op2(n, OP_lt, part, index), bytes);
    NodeId length = total(n, onnx_op2(n, OP_logical_and, inside, onnx_op2(n, OP_eq, part, index)), bytes);
    if (less)
        length = onnx_op2(n, OP_sub, length, less);
    const NodeId k = onnx_iota(n, onnx_text_capacity(n, p->text));
    const NodeId at = onnx_op3(n, OP_where, onnx_op2(n, OP_lt, k, length), onnx_op2(n, OP_add, begin, k),
                               int_scalar(n, -1));
    return onnx_text_take(n, onnx_unsqueeze(n, p->text, &axis, 1), at);
}

// Bytes k of part p of every string, [..., most, room].
static NodeId cut(OnnxNode *n, const Split *s)
{
    const NodeId index = onnx_unsqueeze(n, onnx_iota(n, s->most), (const int64_t[]){1}, 1);
    const OnnxTextParts parts = {s->text, s->part, s->is_inside, s->axis};
    if (!s->width)
        return onnx_text_parts(n, &parts, index, 0);
    // All but the last part end in the delimiter.
    const NodeId last = onnx_op2(n, OP_sub, onnx_unsqueeze(n, s->count, &s->axis, 1), int_scalar(n, 1));
    const NodeId less = onnx_op3(n, OP_where, onnx_op2(n, OP_lt, index, last),
                                 int_scalar(n, (double)s->width), int_scalar(n, 0));
    return onnx_text_parts(n, &parts, index, less);
}

static bool begin_split(OnnxNode *n, Split *s)
{
    const Onnx__AttributeProto *delimiter = onnx_has_attr(n, "delimiter") ? onnx_attr(n, "delimiter") : NULL;
    onnx_str(n, "delimiter", ""); // for its type
    s->text = onnx_text_src(n, 0);
    s->max = onnx_int(n, "maxsplit", -1);
    if (n->failed)
        return false;
    const int64_t room = onnx_text_capacity(n, s->text);
    s->delimiter = delimiter ? delimiter->s.data : NULL;
    s->width = delimiter ? (int64_t)delimiter->s.len : 0;
    s->axis = (int64_t)onnx_shape(n, s->text)->rank - 1;
    if (s->axis + 2 > SHAPE_MAX_RANK)
        return onnx_fail(n, E0206, "strings of rank %lld are not supported", (long long)s->axis);
    if (s->width > ONNX_MAX_FOLD)
        return onnx_fail(n, E0004, "the delimiter has %lld bytes, which are too many", (long long)s->width);
    s->most = s->width ? room / s->width + 1 : (room + 1) / 2;
    if (s->max >= 0 && s->max < s->most)
        s->most = s->max + 1 < s->most ? s->max + 1 : s->most;
    return true;
}

void onnx_import_string_split(OnnxNode *n)
{
    Split s = {0};
    if (!begin_split(n, &s))
        return;
    if (s.width)
        find_pieces(n, &s);
    else
        find_words(n, &s);
    // As many parts as the string with the most of them has; the others are filled up with empty strings.
    const Shape strings = onnx_text_shape(n, s.text);
    const NodeId counts = onnx_reshape(n, s.count, &strings);
    const NodeId all = onnx_reduce(n, OP_reduce_max, counts, NULL, 0);
    const NodeId most = onnx_op1(n, OP_relu, onnx_reshape(n, all, &(Shape){0})); // of no strings: 0
    onnx_out_text(n, 0, onnx_text_first(n, cut(n, &s), (uint32_t)s.axis, most));
    if (onnx_wants(n, 1))
        onnx_out(n, 1, counts);
}
