// SPDX-License-Identifier: Apache-2.0
// Products whose left operand is an image as a convolution reads it (GpuImage): row i is output pixel i, and
// k counts the channels of the first tap, then those of the next one.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_matmul.h"

PlanTensorMap gpu_image_map(const GpuMatmul *p, int64_t rows)
{
    rlx_assert(p->image != NULL && rows > 0);
    const GpuImage *g = p->image;
    const int64_t width = gpu_row_width(p), bytes = gpu_element_bytes(p);
    PlanTensorMap m = {.buf = p->a.loc->buf,
                       .byte_offset = (uint64_t)(p->a.loc->offset * bytes),
                       .type = gpu_matmul_type(p),
                       .rank = 4,
                       .dim = {(uint64_t)g->channels},
                       .box = {(uint32_t)width, (uint32_t)rows},
                       .swizzle = width == gpu_chunk(p) ? 0 : (uint32_t)(width * bytes),
                       .is_image = true};
    for (uint32_t i = 0; i < 3; i++) {
        m.dim[i + 1] = (uint64_t)g->in[i];
        m.stride[i + 1] = (uint64_t)(g->stride[i] * bytes);
    }
    for (uint32_t i = 0; i < 2; i++) {
        m.low[i] = (int32_t)-g->pad[i];
        m.high[i] = g->high[i];
        m.step[i] = (uint32_t)g->step[i];
    }
    return m;
}

GpuPixel gpu_image_pixel(const GpuEmit *e, const KRef *batch, KRef row)
{
    rlx_assert(e->p->image != NULL);
    Kernel *k = e->k;
    const GpuImage *g = e->p->image;
    const KRef line = k_expr(k, "$ / #", row, g->out[0]), x = k_expr(k, "$ % #", row, g->out[0]);
    const KRef y = k_expr(k, "$ % #", line, g->out[1]);
    GpuPixel at = {.image = k_expr(k, "$ / #", line, g->out[1])};
    at.at[0] = k_expr(k, "$ * # + #", x, g->step[0], -g->pad[0]);
    at.at[1] = k_expr(k, "$ * # + #", y, g->step[1], -g->pad[1]);
    if (g->frames.out != 0) {
        const GpuFrames *f = &g->frames;
        at.image = k_expr(k, "$ / # * #", batch[0], f->out, f->in);
        at.frame = k_expr(k, "$ % # * # + #", batch[0], f->out, f->step, -f->pad);
    }
    return at;
}

// Distance of tap `tap` from the first one, along W and H.
static void tap_offset(const GpuEmit *e, KRef tap, KRef *to)
{
    Kernel *k = e->k;
    const GpuImage *g = e->p->image;
    const KRef row = k_expr(k, "$ / #", tap, g->taps_w);
    to[0] = k_expr(k, "$ % # * #", tap, g->taps_w, g->dilation[0]);
    to[1] = k_expr(k, "$ * #", g->frames.out != 0 ? k_expr(k, "$ % #", row, g->taps_h) : row, g->dilation[1]);
}

// The image that has the pixel's frame at a tap; clears *is_in where there is none.
static KRef frame_at(const GpuEmit *e, const GpuPixel *pixel, KRef tap, KRef *is_in)
{
    Kernel *k = e->k;
    const GpuImage *g = e->p->image;
    if (pixel->frame == 0)
        return pixel->image;
    const int64_t taps = g->taps_w * g->taps_h;
    const KRef at = k_expr(k, "$ / # * # + $", tap, taps, g->frames.dilation, pixel->frame);
    *is_in = k_and(k, *is_in, k_expr(k, "$ <= $ & $ < #", k_index(k, 0), at, at, g->frames.in));
    return k_add(k, pixel->image, at);
}

