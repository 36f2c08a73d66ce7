// SPDX-License-Identifier: Apache-2.0
// Attention of many queries of 16-bit floats with mma.sync and asynchronous copies (sm_80 and later): what
// wgmma does not fit, and its groups on GPUs without it; and of f32 as products of parts (gpu_split.h). A
// warp has 16 queries of a tile; the group goes over blocks of the keys that one of them sees. Values are
// copied while scores are multiplied, the next keys while these become weights and sums. Rows in shared
// memory are an odd number of 16 bytes apart, so that eight of them are in different banks. Tiles have
// numbers, so that groups of another schedule can go over them too.
#include "passes/lower/attention/attention_warp.h"
#include "passes/lower/gpu/gpu_split.h"

enum {
    THREADS = 128,
    CHUNK_BYTES = 16,     // of a copy
    MAX_CHUNK = 8,        // elements of it
    KEYS = 16,            // whose fragments are loaded at once
    EIGHT = 8,            // columns of a fragment of sums
    MAX_BYTES = 512,      // of a row
    WIDE_BYTES = 256,     // from there on blocks have fewer keys
    WIDEST_BYTES = 384,
    SMALL_SHARED = 98304, // what groups have on every GPU since sm_80
};

// Rows in shared memory.
typedef struct Part {
    NodeId id;
    int64_t size, steps; // columns; of 32 bytes of them
    KRef at;
} Part;

typedef struct Mma {
    Lower *l;
    Kernel *k;
    const Attention *a;
    DType type;
    int64_t chunk;                // elements of 16 bytes
    int64_t threads, warps, keys; // warps: that multiply; keys: of a block
    Part q, key, value;
    KRef thread, warp, is_on;     // is_on: does the thread's warp multiply?
    KRef first, end, lo, hi;      // query of the tile, behind the last one of all; keys that its rows see
    Point head;
    AttWarp x;
} Mma;

static int64_t pitch_of(const Part *p)
{
    return (2 * p->steps + 1) * CHUNK_BYTES;
}

static bool is_split(const Mma *m)
{
    return m->type == DTYPE_f32;
}

static int64_t tile_rows(const Mma *m)
{
    return m->warps * ATTENTION_WARP_ROWS;
}

static AttRow row_of(const Mma *m, KRef query)
{
    Point at = m->head;
    at.idx[m->a->rank - 2] = query;
    return attention_row(m->l, m->a, at);
}

// --- copies --------------------------------------------------------------------------------------

// 16 bytes of a row that lies in any way, from `column` on.
static void put_chunk(const Mma *m, const Part *p, const AttRow *r, KRef row, KRef column, KRef is_in,
                      KRef to)
{
    Lower *l = m->l;
    Kernel *k = m->k;
    const uint8_t width = attention_fetch_width(l, p->id);
    const uint32_t param = lower_param(l, p->id, PARAM_READ);
    const KRef part = k_array(k, m->type, m->chunk), zero = k_number(k, DTYPE_f32, 0);
    KRef word[4], v[MAX_CHUNK];
    for (int64_t i = 0; i < m->chunk; i += width) {
        const KRef place = k_expr(k, "min($ + #, #)", column, i, p->size - width);
        const KRef from =
            p == &m->q ? attention_query_index(l, r, place) : attention_kv_index(l, r, p->id, row, place);
        k_fetch(k, param, from, part, k_index(k, i), width);
    }
    for (int64_t i = 0; i < m->chunk; i++) {
        const KRef has = k_expr(k, "$ + # < #", column, i, p->size);
        v[i] =
            k_select(k, k_and(k, is_in, has), k_cast(k, k_aload(k, part, k_index(k, i), 1), DTYPE_f32), zero);
    }
    for (int64_t i = 0; i < 4; i++)
        word[i] = is_split(m) ? k_bitcast(k, v[i], DTYPE_u32)
                              : attention_warp_pack(k, m->type, v[2 * i], v[2 * i + 1]);
    k_device(k, KDEV_shared_put_words, to, word[0], word[1], word[2], word[3]);
}

