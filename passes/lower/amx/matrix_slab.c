// SPDX-License-Identifier: Apache-2.0
// The slab; see matrix_slab.h.
#include "passes/lower/amx/matrix_slab.h"

enum { BLOCK = 32, LANES = 16, SLACK_PIXELS = 32, FOLD_MAX_CHANNELS = 8, FOLD_MAX_RUN = 128 };

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

bool slab_is_folded(const TileShape *s)
{
    rlx_assert(s->ic >= 0 && s->kw >= 0);
    return s->ic <= FOLD_MAX_CHANNELS && s->kw > 1 && s->dw == 1 && s->kw * s->ic <= FOLD_MAX_RUN;
}

TileAxis slab_slice_axis(const TileShape *s)
{
    rlx_assert(s->n_outer <= 1);
    return s->n_outer == 1 ? s->outer[0]
                           : (TileAxis){.out = 1, .in = 1, .kernel = 1, .stride = 1, .dilation = 1};
}

int64_t slab_steps(const TileShape *s)
{
    rlx_assert(s->kh >= 0 && s->kw >= 0 && s->ic >= 0);
    const int64_t taps = slab_slice_axis(s).kernel * s->kh;
    return slab_is_folded(s) ? taps * ceil_div(s->kw * s->ic, BLOCK) : taps * s->kw * ceil_div(s->ic, BLOCK);
}

// Phases that kernel positions fall into: all below the stride, or as many as there are positions.
static int64_t phases(int64_t kernel, int64_t stride, int64_t dilation)
{
    int64_t most = 0;
    for (int64_t i = 0; i < kernel; i++)
        most = i * dilation % stride > most ? i * dilation % stride : most;
    return most + 1;
}

static int64_t more_rows(const Slab *b)
{
    return (b->shape.kh - 1) * b->shape.dh / b->shape.sh;
}

// The elements that each plane has beyond its rows.
static int64_t folded_slack(const Slab *b)
{
    return SLACK_PIXELS * b->step + b->blocks * BLOCK;
}

// Elements of a slab for some rows: rounded ones and rests.
static int64_t slab_elements(const Slab *b, int64_t rows)
{
    const int64_t pixels =
        b->images * b->slices * b->phases_h * b->phases_w * (rows + more_rows(b)) * b->columns;
    return b->is_folded ? matrix_parts(&b->shape) * (pixels * b->step + folded_slack(b))
                        : (pixels + SLACK_PIXELS) * b->blocks * matrix_parts(&b->shape) * BLOCK;
}

// As many rows as part of the second-level cache holds, in equal blocks, at least two blocks a thread. Large
// weights are worth a larger part: they come from far for each block.
static int64_t choose_rows(const Slab *b, int64_t weight_bytes)
{
    const int64_t l2 = b->l->caps->cpu.l2_bytes, h = b->shape.h;
    const int64_t budget = weight_bytes > l2 / 2 ? l2 / 2 : l2 / 4;
    const int64_t parts = b->l->caps->threads > 1 ? 2 * b->l->caps->threads : 1;
    int64_t rows = ceil_div(h, parts);
    while (rows > 1 && slab_elements(b, rows) * 2 > budget)
        rows -= ceil_div(rows, 8);
    rows = ceil_div(h, ceil_div(h, rows));
    return b->is_input ? ceil_div(rows, SLACK_PIXELS) * SLACK_PIXELS : rows;
}

// Whole tiles of pixels and whole blocks of elements that are next to each other.
static bool is_slab(const Slab *b)
{
    return b->shape.is_bf16 && b->l->k->params.data[b->in.param].dtype == DTYPE_bf16 && b->is_linear &&
           b->shape.sh == 1 && b->shape.n == 1 && b->in.stride_c == 1 &&
           b->shape.h % SLACK_PIXELS == 0 && b->shape.ic % BLOCK == 0;
}

static void use_pixels_as_rows(Slab *b)
{
    b->is_linear = true;
    b->shape.h = b->shape.w;
    b->shape.in_h = b->shape.in_w;
    b->shape.sh = b->shape.sw;
    b->shape.w = b->shape.in_w = b->shape.sw = 1;
    b->in.stride_h = b->in.stride_w;
}

