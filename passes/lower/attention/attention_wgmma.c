// SPDX-License-Identifier: Apache-2.0
// Attention of many queries of 16-bit floats with wgmma and a copy engine (sm_90a). Persistent groups take
// tiles of 128 queries of one head from a counter, those with most keys first. One thread has the copy engine
// fill shared memory: queries of this tile and of the next one, two blocks of keys, two of values. Two
// warpgroups have 64 queries each: scores of the next block are multiplied while the values of this one are,
// weights stay in registers. Blocks of keys are walked from the last one on. Groups of GPUs without wgmma go
// over the tiles of attention_mma.c.
#include "passes/lower/attention/attention_wgmma.h"

static uint32_t shared_bytes(const AwKernel *w)
{
    return (uint32_t)(w->q_slots * w->q_bytes + 2 * KV_SLOTS * w->kv_bytes + KV_SLOTS * w->mask.bytes +
                      16 * BAR_COUNT + 1024);
}

// --- rings ---------------------------------------------------------------------------------------

AwRing aw_ring(Kernel *k, int64_t slots, int64_t phase)
{
    rlx_assert(slots == 1 || slots == 2);
    AwRing r = {.slots = slots};
    r.slot = k_var(k, k_index(k, 0), "slot");
    r.phase = k_var(k, k_index(k, phase), "phase");
    return r;
}

void aw_advance(Kernel *k, AwRing r)
{
    if (r.slots == 1) {
        k_set(k, r.phase, k_expr(k, "1 - $", k_get(k, r.phase)));
        return;
    }
    // There are two slots, so the phase changes with every second step.
    k_set(k, r.phase, k_xor(k, k_get(k, r.phase), k_get(k, r.slot)));
    k_set(k, r.slot, k_expr(k, "1 - $", k_get(k, r.slot)));
}

// --- tiles ---------------------------------------------------------------------------------------

Point aw_point(const AwKernel *w, const AwTile *t, KRef query)
{
    rlx_assert(w->a->rank >= 3);
    const uint32_t rank = w->a->rank;
    Point p = {.lanes = 1, .count = 1};
    KRef batch = t->batch;
    for (uint32_t i = rank - 3; i-- > 0;) {
        p.idx[i] = i == 0 ? batch : aw_rest(w->k, batch, w->a->d.extent[i]);
        batch = aw_over(w->k, batch, w->a->d.extent[i]);
    }
    p.idx[rank - 3] = t->head;
    p.idx[rank - 2] = query;
    return p;
}

AwTile aw_tile(const AwKernel *w, KRef number)
{
    Kernel *k = w->k;
    const Attention *a = w->a;
    const AttTile own = attention_tile(w->l, a, number, w->tiles_of_head);
    AwTile t = {0};
    t.batch = aw_over(k, own.head, a->heads);
    t.head = aw_rest(k, own.head, a->heads);
    t.kv_head = aw_over(k, t.head, a->heads / a->kv_heads);
    t.first = k_expr(k, "$ * #", own.i, ROWS);
    const KRef last = k_expr(k, "min($, #)", aw_plus(k, t.first, ROWS - 1), a->queries - 1);
    const KRef begin = attention_row(w->l, a, aw_point(w, &t, t.first)).begin;
    const KRef end = attention_row(w->l, a, aw_point(w, &t, last)).end;
    t.begin = aw_over(k, begin, w->keys);
    const KRef behind = aw_over(k, aw_plus(k, end, w->keys - 1), w->keys);
    t.n = k_expr(k, "max($ - $, 1)", behind, t.begin);
    return t;
}

// --- copies --------------------------------------------------------------------------------------

// Rows from `row` on of a head, by boxes of 64 columns; bytes: of a box.
static void load_boxes(const AwKernel *w, uint32_t map, const KRef *at, const AwTile *t, int64_t bytes)
{
    Kernel *k = w->k;
    const KRef to = at[0], row = at[1], head = at[2], full = at[3];
    const KRef address = k_address(k, map, k_index(k, 0));
    for (int64_t i = 0; i < w->boxes; i++) {
        const KRef x = k_index(k, i * LINE_ELEMENTS), box = aw_plus(k, to, i * bytes);
        if (w->batch > 1)
            k_device(k, KDEV_tma_load_4d, box, address, x, row, head, t->batch, full);
        else
            k_device(k, KDEV_tma_load_3d, box, address, x, row, head, full);
    }
}

