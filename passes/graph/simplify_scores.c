// SPDX-License-Identifier: Apache-2.0
// Reads attention that is spelled out, from its second product upwards. Each step between the products is
// one op of a table, with one user. A step says what it means for the scores, and where they come from;
// where a sum could take them from both of its operands, one is tried after the other.
#include "passes/graph/simplify_scores.h"

#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"
#include "passes/graph/fold.h"
#include "passes/graph/rules.h"
#include "passes/graph/split_shape.h"

#include <math.h>

typedef struct Walk {
    const Simplify *s;
    Scores x;
    NodeId at;        // the scores so far
    double factor;    // that what comes from above is multiplied by
    bool takes_masks; // nothing that a mask cannot pass lies behind
    bool has_live;    // keys behind those that count are hidden
    const Shape *shape[SCORES_MAX_STEPS];
    uint32_t n_shapes;
} Walk;

static const Node *node_at(const Walk *w)
{
    return graph_node(w->s->g, w->at);
}

// The number that all elements of a constant are.
static bool is_number(const Graph *g, NodeId id, double *out)
{
    if (!node_is_const(g, id) || !shape_is_const(graph_node(g, id)->shape))
        return false;
    const Tensor t = tensor_of_const(g, id);
    *out = t.numel > 0 ? tensor_get_f64(&t, 0) : 0;
    return t.numel > 0 && rule_is_number(g, id, *out);
}

static bool goes_on(Walk *w, NodeId id)
{
    const Graph *g = w->s->g;
    const bool is_same = shape_equal(graph_node(g, id)->shape, node_at(w)->shape);
    if (!is_same || w->s->uses[id] != 1)
        return false;
    w->at = id;
    return true;
}

static bool add_mask(Walk *w, NodeId id, double factor)
{
    if (!w->takes_masks || w->x.n_masks == SCORES_MAX_MASKS)
        return false;
    w->x.mask[w->x.n_masks++] = (ScoresMask){.id = id, .factor = factor, .at = node_at(w)->shape};
    return true;
}

// --- steps ---

static bool read_scores(Walk *w, uint32_t depth);

bool scores_same_matrices(const Shape *a, const Shape *b)
{
    return a->rank >= 2 && b->rank >= 2 && a->dim[a->rank - 1] == b->dim[b->rank - 1] &&
           a->dim[a->rank - 2] == b->dim[b->rank - 2];
}

// Only axes in front of the matrices are joined and split.
static bool step_reshape(Walk *w, uint32_t depth)
{
    const Node *n = node_at(w);
    const Shape *from = graph_node(w->s->g, n->src[0])->shape;
    if (!shape_is_const(from) || !shape_is_const(n->shape) || !scores_same_matrices(from, n->shape) ||
        w->s->uses[n->src[0]] != 1 || w->n_shapes == SCORES_MAX_STEPS)
        return false;
    w->shape[w->n_shapes++] = from;
    w->at = n->src[0];
    return read_scores(w, depth);
}

// The op computes in f32.
static bool step_cast(Walk *w, uint32_t depth)
{
    const Node *n = node_at(w), *x = graph_node(w->s->g, n->src[0]);
    const bool is_wide = n->dtype == DTYPE_f32 && (x->dtype == DTYPE_f16 || x->dtype == DTYPE_bf16);
    return is_wide && goes_on(w, n->src[0]) && read_scores(w, depth);
}

static bool step_sum(Walk *w, uint32_t depth)
{
    const Node n = *node_at(w);
    const Walk before = *w;
    for (uint32_t i = 0; i < 2; i++) {
        const double sign = n.op == OP_sub ? -1 : 1;
        *w = before;
        if (i == 1 && n.op == OP_sub)
            return false;
        if (add_mask(w, n.src[1 - i], w->factor * sign) && goes_on(w, n.src[i]) && read_scores(w, depth))
            return true;
    }
    return false;
}

// softcap * tanh(score / softcap): masks are added behind it.
static bool step_softcap(Walk *w, double cap, uint32_t depth)
{
    const Node *n = node_at(w);
    if (!(cap > 0) || w->x.softcap != 0 || n->op != OP_tanh)
        return false;
    w->x.softcap = cap;
    w->factor = cap;
    w->takes_masks = false;
    return goes_on(w, n->src[0]) && read_scores(w, depth);
}

static bool step_scale(Walk *w, uint32_t depth)
{
    const Node n = *node_at(w);
    double v = 0;
    const uint32_t at = n.op == OP_mul && is_number(w->s->g, n.src[0], &v) ? 1 : 0;
    if (!is_number(w->s->g, n.src[1 - at], &v) || !isfinite(v) || v == 0 || !goes_on(w, n.src[at]))
        return false;
    const double factor = n.op == OP_div ? 1 / v : v;
    if (node_at(w)->op == OP_tanh)
        return step_softcap(w, w->factor * factor, depth);
    w->factor *= factor;
    return read_scores(w, depth);
}

