// SPDX-License-Identifier: Apache-2.0
// Simplification of index and bool expressions while a kernel is built. Constants move to the right and
// outwards (base + constant), so that addresses that differ by a constant share their base. Index arithmetic
// does not overflow: kernels address memory that exists, which is what allows (x * 4) / 4 -> x.
#include "ir/kernel/kernel_fold.h"

#include <string.h>

int64_t kt_wrap(int type, int64_t v)
{
    if (type == KT_INDEX || kt_is_float(type))
        return v;
    if (type == DTYPE_bool)
        return v != 0;
    const uint32_t spare = 64 - dtype_info[type].bits;
    const uint64_t high = (uint64_t)v << spare;
    return dtype_info[type].cls == DCLASS_UINT ? (int64_t)(high >> spare) : (int64_t)high >> spare;
}

const char *kt_name(int type)
{
    return type == KT_INDEX ? "index" : dtype_info[type].name;
}

bool kop_is_defined(KOp op, int type)
{
    static const char *const meaning[KOP_COUNT][2] = {
#define KOP(name, arity, cost, fexpr, iexpr, cls) {#fexpr, #iexpr},
#include "ir/kernel/kops.def"
#undef KOP
    };
    return strcmp(meaning[op][kt_is_float(type) ? 0 : 1], "NONE") != 0;
}

// Does `lo <= x`, or one of the conditions that `a` joins, say that x is too large for b, which is `x < hi`?
static bool contradicts(const Kernel *k, KRef a, KRef b)
{
    const KInst *x = k_inst(k, a), *y = k_inst(k, b);
    int64_t lo = 0, hi = 0;
    if (x->kind != KI_op || y->kind != KI_op || y->kop != KOP_lt || !k_is_const(k, y->b, &hi))
        return false;
    if (x->kop == KOP_and)
        return contradicts(k, x->a, b) || contradicts(k, x->b, b);
    return x->kop == KOP_le && x->b == y->a && k_inst(k, y->a)->dtype == KT_INDEX &&
           k_is_const(k, x->a, &lo) && lo >= hi;
}

static KRef fold_and(Kernel *k, KRef a, KRef b)
{
    int64_t v = 0;
    if (k_is_const(k, a, &v))
        return v ? b : a;
    if (k_is_const(k, b, &v))
        return v ? a : b;
    return a == b ? a : contradicts(k, a, b) ? k_integer(k, DTYPE_bool, 0) : 0;
}

static KRef fold_bool(Kernel *k, KOp op, KRef a, KRef b)
{
    int64_t x = 0, y = 0;
    const bool has_x = k_is_const(k, a, &x), has_y = b && k_is_const(k, b, &y);
    switch (op) {
    case KOP_not:
        return has_x ? k_integer(k, DTYPE_bool, !x) : 0;
    case KOP_and:
        return fold_and(k, a, b);
    case KOP_or:
        return has_x ? (x ? a : b) : has_y ? (y ? b : a) : a == b ? a : 0;
    default:
        return 0;
    }
}

// a op b on constants, as kops.def says; false for ops that index arithmetic has no use for.
static bool evaluate(KOp op, int64_t a, int64_t b, int64_t *out)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case KOP_add:
        *out = (int64_t)(x + y);
        return true;
    case KOP_sub:
        *out = (int64_t)(x - y);
        return true;
    case KOP_mul:
        *out = (int64_t)(x * y);
        return true;
    case KOP_div:
        *out = b == 0 ? 0 : b == -1 ? (int64_t)(0 - x) : a / b;
        return true;
    case KOP_rem:
        *out = b == 0 || b == -1 ? 0 : a % b;
        return true;
    case KOP_min:
        *out = a < b ? a : b;
        return true;
    case KOP_max:
        *out = a > b ? a : b;
        return true;
    case KOP_neg:
        *out = (int64_t)(0 - x);
        return true;
    case KOP_eq:
        *out = a == b;
        return true;
    case KOP_ne:
        *out = a != b;
        return true;
    case KOP_lt:
        *out = a < b;
        return true;
    case KOP_le:
        *out = a <= b;
        return true;
    default:
        return false;
    }
}

// x op v, v constant. The operation on two constants cannot come here.
static KRef fold_right_const(Kernel *k, KOp op, KRef x, int64_t v)
{
    const KInst n = *k_inst(k, x);
    int64_t inner = 0;
    const bool has_inner = n.kind == KI_op && n.b && k_is_const(k, n.b, &inner);
    const bool is_scaled = has_inner && n.kop == KOP_mul, is_moved = has_inner && n.kop == KOP_add;
    switch (op) {
    case KOP_add:
        if (v == 0)
            return x;
        return is_moved ? k_add(k, n.a, k_index(k, (int64_t)((uint64_t)inner + (uint64_t)v))) : 0;
    case KOP_sub:
        return k_add(k, x, k_index(k, (int64_t)(0 - (uint64_t)v)));
    case KOP_mul:
        if (v == 0 || v == 1)
            return v ? x : k_index(k, 0);
        if (is_scaled)
            return k_mul(k, n.a, k_index(k, (int64_t)((uint64_t)inner * (uint64_t)v)));
        return is_moved ? k_add(k, k_mul(k, n.a, k_index(k, v)),
                                k_index(k, (int64_t)((uint64_t)inner * (uint64_t)v)))
                        : 0;
    case KOP_div:
        if (v == 1)
            return x;
        return is_scaled && v > 0 && inner % v == 0 ? k_mul(k, n.a, k_index(k, inner / v)) : 0;
    case KOP_rem:
        return v == 1 || (is_scaled && v > 0 && inner % v == 0) ? k_index(k, 0) : 0;
    default:
        return 0;
    }
}

