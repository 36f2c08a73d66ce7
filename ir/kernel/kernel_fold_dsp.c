// SPDX-License-Identifier: Apache-2.0
// Single instructions of CPUs with Arm's DSP extension, found in longer expressions while a kernel is built:
// the upper half of a product, with an addition, and shifts that saturate to 8 or 16 bits. C compilers find
// few of them. The upper half is found for CPUs without such products too, which make it of halves.
#include "ir/kernel/kernel_fold.h"

static bool is_op(const Kernel *k, KRef r, KOp op)
{
    return k_inst(k, r)->kind == KI_op && k_inst(k, r)->kop == op;
}

// The i32 that an i64 is made of, or 0.
static KRef as_i32(Kernel *k, KRef r)
{
    const KInst *n = k_inst(k, r);
    int64_t v = 0;
    if (k_is_const(k, r, &v) && v >= INT32_MIN && v <= INT32_MAX)
        return k_integer(k, DTYPE_i32, v);
    return n->kind == KI_cast && n->imm == KCAST_VALUE && k_inst(k, n->a)->dtype == DTYPE_i32 ? n->a : 0;
}

// One operand of an operation if the other one is a constant, which *v gets; or 0.
static KRef beside_const(const Kernel *k, KRef a, KRef b, int64_t *v)
{
    return k_is_const(k, a, v) ? b : k_is_const(k, b, v) ? a : 0;
}

// i32(i64(a) * i64(b) + start >> 32), where the lower half of the start is 0 or 2^31.
KRef kernel_fold_high(Kernel *k, KRef a)
{
    const KInst shift = *k_inst(k, a);
    int64_t bits = 0, start = 0;
    if (shift.dtype != DTYPE_i64 || !is_op(k, a, KOP_shr) || !k_is_const(k, shift.b, &bits) || bits != 32)
        return 0;
    const KInst sum = *k_inst(k, shift.a);
    const KRef moved = is_op(k, shift.a, KOP_add) ? beside_const(k, sum.a, sum.b, &start) : 0;
    const KRef both = moved != 0 ? moved : shift.a;
    const uint32_t low = (uint32_t)(uint64_t)start;
    if (!is_op(k, both, KOP_mul) || (low != 0 && low != UINT32_C(1) << 31))
        return 0;
    const KInst product = *k_inst(k, both);
    const KRef x = as_i32(k, product.a), y = as_i32(k, product.b);
    if (x == 0 || y == 0)
        return 0;
    const KRef high = low != 0 ? k_mulh_near(k, x, y) : k_mulh(k, x, y);
    const int64_t rest = (start - (int64_t)low) / (INT64_C(1) << 32);
    return rest == 0 ? high : k_add(k, high, k_integer(k, DTYPE_i32, rest));
}

// min(most, max(least, x >> bits))
static KRef saturated(Kernel *k, KRef a, KRef b)
{
    int64_t most = 0, least = 0, bits = 0;
    const KRef low = beside_const(k, a, b, &most);
    if (low == 0 || !is_op(k, low, KOP_max))
        return 0;
    const KRef x = beside_const(k, k_inst(k, low)->a, k_inst(k, low)->b, &least);
    static const struct {
        int64_t least, most;
        KOp op;
    } ends[] = {{-128, 127, KOP_sat8}, {0, 255, KOP_satu8}, {-32768, 32767, KOP_sat16}};
    uint32_t i = 0;
    while (i < sizeof ends / sizeof *ends && (ends[i].least != least || ends[i].most != most))
        i++;
    if (x == 0 || i == sizeof ends / sizeof *ends)
        return 0;
    const KInst shift = *k_inst(k, x);
    const bool is_shift = is_op(k, x, KOP_shr) && k_is_const(k, shift.b, &bits) && bits >= 0 && bits < 32;
    return k_op(k, ends[i].op, is_shift ? shift.a : x, is_shift ? shift.b : k_integer(k, DTYPE_i32, 0), 0);
}

KRef kernel_fold_dsp(Kernel *k, KOp op, const KRef src[3])
{
    if (op == KOP_min && k->has_sat)
        return saturated(k, src[0], src[1]);
    for (uint32_t i = 0; i < 2 && op == KOP_add && k->has_dsp; i++) {
        const KInst n = *k_inst(k, src[i]);
        if (is_op(k, src[i], KOP_mulh))
            return k_mulh_add(k, n.a, n.b, src[1 - i]);
    }
    return 0;
}
