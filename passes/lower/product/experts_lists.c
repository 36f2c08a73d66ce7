// SPDX-License-Identifier: Apache-2.0
// Rows in the order of their experts, in blocks: a kernel of one group counts the rows of each expert and
// lists where they go (GpuGroups).
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_matmul.h"
#include "passes/lower/operand.h"
#include "passes/lower/product/experts.h"

enum {
    TAIL_BLOCKS = 4, // of an expert, so that reading its matrix again costs little
    AHEAD = 8        // rows of which a thread that sorts reads the experts at once
};

// --- how the rows are cut ------------------------------------------------------------------------

ExpertBlocks experts_blocks(const Experts *x)
{
    const bool are_many = 2 * x->rows > 3 * EXPERTS_FEW_ROWS * x->n_experts;
    ExpertBlocks b = {.rows = are_many ? EXPERTS_MANY_ROWS : EXPERTS_FEW_ROWS};
    b.matrices = x->rows < x->n_experts ? x->rows : x->n_experts;
    b.n = (x->rows + b.matrices * (b.rows - 1)) / b.rows;
    b.likely = (x->rows + b.matrices * b.rows / 2 + b.rows - 1) / b.rows;
    b.likely = b.likely < b.n ? b.likely : b.n;
    b.has_tails = b.rows == EXPERTS_MANY_ROWS && x->rows >= TAIL_BLOCKS * EXPERTS_MANY_ROWS * b.matrices;
    return b;
}

static int64_t threads_of_expert(const Experts *x)
{
    int64_t n = 1;
    while (2 * n * x->n_experts <= EXPERTS_MOST)
        n *= 2;
    return n;
}

// --- the lists -----------------------------------------------------------------------------------

typedef struct Sort {
    Lower *l;
    const Experts *x;
    ExpertBlocks blocks;
    int64_t parts;        // threads of an expert
    uint32_t lists;
    KRef expert, part;    // of the thread: it looks at every parts-th row, as its neighbours at the others
    KRef end, jump;       // places from `end` on are so many further on
    KRef counts, totals;  // shared: by thread, by expert
} Sort;

// The expert of a row that counts in this run; *entry: what the lists say of it. A row that does not count is
// of expert -1.
static KRef expert_of(const Sort *s, KRef row, KRef *entry)
{
    Lower *l = s->l;
    Kernel *k = l->k;
    const Experts *x = s->x;
    KRef idx[SHAPE_MAX_RANK] = {0}, is_live = k_integer(k, DTYPE_bool, 1);
    experts_row(l, x, row, idx);
    for (uint32_t i = 0; i + 1 < x->d.rank; i++)
        if (x->d.live[i].size != 0)
            is_live = k_expr(k, "$ & $ < $", is_live, idx[i], lower_live(l, &x->d.live[i], x->d.extent[i]));
    const KRef e = operand_clamped(l, x->index, operand_index(l, x->index, idx), -1, x->n_experts);
    const KRef is_some = k_expr(k, "0 <= $ & $ < #", e, e, x->n_experts);
    *entry = k_select(k, is_some, row, k_expr(k, "# - $", EXPERT_NO_EXPERT, row));
    return k_select(k, is_live, k_select(k, is_some, e, k_index(k, 0)), k_index(k, -1));
}

static void set_entry(const Sort *s, KRef at, KRef v)
{
    k_store(s->l->k, s->lists, at, k_cast(s->l->k, v, DTYPE_i32), 1);
}

// Calls fn for each of the thread's rows that are of its expert. The experts of several are read at once.
static void each_row(const Sort *s, KRef counter, void (*fn)(const Sort *s, KRef counter, KRef entry))
{
    Kernel *k = s->l->k;
    KRef entry[AHEAD], e[AHEAD];
    const KRef end = k_index(k, s->x->rows);
    const KRef first = k_for(k, s->part, end, AHEAD * s->parts, KFOR_SERIAL, "row");
    for (int64_t i = 0; i < AHEAD; i++) {
        const KRef row = k_expr(k, "min($ + #, $ + -1)", first, i * s->parts, end);
        e[i] = k_get(k, k_var(k, expert_of(s, row, &entry[i]), "expert"));
    }
    for (int64_t i = 0; i < AHEAD; i++) {
        k_if(k, k_expr(k, "$ + # < $ & $ == $", first, i * s->parts, end, e[i], s->expert));
        fn(s, counter, entry[i]);
        k_set(k, counter, k_expr(k, "$ + 1", k_get(k, counter)));
        k_end(k);
    }
    k_end(k);
}

