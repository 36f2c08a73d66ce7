// SPDX-License-Identifier: Apache-2.0
// Attention of many queries of f16 or bf16 with cooperative matrices (Vulkan): the rows of attention_tiles.c
// in larger tiles. A subgroup has 16 queries, for which it multiplies queries by keys and weights by values;
// its sums of values stay in its squares. Scores and weights go through memory that only the subgroup uses,
// because nobody says which thread has which element of a matrix: two threads share a row of scores. Groups
// wait for each other only for keys and values, of which the next ones are on their way meanwhile.
#include "ir/kernel/device.h"
#include "passes/lower/attention/attention_tiles.h"

enum {
    LANES = 2, // threads that share a row
    SUBGROUP = 32,
    SUBGROUPS = ATTENTION_TILE_THREADS / SUBGROUP,
    SQUARE = 16,
    CHUNK = 8, // elements of a vector of shared memory
    CHUNK_WORDS = 4,
    FOUR = 4,
    TOP_SIZE = 128,
    KEYS = 32, // of a tile
    BY_STEPS_B = 2, // of coop_product
    A_IS_KEPT = 4
};

static bool is_f16(const AttTiles *x)
{
    return lower_node(x->l, x->a->q)->dtype == DTYPE_f16;
}

// --- memory --------------------------------------------------------------------------------------

// Words from row to row: of 16-bit floats, of f32.
static int64_t pitch_of(int64_t elements)
{
    return (elements / CHUNK + 1) * CHUNK_WORDS;
}
static int64_t wide_pitch(int64_t elements)
{
    return elements + FOUR;
}

// Keys, values, and what subgroups have: scores or weights, and a factor for each row. At the beginning,
// queries are there until subgroups keep them as squares.
static int64_t values_at(const AttTiles *x)
{
    return attention_tile_keys(x) * pitch_of(x->a->size);
}
static int64_t scores_at(const AttTiles *x)
{
    return values_at(x) + attention_tile_keys(x) * pitch_of(x->a->value_size);
}
static int64_t own_words(const AttTiles *x)
{
    return SQUARE * (wide_pitch(attention_tile_keys(x)) + 1);
}
// At the end, sums of values are where all else was, and behind them sums of weights.
static int64_t sums_at(const AttTiles *x)
{
    return attention_tile_rows(x) * wide_pitch(x->a->value_size);
}
static int64_t words_of(const AttTiles *x)
{
    const int64_t all = scores_at(x) + SUBGROUPS * own_words(x);
    const int64_t first = attention_tile_rows(x) * pitch_of(x->a->size);
    const int64_t last = sums_at(x) + FOUR * attention_tile_rows(x);
    const int64_t most = first > last ? first : last;
    return all > most ? all : most;
}

static KRef subgroup_of(const AttTiles *x)
{
    return k_expr(x->l->k, "$ / #", x->thread, SUBGROUP);
}
static KRef own_scores(const AttTiles *x)
{
    return k_expr(x->l->k, "$ * # + #", subgroup_of(x), own_words(x), scores_at(x));
}
static KRef own_factors(const AttTiles *x)
{
    return k_expr(x->l->k, "$ + #", own_scores(x), SQUARE * wide_pitch(attention_tile_keys(x)));
}
// Row of the thread among those of its subgroup.
static KRef own_row(const AttTiles *x)
{
    return k_expr(x->l->k, "$ % #", x->team, SQUARE);
}

static void sync(const AttTiles *x)
{
    k_device_with(x->l->k, KDEV_coop_sync, 0);
}

bool attention_coop_fits(const AttTiles *plain, AttTiles *coop)
{
    const Attention *a = plain->a;
    Lower *l = plain->l;
    const int q = lower_node(l, a->q)->dtype;
    *coop = *plain;
    coop->is_coop = true;
    coop->rows = 1;
    coop->lanes = LANES;
    coop->keys = KEYS / LANES;
    coop->columns = a->value_size / LANES;
    return l->caps->has_coop && k_is_half(q) && lower_node(l, a->k)->dtype == q &&
           lower_node(l, a->v)->dtype == q && a->size % SQUARE == 0 && a->size <= TOP_SIZE &&
           a->value_size % SQUARE == 0 && a->value_size <= TOP_SIZE &&
           attention_fetch_width(l, a->q) == CHUNK && attention_fetch_width(l, a->k) == CHUNK &&
           attention_fetch_width(l, a->v) == CHUNK && words_of(coop) <= KDEV_COOP_WORDS;
}

void attention_coop_begin(AttTiles *x)
{
    x->q = k_shared(x->l->k, DTYPE_f32, KDEV_COOP_WORDS);
}

// --- tiles ---------------------------------------------------------------------------------------