// Rows from `first` on of queries, keys or values; behind `end` and behind the columns there are zeros.
static void copy_rows(const Mma *m, const Part *p, int64_t rows, KRef first, KRef end)
{
    Lower *l = m->l;
    Kernel *k = m->k;
    const int64_t across = 2 * p->steps;
    const KRef i = k_for(k, m->thread, k_index(k, rows * across), m->threads, KFOR_ROLL, "i");
    const KRef line = k_expr(k, "$ / #", i, across), chunk = k_expr(k, "$ % #", i, across),
               zero = k_index(k, 0);
    const KRef column = k_expr(k, "$ * #", chunk, m->chunk), at = k_add(k, first, line);
    const KRef to = k_expr(k, "$ * # + ($ * # + $)", line, pitch_of(p), chunk, CHUNK_BYTES, p->at);
    const KRef is_in = k_lt(k, at, end), row = k_select(k, is_in, at, zero);
    AttRow r = row_of(m, row);
    if (attention_fetch_width(l, p->id) < m->chunk) {
        put_chunk(m, p, &r, row, column, is_in, to);
    } else {
        const KRef is_there = k_expr(k, "$ & $ < #", is_in, column, p->size);
        const KRef place = k_select(k, is_there, column, zero);
        const KRef from =
            p == &m->q ? attention_query_index(l, &r, place) : attention_kv_index(l, &r, p->id, row, place);
        k_device(k, KDEV_cp_async16, to, k_address(k, lower_param(l, p->id, PARAM_READ), from),
                 k_select(k, is_there, k_index(k, CHUNK_BYTES), zero));
    }
    k_end(k);
}

static void await_copies(const Mma *m)
{
    k_device_with(m->k, KDEV_cp_async_wait, 0);
    k_barrier(m->k);
}

// --- products ------------------------------------------------------------------------------------

// Four matrices of 8 rows of 16 bytes: 16 rows from `row` on, 32 bytes of step `step`. by_row: the second
// matrix is the next rows' (else the next columns'). A lane's words of f32 are the fragments of tf32.
static void load_matrices(const Mma *m, const Part *p, KRef words, KRef row, KRef step, bool by_row,
                          bool turns)
{
    Kernel *k = m->k;
    const KRef lane = m->x.lane, low = k_expr(k, "$ % 8", lane), odd = k_expr(k, "$ / 8 % 2", lane),
               high = k_expr(k, "$ / 16", lane);
    const KRef line = k_expr(k, "$ + ($ * 8 + $)", row, by_row ? odd : high, low);
    const KRef chunk = k_expr(k, "$ * 2 + $", step, by_row ? high : odd);
    k_device(k, turns ? KDEV_ldmatrix4_t : KDEV_ldmatrix4, words, k_index(k, 0),
             k_expr(k, "$ * # + ($ * # + $)", line, pitch_of(p), chunk, CHUNK_BYTES, p->at));
}

static void multiply_fragments(const Mma *m, KRef sums, KRef at, KRef a, KRef b)
{
    Kernel *k = m->k;
    const KDevice mma = m->type == DTYPE_f16 ? KDEV_mma_f16 : KDEV_mma_bf16;
    const KRef zero = k_index(k, 0);
    k_device(k, mma, sums, at, a, zero, b, zero);
    k_device(k, mma, sums, k_expr(k, "$ + 4", at), a, zero, b, k_index(k, 2));
}

static void clear(Kernel *k, KRef sums, int64_t n)
{
    const KRef i = k_loop(k, n, KFOR_UNROLL, "i");
    k_astore(k, sums, i, k_number(k, DTYPE_f32, 0));
    k_end(k);
}

// The words of a fragment as f32, in parts.
static GpuSplit split_words(const Mma *m, KRef words)
{
    Kernel *k = m->k;
    const KRef v = k_array(k, DTYPE_f32, 4);
    for (int64_t i = 0; i < 4; i++)
        k_astore(k, v, k_index(k, i), k_bitcast(k, k_aload(k, words, k_index(k, i), 1), DTYPE_f32));
    return gpu_split_words(k, v, 4);
}

// 16 rows by 16 columns, 32 bytes of k.
static void multiply_parts(const Mma *m, KRef sums, KRef at, const GpuSplit *a, KRef b)
{
    Kernel *k = m->k;
    const GpuSplit of_b = split_words(m, b);
    gpu_split_multiply(k, sums, at, a, &of_b, k_index(k, 0));
    gpu_split_multiply(k, sums, k_expr(k, "$ + 4", at), a, &of_b, k_index(k, 2));
}

