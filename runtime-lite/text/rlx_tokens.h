// SPDX-License-Identifier: Apache-2.0
// What cuts a text at special tokens, and the list that tokens go to. Separate from the ways to make tokens
// of what lies between them (rlx_spm.h, rlx_bpe.h).
#ifndef RLX_TOKENS_H
#define RLX_TOKENS_H

#include "rlx_prefix.h"

// Tokens that were found: the first `room` of them are kept, all are counted.
typedef struct rlx_token_list {
    int32_t *token;
    size_t room, n;
    int is_begin; // of the text: what is cut up now begins where the text does
} rlx_token_list;

static inline void rlx_token_add(rlx_token_list *list, int32_t token)
{
    if (list->n < list->room)
        list->token[list->n] = token;
    list->n++;
}

// The longest special token that the text begins with. -1: none.
static inline int32_t rlx_find_special(const rlx_vocab *v, const uint8_t *text, size_t n, unsigned flags)
{
    const rlx_texts specials = rlx_texts_of(v, v->n_special, v->special);
    rlx_prefix p = rlx_prefix_start(&specials);
    int32_t best = -1;
    if ((v->special_first[text[0] >> 5] >> (text[0] & 31) & 1) == 0)
        return -1;
    for (size_t at = 0; at < n && p.low < p.high; at++) {
        const int32_t token = rlx_prefix_step(&specials, &p, text[at]);
        if (token >= 0 && (v->type[token] == RLX_TOKEN_USER || (flags & RLX_TOKENS_CONTROL) != 0))
            best = token;
    }
    return best;
}

// Makes tokens of a text without special tokens, before which there is nothing or a special token.
typedef int64_t (*rlx_fragment)(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                                rlx_token_list *list);

typedef struct rlx_text {
    const uint8_t *data;
    size_t n;
} rlx_text;

static inline rlx_text rlx_text_of(const char *data, size_t n)
{
    rlx_text text;
    text.data = (const uint8_t *)data;
    text.n = n;
    return text;
}

// The number of tokens of a text, of which the first list->room are kept; or a status below zero.
static inline int64_t rlx_tokens_cut(const rlx_vocab *v, rlx_fragment fragment, rlx_text text, unsigned flags,
                                     rlx_work work, rlx_token_list *list)
{
    size_t begin = 0;
    if (text.n > RLX_TEXT_MOST)
        return RLX_TEXT_LENGTH;
    if ((flags & RLX_TOKENS_FRAME) != 0 && v->first >= 0)
        rlx_token_add(list, v->first);
    for (size_t at = 0; at <= text.n;) {
        const int is_end = at == text.n;
        const int32_t special = is_end ? -1 : rlx_find_special(v, text.data + at, text.n - at, flags);
        list->is_begin = begin == 0;
        const int64_t status = at > begin && (special >= 0 || is_end)
                                   ? fragment(v, text.data + begin, at - begin, work, list)
                                   : 0;
        if (status < 0)
            return status;
        if (special >= 0)
            rlx_token_add(list, special);
        at += special >= 0 ? rlx_token_length(v, (uint32_t)special) : 1;
        begin = special >= 0 ? at : begin;
    }
    if ((flags & RLX_TOKENS_FRAME) != 0 && v->last >= 0)
        rlx_token_add(list, v->last);
    return (int64_t)list->n;
}

#endif
