// SPDX-License-Identifier: Apache-2.0
// Hash map by linear probing. Slots hold indices into an array of entries in insertion order, so walking a
// map never shows its hashes. A slot also holds the hash, so that a probe that misses touches no entry: in
// large maps an entry is a cache miss.
#include "base/map.h"
#include "base/bytes.h"
#include "base/diag.h"

#include <string.h>

enum { FIRST_SLOTS = 16 };

static const uint64_t MULTIPLIER = 0x9E3779B97F4A7C15u; // 2^64 / golden ratio, odd

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * MULTIPLIER;
    return h ^ (h >> 29);
}

// load_le of whole words, as an expression that compilers turn into one load: of gigabytes of weights this
// is most of the work.
static uint64_t load_word(const unsigned char *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

Hasher hasher_begin(uint64_t n, uint64_t seed)
{
    return (Hasher){.h = mix(seed, n)};
}

// Bytes that fill up a word, or begin one.
static size_t add_to_word(Hasher *h, const unsigned char *bytes, size_t n)
{
    rlx_assert(h->n_word < 8);
    const size_t taken = n < 8 - h->n_word ? n : 8 - h->n_word;
    h->word |= load_le(bytes, taken) << (8 * h->n_word);
    h->n_word += (uint32_t)taken;
    if (h->n_word == 8)
        *h = (Hasher){.h = mix(h->h, h->word)};
    return taken;
}

void hasher_add(Hasher *h, const void *p, size_t n)
{
    const unsigned char *bytes = p;
    size_t i = h->n_word != 0 && n != 0 ? add_to_word(h, bytes, n) : 0;
    uint64_t sum = h->h;
    for (; h->n_word == 0 && n - i >= 8; i += 8)
        sum = mix(sum, load_word(bytes + i));
    h->h = sum;
    if (i < n)
        add_to_word(h, bytes + i, n - i);
}

uint64_t hasher_end(const Hasher *h)
{
    uint64_t sum = h->n_word != 0 ? mix(h->h, h->word) : h->h;
    sum = mix(sum, sum >> 32);
    return sum ^ (sum >> 32);
}

uint64_t hash_bytes64(const void *p, size_t n, uint64_t seed)
{
    Hasher h = hasher_begin(n, seed);
    hasher_add(&h, p, n);
    return hasher_end(&h);
}

uint32_t hash_bytes(const void *p, size_t n)
{
    return (uint32_t)hash_bytes64(p, n, 0);
}

// The slot that holds the key, or the empty one where it belongs. There is always an empty slot.
static uint64_t *find_slot(const Map *m, const void *key, uint32_t key_len, uint32_t hash)
{
    rlx_assert(m->len < m->n_slots);
    for (uint32_t i = hash & (m->n_slots - 1);; i = (i + 1) & (m->n_slots - 1)) {
        const uint64_t slot = m->slots[i];
        if (!slot)
            return &m->slots[i];
        if (slot >> 32 != hash)
            continue;
        const MapEntry *e = &m->entries[(uint32_t)slot - 1];
        if (e->key_len == key_len && (!key_len || !memcmp(e->key, key, key_len)))
            return &m->slots[i];
    }
}

static uint64_t slot_of(uint32_t hash, uint32_t entry)
{
    return (uint64_t)hash << 32 | (entry + 1);
}

static void grow(Arena *a, Map *m)
{
    if (m->n_slots > UINT32_MAX / 2)
        arena_give_up("map entries", m->len);
    m->n_slots = m->n_slots ? m->n_slots * 2 : FIRST_SLOTS;
    m->slots = ARENA_ARRAY(a, uint64_t, m->n_slots);
    for (uint32_t e = 0; e < m->len; e++) {
        uint32_t i = m->entries[e].hash & (m->n_slots - 1);
        while (m->slots[i])
            i = (i + 1) & (m->n_slots - 1);
        m->slots[i] = slot_of(m->entries[e].hash, e);
    }
    m->cap = m->n_slots / 2;
    MapEntry *entries = ARENA_ARRAY(a, MapEntry, m->cap);
    if (m->len)
        memcpy(entries, m->entries, m->len * sizeof *entries);
    m->entries = entries;
    rlx_assert(m->len < m->cap);
}

bool map_get(const Map *m, const void *key, size_t key_len, uint64_t *value)
{
    if (!m->len || key_len > UINT32_MAX)
        return false;
    const uint32_t index = (uint32_t)*find_slot(m, key, (uint32_t)key_len, hash_bytes(key, key_len));
    if (index && value)
        *value = m->entries[index - 1].value;
    return index != 0;
}

bool map_put(Arena *a, Map *m, const void *key, size_t key_len, uint64_t value)
{
    if (key_len > UINT32_MAX)
        arena_give_up("bytes in a map key", key_len);
    if (m->len == m->cap)
        grow(a, m);
    uint32_t hash = hash_bytes(key, key_len);
    uint64_t *slot = find_slot(m, key, (uint32_t)key_len, hash);
    if (*slot) {
        m->entries[(uint32_t)*slot - 1].value = value;
        return false;
    }
    *slot = slot_of(hash, m->len);
    m->entries[m->len++] = (MapEntry){arena_copy(a, key, key_len), (uint32_t)key_len, hash, value};
    return true;
}

bool map_get_str(const Map *m, const char *key, uint64_t *value)
{
    return map_get(m, key, strlen(key), value);
}

bool map_put_str(Arena *a, Map *m, const char *key, uint64_t value)
{
    return map_put(a, m, key, strlen(key), value);
}
