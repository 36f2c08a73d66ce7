// SPDX-License-Identifier: Apache-2.0
// The slab; see matrix_slab.h.
#include "passes/matrix_slab.h"

enum { BLOCK = 32, LANES = 16, LINE = 64, SLACK_PIXELS = 32 };

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

// Phases that kernel positions fall into: all below the stride, or as many as there are positions.
static int64_t phases(int64_t kernel, int64_t stride, int64_t dilation)
{
    int64_t most = 0;
    for (int64_t i = 0; i < kernel; i++)
        most = i * dilation % stride > most ? i * dilation % stride : most;
    return most + 1;
}

// Elements from pixel to pixel: blocks of 32 channels, rounded and rest. Not a multiple of 1 KB, so that the
// 16 pixels of a tile do not fall into few sets of the cache.
static int64_t pixel_step(int64_t channels)
{
    const int64_t step = ceil_div(channels, BLOCK) * 2 * BLOCK;
    return step % 512 == 0 ? step + LINE : step;
}

static int64_t slab_pixels(const Slab *b, int64_t rows)
{
    const int64_t more = (b->shape.kh - 1) * b->shape.dh / b->shape.sh;
    return b->phases_h * b->phases_w * (rows + more) * b->columns;
}

// As many rows as half of the second-level cache holds, in equal blocks; at least two blocks a thread.
static int64_t choose_rows(const Slab *b)
{
    const int64_t budget = (int64_t)b->l->caps->l2_bytes / 4, h = b->shape.h;
    const int64_t parts = b->l->caps->threads > 1 ? 2 * b->l->caps->threads : 1;
    int64_t rows = ceil_div(h, parts);
    while (rows > 1 && slab_pixels(b, rows) * b->step * 2 > budget)
        rows -= ceil_div(rows, 8);
    return ceil_div(h, ceil_div(h, rows));
}

Slab slab_new(Lower *l, const TileShape *s, const TileInput *in)
{
    Slab b = {.l = l, .shape = *s, .in = *in};
    b.is_linear = s->h == 1 && s->in_h == 1 && s->kh == 1 && s->kw == 1 && s->pad_h == 0 && s->pad_w == 0;
    if (b.is_linear) {
        b.shape.h = s->w;
        b.shape.in_h = s->in_w;
        b.shape.sh = s->sw;
        b.shape.w = b.shape.in_w = b.shape.sw = 1;
        b.in.stride_h = in->stride_w;
    }
    b.phases_h = phases(s->kh, b.shape.sh, s->dh);
    b.phases_w = phases(s->kw, b.shape.sw, s->dw);
    b.columns = b.shape.w + (s->kw - 1) * s->dw / b.shape.sw;
    b.step = pixel_step(s->ic);
    b.rows = choose_rows(&b);
    b.slab_rows = b.rows + (s->kh - 1) * s->dh / b.shape.sh;
    // Tiles read up to 31 pixels behind the last row; what they make of them is not stored.
    const int64_t pixels = slab_pixels(&b, b.rows) + SLACK_PIXELS;
    b.param = lower_param_thread_scratch(l, "slab", DTYPE_bf16, (uint64_t)(pixels * b.step), &b.base);
    return b;
}

KRef slab_tap(const Slab *b, KRef kh, KRef kw)
{
    Kernel *k = b->l->k;
    const TileShape *s = &b->shape;
    const KRef y = k_mul(k, kh, k_index(k, s->dh)), x = k_mul(k, kw, k_index(k, s->dw));
    KRef row = y, column = x, phase = k_index(k, 0);
    if (s->sh > 1) {
        row = k_op(k, KOP_div, y, k_index(k, s->sh), 0);
        phase = k_op(k, KOP_sub, y, k_mul(k, row, k_index(k, s->sh)), 0);
    }
    phase = k_mul(k, phase, k_index(k, b->phases_w));
    if (s->sw > 1) {
        column = k_op(k, KOP_div, x, k_index(k, s->sw), 0);
        phase = k_add(k, phase, k_op(k, KOP_sub, x, k_mul(k, column, k_index(k, s->sw)), 0));
    }
    const KRef pixel = k_mul_add(k, k_mul_add(k, phase, b->slab_rows, row), b->columns, column);
    return k_mul_add(k, pixel, b->step, b->base);
}

// --- filling -------------------------------------------------------------------------------------

static void split_into(const Slab *b, KRef at, int64_t channel, KRef value)
{
    Kernel *k = b->l->k;
    const KRef to = k_add(k, at, k_index(k, channel / BLOCK * 2 * BLOCK + channel % BLOCK));
    k_matrix_split(k, b->param, to, k_add(k, to, k_index(k, BLOCK)), value);
}

// Channels first .. first + 15 of a pixel, those behind the last one as zeros.
static KRef load_channels(const Slab *b, KRef from, int64_t first)
{
    Kernel *k = b->l->k;
    const int64_t left = b->shape.ic - first;
    if (left <= 0)
        return k_splat(k, k_number(k, DTYPE_f32, 0), LANES);
    return k_load(k, b->in.param, k_add(k, from, k_index(k, first)), LANES,
                  (uint8_t)(left < LANES ? left : LANES));
}

