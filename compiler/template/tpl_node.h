// SPDX-License-Identifier: Apache-2.0
// Tokens and trees of templates: what the lexer gives to the parser, and the parser to the interpreter.
#ifndef COMPILER_TEMPLATE_TPL_NODE_H
#define COMPILER_TEMPLATE_TPL_NODE_H

#include "base/diag.h"
#include "compiler/template/template.h"

typedef enum TplTokenKind {
    TOKEN_DATA,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_PRINT_BEGIN,
    TOKEN_PRINT_END,
    TOKEN_NAME,
    TOKEN_TEXT,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OPERATOR,
    TOKEN_END
} TplTokenKind;

// Operators of one or two characters as one number.
#define TPL_OP(a, b) ((uint32_t)(unsigned char)(a) | (uint32_t)(unsigned char)(b) << 8)

typedef struct TplToken {
    TplTokenKind kind;
    uint32_t op;      // TPL_OP
    uint32_t at, end; // bytes of the template
    TplValue value;   // of data, names, texts and numbers
} TplToken;

typedef VEC(TplToken) TplTokens;

typedef enum TplNodeKind {
    NODE_BODY,         // list
    NODE_DATA,         // value
    NODE_PRINT,        // a
    NODE_IF,           // a, b, and c otherwise (or NULL)
    NODE_FOR,          // for a in b if c: d, else e
    NODE_SET,          // a = b
    NODE_SET_BLOCK,    // a = the text of b, through the filters c (or NULL)
    NODE_FILTER_BLOCK, // the text of b through c
    NODE_MACRO,        // name, params, list: defaults of the last ones; a
    NODE_CALL_BLOCK,   // a: the call, b: a NODE_MACRO, what caller() gives
    NODE_WITH,         // list: targets and values in turns, a
    NODE_SCOPE,        // a
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_CONST, // value
    NODE_NAME,  // name
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,   // list: keys and values in turns
    NODE_MEMBER, // a.value
    NODE_ITEM,   // a[b]
    NODE_SLICE,  // a[b:c:d], each of which may be NULL
    NODE_CALL,   // a, and the arguments
    NODE_FILTER, // a (NULL: the text of a block), value: its name, function
    NODE_TEST,
    NODE_NOT,
    NODE_SIGN, // op: + or -
    NODE_AND,
    NODE_OR,
    NODE_CHOICE,  // b if a else c
    NODE_CONCAT,  // list
    NODE_COMPARE, // a, and list with ops
    NODE_BINARY   // a op b
} TplNodeKind;

typedef struct TplNode {
    TplNodeKind kind;
    uint32_t op, at, end, name;
    TplValue value;
    const TplFunction *function; // NULL: there is none of this name
    struct TplNode *a, *b, *c, *d, *e;
    VEC(struct TplNode *) list; // operands; arguments without a name, then those with one
    VEC(uint32_t) names;        // of the last arguments; parameters of macros
    VEC(uint32_t) ops;          // of a comparison
} TplNode;

// Comparisons by words, beside the operators.
enum { TPL_IN = 1, TPL_NOT_IN = 2 };

struct Template {
    const char *name;
    TplText text;
    uint32_t file; // in the Diag that it was read with
    Map names;     // of variables and parameters, to their numbers
    VEC(TplText) name_text;
    TplNode *root;
};

typedef struct TplParser {
    Arena *arena;
    Diag *diag;
    Template *t;
    TplTokens tokens;
    uint32_t at, depth, loops; // loops: around the statement
} TplParser;

// Reports what is wrong at bytes [at, end). False.
bool tpl_wrong(TplParser *p, uint32_t at, uint32_t end, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// The tokens of the text. False: reported.
bool tpl_lex(TplParser *p);
// White space as Python's str.strip has it: bytes of the character at p < end, 0: it is none.
size_t tpl_space(const char *p, const char *end);
// The same of the character that ends at `end` > begin.
size_t tpl_space_before(const char *begin, const char *end);

// --- what the parts of the parser share; NULL and false: reported ---

TplNode *tpl_node(TplParser *p, TplNodeKind kind);
const TplToken *tpl_peek(const TplParser *p);
bool tpl_at_op(const TplParser *p, uint32_t op);
bool tpl_at_word(const TplParser *p, const char *word);
bool tpl_take_op(TplParser *p, uint32_t op);
bool tpl_take_word(TplParser *p, const char *word);
bool tpl_need_op(TplParser *p, uint32_t op, const char *what);
// What stands where something else was expected.
bool tpl_unexpected(TplParser *p, const char *expected);
uint32_t tpl_name(TplParser *p, TplText text);
bool tpl_need_name(TplParser *p, uint32_t *name);
TplNode *tpl_parse_expression(TplParser *p);
// One expression, or several with commas: a tuple. has_choice: `a if b else c` may stand without parentheses.
TplNode *tpl_parse_tuple(TplParser *p, bool has_choice);
// | filter | filter, behind `of` (NULL: the text of a block).
TplNode *tpl_parse_filters(TplParser *p, TplNode *of);
// A name, or several with commas; in `set` also a member of a namespace.
TplNode *tpl_parse_target(TplParser *p, bool has_members);
// The parameters of a macro, in parentheses.
bool tpl_parse_parameters(TplParser *p, TplNode *macro);
bool tpl_parse(TplParser *p);

#endif
