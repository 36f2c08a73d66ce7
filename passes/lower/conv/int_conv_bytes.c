// SPDX-License-Identifier: Apache-2.0
// int_conv for microcontrollers: bytes (or inputs of 16 bits) in memory, sums in i32, one element at a time.
// A block of up to four output channels shares the loops over the taps, so that an input is loaded once for
// all of them; depthwise blocks are four groups. Loops end at the borders, so nothing is padded. Weights are
// packed in the order in which they are read, one byte each. Where no tap can leave the input, its zero point
// is a part of what sums begin with; elsewhere it is subtracted from each input. Sums are exact, so their
// order does not matter.
#include "ir/graph/tensor.h"
#include "passes/lower/conv/int_conv_dsp.h"
#include "passes/lower/operand.h"

enum { WIDTH = 4, MAX_STEP = 4 };

// The loop over channels [0, oc) of a run of channels; runs are groups, or all of them when these have one
// output channel each.
typedef struct Bytes {
    IntConv c;
    const Domain *d;
    int64_t runs, length;  // channels of a run
    bool is_apart;         // every channel of a block has its own input channels
    bool is_inside;        // no tap can leave the input
    bool is_run;           // kernel columns and their channels follow each other in memory
    const int32_t *values; // of the weights, less their zero points
    DType type;            // of the packed weights
    uint32_t x, weights;   // params
    uint32_t begin;        // 1 + the param that sums begin with; 0: the bias, or nothing
    KRef zero;             // of the input, where it is subtracted; 0: it is not
    int64_t column;        // from which on rows are made
} Bytes;

// --- weights -------------------------------------------------------------------------------------

// [run][block][tap][input channel][output channel of the block]
static void pack(const void *ctx, void *bytes)
{
    const Bytes *b = ctx;
    const IntConv *c = &b->c;
    const int64_t taps = c->kh * c->kw;
    Tensor out = {.dtype = b->type, .data = bytes, .numel = b->runs * b->length * taps * c->ic};
    int64_t at = 0;
    for (int64_t first = 0; first < b->runs * b->length;) {
        const int64_t left = b->length - first % b->length, width = left < WIDTH ? left : WIDTH;
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t i = 0; i < c->ic; i++)
                for (int64_t o = first; o < first + width; o++)
                    tensor_set_i64(&out, at++, b->values[(o * c->ic + i) * taps + tap]);
        first += width;
    }
}

// --- loops ---------------------------------------------------------------------------------------

// The taps of one axis that are inside: [lo, hi).
typedef struct Taps {
    KRef lo, hi;
} Taps;

// first: place of tap 0, which may be outside.
static Taps taps_inside(const Bytes *b, KRef first, int64_t taps, int64_t dilation, int64_t size)
{
    Kernel *k = b->c.l->k;
    if (b->is_inside)
        return (Taps){k_index(k, 0), k_index(k, taps)};
    return (Taps){k_expr(k, "max(0, (# - $) / #)", dilation - 1, first, dilation),
                  k_expr(k, "min(#, (# - $) / #)", taps, size + dilation - 1, first, dilation)};
}

// A loop over them, or none for one that is always inside; counts in *opened.
static KRef open_taps(Kernel *k, Taps t, int64_t step, const char *name, uint32_t *opened)
{
    int64_t lo = 0, hi = 0;
    if (k_is_const(k, t.lo, &lo) && k_is_const(k, t.hi, &hi) && hi - lo == step)
        return t.lo;
    ++*opened;
    return k_for(k, t.lo, t.hi, step, KFOR_SERIAL, name);
}

// `width` channels from `first` of a run on, at one pixel.
typedef struct Block {
    KRef run, first;
    int64_t width;
    KRef acc[WIDTH];
} Block;

static KRef channel_of(const Bytes *b, const Block *at, int64_t j)
{
    return k_expr(b->c.l->k, "$ * # + $ + #", at->run, b->length, at->first, j);
}

static void begin_block(const Bytes *b, Block *at)
{
    static const char *const names[WIDTH] = {"a0", "a1", "a2", "a3"};
    Lower *l = b->c.l;
    for (int64_t j = 0; j < at->width; j++) {
        const KRef o = channel_of(b, at, j), bias = b->c.bias == 0 ? 0 : operand_index(l, b->c.bias, &o);
        const KRef begin = b->begin != 0 ? k_load(l->k, b->begin - 1, o, 1, 1)
                           : bias == 0   ? k_integer(l->k, DTYPE_i32, 0)
                                         : operand_scalar(l, b->c.bias, bias, DTYPE_i32);
        at->acc[j] = k_var(l->k, begin, names[j]);
    }
}

static KRef input_at(const Bytes *b, KRef index)
{
    Kernel *k = b->c.l->k;
    const KRef v = k_cast(k, k_load(k, b->x, index, 1, 1), DTYPE_i32);
    return b->zero != 0 ? k_sub(k, v, b->zero) : v;
}

