// SPDX-License-Identifier: Apache-2.0
// Attention of many queries on GPUs without matrix units: a group of threads has a tile of the queries of one
// head and goes over tiles of the keys that one of them sees, all in shared memory: scores, weights, and sums
// that are kept in registers. 16 threads share a row of scores: each has every 16th key of the tile, and
// every 16th column of the sums.
#include "passes/lower/attention/attention.h"
#include <math.h>

enum { THREADS = 128, TEAM = 16, TEAMS = THREADS / TEAM, MAX_ROWS = 4, MAX_KEYS = 2, MAX_COLUMNS = 16 };
enum { MOST_SHARED = 32 << 10 }; // so that several groups fit where there is more

typedef struct Tiles {
    Lower *l;
    const Attention *a;
    int64_t rows;    // of a thread; its team has these of the tile: row * TEAMS + team
    int64_t keys;    // of a thread
    int64_t columns; // of a thread, of the values
    int64_t pitch;   // of queries, keys and values in shared memory
    KRef thread, lane, team;
    KRef q, kv, weights; // shared
    KRef first;          // query of the tile
    KRef lo, hi;         // keys that its rows see
    AttRow row[MAX_ROWS];
    KRef top[MAX_ROWS], sum[MAX_ROWS], mix; // variables; array
} Tiles;

static int64_t tile_rows(const Tiles *x)
{
    return x->rows * TEAMS;
}

static int64_t tile_keys(const Tiles *x)
{
    return x->keys * TEAM;
}

static int64_t weight_pitch(const Tiles *x)
{
    return tile_keys(x) + 1;
}

// Shared floats of tiles with so many rows and keys a thread.
static int64_t shared_floats(const Tiles *x)
{
    return (tile_rows(x) + tile_keys(x)) * x->pitch + tile_rows(x) * weight_pitch(x);
}

// --- tiles of q, k and v -------------------------------------------------------------------------

typedef struct Copy {
    NodeId id;
    KRef to;
    int64_t rows, size;
    KRef first, end; // of the rows; behind the end there are zeros
} Copy;

static void copy_tile(const Tiles *x, const Copy *c)
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
    const KRef at = k_add(k, c->first, row), last = k_expr(k, "$ + -1", c->end);
    const KRef inside = k_min(k, at, last), is_inside = k_lt(k, at, c->end);
    AttRow r = x->row[0];
    r.at.idx[x->a->rank - 2] = inside;
    const KRef from = c->id == x->a->q && c->to == x->q ? attention_query_index(l, &r, column)
                                                        : attention_kv_index(l, &r, c->id, inside, column);
    const KRef part = k_array(k, type, width);
    k_fetch(k, param, from, part, k_index(k, 0), width);
    for (int64_t e = 0; e < width; e++) {
        const KRef v = k_cast(k, k_aload(k, part, k_index(k, e), 1), x->a->type);
        const KRef place = k_expr(k, "$ * # + ($ + #)", row, x->pitch, column, e);
        k_astore(k, c->to, place, k_select(k, is_inside, v, k_number(k, x->a->type, 0)));
    }
    k_end(k);
}

static KRef tile_row(const Tiles *x, int64_t r)
{
    return k_expr(x->l->k, "$ + #", x->team, r * TEAMS);
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
            const KRef q = k_aload(k, x->q, k_expr(k, "$ * # + $", tile_row(x, r), x->pitch, at), 1);
            for (int64_t j = 0; j < x->keys; j++) {
                const KRef place = k_index(k, r * x->keys + j);
                k_astore(k, sums, place, k_fma(k, q, key[j], k_aload(k, sums, place, 1)));
            }
        }
    }
    k_end(k);
}

static KRef seen_score(const Tiles *x, int64_t r, KRef key, KRef product)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const AttRow *row = &x->row[r];
    KRef score = attention_score(l, x->a, product);
    const KRef is_seen = k_expr(k, "$ <= $ & $ < $", row->begin, key, key, row->end);
    if (x->a->mask != 0) {
        const KRef last = k_expr(k, "$ + -1", x->hi);
        score = attention_masked(l, x->a, score, attention_mask_at(l, row, k_min(k, key, last)));
    }
    return k_select(k, is_seen, score, k_number(k, x->a->type, -(double)INFINITY));
}

