// SPDX-License-Identifier: Apache-2.0
// Where integers are cheap and floats are not: what brings an integer sum back to a byte (casts, a scale for
// each channel, rounding, a zero point, clamps, in whatever order exporters write them, or two roundings of
// integers) becomes a product of integers, an addition and a shift, if that gives the same for every sum that
// can occur (requantiser.h). Two roundings that stay two become ones of 32 bits.
// What makes bytes of bytes through floats becomes a table, or a sum of two products (byte_map.h).
#include "passes/graph/requantise.h"
#include "ir/graph/tensor.h"
#include "passes/graph/byte_map.h"
#include "passes/graph/choices.h"
#include "passes/graph/monotone.h"
#include "passes/graph/requantiser.h"
#include "passes/pass.h"

#include <math.h>
#include <string.h>

// --- which sums can occur ------------------------------------------------------------------------

typedef struct Range {
    int64_t lo, hi;
} Range;

// Of inputs less their zero point; padding counts as 0, which is among them.
static Range input_range(const Graph *g, NodeId x, NodeId zero)
{
    const bool is_signed = graph_node(g, x)->dtype == DTYPE_i8;
    if (graph_node(g, x)->dtype == DTYPE_i16)
        return (Range){INT16_MIN, INT16_MAX};
    if (zero != 0 && !node_is_const(g, zero))
        return (Range){-255, 255};
    const Tensor t = tensor_if_const(g, zero);
    const int64_t z = zero != 0 ? tensor_get_i64(&t, 0) : 0;
    return (Range){(is_signed ? -128 : 0) - z, (is_signed ? 127 : 255) - z};
}

// By output channel of an int_conv; false where something is not known.
static bool sum_ranges(Arena *a, const Graph *g, const Node *n, RequantChannel *channel)
{
    const NodeId w = n->src[1], bias = n->n_src > 2 ? n->src[2] : 0, w_zero = n->n_src > 4 ? n->src[4] : 0;
    if (!node_is_const(g, w) || (bias != 0 && !node_is_const(g, bias)) ||
        (w_zero != 0 && !node_is_const(g, w_zero)))
        return false;
    const Range x = input_range(g, n->src[0], n->n_src > 3 ? n->src[3] : 0);
    const Tensor ws = tensor_of_const(g, w), bs = tensor_if_const(g, bias), zs = tensor_if_const(g, w_zero);
    const int32_t *v = tensor_centred(a, &ws, &zs);
    const int64_t channels = ws.dim[0], each = channels > 0 ? ws.numel / channels : 0;
    for (int64_t o = 0; o < channels; o++) {
        RequantChannel *c = &channel[o];
        c->lo = c->hi = bias != 0 ? tensor_get_i64(&bs, o) : 0;
        for (const int32_t *end = v + each; v < end; v++) {
            c->lo += *v * (*v >= 0 ? x.lo : x.hi);
            c->hi += *v * (*v >= 0 ? x.hi : x.lo);
        }
    }
    return true;
}

static Range ends_of(const int64_t *v, uint32_t n)
{
    Range r = {v[0], v[0]};
    for (uint32_t i = 1; i < n; i++) {
        r.lo = v[i] < r.lo ? v[i] : r.lo;
        r.hi = v[i] > r.hi ? v[i] : r.hi;
    }
    return r;
}

// Of an i32 that is made of bytes by casts, products, sums and differences of few levels. False: of nothing
// else.
static bool range_of(const Graph *g, NodeId id, uint32_t levels, Range *r)
{
    const Node *n = graph_node(g, id);
    double number = 0;
    Range a, b;
    if (node_is_scalar_const(g, id, &number)) {
        *r = (Range){(int64_t)number, (int64_t)number};
        return n->dtype == DTYPE_i32;
    }
    if (n->op == OP_const && n->dtype == DTYPE_i32 && shape_numel(n->shape) > 0) {
        const Tensor t = tensor_of_const(g, id);
        *r = (Range){INT64_MAX, INT64_MIN};
        for (int64_t i = 0; i < t.numel; i++) {
            const int64_t v = tensor_get_i64(&t, i);
            *r = (Range){v < r->lo ? v : r->lo, v > r->hi ? v : r->hi};
        }
        return INT32_MIN < r->lo;
    }
    if (n->op == OP_cast && k_is_byte(graph_node(g, n->src[0])->dtype)) {
        *r = input_range(g, n->src[0], 0);
        return n->dtype == DTYPE_i32;
    }
    if (levels == 0 || n->dtype != DTYPE_i32 || (n->op != OP_mul && n->op != OP_add && n->op != OP_sub) ||
        !range_of(g, n->src[0], levels - 1, &a) || !range_of(g, n->src[1], levels - 1, &b))
        return false;
    if (n->op == OP_mul)
        *r = ends_of((const int64_t[]){a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi}, 4);
    else
        *r = n->op == OP_add ? (Range){a.lo + b.lo, a.hi + b.hi} : (Range){a.lo - b.hi, a.hi - b.lo};
    return INT32_MIN < r->lo && r->hi <= INT32_MAX;
}