// One input channel of each output channel. x: index of the first one's input, w: of its weight.
static void add_products(const Bytes *b, const Block *at, KRef x, KRef w)
{
    Kernel *k = b->c.l->k;
    KRef v = 0;
    for (int64_t j = 0; j < at->width; j++) {
        const int64_t apart = b->is_apart ? j * b->c.ic * b->c.stride_c : 0;
        v = v == 0 || b->is_apart ? input_at(b, k_expr(k, "$ + #", x, apart)) : v;
        const KRef weight = k_load(k, b->weights, k_expr(k, "$ + #", w, j), 1, 1);
        k_set(k, at->acc[j], k_fma(k, v, k_cast(k, weight, DTYPE_i32), k_get(k, at->acc[j])));
    }
}

// The sums of a block. row, column: of tap 0 in the input; x: index of the image.
static void add_taps(const Bytes *b, const Block *at, KRef row, KRef column, KRef x)
{
    const IntConv *c = &b->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    const Taps rows = taps_inside(b, row, c->kh, c->dh, c->in_h);
    Taps columns = taps_inside(b, column, c->kw, c->dw, c->in_w);
    const Taps all = {k_index(k, 0), k_index(k, c->ic)};
    const int64_t step = int_conv_step(c->ic, MAX_STEP), each = c->ic * at->width;
    const KRef first =
        b->is_apart ? k_expr(k, "$ * #", at->first, c->ic) : k_expr(k, "$ * #", at->run, c->ic);
    KRef w = k_expr(k, "($ * # + $) * #", at->run, b->length, at->first, c->kh * c->kw * c->ic);
    const KRef kh = open_taps(k, rows, 1, "k0", &opened);
    x = k_expr(k, "$ + $ * # + ($ * # + $) * #", x, first, c->stride_c, kh, c->dh, row, c->stride_h);
    x = k_expr(k, "$ + $ * #", x, column, c->stride_w);
    w = k_expr(k, "$ + $ * #", w, kh, c->kw * each);
    if (b->is_run)
        columns = (Taps){k_expr(k, "$ * #", columns.lo, c->ic), k_expr(k, "$ * #", columns.hi, c->ic)};
    const KRef kw = open_taps(k, columns, b->is_run ? step : 1, "k1", &opened);
    x = k_expr(k, "$ + $ * #", x, kw, b->is_run ? 1 : c->dw * c->stride_w);
    w = k_expr(k, "$ + $ * #", w, kw, b->is_run ? at->width : each);
    const KRef i = b->is_run ? k_index(k, 0) : open_taps(k, all, step, "c", &opened);
    for (int64_t s = 0; s < step; s++)
        add_products(b, at, k_expr(k, "$ + ($ + #) * #", x, i, s, c->stride_c),
                     k_expr(k, "$ + ($ + #) * #", w, i, s, at->width));
    lower_close(c->l, opened);
}

static void emit_block(const Bytes *b, Block *at, const Point *pixel)
{
    const IntConv *c = &b->c;
    Kernel *k = c->l->k;
    const uint32_t last = b->d->rank - 1;
    const KRef y = b->d->rank > 3 ? pixel->idx[2] : k_index(k, 0);
    begin_block(b, at);
    add_taps(b, at, k_expr(k, "$ * # + #", y, c->sh, -c->pad_h),
             k_expr(k, "$ * # + #", pixel->idx[last], c->sw, -c->pad_w),
             k_expr(k, "$ * #", pixel->idx[0], c->stride_n));
    for (int64_t j = 0; j < at->width; j++) {
        Point to = *pixel;
        to.idx[1] = channel_of(b, at, j);
        pull_store_root(c->l, b->d, to, k_get(k, at->acc[j]));
    }
}

static void emit_pixels(const Bytes *b)
{
    Lower *l = b->c.l;
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1, .vec_axis = 1};
    uint32_t opened = 0, run = 0, inner = 0;
    for (uint32_t i = 0; i < b->d->rank; i++)
        if (i == b->d->rank - 1 && b->column != 0) {
            at.idx[i] = k_for(k, k_index(k, b->column), k_index(k, b->c.w_out), 1, KFOR_SERIAL, "i");
            opened++;
        } else if (i != 1)
            opened += lower_open_axis(l, b->d, i, KFOR_PARALLEL, &at);
    Block block = {.width = WIDTH};
    const int64_t whole = b->length / WIDTH * WIDTH;
    block.run = lower_open_count(k, b->runs, KFOR_SERIAL, "g", &run);
    if (whole > 0) {
        block.first = open_taps(k, (Taps){k_index(k, 0), k_index(k, whole)}, WIDTH, "o", &inner);
        emit_block(b, &block, &at);
        lower_close(l, inner);
    }
    block.first = k_index(k, whole);
    block.width = b->length - whole;
    if (block.width > 0)
        emit_block(b, &block, &at);
    lower_close(l, opened + run);
}

