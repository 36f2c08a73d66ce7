// SPDX-License-Identifier: Apache-2.0
// Tokens by all of their bytes. Separate because only what merges looks them up so; others narrow a list
// (rlx_prefix.h).
#ifndef RLX_FIND_H
#define RLX_FIND_H

#include "rlx_vocab.h"

static inline uint32_t rlx_text_hash(const uint8_t *text, size_t n)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ text[i]) * 16777619u;
    return hash * 2654435769u;
}

// The bucket of a hash: its highest bits.
static inline uint32_t rlx_text_bucket(uint32_t hash, uint32_t bits)
{
    return bits == 0 ? 0 : hash >> (32 - bits);
}

// The token with these bytes, which is no control token. -1: there is none.
static inline int32_t rlx_find_token(const rlx_vocab *v, const uint8_t *text, size_t n)
{
    if (n > v->longest)
        return -1;
    const uint32_t bucket = rlx_text_bucket(rlx_text_hash(text, n), v->bucket_bits);
    for (uint32_t i = v->bucket[bucket]; i < v->bucket[bucket + 1]; i++) {
        const uint32_t token = v->by_hash[i];
        if (rlx_token_length(v, token) == n && memcmp(v->bytes + v->begin[token], text, n) == 0)
            return (int32_t)token;
    }
    return -1;
}

#endif
