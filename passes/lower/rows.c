// SPDX-License-Identifier: Apache-2.0
// Row kernels. See rows.h. Accumulation: f32 (the operand's type), in up to ROW_ACCS independent sums per
// lane that are joined pairwise at the end, so long rows lose less than one running sum would.
#include "passes/lower/rows.h"
#include <math.h>

enum { ROW_ACCS = 4 };
// Sums of a row of f64, of which compilers make vectors: a sixteenth of the elements.
enum { FEW_SUMS = 8, MANY_SUMS = 32, SUM_ELEMENTS = 4 };
// Bytes of rows that are worth being fetched ahead by the vector: shorter ones are too near, of longer ones
// two do not fit into the first-level cache.
enum { FETCH_LEAST = 1024, FETCH_MOST = 12288 };

const RowFold row_fold_sum = {"(add a b)", KOP_add, 0, false, false};
const RowFold row_fold_mean = {"(add a b)", KOP_add, 0, false, true};
const RowFold row_fold_prod = {"(mul a b)", KOP_mul, 1, false, false};
const RowFold row_fold_max = {"(select (ne a a) a (max a b))", KOP_max, -(double)INFINITY, true, false};
const RowFold row_fold_min = {"(select (ne a a) a (min a b))", KOP_min, (double)INFINITY, true, false};

static AxisMap root_axes(const Lower *l, const Shape *operand, const bool *in_row, const uint32_t *place)
{
    const Shape *root = lower_node(l, l->root)->shape;
    AxisMap map = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < operand->rank; i++)
        if (root->rank == operand->rank || !in_row[i])
            map.to[n++] = place[i];
    return map;
}

// Rows that do not exist in a run are left out.
static void trim_kept(const Lower *l, Domain *d, const bool *in_row)
{
    const bool same_rank = lower_node(l, l->root)->shape->rank == d->rank;
    for (uint32_t i = 0, n = 0; i < d->rank; i++) {
        const LiveRef live = in_row[i] ? (LiveRef){0} : live_bound(l->plan, l->root, same_rank ? i : n);
        n += !in_row[i];
        d->live[i] = lower_knows(l, &live) ? live : (LiveRef){0};
    }
}

// Masks around the operand need not be computed where the loops end with them.
static void drop_masks(Lower *l, NodeId operand, uint32_t axis, const LiveRef *end)
{
    while (l->sizes.n_unmasked < sizeof l->sizes.unmasked / sizeof *l->sizes.unmasked &&
           lower_is_in_body(l, operand)) {
        if (live_is_masked(l->plan, operand, end, axis))
            l->sizes.unmasked[l->sizes.n_unmasked++] = operand;
        else if (op_info[lower_node(l, operand)->op].ew != EW_SEL)
            return;
        operand = lower_node(l, operand)->src[1]; // of another mask: perhaps it is inside of that
    }
}

// Rows end where all that follows is `neutral`. Results of the same shape must not need what is beyond.
static void trim_row(Lower *l, Domain *d, NodeId operand, const bool *in_row, double neutral)
{
    const Shape *root = lower_node(l, l->root)->shape, *s = lower_node(l, operand)->shape;
    for (uint32_t i = 0; i < s->rank; i++) {
        const LiveRef end = in_row[i] ? live_fill(l->plan, operand, i, neutral) : (LiveRef){0};
        const bool is_kept = root->rank == s->rank && root->dim[i] == s->dim[i] && s->dim[i] > 1;
        const LiveRef stored = is_kept ? live_bound(l->plan, l->root, i) : end;
        if (!lower_knows(l, &end) || !live_equal(&end, &stored))
            continue;
        d->live[i] = end;
        drop_masks(l, operand, i, &end);
    }
}

