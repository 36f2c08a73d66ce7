// SPDX-License-Identifier: Apache-2.0
// Tokens as SentencePiece's BPE makes them (`llama` in GGUF): characters are merged by the scores of
// tokens, and what is no token at the end becomes bytes. A tokenizer.json of such a vocabulary lists merges
// instead of scores. Separate from BPE over bytes (rlx_bpe.h).
#ifndef RLX_SPM_H
#define RLX_SPM_H

#include "rlx_bytes.h"
#include "rlx_pairs.h"
#include "rlx_spaces.h"

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

// The tokens of the merger's text.
static inline void rlx_spm_piece(rlx_merger *m, rlx_token_list *list)
{
    const rlx_vocab *v = m->vocab;
    m->n = 0;
    for (uint32_t at = 0; at < m->bytes; m->n++) {
        uint32_t code;
        const size_t length = rlx_utf8(m->text + at, m->text + m->bytes, &code);
        m->symbol[m->n].begin = at;
        m->symbol[m->n].token = rlx_find_token(v, m->text + at, length == 0 ? 1 : length);
        at += length == 0 ? 1 : (uint32_t)length;
    }
    rlx_merge(m);
    int was_unknown = 0; // a run of characters without tokens is one unknown token
    for (int32_t i = 0; i != RLX_NO_SYMBOL; i = m->symbol[i].next) {
        const rlx_merge_part *s = &m->symbol[i];
        const int is_unknown = s->token < 0 && v->byte_token[m->text[s->begin]] < 0;
        if (s->token >= 0)
            rlx_token_add(list, s->token);
        else if (!is_unknown || !was_unknown)
            rlx_token_add_bytes(v, list, m->text + s->begin, rlx_symbol_end(m, s) - s->begin);
        was_unknown = is_unknown;
    }
}

static inline int64_t rlx_spm(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                              rlx_token_list *list)
{
    rlx_merger m;
    uint8_t *copy = (uint8_t *)rlx_work_take(&work, n + 1, 1);
    if (copy == NULL)
        return RLX_TEXT_MEMORY;
    const uint32_t used = rlx_spm_copy(v, text, n, list->is_begin, copy);
    m.vocab = v;
    m.find = v->rank != NULL ? rlx_spm_find : rlx_pair_find;
    m.symbol = (rlx_merge_part *)rlx_work_take(&work, used, sizeof *m.symbol);
    m.heap = (uint32_t *)rlx_work_take(&work, used, sizeof *m.heap);
    if (m.symbol == NULL || m.heap == NULL)
        return RLX_TEXT_MEMORY;
    for (uint32_t at = 0, end; at < used; at = end) {
        end = rlx_piece_end(v, copy, used, at);
        m.text = copy + at;
        m.bytes = end - at;
        rlx_spm_piece(&m, list);
    }
    return 0;
}

#endif
