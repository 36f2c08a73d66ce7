// SPDX-License-Identifier: Apache-2.0
// What the GPU languages share: they read conversions T(x), have overloaded mathematics and the rlx_ type names of their preludes.
#ifndef CODEGEN_GPU_H
#define CODEGEN_GPU_H

#include "codegen/target.h"

// Mathematics by plain names; no vectors.
extern const SpellRow gpu_spell[KOP_COUNT];

// clang-format off
// Rows of a TypeSpell table without f64. Digits of 64-bit literals get the suffix that all three read.
#define GPU_TYPES                                                                                                                                        \
    [DTYPE_f32]  = {"rlx_f32", "rlx_f32",  "f32",  NULL,      "$0f",             "$0",                           "$0",                             NULL},                \
    [DTYPE_f16]  = {"rlx_f32", "rlx_f16",  "f32",  NULL,      "$0f",             "rlx_f16_to_f32(rlx_u32($0))",  "rlx_f16(rlx_f16_from_f32($0))",  "rlx_f16_round($0)"},   \
    [DTYPE_bf16] = {"rlx_f32", "rlx_bf16", "f32",  NULL,      "$0f",             "rlx_bf16_to_f32(rlx_u32($0))", "rlx_bf16(rlx_bf16_from_f32($0))", "rlx_bf16_round($0)"}, \
    [DTYPE_i64]  = {"rlx_i64", "rlx_i64",  "i64",  "rlx_u64", "rlx_i64($0l)",    "$0", "$0", NULL}, \
    [DTYPE_i32]  = {"rlx_i32", "rlx_i32",  "i32",  "rlx_u32", "$0",              "$0", "$0", NULL}, \
    [DTYPE_i16]  = {"rlx_i16", "rlx_i16",  "i16",  "rlx_u32", "rlx_i16($0)",     "$0", "$0", NULL}, \
    [DTYPE_i8]   = {"rlx_i8",  "rlx_i8",   "i8",   "rlx_u32", "rlx_i8($0)",      "$0", "$0", NULL}, \
    [DTYPE_u64]  = {"rlx_u64", "rlx_u64",  "u64",  "rlx_u64", "rlx_u64($0ul)",   "$0", "$0", NULL}, \
    [DTYPE_u32]  = {"rlx_u32", "rlx_u32",  "u32",  "rlx_u32", "$0u",             "$0", "$0", NULL}, \
    [DTYPE_u16]  = {"rlx_u16", "rlx_u16",  "u16",  "rlx_u32", "rlx_u16($0)",     "$0", "$0", NULL}, \
    [DTYPE_u8]   = {"rlx_u8",  "rlx_u8",   "u8",   "rlx_u32", "rlx_u8($0)",      "$0", "$0", NULL}, \
    [DTYPE_bool] = {"bool",    "rlx_bool", "bool", NULL,      "bool($0)",        "rlx_u32($0) != 0u", "rlx_bool($0 ? 1u : 0u)", NULL}, \
    [KT_INDEX]   = {"rlx_idx", "rlx_idx",  "index", NULL,     "$0",              "$0", "$0", NULL}
// clang-format on

#endif
