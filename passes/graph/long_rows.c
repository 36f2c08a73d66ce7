// SPDX-License-Identifier: Apache-2.0
// Searches, running sums and the best of long rows on GPUs, where a group of threads has a row: if there are
// fewer rows than processors, each is cut into parts, one for each of as many groups. A search, or the best
// ones, of what the parts have found comes behind; running sums get the sum of the parts before theirs. Where
// more of a row are wanted, its parts are sorted and merged, however many rows there are. Rows that have no
// such parts get elements behind their ends that count for nothing.
#include "passes/graph/long_rows.h"
#include "passes/pass.h"

#include <math.h>

enum {
    LONG = 16384,       // elements of a row,
    LONG_SEARCH = 65536, // and where one group would read each once
    LONG_APART = 4096,   // or all of some rows that lie in each other, of so many elements at least
    LEAST_PART = 2048,  // of a part
    OF_BEST = 4,        // and so many times the best ones
    MOST_BEST = 1024,
    SORTED_PART = 2048, // of parts that groups sort (top_k_sort.c), of rows that have twice as many at least,
    SORTED_FEW = 32,    // where more than that many are wanted of few rows, or more than MOST_BEST of any
    MERGED_RUNS = 16,   // of them, at once
    STEP = 32,          // of the size of parts
    WORD = 4,           // bytes of elements that have ranks
    BITS = 8,           // of a byte
    SUMS_GROUPS = 2,    // parts for each processor, where they are passed on
    NEIGHBOURS = 32,    // rows that lie in each other, of which a group has so many,
    APART_GROUPS = 4    // and each processor so many groups
};

