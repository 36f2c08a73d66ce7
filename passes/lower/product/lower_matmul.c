// SPDX-License-Identifier: Apache-2.0
// Matrix products through the register-tiled core (gemm.h). A constant b is packed at compile time; another
// one is read in place when its columns are next to each other, or copied into panels first. Accumulation:
// f32 fused multiply-adds in rising k. 16-bit floats: rows are widened once, before all else; b is read as it
// is stored, and panels of it are widened where many tiles read them. bf16 by bf16 is multiplied in pairs
// where these are fast (pairs.h), or on matrix registers (matmul_matrix.c). GPUs and other element types take
// plain loops.
#include "ir/shape/forms.h"
#include "passes/lower/halves.h"
#include "passes/lower/packer.h"
#include "passes/lower/pairs.h"
#include "passes/lower/product/gemm.h"
#include "passes/lower/product/matmul.h"
#include "passes/lower/product/panels.h"
#include "passes/lower/product/table.h"

// Rows up to which columns along k are read in place; rows from which a distant b is worth copying, and the
// elements between its rows that are near; rows from which a near b is worth copying whose vectors lie across
// lines; rows for which pairs of a b that a run makes are worth copying.
enum { MAX_DOT_ROWS = 6, MIN_COPY_ROWS = 48, MAX_NEAR_PITCH = 256, MANY_ROWS = 128, MIN_PAIR_ROWS = 8 };

// --- results -------------------------------------------------------------------------------------

typedef struct MatmulStore {
    const Matmul *x;
    const Point *batch;
} MatmulStore;

static void store_matmul(Lower *l, KRef row, KRef column, uint8_t lanes, uint8_t count, KRef value, void *ctx)
{
    const MatmulStore *s = ctx;
    Point at = matmul_point(s->x, s->batch, row, column);
    at.lanes = lanes;
    at.count = count;
    pull_store_root(l, &s->x->d, at, k_cast(l->k, value, lower_node(l, l->anchor)->dtype));
}

static void fetch_matmul(Lower *l, KRef row, KRef column, void *ctx)
{
    const MatmulStore *s = ctx;
    Pull p = pull_at(l, &s->x->d, matmul_point(s->x, s->batch, row, column));
    k_prefetch(l->k, lower_param(l, l->root, PARAM_WRITE), pull_index(&p, l->root));
}

// --- what is possible ----------------------------------------------------------------------------

// A constant b without batch axes that differ: packed at compile time.
static bool is_packable(const Lower *l, const Matmul *x)
{
    const Shape *s = lower_node(l, x->b)->shape;
    return node_is_const(l->g, x->b) && shape_numel(s) == x->k * x->n && x->k_live == 0 &&
           !lower_is_in_file(l, x->b);
}

// The same, or one that depends on parameters only: packed once after they were set.
static bool is_packed(const Lower *l, const Matmul *x)
{
    const Shape *s = lower_node(l, x->b)->shape;
    return is_packable(l, x) || (packer_can_pack(l, x->b) && !lower_is_in_file(l, x->b) &&
                                 shape_numel(s) == x->k * x->n && x->k_live == 0);
}

static bool can_tile(const Lower *l, const Matmul *x)
{
    if (l->caps->is_gpu || !lower_is_float(lower_node(l, x->a)->dtype) ||
        !lower_is_float(lower_node(l, l->anchor)->dtype))
        return false;
    if (x->b_is_vector || x->n == 1)
        return false;
    const uint32_t last = x->d.rank - 1;
    return lower_fit_lanes(l, x->n) == 1 || domain_lanes(l, &x->d, last) > 1;
}

// Few rows against columns that lie along k, as in one step of a decoder: dot products read them in place.
static bool can_be_dots(const Lower *l, const Matmul *x)
{
    return !is_packed(l, x) && x->a_k == 1 && x->b_k == 1 && x->b_col != 1 && lower_fit_lanes(l, x->k) > 1;
}

// Rows whose number only a run knows are dot products when a constant number would be: the same bits.
static bool may_be_few(const Lower *l, const Matmul *x)
{
    return can_be_dots(l, x) && x->k_live == 0 && !x->a_is_vector && x->d.live[x->batch].size != 0 &&
           lower_node(l, x->a)->dtype == DTYPE_f32;
}