static void count_row(const Sort *s, KRef counter, KRef entry)
{
    (void)s, (void)counter, (void)entry;
}

static KRef place_of(const Sort *s, KRef place, KRef jumps)
{
    return k_select(s->l->k, jumps, k_add(s->l->k, place, s->jump), place);
}

static void place_row(const Sort *s, KRef counter, KRef entry)
{
    Kernel *k = s->l->k;
    const KRef place = k_get(k, counter);
    set_entry(s, place_of(s, place, k_expr(k, "$ <= $", s->end, place)), entry);
}

static KRef shared_entry(Kernel *k, KRef array, KRef at)
{
    return k_cast(k, k_aload(k, array, at, 1), KT_INDEX);
}

static void share_counts(const Sort *s, KRef thread)
{
    Kernel *k = s->l->k;
    const KRef counter = k_var(k, k_index(k, 0), "count"), zero = k_index(k, 0);
    each_row(s, counter, count_row);
    k_astore(k, s->counts, thread, k_cast(k, k_get(k, counter), DTYPE_i32));
    k_barrier(k);
    k_if(k, k_expr(k, "$ == 0", s->part));
    k_set(k, counter, zero);
    const KRef i = k_for(k, zero, k_index(k, s->parts), 1, KFOR_SERIAL, "i");
    const KRef of_part = shared_entry(k, s->counts, k_add(k, thread, i));
    k_set(k, counter, k_add(k, k_get(k, counter), of_part));
    k_end(k);
    k_astore(k, s->totals, s->expert, k_cast(k, k_get(k, counter), DTYPE_i32));
    k_end(k);
    k_barrier(k);
}

static KRef block_count(const Sort *s, KRef rows)
{
    return k_expr(s->l->k, "($ + #) / #", rows, s->blocks.rows - 1, s->blocks.rows);
}

// Entries from one place to another, all the same.
static void fill(const Sort *s, KRef from, KRef to, KRef v)
{
    Kernel *k = s->l->k;
    const KRef i = k_for(k, from, to, 1, KFOR_SERIAL, "i");
    set_entry(s, i, v);
    k_end(k);
}

// By block of an expert, of which there are n from `first` on: how they are walked, in strips of about the
// same height.
static void place_strips(const Sort *s, KRef first, KRef n)
{
    Kernel *k = s->l->k;
    const int64_t blocks = s->blocks.n, list = blocks * s->blocks.rows + blocks;
    const KRef strips = k_expr(k, "($ + #) / #", n, GPU_RASTER_ROWS - 1, GPU_RASTER_ROWS);
    const KRef height = k_expr(k, "max(($ + $ + -1) / max($, 1), 1)", n, strips, strips);
    const KRef i = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "i");
    const KRef begin = k_expr(k, "$ / $ * $", i, height, height);
    const KRef place = k_expr(k, "$ + $ + #", first, i, list);
    set_entry(s, place, k_add(k, first, begin));
    set_entry(s, k_expr(k, "$ + #", place, blocks), k_expr(k, "min($, $ - $)", height, n, begin));
    k_end(k);
}

// Blocks without rows, from `first` on.
static void place_no_rows(const Sort *s, KRef first)
{
    Kernel *k = s->l->k;
    const int64_t blocks = s->blocks.n, list = blocks * s->blocks.rows;
    const KRef i = k_for(k, first, k_index(k, blocks), 1, KFOR_SERIAL, "i");
    set_entry(s, k_expr(k, "$ + #", i, list), k_index(k, -1));
    set_entry(s, k_expr(k, "$ + #", i, list + blocks), i);
    set_entry(s, k_expr(k, "$ + #", i, list + 2 * blocks), k_index(k, 1));
    k_end(k);
}

// Where the rows of an expert go: the first of its blocks, their number, and (or 0) the block behind those of
// all experts that has the last of its rows.
typedef struct Stretch {
    KRef first, blocks, tail, has_tail, end; // end: the first block without rows
} Stretch;

// Rows in the last block of an expert that are so few that it comes behind those of all others.
static KRef is_tail(const Sort *s, KRef rows)
{
    Kernel *k = s->l->k;
    const KRef rest = k_expr(k, "$ % #", rows, s->blocks.rows);
    return k_expr(k, "0 < $ & $ <= #", rest, rest, s->blocks.has_tails ? s->blocks.rows / 2 : 0);
}

