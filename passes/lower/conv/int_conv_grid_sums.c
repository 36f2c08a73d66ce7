// SPDX-License-Identifier: Apache-2.0
// The sums of tiles of int_conv (int_conv_grid.h): of the elements of windows times the weights of a block of
// channels.
#include "passes/lower/conv/int_conv_grid.h"

// PAIRED: compilers load what they can of a step before they multiply pairs, which takes registers.
enum { UNROLLED = 32, PAIRED = 8 };

KRef grid_channel(const Grid *g, const GridPatch *t, const GridBlock *b, KRef j)
{
    return k_expr(g->c.l->k, "$ * # + $ + $", t->group, g->c.oc, b->first, j);
}

// Words or pixels whose sums a channel has.
static int64_t values_of(const GridPatch *t)
{
    return t->is_packed ? GRID_WORDS : t->pixels;
}

// Value v of element i. x: the index of the patch in the input.
static KRef value_at(const Grid *g, const GridPatch *t, KRef i, int64_t v)
{
    Kernel *k = g->c.l->k;
    KRef at = 0;
    if (t->is_packed)
        at = k_expr(k, "$ + ($ * # + #)", g->first_window, i, GRID_WORDS, v);
    else if (grid_is_copied(g))
        at = k_expr(k, "$ + ($ + #)", g->first_window, i, v * grid_part(g));
    else
        at = k_expr(k, "$ + ($ + #)", t->x, i, v * g->c.sw * g->c.stride_w);
    return k_cast(k, k_load(k, grid_is_copied(g) ? g->window : g->x, at, 1, 1), DTYPE_i32);
}

// Element i. w: index of the block's first weight.
static void add_products(const Grid *g, const GridPatch *t, const GridBlock *b, KRef w, KRef i)
{
    Kernel *k = g->c.l->k;
    const int64_t n = values_of(t);
    KRef v[GRID_MAX_PIXELS] = {0};
    for (int64_t p = 0; p < n; p++)
        v[p] = value_at(g, t, i, p);
    for (int64_t j = 0; j < b->width; j++) {
        const KRef weight = k_cast(
            k, k_load(k, g->weights, k_expr(k, "$ + ($ * # + #)", w, i, b->width, j), 1, 1), DTYPE_i32);
        for (int64_t p = 0; p < n; p++) {
            const KRef sum = k_get(k, b->acc[j * n + p]);
            k_set(k, b->acc[j * n + p],
                  g->is_paired ? k_dot16(k, v[p], weight, sum) : k_mad(k, v[p], weight, sum));
        }
    }
}

// Elements lo .. hi - 1.
static void add_elements(const Grid *g, const GridPatch *t, const GridBlock *b, KRef lo, int64_t n)
{
    Kernel *k = g->c.l->k;
    uint32_t opened = 0;
    const int64_t products = b->width * values_of(t);
    const int64_t most = grid_is_rest(g, t) ? 1 : (g->is_paired ? PAIRED : UNROLLED) / products;
    const int64_t step = int_conv_step(n, most < 1 ? 1 : most < GRID_MAX_STEP ? most : GRID_MAX_STEP);
    KRef w = k_expr(k, "($ * # + $) * #", t->group, g->c.oc, b->first, g->depth), i = lo;
    if (g->parts > 1)
        w = k_expr(k, "$ + $ * #", w, t->part, grid_part(g) * b->width);
    if (step < n) {
        i = k_for(k, lo, k_expr(k, "$ + #", lo, n), step, KFOR_SERIAL, "k");
        opened++;
    }
    for (int64_t s = 0; s < step; s++)
        add_products(g, t, b, w, k_expr(k, "$ + #", i, s));
    lower_close(g->c.l, opened);
}

static KRef begin_of(const Grid *g, const GridPatch *t, const GridBlock *b, KRef j)
{
    Kernel *k = g->c.l->k;
    const KRef begin = k_load(k, g->begin, grid_channel(g, t, b, j), 1, 1);
    const int64_t least = t->is_packed ? 0 : g->least * g->chunks * g->parts; // which is a part of it
    return least == 0 ? begin : k_sub(k, begin, k_integer(k, DTYPE_i32, least));
}

// What the sum of a pixel begins with.
static KRef lowered(const Grid *g, const GridPatch *t, KRef begin, int64_t pixel)
{
    Kernel *k = g->c.l->k;
    const KRef raise = k_integer(k, DTYPE_i32, -GRID_RAISE);
    return g->is_raised ? k_fma(k, k_get(k, t->sum[pixel]), raise, begin) : begin;
}

// Index in `sums`, where channel 0 is the first one of a block, or of the group where windows have parts.
static KRef sum_at(const Grid *g, const GridPatch *t, KRef j, int64_t pixel)
{
    return k_expr(g->c.l->k, "$ + ($ * # + #)", g->first_sum, j, t->pixels, pixel);
}