// A pixel whose channels are next to each other: vectors.
static void split_vectors(const Slab *b, KRef from, KRef to)
{
    Kernel *k = b->l->k;
    const int64_t full = b->shape.ic / BLOCK;
    if (full > 0) {
        const KRef c = k_for(k, k_index(k, 0), k_index(k, full), 1, KFOR_SERIAL, "c");
        const KRef at = k_mul_add(k, c, 2 * BLOCK, to), x = k_mul_add(k, c, BLOCK, from);
        for (int64_t i = 0; i < BLOCK; i += LANES)
            split_into(b, at, i, k_load(k, b->in.param, k_add(k, x, k_index(k, i)), LANES, LANES));
        k_end(k);
    }
    for (int64_t c = full * BLOCK; c < b->shape.ic; c += BLOCK)
        for (int64_t i = 0; i < BLOCK; i += LANES)
            split_into(b, to, c + i, load_channels(b, from, c + i));
}

// Others: one by one.
static void split_scalars(const Slab *b, KRef from, KRef to)
{
    Kernel *k = b->l->k;
    const int64_t ic = b->shape.ic, rest = ceil_div(ic, BLOCK) * BLOCK - ic;
    for (int64_t c = 0; c < ic; c += BLOCK) {
        const int64_t n = ic - c < BLOCK ? ic - c : BLOCK;
        const KRef i = k_for(k, k_index(k, 0), k_index(k, n), 1, KFOR_SERIAL, "c");
        const KRef x =
            k_load(k, b->in.param, k_mul_add(k, k_add(k, i, k_index(k, c)), b->in.stride_c, from), 1, 1);
        const KRef at = k_add(k, to, k_add(k, i, k_index(k, 2 * c)));
        k_matrix_split(k, b->param, at, k_add(k, at, k_index(k, BLOCK)), x);
        k_end(k);
    }
    for (int64_t i = 0; i < rest; i++)
        split_into(b, to, ic + i, k_number(k, DTYPE_f32, 0));
}

static void clear_pixels(const Slab *b, KRef row, KRef first, KRef end)
{
    Kernel *k = b->l->k;
    int64_t lo = 0, hi = 0;
    if (k_is_const(k, first, &lo) && k_is_const(k, end, &hi) && lo == hi)
        return;
    const KRef j = k_for(k, first, end, 1, KFOR_SERIAL, "j");
    const KRef at = k_mul_add(k, j, b->step, row);
    const KRef c = k_for(k, k_index(k, 0), k_index(k, ceil_div(b->shape.ic, BLOCK)), 1, KFOR_SERIAL, "c");
    for (int64_t i = 0; i < BLOCK; i += LANES)
        split_into(b, k_mul_add(k, c, 2 * BLOCK, at), i, k_splat(k, k_number(k, DTYPE_f32, 0), LANES));
    k_end(k);
    k_end(k);
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
    const KRef j =
        hi - lo == 1 ? k_index(k, lo) : k_for(k, k_index(k, lo), k_index(k, hi), 1, KFOR_SERIAL, "j");
    const KRef column = k_mul_add(k, j, s->sw, k_index(k, phase - s->pad_w));
    const KRef x = k_mul_add(k, column, b->in.stride_w, from), to = k_mul_add(k, j, b->step, row);
    if (b->in.stride_c == 1)
        split_vectors(b, x, to);
    else
        split_scalars(b, x, to);
    if (hi - lo > 1)
        k_end(k);
}

static void fill_phase(const Slab *b, int64_t phase_h, int64_t phase_w, KRef from, KRef first_row)
{
    Kernel *k = b->l->k;
    const TileShape *s = &b->shape;
    const KRef i = k_for(k, k_index(k, 0), k_index(k, b->slab_rows), 1, KFOR_SERIAL, "r");
    const KRef y = k_mul_add(k, k_add(k, first_row, i), s->sh, k_index(k, phase_h - s->pad_h));
    const int64_t slot = (phase_h * b->phases_w + phase_w) * b->slab_rows;
    const KRef row = k_mul_add(k, k_add(k, i, k_index(k, slot)), b->columns * b->step, b->base);
    const KRef is_inside =
        k_op(k, KOP_and, k_op(k, KOP_le, k_index(k, 0), y, 0), k_op(k, KOP_lt, y, k_index(k, s->in_h), 0), 0);
    k_if(k, is_inside);
    fill_row(b, phase_w, k_mul_add(k, y, b->in.stride_h, from), row);
    k_else(k);
    clear_pixels(b, row, k_index(k, 0), k_index(k, b->columns));
    k_end(k);
    k_end(k);
}

void slab_fill(Slab *b, KRef image, KRef first_row)
{
    Kernel *k = b->l->k;
    const KRef from = k_add(k, b->in.base, k_mul(k, image, k_index(k, b->in.stride_n)));
    for (int64_t h = 0; h < b->phases_h; h++)
        for (int64_t w = 0; w < b->phases_w; w++)
            fill_phase(b, h, w, from, first_row);
}
