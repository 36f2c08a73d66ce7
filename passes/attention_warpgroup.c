// SPDX-License-Identifier: Apache-2.0
// A warpgroup of attention_wgmma.c that multiplies: 64 queries of a tile against all blocks of keys. Scores
// become weights in the registers that they were summed up in; these are laid out as the operand of the
// product with the values. While that is computed, so are the scores of the next block.
#include "passes/attention_wgmma.h"

static const double lowest_score = -1e30;

typedef struct Own {
    KRef number, thread, lane, warp, is_first; // of the warpgroup; its thread 0
    KRef scores, weights, mix;                 // arrays
    KRef top[2], sum[2], keep[2];              // variables: of the thread's two rows
    AwRing q, kv;
    AwTile t;
    AttRow row[2];
} Own;

static void arrive(const AwKernel *w, const Own *o, KRef at)
{
    k_if(w->k, o->is_first);
    k_device(w->k, KDEV_bar_arrive, at);
    k_end(w->k);
}

static void sync_warpgroup(const AwKernel *w, const Own *o)
{
    k_device(w->k, KDEV_named_sync, aw_plus(w->k, o->number, 1), k_index(w->k, WARPGROUP));
}

static KRef desc_at(Kernel *k, KRef desc, int64_t bytes)
{
    return bytes == 0 ? desc : k_op(k, KOP_add, desc, k_integer(k, DTYPE_u64, bytes / 16), 0);
}