// Accesses on the operand's side must have stride 0 or 1 along the axis for vectors; on the root's side too,
// if it varies there.
static void choose_mode(Lower *l, Rows *r)
{
    r->mode = ROWS_SCALAR;
    r->lanes = 1;
    if (l->caps->is_gpu || r->d.rank == 0)
        return;
    const uint32_t last = r->d.rank - 1;
    const uint8_t along = r->d.rank > r->n_kept ? domain_lanes(l, &r->d, last) : 1;
    if (along > 1) {
        r->mode = ROWS_ALONG;
        r->vec_axis = last;
        r->lanes = along;
        return;
    }
    for (uint32_t i = r->n_kept; i-- > 0;)
        if (domain_lanes(l, &r->d, i) > 1) {
            r->mode = ROWS_ACROSS;
            r->vec_axis = i;
            r->lanes = domain_lanes(l, &r->d, i);
            return;
        }
}

Rows rows_new(Lower *l, NodeId operand, const bool *in_row, double neutral)
{
    const Shape *s = lower_node(l, operand)->shape;
    rlx_assert(operand != 0 && s->rank <= SHAPE_MAX_RANK);
    Rows r = {.d = domain_of(s), .count = 1};
    uint32_t place[SHAPE_MAX_RANK];
    uint8_t class[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < s->rank; i++) {
        place[i] = i;
        class[i] = in_row[i];
        r.count *= in_row[i] ? s->dim[i] : 1;
    }
    trim_kept(l, &r.d, in_row);
    trim_row(l, &r.d, operand, in_row, neutral);
    domain_add_operands(l, &r.d, operand);
    const Node *anchor = lower_node(l, l->anchor);
    for (uint32_t i = 1; i < anchor->n_src; i++)
        if (anchor->src[i] != 0)
            domain_add(l, &r.d, anchor->src[i]);
    const AxisMap map = root_axes(l, s, in_row, place);
    domain_add_root(l, &r.d, &map);
    domain_move_class(&r.d, class);
    domain_simplify(l, &r.d, r.d.access.data[0].node, class);
    while (r.n_kept < r.d.rank && class[r.n_kept] == 0)
        r.n_kept++;
    choose_mode(l, &r);
    return r;
}

typedef struct Rest {
    const Rows *r;
    RowFn fn;
    void *ctx;
} Rest;

static void across_rows(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Rest *rest = ctx;
    (void)d;
    rest->fn(l, rest->r, at, rest->ctx);
}

void rows_emit(Lower *l, const Rows *r, RowFn fn, void *ctx)
{
    rlx_assert(fn != NULL && r->n_kept <= r->d.rank);
    Point at = {.lanes = 1, .count = 1};
    if (r->mode == ROWS_GROUP) {
        rows_group_emit(l, r, fn, ctx);
        return;
    }
    if (r->mode != ROWS_ACROSS) {
        const uint32_t opened = lower_open(l, &r->d, r->n_kept, &at);
        fn(l, r, at, ctx);
        lower_close(l, opened);
        return;
    }
    Rest rest = {r, fn, ctx};
    uint32_t opened = 0;
    for (uint32_t i = 0; i < r->n_kept; i++)
        if (i != r->vec_axis)
            opened += lower_open_axis(l, &r->d, i, KFOR_PARALLEL, &at);
    lower_along(l, &r->d, r->vec_axis, r->lanes, at, across_rows, &rest);
    lower_close(l, opened);
}

// Loops over the axes of the row but the last.
static uint32_t open_outer(Lower *l, const Rows *r, Point *at)
{
    uint32_t opened = 0;
    for (uint32_t i = r->n_kept; i + 1 < r->d.rank; i++)
        opened += lower_open_axis(l, &r->d, i, KFOR_SERIAL, at);
    return opened;
}

void rows_each(Lower *l, const Rows *r, Point at, PointFn fn, void *ctx)
{
    rlx_assert(fn != NULL && r->n_kept <= r->d.rank);
    if (r->mode == ROWS_GROUP) {
        rows_group_each(l, r, at, fn, ctx);
        return;
    }
    if (r->d.rank == r->n_kept) {
        fn(l, &r->d, at, ctx);
        return;
    }
    const uint32_t last = r->d.rank - 1;
    uint32_t opened = open_outer(l, r, &at);
    if (r->mode == ROWS_ALONG) {
        lower_along(l, &r->d, last, r->lanes, at, fn, ctx);
    } else {
        opened += lower_open_axis(l, &r->d, last, KFOR_SERIAL, &at);
        fn(l, &r->d, at, ctx);
    }
    lower_close(l, opened);
}

