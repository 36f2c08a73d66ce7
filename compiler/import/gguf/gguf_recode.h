// SPDX-License-Identifier: Apache-2.0
// Types whose blocks hold indices into code books (IQ1, IQ2, IQ3) or digits of base 3 (TQ1_0): rlxc computes
// with other blocks, which hold exactly the same numbers. Separate from the reader, which leaves bytes where
// they are.
#ifndef COMPILER_IMPORT_GGUF_GGUF_RECODE_H
#define COMPILER_IMPORT_GGUF_GGUF_RECODE_H

#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

// Elements of a block of all these types, and of TQ2_0, which TQ1_0 becomes.
enum { GGUF_RECODED = 256 };

typedef struct GgufRecode {
    const char *type;   // a name of gguf_types.def
    const char *format; // that it becomes, as ir/graph/blocks.h names it
    uint32_t elements, bytes; // of a block of that format
} GgufRecode;

// NULL: this type is none of these.
const GgufRecode *gguf_recode(const char *type);
// n blocks of GGUF_RECODED elements as blocks of the format.
const void *gguf_recode_blocks(Arena *a, const GgufRecode *r, const uint8_t *blocks, uint64_t n);

#endif
