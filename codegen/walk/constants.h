// SPDX-License-Identifier: Apache-2.0
#ifndef CODEGEN_WALK_CONSTANTS_H
#define CODEGEN_WALK_CONSTANTS_H

#include "codegen/target/target.h"

// The value of a KI_const.
const char *constant_text(const Target *t, const KInst *n, Arena *a);

#endif
