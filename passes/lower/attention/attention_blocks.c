// SPDX-License-Identifier: Apache-2.0
// Attention on CPUs with vectors: keys are transposed into scratch memory, and blocks of rows go through two
// register-tiled products (queries x keys, weights x values) with the softmax of their rows in between. Of
// many queries, the rows of a block are those of one head, whose keys are transposed once before. Of few
// ones, they are the heads that share their keys, of which some are transposed at a time, and stay in the
// first cache. A causal block stops at the last key that one of its rows sees; weights behind a row's own
// last key are 0. Should a sum come out infinite or NaN, the rows are mixed again one by one, where keys of
// weight 0 are left out: a hidden value may hold anything.
#include "passes/lower/attention/attention.h"
#include "passes/lower/transpose.h"
#include <math.h>

enum { MIN_QUERIES = 8, KEY_VECTORS = 2, VALUE_VECTORS = 4, MAX_ROWS = 12, MAX_ACCS = ATTENTION_MAX_ACCS };
// Heads that share keys: a single one gains nothing from turned keys, and few keys are not worth the code.
enum { MIN_GROUP = 2, MAX_GROUP = 16, MIN_GROUP_KEYS = 128 };

typedef struct Blocks {
    Lower *l;
    const Attention *a;
    uint8_t lanes;
    uint32_t axis;         // on which the rows of a block lie: that of queries, or of heads
    bool is_group;         // they are heads
    int64_t rows;          // of a whole block
    KRef queries;          // that count in this run; 0: all. A block may reach beyond them
    int64_t n_accs;        // accumulators that fit the registers
    int64_t pitch;         // keys rounded up to whole steps of the score loop
    uint32_t keys, scores; // scratch of the thread: [size][pitch, or those of a step], [rows][pitch + lanes]
    KRef keys_base, scores_base;
} Blocks;

// A block of rows [first, first + rows) on the axis of rows.
typedef struct Block {
    const Blocks *b;
    AttRow row; // the first
    int64_t rows;
    KRef begin, limit; // no row of the block sees a key before or from there on; begin: of a whole step
} Block;

// acc[row][vector] += a(row, step) * b(step)[vector] for step < steps.
typedef struct Product {
    int64_t rows, vectors, columns; // columns: that are real, in lanes
    uint32_t a, b;                  // parameters
    KRef a_base, b_base, steps;
    int64_t a_row, a_step, b_step; // strides
    const AttRow *listed;          // steps are the keys of its blocks; NULL: all of b, one after the other
} Product;

// Keys of a step over scores.
static int64_t step_width(const Blocks *x)
{
    return (int64_t)KEY_VECTORS * x->lanes;
}

static void emit_product(const Blocks *x, const Product *p, KRef *acc)
{
    Kernel *k = x->l->k;
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), x->lanes);
    for (int64_t i = 0; i < p->rows * p->vectors; i++)
        acc[i] = k_var(k, zero, "a");
    KRef step, from_b;
    if (p->listed != NULL) {
        const KRef first = k_for(k, k_index(k, 0), p->steps, ATTENTION_BLOCK, KFOR_SERIAL, "l");
        const KRef block = k_expr(k, "$ * #", attention_key(x->l, p->listed, first), p->b_step);
        const KRef s = k_loop(k, ATTENTION_BLOCK, KFOR_SERIAL, "s");
        step = k_add(k, first, s);
        from_b = k_expr(k, "$ * # + ($ + $)", s, p->b_step, block, p->b_base);
    } else {
        step = k_for(k, k_index(k, 0), p->steps, 1, KFOR_SERIAL, "s");
        from_b = k_expr(k, "$ * # + $", step, p->b_step, p->b_base);
    }
    const KRef from_a = k_expr(k, "$ * # + $", step, p->a_step, p->a_base);
    KRef b[VALUE_VECTORS];
    for (int64_t v = 0; v < p->vectors; v++)
        b[v] = k_cast(k,
                      k_load(k, p->b, k_expr(k, "$ + #", from_b, v * x->lanes), x->lanes,
                             attention_count(v * x->lanes, p->columns, x->lanes)),
                      DTYPE_f32);
    for (int64_t r = 0; r < p->rows; r++) {
        const KRef a = k_load(k, p->a, k_expr(k, "$ + #", from_a, r * p->a_row), 1, 1);
        for (int64_t v = 0; v < p->vectors; v++) {
            const KRef sum = acc[r * p->vectors + v];
            k_set(k, sum, k_fma(k, a, b[v], k_get(k, sum)));
        }
    }
    k_ends(k, p->listed != NULL ? 2 : 1);
}

