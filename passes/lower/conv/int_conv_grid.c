// SPDX-License-Identifier: Apache-2.0
// int_conv for microcontrollers without the DSP extension: tiles of pixels of a row by channels, whose sums
// are in registers, so that an input serves all channels of a tile and a weight all pixels. Windows of pixels
// are runs of bytes: in the input, where they are there as such, else copies with their borders. How many
// pixels and channels a tile has follows from the registers (ir/machine/machine.h).
//
// Where loads of bytes have no signs, windows and weights are raised, so that the least one is 0. Sums of
// products then are too large by RAISE times the sum of the window, which is taken from what they begin with.
#include "ir/graph/tensor.h"
#include "passes/lower/conv/int_conv.h"

enum { MAX_PIXELS = 4, WIDTH = 4, MAX_STEP = 4, RAISE = 128, ADDRESSES = 2, UNROLLED = 32 };

typedef struct Grid {
    IntConv c;
    Domain d;
    const int32_t *values;   // of the weights, less their zero points
    const IntScales *scales; // NULL: nodes say what becomes of sums
    int64_t pixels, width;   // of a tile
    int64_t depth;           // elements of a window
    bool is_raised;
    bool is_inside;                           // no tap can leave the input
    bool is_joined;                           // columns of the kernel follow each other in the input
    bool is_copied;                           // windows are
    DType type;                               // of the packed weights
    int64_t zero;                             // what windows have beside the input
    uint32_t x, weights, begin, window, sums; // params; windows of the tile's pixels, one after the other
    KRef first_window, first_sum;             // of a thread
} Grid;

static DType type_of(const Grid *g)
{
    return lower_node(g->c.l, g->c.x)->dtype;
}

static DType window_type(const Grid *g)
{
    return g->is_raised ? DTYPE_u8 : type_of(g);
}

// --- weights -------------------------------------------------------------------------------------

// [group][block][row, column, input channel][output channel of the block]
static void pack(const void *ctx, void *bytes)
{
    const Grid *g = ctx;
    const IntConv *c = &g->c;
    const int64_t taps = c->kh * c->kw;
    Tensor out = {.dtype = g->type, .data = bytes, .numel = c->group * c->oc * g->depth};
    int64_t at = 0;
    for (int64_t first = 0; first < c->group * c->oc;) {
        const int64_t left = c->oc - first % c->oc, width = left < g->width ? left : g->width;
        for (int64_t i = 0; i < g->depth; i++)
            for (int64_t o = first; o < first + width; o++) {
                const int64_t v = g->values[(o * c->ic + i % c->ic) * taps + i / c->ic];
                tensor_set_i64(&out, at++, v + (g->is_raised ? RAISE : 0));
            }
        first += width;
    }
}

// --- windows -------------------------------------------------------------------------------------

// Pixels of a row that follow each other.
typedef struct Patch {
    Point at;            // of the first one
    KRef row, column, x; // of its tap 0, which may be outside; x: the index in the input
    KRef group;
    int64_t pixels;
    KRef sum; // a variable: of the window, where it is raised
} Patch;

static void put(const Grid *g, const Patch *t, KRef to, KRef v)
{
    Kernel *k = g->c.l->k;
    if (g->is_raised)
        k_set(k, t->sum, k_add(k, k_get(k, t->sum), v));
    k_store(k, g->window, to, k_cast(k, v, window_type(g)), 1);
}

// n elements of the input, a multiple of step.
static void copy_run(const Grid *g, const Patch *t, KRef from, KRef to, KRef n, int64_t step)
{
    Kernel *k = g->c.l->k;
    const bool is_moved = g->is_raised && type_of(g) == DTYPE_i8;
    const KRef i = k_for(k, k_index(k, 0), n, step, KFOR_SERIAL, "i");
    for (int64_t j = 0; j < step; j++) {
        const KRef v = k_cast(k, k_load(k, g->x, k_expr(k, "$ + ($ + #)", from, i, j), 1, 1), DTYPE_i32);
        put(g, t, k_expr(k, "$ + ($ + #)", to, i, j),
            is_moved ? k_xor(k, v, k_integer(k, DTYPE_i32, RAISE)) : v);
    }
    k_end(k);
}

