// SPDX-License-Identifier: Apache-2.0
// Elements of constants in the text form, for the printer and the parser of graphs.
#ifndef IR_TEXT_TEXT_ELEMENT_H
#define IR_TEXT_TEXT_ELEMENT_H

#include "ir/graph/tensor.h"

// Prints element i so that element_parse gives the same bits. False (and nothing useful printed) where no
// decimal does, as for NaN with a payload.
bool element_print(const Tensor *t, int64_t i, Str *out);
// Reads one element from exactly n bytes.
bool element_parse(Tensor *t, int64_t i, const char *text, size_t n);
// The bits of all elements, the most significant digit of each first.
void element_print_hex(const Tensor *t, Str *out);
// Reads one element from its 2 * bytes digits.
bool element_parse_hex(Tensor *t, int64_t i, const char *text);

#endif