// Turns of the threads over the vectors of a tile; in the last one some have none.
static int64_t vectors_of(const AttCopy *c)
{
    return c->rows * c->size / CHUNK;
}
static KRef open_vectors(const AttTiles *x, const AttCopy *c, KRef *vector)
{
    Kernel *k = x->l->k;
    const KRef e = k_loop(k, ceil_div(vectors_of(c), ATTENTION_TILE_THREADS), KFOR_UNROLL, "e");
    *vector = k_expr(k, "$ * # + $", e, ATTENTION_TILE_THREADS, x->thread);
    if (vectors_of(c) % ATTENTION_TILE_THREADS != 0)
        k_if(k, k_expr(k, "$ < #", *vector, vectors_of(c)));
    return k_expr(k, "$ * #", e, CHUNK_WORDS);
}
static void close_vectors(const AttTiles *x, const AttCopy *c)
{
    if (vectors_of(c) % ATTENTION_TILE_THREADS != 0)
        k_end(x->l->k);
    k_end(x->l->k);
}

static KRef words_for(const AttTiles *x, const AttCopy *c)
{
    return k_array(x->l->k, DTYPE_u32,
                   ceil_div(vectors_of(c), ATTENTION_TILE_THREADS) * CHUNK_WORDS);
}

static void fetch_rows(const AttTiles *x, const AttCopy *c, KRef words)
{
    Kernel *k = x->l->k;
    const uint32_t param = lower_param_words(x->l, c->id, DTYPE_u32);
    const int64_t across = c->size / CHUNK;
    KRef i = 0, is_inside = 0;
    const KRef slot = open_vectors(x, c, &i);
    const KRef row = k_expr(k, "$ / #", i, across), column = k_expr(k, "$ % # * #", i, across, CHUNK);
    const KRef from = attention_tile_index(x, c, k_add(k, c->first, row), column, &is_inside);
    k_fetch(k, param, k_expr(k, "$ / 2", from), words, slot, CHUNK_WORDS);
    for (int64_t e = 0; is_inside != 0 && e < CHUNK_WORDS; e++) {
        const KRef place = k_expr(k, "$ + #", slot, e);
        k_astore(k, words, place,
                 k_select(k, is_inside, k_aload(k, words, place, 1), k_number(k, DTYPE_u32, 0)));
    }
    close_vectors(x, c);
}

static void put_rows(const AttTiles *x, const AttCopy *c, KRef words, int64_t to)
{
    Kernel *k = x->l->k;
    const int64_t across = c->size / CHUNK;
    KRef i = 0;
    const KRef slot = open_vectors(x, c, &i);
    k_device(k, KDEV_coop_share, x->q,
             k_expr(k, "$ / # * # + $ % # * # + #", i, across, pitch_of(c->size), i, across, CHUNK_WORDS, to),
             words, slot);
    close_vectors(x, c);
}

static AttCopy keys_from(const AttTiles *x, KRef first)
{
    const KRef end = attention_tile_sees_all(x) ? 0 : x->hi;
    return (AttCopy){x->a->k, false, attention_tile_keys(x), x->a->size, first, end};
}
static AttCopy values_from(const AttTiles *x, KRef first)
{
    AttCopy values = keys_from(x, first);
    values.id = x->a->v;
    values.size = x->a->value_size;
    return values;
}

// --- products ------------------------------------------------------------------------------------

static int64_t score_squares(const AttTiles *x)
{
    return attention_tile_keys(x) / SQUARE;
}
static int64_t value_squares(const AttTiles *x)
{
    return x->a->value_size / SQUARE;
}

// Step number `step` of a product of the subgroup's rows: a is what is kept, or where they are.
typedef struct Product {
    KRef a;
    int64_t b; // word
    int64_t pitch_a, pitch_b, first, columns, order;
} Product;

static void multiply(const AttTiles *x, const Product *p, int64_t step)
{
    Kernel *k = x->l->k;
    const int64_t of_b = (p->order & BY_STEPS_B) != 0 ? SQUARE * p->pitch_b : SQUARE / 2;
    k_device(k, is_f16(x) ? KDEV_coop_product : KDEV_coop_product_bf16, x->q, p->a,
             k_index(k, p->b + step * of_b), k_index(k, 1), k_index(k, p->columns), k_index(k, p->pitch_a),
             k_index(k, p->pitch_b), k_index(k, p->order), k_index(k, p->first));
}

// Squares from `first` on, one beside the other, where rows are `pitch` words apart.
static void put_squares(const AttTiles *x, int64_t first, int64_t n, KRef to, int64_t pitch)
{
    Kernel *k = x->l->k;
    for (int64_t i = 0; i < n; i++)
        k_device(k, KDEV_coop_put, k_index(k, first + i), x->q, k_expr(k, "$ + #", to, i * SQUARE),
                 k_index(k, pitch), k_index(k, 0));
    sync(x);
}