static GemmSource source_of(const Lower *l, const Matmul *x, DType b_type, bool has_pairs)
{
    if (is_packed(l, x))
        return k_is_half(b_type) && x->m >= MIN_COPY_ROWS ? GEMM_WIDENED : GEMM_PACKED;
    const bool is_whole = x->b_k % lower_fit_lanes(l, x->n) == 0;
    const bool is_near =
        x->m < MIN_COPY_ROWS || (x->b_k <= MAX_NEAR_PITCH && (is_whole || x->m < MANY_ROWS));
    return x->b_col == 1 && is_near && !has_pairs ? GEMM_ROWS : GEMM_COPIED;
}

// Columns of a run in pairs: where some rows read them, or once after parameters were set.
static bool can_pair_columns(const Lower *l, const Matmul *x)
{
    if (x->k_live != 0 || (x->b_k != 1 && x->b_col != 1))
        return false;
    return is_packed(l, x) ? x->k % 2 == 0 : matmul_join_rows(l, x).m >= MIN_PAIR_ROWS;
}

static bool uses_pairs(const Lower *l, const Matmul *x)
{
    return pairs_are_fast(l->caps) && (is_packable(l, x) || can_pair_columns(l, x)) &&
           lower_node(l, x->a)->dtype == DTYPE_bf16 && lower_node(l, x->b)->dtype == DTYPE_bf16 &&
           gemm_lanes(l, x->n) >= 4;
}

// --- what is decided before anything is emitted --------------------------------------------------

// What tiles read the rows from.
typedef enum RowsForm {
    ROWS_IN_PLACE,
    ROWS_WIDENED, // a copy of all of a as f32, row-major: tiles read elements one by one, each panel again
    ROWS_PAIRED,  // a copy of all of a as rows of pairs along k
    ROWS_WORDS,   // pairs that are in place
} RowsForm;

static bool are_pairs(RowsForm rows)
{
    return rows == ROWS_PAIRED || rows == ROWS_WORDS;
}

static bool are_copied(RowsForm rows)
{
    return rows == ROWS_PAIRED || rows == ROWS_WIDENED;
}

typedef struct Tiling {
    Matmul x; // rows are joined, and strides of a are those of its copy, where pairs are elements
    RowsForm rows;
    bool may_be_few;
    const void *data; // of b, a constant that is packed at compile time; NULL: it is none, or empty
    bool is_lasting;  // b is packed after parameters were set
    DType b_type;
    GemmSource source;
} Tiling;

static uint32_t axis_of_k(const Lower *l, const Matmul *x)
{
    const uint32_t last = lower_node(l, x->a)->shape->rank - 1;
    return !x->a_is_vector && matmul_form(lower_node(l, l->anchor)).turns_a ? last - 1 : last;
}

// The axis whose elements are next to each other in a copy of a.
static uint32_t axis_of_copy(const Lower *l, const Matmul *x, RowsForm rows)
{
    return rows == ROWS_PAIRED ? axis_of_k(l, x) : lower_node(l, x->a)->shape->rank - 1;
}

// Are pairs of elements along k aligned words?
static bool has_words(const Lower *l, const Matmul *x)
{
    const Loc *loc = lower_loc(l, x->a);
    if (loc->buf == 0 || x->a_k != 1 || x->k % 2 != 0 || lower_alignment(l, loc, DTYPE_bf16) < 4)
        return false;
    for (uint32_t i = 0; i < lower_node(l, x->a)->shape->rank; i++)
        if (i != axis_of_k(l, x) && loc->stride[i] % 2 != 0)
            return false;
    return true;
}

static Loc words_of(const Lower *l, const Matmul *x)
{
    Loc loc = *lower_loc(l, x->a);
    for (uint32_t i = 0; i < lower_node(l, x->a)->shape->rank; i++)
        loc.stride[i] = i == axis_of_k(l, x) ? 1 : loc.stride[i] / 2;
    loc.offset /= 2;
    return loc;
}

