// SPDX-License-Identifier: Apache-2.0
// Matrix products through the register-tiled core: rows of a are its pixels, columns of b its output
// channels. A constant b is packed at compile time; another one is read in place when its columns are next to
// each other, or packed into scratch first. Accumulation: f32 fused multiply-adds in rising k. Targets
// without vectors or with other element types take plain loops.
#include "passes/tile.h"

typedef struct Matmul {
    NodeId a, b;
    int64_t m, n, k;                // rows, columns, inner
    bool a_is_vector, b_is_vector;  // 1-D operands: the row or column is missing from the result
    uint32_t batch;                 // leading axes of the result
    int64_t a_row, a_k, b_k, b_col; // strides in elements
    Domain d; // axes of the result: batch, rows, columns (always both; missing ones have one element)
} Matmul;

static Matmul matmul_of(Lower *l)
{
    const Node *node = lower_node(l, l->anchor);
    const bool ta = node_get_int(node, A_matmul_transpose_a) != 0,
               tb = node_get_int(node, A_matmul_transpose_b) != 0;
    Matmul x = {.a = node->src[0], .b = node->src[1], .m = 1, .n = 1};
    const Shape *as = lower_node(l, x.a)->shape, *bs = lower_node(l, x.b)->shape;
    const Loc *al = lower_loc(l, x.a), *bl = lower_loc(l, x.b);
    x.a_is_vector = as->rank == 1;
    x.b_is_vector = bs->rank == 1;
    const uint32_t a_k = x.a_is_vector ? 0 : ta ? as->rank - 2 : as->rank - 1;
    const uint32_t b_k = x.b_is_vector ? 0 : tb ? bs->rank - 1 : bs->rank - 2;
    x.k = as->dim[a_k];
    x.a_k = al->stride[a_k];
    x.b_k = bl->stride[b_k];
    if (!x.a_is_vector) {
        const uint32_t row = ta ? as->rank - 1 : as->rank - 2;
        x.m = as->dim[row];
        x.a_row = al->stride[row];
    }
    if (!x.b_is_vector) {
        const uint32_t col = tb ? bs->rank - 2 : bs->rank - 1;
        x.n = bs->dim[col];
        x.b_col = bl->stride[col];
    }
    x.batch = node->shape->rank - (x.a_is_vector ? 0u : 1u) - (x.b_is_vector ? 0u : 1u);
    return x;
}

// Batch strides of an operand with `rank` axes of which the last `inner` are its matrix.
static KRef batch_base(Lower *l, NodeId id, uint32_t inner, uint32_t batch, const Point *at)
{
    const Shape *s = lower_node(l, id)->shape;
    const Loc *loc = lower_loc(l, id);
    KRef base = k_index(l->k, 0);
    if (s->rank <= inner)
        return base;
    const uint32_t own = s->rank - inner, lead = batch - own;
    for (uint32_t i = 0; i < own; i++)
        if (s->dim[i] != 1)
            base = k_mul_add(l->k, at->idx[lead + i], loc->stride[i], base);
    return base;
}

// The result's axes plus the missing row or column, so that every schedule sees batch + 2 axes.
static void add_output_domain(Lower *l, Matmul *x)
{
    const Shape *s = lower_node(l, l->root)->shape;
    Domain d = domain_of(s);
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    x->d = d;
}

static Point output_point(const Matmul *x, const Point *batch, KRef row, KRef column)
{
    Point at = *batch;
    uint32_t axis = x->batch;
    if (!x->a_is_vector)
        at.idx[axis++] = row;
    if (!x->b_is_vector)
        at.idx[axis] = column;
    at.vec_axis = axis;
    return at;
}

// --- tiles ---------------------------------------------------------------------------------------

typedef struct MatmulStore {
    const Matmul *x;
    const Point *batch;
} MatmulStore;

static void store_matmul(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    const MatmulStore *s = ctx;
    Point at = output_point(s->x, s->batch, out->column, out->channel);
    at.lanes = out->lanes;
    at.count = out->count;
    pull_store_root(l, &s->x->d, at, value);
}

// A constant b without batch axes that differ: packed at compile time.
static bool is_packable(const Lower *l, const Matmul *x)
{
    const Shape *s = lower_node(l, x->b)->shape;
    return node_is_const(l->g, x->b) && shape_numel(s) == x->k * x->n;
}

static void pack_constant(Lower *l, const Matmul *x, Tile *t)
{
    const TileSource src = {.data = node_attr(lower_node(l, x->b), A_const_data)->u.blob,
                            .stride_oc = x->b_col,
                            .stride_ic = x->b_k};
    t->w = tile_pack(t, &src, node_name(l->g, x->b));
}

// Columns of b that are not next to each other are copied into rows of scratch, once per batch entry.
static void pack_at_run_time(Lower *l, const Matmul *x, Tile *t, const Point *batch)
{
    Kernel *k = l->k;
    const uint32_t scratch = lower_param_scratch(l, "packed b", DTYPE_f32, (uint64_t)(x->k * x->n));
    const uint32_t b = lower_param(l, x->b, PARAM_READ);
    const KRef base = batch_base(l, x->b, x->b_is_vector ? 1 : 2, x->batch, batch);
    const KRef row = k_for(k, k_index(k, 0), k_index(k, x->k), 1, KFOR_SERIAL, "r");
    const KRef col = k_for(k, k_index(k, 0), k_index(k, x->n), 1, KFOR_SERIAL, "c");
    const KRef from = k_mul_add(k, row, x->b_k, k_mul_add(k, col, x->b_col, base));
    k_store(k, scratch, k_mul_add(k, row, x->n, col), k_load(k, b, from, 1, 1), 1);
    k_end(k);
    k_end(k);
    t->w = (TileWeights){.param = scratch, .row_stride = x->n, .base = k_index(k, 0)};
}

