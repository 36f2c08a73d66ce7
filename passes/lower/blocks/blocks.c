// SPDX-License-Identifier: Apache-2.0
// Loads from quantised blocks; see blocks.h.
#include "passes/lower/blocks/blocks.h"

BlockReader blocks_reader(Lower *l, const BlockFormat *f, NodeId id)
{
    return blocks_reader_of(l, f, lower_param(l, id, PARAM_READ));
}

BlockReader blocks_reader_of(Lower *l, const BlockFormat *f, uint32_t param)
{
    rlx_assert(f != NULL && param < l->k->params.len);
    BlockReader r = {.f = f, .param = param};
    if (f->values)
        r.values = lower_param_data(l, f->name, DTYPE_i8, f->values, 16);
    return r;
}

static KRef rest(Kernel *k, KRef a, int64_t by)
{
    return k_expr(k, "$ % #", a, by);
}

static KRef load_byte(Kernel *k, const BlockReader *r, KRef index)
{
    return k_cast(k, k_load(k, r->param, index, 1, 1), DTYPE_i32);
}

KRef blocks_entry(Kernel *k, const BlockReader *r, const BlockPlane *p, KRef block, KRef i)
{
    rlx_assert(p->bits >= 1 && p->bits <= 8 && p->run >= 1);
    const int64_t span = p->run * (8 / p->bits);
    KRef e = i;
    if (p->part)
        e = k_expr(k, "$ / # * # + $", i, p->part, p->step, rest(k, i, p->part));
    e = k_expr(k, "$ + #", e, p->first);
    const KRef place = k_expr(k, "$ / # * # + $", e, span, p->run, rest(k, e, p->run));
    const KRef byte = load_byte(k, r, k_expr(k, "$ + ($ + #)", block, place, p->at));
    if (p->bits == 8)
        return byte;
    const KRef shift = k_expr(k, "$ / # * #", rest(k, e, span), p->run, p->bits);
    const KRef moved = k_shr(k, byte, k_cast(k, shift, DTYPE_i32));
    return k_and(k, moved, k_integer(k, DTYPE_i32, (1 << p->bits) - 1));
}

KRef blocks_field(Kernel *k, const BlockReader *r, const BlockField *f, KRef block, KRef i)
{
    rlx_assert(f->low.bits + f->high.bits <= 8);
    KRef v = k_integer(k, DTYPE_i32, 0);
    if (f->low.bits)
        v = blocks_entry(k, r, &f->low, block, i);
    if (f->high.bits) {
        const KRef high = blocks_entry(k, r, &f->high, block, i);
        v = k_or(k, v, k_shl(k, high, k_integer(k, DTYPE_i32, f->low.bits)));
    }
    if (f->flip)
        v = k_xor(k, v, k_integer(k, DTYPE_i32, f->flip));
    if (f->bias)
        v = k_add(k, v, k_integer(k, DTYPE_i32, f->bias));
    return f->sign < 0 ? k_neg(k, v) : v;
}

KRef blocks_q(Kernel *k, const BlockReader *r, KRef block, KRef i)
{
    rlx_assert(r->f->values == NULL || r->values < k->params.len);
    const KRef q = blocks_field(k, r, &r->f->q, block, i);
    if (r->f->values == NULL)
        return q;
    return k_cast(k, k_load(k, r->values, k_cast(k, q, KT_INDEX), 1, 1), DTYPE_i32);
}

// e8m0: the bits of 2^(e - 128), which is denormal for e of 0 and 1.
KRef blocks_number(Kernel *k, const BlockReader *r, KRef block, uint8_t at, KRef g)
{
    if (r->f->pitch)
        block = k_expr(k, "$ * # + $", g, r->f->pitch, block);
    const KRef low = load_byte(k, r, k_expr(k, "$ + #", block, at));
    if (r->f->float_kind == BLOCK_E8M0) {
        const KRef two = k_integer(k, DTYPE_i32, 2), one = k_integer(k, DTYPE_i32, 1);
        const KRef small = k_shl(k, k_integer(k, DTYPE_i32, 0x00200000), low);
        const KRef plain = k_shl(k, k_sub(k, low, one), k_integer(k, DTYPE_i32, 23));
        const KRef bits = k_select(k, k_lt(k, low, two), small, plain);
        return k_bitcast(k, bits, DTYPE_f32);
    }
    KRef bits = low;
    for (uint32_t i = 1; i < block_float_bytes(r->f->float_kind); i++) {
        const KRef byte = load_byte(k, r, k_expr(k, "$ + #", block, at + i));
        bits = k_or(k, bits, k_shl(k, byte, k_integer(k, DTYPE_i32, 8 * i)));
    }
    const DType type = block_float_type(r->f->float_kind);
    if (type == DTYPE_f32)
        return k_bitcast(k, bits, type);
    return k_cast(k, k_bitcast(k, k_cast(k, bits, DTYPE_u16), type), DTYPE_f32);
}

BlockGroup blocks_group(Kernel *k, const BlockReader *r, KRef block, KRef g)
{
    rlx_assert(block != 0 && g != 0);
    const BlockFormat *f = r->f;
    BlockGroup group = {.scale = blocks_number(k, r, block, f->d_at, g), .min = 0};
    const KRef scale = k_cast(k, blocks_field(k, r, &f->scale, block, g), DTYPE_f32);
    group.scale = k_mul(k, group.scale, scale);
    if (f->min.sign) {
        const KRef min = k_cast(k, blocks_field(k, r, &f->min, block, g), DTYPE_f32);
        group.min = k_mul(k, blocks_number(k, r, block, f->m_at, g), min);
    }
    return group;
}

KRef blocks_value(Kernel *k, const BlockReader *r, const BlockGroup *group, KRef block, KRef i)
{
    rlx_assert(group->scale != 0);
    const KRef q = k_cast(k, blocks_q(k, r, block, i), DTYPE_f32);
    return group->min ? k_fma(k, q, group->scale, group->min) : k_mul(k, q, group->scale);
}
