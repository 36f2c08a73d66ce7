// SPDX-License-Identifier: Apache-2.0
// 128 bits that stand for a content: what the compile cache finds its entries by and checks them with. XXH3
// of the xxHash library, which runs at the speed of memory. It does not withstand somebody who makes
// collisions on purpose: whoever can write to the cache can put anything there anyway.
#ifndef COMPILER_SYSTEM_CONTENT_HASH_H
#define COMPILER_SYSTEM_CONTENT_HASH_H

#include "base/arena.h"

typedef struct ContentHash ContentHash;

ContentHash *content_hash_new(Arena *a);
// The length counts as well, so that "ab", "c" differs from "a", "bc".
void content_hash_add(ContentHash *h, const void *bytes, size_t n);
void content_hash_add_text(ContentHash *h, const char *text);
// 32 hexadecimal digits.
const char *content_hash_text(Arena *a, const ContentHash *h);
const char *content_hash_of(Arena *a, const void *bytes, size_t n);
// The hash of a whole file, read in pieces. NULL: it cannot be read.
const char *content_hash_file(Arena *a, const char *path);

#endif
