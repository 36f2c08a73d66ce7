// SPDX-License-Identifier: Apache-2.0
// What a vocabulary makes of a text before it cuts it: normal forms, small letters, spaces. The steps work on
// characters, each one code; bytes that are no UTF-8 are codes beyond all characters and stay what they are.
// Separate from the tables, of which a vocabulary has those that its steps need.
#ifndef RLX_NORMAL_H
#define RLX_NORMAL_H

#include "rlx_tokens.h"

// One step; a vocabulary has a list of them.
enum {
    RLX_NORMAL_CLEAN = 1,  // no control characters; white space becomes a space
    RLX_NORMAL_CHINESE,    // spaces around each Chinese character
    RLX_NORMAL_D,          // canonical decomposition
    RLX_NORMAL_C,          // ... and composition
    RLX_NORMAL_KD,         // compatible decomposition
    RLX_NORMAL_KC,         // ... and composition
    RLX_NORMAL_NONSPACING, // no marks without a width
    RLX_NORMAL_MARKS,      // no marks at all
    RLX_NORMAL_LOWER,      // small letters
    RLX_NORMAL_MAP,        // texts that the vocabulary lists become others
    RLX_NORMAL_RUNS,       // runs of spaces become one
    RLX_NORMAL_TRIM,       // no spaces at the beginning and at the end
    RLX_NORMAL_TRIM_LEFT,  // no white space at the beginning
    RLX_NORMAL_TRIM_RIGHT, // no white space at the end
    RLX_NORMAL_WORDS,      // what white space separates, with one space between
    RLX_NORMAL_STEPS       // their number, plus one
};
enum { RLX_BROKEN = 0x110000 }; // and the byte: what is no UTF-8

typedef struct rlx_decompositions {
    uint32_t n;
    const uint32_t *code;  // [n], in order
    const uint16_t *begin; // [n + 1]: of what each becomes
    const uint32_t *part;
} rlx_decompositions;

typedef struct rlx_forms {
    const rlx_decompositions *canonical;
    uint32_t n_classes;
    const uint32_t *classes; // ranges: the first character times 256, plus the combining class
    uint32_t n_pairs;
    const uint32_t *first, *second, *pair; // what two characters become, in their order
} rlx_forms;

typedef struct rlx_set {
    uint32_t n;
    const uint32_t *turn; // where the set begins, ends, begins again
} rlx_set;

typedef struct rlx_signs {
    const rlx_set *nonspacing, *marks, *control, *punctuation;
    uint32_t n_capitals;
    const uint32_t *capital, *small;
} rlx_signs;

// Texts and what each becomes, as SentencePiece's files have them: a double array (darts-clone). A unit has
// the byte that leads to it (bits 0 to 7), whether a text ends there (8), and where those after it are. One
// that ends a text has bit 31, and the place of what the text becomes.
typedef struct rlx_map {
    uint32_t n_units, n_bytes;
    const uint32_t *unit;
    const uint8_t *bytes; // UTF-8, each text with a zero after it
} rlx_map;

typedef struct rlx_normal {
    uint32_t n_steps, growth; // growth: the most codes that a byte becomes in between
    const uint8_t *step;
    const rlx_forms *forms; // NULL: no step needs them
    const rlx_decompositions *compatible;
    const rlx_signs *signs;
    const rlx_map *map;
    rlx_fragment inner; // makes tokens of what comes out
} rlx_normal;

// Work memory for the codes of a text of n bytes.
#define RLX_NORMAL_BYTES(n, growth) (((size_t)(n) * (growth) + 1) * 2 * sizeof(uint32_t) + 16)

// A text, and room for what a step makes of it.
typedef struct rlx_codes {
    uint32_t *at, *other;
    size_t n;
} rlx_codes;

static inline void rlx_codes_swap(rlx_codes *c, size_t n)
{
    uint32_t *at = c->at;
    c->at = c->other;
    c->other = at;
    c->n = n;
}

// The number of elements of an ordered list that are at most `code`.
static inline uint32_t rlx_codes_until(const uint32_t *list, uint32_t n, uint32_t code)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (list[middle] <= code)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline int rlx_set_has(const rlx_set *s, uint32_t code)
{
    return (int)(rlx_codes_until(s->turn, s->n, code) & 1);
}

