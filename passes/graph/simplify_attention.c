// SPDX-License-Identifier: Apache-2.0
// Attention that exporters spell out as two products with a softmax between them becomes the op: no scores
// lie in memory then. simplify_scores.c finds the steps between the products; this file makes the operands
// and the node.
#include "ir/graph/tensor.h"
#include "passes/graph/fold.h"
#include "passes/graph/simplify_scores.h"
#include "passes/graph/widen.h"

#include <math.h>

// --- operands ---

// The value with its last two axes exchanged. A transpose in front becomes another one: two would count as
// more.
static NodeId swapped(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const uint32_t rank = n.shape->rank;
    const bool is_turned = n.op == OP_transpose;
    int64_t perm[SHAPE_MAX_RANK];
    bool is_identity = is_turned;
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t from = i + 2 < rank ? i : 2 * rank - 3 - i;
        perm[i] = is_turned ? node_get_at(&n, A_transpose_perm, from, 0) : from;
        is_identity &= perm[i] == i;
    }
    return is_identity ? n.src[0] : graph_transpose(g, is_turned ? n.src[0] : id, perm);
}

// A value that an expand and a reshape repeat along the axis of heads (grouped queries), without the
// repeats; or the value itself.
static NodeId unrepeated(Graph *g, NodeId id)
{
    const Node all = *graph_node(g, id);
    const uint32_t rank = all.shape->rank;
    if (all.op != OP_reshape || rank < 3 || graph_node(g, all.src[0])->op != OP_expand)
        return id;
    const Node spread = *graph_node(g, all.src[0]), one = *graph_node(g, spread.src[0]);
    if (spread.shape->rank != rank + 1 || one.shape->rank != rank + 1 || one.shape->dim[rank - 2] != 1)
        return id;
    Shape own = {.rank = rank};
    for (uint32_t i = 0; i <= rank; i++) {
        const uint32_t to = i < rank - 2 ? i : i - 1;
        if (i == rank - 2)
            continue;
        own.dim[to] = one.shape->dim[i];
        if (own.dim[to] != spread.shape->dim[i] || (to != rank - 3 && own.dim[to] != all.shape->dim[to]))
            return id;
    }
    return graph_reshape(g, spread.src[0], &own);
}

// The value with the axes of `lead` in front of its last two; an axis of heads with one element stays as it
// is. 0: it has others.
static NodeId with_lead(const Simplify *s, NodeId id, const Shape *lead, NodeId like)
{
    const Shape own = *graph_node(s->g, id)->shape;
    const uint32_t rank = lead->rank, missing = rank - own.rank;
    Shape to = *lead;
    if (own.rank > rank || own.rank < 2)
        return 0;
    for (uint32_t i = 0; i < rank; i++) {
        const Dim d = i < missing ? 1 : own.dim[i - missing];
        const bool is_head = i + 3 == rank;
        if (i + 2 < rank && d != lead->dim[i] && d != 1 &&
            !(is_head && dim_is_const(d) && dim_is_const(lead->dim[i]) && lead->dim[i] % d == 0))
            return 0;
        if (i + 2 >= rank || is_head)
            to.dim[i] = d;
    }
    if (shape_equal(&to, &own))
        return id;
    NodeBuild b = simplify_begin(s, OP_expand, like);
    node_src(&b, id);
    node_ints(&b, A_expand_shape, to.dim, to.rank);
    return node_end(&b);
}

// --- masks ---

static NodeId number(Graph *g, DType t, double v)
{
    return graph_scalar(g, t, v, (Span){0});
}

static NodeId folded(Graph *g, NodeId id)
{
    return id != 0 ? fold_node(g, id) : 0;
}

// The mask in the shape of the work, times its factor. 0: it does not fit.
static NodeId mask_in(const Simplify *s, const ScoresMask *m, const Shape *work)
{
    NodeId id = scores_split_mask(s->g, m, work);
    if (id != 0 && m->factor != 1 && !m->is_choice)
        id = folded(s->g, graph_op2(s->g, OP_mul, id, number(s->g, graph_node(s->g, id)->dtype, m->factor)));
    return id;
}

// The sum of all masks. False: they do not fit. *out stays 0 where there are none.
static bool join_masks(const Simplify *s, const Scores *x, DType type, NodeId *out)
{
    Graph *g = s->g;
    for (uint32_t i = 0; i < x->n_masks; i++) {
        const NodeId m = mask_in(s, &x->mask[i], &x->work);
        if (m == 0 || graph_node(g, m)->dtype != (x->mask[i].is_choice ? DTYPE_bool : type))
            return false;
        *out = *out == 0 ? m : folded(g, graph_op2(g, OP_add, m, *out));
    }
    return true;
}

