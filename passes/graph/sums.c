// SPDX-License-Identifier: Apache-2.0
// Sums on GPUs whose results are fewer than the groups that keep the device busy: a group of threads has a
// result, so the axis is cut into parts, each of which is a result of its own, and a second reduction joins
// them in order. Products of matrices with few results and long k become such sums: where there is not enough
// for tiles, a thread would have all of k. Long rows of other operations are cut by long_rows.c and
// long_norms.c.
#include "ir/machine/machine.h"
#include "ir/shape/forms.h"
#include "ir/shape/shape.h"
#include "passes/graph/last_updates.h"
#include "passes/graph/long_norms.h"
#include "passes/graph/long_rows.h"
#include "passes/pass.h"

enum {
    FULL_GROUPS = 2,   // of each processor, that keep it busy
    LEAST_PART = 2048, // elements that are worth a group of threads
    ACROSS = 8,        // results that a group has at least, whose elements are neighbours
    VECTORS = 32,      // elements that neighbours read in whole vectors
    MIN_TILE = 8,      // rows and columns that tiles have at least
    MIN_RESULTS = 1024,
    MIN_K = 128,        // of a thread's own sum; less is no longer than another launch
    // k of which a few warps read rows at once (matvec.h); of many rows.
    MOST_OF_ROWS = 8192,
    LONGEST_ROWS = 65536
};
static const double launch_us = 2, gain = 2; // so many launches must be saved

static NodeId reduce(Graph *g, OpId op, NodeId x, const int64_t *axes, uint32_t n)
{
    NodeBuild b = node_begin(g, op, node_span(g, x), g->labels.data[x]);
    node_reduce(&b, x, axes, n, false);
    return node_end(&b);
}

// A sum: so many results of `count` elements each, along an axis that can be cut. across: neighbours in
// memory belong to different results, so that a group of threads has some of these.
typedef struct Sum {
    int64_t rows, count, axis;
    int dtype;
    bool across;
} Sum;

// Parts into which the axis is cut; 1: it is not worth another launch. Parts are equal, by a divisor of the
// size; where there is none, a sum of its own has what is left. Groups across have whole rows of results.
static int64_t count_parts(const GpuMachine *m, const Sum *s)
{
    const int64_t share = s->across ? ACROSS : 1, full = FULL_GROUPS * m->processors * share;
    const double bytes = (double)s->count * dtype_info[s->dtype].bytes * (double)share;
    int64_t most = s->count / (LEAST_PART / share), best = 1;
    most = most < s->axis ? most : s->axis;
    most = most < full / s->rows + 1 ? most : full / s->rows + 1;
    if (bytes / 1000 / m->copy_rate < gain * launch_us || most < 2)
        return 1;
    for (int64_t n = most; best == 1 && n > 1 && n > most / 2; n--)
        best = s->axis % n == 0 && s->rows * n % share == 0 ? n : 1;
    return best > 1 ? best : most > share ? most - most % share : most;
}

// Elements of the axis that equal parts have together.
static int64_t count_whole(const Sum *s, int64_t parts)
{
    const int64_t step = s->across || s->axis % parts == 0 ? 1 : VECTORS;
    return s->axis / parts / step * step * parts;
}

static bool is_summed_in_f32(int dtype)
{
    return dtype == DTYPE_f32 || k_is_half(dtype);
}

// --- reductions ----------------------------------------------------------------------------------

