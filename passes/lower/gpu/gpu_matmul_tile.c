// SPDX-License-Identifier: Apache-2.0
// Which tile a product gets: an estimate of the time of each, by the figures of the GPU
// (ir/machine/machines.def).
#include "passes/lower/choice.h"
#include "passes/lower/gpu/gpu_matmul.h"

enum {
    SHARED_ALIGN = 1024, // what the begin of shared memory is rounded up to
    MAX_STAGES = 10,
    MIN_STAGES = 2,
    MAX_SPLITS = 8,           // and groups of a cluster
    MAX_SUMS = 128 * 256 * 2, // that the groups of a cluster hand to each other
    MAX_CANDIDATES = 256,
    MOST_OF_ONE = 192,    // columns of a warpgroup, where two groups share a processor's registers
    MOST_OF_TWO = 96,     // those of two warpgroups
    KEPT_STAGES = 3,      // at least, beside what is kept of B
    MIN_STEPS = 4,        // of k, in a part
    MOST_KEPT = 16,       // steps of k
    MOST_TWICE = 192      // columns, of which threads have sums of a slot beside those of all
};

// Tiles of 64 or 128 rows: warpgroups, slots (0: as many as there is room for), columns. Two groups of the
// narrow ones with few slots find room on a processor: a kernel can begin with its weights while the one
// before ends. Columns between the powers of two are for clusters: what a device runs at once of these is
// less than all of it (active), and one wave is much faster than two.
typedef struct TileShape {
    uint8_t warpgroups, stages;
    int16_t columns;
} TileShape;
static const TileShape shapes[] = {
    {2, 0, 256}, {2, 0, 192}, {2, 0, 128}, {2, 0, 64},  {2, 0, 144}, {2, 0, 160}, {2, 0, 176},
    {2, 0, 208}, {2, 0, 224}, {1, 0, 256}, {1, 0, 128}, {1, 4, 128}, {1, 0, 64},  {1, 6, 64},
    {1, 0, 80},  {1, 0, 96},  {1, 0, 112}, {1, 0, 160}, {1, 0, 224},
    // Of products of bytes, whose threads store what they have: more of them on a processor.
    {2, 4, 64}, {2, 3, 96}, {2, 0, 96},
};

static const double RESULT_TIME = 0.04; // microseconds of a sum in a thread of a warp that is alone
// Of the cache's rate, for few rows or columns in pairs; with parts of k.
static const double pair_gain[] = {1.04, 1.12};

typedef struct Work {
    double groups, waves, steps, matrices; // of all tiles and parts; of one of them, of a slot in k
    double copied;                         // by a group in a step
} Work;

// Bytes of shared memory for each of two groups on a processor, beside blocks of results.
static int64_t room_of_two(const GpuMachine *m)
{
    return (int64_t)m->processor_shared * 8 / 19;
}

bool gpu_tile_has_room(const GpuMachine *m, GpuTile t)
{
    rlx_assert(t.stages >= 1);
    const int16_t most = t.warpgroups == 1 ? MOST_OF_ONE : MOST_OF_TWO;
    return t.columns <= most && gpu_tile_end(t) <= room_of_two(m);
}

int64_t gpu_tile_places(const GpuMachine *m, GpuTile t)
{
    rlx_assert(t.pair >= 1);
    return m->processors * (gpu_tile_has_room(m, t) ? 2 : 1) / t.pair;
}

// Groups of a cluster, as an index of GpuMachine.clusters.
static uint32_t cluster_of(GpuTile t)
{
    return (uint32_t)__builtin_ctz((unsigned)t.splits * t.pair);
}

static const GpuMachine *machine_of(const GpuMatmul *p)
{
    return p->l->caps->gpu;
}

static int64_t rows_of(const GpuMatmul *p)
{
    return p->groups != NULL ? p->groups->likely : p->m;
}