enum { LEVELS = 3 }; // of what ranges look through

bool requantise_range(const Graph *g, NodeId id, int64_t *least, int64_t *most)
{
    Range r = {0};
    const bool is_known = range_of(g, id, LEVELS, &r);
    *least = r.lo;
    *most = r.hi;
    return is_known;
}

bool requantise_is_widened(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    if (n->op != OP_cast || n->dtype != DTYPE_i64)
        return false;
    const DType of = (DType)graph_node(g, n->src[0])->dtype;
    return dtype_info[of].bits <= 16 && dtype_info[of].cls == DCLASS_INT;
}

static int64_t elements_of(const Shape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

// How many bytes, or products of them, an element is the sum of; 0: that is not known.
static int64_t terms_of(const Graph *g, const Node *n, uint32_t levels, Range *r)
{
    const Node *x = graph_node(g, n->src[0]);
    Range a, b;
    if (n->op == OP_reduce_sum)
        return elements_of(n->shape) > 0 && range_of(g, n->src[0], levels, r)
                   ? elements_of(x->shape) / elements_of(n->shape)
                   : 0;
    if (x->shape->rank < 2 || !range_of(g, n->src[0], levels, &a) || !range_of(g, n->src[1], levels, &b))
        return 0;
    *r = ends_of((const int64_t[]){a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi}, 4);
    return x->shape->dim[x->shape->rank - (node_get_int(n, A_matmul_transpose_a) ? 2 : 1)];
}

// The same for products of bytes, elementwise or of matrices, and for sums of them along axes, which have one
// channel.
static bool plain_range(const Graph *g, NodeId id, RequantChannel *channel)
{
    const Node *n = graph_node(g, id);
    Range r = {0};
    if (n->dtype != DTYPE_i32 || n->shape->rank == 0 || !shape_is_const(graph_node(g, n->src[0])->shape))
        return false;
    const int64_t terms = n->op == OP_mul ? range_of(g, id, LEVELS, &r) : terms_of(g, n, LEVELS - 1, &r);
    if (terms < 1 || terms > INT16_MAX)
        return false;
    *channel = (RequantChannel){.lo = terms * r.lo, .hi = terms * r.hi};
    return INT32_MIN < channel->lo && channel->hi <= INT32_MAX;
}

// --- the new nodes -------------------------------------------------------------------------------

typedef int64_t (*ChannelField)(const RequantChannel *c);

static int64_t factor_of(const RequantChannel *c)
{
    return c->factor;
}

static int64_t start_of(const RequantChannel *c)
{
    return c->start;
}

static int64_t high_start_of(const RequantChannel *c)
{
    return c->start / (INT64_C(1) << 32);
}

static int64_t shift_of(const RequantChannel *c)
{
    return c->shift;
}

static int64_t whole_shift_of(const RequantChannel *c)
{
    return 32 + c->shift;
}

// A constant for the channels along axis 1 of a value of this rank; a scalar where all are equal.
static NodeId constant_of(Graph *g, DType t, uint32_t rank, const RequantChannel *channel, uint32_t n,
                          ChannelField field)
{
    int64_t *v = ARENA_ARRAY(g->arena, int64_t, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = field(&channel[i]);
    return choices_const(g, t, rank, v, n, (Span){0});
}

// The views of a chain, behind its value.
static NodeId with_views(Graph *g, const Chain *c, NodeId id)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const OpId op = graph_node(g, c->node[i])->op;
        if (op == OP_reshape || op == OP_transpose)
            id = graph_clone_node(g, g, c->node[i], &id);
    }
    return id;
}

