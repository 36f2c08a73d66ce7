// SPDX-License-Identifier: Apache-2.0
// Masks of attention_wgmma.c: the copy engine brings those of a tile's queries along with a block of keys,
// to slots of shared memory, in boxes of 128 bytes a row (one row where all queries have the same); a thread
// reads those of two neighbours when their scores are there.
#include "passes/lower/attention/attention_wgmma.h"

enum { CHUNK_BYTES = 16 }; // bytes that stay together in a swizzled row

// Axis `behind` from the last one on; 1 where the mask has none.
static int64_t mask_dim(const AwKernel *w, uint32_t behind)
{
    const Shape *s = lower_node(w->l, w->a->mask)->shape;
    return behind < s->rank ? s->dim[s->rank - 1 - behind] : 1;
}

static int64_t mask_stride(const AwKernel *w, uint32_t behind)
{
    const Shape *s = lower_node(w->l, w->a->mask)->shape;
    return mask_dim(w, behind) > 1 ? lower_loc(w->l, w->a->mask)->stride[s->rank - 1 - behind] : 0;
}

bool aw_mask_fits(AwKernel *w)
{
    if (w->a->mask == 0)
        return true;
    const Loc *loc = lower_loc(w->l, w->a->mask);
    const DType type = (DType)lower_node(w->l, w->a->mask)->dtype;
    const int64_t bytes = dtype_info[type].bytes, whole = 16 / bytes;
    uint32_t n_batches = 0;
    if ((type != DTYPE_bool && type != w->type) || w->l->strip.n_held > 0 || mask_dim(w, 0) != w->a->keys ||
        mask_stride(w, 0) != 1 || loc->offset % whole != 0 || !lower_can_map(w->l, loc->buf))
        return false;
    for (uint32_t i = 1; i < w->a->rank; i++) {
        if (mask_dim(w, i) > 1 && (mask_stride(w, i) <= 0 || mask_stride(w, i) % whole != 0))
            return false;
        n_batches += i > 2 && mask_dim(w, i) > 1;
    }
    w->mask.type = type;
    w->mask.rows = mask_dim(w, 1) > 1 ? ROWS : 1;
    w->mask.box_bytes = w->mask.rows > 1 ? ROWS * LINE : 8 * LINE; // swizzled alike
    w->mask.boxes = ceil_div(w->keys * bytes, LINE);
    w->mask.bytes = w->mask.boxes * w->mask.box_bytes;
    w->mask.by_batch = n_batches > 0;
    return n_batches <= 1;
}

void aw_mask_add_map(AwKernel *w)
{
    if (w->a->mask == 0)
        return;
    const Loc *loc = lower_loc(w->l, w->a->mask);
    const uint64_t bytes = dtype_info[w->mask.type].bytes;
    PlanTensorMap m = {.buf = loc->buf,
                       .byte_offset = (uint64_t)loc->offset * bytes,
                       .type = w->mask.type,
                       .box = {(uint32_t)(LINE / bytes), (uint32_t)w->mask.rows, 1, 1},
                       .swizzle = LINE};
    for (uint32_t i = 0; i < w->a->rank; i++) {
        if (i > 2 && mask_dim(w, i) == 1)
            continue;
        m.dim[m.rank] = (uint64_t)mask_dim(w, i);
        m.stride[m.rank++] = mask_dim(w, i) > 1 ? (uint64_t)mask_stride(w, i) * bytes : 16;
    }
    lower_param(w->l, w->a->mask, PARAM_READ);
    w->mask.map = lower_param_map(w->l, &m);
}

int64_t aw_mask_copied(const AwKernel *w)
{
    return w->mask.boxes * w->mask.rows * LINE;
}

void aw_mask_load(const AwKernel *w, const AwTile *t, KRef first, KRef slot)
{
    Kernel *k = w->k;
    if (w->a->mask == 0)
        return;
    const KRef zero = k_index(k, 0), address = k_address(k, w->mask.map, zero), to = aw_mask_slot(w, slot);
    const KRef row = w->mask.rows > 1 ? t->first : zero, head = mask_dim(w, 2) > 1 ? t->head : zero;
    const int64_t bytes = dtype_info[w->mask.type].bytes;
    for (int64_t i = 0; i < w->mask.boxes; i++) {
        const KRef x = aw_plus(k, first, i * LINE / bytes), box = aw_plus(k, to, i * w->mask.box_bytes);
        const KRef full = aw_bar(w, K_FULL, slot);
        if (w->mask.by_batch)
            k_device(k, KDEV_tma_load_4d, box, address, x, row, head, t->batch, full);
        else
            k_device(k, KDEV_tma_load_3d, box, address, x, row, head, full);
    }
}

// What eighths of the columns add is exclusive or'ed to the thread's place in a row, as the swizzle is: so
// there is one address in a slot, and constants.
void aw_mask_read(const void *ctx, const AttWarp *x, int64_t h, KRef first, KRef eighth, KRef *pair)
{
    const AwMaskPlace *p = ctx;
    const AwKernel *w = p->w;
    Kernel *k = w->k;
    (void)first;
    const bool has_rows = w->mask.rows > 1;
    const int64_t bytes = dtype_info[w->mask.type].bytes;
    const KDevice get = w->mask.type == DTYPE_bool  ? KDEV_pair_bool
                        : w->mask.type == DTYPE_f16 ? KDEV_pair_f16
                                                    : KDEV_pair_bf16;
    const KRef two = k_array(k, DTYPE_f32, 2);
    const KRef column = k_expr(k, "$ * #", aw_rest(k, x->lane, 4), 2 * bytes);
    const KRef low = aw_over(k, x->lane, 4), row = has_rows ? k_add(k, p->row, low) : k_index(k, 0);
    const KRef swizzle = has_rows ? k_expr(k, "$ * # + $", low, CHUNK_BYTES, column) : column;
    const KRef own = k_expr(k, "$ * # + $ + $", row, LINE, p->slot, swizzle);
    const KRef byte = k_expr(k, "$ * #", eighth, 8 * bytes);
    const KRef chunk = aw_over(k, aw_rest(k, byte, LINE), CHUNK_BYTES);
    const KRef box =
        k_expr(k, "$ * # + $", aw_over(k, byte, LINE), w->mask.box_bytes, aw_rest(k, byte, CHUNK_BYTES));
    const KRef at = k_xor(k, own, k_expr(k, "$ * #", chunk, CHUNK_BYTES));
    k_device(k, get, two, k_index(k, 0), aw_plus(k, k_add(k, at, box), has_rows ? 8 * h * LINE : 0));
    for (int64_t e = 0; e < 2; e++)
        pair[e] = k_aload(k, two, k_index(k, e), 1);
}
