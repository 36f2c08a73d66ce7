// SPDX-License-Identifier: Apache-2.0
// A warpgroup of attention_wgmma.c that multiplies: 64 queries of a tile against all blocks of keys. Scores
// become weights in the registers that they were summed up in; these are laid out as the operand of the
// product with the values. While that is computed, so are the scores of the next block.
#include "passes/lower/attention/attention_wgmma.h"

typedef struct Own {
    KRef number, thread, lane, warp, is_first; // of the warpgroup; its thread 0
    KRef weights;                              // array
    AttWarp x;
    AwRing q, kv;
    AwTile t;
} Own;

static void arrive(const AwKernel *w, const Own *o, KRef at)
{
    k_if(w->k, o->is_first);
    k_device(w->k, KDEV_bar_arrive, at);
    k_end(w->k);
}

// Named barriers: those of the warpgroups are 1 and 2.
enum { BOTH = 3 };

static void sync_warpgroup(const AwKernel *w, const Own *o)
{
    k_device(w->k, KDEV_named_sync, aw_plus(w->k, o->number, 1), k_index(w->k, WARPGROUP));
}

static KRef desc_at(Kernel *k, KRef desc, int64_t bytes)
{
    return bytes == 0 ? desc : k_add(k, desc, k_integer(k, DTYPE_u64, bytes / 16));
}

static void multiply_keys(const AwKernel *w, const Own *o, KRef q_slot_number, KRef slot)
{
    Kernel *k = w->k;
    const KWgmma form = {.type = w->type, .n = w->keys};
    const KRef line = k_index(k, 16), eight = k_index(k, 8 * LINE);
    const KRef own = k_expr(k, "$ * # + $", o->number, OWN_ROWS * LINE, aw_q_slot(w, q_slot_number));
    const KRef q = k_call(k, KDEV_wgmma_desc, own, line, eight),
               keys = k_call(k, KDEV_wgmma_desc, aw_k_slot(w, slot), line, eight);
    k_device_with(k, KDEV_wgmma_fence, 0);
    for (int64_t i = 0; i < w->boxes * 4; i++) {
        const int64_t step = i % 4 * 32;
        k_wgmma(k, form, o->x.scores, desc_at(k, q, i / 4 * ROWS * LINE + step),
                desc_at(k, keys, i / 4 * w->keys * LINE + step), k_integer(k, DTYPE_bool, i > 0));
    }
    k_device_with(k, KDEV_wgmma_commit, 0);
}

static void multiply_values(const AwKernel *w, const Own *o, KRef slot, KRef adds)
{
    Kernel *k = w->k;
    const KWgmma form = {.type = w->type, .n = w->boxes * LINE_ELEMENTS, .b_is_mn = true};
    const KRef values =
        k_call(k, KDEV_wgmma_desc, aw_v_slot(w, slot), k_index(k, w->keys * LINE), k_index(k, 8 * LINE));
    for (int64_t i = 0; i < w->keys / 16; i++)
        k_wgmma_r(k, form, o->x.mix, o->weights, k_index(k, 4 * i), desc_at(k, values, i * 16 * LINE),
                  i > 0 ? k_integer(k, DTYPE_bool, 1) : adds);
    k_device_with(k, KDEV_wgmma_commit, 0);
}

// Only where the warpgroup's first row, which sees least, or last row ends inside of the block.
static void hide_some(const AwKernel *w, const Own *o, KRef number)
{
    Kernel *k = w->k;
    const Attention *a = w->a;
    const KRef begin = k_expr(k, "$ * #", number, w->keys), end = aw_plus(k, begin, w->keys);
    const KRef first = k_expr(k, "$ * # + $", o->number, OWN_ROWS, o->t.first);
    const KRef last = aw_plus(k, first, OWN_ROWS - 1);
    const KRef least = attention_row(w->l, a, aw_point(w, &o->t, first)).end;
    KRef is_cut = k_lt(k, least, end);
    if (a->left >= 0) {
        const KRef most = attention_row(w->l, a, aw_point(w, &o->t, last)).begin;
        is_cut = k_expr(k, "$ | $ < $", is_cut, begin, most);
    }
    attention_warp_hide(&o->x, begin, is_cut);
}