static void keep_queries(const AttTiles *x, KRef end)
{
    Kernel *k = x->l->k;
    const AttCopy queries = {x->a->q, true, attention_tile_rows(x), x->a->size, x->first, end};
    const KRef words = words_for(x, &queries);
    const int64_t pitch = pitch_of(x->a->size);
    fetch_rows(x, &queries, words);
    put_rows(x, &queries, words, 0);
    k_barrier(k);
    for (int64_t i = 0; i < x->a->size / SQUARE; i++)
        k_device(k, KDEV_coop_keep, k_index(k, i), x->q,
                 k_expr(k, "$ * # + #", subgroup_of(x), SQUARE * pitch, i * SQUARE / 2), k_index(k, pitch));
}

static void score(const AttTiles *x, KRef products)
{
    Kernel *k = x->l->k;
    const int64_t wide = wide_pitch(attention_tile_keys(x));
    const KRef scores = own_scores(x);
    Product p = {.pitch_b = pitch_of(x->a->size), .columns = score_squares(x), .order = A_IS_KEPT};
    k_device(k, KDEV_coop_zero, k_index(k, 0), k_index(k, score_squares(x)));
    for (int64_t step = 0; step < x->a->size / SQUARE; step++) {
        p.a = k_index(k, step);
        multiply(x, &p, step);
    }
    put_squares(x, 0, score_squares(x), scores, wide);
    for (int64_t j = 0; j < x->keys; j += FOUR)
        k_device(k, KDEV_coop_get, products, k_index(k, j), x->q,
                 k_expr(k, "$ + $ * # + ($ * # + #)", scores, own_row(x), wide, x->lane, x->keys, j));
    sync(x);
}

void attention_coop_put_weights(const AttTiles *x, const KRef *weights, KRef keep)
{
    Kernel *k = x->l->k;
    const KDevice pair = is_f16(x) ? KDEV_coop_pair_f16 : KDEV_coop_pair_bf16;
    const KRef words = k_array(k, DTYPE_u32, CHUNK_WORDS), row = own_row(x);
    const KRef to = k_expr(k, "$ + $ * # + $ * #", own_scores(x), row, pitch_of(attention_tile_keys(x)),
                           x->lane, x->keys / 2);
    for (int64_t j = 0; j < x->keys; j += 2) {
        k_astore(k, words, k_index(k, j / 2 % CHUNK_WORDS), k_call(k, pair, weights[j], weights[j + 1], 0));
        if (j % CHUNK == CHUNK - 2)
            k_device(k, KDEV_coop_share, x->q, k_expr(k, "$ + #", to, (j - j % CHUNK) / 2), words,
                     k_index(k, 0));
    }
    k_if(k, k_expr(k, "$ == 0", x->lane));
    k_device(k, KDEV_coop_put_number, x->q, k_add(k, own_factors(x), row), keep);
    k_end(k);
    sync(x);
}

static void add_values(const AttTiles *x)
{
    Kernel *k = x->l->k;
    k_device(k, KDEV_coop_scale, k_index(k, score_squares(x)), k_index(k, value_squares(x)), x->q,
             own_factors(x));
    Product p = {.b = values_at(x),
                 .pitch_a = pitch_of(attention_tile_keys(x)),
                 .pitch_b = pitch_of(x->a->value_size),
                 .first = score_squares(x),
                 .columns = value_squares(x),
                 .order = BY_STEPS_B};
    for (int64_t step = 0; step < score_squares(x); step++) {
        p.a = k_expr(k, "$ + #", own_scores(x), step * SQUARE / 2);
        multiply(x, &p, step);
    }
}

static void fetch_next(const AttTiles *x, KRef first, KRef keys, KRef values)
{
    Kernel *k = x->l->k;
    const AttCopy of_keys = keys_from(x, first), of_values = values_from(x, first);
    k_if(k, k_lt(k, first, x->hi));
    fetch_rows(x, &of_keys, keys);
    fetch_rows(x, &of_values, values);
    k_end(k);
}

void attention_coop_keys(const AttTiles *x, KRef end)
{
    Kernel *k = x->l->k;
    const AttCopy of_keys = keys_from(x, x->lo), of_values = values_from(x, x->lo);
    const KRef keys = words_for(x, &of_keys), values = words_for(x, &of_values);
    const KRef products = k_array(k, x->a->type, x->keys);
    keep_queries(x, end);
    fetch_next(x, x->lo, keys, values);
    k_device(k, KDEV_coop_zero, k_index(k, score_squares(x)), k_index(k, value_squares(x)));
    const KRef first = k_for(k, x->lo, x->hi, attention_tile_keys(x), KFOR_ROLL, "j");
    k_barrier(k); // keys and values of the last step were read
    put_rows(x, &of_keys, keys, 0);
    put_rows(x, &of_values, values, values_at(x));
    k_barrier(k);
    fetch_next(x, k_expr(k, "$ + #", first, attention_tile_keys(x)), keys, values);
    score(x, products);
    attention_tile_weights(x, first, products);
    add_values(x);
    k_end(k);
    k_barrier(k);
}

