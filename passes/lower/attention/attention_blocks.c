// SPDX-License-Identifier: Apache-2.0
// Attention for many queries on CPUs with vectors: the keys of a head are transposed into scratch memory
// once, then blocks of query rows go through two register-tiled products (queries x keys, weights x values)
// with the softmax of their rows in between. A causal block stops at the last key that one of its rows sees;
// weights behind a row's own last key are 0. Should a sum come out infinite or NaN, the rows are mixed again
// one by one, where keys of weight 0 are left out: a hidden value may hold anything.
#include "passes/lower/attention/attention.h"
#include "passes/lower/transpose.h"
#include <math.h>

enum { MIN_QUERIES = 8, KEY_VECTORS = 2, VALUE_VECTORS = 4, MAX_ROWS = 12, MAX_ACCS = 24 };

typedef struct Blocks {
    Lower *l;
    const Attention *a;
    uint8_t lanes;
    int64_t rows;          // of a whole block
    KRef queries;          // that count in this run; 0: all. A block may reach beyond them
    int64_t n_accs;        // accumulators that fit the registers
    int64_t pitch;         // keys rounded up to whole steps of the score loop
    uint32_t keys, scores; // scratch of the thread: [size][pitch], [rows][pitch + lanes]
    KRef keys_base, scores_base;
} Blocks;

// A block of rows [query, query + rows) of one head.
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
} Product;

static void emit_product(const Blocks *x, const Product *p, KRef *acc)
{
    Kernel *k = x->l->k;
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), x->lanes);
    for (int64_t i = 0; i < p->rows * p->vectors; i++)
        acc[i] = k_var(k, zero, "a");
    const KRef step = k_for(k, k_index(k, 0), p->steps, 1, KFOR_SERIAL, "s");
    const KRef from_a = k_expr(k, "$ * # + $", step, p->a_step, p->a_base),
               from_b = k_expr(k, "$ * # + $", step, p->b_step, p->b_base);
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
    k_end(k);
}

static int64_t score_pitch(const Blocks *x)
{
    return x->pitch + x->lanes;
}

static AttRow nth_row(const Block *b, KRef n)
{
    Lower *l = b->b->l;
    Point at = b->row.at;
    const uint32_t axis = b->b->a->rank - 2;
    at.idx[axis] = k_add(l->k, at.idx[axis], n);
    AttRow r = attention_row(l, b->b->a, at);
    r.kv_head = b->row.kv_head;
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
    k_end(k);
    k_end(k);
}

// Keys of a head as [size][pitch], zeros behind the last.
static void pack_keys(const Blocks *x, const AttRow *r)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const KRef zero = k_number(k, DTYPE_f32, 0), none = k_index(k, 0);
    const int64_t *stride = lower_loc(l, x->a->k)->stride;
    int64_t packed = x->a->keys;
    if (stride[x->a->rank - 1] == 1) {
        transpose_emit(l, &(Transpose){.from = lower_param(l, x->a->k, PARAM_READ),
                                       .to = x->keys,
                                       .from_at = attention_kv_index(l, r, x->a->k, none, none),
                                       .to_at = x->keys_base,
                                       .rows = x->a->keys,
                                       .live = x->a->has_live ? x->a->live : 0,
                                       .columns = x->a->size,
                                       .from_row = stride[x->a->rank - 2],
                                       .to_row = x->pitch,
                                       .lanes = x->lanes});
        packed = ceil_div(packed, x->lanes) * x->lanes;
    } else {
        pack_single_keys(x, r);
    }
    if (packed == x->pitch)
        return;
    const KRef row = k_loop(k, x->a->size, KFOR_SERIAL, "c");
    const KRef rest = k_for(k, k_index(k, packed), k_index(k, x->pitch), 1, KFOR_SERIAL, "j");
    k_store(k, x->keys, k_expr(k, "$ * # + ($ + $)", row, x->pitch, x->keys_base, rest), zero, 1);
    k_end(k);
    k_end(k);
}