// Elements lo .. hi - 1 of a window's run at `to` are the zero point.
static void clear_run(const Grid *g, const Patch *t, KRef to, KRef lo, KRef hi)
{
    Kernel *k = g->c.l->k;
    const KRef i = k_for(k, lo, hi, 1, KFOR_SERIAL, "i");
    put(g, t, k_add(k, to, i), k_integer(k, DTYPE_i32, g->zero));
    k_end(k);
}

static int64_t step_of(int64_t n, int64_t most)
{
    for (int64_t step = most; step > 1; step--)
        if (n % step == 0)
            return step;
    return 1;
}

// A loop over the runs of a window, pixel i: where they begin in the input, and in the windows.
typedef struct Run {
    KRef row, column, from, to;
    int64_t columns, n; // elements
    uint32_t opened;
} Run;

static Run open_runs(const Grid *g, const Patch *t, int64_t i)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    Run r = {.columns = g->is_joined ? c->kw : 1};
    r.n = r.columns * c->ic;
    const KRef y = lower_open_count(k, c->kh, KFOR_SERIAL, "k0", &r.opened);
    const KRef x = g->is_joined ? k_index(k, 0) : lower_open_count(k, c->kw, KFOR_SERIAL, "k1", &r.opened);
    r.row = k_expr(k, "$ + $ * #", t->row, y, c->dh);
    r.column = k_expr(k, "$ + $ * # + #", t->column, x, c->dw, i * c->sw);
    r.from = k_expr(k, "$ + $ * # + ($ * # + #)", t->x, y, c->dh * c->stride_h, x, c->dw * c->stride_w,
                    i * c->sw * c->stride_w);
    r.to = k_expr(k, "$ + ($ * # + ($ * # + #))", g->first_window, y, c->kw * c->ic, x, c->ic, i * g->depth);
    return r;
}

static void copy_inside(const Grid *g, const Patch *t)
{
    for (int64_t i = 0; i < t->pixels; i++) {
        const Run r = open_runs(g, t, i);
        copy_run(g, t, r.from, r.to, k_index(g->c.l->k, r.n), step_of(r.n, MAX_STEP));
        lower_close(g->c.l, r.opened);
    }
}

static void copy_edge(const Grid *g, const Patch *t)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    const KRef zero = k_index(k, 0);
    for (int64_t i = 0; i < t->pixels; i++) {
        const Run r = open_runs(g, t, i);
        KRef lo = k_expr(k, "min(#, max(0, 0 - $))", r.columns, r.column);
        KRef hi = k_expr(k, "max($, min(#, # - $))", lo, r.columns, c->in_w, r.column);
        const KRef is_there = k_expr(k, "0 <= $ & $ < #", r.row, r.row, c->in_h);
        lo = k_expr(k, "$ * #", k_select(k, is_there, lo, zero), c->ic);
        hi = k_expr(k, "$ * #", k_select(k, is_there, hi, zero), c->ic);
        clear_run(g, t, r.to, zero, lo);
        copy_run(g, t, k_add(k, r.from, lo), k_add(k, r.to, lo), k_sub(k, hi, lo), step_of(c->ic, MAX_STEP));
        clear_run(g, t, r.to, hi, k_index(k, r.n));
        lower_close(c->l, r.opened);
    }
}

static void copy_windows(const Grid *g, Patch *t)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    if (g->is_raised)
        t->sum = k_var(k, k_integer(k, DTYPE_i32, 0), "sum");
    if (!g->is_copied)
        return;
    if (!g->is_inside) {
        const int64_t columns = (t->pixels - 1) * c->sw + (c->kw - 1) * c->dw;
        k_if(k, k_expr(k, "0 <= $ & $ < # & 0 <= $ & $ < #", t->row, t->row, c->in_h - (c->kh - 1) * c->dh,
                       t->column, t->column, c->in_w - columns));
    }
    copy_inside(g, t);
    if (g->is_inside)
        return;
    k_else(k);
    copy_edge(g, t);
    k_end(k);
}

