// SPDX-License-Identifier: Apache-2.0
// Fixed point as gemmlowp has it, for results that must be those of the reference kernels to the bit.
#include "compiler/import/tflite/ops/tfl_fixed.h"

#include <math.h>

static int32_t product(int32_t a, int32_t b)
{
    return tfl_scaled_number(a, (TflFactor){.multiplier = b});
}

static int32_t halved(int32_t x, int shift)
{
    const int32_t mask = (int32_t)((INT64_C(1) << shift) - 1);
    return (x >> shift) + ((x & mask) > (mask >> 1) + (x < 0));
}

// exp of [-1/4, 0): the fourth order around -1/8.
static int32_t exp_interval(int32_t a)
{
    const int32_t at_eighth = 1895147668, third = 715827883, x = a + (1 << 28);
    const int32_t x2 = product(x, x), x3 = product(x2, x), x4 = product(x2, x2);
    const int32_t rest = halved(product(halved(x4, 2) + x3, third) + x2, 1);
    return at_eighth + product(at_eighth, x + rest);
}

int32_t tfl_exp_negative(int32_t a)
{
    static const int32_t powers[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t quarter = 1 << 24, part = (a & (quarter - 1)) - quarter, rest = part - a;
    int32_t r = exp_interval(part * 32);
    for (int i = 0; i < 7; i++)
        if (rest >> (24 + i) & 1)
            r = product(r, powers[i]);
    return a == 0 ? INT32_MAX : r;
}

NodeId tfl_high(TflNode *n, NodeId a, NodeId b)
{
    const NodeId p = tfl_op2(n, OP_mul, a, b);
    return tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, p, ldexp(1, 30)), 31);
}

NodeId tfl_high_by(TflNode *n, NodeId a, int32_t b)
{
    return tfl_high(n, a, tfl_number(n, DTYPE_i64, b));
}

NodeId tfl_halved(TflNode *n, NodeId x, int shift)
{
    const NodeId below = tfl_op_number(n, OP_shift_right, x, 63); // -1 where x is negative
    const NodeId up = tfl_op_number(n, OP_add, x, ldexp(1, shift - 1));
    return tfl_op_number(n, OP_shift_right, tfl_op2(n, OP_add, up, below), shift);
}

NodeId tfl_up_to_one(TflNode *n, NodeId x)
{
    return tfl_op2(n, OP_min, x, tfl_number(n, DTYPE_i64, INT32_MAX));
}

// Three steps of Newton from 48/17 - 32/17 * half.
NodeId tfl_reciprocal(TflNode *n, NodeId x)
{
    const NodeId one = tfl_op_number(n, OP_add, x, 2147483647.0 + 1);
    const NodeId half = tfl_op_number(n, OP_shift_right, one, 1);
    NodeId y = tfl_op_number(n, OP_add, tfl_high_by(n, half, -1010580540), 1515870810);
    for (int i = 0; i < 3; i++) {
        const NodeId wrong =
            tfl_op2(n, OP_sub, tfl_number(n, DTYPE_i64, 1 << 29), tfl_high(n, half, y));
        y = tfl_op2(n, OP_add, y, tfl_op_number(n, OP_mul, tfl_high(n, y, wrong), 4));
    }
    return tfl_up_to_one(n, tfl_op_number(n, OP_mul, y, 2));
}

NodeId tfl_top_bit(TflNode *n, NodeId x, int bits)
{
    NodeId bit = 0;
    for (int step = bits / 2; step; step /= 2) {
        const NodeId least = tfl_number(n, DTYPE_i64, ldexp(1, step));
        const NodeId is_above = tfl_cast(n, tfl_op2(n, OP_ge, x, least), DTYPE_i64);
        const NodeId more = tfl_op_number(n, OP_mul, is_above, step);
        x = tfl_op2(n, OP_shift_right, x, more);
        bit = bit ? tfl_op2(n, OP_add, bit, more) : more;
    }
    return bit;
}