static void multiply_keys(const Mma *m)
{
    Kernel *k = m->k;
    const KRef a = k_array(k, DTYPE_u32, 4), b = k_array(k, DTYPE_u32, 4), zero = k_index(k, 0);
    clear(k, m->x.scores, m->keys / 2);
    const KRef step = k_for(k, zero, k_index(k, m->q.steps), 1, KFOR_UNROLL, "step");
    load_matrices(m, &m->q, a, k_expr(k, "$ * #", m->warp, ATTENTION_WARP_ROWS), step, true, false);
    const GpuSplit of_a = is_split(m) ? split_words(m, a) : (GpuSplit){0};
    const KRef key = k_for(k, zero, k_index(k, m->keys), KEYS, KFOR_UNROLL, "key");
    load_matrices(m, &m->key, b, key, step, false, false);
    if (is_split(m))
        multiply_parts(m, m->x.scores, k_expr(k, "$ / 2", key), &of_a, b);
    else
        multiply_fragments(m, m->x.scores, k_expr(k, "$ / 2", key), a, b);
    k_ends(k, 2);
}

// An f32 of the values.
static KRef value_at(const Mma *m, KRef key, KRef column)
{
    Kernel *k = m->k;
    const KRef word = k_var(k, k_index(k, 0), "word");
    k_device(k, KDEV_shared_get, word,
             k_expr(k, "$ * # + ($ * 4 + $)", key, pitch_of(&m->value), column, m->value.at));
    return k_bitcast(k, k_cast(k, k_get(k, word), DTYPE_u32), DTYPE_f32);
}

// Of f32: a thread's two weights of each eight are those of keys 2 t and 2 t + 1, which stand for steps t and
// t + 4 of the product: its order does not matter, if both operands have it.
static void multiply_f32_values(const Mma *m)
{
    Kernel *k = m->k;
    static const int64_t own[] = {0, 2, 1, 3};
    const KRef a = k_array(k, DTYPE_f32, 4), b = k_array(k, DTYPE_f32, 2), zero = k_index(k, 0);
    const KRef eight = k_for(k, zero, k_index(k, m->keys / EIGHT), 1, KFOR_UNROLL, "eight");
    for (int64_t i = 0; i < 4; i++)
        k_astore(k, a, k_index(k, i), k_aload(k, m->x.scores, k_expr(k, "$ * 4 + #", eight, own[i]), 1));
    const GpuSplit of_a = gpu_split_words(k, a, 4);
    const KRef step = k_for(k, zero, k_index(k, m->value.steps), 1, KFOR_UNROLL, "step");
    const KRef key = k_expr(k, "$ * # + $ % 4 * 2", eight, EIGHT, m->x.lane);
    const KRef column = k_expr(k, "$ * # + $ / 4", step, EIGHT, m->x.lane);
    for (int64_t i = 0; i < 2; i++)
        k_astore(k, b, k_index(k, i), value_at(m, k_expr(k, "$ + #", key, i), column));
    const GpuSplit of_b = gpu_split_words(k, b, 2);
    gpu_split_multiply(k, m->x.mix, k_expr(k, "$ * 4", step), &of_a, &of_b, zero);
    k_ends(k, 2);
}

// The sums of a product are laid out as its operand a is.
static void multiply_values(const Mma *m)
{
    Kernel *k = m->k;
    if (is_split(m)) {
        multiply_f32_values(m);
        return;
    }
    const KRef a = k_array(k, DTYPE_u32, 4), b = k_array(k, DTYPE_u32, 4), zero = k_index(k, 0);
    const KRef key = k_for(k, zero, k_index(k, m->keys), KEYS, KFOR_UNROLL, "key");
    for (int64_t i = 0; i < 4; i++) {
        const KRef at = k_expr(k, "$ / 2 + #", key, 2 * i);
        const KRef low = k_aload(k, m->x.scores, at, 1),
                   high = k_aload(k, m->x.scores, k_expr(k, "$ + 1", at), 1);
        k_astore(k, a, k_index(k, i), attention_warp_pack(k, m->type, low, high));
    }
    const KRef step = k_for(k, zero, k_index(k, m->value.steps), 1, KFOR_UNROLL, "step");
    load_matrices(m, &m->value, b, key, step, true, true);
    multiply_fragments(m, m->x.mix, k_expr(k, "$ * #", step, EIGHT), a, b);
    k_ends(k, 2);
}

