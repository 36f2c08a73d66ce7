// SPDX-License-Identifier: Apache-2.0
// Chooses the tile of a convolution or matmul and the order of its loops by estimated cycles: multiply-adds
// by the units for them, loads by two ports, weights by the bandwidth of the cache that holds them, and what
// a tile costs besides. All candidates give the same bits.
#include "passes/lower/choice.h"
#include "passes/lower/tile/tile_part.h"

static const double text_share = 0.001;

// Of what a cache gives to reads alone, what it gives to panels beside the rest of a tile.
static const double l2_share = 0.5, l3_share = 0.8;
// Weights that come from memory for every tile arrive a line at a time: the pixels of a tile are as many
// streams beside them, so that no unit fetches them ahead.
static const double memory_share = 0.3;

enum {
    TILE_CYCLES = 30, // loops and addresses of a tile
    MAX_CANDIDATES = 6,
    MAX_LOOPS = 48, // of tiles of several rows: each is text of its own
};

typedef struct Cost {
    const Tile *t; // with the plan in question
    TileBlocks blocks;
    TileRuns rows, columns;
    double panel_rate; // bytes per cycle at which weights come
    double rest;       // the share of the time for weights that other work does not hide
    uint32_t loops;    // texts of sums
} Cost;

static double max_of(double a, double b)
{
    return a > b ? a : b;
}

static double l2_rate(const Tile *t)
{
    return l2_share * t->l->caps->cpu.l2_rate;
}

static double l3_rate(const Tile *t)
{
    return l3_share * t->l->caps->cpu.l3_rate;
}

// At which so many bytes are read that do not fit into the second-level cache.
static double far_rate(const Tile *t, double bytes)
{
    const CpuMachine *cpu = &t->l->caps->cpu;
    return bytes > 0.5 * cpu->l3_bytes ? memory_share * cpu->shared_rate : l3_rate(t);
}

// The longest of what runs side by side, and some of the rest: more of what comes from far away. Tiles that
// two units for products can follow are as good for one, so vectors count on two.
static double step_cycles(const Cost *c, int64_t pixels, int64_t nv)
{
    const CpuMachine *cpu = &c->t->l->caps->cpu;
    const uint8_t units = c->t->lanes == 1 ? cpu->fma_per_cycle : 2;
    const double fma = (double)(pixels * nv) / units;
    const double loads = (double)(pixels + nv) / cpu->loads_per_cycle;
    const double weights = (double)(nv * c->t->lanes * 4) / c->panel_rate;
    return max_of(max_of(fma, loads), max_of(weights, cpu->fma_latency)) + 0.25 * loads + c->rest * weights;
}

// One tile: all taps that fall inside the image.
static double tile_cycles(Cost *c, const TileSpans *rows, const TileSpans *columns, int64_t pixels,
                          int64_t nv)
{
    double cycles = TILE_CYCLES + 1.5 * (double)(pixels * nv);
    for (uint32_t i = 0; i < rows->len; i++)
        for (uint32_t j = 0; j < columns->len; j++) {
            const TileSpan *r = &rows->data[i], *k = &columns->data[j];
            const double steps = (double)(r->count * k->count * c->t->s.ic * tile_outer_taps(&c->t->s));
            cycles += steps * step_cycles(c, (r->hi - r->lo) * (k->hi - k->lo), nv) +
                      c->t->l->caps->cpu.fma_latency;
            c->loops++;
        }
    return cycles;
}

// All tiles of the image for one block of channels.
static double block_cycles(Cost *c, int64_t nv)
{
    Arena *a = c->t->l->pass->scratch;
    const TileAxis row_axis = tile_row_axis(&c->t->s), column_axis = tile_column_axis(&c->t->s);
    double cycles = 0;
    for (uint32_t i = 0; i < c->rows.len; i++)
        for (uint32_t j = 0; j < c->columns.len; j++) {
            const TileRun *r = &c->rows.data[i], *k = &c->columns.data[j];
            const TileSpans rows = tile_spans(a, &row_axis, r->is_edge ? r->column : -1, r->pixels);
            const TileSpans columns = tile_spans(a, &column_axis, k->is_edge ? k->column : -1, k->pixels);
            cycles +=
                (double)(r->count * k->count) * tile_cycles(c, &rows, &columns, r->pixels * k->pixels, nv);
        }
    return cycles * (double)(c->t->s.n * tile_outer_points(&c->t->s));
}

