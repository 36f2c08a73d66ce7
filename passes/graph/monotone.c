// SPDX-License-Identifier: Apache-2.0
// See monotone.h.
#include "passes/graph/monotone.h"
#include "ir/eval/eval.h"

#include <math.h>
#include <string.h>

// --- what each op does to the line ---------------------------------------------------------------

// k: the constant operands. False: the result may be no number.
typedef bool (*LineFn)(Line *l, const double *k);

static bool line_keep(Line *l, const double *k)
{
    (void)l;
    return !isnan(k[0]) && !isnan(k[1]);
}

static bool line_add(Line *l, const double *k)
{
    l->offset += k[0];
    return isfinite(k[0]);
}

static bool line_sub(Line *l, const double *k)
{
    l->offset -= k[0];
    return isfinite(k[0]);
}

static bool line_mul(Line *l, const double *k)
{
    l->slope *= k[0];
    l->offset *= k[0];
    return isfinite(k[0]);
}

static bool line_div(Line *l, const double *k)
{
    l->slope /= k[0];
    l->offset /= k[0];
    return isfinite(k[0]) && k[0] != 0;
}

static bool line_floor(Line *l, const double *k)
{
    (void)k;
    l->offset -= 0.5;
    return true;
}

static bool line_shift(Line *l, const double *k)
{
    l->slope = ldexp(l->slope, -(int)k[0]);
    l->offset = ldexp(l->offset, -(int)k[0]) - 0.5;
    return k[0] >= 0 && k[0] < 63;
}

static bool line_ceil(Line *l, const double *k)
{
    (void)k;
    l->offset += 0.5;
    return true;
}

static const struct {
    LineFn line;
    bool takes_any;     // the chain may come in as any operand
    bool is_float;      // only of floats
    bool is_arithmetic; // of floats, or of i32 and i64, where it could wrap
} rules[OP_COUNT] = {
    [OP_cast] = {line_keep},
    [OP_add] = {line_add, .takes_any = true, .is_arithmetic = true},
    [OP_sub] = {line_sub, .is_arithmetic = true},
    [OP_mul] = {line_mul, .takes_any = true, .is_arithmetic = true},
    [OP_shift_right] = {line_shift, .is_arithmetic = true},
    [OP_div] = {line_div, .is_float = true},
    [OP_round] = {line_keep, .is_float = true},
    [OP_floor] = {line_floor, .is_float = true},
    [OP_ceil] = {line_ceil, .is_float = true},
    [OP_trunc] = {line_keep, .is_float = true},
    [OP_min] = {line_keep, .takes_any = true},
    [OP_max] = {line_keep, .takes_any = true},
    [OP_clamp] = {line_keep},
    [OP_relu] = {line_keep},
    [OP_relu6] = {line_keep},
};

bool line_behind(OpId op, uint32_t operand, const double *k, Line *l)
{
    return rules[op].line != NULL && (operand == 0 || rules[op].takes_any) && rules[op].line(l, k);
}

static bool is_view(const Node *n)
{
    return n->op == OP_reshape || n->op == OP_transpose;
}

static bool is_float(const Node *n)
{
    return dtype_info[n->dtype].cls == DCLASS_FLOAT;
}

static bool has_integers(const Node *n)
{
    return rules[n->op].is_arithmetic && (n->dtype == DTYPE_i32 || n->dtype == DTYPE_i64);
}

// The operand that continues the chain; n_src: the node is no part of one.
static uint32_t next_operand(const Graph *g, const Node *n)
{
    uint32_t found = n->n_src, others = 0;
    if (is_view(n))
        return 0;
    if (rules[n->op].line == NULL || n->dtype == DTYPE_bool)
        return n->n_src;
    for (uint32_t i = 0; i < n->n_src; i++)
        if (!node_is_const(g, n->src[i])) {
            found = i;
            others++;
        }
    const bool fits = others == 1 && (found == 0 || rules[n->op].takes_any) &&
                      graph_node(g, n->src[found])->shape == n->shape &&
                      (is_float(n) || has_integers(n) ||
                       (!rules[n->op].is_float && !rules[n->op].is_arithmetic));
    return fits ? found : n->n_src;
}

