// SPDX-License-Identifier: Apache-2.0
// The ways in which vocabularies make tokens, and tokens of texts for commands: the run-time's code over
// tables of the compiler.
#include "compiler/vocab/vocab.h"
#include "compiler/vocab/vocab_text.h"
#include "runtime-lite/text/rlx_bpe.h"
#include "runtime-lite/text/rlx_spm.h"
#include "runtime-lite/text/rlx_unigram.h"
#include "runtime-lite/text/rlx_wordpiece.h"

static const VocabWay spm = {"rlx_spm", rlx_spm, RLX_SPM_BYTES(1) - RLX_SPM_BYTES(0), vocab_text_spm};
static const VocabWay bpe = {"rlx_bpe", rlx_bpe, RLX_BPE_BYTES(1) - RLX_BPE_BYTES(0), vocab_text_bpe};
static const VocabWay wordpiece = {"rlx_wordpiece", rlx_wordpiece, 0, vocab_text_wordpiece};
static const VocabWay unigram = {"rlx_unigram", rlx_unigram, RLX_UNIGRAM_BYTES(1) - RLX_UNIGRAM_BYTES(0),
                                 vocab_text_unigram};

const VocabWay *vocab_way(const rlx_vocab *v)
{
    if (v->score != NULL)
        return &unigram;
    if ((v->cut & RLX_CUT_WORDS) != 0)
        return &wordpiece;
    return v->rank != NULL || (v->cut & RLX_CUT_CHARACTERS) != 0 ? &spm : &bpe;
}

const char *vocab_fragment(const rlx_vocab *v)
{
    return v->normal != NULL ? "rlx_normalized" : vocab_way(v)->name;
}

uint32_t vocab_work(const rlx_vocab *v, uint32_t *more)
{
    const uint32_t bytes = vocab_way(v)->bytes;
    *more = v->normal == NULL && v->score == NULL ? 24 : 96; // ends and alignment of the parts
    return v->normal == NULL ? bytes
                             : (uint32_t)(2 * sizeof(uint32_t)) * v->normal->growth + bytes * vocab_growth(v);
}

bool vocab_cut(Arena *a, Diag *d, const rlx_vocab *v, VocabText text, unsigned flags, VocabTokens *out)
{
    enum { ADDED = 4 }; // at most, at the begin and the end
    uint32_t more;
    if (text.len > RLX_TEXT_MOST)
        return diag_error(d, (Span){0}, E0004, "a text has at most %d bytes", RLX_TEXT_MOST);
    const size_t bytes = vocab_work(v, &more) * (text.len + 1) + more;
    rlx_normal normal = {.inner = NULL};
    rlx_vocab copy = *v; // whose steps lead to the way
    if (v->normal != NULL) {
        normal = *v->normal;
        normal.inner = vocab_way(v)->run;
        copy.normal = &normal;
    }
    const rlx_work work = {arena_alloc(a, bytes), bytes};
    const rlx_fragment run = v->normal != NULL ? rlx_normalized : vocab_way(v)->run;
    const size_t most = text.len * vocab_growth(v) + ADDED; // no token is empty
    rlx_token_list list = {ARENA_ARRAY(a, int32_t, most), most, 0, 0};
    const int64_t n = rlx_tokens_cut(&copy, run, rlx_text_of(text.data, text.len), flags, work, &list);
    if (n < 0)
        return diag_error(d, (Span){0}, E0004, "the text becomes too long for its vocabulary");
    rlx_assert((size_t)n <= most);
    *out = (VocabTokens){list.token, (size_t)n};
    return true;
}
