// SPDX-License-Identifier: Apache-2.0
// Reductions with their elementwise prologue and epilogue. Accumulation: see rows.c; mean divides the sum
// once, that of integers in 64 bits.
#include "passes/lower/rows.h"

#include <math.h>

typedef struct Reduce {
    NodeId operand;
    bool is_mean;
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

static void lower_reduce(Lower *l, AttrId axes, const RowFold *fold, bool is_mean)
{
    rlx_assert(fold != NULL && l->anchor != 0);
    bool in_row[SHAPE_MAX_RANK] = {false};
    Reduce x = {lower_node(l, l->anchor)->src[0], is_mean};
    row_axes(l, axes, in_row);
    Rows r = rows_new(l, x.operand, in_row, is_mean ? (double)NAN : fold->init);
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