// --- sums ----------------------------------------------------------------------------------------

typedef struct Block {
    KRef first; // channel of the group
    int64_t width;
} Block;

static KRef channel_of(const Grid *g, const Patch *t, const Block *b, KRef j)
{
    return k_expr(g->c.l->k, "$ * # + $ + $", t->group, g->c.oc, b->first, j);
}

// Step s of an iteration that begins with element i.
static void add_products(const Grid *g, const Patch *t, const Block *b, const KRef *acc, const KRef at[3])
{
    Kernel *k = g->c.l->k;
    const KRef x = at[0], w = at[1], i = at[2];
    const int64_t pitch = g->is_copied ? g->depth : g->c.sw * g->c.stride_w;
    KRef v[MAX_PIXELS] = {0};
    for (int64_t p = 0; p < t->pixels; p++)
        v[p] = k_cast(
            k, k_load(k, g->is_copied ? g->window : g->x, k_expr(k, "$ + ($ + #)", x, i, p * pitch), 1, 1),
            DTYPE_i32);
    for (int64_t j = 0; j < b->width; j++) {
        const KRef weight = k_cast(
            k, k_load(k, g->weights, k_expr(k, "$ + ($ * # + #)", w, i, b->width, j), 1, 1), DTYPE_i32);
        for (int64_t p = 0; p < t->pixels; p++) {
            const KRef to = acc[j * t->pixels + p];
            k_set(k, to, k_mad(k, v[p], weight, k_get(k, to)));
        }
    }
}

static void add_up(const Grid *g, const Patch *t, const Block *b)
{
    Kernel *k = g->c.l->k;
    KRef acc[MAX_PIXELS * WIDTH];
    uint32_t opened = 0;
    for (int64_t j = 0; j < b->width; j++) {
        KRef begin = k_load(k, g->begin, channel_of(g, t, b, k_index(k, j)), 1, 1);
        if (g->is_raised)
            begin = k_fma(k, k_get(k, t->sum), k_integer(k, DTYPE_i32, -RAISE), begin);
        for (int64_t p = 0; p < t->pixels; p++)
            acc[j * t->pixels + p] = k_var(k, begin, "a");
    }
    const int64_t products = b->width * t->pixels, most = UNROLLED / products;
    const int64_t step = step_of(g->depth, most < MAX_STEP ? most : MAX_STEP);
    const KRef w = k_expr(k, "($ * # + $) * #", t->group, g->c.oc, b->first, g->depth);
    const KRef x = g->is_copied ? g->first_window : t->x;
    KRef i = k_index(k, 0);
    if (step < g->depth) {
        i = k_for(k, i, k_index(k, g->depth), step, KFOR_SERIAL, "k");
        opened++;
    }
    for (int64_t s = 0; s < step; s++)
        add_products(g, t, b, acc, (const KRef[3]){x, w, k_expr(k, "$ + #", i, s)});
    lower_close(g->c.l, opened);
    for (int64_t j = 0; j < b->width * t->pixels; j++)
        k_store(k, g->sums, k_expr(k, "$ + #", g->first_sum, j), k_get(k, acc[j]), 1);
}

// --- results -------------------------------------------------------------------------------------

// Channel j of a block. own: its number among those with numbers of their own, or 0.
static void store_channel(const Grid *g, const Patch *t, const Block *b, KRef j, KRef own)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    Point to = t->at;
    IntScale scale;
    to.idx[1] = channel_of(g, t, b, j);
    if (g->scales != NULL)
        scale = int_scales_load(c, g->scales, to.idx[1], own);
    for (int64_t p = 0; p < t->pixels; p++) {
        const KRef sum =
            k_load(k, g->sums, k_expr(k, "$ + ($ * # + #)", g->first_sum, j, t->pixels, p), 1, 1);
        to.idx[g->d.rank - 1] = k_expr(k, "$ + #", t->at.idx[g->d.rank - 1], p);
        if (g->scales != NULL)
            int_scales_store(c, &g->d, g->scales, &scale, &to, sum);
        else
            pull_store_root(c->l, &g->d, to, sum);
    }
}