// Behind the scores of a row there is room for a whole step of -inf.
static int64_t score_pitch(const Blocks *x)
{
    return x->pitch + step_width(x);
}

static AttRow nth_row(const Block *b, KRef n)
{
    Lower *l = b->b->l;
    Point at = b->row.at;
    at.idx[b->b->axis] = k_add(l->k, at.idx[b->b->axis], n);
    AttRow r = attention_row(l, b->b->a, at);
    r.kv_head = b->row.kv_head;
    attention_list(l, &r);
    return r;
}

static void pack_single_keys(const Blocks *x, const AttRow *r)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const KRef j = k_for(k, k_index(k, 0), x->a->live, 1, KFOR_SERIAL, "j");
    const KRef c = k_loop(k, x->a->size, KFOR_SERIAL, "c");
    const KRef v =
        k_load(k, lower_param(l, x->a->k, PARAM_READ), attention_kv_index(l, r, x->a->k, j, c), 1, 1);
    k_store(k, x->keys, k_expr(k, "$ * # + ($ + $)", c, x->pitch, x->keys_base, j), k_cast(k, v, DTYPE_f32),
            1);
    k_ends(k, 2);
}

// Can keys be turned in registers?
static bool has_key_vectors(const Lower *l, const Attention *a)
{
    return lower_loc(l, a->k)->stride[a->rank - 1] == 1;
}

// How far apart the elements of a key are among those that were turned.
static int64_t key_pitch(const Blocks *x)
{
    return x->is_group ? step_width(x) : x->pitch;
}

// `n` keys of a head from `first` on, of which `live` count (0: all).
static void turn_keys(const Blocks *x, const AttRow *r, KRef first, int64_t n, KRef live)
{
    Lower *l = x->l;
    transpose_emit(l,
                   &(Transpose){.from = lower_param(l, x->a->k, PARAM_READ),
                                .to = x->keys,
                                .from_at = attention_kv_index(l, r, x->a->k, first, k_index(l->k, 0)),
                                .to_at = x->keys_base,
                                .rows = n,
                                .live = live,
                                .columns = x->a->size,
                                .from_row = lower_loc(l, x->a->k)->stride[x->a->rank - 2],
                                .to_row = key_pitch(x),
                                .lanes = x->lanes});
}

// Keys of a head as [size][pitch], zeros behind the last.
static void pack_keys(const Blocks *x, const AttRow *r)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const KRef zero = k_number(k, DTYPE_f32, 0);
    int64_t packed = x->a->keys;
    if (has_key_vectors(l, x->a)) {
        turn_keys(x, r, k_index(k, 0), packed, x->a->has_live ? x->a->live : 0);
        packed = ceil_div(packed, x->lanes) * x->lanes;
    } else {
        pack_single_keys(x, r);
    }
    if (packed == x->pitch)
        return;
    const KRef row = k_loop(k, x->a->size, KFOR_SERIAL, "c");
    const KRef rest = k_for(k, k_index(k, packed), k_index(k, x->pitch), 1, KFOR_SERIAL, "j");
    k_store(k, x->keys, k_expr(k, "$ * # + ($ + $)", row, x->pitch, x->keys_base, rest), zero, 1);
    k_ends(k, 2);
}

// --- scores ---

