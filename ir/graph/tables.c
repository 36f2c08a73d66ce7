// SPDX-License-Identifier: Apache-2.0
// The tables that ops.def and dtypes.def spell out, and the look-ups by name.
// Separate, so that a new row touches no code.
#include "ir/graph/graph.h"

#include <string.h>

#define VIEW     OPFLAG_VIEW
#define PATCH    OPFLAG_PATCH
#define KEPT     OPFLAG_KEPT
#define SIZES    OPFLAG_SIZES
#define COMMUTES OPFLAG_COMMUTES
#define NEARLY   OPFLAG_NEARLY
#define PLUS     OPFLAG_PLUS
#define POSITIVE OPFLAG_POSITIVE
#define KEEPS    OPFLAG_KEEPS
#define POINT    OPFLAG_POINT
#define PARTS    OPFLAG_PARTS
#define LINEAR   OPFLAG_LINEAR
#define UPDATES  OPFLAG_UPDATES

// A row of ops.def that lacks a column does not compile here. Elementwise ops follow from their class, and
// leaves and convenience ops have nothing that is asked for before they are gone.
const OpInfo op_info[OP_COUNT] = {
#define LEAF(name)                                                                                           \
    {#name, OPKIND_LEAF, 0, 0, 1, 0, 0, EW_NONE, NULL, OPLAYOUT_ANY, OPJOINS_AFTER, 0, 0, 0, 0},
#define EW(name, arity, cls, cost, flags, fexpr, iexpr, kernel)                                              \
    {#name,                                                                                                  \
     OPKIND_EW,                                                                                              \
     arity,                                                                                                  \
     arity,                                                                                                  \
     1,                                                                                                      \
     flags,                                                                                                  \
     cost,                                                                                                   \
     EW_##cls,                                                                                               \
     kernel,                                                                                                 \
     OPLAYOUT_FOLLOW,                                                                                        \
     OPJOINS_AFTER,                                                                                          \
     EW_##cls == EW_SEL ? OPTYPES_MOVE : OPTYPES_WIDE,                                                       \
     OPSTEPS_ELEMENTS,                                                                                       \
     0,                                                                                                      \
     0},
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    {#name,                                                                                                  \
     OPKIND_CORE,                                                                                            \
     min,                                                                                                    \
     max,                                                                                                    \
     results,                                                                                                \
     flags,                                                                                                  \
     0,                                                                                                      \
     EW_NONE,                                                                                                \
     NULL,                                                                                                   \
     OPLAYOUT_##layout,                                                                                      \
     OPJOINS_##joins,                                                                                        \
     OPTYPES_##types,                                                                                        \
     OPSTEPS_##steps,                                                                                        \
     operand,                                                                                                \
     result},
#define SUGAR(name, shape, min, max, results, flags)                                                         \
    {#name, OPKIND_SUGAR, min, max, results, flags, 0, EW_NONE, NULL, 0, 0, 0, 0, 0, 0},
#include "ir/graph/ops.def"
};

const DTypeInfo dtype_info[DTYPE_COUNT] = {
#define DTYPE(name, bytes, bits, cls, onnx, st) {#name, bytes, bits, DCLASS_##cls, onnx, st},
#include "ir/graph/dtypes.def"
#undef DTYPE
};

const AttrInfo attr_info[ATTR_COUNT] = {
#define REQUIRED                         NULL
#define ATTR(op, name, type, dflt, text) {OP_##op, #name, ATTR_##type, dflt, text},
#include "ir/graph/ops.def"
#undef REQUIRED
};

static const struct {
    const char *old;
    OpId op;
} op_aliases[] = {
#define ALIAS(old, name) {#old, OP_##name},
#include "ir/graph/ops.def"
};

const char *op_old_name(OpId op)
{
    for (uint32_t i = 0; i < sizeof op_aliases / sizeof *op_aliases; i++)
        if (op_aliases[i].op == op)
            return op_aliases[i].old;
    return NULL;
}

static bool parse_alias(const char *name, OpId *out)
{
    for (uint32_t i = 0; i < sizeof op_aliases / sizeof *op_aliases; i++)
        if (strcmp(op_aliases[i].old, name) == 0) {
            *out = op_aliases[i].op;
            return true;
        }
    return false;
}

bool op_parse(const char *name, OpId *out)
{
    for (uint32_t i = OP_none + 1; i < OP_COUNT; i++) {
        if (op_info[i].name[0] == name[0] && strcmp(op_info[i].name, name) == 0) {
            *out = (OpId)i;
            return true;
        }
    }
    return parse_alias(name, out);
}

// NumPy, ml_dtypes and C spell a type as a long word and its bits, we as a letter and its bits.
static const struct {
    const char *name;
    DType type;
} dtype_aliases[] = {
    {"float32", DTYPE_f32},
    {"float16", DTYPE_f16},
    {"bfloat16", DTYPE_bf16},
    {"float64", DTYPE_f64},
    {"int64", DTYPE_i64},
    {"int32", DTYPE_i32},
    {"int16", DTYPE_i16},
    {"int8", DTYPE_i8},
    {"uint64", DTYPE_u64},
    {"uint32", DTYPE_u32},
    {"uint16", DTYPE_u16},
    {"uint8", DTYPE_u8},
    {"float8_e4m3fn", DTYPE_f8e4m3fn},
    {"float8_e4m3fnuz", DTYPE_f8e4m3fnuz},
    {"float8_e5m2", DTYPE_f8e5m2},
    {"float8_e5m2fnuz", DTYPE_f8e5m2fnuz},
    {"float8_e8m0fnu", DTYPE_f8e8m0},
    {"float4_e2m1fn", DTYPE_f4e2m1},
    {"int4", DTYPE_i4},
    {"uint4", DTYPE_u4},
    {"int2", DTYPE_i2},
    {"uint2", DTYPE_u2},
};

bool dtype_parse(const char *name, DType *out)
{
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(dtype_info[i].name, name) == 0) {
            *out = (DType)i;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof dtype_aliases / sizeof *dtype_aliases; i++) {
        if (strcmp(dtype_aliases[i].name, name) == 0) {
            *out = dtype_aliases[i].type;
            return true;
        }
    }
    return false;
}

void attr_range(OpId op, AttrId *first, uint32_t *count)
{
    uint32_t begin = 0;
    *first = ATTR_COUNT;
    *count = 0;
    if (op_info[op].kind == OPKIND_EW)
        return;
    while (begin < ATTR_COUNT && attr_info[begin].op != op)
        begin++;
    uint32_t end = begin;
    while (end < ATTR_COUNT && attr_info[end].op == op)
        end++;
    *first = (AttrId)begin;
    *count = end - begin;
}

AttrId attr_find(OpId op, const char *name)
{
    AttrId first = ATTR_COUNT;
    uint32_t count = 0;
    attr_range(op, &first, &count);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(attr_info[first + i].name, name) == 0)
            return (AttrId)(first + i);
    return ATTR_COUNT;
}
