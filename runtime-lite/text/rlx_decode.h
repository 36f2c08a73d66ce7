// SPDX-License-Identifier: Apache-2.0
// The text of tokens: of one, of a list, and as a stream of whole UTF-8 characters. Separate from what
// makes tokens, since programs that only print need nothing else.
#ifndef RLX_DECODE_H
#define RLX_DECODE_H

#include "rlx_vocab.h"

// The bytes of a token; control tokens have some only with RLX_TOKENS_CONTROL.
static inline const uint8_t *rlx_token_text(const rlx_vocab *v, uint32_t token, unsigned flags, size_t *n)
{
    const int is_shown = v->type[token] == RLX_TOKEN_NORMAL || v->type[token] == RLX_TOKEN_USER ||
                         v->type[token] == RLX_TOKEN_BYTE || (flags & RLX_TOKENS_CONTROL) != 0;
    *n = is_shown ? rlx_token_length(v, token) : 0;
    return v->bytes + v->begin[token];
}

// The number of bytes of a token, of which the first `room` are written; or RLX_TEXT_TOKEN.
static inline int64_t rlx_piece(const rlx_vocab *v, int32_t token, unsigned flags, char *text, size_t room)
{
    size_t n;
    if (token < 0 || (uint32_t)token >= v->n_tokens)
        return RLX_TEXT_TOKEN;
    const uint8_t *from = rlx_token_text(v, (uint32_t)token, flags, &n);
    if (n != 0 && room != 0)
        memcpy(text, from, n < room ? n : room);
    return (int64_t)n;
}

static inline int rlx_is_special(const rlx_vocab *v, uint32_t token)
{
    return v->type[token] == RLX_TOKEN_CONTROL || v->type[token] == RLX_TOKEN_UNKNOWN ||
           v->type[token] == RLX_TOKEN_USER;
}

// The number of bytes of the text of tokens, of which the first `room` are written; or RLX_TEXT_TOKEN. It
// takes back what reading a text added: the space at the beginning and after special tokens.
static inline int64_t rlx_decode(const rlx_vocab *v, const int32_t *tokens, size_t n_tokens, unsigned flags,
                                 char *text, size_t room)
{
    size_t used = 0, n;
    int may_drop = v->has_space != 0;
    for (size_t i = 0; i < n_tokens; i++) {
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= v->n_tokens)
            return RLX_TEXT_TOKEN;
        const uint8_t *from = rlx_token_text(v, (uint32_t)tokens[i], flags, &n);
        const int is_special = rlx_is_special(v, (uint32_t)tokens[i]);
        if (may_drop && !is_special && n != 0 && from[0] == ' ') {
            from++;
            n--;
        }
        may_drop = is_special && v->has_space != 0 && (v->has_space & RLX_SPACE_FIRST) == 0;
        if (n != 0 && used < room)
            memcpy(text + used, from, n < room - used ? n : room - used);
        used += n;
    }
    return (int64_t)used;
}

// Can the n bytes at p still become a character?
static inline int rlx_is_partial(const uint8_t *p, uint32_t n)
{
    static const uint8_t tails[2] = {0x80, 0xbf}; // one of them follows whatever may be followed
    uint8_t whole[4];
    const uint32_t length = p[0] < 0xc2 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 1;
    for (int i = 0; i < 2 && n < length; i++) {
        uint32_t code;
        for (uint32_t k = 0; k < length; k++)
            whole[k] = k < n ? p[k] : tails[i];
        if (rlx_utf8(whole, whole + length, &code) == length)
            return 1;
    }
    return 0;
}

// Writes what became whole of the held bytes: characters, and U+FFFD for what can be none.
static inline size_t rlx_stream_flush(rlx_stream *s, char *text)
{
    size_t used = 0;
    while (s->n != 0 && !rlx_is_partial(s->held, s->n)) {
        uint32_t code, n = (uint32_t)rlx_utf8(s->held, s->held + s->n, &code);
        if (n != 0) {
            memcpy(text + used, s->held, n);
            used += n;
        } else {
            memcpy(text + used, "\xef\xbf\xbd", 3);
            used += 3;
            n = s->n == 1 ? 1 : s->n - 1; // the last byte may begin another one
        }
        s->n -= n;
        memmove(s->held, s->held + n, s->n);
    }
    return used;
}

// The whole characters that a token completes; bytes that are no UTF-8 become U+FFFD. Returns the number of
// bytes written, or a status below zero: RLX_TEXT_MEMORY where `room` is below RLX_STREAM_BYTES of the
// token.
static inline int64_t rlx_stream_token(const rlx_vocab *v, rlx_stream *s, int32_t token, unsigned flags,
                                       char *text, size_t room)
{
    size_t n, used = 0;
    if (token < 0 || (uint32_t)token >= v->n_tokens)
        return RLX_TEXT_TOKEN;
    const uint8_t *from = rlx_token_text(v, (uint32_t)token, flags, &n);
    if (room < RLX_STREAM_BYTES(n))
        return RLX_TEXT_MEMORY;
    for (size_t i = 0; i < n; i++) {
        s->held[s->n++] = from[i];
        used += rlx_stream_flush(s, text + used);
    }
    return (int64_t)used;
}

// The end of a stream: U+FFFD for a character that never became whole. `text` has room for 3 bytes.
static inline int64_t rlx_stream_end(rlx_stream *s, char *text)
{
    const int64_t n = s->n == 0 ? 0 : 3;
    if (n != 0)
        memcpy(text, "\xef\xbf\xbd", 3);
    s->n = 0;
    return n;
}

#endif