void rows_begin_folds(Lower *l, Rows *r)
{
    rlx_assert(r->lanes >= 1 && r->n_kept <= r->d.rank);
    Kernel *k = l->k;
    const uint32_t last = r->d.rank - 1;
    if (r->mode != ROWS_ALONG || !lower_is_float(lower_node(l, l->anchor)->dtype) ||
        (r->d.extent[last] % r->lanes == 0 && r->d.live[last].size == 0))
        return;
    r->ramp = k_array(k, DTYPE_f32, r->lanes);
    const KRef i = k_loop(k, r->lanes, KFOR_SERIAL, "i");
    k_astore(k, r->ramp, i, k_cast(k, i, DTYPE_f32));
    k_end(k);
}

typedef struct Folding {
    const RowFold *fold;
    MapFn value;
    void *ctx;
    int type;
    KRef acc[ROW_ACCS];
    KRef nan[ROW_ACCS]; // of vectors that keep NaN: those that were found, which acc passes over
    KRef init; // scalar neutral element
} Folding;

static void fold_into(Lower *l, const Folding *f, uint32_t which, KRef value)
{
    Kernel *k = l->k;
    const KRef operand[3] = {k_get(k, f->acc[which]), value, 0};
    const KRef nan = f->nan[which];
    if (nan != 0)
        k_set(k, nan, k_select(k, k_ne(k, value, value), value, k_get(k, nan)));
    const char *form = nan == 0                     ? f->fold->form
                       : f->fold->across == KOP_max ? "(max b a)"
                                                    : "(min b a)";
    k_set(k, f->acc[which], k_form(k, form, operand, f->type));
}

static KRef value_at(Lower *l, const Domain *d, const Folding *f, Point at)
{
    KRef v = f->value(l, d, at, f->ctx);
    if (f->fold->is_wide && dtype_info[f->type].cls != DCLASS_FLOAT)
        v = k_cast(l->k, v, f->type);
    return at.lanes > 1 && k_inst(l->k, v)->lanes == 1 ? k_splat(l->k, v, at.lanes) : v;
}

// Where the blocks, the vectors and the elements of a row end.
typedef struct RowCuts {
    KRef blocks, whole, end;
} RowCuts;

// As they would be in a kernel of the size that the row has in the run: the same sums.
static RowCuts cut_row(Lower *l, const Rows *r, int64_t blocks, int64_t whole)
{
    Kernel *k = l->k;
    const uint32_t last = r->d.rank - 1;
    const int64_t n = r->d.extent[last], block = (int64_t)r->lanes * ROW_ACCS;
    if (r->d.live[last].size == 0)
        return (RowCuts){k_index(k, blocks), k_index(k, whole), k_index(k, n)};
    const KRef end = lower_live(l, &r->d.live[last], n), zero = k_index(k, 0);
    RowCuts c = {.blocks = zero, .end = end};
    c.whole = k_expr(k, "$ - $ % #", end, end, r->lanes);
    if (blocks > 0) {
        const KRef is_long = k_expr(k, "# <= $", 2 * block, end);
        const KRef all = k_expr(k, "$ - $ % #", end, end, block);
        c.blocks = k_select(k, is_long, all, zero);
    }
    return c;
}

// The first elements of one more vector, of which `count` are there: lanes behind those of the row hold the
// neutral element.
static void fold_some(Lower *l, const Rows *r, const Folding *f, Point at, KRef from, KRef end, int64_t count)
{
    Kernel *k = l->k;
    const uint32_t last = r->d.rank - 1;
    at.idx[last] = from;
    at.lanes = r->lanes;
    at.count = (uint8_t)count;
    const KRef n = k_cast(k, k_sub(k, end, from), DTYPE_f32);
    const KRef is_there = k_lt(k, k_aload(k, r->ramp, k_index(k, 0), r->lanes), k_splat(k, n, r->lanes));
    const KRef value = value_at(l, &r->d, f, at);
    fold_into(l, f, 0, k_select(k, is_there, value, k_splat(k, f->init, r->lanes)));
}

