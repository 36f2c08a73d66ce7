// SPDX-License-Identifier: Apache-2.0
// Preludes: helper text that is pasted in front of kernels, piece by piece, as needed. The texts are the
// files in codegen/prelude/, made into arrays of lines by tools/embed.py.
//
// A line `//@ NAME` begins a piece; lines before the first one are the file's own. The piece is emitted when
// the text, or another emitted piece, has the identifier NAME, and always when NAME is *; the order is that
// of the files. Of two pieces of one name the first counts. NAME may hold one of
//   $L  lanes: 4, 8, 16 ($H half of them, $B bytes of a vector of 4-byte elements, $I 0, 1 ... lanes - 1,
//       $J the same from $H to $L - 1, $K 0 ... $H - 1; $Z and $Y the lower and upper
//       lanes of two vectors in turn: 0, $L, 1, $L + 1 ...; $V and $W their even and odd lanes)
//   $S  short type name: i64 ... u8 ($T its C type, $U the unsigned type that its arithmetic wraps in, $M and
//   $X its least and
//       greatest value, $F the least double above $X, $N its bytes)
//   $D  a number from 1 to 31
// and then stands for one piece each. `//@ NAME NAME2 ...`: any of the names asks for the piece.
#ifndef CODEGEN_TARGET_PRELUDE_H
#define CODEGEN_TARGET_PRELUDE_H

#include "codegen/target/target.h"

#define PRELUDE(name) extern const char *const prelude_##name[];
PRELUDE(c_base)
PRELUDE(c_scalar)
PRELUDE(c_vector)
PRELUDE(c_math)
PRELUDE(c_matrix)
PRELUDE(c_dsp)
PRELUDE(c_mve)
PRELUDE(c_rvv)
PRELUDE(cuda)
PRELUDE(cuda_device)
PRELUDE(cuda_loops)
PRELUDE(glsl)
PRELUDE(msl)
PRELUDE(gpu_common)
PRELUDE(gpu_math)
#undef PRELUDE

#endif