// Products become weights in shared memory; sums so far are scaled to the new maximum.
static void emit_weights(const Tiles *x, KRef first, KRef products)
{
    Kernel *k = x->l->k;
    const int type = x->a->type;
    const bool is_half = k_is_half(lower_node(x->l, x->a->q)->dtype);
    const KRef zero = k_number(k, type, 0), lowest = k_number(k, type, -(double)INFINITY);
    for (int64_t r = 0; r < x->rows; r++) {
        KRef score[MAX_KEYS], top = lowest;
        for (int64_t j = 0; j < x->keys; j++) {
            const KRef key = k_expr(k, "$ + ($ + #)", first, x->lane, j * TEAM);
            score[j] = seen_score(x, r, key, k_aload(k, products, k_index(k, r * x->keys + j), 1));
            top = k_max(k, top, score[j]);
        }
        const KRef old = k_get(k, x->top[r]), all = k_max(k, old, k_team(k, KOP_max, top, TEAM));
        const KRef base = k_select(k, k_eq(k, all, lowest), zero, all);
        const KRef keep = attention_exp(x->l, is_half, k_sub(k, old, base));
        KRef sum = k_mul(k, k_get(k, x->sum[r]), keep);
        for (int64_t j = 0; j < x->keys; j++) {
            const KRef weight = attention_exp(x->l, is_half, k_sub(k, score[j], base));
            const KRef column = k_expr(k, "$ + #", x->lane, j * TEAM);
            k_astore(k, x->weights, k_expr(k, "$ * # + $", tile_row(x, r), weight_pitch(x), column), weight);
            sum = k_add(k, sum, weight);
        }
        for (int64_t c = 0; c < x->columns; c++) {
            const KRef place = k_index(k, r * x->columns + c);
            k_astore(k, x->mix, place, k_mul(k, k_aload(k, x->mix, place, 1), keep));
        }
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
    const KRef j = k_loop(k, tile_keys(x), KFOR_SERIAL, "j");
    KRef weight[MAX_ROWS];
    for (int64_t r = 0; r < x->rows; r++)
        weight[r] = k_aload(k, x->weights, k_expr(k, "$ * # + $", tile_row(x, r), weight_pitch(x), j), 1);
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
    // What the first row sees last, and the last row first, all rows see.
    const KRef end = k_expr(k, "$ + #", first, tile_keys(x));
    Point at = x->row[0].at;
    at.idx[a->rank - 2] = x->first;
    const AttRow top = attention_row(x->l, a, at);
    at.idx[a->rank - 2] = k_expr(k, "$ + #", x->first, tile_rows(x) - 1);
    const AttRow bottom = attention_row(x->l, a, at);
    k_if(k, k_expr(k, "$ <= $ & $ <= $", end, top.end, bottom.begin, first));
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
    const KRef first = k_for(k, x->lo, x->hi, tile_keys(x), KFOR_SERIAL, "j");
    k_barrier(k); // the values of the last step were read
    copy_tile(x, &(Copy){a->k, x->kv, tile_keys(x), a->size, first, x->hi});
    k_barrier(k);
    emit_products(x, products);
    emit_weights(x, first, products);
    k_barrier(k);
    copy_tile(x, &(Copy){a->v, x->kv, tile_keys(x), a->value_size, first, x->hi});
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
        const KRef sum = k_team(k, KOP_add, k_get(k, x->sum[r]), TEAM);
        k_if(k, k_expr(k, "$ + $ < $", x->first, tile_row(x, r), end));
        for (int64_t c = 0; c < x->columns; c++) {
            const KRef column = k_expr(k, "$ + #", x->lane, c * TEAM);
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
        at.idx[a->rank - 2] = k_expr(k, "min($ + $, $)", x->first, tile_row(x, r), last);
        x->row[r] = attention_row(l, a, at);
        x->top[r] = k_var(k, k_number(k, a->type, -(double)INFINITY), "top");
        x->sum[r] = k_var(k, k_number(k, a->type, 0), "sum");
    }
    x->mix = k_array(k, a->type, x->rows * x->columns);
    for (int64_t i = 0; i < x->rows * x->columns; i++)
        k_astore(k, x->mix, k_index(k, i), k_number(k, a->type, 0));
    at.idx[a->rank - 2] = x->first;
    x->lo = attention_row(l, a, at).begin;
    at.idx[a->rank - 2] = k_expr(k, "min($ + #, $)", x->first, tile_rows(x) - 1, last);
    x->hi = attention_row(l, a, at).end;
}

static int64_t tiles_of_head(const Tiles *x)
{
    return ceil_div(x->a->queries, tile_rows(x));
}

// Tile `number` of all. Causal tiles with many keys come first.
static void emit_tile(Tiles *x, KRef number)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const int64_t n = tiles_of_head(x);
    Point at = {.lanes = 1, .count = 1};
    const KRef i = k_expr(k, "$ % #", number, n);
    const KRef end = lower_live(l, &a->d.live[a->rank - 2], a->queries);
    KRef head = k_expr(k, "$ / #", number, n);
    for (uint32_t axis = a->rank - 2; axis-- > 0;) {
        at.idx[axis] = axis == 0 ? head : k_expr(k, "$ % #", head, a->d.extent[axis]);
        head = k_expr(k, "$ / #", head, a->d.extent[axis]);
    }
    const KRef tile = a->right >= 0 ? k_expr(k, "# - $", n - 1, i) : i;
    x->first = k_expr(k, "$ * #", tile, tile_rows(x));
    k_if(k, k_lt(k, x->first, end));
    begin_rows(x, at, end);
    copy_tile(x, &(Copy){a->q, x->q, tile_rows(x), a->size, x->first, end});
    emit_keys(x);
    store_rows(x, end);
    k_end(k);
}

// Shared arrays, and numbers of the thread.
static void begin_tiles(Tiles *x)
{
    Kernel *k = x->l->k;
    x->thread = k_thread(k);
    x->lane = k_expr(k, "$ % #", x->thread, TEAM);
    x->team = k_expr(k, "$ / #", x->thread, TEAM);
    x->q = k_shared(k, x->a->type, tile_rows(x) * x->pitch);
    x->kv = k_shared(k, x->a->type, tile_keys(x) * x->pitch);
    x->weights = k_shared(k, x->a->type, tile_rows(x) * weight_pitch(x));
}

// False: too large for the shared memory, or not of its kind.
static bool plan_tiles(Lower *l, const Attention *a, Tiles *x)
{
    static const struct {
        int64_t rows, keys;
    } sizes[] = {{4, 2}, {4, 1}, {2, 1}, {1, 1}};
    *x = (Tiles){.l = l, .a = a};
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
    Tiles x;
    if (!plan_tiles(l, a, &x))
        return false;
    k_set_group(l->k, THREADS);
    const KRef tile = k_for_group(l->k, all_tiles(&x), "tile");
    begin_tiles(&x);
    emit_tile(&x, tile);
    k_end(l->k);
    return true;
}