// Every warp says that it has read its masks.
static void score(const AwKernel *w, const Own *o)
{
    Kernel *k = w->k;
    if (w->a->mask == 0) {
        attention_warp_score(&o->x, 0, NULL, NULL);
        return;
    }
    const KRef slot = k_get(k, o->kv.slot), first = k_expr(k, "$ * #", o->number, OWN_ROWS);
    const AwMaskPlace at = {
        .w = w, .row = k_expr(k, "$ * 16 + $", o->warp, first), .slot = aw_mask_slot(w, slot)};
    attention_warp_score(&o->x, 0, aw_mask_read, &at);
    k_device_with(k, KDEV_warp_sync, 0);
    k_if(k, k_expr(k, "$ == 0", o->lane));
    k_device(k, KDEV_bar_arrive, aw_bar(w, M_EMPTY, slot));
    k_end(k);
}

static void weigh(const AwKernel *w, const Own *o, KRef number)
{
    score(w, o);
    hide_some(w, o, number);
    attention_warp_weigh(&o->x);
}

// The sums of a product are laid out as its operand a is.
static void pack_weights(const AwKernel *w, const Own *o)
{
    Kernel *k = w->k;
    const KRef i = k_loop(k, w->keys / 4, KFOR_UNROLL, "i");
    const KRef at = k_expr(k, "$ * 2", i);
    const KRef low = k_aload(k, o->x.scores, at, 1), high = k_aload(k, o->x.scores, aw_plus(k, at, 1), 1);
    k_astore(k, o->weights, i, attention_warp_pack(k, w->type, low, high));
    k_end(k);
}

// Values behind the live ones may be anything: 0 in the only block that has some. Both warpgroups read it, so
// that each clears a half, and neither goes on before the other.
static void clear_dead_values(const AwKernel *w, const Own *o, KRef number)
{
    Kernel *k = w->k;
    const KRef slot = k_get(k, o->kv.slot), zeros = k_array(k, DTYPE_f32, 4), none = k_index(k, 0);
    const KRef live = k_expr(k, "$ - $ * #", w->a->live, number, w->keys);
    const KRef dead = k_max(k, live, none);
    k_if(k, k_expr(k, "$ < #", live, w->keys));
    for (int64_t i = 0; i < 4; i++)
        k_astore(k, zeros, k_index(k, i), k_number(k, DTYPE_f32, 0));
    k_device(k, KDEV_bar_wait, aw_bar(w, V_FULL, slot), k_get(k, o->kv.phase));
    const KRef n = k_expr(k, "(# - $) * #", w->keys, dead, LINE / 16);
    const KRef consumer = k_expr(k, "$ * # + $", o->number, WARPGROUP, o->thread);
    const KRef i = k_for(k, consumer, n, 2 * WARPGROUP, KFOR_SERIAL, "i");
    const KRef at = k_expr(k, "$ * 16 + ($ * # + $)", i, dead, LINE, aw_v_slot(w, slot));
    for (int64_t b = 0; b < w->boxes; b++)
        k_device(k, KDEV_shared_put4, aw_plus(k, at, b * w->keys * LINE), zeros, none);
    k_end(k);
    k_device_with(k, KDEV_proxy_fence, 0);
    k_device(k, KDEV_named_sync, k_index(k, BOTH), k_index(k, 2 * WARPGROUP));
    k_end(k);
}

