// SPDX-License-Identifier: Apache-2.0
// The tables of a vocabulary, and what all files that work on them share.
#ifndef RLX_VOCAB_H
#define RLX_VOCAB_H

#include "rlx_text.h"

#include <string.h>

// Types of tokens, as GGUF numbers them.
enum {
    RLX_TOKEN_NORMAL = 1,
    RLX_TOKEN_UNKNOWN = 2,
    RLX_TOKEN_CONTROL = 3,
    RLX_TOKEN_USER = 4,
    RLX_TOKEN_UNUSED = 5,
    RLX_TOKEN_BYTE = 6
};

// How a vocabulary cuts text before it merges (BPE), as bits.
enum {
    RLX_CUT_CASE = 1,       // words end where a capital follows a small letter
    RLX_CUT_SUFFIX = 2,     // a contraction belongs to the word before it
    RLX_CUT_CLASSIC = 4,    // numbers of any length, signs and line breaks as GPT-2 has them
    RLX_CUT_DIGITS = 8,     // each digit is cut off before everything else
    RLX_CUT_WHOLE = 16,     // a piece that is a token is that token, whatever the merges are
    RLX_CUT_CHARACTERS = 32, // nothing is cut, and characters are merged instead of bytes (rlx_spm.h)
    RLX_CUT_SPACES = 64,     // of characters: each space begins a piece
    RLX_CUT_MARKS = 256,     // marks are letters
    RLX_CUT_WORDS = 128      // into words, which the longest tokens make (rlx_wordpiece.h)
};

// Whether a space goes before a text, as bits.
enum {
    RLX_SPACE_ANY = 1,   // before a text and before what follows a special token
    RLX_SPACE_FIRST = 2, // only before the text
    RLX_SPACE_ONE = 4    // only where there is none already
};

struct rlx_normal;

typedef struct rlx_vocab {
    uint32_t n_tokens, longest;       // longest: bytes of the longest token
    int32_t first, last, unknown;     // added at the begin and at the end, and for what is no token; -1: none
    int32_t bos, eos, eot;            // begin and end of a text, end of a turn; -1: none
    uint32_t has_space;               // RLX_SPACE_*; 0: none goes before the text
    const uint8_t *bytes;             // of all tokens, one after the other
    const uint32_t *begin;            // [n_tokens + 1]
    const uint8_t *type;              // [n_tokens]
    const int32_t *byte_token;        // [256], -1: none
    uint32_t n_special;               // control and user-defined tokens, in the order of their bytes
    const uint32_t *special;
    const uint32_t *special_first;    // [8] bits: the bytes with which they begin
    uint32_t bucket_bits;             // tokens by the hash of their bytes
    const uint32_t *bucket, *by_hash; // [2^bucket_bits + 1], and tokens in the order of buckets
    const uint32_t *rank;             // SPM: by token, 0 is merged first; NULL: it is none
    uint32_t cut, digits;             // RLX_CUT_*; the most digits of a piece, or characters of a word
    const uint32_t *pair_begin;       // BPE: [n_tokens + 1] by the left token: its pairs
    const uint32_t *pair_right, *pair_rank, *pair_token; // in the order of the right token
    uint32_t n_sorted;                // WordPiece and unigram: tokens in the order of their bytes
    const uint32_t *sorted;
    const double *score;              // unigram: by token; NULL: it is none
    double unknown_score;
    const struct rlx_normal *normal;  // what is made of a text first (rlx_normal.h); NULL: nothing
} rlx_vocab;

// Texts in the order of their bytes: number i is number order[i] of those that lie one after the other.
typedef struct rlx_texts {
    uint32_t n;
    const uint8_t *bytes;
    const uint32_t *begin, *order; // order NULL: they lie in that order
} rlx_texts;

static inline rlx_texts rlx_texts_of(const rlx_vocab *v, uint32_t n, const uint32_t *order)
{
    rlx_texts texts;
    texts.n = n;
    texts.bytes = v->bytes;
    texts.begin = v->begin;
    texts.order = order;
    return texts;
}

static inline uint32_t rlx_token_length(const rlx_vocab *v, uint32_t token)
{
    return v->begin[token + 1] - v->begin[token];
}

// The number of bytes of the UTF-8 character at p < end; 0: there is none.
static inline size_t rlx_utf8(const uint8_t *p, const uint8_t *end, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t c = p[0];
    const size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (n == 0 || n > (size_t)(end - p))
        return 0;
    *code = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (p[i] & 0x3fu);
    }
    return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

#endif