// y with 1 added (or subtracted) where the sum is an exception.
static NodeId with_exceptions(Graph *g, const Chain *c, NodeId y, const RequantChannel *channel,
                              bool is_below)
{
    const uint32_t rank = graph_node(g, c->source)->shape->rank, n = (uint32_t)c->channels;
    for (uint32_t k = 0; k < REQUANT_MAX_EXCEPTIONS; k++) {
        RequantChannel *e = ARENA_ARRAY(g->arena, RequantChannel, n);
        bool is_any = false;
        for (uint32_t i = 0; i < n; i++) {
            const bool is_here = k < (is_below ? channel[i].n_below : channel[i].n_above);
            const int64_t at = is_below ? channel[i].below[k] : channel[i].above[k];
            e[i].start = is_here ? at : INT32_MIN; // which never occurs
            is_any = is_any || is_here;
        }
        if (!is_any)
            break;
        const NodeId sum = constant_of(g, DTYPE_i32, rank, e, n, start_of);
        const NodeId one = graph_cast(g, graph_op2(g, OP_eq, c->source, sum), DTYPE_i32);
        y = graph_op2(g, is_below ? OP_sub : OP_add, y, one);
    }
    return y;
}

// The product, moved, with starts that are `step` zones higher.
static NodeId rounded(Graph *g, const Chain *c, NodeId product, const RequantChannel *channel, int64_t step)
{
    const uint32_t rank = graph_node(g, c->source)->shape->rank, n = (uint32_t)c->channels;
    RequantChannel *moved = ARENA_ARRAY(g->arena, RequantChannel, n);
    bool is_high = true; // only the high halves of the starts matter
    bool is_short = false;
    for (uint32_t i = 0; i < n; i++) {
        moved[i] = channel[i];
        moved[i].start += step * channel[i].zone;
        is_high = is_high && moved[i].start % (INT64_C(1) << 32) == 0;
        is_short = is_short || moved[i].shift < 0;
    }
    NodeId v = product;
    if (!is_high || is_short)
        v = graph_op2(g, OP_add, v, constant_of(g, DTYPE_i64, rank, moved, n, start_of));
    if (is_short) {
        v = graph_op2(g, OP_shift_right, v, constant_of(g, DTYPE_i64, rank, moved, n, whole_shift_of));
        return graph_cast(g, v, DTYPE_i32);
    }
    v = graph_op2(g, OP_shift_right, v, graph_scalar(g, DTYPE_i64, 32, node_span(g, product)));
    v = graph_cast(g, v, DTYPE_i32);
    if (is_high)
        v = graph_op2(g, OP_add, v, constant_of(g, DTYPE_i32, rank, moved, n, high_start_of));
    return graph_op2(g, OP_shift_right, v, constant_of(g, DTYPE_i32, rank, moved, n, shift_of));
}

// Of two values that differ by 1 at most the even one, or the odd one.
static NodeId choose(Graph *g, NodeId low, NodeId high, int64_t odd)
{
    const NodeId parity =
        odd == 0 ? low : graph_op2(g, OP_add, low, graph_scalar(g, DTYPE_i32, 1, node_span(g, low)));
    return graph_op2(g, OP_add, low, graph_op2(g, OP_bit_and, parity, graph_op2(g, OP_sub, high, low)));
}

static NodeId choose_by_bits(Graph *g, NodeId low, NodeId high, const RequantChannel *channel, uint32_t n,
                             const Requant *r)
{
    uint32_t(*upper)[CHOICE_WORDS] = arena_alloc_array(g->arena, n, sizeof *upper);
    for (uint32_t i = 0; i < n; i++)
        memcpy(upper[i], channel[i].upper, sizeof upper[i]);
    return choose_stored(g, low, high,
                         &(Choices){.upper = (const uint32_t(*)[CHOICE_WORDS])upper,
                                    .channels = n,
                                    .least = r->least,
                                    .most = r->most});
}

static NodeId as_integers(Graph *g, const Chain *c, const RequantChannel *channel, const Requant *r)
{
    const Span at = node_span(g, c->source);
    const DType to = (DType)graph_node(g, c->node[c->n - 1])->dtype;
    const uint32_t rank = graph_node(g, c->source)->shape->rank, n = (uint32_t)c->channels;
    const NodeId factor = constant_of(g, DTYPE_i64, rank, channel, n, factor_of);
    const NodeId product = graph_op2(g, OP_mul, graph_cast(g, c->source, DTYPE_i64), factor);
    NodeId y = rounded(g, c, product, channel, -1);
    if (r->has_zone) {
        const NodeId high = rounded(g, c, product, channel, 1);
        y = r->has_choices ? choose_by_bits(g, y, high, channel, n, r) : choose(g, y, high, r->odd);
    }
    y = with_exceptions(g, c, y, channel, false);
    y = with_exceptions(g, c, y, channel, true);
    const NodeId least = graph_scalar(g, DTYPE_i32, (double)r->least, at);
    const NodeId most = graph_scalar(g, DTYPE_i32, (double)r->most, at);
    return with_views(g, c, graph_cast(g, graph_op3(g, OP_clamp, y, least, most), to));
}

// --- the pass ------------------------------------------------------------------------------------

