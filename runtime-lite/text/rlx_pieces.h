// SPDX-License-Identifier: Apache-2.0
// Cuts text into the pieces within which BPE merges. The regular expressions that models bring are runs of
// classes of characters, so each alternative is a function here, in the order in which the expression has
// them. Bytes that are no UTF-8 are signs of one byte.
#ifndef RLX_PIECES_H
#define RLX_PIECES_H

#include "rlx_unicode.h"
#include "rlx_vocab.h"

enum {
    RLX_LETTERS = RLX_CHAR_UPPER | RLX_CHAR_LOWER | RLX_CHAR_LETTER,
    RLX_SPACES = RLX_CHAR_SPACE | RLX_CHAR_NEWLINE,
    RLX_SIGNS = RLX_CHAR_OTHER | RLX_CHAR_MARK,
    RLX_BEFORE = RLX_CHAR_OTHER | RLX_CHAR_MARK | RLX_CHAR_SPACE, // may stand before the letters of a word
    RLX_HIGH = RLX_CHAR_UPPER | RLX_CHAR_LETTER | RLX_CHAR_MARK, // letters that may stand where capitals do
    RLX_LOW = RLX_CHAR_LOWER | RLX_CHAR_LETTER | RLX_CHAR_MARK
};

typedef struct rlx_scan {
    const uint8_t *text;
    size_t n;
    uint32_t cut, digits; // of the vocabulary
} rlx_scan;

// The class of the character at a place, and where it ends. 0 at the end of the text.
static inline uint32_t rlx_scan_class(const rlx_scan *s, size_t at, size_t *end)
{
    uint32_t code;
    *end = at;
    if (at >= s->n)
        return 0;
    const size_t length = rlx_utf8(s->text + at, s->text + s->n, &code);
    *end = at + (length == 0 ? 1 : length);
    return length == 0 ? (uint32_t)RLX_CHAR_OTHER : rlx_char_class(code);
}

// The end of the run of at most `most` characters of these classes.
static inline size_t rlx_scan_run(const rlx_scan *s, size_t at, uint32_t mask, size_t most)
{
    size_t end;
    while (most-- != 0 && (rlx_scan_class(s, at, &end) & mask) != 0)
        at = end;
    return at;
}

static inline size_t rlx_scan_blank(const rlx_scan *s, size_t at)
{
    return at + (at < s->n && s->text[at] == ' ');
}

// A letter of a contraction as a small one, and where it ends; U+017F is an s in disguise.
static inline int rlx_scan_small(const rlx_scan *s, size_t at, size_t *end)
{
    *end = at + 1;
    if (at >= s->n)
        return 0;
    if ((s->cut & RLX_CUT_CLASSIC) != 0)
        return s->text[at];
    if (s->n - at >= 2 && s->text[at] == 0xc5 && s->text[at + 1] == 0xbf) {
        *end = at + 2;
        return 's';
    }
    return s->text[at] >= 'A' && s->text[at] <= 'Z' ? s->text[at] + 32 : s->text[at];
}

