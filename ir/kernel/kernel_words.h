// SPDX-License-Identifier: Apache-2.0
// What the listing of kernels and its parser share: words, and the types that constants need not name.
#ifndef IR_KERNEL_KERNEL_WORDS_H
#define IR_KERNEL_KERNEL_WORDS_H

#include "ir/kernel/device.h"

enum { KLOOP_WORDS = KFOR_GIVEN + 1, KCAST_WORDS = KCAST_ROUND + 1, KZIP_WORDS = KZIP_ODD + 1 };

extern const char *const kmatrix_words[KMATRIX_COUNT], *const kloop_words[KLOOP_WORDS],
                                                           *const kcast_words[KCAST_WORDS],
                                                           *const kzip_words[KZIP_WORDS];

// The roles of a statement on matrix registers, as in kinds.def; f: f32.
extern const char *const kmatrix_roles[KMATRIX_COUNT];

// Does its line name a register (KInst.count), and a parameter?
static inline bool kmatrix_has_register(uint8_t op)
{
    return op != KMATRIX_begin && op != KMATRIX_end && op != KMATRIX_split;
}
static inline bool kmatrix_has_param(uint8_t op)
{
    return op == KMATRIX_load || op == KMATRIX_split;
}

// Is its number written before it: "%5 = "?
static inline bool kkind_has_number(uint8_t kind)
{
    const KKindInfo *info = &kkind_info[kind];
    return info->form[0] != '\0' && info->cls != KIND_STATEMENT && info->cls != KIND_NOTHING;
}

// How many operands an instruction has; those of a device function are in its lists.
uint32_t kernel_operand_count(const KInst *n);
// The type of a constant as operand i that is written without one. type: what the line names, which of
// comparisons is that of their operands.
int kernel_operand_type(const KInst *n, int type, uint32_t i);

#endif