// What is left of the row behind whole vectors. Vectors of fewer lanes would add in the same order: it is
// that of halves, from the outermost.
static void fold_last(Lower *l, const Rows *r, const Folding *f, Point at, const RowCuts *cut)
{
    Kernel *k = l->k;
    const uint32_t last = r->d.rank - 1;
    const int64_t n = r->d.extent[last], rest = n % r->lanes;
    if (r->d.live[last].size == 0) {
        fold_some(l, r, f, at, cut->whole, cut->end, rest);
        return;
    }
    const KRef bound = k_index(k, n - rest);
    k_if(k, k_lt(k, cut->whole, rest != 0 ? k_min(k, cut->end, bound) : cut->end));
    fold_some(l, r, f, at, cut->whole, cut->end, r->lanes);
    k_end(k);
    if (rest == 0)
        return;
    k_if(k, k_lt(k, bound, cut->end));
    fold_some(l, r, f, at, bound, cut->end, rest);
    k_end(k);
}

// Folds element by element, into a separate sum.
static void fold_singly(Lower *l, const Rows *r, const Folding *f, Point at, const RowCuts *cut, KRef sum)
{
    Kernel *k = l->k;
    Folding single = *f;
    single.acc[0] = sum;
    single.nan[0] = 0;
    at.lanes = at.count = 1;
    at.idx[r->d.rank - 1] = k_for(k, cut->whole, cut->end, 1, KFOR_SERIAL, "r");
    fold_into(l, &single, 0, value_at(l, &r->d, f, at));
    k_end(k);
}

// The lanes that have found a NaN, which are joined no more; 0: none are kept.
static KRef found_nan(Lower *l, Folding *f, uint32_t accs)
{
    Kernel *k = l->k;
    KRef found = 0;
    for (uint32_t i = 0; i < accs && f->nan[i] != 0; i++) {
        const KRef nan = k_get(k, f->nan[i]), is_nan = k_ne(k, nan, nan);
        found = found == 0 ? is_nan : k_or(k, found, is_nan);
        f->nan[i] = 0;
    }
    return found;
}

// The last axis in vectors: four at a time, then one at a time, then the rest: as a vector with lanes left
// out, or element by element into a sum of its own.
static KRef fold_along(Lower *l, const Rows *r, Point at, Folding *f)
{
    Kernel *k = l->k;
    const uint32_t last = r->d.rank - 1;
    const int64_t n = r->d.extent[last], block = (int64_t)r->lanes * ROW_ACCS, whole = n - n % r->lanes;
    const int64_t blocks = n >= 2 * block ? n - n % block : 0;
    const uint32_t accs = blocks > 0 ? ROW_ACCS : 1;
    const bool is_live = r->d.live[last].size != 0, has_rest = whole < n || is_live,
               is_single = has_rest && (r->ramp == 0 || !lower_is_float(f->type));
    const RowCuts cut = cut_row(l, r, blocks, whole);
    const KRef rest = is_single ? k_var(k, f->init, "rest") : 0;
    const bool keeps_nan = f->fold->keeps_nan && dtype_info[f->type].cls == DCLASS_FLOAT;
    for (uint32_t i = 0; i < accs; i++) {
        f->acc[i] = k_var(k, k_splat(k, f->init, r->lanes), "acc");
        if (keeps_nan)
            f->nan[i] = k_var(k, k_splat(k, k_number(k, f->type, 0), r->lanes), "nan");
    }
    const uint32_t opened = open_outer(l, r, &at);
    at.vec_axis = last;
    at.lanes = at.count = r->lanes;
    if (blocks > 0) {
        const KRef i = k_for(k, k_index(k, 0), cut.blocks, block, KFOR_SERIAL, "r");
        for (uint32_t j = 0; j < ROW_ACCS; j++) {
            at.idx[last] = k_expr(k, "$ + #", i, (int64_t)j * r->lanes);
            fold_into(l, f, j, value_at(l, &r->d, f, at));
        }
        k_end(k);
    }
    if (blocks < whole || is_live) {
        at.idx[last] = k_for(k, cut.blocks, cut.whole, r->lanes, KFOR_SERIAL, "r");
        fold_into(l, f, 0, value_at(l, &r->d, f, at));
        k_end(k);
    }
    if (is_single)
        fold_singly(l, r, f, at, &cut, rest);
    else if (has_rest)
        fold_last(l, r, f, at, &cut);
    lower_close(l, opened);
    const KRef nan = found_nan(l, f, accs);
    for (uint32_t i = accs; i-- > 1;)
        fold_into(l, f, i - 1, k_get(k, f->acc[i]));
    KRef out = k_hreduce(k, f->fold->across, k_get(k, f->acc[0]));
    if (nan != 0)
        out = k_select(k, k_hreduce(k, KOP_or, nan), k_number(k, f->type, (double)NAN), out);
    const KRef join[3] = {out, rest != 0 ? k_get(k, rest) : 0, 0};
    return rest != 0 ? k_form(k, f->fold->form, join, f->type) : out;
}

