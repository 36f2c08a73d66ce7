// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// A text through a model that makes a vector of it: its tokens, and one run. Separate from sessions, which
// keep what they have read.
#ifndef RLX_EMBED_H
#define RLX_EMBED_H

#include "../rlx_run.h"
#include "../rlx_symbols.h"
#include "../text/rlx_tokens.h"

typedef struct rlx_embedder {
    const rlx_vocab *vocab;
    rlx_fragment fragment;
    uint32_t rows; // slot of the size T
    int64_t most_rows;
} rlx_embedder;

// The number of tokens, whose vector is in output 0 then; or a status below zero.
static inline int64_t rlx_embed_text(rlx_ctx *ctx, const rlx_embedder *e, rlx_text text, rlx_work work)
{
    rlx_token_list list;
    list.token = (int32_t *)rlx_work_take(&work, (size_t)e->most_rows, sizeof *list.token);
    list.room = (size_t)e->most_rows;
    list.n = 0;
    list.is_begin = 1;
    if (list.token == NULL)
        return RLX_TEXT_MEMORY;
    const int64_t n = rlx_tokens_cut(e->vocab, e->fragment, text, RLX_TOKENS_FRAME, work, &list);
    if (n <= 0 || n > e->most_rows)
        return n == 0 ? (int64_t)RLX_TEXT_NONE : n < 0 ? n : (int64_t)RLX_TEXT_LENGTH;
    int64_t *input =
        rlx_set_symbol(ctx, e->rows, n) == RLX_OK ? (int64_t *)rlx_input(ctx, 0) : NULL;
    if (input == NULL)
        return RLX_TEXT_ARGUMENT;
    for (int64_t i = 0; i < n; i++)
        input[i] = list.token[i];
    return rlx_run(ctx) == RLX_OK ? n : (int64_t)RLX_TEXT_ARGUMENT;
}

#endif
