// SPDX-License-Identifier: Apache-2.0
// Statements on matrix registers: their builders. See KMatrix in kernel.h.
#include "ir/kernel/kernel_fold.h"

enum { MATRIX_REGISTERS = 8, MATRIX_ROWS = 16 };

static void push_matrix(Kernel *k, KMatrix op, KInst n)
{
    n.kind = KI_matrix;
    n.kop = (uint8_t)op;
    n.lanes = n.lanes == 0 ? 1 : n.lanes;
    kernel_push(k, &n);
}

void k_matrix_begin(Kernel *k, int64_t rows, int64_t words)
{
    rlx_assert(rows > 0 && rows <= MATRIX_ROWS && words > 0 && words <= MATRIX_ROWS);
    const KRef a = k_index(k, rows), b = k_index(k, words);
    push_matrix(k, KMATRIX_begin, (KInst){.dtype = DTYPE_bf16, .a = a, .b = b});
}

void k_matrix_end(Kernel *k)
{
    push_matrix(k, KMATRIX_end, (KInst){.dtype = DTYPE_bf16});
}

void k_matrix_zero(Kernel *k, uint8_t dst)
{
    rlx_assert(dst < MATRIX_REGISTERS);
    push_matrix(k, KMATRIX_zero, (KInst){.dtype = DTYPE_f32, .count = dst});
}

void k_matrix_load(Kernel *k, uint8_t dst, uint32_t param, KRef index, KRef row_step)
{
    const DType t = k->params.data[param].dtype;
    rlx_assert(dst < MATRIX_REGISTERS && (t == DTYPE_bf16 || t == DTYPE_i32));
    push_matrix(k, KMATRIX_load,
                (KInst){.dtype = (uint8_t)t, .count = dst, .a = index, .b = row_step, .imm = param});
}

void k_matrix_mac(Kernel *k, DType sums, uint8_t dst, uint8_t x, uint8_t y)
{
    rlx_assert(dst < MATRIX_REGISTERS && x < MATRIX_REGISTERS && y < MATRIX_REGISTERS);
    push_matrix(k, KMATRIX_mac,
                (KInst){.dtype = (uint8_t)sums, .count = dst, .flags = (uint8_t)(x | y << 4)});
}

void k_matrix_store(Kernel *k, uint8_t src, KRef array, KRef index, KRef row_step)
{
    rlx_assert(src < MATRIX_REGISTERS && k_inst(k, array)->kind == KI_array);
    push_matrix(
        k, KMATRIX_store,
        (KInst){.dtype = k_inst(k, array)->dtype, .count = src, .a = array, .b = index, .c = row_step});
}

void k_matrix_split(Kernel *k, uint32_t param, KRef index, KRef part_step, KRef value)
{
    rlx_assert(k->params.data[param].dtype == DTYPE_bf16 && k_inst(k, value)->dtype == DTYPE_f32);
    push_matrix(k, KMATRIX_split,
                (KInst){.dtype = DTYPE_bf16,
                        .lanes = k_inst(k, value)->lanes,
                        .a = index,
                        .b = part_step,
                        .c = value,
                        .imm = param});
}

bool kernel_has_matrix(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_matrix)
            return true;
    return false;
}
