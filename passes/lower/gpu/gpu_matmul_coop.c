// SPDX-License-Identifier: Apache-2.0
// Products of f16 and bf16 by cooperative matrices (Vulkan), of matrices and of images as convolutions read
// them: the tiles, groups, threads and slices of gpu_matmul_simt.c, so that one kernel has both ways and the
// driver is given the one that it can run. Slices lie in shared memory as rows of k, or as lines of rows or
// columns, whichever is dense in memory, vectors of eight elements apart such that subgroups read them
// without conflicts. A subgroup has a block of squares of 16 x 16 sums; those of teams, which share k, are
// added up in the order of the teams. At the end squares go through shared memory, two at a time, to threads
// that store eight neighbours.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_simt.h"

#include <string.h>

enum {
    SUBGROUP = 32,
    SQUARE = 16,
    CHUNK = GPU_COOP_RUN, // elements of a vector of shared memory
    CHUNK_WORDS = 4, // the same in words
    DEEP = 64,       // steps of k of a team in a slice, or half of them where memory has not as much room
    LINES = 288,     // of a slice that it has room for, of all teams
    ROUND = 2,       // squares of each subgroup that are stored at once
    MOST_ROUND = 4,  // where it has so many
    RUNS = SQUARE * SQUARE / CHUNK, // of eight neighbours, of a square
    FOUR = 4,
    MIN_LINES = 8,
    MIN_STEPS = 16
};

bool gpu_coop_fits(const GpuMatmul *p)
{
    const int a = lower_node(p->l, p->a.id)->dtype, b = lower_node(p->l, p->b.id)->dtype;
    return p->l->caps->has_coop && a == b && k_is_half(a) && p->m >= MIN_LINES && p->n >= MIN_LINES &&
           p->k >= MIN_STEPS;
}

// --- the shape -----------------------------------------------------------------------------------

int64_t gpu_coop_depth(GpuShape t)
{
    return ((t.rows + t.columns) * t.teams <= LINES ? DEEP : DEEP / 2) * t.teams;
}

static GpuCoopBlock gpu_coop_block(GpuShape t)
{
    const int64_t subgroups = GPU_SIMT_THREADS / SUBGROUP / t.teams;
    GpuCoopBlock best = {0};
    for (int64_t down = 1; down <= subgroups; down *= 2) {
        const int64_t rows = t.rows / down, columns = t.columns * down / subgroups;
        const int64_t lines = rows + columns;
        if (rows % SQUARE == 0 && columns % SQUARE == 0 &&
            (best.down == 0 || lines < SQUARE * (best.rows + best.columns)))
            best = (GpuCoopBlock){.down = down, .rows = rows / SQUARE, .columns = columns / SQUARE};
    }
    rlx_assert(best.down != 0 && best.rows * best.columns % ROUND == 0);
    return best;
}

// --- slices --------------------------------------------------------------------------------------

static int64_t across_of(const GpuSimt *s, const GpuSide *x) // elements of a line of shared memory
{
    return x->is_along_k ? s->depth / s->shape.teams : x->lines;
}

static int64_t lines_of(const GpuSimt *s, const GpuSide *x)
{
    return x->is_along_k ? x->lines * s->shape.teams : s->depth;
}

static void begin_side(GpuSimt *s, GpuSide *x)
{
    const GpuMatrix *m = x->x;
    x->vector = CHUNK;
    const bool is_dense = x->is_along_k || (m->outer == 1 && x->window == NULL);
    while (x->vector > 1 && !(is_dense && gpu_side_is_even(s, x, x->vector)))
        x->vector /= 2;
    const DType word = x->vector > 1 ? DTYPE_u32 : DTYPE_u16;
    x->words = gpu_side_param(s, x, word);
    x->pitch = (across_of(s, x) / CHUNK + 1) * CHUNK_WORDS;
    for (int64_t i = 0; i < s->ahead; i++)
        x->next[i] = k_array(s->k, DTYPE_u32, x->lines * s->depth / 2 / GPU_SIMT_THREADS);
}