static void set_steps(Slab *b)
{
    const TileShape *s = &b->shape;
    b->is_folded = slab_is_folded(s);
    b->taps_w = b->is_folded ? 1 : s->kw;
    b->blocks = ceil_div(b->is_folded ? s->kw * s->ic : s->ic, BLOCK);
    b->phases_h = phases(s->kh, s->sh, s->dh);
    b->phases_w = b->is_folded ? 1 : phases(s->kw, s->sw, s->dw);
    b->columns = s->w + (b->is_folded ? ceil_div(s->kw - 1, s->sw) : (s->kw - 1) * s->dw / s->sw);
    b->step = b->is_folded ? s->sw * s->ic : matrix_parts(s) * BLOCK;
}

Slab slab_new(Lower *l, const TileShape *s, const TileInput *in, int64_t weight_bytes)
{
    rlx_assert(s->sh > 0 && s->sw > 0 && weight_bytes >= 0);
    const TileAxis slice = slab_slice_axis(s);
    Slab b = {.l = l, .shape = *s, .in = *in, .images = 1, .slices = slice.in};
    if (s->h == 1 && s->in_h == 1 && s->kh == 1 && s->kw == 1 && s->pad_h == 0 && s->pad_w == 0)
        use_pixels_as_rows(&b);
    set_steps(&b);
    b.is_input = is_slab(&b);
    const int64_t l2 = l->caps->cpu.l2_bytes;
    b.is_shared = !b.is_folded && weight_bytes > l2 / 4 && slab_elements(&b, b.shape.h) * s->n * 2 <= l2 / 2;
    b.images = b.is_shared ? s->n : 1;
    b.slices = b.is_shared ? slice.in : slice.kernel;
    b.first_slice = k_index(l->k, -slice.pad);
    b.rows = b.is_shared ? b.shape.h : choose_rows(&b, weight_bytes);
    b.slab_rows = b.rows + more_rows(&b);
    // Tiles read up to 31 pixels behind the last row; what they make of them is not stored.
    const int64_t elements = slab_elements(&b, b.rows);
    b.part_step = b.is_folded ? elements / matrix_parts(s) : BLOCK;
    b.block_step = b.is_folded ? BLOCK : elements / b.blocks;
    b.base = k_index(l->k, 0);
    if (b.is_input) {
        b.step = b.in.stride_h;
        b.block_step = BLOCK;
        b.param = b.in.param;
        b.base = b.in.base;
    } else if (b.is_shared)
        b.param = lower_param_scratch(l, "slab", DTYPE_bf16, (uint64_t)elements);
    else
        b.param = lower_param_thread_scratch(l, "slab", DTYPE_bf16, (uint64_t)elements, &b.base);
    rlx_assert(b.images >= 1 && b.shape.n >= 0);
    return b;
}

// The slice of the input that a tap reads.
static KRef slice_of_tap(const Slab *b, KRef kd)
{
    return k_expr(b->l->k, "$ * # + $", kd, slab_slice_axis(&b->shape).dilation, b->first_slice);
}

void slab_set_slice(Slab *b, KRef slice)
{
    const TileAxis x = slab_slice_axis(&b->shape);
    rlx_assert(slice != 0);
    b->first_slice = k_expr(b->l->k, "$ * # - #", slice, x.stride, x.pad);
}

SlabTaps slab_taps(const Slab *b)
{
    Kernel *k = b->l->k;
    const TileAxis x = slab_slice_axis(&b->shape);
    SlabTaps t = {k_index(k, 0), k_index(k, x.kernel)};
    rlx_assert(x.kernel >= 1 && x.dilation >= 1);
    if (x.pad > 0)
        t.first = k_expr(k, "(max(0 - $, 0) + #) / #", b->first_slice, x.dilation - 1, x.dilation);
    if ((x.out - 1) * x.stride + (x.kernel - 1) * x.dilation - x.pad >= x.in)
        t.end = k_expr(k, "min((max(# - $, 0) + #) / #, #)", x.in, b->first_slice, x.dilation - 1, x.dilation,
                       x.kernel);
    return t;
}

