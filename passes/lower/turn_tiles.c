// SPDX-License-Identifier: Apache-2.0
// Kernels of GPUs with one value whose elements are neighbours along another axis than those of the result:
// square tiles through memory that a group shares, so that both sides move whole vectors.
#include "passes/lower/turn_gpu.h"
#include "passes/lower/wide.h"

enum { TILE_GROUP = 256, TILE_SIDE = 64, SMALL_SIDE = 32, LEAST_EXTENT = 16, FULL_TILES = 2 };

// One side of the copy. Rows of the tile as this side has them are `n` elements at once along `along`.
typedef struct TileSide {
    NodeId node; // 0: the destination of a copy
    uint32_t along, across, param;
    uint32_t n;
} TileSide;

typedef struct TileCopy {
    const Domain *d;
    TileSide from, to;
    TurnStore store;
    int64_t side;
    KRef tile, pitch;
    KRef thread;
    Point origin;
} TileCopy;

static bool find_sides(const Lower *l, TileCopy *c)
{
    TileSide *sides[2] = {&c->from, &c->to};
    for (uint32_t i = 0; i < 2; i++) {
        if (c->d->extent[sides[i]->along] < LEAST_EXTENT)
            return false;
        sides[i]->n = wide_piece(l, c->d, sides[i]->node, sides[i]->along);
        while (sides[i]->n > 1 && c->d->extent[sides[i]->along] % sides[i]->n != 0)
            sides[i]->n /= 2;
        if (sides[i]->n == 0)
            return false;
    }
    c->from.across = c->to.along;
    c->to.across = c->from.along;
    return true;
}

static KRef tile_index(Lower *l, const TileCopy *c, KRef row, KRef column)
{
    return k_expr(l->k, "$ * $ + $", row, c->pitch, column);
}

typedef void (*TileFn)(Lower *l, const TileCopy *c, const TileSide *s, Point at, KRef row, KRef column,
                       KRef slot, KRef array);

// Calls fn for the vectors of the tile that this thread moves, if they exist; array: registers of them all.
static void each_vector(Lower *l, const TileCopy *c, const TileSide *s, KRef array, TileFn fn)
{
    Kernel *k = l->k;
    const int64_t across = c->side / s->n, vectors = across * c->side;
    const KRef end = k_index(k, ceil_div(vectors, TILE_GROUP)),
               turn = k_for(k, k_index(k, 0), end, 1, KFOR_UNROLL, "v");
    const KRef number = k_expr(k, "$ * # + $", turn, TILE_GROUP, c->thread);
    const KRef row = k_expr(k, "$ / #", number, across),
               column = k_expr(k, "$ % # * #", number, across, s->n);
    Point at = c->origin;
    const KRef always = k_integer(k, DTYPE_bool, 1);
    KRef exists = always;
    at.idx[s->along] = k_add(k, at.idx[s->along], column);
    at.idx[s->across] = k_add(k, at.idx[s->across], row);
    if (vectors % TILE_GROUP != 0)
        exists = k_expr(k, "$ < #", number, vectors);
    const uint32_t axes[2] = {s->along, s->across};
    for (uint32_t i = 0; i < 2; i++)
        if (c->d->extent[axes[i]] % c->side != 0)
            exists = k_expr(k, "$ & $ < #", exists, at.idx[axes[i]], c->d->extent[axes[i]]);
    if (exists != always)
        k_if(k, exists);
    fn(l, c, s, at, row, column, k_expr(k, "$ * #", turn, s->n), array);
    lower_close(l, exists != always ? 2 : 1);
}

static void fetch_vector(Lower *l, const TileCopy *c, const TileSide *s, Point at, KRef row, KRef column,
                         KRef slot, KRef array)
{
    (void)row, (void)column;
    Pull p = pull_at(l, c->d, at);
    k_fetch(l->k, s->param, pull_index(&p, s->node), array, slot, (uint8_t)s->n);
}

static void hold_vector(Lower *l, const TileCopy *c, const TileSide *s, Point at, KRef row, KRef column,
                        KRef slot, KRef array)
{
    Kernel *k = l->k;
    (void)at;
    for (uint32_t j = 0; j < s->n; j++)
        k_astore(k, c->tile, tile_index(l, c, row, k_expr(k, "$ + #", column, j)),
                 k_aload(k, array, k_expr(k, "$ + #", slot, j), 1));
}