GpuSimt gpu_coop_begin(const GpuSimt *plain)
{
    GpuSimt s = *plain;
    s.unit = GPU_UNIT_COOP;
    s.depth = gpu_coop_depth(s.shape);
    s.ahead = gpu_simt_is_alone(s.p, s.unit, s.shape) ? GPU_SIMT_AHEAD : 1;
    begin_side(&s, &s.a);
    begin_side(&s, &s.b);
    s.b.offset = lines_of(&s, &s.a) * s.a.pitch;
    rlx_assert(s.b.offset + lines_of(&s, &s.b) * s.b.pitch <= KDEV_COOP_WORDS);
    s.a.shared = s.b.shared = k_shared(s.k, DTYPE_f32, KDEV_COOP_WORDS);
    return s;
}

void gpu_coop_place(GpuSimt *s, const GpuSimt *plain)
{
    s->thread = plain->thread;
    s->team = plain->team;
    s->member = plain->member;
    s->m = plain->m;
    s->n = plain->n;
    s->part = plain->part;
    s->tile = plain->tile;
    gpu_parts_range(s, &s->first, &s->end);
    memcpy(s->batch, plain->batch, sizeof s->batch);
    s->a.first = plain->a.first;
    s->a.base = plain->a.base;
    s->b.first = plain->b.first;
    s->b.base = plain->b.base;
}

// A vector of shared memory: where it lies there, and what of the operand it is.
typedef struct Vector {
    KRef word, line, step;
} Vector;

static Vector vector_of(const GpuSimt *s, const GpuSide *x, KRef e)
{
    Kernel *k = s->k;
    const int64_t across = across_of(s, x);
    const KRef i = k_expr(k, "$ * # + $", e, GPU_SIMT_THREADS, s->thread);
    const KRef low = k_expr(k, "$ % # * #", i, across / CHUNK, CHUNK),
               high = k_expr(k, "$ / #", i, across / CHUNK);
    const KRef word = k_expr(k, "$ * # + $ / 2 + #", high, x->pitch, low, x->offset);
    if (!x->is_along_k)
        return (Vector){word, low, high};
    const KRef team = k_expr(k, "$ / #", high, x->lines);
    return (Vector){word, k_expr(k, "$ % #", high, x->lines), k_expr(k, "$ * # + $", team, across, low)};
}

// The element at a line and step, or 0, and whether there is one.
static KRef index_at(const GpuSimt *s, const GpuSide *x, KRef line, KRef step, KRef *is_in)
{
    Kernel *k = s->k;
    *is_in = k_expr(k, "$ < # & $ < #", line, x->size, step, s->p->k);
    const KRef index = gpu_side_index(s, x, line, step, is_in);
    return k_select(k, *is_in, index, k_index(k, 0));
}

// Does every slice of the matrix have all its elements?
static bool is_whole(const GpuSimt *s, const GpuSide *x)
{
    return x->window == NULL && x->size % x->lines == 0 && s->p->k % s->depth == 0;
}

// One access: elements from number `first` of a vector on.
static void fetch_part(const GpuSimt *s, const GpuSide *x, const Vector *at, int64_t first, KRef to,
                       KRef slot)
{
    Kernel *k = s->k;
    KRef is_in = 0;
    const KRef line = k_expr(k, "$ + #", at->line, x->is_along_k ? 0 : first);
    const KRef step = k_expr(k, "$ + #", at->step, x->is_along_k ? first : 0);
    const KRef index =
        is_whole(s, x) ? gpu_side_index(s, x, line, step, &is_in) : index_at(s, x, line, step, &is_in);
    const int64_t words = x->vector / 2;
    k_fetch(k, x->words, k_expr(k, "$ / 2", index), to, slot, (uint8_t)words);
    for (int64_t i = 0; is_in != 0 && i < words; i++) {
        const KRef word = k_expr(k, "$ + #", slot, i);
        k_astore(k, to, word, k_select(k, is_in, k_aload(k, to, word, 1), k_number(k, DTYPE_u32, 0)));
    }
}

