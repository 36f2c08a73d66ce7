// SPDX-License-Identifier: Apache-2.0
// Attention of many queries of f16 or bf16 with cooperative matrices (Vulkan): the tiles and rows of
// attention_tiles.c, with 64 keys, of which subgroups multiply queries by keys, and weights by values.
// Threads see sums where they lie in shared memory: that of products is then where keys or values were.
#include "ir/kernel/device.h"
#include "passes/lower/attention/attention_tiles.h"

#include <math.h>

enum {
    SUBGROUP = 32,
    SUBGROUPS = ATTENTION_TILE_THREADS / SUBGROUP,
    SQUARE = 16,
    SQUARE_WORDS = SQUARE * SQUARE,
    CHUNK = 8, // elements of a vector of shared memory
    CHUNK_WORDS = 4,
    FOUR = 4,
    TOP_SIZE = 128,
    VALUES = 64, // columns of the values are a multiple
    BY_STEPS_B = 2
};
static const double SMALLEST = 1e-30; // stands for a weight that is too small for its type

static bool is_f16(const AttTiles *x)
{
    return lower_node(x->l, x->a->q)->dtype == DTYPE_f16;
}

// --- memory --------------------------------------------------------------------------------------

// Words from row to row.
static int64_t pitch_of(int64_t elements)
{
    return (elements / CHUNK + 1) * CHUNK_WORDS;
}

// Queries, then weights, then keys or values or sums.
static int64_t weights_at(const AttTiles *x)
{
    return attention_tile_rows(x) * pitch_of(x->a->size);
}

static int64_t values_at(const AttTiles *x)
{
    return weights_at(x) + attention_tile_rows(x) * pitch_of(attention_tile_keys(x));
}

static int64_t words_of(const AttTiles *x)
{
    const Attention *a = x->a;
    const int64_t wide = a->size > a->value_size ? a->size : a->value_size;
    const int64_t rows = attention_tile_keys(x) * pitch_of(wide), sums = attention_tile_rows(x) * wide;
    return values_at(x) + (rows > sums ? rows : sums);
}

bool attention_coop_fits(const AttTiles *plain, AttTiles *coop)
{
    const Attention *a = plain->a;
    Lower *l = plain->l;
    const int q = lower_node(l, a->q)->dtype;
    *coop = *plain;
    coop->is_coop = true;
    coop->keys = ATTENTION_TILE_KEYS;
    return l->caps->has_coop && k_is_half(q) && lower_node(l, a->k)->dtype == q &&
           lower_node(l, a->v)->dtype == q && plain->rows == ATTENTION_TILE_ROWS && a->size % SQUARE == 0 &&
           a->size <= TOP_SIZE && a->value_size % VALUES == 0 && a->value_size <= TOP_SIZE &&
           attention_fetch_width(l, a->q) == CHUNK && attention_fetch_width(l, a->k) == CHUNK &&
           attention_fetch_width(l, a->v) == CHUNK && words_of(coop) <= KDEV_COOP_WORDS;
}

void attention_coop_begin(AttTiles *x)
{
    x->q = k_shared(x->l->k, DTYPE_f32, KDEV_COOP_WORDS);
}

// --- tiles ---------------------------------------------------------------------------------------

// By vectors of eight elements.
void attention_coop_copy(const AttTiles *x, const AttCopy *c)
{
    Kernel *k = x->l->k;
    const int64_t to = c->is_query ? 0 : values_at(x);
    const uint32_t param = lower_param_words(x->l, c->id, DTYPE_u32);
    const int64_t across = c->size / CHUNK;
    const KRef i =
        k_for(k, x->thread, k_index(k, c->rows * across), ATTENTION_TILE_THREADS, KFOR_SERIAL, "i");
    const KRef row = k_expr(k, "$ / #", i, across), column = k_expr(k, "$ % # * #", i, across, CHUNK);
    KRef is_inside = 0;
    const KRef from = attention_tile_index(x, c, k_add(k, c->first, row), column, &is_inside);
    const KRef words = k_array(k, DTYPE_u32, CHUNK_WORDS);
    k_fetch(k, param, k_expr(k, "$ / 2", from), words, k_index(k, 0), CHUNK_WORDS);
    for (int64_t e = 0; e < CHUNK_WORDS; e++)
        k_astore(k, words, k_index(k, e),
                 k_select(k, is_inside, k_aload(k, words, k_index(k, e), 1), k_number(k, DTYPE_u32, 0)));
    k_device(k, KDEV_coop_share, x->q, k_expr(k, "$ * # + $ / 2 + #", row, pitch_of(c->size), column, to),
             words, k_index(k, 0));
    k_end(k);
}

// --- products ------------------------------------------------------------------------------------

