// SPDX-License-Identifier: Apache-2.0
// What a stage of a kernel with stages is, and how many rows of each a strip holds: facts that joining
// (passes/plan/strip_join.c) and lowering (lower_strip.c) share. See strip.h.
#include "passes/lower/strip.h"

#include "ir/shape/forms.h"

static bool set_pool(const Node *n, StripStage *s)
{
    if (op_info[n->op].steps != OPSTEPS_KERNEL)
        return false;
    const WindowForm form = window_form(n);
    s->kernel = node_find_attr(n, "kernel")->u.ints[0];
    s->stride = form.stride[0];
    s->dilation = form.dilation[0];
    s->pad = form.pad[0];
    return true;
}

static bool set_conv(const Graph *g, const TargetCaps *caps, const Node *n, StripStage *s)
{
    const WindowForm conv = conv_form(n);
    if (conv.shuffle != 1 || !node_is_const(g, n->src[1]))
        return false;
    const Shape *w = graph_node(g, n->src[1])->shape;
    const int64_t group = conv.group, channels = n->shape->dim[1];
    s->has_pairs = group == channels && w->dim[1] == 1 && group > 1;
    s->kernel = w->dim[2];
    s->stride = conv.stride[0];
    s->dilation = conv.dilation[0];
    s->pad = conv.pad[0];
    s->weight_bytes = 4.0 * (double)shape_numel(w);
    s->cycles = (double)shape_numel(n->shape) * (double)(w->dim[1] * w->dim[2] * w->dim[3]) /
                (caps->f32_lanes * (caps->cpu.fma_per_cycle > 0 ? caps->cpu.fma_per_cycle : 1));
    if (s->has_pairs) // what the schedule for these can do
        return group >= 4 && w->dim[2] <= 7 && w->dim[3] <= 7 && s->stride <= 4 && s->dilation <= 4 &&
               conv.stride[1] <= 4 && conv.dilation[1] <= 4;
    return group == 1 && channels > 1;
}

bool strip_stage(const Graph *g, const TargetCaps *caps, NodeId anchor, NodeId root, StripStage *s)
{
    rlx_assert(anchor != 0 && root != 0 && root >= anchor);
    const Node *n = graph_node(g, anchor);
    *s = (StripStage){.root = root, .anchor = anchor};
    if (n->dtype != DTYPE_f32 || n->shape->rank != 4 || shape_numel(n->shape) == 0 || n->shape->dim[3] < 2 ||
        op_info[n->op].layout != OPLAYOUT_IMAGE)
        return false;
    s->in_rows = graph_node(g, n->src[0])->shape->dim[2];
    s->rows = n->shape->dim[2];
    // Rows of channels that are a multiple of half a way would share a few sets of the first-level cache.
    s->pixel_pitch =
        n->shape->dim[1] + (n->shape->dim[1] * 4 % (caps->cpu.way_bytes / 2) == 0 ? CACHE_LINE / 4 : 0);
    s->pitch = n->shape->dim[3] * s->pixel_pitch;
    return set_pool(n, s) || set_conv(g, caps, n, s);
}

bool strip_has_overlap(const Strip *s, uint32_t stage)
{
    rlx_assert(stage < s->n && s->n <= STRIP_MAX_STAGES);
    const StripStage *next = &s->stage[stage + 1];
    return stage + 1 < s->n && (next->kernel - 1) * next->dilation + 1 > next->stride;
}

// Does a stage make as many rows as it reads, one from each?
static bool keeps_rows(const StripStage *t)
{
    return t->kernel == 1 && t->stride == 1 && t->pad == 0 && t->rows == t->in_rows;
}

// Do the rows of a stage decide how many a stage that makes two at a time has to make?
static bool counts_pairs(const Strip *s, uint32_t stage)
{
    while (stage > 0 && !s->stage[stage].has_pairs && keeps_rows(&s->stage[stage]))
        stage--;
    return s->stage[stage].has_pairs;
}

// Rows that the next strip needs again can as well be made earlier, so that no row is left without another.
static bool has_even_rows(const Strip *s, uint32_t i)
{
    if (s->stage[i].rows % 2 != 0 || !counts_pairs(s, i))
        return false;
    if (i + 1 == s->n)
        return s->rows % 2 == 0;
    return strip_has_overlap(s, i) || (keeps_rows(&s->stage[i + 1]) && s->has_even_rows[i + 1]);
}

void strip_count_rows(Strip *s)
{
    rlx_assert(s->n >= 1 && s->n <= STRIP_MAX_STAGES && s->rows >= 0);
    int64_t rows = s->rows;
    for (uint32_t i = s->n; i-- > 0;) {
        const StripStage *t = &s->stage[i];
        s->has_even_rows[i] = has_even_rows(s, i);
        if (s->has_even_rows[i] && strip_has_overlap(s, i))
            rows += 2; // one before and one behind
        s->max_rows[i] = rows < t->rows ? rows : t->rows;
        rows = (s->max_rows[i] - 1) * t->stride + (t->kernel - 1) * t->dilation + 1;
    }
}