static KRef fetch_element(const GpuSimt *s, const GpuSide *x, const Vector *at, int64_t i)
{
    Kernel *k = s->k;
    KRef is_in = 0;
    const KRef index = index_at(s, x, k_expr(k, "$ + #", at->line, x->is_along_k ? 0 : i),
                                k_expr(k, "$ + #", at->step, x->is_along_k ? i : 0), &is_in);
    const KRef bits = k_cast(k, k_load(k, x->words, index, 1, 1), DTYPE_u32);
    return k_select(k, is_in, bits, k_number(k, DTYPE_u32, 0));
}

static void fetch_elements(const GpuSimt *s, const GpuSide *x, const Vector *at, KRef to, KRef slot)
{
    Kernel *k = s->k;
    for (int64_t i = 0; i < CHUNK; i += 2) {
        const KRef high = k_shl(k, fetch_element(s, x, at, i + 1), k_integer(k, DTYPE_u32, 16));
        k_astore(k, to, k_expr(k, "$ + #", slot, i / 2), k_or(k, fetch_element(s, x, at, i), high));
    }
}

static KRef open_vectors(const GpuSimt *s, const GpuSide *x)
{
    const int64_t n = x->lines * s->depth / CHUNK;
    rlx_assert(n % GPU_SIMT_THREADS == 0);
    return k_loop(s->k, n / GPU_SIMT_THREADS, KFOR_UNROLL, "e");
}

void gpu_coop_fetch(const GpuSimt *s, const GpuSide *x, KRef from, uint32_t which)
{
    Kernel *k = s->k;
    const KRef e = open_vectors(s, x);
    Vector at = vector_of(s, x, e);
    at.line = k_add(k, x->first, at.line);
    at.step = k_add(k, from, at.step);
    const KRef slot = k_expr(k, "$ * #", e, CHUNK_WORDS);
    if (x->vector == 1)
        fetch_elements(s, x, &at, x->next[which], slot);
    for (int64_t i = 0; x->vector > 1 && i < CHUNK; i += x->vector)
        fetch_part(s, x, &at, i, x->next[which], k_expr(k, "$ + #", slot, i / 2));
    k_end(k);
}

void gpu_coop_put(const GpuSimt *s, const GpuSide *x, uint32_t which)
{
    Kernel *k = s->k;
    const KRef e = open_vectors(s, x);
    const Vector at = vector_of(s, x, e);
    k_device(k, KDEV_coop_share, x->shared, at.word, x->next[which], k_expr(k, "$ * #", e, CHUNK_WORDS));
    k_end(k);
}

// --- sums ----------------------------------------------------------------------------------------

// Number of this thread's subgroup in its team.
static KRef subgroup_of(const GpuSimt *s)
{
    return k_expr(s->k, "$ / #", s->member, SUBGROUP);
}

// First row and column of a subgroup in the tile.
static void place_block(const GpuSimt *s, KRef subgroup, KRef *row, KRef *column)
{
    const GpuCoopBlock own = gpu_coop_block(s->shape);
    *row = k_expr(s->k, "$ % # * #", subgroup, own.down, own.rows * SQUARE);
    *column = k_expr(s->k, "$ / # * #", subgroup, own.down, own.columns * SQUARE);
}

void gpu_coop_clear(const GpuSimt *s)
{
    const GpuCoopBlock own = gpu_coop_block(s->shape);
    k_device(s->k, KDEV_coop_zero, k_index(s->k, 0), k_index(s->k, own.rows * own.columns));
}

