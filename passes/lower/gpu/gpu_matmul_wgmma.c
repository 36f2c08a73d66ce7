// SPDX-License-Identifier: Apache-2.0
// Products on GPUs with wgmma and a copy engine (sm_90a). One warpgroup has the copy engine fill a ring of
// slots in shared memory, 128 bytes of k of a tile each; the others multiply, 64 rows each, and free a slot
// when the next product has begun. A tile whose k is split is added up by a cluster of groups through their
// shared memory, each of them a part of its columns, in the order of the parts.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_matmul_wgmma.h"

enum {
    PRODUCER_REGISTERS = 40,
    CONSUMER_REGISTERS = 232,
    PRODUCER_OF_TWO = 24, // of two groups of two warpgroups that multiply each, which have 80 to begin with
    CONSUMER_OF_TWO = 104,
    MANY_SUMS = 320, // columns of all who multiply, from where on registers are moved to them
    FLIGHT = 16 // sums of other groups that a thread reads at once
};

static int64_t result_bytes(GpuTile t, bool has_blocks)
{
    return has_blocks ? (int64_t)t.warpgroups * 2 * GPU_BLOCK_BYTES : 0;
}

// Slots, blocks of results, barriers. There are no shared arrays before them, so that they begin where
// shared_begin says.
uint32_t gpu_tile_bytes(GpuTile t, bool has_blocks)
{
    rlx_assert(t.stages > 0 && t.warpgroups > 0);
    const int64_t bytes = gpu_tile_end(t) + result_bytes(t, has_blocks) + t.stages * 16;
    const int64_t of_mma = 2 * (gpu_tile_rows(t) + t.columns) * GPU_ROW_BYTES; // slots of both operands
    return (uint32_t)(t.kept != 0 && bytes < of_mma ? of_mma : bytes);
}

static KRef full_bar(const GpuEmit *e, KRef slot)
{
    const int64_t before = gpu_tile_end(e->tile) + result_bytes(e->tile, gpu_has_blocks(e));
    return k_expr(e->k, "$ * 8 + ($ + #)", slot, e->shared, before);
}

static KRef empty_bar(const GpuEmit *e, KRef slot)
{
    return k_expr(e->k, "$ + #", full_bar(e, slot), 8 * e->tile.stages);
}

// The ring: slot and phase of the barriers, one step on.
typedef struct Ring {
    KRef slot, phase; // variables
} Ring;

static Ring new_ring(const GpuEmit *e, int64_t slot, int64_t phase)
{
    Ring r = {.slot = k_var(e->k, k_index(e->k, slot), "slot")};
    r.phase = k_var(e->k, k_index(e->k, phase), "phase");
    return r;
}

static void advance(const GpuEmit *e, Ring r)
{
    Kernel *k = e->k;
    k_set(k, r.slot, k_expr(k, "$ + 1", k_get(k, r.slot)));
    k_if(k, k_expr(k, "$ == #", k_get(k, r.slot), e->tile.stages));
    k_set(k, r.slot, k_index(k, 0));
    k_set(k, r.phase, k_expr(k, "1 - $", k_get(k, r.phase)));
    k_end(k);
}

// rows of an operand from `first` on, k from `step` on, to address `to`.
static void load_rows(const GpuEmit *e, const GpuMatrix *x, uint32_t map, const KRef *at, int64_t rows,
                      const GpuPlace *place)
{
    Kernel *k = e->k;
    const KRef to = at[0], step = at[1], first = at[2], bar = at[3];
    if (x->k == 1) {
        gpu_tile_move(e, x, map, (const KRef[4]){to, step, first, bar}, place);
        return;
    }
    for (int64_t i = 0; i < rows / GPU_BLOCK_ROWS; i++)
        gpu_tile_move(e, x, map,
                 (const KRef[4]){k_expr(k, "$ + #", to, i * GPU_BLOCK_BYTES),
                                 k_expr(k, "$ + #", first, i * GPU_BLOCK_ROWS), step, bar},
                 place);
}

