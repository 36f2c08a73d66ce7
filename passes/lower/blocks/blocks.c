// SPDX-License-Identifier: Apache-2.0
// Loads from quantised blocks; see blocks.h.
#include "passes/lower/blocks/blocks.h"

BlockReader blocks_reader(Lower *l, const BlockFormat *f, NodeId id)
{
    return blocks_reader_of(l, f, lower_param(l, id, PARAM_READ));
}

BlockReader blocks_reader_of(Lower *l, const BlockFormat *f, uint32_t param)
{
    BlockReader r = {.f = f, .param = param};
    if (f->values)
        r.values = lower_param_data(l, f->name, DTYPE_i8, f->values, 16);
    return r;
}

static KRef rest(Kernel *k, KRef a, int64_t by)
{
    return k_op(k, KOP_rem, a, k_index(k, by), 0);
}

static KRef load_byte(Kernel *k, const BlockReader *r, KRef index)
{
    return k_cast(k, k_load(k, r->param, index, 1, 1), DTYPE_i32);
}

KRef blocks_entry(Kernel *k, const BlockReader *r, const BlockPlane *p, KRef block, KRef i)
{
    const int64_t span = p->run * (8 / p->bits);
    KRef e = i;
    if (p->part)
        e = k_mul_add(k, k_div_by(k, i, p->part), p->step, rest(k, i, p->part));
    e = k_add(k, e, k_index(k, p->first));
    const KRef place = k_mul_add(k, k_div_by(k, e, span), p->run, rest(k, e, p->run));
    const KRef byte = load_byte(k, r, k_add(k, block, k_add(k, place, k_index(k, p->at))));
    if (p->bits == 8)
        return byte;
    const KRef shift = k_mul(k, k_div_by(k, rest(k, e, span), p->run), k_index(k, p->bits));
    const KRef moved = k_op(k, KOP_shr, byte, k_cast(k, shift, DTYPE_i32), 0);
    return k_op(k, KOP_and, moved, k_integer(k, DTYPE_i32, (1 << p->bits) - 1), 0);
}

KRef blocks_field(Kernel *k, const BlockReader *r, const BlockField *f, KRef block, KRef i)
{
    KRef v = k_integer(k, DTYPE_i32, 0);
    if (f->low.bits)
        v = blocks_entry(k, r, &f->low, block, i);
    if (f->high.bits) {
        const KRef high = blocks_entry(k, r, &f->high, block, i);
        v = k_op(k, KOP_or, v, k_op(k, KOP_shl, high, k_integer(k, DTYPE_i32, f->low.bits), 0), 0);
    }
    if (f->flip)
        v = k_op(k, KOP_xor, v, k_integer(k, DTYPE_i32, f->flip), 0);
    if (f->bias)
        v = k_op(k, KOP_add, v, k_integer(k, DTYPE_i32, f->bias), 0);
    return f->sign < 0 ? k_op(k, KOP_neg, v, 0, 0) : v;
}

KRef blocks_q(Kernel *k, const BlockReader *r, KRef block, KRef i)
{
    const KRef q = blocks_field(k, r, &r->f->q, block, i);
    if (r->f->values == NULL)
        return q;
    return k_cast(k, k_load(k, r->values, k_cast(k, q, KT_INDEX), 1, 1), DTYPE_i32);
}

// e8m0: the bits of 2^(e - 128), which is denormal for e of 0 and 1.
KRef blocks_number(Kernel *k, const BlockReader *r, KRef block, uint8_t at, KRef g)
{
    if (r->f->pitch)
        block = k_mul_add(k, g, r->f->pitch, block);
    const KRef low = load_byte(k, r, k_add(k, block, k_index(k, at)));
    if (r->f->float_kind == BLOCK_E8M0) {
        const KRef two = k_integer(k, DTYPE_i32, 2), one = k_integer(k, DTYPE_i32, 1);
        const KRef small = k_op(k, KOP_shl, k_integer(k, DTYPE_i32, 0x00200000), low, 0);
        const KRef plain = k_op(k, KOP_shl, k_op(k, KOP_sub, low, one, 0), k_integer(k, DTYPE_i32, 23), 0);
        const KRef bits = k_op(k, KOP_select, k_op(k, KOP_lt, low, two, 0), small, plain);
        return k_bitcast(k, bits, DTYPE_f32);
    }
    KRef bits = low;
    for (uint32_t i = 1; i < block_float_bytes(r->f->float_kind); i++) {
        const KRef byte = load_byte(k, r, k_add(k, block, k_index(k, at + i)));
        bits = k_op(k, KOP_or, bits, k_op(k, KOP_shl, byte, k_integer(k, DTYPE_i32, 8 * i), 0), 0);
    }
    const DType type = block_float_type(r->f->float_kind);
    if (type == DTYPE_f32)
        return k_bitcast(k, bits, type);
    return k_cast(k, k_bitcast(k, k_cast(k, bits, DTYPE_u16), type), DTYPE_f32);
}

BlockGroup blocks_group(Kernel *k, const BlockReader *r, KRef block, KRef g)
{
    const BlockFormat *f = r->f;
    BlockGroup group = {.scale = blocks_number(k, r, block, f->d_at, g), .min = 0};
    const KRef scale = k_cast(k, blocks_field(k, r, &f->scale, block, g), DTYPE_f32);
    group.scale = k_op(k, KOP_mul, group.scale, scale, 0);
    if (f->min.sign) {
        const KRef min = k_cast(k, blocks_field(k, r, &f->min, block, g), DTYPE_f32);
        group.min = k_op(k, KOP_mul, blocks_number(k, r, block, f->m_at, g), min, 0);
    }
    return group;
}

KRef blocks_value(Kernel *k, const BlockReader *r, const BlockGroup *group, KRef block, KRef i)
{
    const KRef q = k_cast(k, blocks_q(k, r, block, i), DTYPE_f32);
    return group->min ? k_op(k, KOP_fma, q, group->scale, group->min) : k_op(k, KOP_mul, q, group->scale, 0);
}