// The parameter of a, the elements of which are pairs.
static uint32_t param_of_words(Lower *l, const Matmul *x)
{
    const Loc loc = words_of(l, x);
    TensorType t = {.dtype = DTYPE_f32, .shape = *lower_node(l, x->a)->shape};
    t.shape.dim[axis_of_k(l, x)] /= 2;
    return lower_param_typed(l, &t, &loc, node_name(l->g, x->a), PARAM_READ);
}

static RowsForm rows_form(const Lower *l, const Matmul *x)
{
    if (uses_pairs(l, x))
        return has_words(l, x) ? ROWS_WORDS : ROWS_PAIRED;
    return lower_node(l, x->a)->dtype != DTYPE_f32 ? ROWS_WIDENED : ROWS_IN_PLACE;
}

static Tiling tiling_of(Lower *l, const Matmul *x)
{
    const DType type = (DType)lower_node(l, x->b)->dtype;
    const bool is_constant = is_packable(l, x);
    Matmul own = *x;
    Tiling t = {.may_be_few = may_be_few(l, x),
                .data = is_constant ? node_attr(lower_node(l, x->b), A_const_data)->u.blob : NULL,
                .is_lasting = !is_constant && is_packed(l, x)};
    t.rows = rows_form(l, x);
    t.b_type = are_pairs(t.rows) ? DTYPE_f32
               : t.data != NULL  ? halves_type_in(l->g, type, t.data, x->k * x->n)
                                 : type;
    if (are_copied(t.rows))
        pairs_place(l, x->a, axis_of_copy(l, x, t.rows), t.rows == ROWS_PAIRED, &own.a_loc);
    else if (t.rows == ROWS_WORDS)
        own.a_loc = words_of(l, x);
    matmul_set_rows(l, &own);
    t.x = matmul_join_rows(l, &own);
    t.source = source_of(l, &t.x, t.b_type, are_pairs(t.rows));
    rlx_assert(t.data == NULL || !t.is_lasting);
    return t;
}

// --- tiles ---------------------------------------------------------------------------------------

// Rows and columns whose number only a run knows.
static void set_live(Lower *l, const Matmul *x, Gemm *g)
{
    const uint32_t row = x->batch, column = x->batch + (x->a_is_vector ? 0u : 1u);
    if (!x->a_is_vector && x->d.live[row].size != 0 && x->m > 1)
        g->m_live = lower_live(l, &x->d.live[row], x->m);
    if (x->d.live[column].size != 0)
        g->n_live = lower_live(l, &x->d.live[column], x->n);
    g->k_live = x->k_live;
}

static KRef dot_at(Lower *l, const Matmul *x, const Point *batch, KRef row, KRef column);

// The product as dot products when there are few rows, and no rows and columns left for the tiles then.
static void lower_few(Lower *l, const Matmul *x, const Point *batch, KRef few, Gemm *g)
{
    rlx_assert(few != 0 && g->source != GEMM_PACKED);
    Kernel *k = l->k;
    const KRef none = k_index(k, 0), rows = g->m_live != 0 ? g->m_live : k_index(k, x->m),
               columns = g->n_live != 0 ? g->n_live : k_index(k, x->n);
    const KRef row = k_for(k, none, k_select(k, few, rows, none), 1, KFOR_PARALLEL, "r");
    const KRef column = k_for(k, none, columns, 1, KFOR_PARALLEL, "o");
    pull_store_root(l, &x->d, matmul_point(x, batch, row, column), dot_at(l, x, batch, row, column));
    k_end(k);
    k_end(k);
    g->m_live = k_select(k, few, none, rows);
    g->n_live = k_select(k, few, none, columns);
}

static void set_columns(Lower *l, const Tiling *t, const Point *batch, Gemm *g)
{
    rlx_assert(t->data == NULL || !t->is_lasting);
    const Matmul *x = &t->x;
    const Node *b = lower_node(l, x->b);
    if (t->data != NULL) {
        gemm_pack_constant(g, t->data, (DType)b->dtype, x->k, node_name(l->g, x->b));
    } else if (t->is_lasting) {
        gemm_pack_lasting(g, x->b);
    } else {
        g->b = lower_param(l, x->b, PARAM_READ);
        g->b_base = matmul_base(l, x, x->b, lower_loc(l, x->b), batch);
    }
}