// The steps of k of this part: from `first` on.
typedef struct Part {
    KRef first, count;
} Part;

static Part part_of(const GpuEmit *e)
{
    Kernel *k = e->k;
    const int64_t steps = ceil_div(e->steps, e->tile.splits);
    Part p = {.first = k_expr(k, "$ * #", e->rank, steps), .count = k_index(k, steps)};
    if (e->steps % e->tile.splits != 0)
        p.count = k_expr(k, "min($, # - $)", p.count, e->steps, p.first);
    return p;
}

static KRef open_steps(const GpuEmit *e, KRef from)
{
    return k_for(e->k, from, part_of(e).count, 1, KFOR_SERIAL, "step");
}

static KRef place_in_k(const GpuEmit *e, KRef step)
{
    return k_expr(e->k, "($ + $) * #", part_of(e).first, step, gpu_tile_k(e->p));
}

static int64_t loaded_bytes(const GpuEmit *e)
{
    return (e->box_rows + e->tile.columns) * GPU_ROW_BYTES;
}

static KRef slot_address(const GpuEmit *e, KRef slot)
{
    return k_expr(e->k, "$ * # + ($ + #)", slot, gpu_tile_slot(e->tile), e->shared,
                  gpu_tile_first_slot(e->tile));
}

// Of B, at a step of k.
static KRef b_address(const GpuEmit *e, KRef slot, KRef step)
{
    if (e->tile.kept != 0)
        return k_expr(e->k, "$ * # + $", step, e->tile.columns * GPU_ROW_BYTES, e->shared);
    return k_expr(e->k, "$ + #", slot_address(e, slot), e->rows * GPU_ROW_BYTES);
}

static void load_a(const GpuEmit *e, const GpuPlace *at, KRef slot, KRef step)
{
    if (e->p->image != NULL) {
        const GpuPixel pixel = gpu_image_pixel(e, at->batch, at->m);
        gpu_image_load(e, &pixel, slot_address(e, slot), place_in_k(e, step), full_bar(e, slot));
        return;
    }
    load_rows(e, &e->p->a, e->map_a,
              (const KRef[4]){slot_address(e, slot), place_in_k(e, step), at->m, full_bar(e, slot)},
              e->rows, at);
}

static void load_b(const GpuEmit *e, const GpuPlace *at, KRef slot, KRef step)
{
    Kernel *k = e->k;
    const int64_t columns = e->columns / e->tile.pair;
    KRef to = b_address(e, slot, step), first = at->n;
    if (e->tile.pair > 1) {
        to = k_expr(k, "$ * # + $", e->half, columns * GPU_ROW_BYTES, to);
        first = k_expr(k, "$ * # + $", e->half, columns, first);
    }
    load_rows(e, &e->p->b, e->map_b,
              (const KRef[4]){to, place_in_k(e, step), first, full_bar(e, slot)}, columns, at);
    if (e->p->second == NULL)
        return;
    to = k_expr(k, "$ + #", to, columns * GPU_ROW_BYTES);
    load_rows(e, &e->p->second->b, e->map_second,
              (const KRef[4]){to, place_in_k(e, step), first, full_bar(e, slot)}, columns, at);
}

// Weights do not depend on the kernels before: as many steps of them as there are slots are on their way
// before this one waits. Returns their number.
static int64_t begin_weights(const GpuEmit *e)
{
    Kernel *k = e->k;
    const OpId op = (OpId)lower_node(e->l, e->p->b.id)->op;
    const int64_t part = ceil_div(e->steps, e->tile.splits), last = e->steps - (e->tile.splits - 1) * part;
    const int64_t n = last < e->tile.stages ? last : e->tile.stages;
    if (e->p->groups != NULL || (op != OP_param && op != OP_const)) {
        k_wait(k);
        return 0;
    }
    const GpuPlace at = gpu_tile_place(e, e->group);
    for (uint32_t is_a = 0; is_a < 2; is_a++) {
        const KRef slot = k_loop(k, n, KFOR_SERIAL, "slot");
        if (is_a == 0)
            k_device(k, KDEV_bar_expect, full_bar(e, slot), k_index(k, loaded_bytes(e)));
        if (is_a == 0)
            load_b(e, &at, slot, slot);
        else
            load_a(e, &at, slot, slot);
        k_end(k);
        if (is_a == 0)
            k_wait(k);
    }
    return n;
}

