// SPDX-License-Identifier: Apache-2.0
// Attention of many queries on GPUs without matrix units: a group of threads has a tile of the queries of one
// head and goes over tiles of the keys that one of them sees, all in shared memory: scores, weights, and sums
// that are kept in registers. 16 threads share a row of scores: each has every 16th key of the tile, and
// every 16th column of the sums.
#include "passes/lower/attention/attention_tiles.h"
#include "ir/kernel/device.h"
#include <math.h>

enum {
    THREADS = ATTENTION_TILE_THREADS,
    TEAM = 16,
    MAX_ROWS = ATTENTION_TILE_ROWS,
    MAX_KEYS = ATTENTION_TILE_KEYS,
    MAX_COLUMNS = 16
};
enum { MOST_SHARED = 32 << 10 }; // so that several groups fit where there is more

typedef AttTiles Tiles;

static int64_t weight_pitch(const Tiles *x)
{
    return attention_tile_keys(x) + 1;
}

// Shared floats of tiles with so many rows and keys a thread.
static int64_t shared_floats(const Tiles *x)
{
    return (attention_tile_rows(x) + attention_tile_keys(x)) * x->pitch +
           attention_tile_rows(x) * weight_pitch(x);
}

// --- tiles of q, k and v -------------------------------------------------------------------------

KRef attention_tile_index(const AttTiles *x, const AttCopy *c, KRef at, KRef column, KRef *is_inside)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const KRef inside = c->end == 0 ? at : k_min(k, at, k_expr(k, "$ + -1", c->end));
    AttRow r = x->row[0];
    *is_inside = c->end == 0 ? 0 : k_lt(k, at, c->end);
    r.at.idx[x->a->rank - 2] = inside;
    return c->is_query ? attention_query_index(l, &r, column)
                       : attention_kv_index(l, &r, c->id, inside, column);
}

static void copy_tile(const Tiles *x, const AttCopy *c)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const uint8_t width = attention_fetch_width(l, c->id);
    const int64_t fetches = c->size / width;
    const uint32_t param = lower_param(l, c->id, PARAM_READ);
    const int type = lower_node(l, c->id)->dtype;
    const KRef i = k_for(k, x->thread, k_index(k, c->rows * fetches), THREADS, KFOR_SERIAL, "i");
    const KRef row = k_expr(k, "$ / #", i, fetches);
    const KRef column = k_expr(k, "$ % # * #", i, fetches, width);
    KRef is_inside = 0;
    const KRef from = attention_tile_index(x, c, k_add(k, c->first, row), column, &is_inside);
    const KRef part = k_array(k, type, width);
    k_fetch(k, param, from, part, k_index(k, 0), width);
    for (int64_t e = 0; e < width; e++) {
        const KRef v = k_cast(k, k_aload(k, part, k_index(k, e), 1), x->a->type);
        const KRef place = k_expr(k, "$ * # + ($ + #)", row, x->pitch, column, e);
        k_astore(k, c->is_query ? x->q : x->kv, place, k_select(k, is_inside, v, k_number(k, x->a->type, 0)));
    }
    k_end(k);
}

// --- scores --------------------------------------------------------------------------------------

// sums[row][key] of this thread, products of queries and keys.
static void emit_products(const Tiles *x, KRef sums)
{
    Kernel *k = x->l->k;
    for (int64_t i = 0; i < x->rows * x->keys; i++)
        k_astore(k, sums, k_index(k, i), k_number(k, x->a->type, 0));
    const int64_t step = x->a->size % 4 == 0 ? 4 : 1;
    const KRef d = k_for(k, k_index(k, 0), k_index(k, x->a->size), step, KFOR_SERIAL, "d");
    for (int64_t e = 0; e < step; e++) {
        const KRef at = k_expr(k, "$ + #", d, e);
        KRef key[MAX_KEYS];
        for (int64_t j = 0; j < x->keys; j++)
            key[j] = k_aload(k, x->kv, k_expr(k, "($ + #) * # + $", x->lane, j * TEAM, x->pitch, at), 1);
        for (int64_t r = 0; r < x->rows; r++) {
            const KRef q =
                k_aload(k, x->q, k_expr(k, "$ * # + $", attention_tile_row(x, r), x->pitch, at), 1);
            for (int64_t j = 0; j < x->keys; j++) {
                const KRef place = k_index(k, r * x->keys + j);
                k_astore(k, sums, place, k_fma(k, q, key[j], k_aload(k, sums, place, 1)));
            }
        }
    }
    k_end(k);
}

