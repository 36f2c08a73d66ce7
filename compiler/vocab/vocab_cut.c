// SPDX-License-Identifier: Apache-2.0
// Tokens of texts, for commands: the run-time's code over tables of the compiler.
#include "compiler/vocab/vocab.h"
#include "runtime-lite/text/rlx_bpe.h"
#include "runtime-lite/text/rlx_spm.h"

bool vocab_cut(Arena *a, Diag *d, const rlx_vocab *v, VocabText text, unsigned flags, VocabTokens *out)
{
    enum { ADDED = 4 }; // at most, at the begin and the end
    if (text.len > RLX_TEXT_MOST)
        return diag_error(d, (Span){0}, E0004, "a text has at most %d bytes", RLX_TEXT_MOST);
    const size_t most = text.len + ADDED, bytes = RLX_SPM_BYTES(text.len) + RLX_BPE_BYTES(text.len);
    const rlx_work work = {arena_alloc(a, bytes), bytes};
    rlx_token_list list = {ARENA_ARRAY(a, int32_t, most), most, 0, 0};
    const int64_t n = rlx_tokens_cut(v, vocab_has_characters(v) ? rlx_spm : rlx_bpe,
                                     rlx_text_of(text.data, text.len), flags, work, &list);
    rlx_assert(n >= 0 && (size_t)n <= most);
    *out = (VocabTokens){list.token, (size_t)n};
    return true;
}
