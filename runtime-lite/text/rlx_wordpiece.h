// SPDX-License-Identifier: Apache-2.0
// Tokens as WordPiece makes them (`bert` in GGUF): words and signs, each of the longest tokens that it has
// from left to right. A token that begins a word has a space before it in the tables. Separate from BPE,
// which merges.
#ifndef RLX_WORDPIECE_H
#define RLX_WORDPIECE_H

#include "rlx_normal.h"

// The longest token of what begins at a place, with a space before it if it begins a word, and its end.
static inline int32_t rlx_longest(const rlx_vocab *v, const uint8_t *text, size_t n, size_t *at)
{
    const rlx_texts sorted = rlx_texts_of(v, v->n_sorted, v->sorted);
    rlx_prefix p = rlx_prefix_start(&sorted);
    const size_t begin = *at;
    int32_t best = -1;
    if (begin == 0)
        (void)rlx_prefix_step(&sorted, &p, ' ');
    for (size_t i = begin; i < n && p.low < p.high; i++) {
        const int32_t token = rlx_prefix_step(&sorted, &p, text[i]);
        best = token < 0 ? best : token;
        *at = token < 0 ? *at : i + 1;
    }
    return best;
}

// A word becomes the unknown token if any part of it is none, or if it has too many characters. What was
// added before is then taken back: of tokens that are not kept only the number matters.
static inline void rlx_wordpiece_word(const rlx_vocab *v, const uint8_t *text, size_t n, size_t n_characters,
                                      rlx_token_list *list)
{
    const size_t before = list->n;
    size_t at = 0;
    int32_t token = 0;
    while (n_characters <= v->digits && at < n && (token = rlx_longest(v, text, n, &at)) >= 0)
        rlx_token_add(list, token);
    if (at == n)
        return;
    list->n = before;
    if (v->unknown >= 0)
        rlx_token_add(list, v->unknown);
}

static inline int64_t rlx_wordpiece(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                                    rlx_token_list *list)
{
    const rlx_set *signs = v->normal->signs->punctuation;
    size_t begin = 0, n_characters = 0;
    (void)work; // the text is cut where it is
    for (size_t at = 0; at < n;) {
        uint32_t code = RLX_BROKEN;
        const size_t length = rlx_utf8(text + at, text + n, &code), end = at + (length == 0 ? 1 : length);
        const int is_white = length != 0 && rlx_is_white(code);
        const int is_sign = length != 0 && rlx_set_has(signs, code);
        if (is_white || is_sign) {
            if (at > begin)
                rlx_wordpiece_word(v, text + begin, at - begin, n_characters, list);
            if (is_sign)
                rlx_wordpiece_word(v, text + at, end - at, 1, list);
            begin = end;
            n_characters = 0;
        } else {
            n_characters++;
        }
        at = end;
    }
    if (n > begin)
        rlx_wordpiece_word(v, text + begin, n - begin, n_characters, list);
    return 0;
}

#endif