static void fold_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    Folding *f = ctx;
    fold_into(l, f, 0, value_at(l, d, f, at));
}

KRef rows_neutral(Kernel *k, int type, const RowFold *fold)
{
    const double v = fold->init;
    static const int64_t lowest[DTYPE_COUNT] = {
        [DTYPE_i64] = INT64_MIN, [DTYPE_i32] = INT32_MIN, [DTYPE_i16] = INT16_MIN, [DTYPE_i8] = INT8_MIN};
    static const int64_t highest[DTYPE_COUNT] = {
        [DTYPE_i64] = INT64_MAX,  [DTYPE_i32] = INT32_MAX, [DTYPE_i16] = INT16_MAX,
        [DTYPE_i8] = INT8_MAX,    [DTYPE_u64] = -1,        [DTYPE_u32] = UINT32_MAX,
        [DTYPE_u16] = UINT16_MAX, [DTYPE_u8] = UINT8_MAX,  [DTYPE_bool] = 1};
    if (dtype_info[type].cls == DCLASS_FLOAT)
        return k_number(k, type, v);
    return k_integer(k, type, v < -1 ? lowest[type] : v > 1 ? highest[type] : (int64_t)v);
}

int rows_fold_type(const Lower *l, const RowFold *fold)
{
    const int type = lower_node(l, l->anchor)->dtype;
    const DTypeClass cls = dtype_info[type].cls;
    return !fold->is_wide || cls == DCLASS_FLOAT ? type : cls == DCLASS_INT ? (int)DTYPE_i64 : (int)DTYPE_u64;
}

static Folding folding_new(Lower *l, const RowFold *fold, MapFn value, void *ctx)
{
    Folding f = {.fold = fold, .value = value, .ctx = ctx, .type = rows_fold_type(l, fold)};
    f.init = rows_neutral(l->k, f.type, fold);
    return f;
}

static KRef fold_group(Lower *l, const Rows *r, Point at, Folding *f)
{
    Kernel *k = l->k;
    f->acc[0] = k_var(k, f->init, "acc");
    rows_group_fold(l, r, at, fold_point, f);
    const KRef own = k_get(k, f->acc[0]), v = k_var(k, rows_group_join(l, r, f->fold->across, own), "all");
    if (!f->fold->keeps_nan || dtype_info[f->type].cls != DCLASS_FLOAT)
        return k_get(k, v);
    const KRef zero = k_number(k, f->type, 0), one = k_number(k, f->type, 1);
    const KRef is_nan = k_select(k, k_ne(k, own, own), one, zero);
    const KRef n = rows_group_join(l, r, KOP_add, is_nan), any = k_ne(k, n, zero);
    return k_select(k, any, k_number(k, f->type, (double)NAN), k_get(k, v));
}

// Are there vectors only if the compiler makes them?
static bool folds_in_array(const Lower *l, const Rows *r, const Folding *f)
{
    const uint32_t last = r->d.rank - 1;
    return r->mode == ROWS_SCALAR && !l->caps->is_gpu && f->type == DTYPE_f64 && r->d.rank > r->n_kept &&
           r->d.extent[last] >= 2 * FEW_SUMS && r->d.live[last].size == 0;
}

