// SPDX-License-Identifier: Apache-2.0
// Grammars: the tables of runtime-lite/text/rlx_grammar.h, from GBNF and JSON schemas.
#ifndef COMPILER_GRAMMAR_GRAMMAR_H
#define COMPILER_GRAMMAR_GRAMMAR_H

#include "base/str.h"
#include "compiler/grammar/net.h"
#include "runtime-lite/text/rlx_grammar.h"

// A text of a grammar: GBNF, or a JSON schema (its text begins with a brace), which becomes GBNF.
typedef struct GrammarText {
    const char *data;
    size_t len;
    Span where; // the file
} GrammarText;

// The GBNF of the file at `path`. False: reported.
bool grammar_load(Arena *a, Diag *d, const char *path, GrammarText *gbnf);
bool grammar_of_schema(Arena *a, Diag *d, GrammarText schema, Str *gbnf);
// Appends a rule for each schema, and those that they call, which begin with lower-case letters.
typedef struct GrammarSchema {
    const char *name; // of the rule
    GrammarText text;
} GrammarSchema;
bool grammar_of_schemas(Arena *a, Diag *d, const GrammarSchema *schemas, size_t n, Str *gbnf);
// The tables of a text in GBNF. False: reported, with line and column.
bool grammar_read(Arena *a, Diag *d, GrammarText gbnf, rlx_grammar *out);
bool grammar_open(Arena *a, Diag *d, const char *path, rlx_grammar *out);

// The automaton of a net whose rules are all defined, from rule `root` on (automaton.c).
bool grammar_build(Net *n, Diag *d, uint32_t root, rlx_grammar *out);

typedef enum RulesHave { RULES_BE_EMPTY, RULES_END } RulesHave;

// By rule: can it be empty, or does it have a text that ends? (rules.c)
bool *grammar_rules(const Net *n, RulesHave what);

// NAME.h and NAME.c (emit.c).
void grammar_emit_header(const rlx_grammar *g, const char *name, Str *out);
void grammar_emit_code(const rlx_grammar *g, const char *name, Str *out);

#endif
