// SPDX-License-Identifier: Apache-2.0
// Products of integers on microcontrollers: two rows by two columns of sums at a time, so that each operand
// that is loaded counts twice. With the DSP extension, operands that fit 16 bits are copied as pairs along
// the inner axis first, and an instruction multiplies two pairs. 16-bit values whose sums are i64 are
// multiplied as i32.
#include "passes/graph/requantise.h"
#include "passes/lower/product/matmul.h"

enum { TILE = 2, LEAST_PAIRS = 4, COPY_MOST = 8192 };

typedef struct IntTiles {
    Lower *l;
    const Matmul *x;
    const Point *batch;
    DType type; // of sums
    bool is_paired, is_narrowed; // narrowed: operands are i64 that hold 16 bits
    uint32_t a, b;               // params
    KRef a_base, b_base;
    int64_t length;                    // inner elements, or words of pairs
    int64_t a_row, a_k, b_k, b_column; // strides
} IntTiles;

// --- what operands are ---------------------------------------------------------------------------

static bool fits_halves(const Lower *l, NodeId id)
{
    int64_t least = 0, most = 0;
    return requantise_range(l->g, id, &least, &most) && least >= INT16_MIN && most <= INT16_MAX;
}

static bool can_pair(const Lower *l, const Matmul *x)
{
    return l->caps->has_dsp && lower_node(l, l->anchor)->dtype == DTYPE_i32 && x->k >= LEAST_PAIRS &&
           x->m > 1 && x->n > 1 && (x->m + x->n) * x->k <= COPY_MOST && fits_halves(l, x->a) &&
           fits_halves(l, x->b);
}

// --- pairs ---------------------------------------------------------------------------------------

static KRef element(const IntTiles *t, uint32_t param, KRef at)
{
    return k_load(t->l->k, param, at, 1, 1);
}

// Rows of words: two elements along the inner axis, `step` apart; behind an odd one stands 0.
static void copy_pairs(const IntTiles *t, uint32_t from, KRef base, int64_t rows, const int64_t stride[2],
                       uint32_t to)
{
    Kernel *k = t->l->k;
    const int64_t whole = t->x->k / 2;
    const KRef row = k_loop(k, rows, KFOR_SERIAL, "r");
    const KRef first = k_expr(k, "$ + $ * #", base, row, stride[0]);
    const KRef word = k_expr(k, "$ * #", row, t->length);
    const KRef i = k_loop(k, whole, KFOR_SERIAL, "i");
    const KRef at = k_expr(k, "$ + $ * #", first, i, 2 * stride[1]);
    const KRef pair = k_pack_b(k, element(t, from, at), element(t, from, k_expr(k, "$ + #", at, stride[1])));
    k_store(k, to, k_add(k, word, i), pair, 1);
    k_end(k);
    if (t->x->k % 2 != 0) {
        const KRef last = element(t, from, k_expr(k, "$ + #", first, 2 * whole * stride[1]));
        const KRef alone = k_pack_b(k, last, k_integer(k, DTYPE_i32, 0));
        k_store(k, to, k_expr(k, "$ + #", word, whole), alone, 1);
    }
    k_end(k);
}

static void read_pairs(IntTiles *t)
{
    Lower *l = t->l;
    const Matmul *x = t->x;
    const int64_t strides[2][2] = {{x->a_row, x->a_k}, {x->b_col, x->b_k}};
    t->length = ceil_div(x->k, 2);
    const uint32_t rows = lower_param_scratch(l, "rows", DTYPE_i32, (uint64_t)(x->m * t->length));
    const uint32_t columns = lower_param_scratch(l, "columns", DTYPE_i32, (uint64_t)(x->n * t->length));
    copy_pairs(t, t->a, t->a_base, x->m, strides[0], rows);
    copy_pairs(t, t->b, t->b_base, x->n, strides[1], columns);
    t->a = rows;
    t->b = columns;
    t->a_base = t->b_base = k_index(l->k, 0);
    t->a_row = t->b_column = t->length;
    t->a_k = t->b_k = 1;
}

// --- tiles ---------------------------------------------------------------------------------------

static KRef operand(const IntTiles *t, uint32_t param, KRef at)
{
    const KRef v = element(t, param, at);
    return t->is_narrowed ? k_cast(t->l->k, v, DTYPE_i32) : v;
}

static KRef sum_with(const IntTiles *t, KRef a, KRef b, KRef sum)
{
    Kernel *k = t->l->k;
    if (t->is_paired)
        return k_dot16(k, a, b, sum);
    if (!t->is_narrowed)
        return k_fma(k, a, b, sum);
    if (t->l->caps->is_narrow)
        return k_add(k, k_cast(k, k_mul(k, a, b), DTYPE_i64), sum);
    return k_fma(k, k_cast(k, a, DTYPE_i64), k_cast(k, b, DTYPE_i64), sum);
}

