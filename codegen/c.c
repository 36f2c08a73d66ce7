// SPDX-License-Identifier: Apache-2.0
// The C target: C99 that is also C++. Scalar code is plain C; vectors are rlx_vNf and rlx_vNi of the prelude.
// The spelling table is the base of the family: one row per kernel op, one column per kind of operand.
#include "codegen/prelude.h"

// Wrapping in the unsigned type of at least 32 bits: C's signed overflow is undefined, and u16 * u16 would overflow int.
#define WRAP(op) "($T)(($U)$0 " op " ($U)$1)"
// f32 and f64 from libm; vectors by a helper.
#define LIBM(name) {{name "f($0)", name "($0)", NULL, NULL, NULL, "$V_" name "($0)", NULL, NULL}}
#define LIBM2(name, helper) {{name "f($0, $1)", name "($0, $1)", NULL, NULL, NULL, "$V_" helper "($0, $1)", NULL, NULL}}

// clang-format off
static const SpellRow spell[KOP_COUNT] = {
    //              f32                     f64                     int                      bool           index                   f32 vector             i32 vector             mask
    [KOP_add]    = {{"$0 + $1",             "$0 + $1",              WRAP("+"),               "$0 || $1",    "$0 + $1",              "$0 + $1",             "$V_add($0, $1)",      "$0 | $1"}},
    [KOP_sub]    = {{"$0 - $1",             "$0 - $1",              WRAP("-"),               "$0 != $1",    "$0 - $1",              "$0 - $1",             "$V_sub($0, $1)",      "$0 ^ $1"}},
    [KOP_mul]    = {{"$0 * $1",             "$0 * $1",              WRAP("*"),               "$0 && $1",    "$0 * $1",              "$0 * $1",             "$V_mul($0, $1)",      "$0 & $1"}},
    [KOP_div]    = {{"$0 / $1",             "$0 / $1",              "rlx_div_$S($0, $1)",    "$0 && $1",    "$0 / $1",              "$0 / $1",             "$V_div($0, $1)",      "$0 & $1"}},
    [KOP_rem]    = {{"fmodf($0, $1)",       "fmod($0, $1)",         "rlx_rem_$S($0, $1)",    "$0 && !$1 && $1", "$0 % $1",          "$V_rem($0, $1)",      "$V_rem($0, $1)",      "$0 & ~$1 & $1"}},
    [KOP_min]    = {{"$0 < $1 ? $0 : $1",   "$0 < $1 ? $0 : $1",    "($T)($0 < $1 ? $0 : $1)", "$0 && $1",  "$0 < $1 ? $0 : $1",    "$V_min($0, $1)",      "$V_min($0, $1)",      "$0 & $1"}},
    [KOP_max]    = {{"$0 > $1 ? $0 : $1",   "$0 > $1 ? $0 : $1",    "($T)($0 > $1 ? $0 : $1)", "$0 || $1",  "$0 > $1 ? $0 : $1",    "$V_max($0, $1)",      "$V_max($0, $1)",      "$0 | $1"}},
    [KOP_fma]    = {{"$0 * $1 + $2",        "$0 * $1 + $2",         "($T)(($U)$0 * ($U)$1 + ($U)$2)", "($0 && $1) || $2", "$0 * $1 + $2", "$V_fma($0, $1, $2)", "$V_add($V_mul($0, $1), $2)", "($0 & $1) | $2"}},
    [KOP_neg]    = {{"-$0",                 "-$0",                  "($T)(0 - ($U)$0)",      "$0",          "-$0",                  "-$0",                 "$V_neg($0)",          "$0"}},
    [KOP_abs]    = {{"fabsf($0)",           "fabs($0)",             "($T)($0 < 1 ? 0 - ($U)$0 : ($U)$0)", "$0", "$0 < 0 ? -$0 : $0", "$V_abs($0)",        "$V_abs($0)",          "$0"}},
    [KOP_sqrt]   = LIBM("sqrt"),
    [KOP_exp]    = LIBM("exp"),
    [KOP_log]    = LIBM("log"),
    [KOP_log1p]  = LIBM("log1p"),
    [KOP_expm1]  = LIBM("expm1"),
    [KOP_sin]    = LIBM("sin"),
    [KOP_cos]    = LIBM("cos"),
    [KOP_tan]    = LIBM("tan"),
    [KOP_asin]   = LIBM("asin"),
    [KOP_acos]   = LIBM("acos"),
    [KOP_atan]   = LIBM("atan"),
    [KOP_sinh]   = LIBM("sinh"),
    [KOP_cosh]   = LIBM("cosh"),
    [KOP_tanh]   = LIBM("tanh"),
    [KOP_asinh]  = LIBM("asinh"),
    [KOP_acosh]  = LIBM("acosh"),
    [KOP_atanh]  = LIBM("atanh"),
    [KOP_erf]    = LIBM("erf"),
    [KOP_pow]    = {{"powf($0, $1)",        "pow($0, $1)",          "rlx_ipow_$S($0, $1)",   "$0 || !$1",   NULL,                   "$V_pow($0, $1)",      "$V_ipow($0, $1)",     "$0 | ~$1"}},
    [KOP_atan2]  = LIBM2("atan2", "atan2"),
    [KOP_floor]  = {{"floorf($0)",          "floor($0)",            "$0",                    "$0",          "$0",                   "$V_floor($0)",        "$0",                  "$0"}},
    [KOP_ceil]   = {{"ceilf($0)",           "ceil($0)",             "$0",                    "$0",          "$0",                   "$V_ceil($0)",         "$0",                  "$0"}},
    [KOP_trunc]  = {{"truncf($0)",          "trunc($0)",            "$0",                    "$0",          "$0",                   "$V_trunc($0)",        "$0",                  "$0"}},
    [KOP_rint]   = {{"rintf($0)",           "rint($0)",             "$0",                    "$0",          "$0",                   "$V_rint($0)",         "$0",                  "$0"}},
    [KOP_eq]     = {{"$0 == $1",            "$0 == $1",             "$0 == $1",              "$0 == $1",    "$0 == $1",             "$0 == $1",            "$0 == $1",            "~($0 ^ $1)"}},
    [KOP_ne]     = {{"$0 != $1",            "$0 != $1",             "$0 != $1",              "$0 != $1",    "$0 != $1",             "$0 != $1",            "$0 != $1",            "$0 ^ $1"}},
    [KOP_lt]     = {{"$0 < $1",             "$0 < $1",              "$0 < $1",               "!$0 && $1",   "$0 < $1",              "$0 < $1",             "$0 < $1",             "~$0 & $1"}},
    [KOP_le]     = {{"$0 <= $1",            "$0 <= $1",             "$0 <= $1",              "!$0 || $1",   "$0 <= $1",             "$0 <= $1",            "$0 <= $1",            "~$0 | $1"}},
    [KOP_and]    = {{NULL,                  NULL,                   "($T)($0 & $1)",         "$0 && $1",    "$0 & $1",              NULL,                  "$0 & $1",             "$0 & $1"}},
    [KOP_or]     = {{NULL,                  NULL,                   "($T)($0 | $1)",         "$0 || $1",    "$0 | $1",              NULL,                  "$0 | $1",             "$0 | $1"}},
    [KOP_xor]    = {{NULL,                  NULL,                   "($T)($0 ^ $1)",         "$0 != $1",    "$0 ^ $1",              NULL,                  "$0 ^ $1",             "$0 ^ $1"}},
    [KOP_not]    = {{NULL,                  NULL,                   "($T)($0 == 0)",         "!$0",         "$0 == 0",              NULL,                  "($0 == 0) & 1",       "~$0"}},
    [KOP_bitnot] = {{NULL,                  NULL,                   "($T)~($U)$0",           "$0 || !$0",   "~$0",                  NULL,                  "~$0",                 "~$0 | $0"}},
    [KOP_shl]    = {{NULL,                  NULL,                   "rlx_shl_$S($0, $1)",    "$0 && ($1 || !$1)", "$0 << $1",       NULL,                  "$V_shl($0, $1)",      "$0 & ($1 | ~$1)"}},
    [KOP_shr]    = {{NULL,                  NULL,                   "rlx_shr_$S($0, $1)",    "$0 && !$1",   "$0 >> $1",             NULL,                  "$V_shr($0, $1)",      "$0 & ~$1"}},
    [KOP_select] = {{"$0 ? $1 : $2",        "$0 ? $1 : $2",         "($T)($0 ? $1 : $2)",    "$0 ? $1 : $2", "$0 ? $1 : $2",        "$V_select($0, $1, $2)", "$V_select($0, $1, $2)", "($0 & $1) | (~$0 & $2)"}},
};