static void produce(const GpuEmit *e)
{
    Kernel *k = e->k;
    const int64_t begun = begin_weights(e);
    const bool is_full = begun == e->tile.stages;
    const Ring r = new_ring(e, is_full ? 0 : begun, is_full ? 0 : 1);
    const KRef begin = k_var(k, k_index(k, begun), "begin");
    const KRef tile = gpu_tile_open(e);
    const GpuPlace at = gpu_tile_place(e, tile);
    const KRef step = open_steps(e, k_get(k, begin)), slot = k_get(k, r.slot);
    KRef bytes = k_index(k, loaded_bytes(e));
    const KRef has_b = e->tile.kept != 0 ? k_eq(k, tile, e->group) : 0; // 0: always
    if (has_b != 0)
        bytes = k_select(k, has_b, bytes, k_index(k, e->box_rows * GPU_ROW_BYTES));
    k_device(k, KDEV_bar_wait, empty_bar(e, slot), k_get(k, r.phase));
    k_device(k, KDEV_bar_expect, full_bar(e, slot), bytes);
    load_a(e, &at, slot, step);
    if (has_b != 0)
        k_if(k, has_b);
    load_b(e, &at, slot, step);
    if (has_b != 0)
        k_end(k);
    advance(e, r);
    k_end(k);
    k_set(k, begin, k_index(k, 0));
    gpu_tile_close(e);
}

static KRef desc_step(Kernel *k, KRef desc, bool is_mn, int64_t i)
{
    // A product's steps of k are 32 bytes of a row, or 16 rows; addresses count 16 bytes.
    const int64_t by = i * (is_mn ? 16 * GPU_ROW_BYTES : 32) / 16;
    return by == 0 ? desc : k_add(k, desc, k_integer(k, DTYPE_u64, by));
}

static KRef desc_of(const GpuEmit *e, const GpuMatrix *x, KRef at)
{
    const int64_t lead = x->k == 1 ? 16 : GPU_BLOCK_BYTES;
    return k_call(e->k, KDEV_wgmma_desc, at, k_index(e->k, lead), k_index(e->k, 1024));
}

// 64 rows of A.
static KRef desc_of_a(const GpuEmit *e, KRef slot, KRef block)
{
    if (gpu_row_width(e->p) < gpu_tile_k(e->p))
        return gpu_image_desc(e, slot, block);
    return desc_of(e, &e->p->a, k_expr(e->k, "$ * # + $", block, GPU_BLOCK_BYTES, slot));
}

static KRef a_step(const GpuEmit *e, KRef desc, int64_t i)
{
    return gpu_row_width(e->p) < gpu_tile_k(e->p) ? gpu_image_step(e, desc, i)
                                            : desc_step(e->k, desc, e->p->a.k != 1, i);
}

// One thread of each warpgroup frees the slot before this one.
static void free_slot_before(const GpuEmit *e, Ring r, KRef is_first_thread)
{
    Kernel *k = e->k;
    const KRef slot = k_get(k, r.slot), none = k_index(k, 0);
    const KRef before =
        k_select(k, k_eq(k, slot, none), k_index(k, e->tile.stages - 1), k_expr(k, "$ + -1", slot));
    k_if(k, is_first_thread);
    k_device(k, KDEV_bar_arrive, empty_bar(e, before));
    if (e->tile.pair > 1) {
        const KRef other = k_expr(k, "$ * 2 + 1 - $", e->rank, e->half);
        k_device(k, KDEV_bar_arrive_at, empty_bar(e, before), other);
    }
    k_end(k);
}

