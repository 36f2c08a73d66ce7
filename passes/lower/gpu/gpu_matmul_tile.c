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
    MAX_CANDIDATES = 192,
    MIN_STEPS = 4,        // of k, in a part
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
};

// Of the cache's rate, for few rows or columns in pairs; with parts of k.
static const double pair_gain[] = {1.04, 1.12};

typedef struct Work {
    double groups, waves, steps, matrices; // of all tiles and parts; of one of them, of a slot in k
    double copied;                         // by a group in a step
} Work;

// With room for blocks of results beside the slots of two groups.
bool gpu_tile_has_room(const GpuMachine *m, GpuTile t)
{
    rlx_assert(t.stages >= 1);
    return t.warpgroups == 1 && t.stages * gpu_tile_slot(t) <= (int64_t)m->processor_shared * 8 / 19;
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

static Work work_of(const GpuMatmul *p, GpuTile t)
{
    const int64_t cluster = t.splits * t.pair;
    const double rows = p->m < gpu_tile_rows(t) ? (double)p->m : (double)gpu_tile_rows(t);
    Work w = {.matrices = (double)gpu_matmul_count(p)};
    const int64_t pairs = ceil_div(p->m, gpu_tile_rows(t) * t.pair) * ceil_div(p->n, t.columns);
    const double clusters = w.matrices * (double)pairs;
    w.groups = clusters * (double)cluster;
    w.waves = (double)ceil_div((int64_t)clusters, machine_of(p)->clusters[cluster_of(t)]);
    w.steps = (double)ceil_div(ceil_div(p->k, gpu_tile_k(p)), t.splits);
    w.copied = (rows + t.columns) * GPU_ROW_BYTES / 1000;
    return w;
}

static double most(double a, double b)
{
    return a > b ? a : b;
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
    const int64_t blocks = ceil_div(p->m, 128);
    const bool is_shared = t.pair > 1 && (blocks < 4 || t.columns <= 128);
    const double rate =
        m->cache_rate[blocks < 4 ? blocks - 1 : 3] * (is_shared ? pair_gain[t.splits > 1] : 1);
    const double element = (double)gpu_element_bytes(p);
    const double result = dtype_info[lower_node(p->l, p->l->root)->dtype].bytes;
    const double of_b = p->groups != NULL ? (double)p->groups->matrices : 1;
    const double bytes = w.matrices * (element * ((double)p->m + of_b * (double)p->n) * (double)p->k +
                                       result * (double)p->m * (double)p->n);
    const double all_read = m->processors * 10 / 11; // groups that it takes to read at the full rate
    const double share = w.groups < all_read ? w.groups / all_read : 1;
    const double memory = bytes / 1000 / m->memory_rate / share * (t.splits > 1 ? 1 : 1 + 8.0 / t.columns);
    const double time = most(w.waves * w.steps * most(step, multiply),
                             most(w.groups * w.steps * w.copied / rate, memory));
    // Beginning and end, and adding up the parts.
    const double sums = rows * t.columns * 4 / 1000 * 0.1 * (1 - 1 / split);
    // Convolutions wait for memory most of the time: a second group on a processor fills the gaps.
    const double alone = p->image != NULL && !gpu_tile_has_room(m, t) ? 1.5 : 0;
    // Few channels: little else is read than weights, again for each tile.
    const double again = gpu_row_width(p) < gpu_tile_k(p) ? w.groups * w.steps * w.copied / rate / 4 : 0;
    return time + sums + 2.2 + alone + again + (t.pair > 1 ? 0.6 : 0) + t.columns * 0.004;
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
    const bool is_whole = t.columns / t.pair % 64 == 0;
    if (t.stages < MIN_STAGES || t.splits * t.pair > MAX_SPLITS ||
        machine_of(p)->clusters[cluster_of(t)] == 0)
        return false;
    if (p->by_slots && t.columns > MOST_TWICE)
        return false;
    if (p->groups != NULL && (t.splits * t.pair > 1 || p->groups->rows % gpu_tile_rows(t) != 0))
        return false;
    if (p->bytes != NULL && t.columns / t.splits % GPU_BYTE_COLUMNS != 0)
        return false;
    return (t.splits == 1 || (can_split(p, t) && is_one_wave(p, t))) && (p->b.k == 1 || is_whole) &&
           (p->image == NULL || (t.columns % 64 == 0 && t.pair == 1)) &&
           (t.pair == 1 || p->m > gpu_tile_rows(t)) && t.columns <= ceil_div(p->n, 64) * 64 &&
           (t.columns % 64 == 0 || t.splits > 1 || t.warpgroups == 1);
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
    GpuTile t = {s.warpgroups, s.stages != 0 ? s.stages : MAX_STAGES, (uint8_t)splits, (uint8_t)pair,
                 s.columns};
    while (t.stages > 0 && gpu_tile_bytes(t, has_boxes) > most_shared(m))
        t.stages = s.stages != 0 ? 0 : t.stages - 1;
    return t;
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
        for (uint32_t option = 0; option < 8; option++) {
            const GpuTile t = tile_of(p, shapes[i], 1u << option / 2, 1 + option % 2);
            if (!can_have(p, t))
                continue;
            tile[n] = t;
            const char *name = arena_printf(a, "%dx%dx%d/%d%s", (int)gpu_tile_rows(t), t.columns, t.splits,
                                            t.stages, t.pair > 1 ? "+2" : "");
            list[n++] = (Candidate){name, time_of(p, t)};
        }
    const char *question = arena_printf(
        a, "gpu_matmul %s %lldx%lldx%lld of %lld, %s%s", dtype_info[gpu_matmul_type(p)].name, (long long)p->m,
        (long long)p->n, (long long)p->k, (long long)matrices, p->a.k == 1 ? "k" : "m",
        p->b.k == 1 ? "k" : "n");
    return tile[choice_pick(p->l, question, list, n)];
}