// What is of an image that there is not is zero.
static void load_box(const GpuEmit *e, const GpuPixel *pixel, KRef to, KRef from, KRef bar)
{
    Kernel *k = e->k;
    const GpuImage *g = e->p->image;
    const KRef tap = k_expr(k, "$ / #", from, g->channels);
    const int64_t whole = gpu_tile_k(e->p);
    const bool may_end = gpu_row_width(e->p) < whole && e->p->k % whole != 0;
    KRef offset[2], is_in = may_end ? k_expr(k, "$ < #", from, e->p->k) : k_integer(k, DTYPE_bool, 1);
    KRef image = frame_at(e, pixel, tap, &is_in);
    if (may_end || pixel->frame != 0)
        image = k_select(k, is_in, image, k_index(k, g->in[2]));
    tap_offset(e, tap, offset);
    k_device(k, KDEV_tma_load_pixels, to, k_address(k, e->map_a, k_index(k, 0)),
             k_expr(k, "$ % #", from, g->channels), pixel->at[0], pixel->at[1], image, offset[0], offset[1],
             bar);
}

void gpu_image_load(const GpuEmit *e, const GpuPixel *pixel, KRef to, KRef from, KRef bar)
{
    Kernel *k = e->k;
    const int64_t width = gpu_row_width(e->p), whole = gpu_tile_k(e->p);
    rlx_assert(width >= 1 && whole % width == 0);
    if (width == whole) {
        load_box(e, pixel, to, from, bar);
        return;
    }
    const KRef i = k_loop(k, whole / width, KFOR_UNROLL, "part");
    const KRef part = k_expr(k, "$ * # + $", i, width, from);
    load_box(e, pixel, k_expr(k, "$ * # + $", i, e->rows * width * gpu_element_bytes(e->p), to), part, bar);
    k_end(k);
}

KRef gpu_image_desc(const GpuEmit *e, KRef slot, KRef block)
{
    Kernel *k = e->k;
    const int64_t row = gpu_row_width(e->p) * gpu_element_bytes(e->p);
    rlx_assert(e->rows % 8 == 0);
    return k_call(k,
                  row == GPU_CHUNK_BYTES     ? KDEV_wgmma_desc_plain
                  : row == GPU_ROW_BYTES / 4 ? KDEV_wgmma_desc_quarter
                                             : KDEV_wgmma_desc_half,
                  k_expr(k, "$ * # + $", block, 64 * row, slot), k_index(k, e->rows * row),
                  k_index(k, 8 * row));
}

KRef gpu_image_step(const GpuEmit *e, KRef desc, int64_t i)
{
    rlx_assert(i >= 0 && i * gpu_unit_k(e->p) < gpu_tile_k(e->p));
    const int64_t width = gpu_row_width(e->p), at = i * gpu_unit_k(e->p);
    const int64_t by =
        (at / width * e->rows * width + at % width) * gpu_element_bytes(e->p) / GPU_CHUNK_BYTES;
    return by == 0 ? desc : k_add(e->k, desc, k_integer(e->k, DTYPE_u64, by));
}

KRef gpu_image_index(const GpuEmit *e, const KRef *batch, KRef row, KRef from, KRef *is_in)
{
    rlx_assert(e->p->image != NULL);
    Kernel *k = e->k;
    const GpuImage *g = e->p->image;
    const GpuPixel pixel = gpu_image_pixel(e, batch, row);
    const KRef zero = k_index(k, 0), tap = k_expr(k, "$ / #", from, g->channels);
    const KRef image = frame_at(e, &pixel, tap, is_in);
    KRef offset[2], index = k_expr(k, "$ * # + $ % #", image, g->stride[2], from, g->channels);
    tap_offset(e, tap, offset);
    for (uint32_t i = 0; i < 2; i++) {
        const KRef at = k_add(k, pixel.at[i], offset[i]);
        const KRef inside = k_expr(k, "$ <= $ & $ < #", zero, at, at, g->in[i]);
        *is_in = k_and(k, *is_in, inside);
        index = k_expr(k, "$ * # + $", at, g->stride[i], index);
    }
    return index;
}
