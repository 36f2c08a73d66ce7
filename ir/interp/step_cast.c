// SPDX-License-Identifier: Apache-2.0
// Casts: from each kind of register to each other one, and bits that are taken for another type.
#include "ir/graph/small_float.h"
#include "ir/graph/tensor.h"
#include "ir/interp/machine.h"

#include <math.h>
#include <string.h>

// --- elements in memory and in registers ---------------------------------------------------------

float f16_values[1 << 16];

void step_cast_begin(void)
{
    static bool is_made;
    for (uint32_t i = 0; !is_made && i < 1 << 16; i++)
        f16_values[i] = (float)small_float_widen(DTYPE_f16, i);
    is_made = true;
}

static float small_value(int type, uint32_t code)
{
    return type == DTYPE_f16    ? f16_value((uint16_t)code)
           : type == DTYPE_bf16 ? bf16_value((uint16_t)code)
                                : (float)small_float_widen((DType)type, code);
}

void cell_load(int type, const void *bytes, void *cell)
{
    if (type == DTYPE_f16 || type == DTYPE_bf16) { // most loads that come here
        uint16_t code = 0;
        memcpy(&code, bytes, sizeof code);
        const float v = small_value(type, code);
        memcpy(cell, &v, sizeof v);
        return;
    }
    uint64_t bits = 0;
    const uint32_t n = type == KT_INDEX ? 8 : dtype_info[type].bytes;
    memcpy(&bits, bytes, n);
    const CellClass cls = cell_class(type);
    if (cls == CELL_F32) {
        const uint32_t code = (uint32_t)bits;
        float v = 0;
        if (type == DTYPE_f32)
            memcpy(&v, &code, sizeof v);
        else
            v = small_value(type, code);
        memcpy(cell, &v, sizeof v);
    } else if (cls == CELL_BOOL) {
        const int32_t v = bits != 0;
        memcpy(cell, &v, sizeof v);
    } else {
        const int64_t v = cls == CELL_F64 || cls == CELL_INDEX ? (int64_t)bits : kt_wrap(type, (int64_t)bits);
        memcpy(cell, &v, sizeof v);
    }
}

void cell_store(int type, const void *cell, void *bytes)
{
    const uint32_t n = type == KT_INDEX ? 8 : dtype_info[type].bytes;
    if (cell_class(type) == CELL_F32 && type != DTYPE_f32) {
        float v = 0;
        memcpy(&v, cell, sizeof v);
        const uint32_t code = small_float_narrow((DType)type, (double)v);
        memcpy(bytes, &code, n);
    } else {
        memcpy(bytes, cell, n); // little-endian: integers keep their low bytes
    }
}

static int array_type(int type)
{
    return cell_class(type) == CELL_F32 ? (int)DTYPE_f32 : type;
}

// In arrays, floats are as they are computed; a group shares no less than words.
uint32_t array_element_bytes(int type, bool is_shared)
{
    const uint32_t n = array_type(type) == KT_INDEX ? 8 : dtype_info[array_type(type)].bytes;
    return is_shared && n < 4 ? 4 : n;
}

void array_load(int type, const void *bytes, void *cell)
{
    cell_load(array_type(type), bytes, cell);
}

void array_store(int type, const void *cell, void *bytes)
{
    cell_store(array_type(type), cell, bytes);
}

// --- from one kind to another --------------------------------------------------------------------

#define TO_F32(v)   ((float)(v))
#define TO_F64(v)   ((double)(v))
#define TO_INDEX(v) ((int64_t)(v))
#define TO_INT(v)   ((int64_t)((uint64_t)(v) << k->shift) >> k->shift)
#define TO_UINT(v)  ((uint64_t)(v) << k->shift >> k->shift)
#define TO_BOOL(v)  ((v) != 0)
// Floats become integers as elements of tensors do: towards zero, at most what there is, NaN as 0.
#define SATURATE(v)      tensor_saturate((DType)(k->dtype == KT_INDEX ? DTYPE_i64 : k->dtype), (double)(v))
#define SATURATE_UINT(v) ((uint64_t)SATURATE(v))

