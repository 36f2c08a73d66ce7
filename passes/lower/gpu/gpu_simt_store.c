// SPDX-License-Identifier: Apache-2.0
// The end of a tile of gpu_matmul_simt.c: who has which sums, and how what is made of them is stored.
//
// What split elements (GPU_UNIT_TF32) make of infinite ones is NaN, and so is what infinite elements make of
// zeros that stand for nothing: in frames of images, in columns of other groups. A thread that has NaN
// therefore sums its elements again, one by one.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_simt.h"

// --- where sums are ------------------------------------------------------------------------------

// What a thread stores at once: `n` runs of `length` neighbours, which have one row, or (is_by_row) one
// column.
typedef struct Runs {
    int64_t n, length;
    bool is_by_row;
} Runs;

typedef struct Spot {
    KRef row, column, sum; // of the product; number of the sum
} Spot;

static bool has_fragments(const GpuSimt *s)
{
    return s->unit == GPU_UNIT_TF32 || s->unit == GPU_UNIT_HALF || s->unit == GPU_UNIT_BYTES;
}

// Can so many neighbours be stored at once?
static bool is_whole(const GpuSimt *s, const GpuMatrix *c, int64_t length)
{
    const GpuMatmul *p = s->p;
    const bool is_by_row = c->k != 1;
    const int type = lower_node(s->l, c->id)->dtype;
    bool is_even = (is_by_row ? c->k : c->outer) % length == 0 && (is_by_row ? p->m : p->n) % length == 0 &&
                   length <= k_fetch_width(type) && !(is_by_row && p->rows != 0) &&
                   lower_alignment(s->l, c->loc, (DType)type) >= length * dtype_info[type].bytes;
    for (uint32_t i = 0; i < p->n_batch; i++)
        is_even = is_even && c->batch[i] % length == 0;
    return is_even;
}

bool gpu_simt_is_by_row(const GpuSimt *s)
{
    return s->p->c.k != 1;
}

// Threads alone have runs of four in both directions, units pairs along the columns, cooperative matrices
// leave one of eight.
static Runs runs_of(const GpuSimt *s)
{
    const GpuMatrix *c = &s->p->c;
    Runs r = {.length = 1, .is_by_row = gpu_simt_is_by_row(s)};
    const int64_t most = s->unit == GPU_UNIT_COOP ? GPU_COOP_RUN
                         : !has_fragments(s)      ? GPU_SIMT_BLOCK
                         : r.is_by_row            ? 1
                                                  : 2;
    if (c->k == 1 || c->outer == 1)
        for (r.length = most; r.length > 1 && !is_whole(s, c, r.length);)
            r.length /= 2;
    r.n = gpu_simt_stored(s) / r.length;
    return r;
}

static Spot fragment_spot(const GpuSimt *s, KRef sum)
{
    Kernel *k = s->k;
    const KRef lane = k_expr(k, "$ % #", s->thread, GPU_LANES), unit = k_expr(k, "$ / #", sum, GPU_UNIT_SUMS);
    const KRef row = k_expr(k, "$ / # * # + ($ / 2 % 2 * 8 + $ / #)", unit, gpu_unit_columns(s),
                            GPU_UNIT_ROWS, sum, lane, GPU_UNIT_QUAD);
    const KRef column = k_expr(k, "$ % # * # + ($ % # * 2 + $ % 2)", unit, gpu_unit_columns(s),
                               GPU_UNIT_COLUMNS, lane, GPU_UNIT_QUAD, sum);
    return (Spot){k_expr(k, "$ + ($ + $)", s->m, s->row, row),
                  k_expr(k, "$ + ($ + $)", s->n, s->column, column), sum};
}

// Number i of a thread's rows, or columns.
static KRef own_line(const GpuSimt *s, KRef first, int64_t threads, KRef i)
{
    return k_expr(s->k, "$ / # * # + $ + $ % #", i, GPU_SIMT_BLOCK, GPU_SIMT_BLOCK * threads, first, i,
                  GPU_SIMT_BLOCK);
}

static Spot thread_spot(const GpuSimt *s, KRef row, KRef column)
{
    Kernel *k = s->k;
    const int64_t own_n = s->shape.columns / gpu_simt_threads_n(s);
    return (Spot){k_add(k, s->m, own_line(s, s->row, s->shape.threads_m, row)),
                  k_add(k, s->n, own_line(s, s->column, gpu_simt_threads_n(s), column)),
                  k_expr(k, "$ * # + $", row, own_n, column)};
}

// Of the sum that is number `along` in the order in which they are stored.
static Spot whole_spot(const GpuSimt *s, Runs runs, KRef along)
{
    Kernel *k = s->k;
    if (has_fragments(s))
        return fragment_spot(s, along);
    if (s->unit == GPU_UNIT_COOP)
        return (Spot){k_expr(k, "$ + $ + $", s->m, s->row, runs.is_by_row ? along : k_index(k, 0)),
                      k_expr(k, "$ + $ + $", s->n, s->column, runs.is_by_row ? k_index(k, 0) : along), along};
    const int64_t own_m = s->shape.rows / s->shape.threads_m;
    const int64_t own_n = s->shape.columns / gpu_simt_threads_n(s), length = runs.is_by_row ? own_m : own_n;
    const KRef fast = k_expr(k, "$ % #", along, length), slow = k_expr(k, "$ / #", along, length);
    return runs.is_by_row ? thread_spot(s, fast, slow) : thread_spot(s, slow, fast);
}