// A product of the tile's rows: of subgroups, two have 16 rows each, and half of the columns.
typedef struct TileProduct {
    int64_t a, pitch_a, b, pitch_b; // words
    int64_t steps, columns;
    bool by_steps; // lines of b are steps, else columns
} TileProduct;

static int64_t squares_of(const TileProduct *p)
{
    rlx_assert(p->columns % (2 * SQUARE) == 0);
    return p->columns / SQUARE / 2;
}

// Sums are where keys or values were: squares by rows of them.
static void multiply(const AttTiles *x, const TileProduct *p)
{
    Kernel *k = x->l->k;
    const KRef subgroup = k_expr(k, "$ / #", x->thread, SUBGROUP), one = k_index(k, 1);
    const KRef row = k_expr(k, "$ / 2", subgroup), half = k_expr(k, "$ % 2", subgroup);
    const int64_t n = squares_of(p), line = p->by_steps ? SQUARE / 2 : SQUARE * p->pitch_b;
    const int64_t step_b = p->by_steps ? SQUARE * p->pitch_b : SQUARE / 2;
    k_device(k, KDEV_coop_zero, k_index(k, n));
    const KRef step = k_loop(k, p->steps / SQUARE, KFOR_UNROLL, "step");
    const KRef a = k_expr(k, "$ * # + $ * # + #", row, SQUARE * p->pitch_a, step, SQUARE / 2, p->a);
    const KRef b = k_expr(k, "$ * # + $ * # + #", half, n * line, step, step_b, p->b);
    k_device(k, is_f16(x) ? KDEV_coop_product : KDEV_coop_product_bf16, x->q, a, x->q, b, one, k_index(k, n),
             k_index(k, p->pitch_a), k_index(k, p->pitch_b), k_index(k, p->by_steps ? BY_STEPS_B : 0));
    k_end(k);
    k_barrier(k);
    for (int64_t i = 0; i < n; i++) {
        const KRef square = k_expr(k, "($ * 2 + $) * # + #", row, half, n, i);
        k_device(k, KDEV_coop_put, k_index(k, i), x->q,
                 k_expr(k, "$ * # + #", square, SQUARE_WORDS, values_at(x)), k_index(k, 0));
    }
    k_barrier(k);
}

// Four neighbouring sums of a row into to[at ...].
static void take_four(const AttTiles *x, const TileProduct *p, KRef row, KRef column, KRef to, int64_t at)
{
    Kernel *k = x->l->k;
    const KRef square = k_expr(k, "$ / # * # + $ / #", row, SQUARE, 2 * squares_of(p), column, SQUARE);
    const KRef place = k_expr(k, "$ * # + $ % # * #", square, SQUARE_WORDS, row, SQUARE, SQUARE);
    k_device(k, KDEV_coop_get, to, k_index(k, at), x->q,
             k_expr(k, "$ + $ % # + #", place, column, SQUARE, values_at(x)));
}

void attention_coop_products(const AttTiles *x, KRef products)
{
    const int64_t pitch = pitch_of(x->a->size);
    const TileProduct p = {.a = 0,
                           .pitch_a = pitch,
                           .b = values_at(x),
                           .pitch_b = pitch,
                           .steps = x->a->size,
                           .columns = attention_tile_keys(x)};
    rlx_assert(x->keys == FOUR);
    multiply(x, &p);
    for (int64_t r = 0; r < x->rows; r++)
        take_four(x, &p, attention_tile_row(x, r), attention_tile_place(x, 0, x->keys), products,
                  r * x->keys);
}

void attention_coop_put_weights(const AttTiles *x, int64_t r, const KRef *weights)
{
    Kernel *k = x->l->k;
    const KDevice pair = is_f16(x) ? KDEV_coop_pair_f16 : KDEV_coop_pair_bf16;
    const KRef words = k_array(k, DTYPE_u32, 2);
    for (int64_t j = 0; j < x->keys; j += 2)
        k_astore(k, words, k_index(k, j / 2), k_call(k, pair, weights[j], weights[j + 1], 0));
    const KRef place = k_expr(k, "$ * # + $ * # + #", attention_tile_row(x, r),
                              pitch_of(attention_tile_keys(x)), x->lane, x->keys / 2, weights_at(x));
    k_device(k, KDEV_coop_share2, x->q, place, words, k_index(k, 0));
}

// --- values --------------------------------------------------------------------------------------

