// SPDX-License-Identifier: Apache-2.0
// How a recurrent layer of several entries is cut for matrix units, by the figures of the GPU
// (lstm_tiles.h).
#include "passes/lower/gpu/gpu_split.h"
#include "passes/lower/ops/lstm_group.h"
#include "passes/lower/ops/lstm_tiles.h"

enum { MOST_TILES = 4, MOST_ENTRIES_OF_CLUSTER = 256 };

// What a step has beside products and bytes, in latencies of the machine: groups wait for each other; a
// turn of columns waits for hidden values, and hands sums over.
static const double wait_latencies = 0.6, turn_latencies = 0.5;

static int64_t power_until(int64_t most, int64_t n)
{
    int64_t p = 1;
    while (2 * p <= most && p < n)
        p *= 2;
    return p;
}

int64_t rnn_most_wide(const TileShape *s)
{
    return power_until(TILE_MOST / s->tiles, TILE_MOST);
}

int64_t rnn_planes(const Lower *l, const TileShape *s)
{
    return s->pair > 1 && gpu_split_products(l) > 1 ? 2 : 1;
}

int64_t rnn_weight_planes(const Lower *l, const TileShape *s)
{
    return s->is_split ? rnn_planes(l, s) : 1;
}

void rnn_tiles_of_phase(const Lstm *m, const TileShape *s, uint8_t phase, int64_t *first, int64_t *end)
{
    int64_t gate = 0;
    const int64_t until = lstm_phase_gates(m, phase, &gate) + gate;
    *first = gate * s->units / TILE_ROWS;
    *end = until == lstm_gates(m) ? s->tiles : ceil_div(until * s->units, TILE_ROWS);
}

TileCut rnn_cut(const Lower *l, const TileShape *s, int64_t size, int64_t columns)
{
    const int64_t blocks = ceil_div(size, TILE_BLOCK * s->pair), planes = rnn_weight_planes(l, s);
    TileCut c = {.size = size, .split = power_until(TILE_WARPS, blocks)};
    c.split = c.split > blocks ? c.split / 2 : c.split;
    c.each = ceil_div(blocks, c.split);
    const int64_t weights = s->tiles * TILE_PRODUCTS * TILE_PIECE * c.each * planes;
    c.is_kept = s->blocks == 1 && weights <= TILE_KEPT;
    // Weights that are fetched serve as many columns as there are.
    while (!c.is_kept && c.split > 1 && rnn_most_wide(s) * TILE_COLUMNS * (TILE_WARPS / c.split) < columns)
        c.split /= 2;
    c.each = ceil_div(blocks, c.split);
    const int64_t teams = TILE_WARPS / c.split;
    // f32 and its parts need more registers.
    const bool is_narrow = c.is_kept && weights > TILE_KEPT / 2 && s->pair == 1;
    c.wide = power_until(rnn_most_wide(s) / (is_narrow ? 2 : 1), ceil_div(columns, TILE_COLUMNS * teams));
    c.columns = c.wide * TILE_COLUMNS * teams;
    return c;
}

int64_t rnn_shared_sums(const TileShape *s)
{
    return TILE_WARPS * s->tiles * TILE_ROWS * (rnn_most_wide(s) * TILE_COLUMNS + TILE_PAD);
}

// That a thread has of a block.
static int64_t pieces_of_block(const Lower *l, const TileShape *s, const TileCut *c)
{
    return (c->is_kept ? 0 : 2 * s->tiles) + rnn_planes(l, s) * c->wide;
}

int64_t rnn_most_staged(const Lower *l, const TileShape *s, const TileCut *c)
{
    const int64_t sums = rnn_shared_sums(s) * (int64_t)sizeof(float);
    const int64_t all = c->each * pieces_of_block(l, s, c);
    const int64_t room = ((int64_t)l->caps->gpu->group_shared - sums) / (TILE_THREADS * TILE_BYTES);
    const int64_t most = room < all ? room : all;
    return most > TILE_STAGED ? most : TILE_STAGED;
}

// The batch in `parts` parts, or fewer.
static void cut_batch(const Lstm *m, int64_t processors, int64_t parts, TileShape *s)
{
    s->entries = ceil_div(ceil_div(m->batch, parts), TILE_COLUMNS) * TILE_COLUMNS;
    s->of_batch = ceil_div(m->batch, s->entries);
    s->clusters = s->of_batch * m->dirs;
    s->sets = ceil_div(s->clusters, processors / s->ranks);
    while (s->clusters % s->sets != 0)
        s->sets++;
}

