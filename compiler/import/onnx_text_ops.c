// SPDX-License-Identifier: Apache-2.0
// Operators that compute with strings: joining and comparing them.
#include "compiler/import/onnx_text.h"

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
    {"Equal", import_equal},
};

bool onnx_import_text_variant(OnnxNode *n)
{
    if (!has_text(n))
        return false;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (strcmp(variants[i].name, n->op) == 0) {
            variants[i].import(n);
            return true;
        }
    }
    return false;
}
