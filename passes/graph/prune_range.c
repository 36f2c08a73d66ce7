// SPDX-License-Identifier: Apache-2.0
// Between which numbers the elements of each channel lie. Integers exactly: a value that could wrap may be
// any. Floats only where they are proved to be numbers, and where every target rounds alike; results of ops
// that targets round in ways of their own are given room for that.
#include "ir/eval/eval.h"
#include "ir/shape/forms.h"
#include "passes/graph/prune.h"

#include <math.h>
#include <string.h>

static const double most_exact = 9007199254740992.0; // of integers in doubles

// --- ranges --------------------------------------------------------------------------------------

Range range_unknown(DType t)
{
    const DTypeInfo *info = &dtype_info[t];
    if (info->cls == DCLASS_FLOAT)
        return (Range){-HUGE_VAL, HUGE_VAL};
    if (info->cls == DCLASS_BOOL)
        return (Range){0, 1};
    const int bits = (int)info->bits;
    return info->cls == DCLASS_INT ? (Range){-ldexp(1, bits - 1), ldexp(1, bits - 1) - 1}
                                   : (Range){0, ldexp(1, bits) - 1};
}

bool range_is_finite(Range r)
{
    return isfinite(r.lo) && isfinite(r.hi);
}

bool range_is_value(Range r)
{
    return range_is_finite(r) && r.lo == r.hi && signbit(r.lo) == signbit(r.hi);
}