// --- a tile --------------------------------------------------------------------------------------

// Rows behind the last one have its mask; keys behind the last one are hidden.
static void read_mask(const void *ctx, const AttWarp *x, int64_t h, KRef first, KRef eighth, KRef *pair)
{
    const Mma *m = ctx;
    Lower *l = m->l;
    Kernel *k = m->k;
    const Attention *a = m->a;
    const Shape *s = lower_node(l, a->mask)->shape;
    const KRef column = k_expr(k, "$ * 8 + $ % 4 * 2", eighth, x->lane);
    const KRef key = k_add(k, first, column);
    AttRow row = x->row[h];
    row.at.idx[a->rank - 2] = k_expr(k, "min($, $ + -1)", row.at.idx[a->rank - 2], m->end);
    if (s->dim[s->rank - 1] == a->keys && attention_fetch_width(l, a->mask) >= 2) {
        const KRef two = k_array(k, lower_node(l, a->mask)->dtype, 2);
        row.at.idx[a->rank - 1] = k_expr(k, "min($, #)", key, a->keys - 2);
        k_fetch(k, lower_param(l, a->mask, PARAM_READ),
                operand_broadcast_index(l, a->mask, row.at.idx, a->rank), two, k_index(k, 0), 2);
        for (int64_t e = 0; e < 2; e++)
            pair[e] = k_aload(k, two, k_index(k, e), 1);
        return;
    }
    for (int64_t e = 0; e < 2; e++)
        pair[e] = attention_mask_at(l, &row, k_expr(k, "min($ + #, #)", key, e, a->keys - 1));
}

// Does the first row of the warp, which sees least, or its last one end inside of the block?
static KRef is_cut(const Mma *m, KRef key)
{
    Kernel *k = m->k;
    const KRef first = k_expr(k, "$ * # + $", m->warp, ATTENTION_WARP_ROWS, m->first);
    const KRef is_short = k_expr(k, "$ < $ + #", row_of(m, first).end, key, m->keys);
    if (m->a->left < 0)
        return is_short;
    const KRef most = row_of(m, k_expr(k, "$ + #", first, ATTENTION_WARP_ROWS - 1)).begin;
    return k_expr(k, "$ | $ < $", is_short, key, most);
}

static void emit_blocks(const Mma *m)
{
    Kernel *k = m->k;
    copy_rows(m, &m->q, tile_rows(m), m->first, m->end);
    copy_rows(m, &m->key, m->keys, m->lo, m->hi);
    k_device_with(k, KDEV_cp_async_commit, 0);
    const KRef key = k_for(k, m->lo, m->hi, m->keys, KFOR_SERIAL, "j"),
               next = k_expr(k, "$ + #", key, m->keys);
    await_copies(m);
    copy_rows(m, &m->value, m->keys, key, m->hi);
    k_device_with(k, KDEV_cp_async_commit, 0);
    k_if(k, m->is_on);
    multiply_keys(m);
    k_end(k);
    await_copies(m);
    k_if(k, k_lt(k, next, m->hi));
    copy_rows(m, &m->key, m->keys, next, m->hi);
    k_end(k);
    k_device_with(k, KDEV_cp_async_commit, 0);
    k_if(k, m->is_on);
    attention_warp_score(&m->x, key, m->a->mask != 0 ? read_mask : NULL, m);
    attention_warp_hide(&m->x, key, is_cut(m, key));
    attention_warp_weigh(&m->x);
    attention_warp_rescale(&m->x);
    multiply_values(m);
    k_ends(k, 2);
    await_copies(m); // of a tile that sees no key; the next one's go to the same memory
}