// Which rows of a mask hide all keys, with one element along the last axis.
static NodeId blind_rows(const Simplify *s, NodeId mask, DType type)
{
    Graph *g = s->g;
    const NodeId lowest = number(g, type, -(double)INFINITY);
    if (graph_node(g, mask)->dtype == DTYPE_bool)
        mask = folded(g, graph_op3(g, OP_where, mask, number(g, type, 0), lowest));
    const int64_t last = (int64_t)graph_node(g, mask)->shape->rank - 1;
    NodeBuild b = simplify_begin(s, OP_reduce_max, mask);
    node_reduce(&b, mask, &last, 1, true);
    return folded(g, graph_op2(g, OP_eq, folded(g, node_end(&b)), lowest));
}

enum { MAX_LOOKED = 16 };

static bool has_lowest(const Tensor *t)
{
    for (int64_t i = 0; i < t->numel; i++)
        if (tensor_get_f64(t, i) == -HUGE_VAL)
            return true;
    return false;
}

// Could the mask hide keys? A choice between finite numbers, for one, cannot.
static bool may_hide(const Graph *g, NodeId id)
{
    NodeId open[MAX_LOOKED] = {id};
    for (uint32_t n = 1, looked = 0; n > 0; looked++) {
        const Node *x = graph_node(g, open[--n]);
        const bool is_choice = x->op == OP_where;
        const bool is_kept = x->op == OP_reshape || x->op == OP_expand || x->op == OP_transpose;
        if (x->op == OP_const) {
            const Tensor t = tensor_of_const(g, (NodeId)(x - g->nodes.data));
            if (has_lowest(&t))
                return true;
        } else if ((!is_choice && !is_kept) || n + 2 > MAX_LOOKED || looked == MAX_LOOKED) {
            return true;
        } else {
            open[n++] = x->src[is_choice ? 1 : 0];
            if (is_choice)
                open[n++] = x->src[2];
        }
    }
    return false;
}

// --- the node ---

typedef struct Operands {
    NodeId q, k, v, mask;
} Operands;

static Dim heads_of(const Graph *g, NodeId id)
{
    const Shape *s = graph_node(g, id)->shape;
    return s->rank >= 3 ? s->dim[s->rank - 3] : 1;
}

// Queries, keys and values with equal axes in front, of the products; keys and values may have fewer heads.
// False: they do not fit.
static bool read_operands(const Simplify *s, const Scores *x, NodeId like, Operands *o)
{
    Graph *g = s->g;
    const Node first = *graph_node(g, x->product), last = *graph_node(g, like);
    const Shape *lead = first.shape, *lead_v = graph_node(g, last.src[0])->shape;
    o->q = x->q_turned ? swapped(g, x->q) : x->q;
    o->k = x->k_turned ? swapped(g, x->k) : x->k;
    o->v = node_get_int(&last, A_matmul_transpose_b) ? swapped(g, last.src[1]) : last.src[1];
    const NodeId k = unrepeated(g, o->k), v = unrepeated(g, o->v);
    if (heads_of(g, k) == heads_of(g, v)) {
        o->k = k;
        o->v = v;
    }
    o->q = with_lead(s, o->q, lead, like);
    o->k = with_lead(s, o->k, lead, like);
    o->v = with_lead(s, o->v, lead_v, like);
    return o->q != 0 && o->k != 0 && o->v != 0 && heads_of(g, o->k) == heads_of(g, o->v);
}

// A value of [..., rows, columns] with the axes of the work in front.
static NodeId in_work(Graph *g, NodeId id, const Shape *work)
{
    const Shape own = *graph_node(g, id)->shape;
    Shape to = *work;
    to.dim[to.rank - 2] = own.dim[own.rank - 2];
    to.dim[to.rank - 1] = own.dim[own.rank - 1];
    return graph_reshape(g, id, &to);
}

// All of them with the axes of the work in front. Keys and values with heads of their own stay as they are,
// which only fits where the products have the axes of the work.
static bool settle_shapes(const Simplify *s, const Scores *x, const Shape *lead_v, Operands *o)
{
    Graph *g = s->g;
    const Shape *lead = graph_node(g, x->product)->shape;
    const bool is_same = shape_equal(lead, &x->work) && shape_equal(lead_v, &x->work);
    const Dim heads = lead->rank >= 3 ? lead->dim[lead->rank - 3] : 1;
    const bool is_grouped = heads_of(g, o->k) != heads;
    if (heads_of(g, o->q) != heads || (is_grouped && !is_same))
        return false;
    if (is_same)
        return true;
    o->q = in_work(g, o->q, &x->work);
    o->k = in_work(g, o->k, &x->work);
    o->v = in_work(g, o->v, &x->work);
    return true;
}

