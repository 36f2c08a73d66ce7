// SPDX-License-Identifier: Apache-2.0
// What multiplies in gpu_matmul_simt.c, and which tile: an estimate of the time of each, by the figures of
// the GPU (ir/machine/machines.def).
#include "passes/lower/choice.h"
#include "passes/lower/gpu/gpu_simt.h"
#include "passes/lower/gpu/gpu_split.h"

enum { MATRIX_TILE = 64, WORD = 4, MOST_OF_CLUSTER = 8 };
static const double SUM_TIME = 1e-7; // microseconds that storing a sum takes
// Of groups of a cluster: until all have met twice, and for each of them; to hand over a kilobyte of sums.
// What they gain by an estimate must be more than it may be off by (12 convolutions and products, H200).
static const double MEET_TIME = 0.5, GROUP_TIME = 0.25, PART_TIME = 0.1, SPLIT_MARGIN = 1.1;
static const double JOIN_LATENCIES = 1.5; // until a group sees what others wrote
static const double SHARE_MARGIN = 1.1;   // sharing k must gain more than that: 1024 cubed in f32 lost by it

// Among how many groups k may be shared; 0: it is not.
static const uint8_t parts_of_k[] = {0, 2, 3, 4, 6, 8, 12, 16};
enum { N_PARTS = sizeof parts_of_k / sizeof *parts_of_k };

