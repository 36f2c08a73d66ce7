// SPDX-License-Identifier: Apache-2.0
// Numbers to quantised blocks, of every format of ir/graph/blocks.def. Separate from decoding, which
// generated code and tests depend on: this is a search for what decodes to the least error.
#ifndef COMPILER_QUANTIZE_ENCODE_H
#define COMPILER_QUANTIZE_ENCODE_H

#include "ir/graph/blocks.h"

// The block whose elements are nearest to x, by the sum of weight * difference^2. x are finite and weights
// are at least 0; both have f->elements of them. weight NULL: all are 1.
void encode_block(const BlockFormat *f, const float *x, const float *weight, unsigned char *block);

#endif