// Microseconds of a matrix's products for so many entries, by all groups at once.
static double time_of_product(const Lower *l, const Lstm *m, const TileShape *s, bool is_hidden)
{
    const GpuMachine *gpu = l->caps->gpu;
    const int64_t size = is_hidden ? m->hidden : m->input, planes = is_hidden ? rnn_planes(l, s) : 1;
    const bool is_half = s->pair > 1;
    const TileCut c = rnn_cut(l, s, size, s->entries);
    const double groups = (double)(s->ranks * s->clusters / s->sets), bytes = is_half ? 2 : 4;
    const double parts = (double)(is_half && !s->is_split ? planes : gpu_split_products(l));
    const double rate = (is_half ? gpu->products_rate / 2 : gpu->tf32_rate) / parts;
    const double k = (double)(c.split * c.each * TILE_BLOCK * s->pair);
    const double columns = (double)(ceil_div(s->entries, c.columns) * c.columns);
    const double rows = (double)(s->blocks * s->tiles * TILE_ROWS);
    const double turns = c.is_kept ? 0 : (double)ceil_div(s->entries, c.columns);
    const double words = (double)(s->blocks * s->entries * planes) + turns * rows;
    const double copied = groups * k * bytes * words / (1000 * gpu->cache_rate[0]);
    const double multiplied = rows * columns * k / rate;
    return copied > multiplied ? copied : multiplied;
}

static double time_of(const Lower *l, const Lstm *m, const TileShape *s)
{
    const TileCut c = rnn_cut(l, s, m->hidden, s->entries);
    const double turns = (double)(s->blocks * ceil_div(s->entries, c.columns));
    const double waits = m->cell->phases * (wait_latencies + turn_latencies * turns);
    // Weights that are not kept come from far away, as many blocks at once as shared memory has room for.
    const int64_t stages = rnn_most_staged(l, s, &c) / pieces_of_block(l, s, &c);
    const double fetches = c.is_kept ? 0 : m->cell->phases * turns * (double)ceil_div(c.each, stages);
    const double inputs = m->sums != 0 ? 0 : time_of_product(l, m, s, false);
    const double step = l->caps->gpu->latency * (waits + fetches) + time_of_product(l, m, s, true) + inputs;
    return (double)s->sets * (double)m->seq * step;
}

static bool may_be(const Lower *l, const Lstm *m)
{
    const int type = lower_node(l, m->x)->dtype;
    return l->caps->has_mma && l->pass->frame == NULL && l->caps->group_threads >= TILE_THREADS &&
           m->seq >= 2 && m->batch >= 2 && m->hidden >= 1 && m->input >= 1 && m->type == DTYPE_f32 &&
           (k_is_half(type) || gpu_split_pays(l));
}

// f32 is split where weights stay in registers as numbers of f16.
static void choose_type(const Lower *l, const Lstm *m, TileShape *s)
{
    s->is_split = rnn_may_split(l, m);
    s->pair = s->is_split || k_is_half(lower_node(l, m->x)->dtype) ? 2 : 1;
    if (!s->is_split || rnn_cut(l, s, m->hidden, s->entries).is_kept)
        return;
    s->is_split = false;
    s->pair = 1;
}

bool lstm_tiles_choose(Lower *l, const Lstm *m, TileShape *best)
{
    if (!may_be(l, m))
        return false;
    const int64_t processors = l->caps->gpu->processors;
    double least = lstm_group_time(l, m);
    bool is_found = false;
    for (int64_t tiles = 1; tiles <= MOST_TILES; tiles++)
        for (int64_t parts = 1; parts <= ceil_div(m->batch, TILE_COLUMNS); parts *= 2) {
            TileShape s = {.tiles = tiles, .units = TILE_ROWS * tiles / lstm_gates(m)};
            const int64_t all = ceil_div(m->hidden, s.units);
            s.blocks = ceil_div(all, processors);
            s.ranks = ceil_div(all, s.blocks);
            cut_batch(m, processors, parts, &s);
            choose_type(l, m, &s);
            const double time = time_of(l, m, &s);
            if (s.entries > MOST_ENTRIES_OF_CLUSTER || time >= least)
                continue;
            least = time;
            *best = s;
            is_found = true;
        }
    return is_found;
}