static const TypeSpell types[DTYPE_COUNT + 1] = {
    //               value       storage     name    wide        literal  load                    store                     round
    [DTYPE_f32]  = {"float",    "rlx_f32",  "f32",  NULL,       "$0f",   "$0",                   "$0",                     NULL},
    [DTYPE_f16]  = {"float",    "rlx_f16",  "f32",  NULL,       "$0f",   "rlx_f16_to_f32($0)",   "rlx_f16_from_f32($0)",   "rlx_f16_round($0)"},
    [DTYPE_bf16] = {"float",    "rlx_bf16", "f32",  NULL,       "$0f",   "rlx_bf16_to_f32($0)",  "rlx_bf16_from_f32($0)",  "rlx_bf16_round($0)"},
    [DTYPE_f64]  = {"double",   "rlx_f64",  "f64",  NULL,       "$0",    "$0",                   "$0",                     NULL},
    [DTYPE_i64]  = {"int64_t",  "rlx_i64",  "i64",  "uint64_t", "$0LL",  "$0",                   "$0",                     NULL},
    [DTYPE_i32]  = {"int32_t",  "rlx_i32",  "i32",  "uint32_t", "$0",    "$0",                   "$0",                     NULL},
    [DTYPE_i16]  = {"int16_t",  "rlx_i16",  "i16",  "uint32_t", "$0",    "$0",                   "$0",                     NULL},
    [DTYPE_i8]   = {"int8_t",   "rlx_i8",   "i8",   "uint32_t", "$0",    "$0",                   "$0",                     NULL},
    [DTYPE_u64]  = {"uint64_t", "rlx_u64",  "u64",  "uint64_t", "$0ULL", "$0",                   "$0",                     NULL},
    [DTYPE_u32]  = {"uint32_t", "rlx_u32",  "u32",  "uint32_t", "$0u",   "$0",                   "$0",                     NULL},
    [DTYPE_u16]  = {"uint16_t", "rlx_u16",  "u16",  "uint32_t", "$0",    "$0",                   "$0",                     NULL},
    [DTYPE_u8]   = {"uint8_t",  "rlx_u8",   "u8",   "uint32_t", "$0",    "$0",                   "$0",                     NULL},
    [DTYPE_bool] = {"int",      "rlx_bool", "bool", NULL,       "$0",    "$0 != 0",              "(rlx_bool)$0",           NULL},
    [KT_INDEX]   = {"rlx_idx",  "rlx_idx",  "index", NULL,      "$0",    "$0",                   "$0",                     NULL},
};
// clang-format on

static const char *const *const prelude[] = {prelude_c_base, prelude_c_scalar, prelude_c_vector, prelude_c_math, NULL};

const Target target_c = {
    .name = "c",
    .caps = {.name = "c", .f32_lanes = 1, .packs_weights = true, .channels_last = true},
    .types = types,
    .spell = spell,
    .cast = "($T)$0",
    .cast_to_bool = "$0 != 0",
    .cast_to_int = "rlx_$V_to_$S($0)",
    .signature = "static void $0($1)",
    .param_read = "const $0 *$3$1",
    .param_written = "$0 *$3$1",
    .param_separator = ", ",
    .no_params = "void",
    .restrict_word = "RLX_RESTRICT ",
    .array = "$0 $1[$2] RLX_ALIGNED;",
    .unroll = "RLX_UNROLL",
    .inf = "RLX_INF",
    .nan = "RLX_NAN",
    .prelude = prelude,
};
