// SPDX-License-Identifier: Apache-2.0
// Convolutions, where channels begin and end: what their sums can be, which channels they read, and the
// convolution of the channels that are kept.
#include "ir/eval/eval.h"
#include "ir/kernel/kernel.h"
#include "ir/shape/forms.h"
#include "passes/graph/prune.h"

#include <math.h>

// Of larger weights nothing is known: looking at them would take longer than a compile may.
enum { MAX_STEPS = 4, MAX_OPERANDS = 8, MAX_WEIGHTS = 1 << 26 };

// --- what is known -------------------------------------------------------------------------------

// A constant, or what views and elementwise ops make of constants. Recursion: at most `steps` deep.
static bool find_tensor(const Prune *p, NodeId id, uint32_t steps, Tensor *out)
{
    const Node *n = graph_node(p->g, id);
    Tensor in[MAX_OPERANDS] = {0};
    if (node_is_const(p->g, id)) {
        *out = tensor_of_const(p->g, id);
        return true;
    }
    if (steps == 0 || n->n_src == 0 || n->n_src > MAX_OPERANDS || n->n_results != 1 ||
        !shape_is_const(n->shape) ||
        ((op_info[n->op].flags & OPFLAG_VIEW) == 0 && !op_is_pointwise((OpId)n->op)))
        return false;
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0 && !find_tensor(p, n->src[i], steps - 1, &in[i]))
            return false;
    *out = tensor_new(p->arena, (DType)n->dtype, n->shape->rank, n->shape->dim);
    EvalCtx e = {.arena = p->arena, .g = p->g, .node = n, .id = id, .in = in, .out = out};
    return eval_node(&e);
}

static bool find_operands(const Prune *p, const Node *n, PruneConv *c)
{
    Tensor *to[] = {&c->weight, &c->bias, &c->x_zero, &c->weight_zero};
    for (uint32_t i = 1; i < n->n_src; i++)
        if (n->src[i] != 0 && !find_tensor(p, n->src[i], MAX_STEPS, to[i - 1]))
            return false;
    return c->weight.numel > 0;
}

static int64_t zero_weight(const PruneConv *c, int64_t o)
{
    return c->weight_zero.data == NULL ? 0
                                       : tensor_get_i64(&c->weight_zero, c->weight_zero.numel == 1 ? 0 : o);
}

static const int32_t *find_zeros(const Prune *p, const PruneConv *c)
{
    int32_t *zeros = ARENA_ARRAY(p->arena, int32_t, c->outputs);
    for (int64_t o = 0; o < c->outputs; o++)
        zeros[o] = (int32_t)zero_weight(c, o);
    return zeros;
}

static bool reads_bytes(const Graph *g, const Node *n)
{
    return n->dtype == DTYPE_i32 && k_is_byte(graph_node(g, n->src[1])->dtype);
}

PruneConv *prune_conv_of(Prune *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    const bool is_filter = op_info[n->op].steps == OPSTEPS_FILTER, is_int = is_filter && reads_bytes(p->g, n);
    if (!is_int && (conv_form(n).group == 0 || n->dtype != DTYPE_f32))
        return NULL;
    const WindowForm form = window_form(n);
    if (!shape_is_const(graph_node(p->g, n->src[1])->shape) ||
        shape_numel(graph_node(p->g, n->src[1])->shape) > MAX_WEIGHTS)
        return NULL;
    PruneConv *c = ARENA_NEW(p->arena, PruneConv);
    if (form.shuffle != 1 || !find_operands(p, n, c) || (!is_int && c->weight.dtype != DTYPE_f32))
        return NULL;
    c->group = form.group;
    c->outputs = c->weight.dim[0];
    c->inputs = c->weight.dim[1];
    c->taps = c->weight.numel / c->outputs / c->inputs;
    for (uint32_t i = 0; i < 2 * (n->shape->rank - 2); i++)
        c->is_padded = c->is_padded || form.pad[i] != 0;
    c->zeros = is_int ? find_zeros(p, c) : NULL;
    return c;
}

