// SPDX-License-Identifier: Apache-2.0
// Prints texts that a generated tokenizer and a generated grammar make together, one for each seed, as a
// program writes them: sample, stop at the end of the grammar, go on behind the token.
#include "tok.h"
#include "words.h"
#include <stdio.h>

static char work_memory[RLX_SAMPLE_BYTES(TOK_TOKENS, 0)], parse_memory[RLX_PARSE_BYTES(50)];

static int write_text(uint64_t seed)
{
    rlx_sampling s = rlx_sampling_start(seed);
    rlx_work work = {work_memory, sizeof work_memory};
    rlx_parse parse;
    float logits[TOK_TOKENS];
    if (rlx_parse_start(&parse, &words, parse_memory, sizeof parse_memory) != 0)
        return 1;
    s.allows = tok_allows;
    s.allows_with = &parse;
    while (!rlx_parse_is_over(&parse)) {
        char piece[TOK_PIECE_BYTES];
        for (int i = 0; i < TOK_TOKENS; i++)
            logits[i] = (float)rlx_sample_random(&s.random);
        const int32_t token = rlx_sample(&s, logits, TOK_TOKENS, work);
        const int64_t n = tok_piece(token, 0, piece, sizeof piece);
        if (token < 0 || n <= 0 || tok_advance(&parse, token) != 0)
            return 1;
        printf("%.*s", (int)n, piece);
    }
    printf("\n");
    for (int32_t i = -1; i <= TOK_TOKENS;
         i++) // nothing can follow, no control token and no number that is none
        if (tok_allows(&parse, i) || tok_advance(&parse, i) != RLX_TEXT_TOKEN)
            return 1;
    return 0;
}

int main(void)
{
    for (uint64_t seed = 0; seed < 200; seed++)
        if (write_text(seed) != 0)
            return 1;
    return 0;
}
