// SPDX-License-Identifier: Apache-2.0
// The words and marks of the text form, for the files that parse it. Every function that returns false has
// reported what was expected at the place where it looked, unless its name begins with lex_take or lex_at.
#ifndef IR_TEXT_TEXT_LEX_H
#define IR_TEXT_TEXT_LEX_H

#include "ir/graph/tensor.h"

typedef struct Lexer {
    Arena *arena;
    Diag *diag;
    uint32_t file;
    const char *text;
    size_t len, at;
} Lexer;

bool lex_fail(const Lexer *l, size_t at, DiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
Span lex_span(const Lexer *l, size_t begin);
// Spaces, line ends and comments.
void lex_skip(Lexer *l);
// The rest of the line when it is a comment, without the mark and the spaces around; NULL when there is none.
const char *lex_take_comment(Lexer *l);
bool lex_at(Lexer *l, char c);
bool lex_take(Lexer *l, const char *mark);
bool lex_expect(Lexer *l, const char *mark);
// A name of letters, digits, '_' and '.', or NULL.
const char *lex_take_word(Lexer *l);
bool lex_word(Lexer *l, const char *what, const char **out);
bool lex_string(Lexer *l, const char *what, const char **out);
bool lex_int(Lexer *l, const char *what, int64_t *out);
// What goes to the next space, comma, bracket or brace; *n may be 0.
const char *lex_take_token(Lexer *l, size_t *n);

// --- values (text_value.c) ---

bool lex_dtype(Lexer *l, DType *out);
// [a, b, ...] of numbers, or of dims over the known symbols of the table.
typedef struct DimList {
    VEC(Dim) v;
} DimList;
bool lex_ints(Lexer *l, DimList *out);
bool lex_dims(Lexer *l, DimTable *t, DimList *out);
bool lex_type(Lexer *l, DimTable *t, TensorType *out);
// {1.0, 2.0} or hex"...": as many elements as the constant type has.
bool lex_values(Lexer *l, const TensorType *type, Tensor *out);
bool lex_float(Lexer *l, double *out);

#endif
