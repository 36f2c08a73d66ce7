// SPDX-License-Identifier: Apache-2.0
// See device_words.h.
#include "ir/interp/device_words.h"

static Address element(const Words *a, uint32_t operand, int64_t i, int64_t bytes)
{
    Address at = call_address(a->c, operand, a->t);
    at.byte += i * bytes;
    return at;
}

int32_t words_read(Words *a, uint32_t operand, int64_t i)
{
    int32_t v = 0;
    a->is_wrong =
        a->is_wrong || !param_read(a->c, a->t, element(a, operand, i, sizeof v), &v, sizeof v, &a->is_poison);
    return v;
}

void words_write(Words *a, uint32_t operand, int64_t i, int32_t v)
{
    a->is_wrong =
        a->is_wrong || !param_write(a->c, a->t, element(a, operand, i, sizeof v), &v, sizeof v, a->is_poison);
}

int32_t words_read_byte(Words *a, uint32_t operand, int64_t i, DType type)
{
    uint8_t v = 0;
    a->is_wrong =
        a->is_wrong || !param_read(a->c, a->t, element(a, operand, i, sizeof v), &v, sizeof v, &a->is_poison);
    return type == DTYPE_i8 ? (int8_t)v : v;
}

void words_write_byte(Words *a, uint32_t operand, int64_t i, int8_t v)
{
    a->is_wrong =
        a->is_wrong || !param_write(a->c, a->t, element(a, operand, i, sizeof v), &v, sizeof v, a->is_poison);
}

int8_t words_saturated(int64_t v)
{
    return (int8_t)(v < INT8_MIN ? INT8_MIN : v > INT8_MAX ? INT8_MAX : v);
}