// Element i of a run. Where groups share the sums, those of this one are by themselves.
static Spot spot_of(const GpuSimt *s, Runs runs, KRef run, KRef i)
{
    Kernel *k = s->k;
    rlx_assert(runs.length >= 1 && run != 0);
    const KRef along = k_expr(k, "$ * # + $", run, runs.length, i);
    if (s->shape.splits <= 1)
        return whole_spot(s, runs, along);
    Spot at = whole_spot(s, runs, k_expr(k, "$ * # + $", s->rank, gpu_simt_stored(s), along));
    at.sum = along;
    return at;
}

// --- values --------------------------------------------------------------------------------------

static KRef sum_at(const GpuSimt *s, KRef sums, const Spot *at)
{
    Kernel *k = s->k;
    if (s->result == 0)
        return k_aload(k, sums, at->sum, 1);
    const KRef row = k_sub(k, at->row, s->m), column = k_sub(k, at->column, s->n);
    return k_aload(k, s->result, k_expr(k, "$ * # + $", row, s->a.pitch, column), 1);
}

// The root where the thread's sum is known.
static KRef root_at(const GpuSimt *s, const Spot *at, KRef sum)
{
    Kernel *k = s->k;
    const Point point = s->p->point(s->p, s->batch, at->row, at->column);
    if (s->p->bytes != NULL)
        sum = gpu_byte_sum(k, s->p->bytes, (GpuByteSum){sum, 0, s->zero, point.idx[1]});
    sum = gpu_group_sum(s->p, at->row, at->column, gpu_scaled(s->p, sum));
    sum = gpu_with_bias(s->p, point.idx[1], sum);
    return pull_root(s->l, s->p->d, point, k_cast(k, sum, lower_node(s->l, s->l->anchor)->dtype));
}

static KRef root_index(const GpuSimt *s, const Spot *at)
{
    Pull pull = pull_at(s->l, s->p->d, s->p->point(s->p, s->batch, at->row, at->column));
    return pull_index(&pull, s->l->root);
}

static KRef is_in(const GpuSimt *s, const Spot *at)
{
    Kernel *k = s->k;
    const KRef in = s->p->rows != 0
                        ? k_expr(k, "$ < $ & $ < #", at->row, s->p->rows, at->column, s->p->n)
                        : k_expr(k, "$ < # & $ < #", at->row, s->p->m, at->column, s->p->n);
    if (s->p->is_in_root == NULL)
        return gpu_group_is_in(s->p, at->row, in);
    const Point point = s->p->point(s->p, s->batch, at->row, at->column);
    return k_and(k, in, s->p->is_in_root(s->p, &point));
}

static void store_run(const GpuSimt *s, KRef sums, Runs runs, KRef run)
{
    Kernel *k = s->k;
    const uint32_t param = lower_param(s->l, s->l->root, PARAM_WRITE);
    const int type = (int)k->params.data[param].dtype;
    const Spot first = spot_of(s, runs, run, k_index(k, 0));
    k_if(k, is_in(s, &first));
    const KRef values = runs.length > 1 ? k_array(k, type, runs.length) : 0;
    for (int64_t i = 0; i < runs.length; i++) {
        const Spot at = spot_of(s, runs, run, k_index(k, i));
        const KRef value = k_cast(k, root_at(s, &at, sum_at(s, sums, &at)), type);
        if (runs.length > 1)
            k_astore(k, values, k_index(k, i), value);
        else
            k_store(k, param, root_index(s, &at), value, 1);
    }
    if (runs.length > 1)
        k_put(k, param, root_index(s, &first), values, k_index(k, 0), (uint8_t)runs.length);
    k_end(k);
}

// --- sums again ----------------------------------------------------------------------------------

static KRef element_of(const GpuSimt *s, const GpuSide *x, KRef index)
{
    return k_cast(s->k, k_load(s->k, x->param, index, 1, 1), DTYPE_f32);
}

static KRef plain_sum(const GpuSimt *s, const Spot *at)
{
    Kernel *k = s->k;
    const KRef sum = k_var(k, k_number(k, DTYPE_f32, 0), "again");
    const KRef step = k_loop(k, s->p->k, KFOR_ROLL, "step");
    KRef is_there = gpu_side_is_own(s, at->column, step);
    const KRef a = gpu_side_index(s, &s->a, at->row, step, &is_there);
    const KRef b = gpu_side_index(s, &s->b, at->column, step, &is_there);
    k_if(k, is_there);
    k_set(k, sum, k_fma(k, element_of(s, &s->a, a), element_of(s, &s->b, b), k_get(k, sum)));
    k_end(k);
    k_end(k);
    return k_get(k, sum);
}

