// SPDX-License-Identifier: Apache-2.0
// Casts between vectors of f32 and bytes, as quantised models have them. A number that is rounded, moved by a
// whole number and made a byte is clamped first: then the conversion to i32 rounds, and nothing is out of
// range. Bytes that become numbers again never were bytes.
#include "ir/kernel/kernel_fold.h"

#include <math.h>
#include <string.h>

// The value of a constant of f32, scalar or in all lanes.
static bool float_const(const Kernel *k, KRef r, double *v)
{
    const KInst *n = k_inst(k, r);
    if (n->kind == KI_splat)
        n = k_inst(k, n->a);
    if (n->kind != KI_const || n->dtype != DTYPE_f32)
        return false;
    memcpy(v, &n->imm, sizeof *v);
    return true;
}

// rint(x) + step, step a whole number in the range of u8: gives x. 0: it is something else.
static KRef split_rounded(const Kernel *k, KRef a, double *step)
{
    const KInst *n = k_inst(k, a);
    *step = 0;
    if (n->kind == KI_op && n->kop == KOP_add && (float_const(k, n->a, step) || float_const(k, n->b, step))) {
        double unused = 0;
        n = k_inst(k, float_const(k, n->a, &unused) ? n->b : n->a);
    }
    const bool is_whole = *step >= 0 && *step <= 255 && floor(*step) >= *step;
    return is_whole && n->kind == KI_op && n->kop == KOP_rint ? n->a : 0;
}

// max(0, x) where only what is above 0 matters.
static KRef without_relu(const Kernel *k, KRef x)
{
    const KInst *n = k_inst(k, x);
    double v = 1;
    return n->kind == KI_op && n->kop == KOP_max && float_const(k, n->a, &v) && fabs(v) <= 0 ? n->b : x;
}

// NaN becomes the lower bound, which is byte 0, as the cast has it.
static KRef to_bytes(Kernel *k, KRef a)
{
    double step = 0;
    const uint8_t lanes = k_inst(k, a)->lanes;
    KRef x = split_rounded(k, a, &step);
    if (x == 0)
        return 0;
    x = step > 0 ? x : without_relu(k, x);
    const KRef low = k_splat(k, k_number(k, DTYPE_f32, step > 0 ? -step : 0), lanes);
    const KRef high = k_splat(k, k_number(k, DTYPE_f32, 255 - step), lanes);
    KRef whole = kernel_round(k, k_op(k, KOP_min, k_op(k, KOP_max, x, low, 0), high, 0));
    if (step > 0)
        whole = k_add(k, whole, k_splat(k, k_integer(k, DTYPE_i32, (int64_t)step), lanes));
    return k_cast(k, whole, DTYPE_u8);
}

// Made by to_bytes: i32 in the range of u8.
static bool is_byte_valued(const Kernel *k, KRef r)
{
    const KInst *n = k_inst(k, r);
    if (n->kind == KI_op && n->kop == KOP_add && k_inst(k, n->b)->kind == KI_splat)
        n = k_inst(k, n->a);
    return n->kind == KI_cast && n->imm == KCAST_ROUND;
}

KRef kernel_fold_cast(Kernel *k, KRef a, int type)
{
    const KInst n = *k_inst(k, a);
    if (n.dtype == DTYPE_f32 && type == DTYPE_u8)
        return to_bytes(k, a);
    const bool widens = n.dtype == DTYPE_u8 && (type == DTYPE_i32 || type == DTYPE_f32);
    return widens && n.kind == KI_cast && is_byte_valued(k, n.a) ? k_cast(k, n.a, type) : 0;
}