static double weight_bytes(const Tile *t)
{
    return 4.0 * (double)tile_steps(&t->s) * (double)t->s.oc;
}

// Bytes of the input that some tap reads.
static double input_bytes(const TileShape *s)
{
    const int64_t rows = s->h * s->kh < s->in_h ? s->h * s->kh : s->in_h;
    const int64_t columns = s->w * s->kw < s->in_w ? s->w * s->kw : s->in_w;
    double planes = 1;
    for (uint32_t i = 0; i < s->n_outer; i++)
        planes *= (double)s->outer[i].in;
    return 4.0 * planes * (double)(s->n * rows * columns) * (double)s->ic;
}

// Waiting for memory beyond what the tiles themselves stream. Pixels outside: the first tile waits for all
// weights. Channels outside: the first panel is waited for, the others are fetched ahead, and every panel
// reads the input again.
static double waiting_cycles(const Tile *t, double compute, double passes)
{
    const CpuMachine *cpu = &t->l->caps->cpu;
    const double cold = weight_bytes(t) / cpu->shared_rate, x = input_bytes(&t->s);
    const double first = 0.3 * x / far_rate(t, x);
    if (t->plan.pixels_outside)
        return cold + first;
    const double again = x < cpu->l2_bytes / 2 ? 0.1 * x / l2_rate(t) : 0.5 * x / far_rate(t, x);
    const double y = 4.0 * (double)(t->s.n * tile_outer_points(&t->s) * t->s.h * t->s.w) * (double)t->s.oc;
    const double parts = y > cpu->l2_bytes / 2 ? 0.2 * y / far_rate(t, y) : 0; // pixels leave in parts
    return max_of(cold - compute, 0) + cold / max_of(passes, 1) + first + (passes - 1) * again + parts;
}

// Bytes of the input that the pixels of a tile read.
static double tile_bytes(const Tile *t)
{
    const TileShape *s = &t->s;
    const int64_t columns = (t->plan.columns - 1) * s->sw + (s->kw - 1) * s->dw + 1,
                  rows = (t->plan.rows - 1) * s->sh + (s->kh - 1) * s->dh + 1;
    double planes = 1;
    for (uint32_t i = 0; i < s->n_outer; i++)
        planes *= (double)s->outer[i].kernel;
    return 4.0 * planes * (double)(rows * columns) * (double)s->ic;
}

// The share of the time for weights beyond the second-level cache that other work does not hide. From a cache
// nearly as fast, panels that are fetched ahead cost no more than near ones (Zen 3, panels of 440 KB), and
// weights that all pass by for each tile, one long stream, half of what they do elsewhere (3.6 MB).
static double far_rest(const Tile *t)
{
    const CpuMachine *cpu = &t->l->caps->cpu;
    const bool is_close = t->lanes > 1 && 2 * cpu->l3_rate >= cpu->l2_rate;
    return !is_close ? 0.4 : t->plan.pixels_outside ? 0.2 : 0.1;
}

// From where weights come for each tile, and what that costs beside the sums. What is read again shares the
// cache with what passes through: the pixels of all weights, or the panel that is fetched and the next tiles.
static void set_weights(Cost *c)
{
    enum { TILES = 4 };
    const Tile *t = c->t;
    const CpuMachine *cpu = &t->l->caps->cpu;
    const double l2 = cpu->l2_bytes, panel = 4.0 * (double)(tile_steps(&t->s) * t->plan.nv * t->lanes);
    const double reused = t->plan.pixels_outside ? weight_bytes(t) : panel,
                 half = 0.5 * input_bytes(&t->s), tiles = TILES * tile_bytes(t);
    const double held = t->plan.pixels_outside ? 1.2 * reused : 2 * panel + (half < tiles ? half : tiles);
    const bool is_in_l1 = reused < cpu->l1_bytes / 2,
               is_far = !is_in_l1 && !(reused < l2 * 0.2 || held < l2 * 0.6);
    c->rest = !is_far ? 0.1 : far_rest(t);
    c->panel_rate = is_in_l1 ? 2 * l2_rate(t) : is_far ? far_rate(t, reused) : l2_rate(t);
}

