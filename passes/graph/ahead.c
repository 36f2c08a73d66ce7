// SPDX-License-Identifier: Apache-2.0
// Sums ahead: on GPUs with matrix units, what a recurrent layer makes of its inputs becomes one product of
// all steps, where the estimate says that this is faster than in the kernel of the steps, whose groups each
// read all inputs for their own units. Factors of f32 are made two numbers of f16 each, of which three
// products are summed: rows are scaled to the same largest magnitude before, so that the numbers hold 22 bits
// of every element that is not below 2^-18 of it. What is infinite in a row makes its sums NaN, which the
// layer then makes by itself.
#include "ir/machine/machine.h"
#include "ir/shape/forms.h"
#include "passes/pass.h"

enum {
    PARTS = 3,           // products that a product of f32 is
    STEP = 16,           // elements of k that products on the copy engine take whole
    LEAST_SIZE = 16,     // rows and columns of the product
    MOST_BYTES = 1 << 28 // of sums
};
static const double launch_us = 2;
static const double slower = 3;         // that products in the kernel of steps are than units allow
static const double split_error = 2e-6; // what --accuracy must allow: less than 2^-20 of a product is lost
static const double round_error = 1e-3; // the same where the first of both numbers is all
static const double largest = 0x1p14;   // magnitude of a scaled row: f16 holds it
static const double least = 0x1p-100;   // below it, a row counts as this large

typedef struct Ahead {
    const TargetCaps *caps;
    double accuracy;
} Ahead;

// Rows of x are steps of entries, those of w are gates of units of all directions.
typedef struct Sums {
    NodeId x, w;
    int64_t rows, columns, k;
    int64_t parts; // products of units for each product
    Span span;
    const char *label;
} Sums;

static NodeId of_rows(Graph *g, NodeId id, int64_t rows, int64_t k)
{
    return graph_reshape(g, id, &(Shape){.rank = 2, .dim = {rows, k}});
}

// Zeros behind the rows, up to whole steps.
static NodeId padded(Graph *g, const Sums *s, NodeId id)
{
    const int64_t pads[4] = {0, 0, 0, (s->k + STEP - 1) / STEP * STEP - s->k};
    if (pads[3] == 0)
        return id;
    NodeBuild b = node_begin(g, OP_pad, s->span, s->label);
    node_src(&b, id);
    node_ints(&b, A_pad_pads, pads, 4);
    return node_end(&b);
}

// What the rows of a factor of f32 are multiples of: their largest magnitude becomes `largest`.
static NodeId scale_of(Graph *g, const Sums *s, NodeId id)
{
    const int64_t axis = 1;
    NodeBuild b = node_begin(g, OP_reduce_max, s->span, s->label);
    node_reduce(&b, graph_op1(g, OP_abs, id), &axis, 1, true);
    const NodeId most = graph_op2(g, OP_max, node_end(&b), graph_scalar(g, DTYPE_f32, least, s->span));
    return graph_op2(g, OP_mul, most, graph_scalar(g, DTYPE_f32, 1 / largest, s->span));
}

static NodeId of_parts(Graph *g, NodeId id, int64_t rows, int64_t parts, int64_t size)
{
    return graph_reshape(g, id, &(Shape){.rank = 3, .dim = {rows, parts, size}});
}

// Rows for each of the parts, so that all that is made of them is one kernel.
static NodeId repeated(Graph *g, const Sums *s, NodeId id, int64_t rows, int64_t size)
{
    NodeBuild b = node_begin(g, OP_expand, s->span, s->label);
    node_src(&b, id);
    node_ints(&b, A_expand_shape, (const int64_t[]){rows, PARTS, size}, 3);
    return node_end(&b);
}

// The numbers of f16 of a scaled factor, one behind the other in a row: where rests[i] is 1 what the first
// number lacks, else that number.
static NodeId halves_of(Graph *g, const Sums *s, NodeId id, NodeId scale, const float *rests)
{
    const NodeId whole = padded(g, s, id);
    const int64_t size = graph_node(g, whole)->shape->dim[1], rows = graph_node(g, whole)->shape->dim[0];
    if (s->parts == 1)
        return graph_cast(g, graph_op2(g, OP_div, whole, scale), DTYPE_f16);
    const NodeId part = graph_op2(g, OP_div, repeated(g, s, of_parts(g, whole, rows, 1, size), rows, size),
                                  of_parts(g, scale, rows, 1, 1));
    const NodeId first = graph_cast(g, graph_cast(g, part, DTYPE_f16), DTYPE_f32);
    const NodeId is_rest = graph_const(g, DTYPE_f32, &(Shape){.rank = 3, .dim = {1, PARTS, 1}}, rests,
                                        PARTS * sizeof *rests, s->span);
    const NodeId value = graph_op2(g, OP_sub, part, graph_op2(g, OP_mul, first, is_rest));
    return of_rows(g, graph_cast(g, value, DTYPE_f16), rows, PARTS * size);
}

static NodeId product(Graph *g, const Sums *s, NodeId x, NodeId w)
{
    NodeBuild b = node_begin(g, OP_matmul, s->span, s->label);
    node_matmul(&b, graph_cast(g, x, DTYPE_f32), graph_cast(g, w, DTYPE_f32), false, true);
    return node_end(&b);
}

