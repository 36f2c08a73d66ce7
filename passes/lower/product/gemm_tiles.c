// SPDX-License-Identifier: Apache-2.0
// How matrix products are cut into tiles, panels and blocks: the candidates and what they are estimated to
// cost, and the packing of constant panels. Separate from the emission because it is arithmetic on sizes
// only.
#include "passes/lower/choice.h"
#include "passes/lower/halves.h"
#include "passes/lower/product/gemm.h"
#include <string.h>

enum { MAX_NV = 8, MAX_CANDIDATES = 10 * MAX_NV };
// Steps of k at a time, at most, when sums are cut.
static const int64_t cut_steps[] = {768, 400};
enum { CUT_UNIT = 16, MIN_CUT_STEPS = 240, MIN_CUT_ROWS = 24 };

// Figures of the estimate beside those of the machine, in cycles, from measurements on AVX-512 machines.
static const double tile_overhead = 24, vector_overhead = 3, alias_factor = 1.25, load_share = 0.05,
                    near_enough = 1.12, rows_share = 0.65, sum_cycles = 4;
// Of what the second-level cache gives, what a step reaches for each unit of multiply-adds.
static const double near_share = 5.0 / 24;

uint8_t gemm_lanes(const Lower *l, int64_t n)
{
    rlx_assert(n >= 0);
    return n == 1 ? 1 : lower_fit_lanes(l, n);
}

// Accumulators, the vectors of b and a broadcast element stay in registers; compilers need a spare one or two
// with one or two vectors. One row reads its vectors of b from memory.
static int64_t most_rows(const Gemm *g, int64_t nv)
{
    const int64_t regs = g->lanes == 1 ? 16 : g->l->caps->vector_regs;
    const int64_t all = (regs - 1 - nv) / nv, spare = (regs - 4) / nv;
    const int64_t most = nv <= 3 && spare < all ? spare : all;
    return most < 1 ? 1 : most;
}

// --- cuts ----------------------------------------------------------------------------------------

GemmRuns gemm_panels(const Gemm *g)
{
    rlx_assert(g->t.nv >= 1 && g->lanes >= 1);
    const int64_t width = (int64_t)g->t.nv * g->lanes, whole = g->n / width, rest = g->n - whole * width;
    GemmRuns r = {0};
    if (whole > 0)
        r.run[r.n++] = (GemmRun){.first = 0, .width = width, .count = whole, .real = width};
    if (rest > 0)
        r.run[r.n++] = (GemmRun){
            .first = whole * width, .width = ceil_div(rest, g->lanes) * g->lanes, .count = 1, .real = rest};
    rlx_assert(r.n <= sizeof r.run / sizeof *r.run);
    return r;
}

static void add_rows(GemmRuns *r, int64_t *first, int64_t width, int64_t count)
{
    if (count == 0 || width == 0)
        return;
    rlx_assert(r->n < sizeof r->run / sizeof *r->run);
    r->run[r->n++] = (GemmRun){.first = *first, .width = width, .count = count, .real = width};
    *first += width * count;
}

// Tiles of equal height, give or take a row.
GemmRuns gemm_tiles(const Gemm *g, int64_t rows)
{
    rlx_assert(rows >= 1 && g->t.rows >= 1);
    const int64_t n = ceil_div(rows, g->t.rows), base = rows / n, longer = rows % n;
    GemmRuns r = {0};
    int64_t first = 0;
    add_rows(&r, &first, base + 1, longer);
    add_rows(&r, &first, base, n - longer);
    return r;
}

GemmRuns gemm_blocks(const Gemm *g)
{
    rlx_assert(g->t.block >= g->t.rows);
    if (g->t.block == g->t.rows)
        return gemm_tiles(g, g->m);
    GemmRuns r = {0};
    int64_t first = 0;
    add_rows(&r, &first, g->t.block, g->m / g->t.block);
    add_rows(&r, &first, g->m % g->t.block, 1);
    return r;
}

