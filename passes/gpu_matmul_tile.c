// SPDX-License-Identifier: Apache-2.0
// Which tile a product gets: an estimate of the time of each, fitted to what an H200 needed.
#include "passes/choice.h"
#include "passes/gpu_matmul.h"

enum {
    HALF_SHARED = 98304, // leaves room for blocks of results
    MAX_SPLITS = 8,
    MAX_SUMS = 128 * 192 * 2, // that the groups of a cluster hand to each other: it is slow
    MAX_CANDIDATES = 64,
    MIN_STEPS = 4 // of k, in a part
};

// Tiles of 64 or 128 rows: warpgroups, slots, parts of k, columns. Two groups of the narrow ones with few
// slots find room on a processor: a kernel can begin with its weights while the one before ends. (Groups that
// share what they copy of A by multicast were slower in every case.)
static const GpuTile shapes[] = {{2, 4, 1, 256}, {2, 4, 1, 192}, {2, 6, 1, 128},
                                 {2, 8, 1, 64},  {1, 5, 1, 256}, {1, 8, 1, 128},
                                 {1, 4, 1, 128}, {1, 10, 1, 64}, {1, 6, 1, 64}};

// What an H200 does in a microsecond, in kilobytes but for the products.
// cache_rate: of all groups together, for 128 rows each; groups with the same rows wait for each other.
static const double memory_rate = 4000, group_rate = 95, cache_rate[] = {5500, 7700, 7700, 9200};
static const double latency = 1.25;        // microseconds until what a group asks for is there
static const double products_rate = 3.5e6; // multiply-adds of one processor

typedef struct Work {
    double groups, steps, matrices; // of all tiles and parts; of one of them, of 64 in k
    double copied;                  // by a group in a step
} Work;

static int64_t slot_bytes(GpuTile t)
{
    return (64 * t.warpgroups + t.columns) * GPU_TILE_K * 2;
}

bool gpu_tile_has_room(GpuTile t)
{
    return t.warpgroups == 1 && t.stages * slot_bytes(t) <= HALF_SHARED;
}

static Work work_of(const GpuMatmul *p, GpuTile t)
{
    const double rows = p->m < 64 * t.warpgroups ? (double)p->m : 64.0 * t.warpgroups;
    Work w = {.matrices = 1};
    for (uint32_t i = 0; i < p->n_batch; i++)
        w.matrices *= (double)p->batch[i];
    const int64_t tiles = ceil_div(p->m, 64 * t.warpgroups) * ceil_div(p->n, t.columns);
    w.groups = w.matrices * (double)tiles * t.splits;
    w.steps = (double)ceil_div(ceil_div(p->k, GPU_TILE_K), t.splits);
    w.copied = (rows + t.columns) * GPU_TILE_K * 2 / 1000;
    return w;
}

// Microseconds of the slowest of: multiplying, what one group gets, what all get of the cache and of memory.
static double time_of(const GpuMatmul *p, GpuTile t)
{
    const Work w = work_of(p, t);
    const double rows = 64.0 * t.warpgroups, waves = (double)ceil_div((int64_t)w.groups, GPU_SMS);
    const double flight = t.stages * w.copied / latency;
    const double step = w.copied / (flight < group_rate ? flight : group_rate);
    const double multiply = rows * t.columns * GPU_TILE_K / products_rate;
    const int64_t blocks = ceil_div(p->m, 128);
    const double all = w.groups * w.steps * w.copied / cache_rate[blocks < 4 ? blocks - 1 : 3];
    const double bytes = 2 * w.matrices * (double)(p->m * p->k + p->n * p->k + p->m * p->n);
    double time = waves * w.steps * (step > multiply ? step : multiply);
    time = time > all ? time : all;
    const double memory = bytes / 1000 / memory_rate * (1 + 8.0 / t.columns);
    time = time > memory ? time : memory;
    // Beginning and end, which the kernels around it hide where there is room, and adding up the parts.
    const double sums = rows * t.columns * 4 / 1000 * 0.1 * (1 - 1.0 / t.splits) + 1.5 * (t.splits - 1);
    return time + sums + (gpu_tile_has_room(t) || w.groups <= GPU_SMS / 2 ? 2.5 : 4) + t.columns * 0.004;
}

static bool can_split(const GpuMatmul *p, GpuTile t)
{
    const int64_t steps = ceil_div(p->k, GPU_TILE_K), part = ceil_div(steps, t.splits);
    return part >= MIN_STEPS && (t.splits - 1) * part < steps && t.columns / 8 % t.splits == 0 &&
           64 * t.warpgroups * t.columns * t.splits <= MAX_SUMS;
}

GpuTile gpu_tile_choose(const GpuMatmul *p)
{
    Arena *a = p->l->pass->perm;
    Candidate list[MAX_CANDIDATES];
    GpuTile tile[MAX_CANDIDATES];
    uint32_t n = 0;
    int64_t matrices = 1;
    for (uint32_t i = 0; i < p->n_batch; i++)
        matrices *= p->batch[i];
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint8_t splits = 1; splits <= MAX_SPLITS; splits *= 2) {
            GpuTile t = shapes[i];
            t.splits = splits;
            if (splits > 1 && !can_split(p, t))
                continue;
            tile[n] = t;
            const char *name =
                arena_printf(a, "%dx%dx%d/%d", 64 * t.warpgroups, t.columns, splits, t.stages);
            list[n++] = (Candidate){name, time_of(p, t)};
        }
    const char *question = arena_printf(
        a, "gpu_matmul %s %lldx%lldx%lld of %lld, %s%s", dtype_info[gpu_matmul_type(p)].name, (long long)p->m,
        (long long)p->n, (long long)p->k, (long long)matrices, p->a.k == 1 ? "k" : "m",
        p->b.k == 1 ? "k" : "n");
    return tile[choice_pick(p->l, question, list, n)];
}