static inline int rlx_is_white(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

static inline int rlx_is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

// --- normal forms --------------------------------------------------------------------------------

enum {
    RLX_HANGUL = 0xac00, // syllables, which are computed
    RLX_HANGUL_END = 0xd7a4,
    RLX_JAMO = 0x1100,
    RLX_VOWEL = 0x1161,
    RLX_FINAL = 0x11a7
};

static inline uint32_t rlx_combining_class(const rlx_forms *f, uint32_t code)
{
    return code < 0x300 || code >= RLX_BROKEN
               ? 0
               : f->classes[rlx_codes_until(f->classes, f->n_classes, code << 8 | 255) - 1] & 255;
}

// Writes what a table has for a character. 0: nothing.
static inline size_t rlx_decompose_by(const rlx_decompositions *d, uint32_t code, uint32_t *to)
{
    const uint32_t i = rlx_codes_until(d->code, d->n, code);
    if (i == 0 || d->code[i - 1] != code)
        return 0;
    const size_t n = (size_t)(d->begin[i] - d->begin[i - 1]);
    memcpy(to, d->part + d->begin[i - 1], n * sizeof *to);
    return n;
}

static inline size_t rlx_decompose_one(const rlx_normal *v, int is_compatible, uint32_t code, uint32_t *to)
{
    size_t n = 0;
    if (code >= RLX_HANGUL && code < RLX_HANGUL_END) {
        const uint32_t i = code - RLX_HANGUL, last = i % 28;
        to[0] = RLX_JAMO + i / 588;
        to[1] = RLX_VOWEL + i % 588 / 28;
        to[2] = RLX_FINAL + last;
        return last == 0 ? 2 : 3;
    }
    if (code >= 0x80 && is_compatible)
        n = rlx_decompose_by(v->compatible, code, to);
    if (code >= 0x80 && n == 0)
        n = rlx_decompose_by(v->forms->canonical, code, to);
    if (n == 0)
        to[n++] = code;
    return n;
}

// Orders a run of marks by their classes; those of one class stay in order. `room` is as long as the run.
static inline void rlx_order_marks(const rlx_forms *f, uint32_t *run, size_t n, uint32_t *room)
{
    uint32_t place[257];
    memset(place, 0, sizeof place);
    for (size_t i = 0; i < n; i++)
        place[rlx_combining_class(f, run[i]) + 1]++;
    for (int i = 0; i < 256; i++)
        place[i + 1] += place[i];
    for (size_t i = 0; i < n; i++)
        room[place[rlx_combining_class(f, run[i])]++] = run[i];
    memcpy(run, room, n * sizeof *run);
}

static inline void rlx_decompose(const rlx_normal *v, int is_compatible, rlx_codes *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += rlx_decompose_one(v, is_compatible, c->at[i], c->other + n);
    rlx_codes_swap(c, n);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && rlx_combining_class(v->forms, c->at[end]) != 0; end++)
            continue;
        if (end - i > 1)
            rlx_order_marks(v->forms, c->at + i, end - i, c->other);
        end += end == i;
    }
}

// What two characters become. 0: nothing.
static inline uint32_t rlx_compose_two(const rlx_forms *f, uint32_t a, uint32_t b)
{
    uint32_t low = 0, high = f->n_pairs;
    if (a >= RLX_JAMO && a < RLX_JAMO + 19 && b >= RLX_VOWEL && b < RLX_VOWEL + 21)
        return RLX_HANGUL + ((a - RLX_JAMO) * 21 + b - RLX_VOWEL) * 28;
    if (a >= RLX_HANGUL && a < RLX_HANGUL_END && (a - RLX_HANGUL) % 28 == 0 && b > RLX_FINAL &&
        b < RLX_FINAL + 28)
        return a + b - RLX_FINAL;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (f->first[middle] < a || (f->first[middle] == a && f->second[middle] < b))
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->n_pairs && f->first[low] == a && f->second[low] == b ? f->pair[low] : 0;
}

