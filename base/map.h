// SPDX-License-Identifier: Apache-2.0
// Hash maps in an arena: byte-string key to uint64 value, open addressing, insertion only.
// Iteration order is insertion order, so nothing that we print depends on a hash.
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/arena.h"
#include <stdbool.h>

typedef struct MapEntry {
    const void *key;
    uint32_t key_len;
    uint32_t hash;
    uint64_t value;
} MapEntry;

typedef struct Map {
    MapEntry *entries; // insertion order
    uint32_t len, cap;
    uint64_t *slots; // hash << 32 | index + 1 into entries; 0 = empty
    uint32_t n_slots;
} Map;

// Start with `Map m = {0};`. Keys are copied into the arena by map_put.
bool map_get(const Map *m, const void *key, size_t key_len, uint64_t *value);
// Inserts or overwrites. True if the key was new.
bool map_put(Arena *a, Map *m, const void *key, size_t key_len, uint64_t value);
bool map_get_str(const Map *m, const char *key, uint64_t *value);
bool map_put_str(Arena *a, Map *m, const char *key, uint64_t value);
uint32_t hash_bytes(const void *p, size_t n);
uint64_t hash_bytes64(const void *p, size_t n, uint64_t seed);

// hash_bytes64 for n bytes that come in pieces.
typedef struct Hasher {
    uint64_t h, word;
    uint32_t n_word; // bytes of the word that is not complete yet
} Hasher;
Hasher hasher_begin(uint64_t n, uint64_t seed);
void hasher_add(Hasher *h, const void *p, size_t n);
uint64_t hasher_end(const Hasher *h);

#endif