// Do vectors of the mask go with those of the scores?
static bool has_mask_vectors(const Blocks *x)
{
    const NodeId mask = x->a->mask;
    if (mask == 0)
        return false;
    const Node *n = lower_node(x->l, mask);
    const bool is_bool = n->dtype == DTYPE_bool;
    return n->shape->rank > 0 && (is_bool ? operand_is_dense(x->l, mask, n->shape->rank - 1)
                                          : operand_has_vectors(x->l, mask, n->shape->rank - 1));
}

// The mask of row `row` of the block, for `count` keys from `key` on.
static KRef mask_vector(const Block *b, int64_t row, KRef key, uint8_t count)
{
    const Blocks *x = b->b;
    Lower *l = x->l;
    Kernel *k = l->k;
    const NodeId mask = x->a->mask;
    const Shape *s = lower_node(l, mask)->shape;
    const bool is_one = s->dim[s->rank - 1] == 1;
    Point at = b->row.at;
    at.idx[x->axis] = k_expr(k, "$ + #", at.idx[x->axis], row);
    at.idx[x->a->rank - 1] = key;
    const KRef from = operand_broadcast_index(l, mask, at.idx, x->a->rank);
    const KRef v = operand_lanes(l, mask, from, is_one ? 1 : x->lanes, is_one ? 1 : count);
    return is_one ? k_splat(k, v, x->lanes) : v;
}

// Rows of a block that are computed together: parts of it of about the same size.
static int64_t rows_together(const Block *b, int64_t vectors)
{
    return ceil_div(b->rows, ceil_div(b->rows, b->b->n_accs / vectors));
}

// Scores of all rows against `columns` keys from number `to` of those of the rows on: scaled, and with the
// mask if it has vectors.
static void emit_strip(const Block *b, KRef to, int64_t columns)
{
    const Blocks *x = b->b;
    Lower *l = x->l;
    Kernel *k = l->k;
    const int64_t vectors = ceil_div(columns, x->lanes), *q = lower_loc(l, x->a->q)->stride;
    const int64_t most = rows_together(b, vectors);
    const KRef first = attention_key(l, &b->row, to);
    if (x->is_group)
        turn_keys(x, &b->row, first, columns, 0);
    for (int64_t row = 0; row < b->rows; row += most) {
        KRef acc[MAX_ACCS];
        const Product p = {.rows = b->rows - row < most ? b->rows - row : most,
                           .vectors = vectors,
                           .columns = vectors * x->lanes,
                           .a = lower_param(l, x->a->q, PARAM_READ),
                           .b = x->keys,
                           .steps = k_index(k, x->a->size),
                           .a_base = k_expr(k, "$ + #", attention_query_index(l, &b->row, k_index(k, 0)),
                                            row * q[x->axis]),
                           .b_base = x->is_group ? x->keys_base : k_add(k, x->keys_base, first),
                           .a_row = q[x->axis],
                           .a_step = q[x->a->rank - 1],
                           .b_step = key_pitch(x)};
        emit_product(x, &p, acc);
        for (int64_t i = 0; i < p.rows * vectors; i++) {
            const int64_t lane = i % vectors * x->lanes, of = row + i / vectors;
            KRef score = attention_score(l, x->a, k_get(k, acc[i]));
            if (has_mask_vectors(x))
                score = attention_masked(l, x->a, score,
                                         mask_vector(b, of, k_expr(k, "$ + #", first, lane),
                                                     attention_count(lane, columns, x->lanes)));
            const KRef place = k_expr(k, "$ + ($ + #)", x->scores_base, to, of * score_pitch(x) + lane);
            k_store(k, x->scores, place, score, x->lanes);
        }
    }
}

// Scores of all rows against keys [begin, limit), the last ones rounded up to whole vectors.
static void emit_scores(const Block *b)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    const int64_t width = step_width(x), rest = x->a->keys % width, whole = x->a->keys - rest;
    const KRef last = k_index(k, whole);
    if (whole > 0) {
        const KRef end = rest > 0 ? k_min(k, b->limit, last) : b->limit;
        emit_strip(b, k_for(k, b->begin, end, width, KFOR_SERIAL, "j"), width);
        k_end(k);
    }
    if (rest > 0) {
        k_if(k, k_lt(k, last, b->limit));
        emit_strip(b, last, rest);
        k_end(k);
    }
}