// Composes decomposed text, in its place.
static inline void rlx_compose(const rlx_forms *f, rlx_codes *c)
{
    size_t n = 0, starter = 0;
    uint32_t last = 256; // the class of the one before: 256 at the beginning, where nothing can be composed
    for (size_t i = 0; i < c->n; i++) {
        const uint32_t code = c->at[i], kind = rlx_combining_class(f, code);
        const int is_free = last != 256 && (n == starter + 1 || last < kind);
        const uint32_t both = is_free ? rlx_compose_two(f, c->at[starter], code) : 0;
        if (both != 0) {
            c->at[starter] = both;
            continue;
        }
        if (kind == 0)
            starter = n;
        last = kind == 0 ? 0 : last == 256 ? 256 : kind;
        c->at[n++] = code;
    }
    c->n = n;
}

static inline void rlx_normal_form(const rlx_normal *v, uint32_t step, rlx_codes *c)
{
    const int is_compatible = step == RLX_NORMAL_KD || step == RLX_NORMAL_KC;
    const uint32_t plain = is_compatible || step == RLX_NORMAL_D ? 0x80 : 0x300; // below it nothing changes
    size_t i = 0;
    while (i < c->n && c->at[i] < plain)
        i++;
    if (i == c->n)
        return;
    rlx_decompose(v, is_compatible, c);
    if (step == RLX_NORMAL_C || step == RLX_NORMAL_KC)
        rlx_compose(v->forms, c);
}

// --- characters ----------------------------------------------------------------------------------

static inline int rlx_is_dropped(const rlx_signs *s, uint32_t step, uint32_t c)
{
    if (step == RLX_NORMAL_CLEAN)
        return c == 0xfffd || (c != '\t' && c != '\n' && c != '\r' && rlx_set_has(s->control, c));
    return rlx_set_has(step == RLX_NORMAL_MARKS ? s->marks : s->nonspacing, c);
}

static inline void rlx_drop(const rlx_signs *s, uint32_t step, rlx_codes *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        const uint32_t code = c->at[i];
        if (!rlx_is_dropped(s, step, code))
            c->at[n++] = step == RLX_NORMAL_CLEAN && rlx_is_white(code) ? ' ' : code;
    }
    c->n = n;
}

static inline void rlx_lower(const rlx_signs *s, rlx_codes *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        const uint32_t code = c->at[i], at = rlx_codes_until(s->capital, s->n_capitals, code);
        c->other[n++] = code == 0x130 ? 'i' : at != 0 && s->capital[at - 1] == code ? s->small[at - 1] : code;
        if (code == 0x130) // the capital I with a dot keeps the dot
            c->other[n++] = 0x307;
    }
    rlx_codes_swap(c, n);
}

static inline void rlx_part_chinese(rlx_codes *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        const int is_alone = rlx_is_chinese(c->at[i]);
        if (is_alone)
            c->other[n++] = ' ';
        c->other[n++] = c->at[i];
        if (is_alone)
            c->other[n++] = ' ';
    }
    rlx_codes_swap(c, n);
}

// --- spaces --------------------------------------------------------------------------------------

static inline void rlx_join_runs(rlx_codes *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->at[i] != ' ' || n == 0 || c->at[n - 1] != ' ')
            c->at[n++] = c->at[i];
    c->n = n;
}

static inline void rlx_trim(uint32_t step, rlx_codes *c)
{
    const int is_left = step != RLX_NORMAL_TRIM_RIGHT, is_right = step != RLX_NORMAL_TRIM_LEFT;
    const int is_plain = step == RLX_NORMAL_TRIM; // spaces only
    size_t begin = 0;
    while (is_left && begin < c->n && (is_plain ? c->at[begin] == ' ' : rlx_is_white(c->at[begin])))
        begin++;
    while (is_right && begin < c->n && (is_plain ? c->at[c->n - 1] == ' ' : rlx_is_white(c->at[c->n - 1])))
        c->n--;
    c->at += begin;
    c->other += begin; // both have as much room left
    c->n -= begin;
}

static inline void rlx_join_words(rlx_codes *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (rlx_is_white(c->at[i]))
            c->at[i] = ' ';
    rlx_join_runs(c);
    rlx_trim(RLX_NORMAL_TRIM, c);
}

// --- a vocabulary's own map ----------------------------------------------------------------------

// Writes the code as UTF-8, or the byte that it stands for.
static inline size_t rlx_put_code(uint32_t code, uint8_t *to)
{
    size_t n = code < 0x80 || code >= RLX_BROKEN ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t head[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; code >>= 6)
        to[i] = (uint8_t)(0x80 | (code & 0x3f));
    to[0] = (uint8_t)(head[n] | (code & 0xff));
    return n;
}

