// SPDX-License-Identifier: Apache-2.0
// det: elimination with partial pivoting on a copy of the matrix in scratch memory, in f64 on CPUs and in f32
// on GPUs.
#include "passes/lower/operand.h"

typedef struct Det {
    NodeId x;
    uint32_t work; // parameter: the copies, matrix after matrix
    int type;
    int64_t n;
} Det;

// An element of the copy that begins at `base`.
static KRef element(Lower *l, const Det *d, KRef base, KRef row, KRef column)
{
    return k_expr(l->k, "$ * # + $ + $", row, d->n, column, base);
}

static KRef load(Lower *l, const Det *d, KRef index)
{
    return k_load(l->k, d->work, index, 1, 1);
}

static KRef loop(Lower *l, KRef from, int64_t to, const char *name)
{
    return k_for(l->k, from, k_index(l->k, to), 1, KFOR_SERIAL, name);
}

static void copy_matrix(Lower *l, const Det *d, const Point *at, uint32_t rank, KRef base)
{
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        idx[i] = at->idx[i];
    idx[rank] = loop(l, k_index(k, 0), d->n, "i");
    idx[rank + 1] = loop(l, k_index(k, 0), d->n, "j");
    const KRef v = operand_scalar(l, d->x, operand_index(l, d->x, idx), d->type);
    k_store(k, d->work, element(l, d, base, idx[rank], idx[rank + 1]), v, 1);
    k_ends(k, 2);
}

// Brings the row with the largest element of column `step` up to row `step`; the sign changes with a swap.
static void pivot(Lower *l, const Det *d, KRef base, KRef step, KRef det)
{
    Kernel *k = l->k;
    const KRef top = element(l, d, base, step, step);
    const KRef best = k_var(k, k_abs(k, load(l, d, top)), "best");
    const KRef row = k_var(k, step, "row");
    const KRef i = loop(l, k_expr(k, "$ + 1", step), d->n, "i");
    const KRef size = k_abs(k, load(l, d, element(l, d, base, i, step)));
    k_if(k, k_lt(k, k_get(k, best), size));
    k_set(k, best, size);
    k_set(k, row, i);
    k_ends(k, 2);
    k_if(k, k_ne(k, k_get(k, row), step));
    const KRef j = loop(l, step, d->n, "j");
    const KRef upper = element(l, d, base, step, j), lower = element(l, d, base, k_get(k, row), j);
    const KRef a = k_var(k, load(l, d, upper), "a"), b = k_var(k, load(l, d, lower), "b");
    k_store(k, d->work, upper, k_get(k, b), 1);
    k_store(k, d->work, lower, k_get(k, a), 1);
    k_end(k);
    k_set(k, det, k_neg(k, k_get(k, det)));
    k_end(k);
}

// Takes multiples of row `step` from those below. A column of zeros has made the determinant 0 already.
static void eliminate(Lower *l, const Det *d, KRef base, KRef step, KRef det)
{
    Kernel *k = l->k;
    const KRef p = k_var(k, load(l, d, element(l, d, base, step, step)), "pivot");
    k_set(k, det, k_mul(k, k_get(k, det), k_get(k, p)));
    k_if(k, k_lt(k, k_number(k, d->type, 0), k_abs(k, k_get(k, p))));
    const KRef next = k_expr(k, "$ + 1", step);
    const KRef i = loop(l, next, d->n, "i");
    const KRef ratio = k_div(k, load(l, d, element(l, d, base, i, step)), k_get(k, p));
    const KRef factor = k_var(k, k_neg(k, ratio), "factor");
    const KRef j = loop(l, next, d->n, "j");
    const KRef below = element(l, d, base, i, j);
    const KRef above = load(l, d, element(l, d, base, step, j));
    k_store(k, d->work, below, k_fma(k, k_get(k, factor), above, load(l, d, below)), 1);
    k_ends(k, 3);
}

static KRef det_point(Lower *l, const Domain *domain, Point at, void *ctx)
{
    const Det *d = ctx;
    Kernel *k = l->k;
    const uint32_t rank = lower_node(l, d->x)->shape->rank - 2;
    KRef base = k_index(k, 0);
    for (uint32_t i = 0; i < rank; i++)
        base = k_expr(k, "$ * # + $", base, domain->extent[i], at.idx[i]);
    base = k_expr(k, "$ * #", base, d->n * d->n);
    const KRef det = k_var(k, k_number(k, d->type, 1), "det");
    if (d->n > 0) {
        copy_matrix(l, d, &at, rank, base);
        const KRef step = loop(l, k_index(k, 0), d->n, "k");
        pivot(l, d, base, step, det);
        eliminate(l, d, base, step, det);
        k_end(k);
    }
    return k_cast(k, k_get(k, det), lower_node(l, l->anchor)->dtype);
}

void lower_det(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *s = lower_node(l, n->src[0])->shape;
    rlx_assert(s->rank >= 2 && s->dim[s->rank - 1] == s->dim[s->rank - 2]);
    Det d = {.x = n->src[0],
             .type = l->caps->is_gpu && n->dtype != DTYPE_f64 ? DTYPE_f32 : DTYPE_f64,
             .n = s->dim[s->rank - 1]};
    const int64_t elements = shape_numel(s);
    if (elements > 0)
        d.work = lower_param_scratch(l, "det", (DType)d.type, (uint64_t)elements);
    lower_map(l, det_point, &d, MAP_SCALAR);
}