// Index of a pixel; slice: of those in the slab.
static KRef pixel_at(const Slab *b, KRef image, KRef slice, KRef phase, KRef row, KRef column)
{
    Kernel *k = b->l->k;
    const KRef whole = b->is_shared ? k_expr(k, "$ * # + $", image, b->slices, slice) : slice;
    const KRef slot = k_expr(k, "$ * # + $", whole, b->phases_h * b->phases_w, phase);
    const KRef pixel = k_expr(k, "($ * # + $) * # + $", slot, b->slab_rows, row, b->columns, column);
    return k_expr(k, "$ * # + $", pixel, b->step, b->base);
}

KRef slab_tap(const Slab *b, KRef image, KRef kd, KRef kh, KRef kw)
{
    rlx_assert(image != 0 && kh != 0 && kw != 0);
    Kernel *k = b->l->k;
    if (b->is_input)
        return k_expr(k, "$ * # + $", slice_of_tap(b, kd), b->in.stride_outer[0], b->base);
    const TileShape *s = &b->shape;
    const KRef y = k_expr(k, "$ * #", kh, s->dh), x = k_expr(k, "$ * #", kw, s->dw);
    KRef row = y, column = x, phase = k_index(k, 0);
    if (s->sh > 1) {
        row = k_expr(k, "$ / #", y, s->sh);
        phase = k_expr(k, "$ - $ * #", y, row, s->sh);
    }
    phase = k_expr(k, "$ * #", phase, b->phases_w);
    if (s->sw > 1 && !b->is_folded) {
        column = k_expr(k, "$ / #", x, s->sw);
        phase = k_expr(k, "$ + ($ - $ * #)", phase, x, column, s->sw);
    }
    return pixel_at(b, image, b->is_shared ? slice_of_tap(b, kd) : kd, phase, row, column);
}

// --- filling -------------------------------------------------------------------------------------

static void split_into(const Slab *b, KRef to, KRef value)
{
    Kernel *k = b->l->k;
    if (b->shape.is_bf16) {
        k_store(k, b->param, to, k_cast(k, value, DTYPE_bf16), k_inst(k, value)->lanes);
        return;
    }
    k_matrix_split(k, b->param, to, k_index(k, b->part_step), value);
}

static KRef channel_at(const Slab *b, KRef pixel, int64_t channel)
{
    return k_expr(b->l->k, "$ + #", pixel, channel / BLOCK * b->block_step + channel % BLOCK);
}

static KRef zero(const Slab *b)
{
    return k_number(b->l->k, b->shape.is_bf16 ? DTYPE_bf16 : DTYPE_f32, 0);
}

static KRef zeros(const Slab *b)
{
    return k_splat(b->l->k, zero(b), LANES);
}

// Channels first .. first + 15 of a pixel, those behind the last one as zeros.
static KRef load_channels(const Slab *b, KRef from, int64_t first)
{
    Kernel *k = b->l->k;
    const int64_t left = b->shape.ic - first;
    if (left <= 0)
        return zeros(b);
    const uint8_t count = (uint8_t)(left < LANES ? left : LANES);
    return k_load(k, b->in.param, k_expr(k, "$ + #", from, first), LANES, count);
}

// A pixel whose channels are next to each other: vectors.
static void split_vectors(const Slab *b, KRef from, KRef to)
{
    Kernel *k = b->l->k;
    const int64_t full = b->shape.ic / BLOCK;
    if (full > 0) {
        const KRef c = k_loop(k, full, KFOR_SERIAL, "c");
        const KRef at = k_expr(k, "$ * # + $", c, b->block_step, to),
                   x = k_expr(k, "$ * # + $", c, BLOCK, from);
        for (int64_t i = 0; i < BLOCK; i += LANES)
            split_into(b, k_expr(k, "$ + #", at, i),
                       k_load(k, b->in.param, k_expr(k, "$ + #", x, i), LANES, LANES));
        k_end(k);
    }
    for (int64_t c = full * BLOCK; c < b->shape.ic; c += BLOCK)
        for (int64_t i = 0; i < BLOCK; i += LANES)
            split_into(b, channel_at(b, to, c + i), load_channels(b, from, c + i));
}

// Others: one by one.
static void split_scalars(const Slab *b, KRef from, KRef to)
{
    Kernel *k = b->l->k;
    const int64_t ic = b->shape.ic;
    for (int64_t c = 0; c < ic; c += BLOCK) {
        const int64_t n = ic - c < BLOCK ? ic - c : BLOCK;
        const KRef i = k_loop(k, n, KFOR_SERIAL, "c");
        const KRef x = k_expr(k, "($ + #) * # + $", i, c, b->in.stride_c, from);
        split_into(b, k_add(k, channel_at(b, to, c), i), k_load(k, b->in.param, x, 1, 1));
        k_end(k);
    }
    for (int64_t c = ic; c < b->blocks * BLOCK; c++)
        split_into(b, channel_at(b, to, c), zero(b));
}