// Products of row r of the thread become scores, with the mask.
static void emit_scores(const Tiles *x, int64_t r, KRef first, KRef products)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const KRef last = k_expr(k, "$ + -1", x->hi);
    for (int64_t j = 0; j < x->keys; j++) {
        const KRef place = k_index(k, r * x->keys + j);
        KRef score = attention_score(l, x->a, k_aload(k, products, place, 1));
        if (x->a->mask != 0) {
            const KRef key = k_min(k, k_add(k, first, attention_tile_place(x, j)), last);
            score = attention_masked(l, x->a, score, attention_mask_at(l, &x->row[r], key));
        }
        k_astore(k, products, place, score);
    }
}

static void hide_keys(const Tiles *x, int64_t r, KRef first, KRef scores)
{
    Kernel *k = x->l->k;
    const AttRow *row = &x->row[r];
    for (int64_t j = 0; j < x->keys; j++) {
        const KRef key = k_add(k, first, attention_tile_place(x, j)), place = k_index(k, r * x->keys + j);
        const KRef is_seen = k_expr(k, "$ <= $ & $ < $", row->begin, key, key, row->end);
        k_astore(k, scores, place,
                 k_select(k, is_seen, k_aload(k, scores, place, 1),
                          k_number(k, x->a->type, -(double)INFINITY)));
    }
}

// Do all rows of the tile see all of these keys?
static KRef is_whole(const Tiles *x, KRef first)
{
    Kernel *k = x->l->k;
    const Attention *a = x->a;
    const KRef end = k_expr(k, "$ + #", first, attention_tile_keys(x));
    Point at = x->row[0].at;
    at.idx[a->rank - 2] = x->first; // it sees last what all rows see, and the last row first
    const AttRow top = attention_row(x->l, a, at);
    at.idx[a->rank - 2] = k_expr(k, "$ + #", x->first, attention_tile_rows(x) - 1);
    const AttRow bottom = attention_row(x->l, a, at);
    return k_expr(k, "$ <= $ & $ <= $", end, top.end, bottom.begin, first);
}

bool attention_tile_sees_all(const AttTiles *x)
{
    const Attention *a = x->a;
    return a->left < 0 && a->right < 0 && !a->has_live && a->keys % attention_tile_keys(x) == 0;
}

static void put_weights(const Tiles *x, int64_t r, const KRef *weight, KRef keep)
{
    Kernel *k = x->l->k;
    for (int64_t j = 0; j < x->keys; j++) {
        const KRef column = attention_tile_place(x, j);
        k_astore(k, x->weights, k_expr(k, "$ * # + $", attention_tile_row(x, r), weight_pitch(x), column),
                 weight[j]);
    }
    for (int64_t c = 0; c < x->columns; c++) {
        const KRef place = k_index(k, r * x->columns + c);
        k_astore(k, x->mix, place, k_mul(k, k_aload(k, x->mix, place, 1), keep));
    }
}

void attention_tile_weights(const Tiles *x, KRef first, KRef products)
{
    Kernel *k = x->l->k;
    const int type = x->a->type;
    const bool is_half = k_is_half(lower_node(x->l, x->a->q)->dtype);
    const KRef zero = k_number(k, type, 0), lowest = k_number(k, type, -(double)INFINITY);
    const KRef whole = attention_tile_sees_all(x) ? 0 : is_whole(x, first);
    for (int64_t r = 0; r < x->rows; r++) {
        KRef score[MAX_KEYS], weight[MAX_KEYS], top = lowest;
        emit_scores(x, r, first, products);
        if (whole != 0) {
            k_if(k, k_not(k, whole));
            hide_keys(x, r, first, products);
            k_end(k);
        }
        for (int64_t j = 0; j < x->keys; j++) {
            score[j] = k_aload(k, products, k_index(k, r * x->keys + j), 1);
            top = k_max(k, top, score[j]);
        }
        const KRef old = k_get(k, x->top[r]), all = k_max(k, old, k_team(k, KOP_max, top, x->lanes));
        const KRef base = k_select(k, k_eq(k, all, lowest), zero, all);
        const KRef keep = attention_exp(x->l, is_half, k_sub(k, old, base));
        KRef sum = k_mul(k, k_get(k, x->sum[r]), keep);
        for (int64_t j = 0; j < x->keys; j++) {
            weight[j] = k_get(k, k_var(k, attention_exp(x->l, is_half, k_sub(k, score[j], base)), "weight"));
            sum = k_add(k, sum, weight[j]);
        }
        if (x->is_coop)
            attention_coop_put_weights(x, weight, keep);
        else
            put_weights(x, r, weight, keep);
        k_set(k, x->sum[r], sum);
        k_set(k, x->top[r], all);
    }
}

// --- values --------------------------------------------------------------------------------------

