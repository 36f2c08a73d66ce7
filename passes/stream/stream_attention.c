// SPDX-License-Identifier: Apache-2.0
// Attention with a window: the keys and values of the window are kept. Queries wait for the keys behind them.
#include "ir/shape/forms.h"
#include "passes/stream/flow.h"

enum { QUERY, KEY, VALUE, MASK, KEYS, FIRST, OPERANDS };

// Keys with a number below 0 are hidden, by key of `joined`.
static NodeId hide_early(Streamer *s, const Flow *f, int64_t history)
{
    Flow seen = *f;
    const Shape before = {.rank = 1, .dim = {history + f->frames}};
    const NodeId no = graph_scalar(s->step, DTYPE_bool, 0, (Span){0});
    const NodeId yes = graph_scalar(s->step, DTYPE_bool, 1, (Span){0});
    seen.axis = 0;
    seen.now = stream_filled(s, DTYPE_bool, &before, yes);
    seen.frames = f->frames;
    seen.late = f->late + history;
    stream_mask_rows(s, &seen, no);
    return seen.now;
}

// The axis is one of those in front: every frame is attention of its own.
static bool apart(Streamer *s, const Node *n, Flow *in, Flow *out)
{
    const uint32_t rank = n->shape->rank, axis = in[QUERY].axis;
    for (uint32_t i = QUERY; i <= VALUE; i++)
        if (in[i].kind == FLOW_FRAMES ? in[i].axis != axis : !stream_use_fixed(s, &in[i], rank, axis))
            return in[i].kind == FLOW_FRAMES &&
                   stream_refuse(s, "its operands have the axis at different places");
    for (uint32_t i = MASK; i < n->n_src; i++)
        if (in[i].kind == FLOW_FRAMES || (i == MASK && !stream_use_fixed(s, &in[i], rank, axis)))
            return in[i].kind == FLOW_FRAMES && stream_refuse(s, "its mask has the axis");
    return stream_apply(s, n, in, axis, NULL, out);
}

static bool check(Streamer *s, const Node *n, const Flow *in, const AttentionForm *a)
{
    for (uint32_t i = QUERY; i <= VALUE; i++)
        if (in[i].kind != FLOW_FRAMES || in[i].axis + 2 != graph_node(s->whole, n->src[i])->shape->rank)
            return stream_refuse(s, "queries, keys and values do not all have the axis");
    for (uint32_t i = MASK; i < n->n_src; i++)
        if (n->src[i] != 0)
            return stream_refuse(s, "it has a mask, or a number of keys");
    if (a->left < 0)
        return stream_refuse(s, "a query sees all keys before it: give it a window (attribute `left`)");
    return a->is_causal || a->right >= 0 ||
           stream_refuse(s, "a query sees all keys behind it (attributes `causal`, `right`)");
}

bool stream_attention(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const AttentionForm a = attention_form(n);
    const uint32_t axis = n->shape->rank - 2;
    NodeId src[OPERANDS] = {0};
    if (in[QUERY].kind == FLOW_FRAMES && in[QUERY].axis < axis)
        return apart(s, n, in, out);
    if (!check(s, n, in, &a) || !stream_align(s, in, n->n_src))
        return false;
    const int64_t behind = a.is_causal ? 0 : a.right;
    for (uint32_t i = QUERY; i <= VALUE; i++)
        if (in[i].late < 0 && !stream_delay(s, &in[i], 0))
            return false;
    const Flow keys = in[KEY];
    if (!stream_delay(s, &in[QUERY], keys.late + behind))
        return false;
    src[QUERY] = in[QUERY].now;
    for (uint32_t i = KEY; i <= VALUE; i++)
        if (!stream_history(s, &in[i], a.left + behind, &src[i]))
            return false;
    src[MASK] = hide_early(s, &keys, a.left + behind);
    src[FIRST] = graph_scalar(s->step, DTYPE_i64, (double)a.left, (Span){0});
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    for (uint32_t i = 0; i < OPERANDS; i++)
        node_src(&b, src[i]);
    *out = (Flow){.kind = FLOW_FRAMES,
                  .axis = axis,
                  .now = node_end(&b),
                  .frames = keys.frames,
                  .late = keys.late + behind};
    return out->now != 0;
}
