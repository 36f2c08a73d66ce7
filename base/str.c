// SPDX-License-Identifier: Apache-2.0
// The text builder, and the conversions between numbers and text that no locale can change.
// snprintf and strtod follow the program's locale, so this file alone calls them for floating
// point: it keeps only the digits of the one, and hands the other the point that it expects.
#include "base/str.h"
#include "base/diag.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Str str_new(Arena *a)
{
    return (Str){.arena = a};
}

// Makes room for n more bytes and the final zero.
static void reserve(Str *s, size_t n)
{
    if (n >= SIZE_MAX / 4 - s->len)
        arena_give_up("bytes of text", n);
    if (s->data && s->cap - s->len > n)
        return;
    size_t cap = s->cap ? s->cap * 2 : 64;
    while (cap - s->len <= n)
        cap *= 2;
    char *data = arena_alloc(s->arena, cap);
    if (s->len)
        memcpy(data, s->data, s->len);
    s->data = data;
    s->cap = cap;
}

void str_add_n(Str *s, const char *text, size_t n)
{
    reserve(s, n);
    if (n)
        memcpy(s->data + s->len, text, n);
    s->len += n;
    s->data[s->len] = 0;
}

void str_add(Str *s, const char *text)
{
    str_add_n(s, text, strlen(text));
}

void str_char(Str *s, char c)
{
    str_add_n(s, &c, 1);
}

// A conversion that follows the locale is a bug of the caller, found here and not in a user's locale.
static bool has_float_conversion(const char *fmt)
{
    for (const char *p = strchr(fmt, '%'); p; p = strchr(p, '%')) {
        p++;
        while ((*p >= ' ' && *p <= '9' && *p != '%') || *p == 'l' || *p == 'z' || *p == 'h' || *p == 'j' ||
               *p == 't' || *p == 'L')
            p++;
        const char letter = (char)(*p | 0x20);
        if (letter == 'f' || letter == 'e' || letter == 'g' || letter == 'a')
            return true;
        if (*p)
            p++;
    }
    return false;
}

// Most texts have room behind what is there, so that they are formatted once.
void str_printf(Str *s, const char *fmt, ...)
{
    rlx_assert(!has_float_conversion(fmt));
    const size_t room = s->data ? s->cap - s->len : 0;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(room != 0 ? s->data + s->len : NULL, room, fmt, args);
    va_end(args);
    rlx_assert(n >= 0);
    if ((size_t)n >= room) {
        reserve(s, (size_t)n);
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    s->len += (size_t)n;
}

const char *str_text(const Str *s)
{
    return s->data ? s->data : "";
}

// A decimal number 0.d1d2d3... * 10^(exp + 1), that is d1.d2d3... * 10^exp.
typedef struct Decimal {
    char digits[24];
    int n_digits, exp;
} Decimal;

// Takes "d?ddde+xx" apart, whatever byte or bytes the locale puts for '?'. Trailing zeros go.
static Decimal take_apart(const char *text)
{
    Decimal d = {0};
    const char *p = text;
    for (; *p != 'e'; p++) {
        rlx_assert(d.n_digits + 1 < (int)sizeof d.digits);
        if (*p >= '0' && *p <= '9')
            d.digits[d.n_digits++] = *p;
    }
    while (d.n_digits > 1 && d.digits[d.n_digits - 1] == '0')
        d.digits[--d.n_digits] = 0;
    d.exp = (int)strtol(p + 1, NULL, 10);
    return d;
}

// Positional where that reads well, else with an exponent; always a '.' or an 'e'.
static void add_decimal(Str *s, const Decimal *d)
{
    if (d->exp < -5 || d->exp > 15) {
        str_char(s, d->digits[0]);
        if (d->n_digits > 1) {
            str_char(s, '.');
            str_add(s, d->digits + 1);
        }
        str_printf(s, "e%d", d->exp);
        return;
    }
    if (d->exp < 0)
        str_add(s, "0.");
    for (int i = d->exp + 1; i < 0; i++)
        str_char(s, '0');
    for (int i = 0; i < d->n_digits || i <= d->exp; i++) {
        if (i > 0 && i == d->exp + 1)
            str_char(s, '.');
        str_char(s, i < d->n_digits ? d->digits[i] : '0');
    }
    if (d->n_digits <= d->exp + 1)
        str_add(s, ".0");
}

// True if v was one of the values that have no digits.
static bool add_special(Str *s, double v)
{
    if (isnan(v)) {
        str_add(s, "nan");
        return true;
    }
    if (signbit(v))
        str_char(s, '-');
    if (isinf(v))
        str_add(s, "inf");
    return isinf(v);
}

// 9 digits identify any float and 17 any double, so the loops below end with a text that reads back. The
// nearest decimal of n digits is tried for growing n: the first that reads back is the shortest once
// take_apart has dropped its zeros. A normal number that a decimal of at most FLT_DIG digits gives is given
// by the nearest one of FLT_DIG digits too, so no fewer are tried; subnormal numbers begin at 1.
void str_f32(Str *s, float v)
{
    if (add_special(s, (double)v))
        return;
    float magnitude = fabsf(v);
    char text[48];
    for (int digits = magnitude < FLT_MIN ? 1 : FLT_DIG; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, (double)magnitude);
        if (strtof(text, NULL) == magnitude)
            break;
    }
    Decimal d = take_apart(text);
    add_decimal(s, &d);
}

