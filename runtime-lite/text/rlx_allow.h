// SPDX-License-Identifier: Apache-2.0
// Which tokens a grammar allows: those whose bytes can come next, and those that end a text where it can
// end. Separate from rlx_grammar.h, which knows no tokens.
#ifndef RLX_ALLOW_H
#define RLX_ALLOW_H

#include "rlx_decode.h"
#include "rlx_grammar.h"

static inline int rlx_ends_text(const rlx_vocab *v, int32_t token)
{
    return token >= 0 && (token == v->eos || token == v->eot);
}

static inline int rlx_parse_allows(const rlx_vocab *v, rlx_parse *p, int32_t token)
{
    size_t n;
    if (rlx_ends_text(v, token))
        return rlx_parse_can_end(p);
    if (token < 0 || (uint32_t)token >= v->n_tokens)
        return 0;
    const uint8_t *text = rlx_token_text(v, (uint32_t)token, 0, &n);
    return n != 0 && rlx_parse_can(p, text, n);
}

static inline int64_t rlx_parse_token(const rlx_vocab *v, rlx_parse *p, int32_t token)
{
    size_t n;
    if (rlx_ends_text(v, token))
        return rlx_parse_can_end(p) ? 0 : RLX_TEXT_TOKEN;
    if (token < 0 || (uint32_t)token >= v->n_tokens)
        return RLX_TEXT_TOKEN;
    const uint8_t *text = rlx_token_text(v, (uint32_t)token, 0, &n);
    return n == 0 ? (int64_t)RLX_TEXT_TOKEN : rlx_parse_feed(p, text, n);
}

#endif