static bool is_empty(const Kernel *k, KRef first, KRef end)
{
    int64_t lo = 0, hi = 0;
    return k_is_const(k, first, &lo) && k_is_const(k, end, &hi) && lo >= hi;
}

static void clear_pixels(const Slab *b, KRef row, KRef first, KRef end)
{
    Kernel *k = b->l->k;
    if (is_empty(k, first, end))
        return;
    const KRef j = k_for(k, first, end, 1, KFOR_SERIAL, "j");
    const KRef c = k_loop(k, b->blocks, KFOR_SERIAL, "c");
    const KRef to = k_expr(k, "$ * # + ($ * # + $)", c, b->block_step, j, b->step, row);
    for (int64_t i = 0; i < BLOCK; i += LANES)
        split_into(b, k_expr(k, "$ + #", to, i), zeros(b));
    k_ends(k, 2);
}

// A row of one phase that is inside of the image. `from` is the index of its element in column 0 of the
// image.
static void fill_row(const Slab *b, int64_t phase, KRef from, KRef row)
{
    Kernel *k = b->l->k;
    const TileShape *s = &b->shape;
    // Column j is column j * sw + phase - pad_w of the image.
    const int64_t lo = clamp(ceil_div(s->pad_w > phase ? s->pad_w - phase : 0, s->sw), 0, b->columns);
    const int64_t last = s->in_w - 1 + s->pad_w - phase;
    const int64_t hi = clamp(last < 0 ? 0 : last / s->sw + 1, lo, b->columns);
    clear_pixels(b, row, k_index(k, 0), k_index(k, lo));
    clear_pixels(b, row, k_index(k, hi), k_index(k, b->columns));
    if (lo == hi)
        return;
    const bool is_loop = hi - lo > 1;
    const KRef j = is_loop ? k_for(k, k_index(k, lo), k_index(k, hi), 1, KFOR_SERIAL, "j") : k_index(k, lo);
    const KRef column = k_expr(k, "$ * # + #", j, s->sw, phase - s->pad_w);
    const KRef x = k_expr(k, "$ * # + $", column, b->in.stride_w, from),
               to = k_expr(k, "$ * # + $", j, b->step, row);
    if (b->in.stride_c == 1)
        split_vectors(b, x, to);
    else
        split_scalars(b, x, to);
    if (is_loop)
        k_end(k);
}

static void clear_elements(const Slab *b, KRef row, int64_t first, int64_t end)
{
    Kernel *k = b->l->k;
    if (first >= end)
        return;
    const KRef e = k_for(k, k_index(k, first), k_index(k, end), 1, KFOR_SERIAL, "e");
    split_into(b, k_add(k, row, e), zero(b));
    k_end(k);
}

// Fills a row of a folded slab: element x * ic + c is channel c in column x - pad_w of the image.
static void fill_folded_row(const Slab *b, KRef from, KRef row)
{
    Kernel *k = b->l->k;
    const TileShape *s = &b->shape;
    const int64_t ic = s->ic, width = b->columns * s->sw;
    const int64_t lo = clamp(s->pad_w, 0, width), hi = clamp(s->in_w + s->pad_w, lo, width);
    clear_elements(b, row, 0, lo * ic);
    clear_elements(b, row, hi * ic, width * ic);
    if (lo == hi)
        return;
    const int64_t run = b->in.stride_c == 1 && b->in.stride_w == ic ? (hi - lo) * ic / LANES * LANES : 0;
    if (run > 0) {
        const KRef e = k_for(k, k_index(k, 0), k_index(k, run), LANES, KFOR_SERIAL, "e");
        split_into(b, k_expr(k, "$ + ($ + #)", row, e, lo * ic),
                   k_load(k, b->in.param, k_add(k, from, e), LANES, LANES));
        k_end(k);
    }
    for (int64_t c = 0; c < ic && run < (hi - lo) * ic; c++) {
        const KRef x = k_for(k, k_index(k, run / ic), k_index(k, hi - lo), 1, KFOR_SERIAL, "x");
        const KRef at = k_expr(k, "$ * # + #", x, b->in.stride_w, c * b->in.stride_c);
        split_into(b, k_expr(k, "$ * # + ($ + #)", x, ic, row, lo * ic + c),
                   k_load(k, b->in.param, k_add(k, from, at), 1, 1));
        k_end(k);
    }
}

