// SPDX-License-Identifier: Apache-2.0
// StringNormalizer: changes the case of letters and drops stop words. The letters are those of onnx_case.h,
// in whatever locale.
#include "compiler/import/onnx/text/onnx_case.h"
#include "compiler/import/onnx/onnx_text.h"

static ProtobufCBinaryData lower_text(Arena *a, ProtobufCBinaryData s)
{
    uint8_t *out = ARENA_ARRAY(a, uint8_t, s.len + 1);
    for (size_t i = 0; i < s.len; i++) {
        const uint8_t c = s.data[i];
        const bool is_pair = c >= 0xc2 && c <= 0xdf && i + 1 < s.len;
        out[i] = c < 0x80 ? (uint8_t)case_lower(c) : c;
        if (!is_pair)
            continue;
        const uint32_t lower = case_lower((c & 0x1fu) << 6 | (s.data[i + 1] & 0x3fu));
        out[i++] = (uint8_t)(0xc0 | lower >> 6);
        out[i] = (uint8_t)(0x80 | (lower & 0x3f));
    }
    return (ProtobufCBinaryData){.len = s.len, .data = out};
}

// --- stop words ---

// True for the strings that are no stop words.
static NodeId kept(OnnxNode *n, NodeId text, const ProtobufCBinaryData *words, size_t count,
                   bool is_sensitive)
{
    ProtobufCBinaryData *lower = ARENA_ARRAY(n->model->arena, ProtobufCBinaryData, count);
    for (size_t i = 0; i < count && !is_sensitive; i++)
        lower[i] = lower_text(n->model->arena, words[i]);
    const NodeId found = is_sensitive
                             ? onnx_text_find(n, text, words, count)
                             : onnx_text_find(n, onnx_text_change_case(n, text, false), lower, count);
    return onnx_op2(n, OP_lt, found, onnx_scalar(n, DTYPE_i32, 0));
}

// The strings of a list [size, room] that are kept, in order. The k-th of them has k kept ones before it: so
// many strings have a running count of at most k. Without any the result is one empty string, which stands
// behind all.
static NodeId drop(OnnxNode *n, NodeId text, NodeId keeps, NodeId *count)
{
    static const int64_t last[] = {1}, pads[] = {0, 0, 1, 0};
    const int64_t size = onnx_const_dim(n, text, 0);
    const NodeId running = onnx_cumsum(n, onnx_cast(n, keeps, DTYPE_i64), 0, false);
    const NodeId k = onnx_unsqueeze(n, onnx_iota(n, size > 0 ? size : 1), last, 1);
    const NodeId is_before = onnx_cast(n, onnx_op2(n, OP_le, running, k), DTYPE_i64);
    const NodeId at = onnx_squeeze(n, onnx_reduce(n, OP_reduce_sum, is_before, last, 1), last, 1);
    NodeBuild more = ONNX_BEGIN(n, OP_pad, text);
    node_ints(&more, A_pad_pads, pads, 4);
    const NodeId all = onnx_reduce(n, OP_reduce_sum, onnx_cast(n, keeps, DTYPE_i64), NULL, 0);
    *count = onnx_op2(n, OP_max, onnx_reshape(n, all, &(Shape){0}), onnx_scalar(n, DTYPE_i64, 1));
    return onnx_gather(n, onnx_end(n, &more), at, 0);
}

static NodeId new_case(OnnxNode *n, NodeId text)
{
    const uint32_t action = ONNX_WORD(n, "case_change_action", "NONE", "LOWER", "UPPER");
    return action == 0 ? text : onnx_text_change_case(n, text, action == 2);
}

void onnx_import_string_normalizer(OnnxNode *n)
{
    size_t n_words = 0;
    NodeId text = onnx_text_src(n, 0);
    const bool is_sensitive = onnx_flag(n, "is_case_sensitive", 0);
    const ProtobufCBinaryData *words =
        onnx_has_attr(n, "stopwords") ? onnx_strings(n, "stopwords", &n_words) : NULL;
    const Shape s = onnx_text_shape(n, text);
    onnx_ignore_attr(n, "locale");
    if (!n->failed && s.rank != 1 && (s.rank != 2 || s.dim[0] != 1))
        onnx_fail(n, E0204, "needs strings [C] or [1, C]");
    const int64_t room = onnx_text_capacity(n, text);
    if (n_words == 0 || n->failed) {
        onnx_out_text(n, 0, new_case(n, text));
        return;
    }
    NodeId count = 0;
    text = onnx_reshape_to(n, text, (const Dim[]){s.dim[s.rank - 1], room}, 2);
    const NodeId rest = drop(n, new_case(n, text), kept(n, text, words, n_words, is_sensitive), &count);
    const NodeId out = onnx_text_first(n, rest, 0, count);
    onnx_out_text(n, 0, s.rank == 1 ? out : onnx_unsqueeze(n, out, (const int64_t[]){0}, 1));
}