static NodeId build(const Simplify *s, const Scores *x, const Operands *o, NodeId like)
{
    NodeBuild b = simplify_begin(s, OP_attention, like);
    const NodeId src[] = {o->q, o->k, o->v, o->mask, x->live};
    for (uint32_t i = 0; i < (x->live != 0 ? 5 : o->mask != 0 ? 4 : 3); i++)
        node_src(&b, src[i]);
    node_float(&b, A_attention_scale, x->scale);
    node_float(&b, A_attention_softcap, x->softcap);
    node_int(&b, A_attention_guard, x->is_guarded);
    return widen_node(s->g, s->caps, node_end(&b));
}

// Is a whole matrix added to the scores of each head?
static bool has_matrix_mask(const Simplify *s, const Scores *x)
{
    for (uint32_t i = 0; i < x->n_masks; i++) {
        const Shape *m = graph_node(s->g, x->mask[i].id)->shape;
        if (m->rank >= 2 && scores_same_matrices(m, x->mask[i].at))
            return true;
    }
    return false;
}

// On GPUs always. A CPU computes products and softmax as fast one after the other where all scores stay in a
// cache of its own; with a matrix for a mask, also where they exceed it somewhat. With sizes that a run
// decides, scores of the largest ones would lie in memory.
static bool pays(const Simplify *s, const Scores *x)
{
    const bool has_matrix = has_matrix_mask(s, x);
    const double enough = (has_matrix ? 4.0 : 1.0) * s->caps->cpu.l2_bytes;
    double bytes = sizeof(float);
    bool is_open = x->live != 0;
    for (uint32_t i = 0; i < x->work.rank; i++) {
        int64_t low = 0, high = 0;
        dim_range(s->g->dims, x->work.dim[i], &low, &high);
        bytes *= (double)high;
        is_open |= low != high;
    }
    return s->caps->is_gpu || bytes > enough || (is_open && !has_matrix);
}

static bool has_elements(const Shape *s)
{
    return !shape_is_const(s) || shape_numel(s) > 0;
}

// Do all rows of a constant mask of bools see key 0, so that none is blind, however many keys there are?
static bool all_see_first(const Graph *g, NodeId mask)
{
    if (!node_is_const(g, mask))
        return false;
    const Tensor t = tensor_of_const(g, mask);
    const int64_t keys = t.rank > 0 ? t.dim[t.rank - 1] : 1;
    for (int64_t i = 0; i < t.numel; i += keys)
        if (tensor_get_f64(&t, i) == 0)
            return false;
    return true;
}

// What softmax makes of a row without a visible key, and the op 0: NaN, or the mean of the values where
// hidden scores are a finite number. SAME: the op's.
typedef enum Blind { BLIND_SAME, BLIND_NAN, BLIND_MEAN } Blind;

static Blind blind_of(const Graph *g, const Scores *x, NodeId mask)
{
    const bool is_choice = x->n_masks > 0 && x->mask[0].is_choice;
    if (mask == 0 || (is_choice && all_see_first(g, mask)))
        return BLIND_SAME;
    if (is_choice && x->mask[0].factor != -HUGE_VAL)
        return BLIND_MEAN;
    return !x->is_guarded && may_hide(g, mask) ? BLIND_NAN : BLIND_SAME;
}

NodeId simplify_spelled_attention(const Simplify *s, NodeId id)
{
    Graph *g = s->g;
    const Node n = *graph_node(g, id);
    Scores x;
    Operands o = {0};
    if (dtype_info[n.dtype].cls != DCLASS_FLOAT || !has_elements(n.shape) || !scores_read(s, id, &x) ||
        !has_elements(&x.work) || !pays(s, &x) || !read_operands(s, &x, id, &o) ||
        !settle_shapes(s, &x, graph_node(g, n.src[0])->shape, &o) ||
        graph_node(g, o.q)->dtype != n.dtype || !join_masks(s, &x, (DType)n.dtype, &o.mask))
        return id;
    const Blind blinds = blind_of(g, &x, o.mask);
    if (blinds == BLIND_MEAN || (blinds == BLIND_NAN && x.live != 0))
        return id;
    NodeId y = build(s, &x, &o, id);
    if (blinds == BLIND_NAN) {
        const NodeId blind = blind_rows(s, o.mask, (DType)n.dtype);
        y = graph_op3(g, OP_where, blind, number(g, (DType)n.dtype, (double)NAN), y);
        y = fold_node(g, y);
    }
    return graph_reshape(g, y, n.shape);
}