// hides: a value behind a weight of 0 may hold anything.
static void add_values(const Tiles *x, bool hides)
{
    Kernel *k = x->l->k;
    const KRef zero = k_number(k, x->a->type, 0);
    const KRef j = k_loop(k, attention_tile_keys(x), KFOR_SERIAL, "j");
    KRef weight[MAX_ROWS];
    for (int64_t r = 0; r < x->rows; r++)
        weight[r] =
            k_aload(k, x->weights, k_expr(k, "$ * # + $", attention_tile_row(x, r), weight_pitch(x), j), 1);
    for (int64_t c = 0; c < x->columns; c++) {
        const KRef column = k_expr(k, "$ + #", x->lane, c * TEAM);
        const KRef v = k_aload(k, x->kv, k_expr(k, "$ * # + $", j, x->pitch, column), 1);
        for (int64_t r = 0; r < x->rows; r++) {
            const KRef place = k_index(k, r * x->columns + c);
            const KRef counts = hides ? k_select(k, k_ne(k, weight[r], zero), v, zero) : v;
            k_astore(k, x->mix, place, k_fma(k, weight[r], counts, k_aload(k, x->mix, place, 1)));
        }
    }
    k_end(k);
}

static void emit_values(const Tiles *x, KRef first)
{
    Kernel *k = x->l->k;
    const Attention *a = x->a;
    if (a->mask != 0) {
        add_values(x, true);
        return;
    }
    if (a->left < 0 && a->right < 0) {
        add_values(x, false);
        return;
    }
    k_if(k, is_whole(x, first));
    add_values(x, false);
    k_else(k);
    add_values(x, true);
    k_end(k);
}

// --- a tile --------------------------------------------------------------------------------------

static void emit_keys(const Tiles *x)
{
    Kernel *k = x->l->k;
    const Attention *a = x->a;
    const KRef products = k_array(k, a->type, x->rows * x->keys);
    const KRef first = k_for(k, x->lo, x->hi, attention_tile_keys(x), KFOR_SERIAL, "j");
    k_barrier(k); // the values of the last step were read
    copy_tile(x, &(AttCopy){a->k, false, attention_tile_keys(x), a->size, first, x->hi});
    k_barrier(k);
    emit_products(x, products);
    attention_tile_weights(x, first, products);
    k_barrier(k); // all products were read
    copy_tile(x, &(AttCopy){a->v, false, attention_tile_keys(x), a->value_size, first, x->hi});
    k_barrier(k);
    emit_values(x, first);
    k_end(k);
}

static void store_rows(const Tiles *x, KRef end)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    for (int64_t r = 0; r < x->rows; r++) {
        const KRef sum = k_team(k, KOP_add, k_get(k, x->sum[r]), x->lanes);
        k_if(k, k_expr(k, "$ + $ < $", x->first, attention_tile_row(x, r), end));
        for (int64_t c = 0; c < x->columns; c++) {
            const KRef column = attention_tile_place(x, c);
            const bool has_end = (c + 1) * TEAM > a->value_size;
            if (has_end)
                k_if(k, k_expr(k, "$ < #", column, a->value_size));
            const KRef mix = k_aload(k, x->mix, k_index(k, r * x->columns + c), 1);
            attention_store_part(l, a, x->row[r].at, &(AttSums){k_get(k, x->top[r]), sum, mix, column});
            if (has_end)
                k_end(k);
        }
        k_end(k);
    }
}

// Rows behind the end repeat the last one.
static void begin_rows(Tiles *x, Point at, KRef end)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const KRef last = k_expr(k, "$ + -1", end);
    for (int64_t r = 0; r < x->rows; r++) {
        at.idx[a->rank - 2] = k_expr(k, "min($ + $, $)", x->first, attention_tile_row(x, r), last);
        x->row[r] = attention_row(l, a, at);
        x->top[r] = k_var(k, k_number(k, a->type, -(double)INFINITY), "top");
        x->sum[r] = k_var(k, k_number(k, a->type, 0), "sum");
    }
    at.idx[a->rank - 2] = x->first;
    x->lo = attention_row(l, a, at).begin;
    at.idx[a->rank - 2] = k_expr(k, "min($ + #, $)", x->first, attention_tile_rows(x) - 1, last);
    x->hi = attention_row(l, a, at).end;
}

static int64_t tiles_of_head(const Tiles *x)
{
    return ceil_div(x->a->queries, attention_tile_rows(x));
}