// A weight as it is in shared memory.
static KRef weight_at(const AttTiles *x, KRef row, KRef key)
{
    Kernel *k = x->l->k;
    const KRef words = k_array(k, DTYPE_u32, CHUNK_WORDS);
    const KRef place = k_expr(k, "$ * # + $ / # * # + #", row, pitch_of(attention_tile_keys(x)), key, CHUNK,
                              CHUNK_WORDS, weights_at(x));
    k_device(k, KDEV_coop_get_words, words, k_index(k, 0), x->q, place);
    const KRef bits = k_aload(k, words, k_expr(k, "$ % # / 2", key, CHUNK), 1);
    const KRef is_odd = k_expr(k, "$ % 2 == 1", key);
    const KRef own = k_and(k, k_select(k, is_odd, k_shr(k, bits, k_integer(k, DTYPE_u32, 16)), bits),
                           k_integer(k, DTYPE_u32, 0xffff));
    const DType type = is_f16(x) ? DTYPE_f16 : DTYPE_bf16;
    return k_cast(k, k_bitcast(k, k_cast(k, own, DTYPE_u16), type), DTYPE_f32);
}

// What a key counts in a row whose sum is NaN: its weight. One that is 0 may be that of a key that the row
// sees, too small for its type: then the key counts a little. A mask of numbers is as good as its weights.
static KRef own_weight(const AttTiles *x, int64_t r, KRef key, KRef weight)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const AttRow *row = &x->row[r];
    const KRef zero = k_number(k, DTYPE_f32, 0);
    KRef is_seen = k_expr(k, "$ <= $ & $ < $", row->begin, key, key, row->end);
    if (a->mask != 0 && lower_node(l, a->mask)->dtype != DTYPE_bool)
        return weight;
    if (a->mask != 0) {
        const KRef last = k_expr(k, "$ + -1", x->hi);
        const KRef score = attention_masked(l, a, zero, attention_mask_at(l, row, k_min(k, key, last)));
        is_seen = k_and(k, is_seen, k_eq(k, score, zero));
    }
    return k_select(k, is_seen, k_max(k, weight, k_number(k, DTYPE_f32, SMALLEST)), zero);
}

// What a row does not see may be infinite or NaN, and 0 of it is NaN: the sum of a column without that.
static KRef sum_again(const AttTiles *x, KRef first, int64_t r, KRef column)
{
    Kernel *k = x->l->k;
    const uint32_t param = lower_param(x->l, x->a->v, PARAM_READ);
    const AttCopy values = {x->a->v, false, attention_tile_keys(x), x->a->value_size, first, x->hi};
    const KRef sum = k_var(k, k_number(k, DTYPE_f32, 0), "again");
    const KRef place = k_loop(k, attention_tile_keys(x), KFOR_ROLL, "key");
    KRef is_inside = 0;
    const KRef key = k_add(k, first, place);
    const KRef from = attention_tile_index(x, &values, key, column, &is_inside);
    const KRef weight = own_weight(x, r, key, weight_at(x, attention_tile_row(x, r), place));
    k_if(k, k_and(k, is_inside, k_ne(k, weight, k_number(k, DTYPE_f32, 0))));
    k_set(k, sum, k_fma(k, weight, k_cast(k, k_load(k, param, from, 1, 1), DTYPE_f32), k_get(k, sum)));
    k_end(k);
    k_end(k);
    return k_get(k, sum);
}

static void add_four(const AttTiles *x, KRef first, int64_t r, int64_t c, KRef sums)
{
    Kernel *k = x->l->k;
    const Attention *a = x->a;
    const bool hides = a->mask != 0 || a->left >= 0 || a->right >= 0;
    for (int64_t e = 0; e < FOUR; e++) {
        const KRef at = k_index(k, e), mix = k_index(k, r * x->columns + c + e);
        if (hides) {
            const KRef sum = k_aload(k, sums, at, 1);
            k_if(k, k_ne(k, sum, sum));
            k_astore(k, sums, at, sum_again(x, first, r, attention_tile_place(x, c + e, x->columns)));
            k_end(k);
        }
        k_astore(k, x->mix, mix, k_add(k, k_aload(k, x->mix, mix, 1), k_aload(k, sums, at, 1)));
    }
}

void attention_coop_add_values(const AttTiles *x, KRef first)
{
    Kernel *k = x->l->k;
    const TileProduct p = {.a = weights_at(x),
                           .pitch_a = pitch_of(attention_tile_keys(x)),
                           .b = values_at(x),
                           .pitch_b = pitch_of(x->a->value_size),
                           .steps = attention_tile_keys(x),
                           .columns = x->a->value_size,
                           .by_steps = true};
    const KRef sums = k_array(k, DTYPE_f32, FOUR);
    multiply(x, &p);
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < x->columns; c += FOUR) {
            take_four(x, &p, attention_tile_row(x, r), attention_tile_place(x, c, x->columns), sums, 0);
            add_four(x, first, r, c, sums);
        }
}