// --- halves away from zero -----------------------------------------------------------------------

bool chain_split_constant(const Graph *g, NodeId id, OpId op, NodeId *x, NodeId *constant)
{
    const Node *n = graph_node(g, id);
    if (n->op != op || n->dtype != DTYPE_i64)
        return false;
    const uint32_t at = node_is_const(g, n->src[1]) ? 1 : 0;
    if (!node_is_const(g, n->src[at]) || node_is_const(g, n->src[1 - at]))
        return false;
    *x = n->src[1 - at];
    *constant = n->src[at];
    return true;
}

bool chain_constant_within(const Graph *g, NodeId constant, int64_t least, int64_t most)
{
    const Tensor t = tensor_of_const(g, constant);
    for (int64_t i = 0; i < t.numel; i++)
        if (tensor_get_i64(&t, i) < least || tensor_get_i64(&t, i) > most)
            return false;
    return true;
}

bool away_find(const Graph *g, NodeId id, AwayFromZero *out)
{
    const int64_t exact = (int64_t)1 << 53; // as f64, which constants are here
    const Node *n = graph_node(g, id);
    double zero = 1;
    *out = (AwayFromZero){0};
    if (n->op != OP_sub || n->dtype != DTYPE_i64 ||
        !chain_split_constant(g, n->src[0], OP_add, &out->x, &out->half) ||
        !chain_constant_within(g, out->half, -exact, exact))
        return false;
    NodeId less = n->src[1];
    if (chain_split_constant(g, n->src[1], OP_mul, &less, &out->more) &&
        !chain_constant_within(g, out->more, 0, 1))
        return false;
    const Node *flag = graph_node(g, less);
    const Node *compare = flag->op == OP_cast ? graph_node(g, flag->src[0]) : flag;
    return compare->op == OP_lt && compare->src[0] == out->x &&
           node_is_scalar_const(g, compare->src[1], &zero) && zero == 0 &&
           graph_node(g, out->x)->shape == n->shape && flag->shape == n->shape;
}

// The constants of a node of the chain.
static uint32_t constant_ids(const Chain *c, uint32_t i, NodeId id[2])
{
    const Node *n = graph_node(c->g, c->node[i]);
    const AwayFromZero *away = &c->away[i];
    uint32_t count = 0;
    if (away->x != 0) {
        id[0] = away->half;
        id[1] = away->more;
        return away->more != 0 ? 2 : 1;
    }
    for (uint32_t s = 0; s < n->n_src; s++)
        if (s != c->value[i]) {
            rlx_assert(count < 2);
            id[count++] = n->src[s];
        }
    return count;
}

// --- the chain -----------------------------------------------------------------------------------

bool chain_find(const Graph *g, NodeId end, Chain *out)
{
    NodeId back[CHAIN_MAX];
    uint8_t operand[CHAIN_MAX];
    AwayFromZero away[CHAIN_MAX], here;
    *out = (Chain){.g = g};
    for (NodeId id = end;;) {
        const Node *n = graph_node(g, id);
        const bool is_away = away_find(g, id, &here);
        const uint32_t i = is_away ? 0 : next_operand(g, n);
        if (i == n->n_src || !shape_is_const(n->shape) || (out->has_floats && has_integers(n)) ||
            (out->has_arithmetic && is_float(n))) {
            out->source = id;
            break;
        }
        if (out->n == CHAIN_MAX)
            return false;
        back[out->n] = id;
        away[out->n] = is_away ? here : (AwayFromZero){0};
        operand[out->n++] = (uint8_t)i;
        out->has_floats = out->has_floats || is_float(n);
        out->has_arithmetic = out->has_arithmetic || has_integers(n);
        out->n_shifts += n->op == OP_shift_right && n->dtype == DTYPE_i64;
        id = is_away ? here.x : n->src[i];
    }
    for (uint32_t i = 0; i < out->n; i++) {
        out->node[i] = back[out->n - 1 - i];
        out->away[i] = away[out->n - 1 - i];
        out->value[i] = operand[out->n - 1 - i];
    }
    return out->n > 0;
}

// --- channels ------------------------------------------------------------------------------------