// Those of rows [lo, hi).
static void emit_rows(const Bytes *b, int64_t lo, int64_t hi)
{
    Lower *l = b->c.l;
    const LowerStrip all = l->strip;
    const RowWindow window = {
        .image = k_index(l->k, 0), .lo = k_index(l->k, lo), .hi = k_index(l->k, hi), .rows = hi - lo};
    l->strip.window = &window;
    emit_pixels(b);
    l->strip = all;
}

// With windows in the result itself, as far as these have a place.
static void emit_ahead(Bytes *b, IntAhead *ahead)
{
    const int64_t columns = b->c.w_out, row = ahead->end / columns;
    emit_rows(b, 0, ahead->first);
    int_ahead_emit(ahead);
    b->column = ahead->end % columns;
    emit_rows(b, row, row + 1);
    b->column = 0;
    if (row + 1 < b->c.h)
        emit_rows(b, row + 1, b->c.h);
}

// --- which convolutions --------------------------------------------------------------------------

static bool fits(const IntConv *c, const Domain *d)
{
    const Lower *l = c->l;
    const bool knows_zero = c->w_zero == 0 || node_is_const(l->g, c->w_zero);
    return l->caps->prefers_ints && l->caps->packs_weights && d->rank <= 4 && node_is_const(l->g, c->w) &&
           knows_zero && !lower_is_in_file(l, c->w) && shape_numel(lower_node(l, l->root)->shape) > 0 &&
           shape_numel(lower_node(l, c->w)->shape) > 0;
}

static bool stays_inside(int64_t out, int64_t stride, int64_t kernel, int64_t dilation, int64_t pad,
                         int64_t in)
{
    return pad == 0 && (out - 1) * stride + (kernel - 1) * dilation < in;
}

// A schedule with device functions, planes or groups of pixels. Planes and tiles take operands of 16 bits;
// all others take bytes.
static bool lower_fast(const IntConv *c, const Domain *d, const Bytes *b)
{
    if (int_conv_is_wide(c) || c->l->maker != NULL)
        return int_conv_planes(c, d, b->values) ||
               (c->l->maker == NULL && int_conv_grid(c, d, b->values, b->is_inside));
    return int_conv_pool(c, d, b->values, b->is_inside) || int_conv_mve_deep(c, d, b->values) ||
           int_conv_rvv_deep(c, d, b->values, b->is_inside) || int_conv_rvv(c, d, b->values, b->is_inside) ||
           int_conv_joined(c, d, b->values, b->is_inside) || int_conv_taps(c, d, b->values) ||
           int_conv_planes(c, d, b->values) || int_conv_mve(c, d, b->values, b->is_inside) ||
           int_conv_dsp(c, d, b->values, b->is_inside) || int_conv_grid(c, d, b->values, b->is_inside);
}

bool int_conv_bytes(IntConv *c, const Domain *d)
{
    if (!fits(c, d))
        return false;
    Lower *l = c->l;
    const Tensor w = tensor_of_const(l->g, c->w);
    const Tensor zero = tensor_if_const(l->g, c->w_zero);
    Bytes b = {.c = *c, .d = d, .is_apart = c->oc == 1};
    b.values = tensor_centred(l->pass->perm, &w, &zero);
    b.runs = b.is_apart ? 1 : c->group;
    b.length = b.is_apart ? c->group : c->oc;
    b.is_inside = stays_inside(c->h, c->sh, c->kh, c->dh, c->pad_h, c->in_h) &&
                  stays_inside(c->w_out, c->sw, c->kw, c->dw, c->pad_w, c->in_w);
    if (lower_fast(c, d, &b))
        return true;
    b.is_run = c->dw == 1 && c->stride_w == c->ic && (c->stride_c == 1 || c->ic == 1);
    b.type = tensor_byte_type(b.values, w.numel);
    b.x = lower_param(l, c->x, PARAM_READ);
    Bytes *packing = ARENA_NEW(l->pass->perm, Bytes);
    *packing = b;
    b.weights = lower_param_filled(l, node_name(l->g, c->w), b.type, pack, packing,
                                   (uint64_t)w.numel * dtype_info[b.type].bytes);
    if (b.is_inside && c->x_zero != 0 && int_conv_knows_bias(c) && int_conv_knows_zero(c))
        b.begin = 1 + int_conv_begin_param(c, b.values, int_conv_zero_value(c), 0);
    else if (c->x_zero != 0)
        b.zero = int_conv_zero(c);
    IntAhead ahead;
    if (int_conv_is_wide(c) ||
        !int_ahead_choose(&ahead, c, d, b.values, b.is_inside)) {
        emit_pixels(&b);
        return true;
    }
    emit_ahead(&b, &ahead);
    return true;
}
