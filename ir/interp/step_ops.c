// SPDX-License-Identifier: Apache-2.0
// The meanings in kops.def as loops over registers: one function for each operation and kind of register.
// Nothing here names an operation.
#include "ir/eval/scalar.h"
#include "ir/interp/machine.h"

// Stands for a meaning that an operation does not have, which kernel_verify refuses.
#define NONE 0

// What an operation of one class says where operands are; the result may be in the place of one. T, B: type
// of cells of the result and of operands.
#define LOOP(name, result, operand, first, wide, wrap, meaning)                                              \
    static const Code *name(Machine *m, Strand *s, const Code *k)                                            \
    {                                                                                                        \
        const uint32_t end = s->end * k->lanes;                                                              \
        result *out = CELLS(m, result, k->d);                                                                \
        const first *x = CELLS(m, first, k->a);                                                              \
        const operand *y = CELLS(m, operand, k->b), *z = CELLS(m, operand, k->c);                            \
        _Pragma("GCC ivdep") for (uint32_t i = s->begin * k->lanes; i < end; i++) {                          \
            const wide a = (wide)x[i], b = (wide)y[i], c = (wide)z[i];                                       \
            (void)a, (void)b, (void)c, (void)y, (void)z;                                                     \
            out[i] = wrap(meaning);                                                                          \
        }                                                                                                    \
        return k + 1;                                                                                        \
    }
// By class: the type of the result, that of the first operand.
#define SAME_OF(own)    own
#define CMP_OF(own)     int32_t
#define SEL_OF(own)     own
#define SAME_FIRST(own) own
#define CMP_FIRST(own)  own
#define SEL_FIRST(own)  int32_t
#define SAME_WRAP(wrap) wrap
#define CMP_WRAP(wrap)  (int32_t)
#define SEL_WRAP(wrap)  wrap

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"

// A product of two f32 is exact in double, so that its sum with a third is what fma means.
#pragma push_macro("fma")
#define fma(x, y, z) ((x) * (y) + (z))
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    LOOP(f32_##name, cls##_OF(float), float, cls##_FIRST(float), double, cls##_WRAP((float)), fexpr)
#include "ir/kernel/kops.def"
#undef KOP
#pragma pop_macro("fma")

#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    LOOP(f64_##name, cls##_OF(double), double, cls##_FIRST(double), double, cls##_WRAP((double)), fexpr)
#include "ir/kernel/kops.def"
#undef KOP

#define I int64_t
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    LOOP(index_##name, cls##_OF(int64_t), int64_t, cls##_FIRST(int64_t), int64_t, cls##_WRAP((int64_t)),     \
         iexpr)
#include "ir/kernel/kops.def"
#undef KOP

#define WRAP_INT(v) (int64_t)((uint64_t)(v) << k->shift) >> k->shift
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    LOOP(int_##name, cls##_OF(int64_t), int64_t, cls##_FIRST(int64_t), int64_t, cls##_WRAP(WRAP_INT), iexpr)
#include "ir/kernel/kops.def"
#undef KOP

// A result on bool is bit 0 of the meaning.
#define WRAP_BOOL(v) (int32_t)((v)&1)
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    LOOP(bool_##name, cls##_OF(int32_t), int32_t, cls##_FIRST(int32_t), int64_t, cls##_WRAP(WRAP_BOOL), iexpr)
#include "ir/kernel/kops.def"
#undef KOP
#undef I

#define I            uint64_t
#define WRAP_UINT(v) (uint64_t)(v) << k->shift >> k->shift
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    LOOP(uint_##name, cls##_OF(uint64_t), uint64_t, cls##_FIRST(uint64_t), uint64_t, cls##_WRAP(WRAP_UINT),  \
         iexpr)
#include "ir/kernel/kops.def"
#undef KOP
#undef I

#pragma GCC diagnostic pop

const Step op_steps[KOP_COUNT][CELL_COUNT] = {
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    [KOP_##name] = {[CELL_F32] = f32_##name, [CELL_F64] = f64_##name,   [CELL_INDEX] = index_##name,         \
                    [CELL_INT] = int_##name, [CELL_UINT] = uint_##name, [CELL_BOOL] = bool_##name},
#include "ir/kernel/kops.def"
#undef KOP
};