// What a row of the slab is filled from: a slice of an image, which is `slot` of those in the slab.
typedef struct Filling {
    KRef image, slice, slot, first_row;
} Filling;

// Row i of a phase. Phases of columns are one after the other.
static void fill_phase_row(const Slab *b, const Filling *f, int64_t phase_h, KRef i)
{
    Kernel *k = b->l->k;
    const TileShape *s = &b->shape;
    const KRef image = f->image, first_row = f->first_row;
    const KRef from = k_expr(k, "$ + $ * # + $ * #", b->in.base, image, b->in.stride_n, f->slice,
                             b->in.stride_outer[0]);
    const KRef y = k_expr(k, "($ + $) * # + #", first_row, i, s->sh, phase_h - s->pad_h);
    const KRef is_inside = k_expr(k, "0 <= $ & $ < #", y, y, s->in_h);
    for (int64_t w = 0; w < b->phases_w; w++) {
        const KRef row = pixel_at(b, image, f->slot, k_index(k, phase_h * b->phases_w + w), i, k_index(k, 0));
        k_if(k, is_inside);
        if (b->is_folded)
            fill_folded_row(b, k_expr(k, "$ * # + $", y, b->in.stride_h, from), row);
        else
            fill_row(b, w, k_expr(k, "$ * # + $", y, b->in.stride_h, from), row);
        k_else(k);
        if (b->is_folded)
            clear_elements(b, row, 0, b->columns * b->step);
        else
            clear_pixels(b, row, k_index(k, 0), k_index(k, b->columns));
        k_end(k);
    }
}

static void fill_rows(const Slab *b, const Filling *f, uint8_t flags)
{
    Kernel *k = b->l->k;
    for (int64_t h = 0; h < b->phases_h; h++) {
        const KRef i = k_loop(k, b->slab_rows, flags, "r");
        fill_phase_row(b, f, h, i);
        k_end(k);
    }
}

// What lies behind the last pixel is multiplied by weights of 0.
static void clear_slack(const Slab *b)
{
    if (b->is_folded)
        clear_elements(b, b->base, b->part_step - folded_slack(b), b->part_step);
}

void slab_fill(Slab *b, KRef image, KRef first_row)
{
    rlx_assert(!b->is_shared && first_row != 0);
    Kernel *k = b->l->k;
    if (b->is_input) {
        b->base = k_expr(k, "$ * # + $", first_row, b->step, b->base);
        return;
    }
    const SlabTaps taps = slab_taps(b);
    Filling f = {.image = image, .first_row = first_row, .slot = taps.first};
    const bool is_loop = slab_slice_axis(&b->shape).kernel > 1;
    if (is_loop)
        f.slot = k_for(k, taps.first, taps.end, 1, KFOR_SERIAL, "kd");
    f.slice = slice_of_tap(b, f.slot);
    if (b->shape.n_outer == 0 || is_loop) {
        fill_rows(b, &f, KFOR_SERIAL);
    } else { // one tap, which may be outside
        k_if(k, k_lt(k, taps.first, taps.end));
        fill_rows(b, &f, KFOR_SERIAL);
        k_end(k);
    }
    if (is_loop)
        k_end(k);
    clear_slack(b);
}

void slab_fill_shared(const Slab *b)
{
    rlx_assert(b->is_shared && b->images >= 1);
    Kernel *k = b->l->k;
    if (b->is_input)
        return;
    uint32_t opened = 0;
    Filling f = {.first_row = k_index(k, 0)};
    f.image = lower_open_count(k, b->images, KFOR_PARALLEL, "n", &opened);
    f.slice = f.slot = lower_open_count(k, b->slices, KFOR_PARALLEL, "z", &opened);
    fill_rows(b, &f, b->images == 1 && b->slices == 1 ? KFOR_PARALLEL : KFOR_SERIAL);
    k_ends(k, opened);
    k_barrier(k);
}