// The products of a slot, which run by themselves. step: of k, and adds: the first of them, to the sums.
static void begin_products(const GpuEmit *e, Ring r, KRef sums, KRef block, const KRef *step)
{
    Kernel *k = e->k;
    const GpuMatmul *p = e->p;
    const KWgmma w = {
        .type = gpu_matmul_type(p), .b_type = gpu_matmul_b_type(p), .n = e->tile.columns,
        .a_is_mn = p->a.k != 1, .b_is_mn = p->b.k != 1};
    const KRef slot = k_get(k, r.slot), at = slot_address(e, slot), yes = k_integer(k, DTYPE_bool, 1);
    k_device(k, KDEV_bar_wait, full_bar(e, slot), k_get(k, r.phase));
    const KRef a = desc_of_a(e, at, block);
    const KRef b = desc_of(e, &p->b, b_address(e, slot, step[0]));
    k_device_with(k, KDEV_wgmma_fence, 0);
    for (int64_t i = 0; i < GPU_ROW_BYTES / GPU_UNIT_BYTES_K; i++)
        k_wgmma(k, w, sums, a_step(e, a, i), desc_step(k, b, w.b_is_mn, i), i == 0 ? step[1] : yes);
    k_device_with(k, KDEV_wgmma_commit, 0);
}

// Slot by slot, each with sums of its own, which are added up in f32.
static void multiply_by_slots(const GpuEmit *e, Ring r, KRef sums, KRef block, KRef is_first_thread)
{
    Kernel *k = e->k;
    const KRef own = k_array(k, e->sum, e->tile.columns / 2);
    gpu_tile_clear(e, sums);
    const KRef step = open_steps(e, k_index(k, 0));
    begin_products(e, r, own, block, (const KRef[2]){step, k_integer(k, DTYPE_bool, 0)});
    k_device_with(k, KDEV_wgmma_wait, 0);
    advance(e, r);
    free_slot_before(e, r, is_first_thread);
    gpu_tile_add(e, sums, own);
    k_end(k);
}

static void multiply_slot(const GpuEmit *e, Ring r, KRef sums, KRef block, KRef is_first_thread)
{
    Kernel *k = e->k;
    if (e->p->by_slots) {
        multiply_by_slots(e, r, sums, block, is_first_thread);
        return;
    }
    const KRef step = open_steps(e, k_index(k, 0)), is_later = k_expr(k, "0 < $", step);
    begin_products(e, r, sums, block, (const KRef[2]){step, is_later});
    k_device_with(k, KDEV_wgmma_wait, 1);
    k_if(k, is_later);
    free_slot_before(e, r, is_first_thread);
    k_end(k);
    advance(e, r);
    k_end(k);
    k_device_with(k, KDEV_wgmma_wait, 0);
    free_slot_before(e, r, is_first_thread);
}

// --- sums of parts of k --------------------------------------------------------------------------

static bool has_words(const GpuEmit *e)
{
    return e->sum == DTYPE_u32;
}

// How many of a thread's sums, by four, one group of a cluster adds up.
static int64_t share_of(const GpuEmit *e)
{
    return e->tile.columns / 8 / e->tile.splits;
}

// Where a group of a cluster has what all parts of k give to its share of the sums, by four of a thread.
static KRef part_address(const GpuEmit *e, KRef part, KRef four, KRef consumer)
{
    const int64_t consumers = GPU_WARPGROUP * e->tile.warpgroups, share = share_of(e);
    const KRef number = k_expr(e->k, "$ * # + $", part, share, four);
    return k_expr(e->k, "$ * # + ($ * 16 + $)", number, consumers * 16, consumer, e->shared);
}

