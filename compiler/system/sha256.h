// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for certificates: a content that withstands those who want another one with the same
// hash, which the hash of the compile cache does not.
#ifndef COMPILER_SYSTEM_SHA256_H
#define COMPILER_SYSTEM_SHA256_H

#include "base/arena.h"

typedef struct Sha256 {
    uint32_t state[8];
    uint64_t len;
    unsigned char block[64];
} Sha256;

Sha256 sha256_new(void);
void sha256_add(Sha256 *h, const void *bytes, size_t n);
// 64 hexadecimal digits. The state is used up.
const char *sha256_text(Arena *a, Sha256 *h);
// The hash of a whole file, read in pieces, and its length. NULL: it cannot be read.
const char *sha256_file(Arena *a, const char *path, uint64_t *len);

#endif