// --- inputs --------------------------------------------------------------------------------------

// Has x its channels where the convolution has them?
static bool has_channels(const Prune *p, NodeId id)
{
    return p->of[graph_node(p->g, id)->src[0]].axis == 1;
}

// The channel of x that output o takes as its input i.
static int64_t input_channel(const PruneConv *c, int64_t o, int64_t i)
{
    return o / (c->outputs / c->group) * c->inputs + i;
}

static int64_t zero_of(const PruneConv *c)
{
    return c->x_zero.data != NULL ? tensor_get_i64(&c->x_zero, 0) : 0;
}

// Of channels of x, less the zero point.
static Range *input_ranges(const Prune *p, NodeId id)
{
    const PruneConv *c = p->conv[id];
    const Channels x = p->of[graph_node(p->g, id)->src[0]];
    Range *r = ARENA_ARRAY(p->arena, Range, c->group * c->inputs), all = p->range.data[x.first];
    for (uint32_t i = 1; i < x.n; i++) {
        const Range at = p->range.data[x.first + i];
        all = (Range){fmin(all.lo, at.lo), fmax(all.hi, at.hi)};
    }
    for (int64_t i = 0; i < c->group * c->inputs; i++) {
        const Range at = has_channels(p, id) ? p->range.data[x.first + i] : all;
        const double zero = (double)zero_of(c);
        r[i] = (Range){at.lo - zero, at.hi - zero};
    }
    return r;
}

// --- sums ----------------------------------------------------------------------------------------

typedef struct Bounds {
    double lo, hi, magnitude; // magnitude: the sum of those of all terms
    bool is_known;
} Bounds;

// Less its zero point.
static double weight_at(const PruneConv *c, int64_t o, int64_t at)
{
    if (c->zeros == NULL)
        return (double)((const float *)c->weight.data)[at];
    return (c->weight.dtype == DTYPE_i8 ? ((const int8_t *)c->weight.data)[at]
                                        : ((const uint8_t *)c->weight.data)[at]) -
           c->zeros[o];
}

static Bounds bounds_of(const PruneConv *c, int64_t o, const Range *x)
{
    const double bias = c->bias.data != NULL ? tensor_get_f64(&c->bias, o) : 0;
    Bounds b = {.is_known = isfinite(bias)};
    for (int64_t i = 0; i < c->inputs; i++) {
        const Range r = x[input_channel(c, o, i)];
        const double lo = c->is_padded ? fmin(r.lo, 0) : r.lo, hi = c->is_padded ? fmax(r.hi, 0) : r.hi;
        b.is_known = b.is_known && range_is_finite(r);
        for (int64_t k = 0; b.is_known && k < c->taps; k++) {
            const double w = weight_at(c, o, (o * c->inputs + i) * c->taps + k);
            b.lo += w * (w >= 0 ? lo : hi);
            b.hi += w * (w >= 0 ? hi : lo);
            b.magnitude += fabs(w) * fmax(-lo, hi);
            b.is_known = isfinite(w);
        }
    }
    b.lo += bias;
    b.hi += bias;
    b.magnitude += b.magnitude != 0 ? fabs(bias) : 0;
    return b;
}

// Sums of floats are rounded, in an order that the schedule chooses.
static Range float_range(const Prune *p, const Bounds *b)
{
    const double room = b->magnitude * p->room;
    if (!b->is_known || !(b->magnitude < 1e37))
        return range_unknown(DTYPE_f32);
    const Range r = {b->lo - room, b->hi + room};
    return r.lo <= 0 && r.hi >= 0 ? (Range){fmin(r.lo, -0.0), r.hi + 0.0} : r;
}

void prune_conv_ranges(Prune *p, NodeId id, Range *out)
{
    const PruneConv *c = p->conv[id];
    const Range *x = input_ranges(p, id), all = range_unknown(DTYPE_i32);
    for (int64_t o = 0; o < c->outputs; o++) {
        const Bounds b = bounds_of(c, o, x);
        if (c->zeros == NULL)
            out[o] = float_range(p, &b);
        else
            out[o] = b.lo < all.lo || b.hi > all.hi ? all : (Range){b.lo, b.hi};
    }
}