// Scaled scores of all rows against keys [0, limit), rounded up to whole steps.
static void emit_scores(const Block *b)
{
    const Blocks *x = b->b;
    Lower *l = x->l;
    Kernel *k = l->k;
    const int64_t *q = lower_loc(l, x->a->q)->stride, most = x->n_accs / KEY_VECTORS,
                  width = KEY_VECTORS * x->lanes;
    const KRef first = k_for(k, b->begin, b->limit, width, KFOR_SERIAL, "j");
    for (int64_t row = 0; row < b->rows; row += most) {
        KRef acc[MAX_ACCS];
        const Product p = {.rows = b->rows - row < most ? b->rows - row : most,
                           .vectors = KEY_VECTORS,
                           .columns = width,
                           .a = lower_param(l, x->a->q, PARAM_READ),
                           .b = x->keys,
                           .steps = k_index(k, x->a->size),
                           .a_base = k_expr(k, "$ + #", attention_query_index(l, &b->row, k_index(k, 0)),
                                            row * q[x->a->rank - 2]),
                           .b_base = k_add(k, x->keys_base, first),
                           .a_row = q[x->a->rank - 2],
                           .a_step = q[x->a->rank - 1],
                           .b_step = x->pitch};
        emit_product(x, &p, acc);
        for (int64_t i = 0; i < p.rows * KEY_VECTORS; i++) {
            const KRef score = attention_score(l, x->a, k_get(k, acc[i]));
            const int64_t offset = (row + i / KEY_VECTORS) * score_pitch(x) + i % KEY_VECTORS * x->lanes;
            const KRef place = k_expr(k, "$ + ($ + #)", x->scores_base, first, offset);
            k_store(k, x->scores, place, score, x->lanes);
        }
    }
    k_end(k);
}

static void add_mask(const Block *b, const AttRow *r, KRef base)
{
    Lower *l = b->b->l;
    Kernel *k = l->k;
    const KRef j = k_for(k, r->begin, r->end, 1, KFOR_SERIAL, "j"), place = k_add(k, base, j);
    const KRef score = k_load(k, b->b->scores, place, 1, 1);
    k_store(k, b->b->scores, place, k_add(k, score, attention_mask_at(l, r, j)), 1);
    k_end(k);
}

// The largest of the scores of keys [begin, limit), that of key 0 being at base; NaN if there is one.
static KRef largest_score(const Block *b, KRef base)
{
    Kernel *k = b->b->l->k;
    const uint8_t lanes = b->b->lanes;
    const KRef top = k_var(k, k_splat(k, k_number(k, DTYPE_f32, -(double)INFINITY), lanes), "top");
    const KRef j = k_for(k, b->begin, b->limit, lanes, KFOR_SERIAL, "j");
    const KRef v = k_load(k, b->b->scores, k_add(k, base, j), lanes, lanes),
               operand[3] = {k_get(k, top), v, 0};
    k_set(k, top, k_form(k, "(select (ne a a) a (max a b))", operand, DTYPE_f32));
    k_end(k);
    const KRef all = k_get(k, top), one = k_number(k, DTYPE_f32, 1), zero = k_number(k, DTYPE_f32, 0);
    const KRef n_nan = k_hreduce(
        k, KOP_add, k_select(k, k_ne(k, all, all), k_splat(k, one, lanes), k_splat(k, zero, lanes)));
    const KRef largest = k_hreduce(k, KOP_max, all);
    return k_select(k, k_ne(k, n_nan, zero), k_number(k, DTYPE_f32, (double)NAN), largest);
}

