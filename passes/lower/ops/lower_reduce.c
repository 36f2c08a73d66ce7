// SPDX-License-Identifier: Apache-2.0
// Reductions with their elementwise prologue and epilogue. Accumulation: see rows.c; mean divides the sum
// once, that of integers in 64 bits. For microcontrollers, integers of an image are also summed row by row,
// with the sums of all channels in scratch memory (passes/plan/ram/rows.h).
#include "passes/lower/rows.h"

#include <math.h>

typedef struct Reduce {
    NodeId operand;
    bool is_mean;
    int64_t rows; // of an image
} Reduce;

static KRef operand_at(Lower *l, const Domain *d, Point at, void *ctx)
{
    Reduce *x = ctx;
    return rows_operand(l, d, at, &x->operand);
}

static void finish_row(Lower *l, const Rows *r, Point at, KRef v, void *ctx)
{
    const Reduce *x = ctx;
    const int type = lower_node(l, l->anchor)->dtype;
    if (x->is_mean && dtype_info[type].cls == DCLASS_FLOAT)
        v = k_div(l->k, v, k_number(l->k, type, (double)r->count));
    else if (x->is_mean)
        v = k_cast(l->k, k_div(l->k, v, k_integer(l->k, k_inst(l->k, v)->dtype, r->count)), type);
    pull_store_root(l, &r->d, at, v);
}

// The reduction's own attributes: all five ops have axes first.
static void row_axes(const Lower *l, AttrId axes, bool *in_row)
{
    const Node *n = lower_node(l, l->anchor);
    const AttrVal *v = node_attr(n, axes);
    const uint32_t rank = lower_node(l, n->src[0])->shape->rank;
    for (uint32_t i = 0; i < rank; i++)
        in_row[i] = v->len == 0;
    for (uint32_t i = 0; i < v->len; i++)
        in_row[v->u.ints[i]] = true;
}

// --- by rows -------------------------------------------------------------------------------------

// The rows of one image that is reduced, whose channels are the first or the last of its axes; 0: it is none.
static int64_t image_rows(const Shape *s, const bool *in_row)
{
    if (s->rank != 4 || s->dim[0] != 1 || in_row[0] || !in_row[2] || in_row[1] == in_row[3])
        return 0;
    return s->dim[in_row[1] ? 1 : 2];
}

// Is it the sum of integers over rows and columns of one image, for each channel?
static bool has_rows(const Lower *l, const Rows *r, const RowFold *fold, const Reduce *x)
{
    bool is_image = fold == &row_fold_sum && x->rows > 1;
    for (uint32_t i = 0; i < r->d.rank; i++)
        is_image = is_image && r->d.live[i].size == 0;
    return is_image && lower_node(l, l->anchor)->dtype == DTYPE_i32 && l->caps->prefers_ints &&
           l->caps->threads <= 1 && r->mode == ROWS_SCALAR && r->n_kept == 1 && r->d.rank <= 3;
}

// Adds row `row` of a channel to the variable.
static void add_row(Lower *l, const Rows *r, Point at, KRef row, KRef sum, Reduce *x)
{
    Kernel *k = l->k;
    uint32_t opened = 0;
    const bool is_joined = r->d.rank == 2; // rows follow each other
    const int64_t columns = r->count / x->rows;
    const KRef column = lower_open_count(k, columns, KFOR_SERIAL, "i", &opened);
    at.idx[1] = is_joined ? k_expr(k, "$ * # + $", row, columns, column) : row;
    at.idx[2] = column;
    k_set(k, sum, k_add(k, k_get(k, sum), operand_at(l, &r->d, at, x)));
    lower_close(l, opened);
}

// The first row begins with nothing, and the last one completes the results.
static void sum_rows(Lower *l, const Rows *r, Reduce *x)
{
    Kernel *k = l->k;
    const int64_t channels = r->d.extent[0];
    const uint32_t sums = lower_param_scratch(l, "sums", DTYPE_i32, (uint64_t)channels);
    const KRef zero = k_integer(k, DTYPE_i32, 0);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    const KRef row = lower_open_count(k, x->rows, KFOR_TURNS, "row", &opened);
    const KRef c = at.idx[0] = lower_open_count(k, channels, KFOR_SERIAL, "c", &opened);
    k_if(k, k_expr(k, "$ < 1", row));
    k_store(k, sums, c, zero, 1);
    k_end(k);
    const KRef sum = k_var(k, k_load(k, sums, c, 1, 1), "a");
    add_row(l, r, at, row, sum, x);
    k_store(k, sums, c, k_get(k, sum), 1);
    k_if(k, k_expr(k, "$ == #", row, x->rows - 1));
    finish_row(l, r, at, k_get(k, sum), x);
    k_end(k);
    lower_close(l, opened);
}

static void lower_reduce(Lower *l, AttrId axes, const RowFold *fold, bool is_mean)
{
    rlx_assert(fold != NULL && l->anchor != 0);
    bool in_row[SHAPE_MAX_RANK] = {false};
    Reduce x = {.operand = lower_node(l, l->anchor)->src[0], .is_mean = is_mean};
    row_axes(l, axes, in_row);
    x.rows = image_rows(lower_node(l, x.operand)->shape, in_row);
    Rows r = rows_new(l, x.operand, in_row, is_mean ? (double)NAN : fold->init);
    if (has_rows(l, &r, fold, &x) && !lower_take(l) && lower_take(l)) {
        sum_rows(l, &r, &x);
        return;
    }
    rows_reduce(l, &r, &(RowReduction){fold, operand_at, finish_row, &x});
}

void lower_reduce_sum(Lower *l)
{
    lower_reduce(l, A_reduce_sum_axes, &row_fold_sum, false);
}

void lower_reduce_mean(Lower *l)
{
    lower_reduce(l, A_reduce_mean_axes, &row_fold_mean, true);
}

void lower_reduce_max(Lower *l)
{
    lower_reduce(l, A_reduce_max_axes, &row_fold_max, false);
}

void lower_reduce_min(Lower *l)
{
    lower_reduce(l, A_reduce_min_axes, &row_fold_min, false);
}

void lower_reduce_prod(Lower *l)
{
    lower_reduce(l, A_reduce_prod_axes, &row_fold_prod, false);
}