static const GpuShape shapes[] = {
    {128, 128, 1, 16, 2, 0, 0}, {128, 64, 1, 16, 4, 0, 0}, {64, 128, 1, 16, 2, 0, 0},
    {64, 64, 1, 16, 4, 0, 0}, {64, 64, 2, 16, 2, 0, 0}, {128, 32, 2, 16, 4, 0, 0},
    {32, 128, 2, 8, 1, 0, 0}, {64, 32, 4, 8, 2, 0, 0}, {32, 64, 4, 8, 1, 0, 0},
    {32, 32, 4, 8, 1, 0, 0}, {128, 160, 1, 32, 2, 0, 0}, {64, 160, 1, 16, 2, 0, 0},
    {128, 96, 1, 32, 4, 0, 0}, {64, 96, 1, 16, 2, 0, 0}, {128, 32, 1, 32, 8, 0, 0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

// How fast the tiles above are with f32, fitted to times on an H200 of 14 products (0.01 to 30 G
// multiply-adds), for which the estimate takes a tile that is at most 1.16 times as slow as the best. Those
// of 160 and 96 columns are by six products of 0.2 to 2.3 G with units; of threads alone they are guesses.
typedef struct Speed {
    float share; // of the unit's rate
    float wait;  // for a slice at least, in latencies of the machine
} Speed;
static const Speed fma_speed[N_SHAPES] = {
    {0.65f, 1.28f}, {0.62f, 0.69f}, {0.62f, 0.69f}, {0.53f, 0.45f}, {0.50f, 0.76f},
    {0.41f, 0.90f}, {0.56f, 0.76f}, {0.39f, 1.08f}, {0.45f, 0.90f}, {0.35f, 0.64f},
    {0.60f, 1.50f}, {0, 0},         {0.58f, 1.00f}, {0, 0},         {0.45f, 0.45f},
};
static const Speed tf32_speed[N_SHAPES] = {
    {0.39f, 1.00f}, {0.41f, 0.58f}, {0.46f, 0.58f}, {0.32f, 0.38f}, {0.32f, 0.76f},
    {0.23f, 0.90f}, {0.35f, 0.64f}, {0.22f, 0.99f}, {0.27f, 0.83f}, {0.22f, 0.54f},
    {0.45f, 0.85f}, {0.39f, 0.50f}, {0.40f, 0.60f}, {0.39f, 0.42f}, {0.30f, 0.38f},
};
// The same for cooperative matrices by the driver 580, of the rate of wgmma, in slices of 64 steps, from four
// products of 0.3 to 69 G multiply-adds. Of tiles of teams only 32 x 32 was measured: the plain way of most
// needs more memory than Vulkan promises.
static const Speed coop_speed[N_SHAPES] = {
    {0.287f, 0.56f}, {0.230f, 0.39f}, {0.233f, 0.39f}, {0.185f, 0.27f}, {0.150f, 0.50f},
    {0.150f, 0.40f}, {0.150f, 0.40f}, {0.120f, 0.50f}, {0.120f, 0.50f}, {0.132f, 0.50f},
};

static int type_of(const GpuMatmul *p, NodeId id)
{
    return lower_node(p->l, id)->dtype;
}

GpuUnit gpu_simt_unit(const GpuMatmul *p)
{
    const TargetCaps *caps = p->l->caps;
    const int a = type_of(p, p->a.id), b = type_of(p, p->b.id);
    rlx_assert(caps->gpu != NULL);
    if (p->bytes != NULL)
        return GPU_UNIT_BYTES;
    if (caps->has_simd_matrix && p->m >= MATRIX_TILE / 2 && p->n >= MATRIX_TILE / 2)
        return GPU_UNIT_SIMD;
    if (!caps->has_mma || a != b)
        return GPU_UNIT_FMA;
    return k_is_half(a)                             ? GPU_UNIT_HALF
           : a == DTYPE_f32 && gpu_split_pays(p->l) ? GPU_UNIT_TF32
                                                    : GPU_UNIT_FMA;
}

// Two groups have 128 registers for each thread. What is split into parts takes more, unless sums are few.
uint8_t gpu_simt_places(GpuUnit unit, GpuShape t)
{
    enum { MOST_SUMS = 64, MOST_OF_PARTS = 32 };
    rlx_assert(unit <= GPU_UNIT_COOP);
    return t.rows * t.columns * t.teams / GPU_SIMT_THREADS >
                   (unit == GPU_UNIT_TF32 ? MOST_OF_PARTS : MOST_SUMS)
               ? 1
               : 2;
}

static int64_t splits_of(GpuShape t)
{
    return t.splits > 1 ? t.splits : 1;
}

static int64_t count_groups(const GpuMatmul *p, GpuShape t)
{
    const int64_t parts = t.parts != 0 ? t.parts : 1;
    return ceil_div(p->m, t.rows) * ceil_div(p->n, t.columns) * gpu_matmul_count(p) * splits_of(t) * parts;
}

bool gpu_simt_is_alone(const GpuMatmul *p, GpuUnit unit, GpuShape t)
{
    enum { MOST_SUMS = 32 };
    const GpuMachine *m = p->l->caps->gpu;
    return unit != GPU_UNIT_SIMD && t.rows * t.columns * t.teams / GPU_SIMT_THREADS <= MOST_SUMS &&
           count_groups(p, t) <= m->processors &&
           (t.splits <= 1 || count_groups(p, t) / t.splits <= m->clusters[__builtin_ctz(t.splits)]);
}

static int64_t shared_bytes(GpuShape t, int64_t words)
{
    const int64_t slices = words * t.teams * (t.rows + t.columns + 2 * GPU_SIMT_PAD);
    return WORD * (slices + (t.teams > 1 ? t.teams / 2 * t.rows * t.columns : 0));
}

// Where one slice can be all of k, it has no more than that: nothing waits for a second one, and fewer zeros
// are brought. Registers hold it on its way. Lines are shifted by the same in the words of all teams.
int64_t gpu_simt_words(const GpuMatmul *p, GpuUnit unit, GpuShape t)
{
    enum { STEP = 8, MOST_HELD = 18 };
    const int64_t own = ceil_div(ceil_div(p->k, gpu_unit_pair(unit)), t.teams);
    const int64_t step = t.teams > 1 ? GPU_SIMT_WORDS : STEP, words = ceil_div(own, step) * step;
    const bool fits = words * t.teams * (t.rows + t.columns) <= MOST_HELD * GPU_SIMT_THREADS &&
                      shared_bytes(t, words) <= p->l->caps->shared_bytes;
    const bool may_be_one = unit != GPU_UNIT_SIMD && t.splits <= 1;
    return may_be_one && (words < GPU_SIMT_WORDS || fits) ? words : GPU_SIMT_WORDS;
}

uint8_t gpu_simt_places_of(const GpuMatmul *p, GpuUnit unit, GpuShape t)
{
    enum { FEW_SLICES = 2, FEW_SUMS = 16, OF_BYTES = 32, MORE = 3, MOST = 4 };
    const int64_t depth = gpu_simt_words(p, unit, t) * t.teams * gpu_unit_pair(unit);
    const int64_t sums = t.rows * t.columns * t.teams / GPU_SIMT_THREADS;
    const int64_t places = (int64_t)p->l->caps->gpu->processors * gpu_simt_places(unit, t);
    if (count_groups(p, t) <= places || p->k > FEW_SLICES * depth)
        return gpu_simt_places(unit, t);
    return unit == GPU_UNIT_BYTES && sums <= OF_BYTES  ? MOST
           : unit != GPU_UNIT_SIMD && sums <= FEW_SUMS ? MORE
                                                       : gpu_simt_places(unit, t);
}

// Multiply-adds of a processor in a microsecond, at most.
static double peak_of(const GpuMatmul *p, GpuUnit unit)
{
    const GpuMachine *m = p->l->caps->gpu;
    const double products = gpu_split_products(p->l) > 1 ? 3 : 2; // one takes as long as the words it reads
    return unit == GPU_UNIT_HALF    ? m->products_rate / 2
           : unit == GPU_UNIT_BYTES ? m->products_rate
           : unit == GPU_UNIT_COOP  ? m->products_rate
           : unit == GPU_UNIT_TF32  ? m->tf32_rate / products
                                    : m->f32_rate;
}

// Small blocks of sums wait for shared memory.
static double rate_of(const GpuMatmul *p, GpuUnit unit, GpuShape t)
{
    const double own_m = (double)t.rows / t.threads_m;
    const double own_n = (double)t.columns * t.threads_m * t.teams / GPU_SIMT_THREADS;
    return peak_of(p, unit) / (0.6 + 1.6 * (1 / own_m + 1 / own_n));
}

// Microseconds of a slice of all groups, one wave of them behind the other.
static double slice_of(const GpuMachine *m, double rate, double wait, double tile, int64_t groups,
                       int64_t places)
{
    const int64_t wave = m->processors * places, rest = ceil_div(groups % wave, m->processors);
    const double whole = (double)places * tile / rate, last = (double)rest * tile / rate;
    return (double)(groups / wave) * (whole > wait ? whole : wait) +
           (rest == 0 ? 0 : last > wait ? last : wait);
}

// Microseconds until the last group has what the others put: all write and count, and it reads the parts of
// its tile, as fast as one group can.
static double join_of(const GpuMachine *m, GpuShape t, int64_t groups)
{
    const double tile = (double)(t.rows * t.columns) * WORD / 1000;
    return t.parts == 0 ? 0
                        : JOIN_LATENCIES * m->latency + (double)groups * tile / m->cache_rate[0] +
                              t.parts * tile / m->copy_rate;
}

// Until a slice is there, in latencies of the machine, where no table says it: elements of rows of odd length
// come one by one.
static double wait_of(const GpuMatmul *p, GpuUnit unit)
{
    const bool is_single = unit == GPU_UNIT_HALF && p->window == NULL && p->k % gpu_unit_pair(unit) != 0;
    return is_single ? 0.5 : 0.25;
}

// Microseconds: of the processors, and of the cache.
static double time_of(const GpuMatmul *p, GpuUnit unit, uint32_t which, GpuShape t)
{
    const GpuMachine *m = p->l->caps->gpu;
    const int64_t words = unit == GPU_UNIT_COOP ? gpu_coop_depth(t) : GPU_SIMT_WORDS * t.teams;
    const int64_t depth = words * gpu_unit_pair(unit);
    const int64_t groups = count_groups(p, t), shares = splits_of(t) * (t.parts != 0 ? t.parts : 1);
    const double steps = (double)ceil_div(ceil_div(p->k, depth), shares);
    const double own = (double)(t.rows * t.columns), tile = own * (double)depth;
    const Speed *speed = unit == GPU_UNIT_TF32   ? &tf32_speed[which]
                         : unit == GPU_UNIT_COOP ? &coop_speed[which]
                         : unit == GPU_UNIT_FMA  ? &fma_speed[which]
                                                 : NULL;
    const double rate = speed != NULL ? (double)speed->share * peak_of(p, unit) : rate_of(p, unit, t);
    const double wait = m->latency * (speed != NULL ? (double)speed->wait : wait_of(p, unit));
    const int64_t copies = unit == GPU_UNIT_BYTES  ? words
                           : unit == GPU_UNIT_COOP ? depth / 2
                                                   : depth; // those of 16-bit floats are short
    const double copied = (double)(groups * (t.rows + t.columns) * copies) * WORD / 1000 / m->cache_rate[3];
    const double step = slice_of(m, rate, wait, tile, groups, gpu_simt_places(unit, t));
    const double sums = (double)(groups / splits_of(t)) * own * SUM_TIME; // those beyond the end, too
    const double time =
        steps * (step > copied ? step : copied) + (t.teams - 1) * 0.3 + sums + join_of(m, t, groups);
    const double handed = own * WORD / 1000 * PART_TIME * (1 - 1.0 / (double)splits_of(t));
    return t.splits > 1   ? (time + MEET_TIME + GROUP_TIME * t.splits + handed) * SPLIT_MARGIN
           : t.parts != 0 ? time * SHARE_MARGIN
                          : time;
}

// Threads alone have blocks of sums in both directions.
static bool has_blocks(GpuShape t)
{
    const int64_t threads_n = GPU_SIMT_THREADS / t.teams / t.threads_m;
    return t.rows % (t.threads_m * GPU_SIMT_BLOCK) == 0 && t.columns % (threads_n * GPU_SIMT_BLOCK) == 0;
}

// Simdgroups have one tile, cooperative matrices those whose speed is known.
static bool can_have(const GpuMatmul *p, GpuUnit unit, uint32_t which)
{
    const GpuShape t = shapes[which];
    if (p->groups != NULL && p->groups->rows % t.rows != 0)
        return false;
    if (unit == GPU_UNIT_SIMD)
        return t.rows == MATRIX_TILE && t.columns == MATRIX_TILE && t.teams == 1;
    if (unit == GPU_UNIT_FMA && !has_blocks(t))
        return false;
    return shared_bytes(t, GPU_SIMT_WORDS) <= p->l->caps->shared_bytes &&
           (!gpu_coop_fits(p) || coop_speed[which].share > 0);
}

// Of shared memory, with room for what the groups of a cluster hand to each other.
static int64_t split_bytes(GpuShape t)
{
    enum { ALIGN = 1024 }; // where that begins
    return shared_bytes(t, GPU_SIMT_WORDS) + ALIGN + WORD * t.rows * t.columns;
}

// Can so many groups of a cluster share k? All clusters run at once, or there is no gain.
static bool can_split(const GpuMatmul *p, GpuUnit unit, GpuShape t)
{
    enum { FOUR = 4, LEAST_SLICES = 2 };
    const GpuMachine *m = p->l->caps->gpu;
    if (t.splits == 0)
        return true;
    if (t.splits > MOST_OF_CLUSTER || (t.splits & (t.splits - 1)) != 0)
        return false;
    const int64_t slices = ceil_div(ceil_div(p->k, gpu_unit_pair(unit)), GPU_SIMT_WORDS * t.teams);
    const int64_t part = ceil_div(slices, t.splits), sums = t.rows * t.columns * t.teams / GPU_SIMT_THREADS;
    const int64_t clusters = m->clusters[__builtin_ctz(t.splits)];
    return p->l->caps->has_mma && unit != GPU_UNIT_SIMD && !gpu_coop_fits(p) && part >= LEAST_SLICES &&
           (t.splits - 1) * part < slices && split_bytes(t) <= p->l->caps->shared_bytes &&
           sums % (FOUR * t.splits) == 0 &&
           count_groups(p, t) / t.splits <= clusters * gpu_simt_places(unit, t);
}

// Groups share k where those of whole tiles leave places free, and all of them have some at once.
static bool can_share(const GpuMatmul *p, GpuUnit unit, GpuShape t)
{
    enum { FEW_STEPS = 128 };
    const int64_t places = (int64_t)p->l->caps->gpu->processors * gpu_simt_places(unit, t);
    return t.parts == 0 || (p->l->caps->has_parts && p->groups == NULL && unit == GPU_UNIT_FMA &&
                            p->k >= (int64_t)t.parts * FEW_STEPS && count_groups(p, t) <= places);
}

// A tile whose k is shared by n groups: those of a cluster where the GPU has clusters, else through memory.
static GpuShape among(const GpuMatmul *p, GpuShape t, uint8_t n)
{
    const bool has_clusters = p->l->caps->has_mma;
    t.splits = has_clusters ? n : 0;
    t.parts = has_clusters ? 0 : n;
    return t;
}

GpuShape gpu_simt_choose(const GpuMatmul *p, GpuUnit unit)
{
    rlx_assert(p->m > 0 && p->n > 0 && p->k > 0);
    Arena *a = p->l->pass->perm;
    Candidate list[N_SHAPES * N_PARTS];
    GpuShape shape[N_SHAPES * N_PARTS];
    uint32_t n = 0;
    const int64_t matrices = gpu_matmul_count(p);
    for (uint32_t i = 0; i < N_SHAPES * N_PARTS; i++) {
        const GpuShape t = among(p, shapes[i / N_PARTS], parts_of_k[i % N_PARTS]);
        const int groups = t.splits != 0 ? t.splits : t.parts;
        if (!can_have(p, unit, i / N_PARTS) || !can_split(p, unit, t) || !can_share(p, unit, t))
            continue;
        const char *name = arena_printf(a, "%dx%dx%d", t.rows, t.columns, t.teams);
        if (groups != 0)
            name = arena_printf(a, "%s/%d", name, groups);
        shape[n] = t;
        list[n++] = (Candidate){name, time_of(p, gpu_coop_fits(p) ? GPU_UNIT_COOP : unit, i / N_PARTS, t)};
    }
    rlx_assert(n > 0);
    const char *question =
        arena_printf(a, "gpu_simt %s %lldx%lldx%lld of %lld", dtype_info[type_of(p, p->a.id)].name,
                     (long long)p->m, (long long)p->n, (long long)p->k, (long long)matrices);
    return shape[choice_pick(p->l, question, list, n)];
}
