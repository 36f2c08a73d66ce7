// SPDX-License-Identifier: Apache-2.0
// Bytes that are part of no token of the text. Separate because words of WordPiece have none.
#ifndef RLX_BYTES_H
#define RLX_BYTES_H

#include "rlx_tokens.h"

// Bytes as byte tokens. Those that have none become the unknown token, one for a run of them, or nothing.
static inline void rlx_token_add_bytes(const rlx_vocab *v, rlx_token_list *list, const uint8_t *text,
                                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int32_t token = v->byte_token[text[i]];
        if (token >= 0)
            rlx_token_add(list, token);
        else if (v->unknown >= 0 && i == 0)
            rlx_token_add(list, v->unknown);
    }
}

#endif