static void load_blocks(const AwKernel *w, const AwTile *t, AwRing r)
{
    Kernel *k = w->k;
    const KRef i = k_for(k, k_index(k, 0), t->n, 1, KFOR_SERIAL, "i");
    const KRef number = k_sub(k, aw_plus(k, k_add(k, t->begin, t->n), -1), i);
    const KRef row = k_expr(k, "$ * #", number, w->keys);
    const KRef slot = k_get(k, r.slot), phase = k_get(k, r.phase);
    const struct {
        AwBar empty, full;
        uint32_t map;
        KRef to;
        int64_t more;
    } side[] = {{K_EMPTY, K_FULL, w->map_k, aw_k_slot(w, slot), aw_mask_copied(w)},
                {V_EMPTY, V_FULL, w->map_v, aw_v_slot(w, slot), 0}};
    if (w->a->mask != 0)
        k_device(k, KDEV_bar_wait, aw_bar(w, M_EMPTY, slot), phase);
    for (uint32_t s = 0; s < 2; s++) {
        const KRef full = aw_bar(w, side[s].full, slot);
        k_device(k, KDEV_bar_wait, aw_bar(w, side[s].empty, slot), phase);
        k_device(k, KDEV_bar_expect, full, k_index(k, w->kv_bytes + side[s].more));
        load_boxes(w, side[s].map, (const KRef[4]){side[s].to, row, t->kv_head, full}, t, w->keys * LINE);
        if (s == 0)
            aw_mask_load(w, t, row, slot);
    }
    aw_advance(k, r);
    k_end(k);
}

// The last group leaves the counter as the next run needs it. The number of a tile, -1 behind the last one,
// is published with its queries.
static void end_tiles(const AwKernel *w, KRef number, KRef place, KRef full)
{
    Kernel *k = w->k;
    const KRef zero = k_index(k, 0), one = k_index(k, 1), n_done = k_var(k, zero, "done");
    k_if(k, k_expr(k, "# <= $", w->tiles, number));
    k_device(k, KDEV_shared_put, place, k_index(k, -1));
    k_device(k, KDEV_bar_arrive, full);
    k_device(k, KDEV_take_number, n_done, k_address(k, w->counter, one));
    k_if(k, k_expr(k, "$ == #", k_get(k, n_done), w->groups - 1));
    k_device(k, KDEV_reset_number, k_address(k, w->counter, zero));
    k_device(k, KDEV_reset_number, k_address(k, w->counter, one));
    k_end(k);
    k_device_with(k, KDEV_leave, 0);
    k_end(k);
}

static void produce(const AwKernel *w)
{
    Kernel *k = w->k;
    const AwRing q = aw_ring(k, w->q_slots, 1), kv = aw_ring(k, KV_SLOTS, 1);
    const KRef taken = k_var(k, k_index(k, 0), "taken");
    k_loop(k, w->tiles + 1, KFOR_SERIAL, "round");
    const KRef slot = k_get(k, q.slot), full = aw_bar(w, Q_FULL, slot), place = aw_bar(w, Q_NUMBER, slot);
    k_device(k, KDEV_bar_wait, aw_bar(w, Q_EMPTY, slot), k_get(k, q.phase));
    k_device(k, KDEV_take_number, taken, k_address(k, w->counter, k_index(k, 0)));
    const KRef number = k_get(k, taken);
    end_tiles(w, number, place, full);
    const AwTile t = aw_tile(w, number);
    k_device(k, KDEV_shared_put, place, number);
    k_device(k, KDEV_bar_expect, full, k_index(k, w->q_bytes));
    load_boxes(w, w->map_q, (const KRef[4]){aw_q_slot(w, slot), t.first, t.head, full}, &t, ROWS * LINE);
    load_blocks(w, &t, kv);
    aw_advance(k, q);
    k_end(k);
}

// --- the kernel ----------------------------------------------------------------------------------

static void set_up(AwKernel *w)
{
    Kernel *k = w->k;
    static const uint8_t arrivals[] = {
        [Q_FULL] = 1, [Q_EMPTY] = 2, [K_FULL] = 1, [K_EMPTY] = 2, [V_FULL] = 1, [V_EMPTY] = 2,
        [M_EMPTY] = 2 * WARPGROUP / 32};
    w->shared = k_call(k, KDEV_shared_begin, 0, 0, 0);
    k_if(k, k_expr(k, "$ == 0", w->thread));
    for (uint32_t b = Q_FULL; b < Q_NUMBER; b++)
        for (int64_t i = 0; i < KV_SLOTS; i++)
            k_device(k, KDEV_bar_init, aw_bar(w, (AwBar)b, k_index(k, i)), k_index(k, arrivals[b]));
    for (int64_t i = 0; i < 2; i++)
        k_device(k, KDEV_shared_put, aw_bar(w, SPOILED, k_index(k, i)), k_index(k, 0));
    k_device_with(k, KDEV_bar_init_done, 0);
    k_end(k);
    k_barrier(k);
}

static void emit_wgmma(AwKernel *w)
{
    Kernel *k = w->k;
    set_up(w);
    const KRef warpgroup = aw_over(k, w->thread, WARPGROUP);
    k_if(k, k_expr(k, "$ == 0", warpgroup));
    k_device_with(k, KDEV_registers_down, PRODUCER_REGISTERS);
    k_if(k, k_expr(k, "$ == 0", w->thread));
    produce(w);
    k_end(k);
    k_else(k);
    k_device_with(k, KDEV_registers_up, CONSUMER_REGISTERS);
    aw_consume(w, aw_plus(k, warpgroup, -1));
    k_end(k);
}

// --- what fits -----------------------------------------------------------------------------------