void str_f64(Str *s, double v)
{
    if (add_special(s, v))
        return;
    double magnitude = fabs(v);
    char text[48];
    for (int digits = magnitude < DBL_MIN ? 1 : DBL_DIG; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, magnitude);
        if (strtod(text, NULL) == magnitude)
            break;
    }
    Decimal d = take_apart(text);
    add_decimal(s, &d);
}

static bool is_number_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '-' || c == '.';
}

bool str_parse_f64(const char *s, size_t n, double *out)
{
    if (!n || n > SIZE_MAX / 32)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_number_char(s[i]))
            return false;
    const char *point = localeconv()->decimal_point;
    char few[64]; // files of models hold millions of numbers
    Arena scratch = {0};
    const size_t most = n * strlen(point) + n + 1;
    char *copy = most <= sizeof few ? few : arena_alloc(&scratch, most), *at = copy;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '.')
            at = stpcpy(at, point);
        else
            *at++ = s[i];
    }
    rlx_assert((size_t)(at - copy) < most);
    *at = '\0';
    char *end = NULL;
    double v = strtod(copy, &end);
    bool ok = end == at;
    arena_free(&scratch);
    if (ok)
        *out = v;
    return ok;
}

bool str_parse_i64(const char *s, size_t n, int64_t *out)
{
    bool is_negative = n && *s == '-';
    size_t i = n && (*s == '-' || *s == '+') ? 1 : 0;
    if (i == n)
        return false;
    int64_t v = 0; // built with the sign, so that INT64_MIN has a way in
    for (; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        int digit = is_negative ? '0' - s[i] : s[i] - '0';
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *out = v;
    return true;
}

bool str_equal(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

bool str_ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

uint32_t str_utf8_put(uint32_t code, uint8_t *out)
{
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    const uint32_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (uint32_t i = n; i-- > 1; code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(lead[n] | code);
    return n;
}

void str_code_point(Str *s, uint32_t code)
{
    uint8_t bytes[4];
    str_add_n(s, (const char *)bytes, str_utf8_put(code, bytes));
}

size_t str_utf8(const char *p, const char *end, uint32_t *code)
{
    static const uint32_t lowest[5] = {0, 0, 0x80, 0x800, 0x10000}; // by bytes: less has a shorter form
    const unsigned char lead = (unsigned char)*p;
    const size_t n = lead < 0x80   ? 1
                     : lead < 0xc0 ? 0
                     : lead < 0xe0 ? 2
                     : lead < 0xf0 ? 3
                     : lead < 0xf8 ? 4
                                   : 0;
    if (n == 0 || (size_t)(end - p) < n)
        return 0;
    uint32_t c = n == 1 ? lead : lead & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | ((unsigned char)p[i] & 0x3f);
    }
    if (c < lowest[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    if (code != NULL)
        *code = c;
    return n;
}

enum { MAX_COMPARED = 64 };

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

// Insertions, deletions, replacements and swaps of neighbours that turn a into b, ignoring case.
static uint32_t edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    rlx_assert(n <= MAX_COMPARED && m <= MAX_COMPARED);
    uint32_t rows[3][MAX_COMPARED + 1];
    for (uint32_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (uint32_t i = 1; i <= n; i++) {
        const uint32_t *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3];
        uint32_t *row = rows[i % 3];
        row[0] = i;
        for (uint32_t j = 1; j <= m; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            row[j] = min_u32(min_u32(above[j], row[j - 1]) + 1, above[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = min_u32(row[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

const char *str_closest(const char *s, const char *const *candidates, uint32_t n)
{
    size_t len = strnlen(s, MAX_COMPARED + 1);
    if (!len || len > MAX_COMPARED)
        return NULL;
    const char *best = NULL;
    uint32_t best_distance = (uint32_t)(len < 3 ? 1 : (len + 2) / 3) + 1;
    for (uint32_t i = 0; i < n; i++) {
        size_t m = strnlen(candidates[i], MAX_COMPARED + 1);
        if (m > MAX_COMPARED)
            continue;
        uint32_t distance = edit_distance(s, len, candidates[i], m);
        if (distance < best_distance && distance < len) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}