static void fold_into_array(Lower *l, const Rows *r, const Folding *f, Point at, KRef sums, KRef which)
{
    const KRef operand[3] = {k_aload(l->k, sums, which, 1), value_at(l, &r->d, f, at), 0};
    k_astore(l->k, sums, which, k_form(l->k, f->fold->form, operand, f->type));
}

// Element i goes to sum i % n of an array.
static KRef fold_in_array(Lower *l, const Rows *r, Point at, const Folding *f)
{
    Kernel *k = l->k;
    const uint32_t last = r->d.rank - 1;
    const int64_t all = r->d.extent[last];
    int64_t n = FEW_SUMS;
    while (n < MANY_SUMS && n * SUM_ELEMENTS <= all)
        n *= 2;
    const int64_t whole = all - all % n;
    const KRef sums = k_array(k, f->type, n);
    k_astore(k, sums, k_loop(k, n, KFOR_SERIAL, "j"), f->init);
    k_end(k);
    const uint32_t opened = open_outer(l, r, &at);
    const KRef i = k_for(k, k_index(k, 0), k_index(k, whole), n, KFOR_SERIAL, "r");
    KRef j = k_loop(k, n, KFOR_SERIAL, "j");
    at.idx[last] = k_add(k, i, j);
    fold_into_array(l, r, f, at, sums, j);
    k_end(k);
    k_end(k);
    j = k_loop(k, all - whole, KFOR_SERIAL, "j");
    at.idx[last] = k_expr(k, "$ + #", j, whole);
    fold_into_array(l, r, f, at, sums, j);
    k_end(k);
    lower_close(l, opened);
    for (int64_t half = n / 2; half > 0; half /= 2) {
        j = k_loop(k, half, KFOR_SERIAL, "j");
        const KRef join[3] = {k_aload(k, sums, j, 1), k_aload(k, sums, k_expr(k, "$ + #", j, half), 1), 0};
        k_astore(k, sums, j, k_form(k, f->fold->form, join, f->type));
        k_end(k);
    }
    return k_aload(k, sums, k_index(k, 0), 1);
}

KRef rows_fold(Lower *l, const Rows *r, Point at, const RowFold *fold, MapFn value, void *ctx)
{
    rlx_assert(fold != NULL && value != NULL);
    Folding f = folding_new(l, fold, value, ctx);
    if (r->mode == ROWS_ALONG)
        return fold_along(l, r, at, &f);
    if (r->mode == ROWS_GROUP)
        return fold_group(l, r, at, &f);
    if (folds_in_array(l, r, &f))
        return fold_in_array(l, r, at, &f);
    f.acc[0] =
        k_var(l->k, r->mode == ROWS_ACROSS && at.lanes > 1 ? k_splat(l->k, f.init, at.lanes) : f.init, "acc");
    rows_each(l, r, at, fold_point, &f);
    return k_get(l->k, f.acc[0]);
}

// Vector `which` of those from `at` on that hold `rows` rows.
static Point block_vector(Kernel *k, const Rows *r, Point at, uint32_t which, int64_t rows)
{
    const int64_t from = (int64_t)which * r->lanes, left = rows - from;
    at.idx[r->vec_axis] = k_expr(k, "$ + #", at.idx[r->vec_axis], from);
    at.count = left < r->lanes ? (uint8_t)left : r->lanes;
    return at;
}

static KRef block_result(Kernel *k, const Folding *f, uint32_t which)
{
    const KRef v = k_get(k, f->acc[which]);
    if (f->nan[which] == 0)
        return v;
    const KRef nan = k_get(k, f->nan[which]);
    return k_select(k, k_ne(k, nan, nan), nan, v);
}

