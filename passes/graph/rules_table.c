// SPDX-License-Identifier: Apache-2.0
// The rules of rules.def as a table, and the guards that their last column calls: questions about what a
// letter stands for. A guard that can not tell says no.
#include "ir/graph/tensor.h"
#include "passes/graph/rules.h"

#include <math.h>
#include <stdlib.h>

#define ANY ((void)on, true)

static const Node *node_of(const RuleMatch *on, char letter)
{
    return graph_node(on->g, rule_letter(on, letter));
}

static DTypeClass class_of(const RuleMatch *on, char letter)
{
    return dtype_info[node_of(on, letter)->dtype].cls;
}

// --- types ---

static bool is_float(const RuleMatch *on, char letter)
{
    return class_of(on, letter) == DCLASS_FLOAT;
}

static bool is_int(const RuleMatch *on, char letter)
{
    return class_of(on, letter) == DCLASS_INT || class_of(on, letter) == DCLASS_UINT;
}

static bool is_signed(const RuleMatch *on, char letter)
{
    return class_of(on, letter) == DCLASS_FLOAT || class_of(on, letter) == DCLASS_INT;
}

static bool is_bool(const RuleMatch *on, char letter)
{
    return class_of(on, letter) == DCLASS_BOOL;
}

static bool is_f64(const RuleMatch *on, char letter)
{
    return node_of(on, letter)->dtype == DTYPE_f64;
}

// --- constants ---

static bool is_const(const RuleMatch *on, char letter)
{
    return node_is_const(on->g, rule_letter(on, letter));
}

static bool is_scalar_const(const RuleMatch *on, char letter)
{
    return node_is_scalar_const(on->g, rule_letter(on, letter), NULL);
}

// What a norm can take as its scale or bias.
static bool is_weight(const RuleMatch *on, char letter)
{
    return is_const(on, letter) || node_of(on, letter)->op == OP_param;
}

// Larger constants are not searched: a guard costs the same at every node.
enum { GUARD_MAX_ELEMENTS = 1 << 14 };

static bool all_elements(const RuleMatch *on, char letter, bool (*holds)(double v))
{
    if (!is_const(on, letter))
        return false;
    const Tensor t = tensor_of_const(on->g, rule_letter(on, letter));
    if (t.numel == 0 || t.numel > GUARD_MAX_ELEMENTS)
        return false;
    for (int64_t i = 0; i < t.numel; i++)
        if (!holds(tensor_get_f64(&t, i)))
            return false;
    return true;
}

static bool is_finite_number(double v)
{
    return isfinite(v);
}

static bool is_finite_const(const RuleMatch *on, char letter)
{
    return all_elements(on, letter, is_finite_number);
}

// Its reciprocal is a number without rounding and, in every type, far from denormal.
static bool is_power(double v)
{
    int exponent = 0;
    return fabs(frexp(v, &exponent)) == 0.5 && abs(exponent) < 12;
}

static bool is_power_of_two(const RuleMatch *on, char letter)
{
    return is_float(on, letter) && all_elements(on, letter, is_power);
}

static bool is_inside_unit(double v)
{
    return v > 0 && v < 1;
}

static bool is_fraction(const RuleMatch *on, char letter)
{
    return all_elements(on, letter, is_inside_unit);
}

static bool is_ordered(const RuleMatch *on, char low, char high)
{
    double a = 0, b = 0;
    return node_is_scalar_const(on->g, rule_letter(on, low), &a) &&
           node_is_scalar_const(on->g, rule_letter(on, high), &b) && a <= b;
}

// --- signs ---

// NaN has none. NOT_NEGATIVE lets -0.0 pass, NO_MINUS does not.
typedef enum Sign { SIGN_ANY, SIGN_NOT_NEGATIVE, SIGN_NO_MINUS } Sign;

// What an op says about the sign of its results.
static Sign sign_of_op(const Node *n)
{
    const uint32_t flags = op_info[n->op].flags;
    const bool is_float = dtype_info[n->dtype].cls == DCLASS_FLOAT;
    if (flags & OPFLAG_POSITIVE)
        return is_float ? SIGN_NOT_NEGATIVE : SIGN_NO_MINUS;
    return flags & OPFLAG_PLUS && is_float ? SIGN_NO_MINUS : SIGN_ANY;
}

static bool is_not_minus(double v)
{
    return v >= 0 && !signbit(v);
}

enum { SIGN_MAX_DEPTH = 4 };

static Sign sign_of(const RuleMatch *on, NodeId id, uint32_t depth)
{
    const Node *n = graph_node(on->g, id);
    const DTypeClass cls = dtype_info[n->dtype].cls;
    if (cls == DCLASS_UINT || cls == DCLASS_BOOL)
        return SIGN_NO_MINUS;
    if (cls == DCLASS_INT)
        return sign_of_op(n);
    double v = 0;
    if (node_is_scalar_const(on->g, id, &v))
        return is_not_minus(v) ? SIGN_NO_MINUS : SIGN_ANY;
    if (!(op_info[n->op].flags & OPFLAG_KEEPS) || depth == SIGN_MAX_DEPTH)
        return sign_of_op(n);
    Sign least = SIGN_NO_MINUS;
    for (uint32_t i = 0; i < n->n_src && least != SIGN_ANY; i++) {
        const Sign s = sign_of(on, n->src[i], depth + 1);
        least = s < least ? s : least;
    }
    return least;
}

static bool has_no_minus(const RuleMatch *on, char letter)
{
    return sign_of(on, rule_letter(on, letter), 0) == SIGN_NO_MINUS;
}

static bool is_not_negative(const RuleMatch *on, char letter)
{
    return sign_of(on, rule_letter(on, letter), 0) != SIGN_ANY;
}

// --- the table ---

#define RULE(name, pattern, replacement, promise, guard)                                                     \
    static bool guard_##name(const RuleMatch *on)                                                            \
    {                                                                                                        \
        return guard;                                                                                        \
    }
#define MAKE(name, pattern, function, promise, guard) RULE(name, pattern, "", promise, guard)
#include "passes/graph/rules.def"

const Rule rule_table[] = {
#define RULE(name, pattern, replacement, promise, guard)                                                     \
    {#name, pattern, replacement, NULL, RULE_##promise, guard_##name},
#define MAKE(name, pattern, function, promise, guard)                                                        \
    {#name, pattern, NULL, function, RULE_##promise, guard_##name},
#include "passes/graph/rules.def"
};

const uint32_t rule_count = sizeof rule_table / sizeof rule_table[0];