static Stretch stretch_of(const Sort *s)
{
    Kernel *k = s->l->k;
    const KRef zero = k_index(k, 0), one = k_index(k, 1), all = k_var(k, zero, "all");
    const KRef before = k_var(k, zero, "before"), tails = k_var(k, zero, "tails");
    const KRef tails_before = k_var(k, zero, "tails_before");
    const KRef i = k_for(k, zero, k_index(k, s->x->n_experts), 1, KFOR_SERIAL, "i");
    const KRef rows = shared_entry(k, s->totals, i), tail = k_select(k, is_tail(s, rows), one, zero);
    const KRef blocks = k_sub(k, block_count(s, rows), tail);
    k_if(k, k_lt(k, i, s->expert));
    k_set(k, before, k_add(k, k_get(k, before), blocks));
    k_set(k, tails_before, k_add(k, k_get(k, tails_before), tail));
    k_end(k);
    k_set(k, all, k_add(k, k_get(k, all), blocks));
    k_set(k, tails, k_add(k, k_get(k, tails), tail));
    k_end(k);
    const KRef own = shared_entry(k, s->totals, s->expert);
    Stretch x = {.first = k_get(k, before), .has_tail = is_tail(s, own)};
    x.blocks = k_sub(k, block_count(s, own), k_select(k, x.has_tail, one, zero));
    x.tail = k_add(k, k_get(k, all), k_get(k, tails_before));
    x.end = k_add(k, k_get(k, all), k_get(k, tails));
    return x;
}

// What the expert has beside its rows, of which the last is before `place`: the rest of its last block, the
// lists of blocks.
static void place_blocks(const Sort *s, const Stretch *x, KRef place)
{
    Kernel *k = s->l->k;
    const int64_t rows = s->blocks.rows, m = s->blocks.n * rows;
    const KRef last = k_select(k, x->has_tail, k_expr(k, "$ + 1", x->tail), k_add(k, x->first, x->blocks));
    fill(s, place, k_expr(k, "$ * #", last, rows), k_index(k, EXPERT_NO_ROW));
    const KRef from = k_expr(k, "$ + #", x->first, m);
    fill(s, from, k_add(k, from, x->blocks), s->expert);
    place_strips(s, x->first, x->blocks);
    k_if(k, x->has_tail);
    set_entry(s, k_expr(k, "$ + #", x->tail, m), s->expert);
    place_strips(s, x->tail, k_index(k, 1));
    k_end(k);
    k_if(k, k_expr(k, "$ == #", s->expert, s->x->n_experts - 1));
    place_no_rows(s, x->end);
    k_end(k);
}

// The rows of the thread, and behind the last of them what their expert has beside.
static void place_rows(Sort *s, KRef thread)
{
    Kernel *k = s->l->k;
    const Stretch x = stretch_of(s);
    const KRef place = k_var(k, k_expr(k, "$ * #", x.first, s->blocks.rows), "place");
    const KRef i = k_for(k, k_sub(k, thread, s->part), thread, 1, KFOR_SERIAL, "i");
    k_set(k, place, k_add(k, k_get(k, place), shared_entry(k, s->counts, i)));
    k_end(k);
    s->end = k_expr(k, "($ + $) * #", x.first, x.blocks, s->blocks.rows);
    s->jump = k_expr(k, "($ - ($ + $)) * #", x.tail, x.first, x.blocks, s->blocks.rows);
    each_row(s, place, place_row);
    k_if(k, k_expr(k, "$ == #", s->part, s->parts - 1));
    place_blocks(s, &x, place_of(s, k_get(k, place), x.has_tail));
    k_end(k);
}

void experts_list_rows(Lower *l, const Experts *x, BufId lists)
{
    Kernel *k = l->k;
    Sort s = {.l = l, .x = x, .blocks = experts_blocks(x), .parts = threads_of_expert(x)};
    s.lists = lower_param_buffer(l, lists, DTYPE_i32, PARAM_WRITE);
    k_set_group(k, EXPERTS_MOST);
    s.counts = k_shared(k, DTYPE_i32, EXPERTS_MOST);
    s.totals = k_shared(k, DTYPE_i32, EXPERTS_MOST);
    k_for_group(k, 1, "group");
    k_wait(k);
    const KRef thread = k_thread(k);
    s.expert = k_expr(k, "$ / #", thread, s.parts);
    s.part = k_expr(k, "$ % #", thread, s.parts);
    share_counts(&s, thread);
    k_if(k, k_expr(k, "$ < #", s.expert, x->n_experts));
    place_rows(&s, thread);
    k_end(k);
    k_end(k);
}
