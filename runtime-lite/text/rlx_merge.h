// SPDX-License-Identifier: Apache-2.0
// Merges neighbours into longer tokens, always the pair of the lowest rank, of equal ones the leftmost: a
// heap that has one entry for each symbol with a mergeable right neighbour, so n symbols take n log n
// steps. Separate because SPM and BPE differ only in how they look a pair up.
#ifndef RLX_MERGE_H
#define RLX_MERGE_H

#include "rlx_find.h"

enum { RLX_NO_SYMBOL = -1 };

typedef struct rlx_merge_part {
    uint32_t begin;      // in the text; a symbol ends where the next one begins
    int32_t next, previous;
    int32_t token;       // -1: it is none
    int32_t merged;      // what it and the next one become
    uint32_t rank;       // of that merge
    uint32_t place;      // in the heap, plus 1; 0: not in it
} rlx_merge_part;

typedef struct rlx_merger rlx_merger;

struct rlx_merger {
    const rlx_vocab *vocab;
    const uint8_t *text;
    uint32_t bytes;      // of the text
    uint32_t n, n_heap;  // symbols, and those in the heap
    rlx_merge_part *symbol;
    uint32_t *heap;      // [n]
    // Sets merged and rank.
    int (*find)(const rlx_merger *m, rlx_merge_part *left, const rlx_merge_part *right);
};

static inline int rlx_heap_is_before(const rlx_merger *m, uint32_t a, uint32_t b)
{
    const uint32_t x = m->symbol[a].rank, y = m->symbol[b].rank;
    return x < y || (x == y && a < b);
}

static inline void rlx_heap_put(rlx_merger *m, uint32_t place, uint32_t symbol)
{
    m->heap[place] = symbol;
    m->symbol[symbol].place = place + 1;
}

// Moves the symbol at `place` to where it belongs.
static inline void rlx_heap_settle(rlx_merger *m, uint32_t place)
{
    const uint32_t symbol = m->heap[place];
    while (place > 0 && rlx_heap_is_before(m, symbol, m->heap[(place - 1) / 2])) {
        rlx_heap_put(m, place, m->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (uint32_t child = 2 * place + 1; child < m->n_heap; child = 2 * place + 1) {
        if (child + 1 < m->n_heap && rlx_heap_is_before(m, m->heap[child + 1], m->heap[child]))
            child++;
        if (!rlx_heap_is_before(m, m->heap[child], symbol))
            break;
        rlx_heap_put(m, place, m->heap[child]);
        place = child;
    }
    rlx_heap_put(m, place, symbol);
}

static inline void rlx_heap_remove(rlx_merger *m, uint32_t symbol)
{
    const uint32_t place = m->symbol[symbol].place;
    if (place == 0)
        return;
    m->symbol[symbol].place = 0;
    m->n_heap--;
    if (place - 1 == m->n_heap)
        return;
    rlx_heap_put(m, place - 1, m->heap[m->n_heap]);
    rlx_heap_settle(m, place - 1);
}

// Looks up what a symbol and its right neighbour become.
static inline void rlx_merge_look(rlx_merger *m, uint32_t i)
{
    rlx_merge_part *s = &m->symbol[i];
    if (s->next == RLX_NO_SYMBOL || !m->find(m, s, &m->symbol[s->next])) {
        rlx_heap_remove(m, i);
        return;
    }
    if (s->place == 0)
        rlx_heap_put(m, m->n_heap++, i);
    rlx_heap_settle(m, s->place - 1);
}

// Joins symbols, whose begin and token are set, until no pair can be. The first one stays the first.
static inline void rlx_merge(rlx_merger *m)
{
    m->n_heap = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        m->symbol[i].previous = (int32_t)i - 1;
        m->symbol[i].next = i + 1 < m->n ? (int32_t)i + 1 : RLX_NO_SYMBOL;
        m->symbol[i].place = 0;
    }
    for (uint32_t i = 0; i < m->n; i++)
        rlx_merge_look(m, i);
    while (m->n_heap != 0) {
        const uint32_t i = m->heap[0];
        rlx_merge_part *left = &m->symbol[i], *right = &m->symbol[left->next];
        rlx_heap_remove(m, (uint32_t)left->next);
        left->token = left->merged;
        left->next = right->next;
        if (left->next != RLX_NO_SYMBOL)
            m->symbol[left->next].previous = (int32_t)i;
        rlx_merge_look(m, i);
        if (left->previous != RLX_NO_SYMBOL)
            rlx_merge_look(m, (uint32_t)left->previous);
    }
}

#endif