// --- results -------------------------------------------------------------------------------------

static bool hides(const AttTiles *x)
{
    return x->a->mask != 0 || x->a->left >= 0 || x->a->right >= 0;
}

// The sum of the thread's weights where others store its row; NaN where they do not: what a row does not see
// may be infinite or NaN, and 0 of it is NaN, so that such a row is computed again without that.
static KRef stored_sum(const AttTiles *x, KRef sum)
{
    Kernel *k = x->l->k;
    if (!hides(x))
        return sum;
    const KRef part = k_array(k, DTYPE_f32, FOUR), rest = k_var(k, k_number(k, DTYPE_f32, 0), "rest");
    const int64_t wide = wide_pitch(x->a->value_size);
    const KRef c = k_for(k, k_index(k, 0), k_index(k, x->columns), FOUR, KFOR_SERIAL, "c");
    k_device(k, KDEV_coop_get, part, k_index(k, 0), x->q,
             k_expr(k, "$ * # + ($ * # + $)", x->team, wide, x->lane, x->columns, c));
    for (int64_t e = 0; e < FOUR; e++) {
        const KRef v = k_aload(k, part, k_index(k, e), 1);
        k_set(k, rest, k_expr(k, "$ + ($ - $)", k_get(k, rest), v, v));
    }
    k_end(k);
    return k_add(k, sum, k_team(k, KOP_add, k_get(k, rest), LANES));
}

// Four neighbours of a row of the subgroup.
static void store_four(const AttTiles *x, KRef i, KRef end)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const int64_t across = a->value_size / FOUR, wide = wide_pitch(a->value_size);
    const KRef row = k_expr(k, "$ * # + $ / #", subgroup_of(x), SQUARE, i, across);
    const KRef column = k_expr(k, "$ % # * #", i, across, FOUR);
    const KRef mix = k_array(k, DTYPE_f32, FOUR), sum = k_array(k, DTYPE_f32, FOUR);
    Point at = x->row[0].at;
    at.idx[a->rank - 2] = k_add(k, x->first, row);
    k_device(k, KDEV_coop_get, mix, k_index(k, 0), x->q, k_expr(k, "$ * # + $", row, wide, column));
    k_device(k, KDEV_coop_get, sum, k_index(k, 0), x->q, k_expr(k, "$ * # + #", row, FOUR, sums_at(x)));
    const KRef own = k_aload(k, sum, k_index(k, 0), 1);
    const KRef is_there = k_lt(k, at.idx[a->rank - 2], end);
    k_if(k, hides(x) ? k_and(k, is_there, k_eq(k, own, own)) : is_there);
    for (int64_t e = 0; e < FOUR; e++)
        attention_store_part(
            l, a, at,
            &(AttSums){own, own, k_aload(k, mix, k_index(k, e), 1), k_expr(k, "$ + #", column, e)});
    k_end(k);
}

void attention_coop_store(const AttTiles *x, KRef end)
{
    Kernel *k = x->l->k;
    const Attention *a = x->a;
    const int64_t wide = wide_pitch(a->value_size), fours = SQUARE * a->value_size / FOUR;
    put_squares(x, score_squares(x), value_squares(x),
                k_expr(k, "$ * #", subgroup_of(x), SQUARE * wide), wide);
    const KRef sum = stored_sum(x, k_team(k, KOP_add, k_get(k, x->sum[0]), LANES));
    k_if(k, k_expr(k, "$ == 0", x->lane));
    k_device(k, KDEV_coop_put_number, x->q, k_expr(k, "$ * # + #", x->team, FOUR, sums_at(x)), sum);
    for (int64_t e = 1; e < FOUR; e++)
        k_device(k, KDEV_coop_put_number, x->q, k_expr(k, "$ * # + #", x->team, FOUR, sums_at(x) + e), sum);
    k_end(k);
    sync(x);
    const KRef i = k_for(k, k_expr(k, "$ % #", x->thread, SUBGROUP), k_index(k, fours), SUBGROUP,
                         KFOR_SERIAL, "i");
    store_four(x, i, end);
    k_end(k);
    if (!hides(x))
        return;
    const KRef query = k_add(k, x->first, x->team);
    k_if(k, k_expr(k, "$ == 0 & $ < $", x->lane, query, end));
    k_if(k, k_ne(k, sum, sum));
    attention_emit_row(x->l, &x->row[0], k_index(k, a->value_size));
    k_ends(k, 2);
}
