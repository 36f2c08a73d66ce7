// SPDX-License-Identifier: Apache-2.0
// Operators that compute with strings: joining and comparing them.
#include "compiler/import/onnx/onnx_text.h"

#include <string.h>

// --- equal ---

static NodeId align_capacity(OnnxNode *n, NodeId a, NodeId b)
{
    return onnx_text_widen(n, a, onnx_text_capacity(n, b));
}

// Strings are equal when all their bytes are.
static void import_equal(OnnxNode *n)
{
    NodeId a = onnx_text_src(n, 0), b = onnx_text_src(n, 1);
    a = align_capacity(n, a, b);
    b = align_capacity(n, b, a);
    const NodeId same = onnx_cast(n, onnx_op2(n, OP_eq, a, b), DTYPE_u8);
    const int64_t last = (int64_t)onnx_shape(n, same)->rank - 1;
    const NodeId all = onnx_squeeze(n, onnx_reduce(n, OP_reduce_min, same, &last, 1), &last, 1);
    onnx_out(n, 0, onnx_cast(n, all, DTYPE_bool));
}

// --- concat ---

// Result byte i is byte i of a, or byte i - length(a) of b: b is moved by a gather in a flat list of its
// bytes.
void onnx_import_string_concat(OnnxNode *n)
{
    NodeId a = onnx_text_src(n, 0), b = onnx_text_src(n, 1);
    const int64_t room_a = onnx_text_capacity(n, a), room_b = onnx_text_capacity(n, b);
    const int64_t room = room_a + room_b;
    if (!n->failed && room > ONNX_MAX_TEXT)
        onnx_fail(n, E0004, "strings of %lld bytes", (long long)room);
    const NodeId length = onnx_text_lengths(n, a);
    const NodeId at = onnx_op2(n, OP_sub, onnx_iota(n, room), length);
    const NodeId moved = onnx_text_take(n, b, at);
    const NodeId first = onnx_text_widen(n, a, room);
    // Where one has a byte the other has zero.
    onnx_out_text(n, 0, onnx_op2(n, OP_bit_or, first, moved));
}

// --- cast ---

static bool casts_to_text(const OnnxNode *n)
{
    const bool is_like = str_equal(n->op, "CastLike");
    if (is_like)
        return n->n_in > 1 && n->in[1].is_text;
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        if (str_equal(onnx_text(n->proto->attribute[i]->name), "to"))
            return n->proto->attribute[i]->i == ONNX_STRING;
    return false;
}

static void import_cast(OnnxNode *n)
{
    const bool is_like = str_equal(n->op, "CastLike");
    onnx_ignore_attr(n, "saturate");
    onnx_ignore_attr(n, "round_mode");
    if (!casts_to_text(n)) {
        const DType to = is_like ? onnx_dtype(n, onnx_src(n, 1)) : onnx_type_attr(n, "to", DTYPE_f32);
        onnx_out(n, 0, onnx_text_number(n, onnx_text_src(n, 0), to));
        return;
    }
    onnx_ignore_attr(n, "to");
    onnx_skip(n, 1);
    if (n->in[0].is_text)
        onnx_out_any(n, 0, onnx_any(n, 0));
    else
        onnx_out_text(n, 0, onnx_text_of_numbers(n, onnx_src(n, 0)));
}

// --- unique ---

// For every string how many are less, by their bytes. Of two strings the first byte that differs decides: it
// has the largest weight, and the lowest bit says which way.
static NodeId ranks(OnnxNode *n, NodeId rows)
{
    static const int64_t before[] = {0}, between[] = {1}, last[] = {2};
    const int64_t room = onnx_text_capacity(n, rows);
    const NodeId byte = onnx_cast(n, rows, DTYPE_i32);
    const NodeId a = onnx_unsqueeze(n, byte, between, 1), b = onnx_unsqueeze(n, byte, before, 1);
    const NodeId weight =
        onnx_op2(n, OP_mul, onnx_op2(n, OP_sub, onnx_scalar(n, DTYPE_i64, (double)room), onnx_iota(n, room)),
                 onnx_scalar(n, DTYPE_i64, 2));
    const NodeId is_more = onnx_cast(n, onnx_op2(n, OP_gt, a, b), DTYPE_i64);
    const NodeId key = onnx_op3(n, OP_where, onnx_op2(n, OP_ne, a, b), onnx_op2(n, OP_add, weight, is_more),
                                onnx_scalar(n, DTYPE_i64, 0));
    const NodeId most = onnx_squeeze(n, onnx_reduce(n, OP_reduce_max, key, last, 1), last, 1);
    const NodeId is_odd = onnx_op2(n, OP_bit_and, most, onnx_scalar(n, DTYPE_i64, 1));
    const NodeId less = onnx_op2(n, OP_logical_and, onnx_op2(n, OP_gt, most, onnx_scalar(n, DTYPE_i64, 0)),
                                 onnx_op2(n, OP_eq, is_odd, onnx_scalar(n, DTYPE_i64, 0)));
    return onnx_squeeze(n, onnx_reduce(n, OP_reduce_sum, onnx_cast(n, less, DTYPE_i64), before, 1), before,
                        1);
}

// The different ranks, and for each a string that has it.
static void import_unique(OnnxNode *n)
{
    const NodeId text = onnx_text_src(n, 0);
    const Shape s = onnx_text_shape(n, text);
    if (!n->failed && onnx_has_attr(n, "axis") && s.rank != 1)
        onnx_fail(n, E0206, "strings along an axis are not supported");
    const Dim flat[] = {-1, onnx_text_capacity(n, text)};
    const NodeId rows = onnx_reshape_to(n, text, flat, 2), rank = ranks(n, rows);
    if (n->failed)
        return;
    n->in[0] = onnx_value(rank);
    onnx_import_unique(n);
    if (n->failed)
        return;
    static const int64_t last[] = {1};
    const NodeId same = onnx_op2(n, OP_eq, onnx_unsqueeze(n, n->out[0].node, last, 1), rank);
    NodeBuild b = ONNX_BEGIN(n, OP_argmax, onnx_cast(n, same, DTYPE_i32));
    node_int(&b, A_argmax_axis, 1);
    onnx_out_text(n, 0, onnx_gather(n, rows, onnx_end(n, &b), 0));
}

// --- operators that also take numbers ---

static bool has_text(const OnnxNode *n)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i].is_text)
            return true;
    return false;
}

static const struct {
    const char *name;
    void (*import)(OnnxNode *n);
} variants[] = {
    {"Cast", import_cast},
    {"CastLike", import_cast},
    {"Equal", import_equal},
    {"Unique", import_unique},
};

bool onnx_import_text_variant(OnnxNode *n)
{
    const bool is_cast = str_equal(n->op, "Cast") || str_equal(n->op, "CastLike");
    if (!has_text(n) && !(is_cast && n->n_in > 0 && casts_to_text(n)))
        return false;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (strcmp(variants[i].name, n->op) == 0) {
            variants[i].import(n);
            return true;
        }
    }
    return false;
}