// Row by row, where keys that are not seen are not read. The number of columns is not known to the compiler,
// so that the loop over them stays one: its sums are to be in memory, not in registers.
static void mix_again(const Mma *m)
{
    Kernel *k = m->k;
    const KRef lane = m->x.lane,
               own = k_expr(k, "$ * # + $", m->warp, ATTENTION_WARP_ROWS * pitch_of(&m->q), m->q.at);
    const KRef query = k_expr(k, "$ * # + $ + $", m->warp, ATTENTION_WARP_ROWS, m->first, lane);
    const KRef columns = k_var(k, k_index(k, 0), "columns");
    k_if(k, k_expr(k, "$ == 0", lane));
    k_device(k, KDEV_shared_put, own, k_index(k, m->a->value_size));
    k_end(k);
    k_device_with(k, KDEV_warp_sync, 0);
    k_device(k, KDEV_shared_get, columns, own);
    k_if(k, k_expr(k, "$ < # & $ < $", lane, ATTENTION_WARP_ROWS, query, m->end));
    const AttRow row = row_of(m, query);
    attention_emit_row(m->l, &row, k_get(k, columns));
    k_end(k);
}

static void store_rows(const Mma *m)
{
    Kernel *k = m->k;
    AttWarp x = m->x;
    for (int64_t h = 0; h < 2; h++)
        k_set(k, x.sum[h], k_team(k, KOP_add, k_get(k, x.sum[h]), 4));
    const KRef rest = k_team(k, KOP_add, attention_warp_rest(&x), 32);
    k_if(k, k_eq(k, rest, rest));
    attention_warp_store(&x, m->end);
    k_else(k);
    mix_again(m);
    k_end(k);
}

static void begin_rows(Mma *m)
{
    Kernel *k = m->k;
    const Attention *a = m->a;
    const KRef last = k_expr(k, "min($ + #, $)", m->first, tile_rows(m), m->end);
    const KRef own = k_expr(k, "$ * # + $ / 4", m->warp, ATTENTION_WARP_ROWS, m->x.lane);
    for (int64_t h = 0; h < 2; h++)
        m->x.row[h] = row_of(m, k_expr(k, "$ + ($ + #)", m->first, own, 8 * h));
    attention_warp_begin(&m->x);
    clear(k, m->x.mix, m->x.columns / 2);
    // An even key, because masks are read in pairs; what lies before the window is hidden.
    m->lo = k_expr(k, "$ / 2 * 2", row_of(m, m->first).begin);
    m->hi = row_of(m, k_expr(k, "$ + -1", last)).end;
    if (a->left < 0)
        m->lo = k_index(k, 0);
}

static int64_t tiles_of_head(const Mma *m)
{
    return ceil_div(m->a->queries, tile_rows(m));
}

static void emit_tile(Mma *m, KRef number)
{
    Kernel *k = m->k;
    const Attention *a = m->a;
    const AttTile own = attention_tile(m->l, a, number, tiles_of_head(m));
    KRef head = own.head;
    m->head = (Point){.lanes = 1, .count = 1};
    for (uint32_t axis = a->rank - 2; axis-- > 0;) {
        m->head.idx[axis] = axis == 0 ? head : k_expr(k, "$ % #", head, a->d.extent[axis]);
        head = k_expr(k, "$ / #", head, a->d.extent[axis]);
    }
    m->end = lower_live(m->l, &a->d.live[a->rank - 2], a->queries);
    m->first = k_expr(k, "$ * #", own.i, tile_rows(m));
    k_if(k, k_lt(k, m->first, m->end));
    begin_rows(m);
    emit_blocks(m);
    k_if(k, m->is_on);
    store_rows(m);
    k_ends(k, 2);
}

// --- what fits -----------------------------------------------------------------------------------

static Part part_of(const Mma *m, NodeId id)
{
    const Shape *s = lower_node(m->l, id)->shape;
    Part p = {.id = id, .size = s->dim[s->rank - 1]};
    p.steps = ceil_div(p.size, 2 * m->chunk);
    return p;
}

// As many as registers have room for beside the sums.
static int64_t block_keys(const Mma *m)
{
    const Attention *a = m->a;
    const int64_t bytes = CHUNK_BYTES / m->chunk;
    if (a->value_size * bytes <= WIDE_BYTES && a->size * bytes <= WIDE_BYTES)
        return 64;
    return m->threads > THREADS && a->value_size * bytes > WIDEST_BYTES ? 16 : 32;
}