static inline uint32_t rlx_map_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & 0x200) >> 6);
}

// Where what the longest text that is here becomes, and how many codes that text has. n_bytes: there is none.
static inline uint32_t rlx_map_find(const rlx_map *m, const uint32_t *at, size_t n, size_t *length)
{
    uint32_t base = rlx_map_offset(m->unit[0]), found = m->n_bytes;
    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[4];
        uint32_t unit = 0;
        const size_t n_bytes = rlx_put_code(at[i], bytes);
        for (size_t k = 0; k < n_bytes; k++) {
            const uint32_t place = base ^ bytes[k];
            unit = place < m->n_units ? m->unit[place] : 0x80000000u;
            if ((unit & 0x800000ffu) != bytes[k])
                return found;
            base = place ^ rlx_map_offset(unit);
        }
        if ((unit & 0x100) != 0) {
            found = base < m->n_units ? m->unit[base] & 0x7fffffff : found;
            *length = i + 1;
        }
    }
    return found;
}

static inline void rlx_replace(const rlx_map *m, rlx_codes *c)
{
    size_t n = 0;
    for (size_t i = 0, length = 1; i < c->n; i += length) {
        length = 1;
        uint32_t place = rlx_map_find(m, c->at + i, c->n - i, &length);
        if (place >= m->n_bytes) {
            c->other[n++] = c->at[i];
            continue;
        }
        for (size_t n_bytes; m->bytes[place] != 0; place += (uint32_t)n_bytes)
            n_bytes = rlx_utf8(m->bytes + place, m->bytes + m->n_bytes, &c->other[n++]);
    }
    rlx_codes_swap(c, n);
}

// --- all -----------------------------------------------------------------------------------------

static inline void rlx_normal_step(const rlx_normal *v, uint32_t step, rlx_codes *c)
{
    if (step == RLX_NORMAL_CLEAN || step == RLX_NORMAL_NONSPACING || step == RLX_NORMAL_MARKS)
        rlx_drop(v->signs, step, c);
    else if (step == RLX_NORMAL_CHINESE)
        rlx_part_chinese(c);
    else if (step == RLX_NORMAL_LOWER)
        rlx_lower(v->signs, c);
    else if (step == RLX_NORMAL_MAP)
        rlx_replace(v->map, c);
    else if (step == RLX_NORMAL_RUNS)
        rlx_join_runs(c);
    else if (step == RLX_NORMAL_WORDS)
        rlx_join_words(c);
    else if (step >= RLX_NORMAL_TRIM)
        rlx_trim(step, c);
    else
        rlx_normal_form(v, step, c);
}

// Tokens of a text after the steps of the vocabulary.
static inline int64_t rlx_normalized(const rlx_vocab *v, const uint8_t *text, size_t n, rlx_work work,
                                     rlx_token_list *list)
{
    const rlx_normal *normal = v->normal;
    rlx_codes c;
    c.n = 0;
    c.at = (uint32_t *)rlx_work_take(&work, n * normal->growth + 1, sizeof *c.at);
    c.other = (uint32_t *)rlx_work_take(&work, n * normal->growth + 1, sizeof *c.other);
    if (c.at == NULL || c.other == NULL)
        return RLX_TEXT_MEMORY;
    for (size_t i = 0; i < n; c.n++) {
        const size_t length = rlx_utf8(text + i, text + n, &c.at[c.n]);
        if (length == 0)
            c.at[c.n] = (uint32_t)RLX_BROKEN + text[i];
        i += length == 0 ? 1 : length;
    }
    for (uint32_t i = 0; i < normal->n_steps; i++)
        rlx_normal_step(normal, normal->step[i], &c);
    // A code takes four bytes and becomes four at most, so that the text goes where the codes were.
    uint8_t *bytes = (uint8_t *)c.at;
    size_t used = 0;
    for (size_t i = 0; i < c.n; i++) {
        uint32_t code;
        memcpy(&code, bytes + i * sizeof code, sizeof code);
        used += rlx_put_code(code, bytes + used);
    }
    if (used > 1u << 30)
        return RLX_TEXT_LENGTH;
    return used == 0 ? 0 : normal->inner(v, bytes, used, work, list);
}

#endif
