// SPDX-License-Identifier: Apache-2.0
// Tokens as SentencePiece's unigram model makes them (`t5` in GGUF): those with the largest sum of scores
// that give the text, found from left to right (Viterbi), in time that grows with the text and with the
// longest token. Separate from what merges.
#ifndef RLX_UNIGRAM_H
#define RLX_UNIGRAM_H

#include "rlx_bytes.h"
#include "rlx_spaces.h"

// The best way to a place in the text: its last token (-1: a character without one), and where that begins.
typedef struct rlx_best {
    double score;
    uint32_t begin;
    int32_t token;
} rlx_best;

// Work memory for a text of n bytes.
#define RLX_UNIGRAM_BYTES(n) (((size_t)(n) + 2) * (1 + sizeof(rlx_best)) + 24)

enum { RLX_NO_WAY = -2 }; // no way leads here yet

static inline void rlx_best_try(rlx_best *to, double score, uint32_t begin, int32_t token)
{
    if (to->token != RLX_NO_WAY && to->score >= score)
        return;
    to->score = score;
    to->begin = begin;
    to->token = token;
}

// All tokens that begin at a place; a character that is none of them has the score of what is unknown.
static inline void rlx_unigram_from(const rlx_vocab *v, const uint8_t *text, uint32_t n, uint32_t at,
                                    rlx_best *best)
{
    const rlx_texts sorted = rlx_texts_of(v, v->n_sorted, v->sorted);
    rlx_prefix p = rlx_prefix_start(&sorted);
    uint32_t code;
    const size_t length = rlx_utf8(text + at, text + n, &code);
    const uint32_t end = at + (length == 0 ? 1 : (uint32_t)length);
    int has_one = 0;
    for (uint32_t i = at; i < n && p.low < p.high; i++) {
        const int32_t token = rlx_prefix_step(&sorted, &p, text[i]);
        if (token < 0)
            continue;
        rlx_best_try(&best[i + 1], best[at].score + v->score[token], at, token);
        has_one = has_one || i + 1 == end;
    }
    if (!has_one)
        rlx_best_try(&best[end], best[at].score + v->unknown_score, at, -1);
}

// The tokens of the best way, from its beginning. Characters without one become bytes, or one unknown token.
static inline void rlx_unigram_add(const rlx_vocab *v, const uint8_t *text, uint32_t n, rlx_best *best,
                                   rlx_token_list *list)
{
    int was_unknown = 0;
    uint32_t end = n, next = 0;
    while (end != 0) { // turns the way round: each place then says where its next token ends
        const uint32_t begin = best[end].begin;
        best[end].begin = next;
        next = end;
        end = begin;
    }
    for (uint32_t at = 0; next != 0; at = end) {
        end = next;
        next = best[end].begin;
        const int32_t token = best[end].token;
        const int is_unknown = token < 0 && v->byte_token[text[at]] < 0;
        if (token >= 0)
            rlx_token_add(list, token);
        else if (!is_unknown || !was_unknown)
            rlx_token_add_bytes(v, list, text + at, end - at);
        was_unknown = is_unknown;
    }
}

// The best tokens of one piece; best has n + 1 elements.
static inline void rlx_unigram_piece(const rlx_vocab *v, const uint8_t *text, uint32_t n, rlx_best *best,
                                     rlx_token_list *list)
{
    for (uint32_t i = 0; i <= n; i++)
        best[i].token = RLX_NO_WAY;
    best[0].score = 0;
    best[0].token = -1;
    for (uint32_t at = 0; at < n; at++)
        if (best[at].token != RLX_NO_WAY)
            rlx_unigram_from(v, text, n, at, best);
    rlx_unigram_add(v, text, n, best, list);
}

static inline int64_t rlx_unigram(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                                  rlx_token_list *list)
{
    uint8_t *copy = (uint8_t *)rlx_work_take(&work, n + 1, 1);
    if (copy == NULL)
        return RLX_TEXT_MEMORY;
    const uint32_t used = rlx_spm_copy(v, text, n, list->is_begin, copy);
    rlx_best *best = (rlx_best *)rlx_work_take(&work, used + 1u, sizeof *best);
    if (best == NULL)
        return RLX_TEXT_MEMORY;
    for (uint32_t at = 0, end; at < used; at = end) {
        end = rlx_piece_end(v, copy, used, at);
        rlx_unigram_piece(v, copy + at, end - at, best, list);
    }
    return 0;
}

#endif