// --- softmax ---

static KRef row_base(const Block *b, KRef row)
{
    return k_expr(b->b->l->k, "$ * # + $", row, score_pitch(b->b), b->b->scores_base);
}

static void add_mask(const Block *b, const AttRow *r, KRef base)
{
    Lower *l = b->b->l;
    Kernel *k = l->k;
    const KRef j = k_for(k, r->begin, r->end, 1, KFOR_SERIAL, "j"), place = k_add(k, base, j);
    const KRef score = k_load(k, b->b->scores, place, 1, 1);
    const KRef v = attention_mask_at(l, r, attention_key(l, r, j));
    k_store(k, b->b->scores, place, attention_masked(l, b->b->a, score, v), 1);
    k_end(k);
}

// Keys that a row does not see get -inf, up to a whole step behind the last one of the block. For all rows
// at once: vectors that overlap with what was just stored are slow to load.
static void hide_keys(const Block *b)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    const bool has_windows = x->a->left >= 0 || x->a->right >= 0 || x->a->has_live;
    const bool adds_mask = x->a->mask != 0 && !has_mask_vectors(x);
    if (!has_windows && !adds_mask && x->a->keys % step_width(x) == 0)
        return;
    const KRef n = k_loop(k, b->rows, KFOR_SERIAL, "r"), base = row_base(b, n);
    const AttRow r = nth_row(b, n);
    const KRef lowest = k_number(k, DTYPE_f32, -(double)INFINITY), all_lowest = k_splat(k, lowest, x->lanes);
    if (adds_mask)
        add_mask(b, &r, base);
    if (x->a->left >= 0) {
        const KRef before = k_for(k, b->begin, r.begin, 1, KFOR_SERIAL, "j");
        k_store(k, x->scores, k_add(k, base, before), lowest, 1);
        k_end(k);
    }
    const KRef hidden = k_for(k, r.end, b->limit, x->lanes, KFOR_SERIAL, "j");
    k_store(k, x->scores, k_add(k, base, hidden), all_lowest, x->lanes);
    k_end(k);
    for (int64_t i = 0; i < KEY_VECTORS; i++)
        k_store(k, x->scores, k_expr(k, "$ + ($ + #)", base, b->limit, i * x->lanes), all_lowest, x->lanes);
    k_end(k);
}

// One vector of the step from j on becomes part of what is in `all`.
typedef KRef (*FoldFn)(const Block *b, KRef all, KRef place, KRef top);

static KRef fold_top(const Block *b, KRef all, KRef place, KRef top)
{
    (void)top;
    Kernel *k = b->b->l->k;
    return k_max(k, all, k_load(k, b->b->scores, place, b->b->lanes, b->b->lanes));
}

// The weight takes the place of the score.
static KRef fold_weight(const Block *b, KRef all, KRef place, KRef top)
{
    Kernel *k = b->b->l->k;
    const uint8_t lanes = b->b->lanes;
    const KRef shifted = k_sub(k, k_load(k, b->b->scores, place, lanes, lanes), top);
    const KRef weight = attention_weight(b->b->l, b->b->a, shifted);
    k_store(k, b->b->scores, place, weight, lanes);
    return k_add(k, all, weight);
}

// All scores of a row, the vectors of a step side by side, so that they do not wait for each other.
static KRef fold_row(const Block *b, KRef base, FoldFn fold, KOp op, KRef top)
{
    Kernel *k = b->b->l->k;
    const uint8_t lanes = b->b->lanes;
    const double init = op == KOP_max ? -(double)INFINITY : 0;
    KRef all[KEY_VECTORS];
    for (int64_t v = 0; v < KEY_VECTORS; v++)
        all[v] = k_var(k, k_splat(k, k_number(k, DTYPE_f32, init), lanes), "w");
    const KRef j = k_for(k, b->begin, b->limit, step_width(b->b), KFOR_SERIAL, "j");
    for (int64_t v = 0; v < KEY_VECTORS; v++)
        k_set(k, all[v], fold(b, k_get(k, all[v]), k_expr(k, "$ + ($ + #)", base, j, v * lanes), top));
    k_end(k);
    KRef one = k_get(k, all[0]);
    for (int64_t v = 1; v < KEY_VECTORS; v++)
        one = op == KOP_max ? k_max(k, one, k_get(k, all[v])) : k_add(k, one, k_get(k, all[v]));
    return k_hreduce(k, op, one);
}

