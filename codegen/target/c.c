// SPDX-License-Identifier: Apache-2.0
// The C target: C99 that is also C++. Scalar code is plain C; vectors are rlx_vNf and rlx_vNi of the prelude.
#include "codegen/target/prelude.h"

#define WRAP(op) "($T)(($U)$0 " op " ($U)$1)"
static const SpellRow spell[KOP_COUNT] = {
#define SPELL(op, ...) [KOP_##op] = {{__VA_ARGS__}},
#include "codegen/target/c_spell.def"
#undef SPELL
};

static const TypeSpell types[DTYPE_COUNT + 1] = {
#define TYPE(type, ...) [type] = {__VA_ARGS__},
#include "codegen/target/c_types.def"
#undef TYPE
};

static const char *const *const prelude[] = {prelude_c_base,
                                             prelude_c_scalar,
                                             prelude_c_vector,
                                             prelude_c_math,
                                             prelude_c_matrix,
                                             prelude_c_dsp,
                                             prelude_c_mve,
                                             prelude_c_rvv,
                                             NULL};

const Target target_c = {
    .name = "c",
    .caps = {.name = "c", .f32_lanes = 1, .packs_weights = true, .channels_last = true},
    .types = types,
    .spell = spell,
    .cast = "($T)$0",
    .signature = "RLX_KERNEL void $0($1)",
    .param_read = "const $0 *$3$1",
    .param_written = "$0 *$3$1",
    .param_prefix = "",
    .param_separator = ", ",
    .no_params = "void",
    .custom_function = "static void $0($1)",
    .custom_read = "const $0 *$1",
    .custom_written = "$0 *$1",
    .restrict_word = "RLX_RESTRICT ",
    .array = "RLX_ALIGNED $0 $1[$2];",
    .prefetch = "RLX_PREFETCH(&$0);",
    .barrier = "rlx_barrier(team);",
    .team = "rlx_team *team",
    .part = "team->part",
    .parts = "team->parts",
    .unroll = "RLX_UNROLL",
    .roll = "RLX_ROLL",
    .begin = "",
    .end = "}\n",
    .prelude = prelude,
};