// `rows` rows at once, up to ROW_ACCS vectors, from at.idx[vec_axis].
static void reduce_block(Lower *l, const Rows *r, const RowReduction *x, Point at, int64_t rows)
{
    Kernel *k = l->k;
    Folding f = folding_new(l, x->fold, x->value, x->ctx);
    Point inner = at;
    const uint32_t n = (uint32_t)((rows + r->lanes - 1) / r->lanes);
    for (uint32_t j = 0; j < n; j++) {
        f.acc[j] = k_var(k, k_splat(k, f.init, at.lanes), "acc");
        if (x->fold->keeps_nan && dtype_info[f.type].cls == DCLASS_FLOAT)
            f.nan[j] = k_var(k, k_splat(k, k_number(k, f.type, 0), at.lanes), "nan");
    }
    uint32_t opened = open_outer(l, r, &inner);
    opened += lower_open_axis(l, &r->d, r->d.rank - 1, KFOR_SERIAL, &inner);
    for (uint32_t j = 0; j < n; j++)
        fold_into(l, &f, j, value_at(l, &r->d, &f, block_vector(k, r, inner, j, rows)));
    lower_close(l, opened);
    for (uint32_t j = 0; j < n; j++)
        x->finish(l, r, block_vector(k, r, at, j, rows), block_result(k, &f, j), x->ctx);
}

static void reduce_row(Lower *l, const Rows *r, Point at, void *ctx)
{
    const RowReduction *x = ctx;
    const KRef folded = rows_fold(l, r, at, x->fold, x->value, x->ctx);
    if (r->mode == ROWS_GROUP)
        rows_group_begin_result(l, r);
    x->finish(l, r, at, folded, x->ctx);
    lower_close(l, r->mode == ROWS_GROUP);
}

void rows_reduce(Lower *l, Rows *r, const RowReduction *x)
{
    rlx_assert(x->fold != NULL && x->value != NULL && x->finish != NULL);
    Kernel *k = l->k;
    RowReduction copy = *x;
    r->is_folded = true;
    rows_use_groups(l, r);
    if (rows_reduce_columns(l, r, x))
        return;
    rows_begin_folds(l, r);
    const int64_t n = r->mode == ROWS_ACROSS ? r->d.extent[r->vec_axis] : 0;
    const int64_t block = (int64_t)r->lanes * ROW_ACCS, blocks = n - n % block;
    if (n == 0 || r->d.rank == r->n_kept || r->d.live[r->vec_axis].size != 0) {
        rows_emit(l, r, reduce_row, &copy);
        return;
    }
    Point at = {.vec_axis = r->vec_axis, .lanes = r->lanes, .count = r->lanes};
    uint32_t opened = 0;
    for (uint32_t i = 0; i < r->n_kept; i++)
        if (i != r->vec_axis)
            opened += lower_open_axis(l, &r->d, i, KFOR_PARALLEL, &at);
    if (blocks > 0) {
        at.idx[r->vec_axis] = k_for(k, k_index(k, 0), k_index(k, blocks), block, KFOR_PARALLEL, "b");
        reduce_block(l, r, x, at, block);
        k_end(k);
    }
    at.idx[r->vec_axis] = k_index(k, blocks);
    if (blocks < n)
        reduce_block(l, r, x, at, n - blocks);
    lower_close(l, opened);
}

void rows_fetch_next(Lower *l, const Rows *r, Point at, NodeId id)
{
    rlx_assert(id != 0);
    if (r->mode != ROWS_ALONG || r->n_kept == 0 || at.lanes <= 1)
        return;
    for (uint32_t i = 0; i < r->d.access.len; i++) {
        const Access *a = &r->d.access.data[i];
        const int64_t next = a->stride[r->n_kept - 1];
        const int64_t bytes = next * (int64_t)dtype_info[lower_node(l, id)->dtype].bytes;
        if (a->node != id || a->space != SPACE_IN || bytes < FETCH_LEAST || bytes > FETCH_MOST)
            continue;
        Pull p = pull_at(l, &r->d, at);
        k_prefetch(l->k, lower_param(l, id, PARAM_READ), k_expr(l->k, "$ + #", pull_index(&p, id), next));
        return;
    }
}

KRef rows_operand(Lower *l, const Domain *d, Point at, void *operand_id)
{
    Pull p = pull_at(l, d, at);
    return pull_value(&p, *(const NodeId *)operand_id);
}
