// SPDX-License-Identifier: Apache-2.0
// The one text builder. Numbers are printed the same in every locale.
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/arena.h"
#include <stdbool.h>

typedef struct Str {
    Arena *arena;
    char *data; // zero-terminated once anything was added; NULL before
    size_t len, cap;
} Str;

Str str_new(Arena *a);
void str_add(Str *s, const char *text);
void str_add_n(Str *s, const char *text, size_t n);
void str_char(Str *s, char c);
// As printf, but without %f %e %g %a: floating point goes through str_f32 / str_f64 only.
void str_printf(Str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// The shortest decimal that reads back to the same bits, always with '.' or 'e': "1.0", "-0.0", "1e20".
// Values without digits are "inf", "-inf" and "nan".
void str_f32(Str *s, float v);
void str_f64(Str *s, double v);
// The text, "" when nothing was added.
const char *str_text(const Str *s);

// strtod in the C locale on exactly n bytes; false if not wholly a number. Reads inf, -inf, nan too.
bool str_parse_f64(const char *s, size_t n, double *out);
bool str_parse_i64(const char *s, size_t n, int64_t *out);
bool str_equal(const char *a, const char *b);
bool str_ends_with(const char *s, const char *suffix);
// The UTF-8 character at p < end: its bytes, and its code point where code is not NULL. 0: there is none.
size_t str_utf8(const char *p, const char *end, uint32_t *code);
// The bytes of a code point in UTF-8: how many, 1 to 4.
uint32_t str_utf8_put(uint32_t code, uint8_t *out);
void str_code_point(Str *s, uint32_t code);
// The candidate closest to s by edit distance, or NULL when none is close: for "did you mean".
const char *str_closest(const char *s, const char *const *candidates, uint32_t n);

#endif