// Scores of every row become weights; factors gets 1 / their sums, 0 where a row sees nothing. A NaN among
// the scores makes NaN of the sum, whether the maximum has found it or not.
static void emit_softmax(const Block *b, KRef factors)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    const KRef n = k_loop(k, b->rows, KFOR_SERIAL, "r"), base = row_base(b, n);
    const KRef zero = k_number(k, DTYPE_f32, 0), one = k_number(k, DTYPE_f32, 1);
    const KRef top = fold_row(b, base, fold_top, KOP_max, 0);
    const KRef is_blind = k_eq(k, top, k_number(k, DTYPE_f32, -(double)INFINITY));
    const KRef sum = fold_row(b, base, fold_weight, KOP_add, k_select(k, is_blind, zero, top));
    k_astore(k, factors, n, k_select(k, k_eq(k, sum, zero), zero, k_div(k, one, sum)));
    k_end(k);
}

// --- values ---

static void store_rows(const Block *b, const Product *p, const KRef *acc, const KRef *factor, int64_t row,
                       KRef column)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    for (int64_t i = 0; i < p->rows * p->vectors; i++) {
        const int64_t lane = i % p->vectors * x->lanes;
        Point at = b->row.at;
        at.vec_axis = x->a->rank - 1;
        at.idx[x->axis] = k_expr(k, "$ + #", at.idx[x->axis], row + i / p->vectors);
        at.idx[x->a->rank - 1] = k_expr(k, "$ + #", column, lane);
        at.lanes = x->lanes;
        at.count = attention_count(lane, p->columns, x->lanes);
        const KRef of = factor[i / p->vectors], y = k_mul(k, k_get(k, acc[i]), of);
        pull_store_root(x->l, &x->a->d, at, attention_guarded(x->l, x->a, y, of));
    }
}

static void mix_again(const Block *b, const Product *p, KRef factors, int64_t row, KRef column)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    const KRef n = k_for(k, k_index(k, row), k_index(k, row + p->rows), 1, KFOR_SERIAL, "r");
    const AttRow r = nth_row(b, n);
    const KRef base = row_base(b, n);
    const AttWeights w = {.scratch = x->scores,
                          .base = k_add(k, base, r.begin),
                          .factor = k_aload(k, factors, n, 1)};
    attention_mix(x->l, &r, &w, column, p->columns);
    k_end(k);
}

// Columns [column, column + columns) of rows row .. of the result.
static void emit_values(const Block *b, KRef factors, int64_t row, KRef column, int64_t columns)
{
    const Blocks *x = b->b;
    Lower *l = x->l;
    Kernel *k = l->k;
    const int64_t vectors = ceil_div(columns, x->lanes), most = rows_together(b, vectors);
    KRef acc[MAX_ACCS], factor[MAX_ACCS];
    const Product p = {.rows = b->rows - row < most ? b->rows - row : most,
                       .vectors = vectors,
                       .columns = columns,
                       .a = x->scores,
                       .b = lower_param(l, x->a->v, PARAM_READ),
                       .a_base = k_expr(k, "$ + $ + #", x->scores_base, b->begin, row * score_pitch(x)),
                       .b_base = attention_kv_index(l, &b->row, x->a->v, b->begin, column),
                       .listed = b->row.is_listed ? &b->row : NULL,
                       .steps = k_sub(k, b->limit, b->begin),
                       .a_row = score_pitch(x),
                       .a_step = 1,
                       .b_step = lower_loc(l, x->a->v)->stride[x->a->rank - 2]};
    emit_product(x, &p, acc);
    const KRef wrong = attention_sum_of_wrong(k, acc, p.rows * p.vectors);
    for (int64_t i = 0; i < p.rows; i++)
        factor[i] = k_aload(k, factors, k_index(k, row + i), 1);
    k_if(k, k_ne(k, wrong, wrong));
    mix_again(b, &p, factors, row, column);
    k_else(k);
    store_rows(b, &p, acc, factor, row, column);
    k_end(k);
}