static void eval_chain(void *ctx, uint32_t channel, const int64_t *sum, uint32_t n, int64_t *y)
{
    chain_eval(ctx, channel, sum, n, y);
}

// Do device functions for vectors of bytes compute it? Not depthwise convolutions of few channels where there
// is the DSP extension for these.
static bool has_vectors(const Graph *g, const Node *n, const TargetCaps *caps)
{
    enum { FEWEST = 4 };
    const int64_t groups = node_get_int(n, A_int_conv_group);
    const bool is_narrow = groups > 1 && groups < FEWEST && graph_node(g, n->src[1])->shape->dim[1] == 1;
    return caps->byte_vectors != BYTE_VECTORS_NONE && !(caps->has_dsp && is_narrow);
}

// Exceptions cost little in blocks of device functions (passes/lower/conv/int_conv_dsp.c and int_conv_mve.c),
// elsewhere a comparison each.
static uint32_t exceptions_for(const Graph *g, const Node *n, const TargetCaps *caps)
{
    enum { ELSEWHERE = 2 };
    if (n->op != OP_int_conv)
        return ELSEWHERE;
    const bool is_depthwise = graph_node(g, n->src[1])->shape->dim[0] == node_get_int(n, A_int_conv_group);
    return has_vectors(g, n, caps) ||
                   (caps->byte_vectors == BYTE_VECTORS_NONE && caps->has_dsp && !is_depthwise)
               ? REQUANT_MAX_EXCEPTIONS
               : ELSEWHERE;
}

// The text of DSP functions has the shift: with a small one, most layers share them.
enum { DSP_SHIFT = 4 };

static bool find_integers(Arena *a, Chain *c, RequantChannel *channel, const TargetCaps *caps, Requant *r)
{
    const Node *source = graph_node(c->g, c->source);
    if (!(source->op == OP_int_conv ? sum_ranges(a, c->g, source, channel)
                                    : plain_range(c->g, c->source, channel)))
        return false;
    for (uint32_t i = 0; i < c->channels; i++)
        if (!chain_line(c, i, &channel[i].slope, &channel[i].offset) ||
            !chain_never_breaks(c, i, channel[i].lo, channel[i].hi))
            return false;
    const bool is_signed = graph_node(c->g, c->node[c->n - 1])->dtype == DTYPE_i8;
    const Steps f = {.eval = eval_chain,
                     .ctx = c,
                     .least = is_signed ? INT8_MIN : 0,
                     .most = is_signed ? INT8_MAX : UINT8_MAX,
                     .exceptions = exceptions_for(c->g, graph_node(c->g, c->source), caps),
                     .prefers_choices = source->op == OP_int_conv,
                     .max_shift = caps->has_dsp && caps->byte_vectors == BYTE_VECTORS_NONE
                                      ? DSP_SHIFT
                                      : REQUANT_MAX_SHIFT};
    return requant_find(a, &f, channel, (uint32_t)c->channels, r);
}

// Each takes up to a millisecond and 2 KB; layers with more have no room in microcontrollers.
enum { MAX_CHANNELS = 8192 };

// The end of a chain behind an integer sum; id where it is none, or must stay.
static NodeId behind_sum(Graph *g, NodeId id, const TargetCaps *caps)
{
    Arena a = {0};
    Chain c;
    Requant r;
    enum { ROUNDING_SHIFTS = 2 }; // of i64 in two roundings; what this pass has made has one
    if (!chain_find(g, id, &c) || (!c.has_floats && c.n_shifts < ROUNDING_SHIFTS) ||
        !shape_is_const(graph_node(g, c.source)->shape))
        return id;
    const OpId op = graph_node(g, c.source)->op;
    if ((op != OP_int_conv && op != OP_reduce_sum && op != OP_mul && op != OP_matmul) ||
        !chain_set_axis(&c, op == OP_int_conv ? 1 : SHAPE_MAX_RANK) || c.channels == 0 ||
        c.channels > MAX_CHANNELS)
        return id;
    RequantChannel *channel = ARENA_ARRAY(&a, RequantChannel, c.channels);
    const NodeId made = find_integers(&a, &c, channel, caps, &r) ? as_integers(g, &c, channel, &r) : id;
    arena_free(&a);
    return made;
}

// --- two roundings that stay two ------------------------------------------------------------------

// What comes out in the end, from the sum on.
typedef struct TwoRoundings {
    NodeId sum, factor, half, shift;
} TwoRoundings;

static bool is_constant(const Graph *g, NodeId id, double value)
{
    double v = 0;
    return node_is_scalar_const(g, id, &v) && v == value;
}

