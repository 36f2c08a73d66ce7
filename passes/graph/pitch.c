// SPDX-License-Identifier: Apache-2.0
// Pitch: operands of products of 16-bit floats whose rows are no whole steps of the copy engine (of 1569 or
// 25 elements) are copied into rows that are, where the estimate says that the product gains more than the
// copy costs. The operand becomes the part of a padded value that it was: a view, of which nothing beyond
// the row is read. Constants [k, n] become [n, k] instead, if k is whole steps (pass_refold computes them).
// Products of 8-bit floats get their scales behind them (simplify_eighths.h).
#include "ir/machine/machine.h"
#include "ir/shape/forms.h"
#include "passes/graph/simplify_eighths.h"
#include "passes/graph/simplify_scale.h"
#include "passes/pass.h"

enum {
    CHUNK = 8,        // elements of a step of the copy engine
    MIN_SIZE = 16,    // of the columns and of k, for its products
    SLOW = 64,        // about so much slower are products of elements that are brought one by one (H200: 70)
    OF_PEAK = 4,      // what small products on the copy engine lose of the rate of units
    GAIN = 2          // so many times as fast at least, by the estimate
};
static const double launch_us = 2;

typedef struct Pitch {
    const TargetCaps *caps;
    double accuracy;
} Pitch;

// Rows of views may lie anywhere; those that join or part axes need dense ones.
static bool is_view(const Node *n)
{
    return (op_info[n->op].flags & OPFLAG_VIEW) != 0 && !op_is_view_of_rows((OpId)n->op);
}

static bool is_ragged(const Graph *g, NodeId id)
{
    double factor = 0;
    const NodeId of = scaled_value(g, id, &factor);
    id = of != 0 ? of : id;
    const Node *n = graph_node(g, id);
    return n->shape->dim[n->shape->rank - 1] % CHUNK != 0 && !is_view(n) && !node_is_const(g, id);
}

// Is there a product for the copy engine, but for its rows?
static bool has_form(const Graph *g, const Node *n)
{
    if (!matmul_form(n).is_there || !k_is_half(n->dtype) || (n->n_src > 2 && n->src[2] != 0))
        return false;
    const Node *a = graph_node(g, n->src[0]), *b = graph_node(g, n->src[1]);
    return a->dtype == n->dtype && b->dtype == n->dtype && shape_is_const(a->shape) &&
           shape_is_const(b->shape) && a->shape->rank >= 2 && b->shape->rank >= 2 &&
           shape_numel(n->shape) > 0;
}

static double copy_us(const GpuMachine *m, const Node *operand)
{
    const double bytes = 2.0 * (double)shape_numel(operand->shape) * dtype_info[operand->dtype].bytes;
    return launch_us + bytes / 1000 / m->memory_rate;
}

static bool gains(const Graph *g, const Node *n, const GpuMachine *m, const bool *is_padded)
{
    const Shape *a = graph_node(g, n->src[0])->shape;
    const int64_t k = a->dim[a->rank - (matmul_form(n).turns_a ? 2 : 1)];
    const int64_t rows = n->shape->dim[n->shape->rank - 2], columns = n->shape->dim[n->shape->rank - 1];
    const double peak = m->products_rate * m->processors;
    const double macs = (double)shape_numel(n->shape) * (double)k;
    double fast = macs * OF_PEAK / peak;
    for (uint32_t i = 0; i < 2; i++)
        fast += is_padded[i] ? copy_us(m, graph_node(g, n->src[i])) : 0;
    return rows >= 2 && columns >= MIN_SIZE && k >= MIN_SIZE && macs * SLOW / peak > GAIN * fast;
}

// The value as a part of one with whole chunks in its rows; of a scaled one, what is scaled.
static NodeId with_pitch(Graph *g, NodeId id, Span span)
{
    double factor = 0;
    const NodeId of = scaled_value(g, id, &factor);
    if (of != 0) {
        const Node n = *graph_node(g, id);
        const NodeId part = with_pitch(g, of, span);
        NodeId src[2] = {n.src[0] == of ? part : n.src[0], n.src[1] == of ? part : n.src[1]};
        return graph_clone_node(g, g, id, src);
    }
    const Shape *s = graph_node(g, id)->shape;
    const int64_t axis = s->rank - 1, n = s->dim[axis];
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    pads[s->rank + axis] = (n + CHUNK - 1) / CHUNK * CHUNK - n;
    NodeBuild b = node_begin(g, OP_pad, span, g->labels.data[id]);
    node_src(&b, id);
    node_ints(&b, A_pad_pads, pads, 2 * s->rank);
    const NodeId padded = node_end(&b);
    NodeBuild part = node_begin(g, OP_slice, span, g->labels.data[id]);
    node_slice(&part, padded, axis, 0, n, 1);
    return node_end(&part);
}

// b is a constant of which columns have whole chunks, but rows have none.
static bool has_ragged_weights(const Graph *g, const Node *n)
{
    const Shape *b = graph_node(g, n->src[1])->shape;
    return node_is_const(g, n->src[1]) && !matmul_form(n).turns_b && b->rank == 2 &&
           b->dim[0] % CHUNK == 0 && b->dim[1] % CHUNK != 0 && b->dim[0] >= MIN_SIZE && b->dim[1] > 1;
}

static NodeId with_turned_weights(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const NodeId turned = graph_transpose(g, n.src[1], (const int64_t[]){1, 0});
    NodeBuild b = node_copy_begin(g, g, id);
    node_src(&b, n.src[0]);
    node_src(&b, turned);
    node_int(&b, A_matmul_transpose_b, true);
    return node_end(&b);
}

static NodeId step_pitch(Graph *g, NodeId id, void *ctx)
{
    const Pitch *p = ctx;
    const Node n = *graph_node(g, id);
    if (!has_form(g, &n))
        return eighths_scale_last(g, id, p->accuracy);
    if (has_ragged_weights(g, &n))
        return with_turned_weights(g, id);
    const bool is_padded[2] = {is_ragged(g, n.src[0]), is_ragged(g, n.src[1])};
    if ((!is_padded[0] && !is_padded[1]) || !gains(g, &n, p->caps->gpu, is_padded))
        return id;
    NodeId src[2];
    for (uint32_t i = 0; i < 2; i++)
        src[i] = is_padded[i] ? with_pitch(g, n.src[i], node_span(g, id)) : n.src[i];
    return graph_clone_node(g, g, id, src);
}

bool pass_pitch(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    const uint32_t errors = p->diag->n_errors;
    Pitch pitch = {.caps = p->options->caps, .accuracy = p->options->accuracy};
    if (!pitch.caps->has_mma || pitch.caps->gpu == NULL)
        return false;
    const bool changed = graph_rewrite(p->graph, step_pitch, &pitch);
    p->failed = p->diag->n_errors != errors;
    return changed;
}