// Sums of this part of k go to those who add them up.
static void put_part(const GpuEmit *e, KRef consumer, KRef sums)
{
    Kernel *k = e->k;
    const int64_t share = share_of(e);
    for (int64_t n = 0; n < share * e->tile.splits; n++) {
        const KRef to = part_address(e, e->rank, k_index(k, n % share), consumer);
        const int64_t group = n / share * e->tile.pair;
        k_device(k, has_words(e) ? KDEV_cluster_put_words : KDEV_cluster_put4, to,
                 e->tile.pair > 1 ? k_expr(k, "$ + #", e->half, group) : k_index(k, group), sums,
                 k_index(k, n * 4));
    }
}

// Each group of the cluster adds up its share of the columns, some at a time: their reads are under way
// before the first sum.
static void add_parts(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef consumer)
{
    Kernel *k = e->k;
    const int64_t splits = e->tile.splits, share = share_of(e);
    const int64_t least = has_words(e) ? GPU_BYTE_FOURS : 1;
    int64_t turns = FLIGHT / (splits * 4) > least ? FLIGHT / (splits * 4) : least;
    while (share % turns != 0)
        turns--;
    const KRef zero = k_index(k, 0);
    const KRef round = k_for(k, zero, k_index(k, share / turns), 1, KFOR_SERIAL, "round");
    const KRef parts = k_array(k, e->sum, turns * splits * 4), sums = k_array(k, e->sum, turns * 4);
    const KRef four = k_expr(k, "$ * #", round, turns);
    const KDevice get = has_words(e) ? KDEV_shared_get_words : KDEV_shared_get4;
    KRef i = k_for(k, zero, k_index(k, turns), 1, KFOR_UNROLL, "i");
    for (int64_t s = 0; s < splits; s++)
        k_device(k, get, parts, k_expr(k, "$ * # + #", i, splits * 4, s * 4),
                 part_address(e, k_index(k, s), k_add(k, four, i), consumer));
    k_end(k);
    i = k_for(k, zero, k_index(k, turns), 1, KFOR_UNROLL, "i");
    for (int64_t n = 0; n < 4; n++) {
        KRef sum = 0;
        for (int64_t s = 0; s < splits; s++) {
            const KRef part = k_aload(k, parts, k_expr(k, "$ * # + #", i, splits * 4, s * 4 + n), 1);
            sum = s == 0 ? part : k_add(k, sum, part);
        }
        k_astore(k, sums, k_expr(k, "$ * 4 + #", i, n), sum);
    }
    k_end(k);
    const KRef number = k_expr(k, "$ * # + $", e->rank, share, four);
    gpu_store_fours(e, at, &(GpuFours){f->row, k_expr(k, "$ * 8", number), f->column, sums, zero, turns});
    k_end(k);
}

// --- the kernel ----------------------------------------------------------------------------------

static void set_up(GpuEmit *e)
{
    Kernel *k = e->k;
    e->shared = k_call(k, KDEV_shared_begin, 0, 0, 0);
    k_if(k, k_expr(k, "$ == 0", e->thread));
    const KRef i = k_loop(k, e->tile.stages, KFOR_UNROLL, "slot");
    k_device(k, KDEV_bar_init, full_bar(e, i), k_index(k, 1));
    k_device(k, KDEV_bar_init, empty_bar(e, i), k_index(k, e->tile.warpgroups * e->tile.pair));
    k_end(k);
    k_device_with(k, KDEV_bar_init_done, 0);
    k_end(k);
    if (e->tile.pair > 1)
        k_device_with(k, KDEV_cluster_sync, 0);
    else
        k_barrier(k);
}

// One tile in k parts: not a loop over tiles.
static void consume_part(const GpuEmit *e, KRef consumer, KRef own, KRef block, KRef sums)
{
    Kernel *k = e->k;
    multiply_slot(e, new_ring(e, 0, 0), sums, block, k_expr(k, "$ == 0", own));
    k_device_with(k, KDEV_cluster_sync, 0); // nobody needs its slots
    put_part(e, consumer, sums);
    k_device_with(k, KDEV_cluster_sync, 0);
    const GpuPlace at = gpu_tile_place(e, e->group);
    const GpuFragment f = gpu_fragment_of(e, own, block);
    add_parts(e, &at, &f, consumer);
}