static void choose_weights(Lower *l, const Matmul *x, Tile *t, const Point *batch)
{
    if (is_packable(l, x)) {
        pack_constant(l, x, t);
    } else if (t->lanes == 1 ? x->b_col == 1 : x->b_col == 1 || x->n == 1) {
        t->w = (TileWeights){.param = lower_param(l, x->b, PARAM_READ),
                             .row_stride = x->b_k,
                             .base = batch_base(l, x->b, x->b_is_vector ? 1 : 2, x->batch, batch)};
    } else {
        pack_at_run_time(l, x, t, batch);
    }
}

static bool can_tile(const Lower *l, const Matmul *x)
{
    if (l->caps->is_gpu || lower_node(l, x->a)->dtype != DTYPE_f32 ||
        lower_node(l, l->anchor)->dtype != DTYPE_f32)
        return false;
    if (x->b_is_vector || x->n == 1)
        return false;
    const uint32_t last = x->d.rank - 1;
    return lower_fit_lanes(l, x->n) == 1 || domain_lanes(l, &x->d, last) > 1;
}

static void lower_tiled(Lower *l, Matmul *x)
{
    Point batch = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &x->d, x->batch, &batch);
    Tile t = tile_new(l, (TileShape){.n = 1,
                                     .h = 1,
                                     .w = x->m,
                                     .in_h = 1,
                                     .in_w = x->m,
                                     .ic = x->k,
                                     .oc = x->n,
                                     .kh = 1,
                                     .kw = 1,
                                     .sh = 1,
                                     .sw = 1,
                                     .dh = 1,
                                     .dw = 1});
    choose_weights(l, x, &t, &batch);
    t.in = (TileInput){.param = lower_param(l, x->a, PARAM_READ),
                       .stride_c = x->a_k,
                       .stride_w = x->a_row,
                       .base = batch_base(l, x->a, x->a_is_vector ? 1 : 2, x->batch, &batch)};
    MatmulStore store = {.x = x, .batch = &batch};
    t.store = store_matmul;
    t.ctx = &store;
    tile_emit(&t);
    lower_close(l, opened);
}

// --- dot products --------------------------------------------------------------------------------

// One result per point: the sum over k, in vectors when both operands are next to each other along k.
static KRef dot(Lower *l, const Matmul *x, KRef a, KRef b)
{
    Kernel *k = l->k;
    const int t = lower_node(l, l->anchor)->dtype;
    const uint32_t pa = lower_param(l, x->a, PARAM_READ), pb = lower_param(l, x->b, PARAM_READ);
    const bool is_vector = !l->caps->is_gpu && t == DTYPE_f32 && x->a_k == 1 && x->b_k == 1;
    const uint8_t lanes = is_vector ? lower_fit_lanes(l, x->k) : 1;
    const int64_t whole = x->k - x->k % lanes;
    const KRef zero = k_number(k, t, 0);
    const KRef acc = k_var(k,
                           lanes > 1                           ? k_splat(k, zero, lanes)
                           : dtype_info[t].cls == DCLASS_FLOAT ? zero
                                                               : k_integer(k, t, 0),
                           "acc");
    if (whole > 0) {
        const KRef i = k_for(k, k_index(k, 0), k_index(k, whole), lanes, KFOR_SERIAL, "c");
        const KRef av = k_load(k, pa, k_mul_add(k, i, x->a_k, a), lanes, lanes),
                   bv = k_load(k, pb, k_mul_add(k, i, x->b_k, b), lanes, lanes);
        k_set(k, acc, k_op(k, KOP_fma, av, bv, k_get(k, acc)));
        k_end(k);
    }
    if (whole < x->k) {
        const uint8_t rest = (uint8_t)(x->k - whole);
        const KRef av = k_load(k, pa, k_add(k, a, k_index(k, whole)), lanes, rest),
                   bv = k_load(k, pb, k_add(k, b, k_index(k, whole)), lanes, rest);
        k_set(k, acc, k_op(k, KOP_fma, av, bv, k_get(k, acc)));
    }
    return lanes > 1 ? k_hreduce(k, KOP_add, k_get(k, acc)) : k_get(k, acc);
}

static KRef dot_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    Matmul *x = ctx;
    (void)d;
    const KRef row = x->a_is_vector ? 0 : at.idx[x->batch],
               col = x->b_is_vector ? 0 : at.idx[x->batch + (x->a_is_vector ? 0u : 1u)];
    KRef a = batch_base(l, x->a, x->a_is_vector ? 1 : 2, x->batch, &at),
         b = batch_base(l, x->b, x->b_is_vector ? 1 : 2, x->batch, &at);
    a = row != 0 ? k_mul_add(l->k, row, x->a_row, a) : a;
    b = col != 0 ? k_mul_add(l->k, col, x->b_col, b) : b;
    return dot(l, x, a, b);
}

void lower_matmul(Lower *l)
{
    Matmul x = matmul_of(l);
    add_output_domain(l, &x);
    l->pk->macs = (uint64_t)shape_numel(lower_node(l, l->anchor)->shape) * (uint64_t)x.k;
    if (can_tile(l, &x))
        lower_tiled(l, &x);
    else
        lower_map(l, dot_point, &x, MAP_SCALAR);
}