// --- what is read --------------------------------------------------------------------------------

// Is the sum over a channel known without it: is its value known, and does no padding stand beside it?
// Floats: only zeros, and numbers that are multiplied by zeros, leave a sum as it is.
static bool is_read(const PruneConv *c, int64_t o, int64_t i, Range x)
{
    bool is_zero = true, is_finite = true;
    for (int64_t k = 0; k < c->taps; k++) {
        const double w = weight_at(c, o, (o * c->inputs + i) * c->taps + k);
        is_zero = is_zero && w == 0;
        is_finite = is_finite && isfinite(w);
    }
    if (c->zeros == NULL)
        return !range_is_finite(x) || !is_finite || !(is_zero || (x.lo == 0 && x.hi == 0));
    return !is_zero && !(x.lo == x.hi && (!c->is_padded || x.lo == 0));
}

void prune_conv_wants(Prune *p, NodeId id)
{
    const PruneConv *c = p->conv[id];
    const NodeId from = graph_node(p->g, id)->src[0];
    const Range *x = input_ranges(p, id);
    if (!has_channels(p, id)) {
        prune_raise_all(p, from, WANT_EXACT);
        return;
    }
    for (int64_t o = 0; o < c->outputs; o++) {
        if (prune_want_below(p, id, (uint32_t)o) != WANT_EXACT)
            continue;
        for (int64_t i = 0; i < c->inputs; i++) {
            const uint32_t channel = (uint32_t)input_channel(c, o, i);
            if (p->want[p->of[from].first + channel] != WANT_EXACT && is_read(c, o, i, x[channel]))
                prune_raise(p, from, channel, WANT_EXACT);
        }
    }
}

// --- the new node --------------------------------------------------------------------------------

typedef struct Rebuild {
    const Prune *p;
    NodeId id;
    const PruneConv *c;
    const Range *x;
    int64_t *outputs, *inputs; // channels that are kept; inputs: those of x, without groups
    int64_t n_outputs, n_inputs;
    Tensor weight, bias;
    bool has_bias;
} Rebuild;

static bool is_dropped(const Rebuild *r, int64_t channel)
{
    const NodeId x = graph_node(r->p->g, r->id)->src[0];
    return has_channels(r->p, r->id) && r->p->want[r->p->of[x].first + channel] == WANT_NONE;
}

static void copy_taps(Rebuild *r, int64_t to, int64_t from, bool is_zero)
{
    const int64_t taps = r->c->taps, o = from / r->c->inputs;
    for (int64_t k = 0; k < taps; k++)
        tensor_set_bits(&r->weight, to * taps + k,
                        is_zero ? (uint64_t)zero_weight(r->c, o)
                                : tensor_get_bits(&r->c->weight, from * taps + k));
}

// What the channels add that are no longer read.
static int64_t constant_part(const Rebuild *r, int64_t o)
{
    const PruneConv *c = r->c;
    int64_t sum = 0;
    for (int64_t i = 0; i < c->inputs; i++) {
        const int64_t channel = input_channel(c, o, i);
        for (int64_t k = 0; is_dropped(r, channel) && k < c->taps; k++) {
            const int64_t w = (int64_t)weight_at(c, o, (o * c->inputs + i) * c->taps + k);
            rlx_assert(w == 0 || r->x[channel].lo == r->x[channel].hi);
            sum += w == 0 ? 0 : w * (int64_t)r->x[channel].lo;
        }
    }
    return sum;
}

