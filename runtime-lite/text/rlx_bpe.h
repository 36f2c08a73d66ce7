// SPDX-License-Identifier: Apache-2.0
// Tokens as byte-level BPE makes them (`gpt2` in GGUF): pieces of the text, whose bytes are merged in the
// order in which the vocabulary lists its merges. Separate from SentencePiece's BPE (rlx_spm.h).
#ifndef RLX_BPE_H
#define RLX_BPE_H

#include "rlx_bytes.h"
#include "rlx_pairs.h"
#include "rlx_pieces.h"

// Work memory for a text of n bytes. Less will do where no piece is so long.
#define RLX_BPE_BYTES(n) ((size_t)(n) * (sizeof(rlx_merge_part) + sizeof(uint32_t)) + 16)

static inline int64_t rlx_bpe_piece(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                                    rlx_token_list *list)
{
    const int32_t whole = (v->cut & RLX_CUT_WHOLE) != 0 ? rlx_find_token(v, text, n) : -1;
    rlx_merger m;
    if (whole >= 0) {
        rlx_token_add(list, whole);
        return 0;
    }
    m.vocab = v;
    m.text = text;
    m.bytes = m.n = (uint32_t)n;
    m.find = rlx_pair_find;
    m.symbol = (rlx_merge_part *)rlx_work_take(&work, n, sizeof *m.symbol);
    m.heap = (uint32_t *)rlx_work_take(&work, n, sizeof *m.heap);
    if (m.symbol == NULL || m.heap == NULL)
        return RLX_TEXT_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        m.symbol[i].begin = i;
        m.symbol[i].token = v->byte_token[text[i]];
    }
    rlx_merge(&m);
    for (int32_t i = 0; i != RLX_NO_SYMBOL; i = m.symbol[i].next) {
        if (m.symbol[i].token >= 0)
            rlx_token_add(list, m.symbol[i].token);
        else
            rlx_token_add_bytes(v, list, text + m.symbol[i].begin, 1);
    }
    return 0;
}

// The pieces of a text between two digits that stand alone, or of all of it.
static inline int64_t rlx_bpe_pieces(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                                     rlx_token_list *list)
{
    rlx_scan s;
    int64_t status = 0;
    s.text = text;
    s.n = n;
    s.cut = v->cut;
    s.digits = v->digits;
    for (size_t at = 0, end; at < n && status == 0; at = end) {
        end = rlx_scan_piece(&s, at);
        status = rlx_bpe_piece(v, text + at, end - at, work, list);
    }
    return status;
}

static inline int64_t rlx_bpe(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                              rlx_token_list *list)
{
    rlx_scan s;
    size_t begin = 0;
    int64_t status = 0;
    if ((v->cut & RLX_CUT_DIGITS) == 0)
        return rlx_bpe_pieces(v, text, n, work, list);
    s.text = text;
    s.n = n;
    for (size_t at = 0, end; at < n && status == 0; at = end) {
        if (rlx_scan_class(&s, at, &end) != RLX_CHAR_NUMBER)
            continue;
        status = rlx_bpe_pieces(v, text + begin, at - begin, work, list);
        if (status == 0)
            status = rlx_bpe_piece(v, text + at, end - at, work, list);
        begin = end;
    }
    return status != 0 ? status : rlx_bpe_pieces(v, text + begin, n - begin, work, list);
}

#endif