// Where the team's part of a side begins, of lines from `first` on, at a step.
static KRef word_at(const GpuSimt *s, const GpuSide *x, KRef first, KRef step)
{
    Kernel *k = s->k;
    const int64_t teams = s->shape.teams;
    const bool is_along_k = x->is_along_k;
    const int64_t lines = teams == 1 ? 0 : is_along_k ? x->lines : s->depth / teams;
    return k_expr(k, "($ * # + $) * # + $ / 2 + #", s->team, lines, is_along_k ? first : step, x->pitch,
                  is_along_k ? step : first, x->offset);
}

void gpu_coop_multiply(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    (void)sums; // subgroups have them
    const GpuCoopBlock own = gpu_coop_block(s->shape);
    KRef row = 0, column = 0;
    place_block(s, subgroup_of(s), &row, &column);
    const int64_t order = (s->a.is_along_k ? 0 : 1) + (s->b.is_along_k ? 0 : 2);
    const KRef step =
        k_for(k, k_index(k, 0), k_index(k, s->depth / s->shape.teams), SQUARE, KFOR_UNROLL, "step");
    const bool is_f16 = lower_node(s->l, s->p->a.id)->dtype == DTYPE_f16;
    k_device(k, is_f16 ? KDEV_coop_product : KDEV_coop_product_bf16, s->a.shared,
             word_at(s, &s->a, row, step), word_at(s, &s->b, column, step), k_index(k, own.rows),
             k_index(k, own.columns), k_index(k, s->a.pitch), k_index(k, s->b.pitch), k_index(k, order),
             k_index(k, 0));
    k_end(k);
}

// --- results -------------------------------------------------------------------------------------

// Squares of each subgroup that are stored at once.
static int64_t round_of(const GpuSimt *s)
{
    const GpuCoopBlock own = gpu_coop_block(s->shape);
    return own.rows * own.columns % MOST_ROUND == 0 ? MOST_ROUND : ROUND;
}

static int64_t squares_of(const GpuSimt *s)
{
    const GpuCoopBlock own = gpu_coop_block(s->shape);
    return own.rows * own.columns;
}

// Where there are no teams, a subgroup stores what it has itself, and waits for nobody.
static void wait_for_squares(const GpuSimt *s)
{
    if (s->shape.teams == 1)
        k_device_with(s->k, KDEV_coop_sync, 0);
    else
        k_barrier(s->k);
}

// Squares from `first` on of each subgroup into shared memory, where slices are until all have read them.
static void put_squares(const GpuSimt *s, int64_t first)
{
    Kernel *k = s->k;
    const int64_t n = round_of(s);
    const KRef place = k_expr(k, "$ / # * #", s->thread, SUBGROUP, n * SQUARE * SQUARE);
    if (first == 0)
        k_barrier(k);
    else
        wait_for_squares(s);
    for (int64_t i = 0; i < n; i++)
        k_device(k, KDEV_coop_put, k_index(k, first + i), s->a.shared,
                 k_expr(k, "$ + #", place, i * SQUARE * SQUARE), k_index(k, SQUARE),
                 k_index(k, gpu_simt_is_by_row(s)));
    wait_for_squares(s);
}

// The sums of all teams, of eight neighbours.
static KRef take_sums(const GpuSimt *s, KRef from)
{
    Kernel *k = s->k;
    const int64_t team_words = gpu_simt_members(s) / SUBGROUP * round_of(s) * SQUARE * SQUARE;
    const KRef sums = k_array(k, DTYPE_f32, CHUNK), part = k_array(k, DTYPE_f32, FOUR);
    for (int64_t i = 0; i < CHUNK; i += FOUR)
        for (int64_t team = 0; team < s->shape.teams; team++) {
            const KRef at = k_expr(k, "$ + #", from, team * team_words + i);
            k_device(k, KDEV_coop_get, team == 0 ? sums : part, k_index(k, team == 0 ? i : 0), s->a.shared,
                     at);
            for (int64_t j = 0; team > 0 && j < FOUR; j++)
                k_astore(
                    k, sums, k_index(k, i + j),
                    k_add(k, k_aload(k, sums, k_index(k, i + j), 1), k_aload(k, part, k_index(k, j), 1)));
        }
    return sums;
}