static bool is_below(double a, double b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static Range hull(Range a, Range b)
{
    return (Range){is_below(b.lo, a.lo) ? b.lo : a.lo, is_below(a.hi, b.hi) ? b.hi : a.hi};
}

static bool has(Range r, double v)
{
    return !is_below(v, r.lo) && !is_below(r.hi, v);
}

// Floats with room for rounding; zeros of both signs.
static Range with_room(Range r, double room)
{
    if (!range_is_finite(r) || room > 1e37)
        return range_unknown(DTYPE_f32);
    return hull((Range){r.lo - room, r.hi + room},
                r.lo - room <= 0 && r.hi + room >= 0 ? (Range){-0.0, 0.0} : r);
}

// As a type holds it, where it can.
static Range of_type(DType t, Range r)
{
    const Range all = range_unknown(t);
    const bool fits = dtype_info[t].cls == DCLASS_FLOAT
                          ? range_is_finite(r) && (t == DTYPE_f32 || t == DTYPE_f64)
                          : r.lo >= all.lo && r.hi <= all.hi;
    return fits ? r : all;
}

// --- elementwise ops -----------------------------------------------------------------------------

// Between its corners (the ends of all operands, and zeros in between) the op rises or falls with each of
// them.
static bool is_cornered(OpId op)
{
    static const bool ops[OP_COUNT] = {
        [OP_add] = true,   [OP_sub] = true,        [OP_mul] = true,         [OP_div] = true,
        [OP_min] = true,   [OP_max] = true,        [OP_neg] = true,         [OP_abs] = true,
        [OP_sign] = true,  [OP_square] = true,     [OP_floor] = true,       [OP_ceil] = true,
        [OP_trunc] = true, [OP_round] = true,      [OP_relu] = true,        [OP_relu6] = true,
        [OP_clamp] = true, [OP_shift_left] = true, [OP_shift_right] = true,
    };
    const EwClass ew = (EwClass)op_info[op].ew;
    return ops[op] || ew == EW_LOGIC || ew == EW_CMP || op_info[op].kind != OPKIND_EW; // the last: a cast
}

static double rounded(DType t, double v)
{
    return t == DTYPE_f32 ? (double)(float)v : v;
}

// NaN: it could wrap.
static double on_integers(OpId op, DType t, const double *x)
{
    const bool is_bits = op_info[op].ew == EW_INTS || op_info[op].ew == EW_LOGIC;
    const double about = op == OP_shift_left ? ldexp(x[0], (int)fmin(x[1], 64))
                         : is_bits           ? 0
                                             : eval_ew_f64(op, x[0], x[1], x[2]);
    if (fabs(about) > most_exact)
        return (double)NAN;
    const double v = (double)eval_ew_i64(op, (int64_t)x[0], (int64_t)x[1], (int64_t)x[2]);
    const Range all = range_unknown(t);
    return v >= all.lo && v <= all.hi ? v : (double)NAN;
}

static double cast_of(DType from, DType to, double v)
{
    const Range all = range_unknown(to);
    if (dtype_info[to].cls == DCLASS_FLOAT)
        return rounded(to, v);
    if (dtype_info[to].cls == DCLASS_BOOL)
        return v != 0;
    if (dtype_info[from].cls == DCLASS_FLOAT)
        return trunc(v) < all.lo ? all.lo : trunc(v) > all.hi ? all.hi : trunc(v) + 0.0;
    return v >= all.lo && v <= all.hi ? v : (double)NAN;
}

typedef struct Ew {
    OpId op;
    DType from, to; // from: of operands
    uint32_t n_src;
} Ew;

static double at_corner(const Ew *m, const double *x)
{
    if (op_info[m->op].kind != OPKIND_EW)
        return cast_of(m->from, m->to, x[0]);
    if (dtype_info[m->from].cls == DCLASS_FLOAT)
        return rounded(m->to, eval_ew_f64(m->op, x[0], x[1], x[2]));
    return on_integers(m->op, m->to, x);
}

enum { MAX_OPERANDS = 3, MAX_CORNERS = 4, MAX_TABLE = 4096 };

static uint32_t corners_of(Range r, bool is_float, double *out)
{
    uint32_t n = 0;
    out[n++] = r.lo;
    if (is_float && has(r, -0.0))
        out[n++] = -0.0;
    if (has(r, 0.0))
        out[n++] = 0.0;
    out[n++] = r.hi;
    return n;
}

static bool is_known(const Ew *m, const Range *x)
{
    const bool is_float = dtype_info[m->from].cls == DCLASS_FLOAT;
    for (uint32_t i = 0; i < m->n_src; i++)
        if (is_float ? !range_is_finite(x[i]) || (m->from != DTYPE_f32 && m->from != DTYPE_f64)
                     : x[i].lo < -most_exact || x[i].hi > most_exact)
            return false;
    return true;
}

static bool are_values(const Ew *m, const Range *x)
{
    for (uint32_t i = 0; i < m->n_src; i++)
        if (!range_is_value(x[i]))
            return false;
    return true;
}

static Range equal_range(OpId op, const Range *x)
{
    const bool same = x[0].lo == x[0].hi && x[1].lo == x[1].hi && x[0].lo == x[1].lo;
    const bool apart = x[0].hi < x[1].lo || x[1].hi < x[0].lo;
    const double v = (op == OP_eq) == same;
    return same || apart ? (Range){v, v} : (Range){0, 1};
}

static Range map_range(const Ew *m, const Range *x)
{
    const bool is_float = dtype_info[m->from].cls == DCLASS_FLOAT;
    const Range all = range_unknown(m->to);
    double corner[MAX_OPERANDS][MAX_CORNERS] = {0};
    uint32_t n[MAX_OPERANDS] = {1, 1, 1};
    if (m->op == OP_where)
        return x[0].lo == 1 ? x[1] : x[0].hi == 0 ? x[2] : hull(x[1], x[2]);
    if (!is_known(m, x))
        return all;
    if (m->op == OP_eq || m->op == OP_ne)
        return equal_range(m->op, x);
    if (!is_cornered(m->op) && (is_float || !are_values(m, x)))
        return all;
    if (m->op == OP_div && x[1].lo <= 0 && x[1].hi >= 0)
        return all;
    for (uint32_t i = 0; i < m->n_src; i++)
        n[i] = corners_of(x[i], is_float, corner[i]);
    Range r = {HUGE_VAL, -HUGE_VAL};
    for (uint32_t i = 0; i < n[0] * n[1] * n[2]; i++) {
        const double at[] = {corner[0][i % n[0]], corner[1][i / n[0] % n[1]], corner[2][i / n[0] / n[1]]};
        const double v = at_corner(m, at);
        if (isnan(v))
            return all;
        r = hull(r, (Range){v, v});
    }
    return of_type(m->to, r);
}

// --- operands ------------------------------------------------------------------------------------

// Of all elements of a constant that channel j of the result reads; axis AXIS_NONE: of all of it.
static Range const_range(const Tensor *t, uint32_t axis, int64_t j)
{
    int64_t inner = 1;
    for (uint32_t i = axis + 1; i < t->rank; i++)
        inner *= t->dim[i];
    const int64_t n = axis < t->rank ? t->dim[axis] : 1, outer = t->numel / (inner * n);
    Range r = {HUGE_VAL, -HUGE_VAL};
    if (axis >= t->rank)
        inner = t->numel;
    for (int64_t o = 0; o < (axis < t->rank ? outer : 1); o++)
        for (int64_t i = 0; i < inner; i++) {
            const double v = tensor_get_f64(t, (o * n + (axis < t->rank ? j : 0)) * inner + i);
            if (isnan(v))
                return range_unknown(t->dtype);
            r = hull(r, (Range){v, v});
        }
    return t->numel == 0 ? range_unknown(t->dtype) : r;
}

static Range range_of_all(const Prune *p, NodeId id)
{
    const Channels c = p->of[id];
    if (node_is_const(p->g, id)) {
        const Tensor t = tensor_of_const(p->g, id);
        return const_range(&t, AXIS_NONE, 0);
    }
    Range r = p->range.data[c.first];
    for (uint32_t i = 1; i < c.n; i++)
        r = hull(r, p->range.data[c.first + i]);
    return r;
}

// Of operand i, by channel of the result. False in `is_there`: the channel is none of this operand.
static void operand_ranges(const Prune *p, NodeId id, uint32_t i, Range *out, bool *is_there)
{
    const NodeId src = graph_node(p->g, id)->src[i];
    const Channels c = p->of[id];
    Link l = {0};
    uint32_t axis = AXIS_NONE;
    bool is_linked = prune_link_of(p, id, i, &l);
    const bool is_const = node_is_const(p->g, src);
    const bool is_split = c.axis != AXIS_NONE && prune_is_spread(graph_node(p->g, id));
    if (!is_linked && is_split && (is_const || concat_axis(graph_node(p->g, id)) >= 0)) {
        axis = prune_axis_at(p->g, id, i, c.axis);
        is_linked = axis != AXIS_NONE && prune_link(p, id, i, c.axis, axis, &l);
    }
    const Tensor t = tensor_if_const(p->g, src);
    const Range all = is_const && is_linked ? (Range){0} : range_of_all(p, src);
    for (uint32_t j = 0; j < c.n; j++) {
        const int64_t at = is_linked ? link_channel(&l, j) : 0;
        is_there[j] = at >= 0;
        out[j] = !is_linked || at < 0 || (!is_const && p->of[src].axis == AXIS_NONE) ? all
                 : is_const ? const_range(&t, axis, at)
                            : p->range.data[p->of[src].first + at];
    }
}

static void map_ranges(const Prune *p, NodeId id, Range *out)
{
    const Node *n = graph_node(p->g, id);
    const uint32_t count = p->of[id].n;
    rlx_assert(n->n_src <= MAX_OPERANDS);
    const Ew m = {(OpId)n->op, (DType)graph_node(p->g, n->src[n->n_src > 2 ? 1 : 0])->dtype, (DType)n->dtype,
                  n->n_src};
    Range *x[MAX_OPERANDS];
    bool *is_there = ARENA_ARRAY(p->arena, bool, count);
    for (uint32_t i = 0; i < n->n_src; i++) {
        x[i] = ARENA_ARRAY(p->arena, Range, count);
        operand_ranges(p, id, i, x[i], is_there);
    }
    for (uint32_t j = 0; j < count; j++) {
        Range at[MAX_OPERANDS] = {0};
        for (uint32_t i = 0; i < n->n_src; i++)
            at[i] = x[i][j];
        out[j] = map_range(&m, at);
    }
}

// --- ops that move elements, or choose among them ------------------------------------------------

static void moved_ranges(const Prune *p, NodeId id, Range *out)
{
    const Node *n = graph_node(p->g, id);
    const uint32_t count = p->of[id].n, n_src = concat_axis(n) >= 0 ? n->n_src : 1;
    Range *x = ARENA_ARRAY(p->arena, Range, count);
    bool *is_there = ARENA_ARRAY(p->arena, bool, count), *is_first = ARENA_ARRAY(p->arena, bool, count);
    for (uint32_t i = 0; i < n_src; i++) {
        operand_ranges(p, id, i, x, is_there);
        for (uint32_t j = 0; j < count; j++)
            if (is_there[j]) {
                out[j] = is_first[j] ? hull(out[j], x[j]) : x[j];
                is_first[j] = true;
            }
    }
}

static void each_also(const Prune *p, NodeId id, Range *out, Range also)
{
    for (uint32_t j = 0; j < p->of[id].n; j++)
        out[j] = hull(out[j], also);
}

static bool has_pads(const Prune *p, NodeId id, uint32_t n)
{
    const int64_t *pads = node_find_attr(graph_node(p->g, id), "pads")->u.ints;
    for (uint32_t i = 0; i < n; i++)
        if (pads[i] > 0)
            return true;
    return false;
}

static void pad_ranges(const Prune *p, NodeId id, Range *out)
{
    const Node *n = graph_node(p->g, id);
    moved_ranges(p, id, out);
    if (has_pads(p, id, 2 * n->shape->rank) && strcmp(node_find_attr(n, "mode")->u.str, "constant") == 0)
        each_also(p, id, out, n->n_src > 1 && n->src[1] != 0 ? range_of_all(p, n->src[1]) : (Range){0, 0});
}

// An entry of a table for each element.
static void gather_ranges(const Prune *p, NodeId id, Range *out)
{
    const Node *n = graph_node(p->g, id);
    const Tensor t = tensor_if_const(p->g, n->src[0]);
    if (t.data == NULL || t.rank != 1 || t.numel > MAX_TABLE) {
        moved_ranges(p, id, out);
        return;
    }
    Range *x = ARENA_ARRAY(p->arena, Range, p->of[id].n);
    bool *is_there = ARENA_ARRAY(p->arena, bool, p->of[id].n);
    operand_ranges(p, id, 1, x, is_there);
    for (uint32_t j = 0; j < p->of[id].n; j++) {
        const double lo = fmax(x[j].lo, -(double)t.numel), hi = fmin(x[j].hi, (double)t.numel - 1);
        Range r = {HUGE_VAL, -HUGE_VAL};
        for (double at = fmin(lo, hi); at <= fmax(lo, hi); at++) {
            const double v = tensor_get_f64(&t, (int64_t)(at < 0 ? at + (double)t.numel : at));
            r = hull(r, isnan(v) ? range_unknown(t.dtype) : (Range){v, v});
        }
        out[j] = r;
    }
}

// A window of a maximum has an element, unless it may lie in the padding.
static void max_pool_ranges(const Prune *p, NodeId id, Range *out)
{
    const Node *n = graph_node(p->g, id);
    if (!has_pads(p, id, 2 * (n->shape->rank - 2)))
        moved_ranges(p, id, out);
}

// --- means and sums ------------------------------------------------------------------------------

static double magnitude(Range r)
{
    return fmax(fabs(r.lo), fabs(r.hi));
}

static void mean_ranges(const Prune *p, NodeId id, Range *out)
{
    const Node *n = graph_node(p->g, id);
    moved_ranges(p, id, out);
    if (node_find_attr(n, "pads") != NULL && has_pads(p, id, 2 * (n->shape->rank - 2)))
        each_also(p, id, out, (Range){0, 0}); // padding may count
    for (uint32_t j = 0; j < p->of[id].n && dtype_info[n->dtype].cls == DCLASS_FLOAT; j++)
        out[j] = with_room(out[j], magnitude(out[j]) * p->room);
}

static void sum_ranges(const Prune *p, NodeId id, Range *out)
{
    const Node *n = graph_node(p->g, id);
    const Shape *s = graph_node(p->g, n->src[0])->shape;
    const DType t = (DType)n->dtype;
    const bool is_sized = shape_is_const(s) && shape_numel(n->shape) > 0;
    const double times = is_sized ? (double)(shape_numel(s) / shape_numel(n->shape)) : HUGE_VAL;
    moved_ranges(p, id, out);
    for (uint32_t j = 0; j < p->of[id].n; j++) {
        const Range all = {out[j].lo * times, out[j].hi * times};
        const bool is_float = dtype_info[t].cls == DCLASS_FLOAT;
        out[j] = !(magnitude(all) <= most_exact)
                     ? range_unknown(t)
                     : of_type(t, is_float ? with_room(all, magnitude(all) * p->room) : all);
    }
}

static void reduced_ranges(const Prune *p, NodeId id, Range *out)
{
    const OpId op = (OpId)graph_node(p->g, id)->op;
    if (op == OP_reduce_sum)
        sum_ranges(p, id, out);
    else if (op == OP_reduce_mean)
        mean_ranges(p, id, out);
    else if (op == OP_reduce_max || op == OP_reduce_min)
        moved_ranges(p, id, out);
}

// Pools, and resizes that choose among elements.
static void first_ranges(const Prune *p, NodeId id, Range *out)
{
    const Node *n = graph_node(p->g, id);
    const AttrVal *mode = node_find_attr(n, "mode"), *coord = node_find_attr(n, "coord");
    if (n->op == OP_avg_pool)
        mean_ranges(p, id, out);
    else if (n->op == OP_max_pool)
        max_pool_ranges(p, id, out);
    else if (coord != NULL && strcmp(mode->u.str, "nearest") == 0 &&
             strcmp(coord->u.str, "tf_crop_and_resize") != 0)
        moved_ranges(p, id, out);
}

// --- the table -----------------------------------------------------------------------------------

static void no_ranges(const Prune *p, NodeId id, Range *out)
{
    (void)p;
    (void)id;
    (void)out;
}

// Fills in what it knows of ranges that are those of the type, by the column `live` of ops.def.
typedef void (*RangeFn)(const Prune *p, NodeId id, Range *out);

#define same_ranges      moved_ranges
#define transpose_ranges moved_ranges
#define reshape_ranges   moved_ranges
#define slice_ranges     moved_ranges
#define concat_ranges    moved_ranges
#define pointwise_ranges map_ranges
#define none_ranges      no_ranges
#define axes_ranges      no_ranges
#define matmul_ranges    no_ranges
#define experts_ranges   no_ranges
#define but_last_ranges  no_ranges
#define decode_ranges    no_ranges
#define chosen_ranges    no_ranges

static const RangeFn rules[OP_COUNT] = {
#define LEAF(name)    [OP_##name] = no_ranges,
#define EW(name, ...) [OP_##name] = map_ranges,
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    [OP_##name] = live##_ranges,
#include "ir/graph/ops.def"
};

// Without any, a maximum is no number.
static bool has_elements(const Graph *g, const Node *n)
{
    const Shape *s = n->src[0] != 0 ? graph_node(g, n->src[0])->shape : n->shape;
    return shape_is_const(s) && shape_numel(s) > 0;
}

void prune_find_ranges(Prune *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    Range *out = p->range.data + p->of[id].first;
    for (uint32_t j = 0; j < p->of[id].n; j++)
        out[j] = range_unknown((DType)n->dtype);
    if (p->conv[id] != NULL)
        prune_conv_ranges(p, id, out);
    else if (n->n_src != 0 && has_elements(p->g, n) && n->op != OP_bitcast)
        rules[n->op](p, id, out);
}