// (sum * factor + 2^30 >> 31) rounded once more, halves away from zero. The first rounding gives a negative
// number where the sum is one, which factors above 2^30 ensure.
static bool find_two(const Graph *g, NodeId id, TwoRoundings *out)
{
    const Node *end = graph_node(g, id);
    NodeId constant = 0, product = 0, added = 0;
    AwayFromZero away;
    if (end->op != OP_cast || end->dtype != DTYPE_i32)
        return false;
    const Node *shift = graph_node(g, end->src[0]);
    if (shift->op != OP_shift_right || !node_is_const(g, shift->src[1]) ||
        !away_find(g, shift->src[0], &away) || (away.more != 0 && !chain_constant_within(g, away.more, 1, 1)))
        return false;
    const Node *first = graph_node(g, away.x);
    if (first->op != OP_shift_right || !is_constant(g, first->src[1], 31) ||
        !chain_split_constant(g, first->src[0], OP_add, &added, &constant) ||
        !is_constant(g, constant, 1 << 30) ||
        !chain_split_constant(g, added, OP_mul, &product, &out->factor) ||
        graph_node(g, product)->op != OP_cast)
        return false;
    out->sum = graph_node(g, product)->src[0];
    out->half = away.half;
    out->shift = shift->src[1];
    return graph_node(g, out->sum)->dtype == DTYPE_i32 && graph_node(g, out->sum)->shape == end->shape &&
           chain_constant_within(g, out->factor, (1 << 30) + 1, INT32_MAX) &&
           chain_constant_within(g, out->half, 0, 1 << 29) && chain_constant_within(g, out->shift, 1, 30);
}

// Does twice the sum fit i32?
static bool can_double(const Graph *g, NodeId sum)
{
    enum { MOST = 1 << 30 };
    const Node *n = graph_node(g, sum);
    RequantChannel plain;
    bool fits = true;
    if (n->op != OP_int_conv)
        return (n->op == OP_matmul || n->op == OP_mul || n->op == OP_reduce_sum) &&
               plain_range(g, sum, &plain) && plain.lo > -MOST && plain.hi < MOST;
    const Shape *w = graph_node(g, n->src[1])->shape;
    if (!node_is_const(g, n->src[1]) || w->dim[0] > MAX_CHANNELS)
        return false;
    Arena a = {0};
    RequantChannel *channel = ARENA_ARRAY(&a, RequantChannel, w->dim[0]);
    fits = sum_ranges(&a, g, n, channel);
    for (int64_t i = 0; i < w->dim[0] && fits; i++)
        fits = channel[i].lo > -MOST && channel[i].hi < MOST;
    arena_free(&a);
    return fits;
}

// Twice the sum makes the first shift one by 32 bits, behind which all fits 32 bits.
static NodeId step_narrow(Graph *g, NodeId id, void *ctx)
{
    enum { WORD = 32 };
    (void)ctx;
    TwoRoundings t;
    if (!find_two(g, id, &t) || !can_double(g, t.sum))
        return id;
    const Span at = node_span(g, id);
    const NodeId twice = graph_op2(g, OP_add, t.sum, t.sum);
    NodeId v = graph_op2(g, OP_mul, graph_cast(g, twice, DTYPE_i64), t.factor);
    v = graph_op2(g, OP_add, v, graph_scalar(g, DTYPE_i64, ldexp(1, WORD - 1), at));
    v = graph_op2(g, OP_shift_right, v, graph_scalar(g, DTYPE_i64, WORD, at));
    v = graph_op2(g, OP_add, graph_cast(g, v, DTYPE_i32), graph_cast(g, t.half, DTYPE_i32));
    const NodeId sign = graph_op2(g, OP_shift_right, t.sum, graph_scalar(g, DTYPE_i32, WORD - 1, at));
    return graph_op2(g, OP_shift_right, graph_op2(g, OP_add, v, sign), graph_cast(g, t.shift, DTYPE_i32));
}

static NodeId step_requantise(Graph *g, NodeId id, void *ctx)
{
    if (graph_node(g, id)->op != OP_cast || !k_is_byte(graph_node(g, id)->dtype))
        return id;
    const NodeId made = behind_sum(g, id, ctx);
    return made != id ? made : byte_map(g, id);
}

bool pass_requantise(Pass *p)
{
    const uint32_t errors = p->diag->n_errors;
    TargetCaps caps = *p->options->caps;
    bool changed = caps.prefers_ints && graph_rewrite(p->graph, step_requantise, &caps);
    changed = (caps.prefers_ints && graph_rewrite(p->graph, step_narrow, NULL)) || changed;
    p->failed = p->diag->n_errors != errors;
    return changed;
}
