// SPDX-License-Identifier: Apache-2.0
// What filters and methods do with texts: by characters, as Python does. Cases of letters are those of
// onnx_case.h: Latin, Greek, Cyrillic and Armenian.
#include "compiler/import/onnx/text/onnx_case.h"
#include "compiler/template/tpl_run.h"
#include <string.h>

bool tpl_text_is(TplText s, const char *what)
{
    return s.len == strlen(what) && memcmp(s.data, what, s.len) == 0;
}

size_t tpl_characters(TplText s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.data[i] & 0xc0) != 0x80;
    return n;
}

TplText tpl_cut(TplText s, size_t from, size_t to)
{
    size_t begin = s.len, end = s.len, n = 0;
    rlx_assert(from <= to);
    for (size_t i = 0; i < s.len; i++) {
        if (((unsigned char)s.data[i] & 0xc0) == 0x80)
            continue;
        begin = n == from ? i : begin;
        if (n == to) {
            end = i;
            break;
        }
        n++;
    }
    return begin >= end ? (TplText){"", 0} : (TplText){s.data + begin, end - begin};
}

// By a hash that rolls along, so that no text takes more than a time that grows with its length.
int64_t tpl_find(TplText s, TplText what)
{
    const uint64_t base = 0x9e3779b97f4a7c15u;
    uint64_t wanted = 0, hash = 0, power = 1;
    if (what.len == 0 || what.len > s.len)
        return what.len == 0 ? 0 : -1;
    for (size_t i = 0; i < what.len; i++) {
        wanted = wanted * base + (unsigned char)what.data[i];
        hash = hash * base + (unsigned char)s.data[i];
        power = i == 0 ? 1 : power * base;
    }
    for (size_t at = 0;; at++) {
        if (hash == wanted && memcmp(s.data + at, what.data, what.len) == 0)
            return (int64_t)at;
        if (at + what.len == s.len)
            return -1;
        hash = (hash - (unsigned char)s.data[at] * power) * base + (unsigned char)s.data[at + what.len];
    }
}

static bool is_among(const char *p, size_t n, const TplText *chars)
{
    for (const char *q = chars->data, *end = q + chars->len; q < end;) {
        const size_t m = str_utf8(q, end, NULL);
        if (m == n && memcmp(p, q, n) == 0)
            return true;
        q += m == 0 ? 1 : m;
    }
    return false;
}

static size_t last_character(const char *begin, const char *end)
{
    const char *p = end - 1;
    while (p > begin && ((unsigned char)*p & 0xc0) == 0x80)
        p--;
    return (size_t)(end - p);
}

TplText tpl_strip(TplText s, const TplText *chars, unsigned sides)
{
    const char *begin = s.data, *end = s.data + s.len;
    while ((sides & TPL_LEFT) != 0 && begin < end) {
        size_t n = chars == NULL ? tpl_space(begin, end) : str_utf8(begin, end, NULL);
        if (n == 0 || (chars != NULL && !is_among(begin, n, chars)))
            break;
        begin += n;
    }
    while ((sides & TPL_RIGHT) != 0 && begin < end) {
        const size_t n = chars == NULL ? tpl_space_before(begin, end) : last_character(begin, end);
        if (n == 0 || (chars != NULL && !is_among(end - n, n, chars)))
            break;
        end -= n;
    }
    return (TplText){begin, (size_t)(end - begin)};
}

// `what` before each character and at the end, `most` times.
static void add_between(TplText s, TplText what, int64_t most, Str *out)
{
    const char *p = s.data, *end = s.data + s.len;
    for (; most != 0; most--) {
        str_add_n(out, what.data, what.len);
        if (p == end)
            return;
        const size_t n = str_utf8(p, end, NULL);
        str_add_n(out, p, n == 0 ? 1 : n);
        p += n == 0 ? 1 : n;
    }
    str_add_n(out, p, (size_t)(end - p));
}

bool tpl_replace(Tpl *t, TplText s, const TplText fromto[2], int64_t most, TplText *out)
{
    const TplText from = fromto[0], to = fromto[1];
    Str text = str_new(t->arena);
    const size_t places = from.len == 0 ? s.len + 1 : s.len / from.len;
    const size_t bound = most >= 0 && (size_t)most < places ? (size_t)most : places;
    if (!tpl_spend(t, s.len / 16 + bound) ||
        (to.len != 0 && bound > TPL_MAX_BYTES / to.len && !tpl_may_make(t, SIZE_MAX)))
        return false;
    if (from.len == 0) {
        if (!tpl_may_make(t, (uint64_t)bound * to.len * 2))
            return false;
        add_between(s, to, most, &text);
    }
    for (int64_t at; from.len != 0; most--) {
        at = most == 0 ? -1 : tpl_find(s, from);
        str_add_n(&text, s.data, at < 0 ? s.len : (size_t)at);
        if (at < 0)
            break;
        if (text.len > TPL_MAX_BYTES / 4 && !tpl_may_make(t, text.len * 2))
            return false;
        rlx_assert((size_t)at + from.len <= s.len);
        str_add_n(&text, to.data, to.len);
        s.data += (size_t)at + from.len;
        s.len -= (size_t)at + from.len;
    }
    *out = (TplText){str_text(&text), text.len};
    return true;
}

// --- cases ---------------------------------------------------------------------------------------

enum { SHARP_S = 0xdf }; // the one letter here whose capital is two

static bool has_case(uint32_t c)
{
    return c == SHARP_S || case_lower(c) != c || case_upper(c) != c;
}

// Does a word begin behind this character? By letters, or as the filter title has it.
static bool ends_word(uint32_t c, TplCase how)
{
    if (how == CASE_TITLE)
        return !has_case(c);
    return how == CASE_TITLE_WORDS && (c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || c == ' ' ||
                                       (c >= 9 && c <= 13) || c == 0xa0);
}

bool tpl_change_case(Tpl *t, TplText s, TplCase how, TplText *out)
{
    Str text = str_new(t->arena);
    bool is_first = true;
    if (!tpl_spend(t, s.len / 4) || !tpl_may_make(t, s.len * 2))
        return false;
    for (const char *p = s.data, *end = s.data + s.len; p < end;) {
        uint32_t c = (unsigned char)*p;
        const size_t n = str_utf8(p, end, &c);
        const bool is_upper = how == CASE_UPPER || (how != CASE_LOWER && is_first);
        const uint32_t other = is_upper ? case_upper(c) : case_lower(c);
        if (c == SHARP_S && is_upper)
            str_add(&text, how == CASE_UPPER ? "SS" : "Ss");
        else if (other == c || n == 0 || n > 2)
            str_add_n(&text, p, n == 0 ? 1 : n);
        else
            str_code_point(&text, other);
        is_first = ends_word(c, how);
        p += n == 0 ? 1 : n;
    }
    *out = (TplText){str_text(&text), text.len};
    return true;
}