static void multiply_blocks(const AwKernel *w, const Own *o, KRef q_slot_number)
{
    Kernel *k = w->k;
    const KRef last = aw_plus(k, k_add(k, o->t.begin, o->t.n), -1);
    KRef slot = k_get(k, o->kv.slot);
    k_device(k, KDEV_bar_wait, aw_bar(w, K_FULL, slot), k_get(k, o->kv.phase));
    multiply_keys(w, o, q_slot_number, slot);
    k_device_with(k, KDEV_wgmma_wait, 0);
    arrive(w, o, aw_bar(w, K_EMPTY, slot));
    weigh(w, o, last);
    pack_weights(w, o);
    if (w->a->has_live)
        clear_dead_values(w, o, last);
    const KRef i = k_for(k, k_index(k, 1), o->t.n, 1, KFOR_SERIAL, "i");
    const KRef before = k_get(k, o->kv.slot), phase = k_get(k, o->kv.phase);
    aw_advance(k, o->kv);
    slot = k_get(k, o->kv.slot);
    k_device(k, KDEV_bar_wait, aw_bar(w, K_FULL, slot), k_get(k, o->kv.phase));
    multiply_keys(w, o, q_slot_number, slot);
    k_device(k, KDEV_bar_wait, aw_bar(w, V_FULL, before), phase);
    k_device_with(k, KDEV_wgmma_fence, 0);
    multiply_values(w, o, before, k_expr(k, "1 < $", i));
    k_device_with(k, KDEV_wgmma_wait, 1);
    arrive(w, o, aw_bar(w, K_EMPTY, slot));
    weigh(w, o, k_sub(k, last, i));
    k_device_with(k, KDEV_wgmma_wait, 0);
    arrive(w, o, aw_bar(w, V_EMPTY, before));
    attention_warp_rescale(&o->x);
    pack_weights(w, o);
    k_end(k);
    slot = k_get(k, o->kv.slot);
    k_device(k, KDEV_bar_wait, aw_bar(w, V_FULL, slot), k_get(k, o->kv.phase));
    k_device_with(k, KDEV_wgmma_fence, 0);
    multiply_values(w, o, slot, k_expr(k, "1 < $", o->t.n));
    for (int64_t h = 0; h < 2; h++)
        k_set(k, o->x.sum[h], k_team(k, KOP_add, k_get(k, o->x.sum[h]), 4));
    k_device_with(k, KDEV_wgmma_wait, 0);
    arrive(w, o, aw_bar(w, V_EMPTY, slot));
    aw_advance(k, o->kv);
}

// --- results -------------------------------------------------------------------------------------

// Through the tile's own queries, which nobody reads any more, in the order that the copy engine reads.
static void put_boxes(const AwKernel *w, const Own *o, KRef slot)
{
    Kernel *k = w->k;
    const KRef factor[2] = {attention_warp_factor(&o->x, 0), attention_warp_factor(&o->x, 1)};
    const KRef own = k_expr(k, "$ * # + $", o->number, OWN_ROWS * LINE, aw_q_slot(w, slot));
    const KRef low = aw_rest(k, o->lane, 8), half = aw_rest(k, aw_over(k, o->lane, 8), 2);
    const KRef line = k_expr(k, "$ * 16 + ($ * 8 + $)", o->warp, half, low);
    const KRef j = k_loop(k, w->boxes * 4, KFOR_UNROLL, "j");
    KRef word[4];
    for (int64_t i = 0; i < 4; i++) {
        KRef v[2];
        for (int64_t e = 0; e < 2; e++) {
            const KRef at = aw_plus(k, k_expr(k, "$ * 8", j), 2 * i + e);
            const KRef y = k_mul(k, k_aload(k, o->x.mix, at, 1), factor[i % 2]);
            v[e] = attention_guarded(w->l, w->a, y, factor[i % 2]);
        }
        word[i] = attention_warp_pack(k, w->type, v[0], v[1]);
    }
    const KRef column = k_expr(k, "$ * 2 + $", aw_rest(k, j, 4), aw_over(k, o->lane, 16));
    const KRef part = k_xor(k, column, low);
    const KRef box = k_expr(k, "$ * # + $", aw_over(k, j, 4), ROWS * LINE, own);
    k_device(k, KDEV_stmatrix4, k_expr(k, "$ * # + ($ * 16 + $)", line, LINE, part, box), word[0], word[1],
             word[2], word[3]);
    k_end(k);
    k_device_with(k, KDEV_proxy_fence, 0);
}

static void send_boxes(const AwKernel *w, const Own *o, KRef slot)
{
    Kernel *k = w->k;
    const KRef own = k_expr(k, "$ * # + $", o->number, OWN_ROWS * LINE, aw_q_slot(w, slot));
    const KRef first = k_expr(k, "$ * # + $", o->number, OWN_ROWS, o->t.first);
    const KRef address = k_address(k, w->map_y, k_index(k, 0));
    k_if(k, o->is_first);
    for (int64_t i = 0; i < w->boxes; i++) {
        const KRef x = k_index(k, i * LINE_ELEMENTS), from = aw_plus(k, own, i * ROWS * LINE);
        if (w->batch > 1)
            k_device(k, KDEV_tma_store_4d, address, from, x, first, o->t.head, o->t.batch);
        else
            k_device(k, KDEV_tma_store_3d, address, from, x, first, o->t.head);
    }
    k_device_with(k, KDEV_bulk_commit, 0);
    k_device_with(k, KDEV_bulk_wait_read, 0);
    k_end(k);
}