// The axis of a reshape's result that has exactly the elements of `axis` of its operand.
static uint32_t axis_behind_reshape(const Shape *from, const Shape *to, uint32_t axis)
{
    int64_t before = 1, so_far = 1;
    for (uint32_t i = 0; i < axis; i++)
        before *= from->dim[i];
    for (uint32_t i = 0; i < to->rank; so_far *= to->dim[i++])
        if (so_far == before && to->dim[i] == from->dim[axis])
            return i;
    return SHAPE_MAX_RANK;
}

static uint32_t axis_behind(const Graph *g, const Node *n, uint32_t axis)
{
    if (n->op == OP_reshape)
        return axis_behind_reshape(graph_node(g, n->src[0])->shape, n->shape, axis);
    const int64_t *perm = n->op == OP_transpose ? node_attr(n, A_transpose_perm)->u.ints : NULL;
    for (uint32_t i = 0; perm != NULL && i < n->shape->rank; i++)
        if (perm[i] == (int64_t)axis)
            return i;
    return axis;
}

// Has a constant one element, or one for each channel?
static bool is_by_channel(const Chain *c, NodeId constant, const Node *n, uint32_t axis)
{
    const Shape *s = graph_node(c->g, constant)->shape;
    const int64_t count = shape_numel(s);
    if (count == 1)
        return true;
    const uint32_t lead = n->shape->rank - s->rank;
    return count == c->channels && axis != SHAPE_MAX_RANK && axis >= lead && s->dim[axis - lead] == count;
}

bool chain_set_axis(Chain *c, uint32_t axis)
{
    const Shape *s = graph_node(c->g, c->source)->shape;
    c->channels = axis < s->rank ? s->dim[axis] : 1;
    for (uint32_t i = 0; i < c->n; i++) {
        const Node *n = graph_node(c->g, c->node[i]);
        axis = axis == SHAPE_MAX_RANK ? axis : axis_behind(c->g, n, axis);
        c->axis[i] = axis;
        NodeId constant[2];
        for (uint32_t k = constant_ids(c, i, constant); k-- > 0;)
            if (!is_by_channel(c, constant[k], n, axis))
                return false;
    }
    return true;
}

// --- values --------------------------------------------------------------------------------------

static int64_t element_of(const Tensor *t, uint32_t channel)
{
    return t->numel == 1 ? 0 : channel;
}

// The constant operands of a node.
static void constants_of(const Chain *c, uint32_t i, uint32_t channel, double *k)
{
    NodeId constant[2];
    k[1] = c->away[i].x != 0; // where no node says otherwise
    for (uint32_t at = constant_ids(c, i, constant); at-- > 0;) {
        const Tensor t = tensor_of_const(c->g, constant[at]);
        k[at] = tensor_get_f64(&t, element_of(&t, channel));
    }
}

static bool line_away(Line *l, const double *k)
{
    l->offset += k[0] - k[1] / 2;
    return true;
}

// What node i does to a line.
static bool line_of_node(const Chain *c, uint32_t i, const double *k, Line *l)
{
    const Node *n = graph_node(c->g, c->node[i]);
    return c->away[i].x != 0 ? line_away(l, k) : line_behind((OpId)n->op, c->value[i], k, l);
}

bool chain_line(const Chain *c, uint32_t channel, double *slope, double *offset)
{
    Line l = {1, 0};
    for (uint32_t i = 0; i < c->n; i++) {
        const Node *n = graph_node(c->g, c->node[i]);
        double k[2] = {0};
        constants_of(c, i, channel, k);
        if (!is_view(n) && (!line_of_node(c, i, k, &l) || l.slope < 0))
            return false;
    }
    *slope = l.slope;
    *offset = l.offset;
    return true;
}

static Tensor eval_away(const Chain *c, uint32_t i, uint32_t channel, const Tensor *x, Arena *a)
{
    Tensor out = tensor_new(a, DTYPE_i64, 1, &x->numel);
    double k[2] = {0};
    constants_of(c, i, channel, k);
    for (int64_t e = 0; e < x->numel; e++) {
        const int64_t v = tensor_get_i64(x, e);
        tensor_set_i64(&out, e, (int64_t)((uint64_t)v + (uint64_t)(int64_t)k[0]) - (v < 0 && k[1] > 0));
    }
    return out;
}

