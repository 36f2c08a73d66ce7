// SPDX-License-Identifier: Apache-2.0
// Lines, words and numbers in listings of kernels.
#include "ir/kernel/kernel_fold.h"
#include "ir/kernel/kernel_parser.h"
#include "base/quote.h"

#include <string.h>

bool kp_fail_here(Parser *p, const char *what)
{
    lex_skip(&p->l);
    return lex_fail(&p->l, p->l.at, E0107, "expected %s", what);
}

bool kp_next_line(Parser *p)
{
    Lexer *l = &p->l;
    l->len = p->end;
    while (l->at < l->len && strchr(" \t\r\n", l->text[l->at]) != NULL && l->text[l->at] != '\0')
        l->at++;
    const char *found = l->at < l->len ? memchr(l->text + l->at, '\n', l->len - l->at) : NULL;
    if (found != NULL)
        l->len = (size_t)(found - l->text);
    return l->at < l->len;
}

bool kp_end_line(Parser *p)
{
    lex_skip(&p->l);
    return p->l.at == p->l.len || kp_fail_here(p, "the end of the line");
}

// --- words and numbers ---------------------------------------------------------------------------

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t kp_number_end(const Lexer *l)
{
    size_t at = l->at;
    while (at < l->len && (is_digit(l->text[at]) || quote_is_name_char(l->text[at]) || l->text[at] == '-' ||
                           l->text[at] == '+'))
        at++;
    return at;
}

bool kp_take_int(Parser *p, const char *what, int64_t least, int64_t most, int64_t *out)
{
    lex_skip(&p->l);
    const size_t begin = p->l.at, end = kp_number_end(&p->l);
    if (!str_parse_i64(p->l.text + begin, end - begin, out) || *out < least || *out > most)
        return lex_fail(&p->l, begin, E0107, "expected %s, a number from %lld to %lld", what,
                        (long long)least, (long long)most);
    p->l.at = end;
    return true;
}

bool kp_take_float(Parser *p, double *out)
{
    lex_skip(&p->l);
    const size_t begin = p->l.at, end = kp_number_end(&p->l);
    p->l.at = end;
    return str_parse_f64(p->l.text + begin, end - begin, out) ||
           lex_fail(&p->l, begin, E0107, "expected a number");
}

bool kp_take_name(Parser *p, const char *what, const char **out)
{
    return lex_at(&p->l, '"') ? lex_string(&p->l, what, out) : lex_word(&p->l, what, out);
}

bool kp_take_of(Parser *p, const char *what, const char *const *words, uint32_t n, uint32_t *out)
{
    lex_skip(&p->l);
    const size_t begin = p->l.at;
    const char *word = lex_take_word(&p->l);
    for (*out = 0; word != NULL && *out < n; ++*out)
        if (str_equal(words[*out], word))
            return true;
    return lex_fail(&p->l, begin, E0107, "expected %s", what);
}

bool kp_take_word(Parser *p, const char *word)
{
    lex_skip(&p->l);
    const size_t begin = p->l.at;
    const char *found = lex_take_word(&p->l);
    if (found != NULL && str_equal(found, word))
        return true;
    p->l.at = begin;
    return false;
}

static bool parse_type(const char *word, int *out)
{
    DType t = DTYPE_f32;
    const bool is_index = str_equal(word, kt_name(KT_INDEX));
    const bool is_known = is_index || dtype_parse(word, &t);
    *out = is_index ? KT_INDEX : (int)t;
    return is_known;
}

bool kp_take_type(Parser *p, int *type, uint8_t *lanes)
{
    lex_skip(&p->l);
    const size_t begin = p->l.at;
    const char *word = lex_take_word(&p->l), *x = word != NULL ? strrchr(word, 'x') : NULL;
    int64_t n = 1;
    if (word != NULL && parse_type(word, type))
        return true;
    if (x == NULL || !str_parse_i64(x + 1, strlen(x + 1), &n) || n < 2 || n > KP_MAX_LANES ||
        !parse_type(arena_strndup(p->l.arena, word, (size_t)(x - word)), type))
        return lex_fail(&p->l, begin, E0107, "expected a type: f32, index, f32x8 ...");
    *lanes = (uint8_t)n;
    return true;
}