// Single rows share one text whatever they clip: with many edges they are weighed as if they clipped nothing.
static TileRuns row_runs(const Tile *t)
{
    Arena *a = t->l->pass->scratch;
    const TileAxis axis = tile_row_axis(&t->s);
    if (!tile_axis_has_many_edges(&axis))
        return tile_axis_runs(a, &axis, t->plan.rows);
    TileRuns all = {0};
    vec_push(a, &all, ((TileRun){.pixels = 1, .count = t->s.h}));
    return all;
}

static double plan_cycles(const Tile *t, uint32_t *loops)
{
    Arena *a = t->l->pass->scratch;
    const TileAxis column_axis = tile_column_axis(&t->s);
    Cost c = {.t = t, .blocks = tile_blocks(t)};
    set_weights(&c);
    c.columns = tile_axis_runs(a, &column_axis, t->plan.columns);
    c.rows = row_runs(t);
    double cycles = 0, passes = 0;
    for (uint32_t i = 0; i < c.blocks.n; i++) {
        cycles += (double)c.blocks.block[i].count * block_cycles(&c, c.blocks.block[i].nv);
        passes += (double)c.blocks.block[i].count;
    }
    *loops = c.loops;
    cycles += waiting_cycles(t, cycles, passes);
    return cycles * (1 + text_share * c.loops); // equal plans: the one with less text
}

typedef struct Plans {
    uint32_t n;
    TilePlan plan[MAX_CANDIDATES];
    double cycles[MAX_CANDIDATES];
} Plans;

// Keeps the best ones, in order.
static void consider(Plans *p, Tile *t, TilePlan plan)
{
    uint32_t loops = 0;
    t->plan = plan;
    const double cycles = plan_cycles(t, &loops);
    if (plan.rows > 1 && loops > MAX_LOOPS)
        return;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->plan[i].nv == plan.nv && p->plan[i].rows == plan.rows && p->plan[i].columns == plan.columns &&
            p->plan[i].pixels_outside == plan.pixels_outside)
            return;
    if (p->n == MAX_CANDIDATES && cycles >= p->cycles[p->n - 1])
        return;
    uint32_t at = p->n < MAX_CANDIDATES ? p->n++ : MAX_CANDIDATES - 1;
    for (; at > 0 && cycles < p->cycles[at - 1]; at--) {
        p->plan[at] = p->plan[at - 1];
        p->cycles[at] = p->cycles[at - 1];
    }
    p->plan[at] = plan;
    p->cycles[at] = cycles;
}

// Rectangles of at most `most` pixels: whole rows where several fit, else parts of one.
static void consider_pixels(Plans *p, Tile *t, int64_t nv, int64_t most)
{
    const int64_t w = t->s.w < 1 ? 1 : t->s.w, parts = (w + most - 1) / most;
    const TileAxis rows = tile_row_axis(&t->s);
    const bool has_several = parts == 1 && t->l->strip.window == NULL && !lower_goes_by_rows(t->l) &&
                             !tile_axis_has_many_edges(&rows);
    for (int order = 0; order < 2; order++) {
        TilePlan plan = {.nv = nv, .rows = 1, .columns = (w + parts - 1) / parts, .pixels_outside = order};
        consider(p, t, plan);
        plan.rows = has_several ? most / w : 1;
        plan.rows = plan.rows > t->s.h ? t->s.h : plan.rows;
        for (; plan.rows > 1; plan.rows--)
            consider(p, t, plan);
    }
}