// Is the mask i < size, along the keys? The extent pass hides keys in this way that a run does not have, and
// the product behind takes as many of them as `live` says.
static bool is_live_mask(const Graph *g, NodeId mask, Dim keys, NodeId live)
{
    const Node *n = graph_node(g, mask);
    const uint32_t rank = n->shape->rank;
    for (uint32_t i = 0; i + 1 < rank; i++)
        if (n->shape->dim[i] != 1)
            return false;
    while (n->op == OP_reshape || n->op == OP_expand)
        n = graph_node(g, n->src[0]);
    if (n->op != OP_lt || n->src[1] != live || !node_is_const(g, n->src[0]))
        return false;
    const Tensor t = tensor_of_const(g, n->src[0]);
    if (t.numel != keys || dtype_info[t.dtype].cls == DCLASS_FLOAT)
        return false;
    for (int64_t i = 0; i < t.numel; i++)
        if (tensor_get_i64(&t, i) != i)
            return false;
    return true;
}

// Does a score of this number have no weight beside any finite one?
static bool is_lowest(DType t, double v)
{
    return v <= (t == DTYPE_f16 ? -65504 : -1e30);
}

// Scores where a condition holds, or (at 2) where it does not; else the lowest number. The op chooses as
// well, so that a NaN of a hidden key is lost in both.
static bool read_choice(Walk *w, const Node *n, uint32_t at, double fill)
{
    const bool is_same = w->factor == 1 || (w->factor > 0 && fill == -HUGE_VAL);
    if (!w->takes_masks || w->x.n_masks > 0 || !is_same)
        return false;
    Graph *g = w->s->g;
    const NodeId keeps = at == 1 ? n->src[0] : fold_node(g, graph_op1(g, OP_logical_not, n->src[0]));
    w->x.mask[w->x.n_masks++] =
        (ScoresMask){.id = keeps, .factor = fill, .is_choice = true, .at = node_at(w)->shape};
    w->takes_masks = false;
    return true;
}

// Keys that a run does not have are hidden from the op too, whatever their scores are.
static bool step_where(Walk *w, uint32_t depth)
{
    const Node n = *node_at(w);
    const Dim keys = n.shape->dim[n.shape->rank - 1];
    double fill = 0;
    const uint32_t at = is_number(w->s->g, n.src[2], &fill) ? 1 : 2;
    if ((at == 2 && !is_number(w->s->g, n.src[1], &fill)) || !is_lowest((DType)n.dtype, fill))
        return false;
    const bool is_live = at == 1 && fill == -HUGE_VAL && w->x.live != 0 && !w->has_live && w->factor > 0 &&
                         is_live_mask(w->s->g, n.src[0], keys, w->x.live);
    w->has_live |= is_live;
    return (is_live || read_choice(w, &n, at, fill)) && goes_on(w, n.src[at]) && read_scores(w, depth);
}

// --- the first product ---

// Takes the factors and transposes off an operand of the product, also from behind views. is_turned: its
// last two axes have to change places.
static NodeId bare_operand(const Walk *w, NodeId id, double *factor)
{
    enum { MAX_VIEWS = 8 };
    Graph *g = w->s->g;
    NodeId view[MAX_VIEWS];
    uint32_t n = 0;
    NodeId at = id;
    double all = 1;
    for (;;) {
        const Node *x = graph_node(g, at);
        double v = 0;
        const bool is_scaled = (x->op == OP_mul || x->op == OP_div) && is_number(g, x->src[1], &v) &&
                               shape_equal(graph_node(g, x->src[0])->shape, x->shape);
        if (is_scaled && isfinite(v) && v != 0) {
            all *= x->op == OP_mul ? v : 1 / v;
            at = x->src[0];
        } else if ((x->op == OP_reshape || x->op == OP_transpose) && n < MAX_VIEWS && w->s->uses[at] == 1) {
            view[n++] = at;
            at = x->src[0];
        } else {
            break;
        }
    }
    if (all == 1)
        return id;
    *factor *= all;
    while (n > 0)
        at = graph_clone_node(g, g, view[--n], &at);
    return at;
}

static bool step_product(Walk *w, uint32_t depth)
{
    (void)depth;
    Graph *g = w->s->g;
    const Node n = *node_at(w);
    const Shape *a = graph_node(g, n.src[0])->shape, *b = graph_node(g, n.src[1])->shape;
    if (a->rank < 2 || b->rank < 2 || (n.n_src > 2 && n.src[2] != 0))
        return false;
    const MatmulForm form = matmul_form(&n);
    w->x.product = w->at;
    w->x.q = bare_operand(w, n.src[0], &w->factor);
    w->x.k = bare_operand(w, n.src[1], &w->factor);
    w->x.q_turned = form.turns_a;
    w->x.k_turned = !form.turns_b;
    w->x.scale = w->factor;
    const Dim size = a->dim[a->rank - (form.turns_a ? 2 : 1)];
    return dim_is_const(size) && size > 0 && isfinite(w->factor) && w->factor != 0;
}