// Scores of every row become weights; factors gets 1 / their sums.
static void emit_softmax(const Block *b, KRef factors)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    const KRef n = k_loop(k, b->rows, KFOR_SERIAL, "r");
    const AttRow r = nth_row(b, n);
    const KRef base = k_expr(k, "$ * # + $", n, score_pitch(x), x->scores_base);
    if (x->a->mask != 0)
        add_mask(b, &r, base);
    const KRef lowest = k_number(k, DTYPE_f32, -(double)INFINITY), all_lowest = k_splat(k, lowest, x->lanes);
    if (x->a->left >= 0) {
        const KRef before = k_for(k, b->begin, r.begin, 1, KFOR_SERIAL, "j");
        k_store(k, x->scores, k_add(k, base, before), lowest, 1);
        k_end(k);
    }
    const KRef hidden = k_for(k, r.end, b->limit, x->lanes, KFOR_SERIAL, "j");
    k_store(k, x->scores, k_add(k, base, hidden), all_lowest, x->lanes);
    k_end(k);
    k_store(k, x->scores, k_add(k, base, b->limit), all_lowest, x->lanes);
    const KRef top = largest_score(b, base), n_keys = k_sub(k, b->limit, b->begin);
    const AttWeights w = {.scratch = x->scores, .base = k_add(k, base, b->begin)};
    k_astore(k, factors, n, attention_weigh(x->l, x->a, &w, n_keys, top, x->lanes));
    k_end(k);
}

static void store_rows(const Block *b, const Product *p, const KRef *acc, const KRef *factor, int64_t row,
                       KRef column)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    for (int64_t i = 0; i < p->rows * p->vectors; i++) {
        const int64_t lane = i % p->vectors * x->lanes;
        Point at = b->row.at;
        at.vec_axis = x->a->rank - 1;
        at.idx[x->a->rank - 2] = k_expr(k, "$ + #", at.idx[x->a->rank - 2], row + i / p->vectors);
        at.idx[x->a->rank - 1] = k_expr(k, "$ + #", column, lane);
        at.lanes = x->lanes;
        at.count = attention_count(lane, p->columns, x->lanes);
        pull_store_root(x->l, &x->a->d, at, k_mul(k, k_get(k, acc[i]), factor[i / p->vectors]));
    }
}

static void mix_again(const Block *b, const Product *p, KRef factors, int64_t row, KRef column)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    const KRef n = k_for(k, k_index(k, row), k_index(k, row + p->rows), 1, KFOR_SERIAL, "r");
    const AttRow r = nth_row(b, n);
    const KRef base = k_expr(k, "$ * # + $", n, score_pitch(x), x->scores_base);
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
    const int64_t vectors = (columns + x->lanes - 1) / x->lanes, most = x->n_accs / vectors;
    KRef acc[MAX_ACCS], factor[MAX_ACCS];
    const Product p = {.rows = b->rows - row < most ? b->rows - row : most,
                       .vectors = vectors,
                       .columns = columns,
                       .a = x->scores,
                       .b = lower_param(l, x->a->v, PARAM_READ),
                       .a_base = k_expr(k, "$ + $ + #", x->scores_base, b->begin, row * score_pitch(x)),
                       .b_base = attention_kv_index(l, &b->row, x->a->v, b->begin, column),
                       .steps = k_sub(k, b->limit, b->begin),
                       .a_row = score_pitch(x),
                       .a_step = 1,
                       .b_step = lower_loc(l, x->a->v)->stride[x->a->rank - 2]};
    emit_product(x, &p, acc);
    KRef wrong = 0;
    for (int64_t i = 0; i < p.rows * p.vectors; i++) { // v - v is NaN for what is not finite
        const KRef v = k_get(k, acc[i]), difference = k_sub(k, v, v);
        wrong = wrong == 0 ? difference : k_add(k, wrong, difference);
    }
    for (int64_t i = 0; i < p.rows; i++)
        factor[i] = k_aload(k, factors, k_index(k, row + i), 1);
    const KRef sum = k_hreduce(k, KOP_add, wrong);
    k_if(k, k_ne(k, sum, sum));
    mix_again(b, &p, factors, row, column);
    k_else(k);
    store_rows(b, &p, acc, factor, row, column);
    k_end(k);
}

