// SPDX-License-Identifier: Apache-2.0
// What the files of the parser of kernels share: kernel_parse.c reads instructions, kernel_parse_head.c what
// stands before them, kernel_parse_words.c words and numbers. Every function that returns false has reported
// what was expected, but for kp_next_line and kp_take_word.
#ifndef IR_KERNEL_KERNEL_PARSER_H
#define IR_KERNEL_KERNEL_PARSER_H

#include "ir/kernel/kernel.h"
#include "ir/text/text_lex.h"

enum { KP_MAX_LANES = 64 };

typedef struct Parser {
    Lexer l;    // its text ends with the line
    size_t end; // of all
    Kernel *k;
    VEC(KRef) values;   // by number - 1
    VEC(uint32_t) line; // by instruction: where its line begins
    uint32_t depth;
    int type; // what the line names
    bool is_typed;
} Parser;

bool kp_fail_here(Parser *p, const char *what);
// Moves to the next line that is not empty. False: there is none.
bool kp_next_line(Parser *p);
bool kp_end_line(Parser *p);
// The end of the constant or number that stands here.
size_t kp_number_end(const Lexer *l);
bool kp_take_int(Parser *p, const char *what, int64_t least, int64_t most, int64_t *out);
bool kp_take_float(Parser *p, double *out);
bool kp_take_name(Parser *p, const char *what, const char **out);
// A word of a table, whose number in it becomes *out.
bool kp_take_of(Parser *p, const char *what, const char *const *words, uint32_t n, uint32_t *out);
// A word if it is the next one.
bool kp_take_word(Parser *p, const char *word);
// "f32", "index", "f32x8"; *lanes stays as it is where there is one.
bool kp_take_type(Parser *p, int *type, uint8_t *lanes);

// All lines before the first instruction; makes the kernel.
bool kp_parse_head(Parser *p);

#endif