static void emit_block(const Grid *g, const Patch *t, Block b)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    add_up(g, t, &b);
    const KRef j = lower_open_count(k, b.width, KFOR_SERIAL, "j", &opened);
    const KRef own = g->scales != NULL ? int_scales_own(c, g->scales, channel_of(g, t, &b, j)) : 0;
    const bool is_mixed = own != 0 && g->scales->n_own < g->scales->n;
    if (is_mixed)
        k_if(k, k_expr(k, "0 < $", own));
    store_channel(g, t, &b, j, own);
    if (is_mixed) {
        k_else(k);
        store_channel(g, t, &b, j, 0);
        k_end(k);
    }
    lower_close(c->l, opened);
}

// --- loops ---------------------------------------------------------------------------------------

static void emit_tile(const Grid *g, Patch t, KRef column)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    const uint32_t last = g->d.rank - 1;
    const KRef y = g->d.rank > 3 ? t.at.idx[2] : k_index(k, 0);
    const int64_t whole = c->oc / g->width * g->width;
    uint32_t opened = 0, inner = 0;
    t.at.idx[last] = column;
    t.row = k_expr(k, "$ * # + #", y, c->sh, -c->pad_h);
    t.column = k_expr(k, "$ * # + #", column, c->sw, -c->pad_w);
    t.group = lower_open_count(k, c->group, KFOR_SERIAL, "g", &opened);
    t.x = k_expr(k, "$ * # + $ * # + $ * # + $ * #", t.at.idx[0], c->stride_n, t.row, c->stride_h, t.column,
                 c->stride_w, t.group, c->ic * c->stride_c);
    copy_windows(g, &t);
    if (whole > 0) {
        const KRef n = lower_open_count(k, whole / g->width, KFOR_SERIAL, "o", &inner);
        emit_block(g, &t, (Block){.first = k_expr(k, "$ * #", n, g->width), .width = g->width});
        lower_close(c->l, inner);
    }
    if (whole < c->oc)
        emit_block(g, &t, (Block){.first = k_index(k, whole), .width = c->oc - whole});
    lower_close(c->l, opened);
}