// Rules for elements beyond the live ones: means have their own.
static const char *const beyond_of[OP_COUNT] = {
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    [OP_##name] = #beyond,
#include "ir/graph/ops.def"
};

static bool is_mean(const Node *n)
{
    return str_equal(beyond_of[n->op], "mean");
}

// Sums, products, extremes and means of floats, and those but means of integers.
static bool can_cut(const Graph *g, const Node *n)
{
    const bool is_reduction = node_find_attr(n, "axes") != NULL && node_find_attr(n, "keepdims") != NULL;
    return is_reduction && shape_is_const(graph_node(g, n->src[0])->shape) && shape_numel(n->shape) > 0 &&
           (is_summed_in_f32(n->dtype) || (n->dtype == DTYPE_i32 && !is_mean(n)));
}

static uint32_t read_axes(const Graph *g, const Node *n, int64_t *axes)
{
    const AttrVal *v = node_find_attr(n, "axes");
    const uint32_t rank = graph_node(g, n->src[0])->shape->rank;
    rlx_assert(v->len <= rank);
    for (uint32_t i = 0; i < v->len; i++)
        axes[i] = v->u.ints[i];
    return (uint32_t)v->len;
}

// The elements of axis `cut` before `whole` in parts, then all that is left.
typedef struct Cut {
    int64_t cut, parts, whole;
    int64_t axes[SHAPE_MAX_RANK]; // of the reduction
    uint32_t n_axes;
} Cut;

// The parts, along the axis `kept` of the result.
static NodeId reduce_parts(Graph *g, OpId op, NodeId x, const Cut *c, int64_t *kept)
{
    Shape s = *graph_node(g, x)->shape;
    int64_t axes[SHAPE_MAX_RANK];
    for (uint32_t i = s.rank++; (int64_t)i > c->cut; i--)
        s.dim[i] = s.dim[i - 1];
    s.dim[c->cut] = c->parts;
    s.dim[c->cut + 1] /= c->parts;
    *kept = c->cut;
    for (uint32_t i = 0; i < c->n_axes; i++) {
        axes[i] = c->axes[i] + (c->axes[i] >= c->cut);
        *kept -= c->axes[i] < c->cut;
    }
    return reduce(g, op, graph_reshape(g, x, &s), axes, c->n_axes);
}

// What is left is one more of the parts.
static NodeId join_rest(Graph *g, NodeId parts, NodeId rest, int64_t kept)
{
    Shape one = *graph_node(g, parts)->shape;
    one.dim[kept] = 1;
    const NodeId part[] = {parts, graph_reshape(g, rest, &one)};
    NodeBuild b = node_begin(g, OP_concat, node_span(g, parts), g->labels.data[parts]);
    node_concat(&b, part, 2, kept);
    return node_end(&b);
}

static NodeId scaled(Graph *g, NodeId x, double by)
{
    return graph_op2(g, OP_mul, x, graph_scalar(g, (DType)graph_node(g, x)->dtype, by, node_span(g, x)));
}

static NodeId reduce_all(Graph *g, const Node *n, NodeId x, const Cut *c)
{
    const int64_t size = graph_node(g, x)->shape->dim[c->cut];
    int64_t kept = 0;
    const NodeId parts = reduce_parts(g, (OpId)n->op, graph_slice(g, x, c->cut, 0, c->whole, 1), c, &kept);
    if (c->whole == size)
        return reduce(g, (OpId)n->op, parts, &kept, 1);
    const NodeId rest =
        reduce(g, (OpId)n->op, graph_slice(g, x, c->cut, c->whole, size, 1), c->axes, c->n_axes);
    if (!is_mean(n))
        return reduce(g, (OpId)n->op, join_rest(g, parts, rest, kept), &kept, 1);
    const double share = (double)c->whole / (double)size;
    const NodeId first = scaled(g, reduce(g, (OpId)n->op, parts, &kept, 1), share);
    return graph_op2(g, OP_add, first, scaled(g, rest, 1 - share));
}

static NodeId cut_reduction(Graph *g, NodeId id, const GpuMachine *m)
{
    const Node n = *graph_node(g, id);
    const Shape *x = graph_node(g, n.src[0])->shape;
    Cut c = {0};
    c.n_axes = read_axes(g, &n, c.axes);
    bool across = true;
    for (uint32_t i = 0; i < c.n_axes; i++) {
        c.cut = i == 0 || x->dim[c.axes[i]] > x->dim[c.cut] ? c.axes[i] : c.cut; // the longest
        across = across && c.axes[i] + 1 < x->rank;
    }
    if (c.n_axes == 0 || x->rank == SHAPE_MAX_RANK)
        return id;
    const int64_t rows = shape_numel(n.shape);
    const Sum sum = {rows, shape_numel(x) / rows, x->dim[c.cut], n.dtype, across};
    c.parts = count_parts(m, &sum);
    c.whole = count_whole(&sum, c.parts);
    if (c.parts == 1)
        return id;
    const NodeId all = graph_cast(g, n.src[0], k_is_half(n.dtype) ? DTYPE_f32 : (DType)n.dtype);
    return graph_reshape(g, graph_cast(g, reduce_all(g, &n, all, &c), (DType)n.dtype), n.shape);
}

// --- products ------------------------------------------------------------------------------------

typedef struct Product {
    int64_t batch, m, n, k;
} Product;

static bool read_product(const Graph *g, const Node *n, Product *out)
{
    const MatmulForm form = matmul_form(n);
    if (!form.is_there || (n->n_src > 2 && n->src[2] != 0) || !is_summed_in_f32(n->dtype))
        return false;
    const Node *a = graph_node(g, n->src[0]), *b = graph_node(g, n->src[1]);
    const uint32_t rank_a = a->shape->rank, rank_b = b->shape->rank;
    if (rank_a < 2 || rank_b < 2 || n->shape->rank + 2 > SHAPE_MAX_RANK ||
        !shape_is_const(a->shape) || !shape_is_const(b->shape) || shape_numel(n->shape) == 0 ||
        !is_summed_in_f32(a->dtype) || !is_summed_in_f32(b->dtype))
        return false;
    out->m = n->shape->dim[n->shape->rank - 2];
    out->n = n->shape->dim[n->shape->rank - 1];
    out->k = a->shape->dim[rank_a - (form.turns_a ? 2 : 1)];
    out->batch = shape_numel(n->shape) / out->m / out->n;
    return true;
}

// Has the product tiles, or do warps read all of a row at once?
static bool has_schedule(const Graph *g, const Node *n, const Product *p)
{
    const int64_t least = p->m < p->n ? p->m : p->n, most = p->m < p->n ? p->n : p->m;
    const Node *b = graph_node(g, n->src[1]);
    const int64_t vector = 16 / dtype_info[b->dtype].bytes;
    const bool is_plain = p->batch == 1 && graph_node(g, n->src[0])->shape->rank == 2 && b->shape->rank == 2;
    const bool is_read = matmul_form(n).turns_b || node_is_const(g, n->src[1]) || (most <= MIN_TILE);
    const int64_t longest = p->m * p->n >= MIN_RESULTS ? LONGEST_ROWS : MOST_OF_ROWS;
    return (least >= MIN_TILE && p->batch * p->m * p->n >= MIN_RESULTS) ||
           (is_plain && is_read && p->k % vector == 0 && p->k <= longest && least <= MIN_TILE);
}

static bool wants_sums(const Graph *g, const Node *n, const Product *p, const GpuMachine *m)
{
    const int64_t results = p->batch * p->m * p->n, least = p->m < p->n ? p->m : p->n;
    return p->k >= MIN_K && least <= MIN_TILE && results * MIN_TILE <= (int64_t)gpu_about_threads(m) &&
           !has_schedule(g, n, p);
}

// An operand as [..., m, 1, parts, k / parts], or [..., 1, n, parts, k / parts].
static NodeId spread(Graph *g, NodeId x, bool is_k_last, bool is_right, int64_t parts)
{
    Shape s = *graph_node(g, x)->shape;
    const uint32_t lead = s.rank - 2;
    const int64_t k = s.dim[lead + is_k_last], rows = s.dim[lead + !is_k_last];
    const int64_t in_place[] = {is_right ? 1 : rows, is_right ? rows : 1, parts, k / parts};
    const int64_t turned[] = {1, parts, k / parts, rows};
    const int64_t order[] = {is_right ? 0 : 3, is_right ? 3 : 0, 1, 2};
    int64_t perm[SHAPE_MAX_RANK];
    s.rank = lead + 4;
    for (uint32_t i = 0; i < s.rank; i++)
        perm[i] = i < lead ? i : lead + order[i - lead];
    for (uint32_t i = lead; i < s.rank; i++)
        s.dim[i] = (is_k_last ? in_place : turned)[i - lead];
    x = graph_reshape(g, x, &s);
    return is_k_last ? x : graph_transpose(g, x, perm);
}

// All products, in f32. Elements of 16 bits are repeated before they are cast, as what is cast before it is
// repeated would be another launch.
static NodeId all_products(Graph *g, const NodeId *x)
{
    Shape all;
    NodeId f32[2];
    const bool fits =
        shape_broadcast(g->dims, graph_node(g, x[0])->shape, graph_node(g, x[1])->shape, &all);
    rlx_assert(fits);
    for (uint32_t i = 0; i < 2; i++) {
        const bool is_half = k_is_half(graph_node(g, x[i])->dtype);
        f32[i] = graph_cast(g, is_half ? graph_expand(g, x[i], &all) : x[i], DTYPE_f32);
    }
    return graph_op2(g, OP_mul, f32[0], f32[1]);
}

// The sums of k from start to end.
static NodeId sums_of(Graph *g, const Node *n, int64_t start, int64_t end, int64_t parts)
{
    const MatmulForm form = matmul_form(n);
    NodeId x[2];
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t rank = graph_node(g, n->src[i])->shape->rank;
        const bool is_k_last = i == 0 ? !form.turns_a : form.turns_b;
        const NodeId part = graph_slice(g, n->src[i], rank - (is_k_last ? 1 : 2), start, end, 1);
        x[i] = spread(g, part, is_k_last, i == 1, parts);
    }
    const NodeId all = all_products(g, x);
    const int64_t rank = graph_node(g, all)->shape->rank, last[] = {rank - 1, rank - 2};
    const NodeId sum = reduce(g, OP_reduce_sum, all, last, parts > 1 ? 1 : 2);
    return parts > 1 ? reduce(g, OP_reduce_sum, sum, last + 1, 1) : sum;
}