static Work work_of(const GpuMatmul *p, GpuTile t)
{
    const int64_t cluster = t.splits * t.pair;
    const int64_t m = rows_of(p);
    const double rows = m < gpu_tile_rows(t) ? (double)m : (double)gpu_tile_rows(t);
    Work w = {.matrices = (double)gpu_matmul_count(p)};
    const int64_t pairs = ceil_div(m, gpu_tile_rows(t) * t.pair) * ceil_div(p->n, gpu_tile_own_columns(p, t));
    const double clusters = w.matrices * (double)pairs;
    w.groups = clusters * (double)cluster;
    w.waves = (double)ceil_div((int64_t)clusters, machine_of(p)->clusters[cluster_of(t)]);
    w.steps = (double)ceil_div(ceil_div(p->k, gpu_tile_k(p)), t.splits);
    w.copied = (rows + (t.kept != 0 ? 0 : t.columns)) * GPU_ROW_BYTES / 1000;
    return w;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

// Microseconds that the threads of a processor take to make results and to store them themselves: warps wait
// for what they have asked for, so that the more there are, the more is done at once.
static double time_of_results(const GpuMatmul *p, GpuTile t)
{
    const double warps = t.warpgroups * (gpu_tile_has_room(machine_of(p), t) ? 2 : 1);
    const double sums = work_of(p, t).waves * (double)gpu_tile_rows(t) * t.columns / t.splits / GPU_WARPGROUP;
    const bool has_copies = p->bytes == NULL && (t.splits > 1 || p->groups != NULL || p->image != NULL ||
                                                 (t.columns % 64 == 0 && gpu_result_has_boxes(p)));
    return has_copies ? 0 : sums * RESULT_TIME / (warps < 4 ? warps : 4);
}

// Microseconds of the slowest of: multiplying, what one group gets, what all get of the cache and of memory.
// Products of bytes go twice as fast as those of 16-bit floats, so that a slot of both takes as long.
static double time_of(const GpuMatmul *p, GpuTile t)
{
    const GpuMachine *m = machine_of(p);
    const Work w = work_of(p, t);
    const double rows = (double)gpu_tile_rows(t), split = t.splits;
    const double flight = t.stages * w.copied / m->latency;
    const double step = w.copied / (flight < m->copy_rate ? flight : m->copy_rate);
    const double multiply = rows * t.columns * GPU_TILE_K / m->products_rate;
    const int64_t blocks = ceil_div(rows_of(p), 128);
    const bool is_shared = t.pair > 1 && (blocks < 4 || t.columns <= 128);
    const double rate =
        m->cache_rate[blocks < 4 ? blocks - 1 : 3] * (is_shared ? pair_gain[t.splits > 1] : 1);
    const double element = (double)gpu_element_bytes(p);
    const double result = dtype_info[lower_node(p->l, p->l->root)->dtype].bytes;
    const double of_b =
        (p->groups != NULL ? (double)p->groups->matrices : 1) * (p->second != NULL ? 2 : 1);
    const double bytes = w.matrices * (element * ((double)rows_of(p) + of_b * (double)p->n) * (double)p->k +
                                       result * (double)rows_of(p) * (double)p->n);
    const double all_read = m->processors * 10 / 11; // groups that it takes to read at the full rate
    const double share = w.groups < all_read ? w.groups / all_read : 1;
    const double again_of = t.splits > 1 || t.kept != 0 ? 0 : 8.0 / t.columns; // what the cache has lost
    const double memory = bytes / 1000 / m->memory_rate / share * (1 + again_of);
    const double kept = (double)gpu_tile_first_slot(t) / 1000, results = time_of_results(p, t);
    const double holders = w.groups < all_read ? w.groups : all_read;
    const double cache = (w.groups * w.steps * w.copied + holders * kept) / rate;
    const double time = most(most(w.waves * w.steps * most(step, multiply), results), most(cache, memory));
    // Threads that make results of bytes do not multiply, and wait for what others store.
    const double beside = p->bytes != NULL ? results / 5 + cache * 3 / 10 + kept / m->copy_rate : 0;
    // Beginning and end, and adding up the parts.
    const double sums = rows * t.columns * 4 / 1000 * 0.1 * (1 - 1 / split);
    // Convolutions wait for memory most of the time: a second group on a processor fills the gaps.
    const double alone = p->image != NULL && !gpu_tile_has_room(m, t) ? 1.5 : 0;
    // Few channels: little else is read than weights, again for each tile.
    const double again = gpu_row_width(p) < gpu_tile_k(p) ? w.groups * w.steps * w.copied / rate / 4 : 0;
    return time + beside + sums + 2.2 + alone + again + (t.pair > 1 ? 0.6 : 0) + t.columns * 0.004;
}

static bool can_split(const GpuMatmul *p, GpuTile t)
{
    const int64_t steps = ceil_div(p->k, gpu_tile_k(p)), part = ceil_div(steps, t.splits);
    return part >= MIN_STEPS && (t.splits - 1) * part < steps && t.columns / 8 % t.splits == 0 &&
           gpu_tile_rows(t) * t.columns * t.splits <= MAX_SUMS;
}

// Clusters that add up are not persistent: all at once, or there is no gain.
static bool is_one_wave(const GpuMatmul *p, GpuTile t)
{
    return work_of(p, t).waves <= 1;
}

// Boxes of columns that are next to each other are of 64; convolutions have the plain tiles only.
static bool can_have(const GpuMatmul *p, GpuTile t)
{
    if (t.stages < (t.kept != 0 ? KEPT_STAGES : MIN_STAGES) || t.splits * t.pair > MAX_SPLITS ||
        machine_of(p)->clusters[cluster_of(t)] == 0)
        return false;
    const bool is_whole = t.columns / t.pair % 64 == 0;
    const bool is_of_bytes = (t.warpgroups > 1 && gpu_tile_has_room(machine_of(p), t)) || t.kept != 0;
    if (is_of_bytes && (p->bytes == NULL || p->n_batch != 0))
        return false;
    if (p->by_slots && t.columns > MOST_TWICE)
        return false;
    if (p->groups != NULL && (t.splits * t.pair > 1 || p->groups->rows % gpu_tile_rows(t) != 0))
        return false;
    if (p->second != NULL && (t.splits * t.pair > 1 || t.columns % 128 != 0))
        return false;
    if (p->bytes != NULL && t.columns / t.splits % GPU_BYTE_COLUMNS != 0)
        return false;
    return (t.splits == 1 || (can_split(p, t) && is_one_wave(p, t))) && (p->b.k == 1 || is_whole) &&
           (p->image == NULL || (t.columns % 64 == 0 && t.pair == 1)) &&
           (t.pair == 1 || p->m > gpu_tile_rows(t)) &&
           gpu_tile_own_columns(p, t) <= ceil_div(p->n, 64) * 64 &&
           (t.columns % 64 == 0 || t.splits > 1 || t.warpgroups == 1 || p->bytes != NULL);
}

static int64_t most_shared(const GpuMachine *m)
{
    return (int64_t)m->group_shared - SHARED_ALIGN;
}

// With as many slots as there is room for; none where those that it must have are too many.
static GpuTile tile_of(const GpuMatmul *p, TileShape s, uint32_t splits, uint32_t pair)
{
    const GpuMachine *m = machine_of(p);
    const bool has_boxes = p->bytes == NULL && splits == 1 && s.columns % 64 == 0;
    GpuTile t = {s.warpgroups, s.stages != 0 ? s.stages : MAX_STAGES, (uint8_t)splits, (uint8_t)pair, 0,
                 s.columns};
    while (t.stages > 0 && gpu_tile_bytes(t, has_boxes) > most_shared(m))
        t.stages = s.stages != 0 ? 0 : t.stages - 1;
    return t;
}

// All of B stays. Two groups on a processor, if there are slots enough. None where a group would have several
// columns of tiles.
static GpuTile kept_tile_of(const GpuMatmul *p, TileShape s)
{
    const GpuMachine *m = machine_of(p);
    const int64_t steps = ceil_div(p->k, gpu_tile_k(p));
    GpuTile t = {s.warpgroups, MAX_STAGES, 1, 1, (uint8_t)steps, s.columns};
    if (steps > MOST_KEPT || s.stages != 0)
        return (GpuTile){0};
    while (t.stages > KEPT_STAGES && !gpu_tile_has_room(m, t))
        t.stages--;
    if (!gpu_tile_has_room(m, t))
        for (t.stages = MAX_STAGES; t.stages > 0 && gpu_tile_bytes(t, false) > most_shared(m); t.stages--) {
        }
    return t.stages > 0 && ceil_div(p->n, t.columns) > gpu_tile_places(m, t) ? (GpuTile){0} : t;
}

GpuTile gpu_tile_choose(const GpuMatmul *p)
{
    rlx_assert(p->m > 0 && p->n > 0 && p->k > 0);
    Arena *a = p->l->pass->perm;
    Candidate list[MAX_CANDIDATES];
    GpuTile tile[MAX_CANDIDATES];
    uint32_t n = 0;
    const int64_t matrices = gpu_matmul_count(p);
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t option = 0; option < 9; option++) {
            const GpuTile t = option == 8 ? kept_tile_of(p, shapes[i])
                                          : tile_of(p, shapes[i], 1u << option / 2, 1 + option % 2);
            if (!can_have(p, t))
                continue;
            tile[n] = t;
            const char *name = arena_printf(a, "%dx%dx%d/%d%s", (int)gpu_tile_rows(t), t.columns, t.splits,
                                            t.stages, t.kept != 0 ? "=b" : t.pair > 1 ? "+2" : "");
            list[n++] = (Candidate){name, time_of(p, t)};
        }
    const char *question = arena_printf(
        a, "gpu_matmul %s %lldx%lldx%lld of %lld, %s%s%s", dtype_info[gpu_matmul_type(p)].name,
        (long long)p->m, (long long)p->n, (long long)p->k, (long long)matrices, p->a.k == 1 ? "k" : "m",
        p->b.k == 1 ? "k" : "n", p->second != NULL ? ", twice" : "");
    return tile[choice_pick(p->l, question, list, n)];
}