// Sums of a block whose pixels are not packed.
static void add_up(const Grid *g, const GridPatch *t, GridBlock *b)
{
    Kernel *k = g->c.l->k;
    for (int64_t j = 0; j < b->width; j++)
        for (int64_t p = 0; p < t->pixels; p++)
            b->acc[j * t->pixels + p] = k_var(k, lowered(g, t, begin_of(g, t, b, k_index(k, j)), p), "a");
    add_elements(g, t, b, k_index(k, 0), g->depth);
    for (int64_t j = 0; j < b->width && !g->is_direct; j++)
        for (int64_t p = 0; p < t->pixels; p++)
            k_store(k, g->sums, sum_at(g, t, k_index(k, j), p), k_get(k, b->acc[j * t->pixels + p]), 1);
}

// Adds those of a part of the windows to what `sums` has of them.
static void add_part(const Grid *g, const GridPatch *t, GridBlock *b)
{
    Kernel *k = g->c.l->k;
    for (int64_t i = 0; i < b->width * t->pixels; i++) {
        const KRef at = sum_at(g, t, k_expr(k, "$ + #", b->first, i / t->pixels), i % t->pixels);
        b->acc[i] = k_var(k, k_load(k, g->sums, at, 1, 1), "a");
    }
    add_elements(g, t, b, k_index(k, 0), grid_part(g));
    for (int64_t i = 0; i < b->width * t->pixels; i++) {
        const KRef at = sum_at(g, t, k_expr(k, "$ + #", b->first, i / t->pixels), i % t->pixels);
        k_store(k, g->sums, at, k_get(k, b->acc[i]), 1);
    }
}

// --- sums of packed pixels -----------------------------------------------------------------------

// Sums that are in `sums` in front of words: those of chunks or parts, if there are several.
static int64_t sums_before(const Grid *g)
{
    return GRID_PACKED * (g->parts > 1 ? g->c.oc : g->chunks > 1 ? g->width : 0);
}

static KRef word_at(const Grid *g, KRef j, int64_t word)
{
    return k_expr(g->c.l->k, "$ + ($ * # + #)", g->first_sum, j, GRID_WORDS, sums_before(g) + word);
}

static KRef bits_from(Kernel *k, KRef word, int64_t first)
{
    return k_shr(k, word, k_integer(k, DTYPE_u32, first));
}

static KRef bits_below(Kernel *k, KRef word, int64_t end)
{
    return k_and(k, word, k_integer(k, DTYPE_u32, (INT64_C(1) << end) - 1));
}

static KRef word_of(const Grid *g, const GridBlock *b, GridChannel at, int64_t word)
{
    Kernel *k = g->c.l->k;
    const KRef v = g->is_direct ? k_get(k, b->acc[at.number * GRID_WORDS + word])
                                : k_load(k, g->sums, word_at(g, at.j, word), 1, 1);
    return k_cast(k, v, DTYPE_u32);
}

// The sums of a channel, each less the least one there is.
static void unpack(const Grid *g, const GridBlock *b, GridChannel at, KRef sum[GRID_PACKED])
{
    enum { REST = GRID_SUM_BITS - GRID_LOW_BITS, END = 32 - REST };
    Kernel *k = g->c.l->k;
    const KRef word = word_of(g, b, at, 0), second = word_of(g, b, at, 1);
    const KRef low = bits_from(k, word, GRID_SUM_BITS), shift = k_integer(k, DTYPE_u32, GRID_LOW_BITS);
    const KRef other = k_sub(k, second, k_shl(k, low, shift));
    sum[0] = k_cast(k, bits_below(k, word, GRID_SUM_BITS), DTYPE_i32);
    sum[1] = k_cast(k, k_add(k, low, k_shl(k, bits_from(k, other, END), shift)), DTYPE_i32);
    sum[2] = k_cast(k, bits_below(k, other, END), DTYPE_i32);
}

static KRef begin_word(Kernel *k, int64_t least, int64_t bits)
{
    const uint64_t both = (uint64_t)-least * (1 + (UINT64_C(1) << bits));
    return k_integer(k, DTYPE_i32, (int32_t)(uint32_t)both);
}

static void add_up_chunk(const Grid *g, const GridPatch *t, GridBlock *b, KRef chunk)
{
    Kernel *k = g->c.l->k;
    const int64_t n = grid_part(g) / g->chunks;
    for (int64_t j = 0; j < b->width; j++) {
        b->acc[j * GRID_WORDS] = k_var(k, begin_word(k, g->least, GRID_SUM_BITS), "a");
        b->acc[j * GRID_WORDS + 1] = k_var(k, begin_word(k, g->least, GRID_LOW_BITS), "a");
    }
    add_elements(g, t, b, k_expr(k, "$ * #", chunk, n), n);
    for (int64_t j = 0; j < b->width * GRID_WORDS && !g->is_direct; j++)
        k_store(k, g->sums, word_at(g, k_index(k, 0), j), k_get(k, b->acc[j]), 1);
}

