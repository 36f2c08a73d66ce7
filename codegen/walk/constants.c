// SPDX-License-Identifier: Apache-2.0
// Numbers as literals of a target.
#include "codegen/walk/constants.h"
#include "codegen/walk/expand.h"

#include <math.h>
#include <string.h>

static const char *float_text(int type, double v, Arena *a)
{
    if (isnan(v))
        return "RLX_NAN";
    if (isinf(v))
        return v > 0 ? "RLX_INF" : "-RLX_INF";
    Str s = str_new(a);
    if (type == DTYPE_f64)
        str_f64(&s, v);
    else
        str_f32(&s, (float)v);
    return str_text(&s);
}

// The sign goes in front of the literal of the magnitude.
static const char *literal_text(const Target *t, int type, const char *digits, Arena *a)
{
    const bool is_negative = *digits == '-';
    rlx_assert(t->types[type].literal != NULL);
    const ExpandArgs args = {.operand = {digits + is_negative}};
    const char *text = expand_text(a, t->types[type].literal, &args);
    return is_negative ? arena_printf(a, "-%s", text) : text;
}

static const char *float_constant_text(const Target *t, const KInst *n, Arena *a)
{
    double v = 0;
    memcpy(&v, &n->imm, sizeof v);
    if (n->dtype != DTYPE_f64)
        v = (double)(float)v;
    const char *digits = float_text(n->dtype, v, a);
    return isfinite(v) ? literal_text(t, n->dtype, digits, a) : digits;
}

const char *constant_text(const Target *t, const KInst *n, Arena *a)
{
    rlx_assert(n->kind == KI_const && n->dtype <= KT_INDEX);
    if (n->dtype != KT_INDEX && dtype_info[n->dtype].cls == DCLASS_FLOAT)
        return float_constant_text(t, n, a);
    if (n->dtype == DTYPE_u64)
        return literal_text(t, n->dtype, arena_printf(a, "%llu", (unsigned long long)n->imm), a);
    // The digits of the least value alone would be a constant that does not fit.
    const bool is_least = n->imm == INT64_MIN || (n->imm == INT32_MIN && n->dtype == DTYPE_i32);
    const char *text =
        literal_text(t, n->dtype, arena_printf(a, "%lld", (long long)(n->imm + is_least)), a);
    return is_least ? arena_printf(a, "%s - 1", text) : text;
}