// The root's elements are collected in the array.
static void put_vector(Lower *l, const TileCopy *c, const TileSide *s, Point at, KRef row, KRef column,
                       KRef slot, KRef array)
{
    Kernel *k = l->k;
    Pull p = pull_at(l, c->d, at);
    l->wide.collected = array;
    for (uint32_t j = 0; j < s->n; j++) {
        Point one = at;
        one.idx[s->along] = k_expr(k, "$ + #", at.idx[s->along], j);
        one.slot = one.lane = k_expr(k, "$ + #", slot, j);
        const KRef in_tile = tile_index(l, c, k_expr(k, "$ + #", column, j), row);
        c->store(l, c->d, one, c->from.node, k_aload(k, c->tile, in_tile, 1));
    }
    l->wide.collected = 0;
    k_put(k, s->param, pull_index(&p, s->node), array, slot, (uint8_t)s->n);
}

// Loops over tiles, and over the axes that have none.
static void open_tiles(Lower *l, TileCopy *c)
{
    Kernel *k = l->k;
    const Domain *d = c->d;
    int64_t total = 1, count[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < d->rank; i++) {
        const bool is_tiled = i == c->from.along || i == c->to.along;
        count[i] = is_tiled ? ceil_div(d->extent[i], c->side) : d->extent[i];
        total *= count[i];
    }
    KRef rest = k_for_group(k, total, "tile");
    for (uint32_t i = d->rank; i-- > 0;) {
        const KRef own = i == 0 ? rest : k_expr(k, "$ % #", rest, count[i]);
        const bool is_tiled = i == c->from.along || i == c->to.along;
        rest = i == 0 ? rest : k_expr(k, "$ / #", rest, count[i]);
        c->origin.idx[i] = is_tiled ? k_expr(k, "$ * #", own, c->side) : own;
    }
}

// Tiles that the device has enough of; smaller ones, where there are few.
static int64_t choose_side(const Lower *l, const TileCopy *c)
{
    const bool is_long = dtype_info[lower_node(l, c->from.node)->dtype].bytes > 4;
    int64_t tiles = 1;
    for (uint32_t i = 0; i < c->d->rank; i++) {
        const bool is_tiled = i == c->from.along || i == c->to.along;
        tiles *= is_tiled ? ceil_div(c->d->extent[i], TILE_SIDE) : c->d->extent[i];
    }
    return is_long || tiles < FULL_TILES * l->caps->gpu->processors ? SMALL_SIDE : TILE_SIDE;
}

bool turn_tiles(Lower *l, const Turned *t)
{
    Kernel *k = l->k;
    const int type = lower_node(l, t->from)->dtype;
    const int to_type = lower_node(l, t->to != 0 ? t->to : t->from)->dtype;
    TileCopy c = {.d = t->d,
                  .from = {.node = t->from, .along = t->from_axis},
                  .to = {.node = t->to, .along = t->to_axis},
                  .store = t->store,
                  .origin = {.lanes = 1, .count = 1}};
    if (!find_sides(l, &c))
        return false;
    c.side = choose_side(l, &c);
    c.from.param = lower_param(l, t->from, PARAM_READ);
    c.to.param = wide_param_written(l, t->to);
    k_set_group(k, TILE_GROUP);
    c.tile = k_shared(k, type, c.side * (c.side + 1));
    c.pitch = k_index(k, c.side + 1); // columns are in different banks, too
    open_tiles(l, &c);
    c.thread = k_thread(k);
    const int64_t each = ceil_div(c.side * c.side, TILE_GROUP);
    const KRef in = k_array(k, type, each > c.from.n ? each : c.from.n);
    each_vector(l, &c, &c.from, in, fetch_vector);
    each_vector(l, &c, &c.from, in, hold_vector);
    k_barrier(k);
    const KRef out = k_array(k, to_type, each > c.to.n ? each : c.to.n);
    each_vector(l, &c, &c.to, out, put_vector);
    k_end(k);
    return true;
}