// The row of output o, which becomes row `to`. What nobody wants exactly is a constant within its range.
static void make_row(Rebuild *r, int64_t to, int64_t o)
{
    const PruneConv *c = r->c;
    const bool is_exact = prune_want_below(r->p, r->id, (uint32_t)o) == WANT_EXACT;
    const Range range = r->p->range.data[r->p->of[r->id].first + o];
    const int64_t n = c->group == 1 ? r->n_inputs : c->inputs;
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = c->group == 1 ? r->inputs[i] : i;
        copy_taps(r, to * n + i, o * c->inputs + from, !is_exact || is_dropped(r, input_channel(c, o, from)));
    }
    const double value = fmin(fmax(0, range.lo), range.hi);
    if (!is_exact)
        tensor_set_f64(&r->bias, to, value);
    else if (c->zeros == NULL)
        tensor_set_f64(&r->bias, to, c->bias.data != NULL ? tensor_get_f64(&c->bias, o) : 0);
    else
        tensor_set_i64(&r->bias, to,
                       (c->bias.data != NULL ? tensor_get_i64(&c->bias, o) : 0) + constant_part(r, o));
    r->has_bias = r->has_bias || c->bias.data != NULL || tensor_get_f64(&r->bias, to) != 0;
}

static NodeId const_of(const Rebuild *r, const Tensor *t)
{
    const Shape s = shape_of(t->rank, t->dim);
    return graph_const(r->p->g, t->dtype, &s, t->data, type_bytes(t->dtype, &s), node_span(r->p->g, r->id));
}

static void find_kept(Rebuild *r)
{
    const Prune *p = r->p;
    const NodeId x = graph_node(p->g, r->id)->src[0];
    const int64_t all = r->c->group * r->c->inputs;
    r->outputs = ARENA_ARRAY(p->arena, int64_t, r->c->outputs);
    r->inputs = ARENA_ARRAY(p->arena, int64_t, all);
    r->n_outputs = prune_kept(p, r->id, r->outputs);
    r->n_inputs = has_channels(p, r->id) ? prune_kept(p, x, r->inputs) : all;
    for (int64_t i = 0; i < all && !has_channels(p, r->id); i++)
        r->inputs[i] = i;
}

// Zero points of the weights, of the outputs that are kept.
static NodeId weight_zeros(const Rebuild *r)
{
    const NodeId zero = graph_node(r->p->g, r->id)->src[4];
    Tensor t = tensor_new(r->p->g->arena, r->c->weight.dtype, 1, &r->n_outputs);
    for (int64_t i = 0; i < r->n_outputs; i++)
        tensor_set_i64(&t, i, zero_weight(r->c, r->outputs[i]));
    return zero != 0 && r->c->weight_zero.numel != 1 ? const_of(r, &t) : zero;
}

NodeId prune_conv_build(Prune *p, NodeId id, NodeId x)
{
    const Node n = *graph_node(p->g, id);
    const PruneConv *c = p->conv[id];
    Rebuild r = {.p = p, .id = id, .c = c, .x = input_ranges(p, id)};
    find_kept(&r);
    const int64_t group = c->group == 1 ? 1 : c->group * r.n_outputs / c->outputs;
    int64_t dim[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < c->weight.rank; i++)
        dim[i] = i == 0 ? r.n_outputs : i == 1 && c->group == 1 ? r.n_inputs : c->weight.dim[i];
    r.weight = tensor_new(p->g->arena, c->weight.dtype, c->weight.rank, dim);
    r.bias = tensor_new(p->g->arena, (DType)n.dtype, 1, dim);
    for (int64_t i = 0; i < r.n_outputs; i++)
        make_row(&r, i, r.outputs[i]);
    NodeBuild b = node_copy_begin(p->g, p->g, id);
    node_src(&b, x);
    node_src(&b, const_of(&r, &r.weight));
    if (r.has_bias || n.n_src > 3)
        node_src(&b, r.has_bias ? const_of(&r, &r.bias) : 0);
    if (n.n_src > 3)
        node_src(&b, n.src[3]);
    if (n.n_src > 4)
        node_src(&b, weight_zeros(&r));
    node_int(&b, attr_find((OpId)n.op, "group"), group);
    return node_end(&b);
}