// Small products first.
static NodeId product_of_halves(Graph *g, const Sums *s)
{
    static const float rests_of_x[PARTS] = {1, 0, 0}, rests_of_w[PARTS] = {0, 1, 0};
    const NodeId of_x = scale_of(g, s, s->x), of_w = scale_of(g, s, s->w);
    const NodeId sums =
        product(g, s, halves_of(g, s, s->x, of_x, rests_of_x), halves_of(g, s, s->w, of_w, rests_of_w));
    const NodeId columns = graph_reshape(g, of_w, &(Shape){.rank = 2, .dim = {1, s->columns}});
    return graph_op2(g, OP_mul, sums, graph_op2(g, OP_mul, of_x, columns));
}

// What is added to all steps alike: both biases, but of a gru that resets after its product not that of the
// last gate's hidden values.
static NodeId bias_of(Graph *g, const Sums *s, NodeId bias, const RecurrentForm *form)
{
    const int64_t gates = graph_node(g, bias)->shape->dim[1] / 2, units = gates / form->gates;
    const int64_t both = form->resets_after ? gates - units : gates;
    const NodeId of_x = graph_slice(g, bias, 1, 0, both, 1);
    const NodeId of_h = graph_slice(g, bias, 1, gates, gates + both, 1);
    NodeId all = graph_op2(g, OP_add, graph_cast(g, of_x, DTYPE_f32), graph_cast(g, of_h, DTYPE_f32));
    if (both < gates) {
        const NodeId rest = graph_cast(g, graph_slice(g, bias, 1, both, gates, 1), DTYPE_f32);
        NodeBuild b = node_begin(g, OP_concat, s->span, s->label);
        node_concat(&b, (const NodeId[]){all, rest}, 2, 1);
        all = node_end(&b);
    }
    return graph_reshape(g, all, &(Shape){.rank = 2, .dim = {1, s->columns}});
}

// Is one product for all faster, with what it takes beside?
static bool pays(const Ahead *a, const Sums *s, bool is_half)
{
    const GpuMachine *m = a->caps->gpu;
    const double macs = (double)s->rows * (double)s->columns * (double)s->k, parts = (double)s->parts;
    const double factors = (double)(s->rows + s->columns) * (double)s->k;
    const double bytes = 8.0 * (double)s->rows * (double)s->columns + factors * (is_half ? 0 : 4 + 4 * parts);
    const double rate = is_half ? m->products_rate / 2 : m->tf32_rate / parts;
    const double inside = slower * macs / (m->processors * rate);
    const double apart = parts * macs / (m->processors * m->products_rate) + bytes / 1000 / m->memory_rate +
                         launch_us * (is_half ? 1 : 5);
    return inside > apart;
}

static bool has_form(const Graph *g, const Node *n, const RecurrentForm *form)
{
    if (form->gates == 0 || (n->dtype != DTYPE_f32 && !k_is_half(n->dtype)) ||
        (n->n_src > form->sums && n->src[form->sums] != 0))
        return false;
    for (uint32_t i = 0; i < 3; i++)
        if (!shape_is_const(graph_node(g, n->src[i])->shape))
            return false;
    return true;
}

static Sums sums_of(const Ahead *a, Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    const Shape *x = graph_node(g, n->src[0])->shape, *w = graph_node(g, n->src[1])->shape;
    Sums s = {.rows = x->dim[0] * x->dim[1], .columns = w->dim[0] * w->dim[1], .k = x->dim[2]};
    s.parts = k_is_half(n->dtype) || a->accuracy >= round_error ? 1 : PARTS;
    s.span = node_span(g, id);
    s.label = g->labels.data[id];
    return s;
}

static NodeId step_ahead(Graph *g, NodeId id, void *ctx)
{
    const Ahead *a = ctx;
    const Node n = *graph_node(g, id);
    const RecurrentForm form = recurrent_form(&n);
    if (!has_form(g, &n, &form))
        return id;
    Sums s = sums_of(a, g, id);
    const bool is_half = k_is_half(n.dtype);
    if (s.rows < LEAST_SIZE || s.columns < LEAST_SIZE || s.k < STEP ||
        (!is_half && a->accuracy < split_error) ||
        s.rows > MOST_BYTES / (int64_t)sizeof(float) / s.columns || !pays(a, &s, is_half))
        return id;
    s.x = of_rows(g, n.src[0], s.rows, s.k);
    s.w = of_rows(g, n.src[1], s.columns, s.k);
    NodeId sums = is_half ? product(g, &s, padded(g, &s, s.x), padded(g, &s, s.w)) : product_of_halves(g, &s);
    if (n.n_src > 3 && n.src[3] != 0)
        sums = graph_op2(g, OP_add, sums, bias_of(g, &s, n.src[3], &form));
    const Shape *x = graph_node(g, n.src[0])->shape;
    NodeId src[RECURRENT_MOST] = {0};
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = n.src[i];
    src[form.sums] = graph_reshape(g, sums, &(Shape){.rank = 3, .dim = {x->dim[0], x->dim[1], s.columns}});
    return graph_clone_with(g, id, src, form.sums + 1);
}

bool pass_ahead(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    const uint32_t errors = p->diag->n_errors;
    Ahead a = {.caps = p->options->caps, .accuracy = p->options->accuracy};
    if (!a.caps->has_mma || a.caps->gpu == NULL)
        return false;
    const bool changed = graph_rewrite(p->graph, step_ahead, &a);
    p->failed = p->diag->n_errors != errors;
    return changed;
}