static void store_again(const GpuSimt *s)
{
    Kernel *k = s->k;
    const Runs runs = {.n = gpu_simt_stored(s), .length = 1, .is_by_row = gpu_simt_is_by_row(s)};
    const KRef run = k_loop(k, runs.n, KFOR_ROLL, "run");
    const Spot at = spot_of(s, runs, run, k_index(k, 0));
    k_if(k, is_in(s, &at));
    const KRef value = root_at(s, &at, plain_sum(s, &at));
    const uint32_t param = lower_param(s->l, s->l->root, PARAM_WRITE);
    k_store(k, param, root_index(s, &at), k_cast(k, value, (int)k->params.data[param].dtype), 1);
    k_end(k);
    k_end(k);
}

static KRef find_nan(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    const Runs runs = {.n = gpu_simt_stored(s), .length = 1, .is_by_row = gpu_simt_is_by_row(s)};
    const KRef found = k_var(k, k_integer(k, DTYPE_bool, 0), "has_nan");
    const KRef run = k_loop(k, runs.n, KFOR_UNROLL, "run");
    const Spot at = spot_of(s, runs, run, k_index(k, 0));
    const KRef sum = sum_at(s, sums, &at);
    k_set(k, found, k_or(k, k_get(k, found), k_ne(k, sum, sum)));
    k_end(k);
    return k_get(k, found);
}

void gpu_simt_store(const GpuSimt *s, KRef sums)
{
    rlx_assert(s->p->point != NULL && sums != 0);
    Kernel *k = s->k;
    const bool may_fail =
        s->unit == GPU_UNIT_TF32 || s->p->has_weight != NULL ||
        (s->unit != GPU_UNIT_BYTES && gpu_side_has_gaps(&s->a));
    const Runs runs = runs_of(s);
    if (may_fail) {
        k_if(k, find_nan(s, sums));
        store_again(s);
        k_else(k);
    }
    const KRef run = k_loop(k, runs.n, KFOR_UNROLL, "run");
    store_run(s, sums, runs, run);
    k_end(k);
    if (may_fail)
        k_end(k);
}

// --- sums of a cluster ---------------------------------------------------------------------------

enum { FOUR = 4, FOUR_BYTES = 16 };

// Where the group that adds them up has four sums of a thread, of a part of k.
static KRef part_address(const GpuSimt *s, KRef part, int64_t four)
{
    const int64_t fours = gpu_simt_stored(s) / FOUR;
    const KRef number = k_expr(s->k, "$ * # + #", part, fours, four);
    return k_expr(s->k, "($ * # + $) * # + $", number, gpu_simt_members(s), s->member, FOUR_BYTES, s->shared);
}

// Sums of this part of k go to those who add them up.
static void put_parts(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    const Runs runs = {.length = 1, .is_by_row = gpu_simt_is_by_row(s)};
    const int64_t share = gpu_simt_stored(s);
    for (int64_t n = 0; n < share * s->shape.splits; n += FOUR) {
        const KRef four = k_array(k, s->sum, FOUR), zero = k_index(k, 0);
        for (int64_t i = 0; i < FOUR; i++) {
            const Spot at = whole_spot(s, runs, k_index(k, n + i));
            k_astore(k, four, k_index(k, i), k_aload(k, sums, at.sum, 1));
        }
        k_device(k, s->sum == DTYPE_u32 ? KDEV_cluster_put_words : KDEV_cluster_put4,
                 part_address(s, s->rank, n % share / FOUR), k_index(k, n / share), four, zero);
    }
}

static KRef add_parts(const GpuSimt *s)
{
    Kernel *k = s->k;
    const int64_t splits = s->shape.splits, share = gpu_simt_stored(s);
    const KRef out = k_array(k, s->sum, share), parts = k_array(k, s->sum, splits * FOUR);
    for (int64_t n = 0; n < share; n += FOUR) {
        for (int64_t part = 0; part < splits; part++)
            k_device(k, s->sum == DTYPE_u32 ? KDEV_shared_get_words : KDEV_shared_get4, parts,
                     k_index(k, part * FOUR), part_address(s, k_index(k, part), n / FOUR));
        for (int64_t i = 0; i < FOUR; i++) {
            KRef sum = k_aload(k, parts, k_index(k, i), 1);
            for (int64_t part = 1; part < splits; part++)
                sum = k_add(k, sum, k_aload(k, parts, k_index(k, part * FOUR + i), 1));
            k_astore(k, out, k_index(k, n + i), sum);
        }
    }
    return out;
}

void gpu_simt_store_split(const GpuSimt *s, KRef sums)
{
    rlx_assert(s->shape.splits > 1 && gpu_simt_stored(s) % FOUR == 0);
    Kernel *k = s->k;
    const bool has_teams = s->shape.teams > 1;
    k_device_with(k, KDEV_cluster_sync, 0); // all groups have begun
    if (has_teams)
        k_if(k, k_expr(k, "$ == 0", s->team));
    put_parts(s, sums);
    if (has_teams)
        k_end(k);
    k_device_with(k, KDEV_cluster_sync, 0);
    if (has_teams)
        k_if(k, k_expr(k, "$ == 0", s->team));
    gpu_simt_store(s, add_parts(s));
    if (has_teams)
        k_end(k);
}