typedef bool (*StepFn)(Walk *w, uint32_t depth);

static const StepFn steps[OP_COUNT] = {
    [OP_reshape] = step_reshape, [OP_cast] = step_cast,      [OP_add] = step_sum,
    [OP_sub] = step_sum,         [OP_mul] = step_scale,      [OP_div] = step_scale,
    [OP_where] = step_where,     [OP_matmul] = step_product,
};

static bool read_scores(Walk *w, uint32_t depth)
{
    const StepFn fn = steps[node_at(w)->op];
    return fn != NULL && depth < SCORES_MAX_STEPS && fn(w, depth + 1);
}

// --- behind the softmax ---

static bool pass_reshape(Walk *w)
{
    const Node *n = node_at(w);
    if (n->op != OP_reshape || w->s->uses[n->src[0]] != 1 || w->n_shapes == SCORES_MAX_STEPS)
        return false;
    const Shape *from = graph_node(w->s->g, n->src[0])->shape;
    if (!scores_same_matrices(from, n->shape))
        return false;
    w->shape[w->n_shapes++] = from;
    w->at = n->src[0];
    return true;
}

static bool pass_cast(Walk *w)
{
    const Node *n = node_at(w);
    const DType t = (DType)n->dtype;
    return n->op == OP_cast && (t == DTYPE_f16 || t == DTYPE_bf16) &&
           graph_node(w->s->g, n->src[0])->dtype == DTYPE_f32 && goes_on(w, n->src[0]);
}

// Exporters put 0 in place of weights that are NaN, which those of a row without a visible key are.
static bool pass_guard(Walk *w)
{
    const Graph *g = w->s->g;
    const Node *n = node_at(w);
    double zero = 1;
    if (n->op != OP_where || w->x.is_guarded || !is_number(g, n->src[1], &zero) || zero != 0)
        return false;
    const NodeId y = n->src[2];
    const Node *test = graph_node(g, n->src[0]);
    if (test->op != OP_is_nan || test->src[0] != y || w->s->uses[n->src[0]] != 1 || w->s->uses[y] != 2)
        return false;
    w->x.is_guarded = true;
    w->at = y;
    return true;
}

// From the operand of the second product to that of the softmax.
static bool pass_softmax(Walk *w)
{
    while (pass_reshape(w) || pass_cast(w) || pass_guard(w)) {
    }
    const Node *n = node_at(w);
    return n->op == OP_softmax && node_get_int(n, A_softmax_axis) == n->shape->rank - 1 &&
           goes_on(w, n->src[0]);
}

// --- sizes ---

// The shape in which all steps can be said: the scores' own, or one that splits the axes of all of them.
static bool find_work(Walk *w)
{
    Scores *x = &w->x;
    const Shape *own = graph_node(w->s->g, x->product)->shape;
    x->work = *own;
    for (uint32_t i = 0; i < w->n_shapes; i++) {
        const Shape before = x->work;
        uint32_t ends[2][SHAPE_MAX_RANK];
        if (!shape_equal(w->shape[i], &before) &&
            !split_shapes(&before, w->shape[i], &x->work, ends[0], ends[1]))
            return false;
    }
    if (x->work.rank == 2)
        x->work = shape_insert(&x->work, 0, 1);
    return x->work.rank >= 3 && scores_same_matrices(&x->work, own);
}

NodeId scores_split_mask(Graph *g, const ScoresMask *m, const Shape *work)
{
    uint32_t end_at[SHAPE_MAX_RANK], end_work[SHAPE_MAX_RANK];
    Shape fine;
    if (shape_equal(m->at, work) || m->at->rank == 2)
        return m->id;
    return split_shapes(m->at, work, &fine, end_at, end_work) && shape_equal(&fine, work)
               ? split_weight(g, m->id, m->at, work, end_at)
               : 0;
}

bool scores_read(const Simplify *s, NodeId id, Scores *x)
{
    const Node n = *graph_node(s->g, id);
    rlx_assert(n.op == OP_matmul && n.n_src >= 2);
    Walk w = {.s = s, .at = n.src[0], .factor = 1, .takes_masks = true};
    const Node *p = graph_node(s->g, n.src[0]);
    if (node_get_int(&n, A_matmul_transpose_a) || p->shape->rank < 2 || s->uses[n.src[0]] != 1 ||
        graph_node(s->g, n.src[1])->shape->rank < 2)
        return false;
    w.shape[w.n_shapes++] = p->shape;
    w.x.live = n.n_src > 2 ? n.src[2] : 0;
    if (!pass_softmax(&w) || !read_scores(&w, 0) || w.has_live != (w.x.live != 0) ||
        !find_work(&w))
        return false;
    *x = w.x;
    return true;
}
