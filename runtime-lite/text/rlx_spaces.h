// SPDX-License-Identifier: Apache-2.0
// The text as vocabularies with U+2581 in place of spaces keep it, and where spaces cut it. Separate because
// merges of characters (rlx_spm.h) and unigram (rlx_unigram.h) both begin so.
#ifndef RLX_SPACES_H
#define RLX_SPACES_H

#include "rlx_vocab.h"

// Does a space go before this part of a text?
static inline int rlx_wants_space(const rlx_vocab *v, const uint8_t *text, size_t n, int is_begin)
{
    const int has_one = n != 0 && (text[0] == ' ' || (n >= 3 && memcmp(text, "\xe2\x96\x81", 3) == 0));
    if (n == 0 || (v->has_space & RLX_SPACE_ANY) == 0 || ((v->has_space & RLX_SPACE_FIRST) != 0 && !is_begin))
        return 0;
    return (v->has_space & RLX_SPACE_ONE) == 0 || !has_one;
}

// The text as tokens are kept: with a space before it where the vocabulary wants one, and U+2581 as a space.
static inline uint32_t rlx_spm_copy(const rlx_vocab *v, const uint8_t *text, size_t n, int is_begin,
                                    uint8_t *copy)
{
    uint32_t used = 0;
    if (rlx_wants_space(v, text, n, is_begin))
        copy[used++] = ' ';
    for (size_t i = 0; i < n; i++) {
        const int is_mark = n - i >= 3 && text[i] == 0xe2 && text[i + 1] == 0x96 && text[i + 2] == 0x81;
        copy[used++] = is_mark ? ' ' : text[i];
        i += is_mark ? 2 : 0;
    }
    return used;
}

// The end of the piece at a place: each space begins one, if the vocabulary wants that.
static inline uint32_t rlx_piece_end(const rlx_vocab *v, const uint8_t *text, uint32_t n, uint32_t at)
{
    uint32_t end = at + 1;
    if ((v->cut & RLX_CUT_SPACES) == 0)
        return n;
    while (end < n && text[end] != ' ')
        end++;
    return end;
}

#endif