// Sums that are not finite: a value that some row does not see may have been infinite or NaN.
static void note_spoiled(const AwKernel *w, const Own *o)
{
    Kernel *k = w->k;
    const KRef all = attention_warp_rest(&o->x);
    k_if(k, k_ne(k, all, all));
    k_device(k, KDEV_shared_put, aw_bar(w, SPOILED, o->number), k_index(k, 1));
    k_end(k);
}

// Row by row, where keys that are not seen are not read. The number of columns is not known to the compiler,
// so that the loop over them stays one: its sums are to be in memory, not in registers. one: 1.
static void mix_again(const AwKernel *w, const Own *o, KRef one)
{
    Kernel *k = w->k;
    const KRef query = k_expr(k, "$ * # + $ + $", o->number, OWN_ROWS, o->t.first, o->thread);
    sync_warpgroup(w, o);
    k_if(k, o->is_first);
    k_device(k, KDEV_shared_put, aw_bar(w, SPOILED, o->number), k_index(k, 0));
    k_end(k);
    sync_warpgroup(w, o);
    k_if(k, k_expr(k, "$ < # & $ < #", o->thread, OWN_ROWS, query, w->a->queries));
    const AttRow row = attention_row(w->l, w->a, aw_point(w, &o->t, query));
    attention_emit_row(w->l, &row, aw_plus(k, one, w->a->value_size - 1));
    k_end(k);
}

static void store(const AwKernel *w, const Own *o, KRef slot)
{
    Kernel *k = w->k;
    const KRef spoiled = k_var(k, k_index(k, 0), "spoiled");
    note_spoiled(w, o);
    if (w->stores_boxes)
        put_boxes(w, o, slot);
    sync_warpgroup(w, o);
    k_device(k, KDEV_shared_get, spoiled, aw_bar(w, SPOILED, o->number));
    k_if(k, k_expr(k, "$ == 0", k_get(k, spoiled)));
    if (w->stores_boxes)
        send_boxes(w, o, slot);
    else
        attention_warp_store(&o->x, k_index(k, w->a->queries));
    k_else(k);
    mix_again(w, o, k_get(k, spoiled));
    k_end(k);
    arrive(w, o, aw_bar(w, Q_EMPTY, slot));
}

static void begin_rows(const AwKernel *w, Own *o)
{
    Kernel *k = w->k;
    const KRef own = k_expr(k, "$ * # + ($ * 16 + $)", o->number, OWN_ROWS, o->warp, aw_over(k, o->lane, 4));
    for (int64_t h = 0; h < 2; h++)
        o->x.row[h] =
            attention_row(w->l, w->a, aw_point(w, &o->t, k_add(k, o->t.first, aw_plus(k, own, 8 * h))));
    attention_warp_begin(&o->x);
}

void aw_consume(const AwKernel *w, KRef number)
{
    Kernel *k = w->k;
    const KRef own = aw_rest(k, w->thread, WARPGROUP);
    Own o = {.number = number, .thread = own, .lane = aw_rest(k, own, 32), .warp = aw_over(k, own, 32)};
    o.is_first = k_expr(k, "$ == 0", own);
    o.x = (AttWarp){
        .l = w->l, .a = w->a, .keys = w->keys, .columns = w->boxes * LINE_ELEMENTS, .lane = o.lane};
    attention_warp_open(&o.x);
    o.weights = k_array(k, DTYPE_u32, w->keys / 4);
    o.q = aw_ring(k, w->q_slots, 0);
    o.kv = aw_ring(k, KV_SLOTS, 0);
    const KRef taken = k_var(k, k_index(k, 0), "taken");
    k_loop(k, w->tiles + 1, KFOR_SERIAL, "round");
    const KRef slot = k_get(k, o.q.slot);
    k_device(k, KDEV_bar_wait, aw_bar(w, Q_FULL, slot), k_get(k, o.q.phase));
    k_device(k, KDEV_shared_get, taken, aw_bar(w, Q_NUMBER, slot));
    k_if(k, k_expr(k, "$ < 0", k_get(k, taken)));
    k_device_with(k, KDEV_leave, 0);
    k_end(k);
    o.t = aw_tile(w, k_get(k, taken));
    begin_rows(w, &o);
    multiply_blocks(w, &o, slot);
    store(w, &o, slot);
    aw_advance(k, o.q);
    k_end(k);
    k_if(k, o.is_first);
    k_device_with(k, KDEV_bulk_wait, 0);
    k_end(k);
}