static void multiply_keys(const AwKernel *w, const Own *o, KRef q_slot_number, KRef slot)
{
    Kernel *k = w->k;
    const KWgmma form = {.type = w->type, .n = w->keys};
    const KRef line = k_index(k, 16), eight = k_index(k, 8 * LINE);
    const KRef own = k_mul_add(k, o->number, OWN_ROWS * LINE, aw_q_slot(w, q_slot_number));
    const KRef q = k_call(k, KDEV_wgmma_desc, own, line, eight),
               keys = k_call(k, KDEV_wgmma_desc, aw_k_slot(w, slot), line, eight);
    k_device_with(k, KDEV_wgmma_fence, 0);
    for (int64_t i = 0; i < w->boxes * 4; i++) {
        const int64_t step = i % 4 * 32;
        k_wgmma(k, form, o->scores, desc_at(k, q, i / 4 * ROWS * LINE + step),
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
        k_wgmma_r(k, form, o->mix, o->weights, k_index(k, 4 * i), desc_at(k, values, i * 16 * LINE),
                  i > 0 ? k_integer(k, DTYPE_bool, 1) : adds);
    k_device_with(k, KDEV_wgmma_commit, 0);
}

// Scores of keys that a row does not see are the lowest number.
static void hide_keys(const AwKernel *w, const Own *o, KRef number)
{
    Kernel *k = w->k;
    const KRef first = k_mul(k, number, k_index(k, w->keys)), lowest = k_number(k, DTYPE_f32, lowest_score);
    const KRef column = k_add(k, first, k_mul(k, aw_rest(k, o->lane, 4), k_index(k, 2)));
    const KRef four = k_for(k, k_index(k, 0), k_index(k, w->keys / 8), 1, KFOR_UNROLL, "i");
    for (int64_t i = 0; i < 4; i++) {
        const AttRow *row = &o->row[i / 2];
        const KRef key = aw_plus(k, k_mul_add(k, four, 8, column), i % 2);
        const KRef place = aw_plus(k, k_mul(k, four, k_index(k, 4)), i);
        const KRef is_seen = k_op(k, KOP_and, k_op(k, KOP_le, row->begin, key, 0),
                                  k_op(k, KOP_lt, key, row->end, 0), 0);
        k_astore(k, o->scores, place,
                 k_op(k, KOP_select, is_seen, k_aload(k, o->scores, place, 1), lowest));
    }
    k_end(k);
}

// Only where the warpgroup's first row, which sees least, or last row ends inside of the block.
static void hide_some(const AwKernel *w, const Own *o, KRef number)
{
    Kernel *k = w->k;
    const Attention *a = w->a;
    const KRef begin = k_mul(k, number, k_index(k, w->keys)), end = aw_plus(k, begin, w->keys);
    const KRef first = k_mul_add(k, o->number, OWN_ROWS, o->t.first);
    const KRef last = aw_plus(k, first, OWN_ROWS - 1);
    const KRef least = attention_row(w->l, a, aw_point(w, &o->t, first)).end;
    KRef is_cut = k_op(k, KOP_lt, least, end, 0);
    if (a->left >= 0) {
        const KRef most = attention_row(w->l, a, aw_point(w, &o->t, last)).begin;
        is_cut = k_op(k, KOP_or, is_cut, k_op(k, KOP_lt, begin, most, 0), 0);
    }
    k_if(k, is_cut);
    hide_keys(w, o, number);
    k_end(k);
}

static double score_scale(const Attention *a)
{
    return a->softcap > 0 ? 1.4426950408889634 : a->scale * 1.4426950408889634;
}

// tanh(x) is 1 - 2 / (1 + exp(2 x)): exact enough for weights of 16 bits.
static void cap_scores(const AwKernel *w, const Own *o)
{
    Kernel *k = w->k;
    if (!(w->a->softcap > 0))
        return;
    const double twice = 2 * 1.4426950408889634 * w->a->scale / w->a->softcap;
    const KRef one = k_number(k, DTYPE_f32, 1), cap = k_number(k, DTYPE_f32, w->a->softcap);
    const KRef down = k_number(k, DTYPE_f32, -2 * w->a->softcap);
    const KRef i = k_for(k, k_index(k, 0), k_index(k, w->keys / 2), 1, KFOR_UNROLL, "i");
    const KRef power = k_mul(k, k_aload(k, o->scores, i, 1), k_number(k, DTYPE_f32, twice));
    const KRef part = k_op(k, KOP_div, down, k_add(k, one, k_call(k, KDEV_exp2_fast, power, 0, 0)), 0);
    k_astore(k, o->scores, i, k_add(k, cap, part));
    k_end(k);
}

// Scores of row h become weights in place; sums so far are to be multiplied by `keep`.
static void weigh_row(const AwKernel *w, const Own *o, int64_t h)
{
    Kernel *k = w->k;
    const KRef scale = k_number(k, DTYPE_f32, score_scale(w->a)), old = k_get(k, o->top[h]);
    const KRef top = k_var(k, old, "top"), none = k_index(k, 0), n = k_index(k, w->keys / 8);
    KRef i = k_for(k, none, n, 1, KFOR_UNROLL, "i"), place = k_mul(k, i, k_index(k, 4));
    for (int64_t e = 0; e < 2; e++) {
        const KRef score = k_aload(k, o->scores, aw_plus(k, place, 2 * h + e), 1);
        k_set(k, top, k_call(k, KDEV_max_fast, k_get(k, top), score, 0));
    }
    k_end(k);
    const KRef all = k_team(k, KOP_max, k_get(k, top), 4);
    k_set(k, o->keep[h], k_call(k, KDEV_exp2_fast, k_mul(k, k_op(k, KOP_sub, old, all, 0), scale), 0, 0));
    k_set(k, o->top[h], all);
    // While a row has seen nothing, its weights are exp2(lowest), 0: less its own product, rounded, the
    // lowest number is not 0 but what rounding leaves, which may be huge.
    const KRef zero = k_number(k, DTYPE_f32, 0);
    const KRef sees = k_op(k, KOP_lt, k_number(k, DTYPE_f32, lowest_score / 2), all, 0);
    const KRef base = k_op(k, KOP_select, sees, k_op(k, KOP_neg, k_mul(k, all, scale), 0, 0), zero);
    const KRef sum = k_var(k, k_number(k, DTYPE_f32, 0), "sum");
    i = k_for(k, none, n, 1, KFOR_UNROLL, "i");
    place = k_mul(k, i, k_index(k, 4));
    KRef weight[2];
    for (int64_t e = 0; e < 2; e++) {
        const KRef at = aw_plus(k, place, 2 * h + e);
        const KRef power = k_op(k, KOP_fma, k_aload(k, o->scores, at, 1), scale, base);
        weight[e] = k_call(k, KDEV_exp2_fast, power, 0, 0);
    }
    for (int64_t e = 0; e < 2; e++)
        k_astore(k, o->scores, aw_plus(k, place, 2 * h + e), weight[e]);
    k_set(k, sum, k_add(k, k_get(k, sum), k_add(k, weight[0], weight[1])));
    k_end(k);
    k_set(k, o->sum[h], k_op(k, KOP_fma, k_get(k, o->sum[h]), k_get(k, o->keep[h]), k_get(k, sum)));
}

static void weigh(const AwKernel *w, const Own *o, KRef number)
{
    cap_scores(w, o);
    hide_some(w, o, number);
    for (int64_t h = 0; h < 2; h++)
        weigh_row(w, o, h);
}

// The sums of a product are laid out as its operand a is.
static void pack_weights(const AwKernel *w, const Own *o)
{
    Kernel *k = w->k;
    const KDevice pack = w->type == DTYPE_f16 ? KDEV_pack_f16 : KDEV_pack_bf16;
    const KRef i = k_for(k, k_index(k, 0), k_index(k, w->keys / 4), 1, KFOR_UNROLL, "i");
    const KRef at = k_mul(k, i, k_index(k, 2));
    k_astore(k, o->weights, i,
             k_call(k, pack, k_aload(k, o->scores, at, 1), k_aload(k, o->scores, aw_plus(k, at, 1), 1), 0));
    k_end(k);
}

static void rescale(const AwKernel *w, const Own *o)
{
    Kernel *k = w->k;
    const KRef i = k_for(k, k_index(k, 0), k_index(k, w->boxes * LINE_ELEMENTS / 8), 1, KFOR_UNROLL, "i");
    for (int64_t e = 0; e < 4; e++) {
        const KRef at = aw_plus(k, k_mul(k, i, k_index(k, 4)), e);
        k_astore(k, o->mix, at, k_mul(k, k_aload(k, o->mix, at, 1), k_get(k, o->keep[e / 2])));
    }
    k_end(k);
}

// Values behind the live ones may be anything: 0 in the only block that has some.
static void clear_dead_values(const AwKernel *w, const Own *o, KRef number)
{
    Kernel *k = w->k;
    const KRef slot = k_get(k, o->kv.slot), zeros = k_array(k, DTYPE_f32, 4), none = k_index(k, 0);
    const KRef live = k_op(k, KOP_sub, w->a->live, k_mul(k, number, k_index(k, w->keys)), 0);
    const KRef dead = k_op(k, KOP_max, live, none, 0);
    k_if(k, k_op(k, KOP_lt, live, k_index(k, w->keys), 0));
    for (int64_t i = 0; i < 4; i++)
        k_astore(k, zeros, k_index(k, i), k_number(k, DTYPE_f32, 0));
    k_device(k, KDEV_bar_wait, aw_bar(w, V_FULL, slot), k_get(k, o->kv.phase));
    const KRef n = k_mul(k, k_op(k, KOP_sub, k_index(k, w->keys), dead, 0), k_index(k, LINE / 16));
    const KRef i = k_for(k, o->thread, n, WARPGROUP, KFOR_SERIAL, "i");
    const KRef at = k_mul_add(k, i, 16, k_mul_add(k, dead, LINE, aw_v_slot(w, slot)));
    for (int64_t b = 0; b < w->boxes; b++)
        k_device(k, KDEV_shared_put4, aw_plus(k, at, b * w->keys * LINE), zeros, none);
    k_end(k);
    k_device_with(k, KDEV_proxy_fence, 0);
    sync_warpgroup(w, o);
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
    multiply_values(w, o, before, k_op(k, KOP_lt, k_index(k, 1), i, 0));
    k_device_with(k, KDEV_wgmma_wait, 1);
    arrive(w, o, aw_bar(w, K_EMPTY, slot));
    weigh(w, o, k_op(k, KOP_sub, last, i, 0));
    k_device_with(k, KDEV_wgmma_wait, 0);
    arrive(w, o, aw_bar(w, V_EMPTY, before));
    rescale(w, o);
    pack_weights(w, o);
    k_end(k);
    slot = k_get(k, o->kv.slot);
    k_device(k, KDEV_bar_wait, aw_bar(w, V_FULL, slot), k_get(k, o->kv.phase));
    k_device_with(k, KDEV_wgmma_fence, 0);
    multiply_values(w, o, slot, k_op(k, KOP_lt, k_index(k, 1), o->t.n, 0));
    for (int64_t h = 0; h < 2; h++)
        k_set(k, o->sum[h], k_team(k, KOP_add, k_get(k, o->sum[h]), 4));
    k_device_with(k, KDEV_wgmma_wait, 0);
    arrive(w, o, aw_bar(w, V_EMPTY, slot));
    aw_advance(k, o->kv);
}

// --- results -------------------------------------------------------------------------------------

// What the sums of row h are multiplied by: 0 where it sees nothing.
static KRef factor_of(const AwKernel *w, const Own *o, int64_t h)
{
    Kernel *k = w->k;
    const KRef is_seeing = k_op(k, KOP_lt, o->row[h].begin, o->row[h].end, 0);
    const KRef factor = k_op(k, KOP_div, k_number(k, DTYPE_f32, 1), k_get(k, o->sum[h]), 0);
    return k_op(k, KOP_select, is_seeing, factor, k_number(k, DTYPE_f32, 0));
}

// Through the tile's own queries, which nobody reads any more, in the order that the copy engine reads.
static void put_boxes(const AwKernel *w, const Own *o, KRef slot)
{
    Kernel *k = w->k;
    const KDevice pack = w->type == DTYPE_f16 ? KDEV_pack_f16 : KDEV_pack_bf16;
    const KRef factor[2] = {factor_of(w, o, 0), factor_of(w, o, 1)};
    const KRef own = k_mul_add(k, o->number, OWN_ROWS * LINE, aw_q_slot(w, slot));
    const KRef low = aw_rest(k, o->lane, 8), half = aw_rest(k, aw_over(k, o->lane, 8), 2);
    const KRef line = k_mul_add(k, o->warp, 16, k_mul_add(k, half, 8, low));
    const KRef j = k_for(k, k_index(k, 0), k_index(k, w->boxes * 4), 1, KFOR_UNROLL, "j");
    KRef word[4];
    for (int64_t i = 0; i < 4; i++) {
        KRef v[2];
        for (int64_t e = 0; e < 2; e++) {
            const KRef at = aw_plus(k, k_mul(k, j, k_index(k, 8)), 2 * i + e);
            v[e] = k_mul(k, k_aload(k, o->mix, at, 1), factor[i % 2]);
        }
        word[i] = k_call(k, pack, v[0], v[1], 0);
    }
    const KRef column = k_mul_add(k, aw_rest(k, j, 4), 2, aw_over(k, o->lane, 16));
    const KRef part = k_op(k, KOP_xor, column, low, 0);
    const KRef box = k_mul_add(k, aw_over(k, j, 4), ROWS * LINE, own);
    k_device(k, KDEV_stmatrix4, k_mul_add(k, line, LINE, k_mul_add(k, part, 16, box)), word[0], word[1],
             word[2], word[3]);
    k_end(k);
    k_device_with(k, KDEV_proxy_fence, 0);
}

static void send_boxes(const AwKernel *w, const Own *o, KRef slot)
{
    Kernel *k = w->k;
    const KRef own = k_mul_add(k, o->number, OWN_ROWS * LINE, aw_q_slot(w, slot));
    const KRef first = k_mul_add(k, o->number, OWN_ROWS, o->t.first);
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

// By the threads, where the copy engine cannot: with what follows attention in the kernel.
static void store_elements(const AwKernel *w, const Own *o)
{
    Lower *l = w->l;
    Kernel *k = w->k;
    const Attention *a = w->a;
    const KRef factor[2] = {factor_of(w, o, 0), factor_of(w, o, 1)};
    const KRef j = k_for(k, k_index(k, 0), k_index(k, w->boxes * LINE_ELEMENTS / 8), 1, KFOR_UNROLL, "j");
    const KRef column = k_mul_add(k, j, 8, k_mul(k, aw_rest(k, o->lane, 4), k_index(k, 2)));
    for (int64_t i = 0; i < 4; i++) {
        Point at = o->row[i / 2].at;
        const KRef c = aw_plus(k, column, i % 2), place = aw_plus(k, k_mul(k, j, k_index(k, 4)), i);
        const KRef v = k_aload(k, o->mix, place, 1);
        at.idx[a->rank - 1] = c;
        k_if(k, k_op(k, KOP_and, k_op(k, KOP_lt, c, k_index(k, a->value_size), 0),
                     k_op(k, KOP_lt, at.idx[a->rank - 2], k_index(k, a->queries), 0), 0));
        pull_store_root(l, &a->d, at, k_cast(k, k_mul(k, v, factor[i / 2]), lower_node(l, l->anchor)->dtype));
        k_end(k);
    }
    k_end(k);
}

// Sums that are not finite: a value that some row does not see may have been infinite or NaN.
static void note_spoiled(const AwKernel *w, const Own *o)
{
    Kernel *k = w->k;
    const KRef rest = k_var(k, k_number(k, DTYPE_f32, 0), "rest");
    const KRef i = k_for(k, k_index(k, 0), k_index(k, w->boxes * LINE_ELEMENTS / 2), 1, KFOR_UNROLL, "i");
    const KRef v = k_aload(k, o->mix, i, 1);
    k_set(k, rest, k_add(k, k_get(k, rest), k_op(k, KOP_sub, v, v, 0)));
    k_end(k);
    const KRef all = k_get(k, rest);
    k_if(k, k_op(k, KOP_ne, all, all, 0));
    k_device(k, KDEV_shared_put, aw_bar(w, SPOILED, o->number), k_index(k, 1));
    k_end(k);
}

// Row by row, where keys that are not seen are not read. The number of columns is not known to the compiler,
// so that the loop over them stays one: its sums are to be in memory, not in registers. one: 1.
static void mix_again(const AwKernel *w, const Own *o, KRef one)
{
    Kernel *k = w->k;
    const KRef query = k_add(k, k_mul_add(k, o->number, OWN_ROWS, o->t.first), o->thread);
    sync_warpgroup(w, o);
    k_if(k, o->is_first);
    k_device(k, KDEV_shared_put, aw_bar(w, SPOILED, o->number), k_index(k, 0));
    k_end(k);
    sync_warpgroup(w, o);
    k_if(k, k_op(k, KOP_and, k_op(k, KOP_lt, o->thread, k_index(k, OWN_ROWS), 0),
                 k_op(k, KOP_lt, query, k_index(k, w->a->queries), 0), 0));
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
    k_if(k, k_op(k, KOP_eq, k_get(k, spoiled), k_index(k, 0), 0));
    if (w->stores_boxes)
        send_boxes(w, o, slot);
    else
        store_elements(w, o);
    k_else(k);
    mix_again(w, o, k_get(k, spoiled));
    k_end(k);
    arrive(w, o, aw_bar(w, Q_EMPTY, slot));
}

static void begin_rows(const AwKernel *w, Own *o)
{
    Kernel *k = w->k;
    const KRef own = k_mul_add(k, o->number, OWN_ROWS, k_mul_add(k, o->warp, 16, aw_over(k, o->lane, 4)));
    for (int64_t h = 0; h < 2; h++) {
        const KRef query = k_add(k, o->t.first, aw_plus(k, own, 8 * h));
        o->row[h] = attention_row(w->l, w->a, aw_point(w, &o->t, query));
        k_set(k, o->top[h], k_number(k, DTYPE_f32, lowest_score));
        k_set(k, o->sum[h], k_number(k, DTYPE_f32, 0));
    }
}

void aw_consume(const AwKernel *w, KRef number)
{
    Kernel *k = w->k;
    const KRef zero = k_number(k, DTYPE_f32, 0), own = aw_rest(k, w->thread, WARPGROUP);
    Own o = {.number = number, .thread = own, .lane = aw_rest(k, own, 32), .warp = aw_over(k, own, 32)};
    o.is_first = k_op(k, KOP_eq, own, k_index(k, 0), 0);
    o.scores = k_array(k, DTYPE_f32, w->keys / 2);
    o.weights = k_array(k, DTYPE_u32, w->keys / 4);
    o.mix = k_array(k, DTYPE_f32, w->boxes * LINE_ELEMENTS / 2);
    o.q = aw_ring(k, w->q_slots, 0);
    o.kv = aw_ring(k, KV_SLOTS, 0);
    for (int64_t h = 0; h < 2; h++) {
        o.top[h] = k_var(k, zero, "top");
        o.sum[h] = k_var(k, zero, "sum");
        o.keep[h] = k_var(k, zero, "keep");
    }
    const KRef taken = k_var(k, k_index(k, 0), "taken");
    k_for(k, k_index(k, 0), k_index(k, w->tiles + 1), 1, KFOR_SERIAL, "round");
    const KRef slot = k_get(k, o.q.slot);
    k_device(k, KDEV_bar_wait, aw_bar(w, Q_FULL, slot), k_get(k, o.q.phase));
    k_device(k, KDEV_shared_get, taken, aw_bar(w, Q_NUMBER, slot));
    k_if(k, k_op(k, KOP_lt, k_get(k, taken), k_index(k, 0), 0));
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