static void emit(const Grid *g)
{
    const IntConv *c = &g->c;
    Lower *l = c->l;
    Kernel *k = l->k;
    const int64_t tiles = c->w_out / g->pixels, rest = c->w_out % g->pixels;
    uint32_t opened = 0, inner = 0;
    Patch t = {.at = {.lanes = 1, .count = 1, .vec_axis = 1}, .pixels = g->pixels};
    for (uint32_t i = 0; i < g->d.rank - 1; i++)
        if (i != 1)
            opened += lower_open_axis(l, &g->d, i, KFOR_PARALLEL, &t.at);
    const KRef tile = lower_open_count(k, tiles, KFOR_SERIAL, "t", &inner);
    emit_tile(g, t, k_expr(k, "$ * #", tile, g->pixels));
    lower_close(l, inner);
    t.pixels = rest;
    if (rest > 0)
        emit_tile(g, t, k_index(k, c->w_out - rest));
    lower_close(l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

// Pixels and channels with the fewest loads, and then the fewest pixels.
static void choose_tile(Grid *g)
{
    const IntConv *c = &g->c;
    const TargetCaps *caps = c->l->caps;
    const int64_t most_pixels = c->w_out < MAX_PIXELS ? c->w_out : MAX_PIXELS;
    double best = 0;
    for (int64_t p = 1; p <= most_pixels; p++)
        for (int64_t w = 1; w <= WIDTH && w <= c->oc; w++) {
            const int64_t product = caps->has_mla || p == 1 ? 0 : 1; // else a weight may become it
            const double loads = (double)(p + w) / (double)(p * w);
            if (p * w + p + 1 + product + ADDRESSES > caps->cpu.int_registers ||
                (g->pixels > 0 && loads >= best))
                continue;
            best = loads;
            g->pixels = p;
            g->width = w;
        }
}

// Rows whose pixels follow each other everywhere become one.
static void join_rows(Grid *g)
{
    IntConv *c = &g->c;
    if (g->d.rank != 4 || c->kh != 1 || !g->is_inside ||
        c->sh * c->stride_h != c->w_out * c->sw * c->stride_w)
        return;
    for (uint32_t i = 0; i < g->d.access.len; i++)
        if (g->d.access.data[i].stride[2] != g->d.access.data[i].stride[3] * c->w_out)
            return;
    g->d.extent[3] *= g->d.extent[2];
    g->d.extent[2] = 1;
    c->w_out *= c->h;
    c->h = 1;
}

static bool fits(const Grid *g)
{
    const IntConv *c = &g->c;
    const Lower *l = c->l;
    const bool knows_bias = c->bias == 0 || node_is_const(l->g, c->bias);
    const bool knows_zero = c->x_zero == 0 || node_is_const(l->g, c->x_zero);
    for (uint32_t i = 0; i < g->d.rank; i++)
        if (lower_knows(l, &g->d.live[i]))
            return false;
    return !l->caps->has_dsp && l->strip.window == NULL && knows_bias && knows_zero &&
           k_is_byte(type_of(g)) && (c->stride_c == 1 || c->ic == 1) && c->oc > 1 &&
           (c->group == 1 || c->oc >= WIDTH);
}

static bool are_bytes(const Grid *g)
{
    for (int64_t i = 0; i < g->c.group * g->c.oc * g->depth; i++)
        if (g->values[i] < INT8_MIN || g->values[i] > INT8_MAX)
            return false;
    return true;
}

static void add_params(Grid *g)
{
    const IntConv *c = &g->c;
    Lower *l = c->l;
    const Tensor zero = tensor_if_const(l->g, c->x_zero);
    const int64_t n = c->group * c->oc * g->depth;
    g->zero = c->x_zero != 0 ? tensor_get_i64(&zero, 0) : 0;
    if (g->is_raised && type_of(g) == DTYPE_i8)
        g->zero += RAISE;
    g->type = g->is_raised ? DTYPE_u8 : int_conv_weight_type(g->values, n);
    Grid *packing = ARENA_NEW(l->pass->perm, Grid);
    *packing = *g;
    const TensorType bytes = {DTYPE_u8, *lower_node(l, c->x)->shape};
    const bool has_signs = !g->is_raised || type_of(g) == DTYPE_u8;
    g->x = has_signs ? lower_param(l, c->x, PARAM_READ)
                     : lower_param_typed(l, &bytes, lower_loc(l, c->x), "x", PARAM_READ);
    g->weights = lower_param_filled(l, node_name(l->g, c->w), g->type, pack, packing,
                                    (uint64_t)n * dtype_info[g->type].bytes);
    g->begin = int_conv_begin_param(c, g->values, g->zero);
    if (g->is_copied)
        g->window = lower_param_thread_scratch(l, "window", window_type(g), (uint64_t)(g->pixels * g->depth),
                                               &g->first_window);
    g->sums =
        lower_param_thread_scratch(l, "sums", DTYPE_i32, (uint64_t)(g->pixels * g->width), &g->first_sum);
}

// Rows joined, where that is possible, or as stages need them; false: neither of them.
static bool choose_way(Grid *g)
{
    const Grid apart = *g;
    join_rows(g);
    choose_tile(g);
    if (g->pixels != 0 && lower_take(g->c.l))
        return true;
    *g = apart;
    choose_tile(g);
    return g->pixels != 0 && lower_take(g->c.l);
}

bool int_conv_grid(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    Grid g = {.c = *c, .d = *d, .values = values, .is_inside = is_inside, .depth = c->ic * c->kh * c->kw};
    if (!fits(&g))
        return false;
    g.is_joined = c->kw == 1 || (c->dw == 1 && c->stride_w == c->ic);
    g.is_raised = c->l->caps->is_narrow && are_bytes(&g);
    g.is_copied = g.is_raised || !is_inside || c->kh > 1 || !g.is_joined;
    if (!choose_way(&g))
        return false;
    add_params(&g);
    IntScales scales;
    g.scales = int_scales_find(c, &scales) ? &scales : NULL;
    emit(&g);
    return true;
}
