// SPDX-License-Identifier: Apache-2.0
// Tokens as SentencePiece's BPE makes them (`llama` in GGUF): characters are merged by the scores of
// tokens, and what is no token at the end becomes bytes. A tokenizer.json of such a vocabulary lists merges
// instead of scores. Separate from BPE over bytes (rlx_bpe.h).
#ifndef RLX_SPM_H
#define RLX_SPM_H

#include "rlx_pairs.h"
#include "rlx_tokens.h"

// Work memory for a text of n bytes.
#define RLX_SPM_BYTES(n) (((size_t)(n) + 1) * (1 + sizeof(rlx_merge_part) + sizeof(uint32_t)) + 24)

static inline uint32_t rlx_symbol_end(const rlx_merger *m, const rlx_merge_part *s)
{
    return s->next == RLX_NO_SYMBOL ? m->bytes : m->symbol[s->next].begin;
}

static inline int rlx_spm_find(const rlx_merger *m, rlx_merge_part *left, const rlx_merge_part *right)
{
    left->merged = rlx_find_token(m->vocab, m->text + left->begin, rlx_symbol_end(m, right) - left->begin);
    if (left->merged < 0)
        return 0;
    left->rank = m->vocab->rank[left->merged];
    return 1;
}

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

static inline int64_t rlx_spm(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                              rlx_token_list *list)
{
    rlx_merger m;
    uint8_t *copy = (uint8_t *)rlx_work_take(&work, n + 1, 1);
    if (copy == NULL)
        return RLX_TEXT_MEMORY;
    m.vocab = v;
    m.text = copy;
    m.bytes = rlx_spm_copy(v, text, n, list->is_begin, copy);
    m.find = v->rank != NULL ? rlx_spm_find : rlx_pair_find;
    m.n = 0;
    m.symbol = (rlx_merge_part *)rlx_work_take(&work, m.bytes, sizeof *m.symbol);
    m.heap = (uint32_t *)rlx_work_take(&work, m.bytes, sizeof *m.heap);
    if (m.symbol == NULL || m.heap == NULL)
        return RLX_TEXT_MEMORY;
    for (uint32_t at = 0; at < m.bytes; m.n++) {
        uint32_t code;
        const size_t length = rlx_utf8(copy + at, copy + m.bytes, &code);
        m.symbol[m.n].begin = at;
        m.symbol[m.n].token = rlx_find_token(v, copy + at, length == 0 ? 1 : length);
        at += length == 0 ? 1 : (uint32_t)length;
    }
    rlx_merge(&m);
    int was_unknown = 0; // a run of characters without tokens is one unknown token
    for (int32_t i = 0; i != RLX_NO_SYMBOL; i = m.symbol[i].next) {
        const rlx_merge_part *s = &m.symbol[i];
        const int is_unknown = s->token < 0 && v->byte_token[copy[s->begin]] < 0;
        if (s->token >= 0)
            rlx_token_add(list, s->token);
        else if (!is_unknown || !was_unknown)
            rlx_token_add_bytes(v, list, copy + s->begin, rlx_symbol_end(&m, s) - s->begin);
        was_unknown = is_unknown;
    }
    return 0;
}

#endif