static NodeId make_sums(Graph *g, NodeId id, const Product *p, const GpuMachine *m)
{
    const Node n = *graph_node(g, id);
    const MatmulForm form = matmul_form(&n);
    const Sum sum = {p->batch * p->m * p->n, p->k, p->k, DTYPE_f32, form.turns_a || !form.turns_b};
    const int64_t parts = count_parts(m, &sum), whole = count_whole(&sum, parts);
    NodeId y = sums_of(g, &n, 0, whole, parts);
    if (whole < p->k)
        y = graph_op2(g, OP_add, y, sums_of(g, &n, whole, p->k, 1));
    return graph_cast(g, y, (DType)n.dtype);
}

// --- the pass ------------------------------------------------------------------------------------

static NodeId step_products(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    Product p;
    return read_product(g, &n, &p) && wants_sums(g, &n, &p, ctx) ? make_sums(g, id, &p, ctx) : id;
}

static NodeId step_reductions(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    return can_cut(g, &n) ? cut_reduction(g, id, ctx) : id;
}

static NodeId step_rows(Graph *g, NodeId id, void *ctx)
{
    return long_rows_cut(g, id, ctx);
}

static NodeId step_norms(Graph *g, NodeId id, void *ctx)
{
    return long_norms_cut(g, id, ctx);
}

static NodeId step_updates(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    return last_updates_find(g, id);
}

bool pass_sums(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    const TargetCaps *caps = p->options->caps;
    const uint32_t errors = p->diag->n_errors;
    if (!caps->is_gpu || caps->shared_bytes == 0 || caps->gpu == NULL)
        return false;
    GpuMachine machine = *caps->gpu;
    bool changed = graph_rewrite(p->graph, step_products, &machine);
    changed = graph_rewrite(p->graph, step_rows, &machine) || changed;
    changed = (caps->has_mma && graph_rewrite(p->graph, step_updates, &machine)) || changed;
    changed = graph_rewrite(p->graph, step_norms, &machine) || changed;
    changed = graph_rewrite(p->graph, step_reductions, &machine) || changed;
    p->failed = p->diag->n_errors != errors;
    return changed;
}