// Adds the words of a block to its sums, of which the first one has this number in `sums`.
static void add_words(const Grid *g, const GridPatch *t, const GridBlock *b, KRef first)
{
    Kernel *k = g->c.l->k;
    uint32_t opened = 0;
    KRef sum[GRID_PACKED];
    for (int64_t i = 0; i < b->width * GRID_PACKED && g->is_direct; i++) {
        if (i % GRID_PACKED == 0)
            unpack(g, b, (GridChannel){.number = i / GRID_PACKED}, sum);
        k_set(k, b->total[i], k_add(k, k_get(k, b->total[i]), sum[i % GRID_PACKED]));
    }
    if (g->is_direct)
        return;
    const KRef j = lower_open_count(k, b->width, KFOR_SERIAL, "j", &opened);
    unpack(g, b, (GridChannel){.j = j}, sum);
    for (int64_t p = 0; p < GRID_PACKED; p++) {
        const KRef to = sum_at(g, t, k_add(k, first, j), p);
        k_store(k, g->sums, to, k_add(k, k_load(k, g->sums, to, 1, 1), sum[p]), 1);
    }
    lower_close(g->c.l, opened);
}

// Several chunks: sums of one after the other.
static void add_up_chunks(const Grid *g, const GridPatch *t, GridBlock *b)
{
    Kernel *k = g->c.l->k;
    for (int64_t j = 0; j < b->width; j++)
        for (int64_t p = 0; p < GRID_PACKED; p++) {
            const KRef begin = lowered(g, t, begin_of(g, t, b, k_index(k, j)), p);
            if (g->is_direct)
                b->total[j * GRID_PACKED + p] = k_var(k, begin, "s");
            else
                k_store(k, g->sums, sum_at(g, t, k_index(k, j), p), begin, 1);
        }
    add_up_chunk(g, t, b, k_loop(k, g->chunks, KFOR_SERIAL, "chunk"));
    add_words(g, t, b, k_index(k, 0));
    k_end(k);
}

// --- blocks --------------------------------------------------------------------------------------

void grid_add_up(const Grid *g, const GridPatch *t, GridBlock *b)
{
    if (!t->is_packed)
        add_up(g, t, b);
    else if (g->chunks == 1)
        add_up_chunk(g, t, b, k_index(g->c.l->k, 0));
    else
        add_up_chunks(g, t, b);
}

void grid_clear_sums(const Grid *g, const GridPatch *t)
{
    Kernel *k = g->c.l->k;
    const KRef i = k_loop(k, g->c.oc * t->pixels, KFOR_SERIAL, "i");
    k_store(k, g->sums, k_add(k, g->first_sum, i), k_integer(k, DTYPE_i32, 0), 1);
    k_end(k);
}

void grid_add_part(const Grid *g, const GridPatch *t, GridBlock *b)
{
    Kernel *k = g->c.l->k;
    if (!t->is_packed) {
        add_part(g, t, b);
        return;
    }
    uint32_t opened = 0;
    add_up_chunk(g, t, b, lower_open_count(k, g->chunks, KFOR_SERIAL, "chunk", &opened));
    add_words(g, t, b, b->first);
    lower_close(g->c.l, opened);
}

void grid_load_sums(const Grid *g, const GridPatch *t, const GridBlock *b, GridChannel at, KRef *sum)
{
    Kernel *k = g->c.l->k;
    const bool is_packed = t->is_packed && g->chunks == 1 && g->parts == 1;
    const KRef begin = is_packed || g->parts > 1 ? k_var(k, begin_of(g, t, b, at.j), "begin") : 0;
    const KRef *direct = t->is_packed ? b->total : b->acc;
    if (is_packed)
        unpack(g, b, at, sum);
    for (int64_t p = 0; p < t->pixels; p++) {
        if (g->is_direct && !is_packed) {
            sum[p] = direct[at.number * t->pixels + p];
            continue;
        }
        const KRef v = is_packed ? sum[p] : k_load(k, g->sums, sum_at(g, t, at.j, p), 1, 1);
        sum[p] = k_var(k, begin == 0 ? v : k_add(k, v, lowered(g, t, k_get(k, begin), p)), "s");
    }
}

uint64_t grid_sums(const Grid *g)
{
    return (uint64_t)(sums_before(g) + g->width * (g->is_packed ? GRID_WORDS : g->pixels));
}