int64_t gemm_group(const Gemm *g, int64_t count)
{
    rlx_assert(count >= 1);
    const int64_t rows = g->t.block < g->m ? g->t.block : g->m;
    const int64_t bytes = rows * g->t.nv * g->lanes * 4,
                  most = g->l->caps->cpu.l2_bytes / 4 / (bytes > 0 ? bytes : 1);
    const int64_t threads = g->l->caps->threads > 1 ? g->l->caps->threads : 1;
    int64_t n = ceil_div(count, most > 0 ? most : 1);
    n = n < threads ? threads : n;
    rlx_assert(n >= 1);
    return ceil_div(count, n < count ? n : count);
}

// --- the estimate --------------------------------------------------------------------------------

// Rows of a tile that fall into one set of the first-level cache, beyond its ways: their lines drive each
// other out before they are used up.
static bool rows_alias(const Gemm *g, int64_t rows)
{
    const int64_t way = g->l->caps->cpu.way_bytes, bytes = g->a_row * 4,
                  ways = g->l->caps->cpu.l1_bytes / way;
    if (g->a_k != 1 || bytes == 0)
        return false;
    int64_t sets = 1;
    while (sets < rows && sets * bytes % way != 0)
        sets++;
    return ceil_div(rows, sets) > ways - 2;
}

static double step_cycles(const Gemm *g, int64_t rows, int64_t nv)
{
    const CpuMachine *cpu = &g->l->caps->cpu;
    const double fma = (double)(rows * nv) / cpu->fma_per_cycle,
                 loads = (double)(rows + nv) / cpu->loads_per_cycle;
    const double near = (double)((nv * g->lanes + rows) * 4) / (near_share * cpu->l2_rate) /
                        cpu->fma_per_cycle; // from the second-level cache
    double most = fma > loads ? fma : loads;
    most = most > near ? most : near;
    most = (most > cpu->fma_latency ? most : cpu->fma_latency) + loads * load_share;
    return rows_alias(g, rows) ? most * alias_factor : most;
}

// All tiles of all panels.
static double compute_cycles(const Gemm *g)
{
    const GemmRuns panels = gemm_panels(g), blocks = gemm_blocks(g);
    double sum = 0;
    for (uint32_t b = 0; b < blocks.n; b++) {
        const GemmRuns tiles = gemm_tiles(g, blocks.run[b].width);
        for (uint32_t t = 0; t < tiles.n; t++)
            for (uint32_t p = 0; p < panels.n; p++) {
                const int64_t nv = panels.run[p].width / g->lanes, rows = tiles.run[t].width;
                const double one = (double)g->k * step_cycles(g, rows, nv) + tile_overhead +
                                   (double)(rows * nv) * vector_overhead;
                sum += one * (double)(blocks.run[b].count * tiles.run[t].count * panels.run[p].count);
            }
    }
    return sum;
}

// What comes from beyond the second-level cache. Once: b and the rows. Again (*again): b for every further
// block of rows unless it stays there whole, the rows for every further panel unless they stay there beside
// two panels, and panels for every further tile where two of them do not fit, so that they drive each other
// out. Of sums that are cut, only the steps at a time count, beside the sums.
static double far_cycles(const Gemm *g, double *again)
{
    const double l2 = g->l->caps->cpu.l2_bytes, row = (double)g->t.steps * 4,
                 panel = (double)(g->t.nv * g->lanes) * row, a = (double)g->k * 4 * (double)g->m,
                 b = (double)g->k * dtype_info[g->b_type].bytes * (double)g->n;
    const int64_t block = g->t.block < g->m ? g->t.block : g->m;
    const int64_t panels = ceil_div(g->n, (int64_t)g->t.nv * g->lanes), group = gemm_group(g, panels);
    const double n_blocks = (double)ceil_div(g->m, g->t.block), n_tiles = (double)ceil_div(block, g->t.rows),
                 n_panels = (double)panels, rows = (double)block * row;
    const bool is_cut = g->t.steps < g->k;
    const double sums = is_cut ? (double)(block * group * g->t.nv * g->lanes) * 4 : 0;
    double bytes = b + (double)block * (double)g->k * 4 < l2 * 0.75 ? 0 : b * (n_blocks - 1);
    if (rows + 2 * panel + sums > l2 * rows_share)
        bytes += a * (n_panels - 1);
    else if (is_cut)
        bytes += a * (double)(ceil_div(panels, group) - 1);
    bytes += n_tiles == 1 || 2 * panel < l2 * 0.9 ? 0 : b * n_blocks * (n_tiles - 1) / 2;
    *again = bytes / g->l->caps->cpu.memory_rate;
    return (a + b) / g->l->caps->cpu.memory_rate;
}

