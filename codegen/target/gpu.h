// SPDX-License-Identifier: Apache-2.0
// What the GPU languages share: they read conversions T(x), have overloaded mathematics and the rlx_ type
// names of their preludes.
#ifndef CODEGEN_TARGET_GPU_H
#define CODEGEN_TARGET_GPU_H

#include "codegen/target/target.h"

// What all devices let a group share.
enum { GPU_SHARED_BYTES = 32 << 10 };

// Mathematics by plain names; no vectors.
extern const SpellRow gpu_spell[KOP_COUNT];

#endif
