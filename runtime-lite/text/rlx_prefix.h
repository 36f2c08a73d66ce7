// SPDX-License-Identifier: Apache-2.0
// Texts in the order of their bytes, narrowed byte by byte to those that begin as a text does. Separate
// because special tokens, whole vocabularies and maps are all searched so.
#ifndef RLX_PREFIX_H
#define RLX_PREFIX_H

#include "rlx_vocab.h"

// The texts [low, high) begin with what was read, `at` bytes.
typedef struct rlx_prefix {
    uint32_t low, high, at;
} rlx_prefix;

static inline rlx_prefix rlx_prefix_start(const rlx_texts *t)
{
    rlx_prefix p;
    p.low = p.at = 0;
    p.high = t->n;
    return p;
}

static inline uint32_t rlx_text_place(const rlx_texts *t, uint32_t i)
{
    return t->order == NULL ? i : t->order[i];
}

// The first of the texts [low, high) whose byte number `at` is not below c.
static inline uint32_t rlx_prefix_bound(const rlx_texts *t, rlx_prefix p, uint32_t c)
{
    while (p.low < p.high) {
        const uint32_t middle = p.low + (p.high - p.low) / 2;
        if (t->bytes[t->begin[rlx_text_place(t, middle)] + p.at] < c)
            p.low = middle + 1;
        else
            p.high = middle;
    }
    return p.low;
}

// Reads one byte. Returns the number of the text that ends with it, or -1; p->low == p->high: none goes on.
static inline int32_t rlx_prefix_step(const rlx_texts *t, rlx_prefix *p, uint8_t c)
{
    int32_t found = -1;
    p->low = rlx_prefix_bound(t, *p, c);
    p->high = rlx_prefix_bound(t, *p, c + 1u);
    p->at++;
    while (p->low < p->high) { // the shorter text comes first
        const uint32_t place = rlx_text_place(t, p->low);
        if (t->begin[place + 1] - t->begin[place] != p->at)
            break;
        found = found < 0 ? (int32_t)place : found;
        p->low++;
    }
    return found;
}

#endif