// The base of base + constant; *moved gets the constant.
static KRef split_sum(const Kernel *k, KRef r, int64_t *moved)
{
    const KInst *n = k_inst(k, r);
    return n->kind == KI_op && n->kop == KOP_add && k_is_const(k, n->b, moved) ? n->a : 0;
}

static KRef fold_index(Kernel *k, KOp op, KRef a, KRef b)
{
    int64_t x = 0, y = 0, v = 0;
    const bool has_x = k_is_const(k, a, &x), has_y = !b || k_is_const(k, b, &y);
    if (has_x && has_y && evaluate(op, x, y, &v))
        return k_integer(k, kop_info[op].cls == KCLASS_CMP ? (int)DTYPE_bool : (int)KT_INDEX, v);
    if (!b)
        return 0;
    if (has_y)
        return fold_right_const(k, op, a, y);
    if (a == b && (op == KOP_sub || op == KOP_min || op == KOP_max))
        return op == KOP_sub ? k_index(k, 0) : a;
    const bool commutes = op == KOP_add || op == KOP_mul;
    if (commutes && has_x)
        return k_op(k, op, b, a, 0);
    const KRef base_a = op == KOP_add || op == KOP_sub ? split_sum(k, a, &x) : 0;
    if (base_a)
        return k_add(k, k_op(k, op, base_a, b, 0), k_index(k, x));
    const KRef base_b = op == KOP_add || (op == KOP_sub && has_x) ? split_sum(k, b, &y) : 0;
    if (base_b && has_x) // x - (base + y)
        return k_op(k, op, k_index(k, (int64_t)((uint64_t)x - (uint64_t)y)), base_b, 0);
    return base_b ? k_add(k, k_add(k, a, base_b), k_index(k, y)) : 0;
}

// Comparisons whose result the type or the operands decide: of integers there is no NaN, and no unsigned
// number is below 0.
static KRef fold_comparison(Kernel *k, KOp op, KRef a, KRef b)
{
    const int type = k_inst(k, a)->dtype;
    int64_t x = 1, y = 1;
    const uint8_t lanes = k_inst(k, a)->lanes;
    if (kt_is_float(type))
        return 0;
    if (a == b && (op == KOP_eq || op == KOP_ne || op == KOP_lt || op == KOP_le))
        return k_splat(k, k_integer(k, DTYPE_bool, op == KOP_eq || op == KOP_le), lanes);
    if (lanes > 1)
        return 0;
    const bool is_unsigned = type != KT_INDEX && dtype_info[type].cls == DCLASS_UINT;
    if (is_unsigned && op == KOP_lt && k_is_const(k, b, &y) && y == 0)
        return k_integer(k, DTYPE_bool, 0);
    return is_unsigned && op == KOP_le && k_is_const(k, a, &x) && x == 0 ? k_integer(k, DTYPE_bool, 1) : 0;
}

// The greater or lesser of an integer and the least or greatest one of its type.
static KRef fold_extreme(const Kernel *k, KOp op, KRef a, KRef b)
{
    const KInst *n = k_inst(k, a);
    const bool is_signed = n->dtype != KT_INDEX && dtype_info[n->dtype].cls == DCLASS_INT;
    int64_t v = 0;
    if (n->lanes > 1 || n->dtype == KT_INDEX || (!is_signed && dtype_info[n->dtype].cls != DCLASS_UINT))
        return 0;
    const unsigned above = 64 - dtype_info[n->dtype].bits;
    const int64_t least = is_signed ? INT64_MIN >> above : 0;
    const int64_t most = is_signed ? INT64_MAX >> above : (int64_t)(UINT64_MAX >> above); // as bits
    const bool is_first = k_is_const(k, a, &v);
    if ((!is_first && !k_is_const(k, b, &v)) || (v != least && v != most))
        return 0;
    return (op == KOP_max) == (v == least) ? (is_first ? b : a) : (is_first ? a : b);
}

// (x + v) - v of integers, which wrap.
static KRef fold_back(const Kernel *k, KRef a, KRef b)
{
    const KInst *n = k_inst(k, a);
    const bool is_int = n->dtype != KT_INDEX && dtype_info[n->dtype].cls == DCLASS_INT;
    return is_int && n->kind == KI_op && n->kop == KOP_add && n->b == b ? n->a : 0;
}

KRef kernel_fold(Kernel *k, KOp op, const KRef src[3])
{
    int64_t cond = 0;
    const KInst *mask = k_inst(k, src[0]);
    if (op == KOP_select)
        return k_is_const(k, mask->kind == KI_splat ? mask->a : src[0], &cond) ? src[cond ? 1 : 2]
               : src[1] == src[2]                                              ? src[1]
                                                                               : 0;
    const KRef decided = kop_info[op].cls == KCLASS_CMP ? fold_comparison(k, op, src[0], src[1]) : 0;
    if (decided)
        return decided;
    const KRef extreme = op == KOP_max || op == KOP_min ? fold_extreme(k, op, src[0], src[1]) : 0;
    if (extreme)
        return extreme;
    const KRef back = op == KOP_sub ? fold_back(k, src[0], src[1]) : 0;
    if (back)
        return back;
    const KInst *n = k_inst(k, src[0]);
    if (n->dtype == DTYPE_bool)
        return fold_bool(k, op, src[0], src[1]);
    if ((k->has_sat || k->has_dsp) && n->dtype == DTYPE_i32 && n->lanes == 1)
        return kernel_fold_dsp(k, op, src);
    return n->dtype == KT_INDEX && n->lanes == 1 ? fold_index(k, op, src[0], src[1]) : 0;
}
