// SPDX-License-Identifier: Apache-2.0
// Looks up what two neighbours become in the list of merges of a BPE. Separate from what is merged: the bytes
// of pieces (rlx_bpe.h), or the characters of a text (rlx_spm.h).
#ifndef RLX_PAIRS_H
#define RLX_PAIRS_H

#include "rlx_merge.h"

static inline int rlx_pair_find(const rlx_merger *m, rlx_merge_part *left, const rlx_merge_part *right)
{
    const rlx_vocab *v = m->vocab;
    if (left->token < 0 || right->token < 0)
        return 0;
    uint32_t low = v->pair_begin[left->token], high = v->pair_begin[left->token + 1];
    const uint32_t end = high, wanted = (uint32_t)right->token;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (v->pair_right[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == end || v->pair_right[low] != wanted)
        return 0;
    left->rank = v->pair_rank[low];
    left->merged = (int32_t)v->pair_token[low];
    return 1;
}

#endif