static bool is_map_step(int64_t elements)
{
    return elements > 0 && elements % 8 == 0;
}

// [.., heads, rows, columns] with one stride for all batches.
static bool is_mappable(const AwKernel *w, NodeId id)
{
    const Shape *s = lower_node(w->l, id)->shape;
    const Loc *loc = lower_loc(w->l, id);
    uint32_t n_batches = 0;
    if (lower_node(w->l, id)->dtype != w->type || w->l->strip.n_held > 0 || loc->stride[s->rank - 1] != 1 ||
        loc->offset % 8 != 0 || !lower_can_map(w->l, loc->buf))
        return false;
    for (uint32_t i = 0; i + 1 < s->rank; i++) {
        n_batches += i + 3 < s->rank && s->dim[i] > 1;
        if (s->dim[i] > 1 && !is_map_step(loc->stride[i]))
            return false;
    }
    return n_batches <= 1;
}

static uint32_t map_of(const AwKernel *w, NodeId id, int64_t rows)
{
    const Shape *s = lower_node(w->l, id)->shape;
    const Loc *loc = lower_loc(w->l, id);
    PlanTensorMap m = {.buf = loc->buf,
                       .byte_offset = (uint64_t)loc->offset * 2,
                       .type = w->type,
                       .rank = 3,
                       .box = {LINE_ELEMENTS, (uint32_t)rows, 1},
                       .swizzle = LINE};
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t axis = s->rank - 1 - i;
        m.dim[i] = (uint64_t)s->dim[axis];
        m.stride[i] = s->dim[axis] > 1 ? (uint64_t)loc->stride[axis] * 2 : 16;
    }
    for (uint32_t i = 0; i + 3 < s->rank; i++)
        if (s->dim[i] > 1) {
            m.dim[m.rank] = (uint64_t)s->dim[i];
            m.stride[m.rank] = (uint64_t)loc->stride[i] * 2;
            m.box[m.rank++] = 1;
        }
    return lower_param_map(w->l, &m);
}

static void add_maps(AwKernel *w)
{
    Lower *l = w->l;
    const Attention *a = w->a;
    lower_param(l, a->q, PARAM_READ);
    lower_param(l, a->k, PARAM_READ);
    lower_param(l, a->v, PARAM_READ);
    lower_param(l, l->root, PARAM_WRITE);
    w->map_q = map_of(w, a->q, ROWS);
    w->map_k = map_of(w, a->k, w->keys);
    w->map_v = map_of(w, a->v, w->keys);
    aw_mask_add_map(w);
    w->stores_boxes = l->root == l->anchor && is_mappable(w, l->root);
    if (w->stores_boxes)
        w->map_y = map_of(w, l->root, OWN_ROWS);
    w->counter = lower_param_counter(l, "taken", 2);
}

static bool fits(AwKernel *w)
{
    const Attention *a = w->a;
    const bool is_half = w->type == DTYPE_f16 || w->type == DTYPE_bf16;
    if (!w->l->caps->has_mma || !is_half || a->splits > 0 ||
        a->queries < OWN_ROWS || a->keys < OWN_ROWS || a->size != a->value_size || a->size > MAX_SIZE ||
        attention_live_axes(a) != 0 || !is_mappable(w, a->q) || !is_mappable(w, a->k) ||
        !is_mappable(w, a->v))
        return false;
    w->boxes = ceil_div(a->size, LINE_ELEMENTS);
    w->keys = w->boxes <= 2 ? 128 : 64;
    w->q_bytes = w->boxes * ROWS * LINE;
    w->kv_bytes = w->boxes * w->keys * LINE;
    if (!aw_mask_fits(w))
        return false;
    w->q_slots = 2;
    if (shared_bytes(w) > w->l->caps->gpu->group_shared)
        w->q_slots = 1;
    return shared_bytes(w) <= w->l->caps->gpu->group_shared;
}

bool attention_lower_wgmma(Lower *l, const Attention *a)
{
    Kernel *k = l->k;
    AwKernel w = {.l = l, .k = k, .a = a, .type = (DType)lower_node(l, a->q)->dtype};
    if (!fits(&w))
        return false;
    w.batch = 1;
    for (uint32_t i = 0; i + 3 < a->rank; i++)
        w.batch *= a->d.extent[i];
    w.tiles_of_head = ceil_div(a->queries, ROWS);
    w.tiles = w.batch * a->heads * w.tiles_of_head;
    const int64_t a_group_each = l->caps->gpu->processors;
    w.groups = w.tiles < a_group_each ? w.tiles : a_group_each;
    k_set_group(k, THREADS);
    add_maps(&w);
    k_use_shared(k, shared_bytes(&w));
    const KRef group = k_for_group(k, w.groups, "group");
    w.thread = k_thread(k);
    k_if(k, k_call(k, KDEV_has_wgmma, 0, 0, 0));
    emit_wgmma(&w);
    k_else(k);
    attention_emit_mma(l, a, THREADS, group, w.groups);
    k_ends(k, 2);
    return true;
}