// 's, 't, 'm, 'd, 're, 've and 'll.
static inline size_t rlx_scan_contraction(const rlx_scan *s, size_t at)
{
    size_t end, end2;
    if (at >= s->n || s->text[at] != '\'')
        return at;
    const int a = rlx_scan_small(s, at + 1, &end), b = rlx_scan_small(s, end, &end2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return end;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? end2 : at;
}

// High letters, then at least one low one, as far as that goes; else only high ones. A letter may be both.
static inline size_t rlx_scan_cased(const rlx_scan *s, size_t at)
{
    size_t high = at, both = at, end;
    for (uint32_t c = rlx_scan_class(s, at, &end); (c & RLX_HIGH) != 0; c = rlx_scan_class(s, high, &end)) {
        high = end;
        both = (c & RLX_LOW) != 0 ? end : both;
    }
    if ((rlx_scan_class(s, high, &end) & RLX_CHAR_LOWER) != 0)
        return rlx_scan_run(s, high, RLX_LOW, (size_t)-1);
    return both;
}

// Letters, with one character before them that is no letter, digit or line break.
static inline size_t rlx_scan_letters(const rlx_scan *s, size_t at)
{
    size_t end;
    const uint32_t c = rlx_scan_class(s, at, &end);
    const int has_prefix = (c & RLX_BEFORE) != 0;
    if ((s->cut & RLX_CUT_CASE) == 0) {
        const int has_marks = (s->cut & RLX_CUT_MARKS) != 0;
        const uint32_t mask = has_marks ? (uint32_t)RLX_LETTERS | RLX_CHAR_MARK : (uint32_t)RLX_LETTERS;
        const size_t begin = has_prefix ? end : at, letters = rlx_scan_run(s, begin, mask, (size_t)-1);
        return letters > begin ? letters : has_marks && c == RLX_CHAR_MARK ? begin : at;
    }
    const size_t begin = has_prefix ? end : at;
    size_t found = rlx_scan_cased(s, begin);
    if (found == begin && has_prefix)
        found = rlx_scan_cased(s, at) > at ? rlx_scan_cased(s, at) : begin;
    if (found == begin)
        found = rlx_scan_run(s, begin, RLX_HIGH, (size_t)-1);
    if (found == begin)
        return at;
    return (s->cut & RLX_CUT_SUFFIX) != 0 ? rlx_scan_contraction(s, found) : found;
}

// Signs, with a space before them and, in newer vocabularies, line breaks after them.
static inline size_t rlx_scan_signs(const rlx_scan *s, size_t at)
{
    const size_t begin = rlx_scan_blank(s, at);
    const uint32_t mask = (s->cut & RLX_CUT_MARKS) != 0 ? (uint32_t)RLX_CHAR_OTHER : (uint32_t)RLX_SIGNS;
    size_t end = rlx_scan_run(s, begin, mask, (size_t)-1);
    if (end == begin)
        return at;
    if ((s->cut & RLX_CUT_CLASSIC) != 0)
        return end;
    for (size_t i = end; i < s->n; i++) {
        const uint8_t c = s->text[i];
        if (c != '\r' && c != '\n' && (c != '/' || (s->cut & RLX_CUT_CASE) == 0))
            break;
        end = i + 1;
    }
    return end;
}

// White space: up to its last line break in newer vocabularies, else all but the character before a word.
static inline size_t rlx_scan_space(const rlx_scan *s, size_t at)
{
    size_t end = at, before = at, line = at, next;
    uint32_t c;
    while (((c = rlx_scan_class(s, end, &next)) & RLX_SPACES) != 0) {
        before = end;
        end = next;
        line = c == RLX_CHAR_NEWLINE ? end : line;
    }
    if (line > at && (s->cut & RLX_CUT_CLASSIC) == 0)
        return line;
    return end < s->n && before > at ? before : end;
}

static inline size_t rlx_scan_classic(const rlx_scan *s, size_t at)
{
    static const uint32_t masks[3] = {RLX_LETTERS, RLX_CHAR_NUMBER, RLX_SIGNS};
    size_t end = rlx_scan_contraction(s, at);
    const size_t begin = rlx_scan_blank(s, at);
    if (end > at)
        return end;
    for (int i = 0; i < 3; i++)
        if ((end = rlx_scan_run(s, begin, masks[i], (size_t)-1)) > begin)
            return end;
    return rlx_scan_space(s, at);
}

// The end of the piece at a place, which is not the end of the text.
static inline size_t rlx_scan_piece(const rlx_scan *s, size_t at)
{
    size_t end;
    if ((s->cut & RLX_CUT_CLASSIC) != 0)
        return rlx_scan_classic(s, at);
    if ((s->cut & RLX_CUT_CASE) == 0 && (end = rlx_scan_contraction(s, at)) > at)
        return end;
    if ((end = rlx_scan_letters(s, at)) > at)
        return end;
    if ((end = rlx_scan_run(s, at, RLX_CHAR_NUMBER, s->digits)) > at)
        return end;
    if ((end = rlx_scan_signs(s, at)) > at)
        return end;
    return rlx_scan_space(s, at);
}

#endif
