// SPDX-License-Identifier: Apache-2.0
// Ends a text at the first of some strings, and holds back what may be the beginning of one. Each byte takes
// one step for each string (Knuth, Morris and Pratt). Separate from tokens, of which a string may need
// several.
#ifndef RLX_STOPS_H
#define RLX_STOPS_H

#include "rlx_text.h"

#include <string.h>

typedef struct rlx_stop {
    const char *text;
    size_t n;
    uint32_t *back;  // [n] memory of the program
    size_t matched;  // bytes at the end of the text so far that begin this string
} rlx_stop;

typedef struct rlx_stops {
    rlx_stop *stop;  // text, n and back are set by the program
    size_t n;
    int is_stopped;  // one of them came
} rlx_stops;

// RLX_TEXT_ARGUMENT: a string is empty or has 4 GB; else 0.
static inline int rlx_stops_start(rlx_stops *s)
{
    s->is_stopped = 0;
    for (size_t i = 0; i < s->n; i++) {
        rlx_stop *stop = &s->stop[i];
        size_t matched = 0;
        if (stop->n == 0 || stop->n > UINT32_MAX)
            return RLX_TEXT_ARGUMENT;
        stop->matched = 0;
        stop->back[0] = 0;
        for (size_t at = 1; at < stop->n; at++) {
            while (matched != 0 && stop->text[at] != stop->text[matched])
                matched = stop->back[matched - 1];
            matched += stop->text[at] == stop->text[matched];
            stop->back[at] = (uint32_t)matched;
        }
    }
    return 0;
}

// The string of which most is held back; NULL: nothing is.
static inline const rlx_stop *rlx_stops_held(const rlx_stops *s)
{
    const rlx_stop *held = NULL;
    for (size_t i = 0; i < s->n; i++)
        if (s->stop[i].matched > (held == NULL ? 0 : held->matched))
            held = &s->stop[i];
    return held;
}

// Takes one byte in. Returns the bytes of the longest string that ends with it, 0: none does.
static inline size_t rlx_stops_step(rlx_stops *s, char c)
{
    size_t longest = 0;
    for (size_t i = 0; i < s->n; i++) {
        rlx_stop *stop = &s->stop[i];
        while (stop->matched != 0 && stop->text[stop->matched] != c)
            stop->matched = stop->back[stop->matched - 1];
        stop->matched += stop->text[stop->matched] == c;
        if (stop->matched == stop->n)
            longest = stop->n > longest ? stop->n : longest;
    }
    return longest;
}

// Takes the next n bytes of a text in, and writes to `out` what is sure to be before any of the strings: at
// most n bytes more than the longest string has. Returns how many; is_stopped says whether the text ends
// there.
static inline size_t rlx_stops_feed(rlx_stops *s, const char *text, size_t n, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < n && !s->is_stopped; i++) {
        const rlx_stop *before = rlx_stops_held(s);
        const char *held = before == NULL ? NULL : before->text;
        const size_t n_held = before == NULL ? 0 : before->matched, stopped = rlx_stops_step(s, text[i]);
        const rlx_stop *after = rlx_stops_held(s);
        const size_t stays = stopped != 0 ? stopped : after == NULL ? 0 : after->matched;
        const size_t goes = n_held + 1 - stays, of_held = goes < n_held ? goes : n_held;
        if (of_held != 0)
            memcpy(out + used, held, of_held);
        if (goes > n_held)
            out[used + n_held] = text[i];
        used += goes;
        s->is_stopped = stopped != 0;
    }
    return used;
}

// The end of a text that no string ended: writes what was held back. Returns how many bytes.
static inline size_t rlx_stops_end(rlx_stops *s, char *out)
{
    const rlx_stop *held = s->is_stopped ? NULL : rlx_stops_held(s);
    const size_t n = held == NULL ? 0 : held->matched;
    if (n != 0)
        memcpy(out, held->text, n);
    for (size_t i = 0; i < s->n; i++)
        s->stop[i].matched = 0;
    return n;
}

#endif