// Slots are freed as they come, by a warpgroup that has no rows in the tile. Its threads go together, so that
// none waits for a phase that is over.
static void pass_slots(const GpuEmit *e, Ring r, KRef block, KRef is_first_thread)
{
    Kernel *k = e->k;
    open_steps(e, k_index(k, 0));
    const KRef slot = k_get(k, r.slot);
    k_device(k, KDEV_bar_wait, full_bar(e, slot), k_get(k, r.phase));
    k_device(k, KDEV_named_sync, k_expr(k, "$ + 1", block), k_index(k, GPU_WARPGROUP));
    k_if(k, is_first_thread);
    k_device(k, KDEV_bar_arrive, empty_bar(e, slot));
    k_end(k);
    advance(e, r);
    k_end(k);
}

static void consume(const GpuEmit *e, KRef own, KRef block, KRef sums)
{
    Kernel *k = e->k;
    const Ring r = new_ring(e, 0, 0);
    const GpuFragment f = gpu_fragment_of(e, own, block);
    const KRef is_first = k_expr(k, "$ == 0", own);
    const GpuPlace at = gpu_tile_place(e, gpu_tile_open(e));
    GpuEmit known = *e;
    const bool may_pass = e->p->groups != NULL && e->tile.warpgroups > 1;
    if (may_pass)
        k_if(k, gpu_group_has_rows(e->p, k_expr(k, "$ + $ * #", at.m, block, GPU_BLOCK_ROWS)));
    if (e->stores_pieces)
        known.entries = gpu_piece_entries(e, &at, &f, block);
    multiply_slot(e, r, sums, block, is_first);
    gpu_store_sums(&known, &at, &f, (const KRef[2]){own, block}, sums);
    if (may_pass) {
        k_else(k);
        pass_slots(e, r, block, is_first);
        k_end(k);
    }
    gpu_tile_close(e);
    if (e->stores_boxes) {
        k_if(k, is_first);
        k_device_with(k, KDEV_bulk_wait, 0);
        k_end(k);
    }
}

void gpu_matmul_wgmma(GpuEmit *e)
{
    Kernel *k = e->k;
    const int64_t sums_of_all = e->tile.warpgroups * e->tile.columns * (e->p->by_slots ? 2 : 1);
    const bool is_of_two = e->tile.warpgroups > 1 && k->places > 1;
    const bool moves_registers = sums_of_all > MANY_SUMS || is_of_two;
    set_up(e);
    const KRef warpgroup = k_expr(k, "$ / #", e->thread, GPU_WARPGROUP);
    const KRef own = k_expr(k, "$ % #", e->thread, GPU_WARPGROUP);
    const KRef is_producer = k_expr(k, "$ == 0", warpgroup);
    k_if(k, is_producer);
    if (moves_registers)
        k_device_with(k, KDEV_registers_down, is_of_two ? PRODUCER_OF_TWO : PRODUCER_REGISTERS);
    k_if(k, k_expr(k, "$ == 0", e->thread));
    produce(e);
    k_end(k);
    for (int64_t i = 0; i < 2 && e->tile.splits > 1; i++) // as those who multiply
        k_device_with(k, KDEV_cluster_sync, 0);
    k_else(k);
    if (moves_registers)
        k_device_with(k, KDEV_registers_up, is_of_two ? CONSUMER_OF_TWO : CONSUMER_REGISTERS);
    k_wait(k);
    gpu_tile_begin(e);
    const KRef sums = k_array(k, e->sum, e->tile.columns / 2);
    const KRef block = k_expr(k, "$ + -1", warpgroup);
    if (e->tile.splits > 1)
        consume_part(e, k_expr(k, "$ + #", e->thread, -GPU_WARPGROUP), own, block, sums);
    else
        consume(e, own, block, sums);
    k_end(k);
    if (e->tile.splits == 1 && e->tile.pair > 1) // nobody's memory may end before all have read it
        k_device_with(k, KDEV_cluster_sync, 0);
}
