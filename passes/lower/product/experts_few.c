// SPDX-License-Identifier: Apache-2.0
// grouped_matmul of few rows on GPUs: each row is a product by itself with the matrix of its expert
// (matvec.h), which is read once where no two rows have the same. Nothing is sorted, and no rows are copied.
#include "passes/lower/operand.h"
#include "passes/lower/product/experts.h"
#include "passes/lower/product/matvec.h"

#include <math.h>

enum { MOST_ROWS = 64 };
// Experts that are read, of the rows: tiles, which read each of them once, are slower by as much.
static const double LEAST_OF_ITS_OWN = 0.8;

typedef struct FewExperts {
    Experts *x;
    KRef row[SHAPE_MAX_RANK]; // of the result
    KRef expert, is_some;
} FewExperts;

// Experts that so many rows are likely to have.
static double likely_experts(const Experts *x)
{
    const double n = (double)x->n_experts;
    return n * (1 - pow(1 - 1 / n, (double)x->rows));
}

// -1: none. Rows that do not count in this run have none.
static KRef expert_of(Lower *l, const Experts *x, KRef row, const KRef *idx)
{
    Kernel *k = l->k;
    if (x->is_layer)
        return experts_entry(l, x->choice, row);
    KRef e = operand_clamped(l, x->index, operand_index(l, x->index, idx), -1, x->n_experts);
    for (uint32_t i = 0; i + 1 < x->d.rank; i++)
        if (x->d.live[i].size != 0)
            e = k_select(k, k_lt(k, idx[i], lower_live(l, &x->d.live[i], x->d.extent[i])), e, k_index(k, -1));
    return e;
}

static void begin_row(MatVec *v, KRef product)
{
    FewExperts *f = v->ctx;
    Experts *x = f->x;
    Lower *l = v->l;
    Kernel *k = l->k;
    experts_row(l, x, product, f->row);
    const KRef e = k_get(k, k_var(k, expert_of(l, x, product, f->row), "expert"));
    f->is_some = k_expr(k, "0 <= $ & $ < #", e, e, x->n_experts);
    f->expert = k_select(k, f->is_some, e, k_index(k, 0));
    v->a_base = experts_row_base(l, x, f->row);
    v->b_base = x->is_placed ? experts_begin(l, x, f->expert) : k_expr(k, "$ * #", f->expert, x->w_expert);
}

static void store_row(Lower *l, KRef row, KRef column, const KRef *values, void *ctx)
{
    const FewExperts *f = ctx;
    const Experts *x = f->x;
    Kernel *k = l->k;
    KRef sum = values[0];
    Point at = {.lanes = 1, .count = 1, .vec_axis = x->d.rank - 1};
    (void)row;
    for (uint32_t i = 0; i + 1 < x->d.rank; i++)
        at.idx[i] = f->row[i];
    at.idx[x->d.rank - 1] = column;
    if (x->bias != 0) {
        const KRef place[2] = {f->expert, column};
        sum = k_add(k, sum, operand_scalar(l, x->bias, operand_index(l, x->bias, place), DTYPE_f32));
    }
    sum = k_select(k, f->is_some, sum, k_number(k, DTYPE_f32, 0));
    pull_store_root(l, &x->d, at, k_cast(k, sum, lower_node(l, l->anchor)->dtype));
}

// Does every row of x begin at a multiple of 16 bytes?
static bool has_aligned_rows(const Lower *l, const Experts *x, int64_t width)
{
    const Node *n = lower_node(l, x->x);
    const Loc *loc = lower_loc(l, x->x);
    bool is_aligned = true;
    for (uint32_t i = 0; i + 1 < n->shape->rank; i++)
        is_aligned = is_aligned && (n->shape->dim[i] == 1 || loc->stride[i] % width == 0);
    return is_aligned;
}

static bool has_form(Lower *l, const Experts *x, int64_t width)
{
    const int type = lower_node(l, x->w)->dtype;
    return l->caps->shared_bytes != 0 && !x->d.is_exact && x->d.rank >= 1 && x->rows >= 1 &&
           x->rows <= MOST_ROWS && x->n_experts >= 1 && x->n >= 1 && x->w_k == 1 && x->w_col % width == 0 &&
           x->w_expert % width == 0 && lower_loc(l, x->w)->offset % width == 0 &&
           lower_node(l, x->x)->dtype == type && lower_node(l, l->anchor)->dtype == type &&
           likely_experts(x) >= LEAST_OF_ITS_OWN * (double)x->rows;
}

bool experts_few(Lower *l, Experts *x)
{
    const DType type = (DType)lower_node(l, x->w)->dtype;
    const int64_t width = 16 / dtype_info[type].bytes;
    FewExperts few = {.x = x};
    MatVec v = {.l = l, .m = 1, .n = x->n, .k = x->k, .a = x->x, .a_k = experts_row_step(l, x), .n_b = 1,
                .b = {x->w}, .b_pitch = x->w_col, .products = x->rows, .begin = begin_row,
                .is_base_aligned = has_aligned_rows(l, x, width), .store = store_row, .ctx = &few};
    if (!has_form(l, x, width) || !matvec_choose(l->caps->gpu, &v, type, &v.shape))
        return false;
    if (x->is_layer && node_is_const(l->g, x->w)) {
        experts_place_given(l, x, type);
        const BufId weights = l->pk->args.data[x->weights].buf;
        v.packed =
            1 + (type == DTYPE_f32 ? x->weights : lower_param_buffer(l, weights, DTYPE_u32, PARAM_READ));
    }
    matvec_emit(&v);
    return true;
}