// Vectors of values beside each other. All heads that share values read them at once, if registers allow it:
// they come from memory.
static int64_t value_vectors(const Block *b)
{
    const int64_t together = b->b->n_accs / b->rows;
    if (!b->b->is_group || together >= VALUE_VECTORS)
        return VALUE_VECTORS;
    return together >= 2 ? 2 : 1;
}

static void emit_all_values(const Block *b, KRef factors)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    const int64_t width = value_vectors(b) * x->lanes, rest = x->a->value_size % width,
                  whole = x->a->value_size - rest;
    if (whole > 0) {
        const KRef column = k_for(k, k_index(k, 0), k_index(k, whole), width, KFOR_SERIAL, "c");
        for (int64_t row = 0; row < b->rows; row += rows_together(b, width / x->lanes))
            emit_values(b, factors, row, column, width);
        k_end(k);
    }
    const int64_t vectors = ceil_div(rest, x->lanes);
    for (int64_t row = 0; rest > 0 && row < b->rows; row += rows_together(b, vectors))
        emit_values(b, factors, row, k_index(k, whole), rest);
}

static void emit_block(const Blocks *x, Point at, KRef kv_head, KRef first, int64_t rows)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    at.idx[x->axis] = first;
    Block b = {.b = x, .row = attention_row(l, x->a, at), .rows = rows};
    b.row.kv_head = kv_head;
    Point last = at;
    last.idx[x->axis] = k_expr(k, "$ + #", first, rows - 1);
    attention_list(l, &b.row);
    b.limit = b.row.is_listed ? b.row.end : attention_row(l, x->a, last).end;
    const KRef width = k_index(k, step_width(x));
    b.begin = k_expr(k, "$ - $ % $", b.row.begin, b.row.begin, width);
    const KRef factors = k_array(k, DTYPE_f32, rows);
    emit_scores(&b);
    hide_keys(&b);
    emit_softmax(&b, factors);
    emit_all_values(&b, factors);
}

static void emit_head(const Blocks *x, Point at, KRef kv_head)
{
    Kernel *k = x->l->k;
    const int64_t whole = x->a->queries - x->a->queries % x->rows;
    const KRef last = k_index(k, whole);
    const KRef end = x->queries != 0 ? k_min(k, x->queries, last) : last;
    const KRef query = k_for(k, k_index(k, 0), end, x->rows, KFOR_SERIAL, "q");
    emit_block(x, at, kv_head, query, x->rows);
    k_end(k);
    if (whole == x->a->queries)
        return;
    if (x->queries != 0)
        k_if(k, k_lt(k, last, x->queries));
    emit_block(x, at, kv_head, last, x->a->queries - whole);
    if (x->queries != 0)
        k_end(k);
}

static bool has_groups(const Lower *l, const Attention *a)
{
    const int64_t group = a->heads / a->kv_heads;
    return group >= MIN_GROUP && group <= MAX_GROUP && a->keys >= MIN_GROUP_KEYS && has_key_vectors(l, a);
}

static bool has_blocks(const Lower *l, const Attention *a)
{
    if (a->blocks != 0 && (!has_groups(l, a) || ATTENTION_BLOCK % (KEY_VECTORS * a->value_lanes) != 0))
        return false;
    return a->type == DTYPE_f32 && lower_node(l, l->anchor)->dtype == DTYPE_f32 && a->value_lanes > 1 &&
           l->caps->f32_lanes >= 4 && a->keys >= MIN_QUERIES;
}