// whole: the product before its rows were joined.
static void lower_on_vectors(Lower *l, const Matmul *whole, const Tiling *t)
{
    const Matmul *x = &t->x;
    const bool has_pairs = are_pairs(t->rows);
    Point batch = {.lanes = 1, .count = 1};
    MatmulStore store = {.x = x, .batch = &batch};
    Gemm g = {.l = l, .m = x->m, .n = x->n, .k = has_pairs ? ceil_div(x->k, 2) : x->k,
              .has_pairs = has_pairs, .b_rows = x->k,
              .a_row = x->a_row, .a_k = x->a_k, .b_k = x->b_k, .b_col = x->b_col,
              .b_type = t->b_type, .source = t->source,
              .store = store_matmul, .fetch = fetch_matmul, .ctx = &store};
    const LiveRef *rows = &whole->d.live[whole->batch];
    const KRef few = t->may_be_few ? k_expr(l->k, "$ <= #", lower_live(l, rows, whole->m), MAX_DOT_ROWS) : 0;
    const bool is_copied = are_copied(t->rows);
    const uint32_t copy =
        is_copied ? pairs_copy(l, x->a, axis_of_copy(l, x, t->rows), t->rows == ROWS_PAIRED) : 0;
    set_live(l, x, &g);
    gemm_choose(&g);
    const uint32_t opened = lower_open(l, &x->d, x->batch, &batch);
    set_columns(l, t, &batch, &g);
    g.a = is_copied               ? copy
          : t->rows == ROWS_WORDS ? param_of_words(l, x)
                                  : lower_param(l, x->a, PARAM_READ);
    g.a_base = matmul_base(l, x, x->a, &x->a_loc, &batch);
    if (few != 0)
        lower_few(l, x, &batch, few, &g);
    gemm_emit(&g);
    lower_close(l, opened);
}

// --- dot products --------------------------------------------------------------------------------

static void add_product(Lower *l, const Matmul *x, KRef acc, KRef a, KRef b, KRef i, uint8_t lanes)
{
    Kernel *k = l->k;
    const uint32_t pa = lower_param(l, x->a, PARAM_READ), pb = lower_param(l, x->b, PARAM_READ);
    const KRef av = k_load(k, pa, k_expr(k, "$ * # + $", i, x->a_k, a), lanes, lanes),
               bv = k_load(k, pb, k_expr(k, "$ * # + $", i, x->b_k, b), lanes, lanes);
    k_set(k, acc, k_fma(k, av, bv, k_get(k, acc)));
}

// As many elements as only a run knows: vectors, then one by one.
static KRef live_dot(Lower *l, const Matmul *x, KRef zero, KRef a, KRef b, uint8_t lanes)
{
    rlx_assert(x->k_live != 0 && zero != 0);
    Kernel *k = l->k;
    const KRef rest = k_var(k, zero, "acc"), all = lanes > 1 ? k_var(k, k_splat(k, zero, lanes), "acc") : 0;
    KRef whole = k_index(k, 0);
    if (lanes > 1) {
        whole = k_expr(k, "$ - $ % #", x->k_live, x->k_live, lanes);
        add_product(l, x, all, a, b, k_for(k, k_index(k, 0), whole, lanes, KFOR_SERIAL, "c"), lanes);
        k_end(k);
    }
    add_product(l, x, rest, a, b, k_for(k, whole, x->k_live, 1, KFOR_SERIAL, "c"), 1);
    k_end(k);
    return lanes > 1 ? k_add(k, k_hreduce(k, KOP_add, k_get(k, all)), k_get(k, rest)) : k_get(k, rest);
}