// By op, the rule of its shape, which all searches have in common, and all running sums; and the value of
// what counts for nothing.
static const struct {
    const char *shape;
    double fill;
} kind_of[OP_COUNT] = {
#define INF (double)INFINITY
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    [OP_##name] = {#shape, fill},
#include "ir/graph/ops.def"
#undef INF
};

static bool is_kind(const Node *n, const char *shape)
{
    const char *of = kind_of[n->op].shape;
    return of != NULL && str_equal(of, shape);
}

static AttrId attr_of(const Node *n, const char *name)
{
    return attr_find((OpId)n->op, name);
}

// Rows as [rows, parts, size], or as [rows, parts, size, behind] where `behind` of them lie in each other;
// beyond: elements behind the end of a row.
typedef struct Cut {
    int64_t rows, n, parts, size, beyond, behind;
} Cut;

// parts 1: it is not worth it. Equal parts without anything beyond are better than the number that is wanted.
static Cut cut_rows(int64_t rows, int64_t n, int64_t groups, int64_t least)
{
    rlx_assert(rows > 0 && least > 0);
    Cut c = {.rows = rows, .n = n, .parts = 1, .behind = 1};
    const int64_t most = n / least;
    const int64_t wanted = groups / rows < most ? groups / rows : most;
    if (wanted < 2)
        return c;
    c.parts = wanted;
    while (c.parts > wanted / 2 && n % c.parts != 0)
        c.parts--;
    if (c.parts < 2 || n % c.parts != 0)
        c.parts = wanted;
    c.size = n % c.parts == 0 ? n / c.parts : (n / c.parts + STEP) / STEP * STEP;
    c.beyond = c.parts * c.size - n;
    return c;
}

static NodeId with_shape(Graph *g, NodeId x, uint32_t rank, const Dim *dims)
{
    const Shape s = shape_of(rank, dims);
    return graph_reshape(g, x, &s);
}

// The rows with `fill` beyond their ends, in parts.
static NodeId parts_of(Graph *g, NodeId x, const Cut *c, double fill)
{
    const Dim rows[] = {c->rows, c->n, c->behind}, parts[] = {c->rows, c->parts, c->size, c->behind};
    const uint32_t rank = c->behind > 1 ? 3 : 2;
    const int type = graph_node(g, x)->dtype;
    int64_t pads[6] = {0};
    pads[rank + 1] = c->beyond;
    x = with_shape(g, x, rank, rows);
    if (c->beyond != 0) {
        NodeBuild b = node_begin(g, OP_pad, node_span(g, x), g->labels.data[x]);
        node_src(&b, x);
        node_src(&b, graph_scalar(g, (DType)type, fill, node_span(g, x)));
        node_ints(&b, A_pad_pads, pads, 2 * rank);
        x = node_end(&b);
    }
    return with_shape(g, x, rank + 1, parts);
}

// 0, by, 2 * by ... as i64 [count, 1 ...].
static NodeId steps(Graph *g, int64_t count, int64_t by, uint32_t rank, NodeId like)
{
    int64_t *value = ARENA_ARRAY(g->arena, int64_t, count);
    Shape s = {.rank = rank};
    for (int64_t i = 0; i < count; i++)
        value[i] = i * by;
    for (uint32_t i = 0; i < rank; i++)
        s.dim[i] = i == 0 ? count : 1;
    return graph_const(g, DTYPE_i64, &s, value, (uint64_t)count * sizeof *value, node_span(g, like));
}

// Of each row, the elements of `x` [rows, all] whose numbers in the row are `places`, [rows, some]; both may
// have an axis behind these.
static NodeId pick(Graph *g, NodeId x, NodeId places)
{
    const Shape *s = graph_node(g, x)->shape;
    const int64_t rows = s->dim[0], behind = s->rank > 2 ? s->dim[2] : 1, all = s->dim[1] * behind;
    const Dim flat[] = {rows * all};
    NodeId from = places;
    if (behind > 1) {
        const NodeId apart = graph_scalar(g, DTYPE_i64, (double)behind, node_span(g, x));
        from = graph_op2(g, OP_add, graph_op2(g, OP_mul, places, apart), steps(g, behind, 1, 1, x));
    }
    from = rows == 1 ? from : graph_op2(g, OP_add, from, steps(g, rows, all, s->rank, x));
    NodeBuild b = node_begin(g, OP_gather, node_span(g, x), g->labels.data[x]);
    node_gather(&b, with_shape(g, x, 1, flat), from, 0);
    return node_end(&b);
}

// --- argmax, argmin --------------------------------------------------------------------------------

static NodeId found(Graph *g, const Node *like, NodeId x, int64_t axis)
{
    NodeBuild b = node_begin(g, (OpId)like->op, node_span(g, x), g->labels.data[x]);
    node_src(&b, x);
    node_int(&b, attr_of(like, "axis"), axis);
    return node_end(&b);
}

static NodeId cut_search(Graph *g, const Node *n, const Cut *c)
{
    const uint32_t rank = c->behind > 1 ? 3 : 2;
    const Dim numbers[] = {c->rows, c->parts, c->behind}, one[] = {c->rows, 1, c->behind};
    const NodeId x = parts_of(g, n->src[0], c, kind_of[n->op].fill);
    const Dim all[] = {c->rows, c->parts * c->size, c->behind};
    const NodeId first = steps(g, c->parts, c->size, rank, x);
    const NodeId begins = with_shape(g, first, rank, (const Dim[]){1, c->parts, 1});
    const NodeId places = graph_op2(g, OP_add, found(g, n, x, 2), begins);
    const NodeId values = with_shape(g, pick(g, with_shape(g, x, rank, all), places), rank, numbers);
    const NodeId part = with_shape(g, found(g, n, values, 1), rank, one);
    return graph_reshape(g, pick(g, places, part), n->shape);
}

// --- cumsum ----------------------------------------------------------------------------------------

static NodeId running(Graph *g, const Node *like, NodeId x, int64_t axis, bool is_exclusive)
{
    NodeBuild b = node_begin(g, (OpId)like->op, node_span(g, x), g->labels.data[x]);
    node_src(&b, x);
    node_int(&b, attr_of(like, "axis"), axis);
    node_int(&b, attr_of(like, "exclusive"), is_exclusive);
    node_int(&b, attr_of(like, "reverse"), node_get_int(like, attr_of(like, "reverse")));
    return node_end(&b);
}

static NodeId cut_running(Graph *g, const Node *n, const Cut *c)
{
    const DType type = k_is_half(n->dtype) ? DTYPE_f32 : (DType)n->dtype;
    const Dim all[] = {c->rows, c->parts * c->size}, each[] = {c->rows, c->parts, 1};
    const int64_t axis = 2;
    const NodeId x = parts_of(g, graph_cast(g, n->src[0], type), c, 0);
    NodeBuild b = node_begin(g, OP_reduce_sum, node_span(g, x), g->labels.data[x]);
    node_reduce(&b, x, &axis, 1, false);
    const NodeId before = with_shape(g, running(g, n, node_end(&b), 1, true), 3, each);
    const NodeId within = running(g, n, x, axis, node_get_int(n, attr_of(n, "exclusive")) != 0);
    const NodeId sums = with_shape(g, graph_op2(g, OP_add, within, before), 2, all);
    const NodeId real = c->beyond == 0 ? sums : graph_slice(g, sums, 1, 0, c->n, 1);
    return graph_reshape(g, graph_cast(g, real, (DType)n->dtype), n->shape);
}

// --- top_k -----------------------------------------------------------------------------------------

typedef struct Best {
    NodeId values, places; // [rows, k]
} Best;

static bool is_largest(const Node *n)
{
    return node_get_int(n, attr_of(n, "largest")) != 0;
}

// Of rows of any rank.
static Best best_along(Graph *g, NodeId x, const Node *like, Dim k)
{
    NodeBuild b = node_begin(g, (OpId)like->op, node_span(g, x), g->labels.data[x]);
    node_src(&b, x);
    node_ints(&b, attr_of(like, "k"), &k, 1);
    node_int(&b, attr_of(like, "axis"), graph_node(g, x)->shape->rank - 1);
    node_int(&b, attr_of(like, "largest"), is_largest(like));
    const NodeId values = node_end(&b);
    return (Best){values, graph_result(g, values, 1)};
}

static Cut cut_of_best(int64_t rows, int64_t n, int64_t k, const GpuMachine *m)
{
    const int64_t least = OF_BEST * k > LEAST_PART ? OF_BEST * k : LEAST_PART;
    return cut_rows(rows, n < LONG ? 0 : n, m->processors, least);
}

// Of rows [rows, n]. Of equal elements the first ones: the best of a part are in its order, and parts are in
// theirs. NaN, the greatest of all, comes last where the least are wanted.
static Best best_of(Graph *g, NodeId x, const Node *like, Dim k, const GpuMachine *m)
{
    const Shape *s = graph_node(g, x)->shape;
    const Cut c = cut_of_best(s->dim[0], s->dim[1], k, m);
    if (c.parts == 1)
        return best_along(g, x, like, k);
    const double fill = is_largest(like) ? -(double)INFINITY : (double)NAN;
    const Dim list[] = {c.rows, c.parts * k}, one[] = {1, c.parts, 1};
    const Best of = best_along(g, parts_of(g, x, &c, fill), like, k);
    const NodeId begins = with_shape(g, steps(g, c.parts, c.size, 3, x), 3, one);
    const NodeId numbers = with_shape(g, graph_op2(g, OP_add, of.places, begins), 2, list);
    const NodeId values = with_shape(g, of.values, 2, list), places = best_of(g, values, like, k, m).places;
    return (Best){pick(g, values, places), pick(g, numbers, places)};
}

// Parts that are sorted, and of these a number that is a power of what is merged at once.
static Cut cut_sorted(int64_t rows, int64_t n, int64_t *fan)
{
    Cut c = {.rows = rows, .n = n, .behind = 1, .parts = (n + SORTED_PART - 1) / SORTED_PART};
    int64_t levels = 1, most = MERGED_RUNS;
    for (; most < c.parts; most *= MERGED_RUNS)
        levels++;
    const int64_t least = c.parts;
    *fan = 1;
    for (c.parts = 1; c.parts < least;) {
        ++*fan;
        c.parts = 1;
        for (int64_t i = 0; i < levels; i++)
            c.parts *= *fan;
    }
    c.size = n % c.parts == 0 ? n / c.parts : (n / c.parts + STEP) / STEP * STEP;
    c.beyond = c.parts * c.size - n;
    return c;
}

// What is below all, or above all, as far as the order goes.
static double last_of_all(const Node *n)
{
    const DTypeInfo *info = &dtype_info[n->dtype];
    if (info->cls == DCLASS_FLOAT)
        return is_largest(n) ? -(double)INFINITY : (double)NAN;
    const double above = ldexp(1, (int)info->bytes * BITS - (info->cls == DCLASS_INT ? 1 : 0));
    return !is_largest(n) ? above - 1 : info->cls == DCLASS_INT ? -above : 0;
}

// Parts whose best are in order, `run` of each, and of which lists of `fan` are merged: [rows, fan * run].
typedef struct Lists {
    int64_t rows, fan, run;
} Lists;

// The numbers in their rows of the elements at `places` of the lists, whose numbers in their parts are known.
static NodeId numbers_of(Graph *g, const Cut *c, const Lists *of, NodeId in_parts, NodeId places)
{
    const NodeId run = graph_scalar(g, DTYPE_i64, (double)of->run, node_span(g, places));
    const NodeId size = graph_scalar(g, DTYPE_i64, (double)c->size, node_span(g, places));
    const NodeId part = graph_op2(g, OP_div, places, run);
    const NodeId number = graph_op2(g, OP_add, pick(g, in_parts, places), graph_op2(g, OP_mul, part, size));
    if (of->rows == c->rows)
        return number;
    const Shape *s = graph_node(g, places)->shape;
    const int64_t lists = of->rows / c->rows; // of a row
    const Dim first[] = {1, lists, 1}, apart[] = {c->rows, lists, s->dim[1]};
    const NodeId begins = with_shape(g, steps(g, lists, of->fan * c->size, 3, places), 3, first);
    return with_shape(g, graph_op2(g, OP_add, with_shape(g, number, 3, apart), begins), 2, s->dim);
}

// Of rows [rows, n]: the best of each part in order, then those of some parts together, until a row is one.
// The last node must not be what stands for `like`, or results of this one would be taken for its own.
static Best sorted_of(Graph *g, NodeId x, const Node *like, Dim k)
{
    const Shape *s = graph_node(g, x)->shape;
    const uint32_t rank = like->shape->rank == 2 ? 3 : 2;
    Lists of = {.fan = 1};
    const Cut c = cut_sorted(s->dim[0], s->dim[1], &of.fan);
    of.run = k < c.size ? k : c.size;
    Best best = best_along(g, parts_of(g, x, &c, last_of_all(like)), like, of.run);
    NodeId numbers = 0;
    for (of.rows = c.rows * c.parts / of.fan; of.rows >= c.rows; of.rows /= of.fan) {
        const Dim all = of.fan * of.run, most = k < all ? k : all;
        const Dim list[] = {of.rows, all}, lists[] = {of.rows, rank == 2 ? all : 1, all};
        const NodeId before = with_shape(g, numbers != 0 ? numbers : best.places, 2, list);
        best = best_along(g, with_shape(g, best.values, rank, lists), like, most);
        const NodeId places = with_shape(g, best.places, 2, (const Dim[]){of.rows, most});
        numbers = numbers != 0 ? pick(g, before, places) : numbers_of(g, &c, &of, before, places);
        of.run = most;
    }
    return (Best){best.values, numbers};
}

// --- which rows ------------------------------------------------------------------------------------

// Rows along the axis; behind: so many lie in each other, 1 if each is in one piece.
static bool read_rows(const Graph *g, const Node *n, int64_t *rows, int64_t *size, int64_t *behind)
{
    const Shape *s = graph_node(g, n->src[0])->shape;
    const uint32_t axis = (uint32_t)node_get_int(n, attr_of(n, "axis"));
    *behind = 1;
    if (!shape_is_const(s) || shape_numel(s) == 0 || shape_numel(n->shape) == 0)
        return false;
    for (uint32_t i = axis + 1; i < s->rank; i++)
        *behind *= s->dim[i];
    *size = s->dim[axis];
    *rows = shape_numel(s) / *size / *behind;
    return true;
}

// What has no element that counts for nothing is not filled up.
static bool can_fill(const Graph *g, const Node *n, const Cut *c)
{
    return c->beyond == 0 || dtype_info[graph_node(g, n->src[0])->dtype].cls == DCLASS_FLOAT;
}

static bool is_sorted_in_parts(const Node *n, int64_t rows, int64_t size, int64_t k, const GpuMachine *m)
{
    const DTypeInfo *info = &dtype_info[n->dtype];
    return size > 2 * SORTED_PART && size < INT32_MAX && n->dtype != DTYPE_bool && info->bytes <= WORD &&
           (k > MOST_BEST || (k > SORTED_FEW && rows < m->processors));
}

static NodeId cut_best(Graph *g, NodeId id, const Node *n, uint32_t result, const GpuMachine *m)
{
    int64_t rows = 0, size = 0, behind = 1;
    if (!read_rows(g, n, &rows, &size, &behind) || behind != 1)
        return id;
    const Dim k = n->shape->dim[node_get_int(n, attr_of(n, "axis"))], flat[] = {rows, size};
    const Cut c = cut_of_best(rows, size, k, m);
    if (is_sorted_in_parts(n, rows, size, k, m)) {
        const Best best = sorted_of(g, with_shape(g, n->src[0], 2, flat), n, k);
        return graph_reshape(g, result == 0 ? best.values : best.places, n->shape);
    }
    if (c.parts == 1 || k > MOST_BEST || dtype_info[n->dtype].cls != DCLASS_FLOAT)
        return id;
    const Best best = best_of(g, with_shape(g, n->src[0], 2, flat), n, k, m);
    return graph_reshape(g, result == 0 ? best.values : best.places, n->shape);
}

// Rows that lie in each other are searched by groups that have some neighbours each (arg_group.c).
static Cut cut_of_search(const Cut *rows, const GpuMachine *m)
{
    const int64_t neighbours = rows->behind < NEIGHBOURS ? rows->behind : NEIGHBOURS;
    const int64_t tiles = rows->rows * ((rows->behind + neighbours - 1) / neighbours);
    const int64_t groups = m->processors * (rows->behind > 1 ? APART_GROUPS : 1);
    const bool is_long = rows->n * neighbours >= LONG_SEARCH && rows->n >= LONG_APART;
    Cut c = cut_rows(tiles, is_long ? rows->n : 0, groups, LEAST_PART / neighbours);
    c.rows = rows->rows;
    c.behind = rows->behind;
    return c;
}

NodeId long_rows_cut(Graph *g, NodeId id, const GpuMachine *m)
{
    const Node n = *graph_node(g, id);
    const uint32_t result = node_result(&n);
    const Node of = *graph_node(g, result != 0 ? n.src[0] : id);
    Cut c = {.parts = 1};
    if (is_kind(&of, "top_k"))
        return cut_best(g, id, &of, result, m);
    const bool is_search = is_kind(&n, "found"), is_sum = is_kind(&n, "running") && kind_of[n.op].fill == 0;
    if ((!is_search && !is_sum) || !read_rows(g, &n, &c.rows, &c.n, &c.behind) || (is_sum && c.behind != 1))
        return id;
    const int64_t n_of_sum = c.n < LONG ? 0 : c.n, groups_of_sum = m->processors * SUMS_GROUPS;
    c = is_sum ? cut_rows(c.rows, n_of_sum, groups_of_sum, LEAST_PART) : cut_of_search(&c, m);
    const int type = graph_node(g, n.src[0])->dtype;
    if (c.parts == 1 || type == DTYPE_bool || !can_fill(g, &n, &c) ||
        (is_sum && dtype_info[type].cls != DCLASS_FLOAT))
        return id;
    return is_sum ? cut_running(g, &n, &c) : cut_search(g, &n, &c);
}