// The heads that share keys, one query at a time: all live ones, or `queries` of them if that is not 0.
static void emit_groups(const Blocks *blocks, KRef queries)
{
    const Attention *a = blocks->a;
    Lower *l = blocks->l;
    Kernel *k = l->k;
    const uint32_t heads = a->rank - 3, query = a->rank - 2;
    const int64_t group = a->heads / a->kv_heads;
    Blocks x = *blocks;
    x.is_group = true;
    x.axis = heads;
    x.queries = 0;
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = lower_open(l, &a->d, heads, &at) + 1;
    const KRef kv_head = k_loop(k, a->kv_heads, KFOR_PARALLEL, "h");
    if (queries != 0) {
        at.idx[query] = k_for(k, k_index(k, 0), queries, 1, KFOR_PARALLEL, "q");
        opened++;
    } else {
        opened += lower_open_axis(l, &a->d, query, KFOR_PARALLEL, &at);
    }
    emit_block(&x, at, kv_head, k_expr(k, "$ * #", kv_head, group), group);
    lower_close(l, opened);
}

// Where only a run knows how many queries there are: few are computed by groups, or row by row. Returns the
// heads for blocks.
static KRef leave_few(Blocks *x, KRef heads)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const KRef zero = k_index(k, 0);
    x->queries = lower_live(l, &a->d.live[a->rank - 2], a->queries);
    const KRef is_few = k_expr(k, "$ < #", x->queries, MIN_QUERIES);
    const KRef few = k_select(k, is_few, x->queries, zero);
    if (has_groups(l, a))
        emit_groups(x, few);
    else
        attention_lower_rows(l, a, few);
    return k_select(k, is_few, zero, heads);
}

// Scratch memory for the keys of a head, or of a step, and for the scores of a block.
static void take_scratch(Blocks *x, bool has_many)
{
    Lower *l = x->l;
    const Attention *a = x->a;
    const int64_t keys = has_many ? x->pitch : step_width(x), group = a->heads / a->kv_heads;
    const int64_t rows = has_groups(l, a) && group > x->rows ? group : x->rows;
    x->keys = lower_param_thread_scratch(l, "keys", DTYPE_f32, (uint64_t)(a->size * keys), &x->keys_base);
    x->scores = lower_param_thread_scratch(l, "scores", DTYPE_f32, (uint64_t)(rows * score_pitch(x)),
                                           &x->scores_base);
}

bool attention_lower_blocks(Lower *l, const Attention *a)
{
    rlx_assert(a->kv_heads >= 1 && a->heads % a->kv_heads == 0);
    Kernel *k = l->k;
    const bool has_many = a->queries >= MIN_QUERIES && a->blocks == 0;
    if (!has_blocks(l, a) || (!has_many && !has_groups(l, a)))
        return false;
    Blocks x = {.l = l,
                .a = a,
                .axis = a->rank - 2,
                .lanes = a->value_lanes,
                .n_accs = l->caps->vector_regs >= 32 ? MAX_ACCS : MAX_ACCS / 2};
    // As few blocks as there can be, of about the same size: one of few rows waits for each of its sums.
    if (has_many)
        x.rows = ceil_div(a->queries, ceil_div(a->queries, MAX_ROWS));
    x.pitch = ceil_div(a->keys, step_width(&x)) * step_width(&x);
    take_scratch(&x, has_many);
    if (!has_many) {
        emit_groups(&x, 0);
        return true;
    }
    Point at = {.lanes = 1, .count = 1};
    KRef heads = k_index(k, a->kv_heads);
    if (a->d.live[a->rank - 2].size != 0)
        heads = leave_few(&x, heads);
    uint32_t opened = lower_open(l, &a->d, a->rank - 3, &at);
    const KRef kv_head = k_for(k, k_index(k, 0), heads, 1, KFOR_PARALLEL, "h");
    const AttRow keys = {.a = a, .at = at, .kv_head = kv_head};
    pack_keys(&x, &keys);
    const KRef member = k_loop(k, a->heads / a->kv_heads, KFOR_SERIAL, "g");
    at.idx[a->rank - 3] = k_expr(k, "$ * # + $", kv_head, a->heads / a->kv_heads, member);
    emit_head(&x, at, kv_head);
    lower_close(l, opened + 2);
    return true;
}