static const char *plan_name(const Tile *t, const TilePlan *p)
{
    return arena_printf(t->l->pass->perm, "v%dr%dc%d%s", (int)p->nv, (int)p->rows, (int)p->columns,
                        p->pixels_outside ? "p" : "o");
}

static const char *outer_name(Arena *a, const TileShape *s)
{
    const char *name = "";
    for (uint32_t i = 0; i < s->n_outer; i++) {
        const TileAxis *x = &s->outer[i];
        name = arena_printf(a, "%s axis %lld to %lld kernel %lld stride %lld dilation %lld pad %lld", name,
                            (long long)x->in, (long long)x->out, (long long)x->kernel, (long long)x->stride,
                            (long long)x->dilation, (long long)x->pad);
    }
    return name;
}

static const char *question(const Tile *t)
{
    const TileShape *s = &t->s;
    return arena_printf(t->l->pass->perm,
                        "tile x%d %lldx%lldx%lldx%lld to %lldx%lldx%lld kernel %lldx%lld stride %lldx%lld "
                        "dilation %lldx%lld pad %lldx%lld%s%s",
                        t->lanes, (long long)s->n, (long long)s->in_h, (long long)s->in_w, (long long)s->ic,
                        (long long)s->h, (long long)s->w, (long long)s->oc, (long long)s->kh,
                        (long long)s->kw, (long long)s->sh, (long long)s->sw, (long long)s->dh,
                        (long long)s->dw, (long long)s->pad_h, (long long)s->pad_w,
                        outer_name(t->l->pass->perm, s),
                        t->l->strip.window != NULL ? " in a strip" : "");
}

TilePlan tile_choose(const Tile *given)
{
    rlx_assert(given->lanes >= 1 && given->max_acc >= 1);
    Tile t = *given;
    Plans p = {0};
    const int64_t vectors = (t.s.oc + t.lanes - 1) / t.lanes;
    if (vectors < 1 || t.s.h < 1 || t.s.w < 1)
        return (TilePlan){.nv = 1, .rows = 1, .columns = 1};
    for (int64_t nv = 1; nv <= TILE_MAX_VECTORS && nv <= vectors; nv++)
        if (nv * tile_pixels(&t, nv) <= TILE_MAX_ACC)
            consider_pixels(&p, &t, nv, tile_pixels(&t, nv));
    Candidate list[MAX_CANDIDATES];
    for (uint32_t i = 0; i < p.n; i++)
        list[i] = (Candidate){plan_name(&t, &p.plan[i]), p.cycles[i]};
    return p.plan[choice_pick(t.l, question(&t), list, p.n)];
}

enum { DOT_PIXELS = 8, DOT_JOIN = 10 };

// Does it take fewer instructions to sum vectors of input channels, and to join their lanes for each result?
// Each tap has vectors of its own, so that sums do not depend on borders or on where pixels lie.
static bool dots_are_less(const Tile *t)
{
    const TileShape *s = &t->s;
    const int64_t lanes = lower_fit_lanes(t->l, s->ic), taps = tile_steps(s) / s->ic;
    const int64_t tile = tile_steps(s) * (t->lanes == 1 ? s->oc : 1);
    const int64_t dot = s->oc * (taps * ceil_div(s->ic, lanes) + DOT_JOIN);
    return lanes > 1 && s->oc < t->l->caps->f32_lanes && dot + dot / 4 < tile;
}

void tile_take_dots(Tile *t)
{
    const TileShape *s = &t->s;
    const int64_t w = s->w < 1 ? 1 : s->w, parts = ceil_div(w, DOT_PIXELS);
    rlx_assert(t->plan.nv >= 1 && s->ic >= 0);
    if (t->l->caps->f32_lanes == 1 || t->in.has_table || t->in.stride_c != 1 || s->paired > 0 || s->ic < 1 ||
        !dots_are_less(t))
        return;
    t->lanes = 1;
    t->dot = lower_fit_lanes(t->l, s->ic);
    t->plan = (TilePlan){.nv = 1, .rows = 1, .columns = ceil_div(w, parts), .pixels_outside = s->oc > 1};
}