// Panels are fetched ahead, so that the longer of both counts, and some of the other: little when every panel
// is read by a single tile. What is read again is hidden by half.
static double estimate(const Gemm *g)
{
    double again = 0;
    const double compute = compute_cycles(g), far = far_cycles(g, &again);
    const double rest = g->t.rows >= g->m ? 0.1 : 0.25;
    const int64_t cuts = g->t.steps < g->k ? g->k / g->t.steps - 1 : 0;
    const double sums = (double)cuts * (double)g->m * (double)ceil_div(g->n, g->lanes) * sum_cycles;
    return (compute > far ? compute + rest * far : far + rest * compute) + again * 0.5 + sums;
}

// --- the choice ----------------------------------------------------------------------------------

typedef struct Cuts {
    uint32_t n;
    GemmTiles tiles[MAX_CANDIDATES];
    Candidate list[MAX_CANDIDATES];
} Cuts;

static void add_cut(const Gemm *g, Cuts *c, GemmTiles t)
{
    Gemm with = *g;
    with.t = t;
    c->tiles[c->n] = t;
    const char *order = t.block >= g->m ? "" : t.block == t.rows ? "-rows" : "-blocks";
    const char *cut = t.steps < g->k ? arena_printf(g->l->pass->perm, "-by-%d", (int)t.steps) : "";
    c->list[c->n++] =
        (Candidate){.name = arena_printf(g->l->pass->perm, "%dx%d%s%s", (int)t.rows, t.nv, order, cut),
                    .cycles = estimate(&with)};
}

// The largest divisor of k that is at most `most` and a multiple of what tiles fetch at a time; 0 when that
// leaves too little to do at a time.
static int64_t find_steps(const Gemm *g, int64_t most)
{
    const int64_t unit = g->widen ? g->widen_unit : CUT_UNIT;
    int64_t steps = most / unit * unit;
    while (steps >= MIN_CUT_STEPS && g->k % steps != 0)
        steps -= unit;
    return steps >= MIN_CUT_STEPS && steps < g->k ? steps : 0;
}

// All rows, or blocks of them, with sums that are cut.
static void add_partial_cuts(const Gemm *g, Cuts *c, GemmTiles t)
{
    const bool can_cut = g->widen || (g->source == GEMM_PACKED && g->m >= MIN_CUT_ROWS);
    if (!can_cut || g->lanes < 4 || g->m_live != 0 || g->n_live != 0 || g->k_live != 0)
        return;
    int64_t last = 0;
    for (uint32_t i = 0; i < sizeof cut_steps / sizeof *cut_steps; i++) {
        t.steps = find_steps(g, cut_steps[i]);
        if (t.steps > 0 && t.steps != last)
            add_cut(g, c, t);
        last = t.steps;
    }
}

// Up to three orders of a tile, and the first with cut sums.
static void add_cuts(const Gemm *g, Cuts *c, int64_t nv, int64_t rows)
{
    const int64_t vectors = ceil_div(g->n, g->lanes), l2_rows = g->l->caps->cpu.l2_bytes / 2 / (g->k * 4 + 1);
    const int64_t most = l2_rows / rows * rows, n_blocks = most > 0 ? ceil_div(g->m, most) : 1;
    const int64_t block = ceil_div(ceil_div(g->m, n_blocks), rows) * rows;
    add_cut(g, c, (GemmTiles){.rows = rows, .nv = (uint8_t)nv, .block = g->m, .steps = g->k});
    add_partial_cuts(g, c, (GemmTiles){.rows = rows, .nv = (uint8_t)nv, .block = g->m});
    if (rows < g->m && vectors > nv && !gemm_makes_panels(g))
        add_cut(g, c, (GemmTiles){.rows = rows, .nv = (uint8_t)nv, .block = rows, .steps = g->k});
    if (n_blocks > 1 && block > rows && vectors > nv)
        add_cut(g, c, (GemmTiles){.rows = rows, .nv = (uint8_t)nv, .block = block, .steps = g->k});
}