// A place in the result, and how many rows and columns begin there.
typedef struct Tile {
    KRef row, column;
    int64_t rows, columns;
} Tile;

static void emit_tile(const IntTiles *t, const Tile *at)
{
    static const char *const names[TILE * TILE] = {"s0", "s1", "s2", "s3"};
    Kernel *k = t->l->k;
    KRef sum[TILE * TILE], a[TILE], b[TILE];
    for (int64_t i = 0; i < at->rows * at->columns; i++)
        sum[i] = k_var(k, k_integer(k, (int)t->type, 0), names[i]);
    const KRef row = k_expr(k, "$ + $ * #", t->a_base, at->row, t->a_row);
    const KRef column = k_expr(k, "$ + $ * #", t->b_base, at->column, t->b_column);
    const KRef i = k_loop(k, t->length, KFOR_SERIAL, "i");
    for (int64_t r = 0; r < at->rows; r++)
        a[r] = operand(t, t->a, k_expr(k, "$ + # + $ * #", row, r * t->a_row, i, t->a_k));
    for (int64_t c = 0; c < at->columns; c++)
        b[c] = operand(t, t->b, k_expr(k, "$ + # + $ * #", column, c * t->b_column, i, t->b_k));
    for (int64_t s = 0; s < at->rows * at->columns; s++)
        k_set(k, sum[s], sum_with(t, a[s / at->columns], b[s % at->columns], k_get(k, sum[s])));
    k_end(k);
    for (int64_t s = 0; s < at->rows * at->columns; s++) {
        const KRef r = k_expr(k, "$ + #", at->row, s / at->columns),
                   c = k_expr(k, "$ + #", at->column, s % at->columns);
        pull_store_root(t->l, &t->x->d, matmul_point(t->x, t->batch, r, c), k_get(k, sum[s]));
    }
}

static void emit_columns(const IntTiles *t, Tile at)
{
    Kernel *k = t->l->k;
    const int64_t n = t->x->n, whole = n / TILE;
    uint32_t opened = 0;
    if (whole > 0) {
        at.columns = TILE;
        at.column = k_expr(k, "$ * #", lower_open_count(k, whole, KFOR_SERIAL, "c", &opened), TILE);
        emit_tile(t, &at);
        lower_close(t->l, opened);
    }
    if (n % TILE != 0) {
        at.columns = 1;
        at.column = k_index(k, n - 1);
        emit_tile(t, &at);
    }
}

static void emit_rows(const IntTiles *t)
{
    Kernel *k = t->l->k;
    const int64_t m = t->x->m, whole = m / TILE;
    uint32_t opened = 0;
    if (whole > 0) {
        const KRef row = lower_open_count(k, whole, KFOR_SERIAL, "row", &opened);
        emit_columns(t, (Tile){.row = k_expr(k, "$ * #", row, TILE), .rows = TILE});
        lower_close(t->l, opened);
    }
    if (m % TILE != 0)
        emit_columns(t, (Tile){.row = k_index(k, m - 1), .rows = 1});
}

// --- which products ------------------------------------------------------------------------------

bool int_tiles_lower(Lower *l, const Matmul *x)
{
    const DType type = (DType)lower_node(l, l->anchor)->dtype;
    if (!l->caps->prefers_ints || l->caps->threads > 1 || (type != DTYPE_i32 && type != DTYPE_i64) ||
        x->a_is_vector || x->b_is_vector || x->k_live != 0 || x->k < 1 || x->m < 1 || x->n < 1 ||
        x->norm != 0 || x->scale != 1 || domain_has_live(&x->d))
        return false;
    Point batch = {.lanes = 1, .count = 1};
    IntTiles t = {.l = l,
                  .x = x,
                  .batch = &batch,
                  .type = type,
                  .is_paired = can_pair(l, x),
                  .is_narrowed = requantise_is_widened(l->g, x->a) && requantise_is_widened(l->g, x->b),
                  .a = lower_param(l, x->a, PARAM_READ),
                  .b = lower_param(l, x->b, PARAM_READ),
                  .length = x->k,
                  .a_row = x->a_row,
                  .a_k = x->a_k,
                  .b_k = x->b_k,
                  .b_column = x->b_col};
    const uint32_t opened = lower_open(l, &x->d, x->batch, &batch);
    t.a_base = matmul_base(l, x, x->a, &x->a_loc, &batch);
    t.b_base = matmul_base(l, x, x->b, lower_loc(l, x->b), &batch);
    if (t.is_paired)
        read_pairs(&t);
    emit_rows(&t);
    lower_close(l, opened);
    return true;
}