// Number i of the runs of eight neighbours that squares from `first` on of a team's subgroups have.
static void store_neighbours(const GpuSimt *s, int64_t first, KRef i, KRef sums)
{
    enum { OF_LINE = SQUARE / CHUNK };
    Kernel *k = s->k;
    const GpuCoopBlock own = gpu_coop_block(s->shape);
    GpuSimt out = *s;
    KRef row = 0, column = 0;
    const KRef run = k_expr(k, "$ % #", i, RUNS);
    const KRef square = k_expr(k, "$ / # % # + #", i, RUNS, round_of(s), first);
    const KRef line = k_expr(k, "$ / #", run, OF_LINE), along = k_expr(k, "$ % # * #", run, OF_LINE, CHUNK);
    const bool is_by_row = gpu_simt_is_by_row(s);
    place_block(s, k_expr(k, "$ / #", i, RUNS * round_of(s)), &row, &column);
    out.row = k_expr(k, "$ + $ / # * # + $", row, square, own.columns, SQUARE, is_by_row ? along : line);
    out.column =
        k_expr(k, "$ + $ % # * # + $", column, square, own.columns, SQUARE, is_by_row ? line : along);
    gpu_simt_store(&out, sums);
}

// Opens the loop of a thread over the runs that it stores of a round: of its subgroup, or of all.
static KRef open_runs(const GpuSimt *s)
{
    Kernel *k = s->k;
    const int64_t own = RUNS * round_of(s), all = gpu_simt_members(s) / SUBGROUP * own;
    if (s->shape.teams > 1)
        return k_for(k, s->thread, k_index(k, all), GPU_SIMT_THREADS, KFOR_SERIAL, "run");
    const KRef lane = k_expr(k, "$ % #", s->thread, SUBGROUP);
    const KRef run = k_for(k, lane, k_index(k, own), SUBGROUP, KFOR_SERIAL, "run");
    return k_expr(k, "$ * # + $", subgroup_of(s), own, run);
}

// Number i of the runs of a round, for the group that adds up the parts of all.
static KRef place_of(const GpuSimt *s, int64_t first, KRef i, int64_t four)
{
    const int64_t runs = gpu_simt_members(s) / SUBGROUP * RUNS;
    return k_expr(s->k, "($ + #) * # + #", i, first * runs, CHUNK / FOUR, four);
}

static void store_parts(const GpuSimt *s)
{
    Kernel *k = s->k;
    gpu_parts_open_last(s);
    for (int64_t first = 0; first < squares_of(s); first += round_of(s)) {
        const KRef i = open_runs(s), sums = k_array(k, DTYPE_f32, CHUNK);
        for (int64_t e = 0; e < CHUNK; e += FOUR)
            gpu_parts_get(s, place_of(s, first, i, e / FOUR), sums, e);
        store_neighbours(s, first, i, sums);
        k_end(k);
    }
    k_end(k);
}

void gpu_coop_store(const GpuSimt *s)
{
    Kernel *k = s->k;
    const bool has_parts = s->shape.parts != 0;
    for (int64_t first = 0; first < squares_of(s); first += round_of(s)) {
        put_squares(s, first);
        const KRef i = open_runs(s), sums = take_sums(s, k_expr(k, "$ * #", i, CHUNK));
        for (int64_t e = 0; has_parts && e < CHUNK; e += FOUR)
            gpu_parts_put(s, place_of(s, first, i, e / FOUR), sums, e);
        if (!has_parts)
            store_neighbours(s, first, i, sums);
        k_end(k);
    }
    if (has_parts)
        store_parts(s);
}