// Of the tiles of `all`, number `number`. Causal tiles with many keys come first.
static Point place_tile(const Tiles *all, KRef number, KRef *first)
{
    Kernel *k = all->l->k;
    const Attention *a = all->a;
    const int64_t n = tiles_of_head(all);
    Point at = {.lanes = 1, .count = 1};
    const KRef i = k_expr(k, "$ % #", number, n), tile = a->right >= 0 ? k_expr(k, "# - $", n - 1, i) : i;
    KRef head = k_expr(k, "$ / #", number, n);
    for (uint32_t axis = a->rank - 2; axis-- > 0;) {
        at.idx[axis] = axis == 0 ? head : k_expr(k, "$ % #", head, a->d.extent[axis]);
        head = k_expr(k, "$ / #", head, a->d.extent[axis]);
    }
    *first = k_expr(k, "$ * #", tile, attention_tile_rows(all));
    return at;
}

static void emit_tile(Tiles *x, Point at, KRef first)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const KRef end = lower_live(l, &a->d.live[a->rank - 2], a->queries);
    x->first = first;
    k_if(k, k_lt(k, first, end));
    begin_rows(x, at, end);
    if (x->is_coop) {
        attention_coop_keys(x, end);
        attention_coop_store(x, end);
    } else {
        x->mix = k_array(k, a->type, x->rows * x->columns);
        for (int64_t i = 0; i < x->rows * x->columns; i++)
            k_astore(k, x->mix, k_index(k, i), k_number(k, a->type, 0));
        copy_tile(x, &(AttCopy){a->q, true, attention_tile_rows(x), a->size, first, end});
        emit_keys(x);
        store_rows(x, end);
    }
    k_end(k);
}

// The tile of another size that begins at `first`, as parts of it.
static void emit_parts(Tiles *x, Point at, KRef first, int64_t rows)
{
    Kernel *k = x->l->k;
    const KRef part = k_for(k, k_index(k, 0), k_index(k, rows), attention_tile_rows(x), KFOR_ROLL, "part");
    k_barrier(k); // the queries of the last one were read
    emit_tile(x, at, k_add(k, first, part));
    k_end(k);
}

// Shared arrays, and numbers of the thread.
static void begin_tiles(Tiles *x)
{
    Kernel *k = x->l->k;
    x->thread = k_thread(k);
    x->lane = k_expr(k, "$ % #", x->thread, x->lanes);
    x->team = k_expr(k, "$ / #", x->thread, x->lanes);
    if (x->is_coop) {
        attention_coop_begin(x);
        return;
    }
    x->q = k_shared(k, x->a->type, attention_tile_rows(x) * x->pitch);
    x->kv = k_shared(k, x->a->type, attention_tile_keys(x) * x->pitch);
    x->weights = k_shared(k, x->a->type, attention_tile_rows(x) * weight_pitch(x));
}

// False: too large for the shared memory, or not of its kind.
static bool plan_tiles(Lower *l, const Attention *a, Tiles *x)
{
    static const struct {
        int64_t rows, keys;
    } sizes[] = {{4, 2}, {4, 1}, {2, 1}, {1, 1}};
    *x = (Tiles){.l = l, .a = a, .lanes = TEAM};
    x->columns = ceil_div(a->value_size, TEAM);
    x->pitch = (a->size > x->columns * TEAM ? a->size : x->columns * TEAM) + 1;
    if (l->caps->shared_bytes == 0 || a->type != DTYPE_f32 || a->splits > 0 || a->keys == 0 ||
        a->value_size == 0 || x->columns > MAX_COLUMNS || (attention_live_axes(a) & ~(1u << (a->rank - 2))))
        return false;
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        x->rows = sizes[i].rows;
        x->keys = sizes[i].keys;
        if (shared_floats(x) * 4 <= MOST_SHARED && MOST_SHARED <= l->caps->shared_bytes)
            return true;
    }
    return false;
}

static int64_t all_tiles(const Tiles *x)
{
    int64_t n = tiles_of_head(x);
    for (uint32_t i = 0; i + 2 < x->a->rank; i++)
        n *= x->a->d.extent[i];
    return n;
}

bool attention_lower_tiles(Lower *l, const Attention *a)
{
    Tiles x, coop;
    Kernel *k = l->k;
    if (!plan_tiles(l, a, &x))
        return false;
    const bool has_coop = attention_coop_fits(&x, &coop);
    const Tiles *all = has_coop ? &coop : &x;
    KRef first = 0;
    k_set_group(k, THREADS);
    const KRef tile = k_for_group(k, all_tiles(all), "tile");
    const Point at = place_tile(all, tile, &first);
    if (has_coop) {
        begin_tiles(&coop);
        const KRef asked = k_call(k, KDEV_has_coop, 0, 0, 0);
        k_if(k, asked);
        emit_tile(&coop, at, first);
        k_end(k);
        k_if(k, k_not(k, asked));
        begin_tiles(&x);
        emit_parts(&x, at, first, attention_tile_rows(&coop));
        k_end(k);
    } else {
        begin_tiles(&x);
        emit_tile(&x, at, first);
    }
    k_end(k);
    return true;
}
