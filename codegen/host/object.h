// SPDX-License-Identifier: Apache-2.0
// Object files with one read-only block of bytes and the symbol that names it: what any linker takes, also
// that of compilers whose assembler takes in no files.
#ifndef CODEGEN_HOST_OBJECT_H
#define CODEGEN_HOST_OBJECT_H

#include "codegen/host/host.h"

// What is before the bytes in the file, and what behind.
typedef struct ObjectText {
    FilePiece before, behind;
} ObjectText;

// NULL: there is no format of that name. NULL as name: that of the machine that rlxc runs on.
const ObjectFormat *object_find(const char *name);
// Names, comma-separated.
const char *object_names(Arena *a);
// The most bytes that a block can have.
uint64_t object_most_bytes(const ObjectFormat *f);
ObjectText object_text(Arena *a, const ObjectFormat *f, const char *symbol, uint64_t n);

#endif