// All three are 16-bit floats, or f32 that units may multiply in parts. (What caps scores is rounded for
// weights of 16 bits.)
static bool has_types(const Mma *m)
{
    const Lower *l = m->l;
    const Attention *a = m->a;
    return k_is_half(m->type) ||
           (m->type == DTYPE_f32 && lower_node(l, a->k)->dtype == DTYPE_f32 &&
            lower_node(l, a->v)->dtype == DTYPE_f32 && !(a->softcap > 0) && gpu_split_pays(l));
}

static bool plan_mma(Lower *l, const Attention *a, int64_t threads, Mma *m)
{
    *m = (Mma){.l = l, .k = l->k, .a = a, .type = (DType)lower_node(l, a->q)->dtype, .threads = threads};
    const int64_t bytes = dtype_info[m->type].bytes;
    if (!l->caps->has_mma || !has_types(m) || a->splits > 0 || a->keys == 0 || a->value_size == 0 ||
        a->size == 0 || a->size * bytes > MAX_BYTES || a->value_size * bytes > MAX_BYTES ||
        (attention_live_axes(a) & ~(1u << (a->rank - 2))) != 0)
        return false;
    m->chunk = CHUNK_BYTES / bytes;
    m->q = part_of(m, a->q);
    m->key = part_of(m, a->k);
    m->value = part_of(m, a->v);
    m->keys = block_keys(m);
    const int64_t rest = SMALL_SHARED - m->keys * (pitch_of(&m->key) + pitch_of(&m->value));
    const int64_t most = rest / (ATTENTION_WARP_ROWS * pitch_of(&m->q));
    m->warps = threads / 32 < most ? threads / 32 : most;
    return true;
}

static int64_t all_tiles(const Mma *m)
{
    int64_t n = tiles_of_head(m);
    for (uint32_t i = 0; i + 2 < m->a->rank; i++)
        n *= m->a->d.extent[i];
    return n;
}

// Places in shared memory, and numbers of the thread.
static void begin_tiles(Mma *m)
{
    Kernel *k = m->k;
    const int64_t q_bytes = tile_rows(m) * pitch_of(&m->q), k_bytes = m->keys * pitch_of(&m->key);
    k_use_shared(k, (uint32_t)(q_bytes + k_bytes + m->keys * pitch_of(&m->value) + 1024));
    m->thread = k_thread(k);
    m->warp = k_expr(k, "$ / 32", m->thread);
    m->is_on = k_expr(k, "$ < #", m->warp, m->warps);
    m->q.at = k_call(k, KDEV_shared_begin, 0, 0, 0);
    m->key.at = k_expr(k, "$ + #", m->q.at, q_bytes);
    m->value.at = k_expr(k, "$ + #", m->key.at, k_bytes);
    m->x = (AttWarp){.l = m->l, .a = m->a, .keys = m->keys, .columns = m->value.steps * 2 * m->chunk};
    m->x.lane = k_expr(k, "$ % 32", m->thread);
    attention_warp_open(&m->x);
}

void attention_emit_mma(Lower *l, const Attention *a, int64_t threads, KRef group, int64_t groups)
{
    rlx_assert(threads > 0 && groups > 0);
    Kernel *k = l->k;
    Mma m;
    const bool fits = plan_mma(l, a, threads, &m);
    rlx_assert(fits);
    begin_tiles(&m);
    // There and back, for tiles of which the first ones take longest.
    const int64_t rounds = ceil_div(all_tiles(&m), groups);
    const KRef round = k_loop(k, rounds, KFOR_ROLL, "round");
    const KRef back = k_expr(k, "# - $", groups - 1, group);
    const KRef is_odd = k_expr(k, "$ % 2 == 1", round);
    const KRef tile = k_expr(k, "$ * # + $", round, groups, k_select(k, is_odd, back, group));
    k_if(k, k_expr(k, "$ < #", tile, all_tiles(&m)));
    emit_tile(&m, tile);
    k_barrier(k); // mix_again has words where the next tile's queries go
    k_ends(k, 2);
}

bool attention_lower_mma(Lower *l, const Attention *a)
{
    Mma m;
    if (!plan_mma(l, a, THREADS, &m))
        return false;
    k_set_group(l->k, THREADS);
    const KRef tile = k_for_group(l->k, all_tiles(&m), "tile");
    begin_tiles(&m);
    emit_tile(&m, tile);
    k_end(l->k);
    return true;
}
