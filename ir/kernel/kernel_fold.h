// SPDX-License-Identifier: Apache-2.0
// What the kernel builders need from constant folding, and facts on value types that all kernel files share.
#ifndef IR_KERNEL_KERNEL_FOLD_H
#define IR_KERNEL_KERNEL_FOLD_H

#include "ir/kernel/kernel.h"

// The simplified expression, or 0 when nothing applies. Operands have equal lanes and legal types. Floats are
// left alone: their arithmetic must happen where and how the target does it.
KRef kernel_fold(Kernel *k, KOp op, const KRef src[3]);

// Appends an instruction as it is.
KRef kernel_push(Kernel *k, const KInst *n);
// Index of an element of a parameter, from where its address is (KParam.first).
KRef kernel_index(Kernel *k, uint32_t param, KRef index);

static inline bool kt_is_float(int type)
{
    return type < DTYPE_COUNT && dtype_info[type].cls == DCLASS_FLOAT;
}

// The value of an integer constant as its type holds it.
int64_t kt_wrap(int type, int64_t v);

// "f32", "index".
const char *kt_name(int type);

// False for combinations that kops.def calls NONE (and, or ... on floats; exp ... on ints).
bool kop_is_defined(KOp op, int type);

// What an operation, or a cast to i32, becomes where the target has a single instruction for it
// (Kernel.has_sat, has_dsp); or 0.
KRef kernel_fold_dsp(Kernel *k, KOp op, const KRef src[3]);
KRef kernel_fold_high(Kernel *k, KRef a);

// What a cast of vectors folds into, or 0.
KRef kernel_fold_cast(Kernel *k, KRef a, int type);
// A cast of the kind KCAST_ROUND.
KRef kernel_round(Kernel *k, KRef a);

#endif
