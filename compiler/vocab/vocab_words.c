// SPDX-License-Identifier: Apache-2.0
// What only WordPiece and unigram have: tokens in the order of their bytes, and scores.
#include "compiler/vocab/vocab.h"
#include <math.h>
#include <string.h>

static void add_order(VocabBuild *b)
{
    rlx_vocab *v = b->out;
    v->sorted = vocab_order(b, 1u << RLX_TOKEN_NORMAL | 1u << RLX_TOKEN_USER, &v->n_sorted);
    rlx_assert(v->n_sorted <= v->n_tokens);
}

bool vocab_build_wordpiece(VocabBuild *b)
{
    enum { LONGEST_WORD = 100 }; // what BERT's own code has
    b->out->cut = RLX_CUT_WORDS;
    b->out->digits = b->source->longest_word == 0 ? LONGEST_WORD : b->source->longest_word;
    b->out->has_space = RLX_SPACE_ANY; // each word has one, which is no part of a text at its begin
    add_order(b);
    rlx_assert(b->out->normal != NULL && b->out->normal->signs != NULL); // which cut words off
    return true;
}

bool vocab_build_unigram(VocabBuild *b)
{
    enum { MOST = 1000000 }; // sums of them stay exact enough
    const VocabSource *s = b->source;
    rlx_assert(s->n_scores == s->n_tokens);
    const double penalty = 10; // of what is unknown, below the worst token
    double *score = ARENA_ARRAY(b->arena, double, s->n_tokens), least = 0;
    memcpy(score, s->scores, s->n_tokens * sizeof *score);
    for (uint64_t i = 0, n = 0; i < s->n_tokens; i++) {
        if (!(fabs(score[i]) <= MOST))
            return diag_error(b->diag, b->where, E0116, "the score of token %llu is not between -%d and %d",
                              (unsigned long long)i, MOST, MOST);
        if (b->out->type[i] == RLX_TOKEN_NORMAL)
            least = n++ == 0 || score[i] < least ? score[i] : least;
    }
    b->out->score = score;
    b->out->unknown_score = least - penalty;
    b->out->cut = s->cuts_spaces ? RLX_CUT_SPACES : 0;
    b->out->has_space = s->space != 0 ? s->space : s->adds_space != VOCAB_NO ? RLX_SPACE_ANY : 0;
    add_order(b);
    return true;
}