// For each number of vectors the tallest tile, and the tallest whose rows do not alias.
static Cuts all_cuts(const Gemm *g)
{
    Cuts c = {0};
    const int64_t vectors = ceil_div(g->n, g->lanes);
    for (int64_t nv = 1; nv <= MAX_NV && nv <= vectors; nv++) {
        int64_t rows = most_rows(g, nv);
        rows = ceil_div(g->m, ceil_div(g->m, rows));
        add_cuts(g, &c, nv, rows);
        if (!rows_alias(g, rows))
            continue;
        while (rows > 1 && rows_alias(g, rows))
            rows--;
        add_cuts(g, &c, nv, ceil_div(g->m, ceil_div(g->m, rows)));
    }
    return c;
}

// Cuts that are far behind are not worth measuring.
static void drop_slow(Cuts *c)
{
    double best = c->list[0].cycles;
    for (uint32_t i = 1; i < c->n; i++)
        best = c->list[i].cycles < best ? c->list[i].cycles : best;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->list[i].cycles <= best * near_enough) {
            c->list[kept] = c->list[i];
            c->tiles[kept++] = c->tiles[i];
        }
    c->n = kept;
}

void gemm_choose(Gemm *g)
{
    rlx_assert(g->source <= GEMM_WIDENED && g->k >= 0);
    static const char *const source[] = {"packed", "rows", "copied", "widened"};
    g->lanes = gemm_lanes(g->l, g->n);
    Cuts c = all_cuts(g);
    drop_slow(&c);
    const char *question = arena_printf(
        g->l->pass->perm, "product %lldx%lldx%lld %s %s rows %lld steps %lld epilogue %u%s", (long long)g->m,
        (long long)g->k, (long long)g->n, source[g->source],
        g->has_pairs ? "pairs" : dtype_info[g->b_type].name, (long long)g->a_row, (long long)g->a_k,
        lower_epilogue_cost(g->l), g->m_live != 0 || g->n_live != 0 || g->k_live != 0 ? " live" : "");
    rlx_assert(c.n >= 1);
    g->t = c.tiles[choice_pick(g->l, question, c.list, c.n)];
}

// --- packing -------------------------------------------------------------------------------------

typedef struct GemmPacking {
    GemmPacked as; // its type: that of packed elements, or f32 for pairs
    const void *data;
    DType from;
    const void *source; // of the model, of the packed type, whose numbers the data has; NULL: others
    int64_t rows;       // of the constant, when elements are pairs of them; else 0
} GemmPacking;

// Element (i, column `at`) as a pair of rows; behind the last row is a 0.
static void copy_pair(const GemmPacking *p, int64_t i, int64_t at, unsigned char *out)
{
    for (int64_t row = 2 * i; row < 2 * i + 2; row++, out += 2) {
        if (row < p->rows)
            memcpy(out, (const unsigned char *)p->data + 2 * (row * p->as.b_k + at), 2);
        else
            memset(out, 0, 2);
    }
}

// `real` columns from the one at `at` on, for `steps` of k from `first` on.
static unsigned char *pack_panel(const GemmPacking *p, int64_t first, int64_t at, int64_t width, int64_t real,
                                 unsigned char *out)
{
    const uint32_t bytes = dtype_info[p->as.type].bytes;
    for (int64_t i = first; i < first + p->as.steps; i++, out += width * bytes) {
        const int64_t row = at + i * p->as.b_k;
        if (p->rows > 0)
            for (int64_t c = 0; c < real; c++)
                copy_pair(p, i, at + c * p->as.b_col, out + c * bytes);
        else if (p->as.b_col == 1 && p->from == p->as.type)
            memcpy(out, (const unsigned char *)p->data + row * bytes, (size_t)real * bytes);
        else
            for (int64_t c = 0; c < real; c++)
                halves_copy(out + c * bytes, p->as.type, p->data, p->from, row + c * p->as.b_col);
        memset(out + real * bytes, 0, (size_t)(width - real) * bytes);
    }
    return out;
}

// All steps of a group of panels from `first` on, of the matrix that begins at element `base`.
static unsigned char *pack_group(const GemmPacking *p, const GemmRun *run, int64_t base, int64_t first,
                                 int64_t n, unsigned char *out)
{
    for (int64_t i = 0; i < p->as.k; i += p->as.steps)
        for (int64_t o = first; o < first + n; o++) {
            const int64_t at = base + (run->first + o * run->width) * p->as.b_col;
            out = pack_panel(p, i, at, run->width, run->real, out);
        }
    return out;
}