// One node on elements of one channel, in place of its value operand.
static Tensor eval_one(const Chain *c, uint32_t i, uint32_t channel, Tensor x, Arena *a)
{
    const NodeId id = c->node[i];
    const Node *n = graph_node(c->g, id);
    const uint32_t rank = n->shape->rank > 0 ? n->shape->rank : 1;
    Tensor in[3], out;
    int64_t dim[SHAPE_MAX_RANK], one[SHAPE_MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) {
        dim[k] = k == 0 ? x.numel : 1;
        one[k] = 1;
    }
    if (is_view(n))
        return x;
    if (c->away[i].x != 0)
        return eval_away(c, i, channel, &x, a);
    rlx_assert(n->n_src <= 3 && n->shape->rank > 0);
    for (uint32_t k = 0; k < n->n_src; k++) {
        if (k == c->value[i]) {
            in[k] = (Tensor){.dtype = x.dtype, .rank = rank, .numel = x.numel, .data = x.data};
            memcpy(in[k].dim, dim, rank * sizeof *dim);
            continue;
        }
        const Tensor t = tensor_of_const(c->g, n->src[k]);
        in[k] = tensor_new(a, t.dtype, rank, one);
        tensor_set_bits(&in[k], 0, tensor_get_bits(&t, element_of(&t, channel)));
    }
    out = tensor_new(a, (DType)n->dtype, rank, dim);
    EvalCtx e = {.arena = a, .g = c->g, .node = n, .id = id, .in = in, .out = &out};
    const bool ok = eval_node(&e);
    rlx_assert(ok);
    return out;
}

static Tensor sums_of(const Chain *c, const int64_t *x, uint32_t n, Arena *a)
{
    const int64_t dim = n;
    Tensor t = tensor_new(a, (DType)graph_node(c->g, c->source)->dtype, 1, &dim);
    for (uint32_t i = 0; i < n; i++)
        tensor_set_i64(&t, i, x[i]);
    return t;
}

void chain_eval(const Chain *c, uint32_t channel, const int64_t *x, uint32_t n, int64_t *y)
{
    Arena a = {0};
    Tensor t = sums_of(c, x, n, &a);
    for (uint32_t i = 0; i < c->n; i++)
        t = eval_one(c, i, channel, t, &a);
    for (uint32_t i = 0; i < n; i++)
        y[i] = tensor_get_i64(&t, i);
    arena_free(&a);
}

// Is what arithmetic of integers makes of a number far from where it wraps?
static bool has_room(const Chain *c, uint32_t i, uint32_t channel, double x)
{
    const Node *n = graph_node(c->g, c->node[i]);
    double k[2] = {0};
    Line l = {0, x};
    constants_of(c, i, channel, k);
    return line_of_node(c, i, k, &l) && fabs(l.offset) < ldexp(1, (int)dtype_info[n->dtype].bits - 2);
}

// Does node i make a number of number `at` that is no NaN, and that has not wrapped?
static bool is_kept(const Chain *c, uint32_t i, uint32_t channel, const Tensor *from, const Tensor *to,
                    int64_t at)
{
    const Node *n = graph_node(c->g, c->node[i]);
    if (is_float(n))
        return !isnan(tensor_get_f64(to, at));
    if (n->op == OP_cast)
        return dtype_info[from->dtype].cls == DCLASS_FLOAT ||
               tensor_get_i64(from, at) == tensor_get_i64(to, at);
    return !has_integers(n) || has_room(c, i, channel, tensor_get_f64(from, at));
}

bool chain_never_breaks(const Chain *c, uint32_t channel, int64_t lo, int64_t hi)
{
    Arena a = {0};
    bool is_sound = true;
    Tensor t = sums_of(c, (const int64_t[]){lo, hi}, 2, &a);
    for (uint32_t i = 0; i < c->n && is_sound; i++) {
        const Tensor y = eval_one(c, i, channel, t, &a);
        is_sound = is_kept(c, i, channel, &t, &y, 0) && is_kept(c, i, channel, &t, &y, 1);
        t = y;
    }
    arena_free(&a);
    return is_sound;
}
