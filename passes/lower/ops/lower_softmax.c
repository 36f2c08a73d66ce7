// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax: the largest element, then the sum of exp(x - largest), then the results. A softmax
// whose result is stored as it is keeps its exponentials in the result's memory in between, or on GPUs in
// registers where rows are short enough; all others compute them again, because the memory may belong to an
// operand of the epilogue, or be narrower.
#include "passes/lower/operand.h"
#include "passes/lower/rows.h"
#include <math.h>

typedef struct Softmax {
    NodeId x;
    const Rows *rows;
    bool is_log, keeps_exponentials;
    KRef kept; // exponentials in registers, or 0
    KRef top;
    KRef factor; // 1 / sum, or log(sum)
} Softmax;

// Passes over NaN: the sum finds it.
static const RowFold fold_top = {"(max b a)", KOP_max, -(double)INFINITY, false, false};

static KRef operand_at(Lower *l, const Domain *d, Point at, void *ctx)
{
    Softmax *s = ctx;
    return rows_operand(l, d, at, &s->x);
}

static KRef shifted_at(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Softmax *s = ctx;
    return k_sub(l->k, operand_at(l, d, at, ctx), s->top);
}

static KRef root_index(Lower *l, const Domain *d, Point at)
{
    Pull p = pull_at(l, d, at);
    p.space = SPACE_OUT;
    return pull_index(&p, l->root);
}

static KRef exponential_at(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Softmax *s = ctx;
    const KRef e = k_exp(l->k, shifted_at(l, d, at, ctx));
    rows_fetch_next(l, s->rows, at, s->x);
    if (s->kept != 0)
        k_astore(l->k, s->kept, at.slot, e);
    else if (s->keeps_exponentials)
        operand_store(l, lower_param(l, l->root, PARAM_READ_WRITE), root_index(l, d, at), e, &at);
    return e;
}

static void store_result(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Softmax *s = ctx;
    Kernel *k = l->k;
    KRef v;
    if (s->is_log)
        v = k_sub(k, shifted_at(l, d, at, ctx), s->factor);
    else if (s->kept != 0)
        v = k_mul(k, k_aload(k, s->kept, at.slot, 1), s->factor);
    else if (s->keeps_exponentials)
        v = k_mul(
            k, k_load(k, lower_param(l, l->root, PARAM_READ_WRITE), root_index(l, d, at), at.lanes, at.count),
            s->factor);
    else
        v = k_mul(k, k_exp(k, shifted_at(l, d, at, ctx)), s->factor);
    pull_store_root(l, d, at, v);
}

static void softmax_row(Lower *l, const Rows *r, Point at, void *ctx)
{
    Softmax *s = ctx;
    Kernel *k = l->k;
    s->rows = r;
    s->kept = s->is_log ? 0 : rows_keep(l, r, lower_node(l, l->anchor)->dtype);
    s->top = rows_fold(l, r, at, &fold_top, operand_at, s);
    const KRef sum = rows_fold(l, r, at, &row_fold_sum, exponential_at, s);
    s->factor = s->is_log ? k_log(k, sum) : k_div(k, k_number(k, lower_node(l, l->anchor)->dtype, 1), sum);
    rows_each(l, r, at, store_result, s);
}

static void lower_along_axis(Lower *l, AttrId axis, bool is_log)
{
    const Node *n = lower_node(l, l->anchor);
    rlx_assert(lower_node(l, l->anchor)->shape->rank >= 1);
    Softmax s = {.x = n->src[0], .is_log = is_log};
    s.keeps_exponentials = !is_log && l->root == l->anchor && operand_sum_type(n->dtype) == n->dtype;
    bool in_row[SHAPE_MAX_RANK] = {false};
    in_row[node_get_int(n, axis)] = true;
    Rows r = rows_new(l, s.x, in_row, row_fold_max.init);
    rows_use_groups(l, &r);
    rows_begin_folds(l, &r);
    rows_emit(l, &r, softmax_row, &s);
}

void lower_softmax(Lower *l)
{
    lower_along_axis(l, A_softmax_axis, false);
}

void lower_log_softmax(Lower *l)
{
    lower_along_axis(l, A_log_softmax_axis, true);
}
