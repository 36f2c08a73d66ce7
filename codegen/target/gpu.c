// SPDX-License-Identifier: Apache-2.0
// The spelling table that the GPU targets start from.
#include "codegen/target/gpu.h"

// Wrapping in the unsigned type of at least 32 bits.
#define WRAP(op) "$T($U($0) " op " $U($1))"

const SpellRow gpu_spell[KOP_COUNT] = {
#define SPELL(op, ...) [KOP_##op] = {{__VA_ARGS__}},
#include "codegen/target/gpu_spell.def"
#undef SPELL
};