#define CAST(to, to_type, from, from_type, convert)                                                          \
    static const Code *cast_##to##_##from(Machine *m, Strand *s, const Code *k)                              \
    {                                                                                                        \
        const uint32_t end = s->end * k->lanes;                                                              \
        to_type *restrict out = CELLS(m, to_type, k->d);                                                     \
        const from_type *x = CELLS(m, from_type, k->a);                                                      \
        for (uint32_t i = s->begin * k->lanes; i < end; i++)                                                 \
            out[i] = convert(x[i]);                                                                          \
        return k + 1;                                                                                        \
    }
#define CASTS_OF_INTS(from, from_type)                                                                       \
    CAST(F32, float, from, from_type, TO_F32)                                                                \
    CAST(F64, double, from, from_type, TO_F64)                                                               \
    CAST(INDEX, int64_t, from, from_type, TO_INDEX)                                                          \
    CAST(INT, int64_t, from, from_type, TO_INT)                                                              \
    CAST(UINT, uint64_t, from, from_type, TO_UINT)                                                           \
    CAST(BOOL, int32_t, from, from_type, TO_BOOL)
#define CASTS_OF_FLOATS(from, from_type)                                                                     \
    CAST(F32, float, from, from_type, TO_F32)                                                                \
    CAST(F64, double, from, from_type, TO_F64)                                                               \
    CAST(INDEX, int64_t, from, from_type, SATURATE)                                                          \
    CAST(INT, int64_t, from, from_type, SATURATE)                                                            \
    CAST(UINT, uint64_t, from, from_type, SATURATE_UINT)                                                     \
    CAST(BOOL, int32_t, from, from_type, TO_BOOL)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wfloat-equal"
CASTS_OF_FLOATS(F32, float)
CASTS_OF_FLOATS(F64, double)
#pragma GCC diagnostic pop
CASTS_OF_INTS(INDEX, int64_t)
CASTS_OF_INTS(UINT, uint64_t)
CASTS_OF_INTS(BOOL, int32_t)

Step cast_step(CellClass to, CellClass from)
{
#define FROM(from)                                                                                           \
    {                                                                                                        \
        [CELL_F32] = cast_F32_##from, [CELL_F64] = cast_F64_##from, [CELL_INDEX] = cast_INDEX_##from,        \
        [CELL_INT] = cast_INT_##from, [CELL_UINT] = cast_UINT_##from, [CELL_BOOL] = cast_BOOL_##from         \
    }
    static const Step casts[CELL_COUNT][CELL_COUNT] = {
        [CELL_F32] = FROM(F32),   [CELL_F64] = FROM(F64),   [CELL_INDEX] = FROM(INDEX),
        [CELL_INT] = FROM(INDEX), [CELL_UINT] = FROM(UINT), [CELL_BOOL] = FROM(BOOL)};
#undef FROM
    return casts[from][to];
}

// To a float of at most 16 bits, of what is f32 by now.
const Code *step_narrow(Machine *m, Strand *s, const Code *c)
{
    const float *x = CELLS(m, float, c->a);
    float *out = CELLS(m, float, c->d);
    const DType t = (DType)c->dtype;
    for (uint32_t i = s->begin * c->lanes; i < s->end * c->lanes; i++)
        out[i] = small_value(t, small_float_narrow(t, (double)x[i]));
    return c + 1;
}

// KCAST_ROUND.
const Code *step_round(Machine *m, Strand *s, const Code *c)
{
    const float *x = CELLS(m, float, c->a);
    int64_t *out = CELLS(m, int64_t, c->d);
    for (uint32_t i = s->begin * c->lanes; i < s->end * c->lanes; i++)
        out[i] = tensor_saturate(DTYPE_i32, rint((double)x[i]));
    return c + 1;
}

// KCAST_BITS. Bits that the result has more than the operand are zeros.
const Code *step_bits(Machine *m, Strand *s, const Code *c)
{
    const uint32_t from = cell_bytes(c->from), to = cell_bytes(c->dtype);
    for (uint32_t i = s->begin * c->lanes; i < s->end * c->lanes; i++) {
        uint64_t bits = 0;
        cell_store(c->from, m->registers + c->a + (size_t)i * from, &bits);
        cell_load(c->dtype, &bits, m->registers + c->d + (size_t)i * to);
    }
    return c + 1;
}
