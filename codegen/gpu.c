// SPDX-License-Identifier: Apache-2.0
// The spelling table that the GPU targets start from: one row per kernel op, one column per kind of operand.
#include "codegen/gpu.h"

// Wrapping in the unsigned type of at least 32 bits.
#define WRAP(op) "$T($U($0) " op " $U($1))"
#define MATH(name) {{name "($0)", name "($0)"}}

// clang-format off
const SpellRow gpu_spell[KOP_COUNT] = {
    //              f32                     f64                     int                      bool               index
    [KOP_add]    = {{"$0 + $1",             "$0 + $1",              WRAP("+"),               "$0 || $1",        "$0 + $1"}},
    [KOP_sub]    = {{"$0 - $1",             "$0 - $1",              WRAP("-"),               "$0 != $1",        "$0 - $1"}},
    [KOP_mul]    = {{"$0 * $1",             "$0 * $1",              WRAP("*"),               "$0 && $1",        "$0 * $1"}},
    [KOP_div]    = {{"$0 / $1",             "$0 / $1",              "rlx_div_$S($0, $1)",    "$0 && $1",        "$0 / $1"}},
    [KOP_rem]    = {{"fmod($0, $1)",        "fmod($0, $1)",         "rlx_rem_$S($0, $1)",    "$0 && !$1 && $1", "$0 % $1"}},
    [KOP_min]    = {{"$0 < $1 ? $0 : $1",   "$0 < $1 ? $0 : $1",    "$0 < $1 ? $0 : $1",     "$0 && $1",        "$0 < $1 ? $0 : $1"}},
    [KOP_max]    = {{"$0 > $1 ? $0 : $1",   "$0 > $1 ? $0 : $1",    "$0 > $1 ? $0 : $1",     "$0 || $1",        "$0 > $1 ? $0 : $1"}},
    [KOP_fma]    = {{"fma($0, $1, $2)",     "fma($0, $1, $2)",      "$T($U($0) * $U($1) + $U($2))", "($0 && $1) || $2", "$0 * $1 + $2"}},
    [KOP_neg]    = {{"-$0",                 "-$0",                  "$T($U(0) - $U($0))",    "$0",              "-$0"}},
    [KOP_abs]    = {{"abs($0)",             "abs($0)",              "$0 < $T(1) ? $T($U(0) - $U($0)) : $0", "$0", "$0 < 0 ? -$0 : $0"}},
    [KOP_sqrt]   = MATH("sqrt"),
    [KOP_exp]    = MATH("exp"),
    [KOP_log]    = MATH("log"),
    [KOP_log1p]  = MATH("log1p"),
    [KOP_expm1]  = MATH("expm1"),
    [KOP_sin]    = MATH("sin"),
    [KOP_cos]    = MATH("cos"),
    [KOP_tan]    = MATH("tan"),
    [KOP_asin]   = MATH("asin"),
    [KOP_acos]   = MATH("acos"),
    [KOP_atan]   = MATH("atan"),
    [KOP_sinh]   = MATH("sinh"),
    [KOP_cosh]   = MATH("cosh"),
    [KOP_tanh]   = MATH("tanh"),
    [KOP_asinh]  = MATH("asinh"),
    [KOP_acosh]  = MATH("acosh"),
    [KOP_atanh]  = MATH("atanh"),
    [KOP_erf]    = MATH("erf"),
    [KOP_pow]    = {{"pow($0, $1)",         "pow($0, $1)",          "rlx_ipow_$S($0, $1)",   "$0 || !$1",       NULL}},
    [KOP_atan2]  = {{"atan2($0, $1)",       "atan2($0, $1)",        NULL,                    NULL,              NULL}},
    [KOP_floor]  = {{"floor($0)",           "floor($0)",            "$0",                    "$0",              "$0"}},
    [KOP_ceil]   = {{"ceil($0)",            "ceil($0)",             "$0",                    "$0",              "$0"}},
    [KOP_trunc]  = {{"trunc($0)",           "trunc($0)",            "$0",                    "$0",              "$0"}},
    [KOP_rint]   = {{"rint($0)",            "rint($0)",             "$0",                    "$0",              "$0"}},
    [KOP_eq]     = {{"$0 == $1",            "$0 == $1",             "$0 == $1",              "$0 == $1",        "$0 == $1"}},
    [KOP_ne]     = {{"$0 != $1",            "$0 != $1",             "$0 != $1",              "$0 != $1",        "$0 != $1"}},
    [KOP_lt]     = {{"$0 < $1",             "$0 < $1",              "$0 < $1",               "!$0 && $1",       "$0 < $1"}},
    [KOP_le]     = {{"$0 <= $1",            "$0 <= $1",             "$0 <= $1",              "!$0 || $1",       "$0 <= $1"}},
    [KOP_and]    = {{NULL,                  NULL,                   "$T($0 & $1)",           "$0 && $1",        "$0 & $1"}},
    [KOP_or]     = {{NULL,                  NULL,                   "$T($0 | $1)",           "$0 || $1",        "$0 | $1"}},
    [KOP_xor]    = {{NULL,                  NULL,                   "$T($0 ^ $1)",           "$0 != $1",        "$0 ^ $1"}},
    [KOP_not]    = {{NULL,                  NULL,                   "$0 == $T(0) ? $T(1) : $T(0)", "!$0",       "$0 == 0 ? 1 : 0"}},
    [KOP_bitnot] = {{NULL,                  NULL,                   "$T(~$U($0))",           "$0 || !$0",       "~$0"}},
    [KOP_shl]    = {{NULL,                  NULL,                   "rlx_shl_$S($0, $1)",    "$0",              "$0 << $1"}},
    [KOP_shr]    = {{NULL,                  NULL,                   "rlx_shr_$S($0, $1)",    "$0 && !$1",       "$0 >> $1"}},
    [KOP_select] = {{"$0 ? $1 : $2",        "$0 ? $1 : $2",         "$0 ? $1 : $2",          "$0 ? $1 : $2",    "$0 ? $1 : $2"}},
};
// clang-format on