static void pack_matrix(const GemmPacking *p, int64_t first, unsigned char *out)
{
    for (uint32_t r = 0; r < p->as.panels.n; r++) {
        const GemmRun *run = &p->as.panels.run[r];
        const int64_t group = p->as.group[r];
        for (int64_t i = 0; i < run->count; i += group)
            out = pack_group(p, run, first, i, i + group < run->count ? group : run->count - i, out);
    }
}

static void pack(const void *ctx, void *bytes)
{
    const GemmPacking *p = ctx;
    for (int64_t i = 0; i < p->as.n_matrices; i++)
        pack_matrix(p, i * p->as.matrix, (unsigned char *)bytes + (uint64_t)i * p->as.stride);
}

// Where the elements of the packed type are in the model.
static const void *source_of(const Gemm *g, const void *data, DType type)
{
    const GraphReads *reads = g->l->g->reads;
    const ReadsWidened *w = reads != NULL && data != NULL ? reads_widened(reads, data) : NULL;
    if (w != NULL)
        return w->type == g->b_type ? w->from : NULL;
    return type == g->b_type ? data : NULL;
}

GemmPack gemm_pack(const Gemm *g, const void *data, DType type, int64_t rows, int64_t n, int64_t matrix)
{
    rlx_assert((data != NULL || rows == 0) && n >= 1 && g->t.nv >= 1);
    GemmPacking *p = ARENA_NEW(g->l->pass->perm, GemmPacking);
    *p = (GemmPacking){.as = {.panels = gemm_panels(g),
                              .type = g->b_type,
                              .k = g->k,
                              .steps = g->t.steps,
                              .b_k = g->b_k,
                              .b_col = g->b_col,
                              .n_matrices = n,
                              .matrix = matrix},
                       .data = data,
                       .from = type,
                       .source = source_of(g, data, type),
                       .rows = g->has_pairs ? rows : 0};
    uint64_t columns = 0;
    for (uint32_t i = 0; i < p->as.panels.n; i++) {
        p->as.group[i] = gemm_group(g, p->as.panels.run[i].count);
        columns += (uint64_t)(p->as.panels.run[i].width * p->as.panels.run[i].count);
    }
    const uint64_t each = columns * (uint64_t)g->k * dtype_info[g->b_type].bytes;
    p->as.stride = n > 1 ? (each + 63) / 64 * 64 : each;
    return (GemmPack){.fill = pack, .ctx = p, .stride = p->as.stride, .bytes = p->as.stride * (uint64_t)n};
}

void gemm_pack_constant(Gemm *g, const void *data, DType type, int64_t rows, const char *name)
{
    const GemmPack p = gemm_pack(g, data, type, rows, 1, 0);
    g->b = lower_param_filled(g->l, name, g->b_type, p.fill, p.ctx, p.bytes);
    g->b_base = k_index(g->l->k, 0);
    gemm_note_source(g->l, g->b);
}

bool gemm_packed_in(const PlanBuffer *b, const unsigned char **data, GemmPacked *out)
{
    const GemmPacking *p = b->fill_ctx;
    if (b->fill != pack || p->source == NULL || p->rows > 0)
        return false;
    *data = p->source;
    *out = p->as;
    return true;
}

void gemm_note_source(Lower *l, uint32_t param)
{
    PlanBuffer *b = &l->plan->buffers.data[l->pk->args.data[param].buf];
    const unsigned char *data = NULL;
    GemmPacked p;
    if (l->g->reads == NULL || !gemm_packed_in(b, &data, &p))
        return;
    const int64_t each[] = {p.type, p.k, p.steps, p.b_k, p.b_col, p.n_matrices, p.matrix, p.panels.n};
    uint64_t h = hash_bytes64(each, sizeof each, 1);
    h = hash_bytes64(p.panels.run, p.panels.n * sizeof *p.panels.run, h);
    b->made_of[0] = (uint64_t)(uintptr_t)data;
    b->made_of[1] = hash_bytes64(p.group, p.panels.n * sizeof *p.group, h);
}