// One result per point: the sum over k, in vectors when both operands are next to each other along k.
static KRef dot(Lower *l, const Matmul *x, KRef a, KRef b)
{
    Kernel *k = l->k;
    const int t = lower_node(l, l->anchor)->dtype;
    const uint32_t pa = lower_param(l, x->a, PARAM_READ), pb = lower_param(l, x->b, PARAM_READ);
    const bool is_vector = !l->caps->is_gpu && lower_is_float(t) && x->a_k == 1 && x->b_k == 1;
    const uint8_t lanes = is_vector ? lower_fit_lanes(l, x->k) : 1;
    rlx_assert(lanes >= 1 && (lanes == 1 || x->a_k == 1));
    const int64_t whole = x->k - x->k % lanes;
    const KRef zero = dtype_info[t].cls == DCLASS_FLOAT ? k_number(k, t, 0) : k_integer(k, t, 0);
    if (x->k_live != 0)
        return live_dot(l, x, zero, a, b, lanes);
    const KRef acc = k_var(k, lanes > 1 ? k_splat(k, zero, lanes) : zero, "acc");
    if (whole > 0) {
        const KRef i = k_for(k, k_index(k, 0), k_index(k, whole), lanes, KFOR_SERIAL, "c");
        add_product(l, x, acc, a, b, i, lanes);
        k_end(k);
    }
    if (whole < x->k) {
        const uint8_t rest = (uint8_t)(x->k - whole);
        const KRef av = k_load(k, pa, k_expr(k, "$ + #", a, whole), lanes, rest),
                   bv = k_load(k, pb, k_expr(k, "$ + #", b, whole), lanes, rest);
        k_set(k, acc, k_fma(k, av, bv, k_get(k, acc)));
    }
    return lanes > 1 ? k_hreduce(k, KOP_add, k_get(k, acc)) : k_get(k, acc);
}

// 0: the operand has no rows or columns.
static KRef dot_at(Lower *l, const Matmul *x, const Point *batch, KRef row, KRef column)
{
    KRef a = matmul_base(l, x, x->a, &x->a_loc, batch),
         b = matmul_base(l, x, x->b, lower_loc(l, x->b), batch);
    a = row != 0 ? k_expr(l->k, "$ * # + $", row, x->a_row, a) : a;
    b = column != 0 ? k_expr(l->k, "$ * # + $", column, x->b_col, b) : b;
    const KRef sum = dot(l, x, a, b);
    return x->scale == 1 ? sum : k_mul(l->k, sum, k_number(l->k, k_inst(l->k, sum)->dtype, x->scale));
}

static KRef dot_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Matmul *x = ctx;
    (void)d;
    return dot_at(l, x, &at, x->a_is_vector ? 0 : at.idx[x->batch],
                  x->b_is_vector ? 0 : at.idx[x->batch + (x->a_is_vector ? 0u : 1u)]);
}

static bool lower_on_gpu(Lower *l, const Matmul *x)
{
    if (lower_prefers_units(l, x))
        return gpu_matmul_lower(l, x) || lower_few_rows(l, x);
    return lower_few_rows(l, x) || gpu_matmul_lower(l, x);
}

static void lower_in_tiles(Lower *l, const Matmul *x)
{
    const Matmul joined = matmul_join_rows(l, x);
    if (is_packable(l, &joined) && matmul_fits_matrix(l, &joined)) {
        matmul_on_matrix(l, &joined);
        return;
    }
    if (!is_packed(l, &joined) && matmul_fits_panels(l, &joined)) {
        matmul_on_panels(l, &joined);
        return;
    }
    const Tiling t = tiling_of(l, x);
    lower_on_vectors(l, x, &t);
}

void lower_matmul(Lower *l)
{
    Matmul x = matmul_of(l);
    x.d = domain_of_root(l);
    l->pk->macs = (uint64_t)shape_numel(lower_node(l, l->anchor)->shape) * (uint64_t)x.k;
    if (lower_on_gpu(l, &x) || table_lower_product(l, &x))
        return;
    if (can_tile(l, &x) && !(x.m <= MAX_DOT_ROWS && can_be_dots(l, &x)))
        lower_in_tiles(l, &x);
    else if (!int_tiles_lower(l, &x) && !panels_lower(l, &x))
        lower_map(l, dot_point, &x, MAP_SCALAR);
}
