// SPDX-License-Identifier: Apache-2.0
// How the device functions of CPUs read and write parameters: words and bytes behind the address that an
// operand is.
#ifndef IR_INTERP_DEVICE_WORDS_H
#define IR_INTERP_DEVICE_WORDS_H

#include "ir/interp/state.h"

// Of a thread. poison: something that it read was not written.
typedef struct Words {
    const Call *c;
    uint32_t t;
    bool is_poison, is_wrong;
    int64_t window; // behind the address of the windows
} Words;

int32_t words_read(Words *a, uint32_t operand, int64_t i);
void words_write(Words *a, uint32_t operand, int64_t i, int32_t v);
// type: DTYPE_i8 or DTYPE_u8.
int32_t words_read_byte(Words *a, uint32_t operand, int64_t i, DType type);
void words_write_byte(Words *a, uint32_t operand, int64_t i, int8_t v);
// The nearest number that a byte holds.
int8_t words_saturated(int64_t v);

#endif
