// SPDX-License-Identifier: Apache-2.0
// Which products of few rows are computed as matvec.h says, and what becomes part of their kernels: the norm
// of the rows, and a second product of the same rows that the epilogue reads too (gate and up).
#include "ir/shape/forms.h"
#include "passes/lower/product/matmul.h"
#include "passes/lower/product/matvec.h"

enum { MOST_ROWS_BESIDE_UNITS = 4 };

// Constants have any order of axes.
static bool is_matrix_leaf(const Node *n, bool is_turned)
{
    return (n->op == OP_const || (n->op == OP_param && !is_turned)) && n->shape->rank == 2;
}

// Eight rows of bf16 by 4096x14336 are 49 us here, of which 27 us are what reading the matrix takes (H200).
static bool are_for_units(const TargetCaps *caps, int64_t rows, int type)
{
    return caps->has_mma && k_is_half(type) && rows > MOST_ROWS_BESIDE_UNITS;
}

bool lower_prefers_units(const Lower *l, const Matmul *x)
{
    const int64_t elements = shape_numel(lower_node(l, x->a)->shape);
    return x->norm == 0 && x->k > 0 && are_for_units(l->caps, elements / x->k, lower_node(l, x->b)->dtype);
}

bool matvec_takes(const Plan *p, NodeId matmul)
{
    const Graph *g = p->graph;
    const Node *n = graph_node(g, matmul);
    const MatmulForm form = matmul_form(n);
    if (p->caps->shared_bytes == 0 || !form.is_there || (n->n_src > 2 && n->src[2] != 0))
        return false;
    const Node *a = graph_node(g, n->src[0]), *b = graph_node(g, n->src[1]);
    const bool is_turned = !form.turns_b;
    if (!is_matrix_leaf(b, is_turned) || a->dtype != b->dtype || n->dtype != b->dtype || a->shape->rank < 2 ||
        form.turns_a)
        return false;
    const int64_t columns = b->shape->dim[is_turned], k = b->shape->dim[!is_turned];
    const int64_t elements = shape_numel(a->shape);
    const int64_t rows = k > 0 ? elements / k : 0;
    const MatVec v = {.m = rows, .n = columns, .k = k, .n_b = MATVEC_MAX_MATRICES};
    MatVecShape unused;
    return (rows == 1 || a->shape->rank == 2) && !are_for_units(p->caps, rows, b->dtype) &&
           matvec_choose(p->caps->gpu, &v, (DType)b->dtype, &unused);
}

typedef struct FewRows {
    const Matmul *x;
    Given other; // a second product; its id is 0 where there is none
} FewRows;

static void store_few(Lower *l, KRef row, KRef column, const KRef *values, void *ctx)
{
    const FewRows *f = ctx;
    const int type = lower_node(l, l->anchor)->dtype;
    const Point none = {.lanes = 1, .count = 1};
    Given other = f->other;
    Point at = matmul_point(f->x, &none, row, column);
    at.lanes = at.count = 1;
    other.value = other.id != 0 ? k_cast(l->k, values[1], type) : 0;
    pull_store_given(l, &f->x->d, at, k_cast(l->k, values[0], type), &other);
}

static void store_turned(Lower *l, KRef row, KRef column, const KRef *values, void *ctx)
{
    store_few(l, column, row, values, ctx);
}

// Few columns (a router's): the rows of a are what is read once. That is for b that no other schedule reads.
static bool lower_few_columns(Lower *l, const Matmul *x, FewRows *few)
{
    const Node *a = lower_node(l, x->a);
    const int64_t width = 16 / dtype_info[a->dtype].bytes;
    MatVec v = {.l = l, .m = x->n, .n = x->m, .k = x->k, .a = x->b, .a_row = x->b_col, .a_k = x->b_k,
                .n_b = 1, .b = {x->a}, .b_pitch = x->a_row, .store = store_turned, .ctx = few};
    if (x->m > MATVEC_MAX_ROWS || x->n > MATVEC_MAX_ROWS || x->norm != 0 || few->other.id != 0 ||
        x->a_k != 1 || x->a_row % width != 0 || x->a_loc.offset % width != 0 ||
        x->a_loc.buf != lower_loc(l, x->a)->buf ||
        !matvec_choose(l->caps->gpu, &v, (DType)a->dtype, &v.shape))
        return false;
    v.a_base = k_index(l->k, 0);
    matvec_emit(&v);
    return true;
}

bool lower_few_rows(Lower *l, const Matmul *product)
{
    const Matmul x = matmul_join_rows(l, product);
    const Node *b = lower_node(l, x.b);
    rlx_assert(b->dtype == lower_node(l, product->b)->dtype && x.k == product->k);
    const int64_t width = 16 / dtype_info[b->dtype].bytes;
    FewRows few = {.x = &x, .other = {.id = matmul_other(l)}};
    MatVec v = {.l = l, .m = x.m, .n = x.n, .k = x.k, .a = x.a, .a_row = x.a_row, .a_k = x.a_k,
                .norm = x.norm, .n_b = 1, .b = {x.b}, .store = store_few, .ctx = &few};
    if (few.other.id != 0)
        v.b[v.n_b++] = lower_node(l, few.other.id)->src[1];
    // A constant that is dense, but in the other order.
    v.is_turned = x.b_k != 1 && x.b_col == 1 && x.b_k == x.n && b->op == OP_const;
    v.b_pitch = v.is_turned ? x.k : x.b_col;
    const bool is_readable =
        v.is_turned || (x.b_k == 1 && x.b_col % width == 0 && lower_loc(l, x.b)->offset % width == 0);
    const bool is_rounded = x.norm != 0 && lower_node(l, x.a)->dtype == DTYPE_f32; // to 16 bits
    const bool has_form = l->caps->shared_bytes != 0 && x.k_live == 0 && x.batch == 0 && !x.b_is_vector &&
                          x.scale == 1;
    if (has_form && !is_readable && lower_node(l, x.a)->dtype == b->dtype &&
        lower_node(l, l->anchor)->dtype == b->dtype && lower_few_columns(l, &x, &few))
        return true;
    if (!has_form || !is_readable || b->shape->rank > 2 ||
        (lower_node(l, x.a)->dtype != b->dtype && !is_rounded) ||
        lower_node(l, l->anchor)->dtype != b->dtype ||
        !matvec_choose(l->caps->gpu, &v, (DType)b->dtype, &v.shape))
        return false;
    v.a_base = k_index(l->k, 0);
    l->pk->macs *= v.n_b;
    matvec_emit(&v);
    return true;
}