static void emit_all_values(const Block *b, KRef factors)
{
    const Blocks *x = b->b;
    Kernel *k = x->l->k;
    const int64_t width = (int64_t)VALUE_VECTORS * x->lanes, rest = x->a->value_size % width,
                  whole = x->a->value_size - rest;
    if (whole > 0) {
        const KRef column = k_for(k, k_index(k, 0), k_index(k, whole), width, KFOR_SERIAL, "c");
        for (int64_t row = 0; row < b->rows; row += x->n_accs / VALUE_VECTORS)
            emit_values(b, factors, row, column, width);
        k_end(k);
    }
    const int64_t vectors = (rest + x->lanes - 1) / x->lanes;
    for (int64_t row = 0; rest > 0 && row < b->rows; row += x->n_accs / vectors)
        emit_values(b, factors, row, k_index(k, whole), rest);
}

static void emit_block(const Blocks *x, Point at, KRef kv_head, KRef query, int64_t rows)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    at.idx[x->a->rank - 2] = query;
    Block b = {.b = x, .row = attention_row(l, x->a, at), .rows = rows};
    b.row.kv_head = kv_head;
    Point last = at;
    last.idx[x->a->rank - 2] = k_expr(k, "$ + #", query, rows - 1);
    b.limit = attention_row(l, x->a, last).end;
    const KRef width = k_index(k, KEY_VECTORS * x->lanes);
    b.begin = k_expr(k, "$ - $ % $", b.row.begin, b.row.begin, width);
    const KRef factors = k_array(k, DTYPE_f32, rows);
    emit_scores(&b);
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

static bool pays(const Lower *l, const Attention *a)
{
    return a->type == DTYPE_f32 && lower_node(l, l->anchor)->dtype == DTYPE_f32 && a->value_lanes > 1 &&
           l->caps->f32_lanes >= 4 && a->queries >= MIN_QUERIES && a->keys >= MIN_QUERIES;
}

// Where only a run knows how many queries there are: few are computed row by row. Returns the heads for
// blocks.
static KRef leave_few(Blocks *x, KRef heads)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const KRef zero = k_index(k, 0);
    x->queries = lower_live(l, &a->d.live[a->rank - 2], a->queries);
    const KRef is_few = k_expr(k, "$ < #", x->queries, MIN_QUERIES);
    attention_lower_rows(l, a, k_select(k, is_few, x->queries, zero));
    return k_select(k, is_few, zero, heads);
}

bool attention_lower_blocks(Lower *l, const Attention *a)
{
    rlx_assert(a->kv_heads >= 1 && a->heads % a->kv_heads == 0);
    Kernel *k = l->k;
    if (!pays(l, a))
        return false;
    Blocks x = {.l = l,
                .a = a,
                .lanes = a->value_lanes,
                .n_accs = l->caps->vector_regs >= 32 ? MAX_ACCS : MAX_ACCS / 2};
    const int64_t width = KEY_VECTORS * x.lanes, group = a->heads / a->kv_heads;
    x.rows = a->queries < MAX_ROWS ? a->queries : MAX_ROWS;
    x.pitch = (a->keys + width - 1) / width * width;
    x.keys = lower_param_thread_scratch(l, "keys", DTYPE_f32, (uint64_t)(a->size * x.pitch), &x.keys_base);
    x.scores = lower_param_thread_scratch(l, "scores", DTYPE_f32, (uint64_t)(x.rows * score_pitch(&x)),
                                          &x.scores_base);
    Point at = {.lanes = 1, .count = 1};
    KRef heads = k_index(k, a->kv_heads);
    if (a->d.live[a->rank - 2].size != 0)
        heads = leave_few(&x, heads);
    uint32_t opened = lower_open(l, &a->d, a->rank - 3, &at);
    const KRef kv_head = k_for(k, k_index(k, 0), heads, 1, KFOR_PARALLEL, "h");
    const AttRow keys = {.a = a, .at = at, .kv_head = kv_head};
    pack_keys(&x, &keys);
    const KRef member = k_loop(k, group, KFOR_SERIAL, "g");
    at.idx[a->rank - 3] = k_expr(k, "$ * # + $", kv_head, group, member);
    emit_head(&x, at, kv_head);
    lower_close(l, opened + 2);
    return true;
}
